"""The problems of a document and its parts that do not have the written effect, each with its JSON path.

A problem refuses the document. A field or value that has no effect, or that is replaced, is refused, named in a warning
or passed over, as the sender of the document chooses with `fieldValidation` (docs/api.md#field-validation). A part that
has the written effect here, and another one in the original, is named for senders who come from there.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

PROBLEM_LIMIT = 100
"""Problems listed per document, and warnings; a machine-made document full of errors must not blow up the answer."""
LONGEST_KEY, LONGEST_WORD = 256, 80
"""Characters of a user's key that paths show, and of a word that a nearest one is looked for: looking takes time that
grows with both."""
LOOKUPS = 500
"""Unknown fields of one document for which the field that is meant is looked for."""
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")

Validation = Literal["Strict", "Warn", "Original", "Ignore"]
"""How fields and values that do not have the written effect are treated: refused, named in a warning, or passed over.
`Original` is `Warn`, and names also those that have another effect in the original."""


class Problem(msgspec.Struct, frozen=True):
    """One defect of a document: its JSON path (``$.spec.instance``) and a description."""

    path: str
    message: str


class FieldWarning(msgspec.Struct, frozen=True):
    """One part of an accepted document that has no effect, or another effect than in the original. `hint`: the text to
    write instead; empty if there is none."""

    path: str
    message: str
    hint: str = ""


class Problems:
    """The problems and warnings of a document, in the order of their discovery."""

    def __init__(self, validation: Validation = "Strict") -> None:
        self._validation = validation
        self._found: dict[str, str] = {}
        self._warned: dict[str, FieldWarning] = {}
        self._noted: list[FieldWarning] = []
        self._omitted = self._omitted_warnings = self._looked = 0

    def __bool__(self) -> bool:
        return bool(self._found)

    def refuses(self, path: str) -> bool:
        """True if this path, or something around it, is known to be wrong. Checks that depend on its value are left
        out then."""
        return any(outer in self._found for outer in _outer(path))

    def may_look(self) -> bool:
        """True if the word that is meant by another one is still looked for: looking takes time, so it is done LOOKUPS
        times per document, and not for problems that are not listed."""
        self._looked += 1
        return self._looked <= LOOKUPS and len(self._found) < PROBLEM_LIMIT

    def add(self, path: str, message: str, word: str = "", known: Iterable[str] = ()) -> None:
        """Notes a problem, unless this path or something around it is known to be wrong already. With `word`, hints at
        the nearest of the `known` ones."""
        if self.refuses(path):
            return
        if len(self._found) >= PROBLEM_LIMIT:
            self._omitted += 1
        else:
            self._found[path] = message + hint(word, known) if word else message

    def warn(self, path: str, message: str, hint: str = "") -> None:
        """Notes a part that does not have the written effect: a problem if validation is strict. `hint`: the text to
        write instead."""
        if self._validation == "Strict":
            self.add(path, f"{message}; {hint}" if hint else message)
        elif self._validation != "Ignore" and path not in self._warned:
            if len(self._warned) >= PROBLEM_LIMIT:
                self._omitted_warnings += 1
            else:
                self._warned[path] = FieldWarning(path, message, hint)

    def differs(self, path: str, message: str, hint: str = "") -> None:
        """Notes a part that has the written effect, and another one in the original: a warning in the mode `Original`,
        and nothing in the other modes."""
        if self._validation == "Original":
            self.warn(path, message, hint)

    def note(self, message: str) -> None:
        """Notes a warning of the core about an accepted request, with any validation."""
        self._noted.append(FieldWarning("$", message))

    def listed(self) -> tuple[Problem, ...]:
        found = [Problem(path, message) for path, message in self._found.items()]
        if self._omitted:
            found.append(Problem("$", f"{self._omitted} more problems are not listed"))
        return tuple(found)

    def warnings(self) -> tuple[FieldWarning, ...]:
        found = [*self._warned.values(), *self._noted]
        if self._omitted_warnings:
            found.append(FieldWarning("$", f"{self._omitted_warnings} more warnings are not listed"))
        return tuple(found)


class Taken:
    """Names and numbers that may be used once; remembers where each was used first."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._first: dict[object, str] = {}

    def take(self, value: object, path: str, problems: Problems) -> None:
        first = self._first.setdefault(value, path)
        if first != path:
            problems.add(path, f"{self._what} {value!r} is used already by {first}")


def member(path: str, key: str) -> str:
    """The path of a key of the object at `path`."""
    if len(key) > LONGEST_KEY:
        key = f"{key[:LONGEST_KEY]}\N{HORIZONTAL ELLIPSIS}"
    return f"{path}.{key}" if _PLAIN_KEY.match(key) else f"{path}[{msgspec.json.encode(key).decode()}]"


def element(path: str, index: int) -> str:
    return f"{path}[{index}]"


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known word that is most like `word`, without regard to capitals; empty if none is. `cutoff`: least likeness,
    0 to 1 (difflib.SequenceMatcher.ratio)."""
    by_fold = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word[:LONGEST_WORD].lower(), by_fold, n=1, cutoff=cutoff)
    return by_fold[near[0]] if near else ""


def hint(word: str, known: Iterable[str]) -> str:
    """``; did you mean X?`` for the nearest known word, or nothing."""
    near = nearest(word, known)
    return f"; did you mean {near}?" if near else ""


def _outer(path: str) -> Iterator[str]:
    """The path itself and every path around it."""
    yield path
    for i in range(len(path) - 1, 0, -1):
        if path[i] in ".[":
            yield path[:i]
