"""The allocation of offers: all free resources of an agent go to one role of one framework, turn by turn.

A small relative of Mesos' hierarchical allocator: no shares or quota, but the same filters, suppression, minimal
amounts and handling of GPUs and reservations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from bcs_scheduler.local.objects.model import Agent, Framework
from bcs_scheduler.local.objects.resources import Amounts

MIN_CPUS = 10
MIN_MEM = 32_000
"""An agent is offered if it has this much of one of the two free (thousandths)."""

DEFAULT_REFUSAL = 5.0
MAX_REFUSAL = 365 * 86400.0


class Grant(NamedTuple):
    framework: Framework
    role: str
    agent: Agent
    amounts: Amounts


class _Filter(NamedTuple):
    until: float
    refused: Amounts


class Allocator:
    """Decides only; `clock` is monotonic seconds. Free amounts live in the agents and are not changed here."""

    def __init__(self, clock: Callable[[], float], interval: float) -> None:
        self._clock = clock
        self._interval = interval
        self._filters: dict[tuple[str, str], dict[Agent, _Filter]] = {}
        self._turn = 0

    def refuse(self, framework: Framework, role: str, agent: Agent, amounts: Amounts, seconds: float) -> None:
        """The framework does not want these amounts of the agent for a time. Mesos' limits apply to `seconds`."""
        if not 0 <= seconds <= MAX_REFUSAL:
            seconds = DEFAULT_REFUSAL if not seconds > MAX_REFUSAL else MAX_REFUSAL
        if seconds == 0 or not amounts:
            return
        until = self._clock() + max(seconds, self._interval)
        self._filters.setdefault((framework.id, role), {})[agent] = _Filter(until, amounts)

    def revive(self, framework: Framework, roles: Iterable[str]) -> None:
        for role in roles:
            self._filters.pop((framework.id, role), None)
            framework.suppressed.discard(role)

    def forget_framework(self, framework: Framework) -> None:
        for key in [key for key in self._filters if key[0] == framework.id]:
            del self._filters[key]

    def forget_agent(self, agent: Agent) -> None:
        for filters in self._filters.values():
            filters.pop(agent, None)

    def allocate(self, frameworks: Iterable[Framework], agents: Iterable[Agent]) -> list[Grant]:
        clients = [
            (framework, role)
            for framework in frameworks
            if framework.connected
            for role in framework.roles
            if role not in framework.suppressed
        ]
        if not clients:
            return []
        now = self._clock()
        grants = []
        for agent in agents:
            if not agent.active or not agent.free:
                continue
            for turn in range(len(clients)):
                framework, role = clients[(self._turn + turn) % len(clients)]
                amounts = agent.free.usable_by(role, refined=framework.refinement)
                if self._wanted(framework, role, agent, amounts, now):
                    grants.append(Grant(framework, role, agent, amounts))
                    self._turn = (self._turn + turn + 1) % len(clients)
                    break
        return grants

    def _wanted(self, framework: Framework, role: str, agent: Agent, amounts: Amounts, now: float) -> bool:
        filters = self._filters.get((framework.id, role))
        found = filters.get(agent) if filters else None
        if filters and found:
            if found.until > now and found.refused.contains(amounts):
                return False
            if found.until <= now:
                del filters[agent]
        if amounts.scalar("cpus") < MIN_CPUS and amounts.scalar("mem") < MIN_MEM:
            return False
        return framework.gpus or not agent.total.scalar("gpus")
