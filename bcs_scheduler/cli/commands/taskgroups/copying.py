"""`bcs cp`: copies files and folders into taskgroups, or out of a taskgroup.

Small files travel as messages, which reach all taskgroups of an application; folders and large files go through a
session (archives.py). Files of a sandbox are read through the agent, also when the taskgroup has ended.
"""

from __future__ import annotations

import os
import stat
import sys
from base64 import b64encode
from pathlib import Path
from typing import IO, NamedTuple, cast

import click

from bcs_scheduler.cli.client.lookup import Target, find_message_target, find_target
from bcs_scheduler.cli.client.session_line import NoSessions, SessionLine
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.arguments import places
from bcs_scheduler.cli.commands.taskgroups.archives import Open, fetch, put_file, put_folder
from bcs_scheduler.cli.commands.taskgroups.messages import finish, no_wait_option, send
from bcs_scheduler.cli.errors import CliError, NotFound, UsageError
from bcs_scheduler.cli.options import connection_options, examples, pass_session, reporting
from bcs_scheduler.cli.output.text import counted
from bcs_scheduler.cli.session import Session

LARGEST = 200 * 1024
"""Bytes of a file that is copied as a message. The file is stored with its command."""


class Place(NamedTuple):
    """A path in a taskgroup; `target` empty = a path on this machine."""

    target: str
    path: str


@click.command(
    "cp",
    epilog=examples(
        "bcs cp page.html web-0:page.html",
        "bcs cp site/ web-0:site",
        "bcs cp web-0:/var/log/app logs",
        "bcs cp web-0:stdout -",
    ),
)
@click.argument("source", metavar="SRC", shell_complete=places)
@click.argument("destination", metavar="DST", shell_complete=places)
@click.option(
    "-t",
    "--task",
    default="",
    metavar="TASK",
    help="Task whose directory holds the file; needed if there are several tasks.",
)
@click.option("--owner", default="", metavar="USER", help="Owner of the file in the taskgroup.")
@no_wait_option
@connection_options
@pass_session
@reporting
def copy(session: Session, source: str, destination: str, task: str, owner: str, no_wait: bool) -> None:
    """Copy a file or folder from SRC to DST. One of them is TASKGROUP:PATH, the other a local path or - (standard
    input or output).

    A relative PATH starts in the directory of the task. Files keep their permissions. If DST is a folder, SRC is
    copied into the folder. APPLICATION:PATH copies a file of at most 200 KiB to all taskgroups. Folders and larger
    files need the programs sh and tar in the taskgroup. A copy from a taskgroup skips symbolic links.
    """
    given, wanted = parse(source), parse(destination)
    if bool(given.target) == bool(wanted.target):
        raise UsageError("one of SRC and DST must be TASKGROUP:PATH, the other a local path or -")
    if given.target:
        _fetch(session, given, wanted.path, task)
    else:
        _put(session, given.path, wanted, owner, no_wait, task)


def parse(text: str) -> Place:
    """A colon before the first slash separates taskgroup and path, as in scp."""
    head, colon, path = text.partition(":")
    if colon and head and "/" not in head:
        return Place(head, path)
    return Place("", text)


def _put(session: Session, source: str, wanted: Place, owner: str, no_wait: bool, task: str) -> None:
    found = find_message_target(session.client, session.namespace, wanted.target)
    if source != "-" and Path(source).is_dir():
        size = put_folder(_opener(session, found, task, owner), Path(source), wanted.path or ".")
        session.report("folder", Path(source).resolve().name, "written", f"{size} bytes", path=wanted.path, size=size)
        return
    data, mode, name = _read(source)
    path = f"{wanted.path}{name}" if wanted.path.endswith("/") or not wanted.path else wanted.path
    if not path or path.endswith("/"):
        raise UsageError("standard input needs a file name in DST: TASKGROUP:PATH")
    if len(data) > LARGEST:
        _put_large(_opener(session, found, task, owner), session, source, data, mode, name, path)
        return
    content = {"to": path, "user": owner, "mode": mode, "ctx": b64encode(data).decode("ascii")}
    finish(session, found, send(session, found, "local", content), f"{path} written", wait=not no_wait)


def _put_large(opener: Open, session: Session, source: str, begun: bytes, mode: int, name: str, path: str) -> None:
    """`begun`: the bytes that have been read from standard input already."""
    try:
        if source == "-":
            rest = cast(IO[bytes], _Chained(begun, sys.stdin.buffer))
            size = put_file(opener, rest, name, mode, None, path)
        else:
            with Path(source).open("rb") as file:
                size = put_file(opener, file, name, mode, os.fstat(file.fileno()).st_size, path)
    except OSError as error:
        raise CliError(f"{source}: {(error.strerror or str(error)).lower()}") from None
    session.report("file", path, "written", f"{size} bytes", path=path, size=size)


class _Chained:
    """The bytes that were read already, then the rest of the stream."""

    def __init__(self, begun: bytes, rest: IO[bytes]) -> None:
        self._begun, self._rest = begun, rest

    def read(self, size: int) -> bytes:
        found, self._begun = self._begun[:size], self._begun[size:]
        return found or self._rest.read(size)


def _opener(session: Session, found: Target, task: str, owner: str = "") -> Open:
    """Begins copies in the one running taskgroup. Raises UsageError, NotFound."""
    if owner:
        raise UsageError(f"--owner is possible for a file of at most {LARGEST} bytes only")
    running = [group for group in found.taskgroups if group["Status"] == "Running"]
    if not running:
        raise NotFound(f"{found.title} has no running taskgroup")
    if len(running) > 1:
        raise UsageError(f"{found.title} has {len(running)} taskgroups; give one of them, such as {found.name}-0")

    def begin(document: Json) -> SessionLine:
        return session.client.session(running[0]["ID"], "copy", {"copy": document}, task=task)

    return begin


def _read(source: str) -> tuple[bytes, int, str]:
    """Content (of a large file only the first LARGEST bytes and one more), permissions, base name. Raises
    UsageError."""
    try:
        if source == "-":
            return sys.stdin.buffer.read(LARGEST + 1), 0o644, ""
        with Path(source).open("rb") as file:
            mode, name = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o777, Path(source).name
            return file.read(LARGEST + 1), mode, name
    except OSError as error:
        raise UsageError(f"{source}: {(error.strerror or str(error)).lower()}") from None


def _fetch(session: Session, given: Place, destination: str, task: str) -> None:
    if not given.path:
        raise UsageError("give the path of a file: TASKGROUP:PATH")
    found = find_target(session.client, session.namespace, given.target)
    if not found.one and len(found.taskgroups) != 1:
        raise UsageError(
            f"{given.target} has {counted(len(found.taskgroups), 'taskgroup')}; "
            f"give one of them, such as {given.target}-0"
        )
    if not found.taskgroups:
        raise NotFound(f"{found.title} has no taskgroups")
    try:
        size, chunks = session.client.download(found.taskgroups[0]["ID"], given.path, task=task)
    except CliError as error:
        if destination == "-" or error.reason not in ("bad_parameter", "not_found"):
            raise
        _fetch_by_session(session, found, given, destination, task, error)
        return
    if destination == "-":
        copied = 0
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
            copied += len(chunk)
        sys.stdout.buffer.flush()
        _whole(given, copied, size)
        return
    path = Path(destination)
    path = path / Path(given.path).name if path.is_dir() else path
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            copied = sum(file.write(chunk) for chunk in chunks)
        _whole(given, copied, size)
        unfinished.replace(path)
    except OSError as error:
        raise CliError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    finally:
        unfinished.unlink(missing_ok=True)
    session.report("file", path.name, "written", f"{copied} bytes", path=str(path), size=copied)


def _fetch_by_session(
    session: Session, found: Target, given: Place, destination: str, task: str, refusal: CliError
) -> None:
    """A folder, or a path outside of the sandbox. `refusal`: why the agent does not give the file by itself; it is
    raised where there can be no session."""
    if all(group["Status"] != "Running" for group in found.taskgroups):
        raise refusal
    try:
        size = fetch(_opener(session, found, task), given.path, Path(destination), session.warn)
    except NoSessions:
        raise refusal from None
    session.report("folder", given.path, "written", f"{size} bytes", path=destination, size=size)


def _whole(given: Place, copied: int, size: int) -> None:
    if copied != size:
        raise CliError(f"{given.path}: the transfer was interrupted after {copied} of {size} bytes")
