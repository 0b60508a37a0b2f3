"""The frameworks and agents that are registered with the master, by id."""

from __future__ import annotations

from typing import NamedTuple

from bcs_scheduler.local.objects.model import Agent, Framework


class Unreachable(NamedTuple):
    """An agent without contact, since when (Unix seconds), and its tasks that may still run."""

    agent: Agent
    since: float


class Registry:
    """`completed` frameworks and `gone` agents never come back under the same id."""

    def __init__(self) -> None:
        self.frameworks: dict[str, Framework] = {}
        self.completed: dict[str, Framework] = {}
        self.agents: dict[str, Agent] = {}
        self.unreachable: dict[str, Unreachable] = {}
        self.gone: dict[str, Agent] = {}

    def reachable_or_not(self) -> list[Agent]:
        """All agents but those that are gone."""
        return [*self.agents.values(), *(entry.agent for entry in self.unreachable.values())]
