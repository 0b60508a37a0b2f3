"""The API of a master for operators and tools: POST /api/v1, GET /state, GET /flags, GET /version, GET /health."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from email.utils import formatdate
from typing import Any

from bcs_scheduler.local.errors import InvalidCall
from bcs_scheduler.local.master import validation
from bcs_scheduler.local.master.master import VERSION, Master
from bcs_scheduler.local.master.reservations_api import ReservationsApi
from bcs_scheduler.local.objects.model import TERMINAL, Agent, Framework, Task
from bcs_scheduler.local.objects.resources import Amounts, sum_of
from bcs_scheduler.local.transport.calls import accepted_type, answered, parse_body
from bcs_scheduler.local.transport.http import Request, SlicedResponse, response
from bcs_scheduler.local.transport.stream import JSON, encode
from bcs_scheduler.mesos.proto import master_pb2
from bcs_scheduler.mesos.proto import mesos_pb2 as pb

Call = master_pb2.Call
Response = master_pb2.Response

SLICE = 100
"""Agents that are listed in one step: some milliseconds."""


class OperatorApi:
    def __init__(self, master: Master) -> None:
        self._master = master
        self._reservations = ReservationsApi(master)
        self._getters: dict[int, Callable[[Response], None]] = {
            Call.GET_HEALTH: self._get_health,
            Call.GET_VERSION: self._get_version,
            Call.GET_STATE: self._get_state,
            Call.GET_FRAMEWORKS: lambda answer: self._get_frameworks(answer.get_frameworks),
            Call.GET_EXECUTORS: lambda answer: self._get_executors(answer.get_executors),
            Call.GET_TASKS: lambda answer: self._get_tasks(answer.get_tasks),
            Call.GET_MASTER: self._get_master,
        }

    def __call__(self, request: Request) -> bytes | SlicedResponse:
        return answered(self._handle, request)

    def health(self, request: Request) -> bytes:
        return response(200)

    def version(self, request: Request) -> bytes:
        """GET /version: libraries find the abilities of the master here."""
        return response(200, json.dumps({"version": VERSION}).encode(), JSON)

    def metrics(self, request: Request) -> bytes:
        """Of the real master's metrics those about agents."""
        master = self._master
        active = sum(agent.active for agent in master.agents.values())
        counters = {
            "master/slave_registrations": master.registrations,
            "master/slave_reregistrations": master.returns,
            "master/slave_removals": master.removals,
            "master/slaves_active": active,
            "master/slaves_connected": sum(agent.connected for agent in master.agents.values()),
            "master/slaves_unreachable": len(master.unreachable),
        }
        return response(200, json.dumps({name: float(value) for name, value in counters.items()}).encode(), JSON)

    def _handle(self, request: Request) -> bytes | SlicedResponse:
        if request.method != "POST":
            raise InvalidCall(405, f"Expecting one of {{ 'POST' }}, but received '{request.method}'")
        call = parse_body(request, Call)
        if not call.HasField("type"):
            raise InvalidCall(400, "Failed to validate master::Call: Expecting 'type' to be present")
        if call.type == Call.TEARDOWN:
            return self._teardown(call)
        if call.type == Call.MARK_AGENT_GONE:
            return self._mark_agent_gone(call)
        if call.type == Call.RESERVE_RESOURCES:
            return self._reservations.reserve(call)
        if call.type == Call.UNRESERVE_RESOURCES:
            return self._reservations.unreserve(call)
        if call.type == Call.GET_AGENTS:
            return SlicedResponse(self._agents(accepted_type(request)))
        getter = self._getters.get(call.type)
        if getter is None:
            raise InvalidCall(501, "")
        content_type = accepted_type(request)
        answer = Response(type=Response.Type.Value(Call.Type.Name(call.type)))  # type: ignore[arg-type]
        getter(answer)
        return response(200, encode(answer, content_type), content_type, f"Date: {formatdate(usegmt=True)}")

    # --- calls that change something ---

    def _teardown(self, call: Call) -> bytes:
        if not call.HasField("teardown"):
            raise InvalidCall(400, "Failed to validate master::Call: Expecting 'teardown' to be present")
        framework = self._master.frameworks.get(call.teardown.framework_id.value)
        if framework is None:
            raise InvalidCall(400, "No framework found with specified ID")
        self._master.remove_framework(framework)
        return response(200)

    def _mark_agent_gone(self, call: Call) -> bytes:
        if not call.HasField("mark_agent_gone"):
            raise InvalidCall(400, "Failed to validate master::Call: Expecting 'mark_agent_gone' to be present")
        agent_id = call.mark_agent_gone.agent_id.value
        if error := validation.identifier(agent_id):
            raise InvalidCall(400, f"Failed to validate master::Call: {error}")
        master = self._master
        agent = master.agents.get(agent_id)
        if agent is None and agent_id in master.unreachable:
            agent = master.unreachable[agent_id].agent
        if agent is not None:
            master.mark_gone(agent)
        elif agent_id not in master.gone:
            raise InvalidCall(404, f"Agent '{agent_id}' not found")
        return response(200)

    # --- questions ---

    def _get_health(self, answer: Response) -> None:
        answer.get_health.healthy = True

    def _get_version(self, answer: Response) -> None:
        answer.get_version.version_info.version = VERSION

    def _get_master(self, answer: Response) -> None:
        answer.get_master.master_info.CopyFrom(self._master.info())
        answer.get_master.start_time = answer.get_master.elected_time = self._master.started

    def _get_state(self, answer: Response) -> None:
        self._get_tasks(answer.get_state.get_tasks)
        self._get_executors(answer.get_state.get_executors)
        self._get_frameworks(answer.get_state.get_frameworks)
        self._get_agents(answer.get_state.get_agents, self._master.agents.values())

    def _agents(self, content_type: str) -> Iterator[bytes | None]:
        """The answer to GET_AGENTS, in steps. The date of the answer is that of the first step: a client that compares
        the date with the times of registrations then takes no agent for older than it is."""
        date = f"Date: {formatdate(usegmt=True)}"
        answer = Response(type=Response.GET_AGENTS)
        answer.get_agents.SetInParent()
        agents = list(self._master.agents.values())
        for first in range(0, len(agents), SLICE):
            present = [agent for agent in agents[first : first + SLICE] if agent.id in self._master.agents]
            self._get_agents(answer.get_agents, present)
            yield None
        yield response(200, encode(answer, content_type), content_type, date)

    def _get_agents(self, answer: Response.GetAgents, agents: Iterable[Agent]) -> None:
        answer.SetInParent()
        for agent in agents:
            message = answer.agents.add(active=agent.active, version=VERSION)
            message.pid = agent.pid
            message.agent_info.CopyFrom(agent.info())
            message.registered_time.nanoseconds = int(agent.registered * 1e9)
            if agent.reregistered:
                message.reregistered_time.nanoseconds = int(agent.reregistered * 1e9)
            message.total_resources.extend(agent.total.messages(""))
            for role, amounts in used_by_role(agent).items():
                message.allocated_resources.extend(amounts.messages(role))
            for offer in agent.offers.values():
                message.offered_resources.extend(offer.amounts.messages(offer.role))

    def _get_frameworks(self, answer: Response.GetFrameworks) -> None:
        answer.SetInParent()
        for framework in self._master.frameworks.values():
            self._framework(answer.frameworks.add(), framework)
        for framework in self._master.completed.values():
            self._framework(answer.completed_frameworks.add(), framework)

    def _framework(self, message: Response.GetFrameworks.Framework, framework: Framework) -> None:
        message.framework_info.CopyFrom(framework.info)
        message.active = message.connected = framework.connected
        message.recovered = False
        message.registered_time.nanoseconds = int(framework.registered * 1e9)
        for offer in framework.offers.values():
            self._master.offers.fill(message.offers.add(), offer)
            message.offered_resources.extend(offer.amounts.messages(offer.role))

    def _get_executors(self, answer: Response.GetExecutors) -> None:
        answer.SetInParent()
        for agent in self._master.agents.values():
            for executor in agent.executors.values():
                if executor.is_command:
                    continue
                message = answer.executors.add()
                message.executor_info.CopyFrom(executor.info)
                message.agent_id.value = agent.id

    def _get_tasks(self, answer: Response.GetTasks) -> None:
        answer.SetInParent()
        for framework in self._master.frameworks.values():
            for task in framework.tasks.values():
                _task(answer.tasks.add(), task, task.state)
            for task in framework.unreachable.values():
                _task(answer.unreachable_tasks.add(), task, pb.TASK_UNREACHABLE)

    # --- GET /flags, GET /state ---

    def flags(self, request: Request) -> bytes:
        """The flags of the master that have a meaning here, as text, under the names that Mesos gives them. Schedulers
        look here for the name of the cluster: the state can be hundreds of megabytes."""
        settings = self._master.settings
        host, port = self._master.address
        flags = {
            "allocation_interval": duration(settings.allocation_interval),
            "authenticate_agents": "false",
            "authenticate_frameworks": "false",
            "authenticate_http_frameworks": "false",
            "authenticate_http_readonly": "false",
            "authenticate_http_readwrite": "false",
            "hostname": host,
            "ip": host,
            "port": str(port),
            "version": "false",
        }
        if settings.cluster:  # Mesos leaves out flags without a value
            flags["cluster"] = settings.cluster
        return response(200, json.dumps({"flags": flags}).encode(), JSON)

    def state(self, request: Request) -> bytes:
        """The parts of Mesos' state document that tools usually look at."""
        master = self._master
        host, port = master.address
        body = {
            "version": VERSION,
            "id": master.id,
            "cluster": master.settings.cluster,
            "hostname": host,
            "pid": f"master@{host}:{port}",
            "leader": f"master@{host}:{port}",
            "start_time": master.started,
            "activated_slaves": sum(agent.active for agent in master.agents.values()),
            "slaves": [_agent_state(agent) for agent in master.agents.values()],
            "frameworks": [_framework_state(framework) for framework in master.frameworks.values()],
            "completed_frameworks": [{"id": framework_id} for framework_id in master.completed],
        }
        return response(200, json.dumps(body).encode(), JSON)


def duration(seconds: float) -> str:
    """As Mesos writes durations: in the largest unit of which there is at least one, such as 500ms or 1.5mins."""
    units = (("weeks", 604_800.0), ("days", 86_400.0), ("hrs", 3600.0), ("mins", 60.0), ("secs", 1.0), ("ms", 0.001))
    name, length = next((unit for unit in units if seconds >= unit[1]), ("secs", 1.0))
    return f"{round(seconds / length, 6):g}{name}"


def used_by_role(agent: Agent) -> dict[str, Amounts]:
    """Returns the resources that tasks and executors use, by role."""
    used: dict[str, list[Amounts]] = {}
    for task in agent.tasks.values():
        if task.state not in TERMINAL:
            used.setdefault(task.role, []).append(task.amounts)
    for executor in agent.executors.values():
        used.setdefault(executor.role, []).append(executor.amounts)
    return {role: sum_of(parts) for role, parts in used.items()}


def _task(message: pb.Task, task: Task, state: int) -> None:
    message.name = task.info.name
    message.task_id.value = task.id
    message.framework_id.value = task.framework.id
    if task.known_executor:
        message.executor_id.value = task.known_executor
    message.agent_id.value = task.agent.id
    message.state = state  # type: ignore[assignment]
    message.resources.extend(task.info.resources)
    if task.info.HasField("labels"):
        message.labels.CopyFrom(task.info.labels)
    if task.update_state is not None:
        message.status_update_state = task.update_state  # type: ignore[assignment]
        message.status_update_uuid = task.update_uuid


def _agent_state(agent: Agent) -> dict[str, Any]:
    used = sum(used_by_role(agent).values(), Amounts())
    by_role = agent.total.by_role()
    return {
        "id": agent.id,
        "hostname": agent.spec.hostname,
        "port": agent.port,
        "pid": agent.pid,
        "active": agent.active,
        "attributes": {name: _plain(value) for name, value in agent.spec.attributes.items()},
        "resources": _amounts(agent.total),
        "reserved_resources": {role: _scalars(amounts) for role, amounts in by_role.items() if role},
        "unreserved_resources": _scalars(by_role.get("", {})),
        "used_resources": _amounts(used),
    }


def _framework_state(framework: Framework) -> dict[str, Any]:
    return {
        "id": framework.id,
        "name": framework.info.name,
        "active": framework.connected,
        "connected": framework.connected,
        "roles": list(framework.roles),
        "tasks": [_task_state(task, task.state) for task in framework.tasks.values()],
        "unreachable_tasks": [_task_state(task, pb.TASK_UNREACHABLE) for task in framework.unreachable.values()],
    }


def _task_state(task: Task, state: int) -> dict[str, Any]:
    return {
        "id": task.id,
        "name": task.info.name,
        "framework_id": task.framework.id,
        "executor_id": task.known_executor,
        "slave_id": task.agent.id,
        "state": pb.TaskState.Name(state),
        "resources": _amounts(task.amounts),
    }


def _plain(value: object) -> object:
    return value if isinstance(value, str | float) else str(value)


def _scalars(amounts: dict[str, int]) -> dict[str, float]:
    return {name: amount / 1000 for name, amount in sorted(amounts.items())}


def _amounts(amounts: Amounts) -> dict[str, float | str]:
    names = sorted({key[0] for key in amounts.scalars})
    shown: dict[str, float | str] = {name: amounts.scalar(name) / 1000 for name in names}
    for (name, _), ranges in amounts.ranges.items():
        shown[name] = "[" + ", ".join(f"{begin}-{end}" for begin, end in ranges) + "]"
    return shown
