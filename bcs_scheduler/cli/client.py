"""The scheduler's HTTP API as a small typed client. Used by `bcs`, the demo and tests.

Answers are the `data` of the envelope as plain JSON values, with the key names of the API. Failures are raised as
bcs_scheduler.cli.errors. The client follows redirects to the leader, keeping method and body, and repeats a request
that was certainly not carried out (503, or the leader it was sent to is gone) until `timeout` seconds have passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import requests

from bcs_scheduler.cli.errors import CliError, Conflict, NotFound, Problem, TimedOut, Unreachable

PREFIX = "/v4/scheduler/mesos"
DEFAULT_SERVER = "http://127.0.0.1:8080"
DEFAULT_NAMESPACE = "defaultGroup"
PAGE = 500
CONNECT_TIMEOUT = 5.0
READ_TIMEOUT = 60.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0

UNCHANGED_FOR_SURE = frozenset({"unavailable", "no_leader"})
"""Reasons of a 503 after which even a POST may be repeated; with the others its outcome is not known."""

REFUSED = "connection refused"

Json = dict[str, Any]


class Accepted(NamedTuple):
    """A command that was taken. `transaction` is empty where nothing had to be done in the background."""

    transaction: str
    data: Any


class Client:
    """One server. Not for use by several threads at once."""

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        timeout: float = 30.0,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.server = server.rstrip("/") if "://" in server else f"http://{server.rstrip('/')}"
        self.timeout = timeout
        self._clock = clock
        self._sleep = sleep
        self._session = requests.Session()
        self._session.headers["Accept"] = "application/json"
        self._session.trust_env = False  # a proxy of the environment has no business between a user and 127.0.0.1

    def close(self) -> None:
        self._session.close()

    # --- applications -----------------------------------------------------------------------------------------

    def applications(self, namespace: str | None, *, selector: str = "") -> list[Json]:
        """All of a namespace, or of all namespaces with None."""
        path = "/applications" if namespace is None else _path("namespaces", namespace, "applications")
        return self._list(path, {"labelSelector": selector} if selector else {})

    def application(self, namespace: str, name: str) -> Json:
        return self._get(_application(namespace, name))

    def definition(self, namespace: str, name: str) -> Json:
        """The user's document of the newest version."""
        return self._get(_path("definition", "application", namespace, name))

    def create(self, document: Json, *, dry_run: bool = False) -> Accepted:
        return self._command("POST", _collection(document), {"dryRun": dry_run}, document)

    def update(
        self, document: Json, *, instances: int | None = None, max_unavailable: int | None = None, dry_run: bool = False
    ) -> Accepted:
        """`instances`: how many taskgroups to bring to the new definition (None = all)."""
        query = {"instances": instances, "maxUnavailable": max_unavailable, "dryRun": dry_run}
        return self._command("PUT", _collection(document), query, document)

    def rollback(self, namespace: str, name: str, version: str | None = None, *, dry_run: bool = False) -> Accepted:
        """To a stored version; None = the one before the newest."""
        query = {"version": version, "dryRun": dry_run}
        return self._command("PUT", _application(namespace, name) + "/rollback", query)

    def scale(self, namespace: str, name: str, instances: int, *, dry_run: bool = False) -> Accepted:
        return self._command("PUT", _application(namespace, name) + f"/scale/{instances}", {"dryRun": dry_run})

    def delete(self, namespace: str, name: str, *, enforce: bool = False, dry_run: bool = False) -> Accepted:
        return self._command("DELETE", _application(namespace, name), {"enforce": enforce, "dryRun": dry_run})

    def explain(self, namespace: str, name: str) -> Json:
        return self._get(_application(namespace, name) + "/explain")

    def versions(self, namespace: str, name: str) -> list[str]:
        """Ids of the stored versions, oldest first."""
        names: list[str] = self._call("GET", PREFIX + _application(namespace, name) + "/versions")["data"]
        return names

    def version(self, namespace: str, name: str, version: str) -> Json:
        return self._get(_application(namespace, name) + _path("versions", version))

    # --- taskgroups and transactions --------------------------------------------------------------------------

    def taskgroups(self, namespace: str | None, application: str = "") -> list[Json]:
        """Of an application, of a namespace, or all."""
        if namespace is not None and application:
            return self._list(_application(namespace, application) + "/taskgroups")
        return self._list("/taskgroups", {"namespace": namespace})

    def taskgroup(self, namespace: str, taskgroup: str) -> Json:
        return self._get(_path("namespaces", namespace, "taskgroups", taskgroup))

    def reschedule(self, namespace: str, application: str, taskgroup: str, host_retain: float = 0.0) -> Accepted:
        """`host_retain`: seconds during which the replacement may only go to the same host."""
        path = _application(namespace, application) + _path("taskgroups", taskgroup, "rescheduler")
        return self._command("PUT", path, {"hostRetainTime": host_retain or None})

    def transactions(self, namespace: str | None = None, application: str = "") -> list[Json]:
        path = _path("transactions", *([namespace] if namespace else []))
        return self._list(path, {"objName": application or None})

    def transaction(self, namespace: str, transaction: str) -> Json:
        return self._get(_path("transactions", namespace, transaction))

    def cancel(self, namespace: str, transaction: str) -> Accepted:
        return self._command("DELETE", _path("transactions", namespace, transaction))

    # --- the cluster ------------------------------------------------------------------------------------------

    def agents(self) -> list[Json]:
        return self._list("/agents")

    def offers(self) -> list[Json]:
        return self._list("/cluster/current/offers")

    def set_agents(self, agents: list[str], *, enabled: bool) -> None:
        """Raises CliError with a problem per agent if some could not be changed."""
        path = "/agentsettings/enable" if enabled else "/agentsettings/disable"
        self._command("POST", path, {"ips": ",".join(agents)})

    def server_version(self) -> Json:
        return self._get("/version", prefix="")

    # --- the wire ---------------------------------------------------------------------------------------------

    def _get(self, path: str, query: Mapping[str, Any] | None = None, prefix: str = PREFIX) -> Json:
        data: Json = self._call("GET", prefix + path, query)["data"]
        return data

    def _command(self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> Accepted:
        data = self._call(method, PREFIX + path, query, body)["data"]
        return Accepted(str(data.get("transactionID") or "") if isinstance(data, dict) else "", data)

    def _list(self, path: str, query: Mapping[str, Any] | None = None) -> list[Any]:
        return list(self._pages(path, {**(query or {}), "limit": PAGE}))

    def _pages(self, path: str, query: dict[str, Any]) -> Iterator[Any]:
        while True:
            answer = self._call("GET", PREFIX + path, query)
            yield from answer["data"] or ()
            query = {**query, "continue": answer.get("continue") or ""}
            if not query["continue"]:
                return

    def _call(self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> Json:
        """One request with its repetitions; the whole envelope of the success."""
        deadline = self._clock() + self.timeout
        pause = FIRST_PAUSE
        while True:
            try:
                response = self._send(method, path, query, body)
                failure = _failure(response, self.server)
                if failure is None:
                    return _envelope(response, self.server)
                repeat = response.status_code == 503 and (method == "GET" or failure.reason in UNCHANGED_FOR_SURE)
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

    def _send(self, method: str, path: str, query: Mapping[str, Any] | None, body: Any) -> requests.Response:
        return self._session.request(
            method,
            self.server + path,
            params={key: _text(value) for key, value in (query or {}).items() if value not in (None, False)},
            json=body,
            timeout=(CONNECT_TIMEOUT, READ_TIMEOUT),
        )


def _path(*parts: str) -> str:
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _collection(document: Json) -> str:
    return _path("namespaces", document["metadata"]["namespace"], "applications")


def _application(namespace: str, name: str) -> str:
    return _path("namespaces", namespace, "applications", name)


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
    kind = {404: NotFound, 409: Conflict, 503: Unreachable, 307: Unreachable}.get(status, CliError)
    return kind(message, problems, reason=str(data.get("reason", "")))
