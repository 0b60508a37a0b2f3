"""The plug-in nodeorder: integer scores of 0 to 10 for each aspect of an agent, each with a weight of its own.

With u = requested on the agent with the candidate, and c = the total of the agent, for CPUs and memory:

    least requested   floor((c-u)*10/c), 0 if u > c or c = 0; floor of the mean of both
    most requested    floor(u*10/c), 0 if u > c or c = 0; floor of the mean of both
    balanced          floor((1-|u/c of CPUs - u/c of memory|)*10), 0 if one of both is 1 or more
    node affinity     weights of the preferred terms that the agent fulfils; 10 for the best candidate
    pod affinity      preferences about other work; 10 for the best candidate, 0 for the worst

Source: the scoring functions of kube-batch, computed with integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from offers.policy.session.columns import Array
from offers.policy.session.model import Template
from offers.policy.session.plugins.affinity import points
from offers.policy.session.plugins.interface import Argument, Functions, Scorer
from offers.policy.session.state.templates import Need
from offers.rules.terms import NAME, hold

if TYPE_CHECKING:
    from offers.policy.session.session import Session

name = "nodeorder"
arguments: Mapping[str, Argument] = {
    "leastrequested.weight": Argument("integer", 1, 0),
    "mostrequested.weight": Argument("integer", 0, 0),
    "balancedresource.weight": Argument("integer", 1, 0),
    "nodeaffinity.weight": Argument("integer", 1, 0),
    "podaffinity.weight": Argument("integer", 1, 0),
}


def open(session: Session, arguments: Mapping[str, Any]) -> Functions:
    """See `Plugin.open`."""
    return Functions(scorer=Scores(session, arguments).scorer)


class Scores:
    """The scores of one session."""

    def __init__(self, session: Session, arguments: Mapping[str, Any]) -> None:
        self._session = session
        self._weights = [arguments[argument] for argument in globals()["arguments"]]

    def scorer(self, need: Need) -> Scorer:
        """The scores for one template."""
        *_, preferred, affinity = self._weights
        template = need.template
        resources = self._resources(need)
        if self._session.snapshot.wide:
            ranks = range(len(self._session.agents))

            def resources_all() -> Array:
                return np.fromiter((resources(rank) for rank in ranks), dtype=np.int64, count=len(ranks))

        else:

            def resources_all() -> Array:
                return self._resources_all(need)

        parts = []
        if preferred and template.preferred:
            parts.append((preferred, _normalised_preferences(self._preferences(template))))
        by_work = affinity and self._session.snapshot.has_affinity
        if by_work:
            parts.append((affinity, self._normalised_affinity(template)))
        if not parts:
            return Scorer(resources, lambda _: resources_all())
        extra: list[list[int]] = [[]]

        def everything(mask: Array) -> Array:
            more = sum((weight * part(mask) for weight, part in parts), np.zeros(len(mask), dtype=np.int64))
            extra[0] = more.tolist()
            scores: Array = resources_all() + more
            return scores

        return Scorer(lambda rank: resources(rank) + extra[0][rank], everything, relative=True, volatile=bool(by_work))

    # --- requests ---------------------------------------------------------------------------------------------

    def _resources(self, need: Need) -> Callable[[int], int]:
        """Least requested, most requested and balanced for one agent."""
        least, most, balanced, *_ = self._weights
        table = self._session.agents
        total_cpus, total_mem = table.total[0], table.total[1]
        used_cpus, used_mem = table.score_cpus, table.score_mem
        cpus, mem = need.score_cpus, need.score_mem

        def score(rank: int) -> int:
            c, m = total_cpus[rank], total_mem[rank]
            uc, um = used_cpus[rank] + cpus, used_mem[rank] + mem
            total = 0
            if least:
                total += least * (
                    (((c - uc) * 10 // c if uc <= c and c else 0) + ((m - um) * 10 // m if um <= m and m else 0)) // 2
                )
            if most:
                total += most * (((uc * 10 // c if uc <= c and c else 0) + (um * 10 // m if um <= m and m else 0)) // 2)
            if balanced and uc < c and um < m:
                whole = c * m
                total += balanced * (10 * (whole - abs(uc * m - um * c)) // whole)
            return total

        return score

    def _resources_all(self, need: Need) -> Array:
        """The same for all agents."""
        least, most, balanced, *_ = self._weights
        arrays, totals = self._session.agents.arrays(), self._session.snapshot.columns.total_arrays
        scores = np.zeros(len(totals[0]), dtype=np.int64)
        uc, um = arrays.score_cpus + need.score_cpus, arrays.score_mem + need.score_mem
        c, m = np.maximum(totals[0], 1), np.maximum(totals[1], 1)
        fits_c, fits_m = (uc <= totals[0]) & (totals[0] > 0), (um <= totals[1]) & (totals[1] > 0)
        if least:
            scores += least * ((np.where(fits_c, (c - uc) * 10 // c, 0) + np.where(fits_m, (m - um) * 10 // m, 0)) // 2)
        if most:
            scores += most * ((np.where(fits_c, uc * 10 // c, 0) + np.where(fits_m, um * 10 // m, 0)) // 2)
        if balanced:
            whole = c * m
            sound = (uc < totals[0]) & (um < totals[1])
            uc, um = np.where(sound, uc, 0), np.where(sound, um, 0)
            scores += balanced * np.where(sound, 10 * (whole - np.abs(uc * m - um * c)) // whole, 0)
        return scores

    # --- preferences ------------------------------------------------------------------------------------------

    def _preferences(self, template: Template) -> Array:
        """The sum of the weights of the preferred terms that each agent fulfils."""
        return np.array(
            [
                sum(
                    preference.weight
                    for preference in template.preferred
                    if hold(preference.terms, {NAME: agent.name, **agent.attributes})
                )
                for agent in self._session.agents.agents
            ],
            dtype=np.int64,
        )

    def _normalised_affinity(self, template: Template) -> Callable[[Array], Array]:
        def normalised(mask: Array) -> Array:
            points_of = np.array(points(self._session, template), dtype=np.int64)
            candidates = points_of[mask]
            most, least = max(0, int(candidates.max(initial=0))), min(0, int(candidates.min(initial=0)))
            if most == least:
                return np.zeros_like(points_of)
            return 10 * (points_of - least) // (most - least)

        return normalised


def _normalised_preferences(sums: Array) -> Callable[[Array], Array]:
    """Points of 0 to 10, relative to the best candidate."""

    def normalised(mask: Array) -> Array:
        most = int(sums[mask].max(initial=0))
        return 10 * sums // most if most > 0 else np.zeros_like(sums)

    return normalised
