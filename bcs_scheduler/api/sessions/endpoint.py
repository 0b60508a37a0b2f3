"""The way of a WebSocket: the rights of its caller, the document of the session, the relay, and two lines of audit."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from functools import partial

import structlog
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bcs_scheduler.agentapi.sessions import AgentAway, SessionError
from bcs_scheduler.api import access
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.connections import RETRY
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.api.http.operation import ApiSettings, Call, Operation, not_leading
from bcs_scheduler.api.http.request_gate import LONGEST_NAME, RequestGate, holders_of, take_place
from bcs_scheduler.api.reading.query import read_query
from bcs_scheduler.api.routes.sessions import kind_of, opener_of
from bcs_scheduler.api.sessions import frames
from bcs_scheduler.api.sessions.frames import Outcome, SessionRequest
from bcs_scheduler.api.sessions.programs import Opener
from bcs_scheduler.api.sessions.relay import ClientDisconnected, Relay, SessionMetrics, closed
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.leadership.gateway import Gateway
from bcs_scheduler.security.caller import Caller
from bcs_scheduler.security.shares import Shares
from transactions.text import duration

log = structlog.get_logger("bcs_scheduler.api")
FIRST = 30.0
"""Seconds in which the document of the session must have come."""
FAREWELL = 10.0
"""Seconds for the messages that end a session at the agent, and for the last message to the user."""
ENDED = 1000
"""Close code (RFC 6455, section 7.4.1)."""
Refuse = Callable[[ApiError, HTTPConnection], Response]


class Endpoint:
    """All sessions of one server."""

    def __init__(
        self, gateway: Gateway, settings: ApiSettings, gate: RequestGate, refuse: Refuse, metrics: SessionMetrics
    ) -> None:
        self._gateway, self._settings, self._gate, self._refuse = gateway, settings, gate, refuse
        self._metrics = metrics
        self._places = Shares(settings.sessions, settings.client_share)

    async def serve(self, operation: Operation, scope: Scope, receive: Receive, send: Send) -> None:
        connection = HTTPConnection(scope)
        await receive()  # websocket.connect
        cause = f"api-{os.urandom(6).hex()}"
        required, caller = self._gate.required_access(operation), None
        try:
            caller = self._gate.identify(connection, required)
            access.check(required, caller, connection.path_params, connection.query_params)
            take_place(connection, caller)
            holders = holders_of(connection, caller)
            opener = self._opener(operation, connection, cause, caller)
            self._take(holders)
        except ApiError as error:
            status, kind = error.failure.status, kind_of(operation)
            self._gate.record_session(connection, caller, cause, "refused", status, error.reason, kind=kind)
            await refuse_websocket(self._refuse(error, connection), send)
            return
        kind = kind_of(operation)
        self._metrics.session_opened(kind)
        try:
            await send({"type": "websocket.accept", "subprotocol": _subprotocol(scope)})
            relay = Relay(receive, send, partial(self._why, connection, required, caller), self._metrics)
            record = partial(self._gate.record_session, connection, caller, cause, kind=kind)
            await self._session(relay, cause, opener, record)
            await closed(send({"type": "websocket.close", "code": ENDED}), FAREWELL)
        finally:
            self._places.give_back(holders)
            self._metrics.session_closed(kind)

    def _opener(self, operation: Operation, connection: HTTPConnection, cause: str, caller: Caller) -> Opener:
        """Raises ApiError."""
        query = read_query(connection.query_params.multi_items(), operation.query)
        if self._gateway.role() != "master":
            raise not_leading(self._gateway.leader_url())
        call = Call(
            self._gateway, self._gateway, self._settings, connection.path_params, query, cause=cause, caller=caller
        )
        return opener_of(operation, call)

    def _take(self, holders: Sequence[str]) -> None:
        """Takes a place for a session. Raises ApiError (503)."""
        full = self._places.take(holders)
        if full is None:
            return
        words = f"{self._places.taken} sessions are open, which is the maximum"
        if full:
            words = f"{full} has {self._places.each} sessions, which is the maximum for one address and one caller"
        raise ApiError(errors.TOO_MANY_SESSIONS, f"{words}; try again later", headers={"Retry-After": str(RETRY)})

    def _why(
        self, connection: HTTPConnection, required: access.RequiredAccess, caller: Caller, silent: float
    ) -> Outcome | None:
        """Reason for which the session must end; None = the session may continue. `silent`: seconds without input and
        output."""
        if self._gateway.role() != "master":
            return Outcome(reason="stepped_down", message="this scheduler does not lead any more; try again")
        if not self._gate.still_allows(connection, required, caller):
            return Outcome(reason="revoked", message="the token no longer has the required right")
        if self._settings.session_idle and silent >= self._settings.session_idle:
            return Outcome(reason="idle", message=f"the session was idle for {duration(silent)}")
        return None

    async def _session(self, relay: Relay, cause: str, opener: Opener, record: Callable[..., None]) -> None:
        """Runs the session from the document to the last message. Raises no error that a user or an agent can cause.
        `record` writes a line of the audit log."""
        began, outcome = time.monotonic(), Outcome()
        begun = False
        try:
            async with asyncio.timeout(FIRST):
                first = await relay.message()
            wanted = frames.read_session_request(first if isinstance(first, str) else "")
            file = {"file": wanted.copy.path[:LONGEST_NAME]} if wanted.copy is not None else {}
            record("begin", program=_program(wanted), tty=wanted.tty is not None, **file)
            begun = True
            streams = await opener(wanted)
            try:
                outcome = await relay.run(streams) or Outcome(reason="left", message="the client has disconnected")
            finally:
                await closed(streams.close(), FAREWELL)
        except ClientDisconnected:
            outcome = Outcome(reason="left", message="the client has disconnected")
        except TimeoutError:
            outcome = Outcome(
                reason=errors.TOO_SLOW, message=f"the first message did not arrive within {duration(FIRST)}"
            )
        except ValueError as error:
            outcome = Outcome(reason=Reason.INVALID, message=str(error))
        except ApiError as error:
            outcome = Outcome(reason=error.reason, message=error.message)
        except AgentAway as error:
            outcome = Outcome(reason=errors.AGENT, message=str(error))
        except SessionError as error:
            outcome = Outcome(reason=Reason.CONFLICT, message=str(error))
        except Exception:
            log.exception("a session failed", cause=cause)
            outcome = Outcome(
                reason=errors.INTERNAL, message=f"internal error; search the log of the scheduler for {cause}"
            )
        if begun:
            record(
                "end",
                error=outcome.reason,
                exitCode=outcome.exit_code,
                seconds=round(time.monotonic() - began, 3),
                received=relay.received,
                sent=relay.sent,
            )
        if outcome.reason != "left":
            await closed(relay.say(frames.status_frame(outcome)), FAREWELL)


def _program(wanted: SessionRequest) -> str:
    """The name of a program, never its arguments; empty if the session attaches to a task."""
    if wanted.copy is not None:
        return wanted.copy.action
    if wanted.command:
        return wanted.command[0][:200]
    return f"port {wanted.port}" if wanted.port else ""


def _subprotocol(scope: Scope) -> str | None:
    return frames.PROTOCOL if frames.PROTOCOL in scope.get("subprotocols", ()) else None


async def refuse_websocket(response: Response, send: Send) -> None:
    """An answer of HTTP in place of a WebSocket."""
    head = {"type": "websocket.http.response.start", "status": response.status_code, "headers": response.raw_headers}
    await send(head)
    await send({"type": "websocket.http.response.body", "body": bytes(response.body)})
