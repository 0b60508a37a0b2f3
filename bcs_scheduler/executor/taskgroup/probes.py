"""One probe of a health check. The probe ends in time for every behaviour of the other side."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping

from ..content.addresses import cause, connect
from ..model import Check
from ..runtime import Runtime, TaskError

HEAD_LIMIT = 8192
"""Bytes within which the status line must end."""
BODY_LIMIT = 65536
"""Bytes of the answer read after its status line, so that the server is not cut off while it writes."""
OUTPUT_LIMIT = 4096
"""Bytes of a command's output that are kept."""
SHOWN = 200
"""Characters at the end of a command's output that are shown."""


class ProbeFailed(Exception):
    """The task is not healthy; the message names the observation."""


def probe(check: Check, runtime: Runtime) -> str:
    """Returns the answer of a healthy task. Raises ProbeFailed; ends within the check's time-out."""
    try:
        if check.type == "HTTP":
            return _http(check, runtime.address())
        if check.type == "TCP":
            connect(runtime.address(), check.port, time.monotonic() + check.timeout).close()
            return "connected"
        return _command(check, runtime)
    except socket.timeout:
        raise ProbeFailed(f"timed out after {check.timeout:g} s") from None
    except (OSError, ValueError, TaskError) as error:
        raise ProbeFailed(cause(error)) from None


def _command(check: Check, runtime: Runtime) -> str:
    argv = ("/bin/sh", "-c", check.command)
    output = runtime.execute(argv, env={}, timeout=check.timeout, limit=OUTPUT_LIMIT)
    if output.code == 0 and not output.timed_out:
        return "exit code 0"
    seen = f"timed out after {check.timeout:g} s" if output.timed_out else f"exit code {output.code}"
    said = (output.stdout + output.stderr).decode(errors="replace").strip()[-SHOWN:]
    raise ProbeFailed(f"{seen}: {said}" if said else seen)


def _http(check: Check, address: str) -> str:
    """A GET; 200 to 399 is healthy, redirects are not followed.

    With https the server's certificate is not verified: it is made for the name clients use, while the probe goes to an
    address, and the probe asks for the health of the task, not for its identity.
    """
    deadline = time.monotonic() + check.timeout
    connection = connect(address, check.port, deadline)
    try:
        if check.scheme.lower() == "https":
            connection = _secured(connection)
        connection.sendall(_request(check, address))
        status, reason = _status(connection, deadline)
        with contextlib.suppress(OSError):  # the result is known from the status
            _drain(connection, deadline)
    finally:
        connection.close()
    if not 200 <= status < 400:
        raise ProbeFailed(f"{status} {reason}".strip())
    return str(status)


def _secured(connection: socket.socket) -> socket.socket:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(connection)


def _request(check: Check, address: str) -> bytes:
    headers = {"Host": _host(address, check.port), "User-Agent": "bcs-executor", "Accept": "*/*"}
    _override(headers, check.headers)
    headers["Connection"] = "close"
    lines = [f"GET {check.path or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    if any(character in line for line in lines for character in "\r\n\0") or " " in check.path:
        raise ProbeFailed("the check's path or headers cannot be sent")
    return "\r\n".join([*lines, "", ""]).encode("utf-8")


def _host(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _override(headers: dict[str, str], given: Mapping[str, str]) -> None:
    """Replaces headers by the given ones. The case of header names does not matter."""
    for name, value in given.items():
        for known in [known for known in headers if known.lower() == name.lower()]:
            del headers[known]
        headers[name] = value


def _receive(connection: socket.socket, deadline: float) -> bytes:
    left = deadline - time.monotonic()
    if left <= 0:
        raise socket.timeout
    connection.settimeout(left)
    return connection.recv(8192)


def _status(connection: socket.socket, deadline: float) -> tuple[int, str]:
    head = b""
    while b"\n" not in head:
        data = _receive(connection, deadline)
        if not data or len(head) > HEAD_LIMIT:
            raise ProbeFailed("no HTTP answer")
        head += data
    version, _, rest = head.partition(b"\n")[0].decode("latin-1").strip().partition(" ")
    code, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/") or not code.isdecimal():
        raise ProbeFailed("no HTTP answer")
    return int(code), reason[:SHOWN]


def _drain(connection: socket.socket, deadline: float) -> None:
    left = BODY_LIMIT
    while left > 0:
        data = _receive(connection, deadline)
        if not data:
            return
        left -= len(data)
