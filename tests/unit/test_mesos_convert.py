"""Events of Mesos become events of the core; effects become calls."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import cluster_manager, effects, inputs, leased
from bcs_scheduler.mesos import convert
from bcs_scheduler.mesos.calls import CallMaker
from bcs_scheduler.mesos.ends import Kill, Shutdown, calls_of
from bcs_scheduler.mesos.launches.resources import ranges_resource, scalar_resource
from bcs_scheduler.mesos.launches.task_info import DefaultExecutorBuilder
from bcs_scheduler.mesos.proto import master_pb2, scheduler_pb2
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from offers.agents import ListedAgent
from offers.model import Reservation, ResourceKey
from transactions.rules.task_states import TaskState

Event = scheduler_pb2.Event
Call = scheduler_pb2.Call


def scalar(name: str, value: float, role: str = "") -> pb.Resource:
    resource = pb.Resource(name=name, type=pb.Value.SCALAR, scalar=pb.Value.Scalar(value=value))
    if role:
        resource.allocation_info.role = role
    return resource


def bare_offer(*resources: pb.Resource, **fields: object) -> pb.Offer:
    return pb.Offer(
        id=pb.OfferID(value="o1"),
        framework_id=pb.FrameworkID(value="f"),
        agent_id=pb.AgentID(value="s1"),
        hostname="host1",
        resources=resources,
        **fields,  # type: ignore[arg-type]
    )


def text(name: str, value: str) -> pb.Attribute:
    return pb.Attribute(name=name, type=pb.Value.TEXT, text=pb.Value.Text(value=value))


class TestOffers:
    def test_scalars_are_thousandths_and_equal_pots_are_added_up(self) -> None:
        offer = convert.offer(bare_offer(scalar("cpus", 0.1), scalar("cpus", 0.2), scalar("mem", 1023.9999)))
        assert dict(offer.scalars) == {ResourceKey("cpus", "*"): 300, ResourceKey("mem", "*"): 1_024_000}

    def test_reserved_resources_stay_apart(self) -> None:
        reserved = scalar("cpus", 2, "games")
        layer = reserved.reservations.add(type=pb.Resource.ReservationInfo.DYNAMIC, role="games", principal="ops")
        layer.labels.labels.add(key="why", value="x")
        offer = convert.offer(
            bare_offer(scalar("cpus", 1, "games"), reserved, allocation_info=pb.Resource.AllocationInfo(role="games")),
        )
        pot = ResourceKey("cpus", "games", (Reservation("DYNAMIC", "games", "ops", (("why", "x"),)),))
        assert offer.role == "games"
        assert dict(offer.scalars) == {ResourceKey("cpus", "games"): 1000, pot: 2000}
        assert scalar_resource(pot, 2000) == reserved

    def test_volumes_shared_and_revocable_resources_are_left_out(self) -> None:
        persistent, mounted, shared, revocable = (scalar("disk", 10) for _ in range(4))
        persistent.disk.persistence.id = "v"
        mounted.disk.source.type = pb.Resource.DiskInfo.Source.MOUNT
        shared.shared.SetInParent()
        revocable.revocable.SetInParent()
        offer = convert.offer(bare_offer(persistent, mounted, shared, revocable, scalar("disk", 3)))
        assert dict(offer.scalars) == {ResourceKey("disk", "*"): 3000}

    def test_ranges_are_sorted_and_joined(self) -> None:
        ports = pb.Resource(name="ports", type=pb.Value.RANGES)
        for begin, end in ((31010, 31020), (31000, 31004), (31005, 31006)):
            ports.ranges.range.add(begin=begin, end=end)
        offer = convert.offer(bare_offer(ports))
        assert offer.ranges == ((ResourceKey("ports", "*"), ((31000, 31006), (31010, 31020))),)
        assert convert.offer(bare_offer(ranges_resource(*offer.ranges[0]))).ranges == offer.ranges

    def test_attributes_of_every_type(self) -> None:
        ranges = pb.Attribute(name="vlan", type=pb.Value.RANGES)
        ranges.ranges.range.add(begin=1, end=3)
        number = pb.Attribute(name="slots", type=pb.Value.SCALAR, scalar=pb.Value.Scalar(value=2.5))
        offer = convert.offer(bare_offer(attributes=[text("rack", "r1"), number, ranges, text("rack", "r2")]))
        assert offer.attributes == {"rack": "r1", "slots": 2.5, "vlan": ((1, 3),)}

    @pytest.mark.parametrize(("attributes", "ip"), [([], "10.0.0.9"), ([text("InnerIP", "10.1.1.1")], "10.1.1.1")])
    def test_the_ip_is_where_the_agent_listens_unless_operators_name_another(
        self, attributes: list[pb.Attribute], ip: str
    ) -> None:
        url = pb.URL(scheme="http", address=pb.Address(ip="10.0.0.9", port=5051))
        assert convert.offer(bare_offer(url=url, attributes=attributes)).ip == ip

    def test_planned_maintenance(self) -> None:
        item = bare_offer()
        item.unavailability.start.nanoseconds = 1_700_000_000_500_000_000
        assert convert.offer(item).unavailable_from == 1_700_000_000.5
        assert convert.offer(bare_offer()).unavailable_from == 0.0


class TestStatus:
    def test_all_fields(self) -> None:
        status = pb.TaskStatus(
            task_id=pb.TaskID(value="t"),
            state=pb.TASK_FAILED,
            agent_id=pb.AgentID(value="s"),
            executor_id=pb.ExecutorID(value="e"),
            uuid=b"u",
            source=pb.TaskStatus.SOURCE_EXECUTOR,
            reason=pb.TaskStatus.REASON_CONTAINER_LIMITATION_MEMORY,
            message="m",
            healthy=False,
            timestamp=12.5,
        )
        status.container_status.network_infos.add().ip_addresses.add(ip_address="10.2.2.2")
        assert convert.status_update(status, "c") == cluster_manager.StatusUpdate(
            task_id="t",
            state=TaskState.FAILED,
            agent_id="s",
            executor_id="e",
            uuid=b"u",
            source="SOURCE_EXECUTOR",
            reason="REASON_CONTAINER_LIMITATION_MEMORY",
            out_of_memory=True,
            message="m",
            healthy=False,
            timestamp=12.5,
            container_ip="10.2.2.2",
            cause="c",
        )

    def test_absent_fields_are_not_taken_for_their_default_numbers(self) -> None:
        status = pb.TaskStatus(task_id=pb.TaskID(value="t"), state=pb.TASK_RUNNING)
        update = convert.status_update(status, "")
        assert (update.source, update.reason, update.healthy, update.uuid) == ("", "", None, b"")

    def test_a_long_message_is_cut(self) -> None:
        status = pb.TaskStatus(state=pb.TASK_FAILED, message="x" * 100_000)
        status.task_id.value = "task"
        assert convert.status_update(status, "c").message == "x" * convert.MESSAGE_LENGTH

    def test_the_detail_of_our_executor(self) -> None:
        status = pb.TaskStatus(task_id=pb.TaskID(value="t"), state=pb.TASK_RUNNING, data=b'{"v": 1, "pid": 7}')
        assert convert.status_update(status, "").detail == cluster_manager.TaskDetail(pid=7)

    def test_a_detail_that_cannot_be_read_takes_nothing_from_the_rest(self) -> None:
        seen: list[tuple[str, str]] = []
        status = pb.TaskStatus(task_id=pb.TaskID(value="t"), state=pb.TASK_FAILED, uuid=b"u", data=b"\xff")
        status.executor_id.value = "e"
        update = convert.status_update(status, "", lambda executor, kind: seen.append((executor, kind)))
        assert (update.task_id, update.state, update.uuid, update.detail) == ("t", TaskState.FAILED, b"u", None)
        assert seen == [("e", "not JSON")]

    def test_a_state_of_a_newer_mesos_is_an_error_not_another_state(self) -> None:
        raw = pb.TaskStatus(task_id=pb.TaskID(value="t"), state=pb.TASK_RUNNING).SerializePartialToString()
        unknown_state = raw.replace(b"\x10\x01", b"\x10\x63")
        with pytest.raises(ValueError, match="state"):
            convert.status_update(pb.TaskStatus.FromString(unknown_state), "")


def test_failures_tell_executor_from_agent() -> None:
    failure = Event.Failure(agent_id=pb.AgentID(value="s"), executor_id=pb.ExecutorID(value="e"), status=9)
    event = convert.event_of(Event(type=Event.FAILURE, failure=failure), "c")
    assert event == cluster_manager.ExecutorTerminated(agent_id="s", executor_id="e", status=9, cause="c")
    failure.ClearField("executor_id")
    event = convert.event_of(Event(type=Event.FAILURE, failure=failure), "c")
    assert event == cluster_manager.AgentRemoved(agent_id="s", cause="c")


def test_messages_of_executors() -> None:
    seen: list[tuple[str, str]] = []

    def event_of(data: bytes) -> inputs.Input | None:
        event = Event(type=Event.MESSAGE)
        event.message.agent_id.value, event.message.executor_id.value, event.message.data = "s", "e", data
        return convert.event_of(event, "c", lambda executor, kind: seen.append((executor, kind)))

    answered = event_of(b'{"v": 1, "type": "answer", "id": "7", "status": "running"}')
    assert answered == cluster_manager.MessageAnswered(
        agent_id="s", executor_id="e", message_id="7", status="running", cause="c"
    )
    assert event_of(b'{"v": 1, "type": "report", "tasks": []}') == cluster_manager.TasksReported(
        agent_id="s", executor_id="e", tasks=(), cause="c"
    )
    assert seen == []
    assert event_of(b"text of somebody else's executor") is None
    assert seen == [("e", "not JSON")]


def test_rescind_inverse_offers_and_error() -> None:
    rescind = Event(type=Event.RESCIND, rescind=Event.Rescind(offer_id=pb.OfferID(value="o")))
    assert convert.event_of(rescind, "") == leased.OfferRescinded(offer_id="o")
    inverse = Event(type=Event.INVERSE_OFFERS)
    item = inverse.inverse_offers.inverse_offers.add()
    item.id.value, item.framework_id.value, item.agent_id.value = "i", "f", "s"
    item.unavailability.start.nanoseconds = 2_000_000_000
    assert convert.event_of(inverse, "") == leased.InverseOffersArrived(offers=(("i", "s", 2.0),))
    error = Event(type=Event.ERROR, error=Event.Error(message="Framework has been removed"))
    assert convert.event_of(error, "") == cluster_manager.RegistrationRevoked(message="Framework has been removed")
    error = Event(type=Event.ERROR, error=Event.Error(message="Framework failed over"))
    assert convert.event_of(error, "mesos:1") == cluster_manager.Superseded(cause="mesos:1")


def test_events_without_use_are_passed_over() -> None:
    assert convert.event_of(Event(type=Event.HEARTBEAT), "") is None
    assert convert.event_of(Event(), "") is None


def test_agents() -> None:
    response = master_pb2.Response(type=master_pb2.Response.GET_AGENTS)
    agent = response.get_agents.agents.add(
        agent_info=pb.AgentInfo(hostname="h", port=5051, id=pb.AgentID(value="s"), attributes=[text("rack", "r")]),
        active=True,
        version="1.11.0",
        pid="slave(1)@10.0.0.9:5051",
        total_resources=[scalar("cpus", 4), scalar("cpus", 0.5, "games")],
        allocated_resources=[scalar("cpus", 1.25)],
    )
    agent.registered_time.nanoseconds = 3_000_000_000
    for number, attributes in ((1, [text("InnerIP", "10.0.0.1")]), (2, [])):
        response.get_agents.recovered_agents.add(
            hostname=f"h{number}", id=pb.AgentID(value=f"s{number}"), attributes=attributes
        )
    assert convert.agents(response, "c").awaited == ("s1", "h1", "10.0.0.1", "s2", "h2")
    assert convert.agents(response, "c").agents == (
        ListedAgent(
            id="s",
            hostname="h",
            ip="10.0.0.9",
            port=5051,
            active=True,
            attributes={"rack": "r"},
            total={"cpus": 4500},
            allocated={"cpus": 1250},
            ports=[],
            registered_time=3.0,
        ),
    )


class TestCalls:
    maker = CallMaker("f", DefaultExecutorBuilder())

    def call(self, effect: effects.Effect) -> scheduler_pb2.Call:
        call = Call.FromString(self.maker.call(effect))
        assert call.framework_id.value == "f"
        return call

    def test_acknowledge(self) -> None:
        call = self.call(cluster_manager.Acknowledge(task_id="t", agent_id="s", uuid=b"u"))
        assert call.type == Call.ACKNOWLEDGE
        acknowledge = call.acknowledge
        assert (acknowledge.task_id.value, acknowledge.agent_id.value, acknowledge.uuid) == ("t", "s", b"u")

    def test_decline(self) -> None:
        call = self.call(leased.Decline(offer_ids=("o1", "o2"), refuse_seconds=60.0))
        assert call.type == Call.DECLINE
        assert [item.value for item in call.decline.offer_ids] == ["o1", "o2"]
        assert call.decline.filters.refuse_seconds == 60.0

    def test_kill_carries_the_grace_period(self) -> None:
        call = self.call(Kill(task_id="t", agent_id="", grace_period=2.5))
        assert call.type == Call.KILL
        assert not call.kill.HasField("agent_id")
        assert call.kill.kill_policy.grace_period.nanoseconds == 2_500_000_000

    def test_the_end_of_a_taskgroup_is_a_kill_for_each_task_and_forced_a_shutdown_of_the_executor(self) -> None:
        end = cluster_manager.End(taskgroup="e", tasks=("t1", "t2"), agent_id="s", grace_period=2.0, cause="c")
        kills = [Kill(task_id=task, agent_id="s", grace_period=2.0, cause="c") for task in ("t1", "t2")]
        assert list(calls_of(end)) == kills
        shutdown = Shutdown(executor_id="e", agent_id="s", cause="c")
        assert list(calls_of(msgspec.structs.replace(end, forced=True))) == [*kills, shutdown]
        assert list(calls_of(msgspec.structs.replace(end, tasks=(), forced=True))) == [shutdown]

    def test_a_message_to_an_executor(self) -> None:
        effect = cluster_manager.SendMessage(
            agent_id="s",
            executor_id="e",
            message_id="7",
            type="signal",
            tasks=("t",),
            body={"signal": 15, "process": ""},
            timeout=5.0,
        )
        call = Call.FromString(CallMaker("f", DefaultExecutorBuilder(), 1000).call(effect))
        assert (call.type, call.framework_id.value) == (Call.MESSAGE, "f")
        assert (call.message.agent_id.value, call.message.executor_id.value) == ("s", "e")
        assert json.loads(call.message.data) == {
            "v": 1,
            "type": "message",
            "id": "7",
            "kind": "signal",
            "tasks": ["t"],
            "timeout": 5.0,
            "output_limit": 1000,
            "body": {"signal": 15, "process": ""},
        }

    def test_reconcile_is_explicit_or_implicit(self) -> None:
        explicit = self.call(cluster_manager.Reconcile(tasks=(("t1", "s1"), ("t2", "")))).reconcile
        assert [(task.task_id.value, task.agent_id.value) for task in explicit.tasks] == [("t1", "s1"), ("t2", "")]
        implicit = self.call(cluster_manager.Reconcile())
        assert implicit.HasField("reconcile") and not implicit.reconcile.tasks

    @pytest.mark.parametrize(
        ("effect", "kind"),
        [
            (leased.Suppress(), Call.SUPPRESS),
            (leased.Revive(), Call.REVIVE),
            (Shutdown(executor_id="e", agent_id="s"), Call.SHUTDOWN),
            (leased.AcceptInverseOffers(offer_ids=("i",)), Call.ACCEPT_INVERSE_OFFERS),
        ],
    )
    def test_the_others(self, effect: effects.Effect, kind: int) -> None:
        assert self.call(effect).type == kind


@pytest.mark.parametrize(
    ("change", "unfetched"),
    [
        ({}, True),
        ({"message": "Failed to launch container: no cgroup"}, False),
        ({"reason": pb.TaskStatus.REASON_EXECUTOR_TERMINATED}, False),
        ({"source": pb.TaskStatus.SOURCE_EXECUTOR}, False),
        ({"state": pb.TASK_RUNNING}, False),
    ],
)
def test_that_an_agent_could_not_fetch_the_executor_is_told_in_words_only(
    change: dict[str, Any], unfetched: bool
) -> None:
    said = {
        "state": pb.TASK_FAILED,
        "source": pb.TaskStatus.SOURCE_AGENT,
        "reason": pb.TaskStatus.REASON_CONTAINER_LAUNCH_FAILED,
        "message": "Failed to launch container: Failed to fetch all URIs for container 'c1': exited with status 1",
        **change,
    }
    status = pb.TaskStatus(task_id=pb.TaskID(value="t1"), **said)
    assert convert.status_update(status, "cause").unfetched is unfetched
