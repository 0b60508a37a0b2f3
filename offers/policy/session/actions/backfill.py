"""The action backfill: places best-effort tasks on agents that pass the predicates.

A best-effort task requests nothing or next to nothing; its small amounts must be free, because an agent cannot give
more than it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from offers.policy.session.plugins.interface import Argument

if TYPE_CHECKING:
    from offers.policy.session.session import Session

name = "backfill"
arguments: Mapping[str, Argument] = {}


def run(session: Session, arguments: Mapping[str, Any]) -> None:  # noqa: ARG001
    """See `Action.run`."""
    rules = session.rules
    jobs = [job for job in session.jobs.values() if job.pending and session.pending(job, best_effort=True)]
    while jobs:
        job = min(jobs, key=rules.job_key)
        jobs.remove(job)
        statement = session.statement(job)
        for position in session.pending(job, best_effort=True):
            need = session.needs.of(job.job.tasks[position].template)
            ranks = session.candidates(need).place(1) if rules.room(job.queue, need) > 0 else []
            if ranks:
                statement.note(job, need, [position], ranks)
            elif job.misfit is None:
                job.misfit = need
        if rules.ready(job):
            statement.commit(ready=True)
        elif rules.pipelined(job):
            statement.keep()
        else:
            statement.undo()
