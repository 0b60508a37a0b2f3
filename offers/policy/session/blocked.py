"""The index of blocked work: pending jobs that are alike, so that one look at the agents answers for all of them.

A session sets a group of jobs aside if no decision of the session could place one of them: then it has no further cost
per job. The requests of the jobs still count in their queues. `reach` says how that is known:

    NEVER   no agent that passes the fixed predicates has the room, even if nothing else were there
    NOW     too little room is idle or being released; enough if the actions of the session evict nothing
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from offers.policy.session.decisions import Condition
from offers.policy.session.model import Job, Template


class Group(NamedTuple):
    """Jobs of one queue with nothing but pending tasks of one template, and with one minimum."""

    queue: str
    template: Template
    min_available: int
    jobs: list[str]
    """Names of the jobs."""
    requested: list[int]
    """The amounts that all tasks of all jobs ask for, by dimension."""


class Groups(NamedTuple):
    """All groups of a snapshot, and the names of the jobs that are in none."""

    groups: list[Group]
    others: list[str]


def grouped(jobs: Iterable[Job], requested: Callable[[str], list[int]]) -> Groups:
    """Groups jobs. `requested` gives the amounts that the job of a name asks for."""
    groups: dict[tuple[str, int, int], Group] = {}
    numbers: dict[int, int] = {}
    equal: dict[Template, int] = {}
    others = []
    for job in jobs:
        template = job.template
        if template is None or len(job.pending) < max(len(job.tasks), job.min_available) or job.min_available < 1:
            others.append(job.name)
            continue
        same = numbers.get(id(template))
        if same is None:
            same = numbers[id(template)] = equal.setdefault(template, len(equal))
        key = (job.queue, same, job.min_available)
        group = groups.get(key)
        if group is None:
            groups[key] = Group(job.queue, template, job.min_available, [job.name], requested(job.name).copy())
        else:
            group.jobs.append(job.name)
            for d, amount in enumerate(requested(job.name)):
                group.requested[d] += amount
    return Groups(list(groups.values()), others)


class Conditions(Mapping[str, Condition]):
    """Conditions by job. They are made when they are asked for, before the snapshot changes."""

    def __init__(self, made: dict[str, Condition], late: Callable[[], dict[str, Callable[[], Condition]]]) -> None:
        """`late`: the function that makes the conditions of the jobs that are not in `made`."""
        self._made, self._find = made, late
        self._conditions: dict[str, Callable[[], Condition]] | None = None

    def _late(self) -> dict[str, Callable[[], Condition]]:
        if self._conditions is None:
            self._conditions = self._find()
        return self._conditions

    def __getitem__(self, name: str) -> Condition:
        condition = self._made.get(name)
        return condition if condition is not None else self._late()[name]()

    def __iter__(self) -> Iterator[str]:
        yield from self._made
        yield from self._late()

    def __len__(self) -> int:
        return len(self._made) + len(self._late())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]
