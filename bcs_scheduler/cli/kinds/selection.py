"""Objects that a command line names: ``KIND``, ``KIND,KIND``, ``KIND NAME...`` or ``KIND/NAME...``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bcs_scheduler.cli.client.kinds import ALIASES, KINDS
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.kinds.fields import conditions_of, matching
from bcs_scheduler.cli.kinds.registry import known_kind, reader_of
from bcs_scheduler.cli.session import Session

ALL = ("deployments", "daemonsets", "applications", "taskgroups", "services")
"""Kinds that ``all`` stands for."""


class Query(NamedTuple):
    """`kind`: a key of KINDS, or a registered kind. `names` empty = all objects of the kind."""

    kind: str
    names: tuple[str, ...] = ()


def queries_of(session: Session, words: Sequence[str]) -> list[Query]:
    """Queries in the order of the words, one per kind. Raises UsageError, click.BadParameter for an unknown kind."""
    if "/" in words[0]:
        return _pairs(session, words)
    kinds = [known for word in words[0].split(",") if word for known in _kinds(session, word)]
    names = tuple(name for word in words[1:] for name in word.split(",") if name)
    if len(kinds) > 1 and names:
        raise UsageError("names belong to one kind: give KIND NAME..., or KIND/NAME...")
    if not kinds:
        raise UsageError("give a kind")
    return [Query(kind, names) for kind in dict.fromkeys(kinds)]


def one_object(session: Session, words: Sequence[str]) -> tuple[str, str]:
    """(kind, name) of the one object that the words name. Raises UsageError."""
    queries = queries_of(session, words)
    if len(queries) != 1 or len(queries[0].names) != 1:
        raise UsageError("give one object: KIND/NAME or KIND NAME")
    return queries[0].kind, queries[0].names[0]


def check_labels(kind: str, selector: str) -> None:
    """Raises UsageError for a label selector if objects of the kind are not chosen by labels."""
    if selector and kind in KINDS and not KINDS[kind].labels:
        raise UsageError(f"-l is supported for {', '.join(name for name, one in KINDS.items() if one.labels)}")


def chosen(session: Session, words: Sequence[str], labels: str, fields: str) -> Iterator[tuple[str, Json]]:
    """(kind, object) of the objects in the namespace that a label selector and a field selector choose; empty selectors
    choose all. `words`: kinds without names. Raises UsageError."""
    queries = queries_of(session, words)
    conditions = conditions_of((query.kind for query in queries), fields)
    for query in queries:
        if query.names or (query.kind in KINDS and KINDS[query.kind].scope in ("application", "alone")):
            raise UsageError("selectors choose objects of kinds: give kinds without names")
        check_labels(query.kind, labels)
    for kind, _ in queries:
        found = reader_of(kind)(session, session.namespace, None, labels)
        yield from ((kind, item) for item in matching(kind, found if isinstance(found, list) else [found], conditions))


def _pairs(session: Session, words: Sequence[str]) -> list[Query]:
    found: dict[str, list[str]] = {}
    for word in words:
        head, slash, name = word.partition("/")
        if not slash or not head or not name:
            raise UsageError(f"{word!r}: give every object as KIND/NAME, or one kind and then names")
        for kind in _kinds(session, head):
            found.setdefault(kind, []).append(name)
    return [Query(kind, tuple(names)) for kind, names in found.items()]


def _kinds(session: Session, word: str) -> tuple[str, ...]:
    if word.lower() == "all":
        return ALL
    return (known_kind(session, kind_of(word)),)


def kind_of(word: str) -> str:
    """A kind from its name or alias; another word stays unchanged."""
    kind = ALIASES.get(word.lower(), word.lower())
    return kind if kind in KINDS else word
