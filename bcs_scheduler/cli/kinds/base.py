"""The functions that every kind has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.output.tables import Column
from bcs_scheduler.cli.session import Session

if TYPE_CHECKING:
    from bcs_scheduler.cli.documents import Operations

Found = list[Json] | Json
"""Objects of a list, or one object that was asked for by name."""
Read = Callable[[Session, str | None, str | None, str], Found]
"""Reads objects for `bcs get`: namespace (None = all), name (None = a list), label selector (empty = none)."""
Describe = Callable[[Session, str, bool, str], None]
"""Prints one object for `bcs describe`: name, with events or without, json or yaml (empty = text)."""


class Functions(NamedTuple):
    """The functions of `bcs` for objects of one kind. None: `bcs` has no such function."""

    columns: Sequence[Column]
    read: Read | None
    describe: Describe | None = None
    operations: Operations | None = None
    """Also None if a module of its own has them (`client.kinds.Kind.operations`)."""
    explain: Callable[[Session, str, str], Json] | None = None
    """Session, namespace, name. `text` of the result has the lines to print."""
    read_documents: Read | None = None
    """As `read`, with the documents of the objects. None: the answers of `read` have all there is."""
    name: Callable[[Json], str] | None = None
    """The name by which other commands find an object. None: the name in its metadata, or a field of `NAME_KEYS`."""
