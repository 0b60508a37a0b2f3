"""The policy of sessions: read from a YAML file, with the plug-ins that installed packages bring.

Packages name their plug-ins, actions and node orders by entry points of three groups. An entry point gives an object as
`offers.policy.session.plugins.interface.Plugin` and `offers.policy.session.policy.Action` describe it, a
class of such objects without arguments, or, for node orders, a function of template and agent.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bcs_scheduler.settings.sections import ConfigError
from offers.errors import Problem
from offers.policy.hierarchy.configuration.document import DEFAULT_QUEUES, TAGS, canonical, partition_of
from offers.policy.hierarchy.configuration.fields import BadQueues
from offers.policy.hierarchy.configuration.partition import Partition
from offers.policy.session.configuration import BadPolicy, Registry, default_policy, policy_of
from offers.policy.session.policy import Policy
from offers.resources import SCALARS

PLUGINS = "bcs_scheduler.policy_plugins"
ACTIONS = "bcs_scheduler.policy_actions"
NODE_ORDERS = "bcs_scheduler.policy_node_orders"
"""Groups of entry points."""
Kind = Literal["simple", "session", "hierarchical"]


class BadPlugin(Exception):
    """An installed package brings a plug-in that cannot be used. The text names group, entry point and package."""


def installed() -> Registry:
    """The plug-ins of the scheduler and of all installed packages. Raises BadPlugin for one that cannot be imported, or
    whose name is taken."""
    plugins = [_object(point) for point in entry_points(group=PLUGINS)]
    actions = [_object(point) for point in entry_points(group=ACTIONS)]
    orders = {}
    for point in entry_points(group=NODE_ORDERS):
        if point.name in orders:
            raise BadPlugin(f"{_title(point)}: another node order has this name")
        orders[point.name] = _load(point)
    try:
        return Registry(plugins, actions, orders)
    except ValueError as error:
        raise BadPlugin(str(error)) from None


def read_policy(path: Path, registry: Registry | None = None) -> Policy:
    """The policy that a YAML file describes. Raises BadPolicy with every problem, also if the file cannot be read.

    Without `registry` (None) the installed plug-ins are used, and BadPlugin may be raised."""
    return policy_of(contents(path), registry or installed())


def contents(path: Path) -> Any:
    """The contents of a YAML file. Raises BadPolicy."""
    from bcs_scheduler.wire.yamltext import BadYaml, document_of

    try:
        return document_of(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadPolicy([Problem(str(path), error.strerror or str(error))]) from None
    except UnicodeDecodeError:
        raise BadPolicy([Problem(str(path), "not UTF-8")]) from None
    except BadYaml as error:
        raise BadPolicy([Problem(str(path), f"not YAML: {error}")]) from None


class TreeOfSettings(NamedTuple):
    """The tree of queues that the settings name. `document`: the file as canonical JSON; empty without a file."""

    partition: Partition
    document: str


def queues_of_settings(kind: Kind, path: str) -> TreeOfSettings | None:
    """The tree of queues that the settings name; None for other policies than `hierarchical`. `path`: the YAML file of
    the tree; empty = one queue, `root.default`. Raises ConfigError, with every problem of the file."""
    if kind != "hierarchical":
        return None
    try:
        found = contents(Path(path)) if path else None
        if path and found is None:
            raise BadPolicy([Problem("queues", "the file is empty")])
        return tree_of(found)
    except (BadQueues, BadPolicy) as error:
        problems = "\n".join(f"  {problem}" for problem in error.problems)
        raise ConfigError(f"scheduler.policy_file: {path} is refused:\n{problems}") from None


def tree_of(document: Any) -> TreeOfSettings:
    """The tree of queues that a document describes; None = one queue, `root.default`. Raises BadQueues."""
    if document is None:
        return TreeOfSettings(partition_of(DEFAULT_QUEUES, SCALARS), "")
    return TreeOfSettings(partition_of(document, SCALARS, tags=TAGS), canonical(document))


def policy_of_settings(kind: Kind, path: str) -> Policy | None:
    """The policy of sessions that the settings name; None for other policies. `path`: the file of the policy; empty =
    the default. Raises ConfigError, with every problem of the file."""
    if kind != "session":
        return None
    try:
        return read_policy(Path(path)) if path else default_policy()
    except BadPolicy as error:
        problems = "\n".join(f"  {problem}" for problem in error.problems)
        raise ConfigError(f"scheduler.policy_file: {path} is refused:\n{problems}") from None
    except BadPlugin as error:
        raise ConfigError(f"scheduler.policy: {error}") from None


def _object(point: EntryPoint) -> Any:
    found = _load(point)
    if not isinstance(found, type):
        return found
    try:
        return found()
    except Exception as error:
        raise BadPlugin(f"{_title(point)}: {type(error).__name__}: {error}") from None


def _load(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:
        raise BadPlugin(f"{_title(point)}: {type(error).__name__}: {error}") from None


def _title(point: EntryPoint) -> str:
    package = point.dist.name if point.dist is not None else "an unknown package"
    return f"{point.group}: {point.name} of {package}"
