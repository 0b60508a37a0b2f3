"""Allocation and status updates of the embedded cluster, without event loop and clock."""

from __future__ import annotations

from typing import Any, cast

import pytest

from bcs_scheduler.local.agents.synthetic import SyntheticAgent
from bcs_scheduler.local.agents.updates import StatusUpdates
from bcs_scheduler.local.master.allocator import Allocator
from bcs_scheduler.local.objects.model import Executor, Framework, Task
from bcs_scheduler.local.objects.resources import Amounts
from bcs_scheduler.local.settings import ClusterSettings, agent_specs
from bcs_scheduler.mesos.proto import mesos_pb2 as pb


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def framework(name: str, *roles: str, capabilities: tuple[int, ...] = ()) -> Framework:
    info = pb.FrameworkInfo(user="u", name=name, id=pb.FrameworkID(value=name), roles=roles or ("*",))
    for type_ in (pb.FrameworkInfo.Capability.MULTI_ROLE, *capabilities):
        info.capabilities.add(type=type_)
    made = Framework(info, 0.0)
    made.stream = cast(Any, object())
    return made


def agents(**settings: Any) -> list[SyntheticAgent]:
    specs = agent_specs(ClusterSettings(synthetic=True, **settings))
    return [SyntheticAgent(f"S{spec.number}", spec, cast(Any, None), 0.0) for spec in specs]


# --- allocator ---


def test_all_that_is_free_is_offered() -> None:
    machines = agents()
    grants = Allocator(Clock(), 0.5).allocate([framework("f")], machines)
    assert [(grant.agent, grant.amounts) for grant in grants] == [(agent, agent.total) for agent in machines]


def test_frameworks_and_roles_take_turns() -> None:
    clients = [framework("f", "a", "b"), framework("g", "c")]
    grants = Allocator(Clock(), 0.5).allocate(clients, agents(agents=6))
    assert [grant.role for grant in grants] == ["a", "b", "c", "a", "b", "c"]


@pytest.mark.parametrize(("seconds", "back_after"), [(5.0, 5.0), (0.1, 0.5), (-1.0, 5.0)])
def test_refused_resources_come_back_later(seconds: float, back_after: float) -> None:
    clock, client, (agent,) = Clock(), framework("f"), agents(agents=1)
    allocator = Allocator(clock, 0.5)
    allocator.refuse(client, "*", agent, agent.total, seconds)
    clock.now = back_after - 0.01
    assert allocator.allocate([client], [agent]) == []
    clock.now = back_after
    assert len(allocator.allocate([client], [agent])) == 1


def test_a_refusal_of_nothing_or_for_no_time_has_no_effect() -> None:
    client, (agent,) = framework("f"), agents(agents=1)
    allocator = Allocator(Clock(), 0.5)
    allocator.refuse(client, "*", agent, agent.total, 0.0)
    allocator.refuse(client, "*", agent, Amounts(), 60.0)
    assert len(allocator.allocate([client], [agent])) == 1


def test_more_than_was_refused_is_offered() -> None:
    client, (agent,) = framework("f"), agents(agents=1)
    allocator = Allocator(Clock(), 0.5)
    allocator.refuse(client, "*", agent, agent.total - Amounts({("cpus", ()): 1}), 60.0)
    assert len(allocator.allocate([client], [agent])) == 1


def test_a_revive_clears_filters_and_suppression() -> None:
    client, (agent,) = framework("f"), agents(agents=1)
    allocator = Allocator(Clock(), 0.5)
    allocator.refuse(client, "*", agent, agent.total, 60.0)
    client.suppressed.add("*")
    allocator.revive(client, ["*"])
    assert len(allocator.allocate([client], [agent])) == 1


def test_who_is_away_or_suppressed_gets_nothing() -> None:
    away, quiet, present = framework("away"), framework("quiet"), framework("present")
    away.stream = None
    quiet.suppressed.add("*")
    grants = Allocator(Clock(), 0.5).allocate([away, quiet, present], agents())
    assert {grant.framework.id for grant in grants} == {"present"}


def test_crumbs_and_inactive_agents_are_not_offered() -> None:
    machines = agents()
    machines[0].free = Amounts({("cpus", ()): 9, ("mem", ()): 31_999, ("disk", ()): 10**6})
    machines[1].active = False
    grants = Allocator(Clock(), 0.5).allocate([framework("f")], machines)
    assert [grant.agent for grant in grants] == machines[2:]


def test_agents_with_gpus_are_for_those_who_ask_for_them() -> None:
    capable = framework("g", capabilities=(pb.FrameworkInfo.Capability.GPU_RESOURCES,))
    grants = Allocator(Clock(), 0.5).allocate([framework("f"), capable], agents(gpus=1.0))
    assert {grant.framework.id for grant in grants} == {"g"}


# --- status updates ---


class Updates:
    def __init__(self) -> None:
        self.clock = Clock()
        self.sent: list[bytes] = []
        self.manager = StatusUpdates(lambda task, status: self.sent.append(status.uuid), self.clock, 10.0, 40.0)
        client, (agent,) = framework("f"), agents(agents=1)
        executor = Executor(client, agent, pb.ExecutorInfo(), Amounts(), "container")
        self.task = Task(client, agent, executor, pb.TaskInfo(task_id=pb.TaskID(value="t")), Amounts())

    def enqueue(self, *uuids: bytes) -> None:
        for uuid in uuids:
            self.manager.enqueue(self.task, pb.TaskStatus(uuid=uuid))


def test_updates_go_one_by_one() -> None:
    updates = Updates()
    updates.enqueue(b"1", b"2", b"3")
    assert updates.sent == [b"1"]
    assert updates.manager.acknowledge(updates.task, b"2") is False
    assert updates.manager.acknowledge(updates.task, b"1") is True
    assert updates.sent == [b"1", b"2"]
    updates.manager.acknowledge(updates.task, b"2")
    updates.manager.acknowledge(updates.task, b"3")
    updates.clock.now = 1000.0
    updates.manager.sweep()
    assert updates.sent == [b"1", b"2", b"3"]


def test_unacknowledged_updates_are_repeated_ever_more_rarely() -> None:
    updates = Updates()
    updates.enqueue(b"1")
    moments = []
    for second in range(1, 160):
        updates.clock.now = float(second)
        before = len(updates.sent)
        updates.manager.sweep()
        if len(updates.sent) > before:
            moments.append(second)
    assert moments == [10, 30, 70, 110, 150]
    assert set(updates.sent) == {b"1"}


def test_an_update_sent_again_out_of_turn_is_not_repeated_twice() -> None:
    updates = Updates()
    updates.enqueue(b"1")
    updates.clock.now = 5.0
    updates.manager.resend([updates.task])
    updates.clock.now = 12.0
    updates.manager.sweep()
    assert updates.sent == [b"1", b"1"]
    updates.clock.now = 15.0
    updates.manager.sweep()
    assert updates.sent == [b"1", b"1", b"1"]


def test_a_forgotten_task_is_not_repeated() -> None:
    updates = Updates()
    updates.enqueue(b"1")
    updates.manager.forget(updates.task)
    updates.clock.now = 1000.0
    updates.manager.sweep()
    updates.manager.resend([updates.task])
    assert updates.sent == [b"1"]
