"""Requests to the scheduler's HTTP API and their repetition: what bcs_scheduler.cli.client is built on.

Answers are the `data` of the envelope as plain JSON values. Failures are raised as bcs_scheduler.cli.errors. Redirects
to the leader are followed with method and body, and a request that was certainly not carried out (503, or the leader it
was sent to is gone) is repeated until `timeout` seconds have passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import requests

from bcs_scheduler.cli.credentials import REDIRECTS, Credentials, redirected
from bcs_scheduler.cli.errors import CliError, Conflict, NotFound, Problem, TimedOut, Unreachable

PREFIX = "/v4/scheduler/mesos"
DEFAULT_SERVER = "http://127.0.0.1:8080"
DEFAULT_NAMESPACE = "defaultGroup"
PAGE = 500
CHUNK = 64 * 1024
CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 60.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0

UNCHANGED_FOR_SURE = frozenset({"unavailable", "no_leader"})
"""Reasons of a 503 after which even a POST may be repeated; with others, and after a 504, its outcome is not known."""

REFUSED = "connection refused"

Json = dict[str, Any]


class Accepted(NamedTuple):
    """A command that was taken. `transaction` is empty where nothing had to be done in the background."""

    transaction: str
    data: Any


class Download(NamedTuple):
    """`size` in bytes."""

    size: int
    chunks: Iterator[bytes]


class Wire:
    """One server. Not for use by several threads at once."""

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        timeout: float = 30.0,
        *,
        credentials: Credentials | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.server = server.rstrip("/") if "://" in server else f"http://{server.rstrip('/')}"
        self.timeout = timeout
        self._clock = clock
        self._sleep = sleep
        self._session = requests.Session()
        self._session.headers["Accept"] = "application/json"
        self._credentials = credentials or Credentials()
        self._credentials.equip(self._session)
        self._session.trust_env = False  # a proxy of the environment has no business between a user and 127.0.0.1

    def close(self) -> None:
        self._session.close()

    def _get(self, path: str, query: Mapping[str, Any] | None = None, prefix: str = PREFIX) -> Json:
        data: Json = self._call("GET", prefix + path, query)["data"]
        return data

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

    def _download(self, path: str, query: Mapping[str, Any]) -> Download:
        """An answer outside the envelope, as it comes."""
        response = self._answered("GET", PREFIX + path, query, stream=True)
        length = response.headers.get("Content-Length", "")
        return Download(int(length) if length.isdigit() else 0, self._chunks(response))

    def _chunks(self, response: requests.Response) -> Iterator[bytes]:
        try:
            yield from response.iter_content(CHUNK)
        except requests.RequestException as error:
            raise CliError(f"the transfer broke off: {_cause(error)}") from None
        finally:
            response.close()

    def _call(self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> Json:
        """The whole envelope of a success."""
        return _envelope(self._answered(method, path, query, body), self.server)

    def _answered(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        *,
        stream: bool = False,
    ) -> requests.Response:
        """One request with its repetitions: the answer of the success."""
        deadline = self._clock() + self.timeout
        pause = FIRST_PAUSE
        while True:
            try:
                response = self._send(method, path, query, body, stream)
                failure = _failure(response, self.server)
                if failure is None:
                    return response
                repeat = response.status_code == 503 and (method == "GET" or failure.reason in UNCHANGED_FOR_SURE)
                if response.status_code == 429:
                    repeat, pause = True, max(pause, _seconds(response.headers.get("Retry-After", "")))
            except requests.Timeout:
                raise TimedOut(f"{self.server} did not answer within {READ_TIMEOUT:g}s") from None
            except requests.RequestException as error:
                address = _address(error) or self.server
                failure = Unreachable(f"cannot reach {address}: {_cause(error)}")
                repeat = address != self.server and _cause(error) == REFUSED
            if not repeat or self._clock() + pause > deadline:
                raise failure
            self._sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _send(
        self, method: str, path: str, query: Mapping[str, Any] | None, body: Any, stream: bool
    ) -> requests.Response:
        """Redirects to the leader are followed here: requests would send no token to another host, and to one of
        another cluster none must go."""
        given = {key: _text(value) for key, value in (query or {}).items() if value is not None and value is not False}
        request = requests.Request(method, self.server + path, self._credentials.headers(), params=given, json=body)
        for _ in range(REDIRECTS):
            prepared = self._session.prepare_request(request)
            settings = self._session.merge_environment_settings(prepared.url, {}, stream, None, None)
            response = self._session.send(
                prepared, timeout=(CONNECT_TIMEOUT, READ_TIMEOUT), allow_redirects=False, **settings
            )
            if response.status_code != 307 or "Location" not in response.headers:
                return response
            _ = response.content  # so that the connection can be used again
            target = redirected(str(prepared.url), response.headers["Location"])
            request = requests.Request(method, target, self._credentials.headers(), json=body)
        return response


def path_of(*parts: str) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _text(value: Any) -> str:
    return "true" if value is True else str(value)


def _address(error: requests.RequestException) -> str:
    """Where the failed request went: after a redirect that is not the server of the command line."""
    parts = urlsplit(error.request.url or "") if error.request is not None else urlsplit("")
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""


def _cause(error: Exception) -> str:
    """The innermost reason: requests wraps it three times in words for programmers."""
    seen: BaseException | None = error
    text = str(error)
    while seen is not None:
        if isinstance(seen, OSError) and seen.strerror:
            return seen.strerror.lower()
        text = str(seen) or text
        inner = seen.args[0] if seen.args and isinstance(seen.args[0], BaseException) else None
        seen = seen.__cause__ or seen.__context__ or inner or getattr(inner, "reason", None)
    return text


def _seconds(retry_after: str) -> float:
    return float(retry_after) if retry_after.isdigit() else 0.0


def _envelope(response: requests.Response, server: str) -> Json:
    answer: Json | None
    try:
        answer = response.json()
    except requests.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict) or "data" not in answer:
        raise CliError(f"{server} is not a bcs-scheduler: its answer is no envelope (HTTP {response.status_code})")
    return answer


def _failure(response: requests.Response, server: str) -> CliError | None:
    """The error a response stands for; None for a success."""
    status = response.status_code
    if status < 300:
        return None
    answer = _envelope(response, server)
    data = answer["data"] if isinstance(answer["data"], dict) else {}
    problems = [Problem(str(p.get("path", "")), str(p.get("message", ""))) for p in data.get("problems") or ()]
    message = str(answer.get("message") or f"HTTP {status}")
    if status == 401:
        message += " (--token-file, BCS_TOKEN_FILE or BCS_TOKEN)"
    kind = {404: NotFound, 409: Conflict, 503: Unreachable, 504: Unreachable, 307: Unreachable}.get(status, CliError)
    return kind(message, problems, reason=str(data.get("reason", "")))
