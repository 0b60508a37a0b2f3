"""What a core holds does not grow with what has happened: records, timers, indexes and objects of any type."""

from __future__ import annotations

import gc
from collections import Counter, deque
from collections.abc import Iterator

import msgspec
import pytest

from bcs_scheduler.core.interface import cluster_manager
from bcs_scheduler.core.options import CoreOptions
from offers import agents
from offers.agents import ListedAgent
from store.records import Transaction
from tests.counting import lines
from tests.unit.lab import KEY, Lab, running
from transactions.base import Options, Periods
from transactions.engine.wakeups import SLACK, Wakeups

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

OPTIONS = CoreOptions(strict=True, events_keep=2_000)
GROUPS = 10
PAUSE = 61.0
"""Seconds: longer than any restart of a crash loop is held back."""
OURS = ("bcs_scheduler", "store", "offers", "transactions")


def failures(lab: Lab, count: int) -> None:
    """So many failures one after the other, each replaced."""
    for number in range(count):
        lab.report(lab.groups[number % GROUPS], "FAILED")
        lab.now += PAUSE
        lab.turn()
        lab.offer()
        for group in lab.groups:
            if not group.ended and not group.started:
                lab.report(group, "RUNNING")


def objects() -> Counter[str]:
    gc.collect()
    return Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())


def containers(root: object) -> dict[str, int]:
    """Length of every container that can be reached from an object of ours, by its path."""
    return {path: len(found) for path, found in _containers(root, "core", set())}  # type: ignore[arg-type]


def _containers(one: object, path: str, seen: set[int]) -> Iterator[tuple[str, object]]:
    if id(one) in seen or isinstance(one, msgspec.Struct | type):
        return
    seen.add(id(one))
    if isinstance(one, dict | list | set | deque):
        yield path, one
        return
    if not type(one).__module__.startswith(OURS):
        return
    names = [*getattr(one, "__dict__", {}), *getattr(type(one), "__slots__", ())]
    for name in names:
        yield from _containers(getattr(one, name, None), f"{path}.{name}", seen)


def grown(before: dict[str, int] | Counter[str], after: dict[str, int] | Counter[str], slack: int) -> dict[str, int]:
    return {name: after[name] - before.get(name, 0) for name in after if after[name] - before.get(name, 0) > slack}


def test_thousands_of_failures_of_a_crash_loop_leave_no_more_than_one_thousand_and_cost_no_more() -> None:
    lab = running(GROUPS, OPTIONS)
    failures(lab, 1_000)
    records, held, known = Counter(r.kind for r in lab.records()), containers(lab.core), objects()
    early = lines(lambda: failures(lab, 50))
    failures(lab, 2_900)
    late = lines(lambda: failures(lab, 50))
    assert grown(records, Counter(r.kind for r in lab.records()), 40) == {}
    assert grown(held, containers(lab.core), 2 * SLACK) == {}
    assert grown(known, objects(), 1_000) == {}
    assert late < 1.1 * early, (early, late)
    assert all(group.status == "Running" for group in lab.groups)


def test_a_core_that_does_everything_holds_no_more_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Applications come and go, versions and sizes change, agents join and leave."""
    monkeypatch.setattr(agents, "REMEMBERED", 20)
    periods = Periods(retention=600.0)
    options = CoreOptions(strict=True, events_keep=500, transactions=Options(periods=periods, version_history=3))
    lab = running(2, options)
    everything(lab, 0, 60)
    held, known = containers(lab.core), objects()
    everything(lab, 60, 240)
    assert grown(held, containers(lab.core), 2 * SLACK) == {}
    assert grown(known, objects(), 600) == {}


def everything(lab: Lab, first: int, last: int) -> None:
    for number in range(first, last):
        agent = f"agent-{number}"
        listed = ListedAgent(id=agent, ip=agent, hostname=agent, attributes={}, total={"cpus": 1, "mem": 1})
        lab.turn(cluster_manager.AgentsListed(agents=(listed,)))
        lab.offer(agent)
        lab.scale(3)
        lab.run()
        lab.scale(2)
        lab.run()
        lab.update(2, labels={"revision": str(number)})
        lab.run()
        lab.report(lab.group(0), "FAILED")
        lab.now += PAUSE
        lab.turn()
        lab.offer()
        lab.run()
        lab.turn(cluster_manager.AgentRemoved(agent_id=agent))
        lab.delete()
        lab.run()
        lab.turn()
        assert KEY not in lab.core.state.applications
        lab.create(2)
        lab.offer()
        lab.run()


def test_a_crash_loop_pushes_out_its_own_restarts_and_nothing_else() -> None:
    lab = running(GROUPS, CoreOptions(strict=True, transactions=Options(keep_each=5)))
    launch = lab.transaction("LAUNCH")
    failures(lab, 20)
    lab.turn()
    kept = [t for t in lab.core.state.transactions.values() if not t.active]
    restarts = sorted((t for t in kept if t.type == "RESCHEDULE"), key=lambda t: t.finished_at)
    assert len(restarts) == 5
    assert restarts[-1].finished_at == max(t.finished_at for t in kept)
    assert launch in kept


def test_ended_transactions_are_bounded_in_all() -> None:
    options = CoreOptions(strict=True, transactions=Options(keep_each=50, keep_total=7))
    lab = running(GROUPS, options)
    failures(lab, 20)
    lab.turn()
    assert sum(not t.active for t in lab.core.state.transactions.values()) == 7


def test_a_successor_removes_what_is_too_much_in_turns_of_bounded_size() -> None:
    lab = running(1)
    ended = [
        Transaction(
            id=f"application-{number}", type="RESCHEDULE", namespace="default", application="web", status="FINISH",
            created_at=lab.now - 100, due_at=lab.now, deadline=lab.now, finished_at=lab.now - 100 + number / 100,
            inner=True,
        )
        for number in range(1, 2_001)
    ]  # fmt: skip
    after = Lab(lab.options, [*lab.records(), *ended], lab.now)
    sizes = []
    for _ in range(6):
        after.now += 1.0
        units = after.core.turn((), after.now)
        sizes.append(sum(change.record is None for unit in units for change in unit.changes))
    assert max(sizes) <= 500
    left = [t.id for t in after.core.state.transactions.values() if t.inner]
    assert sorted(left) == sorted(t.id for t in ended[-50:])


# --- timers -----------------------------------------------------------------------------------------------------------


def test_cancelled_timers_leave_the_heap() -> None:
    timers = Wakeups()
    for number in range(100):
        timers.add(1_000.0 + number, f"live-{number}")
    for number in range(10_000):
        timers.add(2_000.0, f"t-{number}")
        timers.add(3_000.0, f"t-{number}")
        timers.cancel(f"t-{number}")
        assert len(timers) <= 2 * 100 + SLACK + 2
    assert timers.next() == 1_000.0
    assert len(timers.due(5_000.0)) == 100
    assert (timers.next(), len(timers)) == (None, 0)


def test_a_timer_is_due_once_and_may_be_set_again() -> None:
    timers = Wakeups()
    timers.add(5.0, "a")
    timers.add(5.0, "a")
    timers.add(7.0, "a")
    assert timers.due(4.9) == set()
    assert timers.due(5.0) == {"a"}
    assert timers.next() == 7.0
    timers.cancel("a")
    timers.add(6.0, "a")
    assert timers.due(10.0) == {"a"}
    assert timers.due(100.0) == set()
