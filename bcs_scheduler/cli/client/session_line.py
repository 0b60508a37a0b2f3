"""Sessions with taskgroups: a WebSocket with the streams of a program (docs/api.md, section Sessions)."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from bcs_scheduler.cli.client.credentials import REDIRECTS, Credentials, redirected
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import CliError, Conflict, NotFound, Unreachable, UsageError

if TYPE_CHECKING:
    from bcs_scheduler.cli.client.websocket import WebSocket

STDIN, STDOUT, STDERR, STATUS, RESIZE, END = 0, 1, 2, 3, 4, 255
PIECE = 32 * 1024
"""Bytes of input in one message."""
PROTOCOL = "v1.session.bcs"
CONNECT_TIMEOUT = 30.0
"""Seconds. The server answers when the agent has answered, and an agent may be slow to start a program."""
LONGEST_PAUSE = 2.0
NO_SESSIONS = frozenset({"no_such_route", "method_not_allowed"})
"""Reasons of a server that does not know sessions."""


class Said(NamedTuple):
    """A piece of output; `channel` is STDOUT or STDERR."""

    channel: int
    data: bytes


class NoSessions(CliError):
    """The server is older than sessions."""


class SessionLine:
    """One session. One thread may read, others may send. `exit_code` is known when `output` has ended."""

    def __init__(self, connection: WebSocket, document: Mapping[str, Any]) -> None:
        self._connection = connection
        self.exit_code: int | None = None
        self._send(json.dumps(document))

    def output(self) -> Iterator[Said]:
        """Until the program has ended. Raises CliError if the session ends in another way."""
        from websockets.exceptions import ConnectionClosed

        try:
            for message in self._connection:
                if isinstance(message, str) or not message:
                    raise CliError("the server does not speak the protocol of sessions")
                if message[0] == STATUS:
                    self._end(json.loads(message[1:]))
                    return
                yield Said(message[0], message[1:])
        except (ConnectionClosed, OSError):
            raise Unreachable("the session was interrupted: the connection to the server ended") from None
        raise Unreachable("the server interrupted the session")

    def _end(self, outcome: Json) -> None:
        if isinstance(outcome.get("exitCode"), int):
            self.exit_code = outcome["exitCode"] if outcome["exitCode"] >= 0 else 128 - outcome["exitCode"]
            return
        raise _error(0, str(outcome.get("message", "")), str(outcome.get("reason", "")))

    def send(self, data: bytes) -> bool:
        """Waits while the program takes nothing. False: the session has ended."""
        pieces = (data[start : start + PIECE] for start in range(0, len(data), PIECE))
        return all(self._send(bytes((STDIN,)) + piece) for piece in pieces)

    def end_input(self) -> bool:
        return self._send(bytes((END, STDIN)))

    def resize(self, rows: int, columns: int) -> None:
        self._send(bytes((RESIZE,)) + json.dumps({"rows": rows, "columns": columns}).encode())

    def close(self) -> None:
        """The program is ended if it still runs."""
        self._connection.close()

    def _send(self, message: str | bytes) -> bool:
        from websockets.exceptions import ConnectionClosed

        try:
            self._connection.send(message)
        except (ConnectionClosed, OSError):
            return False
        return True


def open_session(
    server: str,
    credentials: Credentials,
    path: str,
    query: Mapping[str, str],
    document: Mapping[str, Any],
    timeout: float,
) -> SessionLine:
    """Follows redirects to the leader, and waits up to `timeout` seconds for one. Raises CliError."""
    deadline, pause = time.monotonic() + timeout, 0.1
    while True:
        try:
            return SessionLine(_connect(server, credentials, path, query), document)
        except Unreachable as error:
            if error.reason not in ("unavailable", "no_leader") or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _connect(server: str, credentials: Credentials, path: str, query: Mapping[str, str]) -> WebSocket:
    from websockets.exceptions import InvalidHandshake, InvalidStatus

    from bcs_scheduler.cli.client.websocket import connect

    url = server + path + (f"?{urlencode(query)}" if query else "")
    for _ in range(REDIRECTS):
        try:
            return connect(
                url,
                headers=credentials.headers(),
                subprotocol=PROTOCOL,
                tls=_tls(credentials) if url.startswith("https:") else None,
                timeout=CONNECT_TIMEOUT,
            )
        except InvalidStatus as refused:
            response = refused.response
            if response.status_code == 307 and (location := response.headers.get("Location")):
                url = redirected(url, location)
                continue
            raise _refused(response.status_code, bytes(response.body or b""), server) from None
        except InvalidHandshake as error:
            if isinstance(error.__cause__, EOFError | OSError):
                raise _away(server, url, error.__cause__) from None
            raise CliError(f"{server} is not a bcs-scheduler: {error}") from None
        except OSError as error:
            raise _away(server, url, error) from None
    raise Unreachable("the schedulers redirect to each other; try again", reason="unavailable")


def _away(server: str, url: str, error: BaseException) -> Unreachable:
    """A server that does not answer. A leader that does not, after a redirect, will have a successor."""
    from bcs_scheduler.cli.client.reaching import address_of, cause_of, hint_of, mixed_up

    address = address_of(url)
    cause = mixed_up(url, error) or ("no answer" if isinstance(error, TimeoutError) else cause_of(error))
    gone = address != address_of(server) and isinstance(error, ConnectionError | EOFError)
    reason, hint = "no_leader" if gone else "", hint_of(server, url, error)
    return Unreachable(f"cannot reach {address}: {cause}", reason=reason, hint=hint)


def _refused(status: int, body: bytes, server: str) -> CliError:
    try:
        answer = json.loads(body)
        data = answer["data"] or {}
        return _error(status, str(answer["message"]), str(data.get("reason", "")))
    except (ValueError, KeyError, TypeError, AttributeError):
        return NoSessions(f"{server} does not offer sessions (HTTP {status})")


def _error(status: int, message: str, reason: str) -> CliError:
    if reason in NO_SESSIONS:
        return NoSessions(f"the server does not offer sessions: {message}", reason=reason)
    if status == 401:
        message += " (give a token with --token-file, BCS_TOKEN_FILE or BCS_TOKEN)"
    kinds: dict[str, type[CliError]] = {
        "not_found": NotFound,
        "conflict": Conflict,
        "unavailable": Unreachable,
        "no_leader": Unreachable,
        "stepped_down": Unreachable,
        "bad_parameter": UsageError,
        "invalid": UsageError,
    }
    return kinds.get(reason, CliError)(message or f"the session ended: {reason}", reason=reason)


def _tls(credentials: Credentials) -> ssl.SSLContext:
    from requests.utils import DEFAULT_CA_BUNDLE_PATH

    context = ssl.create_default_context(cafile=credentials.ca_file or DEFAULT_CA_BUNDLE_PATH)
    if not credentials.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if credentials.certificate:
        context.load_cert_chain(credentials.certificate, credentials.key or None)
    return context
