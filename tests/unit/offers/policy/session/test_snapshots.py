"""Snapshots that advance, and groups of jobs that are set aside: neither changes a decision."""

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
from tests.snapshots import contents
from tests.unit.offers.policy.session.policy_clusters import ACTIONS, cores, policy, random_cluster

SEEDS = st.integers(0, 2**32)


def changed(jobs: list[Job], chance: random.Random, number: int) -> list[Job]:
    """Some jobs are gone, some have other tasks, and one is new."""
    found = []
    for job in jobs:
        if chance.random() < 0.2:
            continue
        if chance.random() < 0.3:
            tasks = tuple(
                task._replace(status=Status.RELEASING) if task.status is Status.RUNNING else task
                for task in job.tasks
                if chance.random() < 0.8
            )
            least, queue = chance.choice((job.min_available, 0)), chance.choice((job.queue, "q0", "gone"))
            job = Job(job.name, queue, tasks, min_available=least, priority=job.priority, created=job.created)
        found.append(job)
    template = Template(cores(1, 100, chance.choice((0, 0, 1))), ports=chance.choice(((), (80,))))
    running = Task("b", template, Status.RUNNING, chance.choice(("a0", "a1", "a9")))
    found.insert(chance.randint(0, len(found)), Job(f"new{number}", "q0", (Task("a", template), running)))
    return found


def other_agents(agents: list[Agent], chance: random.Random, number: int) -> list[Agent]:
    """Some agents are gone, some are different, and one may be new."""
    found = [agent for agent in agents if chance.random() < 0.8]
    found = [
        agent._replace(
            foreign=cores(chance.choice((0, 0.5)), 0),
            ready=chance.random() < 0.8,
            max_tasks=chance.choice((None, 3)),
            ports=chance.choice(((), (80,), (81,))),
        )
        if chance.random() < 0.3
        else agent
        for agent in found
    ]
    known = {agent.name for agent in found}
    return found + [
        Agent(name, cores(4, 4000)) for name in ("a0", "a1", "a9") if name not in known and chance.random() < 0.4
    ]


def differences(before: list[Any], after: list[Any]) -> dict[str, Any]:
    """What is new or different by name, and None for what is gone."""
    known = {one.name: one for one in before}
    found = {one.name: one for one in after if known.get(one.name) is not one}
    return found | dict.fromkeys(known.keys() - {one.name for one in after})


@given(SEEDS, SEEDS)
@settings(max_examples=80, deadline=None)
def test_a_snapshot_that_advances_equals_one_that_is_made_anew(seed: int, other: int) -> None:
    cluster, chance = random_cluster(seed), random.Random(other)
    snapshot, agents, jobs, queues = cluster.snapshot(), cluster.agents, cluster.jobs, cluster.queues
    for number in range(4):
        before = agents, jobs
        agents = other_agents(agents, chance, number)
        jobs = changed(jobs, chance, number)
        if chance.random() < 0.3:
            queues = [queue._replace(weight=chance.randint(1, 3)) for queue in queues if chance.random() < 0.9]
        now = 101.0 + number
        snapshot.advance(now, differences(before[0], agents), differences(before[1], jobs), queues)
        fresh = Snapshot(agents, queues, jobs, now)
        if snapshot.dimensions == fresh.dimensions:
            assert contents(snapshot) == contents(fresh)
        actions = chance.sample(ACTIONS, 4)
        one, two = decide(snapshot, policy(*actions)), decide(fresh, policy(*actions))
        assert used(one.allocated) == used(two.allocated)
        assert one._replace(deserved={}, allocated={}) == two._replace(deserved={}, allocated={})


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_decisions_depend_on_values_and_not_on_which_of_them_are_one_object(seed: int) -> None:
    cluster = random_cluster(seed)
    apart = [
        Job(
            job.name,
            job.queue,
            tuple(task._replace(template=Template(*task.template)) for task in job.tasks),
            min_available=job.min_available,
            priority=job.priority,
            created=job.created,
        )
        for job in cluster.jobs
    ]
    actions = random.Random(seed).sample(ACTIONS, 4)
    one, two = (
        decide(cluster.snapshot(), policy(*actions)),
        decide(cluster._replace(jobs=apart).snapshot(), policy(*actions)),
    )
    assert one == two


def test_a_refused_change_changes_nothing() -> None:
    cluster = random_cluster(7)
    snapshot = cluster.snapshot()
    before = contents(snapshot)
    jobs: dict[str, Job | None] = dict.fromkeys(snapshot.jobs)
    jobs["bad"] = Job("bad", "q0", (Task("t", Template((("cpus", -5),))),))
    with pytest.raises(BadSnapshot, match="job bad: a task requests less than nothing"):
        snapshot.advance(200.0, {"a0": None}, jobs)
    with pytest.raises(BadSnapshot, match="agent z: total of cpus is -1"):
        snapshot.advance(200.0, {"z": Agent("z", (("cpus", -1),))}, {})
    with pytest.raises(BadSnapshot, match="queue q: weight is 0"):
        snapshot.advance(200.0, queues=[Queue("q", weight=0)])
    with pytest.raises(BadSnapshot, match=r"two of the name q \(queue\)"):
        snapshot.advance(200.0, queues=[Queue("q"), Queue("q")])
    assert contents(snapshot) == before


def test_very_many_agents_join_and_leave_at_a_time() -> None:
    template = Template(cores(1, 100))
    jobs = [Job("j", "q", tuple(Task(f"t{n}", template, Status.RUNNING, f"a{n}") for n in range(100)))]
    snapshot = Snapshot([Agent("b", cores(1, 100))], [Queue("q")], jobs)
    agents = [Agent(f"a{n}", cores(4, 1000)) for n in range(100)]
    snapshot.advance(1.0, {agent.name: agent for agent in agents})
    assert contents(snapshot) == contents(Snapshot([Agent("b", cores(1, 100)), *agents], [Queue("q")], jobs, 1.0))
    snapshot.advance(2.0, dict.fromkeys(f"a{n}" for n in range(1, 100)))
    assert contents(snapshot) == contents(Snapshot([agents[0], Agent("b", cores(1, 100))], [Queue("q")], jobs, 2.0))


def used(amounts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """A snapshot that advances keeps dimensions that nothing uses any more, with 0."""
    return {queue: {name: amount for name, amount in each.items() if amount} for queue, each in amounts.items()}


def test_a_new_dimension_is_known_in_the_snapshot_that_advances() -> None:
    snapshot = Snapshot([Agent("a", cores(2, 1000))], [Queue("q")], [])
    job = Job("j", "q", (Task("t", Template(amounts({"licences": 1000}))),))
    snapshot.advance(1.0, jobs={"j": job})
    assert "licences" in snapshot.dimensions
    assert decide(snapshot, policy("allocate")).conditions["j"].refusals == {"QueueOverused": 1}


def test_only_jobs_that_wait_and_victims_are_looked_at() -> None:
    template = Template(cores(1, 100))
    jobs = [Job(f"r{n}", "q", (Task("t", template, Status.RUNNING, "a"),), priority=n) for n in range(4)]
    urgent = Job("urgent", "q", (Task("t", template),), priority=9)
    session = Session(Snapshot([Agent("a", cores(4, 1000))], [Queue("q")], [*jobs, urgent]), policy(*ACTIONS))
    assert set(session.jobs) == {"urgent"}
    session.run()
    assert [eviction.job for eviction in session.close().evictions] == ["r0"]
    assert "r0" in session.jobs


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Snapshot([Agent("a", ()), Agent("a", ())], [], []), "two of the name a"),
        (lambda: Snapshot([], [Queue("q", weight=0)], []), "queue q: weight is 0"),
        (lambda: Snapshot([Agent("a", (("cpus", -1),))], [], []), "agent a: total of cpus is -1"),
        (lambda: Snapshot([Agent("a", (("cpus", 2**60),))], [], []), "agent a: total of cpus"),
        (lambda: Snapshot([], [], [Job("j", "q"), Job("j", "q")]), "two of the name j"),
        (lambda: Snapshot([], [], [Job("j", "q", (Task("t", Template((("cpus", -5),))),))]), "job j: a task"),
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
    assert [len(group.jobs) for group in session.aside] == [8] * aside
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
