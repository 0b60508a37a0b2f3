"""Docstrings of the pure rooms are plain sentences that name units, errors and the meaning of None."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.sources import sources

ROOMS = ("store", "offers", "transactions", "bcs_scheduler/core")
"""Rooms whose public docstrings must be complete."""
SENTENCES = (
    *ROOMS,
    "bcs_scheduler/api",
    "bcs_scheduler/executor",
    "bcs_scheduler/leadership",
    "bcs_scheduler/loop",
    "bcs_scheduler/mesos",
)
"""Rooms whose docstrings, private ones included, must be sentences."""
FRAGMENTS = frozenset(
    {
        "And", "As", "Both", "By", "For", "Found", "From", "How", "If", "In", "Is", "It", "May", "Nobody", "None",
        "Not", "Nothing", "Of", "Only", "Or", "That", "They", "Those", "To", "What", "When", "Where", "Whether",
        "Which", "Who", "Whom", "Whose", "Why", "With",
    }
)  # fmt: skip
"""First words of sentences that leave out their subject or their verb."""
UNITS = re.compile(
    r"\b(seconds?|Unix|ms|us|hours?|days?|bytes|kB|MB|cores?|thousandths|units?|amounts?|percent|shares?|ratio|"
    r"weights?|scores?|infinity|fraction|quantit\w+)\b",
    re.IGNORECASE,
)
"""Words that say what a float counts."""
MEMBER = re.compile(r"`(?:[a-z_]+\.)*([A-Z]\w*)\.([a-z_]\w*)(?:\([^`]*\))?`")
"""A member of a class that a text names."""
DEFERS = re.compile(r"(\b[Ll]ike|\b[Ss]ee|\bCalls|\bas in) `")
"""The docstring leaves the rest to the docstring of another function."""


class Fault(NamedTuple):
    """One docstring that does not say what it must."""

    place: str
    fault: str


def names_none(annotation: ast.expr | None) -> bool:
    """True if the annotation is a union with None at its top level."""
    match annotation:
        case ast.Constant(value=None):
            return True
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return names_none(left) or names_none(right)
    return False


def is_float(annotation: ast.expr | None) -> bool:
    """True if the annotation is float, or a union with float at its top level."""
    match annotation:
        case ast.Name(id="float"):
            return True
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return is_float(left) or is_float(right)
    return False


def raised(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yields the names of the errors that the body of the function itself raises."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() | ast.ClassDef():
                continue
            case ast.Raise(exc=ast.Call(func=ast.Name(id=name)) | ast.Name(id=name)) if name[:1].isupper():
                yield name
            case ast.Raise(exc=ast.Call(func=ast.Attribute(attr=name))) if name[:1].isupper():
                yield name
        waiting += ast.iter_child_nodes(node)


def is_decorated(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    return any(isinstance(item, ast.Name) and item.id == name for item in function.decorator_list)


def faults_of_function(function: ast.FunctionDef | ast.AsyncFunctionDef, text: str, around: str) -> Iterator[str]:
    """`around`: docstrings of the module and the class, which may say what holds for all functions in them."""
    if DEFERS.search(text):
        return
    arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    returns_nothing = isinstance(function.returns, ast.Constant)
    if names_none(function.returns) and not returns_nothing and "None" not in text:
        yield "does not say when it returns None"
    if any(names_none(argument.annotation) for argument in arguments) and "None" not in text + around:
        yield "does not say what None means for an argument"
    floats = [argument for argument in arguments if is_float(argument.annotation)]
    if (floats or is_float(function.returns)) and not UNITS.search(text + around):
        yield "does not name a unit"
    for name in sorted(set(raised(function)) - {"NotImplementedError", "AssertionError"}):
        if not re.search(rf"\b({name}|[Rr]aise[sd]?|[Rr]efuse[sd]?)\b", text + around):
            yield f"does not name the error {name}"


def faults(tree: ast.Module, place: str) -> Iterator[Fault]:
    """Yields the faults of all public docstrings of a module."""
    yield from opening(ast.get_docstring(tree), place)

    def walk(body: list[ast.stmt], before: str, around: str) -> Iterator[Fault]:
        for node in body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            name, text = f"{before}{node.name}", ast.get_docstring(node)
            if isinstance(node, ast.ClassDef):
                yield from opening(text, name)
                inits = [n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
                own = " ".join(filter(None, [around, text, *(ast.get_docstring(n) for n in inits)]))
                yield from walk(node.body, f"{name}.", own)
            elif not is_decorated(node, "overload"):
                yield from opening(text, name)
                if text:
                    yield from (Fault(name, fault) for fault in faults_of_function(node, text, around))

    yield from walk(tree.body, f"{place}: ", ast.get_docstring(tree) or "")


def hidden(tree: ast.Module, place: str) -> Iterator[Fault]:
    """Yields the faults in the first words of docstrings of attributes and of private functions and classes. Those may
    begin with the name of an argument."""
    for node in ast.walk(tree):
        found = getattr(node, "body", None)
        body: list[ast.AST] = found if isinstance(found, list) else []
        for number, inner in enumerate(body):
            match inner:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    before = body[number - 1] if number else node
                    for fault in opening(ast.get_docstring(ast.Module(body=[inner], type_ignores=[])), place):
                        if not text.lstrip().startswith("`"):
                            yield Fault(f"{place}:{getattr(before, 'lineno', 1)}", fault.fault)


def opening(text: str | None, place: str) -> Iterator[Fault]:
    """Yields the faults of the first words."""
    if not text:
        yield Fault(place, "has no docstring")
        return
    word = re.split(r"[\s.,:;]", text, maxsplit=1)[0]
    if word in FRAGMENTS:
        yield Fault(place, f'begins with "{word}"')
    elif text.startswith("`"):
        yield Fault(place, "begins with the name of an argument")


@pytest.mark.parametrize(("rule", "rooms"), [(faults, ROOMS), (hidden, SENTENCES)], ids=["public", "all"])
def test_docstrings_are_sentences_with_units_errors_and_none(
    rule: Callable[[ast.Module, str], Iterator[Fault]], rooms: tuple[str, ...]
) -> None:
    read = list(sources(*rooms))
    assert len(read) > 150
    found = [fault for source in read for fault in rule(source.tree, source.name)]
    assert not found, "\n".join(f"{place} {fault}" for place, fault in found)


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("def f(): ...", "has no docstring"),
        ('def f():\n  """What is left."""', 'begins with "What"'),
        ('def f():\n  """Whether the agent is known."""', 'begins with "Whether"'),
        ('def f():\n  """`key`: of the record."""', "begins with the name of an argument"),
        ('def f() -> int | None:\n  """Returns the number."""', "does not say when it returns None"),
        ('def f(key: str | None):\n  """Removes the record."""', "does not say what None means for an argument"),
        ('def f(pause: float):\n  """Waits."""', "does not name a unit"),
        ('def f() -> float:\n  """Returns the pause."""', "does not name a unit"),
        ('def f():\n  """Removes the record."""\n  raise KeyError(1)', "does not name the error KeyError"),
    ],
)
def test_faults_are_found(source: str, fault: str) -> None:
    assert Fault("m: f", fault) in list(faults(ast.parse('"""Module."""\n' + source), "m"))


def test_faults_of_attributes_and_private_functions_are_found() -> None:
    source = 'class A:\n  at: float\n  """When it began."""\n  def _f(self):\n    """Whether it runs."""'
    assert [fault.fault for fault in hidden(ast.parse(source), "m")] == [
        'begins with "When"',
        'begins with "Whether"',
    ]


def test_complete_docstrings_have_no_faults() -> None:
    source = '''"""Pauses of retries."""

class Retry:
    """Pauses in seconds."""

    def pause(self, longest: float) -> float:
        """Returns the next pause."""

    def like(self, key: str | None) -> int | None:
        """Like `Store.like`."""

    def load(self, key: str | None) -> int | None:
        """Returns the number of the key; None if the key is None. Raises KeyError for an unknown key."""
        if not key:
            raise KeyError(key)

    def _private(self, key): ...
'''
    assert list(faults(ast.parse(source), "m")) == []


def test_members_of_classes_that_a_text_names_exist() -> None:
    known = list(sources("store", "offers", "transactions", "bcs_scheduler"))
    members: dict[str, set[str]] = defaultdict(set)
    bases: dict[str, set[str]] = defaultdict(set)
    for source in known:
        for owner in source.nodes:
            if isinstance(owner, ast.ClassDef):
                members[owner.name] |= {name for node in ast.walk(owner) if (name := bound(node))}
                bases[owner.name] |= {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in owner.bases}
    for _ in range(4):  # bases of bases
        for name, above in bases.items():
            members[name] |= set[str]().union(*(members[base] for base in above if base in members))
    named = [(source.name, *match) for source in known for match in MEMBER.findall(source.text)]
    assert len(named) > 200
    assert [entry for entry in named if entry[1] in members and entry[2] not in members[entry[1]]] == []


def bound(node: ast.AST) -> str:
    """The name that a node within a class gives to a member; empty if it gives none."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            return name
    return ""
