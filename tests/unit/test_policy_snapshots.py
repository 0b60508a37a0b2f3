"""Snapshots that follow others, and groups of jobs that are set aside: neither changes a decision."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offers.dimensions import amounts
from offers.policy.session.model import Agent, Job, Queue, Status, Task, Template
from offers.policy.session.session import Session, decide
from offers.policy.session.snapshot import BadSnapshot, Snapshot
from tests.unit.policy_clusters import ACTIONS, cores, policy, random_cluster

SEEDS = st.integers(0, 2**32)


def contents(snapshot: Snapshot) -> Any:
    """Everything that sessions read of a snapshot, as values."""
    columns = snapshot.columns
    mirrors = columns.mirrors
    return (
        [columns.total, columns.idle, columns.future, columns.count, columns.leaving],
        [columns.score_cpus, columns.score_mem, columns.max_tasks, columns.limited],
        [array.tolist() for array in (*mirrors.idle, *mirrors.future, mirrors.count, mirrors.score_cpus)],
        mirrors.score_mem.tolist(),
        [[getattr(figures, name) for name in figures.__slots__] for figures in snapshot.figures],
        [sorted((job.name, position) for job, position in tenants) for tenants in snapshot.tenants],
        snapshot.totals,
        snapshot.now,
    )


def changed(jobs: list[Job], chance: random.Random, number: int) -> list[Job]:
    """Some jobs are gone, some have other tasks, and one is new."""
    found = []
    for job in jobs:
        if chance.random() < 0.2:
            continue
        if chance.random() < 0.3:
            tasks = tuple(
                task._replace(status=Status.RELEASING) if task.status is Status.RUNNING else task for task in job.tasks
            )
            job = Job(job.name, job.queue, tasks, min_available=job.min_available, priority=job.priority)
        found.append(job)
    template = Template(cores(1, 100))
    new = Job(f"new{number}", "q0", (Task("a", template), Task("b", template, Status.RUNNING, "a0")))
    found.insert(chance.randint(0, len(found)), new)
    return found


@given(SEEDS, SEEDS)
@settings(max_examples=100, deadline=None)
def test_a_snapshot_that_follows_equals_one_that_is_made_anew(seed: int, other: int) -> None:
    cluster, chance = random_cluster(seed), random.Random(other)
    snapshot, jobs = cluster.snapshot(), cluster.jobs
    _ = snapshot.tenants
    for number in range(4):
        jobs = changed(jobs, chance, number)
        snapshot = snapshot.after(jobs, 101.0 + number)
        fresh = Snapshot(cluster.agents, cluster.queues, jobs, 101.0 + number)
        if snapshot.dimensions == fresh.dimensions:
            assert contents(snapshot) == contents(fresh)
        actions = chance.sample(ACTIONS, 4)
        one, two = decide(snapshot, policy(*actions)), decide(fresh, policy(*actions))
        assert used(one.allocated) == used(two.allocated)
        assert one._replace(deserved={}, allocated={}) == two._replace(deserved={}, allocated={})


def used(amounts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """A snapshot that follows keeps dimensions that nothing uses any more, with 0."""
    return {queue: {name: amount for name, amount in each.items() if amount} for queue, each in amounts.items()}


def test_what_a_snapshot_had_is_not_changed_by_those_that_follow() -> None:
    cluster = random_cluster(7)
    snapshot = cluster.snapshot()
    before = contents(snapshot)
    snapshot.after(changed(cluster.jobs, random.Random(1), 0), 200.0)
    assert contents(snapshot) == before


def test_a_new_dimension_is_known_in_the_snapshot_that_follows() -> None:
    snapshot = Snapshot([Agent("a", cores(2, 1000))], [Queue("q")], [])
    job = Job("j", "q", (Task("t", Template(amounts({"licences": 1000}))),))
    following = snapshot.after([job], 1.0)
    assert "licences" in following.dimensions
    assert decide(following, policy("allocate")).conditions["j"].refusals == {"QueueOverused": 1}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Snapshot([Agent("a", ()), Agent("a", ())], [], []), "two of the name a"),
        (lambda: Snapshot([], [Queue("q", weight=0)], []), "queue q: weight is 0"),
        (lambda: Snapshot([Agent("a", (("cpus", -1),))], [], []), "agent a: total of cpus is -1"),
        (lambda: Snapshot([Agent("a", (("cpus", 2**60),))], [], []), "agent a: total of cpus"),
        (lambda: Snapshot([], [], [Job("j", "q"), Job("j", "q")]), "two of the name j"),
        (lambda: Snapshot([], [], []).after([Job("j", "q"), Job("j", "q")], 1.0), "two of the name j"),
        (lambda: Snapshot([], [], [Job("j", "q", (Task("t", Template((("cpus", -5),))),))]).templates, "job j: task t"),
    ],
)
def test_a_state_that_contradicts_itself_is_refused(make: Any, words: str) -> None:
    with pytest.raises(BadSnapshot, match=words):
        make()


def test_jobs_refuse_two_tasks_of_one_name_and_negative_minima() -> None:
    task = Task("t", Template())
    with pytest.raises(ValueError, match="job j: two tasks"):
        Job("j", "q", (task, task))
    with pytest.raises(ValueError, match="job j: min_available is -1"):
        Job("j", "q", (task,), min_available=-1)


# --- blocked work ---------------------------------------------------------------------------------------------


def outcome(snapshot: Snapshot, actions: list[str], least_group: int) -> tuple[Any, int]:
    session = Session(snapshot, policy(*actions), least_group=least_group)
    session.run()
    decisions = session.close()
    conditions = {name: (one.type, one.reason) for name, one in decisions.conditions.items()}
    assert len(decisions.conditions) == len(conditions)
    rest = (decisions.binds, decisions.evictions, decisions.pipelined, decisions.deserved, sorted(session.names))
    return (rest, conditions), len(session.aside)


@given(SEEDS, st.permutations(ACTIONS), st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_setting_jobs_aside_changes_no_decision(seed: int, actions: list[str], length: int) -> None:
    snapshot = random_cluster(seed).snapshot()
    one, aside = outcome(snapshot, actions[:length], 1)
    two, none = outcome(snapshot, actions[:length], 0)
    assert one == two
    assert none == 0 and aside >= 0


def hopeless(cpus: float, number: int) -> Snapshot:
    template = Template(cores(cpus, 100))
    jobs = [Job(f"j{n}", "q", tuple(Task(f"t{k}", template) for k in range(2)), min_available=2) for n in range(number)]
    running = Job("run", "q", (Task("t", Template(cores(3, 100)), Status.RUNNING, "a0"),), priority=-1)
    return Snapshot([Agent("a0", cores(4, 8000)), Agent("a1", cores(1, 8000))], [Queue("q")], [*jobs, running])


@pytest.mark.parametrize(
    ("cpus", "actions", "aside"),
    [
        (5, ("allocate", "preempt"), 1),  # fits no agent
        (2.5, ("allocate", "preempt"), 1),  # one fits an empty a0; the minimum does not
        (2, ("allocate", "preempt"), 0),  # evictions could make the room
        (2, ("allocate", "backfill"), 1),  # and without evictions there is none
        (1, ("allocate", "backfill"), 0),
        (5, ("enqueue", "allocate"), 0),  # what is admitted counts there
    ],
)
def test_only_jobs_that_cannot_be_placed_are_set_aside(cpus: float, actions: tuple[str, ...], aside: int) -> None:
    session = Session(hopeless(cpus, 8), policy(*actions))
    assert [len(group.numbers) for group in session.aside] == [8] * aside
    assert session.names == [*(f"j{n}" for n in range(8)), "run"]
    assert not Session(hopeless(cpus, 7), policy(*actions)).aside


def test_jobs_that_were_set_aside_say_why_they_wait() -> None:
    decisions = decide(hopeless(5, 9), policy("allocate"))
    condition = decisions.conditions["j8"]
    assert condition.reason == "NotEnoughResources"
    assert condition.message == "2/2 tasks in gang unschedulable: 2 Insufficient cpus"
    assert set(decisions.conditions) == {"run", *(f"j{n}" for n in range(9))}
    with pytest.raises(KeyError):
        decisions.conditions["j9"]
