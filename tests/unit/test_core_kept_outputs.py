"""The last output of failed tasks: what is kept, for how long, and how much in all."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.controllers import kept_outputs
from bcs_scheduler.core.interface.cluster_manager import FetchOutput, OutputReported, StatusUpdate
from bcs_scheduler.core.options import CoreOptions
from store.ids import TaskId
from store.records import Application, FailedOutput, Strategy
from store.records.definition import Amounts, Container
from tests.unit.lab import CLUSTER, START, Lab, running
from tests.unit.rollinglab import NEVER, NEW, RollingLab, deployed
from tests.unit.spenttime import Spent
from transactions.rules.task_states import TaskState


def bounded(**fields: Any) -> CoreOptions:
    return CoreOptions(strict=True, **fields)


def report(lab: Lab, number: int = 0, *, data: bytes = b"packed", **changes: Any) -> str:
    """Of one of the taskgroups of a lab, or of a predecessor with the same index; returns the id of its task."""
    cluster = lab.core.state.framework.cluster
    task = TaskId(int(lab.now * 1e9) + number, 0, number % 3, "web", "default", cluster)
    fields = {"agent_id": "agent-1", "executor_id": str(task.taskgroup), "task_id": str(task), "data": data, **changes}
    lab.turn(OutputReported(**fields))
    return str(task)


def test_the_output_is_kept_with_its_place(lab_of_three: Lab) -> None:
    lab = lab_of_three
    group = next(iter(lab.core.state.taskgroups.values()))
    task = group.tasks[0]
    lab.turn(OutputReported(agent_id=group.agent_id, executor_id=group.id, task_id=task.id, data=b"packed"))
    (output,) = lab.core.state.outputs.values()
    assert output == FailedOutput(
        id=task.id,
        taskgroup=group.id,
        namespace="default",
        application="web",
        index=group.index,
        name=task.name,
        agent_id=group.agent_id,
        at=lab.now,
        data=b"packed",
    )
    assert lab.core.outputs.kept == (1, 1)


@pytest.fixture
def lab_of_three() -> Lab:
    return running(3)


def test_it_outlives_its_taskgroup_and_the_term(lab_of_three: Lab) -> None:
    task = report(lab_of_three, 7)
    successor = Lab(records=lab_of_three.core.state.records(), now=lab_of_three.now)
    assert list(successor.core.state.outputs) == [task]
    assert successor.core.outputs.kept == (1, 1)
    successor.now += 7 * 86_400.0 - 60.0
    successor.turn()
    assert list(successor.core.state.outputs) == [task]
    successor.now += 120.0
    successor.turn()
    assert not successor.core.state.outputs, "its time is over"


def test_the_newest_of_an_application_are_kept() -> None:
    lab = running(3, bounded(output_keep=2))
    tasks = [report(lab, number) for number in range(5)]
    lab.turn()
    assert list(lab.core.state.outputs) == tasks[-2:]


def test_an_output_that_is_written_again_is_the_newest() -> None:
    lab = running(3, bounded(output_keep=2))
    now, cluster = int(lab.now * 1e9), lab.core.state.framework.cluster
    first, second, third, fourth = (TaskId(now + number, 0, 0, "web", "default", cluster) for number in range(4))

    def reported(task: TaskId) -> OutputReported:
        return OutputReported(agent_id="agent-1", executor_id=str(task.taskgroup), task_id=str(task), data=b"packed")

    for task in (first, second):
        lab.turn(reported(task))
    lab.turn(reported(third), reported(fourth))
    lab.now += 1.0
    lab.turn(reported(second))
    lab.turn()
    assert set(lab.core.state.outputs) == {str(fourth), str(second)}


def test_the_size_in_all_is_bounded() -> None:
    lab = running(3, bounded(output_keep=100, output_keep_total=200))
    tasks = []
    for number in range(10):
        lab.now += 60.0
        tasks.append(report(lab, number, data=bytes(45_000)))  # 61 kB of base64
    lab.turn()
    assert list(lab.core.state.outputs) == tasks[-3:]
    assert lab.core.outputs.kept == (3, 183)


def test_an_output_that_was_just_removed_pushes_out_no_other() -> None:
    lab = running(3, bounded(output_keep=1))
    first = report(lab, 0)
    second = report(lab, 1)
    lab.core.turn_context.uow.delete(lab.core.state.outputs[second])
    lab.turn()
    assert list(lab.core.state.outputs) == [first]


def test_more_than_the_store_can_bear_is_dropped_and_counted() -> None:
    lab = running(3, bounded(output_keep=1000, output_keep_total=100_000))
    for number in range(100):
        report(lab, number, data=bytes(45_000))
    assert len(lab.core.state.outputs) == int(kept_outputs.BURST // 61)
    assert lab.core.outputs.dropped == 100 - len(lab.core.state.outputs)
    lab.now += 61.0 / kept_outputs.RATE + 0.01
    report(lab, 200, data=bytes(45_000))
    assert len(lab.core.state.outputs) == int(kept_outputs.BURST // 61) + 1


def test_what_belongs_to_nobody_is_not_kept(lab_of_three: Lab) -> None:
    lab = lab_of_three
    other = TaskId(1, 0, 0, "other", "default", "c")
    report(lab, task_id=str(other), executor_id=str(other.taskgroup))
    report(lab, task_id="nonsense")
    report(lab, task_id=str(TaskId(1, 0, 0, "web", "default", "c")))
    report(
        lab,
        task_id=f"{int(START * 1e9) - 1}.0.0.web.default.{CLUSTER}",
        executor_id=f"0.web.default.{CLUSTER}.{int(START * 1e9) - 1}",
    )
    assert not lab.core.state.outputs, "the last one is of a deleted application of the same name"
    assert lab.core.outputs.dropped == 2


def test_none_is_kept_if_none_is_wanted() -> None:
    lab = running(3, bounded(output_keep=0))
    report(lab)
    assert not lab.core.state.outputs


def test_the_deletion_of_an_application_removes_its_outputs_and_no_others() -> None:
    lab = running(3)
    report(lab, 7)
    other = FailedOutput(id="other", taskgroup="g", namespace="default", application="api", at=lab.now, data=b"x")
    lab.core.state.apply("application", "default/api", Application(namespace="default", name="api"))
    lab.core.state.apply("output", other.id, other)
    groups = list(lab.core.state.taskgroups.values())
    lab.delete()
    assert len(lab.core.state.outputs) == 2, "the application still has taskgroups"
    for group in groups:
        lab.report(group, "KILLED")
    assert "default/web" not in lab.core.state.applications
    assert list(lab.core.state.outputs) == ["other"]
    lab.create(3)
    assert not lab.core.state.indexes.outputs_of("default/web"), "a new application of this name has no outputs"


def test_outputs_are_removed_in_slices_before_their_application() -> None:
    lab = running(1, bounded(output_keep=1000))
    for number in range(60):
        report(lab, number)
    group = lab.group()
    lab.delete()
    end = StatusUpdate(task_id=group.tasks[0].id, state=TaskState.KILLED, agent_id=group.agent_id, uuid=b"end")
    lab.core.turn((end,), lab.now, Spent())
    seen = []
    while "default/web" in lab.core.state.applications:
        seen.append(len(lab.core.state.outputs))
        lab.core.turn((), lab.now, Spent())
        assert len(seen) < 1000
    assert len(set(seen)) > 10, "the removal takes many turns"
    assert seen == sorted(seen, reverse=True)
    assert not lab.core.state.outputs


def test_an_output_without_an_application_is_removed_by_the_next_leader(lab_of_three: Lab) -> None:
    task = report(lab_of_three, 7)
    left = FailedOutput(id="left", taskgroup="g", namespace="default", application="gone", at=lab_of_three.now)
    successor = Lab(records=[*lab_of_three.core.state.records(), left], now=lab_of_three.now)
    assert list(successor.core.state.outputs) == [task]


def asked(lab: Lab) -> list[tuple[str, str, str]]:
    return [(fetch.agent_id, fetch.executor_id, fetch.task_id) for fetch in lab.sent(FetchOutput)]


@pytest.mark.parametrize(
    ("state", "fields"), [("FAILED", {}), ("GONE", {}), ("LOST", {}), ("KILLED", {"healthy": False})]
)
def test_the_output_of_a_task_that_failed_is_fetched_once(state: str, fields: dict[str, Any]) -> None:
    lab = running(1)
    group = lab.group()
    place = group.agent_id, group.id, group.tasks[0].id
    lab.report(group, state, **fields)
    assert asked(lab) == [place]
    lab.report(group, state, **fields)
    assert asked(lab) == []
    answer = OutputReported(
        agent_id=group.agent_id, executor_id=group.id, task_id=group.tasks[0].id, name="x", data=b"read", fetched=True
    )
    lab.turn(answer)
    assert lab.core.state.outputs[group.tasks[0].id].data == b"read"


def test_no_output_is_fetched_that_the_executor_has_sent() -> None:
    lab = running(1)
    group = lab.group()
    sent = OutputReported(agent_id=group.agent_id, executor_id=group.id, task_id=group.tasks[0].id, data=b"sent")
    lab.turn(sent)
    lab.report(group, "FAILED")
    assert asked(lab) == []
    lab.turn(OutputReported(agent_id="a", executor_id=group.id, task_id=group.tasks[0].id, data=b"read", fetched=True))
    assert lab.core.state.outputs[group.tasks[0].id].data == b"sent", "with order and times"


@pytest.mark.parametrize("state", ["RUNNING", "FINISHED", "KILLED", "UNREACHABLE", "UNKNOWN"])
def test_no_output_is_fetched_of_tasks_that_have_not_failed_or_whose_agent_is_away(state: str) -> None:
    lab = running(1)
    lab.report(lab.group(), state)
    assert asked(lab) == []


def test_no_output_is_fetched_of_tasks_that_never_started_or_were_to_end() -> None:
    lab = Lab()
    lab.offer()
    lab.create(1)
    lab.report(lab.group(), "FAILED")
    assert asked(lab) == []
    lab = running(1)
    group = lab.group()
    lab.delete()
    lab.report(group, "FAILED")
    assert asked(lab) == []


PAIR = (Container(name="a", command="a", requests=Amounts(cpus=100)), Container(name="b", command="b"))


@pytest.mark.parametrize("end", ["KILLED", "FAILED"])
def test_the_output_of_tasks_that_end_with_a_failed_one_is_fetched(end: str) -> None:
    """Mesos's executor kills the other tasks of the group; the scheduler asks for their end as well."""
    lab = running(1, containers=PAIR)
    group = lab.group()
    lab.report(group, "FAILED", tasks=[0])
    assert asked(lab) == [(group.agent_id, group.id, group.tasks[0].id)]
    lab.report(lab.core.state.taskgroups[group.id], end, tasks=[1])
    assert asked(lab) == [(group.agent_id, group.id, group.tasks[1].id)]


@pytest.mark.parametrize("first", ["FINISHED", "KILLED"])
def test_no_output_is_fetched_of_tasks_that_end_with_one_that_has_not_failed(first: str) -> None:
    lab = running(1, containers=PAIR)
    group = lab.group()
    lab.report(group, first, tasks=[0])
    lab.report(lab.core.state.taskgroups[group.id], "KILLED", tasks=[1])
    assert asked(lab) == []


def test_no_output_is_fetched_of_tasks_whose_end_was_requested_before_another_one_failed() -> None:
    lab = running(1, containers=PAIR)
    group = lab.group()
    lab.delete()
    lab.report(lab.core.state.taskgroups[group.id], "FAILED", tasks=[0])
    lab.report(lab.core.state.taskgroups[group.id], "KILLED", tasks=[1])
    assert asked(lab) == []


def test_no_output_is_fetched_if_none_is_kept() -> None:
    lab = running(1, bounded(output_keep=0))
    lab.report(lab.group(), "FAILED")
    assert asked(lab) == []


def test_the_name_of_the_task_is_kept_although_its_taskgroup_is_replaced() -> None:
    lab = running(1)
    number = int(lab.now * 1e9) + 5
    task = TaskId(number, 0, 0, "web", "default", lab.core.state.framework.cluster)
    gone = OutputReported(
        agent_id="a", executor_id=str(task.taskgroup), task_id=str(task), name="server", data=b"x", fetched=True
    )
    lab.turn(gone)
    assert lab.core.state.outputs[str(task)].name == "server"


# --- of deployments ---------------------------------------------------------------------------------------------------


def update_that_fails(lab: RollingLab) -> tuple[str, str]:
    """An update that goes back; returns the id of the task that failed, and the key of the application it was in."""
    lab.renew(3, **NEVER, **NEW)
    lab.offer()
    group = lab.new[0]
    task = group.tasks[0].id
    lab.turn(OutputReported(agent_id=group.agent_id, executor_id=group.id, task_id=task, data=b"why"))
    lab.report(group, "FAILED", message="boom")
    lab.run()
    assert (lab.deployment.status, lab.deployment.updating) == ("Running", False)
    assert group.application_key not in lab.core.state.applications
    return task, group.application_key


def deployed_side(**fields: Any) -> RollingLab:
    return deployed(3, Strategy(on_failure="rollback"), CoreOptions(strict=True, **fields))


def test_the_output_of_an_update_that_went_back_stays_with_its_deployment() -> None:
    lab = deployed_side()
    deployment = lab.deployment.key
    task, side = update_that_fails(lab)
    output = lab.core.state.outputs[task]
    assert (output.owner, output.data) == (("deployment", deployment), b"why")
    lab = lab.succeed()
    lab.turn()
    assert list(lab.core.state.outputs) == [task], "the next leader does not remove it"
    lab.now += 7 * 86_400.0 + 60.0
    lab.turn()
    assert not lab.core.state.outputs, "its time is over"
    assert not lab.core.state.indexes.outputs_of(side)
    assert not lab.core.state.indexes.outputs_of_deployment(deployment)


def test_the_outputs_of_all_applications_of_a_deployment_are_bounded_together() -> None:
    lab = deployed_side(output_keep=2)
    tasks = [update_that_fails(lab)[0] for _ in range(4)]
    lab.turn()
    assert list(lab.core.state.outputs) == tasks[-2:]


def test_the_deletion_of_a_deployment_removes_the_outputs_of_all_its_applications() -> None:
    lab = deployed_side()
    deployment = lab.deployment.key
    update_that_fails(lab)
    group = lab.groups[0]
    lab.turn(OutputReported(agent_id="a", executor_id=group.id, task_id=group.tasks[0].id, data=b"present"))
    assert len(lab.core.state.outputs) == 2
    groups = list(lab.core.state.taskgroups.values())
    lab.remove()
    for gone in groups:
        lab.report(gone, "KILLED")
    lab.run_applications()
    assert deployment not in lab.core.state.deployments
    assert not lab.core.state.outputs
