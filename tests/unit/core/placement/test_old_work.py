"""Old work whose queue is entitled to room, and the disruption budgets of those who have it: both engines, on virtual
time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from bcs_scheduler.api.views.reasons import reason_of
from bcs_scheduler.core.interface.cluster_manager import AgentRemoved
from bcs_scheduler.core.interface.requests import DeleteApplication, PutPodGroup, PutQueue
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.aging import IN_VAIN, SEARCH_SECONDS
from bcs_scheduler.core.placement.hierarchy.asks import safe
from bcs_scheduler.core.placement.snapshots.pending import task_name
from offers.ledger.holds import GAIN, GATHERED
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.obstacles import Obstacle
from offers.policy.session.configuration import policy_of
from offers.policy.session.decisions import Eviction
from offers.policy.session.kept import Standing
from offers.policy.session.model import Nomination
from store.mentions import plain
from store.records import GROUP_ANNOTATION, Limits, Namespace, PodGroup, Queue
from store.records.definition import Amounts
from tests.unit.busycluster import BusyCluster
from tests.unit.offers.policy.session.policy_clusters import TIERS
from transactions.rules import disruptions

AGING, MINUTE = 30.0, 60
ENGINES = ("session", "hierarchical")


def session_options(actions: str = "reclaim, allocate, backfill, preempt", **fields: Any) -> CoreOptions:
    tiers = [{"plugins": [{"name": name} for name in tier]} for tier in TIERS]
    policy = policy_of({"actions": actions, "tiers": tiers})
    return CoreOptions(strict=True, validate=True, session_period=0.5, aging=AGING, policy=policy, **fields)


def tree_options(*queues: dict[str, Any]) -> CoreOptions:
    document = {"queues": list(queues), "placementrules": [{"name": "tag", "value": "namespace"}]}
    partition = partition_of(document, ("cpus", "mem"))
    return CoreOptions(strict=True, validate=True, session_period=0.5, aging=AGING, hierarchy=partition)


def queue(name: str, cpus: float = 0, **properties: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "properties": {"preemption.delay": "1s", **properties}}
    return {**found, "resources": {"guaranteed": {"cpus": cpus}}} if cpus else found


def world(engine: str, agents: dict[str, int], owed: int = 4, guarantee: int = 0, **fields: Any) -> BusyCluster:
    """The queue `owed` has a guarantee of so many cores in a tree, and twice the weight of `has` in sessions; `has` has
    a guarantee, too. `fields`: further options of sessions."""
    if engine == "hierarchical":
        return BusyCluster(tree_options(queue("owed", owed), queue("has", guarantee)), agents)
    records = [
        Queue(name="owed", weight=2),
        Queue(name="has", guarantee=Amounts(cpus=1000 * guarantee)),
        Namespace(name="owed", queue="owed"),
        Namespace(name="has", queue="has"),
        Queue(name="third"),
        Namespace(name="third", queue="third"),
    ]
    return BusyCluster(session_options(**fields), agents, records)


def contended(engine: str, guarantee: int = 0) -> BusyCluster:
    """An agent of four cores that an application of `has` has in use, of which one taskgroup may be missing. An
    application of `owed` needs two cores."""
    cluster = world(engine, {"a": 4000}, owed=2, guarantee=guarantee)
    cluster.create("low", 1000, instances=4, namespace="has", max_unavailable=1)
    cluster.seconds(3)
    cluster.create("old", 2000, namespace="owed")
    return cluster


def evictions(cluster: BusyCluster, seconds: int) -> list[int]:
    """The seconds at which taskgroups were ended, from now on; one second for each."""
    found: list[int] = []
    for second in range(seconds):
        before = {group.id for group in cluster.evicted}
        cluster.second()
        found += [second for group in cluster.evicted if group.id not in before]
    return found


def until(cluster: BusyCluster, is_so: Callable[[], bool]) -> None:
    """Lets time pass, ten minutes at most."""
    for _ in range(10 * MINUTE):
        if is_so():
            return
        cluster.second()
    pytest.fail("it has not come to that in ten minutes")


def placing(cluster: BusyCluster) -> Any:
    (found,) = cluster.lab.core._offer_manager.placing.loops
    return found


def holders(cluster: BusyCluster) -> set[str]:
    """The applications for which room is held."""
    return {room.application for room in placing(cluster).agent_holds()}


def reason(cluster: BusyCluster, key: str) -> str:
    core = cluster.lab.core
    return plain(reason_of(core.state, core.state.applications[key], core.diagnosis))


@pytest.mark.parametrize("engine", ENGINES)
def test_old_work_is_given_room_by_one_end_after_the_other(engine: str) -> None:
    """The budget is never exceeded: the second one ends when the place of the first has waited for a minute."""
    cluster = contended(engine)
    found = evictions(cluster, int(AGING) + 2 * MINUTE)
    assert len(found) == 2 and found[0] >= AGING - 1 and found[1] - found[0] >= MINUTE - 2
    assert len(cluster.groups("old", "owed")) == 1 and len(cluster.groups("low", "has")) == 2
    assert "owed/old" not in holders(cluster)


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_ends_for_old_work_while_decisions_are_due(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both could use the same part of a limit (seed 22083 of the world `fair-session`, I80)."""
    cluster = contended(engine)
    loop, waiting = placing(cluster), list[bool]()
    honest = loop.evictor.end_some

    def noted(given: Any) -> Any:
        waiting.append(loop._waiting)
        return honest(given)

    monkeypatch.setattr(loop.evictor, "end_some", noted)
    for number in range(int(AGING) + MINUTE):
        cluster.create(f"new-{number}", 2000, namespace="owed")  # there is something to decide
        cluster.second()
    assert waiting and not any(waiting)


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_ends_for_old_work_in_the_turn_of_a_decision_that_ends_others(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends for it could have been the room of the decision (seed 24501 of the world `fair-session`, I81)."""
    cluster = contended(engine)
    cluster.agents["b"] = 1000
    its_queue = "third" if engine == "session" else "has"
    cluster.create("other", 1000, namespace=its_queue)
    cluster.seconds(3)
    (other,), loop = cluster.groups("other", its_queue), placing(cluster)
    turns, by_decision, for_old = [0], list[int](), list[int]()
    decide, evict, evictions_for = loop.decide, loop.evictor.evict, loop.engine.evictions_for
    engine_decides = loop.engine.decide

    def counted(pace: Any) -> None:
        turns[0] += 1
        loop._waiting, loop._next = True, 0.0
        decide(pace)

    def decided(portion: Any) -> Any:
        decisions = engine_decides(portion)
        kept = loop.aging._kept.get("*")
        if by_decision or kept is None or cluster.lab.now < kept.asked_at + SEARCH_SECONDS:
            return decisions
        eviction = Eviction(other.application_key, other.id, other.agent_id, "owed/new")
        return decisions._replace(evictions=[*decisions.evictions, eviction])

    def evicted(found: Any) -> None:
        by_decision.extend(turns[0] for _ in found)
        evict(found)

    def asked(wants: Any, held: Any, deciding: Any, **how: Any) -> Any:
        if held is not None:  # else an agent is looked for, and nothing ends
            for_old.append(turns[0])
        return evictions_for(wants, held, deciding, **how)

    monkeypatch.setattr(loop, "decide", counted)
    monkeypatch.setattr(loop.engine, "decide", decided)
    monkeypatch.setattr(loop.evictor, "evict", evicted)
    monkeypatch.setattr(loop.engine, "evictions_for", asked)
    cluster.seconds(int(AGING) + MINUTE)
    assert by_decision and for_old and not set(by_decision) & set(for_old)


def test_work_that_is_ended_for_an_entitled_queue_does_not_take_its_room_back() -> None:
    """It has a higher priority, and its queue has its share."""
    cluster = world("session", {"a": 4000}, owed=2)
    cluster.create("low", 1000, instances=4, namespace="has", max_unavailable=1, priority=9)
    cluster.seconds(3)
    cluster.create("old", 2000, namespace="owed")
    assert len(evictions(cluster, int(AGING) + 3 * MINUTE)) == 2
    assert len(cluster.groups("old", "owed")) == 1


def test_work_that_is_ended_for_others_of_its_queue_does_not_take_its_room_back() -> None:
    """Their queue has a guarantee, which is for both of them."""
    cluster = world("session", {"a": 4000}, owed=2, guarantee=4)
    cluster.create("low", 1000, instances=4, namespace="has", max_unavailable=1)
    cluster.seconds(3)
    cluster.create("old", 2000, namespace="has", priority=5)
    assert len(evictions(cluster, int(AGING) + 3 * MINUTE)) == 2
    assert len(cluster.groups("old", "has")) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_those_end_that_may_end_now_rather_than_less_important_ones_that_may_not(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 23273 of the world `fair-hierarchical` (I83)."""
    cluster = world(engine, {"a": 4000}, owed=2)
    cluster.create("low", 1000, instances=2, namespace="has", max_unavailable=1)
    cluster.create("high", 1000, namespace="has", priority=9)
    cluster.seconds(3)
    admitted: set[str] = set()
    monkeypatch.setattr(disruptions, "allowance", lambda context, key: int(key in admitted))
    cluster.create("old", 2000, namespace="owed", priority=9)
    assert evictions(cluster, int(AGING) + 15) == [] and holders(cluster) == {"owed/old"}
    admitted.add("has/high")
    assert len(evictions(cluster, 15)) == 1
    assert len(cluster.groups("old", "owed")) == 1 and not cluster.groups("high", "has")


def test_the_reservation_moves_to_agents_where_the_budgets_admit_ends_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget of the least important work may never do so (seed 22069 of `fair-session`, I83)."""
    cluster = world("session", {"a": 2000, "b": 2000}, owed=2)
    cluster.create("low", 2000, namespace="has", max_unavailable=1)
    cluster.create("high", 2000, namespace="has", max_unavailable=1, priority=9)
    cluster.seconds(3)
    admitted: set[str] = set()
    monkeypatch.setattr(disruptions, "allowance", lambda context, key: int(key in admitted))
    cluster.create("old", 2000, namespace="owed")
    assert evictions(cluster, int(AGING) + 15) == []
    assert [room.agent for room in placing(cluster).agent_holds()] == [cluster.groups("low", "has")[0].agent_id]
    admitted.add("has/high")
    assert len(evictions(cluster, 15)) == 1
    assert len(cluster.groups("old", "owed")) == 1 and not cluster.groups("high", "has")


def test_a_queue_with_a_guarantee_or_a_share_uses_the_room_of_old_work_of_others() -> None:
    owed, has = Standing("owed", 0, is_owed=True, is_entitled=True), Standing("has", 9, is_owed=False, is_entitled=True)
    over = has._replace(is_entitled=False)
    assert owed.outranks(has) and owed.outranks(over)
    assert has.outranks(owed) and not over.outranks(owed)
    assert over.outranks(Standing("more", 5, is_owed=False, is_entitled=False))
    assert not has.outranks(Standing("more", 9, is_owed=False, is_entitled=False))
    assert owed._replace(priority=1).outranks(owed) and not owed.outranks(owed)


def test_a_priority_does_not_open_the_room_that_others_have_left_for_old_work() -> None:
    """Each queue may lose work to the other one by its share: without end (seed 22010 of the world `fair-session`)."""
    cluster = contended("session")
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    cluster.create("urgent", 500, namespace="third", priority=9)
    decides, held = placing(cluster).engine, placing(cluster).aging.held("*")
    assert held is not None and held.holder.has_victims
    (urgent,) = (
        one for one in cluster.lab.core.turn_context.engine.demands.values() if one.application == "third/urgent"
    )
    assert not decides.outranks(urgent, [urgent], held.holder, awaits=False)
    assert decides.outranks(urgent, [urgent], held.holder._replace(has_victims=False), awaits=False)


def test_the_reservation_of_old_work_moves_to_agents_where_work_may_be_ended() -> None:
    """Its session ends nothing for it: else both would make the same room (seed 22063 of the world `fair-session`)."""
    cluster = world("session", {"a": 3000, "b": 2000})
    for record in (Queue(name="has", weight=9), Queue(name="third", guarantee=Amounts(cpus=2500))):
        assert not cluster.lab.ask(PutQueue(queue=record)).error
    cluster.create("fixed", 2500, namespace="third")
    cluster.create("low", 2000, namespace="has", max_unavailable=1)
    cluster.seconds(3)
    cluster.create("old", 2000, namespace="owed")
    assert evictions(cluster, int(AGING) + 15) == []
    assert [room.agent for room in placing(cluster).agent_holds()] == ["a"]
    assert not cluster.lab.ask(PutQueue(queue=Queue(name="has"))).error
    assert len(evictions(cluster, 40)) == 1
    assert len(cluster.groups("old", "owed")) == len(cluster.groups("fixed", "third")) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_the_explanation_counts_those_that_are_ended(engine: str) -> None:
    cluster = contended(engine)
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    words = "2 taskgroups of has/low are ended for it as their budget admits: 1 of 2 ended"
    assert words in reason(cluster, "owed/old")
    attempt = placing(cluster).aging.attempts()["owed/old"]
    assert attempt.cause is Obstacle.IN_PARTS


@pytest.mark.parametrize("engine", ENGINES)
def test_the_pauses_do_not_count_evictions_that_are_not_complete(engine: str) -> None:
    cluster = contended(engine)
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    pauses = placing(cluster)._pauses
    assert not pauses._awaited and not pauses.present()
    assert len(evictions(cluster, MINUTE)) == 1
    assert [len(one.victims) for one in pauses._awaited] == [2]


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_ends_if_not_all_that_are_needed_may_end(engine: str) -> None:
    """The second victim is within the guarantee of its queue, so the first one does not end either."""
    cluster = contended(engine, guarantee=3)
    assert evictions(cluster, int(AGING) + 2 * MINUTE) == []
    assert len(cluster.groups("low", "has")) == 4


@pytest.mark.parametrize("engine", ENGINES)
def test_the_hold_ends_if_the_room_is_not_needed_any_more(engine: str) -> None:
    cluster = contended(engine)
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    assert placing(cluster).agent_holds()
    cluster.lab.ask(DeleteApplication(namespace="owed", name="old"))
    assert evictions(cluster, 2 * MINUTE) == []
    assert not placing(cluster).agent_holds() and len(cluster.groups("low", "has")) == 4


@pytest.mark.parametrize("engine", ENGINES)
def test_the_hold_stays_while_only_the_rest_of_the_victims_is_in_the_way(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The victims may be of the same queue: its limits admit the old work only without all of them."""
    cluster = contended(engine)
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    monkeypatch.setattr(type(placing(cluster).engine), "admits_more", lambda engine, wants: False)
    assert len(evictions(cluster, 2 * MINUTE)) == 1
    assert len(cluster.groups("old", "owed")) == 1


def test_the_hold_ends_if_the_rest_may_not_end_any_more() -> None:
    """The guarantee of the queue is raised after the first end."""
    cluster = contended("session")
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    assert placing(cluster).agent_holds()
    raised = Queue(name="has", guarantee=Amounts(cpus=3000))
    assert not cluster.lab.ask(PutQueue(queue=raised)).error
    assert evictions(cluster, 2 * MINUTE) == []
    assert len(cluster.groups("low", "has")) == 4 and not cluster.groups("old", "owed")


def lost_beside_others(engine: str) -> BusyCluster:
    """One of four taskgroups is ended for the first of two demands of the same application; its budget admits one."""
    cluster = world(engine, {"b": 4000}, owed=4)
    cluster.create("old", 2000, instances=2, namespace="owed")
    cluster.seconds(6)
    cluster.agents["a"] = 4000
    cluster.create("low", 1000, instances=4, namespace="has", max_unavailable=1)
    cluster.seconds(3)
    cluster.agents["b"] = 0
    for group in cluster.groups("old", "owed"):
        cluster.lab.report(group, "LOST")
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    return cluster


@pytest.mark.parametrize("engine", ENGINES)
def test_others_end_in_vain_for_one_demand_of_an_application_and_not_for_the_next_one(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each demand of an application rested by itself (seed 23186 of the world `fair-session`, I88)."""
    cluster = lost_beside_others(engine)
    with monkeypatch.context() as patch:
        patch.setattr(placing(cluster).engine, "evictions_for", lambda *_, **__: None)
        assert evictions(cluster, 10) == []
    assert len(evictions(cluster, 4 * MINUTE)) == 0
    assert len(evictions(cluster, int(GATHERED))) > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_an_application_rests_if_the_budgets_did_not_admit_all_ends(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = lost_beside_others(engine)
    monkeypatch.setattr(disruptions, "allowance", lambda context, application: 0)
    while "owed/old" in holders(cluster):
        cluster.second()
    for _ in range(int(GATHERED) - 30):
        cluster.second()
        assert "owed/old" not in holders(cluster)
    cluster.seconds(60)
    assert "owed/old" in holders(cluster)


def beside_a_gang(engine: str) -> BusyCluster:
    """Two agents of three cores that an application of `has` has in use. A gang of `owed` needs two cores on each."""
    cluster = world(engine, {"a": 3000, "b": 3000}, owed=4)
    cluster.create("low", 1000, instances=6, namespace="has", max_unavailable=1)
    cluster.seconds(3)
    cluster.create("gang", 2000, instances=2, min_available=2, namespace="owed")
    return cluster


def half_gathered(engine: str) -> tuple[BusyCluster, str, str]:
    """The same, when two of four have ended. Also returns the agent where they were, and the other one."""
    cluster = beside_a_gang(engine)
    assert len(evictions(cluster, int(AGING) + 80)) == 2
    (gathered,) = {tenant.agent for tenant in placing(cluster).aging._kept["*"].ended}
    (other,) = {"a", "b"} - {gathered}
    return cluster, gathered, other


@pytest.mark.parametrize("engine", ENGINES)
def test_a_gang_gets_its_room_on_several_agents(engine: str) -> None:
    cluster = beside_a_gang(engine)
    found = evictions(cluster, int(AGING) + 5 * MINUTE)
    assert len(found) == 4
    assert all(later - sooner >= MINUTE - 2 for sooner, later in pairwise(found))
    assert len(cluster.groups("gang", "owed")) == 2 and len(cluster.groups("low", "has")) == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_a_gang_uses_its_held_room_with_what_becomes_free_elsewhere(engine: str) -> None:
    """Neither suffices by itself (seed 24088 of the world `fair-session`, I84)."""
    cluster = world(engine, {"a": 2000, "b": 2000}, owed=0)
    for name in ("one", "two", "three", "four"):
        cluster.create(name, 1000, namespace="has")
    cluster.seconds(3)
    cluster.create("gang", 1000, instances=2, min_available=2, namespace="has", preemption_policy="Never")
    cluster.seconds(int(AGING) + 10)
    assert {room.agent for room in placing(cluster).agent_holds()} == {"a", "b"}
    for group in list(cluster.lab.core.state.taskgroups.values()):
        if group.agent_id == "a":
            assert not cluster.groups("gang", "has")
            cluster.lab.ask(DeleteApplication(namespace="has", name=group.application))
            cluster.seconds(5)
    assert len(cluster.groups("gang", "has")) == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_an_agent_is_given_up_on_which_the_budget_admits_nothing_more(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = contended(engine)
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    monkeypatch.setattr(disruptions, "allowance", lambda context, application: 0)
    assert evictions(cluster, int(GATHERED) - 30) == [] and "owed/old" in holders(cluster)
    assert evictions(cluster, 45) == [] and "owed/old" not in holders(cluster)


def test_the_room_that_a_reservation_opens_is_used_with_that_of_a_victim() -> None:
    """It fits nothing by itself (seed 22276 of the world `fair-session`, I83)."""
    cluster = world("session", {"a": 4000}, owed=2, explained=0)
    cluster.create("low", 1000, instances=3, namespace="has", max_unavailable=1)
    cluster.seconds(3)
    cluster.create("old", 4000, namespace="has")
    cluster.seconds(int(AGING + GAIN) - 10)
    assert holders(cluster) == {"has/old"}
    cluster.create("new", 2000, namespace="owed")
    assert evictions(cluster, 5) == []
    until(cluster, lambda: not holders(cluster))
    cluster.seconds(3)
    assert len(cluster.groups("new", "owed")) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_ends_in_the_decision_that_places_old_work(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may fit the room that was held for it (seed 22158 of the world `fair-hierarchical`, I81)."""
    cluster = world(engine, {"a": 2000, "b": 3000}, owed=2)
    cluster.create("low", 1000, namespace="has")
    cluster.create("blocks", 3000, namespace="has", lasts=AGING + 20)
    cluster.seconds(3)
    cluster.create("old", 2000, namespace="has")
    cluster.seconds(int(AGING) + 5)
    assert holders(cluster) == {"has/old"}
    (low,), loop = cluster.groups("low", "has"), placing(cluster)
    honest, spoilt = loop.engine.decide, list[Any]()

    def decide(portion: Any) -> Any:
        decisions = honest(portion)
        if spoilt or not any(bind.job == "has/old" for bind in decisions.binds):
            return decisions
        eviction = Eviction("has/low", low.id, low.agent_id, "owed/new")
        spoilt.append(eviction)
        promised = {("owed/new", "new/0"): Nomination(low.agent_id, cluster.lab.now + 60)}
        return decisions._replace(evictions=[eviction], promises=promised)

    monkeypatch.setattr(loop.engine, "decide", decide)
    assert evictions(cluster, 40) == []
    assert spoilt and len(cluster.groups("old", "has")) == 1 and loop.promised() == set()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("priority", [0, 9])
def test_old_work_keeps_its_part_of_the_limit_once_others_end_for_it(engine: str, priority: int) -> None:
    """Else work of its queue uses the limit up: others have ended in vain, or that work ends as well, starts again and
    ends again (seed 22443 of the world `fair-session`, I88)."""
    if engine == "hierarchical":
        bounded = queue("owed", 3)
        bounded["resources"]["max"] = {"cpus": 3}
        cluster = BusyCluster(tree_options(bounded, queue("has")), {"a": 4000})
    else:
        records = [
            Queue(name="owed", weight=9, capability=Limits(cpus=3000)),
            Queue(name="has"),
            *(Namespace(name=name, queue=name) for name in ("owed", "has")),
        ]
        cluster = BusyCluster(session_options(), {"a": 4000}, records)
    cluster.create("low", 1000, instances=4, namespace="has", max_unavailable=1)
    cluster.seconds(3)
    cluster.create("old", 3000, namespace="owed", priority=priority)
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    cluster.agents["b"] = 1000
    cluster.create("late", 1000, namespace="owed")
    cluster.seconds(3)
    assert "keeps the rest of its maximum for other work" in reason(cluster, "owed/late")
    assert len(evictions(cluster, 4 * MINUTE)) == 2
    assert len(cluster.groups("old", "owed")) == 1 and cluster.groups("late", "owed") == []


# --- room of old work, and those who outrank it ----------------------------------------------------------------


def beside_old_work(engine: str, priority: int = 0) -> BusyCluster:
    """An agent of four cores: two are held for old work that needs four, two applications have one each. `priority`: of
    these."""
    if engine == "hierarchical":
        options = tree_options(queue("default"), queue("owed", 3))
        cluster = BusyCluster(options, {"a": 4000})
    else:
        cluster = BusyCluster(session_options("preempt, allocate, backfill"), {"a": 4000})
    for name in ("one", "two"):
        cluster.create(name, 1000, max_unavailable=1, priority=priority)
    cluster.seconds(3)
    cluster.create("old", 4000)
    cluster.seconds(int(AGING) + 10)
    assert placing(cluster).agent_holds() and cluster.evicted == []
    return cluster


@pytest.mark.parametrize("engine", ENGINES)
def test_held_room_is_free_for_those_who_outrank_old_work(engine: str) -> None:
    """Three cores: two that are held, and one victim. Without the held room, all victims would not suffice."""
    cluster = beside_old_work(engine)
    better: dict[str, Any] = {"namespace": "owed"} if engine == "hierarchical" else {"priority": 5}
    cluster.create("better", 3000, **better)
    cluster.seconds(20)
    assert len(cluster.groups("better", better.get("namespace", "default"))) == 1
    assert len(cluster.groups("one")) + len(cluster.groups("two")) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_victims_that_outrank_old_work_do_not_take_back_the_room_that_they_leave(engine: str) -> None:
    """The room of the one that has ended is offered a moment later; the rest of the promised room is held for old
    work."""
    cluster = beside_old_work(engine, priority=1)
    better: dict[str, Any] = {"namespace": "owed"} if engine == "hierarchical" else {}
    cluster.create("better", 3000, priority=5, **better)
    ended: set[str] = set()
    for second in range(20):
        cluster.is_silent = not second
        cluster.second()
        ended.update(one.id for one in cluster.lab.core.state.taskgroups.values() if one.end_cause == "Evicted")
    assert len(cluster.groups("better", better.get("namespace", "default"))) == len(ended) == 1


def test_work_for_which_others_were_just_ended_uses_no_held_room_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its victims would end for nothing."""
    cluster = beside_old_work("session")
    aging, found = placing(cluster).aging, []
    plain = aging.use

    def use(demands: Any, awaiting: Any) -> bool:
        promised = {job for job, _ in placing(cluster)._promises.nominations}
        if promised:
            found.append((bool(awaiting), sorted(promised & {demand.application for demand in demands})))
        return bool(plain(demands, awaiting))

    monkeypatch.setattr(aging, "use", use)
    cluster.create("better", 3000, priority=5)
    cluster.seconds(5)
    assert found[0] == (False, []) and (True, ["default/better"]) in found


def test_a_promise_that_is_used_beside_old_work_does_not_pass_to_others_of_the_application(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They would use the room that was made for another application (seed 23047 of `fair-session`, I88)."""
    cluster = BusyCluster(session_options("preempt, allocate, backfill"), {"b": 3000})
    cluster.create("better", 1500, instances=2, priority=5)
    cluster.seconds(3)
    cluster.agents["a"] = 4000
    cluster.create("one", 2000, priority=9)
    cluster.create("two", 1000)
    cluster.seconds(3)
    cluster.create("old", 2000)
    cluster.seconds(int(AGING) + 5)
    assert holders(cluster) == {"default/old"} and cluster.evicted == []
    cluster.agents["b"] = 0
    for group in cluster.groups("better"):
        cluster.lab.report(group, "LOST")  # each one has a demand of its own
    loop = placing(cluster)
    monkeypatch.setattr(loop.engine, "pause", lambda: 5.0)  # no decision comes before the room does
    for _ in range(8):
        cluster.second()
        if cluster.groups("better"):
            break
    cluster.second()
    assert len(cluster.groups("better")) == 1 and loop._promises.nominations == {}


def test_a_tree_does_not_promise_room_again_that_was_used_beside_old_work() -> None:
    """The application took further room of that node, whoever it was made for (seed 24365 of `fair-hierarchical`,
    I88)."""
    cluster = world("hierarchical", {"a": 2000}, owed=1)
    cluster.create("low", 1000, instances=2, namespace="has", max_unavailable=2)
    cluster.seconds(3)
    cluster.create("old", 1000, namespace="has")
    cluster.seconds(int(AGING) + 10)
    assert holders(cluster) == {"has/old"}
    cluster.create("team", 1000, namespace="owed")
    while not cluster.groups("team", "owed"):
        cluster.second()
    cluster.seconds(2)
    (tree_of,) = placing(cluster).engine.trees.roles.values()
    assert holders(cluster) == {"has/old"} and tree_of.attempts.vacated == []


@pytest.mark.parametrize("engine", ENGINES)
def test_promises_count_in_the_limit_of_a_queue_that_uses_held_room(engine: str) -> None:
    if engine == "hierarchical":
        bounded = {**queue("default"), "resources": {"max": {"cpus": 3}}}
        cluster = BusyCluster(tree_options(bounded), {"a": 1000})
    else:
        cluster = BusyCluster(session_options(), {"a": 1000}, [Queue(name="default", capability=Limits(cpus=3000))])
    for name, cores in (("one", 1000), ("small", 1000), ("big", 2000)):
        cluster.create(name, cores)
        cluster.seconds(2)
    found = {demand.application: demand for demand in cluster.lab.core.turn_context.engine.demands.values()}
    small, big = found["default/small"], found["default/big"]
    decides = placing(cluster).engine
    assert decides.admits_more([small]) and decides.admits_more([big])
    if engine == "hierarchical":
        (tree_of,) = decides.trees.roles.values()
        tree_of.tree.promise("default/big", safe(task_name(big, big.slots[0])), "a")
    else:
        promise = Nomination("a", cluster.lab.now + MINUTE)
        decides._inputs.promises.nominations["default/big", task_name(big, big.slots[0])] = promise
    assert not decides.admits_more([small]) and decides.admits_more([big])


def test_a_taskgroup_with_a_promise_on_another_agent_uses_no_held_room() -> None:
    """Its own room comes, and others have ended for the old work (seed 24664 of `fair-session`, I88)."""
    cluster = beside_old_work("session")
    loop, now = placing(cluster), cluster.lab.now
    honest, promised = loop.engine.decide, Nomination("b", now + MINUTE)

    def decide(portion: Any) -> Any:
        found = next((demand for demand in portion.demands if demand.application == "default/better"), None)
        decisions = honest(portion._replace(demands=[demand for demand in portion.demands if demand is not found]))
        return decisions if found is None else decisions._replace(promises={named(found): promised})

    def named(demand: Any) -> tuple[str, str]:
        return demand.application, task_name(demand, demand.slots[0])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop.engine, "decide", decide)
        patch.setattr(loop.engine, "use_rest", lambda *_: None)
        with pytest.MonkeyPatch.context() as before:
            before.setattr(loop.aging, "use", lambda *_: False)
            cluster.create("better", 1000, priority=5)
            cluster.second()
        (better,) = (one for one in loop._deciding() if one.application == "default/better")
        loop.engine.use_held(loop.aging, loop._deciding)
        assert better in loop._deciding() and named(better) in loop._promises.nominations
        loop._promises.clear()
        promised = Nomination("a", now + MINUTE)
        loop._promises.keep({named(better): promised})
        loop.engine.use_held(loop.aging, loop._deciding)
        assert better not in loop._deciding() and loop._promises.nominations == {}


@pytest.mark.parametrize("engine", ENGINES)
def test_a_reservation_that_the_limits_do_not_admit_ends_before_the_decision(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who outrank the old work have used the limits up, and others fit the rest of the held room (seed 23134 of
    the world `fair-session`, I81)."""
    cluster = beside_old_work(engine)
    decides, held = placing(cluster).engine, list[Any]()
    decide, use_held = decides.decide, decides.use_held

    def noted(portion: Any) -> Any:
        held.append(portion.held)
        return decide(portion)

    def use_up(aging: Any, deciding: Any) -> None:
        use_held(aging, deciding)
        monkeypatch.setattr(decides, "admits_more", lambda wants: False)

    monkeypatch.setattr(decides, "decide", noted)
    monkeypatch.setattr(decides, "use_held", use_up)
    cluster.create("new", 2000)
    cluster.seconds(3)
    assert held and held[0] is None and len(cluster.groups("new")) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_held_room_is_not_free_for_those_who_do_not_outrank_old_work(engine: str) -> None:
    """The same request with the priority of the old work, beyond the guarantee: nothing ends."""
    cluster = beside_old_work(engine)
    cluster.create("equal", 3000)
    assert evictions(cluster, 20) == [] and not cluster.groups("equal")
    assert len(cluster.groups("one")) + len(cluster.groups("two")) == 2


# --- room that is held for the work itself ------------------------------------------------------------------------


@pytest.mark.parametrize("instances", [1, 2])
@pytest.mark.parametrize("is_vain", [False, True])
@pytest.mark.parametrize("engine", ENGINES)
def test_the_held_room_counts_for_the_work_for_which_others_end(
    engine: str, is_vain: bool, instances: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One core is free on each agent and held, so that one end there suffices. `is_vain`: the first question about the
    agents was in vain, so that the next one is about all agents."""
    names = ("a", "b")[:instances]
    cluster = world(engine, dict.fromkeys(names, 3000), owed=2 * instances)
    for name in names:
        cluster.create(f"low-{name}", 1000, instances=2, namespace="has", max_unavailable=2)
        cluster.seconds(2)
    admitted = list[str]()
    monkeypatch.setattr(disruptions, "allowance", lambda context, key: 2 * len(admitted))
    least = instances if instances > 1 else 0
    cluster.create("old", 2000, instances=instances, min_available=least, namespace="owed")
    kept = placing(cluster).aging._kept
    until(cluster, lambda: "*" in kept and kept["*"].is_vain is is_vain)
    assert cluster.evicted == []
    admitted.append("has/low")
    assert len(evictions(cluster, 60)) == instances
    assert len(cluster.groups("old", "owed")) == instances


@pytest.mark.parametrize("engine", ENGINES)
def test_a_policy_ends_nothing_by_itself_for_work_whose_reservation_makes_room(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = world(engine, {"a": 3000}, owed=2)
    cluster.create("low", 1000, instances=2, namespace="has", max_unavailable=2)
    cluster.seconds(3)
    admitted = list[str]()
    monkeypatch.setattr(disruptions, "allowance", lambda context, key: 2 * len(admitted))
    cluster.create("old", 2000, namespace="owed")
    until(cluster, lambda: bool(holders(cluster)))
    admitted.append("has/low")
    with monkeypatch.context() as patch:
        patch.setattr(placing(cluster).aging, "make_room", lambda: None)
        assert evictions(cluster, MINUTE // 2) == []
    assert len(evictions(cluster, MINUTE)) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_reservation_stays_when_a_place_of_its_demand_is_found_elsewhere(engine: str) -> None:
    """What has ended for the demand is not forgotten: its room, the rest of the victims and the pauses."""
    cluster = world(engine, {"a": 4000}, owed=4)
    cluster.create("low", 1000, instances=4, namespace="has", max_unavailable=1)
    cluster.seconds(3)
    cluster.create("old", 2000, instances=2, namespace="owed")
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    cluster.agents["b"] = 2000
    assert evictions(cluster, 5) == []
    assert [group.agent_id for group in cluster.groups("old", "owed")] == ["b"]
    held = placing(cluster).aging.held("*")
    assert held is not None and held.agents == ("a",) and held.holder.has_victims
    assert len(evictions(cluster, 2 * MINUTE)) == 1
    assert len(cluster.groups("old", "owed")) == 2 and len(cluster.groups("low", "has")) == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_a_place_with_promised_room_does_not_use_the_held_room_of_another_one(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one without a promise does; the other one starts when the promised room is there."""
    monkeypatch.setattr(disruptions, "allowance", lambda context, key: int(key == "has/low"))
    cluster = world(engine, {"a": 2000, "b": 2000}, owed=2)
    cluster.create("blocks", 2000, namespace="has", lasts=AGING + 20)
    cluster.seconds(3)
    cluster.create("low", 2000, namespace="has", max_unavailable=1)
    cluster.ends_after["has/low"] = AGING + 30
    cluster.seconds(3)
    cluster.create("old", 2000, instances=2, namespace="owed")
    cluster.seconds(5)
    assert [group.agent_id for group in cluster.evicted] == ["b"]
    assert evictions(cluster, int(AGING) + 20) == []
    assert [group.agent_id for group in cluster.groups("old", "owed")] == ["a"]
    (agent,) = (agent for slots in placing(cluster).engine.awaiting().values() for agent in slots.values())
    assert agent == "b"
    assert evictions(cluster, MINUTE) == []
    assert len(cluster.groups("old", "owed")) == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_all_members_of_a_group_rest_after_they_have_gathered_room_in_vain(engine: str) -> None:
    """One of the two places is there, and the other one moves from agent to agent."""
    cluster = world(engine, {"a": 1500, "b": 2000, "c": 2000}, owed=0)
    cluster.create("full", 2000, instances=2, namespace="has")
    cluster.seconds(3)
    group = PodGroup(namespace="has", name="crew", min_member=2)
    assert not cluster.lab.ask(PutPodGroup(pod_group=group)).error
    for name in ("left", "right"):
        cluster.create(name, 1500, namespace="has", annotations={GROUP_ANNOTATION: "crew"}, preemption_policy="Never")
    until(cluster, lambda: bool(holders(cluster)))
    cluster.seconds(int(GATHERED) - 5)
    assert holders(cluster) == {"has/left"}
    cluster.seconds(10)
    for _ in range(int(GATHERED) - 20):
        cluster.second()
        assert not holders(cluster)
    cluster.seconds(20)
    assert holders(cluster)


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_has_ended_in_vain_if_the_cluster_manager_is_silent_for_a_while(engine: str) -> None:
    cluster = contended(engine)
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    cluster.is_silent = True
    assert len(evictions(cluster, 80)) <= 1
    cluster.is_silent = False
    cluster.seconds(MINUTE)
    assert len(cluster.groups("old", "owed")) == 1 and len(cluster.groups("low", "has")) == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_a_gang_keeps_its_gathered_room_when_one_of_its_agents_goes(engine: str) -> None:
    """What has ended for the place on the other agent has not ended in vain."""
    cluster, stays, goes = half_gathered(engine)
    cluster.agents.update({goes: 0, "c": 3000})
    for group in cluster.groups("low", "has"):
        if group.agent_id == goes:
            cluster.lab.report(group, "LOST")
    cluster.lab.turn(AgentRemoved(agent_id=goes))
    assert len(evictions(cluster, 6 * MINUTE)) == 2
    assert sorted(group.agent_id for group in cluster.groups("gang", "owed")) == sorted([stays, "c"])


# --- the moments at which others may end ----------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_a_reservation_wakes_the_scheduler_when_others_may_end_for_it(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else does in a cluster at rest (seed 25095 of the world `fair-session`, I83); a moment that has passed
    would wake it without end."""
    cluster = contended(engine)
    loop = placing(cluster)
    monkeypatch.setattr(loop.engine, "evictions_for", lambda *_, **__: None)
    cluster.seconds(int(AGING) + 5)
    assert holders(cluster) == {"owed/old"} and not loop.aging._kept["*"].left
    asked = set[float]()
    for _ in range(50):
        cluster.second()
        kept, timer = loop.aging._kept["*"], loop.next_timer()
        asked.add(kept.asked_at)
        assert timer is not None and timer <= kept.asked_at + IN_VAIN
        assert timer >= cluster.lab.now - 1 or loop.busy
    assert len(asked) >= 3


@pytest.mark.parametrize("engine", ENGINES)
def test_the_rest_of_the_victims_is_asked_for_when_the_room_is_there(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the limit may need their end, or nothing does."""
    cluster = contended(engine)
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    assert placing(cluster).aging._kept["*"].left
    monkeypatch.setattr(type(placing(cluster).engine), "fits_queues", lambda engine, wants: False)
    cluster.agents["a"] += 1000
    assert evictions(cluster, 10) == []
    assert not placing(cluster).aging._kept["*"].left


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_has_ended_in_vain_for_work_that_waits_to_be_spread(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not among the demands that are decided about, so that the policy knows no victims for it."""
    cluster = contended(engine)
    assert len(evictions(cluster, int(AGING) + 15)) == 1
    aging = placing(cluster).aging
    with monkeypatch.context() as patch:
        patch.setattr(aging, "_deciding", lambda role="": [])
        cluster.seconds(20)
    assert aging.held("*") is not None and aging.held("*").holder.has_victims
    assert len(evictions(cluster, 2 * MINUTE)) == 1 and len(cluster.groups("old", "owed")) == 1
