"""Summaries that are read within a turn, between two changes of a unit, are of one moment: they call nothing a failure
that the core is about to repair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from store.records import Record, Strategy
from store.records.definition import RestartPolicy
from store.state import State
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
