"""Every failure the API can answer with: reason, HTTP status and BCS code, in one table.

Exception tree:

    ApiError                 carries a reason of TABLE, words, problems and headers; becomes an envelope in app.py

`Reason` values of the core (bcs_scheduler.core.interface.effects) and those of the API itself share the table. The
numeric codes are those of docs/original.md#error-codes, and from 1405235 on ours; the stable, machine-readable word
is `data.reason`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from bcs_scheduler.core.interface import effects
from bcs_scheduler.core.interface.effects import ErrorReason, Reason, Reply
from bcs_scheduler.wire import problems as documents

Problem = effects.Problem | documents.Problem
"""The core and the decoder of documents have a record of their own each; both consist of a path and a message."""

OK = 0
MEDIA_TYPE = "application/json; charset=utf-8"
"""Media type of every envelope."""


class Failure(NamedTuple):
    """The answer to a reason: HTTP status, BCS code, meaning."""

    status: int
    code: int
    meaning: str


ApiReason = (
    ErrorReason
    | Literal[
        "bad_json",
        "bad_parameter",
        "bad_body",
        "bad_http",
        "head_too_large",
        "too_large",
        "too_slow",
        "unsupported_media_type",
        "no_such_route",
        "method_not_allowed",
        "upgrade_required",
        "not_leading",
        "no_leader",
        "outcome_unknown",
        "agent",
        "not_started",
        "admission",
        "unauthenticated",
        "forbidden",
        "too_many_requests",
        "too_many_watchers",
        "too_many_sessions",
        "too_many_connections",
    ]
)
"""Reasons of failed requests: the reasons of the core, and those of the API itself."""
Reasons = tuple[ApiReason, ...]

BAD_JSON: Final = "bad_json"
BAD_PARAMETER: Final = "bad_parameter"
BAD_BODY: Final = "bad_body"
BAD_HTTP: Final = "bad_http"
HEAD_TOO_LARGE: Final = "head_too_large"
TOO_LARGE: Final = "too_large"
TOO_SLOW: Final = "too_slow"
NOT_JSON: Final = "unsupported_media_type"
NO_ROUTE: Final = "no_such_route"
NO_METHOD: Final = "method_not_allowed"
NO_UPGRADE: Final = "upgrade_required"
NOT_LEADING: Final = "not_leading"
NO_LEADER: Final = "no_leader"
UNKNOWN_OUTCOME: Final = "outcome_unknown"
AGENT: Final = "agent"
NOT_STARTED: Final = "not_started"
ADMISSION: Final = "admission"
UNAUTHENTICATED: Final = "unauthenticated"
FORBIDDEN: Final = "forbidden"
TOO_MANY_REQUESTS: Final = "too_many_requests"
TOO_MANY_WATCHERS: Final = "too_many_watchers"
TOO_MANY_SESSIONS: Final = "too_many_sessions"
TOO_MANY_CONNECTIONS: Final = "too_many_connections"
INTERNAL: Final = "internal"

TABLE: Mapping[ApiReason, Failure] = {
    Reason.NOT_FOUND: Failure(404, 1405202, "the object does not exist"),
    Reason.EXISTS: Failure(409, 1405201, "an object of this name exists already"),
    Reason.CONFLICT: Failure(
        409, 1405200, "the state of the object, or another operation on it, does not allow the request"
    ),
    Reason.QUOTA: Failure(409, 1405200, "the request exceeds the quota of the namespace"),
    Reason.OPEN: Failure(
        429, 1405238, "the open commands have reached their size limit; wait for answers, or delete commands"
    ),
    Reason.INVALID: Failure(422, 1405008, "the document is invalid; data.problems names each invalid field"),
    Reason.UNAVAILABLE: Failure(503, 1405009, "the scheduler cannot accept requests now; nothing was changed"),
    Reason.STEPPED_DOWN: Failure(
        504, 1405009, "leadership was lost before the change was durable; read the object before repeating the request"
    ),
    BAD_JSON: Failure(400, 1405010, "the body is not JSON"),
    BAD_PARAMETER: Failure(400, 1405007, "a path parameter or query parameter is unknown or invalid"),
    BAD_BODY: Failure(400, 1405006, "the body could not be read"),
    BAD_HTTP: Failure(400, 1405006, "the request is not HTTP"),
    HEAD_TOO_LARGE: Failure(431, 1405006, "path and headers exceed the limit"),
    TOO_LARGE: Failure(413, 1405006, "the body exceeds the limit"),
    TOO_SLOW: Failure(408, 1405006, "the head or the body of the request did not arrive in time"),
    NOT_JSON: Failure(415, 1405006, "the body's content type is not application/json"),
    UNAUTHENTICATED: Failure(401, 1405235, "the request has no valid token; WWW-Authenticate names the scheme"),
    FORBIDDEN: Failure(403, 1405236, "the token is valid but lacks a right; the message names the missing right"),
    TOO_MANY_REQUESTS: Failure(429, 1405237, "too many requests; Retry-After is the number of seconds to wait"),
    NO_ROUTE: Failure(404, 1405202, "there is no such path"),
    NO_METHOD: Failure(405, 1405007, "the path does not support this method"),
    NO_UPGRADE: Failure(426, 1405007, "the path is the path of a session, which needs a WebSocket"),
    NOT_LEADING: Failure(307, 1405009, "another scheduler leads; Location is the same path at the leader"),
    NO_LEADER: Failure(503, 1405009, "no scheduler leads at the moment"),
    UNKNOWN_OUTCOME: Failure(504, 1405200, "the request was handed to the core; its outcome is not known yet"),
    TOO_MANY_WATCHERS: Failure(503, 1405009, "the maximum number of watches and streams is open; try again later"),
    TOO_MANY_SESSIONS: Failure(503, 1405009, "the maximum number of sessions is open; try again later"),
    TOO_MANY_CONNECTIONS: Failure(
        503, 1405009, "too many connections are in use; Retry-After is the number of seconds to wait"
    ),
    ADMISSION: Failure(
        400, 1405234, "an admission webhook refused the document, or a required admission webhook failed"
    ),
    NOT_STARTED: Failure(409, 1405200, "the task has not started, so its files and its output do not exist"),
    AGENT: Failure(502, 1405200, "the agent does not answer, or its answer is invalid"),
    INTERNAL: Failure(500, 1405200, "an internal error of the scheduler"),
}


class ApiError(Exception):
    """A request that is answered with a failure. `extra` is added to the envelope's data."""

    def __init__(
        self,
        reason: ApiReason,
        message: str,
        problems: Sequence[Problem] = (),
        *,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.problems = tuple(problems)
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})
        self.warnings: Sequence[documents.FieldWarning] = ()
        """Warnings about the document that the request carried."""

    @property
    def failure(self) -> Failure:
        return TABLE[self.reason]

    def envelope(self) -> dict[str, object]:
        """The four keys of every answer (docs/original.md#envelope); `data` holds the reason and every problem with its
        path; also `warnings` if the document has parts without effect."""
        problems = [{"path": p.path, "message": p.message} for p in self.problems]
        noted = {"warnings": self.warnings} if self.warnings else {}
        return {
            "result": False,
            "code": self.failure.code,
            "message": self.message,
            "data": {"reason": self.reason, "problems": problems, **self.extra},
            **noted,
        }


def not_found(kind: str, name: str) -> ApiError:
    return ApiError(Reason.NOT_FOUND, f"{kind} {name} does not exist")


def bad_parameter(name: str, message: str) -> ApiError:
    """`name` as in the query string; its path is written ``?name``."""
    return ApiError(BAD_PARAMETER, f"query parameter {name} {message}", (effects.Problem(f"?{name}", message),))


def invalid(problems: Sequence[Problem]) -> ApiError:
    """All problems of a document; the message quotes the first."""
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return ApiError(Reason.INVALID, f"{first.path}: {first.message}{more}", problems)


def refused(reply: Reply) -> ApiError:
    """The failure for a command that the core refused."""
    reason: ApiReason = reply.error or INTERNAL
    extra = reply.data if isinstance(reply.data, dict) else {}
    return ApiError(reason, reply.message or TABLE[reason].meaning, reply.problems, extra=extra)
