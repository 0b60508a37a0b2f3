"""Interrupted launches in a tree of queues: what queues no longer admit is not taken back."""

from __future__ import annotations

import json

import pytest

from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.interface.requests import PutQueueTree
from bcs_scheduler.core.options import CoreOptions
from offers.ledger.holds import PROMISE_SECONDS
from offers.policy.session.configuration import default_policy
from store.records import Queue, TaskGroup
from store.records.objects import Limits
from tests.unit.core.controllers.holds.test_interrupted_launches import answer
from tests.unit.core.placement.engines.test_hierarchical import DOCUMENT, arrive, create, groups, options
from tests.unit.lab import Lab
from transactions.rules.task_states import TaskState


def interrupted_in_queues() -> tuple[Lab, list[TaskGroup]]:
    """A new leader with two taskgroups of the queue ``small``, which may have no more, that are recorded on agents and
    not reported. Two more wait."""
    before = Lab(options())
    create(before, "small", 4)
    arrive(before, "agent-0", "agent-1")
    found = groups(before, "small")
    assert len(found) == 2
    return Lab(options(), before.records(), before.now), found


def test_queues_take_the_taskgroups_back() -> None:
    lab, found = interrupted_in_queues()
    arrive(lab, "agent-0", "agent-1")
    for group in found:
        answer(lab, group, TaskState.GONE)
    lab.wait(1.0)
    again = groups(lab, "small")
    assert sorted(group.agent_id for group in again) == ["agent-0", "agent-1"]
    assert {group.id for group in again}.isdisjoint(group.id for group in found)


def test_queues_take_no_more_taskgroups_back_than_they_admit() -> None:
    lab, found = interrupted_in_queues()
    for group in found:
        answer(lab, group, TaskState.GONE)  # the queue no longer counts them, and their room is not there yet
    arrive(lab, "agent-2", "agent-3")
    arrive(lab, "agent-0", "agent-1")
    lab.wait(PROMISE_SECONDS + 1.0)
    assert len(groups(lab, "small")) == 2


@pytest.mark.parametrize("most", [0.1, 0.2])
def test_a_lowered_maximum_counts_for_taskgroups_whose_launch_did_not_leave(most: float) -> None:
    lab, found = interrupted_in_queues()
    document = json.loads(json.dumps(DOCUMENT))
    document["queues"][2]["resources"]["max"]["cpus"] = most
    reply = lab.ask(PutQueueTree(document=json.dumps(document), token=1, author="ops"))
    assert not reply.error, reply.message
    arrive(lab, "agent-0", "agent-1")
    for group in found:
        answer(lab, group, TaskState.GONE)
    lab.wait(PROMISE_SECONDS + 5.0)
    arrive(lab, "agent-0", "agent-1")
    assert len(groups(lab, "small")) == round(most * 10)


@pytest.mark.parametrize(("most", "placed"), [(None, 2), (200, 2), (150, 1)])
def test_the_capability_of_a_queue_of_sessions_counts(most: int | None, placed: int) -> None:
    options_ = CoreOptions(strict=True, policy=default_policy(), session_period=0.5)
    queue = Queue(name="default", capability=Limits(cpus=most))
    before = Lab(options_)
    create(before, "team", 2)
    arrive(before, "agent-0", "agent-1")
    found = groups(before, "team")
    lab = Lab(options_, before.records(), before.now)
    lab.turn(requests.PutQueue(queue=queue))
    arrive(lab, "agent-0", "agent-1")
    for group in found:
        answer(lab, group, TaskState.GONE)
    lab.wait(PROMISE_SECONDS + 5.0)
    arrive(lab, "agent-0", "agent-1")
    assert len(groups(lab, "team")) == placed
