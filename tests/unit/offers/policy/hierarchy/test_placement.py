"""Applications enter queues by placement rules and rights; temporary queues come and go; states of queues."""

from __future__ import annotations

from typing import Any

import pytest

from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.placement import (
    DEFAULT,
    RECOVERY,
    NotPlaced,
    Refusal,
    Submission,
    may_administrate,
    may_submit,
)
from offers.policy.hierarchy.queues import create, finish, place, prune, retire
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask
from offers.policy.hierarchy.state.queue import QueueState
from offers.policy.hierarchy.tree import Tree

QUEUES = [
    {"name": "default"},
    {
        "name": "users",
        "parent": True,
        "childtemplate": {
            "resources": {"max": {"cpus": 3}, "guaranteed": {"cpus": 1}},
            "maxapplications": 2,
            "properties": {"application.sort.policy": "fair"},
        },
        "queues": [{"name": "alice"}],
    },
    {"name": "batch", "queues": [{"name": "night"}]},
]


def tree(*rules: dict[str, Any], queues: list[Any] | None = None, root: dict[str, Any] | None = None) -> Tree:
    entries = QUEUES if queues is None else queues
    if root is not None:
        entries = [{"name": "root", **root, "queues": entries}]
    partition = partition_of({"queues": entries, "placementrules": list(rules)}, quantity=int)
    return Tree(partition, [("n1", {"cpus": 10})])


def queue_of(state: Tree, **given: Any) -> str:
    return place(state, f"a{len(state.applications)}", 0.0, Submission(**given)).queue


def refusal(state: Tree, **given: Any) -> Refusal:
    with pytest.raises(NotPlaced) as refused:
        queue_of(state, **given)
    return refused.value.reason


BELOW_LEAF = {"name": "user", "create": True, "parent": {"name": "tag", "value": "t"}}
IN_USERS = {"name": "fixed", "value": "users"}


@pytest.mark.parametrize(
    ("rules", "given", "queue"),
    [
        ([], {"queue": "root.batch.night"}, "root.batch.night"),
        ([], {"queue": "batch.night"}, "root.batch.night"),
        ([], {"queue": "Batch.Night"}, "root.batch.night"),
        ([], {"queue": "nowhere"}, "root.default"),
        ([], {}, "root.default"),
        ([{"name": "fixed", "value": "batch.night"}], {"queue": "default"}, "root.batch.night"),
        ([{"name": "user", "parent": IN_USERS}], {"user": "alice"}, "root.users.alice"),
        ([{"name": "user", "parent": IN_USERS}], {"user": "bob"}, "root.default"),
        ([{"name": "user", "create": True, "parent": IN_USERS}], {"user": "bob"}, "root.users.bob"),
        ([{"name": "user", "create": True, "parent": IN_USERS}], {"user": "b.ob"}, "root.users.b_dot_ob"),
        ([{"name": "tag", "value": "team", "create": True}], {"tags": {"team": "blue"}}, "root.blue"),
        ([{"name": "tag", "value": "team", "create": True}], {"tags": {"other": "blue"}}, "root.default"),
        ([{"name": "tag", "value": "team"}], {"tags": {"team": "root.batch.night"}}, "root.batch.night"),
        ([{"name": "provided", "parent": IN_USERS}, {"name": "user"}], {"queue": "alice"}, "root.users.alice"),
        (
            [{"name": "user", "create": True, "parent": {"name": "tag", "value": "team", "create": True}}],
            {"user": "bob", "tags": {"team": "blue"}},
            "root.blue.bob",
        ),
        ([BELOW_LEAF], {"user": "x", "tags": {"t": "root.batch.night"}}, DEFAULT),
        ([{"name": "user", "create": True, "parent": {"name": "tag", "value": "t"}}], {"user": "x"}, "root.default"),
        (
            [{"name": "fixed", "value": "batch.night", "filter": {"type": "deny", "users": ["eve"]}}],
            {"user": "eve"},
            "root.default",
        ),
        (
            [{"name": "fixed", "value": "batch.night", "filter": {"groups": ["ops"]}}],
            {"user": "eve", "groups": ("dev", "ops")},
            "root.batch.night",
        ),
        ([{"name": "provided", "create": True}], {"queue": "a b"}, "root.default"),
        ([{"name": "provided", "create": True}], {"queue": RECOVERY}, "root.default"),
        ([{"name": "provided", "create": True}], {"queue": "default.below"}, "root.default"),
        ([], {"queue": "batch", "forced": True}, RECOVERY),
    ],
)  # fmt: skip
def test_the_queue_of_an_application(rules: list[dict[str, Any]], given: dict[str, Any], queue: str) -> None:
    state = tree(*rules)
    assert queue_of(state, **given) == queue
    assert state.queues[queue].is_leaf


def test_reasons_of_refusals() -> None:
    state = tree(queues=[{"name": "a", "queues": [{"name": "b"}]}, {"name": "c", "submitacl": "bob"}])
    assert refusal(state, queue="nowhere") is Refusal.NO_QUEUE
    assert refusal(state, queue="a") is Refusal.NOT_A_LEAF
    state.set_state("root.a", QueueState.DRAINING)
    assert refusal(state, queue="a.b") is Refusal.NOT_ACTIVE
    assert state.applications == {}
    closed = tree(queues=[{"name": "c", "submitacl": "bob"}], root={})
    assert refusal(closed, queue="c", user="eve") is Refusal.ACCESS_DENIED
    assert queue_of(closed, queue="c", user="bob") == "root.c"


def test_rights_come_from_above_and_administrators_may_submit() -> None:
    state = tree(
        root={"adminacl": "chief"},
        queues=[{"name": "p", "submitacl": " dev", "queues": [{"name": "a", "submitacl": "ann", "adminacl": "bob"}]}],
    )
    leaf = state.queues["root.p.a"]
    for user, groups in (("ann", ()), ("x", ("dev",)), ("bob", ()), ("chief", ())):
        assert may_submit(leaf, user, groups)
    assert not may_submit(leaf, "eve", ("ops",))
    assert may_administrate(leaf, "bob", ()) and may_administrate(leaf, "chief", ())
    assert not may_administrate(leaf, "ann", ())
    assert not may_administrate(state.queues["root.p"], "bob", ())


def test_a_created_queue_has_the_template_and_is_removed_when_empty() -> None:
    state = tree({"name": "user", "create": True, "parent": IN_USERS})
    assert queue_of(state, user="bob") == "root.users.bob"
    leaf = state.queues["root.users.bob"]
    assert (leaf.max, leaf.guaranteed, leaf.config.max_applications) == ({"cpus": 3}, {"cpus": 1}, 2)
    for number in range(5):
        state.ask(Ask("a0", f"t{number}", (("cpus", 1),)))
    assert len(list(state.run())) == 3
    with pytest.raises(ValueError, match="have not ended"):
        finish(state, "a0")
    for name in list(state.applications["a0"].allocations):
        state.release("a0", name)
    finish(state, "a0")
    assert "root.users.bob" not in state.queues and "bob" not in state.queues["root.users"].children
    assert list(state.run()) == []
    assert state.root.pending.get("cpus") == 0
    assert queue_of(state, user="bob") == "root.users.bob"


def test_parents_that_were_created_are_removed_too_and_configured_ones_stay() -> None:
    state = tree()
    leaf = create(state, "root.users.x.y.z")
    assert leaf.max == {"cpus": 3} and not state.queues["root.users.x.y"].is_leaf
    state.submit(Application("a", "root.users.x.y.z", 0))
    state.applications.pop(next(iter(leaf.applications)))
    leaf.applications.clear()
    before = set(state.queues)
    prune(state, leaf)
    prune(state, state.queues["root.users.alice"])
    assert before - set(state.queues) == {"root.users.x.y.z", "root.users.x.y", "root.users.x"}


def test_a_retired_queue_drains() -> None:
    state = tree()
    state.submit(Application("a", "root.batch.night", 0))
    state.ask(Ask("a", "t", (("cpus", 1),)))
    retire(state.queues["root.batch.night"])
    with pytest.raises(ValueError, match="takes no applications"):
        state.submit(Application("b", "root.batch.night", 0))
    assert [one.ask.name for one in state.run()] == ["t"]
    state.release("a", "t")
    finish(state, "a")
    assert "root.batch.night" not in state.queues and "root.batch" in state.queues


def test_a_stopped_queue_keeps_what_runs_and_loses_its_promises() -> None:
    state = tree()
    state.submit(Application("a", "root.batch.night", 0))
    state.recover(Allocation(Ask("a", "runs", (("cpus", 9),)), "n1"))
    state.ask(Ask("a", "waits", (("cpus", 2),)))
    assert list(state.run()) == []
    state.promise("a", "waits", "n1")
    state.set_state("root.batch", QueueState.STOPPED)
    assert state.nodes.by_name["n1"].promises == {}
    state.submit(Application("b", "root.default", 0))
    state.ask(Ask("b", "t", (("cpus", 1),)))
    assert [one.ask.application for one in state.run()] == ["b"]
    state.release("a", "runs")
    assert list(state.run()) == []
    state.set_state("root.batch", QueueState.ACTIVE)
    assert [one.ask.name for one in state.run()] == ["waits"]


def test_names_that_are_known_or_wrong_are_refused() -> None:
    state = tree()
    place(state, "a", 0.0, Submission())
    with pytest.raises(ValueError, match="exists already"):
        place(state, "a", 0.0, Submission())
    state.ask(Ask("a", "t", ()))
    with pytest.raises(ValueError, match="exists already"):
        state.ask(Ask("a", "t", ()))
    with pytest.raises(ValueError, match="slash"):
        state.ask(Ask("a", "t/1", ()))
    with pytest.raises(ValueError, match="is a leaf"):
        create(state, "root.default.below")
