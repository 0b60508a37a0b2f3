"""The scheduler API: POST /api/v1/scheduler."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from bcs_scheduler.local.errors import InvalidCall
from bcs_scheduler.local.master import validation
from bcs_scheduler.local.master.accept import accept
from bcs_scheduler.local.master.master import Master
from bcs_scheduler.local.objects.model import Framework
from bcs_scheduler.local.transport.calls import accepted_type, answered, parse_body
from bcs_scheduler.local.transport.http import Request, Stream, response
from bcs_scheduler.local.transport.stream import EventStream
from bcs_scheduler.mesos.proto import scheduler_pb2

ACCEPTED = response(202)

Call = scheduler_pb2.Call


class SchedulerApi:
    def __init__(self, master: Master) -> None:
        self._master = master
        self._acknowledge = master.tasks.acknowledge
        self._handlers: dict[int, Callable[[Framework, Call], bytes | None]] = {
            Call.TEARDOWN: lambda framework, call: master.remove_framework(framework),
            Call.ACCEPT: lambda framework, call: accept(master.offers, master.tasks, framework, call.accept),
            Call.DECLINE: self._decline,
            Call.ACCEPT_INVERSE_OFFERS: lambda framework, call: master.answer_inverse_offers(
                framework, [i.value for i in call.accept_inverse_offers.inverse_offer_ids]
            ),
            Call.DECLINE_INVERSE_OFFERS: lambda framework, call: master.answer_inverse_offers(
                framework, [i.value for i in call.decline_inverse_offers.inverse_offer_ids]
            ),
            Call.REVIVE: lambda framework, call: master.revive(framework, list(call.revive.roles)),
            Call.SUPPRESS: lambda framework, call: master.suppress(framework, list(call.suppress.roles)),
            Call.KILL: lambda framework, call: master.tasks.kill(framework, call.kill),
            Call.SHUTDOWN: self._shutdown,
            Call.ACKNOWLEDGE_OPERATION_STATUS: self._acknowledge_operation,
            Call.RECONCILE: lambda framework, call: master.tasks.reconcile(framework, call.reconcile.tasks),
            Call.MESSAGE: self._message,
            Call.REQUEST: lambda framework, call: None,  # Mesos' own allocator ignores it as well
            Call.UPDATE_FRAMEWORK: self._update_framework,
        }

    def __call__(self, request: Request) -> bytes | Stream:
        return answered(self._handle, request)

    def _handle(self, request: Request) -> bytes | Stream:
        if request.method != "POST":
            raise InvalidCall(405, f"Expecting one of {{ 'POST' }}, but received '{request.method}'")
        call = parse_body(request, Call)
        error = validation.call(call)
        if error is not None:
            raise InvalidCall(400, f"Failed to validate scheduler::Call: {error}")
        if call.type == Call.SUBSCRIBE:
            return self._subscribe(request, call)
        framework = self._framework(request, call.framework_id.value)
        if call.type == Call.ACKNOWLEDGE:  # by far the most frequent call
            acknowledge = call.acknowledge
            self._acknowledge(framework, acknowledge.agent_id.value, acknowledge.task_id.value, acknowledge.uuid)
            return ACCEPTED
        handler = self._handlers.get(call.type)
        if handler is None:
            raise InvalidCall(501, "")
        return handler(framework, call) or ACCEPTED

    def _framework(self, request: Request, framework_id: str) -> Framework:
        framework = self._master.frameworks.get(framework_id)
        if framework is None:
            raise InvalidCall(400, "Framework cannot be found")
        if framework.stream is None:
            raise InvalidCall(403, "Framework is not subscribed")
        stream_id = request.headers.get(b"mesos-stream-id")
        if stream_id is None:
            raise InvalidCall(400, "All non-subscribe calls should include the 'Mesos-Stream-Id' header")
        if stream_id != framework.stream.id_bytes:
            raise InvalidCall(
                400,
                f"The stream ID '{stream_id.decode('latin-1')}' included in this request didn't match the stream ID "
                f"currently associated with framework ID {framework_id}",
            )
        return framework

    def _subscribe(self, request: Request, call: Call) -> Stream:
        if b"mesos-stream-id" in request.headers:
            raise InvalidCall(400, "Subscribe calls should not include the 'Mesos-Stream-Id' header")
        content_type = accepted_type(request)
        master = self._master
        subscribed: list[Framework] = []

        def lost() -> None:
            for framework in subscribed:
                master.disconnected(framework, stream)

        heartbeat = scheduler_pb2.Event(type=scheduler_pb2.Event.HEARTBEAT)
        stream = EventStream(content_type, heartbeat, master.settings.heartbeat_interval, lost, str(uuid4()))
        framework = master.subscribe(call.subscribe, stream)
        if framework is not None:
            subscribed.append(framework)
        return stream

    def _acknowledge_operation(self, framework: Framework, call: Call) -> None:
        framework.operations.pop(call.acknowledge_operation_status.uuid, None)

    def _decline(self, framework: Framework, call: Call) -> None:
        ids = [offer_id.value for offer_id in call.decline.offer_ids]
        self._master.offers.decline(framework, ids, call.decline.filters.refuse_seconds)

    def _shutdown(self, framework: Framework, call: Call) -> None:
        agent = self._master.agents.get(call.shutdown.agent_id.value)
        executor = agent and agent.executors.get((framework.id, call.shutdown.executor_id.value))
        if agent and executor and agent.connected:
            agent.shutdown(executor)

    def _message(self, framework: Framework, call: Call) -> None:
        """Sends a message to an executor. Best effort, as in Mesos: a message that cannot be delivered now is
        dropped."""
        agent = self._master.agents.get(call.message.agent_id.value)
        executor = agent and agent.executors.get((framework.id, call.message.executor_id.value))
        if agent and executor and agent.connected and not self._master.tasks.faults.lose_message():
            agent.message(executor, call.message.data)

    def _update_framework(self, framework: Framework, call: Call) -> bytes | None:
        error = self._master.update_framework(framework, call.update_framework)
        if error is not None:
            raise InvalidCall(400, error)
        return response(200)
