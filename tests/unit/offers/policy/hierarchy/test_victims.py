"""Which victims a preemption of queues chooses, how work is protected, and the results of tries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from offers.ledger.holds import RETRY
from offers.policy.hierarchy.changes import apply
from offers.policy.hierarchy.cluster import set_nodes
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.configuration.fields import BadQueues
from offers.policy.hierarchy.configuration.partition import GangPreemption, NodeOrder
from offers.policy.hierarchy.preemption import preemption
from offers.policy.hierarchy.preemption.preemption import TRIES, attempt, last_try, preempt
from offers.policy.hierarchy.preemption.quota import give_back
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask, Preemption
from offers.policy.hierarchy.state.queue import Queue
from offers.policy.hierarchy.tree import Tree
from offers.policy.obstacles import Attempt, Obstacle
from tests.unit.offers.policy.hierarchy.test_preemption import LATE, pending, queue, running, tree, victims

Met = dict[Obstacle, tuple[int | str, ...]]


def runs(state: Tree, application: str, leaf: str, node: str, *amounts: int, least: int = 0, **fields: Any) -> None:
    """Allocations of an application, the newest last; a gang if `least` is given."""
    if application not in state.applications:
        state.submit(Application(application, leaf, 0))
    owner = state.applications[application]
    for amount in amounts:
        name = f"t{len(owner.allocations)}"
        ask = Ask(application, name, (("cpus", amount),), float(len(owner.allocations)), **fields)
        state.recover(Allocation(ask, node))
    owner.least = least or owner.least


def urgent(state: Tree, amount: int = 1, leaf: str = "root.urgent", **fields: Any) -> Preemption | None:
    """The preemption of one ask of a queue."""
    (ask,) = pending(state, leaf, amount, **fields)
    return attempt(state, ask, LATE)


def met(result: Attempt | None) -> Met:
    """Numbers and owners by obstacle."""
    assert result is not None
    return {one.code: (one.number, *one.whose) for one in result.met}


def nodes(number: int, total: int) -> dict[str, int]:
    return {f"n{index}": total for index in range(1, number + 1)}


# --- which node, and which victims ----------------------------------------------------------------------------


def test_a_node_that_lacks_room_for_its_promise_needs_no_victims_of_other_asks() -> None:
    """Root has no maximum: each node is judged by itself."""
    state = tree([queue("urgent", 2), queue("other", 1), queue("low")], {"n1": 1, "n2": 4})
    running(state, "root.low", "n1", 1)
    runs(state, "a", "root.low", "n2", 1, 1, 1, 1)
    (waits,) = pending(state, "root.other", 1)
    state.promise(waits.application, waits.name, "n1")  # others have taken its room
    assert victims(urgent(state)) == ["a/t3"]


def test_the_node_whose_victims_are_the_least_important_is_chosen() -> None:
    state = tree([queue("q"), queue("urgent", 9)], nodes(2, 2))
    runs(state, "important", "root.q", "n1", 2, priority=5)
    runs(state, "cheap", "root.q", "n2", 1, 1, priority=1)
    assert victims(urgent(state, 2, priority=9)) == ["cheap/t1", "cheap/t0"]


@pytest.mark.parametrize(
    ("idle", "amount", "chosen"),
    [(("t0", "t1"), 2, ["broken/t1", "broken/t0"]), (("t0",), 1, ["broken/t0"]), (("t0",), 2, []), ((), 1, [])],
)
def test_allocations_that_do_not_work_are_chosen_before_all_others_and_spend_no_budget(
    idle: tuple[str, ...], amount: int, chosen: list[str]
) -> None:
    state = tree([queue("q"), queue("urgent", 9)], nodes(2, 2))
    runs(state, "cheap", "root.q", "n1", 2, priority=1)
    runs(state, "broken", "root.q", "n2", 1, 1, priority=5)
    state.begin(state.terms._replace(idle=lambda: [("gone", "t0"), *(("broken", name) for name in idle)]))
    state.begin(state.terms._replace(allowance=lambda application: 0))
    found = urgent(state, amount, priority=9)
    assert (victims(found) if found is not None else []) == chosen


def test_of_equally_important_victims_the_fewest_are_chosen_and_then_the_smallest() -> None:
    state = tree([queue("q"), queue("urgent", 9)], nodes(3, 4))
    runs(state, "two", "root.q", "n1", 2, 2)
    runs(state, "large", "root.q", "n2", 4)
    runs(state, "small", "root.q", "n3", 3, 1, priority=0)
    assert victims(urgent(state, 3)) == ["small/t0"]
    assert victims(urgent(state, 4, leaf="root.urgent")) == ["large/t0"]


def test_of_equal_victims_those_on_the_first_node_are_chosen() -> None:
    state = tree([queue("q"), queue("urgent", 9)], nodes(3, 2))
    for node in ("n3", "n2", "n1"):
        runs(state, "a", "root.q", node, 2)
    assert victims(urgent(state)) == ["a/t2"]


@pytest.mark.parametrize(("offset", "victim"), [(0, "b/t0"), (3, "a/t0")])
def test_importance_is_the_priority_that_queues_show_at_the_fence(offset: int, victim: str) -> None:
    state = tree([queue("qa"), queue("qb", offset=offset), queue("urgent", 9, offset=9)], nodes(2, 1))
    runs(state, "a", "root.qa", "n1", 1, priority=2)
    runs(state, "b", "root.qb", "n2", 1, priority=0)
    assert victims(urgent(state)) == [victim]


def test_on_one_node_the_least_important_allocations_end_first() -> None:
    state = tree([queue("q"), queue("urgent", 9)], {"n1": 3})
    runs(state, "low", "root.q", "n1", 1, priority=1)
    runs(state, "high", "root.q", "n1", 1, 1, priority=5)
    assert victims(urgent(state, priority=9)) == ["low/t0"]


def test_work_that_asks_to_be_taken_after_all_others_is_spared_on_every_node() -> None:
    state = tree([queue("q"), queue("urgent", 9)], nodes(3, 1))
    runs(state, "opts-out", "root.q", "n1", 1, preemptable=False)
    runs(state, "driver", "root.q", "n2", 1, originator=True)
    runs(state, "important", "root.q", "n3", 1, priority=5)
    found = [urgent(state, priority=9) for _ in range(2)]
    assert [victims(one) for one in found] == [["important/t0"], ["driver/t0"]]


def test_under_a_fence_and_a_maximum_the_least_important_victim_of_any_node_ends_and_no_other() -> None:
    team = queue("team", None, 4, queue("low"), queue("high", 9 - 6), preemption="fence")
    state = tree([team, queue("other")], nodes(3, 3))
    runs(state, "dear", "root.team.low", "n1", 2, 1, priority=3)
    runs(state, "cheap", "root.team.low", "n2", 1, priority=1)
    runs(state, "stranger", "root.other", "n3", 1)
    found = urgent(state, leaf="root.team.high", priority=9)
    assert (found and found.node, victims(found)) == ("n2", ["cheap/t0"])


# --- gangs ----------------------------------------------------------------------------------------------------


def gangs(setting: str | None, least: int = 2, **fields: Any) -> Tree:
    """A gang of three with a minimum on two nodes, which are full, and a queue that may preempt."""
    entry = queue("q")
    if setting is not None:
        entry["properties"]["preemption.gangs"] = setting
    state = tree([entry, queue("urgent", 9)], nodes(2, 2))
    runs(state, "gang", "root.q", "n1", 1, 1, least=least, **fields)
    runs(state, "gang", "root.q", "n2", 1, **fields)
    return state


@pytest.mark.parametrize("setting", [None, "keep", "whole"])
def test_a_gang_loses_what_it_has_beyond_its_minimum(setting: str | None) -> None:
    state = gangs(setting)
    state.submit(Application("fill", "root.q", 0))
    state.recover(Allocation(Ask("fill", "t", (("cpus", 1),), required_node="n2"), "n2"))
    assert victims(urgent(state)) == ["gang/t1"]


@pytest.mark.parametrize("setting", [None, "keep"])
def test_a_gang_at_its_minimum_loses_nothing(setting: str | None) -> None:
    state = gangs(setting, least=3)
    runs(state, "full", "root.urgent", "n2", 1)
    (ask,) = pending(state, "root.urgent", 1)
    assert attempt(state, ask, LATE) is None
    result = last_try(state, ask.application, ask.name, LATE)
    assert met(result) == {Obstacle.GANG: (3, "gang"), Obstacle.APART: (2,)}


def test_a_gang_at_its_minimum_ends_as_a_whole_if_its_queue_says_so() -> None:
    state = gangs("whole", least=3)
    runs(state, "full", "root.urgent", "n2", 1)
    found = urgent(state, 2)
    assert found is not None and found.node == "n1"
    assert victims(found) == ["gang/t0", "gang/t1", "gang/t2"]


def test_members_that_were_chosen_one_by_one_join_the_whole_gang() -> None:
    state = gangs("whole")
    runs(state, "full", "root.urgent", "n2", 1)
    assert victims(urgent(state, 2)) == ["gang/t0", "gang/t1", "gang/t2"]


def test_single_work_ends_before_a_whole_gang() -> None:
    state = gangs("whole", least=3)
    runs(state, "single", "root.q", "n2", 1)
    assert victims(urgent(state)) == ["single/t0"]


@pytest.mark.parametrize(("together", "allowed", "ends"), [(True, 1, False), (True, 2, True), (False, 1, True)])
@pytest.mark.parametrize("amount", [1, 2])
def test_applications_with_one_budget_spend_it_together(together: bool, allowed: int, ends: bool, amount: int) -> None:
    """Both sides of a rolling update: an ask that needs both, and two asks that need one each."""
    state = tree([queue("q"), queue("urgent", 9)], nodes(1, 2))
    runs(state, "old", "root.q", "n1", 1)
    runs(state, "new", "root.q", "n1", 1)
    before = set(state.leaving)
    sides = ("old", "new")

    def left(application: str) -> int:
        spent = [one.ask.application for name, one in state.leaving.items() if name not in before]
        return allowed - sum(name in state.terms.budget_of(application) for name in spent)

    state.begin(state.terms._replace(budget_of=lambda name: sides if together and name in sides else (name,)))
    state.begin(state.terms._replace(allowance=left))
    for ask in pending(state, "root.urgent", *[amount] * (2 // amount)):
        attempt(state, ask, LATE)
    assert len(state.leaving) == (2 if ends else 2 - amount)


@pytest.mark.parametrize("together", [True, False])
def test_a_gang_that_ends_as_a_whole_shares_its_budget(together: bool) -> None:
    """Beside the other side, whose one taskgroup spends the budget of both."""
    entry = queue("q")
    entry["properties"]["preemption.gangs"] = "whole"
    state = tree([entry, queue("urgent", 9)], nodes(1, 3))
    runs(state, "gang", "root.q", "n1", 1, 1, least=2)
    runs(state, "other", "root.q", "n1", 1)
    sides = ("gang", "other")
    state.begin(state.terms._replace(budget_of=lambda name: sides if together and name in sides else (name,)))
    state.begin(state.terms._replace(allowance=lambda application: 1))
    assert (urgent(state, 3) is None) is together


@pytest.mark.parametrize(("allowed", "ends"), [(0, False), (1, True)])
def test_a_whole_gang_spends_one_of_its_budget(allowed: int, ends: bool) -> None:
    state = gangs("whole", least=3)
    runs(state, "full", "root.urgent", "n2", 1)
    state.begin(state.terms._replace(allowance=lambda application: allowed))
    assert (urgent(state) is not None) is ends


def test_a_gang_with_a_member_that_may_not_end_stays_whole() -> None:
    state = gangs("whole", least=4)
    runs(state, "gang", "root.q", "n2", 1, required_node="n2")
    assert urgent(state) is None


def test_a_whole_gang_leaves_the_guarantee_of_its_queue() -> None:
    entry = queue("q", 1)
    entry["properties"]["preemption.gangs"] = "whole"
    state = tree([entry, queue("urgent", 9)], nodes(1, 3))
    runs(state, "gang", "root.q", "n1", 1, 1, 1, least=3)
    (ask,) = pending(state, "root.urgent", 1)
    assert attempt(state, ask, LATE) is None
    result = last_try(state, ask.application, ask.name, LATE)
    assert met(result) == {Obstacle.GUARANTEE: (3, "root.q"), Obstacle.APART: (1,)}


def test_a_gang_below_its_minimum_loses_nothing() -> None:
    state = gangs("keep", least=5)
    runs(state, "full", "root.urgent", "n2", 1)
    assert urgent(state) is None


def test_members_that_leave_already_do_not_count() -> None:
    state = gangs("keep")
    runs(state, "full", "root.urgent", "n2", 1)
    assert victims(urgent(state)) == ["gang/t1"]
    assert urgent(state) is None


def test_the_setting_for_gangs_is_that_of_the_nearest_queue() -> None:
    def entry(name: str, setting: str | None, *queues: Any) -> Any:
        found = queue(name, None, None, *queues)
        if setting is not None:
            found["properties"]["preemption.gangs"] = setting
        return found

    top = entry("top", "whole", entry("a", None), entry("b", "keep"))
    top["childtemplate"] = {"properties": {"preemption.delay": "1s"}}
    state = tree([top, entry("other", None)], {})
    found = {name: one.gang_preemption for name, one in state.queues.items()}
    assert found == {
        "root": GangPreemption.KEEP,
        "root.top": GangPreemption.WHOLE,
        "root.top.a": GangPreemption.WHOLE,
        "root.top.b": GangPreemption.KEEP,
        "root.other": GangPreemption.KEEP,
    }


def test_another_value_for_gangs_is_refused() -> None:
    with pytest.raises(BadQueues) as refused:
        partition_of({"queues": [{"name": "q", "properties": {"preemption.gangs": "split"}}]})
    assert [str(one) for one in refused.value.problems] == [
        "queues[0].properties.preemption.gangs: 'split' is none of keep, whole"
    ]


# --- quota ----------------------------------------------------------------------------------------------------


def lowered(most: int, *amounts: int, guaranteed: int | None = None, least: int = 0, gangs: str = "keep") -> Tree:
    """A queue with allocations, the newest first, whose maximum was lowered some time ago."""
    entry = queue("q", guaranteed, most, quota="10s")
    entry["properties"]["preemption.gangs"] = gangs
    state = tree([entry], {"n1": 100})
    runs(state, "a", "root.q", "n1", *reversed(amounts), least=least)
    assert give_back(state, 0.0) == []
    return state


@pytest.mark.parametrize(
    ("most", "amounts", "taken"),
    [(10, (5, 6, 9), [5]), (10, (11,), []), (8, (9, 1, 2, 4), [1, 2, 4]), (4, (2, 2, 2), [2])],
)
def test_quota_preemption_skips_what_is_larger_than_the_rest_of_the_excess(
    most: int, amounts: tuple[int, ...], taken: list[int]
) -> None:
    state = lowered(most, *amounts)
    assert [dict(one.ask.request)["cpus"] for one in give_back(state, 10.0)] == taken


def test_quota_preemption_respects_gangs_and_budgets() -> None:
    assert give_back(lowered(1, 1, 1, 1, least=3), 10.0) == []
    assert len(give_back(lowered(1, 1, 1, 1, least=2), 10.0)) == 1
    assert give_back(lowered(1, 1, 1, 1, least=3, gangs="whole"), 10.0) == []
    assert len(give_back(lowered(0, 1, 1, 1, least=3, gangs="whole"), 10.0)) == 3
    state = lowered(0, 1, 1, 1)
    state.begin(state.terms._replace(allowance=lambda application: 2 - len(state.leaving)))
    assert len(give_back(state, 10.0)) == 2


def test_what_a_share_of_the_excess_is_too_small_for_ends_where_it_fits() -> None:
    parent = queue("p", None, 6, queue("a"), queue("b"), quota="10s")
    state = tree([parent], {"n1": 100})
    for name in ("a", "b"):
        runs(state, name, f"root.p.{name}", "n1", 2, 2)
    assert give_back(state, 0.0) == []
    assert [one.ask.id for one in give_back(state, 10.0)] == ["a/t1"]


# --- results of tries -----------------------------------------------------------------------------------------


def obstacles(state: Tree, amount: int = 1, leaf: str = "root.urgent", now: float = LATE) -> Met:
    (ask,) = pending(state, leaf, amount)
    assert attempt(state, ask, now) is None
    found = last_try(state, ask.application, ask.name, now)
    assert found is not None and (found.at, found.evicted) == (now, 0)
    return met(found)


def test_results_name_guarantees_and_queues_that_lose_nothing() -> None:
    off = queue("off", preemption="disabled")
    state = tree([queue("q", 2), off, queue("urgent", 9)], nodes(3, 2))
    runs(state, "kept", "root.q", "n1", 2)
    runs(state, "off", "root.off", "n2", 1, 1)
    running(state, "root.urgent", "n3", 2)
    assert obstacles(state) == {Obstacle.GUARANTEE: (1, "root.q"), Obstacle.OUTSIDE: (2, "root.off")}


def test_results_name_priorities_budgets_and_small_nodes() -> None:
    state = tree([queue("q"), queue("urgent", 9)], nodes(3, 2))
    runs(state, "high", "root.q", "n1", 2, priority=5)
    runs(state, "spent", "root.q", "n2", 1, 1)
    runs(state, "pinned", "root.q", "n3", 2, required_node="n3")
    state.begin(state.terms._replace(allowance=lambda application: 1))
    assert obstacles(state, 2) == {
        Obstacle.PRIORITY: (1,),
        Obstacle.BUDGET: (1, "spent"),
        Obstacle.CRITICAL: (1,),
        Obstacle.APART: (3,),
    }


def test_results_name_an_ask_that_is_not_entitled() -> None:
    state = tree([queue("q"), queue("urgent")], nodes(1, 1))
    runs(state, "a", "root.q", "n1", 1)
    assert obstacles(state) == {Obstacle.OWN_GUARANTEE: (0, "root.urgent")}
    state = tree([queue("q"), queue("urgent", 1)], nodes(1, 2))
    runs(state, "a", "root.q", "n1", 1)
    running(state, "root.urgent", "n1", 1)
    assert obstacles(state) == {Obstacle.OWN_GUARANTEE: (0, "root.urgent")}


def test_results_name_siblings_victims_that_leave_and_the_lack_of_candidates() -> None:
    state = tree([queue("team", 4, None, queue("a"), queue("b"))], nodes(1, 2))
    runs(state, "a", "root.team.a", "n1", 1, 1)
    assert obstacles(state, leaf="root.team.b") == {Obstacle.OUTSIDE: (2, "root.team.a")}
    state = tree([queue("urgent", 9)], nodes(1, 1))
    running(state, "root.urgent", "n1", 1)
    assert obstacles(state) == {Obstacle.NO_CANDIDATE: (0, "root")}
    state = tree([queue("q"), queue("urgent", 9)], nodes(1, 1))
    runs(state, "a", "root.q", "n1", 1)
    found = urgent(state)
    assert found is not None
    result = last_try(state, found.ask.application, found.ask.name, LATE)
    assert result is not None and (result.evicted, result.agent, result.met) == (1, "n1", ())
    assert obstacles(state) == {Obstacle.LEAVING: (1,), Obstacle.APART: (1,)}


def test_an_ask_that_is_not_old_enough_has_that_as_its_result() -> None:
    state = tree([queue("q"), queue("urgent", 9)], nodes(1, 1))
    runs(state, "a", "root.q", "n1", 1)
    (ask,) = pending(state, "root.urgent", 1, created=LATE - 1)
    assert attempt(state, ask, LATE) is None
    found = last_try(state, ask.application, ask.name, LATE)
    assert found is not None and found.cause is Obstacle.NOT_OLD_ENOUGH
    assert found.met[0].until == LATE - 1 + 30.0


# --- bounded work ---------------------------------------------------------------------------------------------


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The leaves of the searches from now on."""
    searched: list[str] = []
    honest = preemption.plan

    def plan(state: Tree, leaf: Queue, *more: Any) -> Any:
        searched.append(leaf.name)
        return honest(state, leaf, *more)

    monkeypatch.setattr(preemption, "plan", plan)
    return searched


def hopeless() -> Tree:
    """A queue with a guarantee whose ask finds too little work that is not more important."""
    state = tree([queue("team", None, None, queue("q"), queue("urgent", 9)), queue("other")], nodes(2, 2))
    runs(state, "high", "root.team.q", "n1", 1, priority=5)
    runs(state, "small", "root.team.q", "n1", 1)
    runs(state, "other", "root.other", "n2", 1, priority=5)
    running(state, "root.team.urgent", "n2", 1)
    pending(state, "root.team.urgent", 2)
    return state


def lower(state: Tree) -> None:
    state.release("high", "t0")
    runs(state, "low", "root.team.q", "n1", 1)


CHANGES: dict[str, Callable[[Tree], object]] = {
    "an allocation": lambda state: runs(state, "new", "root.team.q", "n1", 0),
    "an end": lambda state: state.release("high", "t0"),
    "an application": lambda state: state.touch(state.queues["root.team.q"]),
    "a configuration": lambda state: apply(state, state.partition._replace(node_order=NodeOrder.BINPACKING)),
    "a node": lambda state: set_nodes(state, {"n3": {"cpus": 1}}),
    "an ask": lambda state: state.ask(Ask("wait-root.team.urgent", "first", (("cpus", 2),), -1.0, 3)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_try_in_vain_is_repeated_only_after_a_change_that_could_help(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched, state = counted(monkeypatch), hopeless()
    for number in range(5):
        assert preempt(state, LATE + number * RETRY) == []
    assert len(searched) == 1
    CHANGES[change](state)
    list(state.run())
    preempt(state, LATE + 5 * RETRY)
    assert len(searched) == 2


def test_a_try_in_vain_helps_once_a_candidate_is_there() -> None:
    state = hopeless()
    assert preempt(state, LATE) == []
    lower(state)
    assert list(state.run()) == []
    (found,) = preempt(state, LATE + RETRY)
    assert victims(found) == ["low/t0", "small/t0"]


def test_a_result_that_budgets_decided_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    state = tree([queue("q"), queue("urgent", 9)], nodes(1, 1))
    runs(state, "a", "root.q", "n1", 1)
    pending(state, "root.urgent", 1)
    state.begin(state.terms._replace(allowance=lambda application: 0))
    assert preempt(state, LATE) == []
    state.begin(state.terms._replace(allowance=None))
    assert len(preempt(state, LATE + RETRY)) == 1


def test_a_round_that_takes_too_long_goes_on_and_each_leaf_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = counted(monkeypatch)
    names = [f"u{number}" for number in range(4)]
    state = tree([queue("q"), *(queue(name, 99) for name in names)], nodes(1, 99))
    runs(state, "high", "root.q", "n1", 99, priority=5)
    for name in names:
        pending(state, f"root.{name}", *range(1, TRIES + 3))
    most = 0
    for _ in range(4 * TRIES):
        before = len(searched)
        assert preempt(state, LATE, is_over=lambda: True) == []
        most = max(most, len(searched) - before)
        if not state.behind:
            break
    assert most == 1
    assert Counter(searched) == {f"root.{name}": TRIES for name in names}
