"""offers.policy.copies: copies of live structures that are made as they are read."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from bcs_scheduler.core.placement.copied import RULES as PASSES
from bcs_scheduler.core.placement.copied import copied
from bcs_scheduler.core.placement.engines.hierarchical import Hierarchical
from bcs_scheduler.core.placement.engines.session import Session
from offers.ledger.offered import offer_pool
from offers.model import AgentOverrides
from offers.policy import copies
from offers.policy.copies import Copies, Rules
from offers.policy.hierarchy.state.model import Terms
from offers.policy.hierarchy.state.queue import QueueState
from tests.effort import check_few
from tests.simulation.dumping import attributes, digest, dump
from tests.unit.core.placement.test_foreseen import cluster

SHARED = tuple(
    f"bcs_scheduler.core.placement.{name}"
    for name in ("aging", "groups", "hierarchy.admission", "launcher", "pauses", "spreading")
)
"""Modules of objects that copies share, since questions only read them."""
OUTSIDE = (
    *SHARED, "bcs_scheduler.core.context", "bcs_scheduler.core.options", "bcs_scheduler.core.placement.records",
    "offers.ledger", "offers.matching",
    "offers.policy.session.configuration",
)  # fmt: skip


class Owner:
    def __init__(self) -> None:
        self.things: dict[str, Thing] = {}
        self.order: list[Thing] = []
        self.first: Callable[[], int] | None = None
        self.column = np.zeros(3)
        self.late = deque([1, 2], maxlen=2)


class Thing:
    __slots__ = ("amount", "name", "open", "owner", "used")

    def __init__(self, name: str, owner: Owner) -> None:
        self.name, self.owner, self.amount = name, owner, 1
        self.used = self.open = {"cpus": 1}

    def __len__(self) -> int:
        return self.amount


RULES = Rules((__name__,), ())


def owner() -> Owner:
    found = Owner()
    for name in ("a", "b"):
        found.things[name] = Thing(name, found)
    found.order = list(found.things.values())
    found.first = found.order[0].__len__
    return found


def test_a_copy_has_the_same_links_and_shares_nothing_that_changes() -> None:
    live = owner()
    before = digest(live, ())
    copy = Copies(RULES).of(live)
    assert copy.things["a"] is copy.order[0] and copy.order[0].owner is copy
    assert copy.order[1].used is copy.order[1].open, "two names of one container stay two names of one"
    copy.things["a"].amount = 7
    assert copy.first is not None and copy.first() == 7, "a method of a copied object is one of the copy"
    copy.order[1].used["cpus"] = 5
    copy.order.pop()
    copy.column[0] = 1
    copy.late.append(3)
    copy.things["c"] = Thing("c", copy)
    assert copy.late.maxlen == 2 and digest(live, ()) == before


def test_only_what_is_touched_is_copied() -> None:
    live = owner()
    copy = Copies(RULES).of(live)
    assert copy.things["a"].name == "a"
    assert type(copy.things["a"]) is Thing and type(copy.order[1]) is not Thing
    assert isinstance(copy.order[1], Thing) and len(copy.order[1]) == 1
    assert type(copy.order[1]) is Thing, "special methods read it, too"


def test_an_object_that_is_changed_before_it_was_read_keeps_the_change() -> None:
    live = owner()
    copy = Copies(RULES).of(live)
    copy.things["a"].amount = 9
    copy.column = np.ones(1)
    assert (copy.things["a"].amount, copy.things["a"].name, len(copy.column)) == (9, "a", 1)
    assert live.things["a"].amount == 1 and len(live.column) == 3


def test_a_copy_of_a_copy_does_not_change_the_first() -> None:
    first = Copies(RULES).of(owner())
    second = Copies(RULES).of(first)
    second.things["a"].used["cpus"] = 4
    assert first.things["a"].used == {"cpus": 1}


def test_a_large_mapping_is_copied_entry_by_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "LARGE", 1)
    live = owner()
    before = digest(live, ())
    copy = Copies(RULES).of(live)
    things = copy.things
    assert list(things) == ["a", "b"] and len(things) == 2 and "a" in things
    read = [
        things["a"], things.get("b"), *things.values(), *dict(things).values(), *{**things}.values(),
        *(one for _, one in things.items()), *things.copy().values(), things.setdefault("a", things["b"]),
    ]  # fmt: skip
    assert all(type(one) is Thing or isinstance(one, Thing) for one in read)
    assert not {id(one) for one in read} & {id(one) for one in live.things.values()}
    assert things.get("c") is None and things.pop("c", None) is None
    with pytest.raises(KeyError):
        things["c"]
    assert things.pop("a").owner is copy and list(things) == ["b"]
    things.update(c=Thing("c", copy))
    assert list(things) == ["b", "c"] and things.popitem()[0] == "c"
    assert digest(live, ()) == before


def test_an_object_without_a_role_is_refused() -> None:
    live = owner()
    live.things["a"].used["cpus"] = iter([1])  # type: ignore[assignment]
    copy = Copies(RULES).of(live)
    with pytest.raises(TypeError, match="list_iterator is neither a structure that is copied nor a value"):
        copy.things["a"].used  # noqa: B018


# --- passes -----------------------------------------------------------------------------------------------------------


def passes(seed: int, policy: str) -> tuple[Any, Session | Hierarchical]:
    lab, request = cluster(seed, policy)
    found = lab.core._offer_manager.placing.loops[0].engine
    assert isinstance(found, Session | Hierarchical)
    return (lab, request), found


@pytest.mark.parametrize("policy", ["session", "hierarchical"])
@pytest.mark.parametrize("seed", check_few(range(20), 3))
def test_a_copy_of_a_pass_is_equal_and_shares_no_structure(
    seed: int, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "LARGE", seed % 2 * 128)
    _, live = passes(seed, policy)
    copy = copied(live)
    assert list(dump(copy, OUTSIDE)) == list(dump(live, OUTSIDE))
    mine, others = reached(copy), reached(live)
    shared = Counter(type(mine[one]).__name__ for one in mine.keys() & others.keys())
    assert not shared


@pytest.mark.parametrize("policy", ["session", "hierarchical"])
@pytest.mark.parametrize("seed", check_few(range(20), 4))
def test_a_dry_run_changes_no_part_of_a_pass(seed: int, policy: str) -> None:
    (lab, request), live = passes(seed, policy)
    before = list(dump(live, OUTSIDE))
    lab.ask(msgspec.structs.replace(request, dry_run=True))
    assert list(dump(live, OUTSIDE)) == before


def test_settings_of_agents_that_are_put_back_are_no_change_and_lost_ones_are() -> None:
    pool, cordoned = offer_pool(), AgentOverrides(disabled=True)
    for agent in ("10.0.0.1", "10.0.0.2"):
        pool.override(agent, cordoned)
    before = list(dump(pool))
    pool.override("10.0.0.1", AgentOverrides())
    assert list(dump(pool)) != before
    pool.override("10.0.0.1", cordoned)
    assert list(dump(pool)) == before


def test_a_copy_follows_other_work_and_another_configuration_alone() -> None:
    _, live = passes(3, "hierarchical")
    assert isinstance(live, Hierarchical)
    before = list(dump(live, OUTSIDE))
    copy = copied(live)
    copy.trees.suppose(live.trees.partition)
    for tree_of in copy.trees.roles.values():
        tree_of.run(Terms())
        tree_of.tree.set_state("root", QueueState.STOPPED)
        tree_of.renew([])
    assert list(dump(live, OUTSIDE)) == before


def reached(root: object) -> dict[int, object]:
    """The structures and containers that can be reached from an object, by identity; values are not entered."""
    found: dict[int, object] = {}
    waiting: list[object] = [root]
    while waiting:
        one = waiting.pop()
        kind = type(one)
        if id(one) in found or kind in PASSES.values:
            continue
        if isinstance(one, tuple):
            waiting += one
        elif isinstance(one, dict | list | set | deque | np.ndarray):
            found[id(one)] = one
            shallow = isinstance(one, np.ndarray)
            waiting += () if shallow else [*one, *(one.values() if isinstance(one, dict) else ())]
        elif PASSES.is_structure(kind):
            found[id(one)] = one
            rest = PASSES.shallow.get(kind, ())
            entered = [getattr(one, name) for name in rest if hasattr(one, name)]
            found.update((id(value), value) for value in entered)  # what they hold is replaced, and not changed
            waiting += [value for name, value in attributes(one) if name not in rest]
    return found
