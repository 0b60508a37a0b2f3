"""The way in of the API: who is it, may they, not too often; and the line in the audit log about what came of it."""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import SplitResult, urlsplit

from starlette.requests import Request

from bcs_scheduler.api import errors, needs
from bcs_scheduler.api.errors import ApiError
from bcs_scheduler.api.needs import OPEN, Need
from bcs_scheduler.api.operation import Operation
from bcs_scheduler.api.protocol import CERTIFICATE
from bcs_scheduler.security.audit import Audit
from bcs_scheduler.security.caller import ANYBODY, NOBODY, Caller
from bcs_scheduler.security.rates import Rates, network_of
from bcs_scheduler.security.tls import common_name
from bcs_scheduler.security.tokens import Denied, Tokens
from bcs_scheduler.security.watched import WatchedFiles

CHALLENGE = 'Bearer realm="bcs-scheduler"'
LONGEST_NAME = 1024
"""Characters of a name, or of names joined by commas, in the audit log."""
AUDITED_REFUSALS = 10
"""Lines per second at most about changes that were refused because there are too many of them."""


@dataclass(slots=True)
class Door:
    """`tokens` None and `certificates` False: everybody may do everything."""

    tokens: WatchedFiles[Tokens] | None = None
    certificates: bool = False
    """Clients may show certificates. Without tokens their holders may do everything."""
    rates: Rates = field(default_factory=lambda: Rates(0, 1))
    """Of all requests, by caller, or by network where nobody says who they are."""
    failures: Rates = field(default_factory=lambda: Rates(0, 1))
    """Of requests without a good token, by network. Who has a good one is never held up by these."""
    audit: Audit = field(default_factory=lambda: Audit(None))
    refused: Callable[[str], None] = lambda reason: None
    """Counts refusals by reason."""
    hosts: frozenset[str] | None = None
    """Names under which browsers may reach an API without tokens, besides addresses; None = any."""
    metrics_open: bool = False
    clock: Callable[[], float] = time.time
    _refusals: Rates = field(default_factory=lambda: Rates(AUDITED_REFUSALS, AUDITED_REFUSALS))

    def need_of(self, operation: Operation) -> Need:
        return needs.need_of(operation, metrics_open=self.metrics_open)

    def identify(self, request: Request, need: Need) -> Caller:
        """Who it is. Raises ApiError 401, 403, 429."""
        try:
            caller = self._identify(request, need)
        except Denied as denied:
            wait = self.failures.take(_network(request))
            if wait:
                raise _too_many("requests without a good token", wait) from None
            headers = {"WWW-Authenticate": CHALLENGE}
            raise ApiError(errors.UNAUTHENTICATED, str(denied), headers=headers) from None
        if caller.means != "token":
            self._check_browser(request)
        if need == OPEN or self.rates.unlimited:
            return caller  # open: a host that starts many taskgroups fetches the executor often
        key = f"{caller.means} {caller.name}" if caller.means != "anonymous" else _network(request)
        wait = self.rates.take(key)
        if wait:
            raise _too_many("requests", wait)
        return caller

    def still(self, request: Request, need: Need, caller: Caller) -> bool:
        """Whoever sent the request may do now what they were allowed then."""
        try:
            return self._identify(request, need) == caller
        except Denied:
            return False

    def _identify(self, request: Request, need: Need) -> Caller:
        if self.tokens is None and not self.certificates:
            return ANYBODY
        if need == OPEN:
            return NOBODY
        shown = request.headers.getlist("authorization")
        if self.tokens is not None and shown:
            return self.tokens.current().by_token(_bearer(shown), self.clock())
        holder = common_name(request.scope.get(CERTIFICATE)) if self.certificates else ""
        if not holder:
            raise Denied(
                "a token is needed: Authorization: Bearer <token>" if self.tokens else "a certificate is needed"
            )
        if self.tokens is None:
            return Caller(holder, "certificate", "admin", None)
        return self.tokens.current().by_certificate(holder, self.clock())

    def _check_browser(self, request: Request) -> None:
        """Whoever needs no token is believed for where they are; so is every page their browser shows. Pages of others
        must not act for them, under whatever name they have this address."""
        host = request.headers.get("host", "")
        name = _parts(f"//{host}").hostname or ""
        if self.hosts is not None and "host" in request.headers and name not in self.hosts and not _is_address(name):
            raise ApiError(errors.FORBIDDEN, f"there is no {name[:80]!r} here; a token would be needed to ask for it")
        origin = request.headers.get("origin")
        if origin is not None and _parts(origin).netloc != host:
            raise ApiError(errors.FORBIDDEN, f"pages of {origin[:80]!r} may not do this; a token would be needed")

    def record(
        self, operation: Operation, request: Request, caller: Caller | None, cause: str, status: int, error: str
    ) -> None:
        """One line about a change that was asked for. `error`: reason of a failure; `caller` None: not known."""
        if error:
            failure = errors.TABLE.get(error, errors.TABLE[errors.INTERNAL])
            if failure.status in (401, 403, 429):
                self.refused(error)
        if not operation.write:
            return
        if error == errors.TOO_MANY_REQUESTS and self._refusals.take(""):
            return
        self.audit.record(
            {
                "at": datetime.fromtimestamp(self.clock(), UTC).isoformat(timespec="milliseconds"),
                "cause": cause,
                "who": caller.name if caller else "unknown",
                "by": caller.means if caller else "",
                "role": caller.role if caller and caller is not ANYBODY else "",
                "address": request.client.host if request.client else "",
                "method": request.method,
                "path": request.scope["path"],
                "operation": getattr(operation.handler, "__name__", operation.name),
                "object": _object(request),
                "dryRun": request.query_params.get("dryRun", "false").lower() in ("true", "1"),
                "status": status,
                "code": errors.TABLE[error].code if error in errors.TABLE else 0,
                "reason": error,
            }
        )


def _object(request: Request) -> dict[str, str]:
    """What a change is about, as far as it says so: path, names in the document, and the agents or command of the
    query. Nothing else of bodies, which may be confidential."""
    named = dict(request.path_params)
    named |= {name: request.query_params[name] for name in ("ips", "id") if name in request.query_params}
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
    return next((value for key, value in document.items() if key.lower() == name), None)


def _bearer(shown: list[str]) -> str:
    scheme, _, token = shown[0].partition(" ")
    if len(shown) > 1 or scheme.lower() != "bearer" or not token.strip():
        raise Denied("the header must be one: Authorization: Bearer <token>")
    return token.strip()


def _parts(url: str) -> SplitResult:
    """Of a header, which may be anything."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _network(request: Request) -> str:
    return network_of(request.client.host) if request.client else ""


def _too_many(what: str, wait: float) -> ApiError:
    seconds = max(1, math.ceil(wait))
    words = f"too many {what}; try again in {seconds} s"
    return ApiError(errors.TOO_MANY_REQUESTS, words, headers={"Retry-After": str(seconds)})


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
