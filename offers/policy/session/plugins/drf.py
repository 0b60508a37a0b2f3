"""The plug-in drf: the job with the lower dominant share first (Ghodsi et al., Dominant Resource Fairness, NSDI 2011).

The dominant share of a job is the greatest of its shares of the cluster over all dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from offers.policy.amounts import ExactRatios
from offers.policy.obstacles import Obstacle
from offers.policy.session.plugins.interface import Argument, Claim, Counts, Functions, Victim
from offers.policy.session.state.jobs import JobState

if TYPE_CHECKING:
    from offers.policy.session.session import Session

name = "drf"
arguments: Mapping[str, Argument] = {}


def open(session: Session, arguments: Mapping[str, Any]) -> Functions:  # noqa: ARG001
    """See `Plugin.open`."""
    totals = session.snapshot.totals
    ratios = ExactRatios(totals)
    shift, whole = ratios.shift, ratios.whole
    some = [(d, total) for d, total in enumerate(totals) if total]
    none = [d for d, total in enumerate(totals) if not total]

    def share(allocated: list[int]) -> int:
        greatest = 0
        for d, total in some:
            part = (allocated[d] << shift) // total
            if part > greatest:
                greatest = part
        for d in none:
            if allocated[d] and greatest < whole:
                greatest = whole
        return greatest

    def job_order(job: JobState) -> int:
        return share(job.allocated)

    def preemptable(claim: Claim, candidates: list[Victim]) -> list[Victim]:
        claimed = claim.job.allocated.copy()
        for d, amount in claim.need.row:
            claimed[d] += amount
        own = share(claimed)
        left: dict[int, list[int]] = {}
        victims = []
        for victim in candidates:
            job = victim.job
            allocated = left.get(job.number)
            if allocated is None:
                allocated = left[job.number] = job.allocated.copy()
            for d, amount in session.needs.of(victim.task.template).row:
                allocated[d] -= amount
            if own <= share(allocated):
                victims.append(victim)
        return victims

    return Functions(job_order=job_order, preemptable=preemptable, counts=Counts.SHARES, obstacle=Obstacle.SHARE)
