"""The journal: every event is numbered once, durable together with what it tells of, and kept for its time."""

from __future__ import annotations

import msgspec
import pytest

from bcs_scheduler.core import effects, events, journal
from bcs_scheduler.core.desk import CoreOptions
from store.records import Happening, Journal
from store.state import State
from store.unit_of_work import Unit, UnitOfWork
from tests.unit.lab import KEY, START, Lab, running, version


def happenings(lab: Lab) -> list[Happening]:
    state = lab.core.state
    return [happening for key in sorted(state.journals) for happening in state.journals[key].happenings]


def told(lab: Lab, kind: str) -> list[str]:
    """Reasons of the events of a kind, in order."""
    return [happening.reason for happening in happenings(lab) if happening.object == kind]


def test_the_life_of_an_application_in_order() -> None:
    lab = running(1)
    (group,) = lab.groups
    lab.report(group, "TASK_FAILED", message="out of luck")
    assert told(lab, "transaction")[:2] == ["begin", "finish"]
    assert told(lab, "taskgroup")[:3] == ["placed", "Running", "Failed"]
    assert [happening.number for happening in happenings(lab)] == list(range(1, len(happenings(lab)) + 1))
    placed = next(happening for happening in happenings(lab) if happening.reason == "placed")
    (launch,) = [t for t in lab.core.state.transactions.values() if t.type == "LAUNCH"]
    assert (placed.key, placed.namespace, placed.transaction) == (group.id, "default", launch.id)
    failed = next(happening for happening in happenings(lab) if happening.reason == "Failed")
    assert failed.level == "warning"
    assert "out of luck" in failed.message


def test_what_a_transaction_does_names_the_cause_of_the_transaction() -> None:
    lab = Lab()
    lab.offer()
    lab.ask(events.CreateApplication(version=version(1), cause="api-17"))
    placed = next(happening for happening in happenings(lab) if happening.reason == "placed")
    assert placed.cause == "api-17"


def test_steps_on_the_way_are_no_events() -> None:
    lab = running(1)
    (group,) = lab.groups
    lab.delete()
    lab.report(group, "TASK_KILLING")
    lab.turn(events.TasksReported(agent_id="agent-1", executor_id="0.gone.default.Unnamed.1", tasks=()))
    assert {"Starting", "Staging", "Killing", "unknown"}.isdisjoint(told(lab, "taskgroup"))
    assert "kill" in told(lab, "taskgroup")


def test_an_event_is_in_the_unit_that_changes_what_it_tells_of() -> None:
    lab = Lab()
    lab.offer()
    units = lab.core.turn([events.CreateApplication(version=version(3), token=1)], lab.now)
    for unit in units:
        told = [h for effect in unit.effects if isinstance(effect, effects.Happened) for h in effect.happenings]
        runs = [change.record for change in unit.changes if isinstance(change.record, Journal)]
        assert {h.number for h in told} <= {h.number for run in runs for h in run.happenings}
        placed = {h.key for h in told if h.reason == "placed"}
        assert placed == {change.key for change in unit.changes if change.kind == "taskgroup"}


def test_a_successor_goes_on_counting_in_the_same_run() -> None:
    lab = running(2)
    before = happenings(lab)
    successor = lab.succeed()
    successor.offer()
    successor.scale(3)
    after = happenings(successor)
    assert after[: len(before)] == before
    assert [happening.number for happening in after] == list(range(1, len(after) + 1))
    assert len(successor.core.state.journals) == 1


def test_what_is_refused_or_planned_leaves_no_event() -> None:
    lab = running(1)
    count = len(happenings(lab))
    assert lab.scale(-1).error
    lab.ask(events.ScaleApplication(namespace="default", name="web", instances=5, dry_run=True))
    assert len(happenings(lab)) == count
    lab.scale(2)
    assert [happening.number for happening in happenings(lab)] == list(range(1, len(happenings(lab)) + 1))


def test_runs_are_closed_and_never_written_again() -> None:
    lab = Lab()
    lab.offer(ports=(31000, 31999), cpus=1_000_000)
    lab.create(150)
    closed = dict(sorted(lab.core.state.journals.items())[:-1])
    assert closed
    assert all(len(run.happenings) == journal.RUN for run in closed.values())
    lab.run()
    assert {key: lab.core.state.journals[key] for key in closed} == closed


def test_a_run_is_closed_by_its_size_too() -> None:
    state = State()
    uow, scribe = UnitOfWork(state), journal.Scribe(state)
    units: list[Unit | None] = []
    for number in range(60):
        uow.effect(effects.Story(kind="service", key=f"shop/{number}", reason="unavailable", message="x" * 5_000))
        scribe.write(uow, START)
        units.append(uow.cut())
    sizes = [len(msgspec.json.encode(run)) for run in state.journals.values()]
    assert len(sizes) > 1
    assert max(sizes) < journal.RUN_BYTES + journal.LONGEST + 500
    messages = [happening.message for run in state.journals.values() for happening in run.happenings]
    assert {len(message) for message in messages} == {journal.LONGEST}


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
    uow.effect(effects.Story(kind=kind, key=key, reason="updated", message=""))
    journal.Scribe(state).write(uow, START)
    (run,) = state.journals.values()
    assert [happening.namespace for happening in run.happenings] == [namespace]


def test_an_error_is_told_without_its_words() -> None:
    lab = Lab(CoreOptions(strict=False))

    def fail() -> None:
        raise ValueError("the password is hunter2")

    lab.core.desk.attempt("application", KEY, fail)
    lab.core.desk.attempt("core", "janitor", fail)
    lab.turn()
    (found,) = [happening for happening in happenings(lab) if happening.reason == "error"]
    assert (found.level, found.key) == ("error", KEY)
    assert "ValueError" in found.message
    assert "hunter2" not in found.message


def test_agents_that_come_and_go_are_told_but_not_the_first_list() -> None:
    lab = Lab()

    def listed(*numbers: int) -> events.AgentsListed:
        agents = [{"id": f"a{n}", "ip": f"10.0.0.{n}", "hostname": f"host-{n}", "total": {}} for n in numbers]
        return events.AgentsListed(agents=tuple(agents))

    lab.turn(listed(1, 2))
    assert told(lab, "agent") == []
    lab.turn(listed(2, 3))
    agents = {(happening.key, happening.reason) for happening in happenings(lab) if happening.object == "agent"}
    assert agents == {("10.0.0.3", "joined"), ("10.0.0.1", "left")}


def test_runs_that_are_too_old_are_removed_but_for_the_newest() -> None:
    lab = Lab(CoreOptions(strict=True, events_retention=100.0))
    lab.offer(ports=(31000, 31999), cpus=1_000_000)
    lab.create(150)
    lab.run()
    newest = max(lab.core.state.journals)
    last = happenings(lab)[-1].number
    lab.wait(300)
    assert list(lab.core.state.journals) == [newest]
    lab.scale(151)
    assert happenings(lab)[-1].number > last


def test_only_so_many_events_are_kept() -> None:
    lab = Lab(CoreOptions(strict=True, events_keep=journal.RUN))
    lab.offer(ports=(31000, 31999), cpus=1_000_000)
    lab.create(300)
    lab.run()
    lab.wait(60)
    assert journal.RUN <= len(happenings(lab)) < 3 * journal.RUN
