"""The objects that a change of a record concerns, and the memory of these changes."""

from __future__ import annotations

from bcs_scheduler.leadership.touches import Touches
from offers.agents import ListedAgent
from store.base import Change
from store.records import AgentSetting, Application, Namespace, Queue, Record, TaskGroup, Transaction
from store.state import State
from tests.counting import lines

GROUP = "0.web.shop.demo.1700000000000000001"


def state(*records: Record) -> State:
    made = State()
    for record in records:
        made.apply(record.kind, record.key, record)
    return made


def stored(record: Record) -> Change:
    return Change(record.kind, record.key, record)


def names(touches: Touches, *changes: Change) -> set[tuple[str, str]]:
    return {(touch.kind, touch.name) for touch in touches.note(changes)}


def application(name: str = "web", deployment: str = "") -> Application:
    return Application(namespace="shop", name=name, instances=1, deployment=deployment)


def group() -> TaskGroup:
    return TaskGroup(id=GROUP, namespace="shop", application="web", index=0, version="1", agent_id="agent-1")


def transaction(id: str = "t1") -> Transaction:
    return Transaction(
        id=id, type="SCALE", namespace="shop", application="web", created_at=1.0, due_at=1.0, deadline=2.0
    )


def test_a_taskgroup_concerns_all_that_counts_it() -> None:
    touches = Touches(state(application(deployment="front"), transaction()))
    assert names(touches, stored(group())) == {
        ("taskgroup", GROUP),
        ("agent", "agent-1"),
        ("queue", "default"),
        ("transaction", "t1"),
        ("application", "shop/web"),
        ("deployment", "shop/front"),
    }
    assert ("application", "shop/web") in names(touches, Change("taskgroup", GROUP, None))


def test_a_removed_transaction_is_told_to_its_namespace() -> None:
    touches = Touches(state(application(), transaction("old")))
    touches.note([stored(transaction("new"))])
    for id in ("old", "new"):
        (gone,) = touches.note([Change("transaction", id, None)])
        assert (gone.name, gone.namespace) == (id, "shop")


def test_settings_concern_the_agents_of_their_key() -> None:
    touches = Touches(state())
    touches.note_agents([ListedAgent("agent-1", "host-1", attributes={"InnerIP": "10.0.0.1"})])
    assert ("agent", "agent-1") in names(touches, stored(AgentSetting(agent="10.0.0.1")))


def test_a_namespace_concerns_its_queue_before_and_now() -> None:
    touches = Touches(state(Queue(name="batch")))
    found = names(touches, stored(Namespace(name="shop", queue="night")))
    assert found == {("queue", "batch"), ("queue", "night"), ("queue", "default")}


def test_only_agents_that_differ_are_touched() -> None:
    touches, one, two = Touches(state()), ListedAgent("a", "host-a"), ListedAgent("b", "host-b")
    assert {touch.name for touch in touches.note_agents([one, two])} == {"a", "b"}
    assert touches.note_agents([one, two._replace(allocated={"cpus": 1})]) == []
    assert {touch.name for touch in touches.note_agents([one._replace(active=False)])} == {"a", "b"}


def test_settings_cost_with_the_agents_of_their_key() -> None:
    """However many agents there are; counted in lines of Python."""
    change = stored(AgentSetting(agent="host-3"))
    few, many = Touches(state()), Touches(state())
    for touches, agents in ((few, 10), (many, 1000)):
        touches.note_agents([ListedAgent(f"agent-{number}", f"host-{number}") for number in range(agents)])
    assert lines(lambda: few.note([change])) == lines(lambda: many.note([change]))
    assert ("agent", "agent-3") in names(many, change)


def test_each_object_is_remembered_once_with_its_last_touch() -> None:
    touches = Touches(state(), most=3)
    for name in ("a", "b", "a"):
        touches.note([stored(application(name))])
    assert [touch.name for touch in touches.since(0) or ()] == ["shop/b", "shop/a"]
    assert [touch.position for touch in touches.since(2) or ()] == [3]
    assert touches.since(3) == []
    assert touches.since(4) is None  # of another term
    for name in ("c", "d"):
        touches.note([stored(application(name))])
    assert touches.since(1) is None  # the touch of b is forgotten
    assert [touch.name for touch in touches.since(2) or ()] == ["shop/a", "shop/c", "shop/d"]
    touches.forget()
    assert touches.since(5) is None
    assert touches.since(touches.position) == []


def test_after_skipped_changes_every_reader_reads_the_whole_list() -> None:
    touches = Touches(state(application(), transaction("old")))
    touches.note([stored(application("a"))])
    for known in range(1, 4):
        assert touches.position == known
        touches.skip([stored(transaction("new")), Change("transaction", "old", None)])
        assert touches.since(known) is None
    (gone,) = touches.note([Change("transaction", "new", None)])
    assert (gone.name, gone.namespace) == ("new", "shop")
    assert [touch.namespace for touch in touches.note([Change("transaction", "old", None)])] == [""]


def test_a_change_costs_with_its_own_objects() -> None:
    """However many objects there are; counted by the touches that it makes."""
    few = Touches(state(application(), *(transaction(f"t{n}") for n in range(2))))
    many = Touches(state(application(), *(application(f"other-{n}") for n in range(1000))))
    assert len(few.note([stored(group())])) == 6
    assert len(many.note([stored(group())])) == 4
