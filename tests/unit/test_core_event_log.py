"""The event log: every event is numbered once, durable with the change that it reports, and kept for its time."""

from __future__ import annotations

import msgspec
import pytest

from bcs_scheduler.core import event_log
from bcs_scheduler.core.interface import cluster_manager, effects, requests
from bcs_scheduler.core.options import CoreOptions
from offers.agents import ListedAgent
from store.records import Event, EventLog
from store.state import State
from store.state.unit_of_work import Unit, UnitOfWork
from tests.unit.lab import KEY, START, Lab, running, version


def events(lab: Lab) -> list[Event]:
    state = lab.core.state
    return [event for key in sorted(state.event_logs) for event in state.event_logs[key].events]


def told(lab: Lab, kind: str) -> list[str]:
    """Reasons of the events of a kind, in order."""
    return [event.reason for event in events(lab) if event.object == kind]


def test_the_life_of_an_application_in_order() -> None:
    lab = running(1)
    (group,) = lab.groups
    lab.report(group, "FAILED", message="out of luck")
    assert told(lab, "transaction")[:2] == ["TransactionStarted", "TransactionFinished"]
    assert told(lab, "taskgroup")[:3] == ["TaskGroupPlaced", "TaskGroupRunning", "TaskGroupFailed"]
    assert [event.number for event in events(lab)] == list(range(1, len(events(lab)) + 1))
    placed = next(event for event in events(lab) if event.reason == "TaskGroupPlaced")
    (launch,) = [t for t in lab.core.state.transactions.values() if t.type == "LAUNCH"]
    assert (placed.key, placed.namespace, placed.transaction) == (group.id, "default", launch.id)
    failed = next(event for event in events(lab) if event.reason == "TaskGroupFailed")
    assert failed.level == "warning"
    assert "out of luck" in failed.message


def test_what_a_transaction_does_names_the_cause_of_the_transaction() -> None:
    lab = Lab()
    lab.offer()
    lab.ask(requests.CreateApplication(version=version(1), cause="api-17"))
    placed = next(event for event in events(lab) if event.reason == "TaskGroupPlaced")
    assert placed.cause == "api-17"


def test_steps_on_the_way_are_no_events() -> None:
    lab = running(1)
    (group,) = lab.groups
    lab.delete()
    lab.report(group, "KILLING")
    lab.turn(cluster_manager.TasksReported(agent_id="agent-1", executor_id="0.gone.default.Unnamed.1", tasks=()))
    assert {"TaskGroupStarting", "TaskGroupStaging", "TaskGroupKilling", "TaskGroupNotWanted"}.isdisjoint(
        told(lab, "taskgroup")
    )
    assert "TaskGroupEnding" in told(lab, "taskgroup")


def test_an_event_is_in_the_unit_that_changes_what_it_tells_of() -> None:
    lab = Lab()
    lab.offer()
    units = lab.core.turn([requests.CreateApplication(version=version(3), token=1)], lab.now)
    for unit in units:
        told = [h for effect in unit.effects if isinstance(effect, effects.EventsRecorded) for h in effect.events]
        runs = [change.record for change in unit.changes if isinstance(change.record, EventLog)]
        assert {h.number for h in told} <= {h.number for run in runs for h in run.events}
        placed = {h.key for h in told if h.reason == "TaskGroupPlaced"}
        assert placed == {change.key for change in unit.changes if change.kind == "taskgroup"}


def test_a_successor_goes_on_counting_in_the_same_run() -> None:
    lab = running(2)
    before = events(lab)
    successor = lab.succeed()
    successor.offer()
    successor.scale(3)
    after = events(successor)
    assert after[: len(before)] == before
    assert [event.number for event in after] == list(range(1, len(after) + 1))
    assert len(successor.core.state.event_logs) == 1


def test_what_is_refused_or_planned_leaves_no_event() -> None:
    lab = running(1)
    count = len(events(lab))
    assert lab.scale(-1).error
    lab.ask(requests.ScaleApplication(namespace="default", name="web", instances=5, dry_run=True))
    assert len(events(lab)) == count
    lab.scale(2)
    assert [event.number for event in events(lab)] == list(range(1, len(events(lab)) + 1))


def test_runs_are_closed_and_never_written_again() -> None:
    lab = Lab()
    lab.offer(ports=(31000, 31999), cpus=1_000_000)
    lab.create(150)
    closed = dict(sorted(lab.core.state.event_logs.items())[:-1])
    assert closed
    assert all(len(run.events) == event_log.RUN for run in closed.values())
    lab.run()
    assert {key: lab.core.state.event_logs[key] for key in closed} == closed


def test_a_run_is_closed_by_its_size_too() -> None:
    state = State()
    uow, recorder = UnitOfWork(state), event_log.EventRecorder(state)
    units: list[Unit | None] = []
    for number in range(60):
        uow.effect(
            effects.LogLine(kind="service", key=f"shop/{number}", reason="ServiceUnavailable", message="x" * 5_000)
        )
        recorder.write(uow, START)
        units.append(uow.cut())
    sizes = [len(msgspec.json.encode(run)) for run in state.event_logs.values()]
    assert len(sizes) > 1
    assert max(sizes) < event_log.RUN_BYTES + event_log.LONGEST + 500
    messages = [event.message for run in state.event_logs.values() for event in run.events]
    assert {len(message) for message in messages} == {event_log.LONGEST}


@pytest.mark.parametrize(
    ("kind", "key", "namespace"),
    [
        ("taskgroup", "0.web.shop.demo.17", "shop"),
        ("task", "17.0.0.web.shop.demo", "shop"),
        ("application", "shop/web", "shop"),
        ("deployment", "shop/web", "shop"),
        ("secret", "shop/keys", "shop"),
        ("customobject", "Certificate/shop/web", "shop"),
        ("namespace", "shop", "shop"),
        ("agent", "10.0.0.1", ""),
        ("customkind", "Certificate", ""),
        ("transaction", "application-1", ""),
        ("taskgroup", "odd", ""),
    ],
)
def test_namespaces_follow_from_keys(kind: str, key: str, namespace: str) -> None:
    state = State()
    uow = UnitOfWork(state)
    uow.effect(effects.LogLine(kind=kind, key=key, reason="InternalError", message=""))
    event_log.EventRecorder(state).write(uow, START)
    (run,) = state.event_logs.values()
    assert [event.namespace for event in run.events] == [namespace]


def test_an_error_is_told_without_its_words() -> None:
    lab = Lab(CoreOptions(strict=False))

    def fail() -> None:
        raise ValueError("the password is hunter2")

    lab.core.turn_context.attempt("application", KEY, fail)
    lab.core.turn_context.attempt("core", "garbagecollector", fail)
    lab.turn()
    (found,) = [event for event in events(lab) if event.reason == "InternalError"]
    assert (found.level, found.key) == ("error", KEY)
    assert "ValueError" in found.message
    assert "hunter2" not in found.message


def test_agents_that_come_and_go_are_told_but_not_the_first_list() -> None:
    lab = Lab()

    def listed(*numbers: int) -> cluster_manager.AgentsListed:
        agents = [ListedAgent(id=f"a{n}", ip=f"10.0.0.{n}", hostname=f"host-{n}", total={}) for n in numbers]
        return cluster_manager.AgentsListed(agents=tuple(agents))

    lab.turn(listed(1, 2))
    assert told(lab, "agent") == []
    lab.turn(listed(2, 3))
    agents = {(event.key, event.reason) for event in events(lab) if event.object == "agent"}
    assert agents == {("10.0.0.3", "AgentJoined"), ("10.0.0.1", "AgentLeft")}


def test_runs_that_are_too_old_are_removed_but_for_the_newest() -> None:
    lab = Lab(CoreOptions(strict=True, events_retention=100.0))
    lab.offer(ports=(31000, 31999), cpus=1_000_000)
    lab.create(150)
    lab.run()
    newest = max(lab.core.state.event_logs)
    last = events(lab)[-1].number
    lab.wait(300)
    assert list(lab.core.state.event_logs) == [newest]
    lab.scale(151)
    assert events(lab)[-1].number > last


def test_only_so_many_events_are_kept() -> None:
    lab = Lab(CoreOptions(strict=True, events_keep=event_log.RUN))
    lab.offer(ports=(31000, 31999), cpus=1_000_000)
    lab.create(300)
    lab.run()
    lab.wait(60)
    assert event_log.RUN <= len(events(lab)) < 3 * event_log.RUN
