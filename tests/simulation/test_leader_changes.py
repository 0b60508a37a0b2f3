"""The ledger before and after a change of leader, at every commit of random histories.

A leader that begins with the records of a commit has the holds that follow from them (`offers.ledger.holds.Cause`). It
differs from the present leader in three ways: in the offers in hand, in claims whose records are not durable, and in
launches without a report, whose room it holds. Records that the present leader has changed since are left out. Trees
keep the promises for which others end by themselves: a new one expects the room of their victims.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from bcs_scheduler.core.placement.engines.hierarchical import Hierarchical
from bcs_scheduler.core.placement.hierarchy.role_tree import RoleTree
from bcs_scheduler.core.placement.records import Records
from bcs_scheduler.core.scheduler import Core
from offers.ledger.holds import UNOFFERED_SECONDS, Cause
from offers.policy.hierarchy.preemption.promises import promises
from store.records import ReschedulePayload, TaskGroup
from tests.simulation.driver import Term
from tests.simulation.invariants import Invariants
from tests.simulation.policies.users import FairWorld
from tests.simulation.policies.world import QuietWorld
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


def trees_of(core: Core) -> list[RoleTree]:
    loop = core.turn_context.placer.policy_of("*")
    assert loop is not None and isinstance(loop.engine, Hierarchical)
    return list(loop.engine.trees.roles.values())


class Promising(QuietWorld):
    """Compares the promises of a tree with the room that the tree of a new leader expects, after each turn."""

    def _turn(self) -> None:
        super()._turn()
        state, evicted = self.core.state, set[tuple[str, str]]()
        for transaction in state.active_transactions():
            payload = transaction.payload
            if (
                isinstance(payload, ReschedulePayload)
                and (victim := state.taskgroups.get(payload.taskgroup)) is not None
                and not (victim.ended and self.now >= victim.ended_at + UNOFFERED_SECONDS)
            ):
                evicted.add((payload.beneficiary, victim.agent_id))
        kept = (promise for tree_of in trees_of(self.core) for promise in promises(tree_of.tree))
        promised = evicted & {(promise.ask.application, promise.node) for promise in kept if not promise.reserves}
        if promised:
            heirs = trees_of(Core(state.records(), self.options, self.now))
            vacated = {(room.application, room.node) for tree_of in heirs for room in tree_of.attempts.vacated}
            if not promised <= vacated:
                raise Violation("ledger", f"a new leader does not expect the room of {promised - vacated}")
            self.counts["promises"] += len(promised)


@pytest.mark.rotating
@pytest.mark.parametrize("seed", [10, 17, 18])
def test_a_new_leader_expects_the_room_that_is_promised_to_those_for_which_others_end(seed: int) -> None:
    fair = FairWorld(seed, "hierarchical", Promising)
    fair.run(60)
    assert fair.world.counts["promises"] > 10


@pytest.mark.rotating
def test_a_new_leader_that_forgets_for_whom_others_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Records, "beneficiaries", lambda self: ())
    with pytest.raises(Violation, match="does not expect the room"):
        FairWorld(18, "hierarchical", Promising).run(60)
