"""Files into containers: through the archive of the engine, which also works between creation and start, when no
command can be run in it."""

from __future__ import annotations

import io
import posixpath
import tarfile
import time

from ..runtime import TaskError
from .engine import Engine, NotFound
from .translate import SANDBOX

PASSWD, GROUP = "/etc/passwd", "/etc/group"


def put(engine: Engine, container: str, path: str, data: bytes, mode: int, owner: str) -> None:
    """`path`: relative to the sandbox unless absolute; missing directories are made. `owner`: `user`, `user:group`,
    names of the image or numbers. Raises TaskError."""
    whole = posixpath.normpath(posixpath.join(SANDBOX, path))
    if whole == "/":
        raise TaskError("a file needs a path")
    uid, gid = _ids(engine, container, owner)
    content = _tar(whole.lstrip("/"), data, mode, uid, gid)
    query = {"path": "/", "noOverwriteDirNonDir": "true"}
    engine.call("PUT", f"/containers/{container}/archive", query, content)


def _tar(name: str, data: bytes, mode: int, uid: int, gid: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.uid, entry.gid, entry.mtime = len(data), mode, uid, gid, int(time.time())
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _ids(engine: Engine, container: str, owner: str) -> tuple[int, int]:
    user, colon, group = owner.partition(":")
    uid = gid = 0
    if user.isdigit():
        uid = gid = int(user)
    elif user and user != "root":
        uid, gid = _entry(engine, container, PASSWD, user, 4)
    if colon and group.isdigit():
        gid = int(group)
    elif colon and group:
        gid, _ = _entry(engine, container, GROUP, group, 3)
    return uid, gid


def _entry(engine: Engine, container: str, path: str, name: str, columns: int) -> tuple[int, int]:
    """The third column of `name`'s line in a file like /etc/passwd, and the fourth, if it has `columns`."""
    for line in _get(engine, container, path).decode(errors="replace").splitlines():
        fields = line.split(":")
        if fields[0] == name and len(fields) >= columns and all(field.isdigit() for field in fields[2:columns]):
            return int(fields[2]), int(fields[columns - 1])
    raise TaskError(f"the image knows no {name!r} in {path}")


def _get(engine: Engine, container: str, path: str) -> bytes:
    """A small file of the container; empty if it has none."""
    try:
        found = engine.call("GET", f"/containers/{container}/archive", {"path": path})
    except NotFound:
        return b""
    try:
        with tarfile.open(fileobj=io.BytesIO(found)) as archive:
            for entry in archive:
                content = archive.extractfile(entry)
                if content is not None:
                    return content.read()
    except (tarfile.TarError, TypeError):
        return b""
    return b""
