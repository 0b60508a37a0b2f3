"""Reads files of the format policy-vectors/1 and refuses what is none, with the place of the mistake."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

FORMAT = "policy-vectors/1"
POLICIES = ("session", "hierarchical", "scenario")
HEAD = frozenset({"format", "units", "conventions", "rules", "vectors"})
FIELDS = frozenset({"id", "title", "area", "policy", "config", "input", "expect", "why"})
VARIANT = "expect_variant_"
"""Beginning of the names of further expectations: the same input with other arguments of plug-ins."""


class Malformed(Exception):
    """The file is not of the format. The text names the file and the place."""


class PolicyVector(NamedTuple):
    """One vector. `variants`: expectations by name, each with `arguments` of its own."""

    id: str
    title: str
    area: str
    policy: str
    config: Mapping[str, Any]
    input: Mapping[str, Any]
    expect: Mapping[str, Any]
    variants: Mapping[str, Mapping[str, Any]]


def read(path: Path) -> list[PolicyVector]:
    """The vectors of a file, in their order. Raises Malformed, with every problem found."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Malformed(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Malformed(f"{path}: not UTF-8") from None
    except json.JSONDecodeError as error:
        raise Malformed(f"{path}: not JSON: {error}") from None
    problems = list(_problems(document))
    if problems:
        raise Malformed("\n".join(f"{path}: {problem}" for problem in problems))
    return [_vector(entry) for entry in document["vectors"]]


def _problems(document: Any) -> list[str]:
    if not isinstance(document, dict):
        return ["not an object"]
    if document.get("format") != FORMAT:
        return [f"format: {document.get('format')!r} instead of {FORMAT!r}"]
    problems = [f"{name}: unknown field" for name in sorted(set(document) - HEAD)]
    vectors = document.get("vectors")
    if not isinstance(vectors, list) or not vectors:
        return [*problems, "vectors: a list with at least one vector is missing"]
    seen: set[str] = set()
    for position, entry in enumerate(vectors):
        place = f"vectors[{position}]"
        if not isinstance(entry, dict):
            problems.append(f"{place}: not an object")
            continue
        problems += _entry_problems(place, entry)
        name = entry.get("id")
        if isinstance(name, str) and name in seen:
            problems.append(f"{place}.id: {name} is used twice")
        seen.add(str(name))
    return problems


def _entry_problems(place: str, entry: Mapping[str, Any]) -> list[str]:
    problems = [f"{place}.{name}: a text is missing" for name in ("id", "policy") if not _text(entry.get(name))]
    problems += [f"{place}.{name}: not a text" for name in ("title", "area", "why") if not _text(entry.get(name, "-"))]
    problems += [
        f"{place}.{name}: an object with at least one field is missing"
        for name in ("input", "expect")
        if not isinstance(entry.get(name), dict) or not entry[name]
    ]
    if not isinstance(entry.get("config", {}), dict):
        problems.append(f"{place}.config: not an object")
    if isinstance(entry.get("policy"), str) and entry["policy"] not in POLICIES:
        problems.append(f"{place}.policy: {entry['policy']!r} is none of {', '.join(POLICIES)}")
    for name in sorted(set(entry) - FIELDS):
        if not name.startswith(VARIANT):
            problems.append(f"{place}.{name}: unknown field")
        elif not isinstance(entry[name], dict) or not isinstance(entry[name].get("arguments"), dict):
            problems.append(f"{place}.{name}: an object with the object `arguments` is missing")
    return problems


def _text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _vector(entry: Mapping[str, Any]) -> PolicyVector:
    return PolicyVector(
        id=entry["id"],
        title=entry.get("title", ""),
        area=entry.get("area", ""),
        policy=entry["policy"],
        config=entry.get("config", {}),
        input=entry["input"],
        expect=entry["expect"],
        variants={name.removeprefix(VARIANT): entry[name] for name in entry if name.startswith(VARIANT)},
    )
