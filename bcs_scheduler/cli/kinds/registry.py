"""Finds the functions of a kind: how objects are read, shown, described, explained, changed and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bcs_scheduler.cli.client.kinds import ALIASES, BY_DOCUMENT, KINDS
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.habits import instead_of_kind
from bcs_scheduler.cli.kinds.base import Functions, Read
from bcs_scheduler.cli.output.tables import Column
from bcs_scheduler.cli.session import Session
from store.advice import advise

if TYPE_CHECKING:
    from bcs_scheduler.cli.documents import Operations

NAMESPACE = Column(
    "NAMESPACE",
    lambda item: item.get("RunAs") or item.get("namespace") or (item.get("metadata") or {}).get("namespace"),
)
NAME_KEYS = ("ID", "transactionID", "Name", "name", "id", "Id", "hostname", "server")
"""Keys that hold the name of an object, in order of preference."""


def functions_of(kind: str) -> Functions:
    """The functions of a kind; an unknown kind is a registered kind of custom resources."""
    if kind in KINDS:
        found: Functions = _loaded(KINDS[kind].functions)[kind]
        return found
    from bcs_scheduler.cli.kinds.objects.extensions import custom_functions

    return custom_functions(kind)


def _loaded(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def columns_of(kind: str) -> Sequence[Column]:
    """The columns of a kind. The first one has the name of an object."""
    return functions_of(kind).columns


def reader_of(kind: str, *, documents: bool = False) -> Read:
    """The function that reads objects of a kind that has lists. `documents`: the answers include the documents."""
    functions = functions_of(kind)
    read = (functions.read_documents if documents else None) or functions.read
    assert read is not None, kind
    return read


def operations_of(kind: str) -> Operations:
    """Operations of a kind of document; an unknown kind is a registered kind of custom resources."""
    name = BY_DOCUMENT.get(kind, kind)
    if name in KINDS and KINDS[name].operations:
        found: Operations = _loaded(KINDS[name].operations)
        return found
    operations = functions_of(name).operations
    assert operations is not None, kind
    return operations


def name_of(kind: str, item: Json) -> str:
    """The name for -o name: by it the other commands find the object."""
    name = functions_of(kind).name
    if name is not None:
        return name(item)
    if "metadata" in item and item["metadata"].get("name"):
        return str(item["metadata"]["name"])
    return str(next((item[key] for key in NAME_KEYS if item.get(key)), kind))


def known_kind(session: Session, word: str) -> str:
    """A key of KINDS, or the name of a registered kind. Raises click.BadParameter, and UsageError for a kind of
    others."""
    if word in KINDS:
        return word
    from difflib import get_close_matches

    import click

    from bcs_scheduler.cli.kinds.objects.extensions import registered_kind

    kind = registered_kind(session, word)
    if kind is None:
        if instead := instead_of_kind(word):
            raise UsageError(instead)
        near = get_close_matches(word.lower(), (*KINDS, *ALIASES), n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise click.BadParameter(f"unknown kind {word!r}{hint}; {advise('list_kinds')}")
    return kind
