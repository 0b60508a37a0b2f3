"""Estimates of the time until room is free: from runs that have ended, with their spread, or the reason why there is
none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcs_scheduler.api.views.whatif import show_what_if
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.run_times import OF_APPLICATION, OF_KIND, RunTimes, remaining
from offers.policy.session.configuration import DEFAULT, policy_of
from store.ids import object_key
from store.records import Namespace, Queue, TaskGroup
from store.records.definition import RestartPolicy
from store.records.objects import Limits
from tests.unit.lab import Lab, version

ENDS = RestartPolicy(policy="Never")


def create(lab: Lab, name: str, instances: int, **fields: Any) -> None:
    wanted = version(instances, **{"restart_policy": ENDS, **fields})
    reply = lab.ask(requests.CreateApplication(version=msgspec.structs.replace(wanted, application=name)))
    assert not reply.error, reply.message


def groups_of(lab: Lab, name: str) -> list[TaskGroup]:
    return [group for group in lab.core.state.groups_of(object_key("default", name)).values() if not group.ended]


def start(lab: Lab, name: str) -> None:
    lab.wait(0.2)
    for group in groups_of(lab, name):
        if not group.started:
            lab.report(group, "RUNNING")


def runs(lab: Lab, name: str, *seconds: float) -> None:
    """Runs of an application that finish after these seconds each, one after the other."""
    for number, duration in enumerate(seconds):
        create(lab, f"{name}{number}", 1)
        lab.offer(f"runner-{number}", cpus=200)
        start(lab, f"{name}{number}")
        (group,) = groups_of(lab, f"{name}{number}")
        lab.wait(duration)
        lab.report(group, "FINISHED")
        lab.core.turn_context.pool.hand.remove_agent(f"runner-{number}")


def when(lab: Lab, name: str = "web", changes: bool = False) -> Any:
    before = sorted(msgspec.json.encode(record) for record in lab.records())
    reply = lab.ask(requests.AskWhatIf(namespace="default", name=name, changes=changes))
    assert not reply.error, reply.message
    assert sorted(msgspec.json.encode(record) for record in lab.records()) == before
    assert isinstance(reply.data, dict)
    return show_what_if(reply.data).when


def test_the_estimate_follows_the_runs_of_the_kind_and_comes_true() -> None:
    lab = Lab()
    runs(lab, "job", *(60.0 + 2 * number for number in range(OF_KIND)))
    assert len(lab.core.turn_context.run_times) == OF_KIND
    create(lab, "holder", 2)
    lab.offer(cpus=210)
    start(lab, "holder")
    began = lab.now
    create(lab, "web", 1)
    lab.wait(10.0)
    lab.offer("agent-2", cpus=10)
    found = when(lab)
    assert found.runs == OF_KIND and not found.reason
    assert 40 <= found.least <= found.seconds <= found.most <= 95
    assert found.text.startswith("room is expected in about ") and found.text.endswith("from 20 runs")
    lab.wait(began + 10.0 + found.seconds - lab.now)
    lab.report(groups_of(lab, "holder")[0], "FINISHED")
    lab.offer(cpus=110)
    lab.wait(0.2)
    assert len(groups_of(lab, "web")) == 1


def test_without_runs_there_is_no_estimate() -> None:
    lab = Lab()
    create(lab, "holder", 2)
    lab.offer(cpus=210)
    start(lab, "holder")
    create(lab, "web", 1)
    lab.offer("agent-2", cpus=10)
    found = when(lab)
    assert (found.reason, found.seconds) == ("noRuns", None)
    assert found.text.startswith("no estimate of the time until room is free: ")


def test_taskgroups_that_are_restarted_free_no_room() -> None:
    lab = Lab()
    runs(lab, "job", *[50.0] * OF_KIND)
    create(lab, "holder", 2, restart_policy=RestartPolicy(policy="Always"))
    lab.offer(cpus=210)
    start(lab, "holder")
    create(lab, "web", 1)
    lab.offer("agent-2", cpus=10)
    assert when(lab).reason == "noRuns"


def test_ends_that_leave_too_little_room_are_no_basis() -> None:
    lab = Lab()
    runs(lab, "job", *[50.0] * OF_KIND)
    create(lab, "holder", 2)
    lab.offer(cpus=210)
    start(lab, "holder")
    create(lab, "web", 5)
    lab.offer("agent-2", cpus=10)
    assert when(lab).reason == "tooFewEnds"


def test_a_limit_of_a_queue_gives_way_when_the_work_of_the_queue_has_ended() -> None:
    lab = Lab(CoreOptions(strict=True, validate=True, session_period=0.1, policy=policy_of(DEFAULT)))
    runs(lab, "job", *[50.0] * OF_KIND)
    lab.ask(requests.PutQueue(queue=Queue(name="small", capability=Limits(cpus=250))))
    lab.ask(requests.PutNamespace(namespace=Namespace(name="default", queue="small")))
    create(lab, "holder", 2)
    lab.offer(cpus=4000)
    start(lab, "holder")
    lab.wait(0.3)
    create(lab, "web", 1)
    lab.offer(cpus=4000)
    lab.wait(0.3)
    assert len(groups_of(lab, "web")) == 0
    found = when(lab, changes=True)
    assert found.reason == "" and 40 <= found.least <= found.seconds <= found.most <= 51


def test_taskgroups_that_were_requested_to_end_are_no_runs() -> None:
    lab = Lab()
    lab.offer()
    create(lab, "web", 3)
    start(lab, "web")
    lab.ask(requests.ScaleApplication(namespace="default", name="web", instances=1))
    lab.wait(1.0)
    for group in groups_of(lab, "web"):
        if group.killing_since:
            lab.report(group, "FINISHED")
    assert len(lab.core.turn_context.run_times) == 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 100)), max_size=40), st.integers(1, 9))
def test_the_ring_keeps_the_latest_runs(added: list[tuple[str, float]], most: int) -> None:
    ring = RunTimes(most)
    for name, seconds in added:
        ring.add(name, "application", seconds)
    kept = added[-most:]
    assert len(ring) == len(kept)
    assert sorted(ring.applications()) == sorted({name for name, _ in kept})
    for name in "abc":
        own = sorted(seconds for other, seconds in kept if other == name)
        assert ring.basis(name, "process") == (tuple(own) if len(own) >= OF_APPLICATION else ())


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=30), st.floats(0, 1000))
def test_the_rest_of_a_run_lies_between_its_bounds(seconds: list[float], age: float) -> None:
    found = remaining(tuple(sorted(seconds)), age)
    later = [one for one in seconds if one > age]
    if found is None:
        assert len(later) < OF_APPLICATION
        return
    early, middle, late = found
    assert 0 < early <= middle <= late == pytest.approx(late)
    assert late <= max(later) - age
