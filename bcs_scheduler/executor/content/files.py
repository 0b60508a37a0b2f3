"""Files and variables that come with a task or with a message. Their content never shows up in an error."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import tempfile
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ..model import File, RemoteVariable
from ..run import Identity, identity
from ..runtime import TaskError
from . import fetch
from .addresses import cause
from .secrets import Secrets

FETCH_TIMEOUT = 120.0
"""Seconds for one file or variable."""
FILE_LIMIT = 16 * 1024 * 1024
"""Bytes of one file that is fetched to be written whole."""
VARIABLE_LIMIT = 128 * 1024 - 1
"""Bytes of `NAME=value`: Linux's MAX_ARG_STRLEN (32 pages) without the closing NUL."""
VARIABLES_LIMIT = 1024 * 1024
"""Bytes of all remote variables of a task together: execve takes about 2 MB of arguments and environment."""


def variables(remote: Sequence[RemoteVariable], stopping: threading.Event | None = None) -> dict[str, str]:
    """Returns the contents at the URLs as environment. Each content is unchanged, except that a line end at its end is
    removed.

    Raises TaskError.
    """
    found: dict[str, str] = {}
    left = VARIABLES_LIMIT
    for variable in remote:
        limit = min(left, VARIABLE_LIMIT - len(variable.name.encode()) - 1)
        content = fetch.download(variable.url, variable.user, variable.password, FETCH_TIMEOUT, limit, stopping)
        left -= len(content)
        found[variable.name] = _text(variable.name, content)
    return found


def _text(name: str, content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise TaskError(f"variable {name}: the content of its URL is not UTF-8") from None
    if "\0" in text:
        raise TaskError(f"variable {name}: the content of its URL contains a NUL")
    return text[:-2] if text.endswith("\r\n") else text[:-1] if text.endswith("\n") else text


def place(
    files: Sequence[File],
    directory: Path,
    default_owner: str,
    secrets: Secrets,
    stopping: threading.Event | None = None,
) -> None:
    """Writes the files of a task of processes. Raises TaskError."""
    for file in files:
        path, data = inside(file.path, directory), content(file, stopping)
        kept = secrets if file.secret else None
        write(path, data, file.mode, file.owner or default_owner, within=directory, secrets=kept)


def content(file: File, stopping: threading.Event | None) -> bytes:
    if file.url:
        return fetch.download(file.url, file.user, file.password, FETCH_TIMEOUT, FILE_LIMIT, stopping)
    try:
        return base64.b64decode(file.data, validate=True)
    except (binascii.Error, ValueError):
        raise TaskError(f"file {file.path}: its content is not base64") from None


def inside(path: str, directory: Path) -> Path:
    """Returns the place of `path` of a document below `directory`, the one of the task in the sandbox. An absolute path
    begins there, too, unless it is one in the sandbox (`${work_base_dir}`): a file is gone with its sandbox.

    Raises TaskError for a path that leads out of there, by itself or through a link that the task has made.
    """
    if not path or "\0" in path or path.endswith("/"):
        raise TaskError(f"file {path!r}: not the name of a file")
    sandbox = directory.parents[1]
    own = os.path.isabs(path) and sandbox in Path(path).parents
    full = Path(path) if own else directory / path.lstrip("/")
    home, parent = os.path.realpath(sandbox if own else directory), os.path.realpath(full.parent)
    if full.name == ".." or os.path.commonpath([home, parent]) != home:
        raise TaskError(f"file {path}: leads out of the task's directory")
    return full


def write(
    path: Path, data: bytes, mode: int, owner: str, within: Path | None = None, secrets: Secrets | None = None
) -> None:
    """Writes a file, whole or not at all, with mode and owner from the first moment on.

    Missing parent directories are created when they are below `within`. With `secrets`, the content is put there, and
    `path` becomes a link to it. Raises TaskError.
    """
    who = identity(owner) if owner else None
    temporary = ""
    try:
        if within is not None and within in path.parents:
            _parents(path.parent, who)
        handle, temporary = tempfile.mkstemp(prefix=".bcs-", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            if secrets is None:
                file.write(data)
                file.flush()
                set_owner_and_mode(handle, who, mode)
        if secrets is not None:
            os.unlink(temporary)
            os.symlink(secrets.put(data, partial(set_owner_and_mode, who=who, mode=mode)), temporary)
        os.rename(temporary, path)
    except OSError as error:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        reason = "its directory does not exist" if isinstance(error, FileNotFoundError) else cause(error)
        raise TaskError(f"file {path}: cannot be written: {reason}") from None


def set_owner_and_mode(handle: int, who: Identity | None, mode: int) -> None:
    """Sets both of an open file. Raises OSError."""
    if who is not None and not who.own:
        os.fchown(handle, who.uid, who.gid)
    os.fchmod(handle, mode & 0o7777)  # after chown, which clears the set-user-id bits


def _parents(directory: Path, who: Identity | None) -> None:
    """Creates the missing ones, each owned as the file will be."""
    missing = [directory] if not directory.exists() else []
    while missing and not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        if who is not None and not who.own:
            os.chown(path, who.uid, who.gid)
