"""Taskgroups that wait although their queue is below its guarantee or share: each cause, in all places that show it."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.api.views.running.explain import explain_application
from bcs_scheduler.api.views.workloads.reasons import reason_of
from bcs_scheduler.core.interface import leased, requests
from bcs_scheduler.core.interface.policies import PutPriorityClass
from bcs_scheduler.core.options import CoreOptions
from offers.policy.obstacles import Attempt, Met, Obstacle, label
from offers.policy.session.configuration.document import policy_of
from store.mentions import plain
from store.records import Namespace, PriorityClass
from store.records.definition import Amounts
from tests.unit.lab import Lab
from tests.unit.test_core_queues import ONE, WHOLE, create, enter, put
from transactions import obstacles

PLUGINS = ("priority", "gang", "conformance", "predicates", "proportion", "nodeorder")


def sessions(*plugins: str, actions: str = "reclaim, allocate, backfill, preempt") -> CoreOptions:
    """Options with these plug-ins in one tier; none: `PLUGINS`."""
    named = [{"name": name} for name in plugins or PLUGINS]
    policy = policy_of({"actions": actions, "tiers": [{"plugins": named}]})
    return CoreOptions(strict=True, policy=policy, session_period=1.0, validate=True)


def shared(options: CoreOptions | None = None, agents: int = 4, cpus: int = WHOLE, **of_batch: Any) -> Lab:
    """A cluster that queue `batch` (namespace reports) fills before queue `online` (namespace shop) wants anything."""
    lab = Lab(options or sessions())
    put(lab, "batch", **of_batch)
    put(lab, "online")
    assert enter(lab, "reports", "batch").error == enter(lab, "shop", "online").error == ""
    lab.agents = agents  # type: ignore[attr-defined]
    return lab


def offer(lab: Lab, number: int, cpus: int = WHOLE) -> None:
    names = [f"agent-{index}" for index in range(number)]
    lab.turn(leased.OffersArrived(offers=tuple(lab.make_offer(name, cpus=cpus) for name in names)))


def fill(lab: Lab, number: int = 4, cpus: int = WHOLE) -> None:
    """Offers agents, and lets the launched taskgroups run."""
    lab.wait(2.0)
    offer(lab, number, cpus)
    lab.wait(2.0)
    run(lab)
    lab.wait(2.0)


def run(lab: Lab) -> None:
    for group in list(lab.core.state.taskgroups.values()):
        if not group.started and not group.ended:
            lab.report(group, "RUNNING")


def attempt_of(lab: Lab, key: str) -> Attempt | None:
    """The latest attempt for the open taskgroups of an application."""
    found = [lab.core.diagnosis(identity) for identity in lab.core.state.active_of(key)]
    return next((one.attempt for one in found if one is not None), None)


def shown(lab: Lab, key: str) -> tuple[str, str]:
    """The cell REASON and the text of the explanation."""
    application = lab.core.state.applications[key]
    reason = plain(reason_of(lab.core.state, application, lab.core.diagnosis))
    text = explain_application(lab.core.state, application, lab.core.diagnosis, lab.now).text
    return reason, plain("\n".join(text))


def waiting(lab: Lab, queue: str) -> dict[str, int]:
    return dict(next(one for one in lab.core.turn_context.queues.figures() if one.queue.name == queue).pending)


def gang(lab: Lab) -> None:
    create(lab, "reports", 4, min_available=4, max_unavailable=4)
    fill(lab)
    create(lab, "shop", 1)


def budget(lab: Lab) -> None:
    create(lab, "reports", 4, max_unavailable=1)
    fill(lab)
    group = next(iter(lab.core.state.groups_of("reports/web").values()))
    lab.report(group, "FAILED")
    lab.wait(1.0)
    create(lab, "shop", 1)


def critical(lab: Lab) -> None:
    name = "system-cluster-critical"
    allowed = Namespace(name="reports", queue="batch", priority_classes=(name,))
    assert lab.ask(requests.PutNamespace(namespace=allowed)).error == ""
    assert lab.ask(PutPriorityClass(priority_class=PriorityClass(name=name, value=1))).error == ""
    create(lab, "reports", 4, max_unavailable=4, priority_class=name, priority_from="class")
    fill(lab)
    create(lab, "shop", 1)


def guarantee(lab: Lab) -> None:
    create(lab, "reports", 4, max_unavailable=4)
    fill(lab)
    put(lab, "batch", create=False, guarantee=Amounts(cpus=4 * ONE))
    put(lab, "online", create=False, weight=100)
    create(lab, "shop", 1)


def fence(lab: Lab) -> None:
    put(lab, "batch", create=False, reclaimable=False)
    create(lab, "reports", 4, max_unavailable=4)
    fill(lab)
    create(lab, "shop", 1)


def priority(lab: Lab) -> None:
    create(lab, "shop", 4, max_unavailable=4, priority=5)
    fill(lab)
    create(lab, "shop", 1, application="second", priority=5)


def never(lab: Lab) -> None:
    create(lab, "reports", 4, max_unavailable=4)
    fill(lab)
    create(lab, "shop", 1, preemption_policy="Never")


SESSIONS = {
    Obstacle.GANG: (gang, Met(Obstacle.GANG, 4, ("reports/web",))),
    Obstacle.CRITICAL: (critical, Met(Obstacle.CRITICAL, 4)),
    Obstacle.GUARANTEE: (guarantee, Met(Obstacle.GUARANTEE, 4, ("batch",))),
    Obstacle.OUTSIDE: (fence, Met(Obstacle.OUTSIDE, 4, ("batch",))),
    Obstacle.NOT_ALLOWED: (never, Met(Obstacle.NOT_ALLOWED)),
}


@pytest.mark.parametrize("code", SESSIONS)
def test_a_session_names_the_cause(code: Obstacle) -> None:
    lab = shared()
    situation, expected = SESSIONS[code]
    situation(lab)
    lab.wait(3.0)
    found = attempt_of(lab, "shop/web")
    assert found is not None and found.met[0] == expected, found
    assert not found.evicted and lab.now - 3.0 <= found.at <= lab.now
    reason, text = shown(lab, "shop/web")
    assert plain(obstacles.attempted(found)) in reason
    assert obstacles.CHANGES[code] in text and "last attempt to end other work for it" in text
    assert waiting(lab, "online") == {label(code): 1}
