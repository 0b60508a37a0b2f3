"""The gate of the API: identity of the caller, rights, rate limits, and the line in the audit log about the outcome."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from starlette.requests import HTTPConnection, Request

from bcs_scheduler.api import access
from bcs_scheduler.api.access import OPEN, RequiredAccess
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.connections import CONNECTION, RETRY, Connection
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.api.http.operation import Operation
from bcs_scheduler.api.http.protocol import CERTIFICATE
from bcs_scheduler.security import pages
from bcs_scheduler.security.audit import Audit
from bcs_scheduler.security.browsers import SCHEME, BrowserSessions
from bcs_scheduler.security.caller import ANYBODY, NOBODY, Caller
from bcs_scheduler.security.rates import Rates, network_of
from bcs_scheduler.security.tls import common_name
from bcs_scheduler.security.tokens import Denied, Tokens, hash_of
from bcs_scheduler.security.watched import WatchedFiles
from transactions.text import duration

CHALLENGE = 'Bearer realm="bcs-scheduler"'
LONGEST_NAME = 1024
"""Characters of a name, or of names joined by commas, in the audit log."""
AUDITED_REFUSALS = 10
"""Lines per second at most about changes that were refused because there are too many of them."""


NAMING = ("ips", "id", "task", "executor", "path", "file")
"""Parameters of queries that name objects: agents, commands, files of sandboxes."""
COUNTED = (errors.TOO_MANY_CONNECTIONS, errors.TOO_MANY_SESSIONS, errors.TOO_MANY_WATCHERS)
"""Refusals with status 503 that are counted by reason."""


@dataclass(slots=True)
class RequestGate:
    """`tokens` None and `certificates` False: all callers have all rights."""

    tokens: WatchedFiles[Tokens] | None = None
    certificates: bool = False
    """Clients may show certificates. Without tokens their holders may do everything."""
    rates: Rates = field(default_factory=lambda: Rates(0, 1))
    """Rates of all requests, by caller, or by network for callers without an identity."""
    failures: Rates = field(default_factory=lambda: Rates(0, 1))
    """Rates of requests without a valid token, by network. These rates never delay a caller with a valid token."""
    audit: Audit = field(default_factory=lambda: Audit(None))
    refused: Callable[[str], None] = lambda reason: None
    """Counts refusals by reason."""
    hosts: frozenset[str] | None = None
    """Names under which browsers may reach an API without tokens, besides addresses; None = any."""
    metrics_open: bool = False
    browsers: BrowserSessions = field(default_factory=BrowserSessions)
    clock: Callable[[], float] = time.time
    _refusals: Rates = field(default_factory=lambda: Rates(AUDITED_REFUSALS, AUDITED_REFUSALS))

    def required_access(self, operation: Operation) -> RequiredAccess:
        return access.required_access(operation, metrics_open=self.metrics_open)

    def identify(self, request: HTTPConnection, required: RequiredAccess) -> Caller:
        """Returns the caller. Raises ApiError 401, 403, 429."""
        try:
            caller = self._identify(request, required)
        except Denied as denied:
            wait = self.failures.take(_network(request))
            if wait:
                raise _too_many("requests without a valid token", wait) from None
            headers = {"WWW-Authenticate": CHALLENGE}
            raise ApiError(errors.UNAUTHENTICATED, str(denied), headers=headers) from None
        if caller.means != "token":
            self._check_browser(request)
        if required == OPEN or self.rates.unlimited:
            return caller  # open: a host that starts many taskgroups fetches the executor often
        wait = self.rates.take(holders_of(request, caller)[-1])
        if wait:
            raise _too_many("requests", wait)
        return caller

    def still_allows(self, request: HTTPConnection, required: RequiredAccess, caller: Caller) -> bool:
        """True if the sender of the request still has the identity and rights that `caller` had."""
        try:
            return self._identify(request, required) == caller
        except Denied:
            return False

    def _identify(self, request: HTTPConnection, required: RequiredAccess) -> Caller:
        if self.tokens is None and not self.certificates:
            return ANYBODY
        if required == OPEN:
            try:
                return self._holder(request)
            except (Denied, ApiError):
                return NOBODY  # no caller is refused here; some answers tell more to callers with credentials
        return self._holder(request)

    def _holder(self, request: HTTPConnection) -> Caller:
        """Returns the holder of the credentials of a request. Raises Denied, ApiError (403)."""
        shown = request.headers.getlist("authorization")
        if self.tokens is not None and shown:
            if (key := session_key(request)) is not None:
                return self._signed_in(request, key, self.tokens.current())
            return self.tokens.current().by_token(_bearer(shown), self.clock())
        holder = common_name(request.scope.get(CERTIFICATE)) if self.certificates else ""
        if not holder:
            raise Denied(
                "a token is needed: Authorization: Bearer <token>" if self.tokens else "a certificate is needed"
            )
        if self.tokens is None:
            return Caller(holder, "certificate", "admin", None)
        return self.tokens.current().by_certificate(holder, self.clock())

    def asks_for_token(self, request: HTTPConnection) -> bool:
        """True if the caller has to show a token."""
        return self.tokens is not None and not (self.certificates and common_name(request.scope.get(CERTIFICATE)))

    def sign_in(self, request: HTTPConnection, token: str) -> tuple[Caller, str]:
        """Begins a session of a browser. Returns the caller and the key of the session. Raises ApiError 401, 403,
        429."""
        self._check_page(request)
        try:
            if self.tokens is None:
                raise Denied("this scheduler asks for no token")
            caller = self.tokens.current().by_token(token, self.clock())
        except Denied as denied:
            wait = self.failures.take(_network(request))
            if wait:
                raise _too_many("requests without a valid token", wait) from None
            self._record_sign_in(request, None, 401)
            raise ApiError(errors.UNAUTHENTICATED, str(denied), headers={"WWW-Authenticate": CHALLENGE}) from None
        self._record_sign_in(request, caller, 200)
        return caller, self.browsers.begin(hash_of(token), self.clock())

    def sign_out(self, request: HTTPConnection) -> None:
        """Ends the session of a browser. Raises ApiError 403."""
        self._check_page(request)
        if (key := session_key(request)) is not None:
            self.browsers.end(key)

    def _signed_in(self, request: HTTPConnection, key: str, tokens: Tokens) -> Caller:
        """The caller of a session. Raises Denied if the session has ended or its token is no longer valid, ApiError
        (403) for changes that are not from the page of this server."""
        token = self.browsers.token_of(key, self.clock())
        if token is None:
            raise Denied("the session has ended; sign in again")
        if request.scope["type"] == "websocket" or request.scope["method"] not in ("GET", "HEAD"):
            self._check_page(request)
        return tokens.by_hash(token, self.clock())

    def _check_page(self, request: HTTPConnection) -> None:
        """Refuses requests that are not from the page of this server: a browser sends Origin with the site of the page.
        Raises ApiError (403)."""
        origin = request.headers.get("origin")
        if origin is None or not pages.same_site(origin, request.headers.get("host", "")):
            raise ApiError(
                errors.FORBIDDEN, f"requests from pages of {(origin or 'unknown origin')[:80]!r} are refused"
            )

    def _record_sign_in(self, request: HTTPConnection, caller: Caller | None, status: int) -> None:
        if status == 401:
            self.refused(errors.UNAUTHENTICATED)
        line = {**self._line(request, caller, ""), "method": "POST", "operation": "sign_in"}
        self.audit.record({**line, "status": status, "reason": "" if caller else errors.UNAUTHENTICATED})

    def _check_browser(self, request: HTTPConnection) -> None:
        """A caller without a token is trusted because of its address; so is every page that a browser there shows.
        Pages of other sites must not act for the caller, under any name that they have for this address. Raises
        ApiError (403)."""
        words = pages.refusal(request.headers.get("host"), request.headers.get("origin"), self.hosts)
        if words:
            raise ApiError(errors.FORBIDDEN, words)

    def record(
        self,
        operation: Operation,
        request: Request,
        caller: Caller | None,
        cause: str,
        status: int,
        error: errors.ApiReason | None,
    ) -> None:
        """One line about a requested change, or about a read that is audited. `error`: reason of a failure, None
        without one; `caller` None: not known."""
        if error and (errors.TABLE[error].status in (401, 403, 429) or error in COUNTED):
            self.refused(error)
        if not operation.write and not (operation.audited and operation.audited(request.query_params)):
            return
        if error == errors.TOO_MANY_REQUESTS and self._refusals.take(""):
            return
        self.audit.record(
            {
                **self._line(request, caller, cause),
                "method": request.method,
                "operation": getattr(operation.handler, "__name__", operation.name),
                "dryRun": operation.plans or request.query_params.get("dryRun", "false").lower() in ("true", "1"),
                "status": status,
                "code": errors.TABLE[error].code if error else 0,
                "reason": error or "",
            }
        )

    def record_session(
        self,
        request: HTTPConnection,
        caller: Caller | None,
        cause: str,
        phase: str,
        status: int = 101,
        error: str = "",
        **facts: object,
    ) -> None:
        """One line when a session begins, ends, or is refused. `facts`: of its program, never of its streams."""
        if status in (401, 403, 429) or error in COUNTED:
            self.refused(error)
        if error == errors.TOO_MANY_REQUESTS and self._refusals.take(""):
            return
        line = {**self._line(request, caller, cause), "method": "WEBSOCKET", "operation": "session"}
        self.audit.record({**line, "phase": phase, "status": status, "reason": error, **facts})

    def _line(self, request: HTTPConnection, caller: Caller | None, cause: str) -> dict[str, object]:
        """The common part of lines of the audit log: caller, object, time and address."""
        return {
            "at": datetime.fromtimestamp(self.clock(), UTC).isoformat(timespec="milliseconds"),
            "cause": cause,
            "who": caller.name if caller else "unknown",
            "by": caller.means if caller else "",
            "role": caller.role if caller and caller is not ANYBODY else "",
            "address": request.client.host if request.client else "",
            "path": request.scope["path"],
            "object": _object(request),
        }


def _object(request: HTTPConnection) -> dict[str, str]:
    """The object of a change, as far as the request names it: path, names in the document, and the agents or command of
    the query. The line holds nothing else of bodies, which may be confidential."""
    named = dict(request.path_params)
    given = request.query_params
    named |= {name: given[name] for name in NAMING if name in given}
    document = getattr(request.state, "document", None)
    if isinstance(document, dict):
        metadata = _member(document, "metadata")
        found = {name: _member(metadata, name) for name in ("name", "namespace")} | {"kind": _member(document, "kind")}
        if "ns" in named:
            del found["namespace"]
        named = {name: value for name, value in found.items() if isinstance(value, str) and value} | named
    agents = [_member(part, "innerip") for part in (document if isinstance(document, list) else [document])]
    if names := [agent for agent in agents if isinstance(agent, str)]:
        named["ips"] = ",".join(names)
    return {name: value[:LONGEST_NAME] for name, value in named.items()}


def _member(document: object, name: str) -> object:
    """Whatever its capitals, as documents are read."""
    if not isinstance(document, dict):
        return None
    for key, value in document.items():
        if key.lower() == name:
            return value
    return None


def session_key(request: HTTPConnection) -> str | None:
    """The key of a session of a browser; None if the request has none."""
    shown = request.headers.getlist("authorization")
    scheme, _, key = shown[0].partition(" ") if len(shown) == 1 else ("", "", "")
    return key.strip() if scheme.lower() == SCHEME else None


def _bearer(shown: list[str]) -> str:
    scheme, _, token = shown[0].partition(" ")
    if len(shown) > 1 or scheme.lower() != "bearer" or not token.strip():
        raise Denied("the request must have one header Authorization: Bearer <token>")
    return token.strip()


def holders_of(request: HTTPConnection, caller: Caller) -> tuple[str, ...]:
    """The holders of connections, sessions and watches of a caller: its address, and itself if it has credentials."""
    address = f"address {_network(request)}"
    return (address,) if caller.means == "anonymous" else (address, f"{caller.means} {caller.name}")


def take_place(request: HTTPConnection, caller: Caller) -> None:
    """Counts the connection of the request for the caller. Raises ApiError (503)."""
    connection: Connection | None = request.scope.get(CONNECTION)
    if connection is None or caller.means == "anonymous":
        return
    if words := connection.claim("caller", holders_of(request, caller)[-1]):
        raise ApiError(
            errors.TOO_MANY_CONNECTIONS,
            f"{words}; try again in {duration(RETRY)}",
            headers={"Retry-After": str(RETRY)},
        )


def _network(request: HTTPConnection) -> str:
    return network_of(request.client.host) if request.client else ""


def _too_many(what: str, wait: float) -> ApiError:
    seconds = max(1, math.ceil(wait))
    words = f"too many {what}; try again in {duration(seconds)}"
    return ApiError(errors.TOO_MANY_REQUESTS, words, headers={"Retry-After": str(seconds)})
