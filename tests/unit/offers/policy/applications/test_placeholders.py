"""Placeholders of a cluster manager: they carry a gang through, are recognized after a crash, and leave nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from offers.dimensions import amounts
from offers.policy.applications.gang import Gang
from offers.policy.applications.metadata import ApplicationMetadata, SchedulingPolicyParameters, TaskGroup, TaskMetadata
from offers.policy.applications.placeholders import REMOVAL_SECONDS, NotFound, Placeholders, Presence, Refused
from offers.policy.applications.records import Create, Existing, Launch, Traits
from tests.vectors.scenarios.engine import OneQueue

ONE = amounts({"cpus": 1})
SPEC = Create("tg-1", "app", "w", "n1", ONE, "terms")
SLEEP, RESERVE, BRIEF = Traits(), Traits(at_once=True), Traits(at_once=True, lasting=False)
LASTING = [pytest.param(SLEEP, id="sleep"), pytest.param(RESERVE, id="reserve")]


class Sent(NamedTuple):
    """An operation. `until`: 0.0 for a removal."""

    spec: Create
    until: float = 0.0


class Cluster:
    """A stand-in for a cluster manager: it carries out operations when `work` is called."""

    def __init__(self, traits: Traits, seconds: float = float("inf")) -> None:
        self.traits, self.seconds = traits, seconds
        self.sent: list[Sent] = []
        self.done = 0
        self.there: dict[str, Create] = {}
        self.fault: Callable[[Sent], None] = lambda operation: None
        self.gang: Gang | None = None
        self.placeholders = Placeholders(self, lambda application: self.gang if application == "app" else None)

    def create(self, spec: Create, until: float) -> None:
        self._send(Sent(spec, until))

    def remove(self, spec: Create) -> None:
        self._send(Sent(spec))

    def _send(self, operation: Sent) -> None:
        self.fault(operation)
        self.sent.append(operation)

    @property
    def removals(self) -> int:
        return len([one for one in self.sent if not one.until])

    def presence(self, name: str) -> Presence | None:
        known = self.placeholders.known.get(name)
        return known.presence if known is not None else None

    def work(self, now: float) -> None:
        """Carries out what was sent since the last call, and reports."""
        start, self.done = self.done, len(self.sent)
        for spec, until in self.sent[start : self.done] if self.traits.lasting else ():
            if until:
                self.there[spec.placeholder] = spec
                self.placeholders.seen(spec, now)
            elif self.there.pop(spec.placeholder, None) is not None:
                self.placeholders.lost(spec.placeholder, now)


class Partition:
    """A gang of two with its placeholders."""

    def __init__(self, traits: Traits) -> None:
        self.cluster = Cluster(traits)
        self.placeholders = self.cluster.placeholders
        self.engine = OneQueue({"n1": {"cpus": 2}})
        metadata = ApplicationMetadata(
            "app", "root.q", task_groups=(TaskGroup("w", 2, ONE),), parameters=SchedulingPolicyParameters(600)
        )
        self.gang = self.cluster.gang = self.engine.gang = Gang.born(metadata, self.engine, traits)

    def turn(self, now: float) -> list[Launch]:
        """Carries out all effects; tasks start at once."""
        self.engine.cycle(now)
        due = list(self.gang.due())
        self.placeholders.carry_out(self.gang, due, now)
        launches = [one for one in due if isinstance(one, Launch)]
        for launch in launches:
            if self.cluster.there.pop(launch.consumes, None) is not None:
                self.placeholders.lost(launch.consumes, now)
            self.gang.launched(launch.task, now)
        self.cluster.work(now)
        return launches

    def reserved(self) -> Partition:
        self.gang.submit(0.0)
        for _ in range(3):
            self.turn(0.5)
        assert self.gang.record.manager.state == "Running"
        return self


@pytest.mark.parametrize("traits", [*LASTING, pytest.param(BRIEF, id="brief")])
def test_each_form_carries_a_gang_through_and_leaves_nothing(traits: Traits) -> None:
    case = Partition(traits).reserved()
    assert len(case.cluster.sent) == 2
    for name in ("a", "b"):
        case.gang.add_task(TaskMetadata("app", name, ONE, "w", created=2.0), 2.0)
    launches = [launch for _ in range(4) for launch in case.turn(2.0)]
    assert {launch.task for launch in launches} == {"a", "b"}
    assert all(bool(launch.consumes) is traits.at_once for launch in launches)
    assert case.cluster.removals == (0 if traits.at_once else 2), "a swap in one operation needs no removal"
    case.placeholders.retry(3.0)
    assert not case.placeholders.known and not case.cluster.there
    assert case.gang.record.counters[0][1:] == (2, 2, 0)
    assert case.placeholders.next_wake() is None


@pytest.mark.parametrize("traits", LASTING)
def test_a_creation_is_sent_once_and_confirmed_when_seen(traits: Traits) -> None:
    case = Partition(traits)
    for now in (1.0, 2.0):
        case.placeholders.carry_out(case.gang, [SPEC], now)
    assert case.cluster.sent == [Sent(SPEC, float("inf"))]
    assert case.cluster.presence("tg-1") is Presence.AWAITED
    case.cluster.work(2.0)
    assert case.cluster.presence("tg-1") is Presence.THERE


def test_placeholders_that_are_seen_after_a_crash_are_listed_for_their_gang() -> None:
    cluster = Cluster(SLEEP)
    cluster.placeholders.seen(SPEC, 1.0)
    assert list(cluster.placeholders.existing("app")) == [Existing("tg-1", "w", "n1")]
    assert list(cluster.placeholders.existing("other")) == []


@pytest.mark.parametrize("traits", LASTING)
def test_a_removal_before_the_creation_is_repeated_when_the_placeholder_appears(traits: Traits) -> None:
    case = Partition(traits)
    case.placeholders.carry_out(case.gang, [SPEC], 1.0)
    case.placeholders.retry(2.0)
    assert case.cluster.removals == 1, "no gang knows the placeholder"
    case.placeholders.seen(SPEC, 3.0)
    assert case.cluster.removals == 2 and case.cluster.presence("tg-1") is Presence.LEAVING
    case.placeholders.lost("tg-1", 4.0)
    assert case.cluster.presence("tg-1") is None and case.placeholders.next_wake() is None


def test_a_placeholder_with_a_limited_time_is_renewed() -> None:
    case = Partition(BRIEF)
    case.cluster.seconds = 60.0
    case.gang.submit(100.0)
    case.turn(100.0)
    assert {one.until for one in case.cluster.sent} == {160.0}
    case.placeholders.retry(129.0)
    assert len(case.cluster.sent) == 2
    case.placeholders.retry(130.0)
    assert [one.until for one in case.cluster.sent[2:]] == [190.0, 190.0]


def test_a_brief_placeholder_is_gone_when_it_is_released() -> None:
    case = Partition(BRIEF).reserved()
    case.gang.fail(2.0)
    case.turn(2.0)
    case.turn(3.0)
    assert case.cluster.removals == 2 and not case.placeholders.known and not case.gang.placeholders


# --- removals and faults --------------------------------------------------------------------------------------


def broken(creation: bool, error: Exception) -> Callable[[Sent], None]:
    def fault(operation: Sent) -> None:
        if bool(operation.until) is creation:
            raise error

    return fault


@pytest.mark.parametrize("traits", LASTING)
def test_a_removal_that_fails_is_tried_every_five_seconds_until_it_succeeds(traits: Traits) -> None:
    case = Partition(traits).reserved()
    case.cluster.fault = broken(False, OSError("no connection"))
    case.gang.fail(10.0)
    case.turn(10.0)
    assert set(case.placeholders.faults.values()) == {"OSError: no connection"}
    for at in (10.0, 12.0, 14.9):
        case.turn(at)
        case.placeholders.retry(at)
    assert case.cluster.removals == 0 and case.placeholders.next_wake() == 10.0 + REMOVAL_SECONDS
    case.cluster.fault = lambda operation: None
    case.placeholders.retry(15.0)
    assert case.cluster.removals == 2 and not case.placeholders.faults
    case.turn(16.0)
    assert case.gang.record.core.state == "Failed" and not case.cluster.there
    assert case.placeholders.next_wake() is None


def test_a_removal_that_finds_nothing_is_not_repeated() -> None:
    case = Partition(SLEEP).reserved()
    case.cluster.fault = broken(False, NotFound())
    case.gang.fail(10.0)
    case.turn(10.0)
    assert case.gang.record.core.state == "Failed"
    assert case.placeholders.next_wake() is None


def test_a_removal_without_effect_is_repeated() -> None:
    case = Partition(SLEEP).reserved()
    case.gang.fail(10.0)
    for now in (10.0, 11.0):
        case.placeholders.carry_out(case.gang, case.gang.due(), now)
    assert case.cluster.removals == 2
    case.placeholders.retry(15.0)
    assert case.cluster.removals == 4


def test_what_no_gang_knows_is_removed() -> None:
    case = Partition(RESERVE).reserved()
    stray = Create("tg-stray", "other", "w", "n2", ONE)
    case.cluster.there["tg-stray"] = stray
    case.placeholders.seen(stray, 20.0)
    case.placeholders.retry(20.0)
    case.cluster.work(20.0)
    case.placeholders.retry(20.0)
    assert case.cluster.removals == 1 and set(case.cluster.there) == set(case.gang.placeholders)
    assert case.placeholders.next_wake() is None


def test_a_refused_creation_makes_the_application_an_ordinary_one() -> None:
    case = Partition(RESERVE)
    case.cluster.fault = broken(True, Refused("the principal must not reserve"))
    case.gang.submit(0.0)
    for _ in range(3):
        case.turn(0.5)
    assert (case.gang.record.core.state, case.gang.record.manager.state) == ("Running", "Running")
    assert not case.gang.placeholders and case.gang.record.counters[0][1:] == (2, 0, 2)


def test_a_creation_that_cannot_be_sent_is_tried_again() -> None:
    case = Partition(RESERVE)
    case.cluster.fault = broken(True, OSError("no connection"))
    case.gang.submit(0.0)
    case.turn(0.5)
    assert len(case.placeholders.faults) == 2 and case.gang.record.manager.state == "Reserving"
    case.cluster.fault = lambda operation: None
    case.turn(0.6)
    assert case.gang.record.manager.state == "Running" and not case.placeholders.faults


def test_a_placeholder_that_vanishes_before_it_was_seen_is_asked_for_again() -> None:
    case = Partition(RESERVE)
    case.gang.submit(0.0)
    case.engine.cycle(0.5)
    case.placeholders.carry_out(case.gang, case.gang.due(), 0.5)
    name = next(iter(case.gang.placeholders))
    case.placeholders.lost(name, 1.0)
    assert name not in case.gang.placeholders and len(case.gang.placeholders) == 2
