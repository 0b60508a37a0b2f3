"""Every failure the API can answer with: reason, HTTP status and BCS code, in one table.

Exception tree:

    ApiError                 carries a reason of TABLE, words, problems and headers; becomes an envelope in app.py

`Reason` values of the core (bcs_scheduler.core.effects) and those of the API itself share the table. The numeric codes
are those of bcs_api 2.1, and from 1405235 on ours; the stable, machine-readable word is `data.reason`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bcs_scheduler.core.effects import Problem, Reason, Reply

OK = 0
MEDIA_TYPE = "application/json; charset=utf-8"
"""Of every envelope."""


class Failure(NamedTuple):
    """How a reason is answered."""

    status: int
    code: int
    meaning: str


BAD_JSON = "bad_json"
BAD_PARAMETER = "bad_parameter"
BAD_BODY = "bad_body"
BAD_HTTP = "bad_http"
HEAD_TOO_LARGE = "head_too_large"
TOO_LARGE = "too_large"
TOO_SLOW = "too_slow"
NOT_JSON = "unsupported_media_type"
NO_ROUTE = "no_such_route"
NO_METHOD = "method_not_allowed"
NOT_LEADING = "not_leading"
NO_LEADER = "no_leader"
UNKNOWN_OUTCOME = "outcome_unknown"
AGENT = "agent"
ADMISSION = "admission"
UNAUTHENTICATED = "unauthenticated"
FORBIDDEN = "forbidden"
TOO_MANY_REQUESTS = "too_many_requests"
TOO_MANY_WATCHERS = "too_many_watchers"
INTERNAL = "internal"

TABLE: Mapping[str, Failure] = {
    Reason.NOT_FOUND: Failure(404, 1405202, "there is no such object"),
    Reason.EXISTS: Failure(409, 1405201, "an object of this name exists already"),
    Reason.CONFLICT: Failure(409, 1405200, "the state of the object, or another operation on it, forbids this now"),
    Reason.QUOTA: Failure(409, 1405200, "the namespace would want more than its quota"),
    Reason.INVALID: Failure(422, 1405008, "the document or a value in it is not acceptable; data.problems says where"),
    Reason.UNAVAILABLE: Failure(503, 1405009, "the scheduler cannot take commands now; nothing was changed"),
    Reason.STEPPED_DOWN: Failure(504, 1405009, "leadership was lost before the change was durable; look, then repeat"),
    BAD_JSON: Failure(400, 1405010, "the body is not JSON"),
    BAD_PARAMETER: Failure(400, 1405007, "a path or query parameter is unknown or has no acceptable value"),
    BAD_BODY: Failure(400, 1405006, "the body could not be read"),
    BAD_HTTP: Failure(400, 1405006, "the request is not HTTP"),
    HEAD_TOO_LARGE: Failure(431, 1405006, "path and headers exceed the limit"),
    TOO_LARGE: Failure(413, 1405006, "the body exceeds the limit"),
    TOO_SLOW: Failure(408, 1405006, "head or body did not arrive in time"),
    NOT_JSON: Failure(415, 1405006, "the body's content type is not application/json"),
    UNAUTHENTICATED: Failure(401, 1405235, "a token, or another one, is needed; WWW-Authenticate says how"),
    FORBIDDEN: Failure(403, 1405236, "the token is known, but does not go so far; the message says what is missing"),
    TOO_MANY_REQUESTS: Failure(429, 1405237, "too many requests; Retry-After says in how many seconds to try again"),
    NO_ROUTE: Failure(404, 1405202, "there is no such path"),
    NO_METHOD: Failure(405, 1405007, "the path does not take this method"),
    NOT_LEADING: Failure(307, 1405009, "another scheduler leads; Location names the same path there"),
    NO_LEADER: Failure(503, 1405009, "no scheduler leads at the moment"),
    UNKNOWN_OUTCOME: Failure(504, 1405200, "the command was handed over, its outcome is not known yet"),
    TOO_MANY_WATCHERS: Failure(503, 1405009, "as many watches and streams are open as may be; try again later"),
    ADMISSION: Failure(400, 1405234, "an admission webhook refuses the document, or one that must be asked failed"),
    AGENT: Failure(502, 1405200, "the agent does not answer, or not as agents do"),
    INTERNAL: Failure(500, 1405200, "an error of the scheduler itself"),
}


class ApiError(Exception):
    """A request that is answered with a failure. `extra` is added to the envelope's data."""

    def __init__(
        self,
        reason: str,
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

    @property
    def failure(self) -> Failure:
        return TABLE.get(self.reason, TABLE[INTERNAL])

    def envelope(self) -> dict[str, object]:
        """The four keys of every answer (bcs_api 2); `data` says the reason and every problem with its path."""
        problems = [{"path": p.path, "message": p.message} for p in self.problems]
        return {
            "result": False,
            "code": self.failure.code,
            "message": self.message,
            "data": {"reason": self.reason, "problems": problems, **self.extra},
        }


def not_found(kind: str, name: str) -> ApiError:
    return ApiError(Reason.NOT_FOUND, f"{kind} {name} does not exist")


def bad_parameter(name: str, message: str) -> ApiError:
    """`name` as in the query string; its path is written ``?name``."""
    return ApiError(BAD_PARAMETER, f"query parameter {name} {message}", (Problem(f"?{name}", message),))


def invalid(problems: Sequence[Problem]) -> ApiError:
    """All problems of a document; the message quotes the first."""
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return ApiError(Reason.INVALID, f"{first.path}: {first.message}{more}", problems)


def refused(reply: Reply) -> ApiError:
    """The failure for a command that the core refused."""
    reason = reply.error if reply.error in TABLE else INTERNAL
    extra = reply.data if isinstance(reply.data, dict) else {}
    return ApiError(reason, reply.message or TABLE[reason].meaning, reply.problems, extra=extra)
