"""An engine that drops its figures at any moment decides the same: they follow from the records, the offers, and facts
that it keeps besides.

A quiet world runs twice from one seed. In the second run the engine drops its figures before some turns. Both have the
same story at the same moments: the same launches, evictions and holds.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from bcs_scheduler.core.placement.loop import Loop
from bcs_scheduler.core.time_budget import TimeBudget
from tests.simulation.policies.users import Engine, FairWorld
from tests.simulation.violation import Violation

SHARE = 0.3
"""Share of the turns before which figures are dropped."""
Told = Sequence[tuple[float, str]]


def told(seed: int, steps: int, engine: Engine, share: float) -> Told:
    """The story of a world whose engine drops its figures before a share of the turns; each line with its moment. A
    violation ends it."""
    chance, honest = random.Random(f"figures-{seed}"), Loop.decide

    def forgetful(self: Loop, pace: TimeBudget) -> None:
        if chance.random() < share:
            self.engine.drop_figures()
        honest(self, pace)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "decide", forgetful)
        fair = FairWorld(seed, engine)
        try:
            fair.run(steps)
        except Violation as violation:
            return [*fair.world.told, (fair.world.now, str(violation))]
    return fair.world.told


def difference(seed: int, steps: int, engine: Engine, share: float = SHARE) -> str:
    """The first lines in which the stories differ, with some before them; empty: they are the same."""
    kept, other = told(seed, steps, engine, 0.0), told(seed, steps, engine, share)
    if kept == other:
        return ""
    number = next((at for at, (one, two) in enumerate(zip(kept, other, strict=False)) if one != two), 0)
    begin, end = max(number - 10, 0), number + 3
    lines = [*kept[begin:end], (0.0, "figures dropped:"), *other[number:end]]
    return "\n".join(f"{at:.3f} {words}" for at, words in lines)
