"""Copies of live structures that are made as they are read, for questions.

A question (a dry run of a decision) is asked of a copy, which is dropped: nothing has to be undone. The copy of
an object is empty until something reads or changes it; then it gets copies of the attributes of the original, and the
objects that these name are empty copies again. So a copy costs with the objects that the question touches, and
with the number of entries of the containers among them. The originals must not change while a copy is read.

Each class has one of two roles. *Values* never change and are shared: numbers, texts, enumerations, functions, and the
classes that the caller names. Objects of all other classes of the caller's packages are *structures*, which are copied.
Tuples and containers are copied with their entries. Anything else raises TypeError, so that nothing is shared by
mistake.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from fractions import Fraction
from functools import cache, partial
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import Any, TypeVar, cast

import numpy as np

T = TypeVar("T")
SIMPLE: frozenset[type] = frozenset(
    {
        str,
        bytes,
        int,
        float,
        bool,
        type(None),
        Fraction,
        type,
        FunctionType,
        BuiltinFunctionType,
        MappingProxyType,
        partial,
    }
)

Maker = Callable[[Callable[[Any], Any], Any], Any]
"""Makes the attribute of a copy from a function that copies one object, and the attribute of the original."""

LARGE = 128
"""Mappings with more entries are copied entry by entry, as these are read."""


class Rules:
    """The roles of classes."""

    def __init__(
        self,
        packages: Iterable[str],
        values: Iterable[type],
        shallow: Mapping[type, Iterable[str]] | None = None,
        keyed: Mapping[type, Iterable[str]] | None = None,
        made: Mapping[type, Mapping[str, Maker]] | None = None,
    ) -> None:
        """`packages`: those whose classes are structures if they are no values. `shallow`: attributes by class that are
        containers of values only, or of containers that are never changed in place: they are copied without a look at
        their entries. `keyed`: attributes by class that are mappings whose keys are values. `made`: attributes by class
        with functions that make those of a copy."""
        self._packages = tuple(packages)
        self._structures: dict[type, bool] = {}
        self.values = SIMPLE.union(values)
        self.shallow = {kind: frozenset(names) for kind, names in (shallow or {}).items()}
        self.keyed = {kind: frozenset(names) for kind, names in (keyed or {}).items()}
        self.made = made or {}
        self._slots: dict[type, list[tuple[Any, Any, Maker | None]]] = {}
        self._ways: dict[type, dict[str, Maker]] = {}

    def ways_of(self, kind: type) -> Mapping[str, Maker]:
        """The attributes of a class that are copied in a way of their own."""
        ways = self._ways.get(kind)
        if ways is None:
            ways = self._ways[kind] = {
                **dict.fromkeys(self.shallow.get(kind, ()), _shallow),
                **dict.fromkeys(self.keyed.get(kind, ()), _keyed),
                **self.made.get(kind, {}),
            }
        return ways

    def slots_of(self, kind: type) -> list[tuple[Any, Any, Maker | None]]:
        """The slots of a class: of each its getter, its setter, and the way in which it is copied."""
        slots = self._slots.get(kind)
        if slots is None:
            ways = self.ways_of(kind)
            slots = self._slots[kind] = [
                (descriptor.__get__, descriptor.__set__, ways.get(descriptor.__name__)) for descriptor in _slots(kind)
            ]
        return slots

    def is_structure(self, kind: type) -> bool:
        """True if objects of a class are copied."""
        known = self._structures.get(kind)
        if known is None:
            ours = any(f"{kind.__module__}.".startswith(f"{package}.") for package in self._packages)
            known = self._structures[kind] = ours and kind not in self.values and not issubclass(kind, tuple | Enum)
        return known


class Copies:
    """The copies for one question. No two of them share anything but values with the originals."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._values = set(rules.values)
        self._known: dict[int, Any] = {}
        """The copies by identity of the original, which stays the same for as long as the copies are read."""

    def of(self, original: T) -> T:
        """The copy of an object. Raises TypeError for an object of no known role, at once or when it is reached."""
        return cast(T, self._copy(original))

    def _copy(self, value: Any) -> Any:
        kind = type(value)
        if kind in self._values:
            return value
        if kind in _unread:
            kind = value.__class__  # reads it
        known = self._known.get(id(value))
        if known is not None:
            return known
        if self._rules.is_structure(kind):
            copied = _empty(kind)
            _remember(copied, kind, (self, value))
        elif isinstance(value, Enum | np.generic):
            self._values.add(kind)
            return value
        elif isinstance(value, tuple):
            return self._tuple(value)
        elif kind is MethodType:
            owner = value.__self__
            return MethodType(value.__func__, self._copy(owner)) if self._rules.is_structure(type(owner)) else value
        else:
            copied = self._container(kind, value)
        self._known[id(value)] = copied
        return copied

    def _tuple(self, value: tuple[Any, ...]) -> Any:
        if self._values.issuperset(map(type, value)):
            return value
        parts = [self._copy(part) for part in value]
        if all(map(_is_same, parts, value)):
            return value
        kind = type(value)
        return tuple(parts) if kind is tuple else cast(Any, kind)._make(parts)

    def _container(self, kind: type, value: Any) -> Any:
        simple, copy = self._values.issuperset, self._copy
        if kind is np.ndarray:
            return value.copy()
        if kind in (dict, defaultdict, Counter, OrderedDict, _Later):
            keys, entries = simple(map(type, value)), simple(map(type, value.values()))
            if keys and not entries:
                return self._entries(value)
            copied = value.copy()
            if not keys:
                copied.clear()
                copied.update({copy(key): copy(entry) for key, entry in value.items()})
            return copied
        if kind in (list, set, frozenset, deque):
            if simple(map(type, value)):
                return value.copy()
            copied = map(copy, value)
            return deque(copied, value.maxlen) if kind is deque else kind(copied)
        raise TypeError(f"{kind.__module__}.{kind.__qualname__} is neither a structure that is copied nor a value")

    def _entries(self, value: dict[Any, Any]) -> dict[Any, Any]:
        """A copy of a mapping whose keys are values."""
        if len(value) > LARGE and type(value) is dict:
            return _Later(value, self._copy)
        copied = value.copy()
        for key, entry in value.items():
            copied[key] = self._copy(entry)
        return copied

    def fill(self, copied: Any, kind: type, original: Any) -> None:
        """Gives a copy, of which nothing was read so far, the attributes of its original."""
        object.__setattr__(copied, "__class__", kind)
        slots = self._rules.slots_of(kind)
        values, known, copy = self._values, self._known, self._copy
        for get, put, make in slots:
            try:
                value = get(original)
            except AttributeError:
                continue
            if type(value) not in values:
                mine = known.get(id(value))
                if mine is None:
                    mine = copy(value) if make is None else make(copy, value)
                    known[id(value)] = mine
                value = mine
            put(copied, value)
        if not slots:
            ways, attributes = self._rules.ways_of(kind), copied.__dict__
            for name, value in original.__dict__.items():
                make = None if type(value) in values else ways.get(name)
                attributes[name] = copy(value) if make is None else make(copy, value)


def _shallow(copy: Callable[[Any], Any], value: Any) -> Any:  # noqa: ARG001
    return value.copy()


def _keyed(copy: Callable[[Any], Any], value: Mapping[Any, Any]) -> dict[Any, Any]:
    return {key: copy(entry) for key, entry in value.items()}


def _is_same(value: object, other: object) -> bool:
    return value is other


# --- objects that were not read yet -------------------------------------------------------------------------------


class _Later(dict[Any, Any]):
    """A large mapping: entries are those of the original until they are read."""

    __slots__ = ("_copy", "_own")

    def __init__(self, original: Mapping[Any, Any], copy: Callable[[Any], Any]) -> None:
        super().__init__(original)
        self._copy = copy
        self._own: set[Any] | None = set()
        """The keys whose entries are of this mapping; None: all are."""

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        if self._own is not None and key not in self._own:
            value = self._copy(value)
            self[key] = value
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._own is not None:
            self._own.add(key)
        super().__setitem__(key, value)

    def __iter__(self) -> Iterator[Any]:  # without it, dict() and ** would take entries that were not read
        return super().__iter__()

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401  # it would call itself

    def pop(self, key: Any, *default: Any) -> Any:
        if key in self:
            value = self[key]
            del self[key]
            return value
        return super().pop(key, *default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *others: Any, **more: Any) -> None:
        for key, value in dict(*others, **more).items():
            self[key] = value

    def popitem(self) -> tuple[Any, Any]:
        self._read_all()
        return super().popitem()

    def values(self) -> Any:
        self._read_all()
        return super().values()

    def items(self) -> Any:
        self._read_all()
        return super().items()

    def copy(self) -> dict[Any, Any]:
        return dict(self.items())

    def _read_all(self) -> None:
        if self._own is not None:
            for key in self:
                self[key]
            self._own = None


_unread: set[type] = set()
"""The classes of objects that were not read yet."""
_PENDING = "\0"
"""The attribute in which an object that was not read yet has its copies and its original."""


@cache
def _slots(kind: type) -> tuple[Any, ...]:
    """The descriptors of the slots of a class."""
    names = [(base, name) for base in kind.__mro__ for name in base.__dict__.get("__slots__", ())]
    return tuple(base.__dict__[name] for base, name in names if name not in ("__dict__", "__weakref__"))


def _remember(unread: Any, kind: type, pending: tuple[Copies, Any]) -> None:
    slots = _slots(kind)
    if slots:
        slots[0].__set__(unread, pending)
    else:
        object.__getattribute__(unread, "__dict__")[_PENDING] = pending


def _read(unread: Any) -> None:
    kind: type = type(unread).__mro__[1]
    slots = _slots(kind)
    if slots:
        copies, original = slots[0].__get__(unread)
    else:
        copies, original = object.__getattribute__(unread, "__dict__").pop(_PENDING)
    copies.fill(unread, kind, original)


def _get(self: Any, name: str) -> Any:
    _read(self)
    return getattr(self, name)


def _set(self: Any, name: str, value: Any) -> None:
    _read(self)
    setattr(self, name, value)


@cache
def _class_of(kind: type) -> type:
    """The class of the copies that were not read yet. They become objects of `kind` when they are read."""
    unread = type(f"Unread{kind.__name__}", (kind,), {"__slots__": (), "__getattribute__": _get, "__setattr__": _set})
    _unread.add(unread)
    return unread


def _empty(kind: type) -> Any:
    return object.__new__(_class_of(kind))
