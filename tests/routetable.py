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
    """The routes whose path is the same here, by their commands, and then the others with their counterparts.

    Methods of a path share a place. A route of both programs stands once if it is the same here.
    """
    rows = read()
    same = [row for row in rows if not row.remark and _shape(row.original) == _shape(row.ours)]
    others = [row for row in rows if row not in same]
    return "\n".join([*_same(same), *_others(others)][1:]) + "\n"


def _same(rows: list[Mapped]) -> list[str]:
    programs: dict[str, list[str]] = {}
    for row in rows:
        programs.setdefault(_shape(row.original), []).append(_program(row))
    paths: dict[tuple[str, str], list[Mapped]] = {}
    for row in rows:
        program, *more = programs[_shape(row.original)]
        if _program(row) == program:
            title = " and ".join([program, *map(str.lower, more)])
            paths.setdefault((title, _path(_shape(row.original))), []).append(row)
    tables: dict[str, dict[str, list[str]]] = {}
    for (title, _), found in paths.items():
        route = f"`{_methods([row.original for row in found])} {_path(found[0].original)}`"
        tables.setdefault(title, {}).setdefault(_commands(found), []).append(route)
    lines = []
    for title, commands in tables.items():
        lines += ["", f"| {title}: the same path here | `bcs` |", "|---|---|"]
        lines += [f"| {', '.join(routes)} | {command} |" for command, routes in commands.items()]
    return lines


def _others(rows: list[Mapped]) -> list[str]:
    tables: dict[str, dict[tuple[str, str, str], list[Mapped]]] = {}
    for row in rows:
        places = tables.setdefault(_program(row), {})
        places.setdefault((_path(row.original), _path(row.ours), row.remark), []).append(row)
    lines = []
    for title, places in tables.items():
        lines += ["", f"| {title} | here | `bcs` |", "|---|---|---|"]
        for (path, target, remark), found in places.items():
            alike = _shape(found[0].original) == _shape(found[0].ours)
            route = f"`{_methods([row.ours for row in found])} {target}`" if target else "none"
            here = "the same" if alike else route
            original = f"`{_methods([row.original for row in found])} {path}`"
            lines.append(f"| {original} | {f'{here}: {remark}' if remark else here} | {_commands(found)} |")
    return lines


def _program(row: Mapped) -> str:
    return row.section.partition(",")[0]


def _shape(route: str) -> str:
    """The route without the names of its parameters."""
    return re.sub("{[^}]*}", "{}", route)


def _commands(rows: list[Mapped]) -> str:
    return ", ".join(dict.fromkeys(f"`{row.command}`" for row in rows if row.command))


def _path(route: str) -> str:
    return re.sub("^/namespaces/{ns}/", "NS/", route.partition(" ")[2])


def _methods(routes: list[str]) -> str:
    return "/".join(dict.fromkeys(route.partition(" ")[0] for route in routes))


def shown() -> str:
    """What stands in docs/api.md."""
    text = (DOCS / "api.md").read_text()
    return text.partition(BEGIN)[2].partition(END)[0]


if __name__ == "__main__":
    page = DOCS / "api.md"
    head, begin, rest = page.read_text().partition(BEGIN)
    page.write_text(head + begin + render() + END + rest.partition(END)[2])
