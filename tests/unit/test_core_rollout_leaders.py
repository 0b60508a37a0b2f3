"""Rolling updates over changes of leader: whoever leads goes on with the same step, and followers hear of it."""

from __future__ import annotations

import pytest

from bcs_scheduler.core.interface import effects
from store.records import Strategy
from store.state import State
from tests.unit.rollinglab import NEVER, NEW, WEB, RollingLab, deployed
from transactions.rules.lifecycle import is_ready_or_finished


def tell_of(lab: RollingLab, reason: str) -> list[str]:
    return [
        e.message for e in lab.seen if isinstance(e, effects.LogLine) and (e.kind, e.reason) == ("deployment", reason)
    ]


# --- leaders ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("turn_back", [False, True])
def test_a_new_leader_goes_on_with_the_same_step_after_any_commit(turn_back: bool) -> None:
    """Every unit of an update in turn is the last that its leader writes."""
    done = 0
    for last in range(200):
        lab = deployed(4, Strategy(max_surge=2, max_unavailable=1, on_failure="rollback"))
        fields = NEVER if turn_back else {}
        store = State(lab.records())
        lab, done = _until_unit(lab, store, last, fields)
        lab.measure()
        lab.offer()
        lab.run()
        wanted = 1 if turn_back or lab.deployment.revision == 1 else 2
        assert (lab.deployment.status, lab.deployment.revision, len(lab.groups)) == ("Running", wanted, 4)
        assert len(lab.core.state.applications) == 1
        lab.hold_bounds()
        if done < last:
            break
    assert done > 20


def _until_unit(lab: RollingLab, store: State, last: int, fields: dict) -> tuple[RollingLab, int]:  # type: ignore[type-arg]
    """Runs an update until so many units are durable (or it is over), and has another leader take over."""
    done = 0
    real = lab.core.turn

    def turn(batch, now):  # type: ignore[no-untyped-def]
        nonlocal done
        units = real(batch, now)
        for unit in units:
            done += 1
            if done <= last:
                for change in unit.changes:
                    store.apply(change.kind, change.key, change.record)
        return units

    lab.core.turn = turn  # type: ignore[method-assign, assignment]
    lab.renew(4, **fields, **NEW)
    failed = False
    for _ in range(60):
        if done >= last or not lab.deployment.updating:
            break
        if fields and len(lab.new) > 2 and not failed:
            lab.report(lab.new[-1], "FAILED")
            failed = True
        else:
            lab.once()
    successor = RollingLab(lab.options, store.records(), lab.now)
    successor._serial = 10_000
    if fields and successor.deployment.updating and not successor.deployment.rolling_back:
        successor.control("cancel")
    return successor, done


def test_followers_hear_of_every_change_of_the_record() -> None:
    lab = deployed(1)
    lab.renew(1, **NEW)
    lab.run()
    told = [e.record for e in lab.seen if isinstance(e, effects.Changed) and e.key == WEB]
    assert told[-1] == lab.deployment
    assert {record.status for record in told if record is not None} == {"Deploying", "Running", "Update"}  # type: ignore[attr-defined]
    assert tell_of(lab, "StepStarted")
    assert tell_of(lab, "UpdateFinished")
    assert all(map(is_ready_or_finished, lab.groups))
