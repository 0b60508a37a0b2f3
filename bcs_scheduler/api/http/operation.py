"""One declaration per operation of the API: path, parameters, body, answer, errors. The route table and the OpenAPI
document are both made from it, so both have the same operations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from bcs_scheduler.api.http import errors
from bcs_scheduler.api.reading.foreign import answer_for, diagnosis_for
from bcs_scheduler.api.reading.visible import VisibleState
from bcs_scheduler.api.streams.sse import EventStream
from bcs_scheduler.core.interface.effects import Reason, Reply
from bcs_scheduler.core.interface.requests import Request
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.leadership.gateway import Busy, Facts, Gateway, NotLeading
from bcs_scheduler.security.caller import ANYBODY, Caller
from bcs_scheduler.security.shares import PART
from bcs_scheduler.wire.problems import Problems
from offers.model import Diagnosis
from store.records import Executor
from store.state.reader import StateReader
from transactions.base import Overhead
from transactions.text import duration

BASE = "/v4/scheduler/mesos"


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Limits of the API. Durations in seconds, sizes in bytes."""

    max_body: int = 1024 * 1024
    body_timeout: float = 15.0
    """Seconds within which the body of a request must arrive."""
    command_timeout: float = 30.0
    """Seconds that a command may wait for the core to begin it. After that the command is withdrawn."""
    outcome_timeout: float = 300.0
    """Further seconds of the wait for the outcome of a command that has been begun."""
    watch_limit: float = 60.0
    """Longest long poll."""
    version: str = "unknown"
    default_executor: Executor = CoreOptions().executor
    """Runs taskgroups whose document names no executor."""
    executor_python: str = "python3"
    """Interpreter of our executor on agents."""
    sessions: int = 100
    """Sessions that may be open at a time."""
    client_share: float = PART
    """Part of the sessions, and of the watches and streams, that one address and one caller may have."""
    session_idle: float = 14400.0
    """Seconds without input and output after which a session ends; 0 = sessions have no such limit."""
    answer_timeout: float = CoreOptions().answer_timeout
    """Seconds that an agent may work on a message, if the request does not say."""
    reserve: float = 604800.0
    """Seconds for which the outcome of a command stays readable, if the request does not say."""
    max_priority: int = CoreOptions().max_priority
    """Greatest priority of new work in namespaces that have none of their own, and whose queues have none."""
    overhead: Overhead = CoreOptions().traits.overhead
    """Overhead of a taskgroup of the cluster manager: quota usage counts it, on a standby as well."""


class Param(NamedTuple):
    """A query parameter. `kind` decides how its text is read."""

    name: str
    kind: Literal["text", "int", "bool", "float"]
    description: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()


class Answer(NamedTuple):
    """A successful answer: `data` of the envelope. `resume` is the token of the next page, if there is one."""

    data: Any = None
    status: int = 200
    resume: str = ""


class Listing(NamedTuple):
    """A list that may be long, all of it, as `data` of the envelope: made and sent bit by bit, so that it needs little
    memory however long it is. A failure after the first bit only breaks the connection off."""

    items: Iterator[Any]


class Plain(NamedTuple):
    """An answer outside the envelope (metrics, health, OpenAPI)."""

    content: bytes
    media_type: str = "application/json"
    status: int = 200
    headers: Mapping[str, str] | None = None


class Streamed(NamedTuple):
    """A file of `size` bytes, passed on as it comes; a failure after the first byte only breaks the connection off."""

    chunks: AsyncIterator[bytes]
    size: int
    media_type: str = "application/octet-stream"


Answered = Answer | Listing | Plain | Streamed | EventStream


@dataclass(frozen=True, slots=True)
class Call:
    """One request, read and checked as its operation declares."""

    gateway: Facts
    """Everything but answers of the core, which `reply` and `diagnosis` give."""
    core: Gateway
    """The way to answers of the core. Only `reply` and `diagnosis` use it: they leave out objects that the caller may
    not see."""
    settings: ApiSettings
    path: Mapping[str, str]
    query: Mapping[str, Any]
    """Checked values by parameter; absent ones are missing."""
    body: Any = None
    """Plain JSON data."""
    cause: str = ""
    """Id of the request; the core carries it through everything it does about it."""
    last_event_id: str = ""
    """Position from which a reader of a stream continues: header Last-Event-ID, or else the parameter lastEventId."""

    caller: Caller = ANYBODY
    problems: Problems = field(default_factory=Problems)
    """Problems of the body; its warnings become part of the answer."""
    holders: tuple[str, ...] = ()
    """Holders of the watches of this call (request_gate.holders_of)."""
    original: bool = False
    """True for a client of the original (bcs_scheduler.api.original)."""
    carry_out: Callable[[Operation, Call], Awaitable[Answered]] | None = None
    """Carries another operation out with a call of its own, with admission. None: there is none."""

    def diagnosis(self, transaction_id: str) -> Diagnosis | None:
        """The reason why taskgroups of a transaction have no places, without figures that the caller may not see; None:
        none is known."""
        return diagnosis_for(self.caller, self.core.diagnosis(transaction_id))

    def state(self) -> StateReader:
        """The part of the current state that the caller may see. Raises ApiError (503) if there is none.

        Data from other sources (the hub, lists of the gateway) must be restricted with `caller.sees`."""
        try:
            whole = self.gateway.state()
        except Busy as busy:
            raise errors.ApiError(Reason.UNAVAILABLE, str(busy)) from busy
        return whole if self.caller.everywhere else VisibleState(whole, self.caller)

    @property
    def submitter(self) -> dict[str, Any]:
        """The fields of a request that creates a workload for the caller (core.interface.requests.Creation)."""
        return {"user": self.caller.user, "user_groups": self.caller.groups}

    @property
    def fewest_instances(self) -> int:
        """The smallest number of taskgroups that a document may name. A client of the original sends 0 where its
        template has no number."""
        return 1 if self.original else 0

    @property
    def dry_run(self) -> bool:
        return bool(self.query.get("dryRun", False))

    async def submit(self, command: Request) -> Answer:
        """Hands a command to the core, waits until it is durable, and turns the reply into an answer.

        202 if a transaction or command was started, else 200. Raises ApiError for everything else.
        """
        return accepted(await self.reply(command))

    async def reply(self, command: Request) -> Reply:
        """The core's successful reply, without objects that the caller may not see; ApiError if there is none. The
        request gets the cause of this call, and is a dry run if the call is one."""
        request = msgspec.structs.replace(command, dry_run=command.dry_run or self.dry_run, cause=self.cause)
        try:
            reply = await self._answer(self.core.submit(request))
        except NotLeading as elsewhere:
            raise not_leading(elsewhere.leader) from elsewhere
        except Busy as busy:
            raise errors.ApiError(Reason.UNAVAILABLE, str(busy)) from busy
        if reply.error:
            raise errors.refused(reply)
        data = reply.data
        if type(data) is dict and "warnings" in data:
            for words in data.pop("warnings"):
                self.problems.note(words)
        if self.caller.namespaces is None:
            return reply
        return msgspec.structs.replace(reply, data=answer_for(self.caller, data))

    async def _answer(self, future: Future[Reply]) -> Reply:
        """The reply to a command that has been handed over.

        A command that the core has not begun by the time limit is withdrawn: 503, nothing was or will be done. One that
        has been begun is waited for much longer, because giving up on it would leave its outcome open: 504.
        """
        limit = self.settings.command_timeout
        if await _done(future, limit):
            return future.result()
        if self.core.withdraw(future):
            words = (
                f"the scheduler is busy: the request waited {duration(limit)} and was withdrawn; nothing was changed"
            )
            raise errors.ApiError(Reason.UNAVAILABLE, words)
        if await _done(future, self.settings.outcome_timeout):
            return future.result()
        raise errors.ApiError(
            errors.UNKNOWN_OUTCOME,
            f"no answer after {duration(limit + self.settings.outcome_timeout)}; the scheduler has begun the request: "
            f"read the object and its transactions (cause {self.cause}) before repeating the request",
        )


async def _done(future: Future[Reply], timeout: float) -> bool:
    """Waits up to `timeout` seconds for the future, which another thread completes. The future is left as it is, also
    when the wait is cancelled. Every command waits here: asyncio's own means for this (wrap_future, shield, wait_for)
    make three more futures and cost three times as much."""
    loop = asyncio.get_running_loop()
    woken = loop.create_future()
    future.add_done_callback(lambda _: _notify(loop, woken))
    timer = loop.call_later(timeout, _wake, woken)
    try:
        await woken
    finally:
        timer.cancel()
    return future.done()


def _notify(loop: asyncio.AbstractEventLoop, woken: asyncio.Future[None]) -> None:
    """Called by the thread that completes the command, which may outlive the loop."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_wake, woken)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


def accepted(reply: Reply) -> Answer:
    started = isinstance(reply.data, dict) and (reply.data.get("transactionID") or reply.data.get("commandID"))
    return Answer(reply.data, status=202 if started else 200)


def not_leading(leader: str | None) -> errors.ApiError:
    """`Location` is completed in app.py, which knows the path asked for."""
    if leader is None:
        return errors.ApiError(errors.NO_LEADER, "this scheduler does not lead, and no leader is known; try again")
    return errors.ApiError(
        errors.NOT_LEADING, f"this scheduler does not lead; the leader is {leader}", headers={"Location": leader}
    )


Handler = Callable[[Call], Answered] | Callable[[Call], Awaitable[Answered]]
HandlerT = TypeVar("HandlerT", bound=Callable[[Call], Any])


@dataclass(frozen=True, slots=True)
class Operation:
    """Plain functions are reads and run in a thread pool; coroutines run in the event loop. `write` operations need
    the leader. `body` and `answer` are the types shown in OpenAPI (`answer` is the type of `data`)."""

    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    query: tuple[Param, ...] = ()
    body: Any = None
    answer: Any = None
    reasons: errors.Reasons = ()
    write: bool = False
    leader: bool = False
    """A read that only the leader can answer."""
    status: int = 200
    enveloped: bool = True
    media_type: str = "application/json"
    watcher: Callable[[Call], Awaitable[EventStream]] | None = None
    """Carries the operation out if the caller asks for `watch=true`: the list as a stream. Only the leader does."""
    audited: Callable[[Mapping[str, str]], bool] | None = None
    """Returns True for the queries of a read that gets a line in the audit log; None = no read does."""
    upgrade: bool = False
    """True if the operation is carried out over a WebSocket (bcs_scheduler.api.sessions)."""
    plans: bool = False
    """True if the operation is always a dry run."""
    variant: int = 1
    """Counts the paths of one handler."""

    @property
    def name(self) -> str:
        name = getattr(self.handler, "__name__", "operation")
        return name if self.variant == 1 else f"{name}_{self.variant}"


def always(query: Mapping[str, str]) -> bool:
    """Returns True: every read gets a line in the audit log (`Operation.audited`)."""
    return True


@dataclass(slots=True)
class Table:
    """Collects the operations of one kind of resource. A handler may be declared for several paths."""

    tag: str
    base: str = BASE
    operations: list[Operation] = field(default_factory=list)

    def read(
        self,
        path: str,
        summary: str,
        *,
        query: Sequence[Param] = (),
        answer: Any = None,
        reasons: Sequence[errors.ApiReason] = (Reason.NOT_FOUND,),
        **more: Any,
    ) -> Callable[[HandlerT], HandlerT]:
        """Declares a GET."""

        def declare(handler: HandlerT) -> HandlerT:
            self.operations.append(
                Operation(
                    "GET",
                    self.base + path,
                    handler,
                    summary,
                    self.tag,
                    tuple(query),
                    answer=answer,
                    reasons=tuple(reasons),
                    variant=self._variant(handler),
                    **more,
                )
            )
            return handler

        return declare

    def write(
        self,
        method: str,
        path: str,
        summary: str,
        *,
        query: Sequence[Param] = (),
        body: Any = None,
        answer: Any = None,
        reasons: Sequence[errors.ApiReason] = (Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID),
        status: int = 202,
        dry_run: bool = True,
        enveloped: bool = True,
    ) -> Callable[[HandlerT], HandlerT]:
        """Declares a change. Every change can be planned with ``?dryRun=true``. `dry_run` False: the operation is a
        plan itself."""

        def declare(handler: HandlerT) -> HandlerT:
            self.operations.append(
                Operation(
                    method,
                    self.base + path,
                    handler,
                    summary,
                    self.tag,
                    (
                        *query,
                        *((FIELD_VALIDATION,) if body is not None else ()),
                        *((MUST_EXIST,) if _may_be_missing(method, path) else ()),
                        *((DRY_RUN,) if dry_run else ()),
                    ),
                    body=body,
                    answer=answer,
                    reasons=(*reasons, Reason.UNAVAILABLE, errors.UNKNOWN_OUTCOME, errors.NOT_LEADING),
                    write=True,
                    status=status,
                    enveloped=enveloped,
                    plans=not dry_run,
                    variant=self._variant(handler),
                )
            )
            return handler

        return declare

    def _variant(self, handler: Callable[..., Any]) -> int:
        return 1 + sum(operation.handler is handler for operation in self.operations)


_MAY_BE_MISSING = frozenset(
    (
        "configmaps", "secrets", "services", "configmap", "secret", "service", "admissionwebhook", "crd", "command",
        "transactions", "daemonset", "daemonsets",
    )
)  # fmt: skip
"""Parts of paths of objects whose deletion succeeds in the original also if they do not exist."""


def _may_be_missing(method: str, path: str) -> bool:
    return method == "DELETE" and not _MAY_BE_MISSING.isdisjoint(path.split("/"))


MUST_EXIST = Param(
    "mustExist",
    "bool",
    "Refuse the deletion (404) if the object does not exist. Default: such a deletion succeeds, with a warning.",
)
DRY_RUN = Param("dryRun", "bool", "Change nothing; the answer is the plan.")
FIELD_VALIDATION = Param(
    "fieldValidation",
    "text",
    "Fields and values of the document that do not have the written effect: `Strict` refuses them, `Warn` (default) "
    "accepts them and names each in `warnings`, `Original` also names those that have another effect in the original "
    "(the default of its clients), `Ignore` accepts them. Fields that change the meaning are always refused.",
    choices=("Strict", "Warn", "Original", "Ignore"),
)
LIMIT = Param(
    "limit",
    "int",
    "Maximum number of elements; the envelope's `continue` resumes the list. Default: all elements.",
    1,
    100_000,
)
CONTINUE = Param("continue", "text", "Value of `continue` of the previous page.")
LABEL_SELECTOR = Param(
    "labelSelector", "text", "`k=v`, `k!=v`, `k in (a,b)`, `k notin (a,b)`, `k`, `!k`, separated by commas."
)
