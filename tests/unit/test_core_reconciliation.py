"""What the core asks Mesos, when, and what the answers change: rounds, comparisons, questions about single tasks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.controllers.cluster import reconciler
from bcs_scheduler.core.controllers.cluster.orphaned_tasks import AT_ONCE
from bcs_scheduler.core.controllers.cluster.reconciler import ASK_RATE, COMPARE_PAUSE, FIRST_ASK, GATHER
from bcs_scheduler.core.interface import cluster_manager, leased
from bcs_scheduler.core.options import CoreOptions
from offers.agents import ListedAgent
from store.records import OrphanedTask
from store.records.definition import UnreachablePolicy
from tests.unit.lab import Lab, running
from transactions.base import Options, Periods
from transactions.kinds.registry import kind_of
from transactions.rules.task_states import TaskState

ANSWER: dict[str, Any] = {"answer": True, "message": "Reconciliation: Latest task state"}


def agent(identity: str, registered: float = 1.0, **facts: Any) -> ListedAgent:
    return ListedAgent(
        **{
            "id": identity,
            "hostname": identity,
            "ip": "10.0.0.1",
            "port": 5051,
            "active": True,
            "attributes": {},
            "total": {"cpus": 16_000},
            "allocated": {},
            "ports": [],
            "registered_time": registered,
            **facts,
        }
    )


def listed(lab: Lab, *agents: ListedAgent, clock: float = 0.0) -> None:
    lab.turn(cluster_manager.AgentsListed(agents=agents, clock=clock))


def questions(lab: Lab) -> list[str]:
    """Tasks that were asked for one by one."""
    return [task for call in lab.sent(cluster_manager.Reconcile) for task, _ in call.tasks]


def implicit(lab: Lab) -> int:
    return sum(1 for call in lab.sent(cluster_manager.Reconcile) if not call.tasks)


def subscribe(lab: Lab) -> None:
    lab.turn(cluster_manager.Disconnected())
    lab.turn(cluster_manager.Connected(framework_id="framework"))


def answer(lab: Lab, group: Any, state: str = "RUNNING") -> None:
    lab.turn(
        *(
            cluster_manager.StatusUpdate(task_id=t.id, state=TaskState(state), agent_id=group.agent_id, **ANSWER)
            for t in group.tasks
        )
    )


# --- rounds ---------------------------------------------------------------------------------------------------------


def test_an_answer_that_tells_what_is_known_changes_no_record() -> None:
    lab = running(2)
    lab.report(lab.group(0), "RUNNING", message="serves since noon")
    before = {group.id: group for group in lab.groups}
    lab.now += 10
    subscribe(lab)
    for group in lab.groups:
        answer(lab, group)
    assert {group.id: group for group in lab.groups} == before
    assert lab.group(0).tasks[0].message == "serves since noon"


def test_an_answer_with_another_state_counts_and_its_words_do_not() -> None:
    lab = Lab()
    lab.create(1)
    lab.offer()
    answer(lab, lab.group())
    assert (lab.group().status, lab.group().tasks[0].message) == ("Running", "")
    answer(lab, lab.group(), "GONE")
    assert lab.group().tasks[0].message == ANSWER["message"]


def test_a_round_asks_only_for_what_was_not_answered_and_waits_until_answers_stop() -> None:
    lab = running(6)
    subscribe(lab)
    assert (implicit(lab), questions(lab)) == (1, [])
    for group in lab.groups[:5]:
        lab.wait(0.9 * FIRST_ASK)
        assert questions(lab) == [], "answers still come"
        answer(lab, group)
    lab.wait(2 * FIRST_ASK)
    assert set(questions(lab)) == {task.id for task in lab.group(5).tasks}


def test_what_is_launched_during_a_round_is_not_part_of_it() -> None:
    lab = running(1)
    subscribe(lab)
    answer(lab, lab.group(0))
    lab.wait(1.0)
    lab.scale(2)
    lab.offer()
    lab.wait(2 * FIRST_ASK)
    assert questions(lab) == []


def test_a_round_is_gone_through_in_slices_and_asks_at_a_bounded_rate(monkeypatch: Any) -> None:
    monkeypatch.setattr(reconciler, "SLICE", 10)
    monkeypatch.setattr(reconciler, "ASK_RATE", 20.0)
    lab = running(60)
    subscribe(lab)
    lab.wait(FIRST_ASK)
    began = lab.now
    asked: list[str] = []
    for _ in range(12):
        lab.wait(0.25)
        found = questions(lab)
        asked += found
        assert len(found) <= 20
    assert len(set(asked)) >= 20 + 20 * (lab.now - began) / 2
    assert ASK_RATE >= 1000


# --- agents that come back ------------------------------------------------------------------------------------------


def test_agents_that_register_again_are_compared_and_asked_for() -> None:
    lab = running(1)
    there = lab.group().agent_id
    listed(lab, agent(there, 1.0), agent("other", 1.0), clock=lab.now)
    lab.wait(60)
    assert (implicit(lab), questions(lab)) == (0, []), "both registered long before"
    listed(lab, agent(there, 1.0), agent("other", 1.0))
    assert (implicit(lab), questions(lab)) == (0, [])
    listed(lab, agent(there, 2.0), agent("other", 1.0))
    assert questions(lab) == [lab.group().tasks[0].id]
    lab.wait(GATHER + 1)
    assert implicit(lab) == 1


def test_who_registered_between_subscription_and_first_list_is_compared() -> None:
    """The implicit reconciliation of the subscription knew nothing of that agent."""
    lab = running(1)
    fresh = Lab(records=lab.records(), now=lab.now)
    answer(fresh, lab.group())
    fresh.now += 1
    listed(fresh, agent("late", fresh.now), clock=fresh.now)
    fresh.wait(COMPARE_PAUSE + 1)
    assert implicit(fresh) == 1


def test_comparisons_keep_a_pause() -> None:
    lab = running(1)
    listed(lab, agent("a", 1.0), clock=lab.now)
    calls = 0
    for second in range(60):
        listed(lab, agent("a", 2.0 + second))
        calls += implicit(lab)
        lab.wait(1.0)
        calls += implicit(lab)
    assert 8 <= calls <= 60 / COMPARE_PAUSE + 1


def test_a_question_without_an_answer_is_put_again_when_its_agent_is_back() -> None:
    lab = running(1)
    listed(lab, clock=lab.now)
    subscribe(lab)
    lab.wait(300)
    assert questions(lab)
    listed(lab, agent(lab.group().agent_id, 5.0))
    assert questions(lab) == [lab.group().tasks[0].id]


# --- taskgroups that stay young -------------------------------------------------------------------------------------


def test_a_taskgroup_that_stays_starting_is_asked_for() -> None:
    lab = Lab()
    lab.create(1)
    lab.offer()
    lab.report(lab.group(), "STARTING")
    lab.wait(20)
    assert set(questions(lab)) == {lab.group().tasks[0].id}
    answer(lab, lab.group(), "GONE")
    assert lab.group().ended


@pytest.mark.parametrize("state", ["STAGING", "STARTING"])
def test_an_update_ends_by_its_time_out_although_mesos_says_of_its_task_that_it_is_starting(state: str) -> None:
    """The master has taken the launch and knows the task, but the task never begins: each question is answered so."""
    lab = running(2)
    assert not lab.update(2, tasks=2).error
    begun = lab.transaction("UPDATE")
    lab.turn()
    for group in lab.groups:
        if group.killing_since:
            lab.report(group, "KILLED")
    lab.offer()
    stuck = next(group for group in lab.groups if group.status == "Staging")
    asked = 0
    while lab.core.state.transactions[begun.id].active:
        assert lab.now <= begun.deadline + 1.0, "beyond its life"
        lab.wait(5.0)
        if stuck.tasks[0].id in questions(lab):
            asked += 1
            answer(lab, stuck, state)
    assert lab.core.state.transactions[begun.id].status == "TIMEOUT" and asked >= 3
    assert not lab.delete().error, "the application can be worked with"
    lab.wait(1.0)
    assert stuck.tasks[0].id in kills(lab) or lab.core.state.taskgroups[stuck.id].killing_since
    lab.run()
    assert not lab.groups


# --- what no record wants -------------------------------------------------------------------------------------------


def forgotten(lab: Lab) -> Any:
    """A taskgroup that was deleted by force while its agent was away; what was sent then has been read."""
    group = lab.group()
    listed(lab, clock=lab.now)
    lab.delete(enforce=True)
    assert lab.core.state.orphaned_tasks[group.id] == OrphanedTask(
        id=group.id, agent_id=group.agent_id, tasks=tuple(t.id for t in group.tasks), since=lab.now
    )
    return group


def kills(lab: Lab) -> list[str]:
    return lab.ended()


def test_what_is_deleted_by_force_is_killed_when_its_agent_is_back_by_whoever_leads_then() -> None:
    lab = running(2)
    group = forgotten(lab)
    assert group.tasks[0].id in kills(lab)
    successor = Lab(records=lab.records(), now=lab.now + 200)
    assert group.tasks[0].id in kills(successor)
    successor.wait(400)
    listed(successor, agent("elsewhere", 1.0))
    listed(successor, agent("elsewhere", 1.0), agent(group.agent_id, 2.0))
    assert group.tasks[0].id in kills(successor)
    answer(successor, group, "GONE")
    assert group.id not in successor.core.state.orphaned_tasks
    successor.wait(700)
    assert group.tasks[0].id not in kills(successor)


def test_a_remnant_whose_agent_is_unreachable_is_kept_and_given_up_in_the_end() -> None:
    lab = running(1, options=CoreOptions(strict=True, agent_forget=5000.0))
    group = forgotten(lab)
    answer(lab, group, "UNREACHABLE")
    lab.wait(4000)
    assert group.id in lab.core.state.orphaned_tasks
    assert 5 < len(kills(lab)) < 20
    lab.wait(3000)
    assert not lab.core.state.orphaned_tasks
    assert len(lab.core._orphaned_tasks) == 0


def test_a_replaced_taskgroup_on_a_lost_agent_is_remembered() -> None:
    lab = running(1, unreachable_policy=UnreachablePolicy(replace_after=0.0))
    away = lab.group()
    assert away.tasks[0].id in replace_unreachable(lab)
    lab.report(lab.group(), "RUNNING")
    lab.wait(400)
    listed(lab, agent("elsewhere", 1.0))
    listed(lab, agent("elsewhere", 1.0), agent(away.agent_id, 2.0))
    assert away.tasks[0].id in kills(lab)
    answer(lab, away, "GONE")
    lab.wait(700)
    assert away.tasks[0].id not in kills(lab)


def replace_unreachable(lab: Lab) -> list[str]:
    """The only taskgroup is replaced although it may still run; tasks that are killed."""
    lab.report(lab.group(), "UNREACHABLE")
    killed = kills(lab)
    lab.offer()
    return killed + kills(lab)


def test_the_restart_remembers_for_the_next_leader_what_may_be_left_of_the_old_taskgroup() -> None:
    lab = running(1, unreachable_policy=UnreachablePolicy(replace_after=0.0))
    away = lab.group()
    replace_unreachable(lab)
    assert not lab.core.state.orphaned_tasks
    successor = Lab(records=lab.records(), now=lab.now + 200)
    assert away.tasks[0].id in kills(successor)
    answer(successor, away, "GONE")
    successor.wait(700)
    assert away.tasks[0].id not in kills(successor)


@pytest.mark.parametrize("gone", [False, True])
def test_a_restart_that_is_forgotten_leaves_a_record_of_what_is_not_known_to_be_gone(gone: bool) -> None:
    periods = Periods(retention=60.0)
    lab = running(
        1,
        options=CoreOptions(strict=True, transactions=Options(periods=periods)),
        unreachable_policy=UnreachablePolicy(replace_after=0.0),
    )
    away = lab.group()
    replace_unreachable(lab)
    since = lab.now
    lab.report(lab.group(), "RUNNING")
    if gone:
        answer(lab, away, "GONE")
    lab.wait(100)
    assert not [t for t in lab.core.state.transactions.values() if kind_of(lab.core.state, t).left(t)]
    kept = OrphanedTask(id=away.id, agent_id=away.agent_id, tasks=(away.tasks[0].id,), since=since)
    assert lab.core.state.orphaned_tasks == ({} if gone else {away.id: kept})


def test_a_restart_whose_remnant_would_be_given_up_leaves_no_record() -> None:
    lab = running(
        1,
        options=CoreOptions(strict=True, agent_forget=600.0, transactions=Options(periods=Periods(retention=500.0))),
        unreachable_policy=UnreachablePolicy(replace_after=0.0),
    )
    replace_unreachable(lab)
    lab.report(lab.group(), "RUNNING")
    lab.wait(550)
    assert not lab.core.state.orphaned_tasks
    assert not Lab(records=lab.records(), now=lab.now + 100).ended()


def test_very_many_remnants_are_killed_again_in_slices() -> None:
    records = [
        OrphanedTask(
            id=f"{n}.web.default.cluster.{n}", agent_id="a", tasks=(f"{n}.0.{n}.web.default.cluster",), since=1e9
        )
        for n in range(3 * AT_ONCE)
    ]
    lab = running(1)
    lab = Lab(records=[*lab.records(), *records], now=lab.now + 1, options=CoreOptions(strict=True, agent_forget=1e12))
    sent = len(kills(lab))
    for _ in range(10):
        if lab.core.next_wakeup(lab.now) > lab.now:
            break
        lab.turn()
        now = len(kills(lab))
        assert now <= AT_ONCE
        sent += now
    assert sent == 3 * AT_ONCE


def test_a_stray_is_killed_until_it_is_gone_and_its_executor_shut_down() -> None:
    lab = running(1)
    stray = msgspec.structs.replace(
        lab.group().tasks[0], id="1699999999999999999.0.7.other.default.Unnamed"
    )  # one of a deposed leader
    update = cluster_manager.StatusUpdate(task_id=stray.id, state=TaskState.RUNNING, agent_id="agent-2", **ANSWER)
    lab.turn(update)
    assert kills(lab) == [], "more may be unknown: test_core_unknown_tasks"
    lab.wait(4)
    assert kills(lab) == [stray.id]
    lab.turn(update)
    assert kills(lab) == [], "one answer more is no reason to kill again at once"
    lab.wait(40)
    assert len(kills(lab)) >= 2
    assert {taskgroup for taskgroup, _ in lab.forced()} == {"7.other.default.Unnamed.1699999999999999999"}
    lab.turn(cluster_manager.StatusUpdate(task_id=stray.id, state=TaskState.KILLED, agent_id="agent-2", uuid=b"1"))
    lab.wait(1000)
    assert kills(lab) == []


def test_kills_that_a_lost_agent_did_not_get_are_repeated_when_it_is_back() -> None:
    lab = running(1)
    listed(lab, agent(lab.group().agent_id, 1.0), clock=lab.now)
    lab.delete()
    lab.wait(200)
    listed(lab, agent(lab.group().agent_id, 2.0))
    assert kills(lab) == [lab.group().tasks[0].id]


# --- offers after a change of leaders -------------------------------------------------------------------------------


def test_a_new_leader_revives_what_its_predecessor_declined() -> None:
    lab = Lab()
    lab.wait(60)
    assert not lab.sent(leased.Revive), "nothing is wanted"
    lab.create(1)
    assert len(lab.sent(leased.Revive)) == 1
    successor = Lab(records=lab.records(), now=lab.now)
    assert len(successor.sent(leased.Revive)) == 1, "work is waiting"
    idle = Lab(records=running(1).records(), now=lab.now)
    assert not idle.sent(leased.Revive)
    idle.scale(2)
    assert len(idle.sent(leased.Revive)) == 1


def test_a_subscription_that_is_renewed_while_work_waits_revives() -> None:
    lab = Lab()
    lab.create(1)
    subscribe(lab)
    assert len(lab.sent(leased.Revive)) == 1
    lab.wait(3)
    assert not lab.sent(leased.Revive)
