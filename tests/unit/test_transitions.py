"""Which status may follow which (transactions/transitions.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import msgspec
import pytest

from store.records import (
    Application,
    ApplicationStatus,
    Daemonset,
    Deployment,
    Event,
    EventLog,
    Note,
    Task,
    TaskGroup,
    TaskGroupStatus,
    Transaction,
    TransactionStatus,
)
from store.records.workloads import DaemonsetStatus, DeploymentStatus
from store.state import State
from store.state.unit_of_work import UnitOfWork
from transactions import transitions
from transactions.rules.lifecycle import STATES, Report, reduce_task, taskgroup_status
from transactions.rules.task_states import TaskState
from transactions.transitions import RULES, TABLES, InvalidTransition

ROOT = Path(__file__).resolve().parents[2]
STATUSES: dict[str, Any] = {
    "transaction": TransactionStatus,
    "taskgroup": TaskGroupStatus,
    "application": ApplicationStatus,
    "deployment": DeploymentStatus,
    "daemonset": DaemonsetStatus,
}


def transaction(**fields: Any) -> Transaction:
    given = {"id": "t-1", "type": "LAUNCH", "namespace": "shop", "application": "web"} | fields
    return Transaction(created_at=1.0, due_at=1.0, deadline=9.0, **given)


def application(**fields: Any) -> Application:
    return Application(namespace="shop", name="web", **fields)


def unit(*records: Any) -> UnitOfWork:
    return UnitOfWork(State(records), transitions=RULES)


# --- the tables ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TABLES)
def test_tables_name_every_status_and_nothing_else(kind: str) -> None:
    named = {status for pair in TABLES[kind] for status in pair} - {""}
    assert named == set(get_args(STATUSES[kind]))
    assert not [pair for pair in TABLES[kind] if pair[0] == pair[1]]


@pytest.mark.parametrize("kind", TABLES)
def test_every_status_can_be_reached_and_left(kind: str) -> None:
    reached, before = {""}, set[str]()
    while reached != before:
        before, reached = reached, reached | {to for at, to in TABLES[kind] if at in reached}
    assert reached == set(get_args(STATUSES[kind])) | {""}
    assert all(any(at == status for at, _ in TABLES[kind]) for status in reached)


Kind = tuple[str, bool]
RESTARTING: Any = SimpleNamespace(
    pid=0, container_id="", container_ip="", exit_code=None, oom=False, restarting=True, started_at=0.0,
    finished_at=0.0, checks=(),
)  # fmt: skip


def following(kind: Kind) -> set[Kind]:
    """Status and end of a task after every report that there is, and after it was declared lost."""
    task = Task(id="x", status=kind[0], ended=kind[1])  # type: ignore[arg-type]
    reports = [Report(state) for state in STATES] + [Report(TaskState.RUNNING, detail=RESTARTING)]
    found = {(after.status, after.ended) for after in (reduce_task(task, report, 1.0) for report in reports)}
    return found | ({("Lost", True), ("Lost", False)} if not task.ended else set())


def status_of(tasks: tuple[Kind, ...]) -> str:
    return taskgroup_status([Task(id="x", status=status, ended=ended) for status, ended in tasks])[0]  # type: ignore[arg-type]


def moves(tasks: tuple[Kind, ...]) -> Iterator[tuple[Kind, ...]]:
    for number, task in enumerate(tasks):
        for after in following(task):
            yield tuple(sorted((*tasks[:number], after, *tasks[number + 1 :])))
    for ended in (True, False):
        yield tuple(sorted(task if task[1] else ("Lost", ended) for task in tasks))


def test_the_table_of_taskgroups_is_what_follows_from_the_reports_of_their_tasks() -> None:
    """Every change that reports can cause in taskgroups of up to three tasks is in the table, and nothing else is."""
    found: set[tuple[str, str]] = set()
    for size in (1, 2, 3):
        start: tuple[Kind, ...] = (("Staging", False),) * size
        known, waiting = {start}, [start]
        while waiting:
            tasks = waiting.pop()
            for after in set(moves(tasks)):
                found.add((status_of(tasks), status_of(after)))
                if after not in known:
                    known.add(after)
                    waiting.append(after)
    assert {pair for pair in found if pair[0] != pair[1]} == {pair for pair in TABLES["taskgroup"] if all(pair)}


def test_the_documentation_shows_the_tables() -> None:
    assert "\n".join(line for kind in TABLES for line in lines_of(kind)) in (ROOT / "docs/architecture.md").read_text()


def lines_of(kind: str) -> Iterator[str]:
    """The lines that docs/architecture.md must have: statuses that may become the same ones share a line."""
    table = [(before or "(none)", after or "(none)") for before, after in sorted(TABLES[kind])]
    statuses = sorted({status for pair in table for status in pair})
    starts: dict[str, list[str]] = {}
    for start in dict.fromkeys(before for before, _ in table):
        after = [status for status in statuses if (start, status) in table]
        rest = [status for status in statuses if status not in (*after, start)]
        words = ", ".join(after) if len(after) <= len(rest) + 1 else f"all but {', '.join(rest)}"
        starts.setdefault(words if rest else "all others", []).append(start)
    for words, before in starts.items():
        yield f"{kind:<12} {', '.join(before):<61} {words}"


# --- the check ----------------------------------------------------------------------------------------------------


def test_what_the_table_allows_is_stored() -> None:
    uow = unit()
    uow.put(transaction())
    uow.put(transaction(status="FINISH"))
    uow.put(transaction(status="FINISH", message="other words, same status"))
    uow.delete(transaction(status="FINISH"))
    assert not uow.state.transactions


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (transaction(status="FINISH"), transaction(status="INIT")),
        (transaction(status="FINISH"), transaction(status="FAIL")),
        (application(status="RollingUpdate"), application(status="Running")),
        (Deployment(namespace="shop", name="d", status="Deleting"), Deployment(namespace="shop", name="d")),
        (Daemonset(namespace="shop", name="d", status="Deleting"), Daemonset(namespace="shop", name="d")),
        (Deployment(namespace="shop", name="d", status="UpdatePaused"),
         Deployment(namespace="shop", name="d", status="Running")),
    ],
)  # fmt: skip
def test_an_illegal_change_is_refused_and_nothing_is_changed(before: Any, after: Any) -> None:
    uow = unit(before)
    with pytest.raises(InvalidTransition) as caught:
        uow.put(after)
    error = caught.value
    assert (error.kind, error.key, error.before, error.after) == (before.kind, before.key, before.status, after.status)
    assert uow.state.get(before.kind, before.key) == before and uow.empty


def test_a_record_cannot_begin_or_go_in_any_status() -> None:
    uow = unit(transaction())
    with pytest.raises(InvalidTransition, match="transaction t-1 cannot change from INIT to nothing"):
        uow.delete(transaction())
    with pytest.raises(InvalidTransition, match="from nothing to FINISH"):
        unit().put(transaction(status="FINISH"))
    assert uow.state.transactions and uow.empty


def test_undoing_is_no_transition() -> None:
    uow = unit(transaction())
    uow.put(transaction(status="FINISH"))
    uow.rollback()
    assert uow.state.transactions["t-1"].active


def test_a_unit_of_work_without_tables_checks_nothing() -> None:
    uow = UnitOfWork(State([transaction(status="FINISH")]))
    assert uow.put(transaction()).active


def test_the_error_carries_the_story_of_the_object() -> None:
    history = tuple(Note(at=1_700_000_000.0 + n, text=f"line {n}") for n in range(20))
    with pytest.raises(InvalidTransition) as caught:
        unit(transaction(status="FAIL", history=history)).put(transaction())
    assert caught.value.history[0] == "1700000010.000 line 10"
    assert len(caught.value.history) == transitions.HISTORY_LINES and caught.value.history[-1].endswith("line 19")

    def told(number: int, key: str) -> Event:
        return Event(
            number=number, at=1_700_000_000.0, object="application", key=key, namespace="shop",
            reason="ApplicationRunning", message=f"event {number}",
        )  # fmt: skip

    runs = [EventLog(number=n, events=(told(n, "shop/web"), told(n + 1, "shop/other"))) for n in (1, 65)]
    with pytest.raises(InvalidTransition) as caught:
        unit(application(status="RollingUpdate"), *runs).put(application(status="Running"))
    assert [line.partition(" ")[2] for line in caught.value.history] == [
        "ApplicationRunning: event 1", "ApplicationRunning: event 65",
    ]  # fmt: skip
    assert "event 65" in str(caught.value) and "event 65" not in caught.value.change


def test_a_taskgroup_that_has_ended_stays_so() -> None:
    group = TaskGroup(
        id="0.web.shop.demo.1", namespace="shop", application="web", index=0, version="1", status="Failed"
    )
    with pytest.raises(InvalidTransition, match="from Failed to Running"):
        unit(group).put(msgspec.structs.replace(group, status="Running"))
