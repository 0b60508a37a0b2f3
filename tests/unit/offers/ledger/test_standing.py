"""Properties K-10 to K-15 of standing capacity, and mutants that break one of them each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from offers.dimensions import amounts
from offers.ledger.nodes import Node, NodeAllocator, Nodes
from offers.ledger.pool import Pool
from offers.ledger.table import Row
from offers.ledger.usage import ANY_ROLE, AgentUse, Kind, Sending, UnitClaim, Usage, User
from offers.model import Provisional, Unit
from offers.rules.eligibility import Eligibility
from tests.effort import share
from tests.unit.offers.ledger.standing_machine import Standing

Patch = pytest.MonkeyPatch


@pytest.mark.slow
class TestStanding(Standing.TestCase):  # type: ignore[valid-type, misc]
    settings = settings(max_examples=share(150, 3), stateful_step_count=40, deadline=None)


# --- mutants --------------------------------------------------------------------------------------------------


def _overcommitted_agents_are_used(patch: Patch) -> None:
    def careless(self: Nodes, rules: Any, role: str) -> Eligibility:
        return self._pool.eligibilities.of(self._pool.table, rules, ANY_ROLE)

    patch.setattr(Nodes, "eligibility", careless)


def _not_counted(kind: Kind) -> Callable[[Patch], None]:
    def breaks(patch: Patch) -> None:
        honest = AgentUse.count

        def careless(self: AgentUse, holding: Any, step: int) -> None:
            honest(self, holding._replace(amounts=(), ports=()) if holding.kind is kind else holding, step)

        patch.setattr(AgentUse, "count", careless)

    return breaks


def _ports_of_others_are_free(patch: Patch) -> None:
    patch.setattr(AgentUse, "conflicts", lambda self, port: False)


def _claims_are_not_deducted(patch: Patch) -> None:
    """The row forgets what earlier placements of the pass have taken."""
    honest = NodeAllocator.claim

    def careless(self: NodeAllocator, row: Any, slot: Any) -> Any:
        before = list(row.amounts)
        taken = honest(self, row, slot)
        row.amounts[:] = before
        return taken

    patch.setattr(NodeAllocator, "claim", careless)


def _claim_beside_use(patch: Patch) -> None:
    """A unit that is seen keeps its claim."""

    def careless(self: Usage, user: User) -> bool:
        self._users[user.unit] = user
        self._recount(user.unit)
        self.holds.drop(user.unit)
        return user.unit in self._claims

    patch.setattr(Usage, "seen", careless)


def _second_claim(patch: Patch) -> None:
    """A claim is made or named although the unit has one."""

    def careless(self: Usage, provisional: Provisional, unit: str) -> UnitClaim | None:
        allocation = self._claims.pop(provisional, None)
        if allocation is None:
            return None
        self._recount(provisional)
        allocation = self._claims[unit] = allocation._replace(unit=unit)
        self._recount(unit)
        return allocation

    patch.setattr(Usage, "rename", careless)


def _second_claim_of_a_slot(patch: Patch) -> None:
    def careless(self: Usage, unit: Unit, node: str, part: Any, ports: Any = ()) -> UnitClaim:
        self._decisions += 1
        allocation = self._claims[unit] = UnitClaim(unit, node, part, ports, self._decisions)
        self._recount(unit, notify=False)
        return allocation

    patch.setattr(Usage, "assume", careless)


def _claims_go_with_the_facts(patch: Patch) -> None:
    """As with offers: new facts about an agent void what is planned there."""
    honest = Nodes.put

    def careless(self: Nodes, node: Node) -> bool:
        changed = honest(self, node)
        for allocation in list(self._usage.claims.values()) if changed else ():
            if allocation.node == node.name:
                self._usage.forget(allocation.unit)
        return changed

    patch.setattr(Nodes, "put", careless)


def _claims_go_with_the_agent(patch: Patch) -> None:
    honest = Nodes.remove

    def careless(self: Nodes, name: str) -> bool:
        for unit in [unit for unit, allocation in self._usage.claims.items() if allocation.node == name]:
            self._usage._drop(unit)
            self._usage._recount(unit)
        return honest(self, name)

    patch.setattr(Nodes, "remove", careless)


def _a_list_ends_claims(patch: Patch) -> None:
    honest = Usage.all_seen

    def careless(self: Usage, users: Any) -> None:
        listed = list(users)
        honest(self, listed)
        for unit in [unit for unit, allocation in self._claims.items() if allocation.sending is not Sending.ASSUMED]:
            self._drop(unit)
            self._recount(unit)

    patch.setattr(Usage, "all_seen", careless)


def _claims_expire(patch: Patch) -> None:
    honest = Usage.due

    def careless(self: Usage, now: float, timeout: float) -> list[UnitClaim]:
        found = honest(self, now, timeout)
        for allocation in found:
            self._drop(allocation.unit)
            self._recount(allocation.unit)
        return found

    patch.setattr(Usage, "due", careless)


def _any_answer_will_do(patch: Patch) -> None:
    """The late answer to an earlier request ends the claim of a later one."""
    patch.setattr(Usage, "_about", lambda self, unit, decision: self._claims.get(unit))


def _late_answers_bring_back_what_is_gone(patch: Patch) -> None:
    def careless(self: Usage, user: User, decision: int) -> bool:
        self.seen(user)
        return True

    patch.setattr(Usage, "confirmed", careless)


def _unknown_is_no(patch: Patch) -> None:
    patch.setattr(Usage, "unknown", Usage.denied)


def _nobody_asks_again(patch: Patch) -> None:
    honest = Usage.due

    def careless(self: Usage, now: float, timeout: float) -> list[UnitClaim]:
        found = honest(self, now, timeout)
        for allocation in found:
            del self._in_flight[allocation.unit]
        return found

    patch.setattr(Usage, "due", careless)


def _sent_claims_are_forgotten(patch: Patch) -> None:
    def careless(self: Usage, unit: Unit) -> bool:
        known = self._drop(unit)
        self._recount(unit)
        return known

    patch.setattr(Usage, "forget", careless)


def _gone_is_not_freed(patch: Patch) -> None:
    def careless(self: Usage, unit: str) -> bool:
        self._users.pop(unit, None)
        self._drop(unit)
        self.holds._holds.pop(unit, None)
        return self._counted.get(unit) is not None

    patch.setattr(Usage, "gone", careless)


def _rows_are_not_told(patch: Patch) -> None:
    patch.setattr(Pool, "room_changed", lambda self, site: None)


def _nominated_and_claimed(patch: Patch) -> None:
    """The room that was kept for a unit stays counted beside its claim."""
    honest = Usage._counted_as

    def careless(self: Usage, unit: Unit) -> Any:
        holding = honest(self, unit)
        hold = self.holds.get(unit)
        if holding is not None and holding.kind is Kind.CLAIMED and hold is not None:
            return holding._replace(amounts=amounts((*holding.amounts, *hold.request.amounts)))
        return holding

    patch.setattr(Usage, "_counted_as", careless)


def _an_agent_comes_back_empty(patch: Patch) -> None:
    honest = Nodes.remove

    def careless(self: Nodes, name: str) -> bool:
        for unit in [unit for unit, user in self._usage.users.items() if user.node == name]:
            self._usage.gone(unit)
        return honest(self, name)

    patch.setattr(Nodes, "remove", careless)


def _dry_runs_keep_claims(patch: Patch) -> None:
    patch.setattr(Nodes, "give_back", lambda self, claim: None)


def _dry_runs_keep_amounts(patch: Patch) -> None:
    """The claims are given back, but the rows are not worked out again."""
    honest = Nodes.work_out
    worked_out: set[int] = set()

    def careless(self: Nodes, row: Row) -> None:
        if row.claims or id(row) not in worked_out or not self._usage.on(row.agent_id).units:
            worked_out.add(id(row))
            honest(self, row)

    patch.setattr(Nodes, "work_out", careless)


def _what_was_set_aside_is_lost(patch: Patch) -> None:
    def careless(self: Usage, units: frozenset[Unit]) -> None:
        self._aside -= units

    patch.setattr(Usage, "put_back", careless)


class Mutant(NamedTuple):
    breaks: Callable[[Patch], None]
    caught_by: tuple[str, ...]
    seed: int
    """The first one that is tried: it catches the mutant soon."""

    def __str__(self) -> str:
        return self.breaks.__qualname__.removeprefix("_").removesuffix(".<locals>.breaks")


MUTANTS = (
    Mutant(_overcommitted_agents_are_used, ("K-10",), 3),
    Mutant(_ports_of_others_are_free, ("K-10",), 4),
    Mutant(_claims_are_not_deducted, ("K-10", "K-14", "K-15"), 0),
    Mutant(_claim_beside_use, ("K-11",), 0),
    Mutant(_second_claim, ("K-11",), 0),
    Mutant(_second_claim_of_a_slot, ("K-11",), 4),
    Mutant(_claims_go_with_the_facts, ("K-12",), 4),
    Mutant(_claims_go_with_the_agent, ("K-12",), 4),
    Mutant(_a_list_ends_claims, ("K-12",), 7),
    Mutant(_claims_expire, ("K-13",), 3),
    Mutant(_any_answer_will_do, ("K-13",), 1),
    Mutant(_late_answers_bring_back_what_is_gone, ("K-13",), 11),
    Mutant(_unknown_is_no, ("K-13",), 2),
    Mutant(_nobody_asks_again, ("K-13",), 2),
    Mutant(_sent_claims_are_forgotten, ("K-13",), 1),
    Mutant(_gone_is_not_freed, ("K-14",), 0),
    Mutant(_rows_are_not_told, ("K-10", "K-14"), 0),
    Mutant(_nominated_and_claimed, ("K-10", "K-14"), 4),
    Mutant(_an_agent_comes_back_empty, ("K-11", "K-14", "users"), 2),
    Mutant(_not_counted(Kind.FOREIGN), ("K-14",), 0),
    Mutant(_not_counted(Kind.TERMINATING), ("K-14",), 6),
    Mutant(_dry_runs_keep_claims, ("K-15",), 0),
    Mutant(_dry_runs_keep_amounts, ("K-15", "K-14"), 0),
    Mutant(_what_was_set_aside_is_lost, ("K-15",), 0),
)


@pytest.mark.rotating
@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant))
def test_mutants_are_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.breaks(monkeypatch)
    quick = settings(
        max_examples=15,
        stateful_step_count=40,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    for number in range(mutant.seed, mutant.seed + 60):
        try:
            run_state_machine_as_test(seed(number)(type("Seeded", (Standing,), {})), settings=quick)
        except AssertionError as error:
            assert any(property_ in str(error) for property_ in mutant.caught_by), str(error)
            return
    pytest.fail(f"nobody noticed: {mutant}")
