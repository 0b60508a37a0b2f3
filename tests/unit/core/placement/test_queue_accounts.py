"""The figures of queues: used amounts, deserved shares and taskgroups that wait, in metrics and for users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from bcs_scheduler.core.interface import effects, leased, requests
from bcs_scheduler.core.placement.queue_accounts import QueueFigures
from bcs_scheduler.observability.metrics import Metrics
from store.records import Limits
from store.records.definition import Amounts
from store.state import State
from tests.counting import Calls
from tests.unit.core.placement.test_queues import ONE, OPTIONS, WHOLE, arrive, create, full, put, two_queues
from tests.unit.lab import Lab
from tests.unit.metrics_support import leading, samples, taskgroup

Found = dict[tuple[str, frozenset[tuple[str, str]]], float]


def figures(lab: Lab) -> dict[str, QueueFigures]:
    return {each.queue.name: each for each in lab.core.turn_context.queues.figures()}


def of(found: Found, name: str) -> dict[tuple[str, ...], float]:
    """Values of a metric by the values of its labels, in the order of their names."""
    return {
        tuple(text for _, text in sorted(labels)): value for (series, labels), value in found.items() if series == name
    }


def observed(seen: Iterable[effects.Effect]) -> Counter[tuple[str, ...]]:
    """Sums of what the core has counted."""
    counts: Counter[tuple[str, ...]] = Counter()
    for one in seen:
        if isinstance(one, effects.Observed) and one.name.startswith(("policy_decisions", "queue_")):
            counts[one.name, *one.labels] += int(one.value)
    return counts


def test_figures_follow_taskgroups_and_sessions() -> None:
    lab = two_queues()
    arrive(lab, 9)
    lab.wait(2.0)
    found = figures(lab)
    assert {name: each.taskgroups for name, each in found.items()} == {"default": 0, "batch": 3, "online": 6}
    assert found["batch"].used["*"]["cpus"] == 3 * ONE
    assert found["online"].deserved["*"]["cpus"] == 2 * found["batch"].deserved["*"]["cpus"]
    assert sum(found["batch"].pending.values()) == 9 and sum(found["online"].pending.values()) == 6
    put(lab, "batch", create=False, capability=Limits(cpus=3 * ONE))
    lab.wait(2.0)
    assert figures(lab)["batch"].pending == {"queue_limit": 9}
    for space in ("reports", "shop"):
        lab.ask(requests.DeleteApplication(namespace=space, name="web"))
    for group in list(lab.core.state.taskgroups.values()):
        lab.report(group, "KILLED")
    lab.wait(2.0)
    found = figures(lab)
    assert [(each.taskgroups, dict(each.pending)) for each in found.values()] == [(0, {})] * 3
    assert not lab.core.state.census.held()


def test_a_gang_and_a_promise_are_reasons() -> None:
    lab = full(1)
    create(lab, "shop", 2, min_available=2)
    lab.wait(2.0)
    budget = "the budget of the other queue allows one eviction"
    assert figures(lab)["online"].pending == {"disruption_budget": 2}, budget
    lab = full(6)
    create(lab, "shop", 2, min_available=2)
    counted = observed([*lab.out, *(effect for _ in range(3) for effect in lab.wait(1.0))])
    assert figures(lab)["online"].pending == {"room_promised": 2}
    assert counted["queue_evictions", "batch", "online", "reclaim"] == 2
    assert counted["policy_decisions", "online", "promise"] == 2, "a promise that stays is counted once"


def test_the_series_of_queues() -> None:
    lab = two_queues(guarantee=Amounts(cpus=WHOLE), capability=Limits(mem=6_400_000, gpus=0))
    metrics = Metrics()
    metrics.lead(leading(lab.core))
    for effect in [*arrived(lab, 9), *lab.wait(2.0)]:
        if isinstance(effect, effects.Observed):
            metrics.observe(effect)
    found = samples(metrics)
    assert of(found, "queue_weight") == {("default",): 1, ("batch",): 1, ("online",): 2}
    assert of(found, "queue_guarantee") == {("batch", "cpus"): 0.15}
    assert of(found, "queue_capability") == {("batch", "mem"): 6400, ("batch", "gpus"): 0}
    assert of(found, "queue_used")["online", "cpus", "*"] == 0.6
    assert of(found, "queue_used")["batch", "gpus", "*"] == 0
    assert ("online", "cpus", "*") in of(found, "queue_deserved")
    assert of(found, "queue_taskgroups") == {("default",): 0, ("batch",): 3, ("online",): 6}
    assert sum(of(found, "queue_pending_taskgroups").values()) == 15
    assert of(found, "policy_decisions_total") == {("launch", "batch"): 3, ("launch", "online"): 6}
    assert found["policy_session_duration_seconds_count", frozenset()] >= 1
    metrics.observe(effects.Observed(name="queue_evictions", labels=("gone", "batch", "reclaim")))
    assert not of(samples(metrics), "queue_evictions_total"), "the series of a queue end with the queue"
    metrics.lead(None)
    assert not of(samples(metrics), "policy_decisions_total")


def arrived(lab: Lab, number: int) -> list[effects.Effect]:
    offers = tuple(lab.make_offer(f"agent-{index}", cpus=WHOLE) for index in range(number))
    return lab.turn(leased.OffersArrived(offers=offers))


def test_there_are_no_series_of_queues_without_a_policy() -> None:
    metrics = Metrics()
    lab = Lab()
    metrics.lead(leading(lab.core))
    assert not {name for name, _ in samples(metrics) if name.startswith("queue_") and name != "queue_depth"}


def test_the_figures_cost_the_same_however_many_taskgroups_there_are() -> None:
    def cost(number: int) -> int:
        core: Any = Lab(OPTIONS).core
        core.turn_context.queues._state = State([taskgroup("web", index) for index in range(number)])
        core.turn_context.queues.figures()
        with Calls() as calls:
            (shown,) = core.turn_context.queues.figures()
        assert shown.taskgroups == number
        return calls.number

    assert cost(1_000) == cost(20_000)
