"""Fetching of the files that a task needs: http, https, file:// and absolute paths. Nothing half-fetched keeps its
name.

Credentials go to the host they were given for and to no other, and never into a message. Proxies of the environment are
not used. Modules that only downloads need are imported with the first download: most executors never download.
"""

from __future__ import annotations

import base64
import contextlib
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from .. import threads
from ..model import Uri
from ..run import Identity, identity
from ..runtime import TaskError
from . import unpack
from .addresses import SLICE, Abandoned, cause, connect, safe

if TYPE_CHECKING:
    import http.client
    import socket

CHUNK = 256 * 1024
URI_TIMEOUT = 3600.0
"""Seconds for one URI: archives may be big; a task that is stopped does not wait for it."""
SILENCE = 60.0
"""Seconds without a byte after which a server is given up."""
REDIRECTS = 10
REDIRECTED = (301, 302, 303, 307, 308)
URL_CHARACTERS = "%/:=&?~+!$,;'@()*[]"
"""Characters that are not escaped in a URL before it is requested (RFC 3986, reserved characters and existing
escapes)."""

Sink = Callable[[bytes], object]


def fetch_all(uris: Sequence[Uri], directory: Path, stopping: threading.Event, owner: str = "") -> None:
    """Fetches one after the other into `directory`, unpacks archives, hands all of it to `owner`. Raises TaskError."""
    who = identity(owner)
    for uri in uris:
        try:
            _fetch(uri, directory, stopping, who)
        except OSError as error:
            raise TaskError(f"URI {safe(uri.value)}: {cause(error)}") from None


def _fetch(uri: Uri, directory: Path, stopping: threading.Event, who: Identity) -> None:
    target = _target(uri, directory)
    unpacking = uri.extract and not uri.executable and unpack.is_archive(_name(uri))
    home = target if unpacking else target.parent
    if not home.exists():
        home.mkdir(parents=True)
        _own(home, who)
    # Beside its final place, so that moving it there is a rename.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=home) as work:
        path = Path(work) / "content"
        with path.open("wb") as file:
            _transfer(uri.value, uri.user, uri.password, URI_TIMEOUT, file.write, stopping)
        if unpacking:
            tree = Path(work) / "tree"
            try:
                unpack.unpack(path, _name(uri), tree, stopping)
            except unpack.ArchiveError as error:
                raise TaskError(f"URI {safe(uri.value)}: {error}") from None
            _own(tree, who)
            unpack.merge(tree, home)
        else:
            path.chmod(0o755 if uri.executable else 0o644)
            _own(path, who)
            os.rename(path, target)


def _name(uri: Uri) -> str:
    """The file name by which it is decided whether this is an archive: that of the output if it has one."""
    given = os.path.basename(uri.output)
    return given if unpack.is_archive(given) else os.path.basename(_path(uri.value))


def _path(value: str) -> str:
    if value.startswith("/"):
        return value
    try:
        return unquote(urlsplit(value).path)
    except ValueError:
        raise TaskError(f"URI {safe(value)}: not a URL") from None


def _target(uri: Uri, directory: Path) -> Path:
    """The file to write, or the directory to unpack into.

    `output` names a directory if it ends with a slash, is one, or if an archive is unpacked and it has no archive's
    name; otherwise the file. Absolute outputs are taken as they are.
    """
    if not os.path.isabs(uri.output) and ".." in Path(uri.output).parts:
        raise TaskError(f"URI {safe(uri.value)}: output {uri.output!r} leads out of the task's directory")
    target = directory / uri.output
    if uri.extract and not uri.executable and unpack.is_archive(_name(uri)):
        return target.parent if unpack.is_archive(os.path.basename(uri.output)) else target
    if not uri.output or uri.output.endswith("/") or target.is_dir():
        name = os.path.basename(_path(uri.value))
        if name in ("", ".", ".."):
            raise TaskError(f"URI {safe(uri.value)}: names no file, and there is no output")
        return target / name
    return target


def _own(path: Path, who: Identity) -> None:
    if who.own:
        return
    os.chown(path, who.uid, who.gid, follow_symlinks=False)
    for parent, directories, files in os.walk(path):
        for name in directories + files:
            os.chown(os.path.join(parent, name), who.uid, who.gid, follow_symlinks=False)


def download(
    url: str, user: str, password: str, timeout: float, limit_bytes: int, stopping: threading.Event | None = None
) -> bytes:
    """Returns the content at `url`. Raises TaskError, also when the content has more than `limit_bytes` bytes."""
    found = bytearray()

    def take(data: bytes) -> None:
        if len(found) + len(data) > limit_bytes:
            raise TaskError(f"URI {safe(url)}: more than {limit_bytes} bytes")
        found.extend(data)

    try:
        _transfer(url, user, password, timeout, take, stopping or threading.Event())
    except OSError as error:
        raise TaskError(f"URI {safe(url)}: {cause(error)}") from None
    return bytes(found)


def _transfer(url: str, user: str, password: str, timeout: float, sink: Sink, stopping: threading.Event) -> None:
    """Hands the content to `sink` in pieces. Raises TaskError and OSError."""
    if url.startswith(("/", "file://")):
        _copy(_path(url), sink, stopping)
    elif url.startswith(("http://", "https://")):
        _request(url, user, password, time.monotonic() + timeout, sink, stopping)
    else:
        raise TaskError(f"URI {safe(url)}: only http, https, file and absolute paths can be fetched")


def _copy(path: str, sink: Sink, stopping: threading.Event) -> None:
    # Not blocking, because opening a pipe would wait for a writer.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise TaskError(f"URI {path}: not a regular file")
        while True:
            data = file.read(CHUNK)
            if not data:
                return
            if stopping.is_set():
                raise Abandoned
            sink(data)


def _request(url: str, user: str, password: str, deadline: float, sink: Sink, stopping: threading.Event) -> None:
    import http.client

    try:
        first = urlsplit(url)
        _origin(first)
    except ValueError:
        raise TaskError(f"URI {safe(url)}: not a URL") from None
    if not user and first.username:
        user, password = unquote(first.username), unquote(first.password or "")
    authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode() if user else ""
    where = url
    for _ in range(REDIRECTS + 1):
        try:
            parts = urlsplit(where)
            trusted = _origin(parts) == _origin(first)
            with _answer(parts, authorization if trusted else "", deadline, stopping) as answer:
                if answer.status not in REDIRECTED:
                    _body(answer, url, sink, deadline)
                    return
                where = urljoin(where, answer.headers.get("Location", ""))
        except http.client.IncompleteRead:
            raise ConnectionError("truncated") from None
        except OSError:
            raise  # a certificate that is refused is a ValueError too
        except (http.client.HTTPException, ValueError) as error:
            # The text of the error may quote one line of the server's answer at most, and nothing of the request.
            raise TaskError(f"URI {safe(url)}: unusable answer: {type(error).__name__}") from None
        if urlsplit(where).scheme not in ("http", "https"):
            raise TaskError(f"URI {safe(url)}: redirected to {safe(where)}, which is not followed")
    raise TaskError(f"URI {safe(url)}: redirected more than {REDIRECTS} times")


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


@contextlib.contextmanager
def _answer(
    parts: SplitResult, authorization: str, deadline: float, stopping: threading.Event
) -> Iterator[http.client.HTTPResponse]:
    """The answer to a GET; its connection is cut at the deadline or when the task is stopped."""
    import http.client

    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    connection = http.client.HTTPConnection(host, port)
    headers = {"Accept-Encoding": "identity", "User-Agent": "bcs-executor", "Connection": "close"}
    if authorization:
        headers["Authorization"] = authorization
    plain = connect(host, port, deadline, stopping)
    with _Cut(plain, deadline, stopping) as cut:
        try:
            connection.sock = _secured(plain, host) if parts.scheme == "https" else plain
            connection.sock.settimeout(SILENCE)
            path = quote((parts.path or "/") + ("?" + parts.query if parts.query else ""), safe=URL_CHARACTERS)
            connection.request("GET", path, headers={"Host": parts.netloc.rpartition("@")[2], **headers})
            yield connection.getresponse()
        except (OSError, http.client.HTTPException, ValueError):
            cut.explain()
            raise
        else:
            cut.explain()  # without a length, the end of the connection looks like a complete answer
        finally:
            connection.close()


def _secured(plain: socket.socket, host: str) -> socket.socket:
    import ssl

    return ssl.create_default_context().wrap_socket(plain, server_hostname=host)


class _Cut:
    """Ends all waits on a connection when the task is stopped or the deadline is over."""

    def __init__(self, connection: socket.socket, deadline: float, stopping: threading.Event) -> None:
        self._connection = connection.dup()  # its own handle, valid until this is done
        self._deadline = deadline
        self._stopping = stopping
        self._reason: OSError | None = None
        self._done = threading.Event()
        self._thread = threads.ending("download", self._watch)

    def _watch(self) -> None:
        while not self._done.wait(SLICE):
            if self._stopping.is_set() or time.monotonic() > self._deadline:
                self._reason = Abandoned() if self._stopping.is_set() else TimeoutError("took too long")
                with contextlib.suppress(OSError):
                    self._connection.shutdown(2)  # both directions
                return

    def explain(self) -> None:
        """Raises the reason if this object has ended the connection."""
        if self._reason is not None:
            raise self._reason from None

    def __enter__(self) -> _Cut:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._connection.close()


def _body(answer: http.client.HTTPResponse, url: str, sink: Sink, deadline: float) -> None:
    if answer.status != 200:
        raise TaskError(f"URI {safe(url)}: {answer.status} {answer.reason}".rstrip())
    expected = answer.length
    received = 0
    while True:
        data = answer.read1(CHUNK)
        if not data:
            break
        received += len(data)
        sink(data)
        if time.monotonic() > deadline:
            raise TimeoutError("took too long")
    if expected is not None and received != expected:
        raise ConnectionError(f"truncated: {received} of {expected} bytes")
