"""The action enqueue: jobs are let in while the cluster could soon hold their minimum."""

from __future__ import annotations

from offers.policy.session.decisions import SessionResult
from offers.policy.session.model import Agent, Job, Queue, Status, Task, Template
from offers.policy.session.session import decide
from offers.policy.session.snapshot import Snapshot
from tests.unit.offers.policy.session.policy_clusters import cores, policy


def waits(name: str, number: int, queue: str = "q", created: float = 1.0) -> Job:
    """A gang of tasks of one core."""
    tasks = tuple(Task(f"t{n}", Template(cores(1, 0))) for n in range(number))
    return Job(name, queue, tasks, min_available=number, created=created)


def after(jobs: list[Job], *actions: str, queues: tuple[Queue, ...] = (Queue("q"),)) -> SessionResult:
    return decide(Snapshot([Agent("a", cores(10, 1))], queues, jobs), policy(*actions))


def test_minima_are_let_in_up_to_the_overcommit_factor() -> None:
    """Of 10 cores, 12 are given: 4 are used, 8 are left."""
    runs = Job("run", "q", tuple(Task(f"r{n}", Template(cores(1, 0)), Status.RUNNING, "a") for n in range(4)))
    found = after([runs, waits("a", 7), waits("b", 2, created=2.0), waits("c", 1, created=3.0)], "enqueue", "allocate")
    assert found.admitted == ("a", "c")
    assert {bind.job for bind in found.binds} == {"c"}


def test_the_capability_of_a_queue_bounds_the_jobs_that_are_let_in() -> None:
    queues = (Queue("q", capability=(("cpus", 3000),)), Queue("other"))
    found = after([waits("a", 4), waits("b", 3, created=2.0), waits("o", 4, "other")], "enqueue", queues=queues)
    assert set(found.admitted) == {"b", "o"}


def test_a_job_that_is_not_let_in_takes_nothing_back() -> None:
    runs = Job("run", "q", tuple(Task(f"r{n}", Template(cores(1, 0)), Status.RUNNING, "a") for n in range(10)))
    queues = (Queue("q"), Queue("other"))
    assert len(after([runs, waits("o", 3, "other")], "reclaim", queues=queues).evictions) == 3
    assert not after([runs, waits("o", 3, "other")], "enqueue", "reclaim", queues=queues).evictions
