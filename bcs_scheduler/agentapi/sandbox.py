"""Files in the sandboxes of taskgroups, read through the files API of Mesos agents.

Verified against Mesos 1.11: `/files/read` answers JSON whose `data` has the file's bytes unescaped where they are no
ASCII, so that the answer is not UTF-8 when the file is not; one answer has at most 16 pages (64 KiB); `offset=-1` asks
for the size. Paths that leave the sandbox, also by symbolic links, are refused by the agent; `..` is already here.

Exception tree:

    SandboxError
      AgentAway        the agent does not answer, or not in time
      NoSuchFile       no such file, or no sandbox (any more)
      NotReadable      the agent refuses: a directory, a link out of the sandbox, missing rights
"""

from __future__ import annotations

import json
import stat
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import requests

CONNECT_TIMEOUT, READ_TIMEOUT = 3.0, 5.0
TOTAL_TIMEOUT = 10.0
"""Seconds a whole answer may take, however slowly it trickles; downloads are only bounded piece by piece."""
PIECE = 64 * 1024
"""Bytes of a file in one answer at most: agents give no more."""
LARGEST_ANSWER = 8 * PIECE
"""Bytes: each byte of a file takes at most six in JSON."""
LARGEST_LISTING = 8 * 1024 * 1024
LONGEST_PATH = 4096


class SandboxError(Exception):
    """The message is for users."""


class AgentAway(SandboxError):
    pass


class NoSuchFile(SandboxError):
    pass


class NotReadable(SandboxError):
    pass


class Piece(NamedTuple):
    """Bytes of a file from `offset` on. `size` is the file's when it was looked at, perhaps smaller than `offset`."""

    data: bytes
    offset: int
    size: int


class Entry(NamedTuple):
    """A file or folder; `path` relative to the folder that was listed, `modified` in Unix seconds."""

    path: str
    size: int
    modified: float
    mode: int
    owner: str

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)


class Download(NamedTuple):
    size: int
    chunks: Iterator[bytes]


def relative(path: str) -> str:
    """A path within a sandbox, without `.` and doubled slashes. Raises NotReadable for one that leads out of it."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/"):
        raise NotReadable(f"{path}: only files of the sandbox can be read; name them relative to it")
    if ".." in parts or "\0" in path or len(path) > LONGEST_PATH:
        raise NotReadable(f"{path[:200]!r} is not a path within the sandbox")
    return "/".join(parts)


class Folder:
    """A folder of one executor's sandbox on one agent. Every call is one or a few requests of its own.

    Each request makes a connection. Within `with`, the requests share a connection; then one thread may use the folder.
    """

    def __init__(
        self, address: str, framework: str, executor: str, inner: str = "", patience: float | None = None
    ) -> None:
        """`address`: host:port of the agent; `inner`: folder below the executor's sandbox. `patience`: seconds from now
        on after which no further request begins; None = no limit for all requests together."""
        self._deadline = None if patience is None else time.monotonic() + patience
        self._address = address
        self._root = f"/frameworks/{framework}/executors/{executor}/runs/latest"
        self._inner = inner
        self._shared: requests.Session | None = None
        """The session of all requests within `with`; None outside."""

    def __enter__(self) -> Folder:
        self._shared = _session()
        return self

    def __exit__(self, *_: object) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.close()

    def size(self, path: str) -> int:
        """Bytes. Raises SandboxError, as all methods do."""
        return self._offset_of(self._read(path, -1, 0), path)

    def read(self, path: str, offset: int, length: int) -> Piece:
        """At most `length` bytes from `offset` on; fewer only at the end of the file."""
        size = self.size(path)
        found = bytearray()
        while len(found) < length and offset + len(found) < size:
            wanted = min(PIECE, length - len(found), size - offset - len(found))
            data = _bytes_of(self._read(path, offset + len(found), wanted))
            found += data
            if len(data) < wanted:
                break  # it was cut off meanwhile, or another file has this name now
        return Piece(bytes(found), offset, size)

    def piece(self, path: str, offset: int, length: int) -> bytes:
        """As `read`, in one request per 64 KiB: without a look at the size of the file."""
        found = bytearray()
        while len(found) < length:
            wanted = min(PIECE, length - len(found))
            data = _bytes_of(self._read(path, offset + len(found), wanted))
            found += data
            if len(data) < wanted:
                break
        return bytes(found)

    def tail(self, path: str, lines: int, most: int) -> Piece:
        """The last lines, from the beginning of the first of them on, but not more than `most` bytes."""
        size = self.size(path)
        start, found = size, b""
        while lines and start > 0 and size - start < most and found.count(b"\n", 0, -1) < lines:
            step = min(PIECE, start, most - (size - start))
            found = self.read(path, start - step, step).data + found
            start -= step
        kept = _last_lines(found, lines)
        return Piece(kept, size - len(kept), size)

    def browse(self, path: str = "") -> list[Entry]:
        """The entries of a folder, sorted by path. Raises NoSuchFile if `path` is no folder."""
        where = self._path(path)
        listed = _json(self._get("browse", {"path": where}, LARGEST_LISTING, path))
        if not isinstance(listed, list):
            raise NotReadable(f"{path or '.'}: the agent's answer is not a listing")
        return sorted(_entry(item, where) for item in listed)

    def download(self, path: str) -> Download:
        """The whole file as it is now. The connection is closed when the chunks have been read, or are dropped."""
        response = self._open("download", {"path": self._path(path)}, path)
        length = response.headers.get("Content-Length", "")
        if not length.isdigit():
            response.close()
            raise NotReadable(f"{path}: the agent's answer has no length")
        return Download(int(length), self._chunks(response))

    # --- the wire ---------------------------------------------------------------------------------------------

    def _path(self, path: str) -> str:
        return "/".join(part for part in (self._root, self._inner, relative(path)) if part)

    def _read(self, path: str, offset: int, length: int) -> dict[str, Any]:
        query = {"path": self._path(path), "offset": offset, "length": length}
        answer = _json(self._get("read", query, LARGEST_ANSWER, path))
        if not isinstance(answer, dict):
            raise NotReadable(f"{path}: the agent's answer is invalid")
        return answer

    @staticmethod
    def _offset_of(answer: dict[str, Any], path: str) -> int:
        offset = answer.get("offset")
        if not isinstance(offset, int) or offset < 0:
            raise NotReadable(f"{path}: the agent's answer has no length")
        return offset

    def _get(self, what: str, query: dict[str, Any], limit: int, path: str) -> bytes:
        began = time.monotonic()
        if self._deadline is not None and began > self._deadline:
            raise AgentAway(f"agent {self._address} answers too slowly")
        deadline = began + TOTAL_TIMEOUT
        found = bytearray()
        response = self._open(what, query, path)
        for chunk in self._chunks(response):
            found += chunk
            if len(found) > limit:
                response.close()
                raise NotReadable(f"{path}: the agent's answer exceeds {limit} bytes")
            if time.monotonic() > deadline:
                response.close()
                raise AgentAway(f"agent {self._address} takes more than {TOTAL_TIMEOUT:g} s to answer")
        return bytes(found)

    def _open(self, what: str, query: dict[str, Any], path: str) -> requests.Response:
        import requests

        url = f"http://{self._address}/files/{what}"
        session = self._shared or _session()
        try:
            response = session.get(
                url, params=query, timeout=(CONNECT_TIMEOUT, READ_TIMEOUT), stream=True, allow_redirects=False
            )
        except requests.RequestException as error:
            raise AgentAway(f"agent {self._address} does not answer: {_reason(error)}") from error
        if response.status_code == 200:
            return response
        said = next(self._chunks(response), b"") if response.status_code == 500 else b""
        response.close()
        renamed = said.startswith(b"Failed to open file") and b"No such file" in said  # since the agent found it
        raise _refusal(404 if renamed else response.status_code, self._address, path)

    def _chunks(self, response: requests.Response) -> Iterator[bytes]:
        import requests

        try:
            yield from response.iter_content(PIECE)
        except requests.RequestException as error:
            raise AgentAway(f"agent {self._address} interrupted the connection: {_reason(error)}") from error
        finally:
            response.close()


def _session() -> requests.Session:
    # Loaded when a file is read first: it is a tenth of all that the start of a scheduler would load.
    import requests

    session = requests.Session()
    session.trust_env = False  # no proxy stands between a scheduler and its agents
    return session


def _refusal(status: int, address: str, path: str) -> SandboxError:
    shown = path or "the sandbox"
    if status == 404:
        return NoSuchFile(f"{shown} does not exist on agent {address} (any more)")
    if status in (401, 403):
        return NotReadable(f"agent {address} does not allow the scheduler to read {shown} (HTTP {status})")
    if status == 400:
        return NotReadable(f"{shown} cannot be read: the path is a folder, or leads out of the sandbox")
    return AgentAway(f"agent {address} answers HTTP {status}")


def _reason(error: requests.RequestException) -> str:
    import requests

    if isinstance(error, requests.ConnectTimeout):
        return f"no connection within {CONNECT_TIMEOUT:g} s"
    if isinstance(error, requests.Timeout):
        return f"nothing within {READ_TIMEOUT:g} s"
    return "the connection failed"


def _json(body: bytes) -> Any:
    """Read as Latin-1, in which every byte is a character: see the head of this module."""
    try:
        return json.loads(body.decode("latin-1"))
    except ValueError as error:
        raise NotReadable("the agent's answer is invalid") from error


def _bytes_of(answer: dict[str, Any]) -> bytes:
    try:
        return str(answer.get("data", "")).encode("latin-1")
    except UnicodeEncodeError as error:
        raise NotReadable("the agent's answer is invalid") from error


def _entry(item: Any, folder: str) -> Entry:
    try:
        path = str(item["path"]).encode("latin-1").decode("utf-8", "replace").removeprefix(folder).strip("/")
        return Entry(path, int(item["size"]), float(item["mtime"]), _mode(str(item["mode"])), str(item.get("uid", "")))
    except (KeyError, TypeError, ValueError) as error:
        raise NotReadable("the agent's listing is invalid") from error


def _mode(text: str) -> int:
    """From ``drwxr-x---``: type and rights, without set-id and sticky bits."""
    kind = {"d": stat.S_IFDIR, "l": stat.S_IFLNK}.get(text[:1], stat.S_IFREG)
    return kind | sum(1 << (8 - place) for place, letter in enumerate(text[1:10]) if letter != "-")


def _last_lines(data: bytes, lines: int) -> bytes:
    """A last line need not end in a line break."""
    end = len(data) - 1  # a break at the very end closes the last line and opens none
    for _ in range(lines):
        end = data.rfind(b"\n", 0, max(end, 0))
        if end < 0:
            return data
    return data[end + 1 :] if lines else b""
