"""A taskgroup that is going to be ended leaves its endpoints at once and is killed when its shutdown delay is over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bcs_scheduler.api.views.explain import _waits_for
from bcs_scheduler.core.interface import cluster_manager, requests
from bcs_scheduler.core.options import CoreOptions
from store.records import Service, ServicePort, TaskGroup
from store.records.definition import Container, KillPolicy, Port
from tests.unit.lab import Lab, running
from transactions.base import Options, Periods

DELAY = 30.0
POLICY = KillPolicy(grace_period=5.0, shutdown_delay=DELAY)
QUICK = CoreOptions(strict=True, transactions=Options(periods=Periods(update_delay=0.0, reschedule_delay=0.0)))


def lab_with(instances: int = 4, **fields: object) -> Lab:
    return running(instances, QUICK, kill_policy=POLICY, labels={"app": "web"}, **fields)


def update(lab: Lab) -> None:
    lab.update(4, bound=1, kill_policy=POLICY, labels={"app": "web"}, containers=(Container(command="new"),))


def scale_down(lab: Lab) -> None:
    lab.scale(3)


def delete(lab: Lab) -> None:
    lab.delete()


def reschedule(lab: Lab) -> None:
    lab.ask(requests.RescheduleTaskGroup(taskgroup=lab.group(0).id))


def first_kill(lab: Lab, most: float) -> float:
    """Seconds from now until the first task is killed."""
    began = lab.now
    while not lab.ended():
        assert lab.now < began + most, "nothing is killed"
        lab.now = min(max(lab.core.next_wakeup(lab.now), lab.now + 0.001), lab.now + 1.0)
        lab.turn()
    return lab.now - began


def leaving(lab: Lab) -> list[TaskGroup]:
    return [group for group in lab.groups if group.killing_since and not group.ended]


@pytest.mark.parametrize("operation", [update, scale_down, delete, reschedule])
def test_every_operation_waits_before_the_kill(operation: Callable[[Lab], None]) -> None:
    lab = lab_with()
    operation(lab)
    out = lab.out
    if not leaving(lab):
        lab.wait(1)
    assert leaving(lab), "a taskgroup is going to be ended"
    assert not [end for end in out if type(end).__name__ == "End"]
    assert DELAY - 2 <= first_kill(lab, DELAY + 5) <= DELAY + 2


def test_without_a_delay_the_kill_leaves_at_once() -> None:
    lab = running(4, QUICK)
    lab.scale(3)
    assert len(lab.ended()) == 1


def test_the_endpoint_changes_before_the_delay() -> None:
    lab = lab_with(containers=(Container(command="serve", ports=(Port(name="http"),)),))
    port = ServicePort(name="http", service_port=80)
    service = Service(namespace="default", name="web", selector={"app": "web"}, ports=(port,))
    lab.ask(requests.PutService(service=service, create=True))
    lab.wait(1)
    assert len(lab.core.state.endpoints["default/web"].members) == 4
    lab.scale(3)
    (gone,) = leaving(lab)
    members = {member.taskgroup: member for member in lab.core.state.endpoints["default/web"].members}
    assert members[gone.id].reason == "ending" and not lab.ended()
    assert first_kill(lab, DELAY + 5) > DELAY - 2


def test_a_new_leader_continues_the_delay() -> None:
    lab = lab_with()
    lab.scale(3)
    lab.wait(DELAY / 2)
    successor = lab.succeed()
    assert not successor.ended()
    assert DELAY / 2 - 2 <= first_kill(successor, DELAY) <= DELAY / 2 + 2


def test_a_subscription_during_the_delay_kills_nothing() -> None:
    lab = lab_with()
    lab.scale(3)
    lab.turn(cluster_manager.Disconnected())
    lab.turn(cluster_manager.Connected(framework_id="framework", cluster="dc1.example.com"))
    assert not lab.ended()
    assert first_kill(lab, DELAY + 5) > DELAY - 5


def test_a_taskgroup_that_has_not_started_is_killed_at_once() -> None:
    lab = Lab(QUICK)
    lab.offer()
    lab.create(2, kill_policy=POLICY)
    lab.scale(1)
    assert len(lab.ended()) == 1


def test_the_other_tasks_of_a_broken_taskgroup_are_killed_at_once() -> None:
    lab = running(1, QUICK, tasks=2, kill_policy=POLICY)
    lab.report(lab.group(), "FAILED", tasks=[0])
    assert lab.ended() == [lab.group().tasks[1].id]


def test_a_forced_deletion_does_not_wait() -> None:
    lab = lab_with()
    for group in lab.groups:
        lab.report(group, "UNREACHABLE")
    lab.delete(enforce=True)
    assert len(lab.ended()) == 4


def test_kills_are_repeated_after_the_delay_as_before() -> None:
    lab = lab_with()
    lab.scale(3)
    first_kill(lab, DELAY + 5)
    assert not lab.forced()
    lab.wait(120)
    assert lab.forced(), "the executor is shut down after some kills without an effect"


def test_time_boxes_include_the_delay() -> None:
    lab, plain = lab_with(), running(4, QUICK)
    for each in (lab, plain):
        each.scale(3)
    longer, usual = lab.transaction("SCALE"), plain.transaction("SCALE")
    assert longer.deadline - longer.due_at == usual.deadline - usual.due_at + DELAY
    lab, plain = lab_with(), running(4, QUICK)
    update(lab)
    plain.update(4, bound=1, containers=(Container(command="new"),))
    longer, usual = lab.transaction("UPDATE"), plain.transaction("UPDATE")
    assert longer.deadline - longer.due_at == usual.deadline - usual.due_at + 4 * DELAY, "one after the other"


def test_explain_shows_the_rest_of_the_delay() -> None:
    lab = lab_with()
    lab.scale(3)
    (group,) = leaving(lab)
    version = lab.core.state.version(group.application_key, group.version)
    assert "stops in 20s (shutdown delay): scaled down" in _waits_for(group, version, None, lab.now + DELAY - 20)
    assert _waits_for(group, version, None, lab.now + DELAY + 5).startswith("is being ended for 35s: scaled down")
