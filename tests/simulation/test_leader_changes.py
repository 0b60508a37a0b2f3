"""The ledger before and after a change of leader, at every commit of random histories.

A leader that begins with the records of a commit has the holds that follow from them (`offers.ledger.holds.Cause`). It
differs from the present leader in three ways: in the offers in hand, in claims whose records are not durable, and in
launches without a report, whose room it holds. Records that the present leader has changed since are left out.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from bcs_scheduler.core.scheduler import Core
from offers.ledger.holds import Cause
from store.records import TaskGroup
from tests.simulation.driver import Term
from tests.simulation.invariants import Invariants
from tests.simulation.simulation import simulate
from tests.simulation.violation import Violation

STEPS = 60


def differences(now: Core, heir: Core, durable: dict[str, TaskGroup], seen: Counter[str]) -> list[str]:
    """The units about which the two differ without a reason. `durable`: the taskgroups in the records."""
    mine, theirs = now.turn_context.pool, heir.turn_context.pool
    found = [f"{unit}: held for no record" for unit, _ in theirs.holds if unit not in durable]
    for name, group in durable.items():
        if group.ended or group.killing_since or now.state.taskgroups.get(name) != group:
            continue
        before, after = mine.holds.get(name), theirs.holds.get(name)
        if before is not None:
            seen[before.cause.name] += 1
        launched = after is not None and after.cause is Cause.INTERRUPTED and group.status == "Staging"
        if before != after and not (before is None and launched):
            found.append(f"{name}: {before}, then {after}")
        if (name in mine.hand.external.awaited) != (name in theirs.hand.external.awaited):
            found.append(f"{name}: the room of one leader only is to be seen")
        seen["awaited"] += name in theirs.hand.external.awaited
        seen["launched"] += launched and before is None
    return found


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("form", "causes"),
    [("held", {"PLACEHOLDER", "launched"}), ("kept", {"awaited", "launched"}), ("plain", {"launched"})],
)
def test_a_new_leader_holds_what_follows_from_the_records(
    form: str, causes: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, decided = Counter[str](), Invariants.decided

    def compared(self: Invariants, term: Term, unit: Any) -> None:
        decided(self, term, unit)
        now = term.core
        heir = Core(list(term.mirror.values()), now.options, term.now)
        durable = {key: one for (_, key), one in term.mirror.items() if isinstance(one, TaskGroup)}
        found = differences(now, heir, durable, seen)
        seen["commits"] += 1
        if found:
            raise Violation("ledger", "; ".join(found))

    monkeypatch.setattr(Invariants, "decided", compared)
    world = {form: True} if form != "plain" else {}
    for number in range(1, 4):
        result = simulate(number, STEPS, reservations=True, **world)
        assert result.violation is None, f"seed {number}: {result.violation}"
    assert all(seen[cause] for cause in causes), seen
