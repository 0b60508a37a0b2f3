"""The table of docs/api.md that says where each route of the original is: made from docs/routes.yaml.

``python -m tests.routetable`` writes it; tests.unit.test_routes holds it to the OpenAPI document.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import yaml

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- begin of the table of routes -->\n", "<!-- end of the table of routes -->\n"


class Mapped(NamedTuple):
    """A route of the original. `ours` is empty where there is no counterpart; `command`: of `bcs`."""

    section: str
    original: str
    ours: str
    command: str
    remark: str


class Own(NamedTuple):
    """A route that the original has not."""

    ours: str
    command: str


def read() -> tuple[list[Mapped], list[Own]]:
    data = yaml.safe_load((DOCS / "routes.yaml").read_text())
    mapped = [
        Mapped(section, row[0], _full(row[1]), row[2] or "", row[3] if len(row) > 3 else "")
        for section, rows in data["original"].items()
        for row in rows
    ]
    return mapped, [Own(_full(row[0]), row[1] or "") for row in data["own"]]


def _full(route: str | None) -> str:
    return (route or "").replace(" NS/", " /namespaces/{ns}/")


def render() -> str:
    mapped, own = read()
    lines = []
    for section in dict.fromkeys(row.section for row in mapped):
        lines += ["", f"| {section} | here | `bcs` |", "|---|---|---|"]
        lines += [
            f"| `{row.original}` | {_ours(row)} | {_code(row.command)} |" for row in mapped if row.section == section
        ]
    lines += ["", "| Of our own | `bcs` |", "|---|---|"]
    lines += [f"| `{_short(row.ours)}` | {_code(row.command)} |" for row in own]
    return "\n".join(lines[1:]) + "\n"


def _ours(row: Mapped) -> str:
    route = f"`{_short(row.ours)}`" if row.ours and row.ours != row.original else "the same" if row.ours else "none"
    return f"{route}: {row.remark}" if row.remark else route


def _short(route: str) -> str:
    return route.replace(" /namespaces/{ns}/", " NS/")


def _code(command: str) -> str:
    return f"`{command}`" if command else ""


def shown() -> str:
    """What stands in docs/api.md."""
    text = (DOCS / "api.md").read_text()
    return text.partition(BEGIN)[2].partition(END)[0]


if __name__ == "__main__":
    page = DOCS / "api.md"
    head, begin, rest = page.read_text().partition(BEGIN)
    page.write_text(head + begin + render() + END + rest.partition(END)[2])
