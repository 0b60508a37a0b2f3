"""The forms of placeholders: each carries a gang through, is recognized after a crash, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from offers.dimensions import amounts
from offers.policy.applications.gangs.effects import Create, Launch
from offers.policy.applications.gangs.gang import Gang
from offers.policy.applications.metadata import ApplicationMetadata, SchedulingPolicyParameters, TaskGroup, TaskMetadata
from offers.policy.applications.placeholders import forms
from offers.policy.applications.placeholders.backend import Form, NotFound, Presence, Refused, TrackingBackend
from offers.policy.applications.placeholders.forms import backend_of, labels_of, spec_of
from offers.policy.applications.placeholders.manager import REMOVAL_SECONDS, PlaceholderManager
from tests.vectors.scenarios.engine import OneQueue

ONE = amounts({"cpus": 1})
SPEC = Create("tg-1", "app", "w", "n1", ONE, "terms")
CREATES = (forms.HoldOffer, forms.ReserveRoom, forms.LaunchSleeper, forms.Nominate)
LASTING = [Form.RESERVE, Form.SLEEP]
BRIEF = [Form.HOLD, Form.NOMINATE]


class Manager:
    """A stand-in for a cluster manager: it carries out operations when `work` is called."""

    def __init__(self, form: Form) -> None:
        self.sent: list[Any] = []
        self.done = 0
        self.there: dict[str, Create] = {}
        self.fault: Callable[[Any], None] = lambda operation: None
        self.backend: TrackingBackend[Any] = backend_of(form, self.send)  # type: ignore[assignment]

    def send(self, operation: Any) -> None:
        self.fault(operation)
        self.sent.append(operation)

    def work(self) -> None:
        """Carries out what was sent since the last call, and reports."""
        start, self.done = self.done, len(self.sent)
        for operation in self.sent[start:]:
            spec = None
            if isinstance(operation, forms.ReserveRoom | forms.LaunchSleeper):
                spec = spec_of(operation.node, operation.request, operation.labels)
            if spec is not None:
                self.there[spec.placeholder] = spec
                self.backend.seen(spec)
            elif isinstance(operation, forms.UnreserveRoom):
                self._remove(dict(operation.labels)[forms.PLACEHOLDER])
            elif isinstance(operation, forms.KillSleeper):
                self._remove(operation.placeholder)

    def _remove(self, name: str) -> None:
        if self.there.pop(name, None) is not None:
            self.backend.lost(name)


class Partition:
    """A gang of two with its placeholder manager."""

    def __init__(self, form: Form) -> None:
        self.manager = Manager(form)
        self.engine = OneQueue({"n1": {"cpus": 2}})
        metadata = ApplicationMetadata(
            "app", "root.q", task_groups=(TaskGroup("w", 2, ONE),), parameters=SchedulingPolicyParameters(600)
        )
        self.gang = Gang.born(metadata, self.engine, self.manager.backend.traits)
        self.placeholders = PlaceholderManager(
            self.manager.backend,
            lambda app, name, now: self.gang.bound(name, now),
            lambda app, name, now: self.gang.gone(name, now),
            lambda app, name, now: self.gang.creation_failed(name, now),
        )

    def known(self, application: str, name: str) -> bool:
        consumed = {one.placeholder for one in self.gang.members.values()}
        return application == "app" and (name in self.gang.placeholders or name in consumed)

    def turn(self, now: float) -> list[Launch]:
        """Carries out all effects; tasks start at once."""
        self.engine.cycle(self.gang, now)
        due = list(self.gang.due())
        self.placeholders.carry_out("app", due, now)
        launches = [one for one in due if isinstance(one, Launch)]
        for launch in launches:
            if launch.consumes in self.manager.there:
                self.manager._remove(launch.consumes)
            self.gang.launched(launch.task, now)
        self.manager.work()
        self.placeholders.report(now)
        return launches

    def reserved(self) -> Partition:
        self.gang.submit(0.0)
        for _ in range(3):
            self.turn(0.5)
        assert self.gang.record.manager.state == "Running"
        return self


@pytest.mark.parametrize("form", Form)
def test_each_form_carries_a_gang_through_and_leaves_nothing(form: Form) -> None:
    case = Partition(form).reserved()
    assert len([one for one in case.manager.sent if isinstance(one, CREATES)]) == 2
    for name in ("a", "b"):
        case.gang.add_task(TaskMetadata("app", name, ONE, "w", created=2.0), 2.0)
    launches = [launch for _ in range(4) for launch in case.turn(2.0)]
    assert {launch.task for launch in launches} == {"a", "b"}
    at_once = case.manager.backend.traits.at_once
    assert all(bool(launch.consumes) is at_once for launch in launches)
    removals = [one for one in case.manager.sent if not isinstance(one, CREATES)]
    assert len(removals) == (0 if at_once else 2), "a swap in one operation needs no removal"
    case.placeholders.retry(case.known, 3.0)
    assert list(case.manager.backend.list()) == [] and not case.manager.there
    assert case.gang.record.counters[0][1:] == (2, 2, 0)
    assert case.placeholders.next_wake() is None


@pytest.mark.parametrize("form", LASTING)
def test_placeholders_are_recognized_by_their_labels(form: Form) -> None:
    manager = Manager(form)
    manager.backend.create(SPEC, 1.0)
    (operation,) = manager.sent
    found = spec_of(operation.node, operation.request, operation.labels, "terms")
    assert found == SPEC and operation.labels == labels_of(SPEC)
    assert spec_of("n1", ONE, operation.labels[:2]) is None
    other = Manager(form)
    assert other.backend.seen(found) is Presence.THERE
    ((application, existing),) = other.backend.list()
    assert (application, existing) == ("app", ("tg-1", "w", "n1"))


@pytest.mark.parametrize("form", LASTING)
def test_a_creation_is_sent_once_and_confirmed_when_seen(form: Form) -> None:
    manager = Manager(form)
    manager.backend.create(SPEC, 1.0)
    manager.backend.create(SPEC, 2.0)
    assert len(manager.sent) == 1
    assert manager.backend.confirm("tg-1") is Presence.AWAITED
    manager.work()
    assert manager.backend.confirm("tg-1") is Presence.THERE


@pytest.mark.parametrize("form", LASTING)
def test_a_removal_before_the_creation_is_repeated_when_the_placeholder_appears(form: Form) -> None:
    manager = Manager(form)
    manager.backend.create(SPEC, 1.0)
    manager.backend.release("tg-1", 2.0)
    assert len(manager.sent) == 2
    assert manager.backend.seen(SPEC) is Presence.LEAVING
    assert len(manager.sent) == 3 and type(manager.sent[2]) is type(manager.sent[1])
    manager.backend.lost("tg-1")
    assert manager.backend.confirm("tg-1") is Presence.GONE


def test_a_held_offer_ends_and_a_nomination_is_renewed() -> None:
    hold, nominate = Manager(Form.HOLD), Manager(Form.NOMINATE)
    for manager in (hold, nominate):
        manager.backend.create(SPEC, 100.0)
        assert manager.backend.confirm("tg-1") is Presence.THERE
        assert manager.sent[0].until == 100.0 + manager.backend.lifetime()
        assert manager.backend.pass_time(101.0) == ()
    assert hold.backend.pass_time(110.0) == ("tg-1",)
    assert len(hold.sent) == 1 and hold.backend.confirm("tg-1") is Presence.GONE
    assert nominate.backend.pass_time(130.0) == ()
    assert nominate.sent[1].until == 190.0


@pytest.mark.parametrize("form", BRIEF)
def test_brief_forms_are_gone_when_they_are_released(form: Form) -> None:
    manager = Manager(form)
    manager.backend.create(SPEC, 1.0)
    manager.backend.release("tg-1", 2.0)
    assert manager.backend.confirm("tg-1") is Presence.GONE and len(manager.sent) == 2
    manager.backend.release("tg-1", 3.0)
    assert len(manager.sent) == 2


# --- the manager of placeholders ------------------------------------------------------------------------------


def removals(case: Partition) -> int:
    return len([one for one in case.manager.sent if isinstance(one, forms.UnreserveRoom | forms.KillSleeper)])


def broken(kind: Any, error: Exception) -> Callable[[Any], None]:
    def fault(operation: Any) -> None:
        if isinstance(operation, kind):
            raise error

    return fault


@pytest.mark.parametrize("form", LASTING)
def test_a_removal_that_fails_is_tried_every_five_seconds_until_it_succeeds(form: Form) -> None:
    case = Partition(form).reserved()
    case.manager.fault = broken((forms.UnreserveRoom, forms.KillSleeper), OSError("no connection"))
    case.gang.fail(10.0)
    case.turn(10.0)
    assert set(case.placeholders.faults.values()) == {"OSError: no connection"}
    for at in (10.0, 12.0, 14.9):
        case.turn(at)
        case.placeholders.retry(case.known, at)
    assert removals(case) == 0 and case.placeholders.next_wake() == 10.0 + REMOVAL_SECONDS
    case.manager.fault = lambda operation: None
    case.placeholders.retry(case.known, 15.0)
    assert removals(case) == 2 and not case.placeholders.faults
    case.turn(16.0)
    assert case.gang.record.core.state == "Failed" and not case.manager.there
    assert case.placeholders.next_wake() is None


def test_a_removal_that_finds_nothing_is_not_repeated() -> None:
    case = Partition(Form.SLEEP).reserved()
    case.manager.fault = broken(forms.KillSleeper, NotFound())
    case.gang.fail(10.0)
    case.turn(10.0)
    assert case.gang.record.core.state == "Failed"
    assert case.placeholders.next_wake() is None


def test_a_removal_without_effect_is_repeated() -> None:
    case = Partition(Form.SLEEP).reserved()
    case.gang.fail(10.0)
    case.placeholders.carry_out("app", case.gang.due(), 10.0)
    case.placeholders.carry_out("app", case.gang.due(), 11.0)
    assert removals(case) == 2
    case.placeholders.retry(case.known, 15.0)
    assert removals(case) == 4


def test_what_no_gang_knows_is_removed() -> None:
    case = Partition(Form.RESERVE).reserved()
    stray = Create("tg-stray", "other", "w", "n2", ONE)
    case.manager.there["tg-stray"] = stray
    case.manager.backend.seen(stray)
    case.placeholders.retry(case.known, 20.0)
    case.manager.work()
    case.placeholders.retry(case.known, 20.0)
    assert removals(case) == 1 and set(case.manager.there) == set(case.gang.placeholders)
    assert case.placeholders.next_wake() is None


def test_a_refused_creation_makes_the_application_an_ordinary_one() -> None:
    case = Partition(Form.RESERVE)
    case.manager.fault = broken(forms.ReserveRoom, Refused("the principal must not reserve"))
    case.gang.submit(0.0)
    for _ in range(3):
        case.turn(0.5)
    assert (case.gang.record.core.state, case.gang.record.manager.state) == ("Running", "Running")
    assert not case.gang.placeholders and case.gang.record.counters[0][1:] == (2, 0, 2)


def test_a_creation_that_cannot_be_sent_is_tried_again() -> None:
    case = Partition(Form.RESERVE)
    case.manager.fault = broken(forms.ReserveRoom, OSError("no connection"))
    case.gang.submit(0.0)
    case.turn(0.5)
    assert len(case.placeholders.faults) == 2 and case.gang.record.manager.state == "Reserving"
    case.manager.fault = lambda operation: None
    case.turn(0.6)
    case.turn(0.7)
    assert case.gang.record.manager.state == "Running" and not case.placeholders.faults


def test_a_held_offer_that_ends_while_the_gang_is_reserved_is_asked_for_again() -> None:
    case = Partition(Form.HOLD)
    case.engine = OneQueue({"n1": {"cpus": 1}})
    case.gang._state.engine = case.engine
    case.gang.submit(0.0)
    case.turn(0.5)
    assert len(case.engine.allocations) == 1
    case.placeholders.retry(case.known, 10.5)
    assert len(case.engine.pending) == 2 and not case.engine.allocations
    assert case.gang.record.counters[0][1:] == (2, 0, 0)


def test_a_placeholder_that_vanishes_before_it_was_seen_is_asked_for_again() -> None:
    case = Partition(Form.RESERVE)
    case.gang.submit(0.0)
    case.engine.cycle(case.gang, 0.5)
    case.placeholders.carry_out("app", case.gang.due(), 0.5)
    name = next(iter(case.gang.placeholders))
    case.manager.backend.lost(name)
    case.placeholders.report(1.0)
    assert name not in case.gang.placeholders and len(case.gang.placeholders) == 2
