"""The action enqueue: lets jobs in whose minimum the cluster could hold soon. Without this action every job is in.

Jobs that are not in create no tasks and are not placed; they cannot take room back either. Do not combine it with
`reclaim` without need.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from offers.policy.session.actions.ordering import BestJobs
from offers.policy.session.plugins.interface import Argument
from offers.policy.session.state.jobs import JobState

if TYPE_CHECKING:
    from offers.policy.session.session import Session

name = "enqueue"
arguments: Mapping[str, Argument] = {"overcommit-factor": Argument("decimal", Fraction(6, 5), 1)}


def run(session: Session, arguments: Mapping[str, Any]) -> None:
    """See `Action.run`."""
    table, rules = session.agents, session.rules
    factor = arguments["overcommit-factor"]
    left = [factor * total - (total - sum(table.idle[d])) for d, total in enumerate(session.snapshot.totals)]
    taken = {name: queue.allocated.copy() for name, queue in session.queues.items()}
    waiting: dict[str, BestJobs] = {}
    for name_of_queue, queue in session.queues.items():
        for job in queue.jobs:
            if job.pending and (job.job.admitted or not job.starving):
                session.let_in.add(job.name)
                _take(left, taken[name_of_queue], minimum(session, job))
        waiting[name_of_queue] = BestJobs(
            (job for job in queue.jobs if job.pending and job.name not in session.let_in),
            rules.job_key,
            session.changes.job_log,
        )
    queues = list(session.queues.values())
    while queues:
        queue = min(queues, key=rules.queue_key)
        found = waiting[queue.name].take()
        if found is None:
            queues.remove(queue)
            continue
        wanted = minimum(session, found)
        capability = {session.snapshot.index[name]: most for name, most in queue.queue.capability}
        mine = taken[queue.name]
        if all(amount <= left[d] for d, amount in enumerate(wanted) if amount) and all(
            mine[d] + wanted[d] <= most for d, most in capability.items() if wanted[d]
        ):
            session.let_in.add(found.name)
            session.admitted.append(found.name)
            _take(left, mine, wanted)
    session.gated = True


def minimum(session: Session, job: JobState) -> list[int]:
    """Returns the request of the tasks that the job needs to reach its minimum, by dimension."""
    wanted = [0] * len(session.snapshot.dimensions)
    for position in session.pending(job)[: max(0, job.min_available - job.ready)]:
        for d, amount in session.needs.of(job.job.tasks[position].template).row:
            wanted[d] += amount
    return wanted


def _take(left: list[Fraction], of_queue: list[int], wanted: list[int]) -> None:
    for d, amount in enumerate(wanted):
        left[d] -= amount
        of_queue[d] += amount
