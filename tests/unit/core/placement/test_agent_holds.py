"""Work that waits for long, and the room that is kept for it: every policy, on virtual time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bcs_scheduler.core.interface.requests import PutPodGroup
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.aging import Why
from offers.ledger.holds import GAIN, GATHERED, REST
from offers.matching.explain import PROMISED
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.obstacles import Obstacle
from offers.policy.session.configuration import default_policy, policy_of
from store.records import GROUP_ANNOTATION, Limits, Namespace, PodGroup, Queue
from tests.unit.busycluster import BusyCluster
from tests.unit.offers.policy.session.policy_clusters import TIERS


def tree_options(*queues: dict[str, Any], **fields: Any) -> CoreOptions:
    document = {"queues": list(queues), "placementrules": [{"name": "tag", "value": "namespace"}]}
    partition = partition_of(document, ("cpus", "mem"))
    return CoreOptions(strict=True, hierarchy=partition, session_period=0.5, validate=True, **fields)


def crowded(*queues: dict[str, Any]) -> BusyCluster:
    """Two agents with a core and a half free each, and six applications of three cores that wait."""
    cluster = BusyCluster(tree_options({"name": "default"}, *queues), {"a": 8000, "b": 8000})
    for agent in ("a", "b"):
        cluster.create(f"runs-{agent}", 6500, max_unavailable=1)
    cluster.seconds(3)
    for number in range(6):
        cluster.create(f"large{number}", 3000)
    cluster.seconds(12)
    return cluster


def test_large_applications_that_wait_close_no_agents_for_small_ones() -> None:
    cluster = crowded()
    for round_ in range(2):
        cluster.create(f"small{round_}", 500, instances=3)
        cluster.seconds(10)
        assert len(cluster.groups(f"small{round_}")) == 3
    assert cluster.evicted == []


def test_a_queue_below_its_guarantee_ends_nothing_beside_room_that_is_free() -> None:
    owed = {
        "name": "owed",
        "resources": {"guaranteed": {"cpus": 3}},
        "properties": {"preemption.delay": "1s"},
    }
    cluster = crowded(owed)
    cluster.create("small", 500, instances=6, namespace="owed")
    for _ in range(20):
        cluster.second()
        assert cluster.evicted == []
    assert len(cluster.groups("small", "owed")) == 6


def test_an_agent_is_reserved_while_runs_there_are_expected_to_end() -> None:
    cluster = BusyCluster(tree_options({"name": "default"}), dict.fromkeys(("a", "b", "c"), 4000))
    number = 0

    def second() -> None:
        nonlocal number
        waiting = len(cluster.lab.core.turn_context.engine.demands)
        for _ in range(waiting, 4):
            cluster.create(f"small{number}", 2000, lasts=20.0 + number % 7)
            number += 1
        cluster.second()

    for _ in range(130):
        second()
    cluster.create("large", 4000)
    for _ in range(120):
        second()
        if cluster.groups("large"):
            break
    assert cluster.groups("large") and cluster.evicted == []


# --- aging ------------------------------------------------------------------------------------------------------

AGING = 60.0
POLICIES = ("simple", "session", "hierarchical")


def options_of(policy: str, aging: float = AGING) -> CoreOptions:
    if policy == "hierarchical":
        return tree_options({"name": "default"}, {"name": "other"}, aging=aging)
    return CoreOptions(
        strict=True,
        validate=True,
        session_period=0.5,
        aging=aging,
        policy=default_policy() if policy == "session" else None,
    )


class EndlessWork:
    """Agents of four cores, on which taskgroups of one core run for some seconds; more of them wait always."""

    def __init__(self, policy: str, aging: float = AGING, agents: int = 2) -> None:
        self.cluster = BusyCluster(options_of(policy, aging), {f"agent-{n}": 4000 for n in range(agents)})
        self._number = 0

    def second(self) -> None:
        demands = self.cluster.lab.core.turn_context.engine.demands.values()
        for _ in range(sum(demand.request.cpus == 1000 for demand in demands), 3):
            self.cluster.create(f"small{self._number}", 1000, lasts=15.0 + self._number % 7)
            self._number += 1
        self.cluster.second()

    def until(self, name: str, most: int) -> int | None:
        """Seconds until an application runs; None if it does not run after `most`."""
        for second in range(most):
            self.second()
            if self.cluster.groups(name):
                return second
        return None


@pytest.mark.parametrize("policy", POLICIES)
def test_an_old_large_ask_starts_beside_endless_small_work(policy: str) -> None:
    work = EndlessWork(policy)
    for _ in range(20):
        work.second()
    work.cluster.create("large", 4000)
    waited = work.until("large", 200)
    assert waited is not None and waited >= AGING - 2
    assert work.cluster.evicted == []
    placing = work.cluster.lab.core._offer_manager.placing
    assert placing.agent_holds() == [] and not work.cluster.lab.core.turn_context.pool.holds


@pytest.mark.parametrize("policy", POLICIES)
def test_an_old_gang_starts_beside_endless_small_work(policy: str) -> None:
    work = EndlessWork(policy, agents=3)
    for _ in range(20):
        work.second()
    work.cluster.create("gang", 3000, instances=2, min_available=2)
    waited = work.until("gang", 250)
    assert waited is not None and waited >= AGING - 2
    assert len(work.cluster.groups("gang")) == 2 and work.cluster.evicted == []
    rooms = work.cluster.lab.core._offer_manager.placing.agent_holds()
    assert not [one for one in rooms if one.why is Why.OLD] and not work.cluster.lab.core.turn_context.pool.holds


@pytest.mark.parametrize("policy", POLICIES)
def test_an_old_group_of_applications_starts_beside_endless_small_work(policy: str) -> None:
    work = EndlessWork(policy, agents=3)
    group = PodGroup(namespace="default", name="crew", min_member=2)
    work.cluster.lab.ask(PutPodGroup(pod_group=group))
    for _ in range(20):
        work.second()
    for name in ("head", "arm"):
        work.cluster.create(name, 3000, annotations={GROUP_ANNOTATION: "crew"})
    assert work.until("head", 250) is not None
    assert work.cluster.groups("arm") and work.cluster.evicted == []


def test_a_gang_that_the_agents_cannot_hold_reserves_nothing() -> None:
    cluster = BusyCluster(options_of("simple"), {"a": 4000, "b": 4000})
    cluster.create("gang", 3000, instances=3, min_available=3)
    cluster.seconds(int(AGING) + 30)
    assert cluster.lab.core._offer_manager.placing.agent_holds() == []


@pytest.mark.parametrize("policy", ["session", "hierarchical"])
def test_a_gang_beyond_the_limit_of_its_queue_is_not_old(policy: str) -> None:
    few = {"name": "few", "resources": {"max": {"cpus": 5}}}
    options = options_of(policy) if policy == "session" else tree_options({"name": "default"}, few, aging=AGING)
    records = [Queue(name="few", capability=Limits(cpus=5000)), Namespace(name="few", queue="few")]
    cluster = BusyCluster(options, {"a": 4000, "b": 4000}, records)
    cluster.create("fill", 2000, instances=3)
    cluster.seconds(3)
    cluster.create("gang", 3000, instances=2, min_available=2, namespace="few")
    cluster.seconds(int(AGING) + 10)
    assert cluster.lab.core._offer_manager.placing.agent_holds() == []


def test_a_gang_that_does_not_gather_its_room_gives_it_back() -> None:
    cluster = BusyCluster(options_of("simple"), {f"agent-{n}": 4000 for n in range(3)})
    for number in range(3):
        cluster.create(f"lasting{number}", 2500 if number else 500)
    cluster.seconds(3)
    cluster.create("gang", 3000, instances=2, min_available=2)
    cluster.seconds(int(AGING) + 10)
    placing = cluster.lab.core._offer_manager.placing
    assert len(placing.agent_holds()) == 2
    open_seconds = 0
    for _ in range(int(2 * GATHERED) - 20):
        cluster.second()
        open_seconds += not placing.agent_holds()
    assert open_seconds >= GATHERED - 25


def test_without_aging_a_large_ask_waits_for_ever() -> None:
    work = EndlessWork("simple", aging=0.0)
    for _ in range(20):
        work.second()
    work.cluster.create("large", 4000)
    assert work.until("large", 150) is None


@pytest.mark.parametrize("policy", POLICIES)
def test_the_age_outlives_a_change_of_the_leader(policy: str) -> None:
    work = EndlessWork(policy)
    for _ in range(20):
        work.second()
    work.cluster.create("large", 4000)
    assert work.until("large", int(AGING) - 10) is None
    work.cluster.succeed()
    waited = work.until("large", 100)
    assert waited is not None and waited < AGING  # the age is not counted anew


def kept(work: EndlessWork) -> list[tuple[str, str]]:
    """Application and agent of each reservation."""
    return [(one.application, one.agent) for one in work.cluster.lab.core._offer_manager.placing.agent_holds()]


@pytest.mark.parametrize("policy", POLICIES)
def test_one_agent_is_reserved_at_a_time_for_the_oldest(policy: str) -> None:
    work = EndlessWork(policy)
    for _ in range(20):
        work.second()
    for name in ("first", "second"):
        work.cluster.create(name, 4000)
        work.second()
    seen: list[str] = []
    for _ in range(250):
        work.second()
        found = kept(work)
        assert len(found) <= 1
        seen += [application for application, _ in found if application not in seen]
        if work.cluster.groups("second"):
            break
    large = [name for name in seen if name in ("default/first", "default/second")]
    assert large == ["default/first", "default/second"]
    assert work.cluster.groups("first") and work.cluster.groups("second")


@pytest.mark.parametrize("policy", POLICIES)
def test_held_room_that_has_come_back_is_not_waited_for(policy: str) -> None:
    """The room of a run that has ended is held, so no offer of it is seen: it is not about to leave any more."""
    cluster = BusyCluster(options_of(policy), {"a": 4000})
    cluster.create("ends", 3000, lasts=AGING + 20)
    cluster.create("lasts", 1000)
    cluster.seconds(3)
    cluster.create("large", 3000)
    while cluster.groups("ends"):
        cluster.second()
    cluster.seconds(2)
    assert cluster.groups("large")


def test_an_agent_on_which_nothing_ends_is_given_up() -> None:
    cluster = BusyCluster(options_of("simple"), {"a": 4000, "b": 4000})
    cluster.create("lasting", 3000)
    cluster.seconds(3)
    (lasting,) = cluster.groups("lasting")
    cluster.create("more", 3500)
    cluster.seconds(3)
    cluster.create("large", 4000)
    cluster.seconds(int(AGING) + 10)
    placing = cluster.lab.core._offer_manager.placing
    (first,) = placing.agent_holds()
    cluster.seconds(int(GAIN) + 10)
    (second,) = placing.agent_holds()
    assert {first.agent, second.agent} == {"a", "b"}
    assert lasting.agent_id in {"a", "b"}


def test_the_only_agent_is_open_half_of_the_time_if_nothing_ends_there() -> None:
    cluster = BusyCluster(options_of("simple"), {"a": 4000})
    cluster.create("lasting", 2000)
    cluster.seconds(3)
    for name in ("large", "large2"):
        cluster.create(name, 3000)
    cluster.seconds(int(AGING) + 10)
    placing = cluster.lab.core._offer_manager.placing
    assert placing.agent_holds()
    cluster.create("small", 500)
    cluster.seconds(int(GAIN) + 10)
    assert cluster.groups("small") and not placing.agent_holds()
    cluster.seconds(int(REST))
    assert placing.agent_holds()


def test_an_ask_that_no_agent_can_hold_reserves_nothing() -> None:
    cluster = BusyCluster(options_of("simple"), {"a": 4000, "b": 4000})
    cluster.create("huge", 5000)
    cluster.seconds(int(AGING) + 30)
    assert cluster.lab.core._offer_manager.placing.agent_holds() == []
    cluster.create("small", 4000, instances=2)
    cluster.seconds(5)
    assert len(cluster.groups("small")) == 2


def test_an_ask_beyond_the_limit_of_its_queue_is_not_old() -> None:
    options = tree_options({"name": "default"}, {"name": "few", "resources": {"max": {"cpus": 2}}}, aging=AGING)
    cluster = BusyCluster(options, {"a": 4000, "b": 4000})
    cluster.create("limited", 3000, namespace="few")
    cluster.create("fill", 2000, instances=3)
    cluster.seconds(int(AGING) + 30)
    assert cluster.lab.core._offer_manager.placing.agent_holds() == []


@pytest.mark.parametrize(("strict", "held"), [(True, []), (False, ["few/large"])])
def test_an_ask_of_a_queue_at_its_deserved_share_is_not_old(strict: bool, held: list[str]) -> None:
    """Both queues have half of eight cores, and want more. Without `strict`, the share does not limit the cores."""
    plugins: list[dict[str, Any]] = [{"name": name} for tier in TIERS for name in tier if name != "proportion"]
    plugins.append({"name": "proportion", "arguments": {"strict": strict}})
    options = replace(options_of("session"), policy=policy_of({"actions": "allocate", "tiers": [{"plugins": plugins}]}))
    records = [Queue(name="few"), Namespace(name="few", queue="few")]
    cluster = BusyCluster(options, {"a": 4000, "b": 4000}, records)
    cluster.create("run", 2000, instances=2, namespace="few")
    cluster.create("fill", 2000, instances=2)
    cluster.seconds(3)
    cluster.create("large", 2000, namespace="few")
    cluster.create("more", 2000, instances=4)
    cluster.seconds(int(AGING) + 10)
    holds = cluster.lab.core._offer_manager.placing.agent_holds()
    assert [one.application for one in holds] == held


@pytest.mark.parametrize("members", [1, 4])
@pytest.mark.parametrize("policy", ["session", "hierarchical"])
def test_work_of_higher_priority_uses_the_room_of_an_old_ask_and_the_same_priority_does_not(
    policy: str, members: int
) -> None:
    """The room there suffices for two members of the gang; that of all four is held."""
    cluster = BusyCluster(options_of(policy), {"a": 4000})
    for name, lasts in (("long", 0.0), ("short", 40.0)):
        cluster.create(name, 2000, lasts=lasts)
    cluster.seconds(3)
    cluster.create("large", 4000 // members, instances=members, min_available=members, priority=5)
    cluster.seconds(int(AGING) + 10)
    held = [one.application for one in cluster.lab.core._offer_manager.placing.agent_holds()]
    assert held == ["default/large"] * members
    cluster.create("same", 500, priority=5)
    cluster.create("higher", 500, priority=6)
    cluster.seconds(10)
    assert cluster.groups("higher") and not cluster.groups("same") and not cluster.evicted
    assert [one.application for one in cluster.lab.core._offer_manager.placing.agent_holds()] == held


def test_nothing_is_evicted_beside_the_room_of_an_old_ask() -> None:
    owed = {"name": "owed", "resources": {"guaranteed": {"cpus": 1}}, "properties": {"preemption.delay": "1s"}}
    cluster = BusyCluster(tree_options({"name": "default"}, owed, aging=AGING), {"a": 4000})
    cluster.create("long", 2000, max_unavailable=1)
    cluster.seconds(3)
    cluster.create("large", 4000)
    cluster.seconds(int(AGING) + 10)
    assert cluster.lab.core._offer_manager.placing.agent_holds()
    cluster.create("team", 500, instances=2, namespace="owed")
    for _ in range(20):
        cluster.second()
        assert cluster.evicted == []
    assert len(cluster.groups("team", "owed")) == 2


def test_evictions_for_the_share_of_a_queue_do_not_serve_an_old_ask() -> None:
    tiers = [{"plugins": [{"name": name} for name in tier]} for tier in TIERS]
    policy = policy_of({"actions": "reclaim, allocate, backfill", "tiers": tiers})
    options = CoreOptions(strict=True, validate=True, session_period=0.5, aging=AGING, policy=policy)
    names = ("has", "old", "new")
    records = [Queue(name=name, weight=1) for name in names] + [Namespace(name=name, queue=name) for name in names]
    cluster = BusyCluster(options, {"a": 4000}, records)
    cluster.create("low", 1000, instances=3, namespace="has", max_unavailable=3)
    cluster.seconds(3)
    cluster.create("large", 4000, namespace="old")
    cluster.seconds(int(AGING) + 10)
    assert cluster.lab.core._offer_manager.placing.agent_holds()
    cluster.create("small", 1000, namespace="new")
    cluster.seconds(10)
    assert cluster.groups("small", "new") and len(cluster.groups("low", "has")) == 2


@pytest.mark.parametrize("kind", ["session", "hierarchical"])
def test_room_of_victims_that_completes_the_room_of_an_old_ask_is_for_their_beneficiary(kind: str) -> None:
    """Neither the old ask gets it, nor another one that outranks the old ask and came before."""
    if kind == "session":
        tiers = [{"plugins": [{"name": name} for name in tier]} for tier in TIERS]
        policy = policy_of({"actions": "reclaim, allocate, backfill", "tiers": tiers})
        options = CoreOptions(strict=True, validate=True, session_period=0.5, aging=AGING, policy=policy)
        names = ("default", "owed")
        records = [Queue(name=name, weight=1) for name in names] + [Namespace(name=name, queue=name) for name in names]
    else:
        owed = {"name": "owed", "resources": {"guaranteed": {"cpus": 1}}, "properties": {"preemption.delay": "1s"}}
        options, records = tree_options({"name": "default"}, owed, aging=AGING), []
    cluster = BusyCluster(options, {"a": 2000}, records)
    cluster.create("low", 1000, instances=2, max_unavailable=2)
    cluster.seconds(3)
    cluster.create("old", 1000)
    cluster.seconds(int(AGING) + 10)
    assert [one.application for one in cluster.lab.core._offer_manager.placing.agent_holds()] == ["default/old"]
    cluster.create("higher", 1000, priority=5)
    cluster.create("team", 1000, namespace="owed")
    cluster.seconds(20)
    assert len(cluster.groups("team", "owed")) == 1 and not cluster.groups("old") and not cluster.groups("higher")


OWED = {"name": "owed", "resources": {"guaranteed": {"cpus": 2}}, "properties": {"preemption.delay": "1s"}}


def test_room_that_is_promised_in_parts_is_not_for_those_who_outrank_the_old_ask() -> None:
    cluster = BusyCluster(tree_options({"name": "default"}, OWED, aging=AGING), {"a": 2000})
    for name in ("quick", "slow"):
        cluster.create(name, 1000, max_unavailable=1)
    cluster.ends_after["default/slow"] = 12.0
    cluster.seconds(3)
    cluster.create("old", 1000)
    cluster.seconds(int(AGING) + 10)
    assert cluster.lab.core._offer_manager.placing.agent_holds()
    cluster.create("team", 2000, namespace="owed")
    cluster.seconds(4)
    assert len(cluster.evicted) == 1 and not cluster.groups("quick")
    cluster.create("higher", 500, priority=5)
    cluster.seconds(20)
    assert len(cluster.groups("team", "owed")) == 1 and not cluster.groups("higher")


def test_a_further_ask_does_not_use_held_room_because_others_are_ended_for_the_first_one() -> None:
    """Room is held on both agents, and becomes free on one. The queue has a guarantee for one of its two asks."""
    owed = OWED | {"resources": {"guaranteed": {"cpus": 1}}}
    cluster = BusyCluster(tree_options({"name": "default"}, owed, aging=AGING), {"a": 1000, "b": 1000})
    cluster.create("low", 1000, max_unavailable=1)
    cluster.ends_after["default/low"] = 12.0
    cluster.seconds(2)
    cluster.create("short", 1000, lasts=AGING + 20.0, max_unavailable=0)
    cluster.seconds(3)
    cluster.create("old", 1000, instances=2, min_available=2)
    cluster.seconds(int(AGING) + 7)
    assert len(cluster.lab.core._offer_manager.placing.agent_holds()) == 2
    cluster.create("team", 1000, instances=2, namespace="owed")
    cluster.seconds(3)
    assert len(cluster.evicted) == 1 and cluster.groups("short")
    while cluster.groups("short"):
        cluster.second()
    cluster.seconds(3)
    assert cluster.evicted and not cluster.groups("team", "owed")
    cluster.seconds(12)
    assert len(cluster.groups("team", "owed")) == 1


@pytest.mark.parametrize("kind", ["session", "hierarchical"])
def test_a_gang_gets_the_room_that_was_made_for_it_beside_an_old_ask(kind: str) -> None:
    """The room that evicted taskgroups leave on the agent is for the gang, and not for the old ask."""
    if kind == "session":
        tiers = [{"plugins": [{"name": name} for name in tier]} for tier in TIERS]
        policy = policy_of({"actions": "preempt, allocate, backfill", "tiers": tiers})
        options, space = (
            CoreOptions(strict=True, validate=True, session_period=0.5, aging=AGING, policy=policy),
            "default",
        )
    else:
        owed = {"name": "owed", "resources": {"guaranteed": {"cpus": 2}}, "properties": {"preemption.delay": "1s"}}
        options, space = tree_options({"name": "default"}, owed, aging=AGING), "owed"
    cluster = BusyCluster(options, {"a": 4000})
    cluster.create("low", 1000, instances=3, max_unavailable=3)
    cluster.seconds(3)
    cluster.create("large", 4000)
    cluster.seconds(int(AGING) + 10)
    assert cluster.lab.core._offer_manager.placing.agent_holds()
    cluster.create("gang", 1000, instances=2, min_available=2, priority=5, namespace=space)
    cluster.seconds(20)
    assert len(cluster.groups("gang", space)) == 2 and len(cluster.groups("low")) >= 1
    assert [one.application for one in cluster.lab.core._offer_manager.placing.agent_holds()] == ["default/large"]


@pytest.mark.parametrize("policy", ["session", "hierarchical"])
def test_a_gang_of_higher_priority_uses_the_room_of_an_old_ask_and_the_same_priority_does_not(policy: str) -> None:
    cluster = BusyCluster(options_of(policy), {"a": 4000})
    cluster.create("long", 2000)
    cluster.seconds(3)
    cluster.create("large", 4000, priority=5)
    cluster.seconds(int(AGING) + 10)
    cluster.create("same", 500, instances=2, min_available=2, priority=5)
    cluster.create("higher", 500, instances=2, min_available=2, priority=6)
    cluster.seconds(10)
    assert len(cluster.groups("higher")) == 2 and not cluster.groups("same") and cluster.evicted == []


@pytest.mark.parametrize("policy", POLICIES)
def test_the_explanation_and_the_metric_say_that_room_is_kept_for_whom_and_until_when(policy: str) -> None:
    cluster = BusyCluster(options_of(policy), {"a": 4000})
    cluster.create("long", 2000)
    cluster.seconds(3)
    cluster.create("large", 4000)
    cluster.seconds(int(AGING) + 10)
    (room,) = cluster.lab.core._offer_manager.placing.agent_holds()
    cluster.create("small", 500)
    cluster.seconds(5)
    core = cluster.lab.core
    (transaction,) = core.state.active_of("default/small")
    diagnosis = core.diagnosis(transaction)
    assert diagnosis is not None and diagnosis.reasons == {PROMISED: 1} and diagnosis.attempt is not None
    (met,) = diagnosis.attempt.met
    assert (met.code, met.number, met.whose, met.until) == (Obstacle.RESERVED, 1, ("default/large",), room.until)
    assert cluster.lab.now < room.until <= cluster.lab.now + GAIN
    queues = core.turn_context.queues
    if policy == "hierarchical":
        tree = queues.tree(next(iter(queues.trees)))
        assert tree is not None
        pending = next(dict(one.pending) for one in tree.queues if one.config.name == "default")
    else:
        pending = dict(queues.figures()[0].pending)
    assert pending == {"reserved": 1, "no_room": 1}
