"""Turns plain JSON data into structs and reports everything that does not fit, each with its JSON path.

msgspec's own decoder stops at the first error; a user who writes a document by hand wants all of them. The shape comes
from the same struct declarations (msgspec.inspect), so there is one source for decoding, checking and OpenAPI.

A wrong value is reported and replaced by the field's default (or an empty value), so that later checks have a
complete, well-typed document. These checks add to the same `Problems` (wire/problems.py), which keeps only the first
problem of a path and drops the problems below it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from itertools import islice
from typing import Any, ClassVar, NamedTuple

import msgspec
from msgspec import inspect

from bcs_scheduler.wire.problems import Problems, element, member, nearest

MISSPELT = 0.8
"""Likeness (difflib.SequenceMatcher.ratio) from which on an unknown field is taken for a misspelt one that is missing:
`instances` for `instance`. The value of such a field would be lost, so every mode of field validation refuses it."""
_ABSENT: Any = object()
LOOKED_AT = 1000
"""Keys of an object beside which a misspelt one is looked for; no document of ours has as many fields."""


class Document(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of every struct a request may carry. Wire names are the camel-case field names unless a field names its own.

    `aliases`: other spellings of a field (wire name by spelling). `refused`: fields of the original that this release
    cannot honour, with the message. `ignored`: fields without effect, with a hint; they cause a warning. In both,
    values without effect (null, false, 0, empty) pass. `lenient`: fields whose unknown words the original ignores, with
    the replacement.
    """

    aliases: ClassVar[dict[str, str]] = {}
    refused: ClassVar[dict[str, str]] = {}
    ignored: ClassVar[dict[str, str]] = {}
    lenient: ClassVar[dict[str, str]] = {}

    @classmethod
    def modern(cls, raw: dict[str, Any], path: str, problems: Problems) -> dict[str, Any]:
        """The object in today's form: older forms of the original are translated, and warned of if need be."""
        return raw


def decode(raw: object, shape: Hashable, problems: Problems, path: str = "$") -> Any:
    """A value of type `shape` (a Document, or a list or dict of them) made from plain JSON data."""
    info = _info(shape)
    value = _decode(raw, info, path, problems)
    return _blank(info) if value is _ABSENT else value


@lru_cache(maxsize=64)
def _info(shape: Hashable) -> inspect.Type:
    return inspect.type_info(shape)


class _Names(NamedTuple):
    """How the keys of an object are found: exact, by alias, or equal but for case (as Go reads them)."""

    fields: dict[str, inspect.Field]
    required: dict[str, inspect.Field]
    steps: dict[str, str]
    """Suffix of the path of each field, by the name of the field."""
    folded: dict[str, str]
    refused: dict[str, str]
    ignored: dict[str, str]
    lenient: dict[str, str]
    modern: Callable[[dict[str, Any], str, Problems], dict[str, Any]] | None
    """None if there are no older forms."""


@lru_cache(maxsize=128)
def _names(cls: type[Document]) -> _Names:
    info = _info(cls)
    assert isinstance(info, inspect.StructType)
    fields = {field.encode_name: field for field in info.fields}
    names = [*fields, *cls.refused, *cls.ignored]
    folded = {alias.lower(): name for alias, name in cls.aliases.items()} | {name.lower(): name for name in names}
    required = {name: field for name, field in fields.items() if field.required}
    steps = {name: member("", name) for name in fields}
    modern = cls.modern if cls.modern.__func__ is not Document.modern.__func__ else None  # type: ignore[attr-defined]
    return _Names(fields, required, steps, folded, cls.refused, cls.ignored, cls.lenient, modern)


def _decode(raw: object, info: inspect.Type, path: str, problems: Problems) -> Any:
    while isinstance(info, inspect.Metadata):
        info = info.type
    check = _CHECKS.get(type(info))
    if check is None:
        raise TypeError(f"documents do not use {info}")
    return check(raw, info, path, problems)


def _struct(raw: object, info: inspect.StructType, path: str, problems: Problems) -> Any:
    if not isinstance(raw, dict):
        return _wrong(path, "an object", raw, problems)
    names = _names(info.cls)
    data: dict[str, Any] = raw if names.modern is None else names.modern(raw, path, problems)
    seen: dict[str, str] = {}
    values: dict[str, Any] = {}
    for key, value in data.items():
        at = path + names.steps[key] if key in names.fields else member(path, key)
        name = key if key in names.fields else names.folded.get(key.lower())
        if name is None:
            _unknown(key, at, names, data, problems)
        elif name not in names.fields:
            _without_effect(name, value, at, names, problems)
        elif name in seen:
            problems.add(at, f"is the same field as {seen[name]}; give it once")
        else:
            seen[name] = key
            if value is not None:
                decode_field = _leniently if name in names.lenient else _decode
                decoded = decode_field(value, names.fields[name].type, at, problems)
                if decoded is not _ABSENT:
                    values[names.fields[name].name] = decoded
                elif decode_field is _leniently and value:
                    problems.warn(at, f"has the unknown value {_shown(value)}", names.lenient[name])
    for name, field in names.required.items():
        if field.name not in values:
            problems.add(member(path, seen.get(name, name)), "is required")
            values[field.name] = _blank(field.type)
    return info.cls(**values)


def _unknown(key: str, at: str, names: _Names, raw: dict[str, Any], problems: Problems) -> None:
    """An unknown field has no effect, unless it is a misspelt one. Where that is not looked at any more it is
    refused."""
    if not problems.may_look():
        problems.add(at, "unknown field")
        return
    given = {names.folded.get(other.lower()) for other in islice(raw, LOOKED_AT)}
    meant = nearest(key, (name for name in names.fields if name not in given), MISSPELT)
    if meant:
        problems.add(at, f"unknown field; did you mean {meant}?")
        return
    near = nearest(key, [*names.fields, *names.refused])
    problems.warn(at, "unknown field", f"did you mean {near}?" if near else "")


def _without_effect(name: str, value: Any, at: str, names: _Names, problems: Problems) -> None:
    """A field of the original that is refused or ignored, if its value asks for anything."""
    if value in (None, False, 0, "", [], {}):
        return
    if name in names.refused:
        problems.add(at, names.refused[name])
    else:
        problems.warn(at, "has no effect", names.ignored[name])


def _leniently(raw: object, info: inspect.Type, path: str, problems: Problems) -> Any:
    """A word of a list of words, or nothing for another word. A value that is no string is a problem."""
    if not isinstance(raw, str):
        return _wrong(path, "a string", raw, problems)
    return _decode(raw, info, path, Problems())


def _list(raw: object, info: inspect.ListType | inspect.VarTupleType, path: str, problems: Problems) -> Any:
    if not isinstance(raw, list):
        return _wrong(path, "a list", raw, problems)
    items = []
    for i, value in enumerate(raw):
        item = _decode(value, info.item_type, element(path, i), problems)
        # A bad element keeps its place: the paths of later checks count elements.
        items.append(_blank(info.item_type) if item is _ABSENT else item)
    if info.min_length is not None or info.max_length is not None:
        _length(len(items), info.min_length, info.max_length, path, "elements", problems)
    return tuple(items)


def _dict(raw: object, info: inspect.DictType, path: str, problems: Problems) -> Any:
    if not isinstance(raw, dict):
        return _wrong(path, "an object", raw, problems)
    values = {}
    for key, value in raw.items():
        at = member(path, key)
        if _decode(key, info.key_type, at, problems) is _ABSENT:
            continue
        item = _decode(value, info.value_type, at, problems)
        if item is not _ABSENT:
            values[key] = item
    if info.min_length is not None or info.max_length is not None:
        _length(len(values), info.min_length, info.max_length, path, "keys", problems)
    return values


def _str(raw: object, info: inspect.StrType, path: str, problems: Problems) -> Any:
    if not isinstance(raw, str):
        return _wrong(path, "a string", raw, problems)
    if info.min_length is not None or info.max_length is not None:
        _length(len(raw), info.min_length, info.max_length, path, "characters", problems)
    if "\0" in raw:
        problems.add(path, "contains a NUL character")
    return raw


def _int(raw: object, info: inspect.IntType, path: str, problems: Problems) -> Any:
    if not isinstance(raw, int) or isinstance(raw, bool):
        return _wrong(path, "a whole number", raw, problems)
    return _in_range(raw, info, path, problems)


def _float(raw: object, info: inspect.FloatType, path: str, problems: Problems) -> Any:
    if not isinstance(raw, int | float) or isinstance(raw, bool):
        return _wrong(path, "a number", raw, problems)
    if abs(raw) > 1e15:
        problems.add(path, "is too large")
        return _ABSENT
    return _in_range(float(raw), info, path, problems)


def _bool(raw: object, info: inspect.BoolType, path: str, problems: Problems) -> Any:
    return raw if isinstance(raw, bool) else _wrong(path, "true or false", raw, problems)


def _literal(raw: object, info: inspect.LiteralType, path: str, problems: Problems) -> Any:
    if raw == "":
        return _ABSENT
    if raw in info.values and not isinstance(raw, bool):
        return raw
    known = [str(value) for value in info.values if value != ""]
    word = raw if isinstance(raw, str) else ""
    problems.add(path, f"must be one of {', '.join(known)}, not {_shown(raw)}", word, known)
    return _ABSENT


def _union(raw: object, info: inspect.UnionType, path: str, problems: Problems) -> Any:
    """The member is chosen by the JSON type alone; null has been dealt with before."""
    for kind in info.types:
        fits = {
            inspect.StrType: isinstance(raw, str),
            inspect.IntType: isinstance(raw, int) and not isinstance(raw, bool),
            inspect.FloatType: isinstance(raw, int | float) and not isinstance(raw, bool),
            inspect.BoolType: isinstance(raw, bool),
            inspect.StructType: isinstance(raw, dict),
            inspect.DictType: isinstance(raw, dict),
        }
        if fits.get(type(kind), False):
            return _decode(raw, kind, path, problems)
    words = [_EXPECTED.get(type(kind), "") for kind in info.types]
    return _wrong(path, " or ".join(dict.fromkeys(word for word in words if word)), raw, problems)


def _any(raw: object, info: inspect.AnyType, path: str, problems: Problems) -> Any:
    return raw


_EXPECTED: dict[type, str] = {
    inspect.StrType: "a string",
    inspect.IntType: "a number",
    inspect.FloatType: "a number",
    inspect.BoolType: "true or false",
    inspect.StructType: "an object",
    inspect.DictType: "an object",
}
_CHECKS: dict[type, Callable[[Any, Any, str, Problems], Any]] = {
    inspect.StructType: _struct,
    inspect.ListType: _list,
    inspect.VarTupleType: _list,
    inspect.DictType: _dict,
    inspect.StrType: _str,
    inspect.IntType: _int,
    inspect.FloatType: _float,
    inspect.BoolType: _bool,
    inspect.LiteralType: _literal,
    inspect.UnionType: _union,
    inspect.AnyType: _any,
}


def _in_range(value: Any, info: inspect.IntType | inspect.FloatType, path: str, problems: Problems) -> Any:
    if info.ge is not None and value < info.ge:
        problems.add(path, f"must be at least {info.ge}, not {_shown(value)}")
    elif info.gt is not None and value <= info.gt:
        problems.add(path, f"must be greater than {info.gt}, not {_shown(value)}")
    elif info.le is not None and value > info.le:
        problems.add(path, f"must be at most {info.le}, not {_shown(value)}")
    else:
        return value
    return _ABSENT


def _length(size: int, least: int | None, most: int | None, path: str, unit: str, problems: Problems) -> None:
    if least is not None and size < least:
        problems.add(path, "must not be empty" if least == 1 else f"must have at least {least} {unit}")
    if most is not None and size > most:
        problems.add(path, f"has {size} {unit}, at most {most} are allowed")


def _blank(info: inspect.Type) -> Any:
    """The emptiest value of a type, to stand where something was missing or wrong (and reported)."""
    match info:
        case inspect.Metadata():
            return _blank(info.type)
        case inspect.StructType():
            return info.cls(**{f.name: _blank(f.type) for f in info.fields if f.required})
        case inspect.ListType() | inspect.VarTupleType():
            return ()
        case inspect.DictType():
            return {}
        case inspect.IntType() | inspect.FloatType():
            return 0
        case inspect.BoolType():
            return False
        case inspect.LiteralType():
            return info.values[0]
        case inspect.UnionType():
            return _blank(info.types[0])
        case inspect.NoneType():
            return None
    return ""


def _wrong(path: str, expected: str, raw: object, problems: Problems) -> Any:
    problems.add(path, f"must be {expected}, not {_shown(raw)}")
    return _ABSENT


def _shown(raw: object) -> str:
    """A value of a document as text for a message, shortened."""
    match raw:
        case None:
            return "null"
        case dict():
            return "an object"
        case list():
            return "a list"
        case bool():
            return "true" if raw else "false"
        case str():
            return f'"{raw[:40]}…"' if len(raw) > 40 else f'"{raw}"'
    text = str(raw)
    return text if len(text) <= 40 else f"{text[:40]}…"
