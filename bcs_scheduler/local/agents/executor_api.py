"""The executor API of an agent: POST /api/v1/executor (src/slave/http.cpp and validation.cpp of Apache Mesos 1.11)."""

from __future__ import annotations

from typing import Protocol

from bcs_scheduler.local.agents.custom_executor import CustomExecutor, State
from bcs_scheduler.local.errors import InvalidCall
from bcs_scheduler.local.transport.calls import accepted_type, answered, parse_body
from bcs_scheduler.local.transport.http import Request, Stream, response
from bcs_scheduler.local.transport.stream import EventStream
from bcs_scheduler.mesos.proto import executor_pb2
from bcs_scheduler.mesos.proto import mesos_pb2 as pb

ACCEPTED = response(202)
UUID_BYTES = 16

Call = executor_pb2.Call
Event = executor_pb2.Event

_PAYLOADS = {Call.SUBSCRIBE: "subscribe", Call.UPDATE: "update", Call.MESSAGE: "message"}


class Executors(Protocol):
    """The operations of an agent that the API needs."""

    @property
    def recovering(self) -> bool:
        """True if it waits for its executors after a restart."""

    def custom_executor(self, framework_id: str, executor_id: str) -> CustomExecutor:
        """Raises InvalidCall if there is none."""

    def executor_message(self, run: CustomExecutor, data: bytes) -> None: ...


class ExecutorApi:
    """`heartbeat`: seconds between two HEARTBEAT events."""

    def __init__(self, executors: Executors, heartbeat: float) -> None:
        self._executors = executors
        self._heartbeat = heartbeat

    def __call__(self, request: Request) -> bytes | Stream:
        return answered(self._handle, request)

    def _handle(self, request: Request) -> bytes | Stream:
        if request.method != "POST":
            raise InvalidCall(405, f"Expecting one of {{ 'POST' }}, but received '{request.method}'")
        call = parse_body(request, Call)
        if error := validate(call):
            raise InvalidCall(400, f"Failed to validate Executor::Call: {error}")
        if call.type == Call.SUBSCRIBE:
            return self._subscribe(call, accepted_type(request))
        if self._executors.recovering:
            raise InvalidCall(503, "Agent has not finished recovery")
        if call.type == Call.HEARTBEAT:
            return ACCEPTED
        run = self._executors.custom_executor(call.framework_id.value, call.executor_id.value)
        if run.state is State.REGISTERING:
            raise InvalidCall(403, "Executor is not subscribed")
        if call.type == Call.UPDATE:
            run.update(call.update.status)
        elif call.type == Call.MESSAGE:
            self._executors.executor_message(run, call.message.data)
        else:
            raise InvalidCall(501, "")
        return ACCEPTED

    def _subscribe(self, call: Call, content_type: str) -> Stream:
        run = self._executors.custom_executor(call.framework_id.value, call.executor_id.value)
        heartbeat = Event(type=Event.HEARTBEAT)
        stream = EventStream(content_type, heartbeat, self._heartbeat, lambda: run.disconnected(stream))
        run.subscribe(call.subscribe, stream)
        return stream


def validate(call: Call) -> str | None:
    """The complaint about a call as such, before anything is looked up."""
    if not call.HasField("type"):
        return "Expecting 'type' to be present"
    payload = _PAYLOADS.get(call.type)
    if payload is not None and not call.HasField(payload):
        return f"Expecting '{payload}' to be present"
    updates = [call.update] if call.type == Call.UPDATE else []
    if call.type == Call.SUBSCRIBE:  # an update without an acknowledgement would delay those behind it permanently
        updates += call.subscribe.unacknowledged_updates
    complaints = (_validate_status(call, update.status) for update in updates)
    return next((complaint for complaint in complaints if complaint is not None), None)


def _validate_status(call: Call, status: pb.TaskStatus) -> str | None:
    executor_id = call.executor_id.value
    sender = f"executor {executor_id} of framework {call.framework_id.value}"
    if not status.HasField("uuid"):
        return "Expecting 'uuid' to be present"
    if len(status.uuid) != UUID_BYTES:
        return "Not a valid UUID"
    if status.HasField("executor_id") and status.executor_id.value != executor_id:
        return f"ExecutorID in Call: {executor_id} does not match ExecutorID in TaskStatus: {status.executor_id.value}"
    if status.source != pb.TaskStatus.SOURCE_EXECUTOR:
        return f"Received Call from {sender} with invalid source, expecting 'SOURCE_EXECUTOR'"
    if status.state == pb.TASK_STAGING:
        return f"Received TASK_STAGING from {sender} which is not allowed"
    return None
