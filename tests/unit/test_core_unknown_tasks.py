"""A store that does not know its tasks: nothing is ended without an operator, and nothing is launched until then."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.controllers.cluster.unknown_tasks import QUIET
from bcs_scheduler.core.interface import cluster_manager, effects
from bcs_scheduler.core.interface.unknown import DecideUnknown, Decision
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.core.term_start import MOST_GAPS, is_from_gap, mark_of, with_gap
from store.records import Event, Framework, IdGap, OrphanedTask, Record, TaskGroup
from store.state import State
from store.state.unit_of_work import UnitOfWork
from tests.unit.lab import START, Lab, running
from transactions.rules.losses import UNDECIDED
from transactions.rules.task_states import TaskState

OPTIONS = CoreOptions(strict=True, agent_forget=200.0)
OLD = 1_600_000_000_000_000_000
"""Unix nanoseconds long before the first term of a lab."""


def empty_store() -> list[Record]:
    """As `framework set` leaves an empty store."""
    return [Framework(id="framework", created_at=START, gaps=(IdGap(after=0, until=int(START * 1e9)),))]


def task_of(number: int, index: int = 0, application: str = "web") -> str:
    """A task whose id was made at this Unix nanosecond."""
    return f"{number}.0.{index}.{application}.default.dc1.example.com"


def answer(task: str, state: TaskState = TaskState.RUNNING, agent: str = "agent-7") -> cluster_manager.StatusUpdate:
    return cluster_manager.StatusUpdate(task_id=task, state=state, agent_id=agent, answer=True)


def of(group: TaskGroup) -> cluster_manager.StatusUpdate:
    return answer(group.tasks[0].id, agent=group.agent_id)


def everything_ended(lab: Lab, seconds: float) -> list[str]:
    """Taskgroups and tasks that were ended while time passes."""
    lab.wait(seconds)
    return [*lab.ended(), *(taskgroup for taskgroup, _ in lab.forced())]


def halted(lab: Lab) -> bool:
    return lab.core.state.framework.unknown is not None


def decide(lab: Lab, decision: Decision, *applications: str, adopted: bool = False) -> dict[str, object]:
    """The data of the answer, with the effects of all turns in `out`."""
    out = list(lab.turn(DecideUnknown(token=1, decision=decision, applications=applications, adopted=adopted)))
    for _ in range(100):
        if any(isinstance(effect, effects.Reply) for effect in out):
            break
        out += lab.turn()
    lab.out = out
    (reply,) = lab.sent(effects.Reply)
    assert not reply.error, reply.message
    return dict(reply.data)


def on_an_empty_store(tasks: int = 8, options: CoreOptions = OPTIONS) -> Lab:
    """A leader on an empty store has learned of running tasks, and Mesos has named all."""
    lab = Lab(options, empty_store(), START + 60)
    lab.turn(*[answer(task_of(OLD + n, n)) for n in range(tasks)])
    assert everything_ended(lab, 2 * QUIET) == []
    return lab


@pytest.mark.parametrize("tasks", [1, 8, 100])
def test_on_an_empty_store_no_task_is_ended(tasks: int) -> None:
    lab = on_an_empty_store(tasks)
    assert halted(lab)
    steady = cluster_manager.TasksReported(
        executor_id=f"0.web.default.dc1.example.com.{OLD}",
        agent_id="agent-7",
        tasks=((task_of(OLD), cluster_manager.TaskDetail(pid=7)),),
    )
    lab.turn(steady)
    assert lab.ended() == [] and lab.forced() == []
    assert everything_ended(lab, 100) == []
    reasons = [event.reason for event in _events(lab)]
    assert reasons.count("UnknownTasksFound") == 1


def _events(lab: Lab) -> list[Event]:
    return [event for run in lab.core.state.event_logs.values() for event in run.events]


def test_nothing_is_launched_during_the_halt_and_everything_after_it() -> None:
    lab = on_an_empty_store()
    lab.offer()
    lab.create(8)
    lab.wait(60)
    lab.offer()
    assert lab.groups == []
    assert UNDECIDED in lab.transaction("LAUNCH").history[-1].text
    assert decide(lab, "adopt") == {"decision": "adopt", "taskgroups": 8, "halted": False}
    lab.offer()
    assert len(lab.groups) == 8


def test_a_launch_that_has_begun_to_look_for_a_place_stops_with_the_halt() -> None:
    lab = Lab(OPTIONS, empty_store(), START + 60)
    lab.create(8)
    lab.turn(answer(task_of(OLD)))
    lab.offer()
    assert halted(lab) and lab.groups == []


def test_adopted_tasks_stay_through_failovers_until_an_operator_ends_them() -> None:
    lab = on_an_empty_store()
    decide(lab, "adopt")
    assert not halted(lab) and everything_ended(lab, 100) == []
    for _ in range(2):
        lab = lab.succeed()
        lab.turn(*[answer(task_of(OLD + n, n)) for n in range(8)])
        assert not halted(lab) and everything_ended(lab, 300) == []
    lab.turn(answer(task_of(OLD), TaskState.FINISHED))
    assert len(lab.core.state.orphaned_tasks) == 7, "one has ended by itself"
    assert decide(lab, "end", adopted=True) == {"decision": "end", "taskgroups": 7, "halted": False}
    assert sorted(lab.ended()) == [task_of(OLD + n, n) for n in range(1, 8)]


def test_the_cluster_manager_is_asked_for_adopted_tasks() -> None:
    lab = on_an_empty_store(1)
    decide(lab, "adopt")
    lab.wait(10)
    asked = [task for call in lab.sent(cluster_manager.Reconcile) for task, _ in call.tasks]
    assert task_of(OLD) in asked


def test_tasks_that_an_operator_ends_are_killed_at_once_and_by_the_next_leader() -> None:
    lab = on_an_empty_store()
    assert decide(lab, "end") == {"decision": "end", "taskgroups": 8, "halted": False}
    assert sorted(lab.ended()) == [task_of(OLD + n, n) for n in range(8)]
    successor = lab.succeed()
    assert len(successor.ended()) == 8
    successor.turn(*[answer(task_of(OLD + n, n), TaskState.KILLED) for n in range(8)])
    assert not halted(successor) and successor.core.state.orphaned_tasks == {}


@pytest.mark.parametrize("decision", ["adopt", "end"])
def test_a_decision_that_fails_for_one_taskgroup_is_carried_out_for_the_others(
    decision: Decision, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = on_an_empty_store(options=CoreOptions(agent_forget=200.0))
    honest = UnitOfWork.put

    def put(uow: UnitOfWork, record: Any) -> Any:
        if isinstance(record, OrphanedTask) and task_of(OLD, 0) in record.tasks:
            raise RuntimeError
        return honest(uow, record)

    with monkeypatch.context() as patch:
        patch.setattr(UnitOfWork, "put", put)
        assert decide(lab, decision) == {"decision": decision, "taskgroups": 7, "halted": True}
        lab.wait(1.0)
    assert len(lab.core.state.orphaned_tasks) == 7
    assert decide(lab, decision) == {"decision": decision, "taskgroups": 1, "halted": False}
    assert len(lab.core.state.orphaned_tasks) == 8


def test_the_halt_outlives_its_leader() -> None:
    lab = on_an_empty_store().succeed()
    assert halted(lab)
    lab.turn(answer(task_of(OLD)))
    assert everything_ended(lab, 100) == []
    decide(lab, "end")
    assert lab.ended() == [task_of(OLD)] and not halted(lab)


@pytest.mark.parametrize("decision", ["adopt", "end"])
@pytest.mark.parametrize("applications", [(), ("default/web",)])
@pytest.mark.parametrize("named", [0, 1, 7])
def test_a_decision_waits_until_all_unknown_tasks_are_named(
    decision: Decision, applications: tuple[str, ...], named: int
) -> None:
    """A decision about the first ones would end the halt: launches would begin, and the last one would be ended as one
    of a few."""
    before = on_an_empty_store()
    before.create(1)
    lab = before.succeed()
    tasks = [task_of(OLD + n, n) for n in range(8)]
    lab.turn(*map(answer, tasks[:named]))
    for early in (
        DecideUnknown(token=1, decision=decision, applications=applications),
        DecideUnknown(token=2, decision=decision, applications=applications, dry_run=True),
    ):
        reply = lab.ask(early)
        assert reply.error == effects.Reason.UNAVAILABLE and "has not named all running tasks yet" in reply.message
    assert not lab.core.unknown_tasks.listed().complete
    lab.offer()
    assert everything_ended(lab, 0.9 * QUIET) == [] and halted(lab) and lab.groups == []
    lab.turn(*map(answer, tasks[named:]))
    reply = lab.ask(DecideUnknown(token=3, decision=decision, applications=applications))
    assert reply.error == effects.Reason.UNAVAILABLE, "others may still come"
    assert everything_ended(lab, 2 * QUIET) == [] and lab.core.unknown_tasks.listed().complete
    assert decide(lab, decision, *applications) == {"decision": decision, "taskgroups": 8, "halted": False}
    assert sorted(lab.ended()) == (tasks if decision == "end" else [])


def test_a_decision_waits_for_the_connection_to_mesos() -> None:
    lab = on_an_empty_store()
    lab.turn(cluster_manager.Disconnected(reason="the master is gone"))
    assert lab.ask(DecideUnknown(token=1, decision="adopt")).error == effects.Reason.UNAVAILABLE
    assert halted(lab)


def test_an_operator_decides_about_applications() -> None:
    lab = on_an_empty_store(2)
    lab.turn(answer(task_of(OLD + 9, 0, "db")))
    lab.wait(2 * QUIET)
    assert decide(lab, "adopt", "default/db") == {"decision": "adopt", "taskgroups": 1, "halted": True}
    reply = lab.ask(DecideUnknown(token=2, decision="end", applications=("default/db",)))
    assert reply.error == effects.Reason.NOT_FOUND
    assert decide(lab, "end", "default/web") == {"decision": "end", "taskgroups": 2, "halted": False}
    assert sorted(lab.ended()) == [task_of(OLD, 0), task_of(OLD + 1, 1)]
    assert lab.ask(DecideUnknown(token=3, decision="end")).error == effects.Reason.CONFLICT


def test_a_dry_run_decides_nothing() -> None:
    lab = on_an_empty_store()
    reply = lab.ask(DecideUnknown(token=1, decision="end", dry_run=True))
    assert reply.data is not None and reply.data["taskgroups"] == 8 and halted(lab)
    assert everything_ended(lab, 60) == []


def test_a_store_that_was_restored_from_an_old_copy_ends_nothing() -> None:
    """Beside 20 taskgroups that both copies know, one that only the newer one knew is no twentieth; but its id is above
    the mark of the old one."""
    lab = running(20)
    copy, copied = lab.records(), lab.now
    lab.wait(600)
    lab.scale(21)
    lab.offer()
    lab.run()
    lab.wait(600)
    restored = Lab(OPTIONS, copy, lab.now)
    restored.turn(*[of(group) for group in lab.groups])
    assert halted(restored)
    assert everything_ended(restored, 100) == []
    (unknown,) = restored.core.unknown_tasks.listed().taskgroups
    assert unknown.newer and copied < int(unknown.id.rpartition(".")[2]) / 1e9


def test_a_restored_store_whose_clock_is_behind_ends_nothing() -> None:
    """The nodes of the store were made anew, so the time of the term continues right after the copy."""
    lab = running(30)
    copy, copied = lab.records(), lab.now
    lab.wait(1800)
    lab.scale(31)
    lab.offer()
    lab.run()
    restored = Lab(OPTIONS, copy, lab.now, elapsed=5.0)
    assert restored.now < copied + 10
    restored.turn(*[of(group) for group in lab.groups])
    assert halted(restored) and everything_ended(restored, 100) == []


def test_a_gap_is_remembered_by_all_later_leaders() -> None:
    """An agent that was away during the restoration comes back after other changes of leaders."""
    lab = running(30)
    copy = lab.records()
    lab.wait(1800)
    lab.scale(31)
    lab.offer()
    lab.run()
    late = lab.group(30)
    lab.wait(60)
    restored = Lab(OPTIONS, copy, lab.now)
    for _ in range(2 * MOST_GAPS):
        restored.wait(5)
        restored = restored.succeed()
    restored.wait(60)
    restored.turn(of(late))
    assert halted(restored)


def test_a_few_unknown_tasks_are_ended_after_all_answers_have_come() -> None:
    lab = running(8)
    successor = lab.succeed()
    stray = task_of(int(START * 1e9) - 1, application="old")
    successor.turn(answer(stray))
    assert successor.ended() == []
    assert everything_ended(successor, QUIET - 0.1) == [], "answers may still come"
    successor.wait(2)
    assert successor.ended() == [stray] and not halted(successor)


def test_answers_that_come_late_are_counted_with_the_first_ones() -> None:
    lab = running(8).succeed()
    for n in range(2):
        assert everything_ended(lab, QUIET - 0.1) == []
        lab.turn(answer(task_of(OLD + n, n, "old")))
    assert halted(lab) and everything_ended(lab, 100) == []


def steady(group: TaskGroup) -> cluster_manager.TasksReported:
    details = tuple((task.id, cluster_manager.TaskDetail(pid=7)) for task in group.tasks)
    return cluster_manager.TasksReported(executor_id=group.id, agent_id=group.agent_id, tasks=details)


def test_late_reports_of_executors_that_have_ended_begin_no_halt() -> None:
    lab = running(4)
    gone = lab.groups
    lab.delete()
    lab.run()
    lab.turn(*[steady(group) for group in gone])
    asked = {task for call in lab.sent(cluster_manager.Reconcile) for task, _ in call.tasks}
    assert asked == {group.tasks[0].id for group in gone} and not halted(lab)
    lab.turn(*[answer(group.tasks[0].id, TaskState.GONE, group.agent_id) for group in gone])
    assert everything_ended(lab, 60) == [] and not halted(lab)
    lab.create(2)
    lab.offer()
    assert len(lab.groups) == 2


def test_executors_of_unknown_taskgroups_begin_a_halt_when_the_cluster_manager_agrees() -> None:
    others = running(8)
    lab = Lab(OPTIONS, empty_store(), START + 60)
    lab.turn(*[steady(group) for group in others.groups])
    assert everything_ended(lab, 60) == []
    lab.turn(*[of(group) for group in others.groups])
    assert halted(lab) and everything_ended(lab, 60) == []


def test_unknown_tasks_are_counted_again_before_they_are_ended() -> None:
    """Two beside 38; then the 38 are gone."""
    lab = running(38).succeed()
    unknown = [task_of(OLD + n, n, "old") for n in range(2)]
    lab.turn(*map(answer, unknown))
    assert not halted(lab)
    lab.delete(enforce=True)
    assert not set(unknown) & set(everything_ended(lab, 20)) and halted(lab)


@pytest.mark.parametrize(("live", "most"), [(8, 1), (38, 2), (57, 3)])
def test_unknown_tasks_are_ended_up_to_the_greater_of_one_and_a_twentieth(live: int, most: int) -> None:
    for tasks in (most, most + 1):
        lab = running(live).succeed()
        lab.turn(*[answer(task_of(OLD + n, n, "old")) for n in range(tasks)])
        ended = everything_ended(lab, 20)
        assert halted(lab) == (tasks > most) and bool(ended) != halted(lab)


def test_a_task_whose_record_cannot_be_read_is_not_ended() -> None:
    lab = running(8)
    hidden = lab.group(3)
    records = [record for record in lab.records() if record.key != hidden.id]
    core = Core(records, OPTIONS, lab.now, {("taskgroup", hidden.id): "no key"})
    successor = Lab(OPTIONS, lab.records(), lab.now)
    successor.core = core
    successor.turn(cluster_manager.Connected(framework_id="framework", cluster="dc1.example.com"))
    successor.turn(of(hidden))
    assert hidden.tasks[0].id not in everything_ended(successor, 600)


def test_an_id_that_is_none_of_ours_is_not_ended() -> None:
    """`framework set` with the id of another framework."""
    lab = running(8).succeed()
    lab.turn(answer("marathon-task-1"))
    assert halted(lab) and everything_ended(lab, 100) == []


def test_ordinary_changes_of_leaders_leave_no_id_in_a_gap() -> None:
    """Every launch is below the mark of the store that the next leader reads, also after its record is gone."""
    lab = running(1)
    made = [int(lab.group().id.rpartition(".")[2])]
    for number in range(2, 12):
        lab.wait(number * 7.0)
        lab.delete(enforce=True)
        lab.offer()
        lab.create(1)
        lab.offer()
        made += [int(group.id.rpartition(".")[2]) for group in lab.groups]
        lab = lab.succeed()
    assert len(made) > 10
    assert not any(is_from_gap(number, lab.core.state.framework.gaps) for number in made)


def test_the_longest_gaps_are_kept_in_order() -> None:
    gaps: tuple[IdGap, ...] = ()
    for number in range(2 * MOST_GAPS):
        began = (number + 1) * 10**12
        gaps = with_gap(gaps, began - (5 - number % 5) * 10**10, began)
    assert len(gaps) == MOST_GAPS
    assert list(gaps) == sorted(gaps, key=lambda gap: gap.after)
    assert min(gap.until - gap.after for gap in gaps) >= 3 * 10**10
    assert with_gap((), 10**12, 10**12 + 1) == ()
    assert mark_of(State([])) == 0


def test_the_records_of_unknown_tasks_are_listed() -> None:
    lab = on_an_empty_store(1)
    (found,) = lab.core.unknown_tasks.listed().taskgroups
    assert (found.agent_id, found.tasks, found.newer) == ("agent-7", (task_of(OLD),), True)
    decide(lab, "adopt")
    assert [(one.id, one.adopted) for one in lab.core.unknown_tasks.listed().taskgroups] == [(found.id, True)]
    (record,) = lab.core.state.orphaned_tasks.values()
    assert record == OrphanedTask(
        id=found.id, agent_id="agent-7", tasks=(task_of(OLD),), since=record.since, adopted=True
    )
    assert msgspec.json.decode(msgspec.json.encode(record), type=OrphanedTask) == record
