"""The index of blocked work: pending jobs that are alike, so that one look at the agents answers for all of them.

A session sets a group of jobs aside if no decision of the session could place one of them: then it has no further cost
per job. What the jobs want still counts in their queues. `reach` says how that is known:

    NEVER   no agent that passes the fixed predicates has the room, even if nothing else were there
    NOW     too little room is idle or being released; enough if the actions of the session evict nothing
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from offers.policy.session.decisions import Condition
from offers.policy.session.model import Job, Template


class Group(NamedTuple):
    """Jobs of one queue with nothing but pending tasks of one template, and with one minimum."""

    queue: str
    template: Template
    min_available: int
    numbers: list[int]
    """Positions of the jobs in the snapshot."""
    requested: list[int]
    """The amounts that all tasks of all jobs ask for, by dimension."""


class Groups(NamedTuple):
    """All groups of a snapshot, and the positions of the jobs that are in none."""

    groups: list[Group]
    others: list[int]


def grouped(jobs: tuple[Job, ...], requested: Callable[[int], list[int]]) -> Groups:
    """Groups the jobs of a snapshot. `requested` gives the amounts that the job at a position asks for."""
    found: dict[tuple[str, int, int], Group] = {}
    numbers: dict[int, int] = {}
    equal: dict[Template, int] = {}
    others = []
    for number, job in enumerate(jobs):
        template = job.template
        if template is None or len(job.pending) < max(len(job.tasks), job.min_available) or job.min_available < 1:
            others.append(number)
            continue
        same = numbers.get(id(template))
        if same is None:
            same = numbers[id(template)] = equal.setdefault(template, len(equal))
        key = (job.queue, same, job.min_available)
        group = found.get(key)
        if group is None:
            found[key] = Group(job.queue, template, job.min_available, [number], requested(number).copy())
        else:
            group.numbers.append(number)
            for d, amount in enumerate(requested(number)):
                group.requested[d] += amount
    return Groups(list(found.values()), others)


class Conditions(Mapping[str, Condition]):
    """Conditions by job; those of jobs that were set aside are made when they are asked for."""

    def __init__(
        self,
        made: dict[str, Condition],
        jobs: tuple[Job, ...],
        aside: list[tuple[list[int], Callable[[Job], Condition]]],
    ) -> None:
        """`aside`: positions of jobs in `jobs`, with what makes the condition of each."""
        self._made, self._jobs, self._aside = made, jobs, aside
        self._index: dict[str, tuple[Job, Callable[[Job], Condition]]] | None = None

    def _late(self) -> dict[str, tuple[Job, Callable[[Job], Condition]]]:
        if self._index is None:
            jobs = self._jobs
            self._index = {
                jobs[number].name: (jobs[number], make) for numbers, make in self._aside for number in numbers
            }
        return self._index

    def __getitem__(self, name: str) -> Condition:
        condition = self._made.get(name)
        if condition is None:
            job, make = self._late()[name]
            condition = make(job)
        return condition

    def __iter__(self) -> Iterator[str]:
        yield from self._made
        yield from self._late()

    def __len__(self) -> int:
        return len(self._made) + sum(len(numbers) for numbers, _ in self._aside)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]
