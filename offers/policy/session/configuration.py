"""Reads a policy from a plain document in the shape of kube-batch's configuration, and refuses it as a whole.

actions: "reclaim, allocate, backfill, preempt"
tiers:
  - plugins:
      - name: drf
        enablePreemptable: false
        arguments: {}
configurations:               # arguments of actions, as in Volcano
  - name: preempt
    arguments: {withinJobs: true}
session:                      # our own
  onPluginFault: skip
  pluginSeconds: 1
  nominationSeconds: 60

A document names plug-ins and actions of the scheduler, and those of third parties. The latter are found outside of this
package, by entry points; here they are registered by their objects (`Registry`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from offers.errors import BadDocument, Problem
from offers.policy.amounts import decimal, shown
from offers.policy.session.allocation import Allocate, Backfill, Enqueue
from offers.policy.session.plugins import conformance, drf, gang, nodeorder, predicates, priority, proportion
from offers.policy.session.plugins.interface import SWITCHES, Argument, Functions, Plugin
from offers.policy.session.policy import Action, ActionChoice, PluginChoice, Policy
from offers.policy.session.preemption import Preempt, Reclaim

if TYPE_CHECKING:
    from offers.policy.session.model import Template
    from offers.policy.session.session import Session
    from offers.policy.session.state.agents import AgentView


LARGEST = (1 << 31) - 1
"""The largest number of an argument, and the largest number of seconds."""

DEFAULT: Mapping[str, Any] = {
    "actions": "allocate, backfill",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
        {"plugins": [{"name": "drf"}, {"name": "predicates"}, {"name": "proportion"}, {"name": "nodeorder"}]},
    ],
}
"""The policy in force without a configuration."""


class BadPolicy(BadDocument):
    """The policy is refused."""


def policy_of(document: object, registry: Registry | None = None) -> Policy:
    """The policy that a document describes. Raises BadPolicy with all problems.

    Without `registry` (None) only the plug-ins and actions of the scheduler are known."""
    return _Reader(registry or Registry()).read(document)


def default_policy() -> Policy:
    """The policy without a configuration."""
    return policy_of(DEFAULT)


class _Reader:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._problems: list[Problem] = []

    def read(self, document: object) -> Policy:
        fields = self._object("policy", document, ("actions", "tiers", "configurations", "session"), bare=True)
        if not self._problems:
            for name in ("actions", "tiers"):
                if name not in fields:
                    self._report(name, "is missing")
        settings = self._settings(fields.get("session", {}))
        actions = self._actions(fields.get("actions", ""), fields.get("configurations", []))
        if not actions and not self._problems:
            self._report("actions", "names no action: nothing would be placed")
        tiers = self._tiers(fields.get("tiers", []))
        if self._problems:
            raise BadPolicy(self._problems)
        return Policy(actions, tiers, **settings)

    # --- actions ----------------------------------------------------------------------------------------------

    def _actions(self, value: object, configurations: object) -> tuple[ActionChoice, ...]:
        if not isinstance(value, str):
            self._report("actions", "not a text of names with commas")
            return ()
        names = [name.strip() for name in value.split(",")] if value.strip() else []
        given = self._configurations(configurations, names)
        actions = []
        for position, name in enumerate(names):
            path = f"actions[{position}]"
            action = self._registry.actions.get(name)
            if action is None:
                self._report(path, f"unknown action {shown(name)}; known: {', '.join(sorted(self._registry.actions))}")
            elif name in names[:position]:
                self._report(path, f"the action {name} is named twice")
            else:
                where, arguments = given.get(name, (path, {}))
                read = self._arguments(where, arguments, action.arguments)
                actions.append(ActionChoice(action, read, trusted=ACTIONS.get(name) is action))
        return tuple(actions)

    def _configurations(self, value: object, actions: list[str]) -> dict[str, tuple[str, object]]:
        configurations: dict[str, tuple[str, object]] = {}
        for position, entry in enumerate(self._list("configurations", value)):
            path = f"configurations[{position}]"
            fields = self._object(path, entry, ("name", "arguments"))
            name = fields.get("name")
            if not isinstance(name, str):
                self._report(f"{path}.name", "is missing or no text")
            elif name not in actions:
                self._report(f"{path}.name", f"the action {shown(name)} is not among the actions")
            elif name in configurations:
                self._report(f"{path}.name", f"the action {name} is configured twice")
            else:
                configurations[name] = (f"{path}.arguments", fields.get("arguments", {}))
        return configurations

    # --- tiers ------------------------------------------------------------------------------------------------

    def _tiers(self, value: object) -> tuple[tuple[PluginChoice, ...], ...]:
        tiers = []
        seen: set[str] = set()
        for number, tier in enumerate(self._list("tiers", value)):
            path = f"tiers[{number}]"
            fields = self._object(path, tier, ("plugins",))
            choices = []
            for position, entry in enumerate(self._list(f"{path}.plugins", fields.get("plugins", []))):
                choice = self._plugin(f"{path}.plugins[{position}]", entry, seen)
                if choice is not None:
                    choices.append(choice)
            tiers.append(tuple(choices))
        return tuple(tiers)

    def _plugin(self, path: str, entry: object, seen: set[str]) -> PluginChoice | None:
        fields = self._object(path, entry, ("name", "arguments", *SWITCHES))
        name = fields.get("name")
        if not isinstance(name, str):
            self._report(f"{path}.name", "is missing or no text")
            return None
        plugin = self._registry.plugins.get(name)
        if plugin is None:
            self._report(
                f"{path}.name", f"unknown plug-in {shown(name)}; known: {', '.join(sorted(self._registry.plugins))}"
            )
            return None
        if name in seen:
            self._report(f"{path}.name", f"the plug-in {name} is named twice")
        seen.add(name)
        off = set()
        for switch in SWITCHES:
            if switch in fields:
                value = _read(Argument("boolean", True), fields[switch])
                if value is None:
                    self._report(f"{path}.{switch}", "not true or false")
                elif not value:
                    off.add(switch)
        arguments = self._arguments(f"{path}.arguments", fields.get("arguments", {}), plugin.arguments)
        return PluginChoice(plugin, arguments, frozenset(off), trusted=PLUGINS.get(name) is plugin)

    # --- values -----------------------------------------------------------------------------------------------

    def _settings(self, value: object) -> dict[str, Any]:
        fields = self._object("session", value, ("onPluginFault", "pluginSeconds", "nominationSeconds"))
        settings: dict[str, Any] = {}
        if "onPluginFault" in fields:
            if fields["onPluginFault"] in ("skip", "repeat"):
                settings["on_fault"] = fields["onPluginFault"]
            else:
                self._report("session.onPluginFault", "neither skip nor repeat")
        for name, field in (("pluginSeconds", "plugin_seconds"), ("nominationSeconds", "nomination_seconds")):
            if name in fields:
                number = _read(Argument("decimal", 0), fields[name])
                if number is None or number < 0:
                    self._report(f"session.{name}", f"{shown(fields[name])} is not a number of seconds")
                elif number > LARGEST:
                    self._report(f"session.{name}", f"{shown(fields[name])} is more than {LARGEST}")
                else:
                    settings[field] = float(number)
        return settings

    def _arguments(self, path: str, value: object, known: Mapping[str, Argument]) -> dict[str, Any]:
        arguments = {name: argument.default for name, argument in known.items()}
        for name, given in self._object(path, value, tuple(known)).items():
            argument = known[name]
            read = _read(argument, given)
            if read is None:
                self._report(f"{path}.{name}", f"{shown(given)} is no {argument.kind}")
            elif argument.least is not None and read < argument.least:
                self._report(f"{path}.{name}", f"{shown(given)} is less than {argument.least}")
            elif argument.kind in ("integer", "decimal") and abs(read) > LARGEST:
                self._report(f"{path}.{name}", f"{shown(given)} is more than {LARGEST}")
            else:
                arguments[name] = read
        return arguments

    def _object(self, path: str, value: object, known: tuple[str, ...], *, bare: bool = False) -> dict[str, Any]:
        """The known fields of an object; others are reported. None counts as an empty object."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self._report(path, "not an object")
            return {}
        for name in value:
            if name not in known:
                place = str(name) if bare else f"{path}.{name}"
                self._report(place, f"unknown; known: {', '.join(known) or 'none'}")
        return {name: value[name] for name in known if name in value}

    def _list(self, path: str, value: object) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            self._report(path, "not a list")
            return []
        return value

    def _report(self, path: str, text: str) -> None:
        self._problems.append(Problem(path, text))


def _read(argument: Argument, value: object) -> Any:
    """A value of the argument's kind, also from a text; None if it is none."""
    if argument.kind == "text":
        return value if isinstance(value, str) else None
    if argument.kind == "boolean":
        return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower())
    try:
        number = decimal(value)
    except ValueError:
        return None
    if argument.kind == "integer":
        return int(number) if number.denominator == 1 else None
    return number


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
