"""May a taskgroup be ended now for the sake of others: the table of `transactions.rules.disruptions`, line by line."""

from __future__ import annotations

from math import inf
from typing import Any, Literal

import msgspec
import pytest

from bcs_scheduler.core.interface import requests
from store.records import Application, Namespace, PriorityClass, Strategy, TaskGroup
from store.records.definition import Amounts, Container, HealthCheck, RestartPolicy
from tests.unit.agentlab import Cluster
from tests.unit.lab import Lab, running
from tests.unit.rollinglab import NEW, RollingLab, deployed
from transactions.kinds import reschedule
from transactions.kinds.registry import kind_of
from transactions.rules import disruptions
from transactions.rules.disruptions import WAITED, Budget, Disruptions, Purpose, Refusal

PURPOSES: tuple[Purpose, ...] = ("evict", "drain", "rebalance")
CHECKED = (Container(command="serve", health_checks=(HealthCheck(type="REMOTE_TCP", port=80),)),)
"""A container that is ready once its check has passed, and no one carries the check out."""
LARGE = Container(command="serve", requests=Amounts(cpus=1_000_000, mem=1, disk=0))
CRITICAL = "system-node-critical"
Order = Literal["DeleteFirst", "CreateFirst"]
FREE, SPENDS = (None, 0), (None, 1)


def rules(lab: Lab) -> Disruptions:
    return Disruptions(lab.core.state, kind_of, lab.now)


def judged(lab: Lab, group: TaskGroup, *purposes: Purpose) -> tuple[Refusal | None, int]:
    """The answer, which is the same for these purposes; by default, for all."""
    found = {rules(lab).judge(group, purpose)[:2] for purpose in purposes or PURPOSES}
    (answer,) = found
    return answer


def budget(lab: Lab) -> Budget:
    """The budget, which is the same by the index of the core and by a look at all taskgroups."""
    context = lab.core.turn_context.context
    context.now = lab.now
    found = rules(lab).budget(lab.application)
    assert disruptions.at(context).budget(lab.application) == found
    assert disruptions.allowance(context, lab.application.key) == found.left
    return found


def evict(lab: Lab, *indexes: int) -> None:
    """Evictions that have ended and find no room."""
    context = lab.core.turn_context.context
    for index in indexes:
        context.now = lab.now
        reschedule.evict(context, lab.group(index), "default/other", "default")
        lab.turn()
        lab.report(lab.group(index), "KILLED")


def not_yet(group: TaskGroup) -> TaskGroup:
    """A taskgroup before its end has begun."""
    return msgspec.structs.replace(group, killing_since=0.0, end_cause="")


def full(instances: int = 4, **fields: Any) -> Lab:
    """An application that runs on an agent without further room."""
    lab = Lab()
    lab.create(instances, **fields)
    lab.offer(cpus=instances * 100)
    for group in lab.groups:
        lab.report(group, "RUNNING")
    assert lab.application.status == "Running"
    return lab


# --- one taskgroup ----------------------------------------------------------------------------------------------


def test_a_ready_taskgroup_costs_one_while_the_budget_has_one_left() -> None:
    lab = running(4, max_unavailable=1)
    assert judged(lab, lab.group(0)) == SPENDS
    lab.report(lab.group(3), "FAILED")
    assert judged(lab, lab.group(0)) == ("Budget", 1)
    assert (
        rules(lab).reason(lab.group(0), "drain").startswith("3 of 4 taskgroups of default/web are ready, 3 must stay")
    )


@pytest.mark.parametrize("instances", [1, 4])
def test_what_is_not_ready_costs_nothing_also_without_budget(instances: int) -> None:
    lab = running(instances, max_unavailable=1, containers=CHECKED)
    assert budget(lab).left == 0
    assert [judged(lab, group) for group in lab.groups] == [FREE] * instances


def test_what_starts_costs_nothing() -> None:
    lab = Lab()
    lab.create(2)
    lab.offer()
    assert judged(lab, lab.group(0)) == FREE


def test_finished_work_counts_as_ready_unless_it_is_to_last() -> None:
    lab = running(2, max_unavailable=1, restart_policy=RestartPolicy(policy="OnFailure"))
    lab.report(lab.group(1), "FINISHED")
    assert budget(lab) == Budget(bound=1, places=2, ready=2)
    assert judged(lab, lab.group(0)) == SPENDS


@pytest.mark.parametrize(("state", "refusal"), [("UNREACHABLE", "Unreachable"), ("FAILED", "Ending")])
def test_what_is_away_or_gone_is_not_ended(state: str, refusal: Refusal) -> None:
    lab = full(1, restart_policy=RestartPolicy(policy="Never"))
    lab.report(lab.group(), state)
    assert judged(lab, lab.group()) == (refusal, 0)


def test_what_is_being_ended_or_replaced_is_not_ended_again() -> None:
    lab = running(4, max_unavailable=4)
    lab.ask(requests.RescheduleTaskGroup(taskgroup=lab.group(0).id))
    assert judged(lab, lab.group(0)) == ("Ending", 0)
    assert judged(lab, not_yet(lab.group(0))) == ("Replaced", 0)


def test_taskgroups_of_daemonsets_stay() -> None:
    lab = Cluster(2)
    lab.begin()
    lab.settle()
    assert {rules(lab).judge(group, "drain").refusal for group in lab.core.state.taskgroups.values()} == {
        "BoundToAgent"
    }


def test_critical_work_leaves_its_agent_for_a_drain_only() -> None:
    lab = Lab(records=[Namespace(name="default", priority_classes=(CRITICAL,)), PriorityClass(name=CRITICAL, value=0)])
    lab.create(4, priority_class=CRITICAL)
    lab.offer()
    lab.run()
    assert judged(lab, lab.group(0), "evict", "rebalance") == ("Critical", 0)
    assert judged(lab, lab.group(0), "drain") == SPENDS


def test_a_bound_of_nothing_is_told_apart() -> None:
    lab = deployed(2, Strategy(max_unavailable=0, max_surge=1))
    assert judged(lab, lab.old[0]) == ("NoBudget", 1)
    assert "maxUnavailable 0" in rules(lab).reason(lab.old[0], "evict")


def test_requests_look_at_the_taskgroups_of_an_application_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = running(30, max_unavailable=1)
    looks: list[str] = []

    def serves(_: Application, group: TaskGroup) -> bool:
        looks.append(group.id)
        return True

    monkeypatch.setattr(disruptions, "is_serving", serves)
    found = rules(lab)
    assert [found.reason(group, "drain") for group in lab.groups] == [""] * 30
    assert len(looks) == 2 * 30


# --- operations -------------------------------------------------------------------------------------------------


def test_a_launch_that_asks_for_more_than_fits_protects_nothing() -> None:
    lab = Lab()
    lab.create(12)
    lab.offer(cpus=1000)
    for group in lab.groups:
        lab.report(group, "RUNNING")
    assert len(lab.groups) == 10 and lab.transaction("LAUNCH").active
    assert judged(lab, lab.group(0)) == SPENDS
    assert budget(lab) == Budget(bound=3, places=10, ready=10)


def test_a_scale_up_that_waits_protects_nothing_and_ends_nothing() -> None:
    lab = full(4)
    lab.scale(8)
    assert budget(lab) == Budget(bound=2, places=4, ready=4)
    assert judged(lab, lab.group(3)) == SPENDS


def test_what_an_operation_ends_is_not_ended_for_others() -> None:
    lab = full(4)
    lab.scale(2)
    assert judged(lab, not_yet(lab.group(3))) == ("Operation", 0)
    assert judged(lab, lab.group(0)) == SPENDS
    lab.delete()
    assert judged(lab, not_yet(lab.group(0))) == ("Operation", 0)


def test_an_update_shares_its_bound() -> None:
    lab = running(4, max_unavailable=1)
    lab.update(4, bound=2, labels={"revision": "2"})
    assert budget(lab) == Budget(bound=2, places=4, ready=2)
    words = rules(lab).reason(lab.group(3), "evict")
    assert "2 of 4 taskgroups of default/web are ready, 2 must stay so; update " in words


def test_an_update_whose_new_taskgroups_find_no_room_protects_the_old_ones_for_a_while() -> None:
    lab = full(4, max_unavailable=1)
    lab.update(4, labels={"revision": "2"}, containers=(LARGE,))
    lab.report(lab.group(0), "KILLED")
    assert budget(lab).left == 0, "one that has just ended may be replaced soon"
    lab.wait(59.0)
    assert budget(lab).left == 0
    lab.wait(2.0)
    assert lab.transaction("UPDATE").active
    assert budget(lab) == Budget(bound=1, places=3, ready=3)


@pytest.mark.parametrize("how", ["evicted", "failed"])
def test_what_a_partial_update_does_not_take_gets_its_place_back_at_once(how: str) -> None:
    """The new taskgroup is not ready, so the update is not done. Its part has its places already."""
    lab = full(4, max_unavailable=4)
    lab.update(4, part=1, bound=2, labels={"revision": "2"}, containers=CHECKED)
    lab.report(lab.group(0), "KILLED")
    lab.offer(cpus=100)
    lab.report(lab.group(0), "RUNNING")
    old = lab.group(3)
    if how == "evicted":
        evict(lab, 3)
    else:
        lab.report(old, "FAILED")
    lab.wait(30)
    lab.offer(cpus=1000)
    assert lab.transaction("UPDATE").active
    new = lab.group(3)
    assert (new.status, new.version) == ("Staging", old.version)


# --- places that wait for room ----------------------------------------------------------------------------------


def test_evicted_taskgroups_spend_the_budget_until_they_have_waited_for_long() -> None:
    lab = full(8)
    evict(lab, 0, 1)
    assert budget(lab) == Budget(bound=2, places=8, ready=6)
    assert judged(lab, lab.group(2)) == ("Budget", 1)
    lab.wait(WAITED + 1)
    assert budget(lab) == Budget(bound=2, places=6, ready=6)


def test_a_failure_that_nothing_restarts_spends_the_budget_for_good() -> None:
    lab = full(4, restart_policy=RestartPolicy(policy="Never"))
    lab.report(lab.group(0), "FAILED")
    lab.wait(WAITED * 10)
    assert budget(lab).left == 0


def test_a_restart_that_is_delayed_spends_the_budget_until_it_has_waited_for_room() -> None:
    lab = full(4, restart_policy=RestartPolicy(interval=100.0))
    lab.report(lab.group(0), "FAILED")
    lab.wait(99 + WAITED)
    assert budget(lab).left == 0, "the restart is due after 100 seconds"
    lab.wait(2)
    assert budget(lab).left == 1


# --- rolling updates --------------------------------------------------------------------------------------------


def test_both_sides_of_an_update_have_one_budget() -> None:
    lab = deployed(4, Strategy(max_unavailable=1, max_surge=1, order="CreateFirst"))
    lab.renew(4, **NEW)
    assert budget(lab) == Budget(bound=1, places=4, ready=4)
    lab.offer()
    assert [judged(lab, group) for group in (lab.new[0], lab.old[0])] == [FREE, SPENDS]
    lab.report(lab.new[0], "RUNNING")
    assert budget(lab).ready + sum(bool(group.killing_since) for group in lab.old) == 5


def test_both_sides_of_an_update_spend_by_one_name_and_one_moment() -> None:
    lab = deployed(4, Strategy(max_unavailable=1, max_surge=1, order="DeleteFirst"))
    context = lab.core.turn_context.context
    before = lab.application.key
    assert disruptions.budget_of(context, before) == (before,)
    assert disruptions.grows_at(context, before) == inf
    lab.renew(4, containers=(LARGE,))
    sides = (before, lab.successor.key)
    assert {disruptions.budget_of(context, key) for key in sides} == {sides}
    (going,) = [group for group in lab.old if group.killing_since]
    lab.report(going, "KILLED")
    context.now = lab.now
    (launch,) = lab.core.state.active_of(lab.successor.key).values()
    assert {disruptions.grows_at(context, key) for key in sides} == {launch.due_at + WAITED}
    assert disruptions.budget_of(context, "default/none") == ("default/none",)
    assert disruptions.grows_at(context, "default/none") == inf


def test_a_budget_does_not_grow_by_time_while_nothing_has_ended() -> None:
    """Places that have never had a taskgroup spend nothing, so that they wait longer changes nothing."""
    lab = Lab()
    lab.create(4)
    lab.offer(cpus=200)
    context = lab.core.turn_context.context
    context.now = lab.now
    assert lab.core.state.active_of(lab.application.key)
    assert disruptions.grows_at(context, lab.application.key) == inf


def test_places_that_an_update_has_emptied_spend_the_budget_until_it_is_halted_or_has_waited() -> None:
    lab = deployed(4, Strategy(max_unavailable=1, max_surge=1, order="DeleteFirst"))
    lab.renew(4, containers=(LARGE,))
    (going,) = [group for group in lab.old if group.killing_since]
    lab.report(going, "KILLED")
    assert len(lab.old) == 3 and not lab.new
    assert budget(lab) == Budget(bound=1, places=4, ready=3)
    assert judged(lab, lab.old[0]) == ("Budget", 1)
    lab.wait(WAITED + 1)
    assert budget(lab) == Budget(bound=1, places=3, ready=3)
    lab.wait(lab.core.turn_context.context.options.periods.rolling_up)
    assert lab.deployment.status == "UpdateSuspend" and not lab.core.state.active_of(lab.successor.key)
    assert budget(lab) == Budget(bound=1, places=3, ready=3)
    assert judged(lab, lab.old[0]) == SPENDS


@pytest.mark.parametrize("order", ["DeleteFirst", "CreateFirst"])
def test_a_new_leader_counts_the_places_that_a_step_has_emptied(order: Order) -> None:
    """Before the end of the victims is reported, after it, and when the places have waited for long."""
    lab = deployed(6, Strategy(max_unavailable=2, max_surge=0 if order == "CreateFirst" else 1, order=order))
    lab.renew(6, containers=(LARGE,))
    going = [group.id for group in lab.old if group.killing_since]
    assert len(going) == 2

    def both(lab: RollingLab) -> tuple[RollingLab, Budget]:
        """The budget of this leader, which is that of its successor, too. Neither ends anything else."""
        before = budget(lab)
        successor = lab.succeed()
        successor.wait(5)
        assert budget(successor) == before
        assert not [group.id for group in successor.old if group.killing_since and group.id not in going]
        assert {judged(successor, group) for group in successor.old if group.id not in going} == {judgement(before)}
        return successor, before

    lab, found = both(lab)
    assert found == Budget(bound=2, places=6, ready=4)
    for group in [group for group in lab.old if group.killing_since]:
        lab.report(group, "KILLED")
    assert len(lab.old) == 4 and not lab.new, "no record holds the emptied places but the update itself"
    lab, found = both(lab)
    assert found == Budget(bound=2, places=6, ready=4)
    lab.wait(WAITED)
    _, found = both(lab)
    assert found == Budget(bound=2, places=4, ready=4)


def judgement(found: Budget) -> tuple[Refusal | None, int]:
    """The answer for a ready taskgroup with this budget."""
    return SPENDS if found.left else ("Budget", 1)
