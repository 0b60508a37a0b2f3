"""Taskgroups that wait although their queue is below its guarantee or share: each cause, in all places that show it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple, cast, get_args

import msgspec
import pytest

from bcs_scheduler.api.reading.foreign import diagnosis_for
from bcs_scheduler.api.views.explain import explain_application
from bcs_scheduler.api.views.reasons import reason_of
from bcs_scheduler.core.interface import leased, requests
from bcs_scheduler.core.interface.requests import PutPriorityClass
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.loop import REPORTED_AGAIN
from bcs_scheduler.security.caller import Caller
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.obstacles import OF_APPLICATIONS, Attempt, Met, Obstacle, label
from offers.policy.session.configuration import Registry, policy_of
from offers.policy.session.plugins.interface import Argument, Functions
from store.mentions import plain, revealed
from store.records import Limits, Namespace, PriorityClass
from store.records.definition import Amounts, Constraint, Container
from tests.unit.busycluster import BusyCluster
from tests.unit.core.placement.test_agent_holds import EndlessWork
from tests.unit.core.placement.test_queues import ONE, WHOLE, create, enter, put
from tests.unit.lab import Lab, version
from transactions import explain, obstacles
from transactions.rules.disruptions import Answer, Refusal

PLUGINS = ("priority", "gang", "conformance", "predicates", "proportion", "nodeorder")


@pytest.mark.parametrize("engine", ["session", "hierarchical"])
def test_each_of_very_many_applications_that_wait_is_explained(engine: str) -> None:
    """Only those were that have waited longest; an operation that ran out of time had seen no offers, as it said."""
    limited = {"name": "default", "resources": {"max": {"cpus": 1}}}
    options = sessions()
    if engine == "hierarchical":
        tree = {"queues": [limited], "placementrules": [{"name": "tag", "value": "namespace"}]}
        options = replace(options, policy=None, hierarchy=partition_of(tree, ("cpus", "mem")))
    cluster = BusyCluster(replace(options, explained=2), {"a": 1000})
    for number in range(6):
        cluster.create(f"app-{number}", 1000)
    assert len(cluster.lab.core.turn_context.engine.demands) == 6  # one of the first explanation finds a place
    cluster.seconds(2)
    cluster.is_silent = True  # nothing changes from now on
    cluster.seconds(12)
    state = cluster.lab.core.state
    reasons = [
        reason_of(state, state.applications[f"default/app-{number}"], cluster.lab.core.diagnosis) for number in range(6)
    ]
    expected = "queue root.default has no room below its maximum" if engine == "hierarchical" else "without a place"
    assert sum(expected in plain(reason) for reason in reasons) == 5


def test_a_dry_run_names_the_queue_beside_very_many_that_wait() -> None:
    limited = {"name": "default", "resources": {"max": {"cpus": 0.1}}}
    tree = partition_of(
        {"queues": [limited], "placementrules": [{"name": "tag", "value": "namespace"}]}, ("cpus", "mem")
    )
    lab = Lab(CoreOptions(strict=True, validate=True, session_period=0.5, hierarchy=tree, explained=1))
    offer(lab, 2)
    for name in ("one", "two", "three"):
        lab.ask(requests.CreateApplication(version=msgspec.structs.replace(version(1), application=name)))
    lab.wait(1.0)
    offer(lab, 2)
    late = msgspec.structs.replace(version(1), application="late")
    answer = lab.ask(requests.CreateApplication(version=late, dry_run=True))
    assert "queue root.default has no room below its maximum" in plain(answer.data["message"])


class Spares:
    """A plug-in that lets nothing be evicted."""

    name = "spares"
    arguments: Mapping[str, Argument] = {}

    def open(self, session: object, arguments: object) -> Functions:
        return Functions(reclaimable=lambda _claim, _candidates: [])


def sessions(*plugins: str, actions: str = "reclaim, allocate, backfill, preempt") -> CoreOptions:
    """Options with these plug-ins in one tier; none: `PLUGINS`."""
    named = [{"name": name} for name in plugins or PLUGINS]
    policy = policy_of({"actions": actions, "tiers": [{"plugins": named}]}, Registry([Spares()]))
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
    """The second of two evictions: the first has used up the budget, and its victim finds no place."""
    create(lab, "reports", 4, max_unavailable=1)
    fill(lab)
    create(lab, "shop", 2)
    lab.wait(2.0)
    for group in [one for one in lab.core.state.taskgroups.values() if one.killing_since and not one.ended]:
        lab.report(group, "KILLED")
        lab.offer(group.agent_id, cpus=WHOLE)
    lab.wait(2.0)
    run(lab)


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


def two(lab: Lab, **fields: Any) -> requests.CreateApplication:
    """A gang of two taskgroups in the queue that fills the cluster."""
    wanted = msgspec.structs.replace(version(2, min_available=2, **fields), namespace="reports", application="gang")
    return requests.CreateApplication(version=wanted)


def priority(lab: Lab) -> None:
    create(lab, "reports", 4, max_unavailable=4, priority=5)
    fill(lab)
    assert lab.ask(two(lab, priority=5)).error == ""


def apart(lab: Lab) -> None:
    """Everything may leave, and the gang needs more than an agent has."""
    create(lab, "reports", 4, max_unavailable=4)
    fill(lab)
    container = Container(command="serve", requests=Amounts(cpus=2 * ONE, mem=32_000, disk=0))
    assert lab.ask(two(lab, priority=5, containers=(container,))).error == ""


def never(lab: Lab) -> None:
    create(lab, "reports", 4, max_unavailable=4)
    fill(lab)
    create(lab, "shop", 1, preemption_policy="Never")


def without_reclaim(lab: Lab) -> None:
    create(lab, "reports", 4, max_unavailable=4)
    fill(lab)
    create(lab, "shop", 1)


def own_share(lab: Lab) -> None:
    """The queue deserves half a taskgroup more than it has."""
    put(lab, "batch", create=False, weight=7)
    create(lab, "reports", 4, max_unavailable=4)
    fill(lab)
    create(lab, "shop", 1)


def elsewhere(lab: Lab) -> None:
    """All other work runs on agents that the constraints of the taskgroup exclude."""
    create(lab, "reports", 4, max_unavailable=4)
    fill(lab)
    only = Constraint(name="hostname", operator="CLUSTER", items=("agent-9",))
    create(lab, "shop", 1, constraints=((only,),))


def smaller_share(lab: Lab) -> None:
    for number in range(4):
        create(lab, "reports", 1, max_unavailable=1, application=f"small-{number}")
    fill(lab)
    assert lab.ask(two(lab)).error == ""


class Situation(NamedTuple):
    """`make` brings it about; `met`: the first obstacle of the application with the key `key`."""

    make: Callable[[Lab], None]
    met: Met
    key: str = "shop/web"
    options: CoreOptions | None = None


ONLY_ALLOCATE = sessions(actions="allocate, backfill")
SMALL = Met(Obstacle.SHARE, 4, ("reports/small-0", "reports/small-1", "reports/small-2"), 1)
SPARING = sessions("predicates", "proportion", "spares")
SMALLER = sessions("drf", "predicates", "proportion", actions="allocate, preempt")
SESSIONS: dict[str, Situation] = {
    "gang": Situation(gang, Met(Obstacle.GANG, 4, ("reports/web",))),
    "budget": Situation(budget, Met(Obstacle.BUDGET, 3, ("reports/web",))),
    "critical": Situation(critical, Met(Obstacle.CRITICAL, 4)),
    "guarantee": Situation(guarantee, Met(Obstacle.GUARANTEE, 4, ("batch",))),
    "fence": Situation(fence, Met(Obstacle.OUTSIDE, 4, ("batch",))),
    "priority": Situation(priority, Met(Obstacle.PRIORITY, 4), "reports/gang"),
    "never": Situation(never, Met(Obstacle.NOT_ALLOWED)),
    "no reclaim": Situation(without_reclaim, Met(Obstacle.NOT_ALLOWED), options=ONLY_ALLOCATE),
    "no candidate": Situation(elsewhere, Met(Obstacle.NO_CANDIDATE)),
    "not together": Situation(apart, Met(Obstacle.APART, 4), "reports/gang"),
    "smaller share": Situation(
        smaller_share,
        SMALL,
        "reports/gang",
        SMALLER,
    ),
    "plug-in": Situation(gang, Met(Obstacle.PLUGIN, 4), options=SPARING),
    "own share": Situation(own_share, Met(Obstacle.OWN_GUARANTEE, 0, ("online",))),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_names_the_cause(name: str) -> None:
    case = SESSIONS[name]
    lab = shared(case.options)
    case.make(lab)
    lab.wait(3.0)
    found = attempt_of(lab, case.key)
    assert found is not None and found.met[0] == case.met, found
    assert not found.evicted and lab.now - 3.0 <= found.at <= lab.now
    reason, text = shown(lab, case.key)
    assert plain(obstacles.attempted(found)) in reason
    assert obstacles.CHANGES[case.met.code] in text and "last attempt to end other work for it" in text
    queue = "batch" if case.key.startswith("reports") else "online"
    assert label(case.met.code) in waiting(lab, queue)


def blocked(seen: Iterable[Any]) -> list[str]:
    """Messages of the events about obstacles."""
    return [one.message for one in seen if getattr(one, "reason", "") == "ApplicationBlocked"]


def test_an_event_names_the_obstacle_once_and_again_when_it_is_another_one() -> None:
    lab = shared()
    gang(lab)
    (message,) = blocked([*lab.out, *lab.wait(20.0)])
    assert plain(message) == "4 taskgroups stay: 4 within the minimum of a gang (reports/web)"
    assert "reports" not in revealed(message.encode(), lambda namespace: namespace == "shop").decode()
    put(lab, "batch", create=False, reclaimable=False)
    assert blocked([*lab.out, *lab.wait(60.0)]) == [], "two events have a pause between them"
    seen = lab.wait(REPORTED_AGAIN)
    put(lab, "online", create=False, weight=2)
    (message,) = blocked([*seen, *lab.out, *lab.wait(3.0)])
    assert plain(message) == "4 taskgroups stay: 4 beyond a fence or in queues that are spared (batch)"


def test_callers_get_counts_of_applications_that_they_may_not_see() -> None:
    lab = shared()
    gang(lab)
    lab.wait(3.0)
    (identity,) = lab.core.state.active_of("shop/web")
    seen = {}
    for namespaces in (("shop",), ("shop", "reports")):
        found = diagnosis_for(Caller("dev", "token", "operator", frozenset(namespaces)), lab.core.diagnosis(identity))
        assert found is not None and found.attempt is not None
        seen[namespaces] = (found.attempt.met[0], explain.reasons(found))
    hidden, message = seen["shop",]
    assert (hidden.whose, hidden.others, hidden.number) == ((), 1, 4) and "reports" not in message
    named, message = seen["shop", "reports"]
    assert named.whose == ("reports/web",)
    assert (
        revealed(message.encode(), lambda _: True)
        .decode()
        .startswith("4 taskgroups stay: 4 within the minimum of a gang (reports/web); ")
    )
    stored = revealed(message.encode(), lambda namespace: namespace == "shop").decode()
    assert "(an application of another namespace)" in stored, "a stored text names no application of others"


def test_a_capability_is_named_and_a_taskgroup_that_is_larger_than_it() -> None:
    """P03: nothing is to be ended for a taskgroup that its queue can never hold, and that is what the user reads."""
    lab = shared(agents=1)
    put(lab, "batch", create=False, capability=Limits(cpus=3 * ONE))
    create(lab, "reports", 2, max_unavailable=2)
    fill(lab, 1, 4 * ONE + 50)
    container = Container(command="serve", requests=Amounts(cpus=4 * ONE, mem=32_000, disk=0))
    wanted = msgspec.structs.replace(
        version(1, containers=(container,), priority=10), namespace="reports", application="mid"
    )
    assert lab.ask(requests.CreateApplication(version=wanted)).error == ""
    lab.wait(3.0)
    assert attempt_of(lab, "reports/mid") is None and waiting(lab, "batch") == {"queue_limit": 1}
    reason, text = shown(lab, "reports/mid")
    assert "one taskgroup is larger than the maximum of queue batch" in reason and "CPUs" not in reason
    assert "one taskgroup is larger than the maximum of queue batch" in text


def test_a_full_cluster_is_no_limit_of_a_queue() -> None:
    """The work of the queue fills the cluster, and its capability is not reached."""
    lab = shared()
    put(lab, "batch", create=False, capability=Limits(cpus=100 * ONE))
    create(lab, "reports", 6)
    fill(lab)
    lab.wait(2.0)
    assert waiting(lab, "batch") == {"no_room": 2}
    assert "lack CPUs" in shown(lab, "reports/web")[0]


def test_room_that_is_guaranteed_to_others_is_no_limit_of_a_queue() -> None:
    lab = shared()
    put(lab, "online", create=False, guarantee=Amounts(cpus=4 * WHOLE - 2 * ONE))
    create(lab, "reports", 4)
    fill(lab)
    lab.wait(2.0)
    assert waiting(lab, "batch") == {"guarantee_of_others": 2}
    assert "queue batch has no room beside the guarantees of other queues" in shown(lab, "reports/web")[0]


def test_evictions_that_were_decided_are_told_until_the_room_is_there() -> None:
    """P04: the ordinary application beside a gang gives the room."""
    lab = shared()
    create(lab, "reports", 2, max_unavailable=2)
    wanted = msgspec.structs.replace(version(2, min_available=2), namespace="reports", application="gang")
    assert lab.ask(requests.CreateApplication(version=wanted)).error == ""
    fill(lab)
    create(lab, "shop", 1)
    lab.wait(3.0)
    found = attempt_of(lab, "shop/web")
    assert found is not None and (found.evicted, found.met) == (1, ())
    assert f"1 taskgroup is ended for it on {found.agent}" in shown(lab, "shop/web")[0]
    assert waiting(lab, "online") == {"room_promised": 1}


# --- trees of queues ------------------------------------------------------------------------------------------------

SOON = {"preemption.delay": "1s"}


def tree(batch: dict[str, Any] | None = None, online: dict[str, Any] | None = None, **more: Any) -> CoreOptions:
    """Two queues; online has a guarantee of two taskgroups. `batch`, `online`: properties of the queues."""
    document = {
        "queues": [
            {"name": "reports", "properties": batch or {}, **more.pop("of_reports", {})},
            {
                "name": "shop",
                "resources": {"guaranteed": {"cpus": 2 * ONE / 1000}},
                "properties": {**SOON, **(online or {})},
            },
        ],
        "placementrules": [{"name": "tag", "value": "namespace"}],
        **more,
    }
    partition = partition_of(document, ("cpus", "mem"))
    return CoreOptions(strict=True, hierarchy=partition, session_period=0.5, validate=True)


def grown(**fields: Any) -> Callable[[Lab], None]:
    """Work of the other queue fills the cluster; then the one that waits is created."""

    def make(lab: Lab) -> None:
        create(lab, "reports", 4, **{"max_unavailable": 4, **fields})
        fill(lab)
        create(lab, "shop", 1)

    return make


def important(lab: Lab) -> None:
    create(lab, "reports", 4, max_unavailable=4, priority=5)
    fill(lab)
    create(lab, "shop", 1)


def critical_work(lab: Lab) -> None:
    name = "system-cluster-critical"
    assert lab.ask(requests.PutNamespace(namespace=Namespace(name="reports", priority_classes=(name,)))).error == ""
    assert lab.ask(PutPriorityClass(priority_class=PriorityClass(name=name, value=0))).error == ""
    create(lab, "reports", 4, max_unavailable=4, priority_class=name, priority_from="class")
    fill(lab)
    create(lab, "shop", 1)


def never_in_a_tree(lab: Lab) -> None:
    create(lab, "reports", 4, max_unavailable=4)
    fill(lab)
    create(lab, "shop", 1, preemption_policy="Never")


def larger_than_agents(lab: Lab) -> None:
    create(lab, "reports", 4, max_unavailable=4)
    fill(lab)
    container = Container(command="serve", requests=Amounts(cpus=2 * ONE, mem=32_000, disk=0))
    create(lab, "shop", 1, containers=(container,))


def larger_than_the_guarantee(lab: Lab) -> None:
    create(lab, "reports", 4, max_unavailable=4)
    fill(lab)
    container = Container(command="serve", requests=Amounts(cpus=3 * ONE, mem=32_000, disk=0))
    create(lab, "shop", 1, containers=(container,))


def spent_budget(lab: Lab) -> None:
    """The second of two evictions: the first has used up the budget, and its victim finds no place (after P05)."""
    create(lab, "reports", 4, max_unavailable=1)
    fill(lab)
    create(lab, "shop", 2)
    lab.wait(8.0)
    for group in [one for one in lab.core.state.taskgroups.values() if one.killing_since and not one.ended]:
        lab.report(group, "KILLED")
        lab.offer(group.agent_id, cpus=WHOLE)
    lab.wait(3.0)
    run(lab)
    lab.wait(16.0)


GUARANTEED = {"of_reports": {"resources": {"guaranteed": {"cpus": 4 * ONE / 1000}}}}
TREES: dict[str, Situation] = {
    "gang": Situation(grown(min_available=4), Met(Obstacle.GANG, 4, ("reports/web",)), options=tree()),
    "budget": Situation(spent_budget, Met(Obstacle.BUDGET, 3, ("reports/web",)), options=tree()),
    "critical": Situation(critical_work, Met(Obstacle.CRITICAL, 4), options=tree()),
    "guarantee": Situation(grown(), Met(Obstacle.GUARANTEE, 4, ("root.reports",)), options=tree(**GUARANTEED)),
    "disabled": Situation(
        grown(), Met(Obstacle.OUTSIDE, 4, ("root.reports",)), options=tree({"preemption.policy": "disabled"})
    ),
    "fence": Situation(
        grown(), Met(Obstacle.NO_CANDIDATE, 0, ("root.shop",)), options=tree(online={"preemption.policy": "fence"})
    ),
    "priority": Situation(important, Met(Obstacle.PRIORITY, 4, ("root.reports",)), options=tree()),
    "delay": Situation(grown(), Met(Obstacle.NOT_OLD_ENOUGH), options=tree(online={"preemption.delay": "1h"})),
    "never": Situation(never_in_a_tree, Met(Obstacle.NOT_ALLOWED), options=tree()),
    "off": Situation(grown(), Met(Obstacle.NOT_ALLOWED), options=tree(preemption={"enabled": False})),
    "own guarantee": Situation(
        larger_than_the_guarantee, Met(Obstacle.OWN_GUARANTEE, 0, ("root.shop",)), options=tree()
    ),
    "not together": Situation(larger_than_agents, Met(Obstacle.APART, 4), options=tree()),
}


@pytest.mark.parametrize("name", TREES)
def test_a_tree_names_the_cause(name: str) -> None:
    case = TREES[name]
    lab = Lab(case.options)
    case.make(lab)
    lab.wait(8.0)
    found = attempt_of(lab, case.key)
    assert found is not None and found.met[0]._replace(until=0.0) == case.met, found
    assert not found.evicted
    reason, text = shown(lab, case.key)
    assert plain(obstacles.attempted(found)) in reason
    assert obstacles.CHANGES[case.met.code] in text
    figures = lab.core.turn_context.queues.tree("default")
    assert figures is not None
    (shop,) = [one for one in figures.queues if one.name == "root.shop"]
    assert dict(shop.pending) == {label(case.met.code): 1}


def test_an_open_operation_keeps_nothing_from_being_ended() -> None:
    """P05: the launch of the other application asks for more than fits, and stays open. Its running work is evicted
    all the same, and while it leaves, that is the reason."""
    lab = Lab(tree())
    create(lab, "reports", 6, max_unavailable=4)
    fill(lab)
    assert len(lab.core.state.active_of("reports/web")) == 1
    create(lab, "shop", 2)
    lab.wait(8.0)
    found = attempt_of(lab, "shop/web")
    assert found is not None and found.evicted and not found.met
    assert "ended for it" in shown(lab, "shop/web")[0]


@pytest.mark.parametrize("refusal", get_args(Refusal))
def test_each_answer_about_the_end_of_a_taskgroup_has_its_obstacle(refusal: Refusal) -> None:
    rules: Any = SimpleNamespace(judge=lambda _group, _purpose: Answer(refusal))
    found = obstacles.protecting(rules, cast(Any, None))
    expected = {"Replaced": Obstacle.OPERATION, "Operation": Obstacle.OPERATION, "Ending": Obstacle.LEAVING}
    assert found is expected.get(refusal, found) and found in obstacles.CHANGES
    rules = SimpleNamespace(judge=lambda _group, _purpose: Answer())
    assert obstacles.protecting(rules, cast(Any, None)) is Obstacle.BUDGET, "others have got the rest"


@pytest.mark.parametrize("code", Obstacle)
def test_each_obstacle_has_words_and_a_change(code: Obstacle) -> None:
    whose = ("a/b",) if code in OF_APPLICATIONS else ("root.q",)
    for met in (Met(code, 1), Met(code, 2, whose, 3, until=1e9)):
        words = plain(obstacles.obstacle(met))
        assert words and "{" not in words and "  " not in words
        assert words in plain(obstacles.attempted(Attempt(0.0, (met,)))) or code is Obstacle.APART
    assert obstacles.clock_time(1e9) == "01:46:40 UTC"
    assert not obstacles.change(code).endswith(".")


@pytest.mark.parametrize("policy", ["simple", "session"])
def test_room_that_is_kept_for_old_work_is_named_with_its_owner(policy: str) -> None:
    """A taskgroup that would fit the room of an agent, if it were not reserved for work that has waited for long."""
    work = EndlessWork(policy)
    for _ in range(20):
        work.second()
    work.cluster.create("large", 4000)
    lab = work.cluster.lab
    for _ in range(120):
        work.second()
        met = [
            one
            for transaction in list(lab.core.state.transactions.values())
            if transaction.active
            and transaction.application != "large"
            and (found := lab.core.diagnosis(transaction.id)) is not None
            and found.attempt is not None
            for one in found.attempt.met
        ]
        if met:
            break
    assert met[0].code is Obstacle.RESERVED and met[0].number == 1 and met[0].whose[0].endswith("/large")
