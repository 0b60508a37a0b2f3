"""Queues in the core: their records, the sessions that decide by them, and what the explanation says."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import pytest

from bcs_scheduler.api.views.explain import explain_application
from bcs_scheduler.core.interface import effects, leased, requests
from bcs_scheduler.core.options import CoreOptions
from offers.policy.session.configuration import DEFAULT, default_policy, policy_of
from store.mentions import plain
from store.records import Limits, Namespace, Queue, ReschedulePayload
from store.records.definition import Amounts
from tests.unit.busycluster import BusyCluster
from tests.unit.lab import Lab, version

WHOLE = 150
"""Thousandths of a core of an agent with room for one taskgroup and not for two."""
ONE = 100
"""Thousandths of a core of one taskgroup."""
OPTIONS = CoreOptions(strict=True, policy=default_policy(), session_period=1.0, validate=True)
STRICT = policy_of(
    {
        **DEFAULT,
        "tiers": [
            {
                "plugins": [
                    {"name": "gang"},
                    {"name": "proportion", "arguments": {"strict": True}},
                    {"name": "predicates"},
                ]
            }
        ],
    }
)


def put(lab: Lab, name: str, create: bool | None = None, **fields: Any) -> effects.Reply:
    return lab.ask(requests.PutQueue(queue=Queue(name=name, **fields), create=create))


def enter(lab: Lab, namespace: str, queue: str) -> effects.Reply:
    """Puts a namespace into a queue."""
    return lab.ask(requests.PutNamespace(namespace=Namespace(name=namespace, queue=queue)))


def delete(lab: Lab, name: str) -> effects.Reply:
    return lab.ask(requests.DeleteQueue(name=name))


def create(lab: Lab, namespace: str, instances: int, **fields: Any) -> None:
    wanted = msgspec.structs.replace(version(instances), namespace=namespace, **fields)
    assert lab.ask(requests.CreateApplication(version=wanted, token=1)).error == ""


def count(lab: Lab, namespace: str) -> int:
    return len(lab.core.state.groups_of(f"{namespace}/web"))


def arrive(lab: Lab, number: int) -> None:
    """Offers of this number of agents, each with room for one taskgroup."""
    agents = [f"agent-{index}" for index in range(number)]
    lab.turn(leased.OffersArrived(offers=tuple(lab.make_offer(agent, cpus=WHOLE) for agent in agents)))


def two_queues(options: CoreOptions = OPTIONS, **of_batch: Any) -> Lab:
    """Two queues with the weights 1 and 2, each with a namespace whose application wants twelve taskgroups."""
    lab = Lab(options)
    put(lab, "batch", **of_batch)
    put(lab, "online", weight=2)
    for namespace, queue in (("reports", "batch"), ("shop", "online")):
        assert enter(lab, namespace, queue).error == ""
        create(lab, namespace, 12)
    lab.wait(2.0)
    return lab


# --- records --------------------------------------------------------------------------------------------------


def test_a_queue_lives_and_dies() -> None:
    lab = Lab()
    assert put(lab, "batch", create=False).error == "not_found"
    assert put(lab, "batch", create=True).error == ""
    assert put(lab, "batch", create=True).error == "exists"
    assert put(lab, "batch", create=False).data == {"name": "batch", "unchanged": True}
    assert put(lab, "batch", create=False, weight=3).error == ""
    assert lab.core.state.queues["batch"].weight == 3
    assert delete(lab, "batch").error == "" and not lab.core.state.queues
    assert delete(lab, "batch").error == "not_found"


def test_the_default_queue_exists_always() -> None:
    lab = Lab()
    assert put(lab, "default", create=True).error == "exists"
    assert put(lab, "default", create=False, weight=2).error == ""
    assert delete(lab, "default").error == "conflict"


def test_a_queue_with_namespaces_is_not_deleted() -> None:
    lab = Lab()
    put(lab, "batch")
    for name in ("a", "b", "c", "d"):
        enter(lab, name, "batch")
    refused = delete(lab, "batch")
    assert (refused.error, refused.message) == ("conflict", "queue batch has 4 namespaces: a, b, c and 1 more")
    for name in ("a", "b", "c"):
        enter(lab, name, "")
    lab.ask(requests.DeleteNamespace(name="d"))
    assert delete(lab, "batch").error == ""


def test_a_namespace_in_a_queue_that_does_not_exist_is_refused() -> None:
    lab = Lab()
    refused = enter(lab, "shop", "missing")
    assert (refused.error, refused.message) == ("invalid", "queue missing does not exist")
    assert not lab.core.state.namespaces


def test_changes_are_events_with_the_settings() -> None:
    lab = Lab()
    seen = []
    for change in (
        partial(put, weight=3, guarantee=Amounts(cpus=1500), capability=Limits(mem=64_000), reclaimable=False),
        put,
        partial(put, priority=7),
        delete,
    ):
        change(lab, "batch")
        seen += lab.out
    lines = [(e.reason, e.message) for e in seen if isinstance(e, effects.LogLine) and e.kind == "queue"]
    assert lines == [
        ("QueueCreated", "weight 3; guarantee cpus 1.5; capability mem 64; not reclaimable"),
        ("QueueUpdated", "weight 1; reclaimable"),
        ("QueueUpdated", "weight 1; reclaimable; priority 7"),
        ("QueueDeleted", ""),
    ]


# --- sessions -------------------------------------------------------------------------------------------------


def test_queues_share_the_cluster_by_weight() -> None:
    lab = two_queues()
    arrive(lab, 12)
    lab.wait(2.0)
    assert (count(lab, "reports"), count(lab, "shop")) == (4, 8)


@pytest.mark.parametrize(("ordered", "first"), [(True, "shop"), (False, "reports")])
def test_queues_with_a_greater_priority_are_first_if_the_policy_says_so(ordered: bool, first: str) -> None:
    proportion = {"name": "proportion", "arguments": {"queuePriority": ordered}}
    policy = policy_of({"actions": "allocate", "tiers": [{"plugins": [proportion]}]})
    lab = two_queues(replace(OPTIONS, policy=policy))
    assert put(lab, "online", weight=2, priority=5).error == ""
    arrive(lab, 1)
    lab.wait(2.0)
    assert (count(lab, "reports"), count(lab, "shop")) == ((0, 1) if first == "shop" else (1, 0))


def test_namespaces_without_a_queue_share_one() -> None:
    lab = Lab(OPTIONS)
    put(lab, "online")
    enter(lab, "shop", "online")
    for namespace in ("one", "two", "shop"):
        create(lab, namespace, 12)
    lab.wait(2.0)
    arrive(lab, 12)
    lab.wait(2.0)
    assert (count(lab, "one"), count(lab, "two"), count(lab, "shop")) == (3, 3, 6)


def test_a_capability_bounds_a_queue_and_a_change_takes_effect_with_the_next_session() -> None:
    lab = two_queues(capability=Limits(cpus=2 * ONE))
    lab.ask(requests.DeleteApplication(namespace="shop", name="web"))
    arrive(lab, 12)
    lab.wait(2.0)
    assert count(lab, "reports") == 2
    put(lab, "batch", capability=Limits(cpus=5 * ONE))
    lab.wait(2.0)
    assert count(lab, "reports") == 5
    enter(lab, "reports", "online")
    lab.wait(2.0)
    assert count(lab, "reports") == 12


def test_what_is_guaranteed_to_a_queue_is_not_for_others() -> None:
    lab = two_queues(guarantee=Amounts(cpus=12 * WHOLE - 3 * ONE))
    lab.ask(requests.DeleteApplication(namespace="reports", name="web"))
    arrive(lab, 12)
    lab.wait(2.0)
    assert count(lab, "shop") == 3


def test_a_limit_in_a_resource_that_no_agent_has_is_no_error() -> None:
    lab = two_queues(capability=Limits(gpus=0), guarantee=Amounts(disk=0))
    arrive(lab, 12)
    lab.wait(2.0)
    assert count(lab, "reports") == 4


# --- reclaim --------------------------------------------------------------------------------------------------

RECLAIMING = replace(OPTIONS, policy=policy_of({**DEFAULT, "actions": "reclaim, allocate, backfill"}))


def full(bound: int, **of_batch: Any) -> Lab:
    """Six agents, each with a taskgroup of the queue `batch`; the queue `online` has the same weight and no work yet.
    Updates of the application in `batch` may take down `bound` of its taskgroups."""
    lab = Lab(RECLAIMING)
    for name, namespace, fields in (("batch", "reports", of_batch), ("online", "shop", {})):
        put(lab, name, **fields)
        enter(lab, namespace, name)
    create(lab, "reports", 6, max_unavailable=bound)
    lab.wait(2.0)
    arrive(lab, 6)
    lab.wait(2.0)
    for group in list(lab.core.state.taskgroups.values()):
        lab.report(group, "RUNNING")
    lab.wait(2.0)
    assert count(lab, "reports") == 6
    return lab


def evicted(lab: Lab) -> list[Any]:
    return [group for group in lab.core.state.taskgroups.values() if group.end_cause == "Evicted"]


@pytest.mark.parametrize(("bound", "victims"), [(6, 2), (2, 2), (1, 1)])
def test_a_queue_takes_back_its_share_within_the_disruption_budget(bound: int, victims: int) -> None:
    lab = full(bound)
    create(lab, "shop", 6)
    lab.wait(5.0)
    leaving = evicted(lab)
    assert len(leaving) == victims
    assert {(group.namespace, plain(group.kill_reason)) for group in leaving} == {
        ("reports", "evicted for shop/web (queue online)")
    }
    for group in leaving:
        lab.report(group, "KILLED")
    offers = tuple(lab.make_offer(group.agent_id, cpus=WHOLE) for group in leaving)
    lab.turn(leased.OffersArrived(offers=offers))
    lab.wait(3.0)
    placed = {group.agent_id for group in lab.core.state.groups_of("shop/web").values()}
    assert placed == {group.agent_id for group in leaving}
    waiting = [t.payload for t in lab.core.state.transactions_of("reports/web").values() if t.active]
    beneficiaries = {payload.beneficiary for payload in waiting if isinstance(payload, ReschedulePayload)}
    assert all(isinstance(payload, ReschedulePayload) for payload in waiting)
    assert beneficiaries == {"shop/web"}


def test_a_queue_that_is_not_reclaimable_keeps_what_it_has() -> None:
    lab = full(6, reclaimable=False)
    create(lab, "shop", 6)
    lab.wait(5.0)
    assert not evicted(lab) and count(lab, "shop") == 0
    put(lab, "batch", reclaimable=True)
    lab.wait(2.0)
    assert len(evicted(lab)) == 3, "the change takes effect with the next session"


def test_without_reclaim_no_queue_loses_anything() -> None:
    lab = two_queues()
    lab.ask(requests.DeleteApplication(namespace="shop", name="web"))
    arrive(lab, 6)
    lab.wait(2.0)
    create(lab, "shop", 6)
    lab.wait(5.0)
    assert not evicted(lab)


def test_work_that_waits_no_longer_leaves_its_share_to_other_queues() -> None:
    records = [
        *(Queue(name=name, weight=weight) for name, weight in (("most", 4), ("least", 1))),
        *(Namespace(name=name, queue=name) for name in ("most", "least")),
    ]
    cluster = BusyCluster(replace(OPTIONS, policy=STRICT, offer_hold=600.0), {"a": 2000}, records)
    cluster.create("small", 500, namespace="most")
    cluster.create("small", 500, namespace="least")
    cluster.seconds(3)
    cluster.create("large", 1500, namespace="most")
    cluster.create("more", 500, namespace="least")
    cluster.seconds(60)
    assert not cluster.groups("more", "least")
    cluster.lab.ask(requests.DeleteApplication(namespace="most", name="large"))
    cluster.lab.wait(5.0)
    assert len(cluster.groups("more", "least")) == 1


# --- the explanation ------------------------------------------------------------------------------------------


def explained(lab: Lab, namespace: str) -> Any:
    application = lab.core.state.applications[f"{namespace}/web"]
    (operation,) = explain_application(lab.core.state, application, lab.core.diagnosis, lab.now).transactions
    return operation.placing


@pytest.mark.parametrize("gang", [0, 3])
def test_the_explanation_names_the_queue_that_is_at_its_limit(gang: int) -> None:
    lab = Lab(OPTIONS)
    put(lab, "batch", capability=Limits(cpus=2 * ONE))
    enter(lab, "reports", "batch")
    create(lab, "reports", 12, min_available=gang)
    lab.wait(2.0)
    arrive(lab, 12)
    lab.wait(2.0)
    placing = explained(lab, "reports")
    assert placing.queue is not None and (placing.queue.name, placing.queue.limited) == ("batch", True)
    assert placing.queue.allocated.get("cpus", 0.0) == (0.0 if gang else 0.2)
    assert placing.message.startswith("queue batch has no room below its maximum")


def test_the_explanation_names_the_queue_that_has_its_share() -> None:
    """The other queue deserves the rest, and cannot use it: its gang is larger than its share."""
    lab = Lab(replace(OPTIONS, policy=STRICT))
    put(lab, "batch")
    enter(lab, "reports", "batch")
    create(lab, "reports", 12)
    create(lab, "default", 12, min_available=12)
    lab.wait(2.0)
    arrive(lab, 12)
    lab.wait(2.0)
    placing = explained(lab, "reports")
    assert count(lab, "reports") < 12
    assert placing.queue is not None and placing.queue.name == "batch"
    assert placing.queue.deserved["cpus"] >= placing.queue.allocated["cpus"] > 0
    assert f"allocated: cpus {placing.queue.allocated['cpus']:g}" in placing.message
    assert explained(lab, "default").queue is None


def test_work_that_no_agent_can_hold_keeps_no_room_from_other_queues_and_is_explained_by_the_agents() -> None:
    lab = Lab(replace(OPTIONS, policy=STRICT))
    put(lab, "batch")
    enter(lab, "reports", "batch")
    create(lab, "reports", 12)
    create(lab, "default", 2, containers=version(1, 20).containers)
    lab.wait(2.0)
    arrive(lab, 12)
    lab.wait(2.0)
    assert count(lab, "reports") == 12
    assert explained(lab, "default").queue is None
