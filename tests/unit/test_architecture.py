"""The arrows between the rooms, read from the source: what import-linter checks for packages holds for every module."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from importlib.util import resolve_name

import pytest

from tests.sources import ROOT, Source, sources

OURS = ("store", "offers", "transactions", "bcs_scheduler")
ALLOWED = {
    "store": {"store"},
    "offers": {"offers"},
    "transactions": {"transactions", "offers", "store"},
    "bcs_scheduler.core": {"bcs_scheduler.core", "transactions", "offers", "store"},
    "bcs_scheduler.executor": {"bcs_scheduler.executor"},
}
"""What of our own code each of these packages may import."""
MACHINE = {"datetime", "os", "random", "secrets", "subprocess", "time", "uuid"}
"""Modules with clocks, random numbers, the environment or processes."""
PURE = ("offers", "transactions", "bcs_scheduler.core")


def modules_of(package: str) -> Iterator[tuple[str, Source]]:
    """Name and source of every module below the package."""
    for source in sources(package.replace(".", "/")):
        yield source.name.removesuffix(".py").replace("/", ".").removesuffix(".__init__"), source


def imports_of(module: str, source: Source) -> Iterator[str]:
    """Full names of what is imported anywhere in the module, functions and TYPE_CHECKING included."""
    is_package = (ROOT / module.replace(".", "/")).is_dir()
    package = module if is_package else module.rpartition(".")[0]
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def is_below(name: str, package: str) -> bool:
    return f"{name}.".startswith(f"{package}.")


@pytest.mark.parametrize("package", ALLOWED)
def test_a_room_imports_only_the_rooms_below_it(package: str) -> None:
    found = [
        f"{module} imports {name}"
        for module, source in modules_of(package)
        for name in imports_of(module, source)
        if name.partition(".")[0] in OURS and not any(is_below(name, allowed) for allowed in ALLOWED[package])
    ]
    assert found == []


@pytest.mark.parametrize("package", PURE)
def test_pure_rooms_use_nothing_of_the_machine(package: str) -> None:
    found = [
        f"{module} imports {name}"
        for module, source in modules_of(package)
        for name in imports_of(module, source)
        if name.partition(".")[0] in MACHINE
    ]
    assert found == []


def test_every_pure_room_has_the_lint_of_pure_rooms() -> None:
    for package in (*PURE, "store"):
        folder = ROOT / package.replace(".", "/")
        settings = tomllib.loads((folder / "ruff.toml").read_text())
        assert (folder / settings["extend"]).resolve() == ROOT / "ruff-pure.toml"
    base = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    assert not any("TID251" in rules for rules in base["per-file-ignores"].values())


def test_there_are_no_circles_between_the_rooms_of_the_scheduler() -> None:
    arrows: dict[str, set[str]] = {}
    rooms = {path.parent.name for path in (ROOT / "bcs_scheduler").glob("*/__init__.py")}
    for module, source in modules_of("bcs_scheduler"):
        room = module.split(".")[1] if module.count(".") else ""
        for name in imports_of(module, source):
            target = name.split(".")[1] if is_below(name, "bcs_scheduler") and name.count(".") else ""
            if room in rooms and target in rooms and room != target:
                arrows.setdefault(room, set()).add(target)
    while leaves := {target for targets in arrows.values() for target in targets} - set(arrows):
        arrows = {room: targets - leaves for room, targets in arrows.items() if targets - leaves}
    assert arrows == {}, "these rooms import each other in a circle"


def test_two_controllers_end_taskgroups() -> None:
    """What ends a taskgroup is kept and repeated until the taskgroup has ended; nobody else asks for an end."""
    made = {
        module
        for module, source in modules_of("bcs_scheduler.core")
        for node in source.nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "End"
    }
    controllers = "bcs_scheduler.core.controllers.cluster"
    assert made == {f"{controllers}.task_killer", f"{controllers}.orphaned_tasks"}
