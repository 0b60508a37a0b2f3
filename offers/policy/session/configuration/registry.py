"""The plug-ins and actions that can be named in a configuration: those of the scheduler, and those of third parties.

Third parties are found outside of this package, by entry points; here they are registered by their objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from offers.policy.session.allocation import Allocate, Backfill, Enqueue
from offers.policy.session.configuration.policy import Action
from offers.policy.session.plugins import conformance, drf, gang, nodeorder, predicates, priority, proportion
from offers.policy.session.plugins.interface import Argument, Functions, Plugin
from offers.policy.session.preemption import Preempt, Reclaim

if TYPE_CHECKING:
    from offers.policy.session.model import Template
    from offers.policy.session.session import Session
    from offers.policy.session.state.agents import AgentView

PLUGINS: Mapping[str, Plugin] = {
    module.name: module for module in (priority, gang, conformance, drf, proportion, predicates, nodeorder)
}
OURS: tuple[Action, ...] = (Enqueue(), Allocate(), Backfill(), Preempt(), Reclaim())
ACTIONS: Mapping[str, Action] = {action.name: action for action in OURS}


class Registry:
    """Plug-ins and actions by name. Immutable."""

    def __init__(
        self,
        plugins: Iterable[Plugin] = (),
        actions: Iterable[Action] = (),
        node_orders: Mapping[str, Callable[[Template, AgentView], int]] | None = None,
    ) -> None:
        """The plug-ins and actions of the scheduler, and those given. Raises ValueError for a name that is taken, or
        for an object that lacks a name, arguments, or its function."""
        self.plugins: dict[str, Plugin] = dict(PLUGINS)
        self.actions: dict[str, Action] = dict(ACTIONS)
        orders = [NodeOrder(name, function) for name, function in (node_orders or {}).items()]
        _add("plug-in", self.plugins, [*plugins, *orders], "open")
        _add("action", self.actions, actions, "run")


def _add(title: str, table: dict[str, Any], objects: Iterable[Any], function: str) -> None:
    for plugin in objects:
        _check(title, plugin, function)
        if plugin.name in table:
            raise ValueError(f"two of the name {plugin.name} ({title})")
        table[plugin.name] = plugin


def _check(title: str, plugin: Any, function: str) -> None:
    name = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name:
        raise ValueError(f"{title} {plugin!r}: the attribute `name` is missing")
    arguments = getattr(plugin, "arguments", None)
    if not isinstance(arguments, Mapping) or not all(isinstance(value, Argument) for value in arguments.values()):
        raise ValueError(f"{title} {name}: the attribute `arguments` is not a mapping of names to arguments")
    if not callable(getattr(plugin, function, None)):
        raise ValueError(f"{title} {name}: the function `{function}` is missing")


class NodeOrder:
    """A plug-in with nothing but the score of an agent, and a weight for it."""

    arguments: Mapping[str, Argument] = {"weight": Argument("integer", 1, 0)}

    def __init__(self, name: str, function: Callable[[Template, AgentView], int]) -> None:
        """`function` gives the score of an agent for a template."""
        self.name = name
        self._function = function

    def open(self, session: Session, arguments: Mapping[str, Any]) -> Functions:  # noqa: ARG002
        """See `Plugin.open`."""
        weight, function = arguments["weight"], self._function
        return Functions(node_order=lambda template, agent: weight * function(template, agent))
