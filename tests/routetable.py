"""The table of docs/api.md that says where each route of the original is: made from docs/routes.yaml.

``python -m tests.routetable`` writes it; tests.unit.test_routes holds it to the OpenAPI document.
"""

from __future__ import annotations

import re
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


def read() -> list[Mapped]:
    data = yaml.safe_load((DOCS / "routes.yaml").read_text())
    return [
        Mapped(section, row[0], _full(row[1]), row[2] or "", row[3] if len(row) > 3 else "")
        for section, rows in data["original"].items()
        for row in rows
    ]


def _full(route: str | None) -> str:
    return (route or "").replace(" NS/", " /namespaces/{ns}/")


def render() -> str:
    """A row for each path; the methods of a path share a row."""
    lines = []
    sections: dict[str, dict[tuple[str, str, str], list[tuple[str, str, str]]]] = {}
    for row in read():
        method, _, path = row.original.partition(" ")
        ours, _, target = _short(row.ours).partition(" ")
        rows = sections.setdefault(row.section, {})
        rows.setdefault((path, target, row.remark), []).append((method, ours, row.command))
    for section, rows in sections.items():
        lines += ["", f"| {section} | here | `bcs` |", "|---|---|---|"]
        for (path, target, remark), methods in rows.items():
            original, ours = ("/".join(dict.fromkeys(row[at] for row in methods)) for at in (0, 1))
            same = (original, re.sub("{[^}]*}", "{}", path)) == (ours, re.sub("{[^}]*}", "{}", target))
            here = "the same" if same else f"`{ours} {target}`" if target else "none"
            commands = ", ".join(dict.fromkeys(_code(row[2]) for row in methods if row[2]))
            lines.append(f"| `{original} {path}` | {f'{here}: {remark}' if remark else here} | {commands} |")
    return "\n".join(lines[1:]) + "\n"


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
