"""The ASGI application: routes made from the declared operations, one way in and one way out for every request."""

from __future__ import annotations

import inspect
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Protocol

import msgspec
import structlog
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from bcs_scheduler.api import access
from bcs_scheduler.api.admission import Admission, with_webhooks_named
from bcs_scheduler.api.http import body, errors
from bcs_scheduler.api.http.errors import ApiError, invalid
from bcs_scheduler.api.http.operation import (
    MUST_EXIST,
    Answer,
    Answered,
    ApiSettings,
    Call,
    Listing,
    Operation,
    Plain,
    Streamed,
    not_leading,
)
from bcs_scheduler.api.http.request_gate import RequestGate, holders_of, take_place
from bcs_scheduler.api.http.routing import Routes
from bcs_scheduler.api.original import answers, paths
from bcs_scheduler.api.original import requests as original
from bcs_scheduler.api.reading.query import TRUE, read_query, unknown_parameters
from bcs_scheduler.api.routes import operations
from bcs_scheduler.api.sessions.endpoint import Endpoint, refuse_websocket
from bcs_scheduler.api.sessions.relay import NoMetrics, SessionMetrics
from bcs_scheduler.api.streams.sse import EventStream, EventStreamResponse
from bcs_scheduler.core.interface.effects import Problem, Reason
from bcs_scheduler.leadership.gateway import Gateway, halts_of
from bcs_scheduler.security.caller import NOBODY, Caller
from bcs_scheduler.wire.problems import FieldWarning, Problems
from store.mentions import MARK, revealed

log = structlog.get_logger("bcs_scheduler.api")
STATE_AGE = "X-Bcs-State-Age"
"""Header of a standby's answers: seconds by which the answer may be behind the store."""
HALTED = "299 bcs-scheduler"
"""Begin of a warning in an answer (header Warning, RFC 7234) about a halt of the whole cluster."""
_encoder = msgspec.json.Encoder()


class Pages(Protocol):
    """Paths that are no operations (bcs_scheduler.console.site.Site)."""

    def owns(self, path: str) -> bool: ...

    async def answer(self, request: Request) -> Response:
        """Raises ApiError."""


def create_app(
    gateway: Gateway,
    settings: ApiSettings | None = None,
    gate: RequestGate | None = None,
    admission: Admission | None = None,
    sessions: SessionMetrics | None = None,
    pages: Pages | None = None,
) -> ASGIApp:
    """The API over a gateway. The application holds no state of its own; several applications may share a gateway.
    Without a `gate` the API is open to all callers. `sessions` counts sessions. `pages`: paths beside the operations;
    None = there are none."""
    made = settings or ApiSettings(), gate or RequestGate(), admission or Admission(), sessions or NoMetrics()
    return _App(gateway, *made, pages)


class _App:
    """The way of every HTTP request. An application of Starlette would try one route after the other, and pass each
    message of an answer through four layers that have nothing to do here: all errors are answered by `_endpoint`."""

    def __init__(
        self,
        gateway: Gateway,
        settings: ApiSettings,
        gate: RequestGate,
        admission: Admission,
        sessions: SessionMetrics,
        pages: Pages | None,
    ) -> None:
        by_path: defaultdict[str, dict[str, Operation]] = defaultdict(dict)
        for operation in operations():
            by_path[operation.path][operation.method] = operation
            if operation.method == "GET":
                by_path[operation.path]["HEAD"] = operation
        self._routes = Routes(by_path)
        self._gateway, self._settings, self._gate, self._admission = gateway, settings, gate, admission
        self._pages = pages
        self._sessions = Endpoint(gateway, settings, gate, _failed, sessions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._session(scope, receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"the API speaks HTTP, not {scope['type']}")
        response = await self._answer(Request(scope, receive, send))
        await response(scope, receive, send)

    async def _session(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A WebSocket, or the reason why this is none."""
        for methods, parameters in self._routes.find(scope["path"]):
            operation = methods.get("GET")
            if operation is not None and operation.upgrade:
                scope["path_params"] = parameters
                await self._sessions.serve(operation, scope, receive, send)
                return
        await receive()
        connection = HTTPConnection(scope)
        error = ApiError(errors.NO_ROUTE, f"there is no session at {scope['path']}; /openapi.json lists the paths")
        await refuse_websocket(_failed(error, connection), send)

    async def _answer(self, request: Request) -> Response:
        asked = request.scope["path"]
        translated = paths.translate(request.method, asked, lambda: request.query_params.multi_items())
        request.state.original = translated is not None
        if b"%2f" in request.scope.get("raw_path", b"").lower():
            # Routes are found in decoded paths, so a name with a slash would be taken for two parts of another route.
            # No name has any.
            problem = Problem("/", "contains %2F: names have no slashes")
            return _failed(ApiError(errors.BAD_PARAMETER, f"the path {problem.message}", (problem,)), request)
        if self._pages is not None and self._pages.owns(request.scope["path"]):
            return await self._page(self._pages, request)
        allowed: set[str] = set()
        method = request.method
        if translated is not None:
            method, request.scope["path"] = translated.method, translated.path
            allowed.update(translated.allowed or ())
        for methods, parameters in self._routes.find(request.scope["path"]) if not allowed else ():
            if method in methods:
                request.scope["path_params"] = parameters
                return await self._endpoint(methods[method], request)
            allowed.update(methods)
        return _failed(_no_operation(request.method, asked, allowed), request)

    async def _page(self, pages: Pages, request: Request) -> Response:
        try:
            return await pages.answer(request)
        except ApiError as error:
            return _failed(error, request)
        except Exception:
            log.exception("request of a page failed", path=request.scope["path"])
            return _failed(ApiError(errors.INTERNAL, "internal error; search the log of the scheduler"), request)

    async def _endpoint(self, operation: Operation, request: Request) -> Response:
        started = time.perf_counter()
        cause = f"api-{os.urandom(6).hex()}"
        gate, path = self._gate, request.scope["path"]
        caller, admitted = None, False
        reason: errors.ApiReason | None = None
        try:
            required = gate.required_access(operation)
            caller = gate.identify(request, required)
            access.check(required, caller, request.path_params, request.query_params)
            if required != access.OPEN:
                take_place(request, caller)
            admitted = True
            response = await _answer(operation, request, self._gateway, self._settings, cause, caller, self._admission)
            if isinstance(response, EventStreamResponse):
                response.sees = caller.sees
                response.allowed = partial(gate.still_allows, request, required, caller)
            if required != access.OPEN and (halts := halts_of(self._gateway)):
                response.headers["Warning"] = ", ".join([f'{HALTED} "{halt.words}"' for halt in halts])
        except ApiError as error:
            reason = error.reason
            response = _failed(error, request, caller)
            if reason == Reason.NOT_FOUND and _is_fine(operation, request):
                noted = () if request.state.original else (FieldWarning("$", error.message),)
                reason, response = None, respond(Answer(), caller or NOBODY, noted)
            if not admitted and _has_body(request):
                response.headers["Connection"] = "close"  # the body of a refused caller is not read
        except Exception:
            reason = errors.INTERNAL
            log.exception("request failed", cause=cause, method=request.method, path=path)
            response = _failed(
                ApiError(errors.INTERNAL, f"internal error; search the log of the scheduler for {cause}"), request
            )
        response.headers["X-Request-Id"] = cause
        age = self._gateway.age()
        if age is not None:
            response.headers[STATE_AGE] = f"{age:.1f}"
        status = response.status_code if reason is None else errors.TABLE[reason].status
        gate.record(operation, request, caller, cause, status, reason)
        given = request.query_params if request.scope["query_string"] else ()
        report = log.info if operation.write else log.debug
        report(
            "request",
            cause=cause,
            method=request.method,
            path=path,
            query=",".join([param.name for param in operation.query if param.name in given]),
            status=status,
            who=caller.name if caller else "",
            ms=round((time.perf_counter() - started) * 1000, 1),
        )
        return response


def _is_fine(operation: Operation, request: Request) -> bool:
    """True if the operation succeeds although its object does not exist."""
    if MUST_EXIST in operation.query:
        return request.query_params.get(MUST_EXIST.name, "").lower() not in TRUE
    return bool(request.state.original) and original.is_empty(operation)


def _has_body(request: Request) -> bool:
    headers = request.headers
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


async def _answer(
    operation: Operation,
    request: Request,
    gateway: Gateway,
    settings: ApiSettings,
    cause: str,
    caller: Caller,
    admission: Admission,
) -> Response:
    lenient: bool = request.state.original
    pairs = request.query_params.multi_items()
    query = read_query(original.lenient_query(pairs, operation.query) if lenient else pairs, operation.query)
    problems = Problems(query.get("fieldValidation", "Original" if lenient else "Warn"))
    if not lenient:
        unknown_parameters(pairs, operation.query, problems)
    watcher = operation.watcher if query.get("watch", False) else None
    if (operation.write or operation.leader or watcher is not None) and gateway.role() != "master":
        raise not_leading(gateway.leader_url())
    data = None
    if operation.body is not None:
        data = await _read_body(request, settings, problems)
        request.state.document = data
        access.check_document(caller, access.required_access(operation), data)
    resume = request.headers.get("last-event-id") or query.get("lastEventId", "")
    call = Call(
        gateway,
        gateway,
        settings,
        request.path_params,
        query,
        data,
        cause,
        resume,
        caller,
        problems,
        holders_of(request, caller),
        lenient,
        lambda other, own: _carried_out(other, own, admission),
    )
    if watcher is not None:
        return respond(await watcher(call), caller)
    if inspect.iscoroutinefunction(operation.handler):
        answered = await _carried_out(operation, call, admission)
        return _written(operation, call, answered, problems.warnings())
    handler: Callable[[Call], Answered] = operation.handler  # type: ignore[assignment]
    return await run_in_threadpool(lambda: _written(operation, call, handler(call), problems.warnings()))


def _written(operation: Operation, call: Call, answered: Answered, warnings: Sequence[FieldWarning] = ()) -> Response:
    if not call.original:
        return respond(answered, call.caller, warnings)
    message = answers.message_of(warnings)
    response = respond(answers.written(operation, call, answered), call.caller, warnings, message)
    response.status_code = 200
    return response


async def _carried_out(operation: Operation, call: Call, admission: Admission) -> Answered:
    """Carries the operation out with the document that admission returns."""
    admitted = await admission.admit(operation, call)
    try:
        answer: Answered = await operation.handler(replace(call, body=admitted.document))  # type: ignore[misc]
    except ApiError as error:
        failure = with_webhooks_named(error, admitted)
        failure.warnings = call.problems.warnings()
        raise failure from error
    return answer


async def _read_body(request: Request, settings: ApiSettings, problems: Problems) -> Any:
    headers, lenient = request.headers, request.state.original
    try:
        content = await body.read(
            request.stream(),
            headers.get("content-length"),
            "" if lenient else headers.get("content-type", ""),
            settings.max_body,
            settings.body_timeout,
            awaited=lambda: "expect" in headers,
        )
    except ClientDisconnect as gone:
        raise ApiError(errors.BAD_BODY, "the connection ended before the end of the body") from gone
    data = body.parse(original.document_of(content) if lenient else content, problems=problems)
    if problems:
        raise invalid(problems.listed())
    return data


CHUNK = 500
"""Elements of a long list that are made and sent at once: some milliseconds of work between other threads' turns."""


def listed(listing: Listing, caller: Caller, warnings: Sequence[FieldWarning] = ()) -> Response:
    """Short lists in one piece, as all other answers."""
    first = list(islice(listing.items, CHUNK))
    if len(first) < CHUNK:
        return respond(Answer(first), caller, warnings)
    pieces = (revealed(piece, caller.sees) for piece in _pieces(first, listing.items, warnings))
    return StreamingResponse(pieces, headers={"Content-Type": errors.MEDIA_TYPE})


def _pieces(first: list[Any], rest: Iterator[Any], warnings: Sequence[FieldWarning]) -> Iterator[bytes]:
    envelope = {"result": True, "code": errors.OK, "message": "success", "data": []}
    if warnings:
        envelope["warnings"] = warnings
    head, _, tail = _encoder.encode(envelope).partition(b"[]")
    yield head + b"[" + _encoder.encode(first)[1:-1]
    while some := list(islice(rest, CHUNK)):
        yield b"," + _encoder.encode(some)[1:-1]
    yield b"]" + tail


def respond(
    answer: Answered, caller: Caller, warnings: Sequence[FieldWarning] = (), message: str = "success"
) -> Response:
    if isinstance(answer, EventStream):
        return EventStreamResponse(answer)
    if isinstance(answer, Streamed):
        head = {"Content-Length": str(answer.size)}
        return StreamingResponse(answer.chunks, media_type=answer.media_type, headers=head)
    if isinstance(answer, Plain):
        return Response(answer.content, answer.status, answer.headers, media_type=answer.media_type)
    if isinstance(answer, Listing):
        return listed(answer, caller, warnings)
    envelope = {"result": True, "code": errors.OK, "message": message, "data": answer.data}
    if answer.resume:
        envelope["continue"] = answer.resume
    if warnings:
        envelope["warnings"] = warnings
    content = _encoder.encode(envelope)
    if MARK in content:
        content = revealed(content, caller.sees)
    return Response(content, answer.status, headers={"Content-Type": errors.MEDIA_TYPE})


def _failed(error: ApiError, request: HTTPConnection, caller: Caller | None = None) -> Response:
    """`caller` None: it is not known, and gets no names of other namespaces."""
    headers = {**error.headers, "Content-Type": errors.MEDIA_TYPE}
    if error.reason == errors.NOT_LEADING:
        query = f"?{request.url.query}" if request.url.query else ""
        path = request.scope.get("raw_path", b"").decode("ascii") or request.scope["path"]
        headers["Location"] = headers["Location"].rstrip("/") + path + query
    status, envelope = error.failure.status, error.envelope()
    if status == 503:
        headers.setdefault("Retry-After", "1")
    if getattr(request.state, "original", False):
        status, envelope = answers.status_of(status, request.scope["method"], error.reason), answers.refusal(error)
    content = revealed(_encoder.encode(envelope), (caller or NOBODY).sees)
    return Response(content, status, headers=headers)


def _no_operation(method: str, path: str, allowed: set[str]) -> ApiError:
    """`allowed`: methods of the path, empty for a path that does not exist."""
    if not allowed:
        return ApiError(errors.NO_ROUTE, f"path {path} does not exist; /openapi.json lists all paths")
    words = ", ".join(sorted(allowed))
    message = f"{path} does not take {method}, only {words}"
    return ApiError(errors.NO_METHOD, message, headers={"Allow": words})
