"""Texts that name objects of other namespaces.

A stored text, such as a message of an application or an event, is shown to callers who may see some namespaces only.
So a text that belongs to one namespace has a mention in place of the names of objects of others. A mention is a mark in
the text with the kind and the keys of the objects. `revealed` turns all marks of an answer into names or counts, for
one caller; `plain` gives the text with all names, for logs of operators.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal, get_args

from store.ids import ObjectKey

BEGIN, BETWEEN, END = "\ue000", "\ue002", "\ue001"
"""Characters of Unicode for private use, which no name has."""
PRIVATE = "private"
"""Kind of a mention whose one part is a text for callers who see all namespaces."""
MARK = BEGIN.encode()
"""The bytes that every encoded answer with mentions has."""
Kind = Literal["application", "taskgroup"]
_PATTERN = re.compile(f'{BEGIN}((?:{"|".join((*get_args(Kind), PRIVATE))}){BETWEEN}[^"\\\\{BEGIN}{END}]*)({END}?)')
"""A mark within a string of JSON. A text that was cut off may have lost the end of its mark. Other texts with these
characters, such as output of programs, stay as they are."""
Sees = Callable[[str], bool]
"""True if a caller may see the namespace; for the empty name: if the caller may see all namespaces."""


def mention(kind: Kind, keys: Iterable[str], within: str) -> str:
    """The objects with these keys (``namespace/name``) in a text that belongs to the namespace `within`."""
    listed = list(keys)
    if all(ObjectKey.of(key).namespace == within for key in listed):
        return ", ".join(listed)
    return f"{BEGIN}{BETWEEN.join((kind, *listed))}{END}"


def private(text: str) -> str:
    """A part of a text that only callers who may see all namespaces get. It loses characters that JSON escapes, and
    characters of marks: the part ends where the mark ends."""
    kept = "".join(one for one in text if one.isprintable() and one not in '"\\' + BEGIN + END)
    return f"{BEGIN}{PRIVATE}{BETWEEN}{kept}{END}" if kept else ""


def plain(text: str) -> str:
    """The text with all names."""
    return _shown(text, lambda _namespace: True)


def revealed(content: bytes, sees: Sees) -> bytes:
    """An encoded answer with the names that the caller may see, and counts in place of the others."""
    return _shown(content.decode(), sees).encode() if MARK in content else content


def _shown(text: str, sees: Sees) -> str:
    return _PATTERN.sub(lambda found: _words(found.group(1), bool(found.group(2)), sees), text)


def _words(inside: str, complete: bool, sees: Sees) -> str:
    kind, *parts = inside.split(BETWEEN)
    if kind == PRIVATE:
        return "".join(parts) if sees("") else ""
    if not complete and not sees(""):  # the last key may be a part of one
        return f"{kind}s of other namespaces"
    seen = [key for key in parts if sees(ObjectKey.of(key).namespace)]
    hidden = len(parts) - len(seen)
    if not hidden:
        return ", ".join(seen)
    article = "an" if kind[:1] in "aeiou" else "a"
    others = f"{article} {kind} of another namespace" if hidden == 1 else f"{hidden} {kind}s of other namespaces"
    return f"{', '.join(seen)} and {others}" if seen else others
