"""The master: registers frameworks and agents, and handles their arrival, loss and return."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from uuid import uuid4

from bcs_scheduler.local.agents.process_agent import ProcessAgent
from bcs_scheduler.local.master import operations, validation
from bcs_scheduler.local.master.allocator import Allocator
from bcs_scheduler.local.master.offers import Offers
from bcs_scheduler.local.master.registry import Registry, Unreachable
from bcs_scheduler.local.master.tasks import Tasks
from bcs_scheduler.local.objects.model import TERMINAL, Agent, Framework, InverseOffer, Task
from bcs_scheduler.local.settings import ClusterSettings
from bcs_scheduler.local.transport.stream import EventStream
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.mesos.proto import scheduler_pb2

VERSION = "1.11.0"
"""The version of Apache Mesos whose behaviour is imitated."""


class Master:
    """Everything happens in one event loop. The maps of frameworks and agents are those of the registry, by id."""

    def __init__(self, settings: ClusterSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.id = str(uuid4())
        self.started = time.time()
        self.address = (settings.host, settings.port)
        self._registry = registry = Registry()
        self.frameworks, self.completed = registry.frameworks, registry.completed
        self.agents, self.unreachable, self.gone = registry.agents, registry.unreachable, registry.gone
        self.allocator = Allocator(clock, settings.allocation_interval)
        self.offers = Offers(registry, self.id, self.allocator, settings.allocation_interval, settings.allocation_delay)
        self.tasks = Tasks(registry, self.offers, clock, settings.retry_interval, settings.retry_interval_max)
        self.registrations = self.returns = self.removals = 0
        """Of agents, since the start."""
        self._framework_count = 0
        self._inverse_count = 0
        self._sweep: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self.offers.start()
        self._sweep_updates()

    def stop(self) -> None:
        """Frameworks lose their connections, and get neither offers nor updates any more. Tasks run on."""
        self.offers.stop()
        if self._sweep is not None:
            self._sweep.cancel()
        for framework in self.frameworks.values():
            if framework.failover_timer is not None:
                framework.failover_timer.cancel()
            if framework.stream is not None:
                framework.stream.close()

    def destroy_agents(self) -> None:
        """All tasks and executors that are left are killed."""
        for agent in self._registry.reachable_or_not():
            agent.destroy()

    def _sweep_updates(self) -> None:
        self.tasks.updates.sweep()
        pause = min(1.0, self.settings.retry_interval / 4)
        self._sweep = asyncio.get_running_loop().call_later(pause, self._sweep_updates)

    def info(self) -> pb.MasterInfo:
        host, port = self.address
        info = pb.MasterInfo(id=self.id, ip=0x0100007F, port=port, hostname=host, version=VERSION)
        info.pid = f"master@{host}:{port}"
        info.address.hostname = info.address.ip = host
        info.address.port = port
        return info

    # --- frameworks ---

    def subscribe(self, call: scheduler_pb2.Call.Subscribe, stream: EventStream) -> Framework | None:
        """None if the subscription is refused; the stream then ends with an ERROR event."""
        info = call.framework_info
        error = validation.framework_info(info)
        if error is None and info.id.value in self.completed:
            error = "Framework has been removed"
        roles = info.roles if info.roles else [info.role]
        error = error or validation.suppressed_roles(call.suppressed_roles, roles)
        known = self.frameworks.get(info.id.value)
        if error is None and known is not None:
            error = validation.framework_update(known.info, info)
        if error is not None:
            _send_error(stream, error)
            return None
        framework = self._failover(known, info) if known is not None else self._register(info)
        framework.suppressed = set(call.suppressed_roles)
        framework.stream = stream
        event = scheduler_pb2.Event(type=scheduler_pb2.Event.SUBSCRIBED)
        event.subscribed.framework_id.value = framework.id
        event.subscribed.heartbeat_interval_seconds = self.settings.heartbeat_interval
        event.subscribed.master_info.CopyFrom(self.info())
        framework.send(event)
        stream.start_heartbeats()
        self.tasks.updates.resend(framework.tasks.values())
        operations.resend(framework)
        self.offers.allocate_soon()
        return framework

    def _register(self, info: pb.FrameworkInfo) -> Framework:
        """Also a framework that comes back with an id from before the master's start."""
        if not info.id.value:
            info.id.value = f"{self.id}-{self._framework_count:04}"
            self._framework_count += 1
        framework = Framework(info, time.time())
        self.frameworks[framework.id] = framework
        return framework

    def _failover(self, framework: Framework, info: pb.FrameworkInfo) -> Framework:
        if framework.stream is not None:
            old, framework.stream = framework.stream, None
            _send_error(old, "Framework failed over")
        if framework.failover_timer is not None:
            framework.failover_timer.cancel()
        for offer in list(framework.offers.values()):
            self.offers.discard(offer)
        self._drop_inverse_offers(framework.inverse_offers, rescind=False)
        self.allocator.forget_framework(framework)
        info.user, info.checkpoint = framework.info.user, framework.info.checkpoint
        framework.update(info)
        return framework

    def disconnected(self, framework: Framework, stream: EventStream) -> None:
        """The stream is gone: offers and filters end, and the framework has its failover timeout to come back."""
        if framework.stream is not stream:
            return
        framework.stream = None
        for offer in list(framework.offers.values()):
            self.offers.discard(offer)
        self._drop_inverse_offers(framework.inverse_offers, rescind=False)
        self.allocator.forget_framework(framework)
        framework.failover_timer = asyncio.get_running_loop().call_later(
            framework.info.failover_timeout, self._failover_timeout, framework
        )

    def _failover_timeout(self, framework: Framework) -> None:
        if not framework.connected and self.frameworks.get(framework.id) is framework:
            self.remove_framework(framework)

    def remove_framework(self, framework: Framework) -> None:
        """Ends everything of the framework; its id is never accepted again."""
        for offer in list(framework.offers.values()):
            self.offers.discard(offer)
        self._drop_inverse_offers(framework.inverse_offers, rescind=False)
        stream, framework.stream = framework.stream, None
        for task in list(framework.tasks.values()):
            message = f"Framework {framework.id} removed"
            self.tasks.end_by_master(task, pb.TASK_KILLED, message, pb.TaskStatus.REASON_FRAMEWORK_REMOVED)
        for agent in self._registry.reachable_or_not():
            for executor in [e for e in agent.executors.values() if e.framework is framework]:
                agent.shutdown(executor)
                self.tasks.executor_exited(executor, 0)
        framework.unreachable.clear()
        self.allocator.forget_framework(framework)
        del self.frameworks[framework.id]
        self.completed[framework.id] = framework
        if stream is not None:
            stream.close()

    def suppress(self, framework: Framework, roles: list[str]) -> None:
        """A call that names an unknown role changes nothing."""
        if set(roles) <= set(framework.roles):
            framework.suppressed |= set(roles or framework.roles)

    def revive(self, framework: Framework, roles: list[str]) -> None:
        """Likewise."""
        if set(roles) <= set(framework.roles):
            self.allocator.revive(framework, roles or framework.roles)
            self.offers.allocate_soon()

    def update_framework(self, framework: Framework, call: scheduler_pb2.Call.UpdateFramework) -> str | None:
        """The complaint, if the framework may not change like this."""
        info = call.framework_info
        error = validation.framework_info(info) or validation.framework_update(framework.info, info)
        for name in ("user", "checkpoint"):
            if error is None and getattr(info, name) != getattr(framework.info, name):
                error = f"Updating 'FrameworkInfo.{name}' is unsupported"
        roles = info.roles if info.roles else [info.role]
        error = error or validation.suppressed_roles(call.suppressed_roles, roles)
        if error is None:
            framework.update(info)
            framework.suppressed = set(call.suppressed_roles)
            for offer in [o for o in framework.offers.values() if o.role not in framework.roles]:
                self.offers.rescind(offer)
            self.offers.allocate_soon()
        return error

    # --- agents ---

    def add_agent(self, agent: Agent) -> None:
        agent.registered = time.time()
        self.registrations += 1
        self.agents[agent.id] = agent
        self.offers.allocate_soon(agent)

    def disconnect_agent(self, agent: Agent) -> None:
        """The connection to the agent broke; it may come back before it is marked unreachable."""
        agent.connected = agent.active = False
        for offer in list(agent.offers.values()):
            self.offers.rescind(offer)
        self._drop_inverse_offers(agent.inverse_offers, rescind=True)

    def bounce(self, agent: ProcessAgent) -> None:
        """The agent's process ends and comes back soon. Executors and tasks of frameworks that do not checkpoint are
        lost at once."""
        self.disconnect_agent(agent)
        agent.stop_agent()
        message = f"Agent {agent.spec.hostname} disconnected"
        ended = [task for task in agent.tasks.values() if task.latest not in TERMINAL and not agent.runs(task.executor)]
        for task in ended:
            state = pb.TASK_GONE if task.framework.partition_aware else pb.TASK_LOST
            self.tasks.end_by_master(task, state, message, pb.TaskStatus.REASON_AGENT_DISCONNECTED)
        for executor in [e for e in agent.executors.values() if not agent.runs(e)]:
            self.tasks.executor_exited(executor, 9)

    def lose_agent(self, agent: Agent) -> None:
        """Contact to the agent is lost; unless the agent comes back in time it is marked unreachable."""
        self.disconnect_agent(agent)
        asyncio.get_running_loop().call_later(self.settings.agent_timeout, self._agent_timeout, agent)

    def _agent_timeout(self, agent: Agent) -> None:
        if not agent.connected and agent.id in self.agents:
            self.mark_unreachable(agent)

    def mark_unreachable(self, agent: Agent) -> None:
        now = time.time()
        self._leave(agent)
        self.unreachable[agent.id] = Unreachable(agent, now)
        for task in list(agent.tasks.values()):
            framework = task.framework
            state = pb.TASK_UNREACHABLE if framework.partition_aware else pb.TASK_LOST
            framework.tasks.pop(task.id, None)
            if task.state not in TERMINAL:
                framework.unreachable[task.id] = task
            self.tasks.master_status(
                framework, task.id, state, f"Agent {agent.spec.hostname} is unreachable",
                pb.TaskStatus.REASON_AGENT_REMOVED, agent_id=agent.id, executor_id=task.known_executor, unreachable=now,
            )  # fmt: skip
        self._report_lost(agent)

    def mark_gone(self, agent: Agent) -> None:
        """The operator says that the agent will never come back."""
        entry = self.unreachable.pop(agent.id, None)
        if entry is None:
            self._leave(agent)
        self.gone[agent.id] = agent
        for task in list(agent.tasks.values()):
            state = pb.TASK_GONE_BY_OPERATOR if task.framework.partition_aware else pb.TASK_LOST
            task.framework.unreachable.pop(task.id, None)
            reason = pb.TaskStatus.REASON_AGENT_REMOVED_BY_OPERATOR
            self.tasks.end_by_master(task, state, "Agent has been marked gone", reason)
        agent.destroy()
        self._report_lost(agent)

    def _leave(self, agent: Agent) -> None:
        self.disconnect_agent(agent)
        self.removals += 1
        del self.agents[agent.id]
        self.allocator.forget_agent(agent)

    def _report_lost(self, agent: Agent) -> None:
        event = scheduler_pb2.Event(type=scheduler_pb2.Event.FAILURE)
        event.failure.agent_id.value = agent.id
        for framework in self.frameworks.values():
            framework.send(event)

    def return_agent(self, agent: Agent) -> None:
        """An agent registers again, with the tasks that still run on it. Executors that died with the agent are
        reported."""
        for executor in [e for e in agent.executors.values() if not agent.runs(e)]:
            for task in [t for t in agent.tasks.values() if t.executor is executor and t.latest not in TERMINAL]:
                self.tasks.task_status(
                    task, pb.TASK_FAILED, message="Abnormal executor termination: unknown container",
                    reason=pb.TaskStatus.REASON_EXECUTOR_TERMINATED, source=pb.TaskStatus.SOURCE_AGENT,
                )  # fmt: skip
            self.tasks.executor_exited(executor, 9)
        agent.connected = agent.active = True
        agent.reregistered = time.time()
        self.returns += 1
        was_unreachable = self.unreachable.pop(agent.id, None) is not None
        self.agents[agent.id] = agent
        if was_unreachable:
            for task in list(agent.tasks.values()):
                self._return_task(task)
        self.tasks.updates.resend(agent.tasks.values())
        self.offers.allocate_soon(agent)

    def _return_task(self, task: Task) -> None:
        framework = task.framework
        framework.unreachable.pop(task.id, None)
        if framework.id not in self.frameworks:
            return
        framework.tasks[task.id] = task
        if not framework.partition_aware:
            task.agent.kill(task, 0.0)
            return
        if task.latest not in TERMINAL:
            self.tasks.master_status(
                framework, task.id, task.latest, "Unreachable agent re-reregistered",
                pb.TaskStatus.REASON_AGENT_REREGISTERED, agent_id=task.agent.id, executor_id=task.known_executor,
                healthy=task.healthy,
            )  # fmt: skip

    # --- maintenance ---

    def plan_maintenance(self, agent: Agent, start: float, duration: float | None) -> None:
        """Offers say from when the agent will be unavailable, and every framework on it is asked to leave."""
        agent.unavailability = pb.Unavailability(start=pb.TimeInfo(nanoseconds=int(start * 1e9)))
        if duration is not None:
            agent.unavailability.duration.nanoseconds = int(duration * 1e9)
        for offer in list(agent.offers.values()):
            self.offers.rescind(offer)
        for framework in {task.framework for task in agent.tasks.values()}:
            if not framework.connected:
                continue
            offer_id = f"{self.id}-I{self._inverse_count}"
            self._inverse_count += 1
            inverse = InverseOffer(offer_id, framework, agent)
            framework.inverse_offers[offer_id] = agent.inverse_offers[offer_id] = inverse
            event = scheduler_pb2.Event(type=scheduler_pb2.Event.INVERSE_OFFERS)
            message = event.inverse_offers.inverse_offers.add()
            message.id.value = offer_id
            message.framework_id.value = framework.id
            message.agent_id.value = agent.id
            message.unavailability.CopyFrom(agent.unavailability)
            framework.send(event)

    def end_maintenance(self, agent: Agent) -> None:
        agent.unavailability = None
        self._drop_inverse_offers(agent.inverse_offers, rescind=True)
        for offer in list(agent.offers.values()):
            self.offers.rescind(offer)

    def answer_inverse_offers(self, framework: Framework, ids: list[str]) -> None:
        """Accepted or declined, an inverse offer ends."""
        answered = {i: framework.inverse_offers[i] for i in ids if i in framework.inverse_offers}
        self._drop_inverse_offers(answered, rescind=False)

    def _drop_inverse_offers(self, offers: dict[str, InverseOffer], *, rescind: bool) -> None:
        for inverse in list(offers.values()):
            inverse.framework.inverse_offers.pop(inverse.id, None)
            inverse.agent.inverse_offers.pop(inverse.id, None)
            if rescind:
                event = scheduler_pb2.Event(type=scheduler_pb2.Event.RESCIND_INVERSE_OFFER)
                event.rescind_inverse_offer.inverse_offer_id.value = inverse.id
                inverse.framework.send(event)


def _send_error(stream: EventStream, message: str) -> None:
    event = scheduler_pb2.Event(type=scheduler_pb2.Event.ERROR)
    event.error.message = message
    stream.send(event)
    stream.close()
