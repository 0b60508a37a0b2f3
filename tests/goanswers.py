"""Answers of the original as Go reads them: the table tests/conformance/answers.yaml, a strict comparison with it, and
Go structs that are made of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

TABLE: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parent / "conformance" / "answers.yaml").read_text(),
)
STRUCTS: dict[str, dict[str, str]] = TABLE["structs"]
ANSWERS: dict[str, str] = TABLE["answers"]
BOUNDS = {
    "int": (-(2**63), 2**63 - 1), "int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1),
    "uint16": (0, 2**16 - 1), "uint32": (0, 2**32 - 1), "uint64": (0, 2**64 - 1),
}  # fmt: skip
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)\Z")


def shape(route: str) -> str:
    """A route with one letter for every parameter."""
    return re.sub(r"\{[^}]*\}", "X", route.partition("?")[0].rstrip("/"))


def type_of(method: str, path: str) -> str:
    """The Go type of the data of an answer. Raises KeyError for a route that the table does not have."""
    asked = f"{method} {path}".split("/")
    found = [
        (route.count("{"), goes)
        for route, goes in ANSWERS.items()
        if len(parts := route.split("/")) == len(asked)
        and all(part == given or (part.startswith("{") and given) for part, given in zip(parts, asked, strict=True))
    ]
    if not found:
        raise KeyError(f"{method} {path}")
    return min(found)[1]


def differences(value: Any, goes: str, at: str = "data") -> list[str]:
    """Places where a JSON value is not what Go decodes into this type without loss."""
    if goes == "any":
        return []
    if goes.startswith("*"):
        return [] if value is None else differences(value, goes[1:], at)
    if goes.startswith("[]"):
        if value is None:
            return []
        if not isinstance(value, list):
            return [f"{at}: {goes} is an array, not {value!r}"]
        return [found for i, item in enumerate(value) for found in differences(item, goes[2:], f"{at}[{i}]")]
    if goes.startswith("map[string]"):
        if value is None:
            return []
        if not isinstance(value, dict):
            return [f"{at}: {goes} is an object, not {value!r}"]
        inner = goes.removeprefix("map[string]")
        return [found for key, item in value.items() for found in differences(item, inner, f"{at}.{key}")]
    if goes.startswith("json("):
        if not isinstance(value, str):
            return [f"{at}: is a text, not {value!r}"]
        return differences(json.loads(value), goes[5:-1], f"{at}!")
    if goes in STRUCTS:
        return _of_struct(value, goes, at)
    return [] if _fits(value, goes) else [f"{at}: {goes}, not {value!r}"]


def _fits(value: Any, goes: str) -> bool:
    if goes in BOUNDS:
        least, most = BOUNDS[goes]
        return type(value) is int and least <= value <= most
    if goes == "float64":
        return type(value) in (int, float)
    if goes == "time.Time":
        return isinstance(value, str) and _TIME.match(value) is not None
    return type(value) is {"string": str, "bool": bool}[goes]


def _of_struct(value: Any, name: str, at: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{at}: {name} is an object, not {value!r}"]
    fields = dict(STRUCTS[name])
    document = fields.pop("+", "") == "document"
    required = {field.rstrip("?") for field in fields if not field.endswith("?")}
    types = {field.rstrip("?"): goes for field, goes in fields.items()}
    found = []
    if not document:
        found += [f"{at}: {name} has no field {key}" for key in value.keys() - types.keys()]
        found += [f"{at}: {name} lacks the field {key}" for key in required - value.keys()]
    folded: dict[str, str] = {}
    for key in value:
        if folded.setdefault(key.lower(), key) != key:
            found.append(f"{at}: Go takes {key} and {folded[key.lower()]} for one field")
    by_fold = {field.lower(): field for field in types}
    for key, item in value.items():
        field = by_fold.get(key.lower())
        if field is None:
            continue
        if key != field:
            found.append(f"{at}: Go takes {key} for {field}")
        if item is None and document:
            continue  # as if it were absent
        found += differences(item, types[field], f"{at}.{key}")
    return found


def as_go() -> str:
    """The structs in Go."""
    lines = []
    for name, fields in STRUCTS.items():
        lines.append(f"type {name} struct {{")
        for field, goes in fields.items():
            if field == "+":
                continue
            wire = field.rstrip("?")
            exported = wire[0].upper() + wire[1:]
            kind = "string" if goes.startswith("json(") else "interface{}" if goes == "any" else goes
            lines.append(f'\t{exported} {kind} `json:"{wire}"`')
        lines.append("}")
    return "\n".join(lines)
