"""The ASGI application: routes made from the declared operations, one way in and one way out for every request."""

from __future__ import annotations

import inspect
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import structlog
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from bcs_scheduler.api import body, errors, needs
from bcs_scheduler.api.admission import Admission, blamed
from bcs_scheduler.api.door import Door
from bcs_scheduler.api.errors import ApiError
from bcs_scheduler.api.operation import (
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
from bcs_scheduler.api.query import read_query
from bcs_scheduler.api.routes import operations
from bcs_scheduler.api.routing import Routes
from bcs_scheduler.api.sse import EventStream, EventStreamResponse
from bcs_scheduler.core.effects import Problem
from bcs_scheduler.gateway import Gateway
from bcs_scheduler.security.caller import Caller

log = structlog.get_logger("bcs_scheduler.api")
STATE_AGE = "X-Bcs-State-Age"
"""Header of a standby's answers: seconds by which what they show may be behind what is stored."""
_encoder = msgspec.json.Encoder()


def create_app(
    gateway: Gateway,
    settings: ApiSettings | None = None,
    door: Door | None = None,
    admission: Admission | None = None,
) -> ASGIApp:
    """The API over a gateway. It holds no state of its own; several apps may share a gateway. Without a `door` it is
    open to everybody."""
    return _App(gateway, settings or ApiSettings(), door or Door(), admission or Admission())


class _App:
    """The way of every HTTP request. An application of Starlette would try one route after the other, and pass each
    message of an answer through four layers that have nothing to do here: all errors are answered by `_endpoint`."""

    def __init__(self, gateway: Gateway, settings: ApiSettings, door: Door, admission: Admission) -> None:
        by_path: defaultdict[str, dict[str, Operation]] = defaultdict(dict)
        for operation in operations():
            by_path[operation.path][operation.method] = operation
            if operation.method == "GET":
                by_path[operation.path]["HEAD"] = operation
        self._routes = Routes(by_path)
        self._gateway, self._settings, self._door, self._admission = gateway, settings, door, admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"the API speaks HTTP, not {scope['type']}")
        response = await self._answer(Request(scope, receive, send))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if b"%2f" in request.scope.get("raw_path", b"").lower():
            # Routes are found in decoded paths, so a name with a slash would be taken for two parts of another route.
            # No name has any.
            problem = Problem("/", "contains %2F: no name has a slash in it")
            return _failed(ApiError(errors.BAD_PARAMETER, f"the path {problem.message}", (problem,)), request)
        allowed: list[str] = []
        for methods, parameters in self._routes.find(request.scope["path"]):
            operation = methods.get(request.method)
            if operation is not None:
                request.scope["path_params"] = parameters
                return await self._endpoint(operation, request)
            allowed = allowed or sorted(methods)
        return _failed(_no_operation(request, allowed), request)

    async def _endpoint(self, operation: Operation, request: Request) -> Response:
        started = time.perf_counter()
        cause = f"api-{os.urandom(6).hex()}"
        door, path = self._door, request.scope["path"]
        caller, reason, admitted = None, "", False
        try:
            need = door.need_of(operation)
            caller = door.identify(request, need)
            needs.check(need, caller, request.path_params, request.query_params)
            admitted = True
            response = await _answer(operation, request, self._gateway, self._settings, cause, caller, self._admission)
            if isinstance(response, EventStreamResponse):
                response.allowed = partial(door.still, request, need, caller)
        except ApiError as error:
            reason = error.reason
            response = _failed(error, request)
            if not admitted and _has_body(request):
                response.headers["Connection"] = "close"  # nobody waits for the body of who may not come in
        except Exception:
            reason = errors.INTERNAL
            log.exception("request failed", cause=cause, method=request.method, path=path)
            response = _failed(ApiError(errors.INTERNAL, f"internal error; the log has it as {cause}"), request)
        response.headers["X-Request-Id"] = cause
        age = self._gateway.age()
        if age is not None:
            response.headers[STATE_AGE] = f"{age:.1f}"
        door.record(operation, request, caller, cause, response.status_code, reason)
        report = log.info if operation.write else log.debug
        report(
            "request",
            cause=cause,
            method=request.method,
            path=path,
            query=request.scope["query_string"].decode("latin-1"),
            status=response.status_code,
            who=caller.name if caller else "",
            ms=round((time.perf_counter() - started) * 1000, 1),
        )
        return response


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
    query = read_query(request.query_params.multi_items(), operation.query)
    if (operation.write or operation.leader) and gateway.role() != "master":
        raise not_leading(gateway.leader_url())
    data = None
    if operation.body is not None:
        data = await _read_body(request, settings)
        request.state.document = data
        needs.check_document(caller, needs.need_of(operation), data)
    resume = request.headers.get("last-event-id") or query.get("lastEventId", "")
    call = Call(gateway, settings, request.path_params, query, data, cause, resume, caller)
    if inspect.iscoroutinefunction(operation.handler):
        return respond(await _carried_out(operation, call, admission))
    return await run_in_threadpool(lambda: respond(operation.handler(call)))  # type: ignore[arg-type]


async def _carried_out(operation: Operation, call: Call, admission: Admission) -> Answered:
    """With the document as webhooks leave it."""
    admitted = await admission.admit(operation, call)
    try:
        answer: Answered = await operation.handler(replace(call, body=admitted.document))  # type: ignore[misc]
    except ApiError as error:
        raise blamed(error, admitted) from error
    return answer


async def _read_body(request: Request, settings: ApiSettings) -> Any:
    headers = request.headers
    try:
        content = await body.read(
            request.stream(),
            headers.get("content-length"),
            headers.get("content-type", ""),
            settings.max_body,
            settings.body_timeout,
        )
    except ClientDisconnect as gone:
        raise ApiError(errors.BAD_BODY, "the connection ended before the body did") from gone
    return body.parse(content)


CHUNK = 500
"""Elements of a long list that are made and sent at once: some milliseconds of work between other threads' turns."""


def listed(listing: Listing) -> Response:
    """Short lists in one piece, as all other answers."""
    first = list(islice(listing.items, CHUNK))
    if len(first) < CHUNK:
        return respond(Answer(first))
    return StreamingResponse(_pieces(first, listing.items), headers={"Content-Type": errors.MEDIA_TYPE})


def _pieces(first: list[Any], rest: Iterator[Any]) -> Iterator[bytes]:
    head, _, tail = _encoder.encode({"result": True, "code": errors.OK, "message": "success", "data": []}).partition(
        b"[]"
    )
    yield head + b"[" + _encoder.encode(first)[1:-1]
    while some := list(islice(rest, CHUNK)):
        yield b"," + _encoder.encode(some)[1:-1]
    yield b"]" + tail


def respond(answer: Answered) -> Response:
    if isinstance(answer, EventStream):
        return EventStreamResponse(answer)
    if isinstance(answer, Streamed):
        head = {"Content-Length": str(answer.size)}
        return StreamingResponse(answer.chunks, media_type=answer.media_type, headers=head)
    if isinstance(answer, Plain):
        return Response(answer.content, answer.status, answer.headers, media_type=answer.media_type)
    if isinstance(answer, Listing):
        return listed(answer)
    envelope = {"result": True, "code": errors.OK, "message": "success", "data": answer.data}
    if answer.resume:
        envelope["continue"] = answer.resume
    return Response(_encoder.encode(envelope), answer.status, headers={"Content-Type": errors.MEDIA_TYPE})


def _failed(error: ApiError, request: Request) -> Response:
    headers = {**error.headers, "Content-Type": errors.MEDIA_TYPE}
    if error.reason == errors.NOT_LEADING:
        query = f"?{request.url.query}" if request.url.query else ""
        path = request.scope.get("raw_path", b"").decode("ascii") or request.scope["path"]
        headers["Location"] = headers["Location"].rstrip("/") + path + query
    if error.failure.status == 503:
        headers.setdefault("Retry-After", "1")
    return Response(_encoder.encode(error.envelope()), error.failure.status, headers=headers)


def _no_operation(request: Request, allowed: list[str]) -> ApiError:
    """`allowed`: methods of the path, empty for a path that does not exist."""
    path = request.scope["path"]
    if not allowed:
        return ApiError(errors.NO_ROUTE, f"there is no path {path}; /openapi.json lists them")
    words = ", ".join(allowed)
    message = f"{path} does not take {request.method}, only {words}"
    return ApiError(errors.NO_METHOD, message, headers={"Allow": words})
