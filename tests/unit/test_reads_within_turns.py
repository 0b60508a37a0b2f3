"""Summaries that are read within a turn, between two changes of a unit, are of one moment: they call nothing a failure
that the core is about to repair."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

import msgspec
import pytest

from bcs_scheduler.api.views.daemonsets import show_daemonset
from store.base import Change, Followed, Loaded
from store.records import Record, Strategy
from store.records.definition import RestartPolicy
from store.state import State
from store.state.replica import Replica
from store.state.unit_of_work import Unit
from tests.unit.agentlab import Cluster
from tests.unit.rollinglab import NEVER, NEW, WEB, RollingLab, deployed
from transactions.rules.deployment_status import summarize


class Reader:
    """Reads the deployment after each change of a record, as another thread could. `failures`: what it was told."""

    def __init__(self, lab: RollingLab, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reads, self.failures = 0, list[str]()
        for name in ("change", "apply"):
            monkeypatch.setattr(State, name, self._reading(getattr(State, name), lab))

    def _reading(self, changes: Callable[..., Any], lab: RollingLab) -> Callable[..., Any]:
        def change(state: State, *arguments: Any) -> Record | None:
            result: Record | None = changes(state, *arguments)
            deployment = state.deployments.get(WEB)
            if deployment is not None and state is lab.core.state:
                self.reads += 1
                found = summarize(state, deployment, lab.now)
                if found.conditions[0].status == "False":
                    self.failures.append(found.conditions[0].message)
                assert 0 <= found.done <= found.total
            return result

        return change


def scale_to_nothing(lab: RollingLab) -> None:
    lab.resize(0)
    lab.run()
    lab.resize(3)
    lab.run()


def scale_while_launching(lab: RollingLab) -> None:
    lab.resize(6)
    lab.resize(4)
    lab.run()
    lab.resize(1)
    lab.run()


def restart_failed(lab: RollingLab) -> None:
    lab.report(lab.group_of(1), "FAILED")
    lab.report(lab.group_of(0), "FINISHED")
    lab.wait(10)
    lab.run()


def update_and_undo(lab: RollingLab) -> None:
    lab.renew(4, **NEW)
    lab.once()
    lab.control("cancel")
    lab.run()
    lab.renew(2, **NEW)
    lab.run()


def try_out(lab: RollingLab) -> None:
    """Dry runs change the state and are undone."""
    lab.renew(5, dry=True, **NEW)
    lab.run()


STORIES = [scale_to_nothing, scale_while_launching, restart_failed, update_and_undo, try_out]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_no_read_within_a_turn_is_told_a_failure(
    story: Callable[[RollingLab], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = deployed(3, Strategy(), restart_policy=RestartPolicy(policy="Always"))
    reader = Reader(lab, monkeypatch)
    story(lab)
    assert reader.reads > 10 and reader.failures == []
    assert summarize(lab.core.state, lab.deployment, lab.now).conditions[0].reason == "Complete"


def test_a_failure_is_told_when_the_turn_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = deployed(2, **NEVER)
    reader = Reader(lab, monkeypatch)
    lab.report(lab.group_of(0), "FAILED", message="boom")
    assert reader.failures == []
    condition = summarize(lab.core.state, lab.deployment, lab.now).conditions[0]
    assert (condition.reason, condition.status) == ("Ended", "False") and "boom" in condition.message


@pytest.mark.parametrize(("turns", "told"), [(2, True), (1000, False)])
def test_a_summary_that_turns_overtake_is_computed_again(turns: int, told: bool) -> None:
    """A thread may be held up between two tables: what it has read of the first is older than the second. If the core
    is always faster, no failure is told."""
    lab = deployed(2, **NEVER)
    lab.report(lab.group_of(0), "FAILED")
    state, left = lab.core.state, iter(range(turns))
    real = state.transactions_of

    def overtaken(key: str) -> Any:
        state.moment.serial += next(left, None) is not None
        return real(key)

    state.transactions_of = overtaken  # type: ignore[method-assign,assignment]
    assert (summarize(state, lab.deployment, lab.now).conditions[0].reason == "Ended") is told


# --- standbys -------------------------------------------------------------------------------------------------------


class Story(NamedTuple):
    """The units of some turns, in the order in which they become durable, and the failures between two turns."""

    units: list[Unit]
    failures: set[str]


def told(lab: RollingLab, story: Callable[[RollingLab], None], monkeypatch: pytest.MonkeyPatch) -> Story:
    turn, found = lab.core.turn, Story([], set())

    def kept(*arguments: Any) -> list[Unit]:
        units = turn(*arguments)
        found.units.extend(units)
        summary = summarize(lab.core.state, lab.deployment, lab.now)
        found.failures.update(one.message for one in summary.conditions[:1] if one.status == "False")
        return units

    monkeypatch.setattr(lab.core, "turn", kept)
    story(lab)
    return found


@pytest.mark.parametrize("each", [1, 3])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_no_read_of_a_standby_between_two_units_is_told_a_failure(
    story: Callable[[RollingLab], None], each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby that reads the store after every unit, or after some, in portions of one unit."""
    lab = deployed(3, Strategy(), restart_policy=RestartPolicy(policy="Always"))
    replica = Replica.of(Loaded(lab.core.state.records(), []))
    failures: set[str] = set()
    change = State.change

    def look() -> None:
        state = replica.state
        found = summarize(state, state.deployments[WEB], lab.now)
        if found.conditions[0].status == "False":
            failures.add(found.conditions[0].message)

    def changed(state: State, *arguments: Any) -> None:
        change(state, *arguments)
        if state is replica.state:
            look()

    units, known = told(lab, story, monkeypatch)
    monkeypatch.setattr(State, "change", changed)
    for first in range(0, len(units), each):
        for unit in units[first : first + each]:
            replica.apply(Followed(list(unit.changes), []))
            look()
        replica.read_ended()
        look()
    assert failures <= known
    replica.read_ended()
    assert replica.state.moment.since == inf
    leader = lab.core.state
    assert summarize(replica.state, lab.deployment, lab.now) == summarize(leader, lab.deployment, lab.now)


def test_a_standby_tells_a_failure_when_the_store_has_no_further_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = deployed(2, **NEVER)
    replica = Replica.of(Loaded(lab.core.state.records(), []))
    for unit in told(lab, lambda lab: lab.report(lab.group_of(0), "FAILED", message="boom"), monkeypatch).units:
        replica.apply(Followed(list(unit.changes), []))
    reasons = []
    for _ in range(2):
        replica.read_ended()
        reasons.append(summarize(replica.state, lab.deployment, lab.now).conditions[0].reason)
    assert reasons == ["Starting", "Ended"]


def test_a_read_of_a_standby_that_a_read_of_the_store_overtakes_is_made_again() -> None:
    lab = deployed(2, **NEVER)
    replica = Replica.of(Loaded(lab.core.state.records(), []))
    state, left = replica.state, iter(range(2))
    group = lab.group_of(0)
    real, looks = state.revisions_of, list[float]()

    def overtaken(key: str) -> Any:
        looks.append(state.moment.since)
        if next(left, None) is not None:
            ended = msgspec.structs.replace(group, updated_at=lab.now + len(looks))
            replica.apply(Followed([Change("taskgroup", group.id, ended)], []))
            replica.read_ended()
        return real(key)

    state.revisions_of = overtaken  # type: ignore[method-assign,assignment]
    assert summarize(state, lab.deployment, lab.now).conditions[0].reason == "Complete"
    assert len(looks) == 3, "two reads were overtaken"


# --- daemonsets -----------------------------------------------------------------------------------------------------


def test_a_daemonset_is_not_called_stuck_within_the_turn_that_records_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Cluster(2)
    lab.begin(restart_policy=RestartPolicy(policy="Never"))
    lab.settle()
    seen: list[bool] = []
    change = State.change

    def changed(state: State, kind: str, *arguments: Any) -> None:
        change(state, kind, *arguments)
        if kind == "daemonset" and state is lab.core.state:
            seen.append(show_daemonset(state, lab.daemonset, lambda transaction: None).stuck)

    monkeypatch.setattr(State, "change", changed)
    lab.report(lab.on("a0"), "FAILED")
    lab.wait(2)
    assert lab.daemonset.stuck and seen and not any(seen)
    assert show_daemonset(lab.core.state, lab.daemonset, lambda transaction: None).stuck


def test_the_numbers_of_a_daemonset_are_of_one_moment() -> None:
    """A turn ends between the reads of two tables: the view is made again, with the records of one moment."""
    lab = Cluster(2)
    lab.begin()
    lab.settle()
    state, left = lab.core.state, iter(range(1))
    real = state.groups_of

    def overtaken(key: str) -> Any:
        if next(left, None) is not None:
            state.groups_of = real  # type: ignore[method-assign]
            lab.join("a2")
            lab.settle()
        return real(key)

    state.groups_of = overtaken  # type: ignore[method-assign,assignment]
    counts = show_daemonset(state, lab.daemonset, lambda transaction: None).counts
    assert counts.desired == counts.current == counts.ready == 3
