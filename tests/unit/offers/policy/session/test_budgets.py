"""Disruption budgets in sessions: applications that have one budget together spend it together."""

from __future__ import annotations

import numpy as np
import pytest

from bcs_scheduler.core.placement.snapshots.agent_tests import AgentTests
from offers.policy.session.configuration import DEFAULT, policy_of
from offers.policy.session.model import Agent, Job, Queue, Status, Task, Template
from offers.policy.session.policy import PluginChoice
from offers.policy.session.session import decide
from offers.policy.session.snapshot import Snapshot


class Explains:
    """No test of an agent refuses anything."""

    def tests(self, demand: object) -> list[tuple[str, object]]:
        return []


@pytest.mark.parametrize("together", [True, False])
def test_both_sides_of_an_update_spend_one_budget(together: bool) -> None:
    """One taskgroup of each side would have to end on the agent, and the budget of both together is one."""
    small, large = Template((("cpus", 500),)), Template((("cpus", 1000),))
    sides = [Job(name, "o", (Task("t", small, Status.RUNNING, "a"),)) for name in ("old", "new")]
    ask = Job("ask", "q", (Task("t", large),), created=1.0)
    queues = [Queue("o"), Queue("q", guarantee=(("cpus", 1000),))]
    snapshot = Snapshot([Agent("a", (("cpus", 1000),))], queues, [*sides, ask])
    budgets = AgentTests(
        Explains(),  # type: ignore[arg-type]
        np.zeros(1, dtype=np.int64),
        {},
        lambda _: 1,
        budget_of=lambda name: ("new", "old") if together and name != "ask" else (name,),
    )
    policy = policy_of({**DEFAULT, "actions": "reclaim, allocate"})
    policy = policy._replace(tiers=(*policy.tiers, (PluginChoice(budgets, {}, trusted=True),)))
    assert len(decide(snapshot, policy).evictions) == (0 if together else 2)
