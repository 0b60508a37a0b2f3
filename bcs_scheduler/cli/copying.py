"""`bcs cp`: a file into taskgroups, or out of the sandbox of one."""

from __future__ import annotations

import os
import stat
import sys
from base64 import b64encode
from pathlib import Path
from typing import NamedTuple

import click

from bcs_scheduler.cli.errors import CliError, NotFound, UsageError
from bcs_scheduler.cli.lookup import find_message_target, find_target
from bcs_scheduler.cli.messages import finish, no_wait_option, send
from bcs_scheduler.cli.options import Session, connection_options, pass_session, reporting

LARGEST = 200 * 1024
"""Bytes of a file on its way in: it is stored with its command until that is forgotten."""


class Place(NamedTuple):
    """`target` empty = on this machine."""

    target: str
    path: str


@click.command("cp")
@click.argument("source", metavar="SRC")
@click.argument("destination", metavar="DST")
@click.option("-t", "--task", default="", metavar="TASK", help="Out of this task's folder; not needed if there is one.")
@click.option("--owner", default="", metavar="USER", help="Whom the file belongs to in the taskgroup.")
@no_wait_option
@connection_options
@pass_session
@reporting
def copy(session: Session, source: str, destination: str, task: str, owner: str, no_wait: bool) -> None:
    """Copy a file: SRC and DST are a path, - for standard input or output, or TASKGROUP:PATH.

    A relative PATH is in the task's folder. In: also to all of an application (APPLICATION:PATH), up to 200 KiB, with
    the file's rights. Out: of the sandbox of one taskgroup, of any size.
    """
    given, wanted = parse(source), parse(destination)
    if bool(given.target) == bool(wanted.target):
        raise UsageError("one of SRC and DST must be TASKGROUP:PATH, the other a path or -")
    if given.target:
        _fetch(session, given, wanted.path, task)
    else:
        _put(session, given.path, wanted, owner, no_wait)


def parse(text: str) -> Place:
    """A colon before the first slash divides taskgroup and path, as in scp."""
    head, colon, path = text.partition(":")
    if colon and head and "/" not in head:
        return Place(head, path)
    return Place("", text)


def _put(session: Session, source: str, wanted: Place, owner: str, no_wait: bool) -> None:
    data, mode, name = _read(source)
    path = f"{wanted.path}{name}" if wanted.path.endswith("/") or not wanted.path else wanted.path
    if not path or path.endswith("/"):
        raise UsageError("standard input needs the name of a file: TASKGROUP:PATH")
    found = find_message_target(session.client, session.namespace, wanted.target)
    content = {"to": path, "user": owner, "mode": mode, "ctx": b64encode(data).decode("ascii")}
    finish(session, found, send(session, found, "local", content), f"{path} written", wait=not no_wait)


def _read(source: str) -> tuple[bytes, int, str]:
    """Content, rights, base name. Raises UsageError."""
    try:
        if source == "-":
            data, mode, name = sys.stdin.buffer.read(LARGEST + 1), 0o644, ""
        else:
            with Path(source).open("rb") as file:
                mode, name = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o777, Path(source).name
                data = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{source}: {(error.strerror or str(error)).lower()}") from None
    if len(data) > LARGEST:
        raise UsageError(f"{source}: has more than {LARGEST} bytes; let taskgroups fetch it by a uri or a remote file")
    return data, mode, name


def _fetch(session: Session, given: Place, destination: str, task: str) -> None:
    if not given.path:
        raise UsageError("name a file: TASKGROUP:PATH")
    found = find_target(session.client, session.namespace, given.target)
    if not found.one and len(found.taskgroups) != 1:
        raise UsageError(f"{given.target} has {len(found.taskgroups)} taskgroups; name one, e.g. {given.target}-0")
    if not found.taskgroups:
        raise NotFound(f"{found.title} has no taskgroups")
    size, chunks = session.client.download(found.taskgroups[0]["ID"], given.path, task=task)
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


def _whole(given: Place, copied: int, size: int) -> None:
    if copied != size:
        raise CliError(f"{given.path}: the transfer broke off after {copied} of {size} bytes")
