"""The matcher against the sequential greedy reference, placement by placement."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from offers.matcher import match
from offers.model import Decoration, Demand, Offer
from offers.pool import OfferPool
from tests.unit import offers_strategies as strategies
from tests.unit.reference_matcher import Agent, Live, LiveCensus, reference


def build(offers: list[Offer], decorations: dict[str, Decoration]) -> tuple[OfferPool, list[Agent]]:
    """The same world for the matcher and for the reference."""
    pool = OfferPool()
    for key, decoration in decorations.items():
        pool.decorate(key, decoration)
    groups: dict[tuple[str, str], list[Offer]] = defaultdict(list)
    for offer in offers:
        pool.add(offer)
        groups[offer.agent_id, offer.role].append(offer)
    return pool, [Agent(group, decorations.get(group[-1].hostname, Decoration())) for group in groups.values()]


worlds = strategies.worlds()
decorated = st.dictionaries(st.integers(0, 6).map(lambda number: f"host-{number}"), strategies.decorations, max_size=4)


@settings(max_examples=400, deadline=None)
@given(worlds, decorated, strategies.demands(), strategies.running, st.sampled_from(("spread", "binpack")))
def test_equals_the_sequential_greedy_result(
    offers: list[Offer], decorations: dict[str, Decoration], demands: list[Demand], live: list[Live], scoring: str
) -> None:
    pool, agents = build(offers, decorations)
    result = match(demands, pool, LiveCensus(live), scoring)  # type: ignore[arg-type]
    assert result.placements == reference(agents, demands, live, scoring)
    for diagnosis in result.diagnoses:
        assert sum(diagnosis.reasons.values()) == diagnosis.agents == pool.agents
