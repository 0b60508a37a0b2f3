"""The tests of agents that the tree of a role asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from offers.policy.session.columns import Array
from offers.policy.session.model import Template

Admits = Callable[[Template, str], bool]


class Admission:
    """The tests of agents, by the mask that a function makes for a template. Masks are kept."""

    def __init__(self, rank: Mapping[str, int], mask: Callable[[Template], Array]) -> None:
        """`rank`: index of an agent in the masks."""
        self._rank, self._mask = rank, mask
        self._known: dict[Template, Array] = {}

    def __call__(self, template: Template, agent: str) -> bool:
        """True if the agent passes the tests of the template."""
        accepted = self._known.get(template)
        if accepted is None:
            accepted = self._known[template] = self._mask(template)
        rank = self._rank.get(agent)
        return rank is not None and bool(accepted[rank])

    def names(self, template: Template) -> frozenset[str]:
        """The agents that pass the tests of the template."""
        return frozenset(name for name, passed in zip(self._rank, self._mask(template).tolist(), strict=True) if passed)
