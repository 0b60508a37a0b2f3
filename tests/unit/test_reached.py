"""What no program reaches: modules that no entry point imports, public names that only tests use, and fields that only
tests give a value.

Both follow from the source: imports, wherever they stand, and texts that name a module, as the tables of `bcs` do. A
public name counts as used if a module that is reached imports it, reads it as an attribute, or reads it where it is
defined. A method, or a field of a named tuple, counts as used if an attribute or a text of that name is read anywhere;
classes with a base of another package are left out, because that package may call their methods.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from configparser import ConfigParser
from functools import cache
from typing import NamedTuple

from tests.sources import ROOMS, ROOT, Source, sources

THIRD_PARTIES = ("bcs_scheduler.testing.appmanager", "offers.policy.applications.interface")
"""Modules that application managers of other packages import (docs/decisions/0045-application-managers.md)."""
NODES = "Kubernetes: nodes, whose room all programs share, with the units that are seen there and the answers to claims"
MODULES: Mapping[str, str] = {
    "offers.policy.applications.dispatcher": "Kubernetes: watches of several threads send events, which have one order",
    "offers.policy.applications.gate": "Kubernetes: pods without an application pass, wait or are refused",
    "offers.policy.applications.placeholders": "Kubernetes: placeholders are pods, or promises of standing capacity",
    "offers.ledger.nodes": NODES,
}
"""Modules that nothing reaches, with the reason."""
UNUSED: Mapping[str, Mapping[str, str]] = {
    NODES: {
        "offers.ledger.table": "Table.add_lines",
        "offers.ledger.usage": "Usage.all_seen Usage.assume Usage.counted_on Usage.denied",
    },
    "Kubernetes: gangs are recovered from pods; a pod may not be created, and ends before its task starts": {
        "offers.policy.applications.gang": "Gang.creation_failed Gang.recover_task",
        "offers.policy.applications.records": "Launch.consumes",
    },
    "costs are compared as wholes": {"offers.policy.hierarchy.preemption.preemption": "Cost.opt_out"},
    "the parser of httptools calls it": {
        "bcs_scheduler.cli.client.responses": "Response.on_body Response.on_message_complete",
        "bcs_scheduler.local.transport.http": "Connection.on_body Connection.on_message_complete",
        "bcs_scheduler.mesos.transport.http": "Answers.on_body Answers.on_message_complete",
    },
    "the client of ZooKeeper calls it": {"store.zookeeper.wire": "Multi.deserialize Multi.serialize"},
    "tests compare the tables of times with all fields of records": {"store.encoding.times": "FOREIGN"},
    "the store in memory is the store of tests": {"store.memory": "MemoryBackend.depose"},
}
"""Public names that only tests use, by module, under their reason."""
UNGIVEN: Mapping[str, Mapping[str, str]] = {
    "Kubernetes: nodes have ports by protocol and address, units of others, conditions and taints with effects": {
        "offers.host_ports": "HostPort.address",
        "offers.ledger.usage": "User.ours User.terminating",
        "offers.model": "ResourceRequest.host_ports",
        "offers.policy.session.model": "Agent.max_tasks Agent.pressure Agent.ready Agent.schedulable",
        "offers.rules.taints": "Toleration.effect Toleration.operator",
    },
    "Kubernetes: pods have affinity, and those of a daemonset one node; a pod may be the driver of its application": {
        "offers.policy.hierarchy.state.model": "Ask.originator Ask.required_node",
        "offers.policy.session.model": (
            "Template.affinity Template.preferred WorkAffinity.anti WorkAffinity.topology WorkAffinity.weight"
        ),
        "offers.rules.terms": "Expression.values",
    },
    "managers of other packages give them": {
        "offers.policy.applications.metadata": "TaskGroup.terms TaskMetadata.definition",
    },
    "the same attribute as of other answers": {"bcs_scheduler.api.http.operation": "Streamed.media_type"},
}
"""Fields of named tuples that have their default in the whole program, by module, under their reason."""
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
NEUTRAL = frozenset(
    {"Protocol", "NamedTuple", "Generic", "Struct", "Exception", "StrEnum", "Enum", "IntEnum", "object"}
)
"""Bases of other packages that call no method of ours."""


class Module(NamedTuple):
    """One module: the modules that it names, and its names and uses."""

    imports: frozenset[str]
    uses: frozenset[tuple[str, str]]
    """Modules with the names of theirs that are read."""
    exports: Mapping[str, tuple[str, str]]
    """Names that are handed on (`from a import b as b`), with their origins."""
    defined: tuple[str, ...]
    methods: tuple[tuple[str, str], ...]
    read: frozenset[str]
    """Identifiers that are read as attributes, keywords or texts."""
    handed_on: frozenset[str]
    """Modules that are used as values, such as `for module in (a, b): module.HANDLERS`: any attribute may be read."""


@cache
def program() -> dict[str, Module]:
    """The modules of the program by name; packages have the name of their folder."""
    found = list(sources(*ROOMS))
    names = {name_of(source) for source in found}
    return {name_of(source): examined(source, names) for source in found}


def name_of(source: Source) -> str:
    return source.name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def examined(source: Source, names: set[str]) -> Module:
    me = name_of(source)
    package = me if source.name.endswith("__init__.py") else me.rpartition(".")[0]
    imports: set[str] = set()
    uses: set[tuple[str, str]] = set()
    exports: dict[str, tuple[str, str]] = {}
    aliases: dict[str, str] = {}
    constants: dict[str, str] = {}
    texts: set[str] = set()
    read: set[str] = set()
    loads: set[str] = set()
    owners = {id(node.value) for node in source.nodes if isinstance(node, ast.Attribute)}
    plain: set[str] = set()
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            origin = ".".join(filter(None, (base, node.module)))
            for alias in node.names:
                full = f"{origin}.{alias.name}"
                if full in names:
                    imports.add(full)
                    aliases[alias.asname or alias.name] = full
                elif origin in names:
                    imports.add(origin)
                    if alias.asname == alias.name:
                        exports[alias.name] = (origin, alias.name)
                    else:
                        uses.add((origin, alias.name))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in names:
                    imports.add(alias.name)
                    aliases[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.Attribute):
            read.add(node.attr)
            if isinstance(node.value, ast.Name) and node.value.id in aliases:
                uses.add((aliases[node.value.id], node.attr))
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                loads.add(node.id)
                if id(node) not in owners:
                    plain.add(node.id)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str) and len(node.value) < 200:
                texts.add(node.value)
        elif isinstance(node, ast.keyword) and node.arg:
            read.add(node.arg)
        elif isinstance(node, ast.MatchClass):
            read.update(node.kwd_attrs)
        elif (
            isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ):
            constants |= {target.id: node.value.value for target in node.targets if isinstance(target, ast.Name)}
    for node in source.nodes:
        if isinstance(node, ast.JoinedStr) and len(node.values) > 1:
            texts |= set(_possible(node, constants, texts, names))
    named = {text.partition(":")[0] for text in texts}
    imports |= named & names
    words = {word for text in texts if len(text) < 80 for word in IDENTIFIER.findall(text)}
    handed_on = frozenset(full for name, full in aliases.items() if name in plain)
    own = {node.name for node in source.tree.body if isinstance(node, ast.ClassDef)} | {name for _, name in uses}
    defined, methods = _defined(source, own)
    uses |= {(me, name) for name in defined if name in loads}
    if source.name.endswith("__init__.py") and "__all__" in {_target(node) for node in source.tree.body}:
        handed = {(origin, name) for origin, name in uses if name in texts}
        exports |= {name: (origin, name) for origin, name in handed}
        uses -= handed
    uses |= {(module, word) for module in named & names for word in words}
    return Module(frozenset(imports), frozenset(uses), exports, defined, methods, frozenset(read | words), handed_on)


def _possible(node: ast.JoinedStr, constants: Mapping[str, str], texts: set[str], names: set[str]) -> Iterable[str]:
    """The modules that a text with gaps may name: gaps are constants of the module, or texts of the module."""
    shown = [
        part.value
        if isinstance(part, ast.Constant)
        else constants.get(part.value.id)
        if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name)
        else None
        for part in node.values
    ]
    if None not in shown:
        yield "".join(str(part) for part in shown)
    elif isinstance(shown[0], str) and shown[0].endswith(".") and shown[0].startswith(ROOMS):
        yield from (full for text in texts if (full := shown[0] + text) in names)


def _target(node: ast.stmt) -> str:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else ""


def _defined(source: Source, ours: set[str]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Public names of the module; class and name of public methods. Names with a decorator that registers them are used
    by it."""
    defined, methods = [], []
    for node in source.tree.body:
        name = _target(node)
        if not name or name.startswith("_") or _is_registered(node):
            continue
        defined.append(name)
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
            if bases <= ours | NEUTRAL:
                kinds = (ast.FunctionDef, ast.AsyncFunctionDef, *((ast.AnnAssign,) if "NamedTuple" in bases else ()))
                members = (_target(child) for child in node.body if isinstance(child, kinds))
                methods += [(name, member) for member in members if not member.startswith("_")]
    return tuple(defined), tuple(methods)


def _is_registered(node: ast.stmt) -> bool:
    """A decorator that is called registers the function: routes and commands."""
    decorators = getattr(node, "decorator_list", ())
    return any(
        isinstance(decorator, ast.Call) and "dataclass" not in ast.unparse(decorator) for decorator in decorators
    )


def entry_points() -> set[str]:
    """The modules with which programs begin, and those that other packages import."""
    settings = ConfigParser()
    settings.read(ROOT / "setup.cfg")
    scripts = settings["options.entry_points"]["console_scripts"].split("\n")
    found = {line.partition("=")[2].strip().partition(":")[0] for line in scripts if line}
    for file in (ROOT / "Makefile", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        found |= set(re.findall(r"-m (bcs_scheduler[\w.]*)", file.read_text(encoding="utf-8")))
    modules = program()
    found |= {name for name in modules if name.endswith(".__main__")}
    return (found & set(modules)) | set(THIRD_PARTIES)


@cache
def reached() -> set[str]:
    """The modules that an entry point imports, directly or not."""
    modules, found, rest = program(), set[str](), list(entry_points())
    while rest:
        name = rest.pop()
        if name in found or name not in modules:
            continue
        found.add(name)
        rest += modules[name].imports
        if "." in name:
            rest.append(name.rpartition(".")[0])
    return found


def unused_names() -> set[str]:
    """Public names of reached modules that no reached module uses, as ``module:name`` or ``module:Class.method``."""
    modules = {name: module for name, module in program().items() if name in reached()}
    uses: dict[str, set[str]] = defaultdict(set)
    rest = [use for module in modules.values() for use in module.uses]
    while rest:
        origin, name = rest.pop()
        if name in uses[origin]:
            continue
        uses[origin].add(name)
        if origin in modules and name in modules[origin].exports:
            rest.append(modules[origin].exports[name])
    read = {word for module in modules.values() for word in module.read}
    as_values = {name for module in modules.values() for name in module.handed_on}
    found = set()
    for name, module in modules.items():
        if name in THIRD_PARTIES:
            continue
        found |= {
            f"{name}:{public}"
            for public in module.defined
            if public not in (uses[name] | read if name in as_values else uses[name])
        }
        found |= {f"{name}:{owner}.{method}" for owner, method in module.methods if method not in read}
    scripts = {"main", "table"}
    return {one for one in found if one.rpartition(":")[2] not in scripts}


def ungiven_fields() -> set[str]:
    """Fields of named tuples that no module gives another value than their default, as ``module:Class.field``."""
    given: dict[str, set[str | None]] = defaultdict(set)
    positions: dict[str, int] = defaultdict(int)
    for source in sources(*ROOMS):
        for node in source.nodes:
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).rpartition(".")[2]
                given[name] |= {keyword.arg for keyword in node.keywords}
                given[name] |= {None for argument in node.args if isinstance(argument, ast.Starred)}
                positions[name] = max(positions[name], len(node.args))
    found = set()
    for source in sources(*ROOMS):
        for owner in source.tree.body:
            named = isinstance(owner, ast.ClassDef) and any("NamedTuple" in ast.unparse(base) for base in owner.bases)
            if isinstance(owner, ast.ClassDef) and named and None not in given[owner.name]:
                fields = [field for field in owner.body if isinstance(field, ast.AnnAssign)][positions[owner.name] :]
                others = given[owner.name] | given["_replace"] | given["replace"]
                names = {_target(field) for field in fields if field.value is not None} - others
                found |= {f"{name_of(source)}:{owner.name}.{name}" for name in names}
    return {name for name in found if name.partition(":")[0] in reached() - set(THIRD_PARTIES)}


def names_in(table: Mapping[str, Mapping[str, str]]) -> set[str]:
    return {f"{module}:{name}" for entry in table.values() for module, names in entry.items() for name in names.split()}


def test_every_field_is_given_by_the_program() -> None:
    known, found = names_in(UNGIVEN), ungiven_fields()
    assert found - known == set(), "only tests give these a value"
    assert known - found == set(), "these are given now, or are gone"


def test_every_module_is_reached() -> None:
    missing = set(program()) - reached()
    assert missing - set(MODULES) == set(), "nothing imports these"
    assert set(MODULES) - missing == set(), "these are reached now"


def test_every_public_name_is_used_by_the_program() -> None:
    known, unused = names_in(UNUSED), unused_names()
    assert unused - known == set(), "only tests use these"
    assert known - unused == set(), "these are used now, or are gone"


def test_modules_and_names_that_nothing_uses_are_found() -> None:
    text = "def used() -> None: ...\ndef spare() -> None: ...\nclass One:\n    def method(self) -> None: used()\n"
    text += "class Pair(NamedTuple):\n    field: int\n"
    source = Source(ROOT / "offers/one.py", "offers/one.py", text, tree := ast.parse(text), tuple(ast.walk(tree)))
    found = examined(source, {"offers.one"})
    assert found.defined == ("used", "spare", "One", "Pair")
    assert found.methods == (("One", "method"), ("Pair", "field"))
    assert found.uses == {("offers.one", "used")}
