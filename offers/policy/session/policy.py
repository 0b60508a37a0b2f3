"""The policy of a session: which actions run, in which order, with which plug-ins in which tiers. Immutable values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from offers.ledger.holds import NOMINATION_SECONDS
from offers.policy.session.plugins.interface import Argument, Plugin

if TYPE_CHECKING:
    from offers.policy.session.session import Session


class Action(Protocol):
    """An action. Modules and objects with these attributes will do."""

    name: str
    arguments: Mapping[str, Argument]

    def run(self, session: Session, arguments: Mapping[str, Any]) -> None:
        """Decides by statements on the session. `arguments` has every argument, with its default if it was not given.
        Statements that are neither committed nor kept must be undone."""


class PluginChoice(NamedTuple):
    """A plug-in in a tier. `off`: switches that are false."""

    plugin: Plugin
    arguments: Mapping[str, Any]
    off: frozenset[str] = frozenset()
    trusted: bool = False
    """Comes with the scheduler: errors are mistakes of our own, and its time is not measured."""


class ActionChoice(NamedTuple):
    """An action with its arguments."""

    action: Action
    arguments: Mapping[str, Any]
    trusted: bool = False


class Policy(NamedTuple):
    """The work of a session and its limits. Times are seconds."""

    actions: tuple[ActionChoice, ...]
    tiers: tuple[tuple[PluginChoice, ...], ...]
    on_fault: Literal["skip", "repeat"] = "skip"
    """The consequence if a plug-in of a third party fails: the session continues, or starts again, without it."""
    plugin_seconds: float = 1.0
    """Seconds that the calls of one plug-in or action of a third party may take in one session."""
    nomination_seconds: float = NOMINATION_SECONDS
    """The time for which room is promised to a task that waits for it."""

    @property
    def trusted(self) -> bool:
        """True if no plug-in or action of a third party takes part."""
        return all(part.trusted for part in self.actions) and all(part.trusted for tier in self.tiers for part in tier)

    @property
    def spreads(self) -> bool:
        """True if the plug-in nodeorder prefers the emptiest agents."""
        return any(
            plugin.plugin.name == "nodeorder"
            and "enableNodeOrder" not in plugin.off
            and plugin.arguments["leastrequested.weight"] > plugin.arguments["mostrequested.weight"]
            for tier in self.tiers
            for plugin in tier
        )

    def without(self, name: str) -> Policy:
        """The policy without a plug-in or action."""
        return self._replace(
            actions=tuple(choice for choice in self.actions if choice.action.name != name),
            tiers=tuple(tuple(choice for choice in tier if choice.plugin.name != name) for tier in self.tiers),
        )
