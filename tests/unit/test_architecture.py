"""The arrows between the rooms, read from the source: what import-linter checks for packages holds for every module."""

from __future__ import annotations

import ast
import re
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


PLACEMENT = "bcs_scheduler.core.placement"


def test_no_class_of_the_placement_inherits_from_another_one() -> None:
    """Engines are parts of the loop. A class is named like those of other modules that its module imports."""
    classes = {
        f"{module}.{node.name}"
        for module, source in modules_of(PLACEMENT)
        for node in source.nodes
        if isinstance(node, ast.ClassDef)
    }
    found = []
    for module, source in modules_of(PLACEMENT):
        known = {name.rpartition(".")[2]: name for name in imports_of(module, source)}
        for node in source.nodes:
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
                full = [known.get(base, f"{module}.{base}") for base in bases]
                full += [
                    f"{known[base.rpartition('.')[0]]}.{base.rpartition('.')[2]}"
                    for base in bases
                    if base.rpartition(".")[0] in known
                ]
                found += [f"{module}.{node.name} inherits from {base}" for base in full if base in classes]
    assert len(classes) > 60
    assert found == []


OPERATIONS = {
    "offers.policy.hierarchy": "a tree is one structure; its operations are functions, one module for each subject",
    "offers.policy.session": "a session is one structure; its actions are functions, one module for each action",
    "offers.policy.copies": "the copy of an object gets the class of its original",
}
"""Parts of the policies whose modules change objects of the whole part, with the reason. Other modules of the policies
and of the placement change objects of their own classes."""


def test_nobody_sets_attributes_of_engines_and_of_their_parts() -> None:
    """They get what they need in constructors and questions, so that no decision depends on the order of other calls. A
    statement may set attributes of `self`, of the classes of its own module, and of those of its part of the
    policies."""
    known = [*modules_of(PLACEMENT), *modules_of("offers.policy")]
    parts = {module: next((one for one in OPERATIONS if is_below(module, one)), module) for module, _ in known}
    named: dict[str, set[str]] = {}
    for module, source in known:
        for owner in source.nodes:
            if isinstance(owner, ast.ClassDef):
                for node in ast.walk(owner):
                    own = (target.attr for target in _targets(node) if ast.unparse(target.value) == "self")
                    named.setdefault(parts[module], set()).update(own, _fields(node))
    set_elsewhere = [
        (module, target)
        for module, source in known
        for node in source.nodes
        for target in _targets(node)
        if ast.unparse(target.value) != "self"
    ]
    found = [
        f"{module}:{target.lineno} sets {ast.unparse(target)}"
        for module, target in set_elsewhere
        if target.attr not in named[parts[module]]
    ]
    assert found == []
    assert len(set_elsewhere) > 50


def _fields(node: ast.AST) -> Iterator[str]:
    """The names of the fields and slots that a statement of a class defines."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id


def _targets(node: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that a statement assigns."""
    if isinstance(node, ast.Assign):
        given = node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        given = [node.target]
    else:
        return
    for target in given:
        yield from (
            one for one in ast.walk(target) if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)
        )


WING = (
    "offers",
    "bcs_scheduler.core.placement",
    "bcs_scheduler.core.controllers.holds",
    "bcs_scheduler.core.controllers.managed",
    "bcs_scheduler.appmanagers",
)
"""The packages that give room to work."""
EMPTY = {
    "found": "the kind of the result",
    "it": "the kind of the thing",
    "one": "the kind of the thing, such as ask, place, queue",
    "take": "the verb: claim, withdraw, remove, spend",
    "wanted": "needed",
}
"""Names that do not say the thing, each with its replacement."""
STORED = {"offers.agents:rooms"}
"""Names of messages that decision logs have."""
WORDS = {
    "look": "the verb: judge, follow, settle",
    "rooms": "holds (kept for work), amounts (free)",
    "sessions": "snapshots",
    "tell": "report",
    "told": "reported",
}
"""Words that no name has, each with its replacement: room is free capacity, a kept place is a hold, and a session is a
cycle of the engine `session` (docs/glossary.md)."""


def _bound(node: ast.AST) -> str:
    """The name that a node of the syntax tree binds; empty if it binds none."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
        return node.id if isinstance(node, ast.Name) else node.attr
    return node.arg if isinstance(node, ast.arg) else ""


def test_names_of_the_wing_say_the_thing() -> None:
    found = []
    for module, source in [entry for package in WING for entry in modules_of(package)]:
        named = [(getattr(node, "lineno", 0), _bound(node)) for node in source.nodes]
        for line, name in [*named, *((1, part) for part in module.split("."))]:
            word = name.strip("_").lower()
            better = [EMPTY[word]] if word in EMPTY else []
            better += [WORDS[word.lower()] for word in re.findall(r"[A-Z]?[a-z]+", name) if word.lower() in WORDS]
            if f"{module}:{name}" not in STORED:
                found += [f"{module}:{line}: {name} (better: {way})" for way in better]
    assert found == []


def test_only_the_engine_of_sessions_has_classes_of_sessions() -> None:
    """A session is one of its cycles."""
    owners = {
        module
        for package in WING
        for module, source in modules_of(package)
        for node in source.nodes
        if isinstance(node, ast.ClassDef) and "Session" in node.name
    }
    owned = {"offers.policy.session.decisions", "offers.policy.session.session"}
    assert owners == {"bcs_scheduler.core.placement.engines.session", *owned}
