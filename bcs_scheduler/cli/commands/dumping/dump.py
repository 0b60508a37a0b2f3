"""`bcs dump`: the state of the cluster in one file, for analysis elsewhere and for simulations."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import click

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.dumping.pseudonyms import Pseudonyms
from bcs_scheduler.cli.commands.dumping.reading import Reader
from bcs_scheduler.cli.commands.dumping.writing import check_place, write_dump
from bcs_scheduler.cli.options import FILE, connection_options, examples, pass_session
from bcs_scheduler.cli.session import Session

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
