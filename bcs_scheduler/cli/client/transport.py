"""Requests to the HTTP API, and their repetition.

The answer of a request is the `data` of the envelope as plain JSON values. Failures are raised as
bcs_scheduler.cli.errors. Redirects to the leader are followed with method and body. A request that was certainly not
executed (503, or the leader refuses connections) is repeated until `timeout` seconds have passed.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from bcs_scheduler.cli.client.connections import FAILURES, Answer, Connections
from bcs_scheduler.cli.client.credentials import REDIRECTS, Credentials, redirected
from bcs_scheduler.cli.client.types import DEFAULT_SERVER, PREFIX, Accepted, Download, Json
from bcs_scheduler.cli.errors import CliError, Conflict, NotFound, Problem, TimedOut, Unreachable

if TYPE_CHECKING:
    from bcs_scheduler.cli.client.session_line import SessionLine

PAGE = 500
CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 60.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
NOT_EXECUTED = frozenset({"unavailable", "no_leader"})
"""Reasons of a 503 after which a POST can be repeated. After other reasons and after a 504 its outcome is unknown."""
REFUSED = "connection refused"
WARNING = re.compile(r'299 \S+ "([^"]*)"')
"""A warning in the header Warning of an answer (RFC 7234): a halt of the whole cluster."""


class Transport:
    """Requests to one server. A transport must not be used by several threads at the same time."""

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        timeout: float = 30.0,
        *,
        credentials: Credentials | None = None,
        validation: str = "",
        on_conflict: str = "",
        warned: Callable[[Mapping[str, Any]], None] = lambda warning: None,
        halted: Callable[[str], None] = lambda words: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.server = server.rstrip("/") if "://" in server else f"http://{server.rstrip('/')}"
        self.timeout = timeout
        self._validation = validation
        """`fieldValidation` of requests with a document; empty = the default of the server."""
        self._on_conflict = {"onConflict": on_conflict or None}
        """Part of the query of requests that may meet a running operation; None = the default of the server."""
        self._warned = warned
        """Told of every warning about a document."""
        self._halted = halted
        """Told of the halts of the whole cluster with every answer."""
        self._clock = clock
        self._sleep = sleep
        self._credentials = credentials or Credentials()
        self._connections = Connections(self._credentials, CONNECT_TIMEOUT, READ_TIMEOUT)

    def close(self) -> None:
        self._connections.close()

    def _get(self, path: str, query: Mapping[str, Any] | None = None, prefix: str = PREFIX) -> Json:
        data: Json = self._call("GET", prefix + path, query)["data"]
        return data

    def _delete(self, path: str, query: Mapping[str, Any] | None = None) -> Accepted:
        """Deletes an object whose deletion succeeds for other clients also if it does not exist. Raises NotFound."""
        return self._command("DELETE", path, {**(query or {}), "mustExist": True})

    def _command(self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> Accepted:
        data = self._call(method, PREFIX + path, query, body)["data"]
        return Accepted(str(data.get("transactionID") or "") if isinstance(data, dict) else "", data)

    def _list(self, path: str, query: Mapping[str, Any] | None = None) -> list[Any]:
        return [*self._pages(path, {**(query or {}), "limit": PAGE})]

    def _pages(self, path: str, query: dict[str, Any]) -> Iterator[Any]:
        while True:
            answer = self._call("GET", PREFIX + path, query)
            yield from answer["data"] or ()
            query = {**query, "continue": answer.get("continue") or ""}
            if not query["continue"]:
                return

    def _session_line(self, path: str, query: Mapping[str, str], document: Json) -> SessionLine:
        """A session with the streams of a program."""
        from bcs_scheduler.cli.client.session_line import open_session

        return open_session(self.server, self._credentials, PREFIX + path, query, document, self.timeout)

    def _download(self, path: str, query: Mapping[str, Any]) -> Download:
        """An answer without an envelope, as a stream."""
        response = self._answered("GET", PREFIX + path, query, stream=True)
        length = response.header("Content-Length")
        return Download(int(length) if length.isdigit() else 0, self._chunks(response))

    def _chunks(self, response: Answer) -> Iterator[bytes]:
        try:
            yield from response.stream()
        except FAILURES as error:
            from bcs_scheduler.cli.client.reaching import cause_of

            raise CliError(f"the transfer was interrupted: {cause_of(error)}") from None
        finally:
            response.close()

    def _call(self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> Json:
        """The envelope of a successful request."""
        if body is not None and self._validation:
            query = {**(query or {}), "fieldValidation": self._validation}
        answer = _envelope(self._answered(method, path, query, body), self.server)
        for warning in answer.get("warnings") or ():
            self._warned(warning)
        return answer

    def _answered(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        *,
        stream: bool = False,
    ) -> Answer:
        """The successful answer of a request, after repetitions if necessary."""
        deadline = self._clock() + self.timeout
        pause = FIRST_PAUSE
        while True:
            try:
                response = self._send(method, path, query, body, stream)
                failure = _failure(response, self.server)
                if failure is None:
                    return response
                repeat = response.status == 503 and (method == "GET" or failure.reason in NOT_EXECUTED)
                if response.status == 429:
                    repeat, pause = True, max(pause, _seconds(response.header("Retry-After")))
            except Failed as error:
                from bcs_scheduler.cli.client.reaching import address_of, cause_of, hint_of, mixed_up

                address = address_of(error.url)
                cause = cause_of(error.error)
                if isinstance(error.error, TimeoutError):
                    raise TimedOut(f"{address} did not answer within {READ_TIMEOUT:g}s") from None
                why = mixed_up(error.url, error.error) or cause
                hint = hint_of(self.server, error.url, error.error)
                failure = Unreachable(f"cannot reach {address}: {why}", hint=hint)
                repeat = address != self.server and cause == REFUSED
            if not repeat or self._clock() + pause > deadline:
                raise failure
            self._sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _send(self, method: str, path: str, query: Mapping[str, Any] | None, body: Any, stream: bool) -> Answer:
        """Sends a request, and follows redirects to the leader: a host of another cluster must not get the token.
        Raises Failed."""
        given = {key: _text(value) for key, value in (query or {}).items() if value is not None and value is not False}
        url = f"{self.server}{path}{'?' if given else ''}{urlencode(given)}"
        headers = {"Accept": "application/json", "User-Agent": "bcs", **self._credentials.headers()}
        content = None if body is None else json.dumps(body).encode()
        if content is not None:
            headers["Content-Type"] = "application/json"
        for _ in range(REDIRECTS):
            try:
                response = self._connections.request(method, url, content, headers, stream=stream)
                location = response.header("Location")
                if response.status != 307 or not location:
                    for words in WARNING.findall(response.header("Warning")):
                        self._halted(words)
                    return response
            except FAILURES as error:
                raise Failed(url, error) from error
            url = redirected(url, location)
        return response


class Failed(Exception):
    """A request that got no answer."""

    def __init__(self, url: str, error: Exception) -> None:
        super().__init__(str(error))
        self.url = url
        """After a redirect not that of the server of the command line."""
        self.error = error


def path_of(*parts: str) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _text(value: Any) -> str:
    return "true" if value is True else str(value)


def _seconds(retry_after: str) -> float:
    return float(retry_after) if retry_after.isdigit() else 0.0


def _envelope(response: Answer, server: str) -> Json:
    answer: Json | None
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or "data" not in answer:
        raise CliError(f"{server} is not a bcs-scheduler: the answer has no envelope (HTTP {response.status})")
    return answer


def _failure(response: Answer, server: str) -> CliError | None:
    """The error of a response; None for a success."""
    status = response.status
    if status < 300:
        return None
    answer = _envelope(response, server)
    data = answer["data"] if isinstance(answer["data"], dict) else {}
    problems = [Problem(str(p.get("path", "")), str(p.get("message", ""))) for p in data.get("problems") or ()]
    message = str(answer.get("message") or f"HTTP {status}")
    if status == 401:
        message += " (give a token with --token-file, BCS_TOKEN_FILE or BCS_TOKEN)"
    kind = {404: NotFound, 409: Conflict, 503: Unreachable, 504: Unreachable, 307: Unreachable}.get(status, CliError)
    return kind(message, problems, reason=str(data.get("reason", "")))
