"""`bcs dump`: the state of the cluster in one file, for analysis elsewhere and for simulations.

A dump has sections, which are read from lists of the API. The file is written beside its place and renamed, so that
the file is complete or absent.
"""

from __future__ import annotations

import gzip
import json
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar, cast

import click

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands import dump_fields
from bcs_scheduler.cli.commands.dump_fields import DEMAND, TREE, Fields, Hide, shaped
from bcs_scheduler.cli.errors import CliError, NotFound, TimedOut, Unreachable, UsageError
from bcs_scheduler.cli.options import FILE, connection_options, examples, pass_session
from bcs_scheduler.cli.session import Session

if TYPE_CHECKING:
    from bcs_scheduler.cli.client.client import Client

FORMAT, FORMAT_VERSION = "bcs-dump", 1
"""A version grows when a field changes its meaning or is removed; new fields do not change the version."""
REPORT_INTERVAL = 2.0
"""Seconds between reports of progress."""


@click.command(epilog=examples("bcs dump cluster.json.gz", "bcs dump cluster.json --anonymize --events"))
@click.argument("file", required=False, **FILE)
@click.option("--anonymize", is_flag=True, help="Replace all names by pseudonyms.")
@click.option("--events", is_flag=True, help="Add the recent events.")
@click.option("--partial", is_flag=True, help="Leave out the parts that cannot be read, such as for lack of rights.")
@connection_options
@pass_session
def dump(session: Session, file: str | None, anonymize: bool, events: bool, partial: bool) -> None:
    """Write the state of the cluster to FILE, for analysis elsewhere.

    A FILE whose name ends in .gz is compressed. Default: bcs-dump-TIME.json.gz in the current directory.

    The file has the parts of documents that decide about placements, such as constraints and priorities. The file has
    no contents of secrets and configmaps, no images, variables, commands, outputs and messages.
    """
    began = datetime.now(UTC)
    place = Path(file or f"bcs-dump-{began:%Y%m%dT%H%M%SZ}.json.gz")
    check_place(place)
    document = read_dump(session, began, anonymize=anonymize, events=events, partial=partial)
    size = write_dump(place, document)
    counted = ("agents", "applications", "taskgroups")
    counts = ", ".join(f"{len(document[name])} {name}" for name in counted if name in document)
    session.say(f"{place} written ({counts or 'nothing else'}; {size} bytes)")


def read_dump(session: Session, began: datetime, *, anonymize: bool, events: bool, partial: bool) -> Json:
    """The document. `began`: time of the dump, UTC. Raises CliError."""
    server = session.client.server_version()
    hide = Pseudonyms() if anonymize else str
    reader = Reader(session.client, hide, partial=partial, seen=_Progress(session))
    found = reader.sections(events=events)
    for name, message in reader.missing.items():
        session.warn(f"{name} is missing in the dump: {message}")
    return {
        "format": FORMAT,
        "formatVersion": FORMAT_VERSION,
        "time": began.isoformat(timespec="seconds").replace("+00:00", "Z"),
        "scheduler": {"version": str(server["version"])},
        "anonymized": anonymize,
        "missing": sorted(reader.missing),
        **found,
    }


class _Progress:
    """Reports the number of objects read to standard error while a dump takes long."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._next = time.monotonic() + REPORT_INTERVAL

    def __call__(self, section: str, number: int) -> None:
        if time.monotonic() >= self._next:
            self._session.err.print(f"{section}: {number} read")
            self._next = time.monotonic() + REPORT_INTERVAL


Read = TypeVar("Read")


class Section(NamedTuple):
    """`optional`: the API has the list only under some policies; without the list the section is empty."""

    name: str
    path: str
    fields: Fields
    optional: bool = False
    wanted: Callable[[Json], bool] = lambda item: True


SECTIONS = (
    Section("agents", "/agents", dump_fields.AGENT),
    Section("queues", "/queues", dump_fields.QUEUE),
    Section("queueTree", "/queuetree/queues", dump_fields.TREE_QUEUE, optional=True),
    Section("priorityClasses", "/priorityclasses", dump_fields.PRIORITY_CLASS),
    Section("applications", "/applications", dump_fields.APPLICATION),
    Section("demands", "/demands", DEMAND, optional=True),
    Section("deployments", "/deployments", dump_fields.DEPLOYMENT),
    Section("daemonsets", "/daemonsets", dump_fields.DAEMONSET),
    Section("taskgroups", "/taskgroups", dump_fields.TASKGROUP),
    Section("transactions", "/transactions", dump_fields.TRANSACTION, wanted=lambda one: not one["finishTime"]),
)
"""The lists over all namespaces; namespaces and pod groups are read beside them."""
EVENTS = Section("events", "/events", dump_fields.EVENT)


def _default_of(trees: list[Json]) -> Json:
    """The only tree, or that of the partition `default`; empty: there is none."""
    if len(trees) == 1:
        return trees[0]
    return next((tree for tree in trees if tree.get("partition") == "default"), {})


class Reader:
    """Reads the sections of one dump."""

    def __init__(self, client: Client, hide: Hide, *, partial: bool, seen: Callable[[str, int], None]) -> None:
        """`partial`: a section that cannot be read is left out and named in `missing`. `seen` gets the section and the
        number of its objects so far, after each object."""
        self._client, self._hide, self._partial, self._seen = client, hide, partial, seen
        self.missing: dict[str, str] = {}
        """The reasons of the sections that could not be read."""

    def sections(self, *, events: bool) -> Json:
        """All sections by name. Raises CliError, which names the section."""
        found: Json = {"cluster": self._attempted("cluster", lambda: {"halt": self._halt()})}
        namespaces = self._attempted("namespaces", lambda: list(self._client.dumped("/namespaces")))
        if namespaces is not None:
            found["namespaces"] = self._shaped("namespaces", namespaces, dump_fields.NAMESPACE)
            found["podGroups"] = self._attempted("podGroups", lambda: self._pod_groups(namespaces))
        else:
            self.missing["podGroups"] = "the namespaces could not be read"
        trees = self._attempted("queueTreeDocument", self._trees)
        found["queueTreeDocument"] = None if trees is None else _default_of(trees)
        if trees is not None and len(trees) > 1:
            found["queueTreeDocuments"] = trees
        for section in (*SECTIONS, *((EVENTS,) if events else ())):
            found[section.name] = self._attempted(section.name, partial(self._list, section))
        return {name: value for name, value in found.items() if name not in self.missing}

    def _halt(self) -> Json:
        return shaped(self._client.halt(), dump_fields.HALT, self._hide)

    def _trees(self) -> list[Json]:
        """The stored trees of queues of all partitions, or those of the settings; none under other policies."""
        try:
            parts = self._client.partitions()
        except NotFound:
            return []
        names = [part["name"] for part in parts if part["policy"] == "hierarchical"]
        return [shaped(self._client.queue_tree(name), TREE, self._hide) for name in names]

    def _pod_groups(self, namespaces: Iterable[Json]) -> list[Json]:
        """Those of namespaces with applications. Pod groups can be listed by namespace only."""
        holders = [one["metadata"]["name"] for one in namespaces if one["status"]["contents"].get("applications")]
        groups = (group for name in holders for group in self._client.objects("PodGroup", name))
        return self._shaped("podGroups", groups, dump_fields.POD_GROUP)

    def _list(self, section: Section) -> list[Json]:
        wanted = filter(section.wanted, self._client.dumped(section.path))
        try:
            return self._shaped(section.name, wanted, section.fields)
        except NotFound:
            if section.optional:
                return []
            raise

    def _shaped(self, name: str, items: Iterable[Json], wanted: Fields) -> list[Json]:
        return list(self._counted(name, (shaped(item, wanted, self._hide) for item in items)))

    def _counted(self, name: str, items: Iterator[Json]) -> Iterator[Json]:
        for number, item in enumerate(items, 1):
            self._seen(name, number)
            yield item

    def _attempted(self, name: str, read: Callable[[], Read]) -> Read | None:
        """The result; None if the section is left out. An unreachable server ends every dump."""
        try:
            return read()
        except (Unreachable, TimedOut) as error:
            raise type(error)(f"{name} cannot be read: {error.message}", reason=error.reason) from None
        except CliError as error:
            if not self._partial:
                message = f"{name} cannot be read: {error.message} (--partial leaves such parts out)"
                raise type(error)(message, error.problems, reason=error.reason) from None
            self.missing[name] = error.message
        except (KeyError, TypeError, ValueError) as error:
            text = f"{name}: the answer of the server has an unexpected form: {type(error).__name__}: {error}"
            if not self._partial:
                raise CliError(text) from None
            self.missing[name] = text
        return None


PUBLIC = frozenset({"", "root", "default"})
"""Names that the scheduler gives itself to queues and namespaces. They are shown."""
DIGEST = 8
"""Bytes of a pseudonym: two of a million names are equal with a probability below 1 in 10 million."""


class Pseudonyms:
    """The key is random and is never written, so that no one can test a guessed name against a dump."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: dict[str, str] = {}

    def __call__(self, name: str) -> str:
        found = self._known.get(name)
        if found is None:
            digest = blake2b(name.encode(), key=self._key, digest_size=DIGEST).hexdigest()
            found = self._known[name] = name if name in PUBLIC else f"n{digest}"
        return found


COMPRESSION = 5
"""Level of gzip: a tenth larger than with the highest level, in a third of the time."""


def check_place(file: Path) -> None:
    """Raises UsageError if the file cannot be made there, before the cluster is read."""
    if file.is_dir():
        raise UsageError(f"{file}: is a directory")
    if not file.parent.is_dir():
        raise UsageError(f"{file}: the directory {file.parent} does not exist")
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise UsageError(f"{file}: the directory {file.parent} is not writable")


def write_dump(file: Path, document: dict[str, Any]) -> int:
    """Writes the file with mode 0600, compressed if the name ends in ``.gz``; returns its bytes. A present file is
    replaced. Raises CliError; a present file is then unchanged."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # with mode 0600
        fresh = Path(name)
        try:
            with os.fdopen(handle, "wb") as raw:
                if file.name.endswith(".gz"):
                    with gzip.GzipFile("", "wb", COMPRESSION, raw) as packed:
                        _write(cast(BinaryIO, packed), document)
                else:
                    _write(raw, document)
                raw.flush()
                os.fsync(raw.fileno())
            os.replace(fresh, file)
        finally:
            fresh.unlink(missing_ok=True)
        return file.stat().st_size
    except OSError as error:
        raise CliError(f"{file}: cannot be written: {error.strerror or error}") from None


def _write(file: BinaryIO, document: dict[str, Any]) -> None:
    for piece in pieces(document):
        file.write(piece.encode())


def pieces(document: dict[str, Any]) -> Iterator[str]:
    """The text of a document in parts: one line for each value, and for each object of a list."""
    start = "{\n"
    for key, value in document.items():
        yield f"{start}{json.dumps(key)}: "
        start = ",\n"
        if isinstance(value, list) and value:
            yield "[\n"
            for number, item in enumerate(value):
                yield (",\n" if number else "") + _json(item)
            yield "\n]"
        else:
            yield _json(value)
    yield "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
