"""The configuration of a partition as immutable values. Names follow YuniKorn.

Amounts are mappings of a resource to an integer in the unit that the reader was given. A maximum that does not name a
resource does not limit it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from offers.policy.amounts import Vector

ROOT = "root"
NONE: Vector = MappingProxyType({})
"""No amounts."""
EVERYBODY = "*"


class SortPolicy(StrEnum):
    """The order of applications in a leaf, and of children in a parent."""

    FIFO = "fifo"
    FAIR = "fair"


class Fencing(StrEnum):
    """The values of `priority.policy`: a fence shows the offset of a queue instead of the priorities in the queue."""

    DEFAULT = "default"
    FENCE = "fence"


class PreemptionPolicy(StrEnum):
    """The values of `preemption.policy`: a fence keeps preemption inside the queue; a disabled queue loses nothing."""

    DEFAULT = "default"
    FENCE = "fence"
    DISABLED = "disabled"


class GangPreemption(StrEnum):
    """The values of `preemption.gangs`: a gang loses nothing that it needs for its minimum, or ends as a whole."""

    KEEP = "keep"
    WHOLE = "whole"


class NodeOrder(StrEnum):
    """The values of `nodesortpolicy.type`: the least or the most used node comes first."""

    FAIR = "fair"
    BINPACKING = "binpacking"


class Properties(NamedTuple):
    """The properties of a queue. Delays are seconds; a quota preemption delay of 0 switches it off."""

    sort_policy: SortPolicy = SortPolicy.FIFO
    sort_priority: bool = True
    priority_policy: Fencing = Fencing.DEFAULT
    priority_offset: int = 0
    preemption_policy: PreemptionPolicy = PreemptionPolicy.DEFAULT
    preemption_delay: float = 30.0
    quota_preemption_delay: float = 0.0
    gang_preemption: GangPreemption | None = None
    """The end of gangs; None: as in the queue above, and KEEP for root."""


class Limit(NamedTuple):
    """The limit of each of some users, and of each of some groups together. `*` stands for all others."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    max_applications: int | None = None
    max_resources: Vector = NONE


class Acl(NamedTuple):
    """The users and groups who have a right. Nobody has the right if both are empty."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def admits(self, user: str, groups: tuple[str, ...]) -> bool:
        """True if the user or one of the groups is named, or everybody."""
        return EVERYBODY in self.users or user in self.users or not self.groups.isdisjoint(groups)


class Template(NamedTuple):
    """The configuration that queues get which are created for an application."""

    guaranteed: Vector = NONE
    max: Vector = NONE
    max_applications: int | None = None
    properties: Properties = Properties()


class QueueConfig(NamedTuple):
    """A queue with its children. `max_applications`: None does not limit."""

    name: str
    is_parent: bool = False
    guaranteed: Vector = NONE
    max: Vector = NONE
    max_applications: int | None = None
    properties: Properties = Properties()
    limits: tuple[Limit, ...] = ()
    template: Template | None = None
    submit: Acl = Acl()
    admin: Acl = Acl()
    queues: tuple[QueueConfig, ...] = ()


def full_names(config: QueueConfig, above: str = "") -> Iterator[tuple[str, QueueConfig]]:
    """All queues of a configuration with their full names, parents first."""
    name = f"{above}.{config.name}" if above else config.name
    yield name, config
    for child in config.queues:
        yield from full_names(child, name)


class Filter(NamedTuple):
    """The users and groups that a placement rule is for: allowed, or denied. An empty filter admits everybody."""

    allow: bool = True
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def admits(self, user: str, groups: tuple[str, ...]) -> bool:
        """True if the rule is for this user."""
        if not self.users and not self.groups:
            return True
        named = EVERYBODY in self.users or user in self.users or not self.groups.isdisjoint(groups)
        return named is self.allow


class PlacementRule(NamedTuple):
    """A rule that names a queue. `kind`: provided, user, fixed or tag. `value`: the queue of `fixed` or the tag of
    `tag`. `parent`: the rule that names the parent; None means root."""

    kind: str
    value: str = ""
    create: bool = False
    filter: Filter = Filter()
    parent: PlacementRule | None = None


class Partition(NamedTuple):
    """A partition: the tree of queues and the rules of the whole."""

    root: QueueConfig
    rules: tuple[PlacementRule, ...] = ()
    preemption: bool = True
    quota_preemption: bool = True
    node_order: NodeOrder = NodeOrder.FAIR
    weights: Mapping[str, int] = NONE
    """Weights of the resources in the order of nodes; empty: CPU and memory count 1."""

    @property
    def resources(self) -> frozenset[str]:
        """The names of all resources that queues, limits, child templates and weights name. Costs with the queues."""
        return frozenset(self.weights) | _resources(self.root)


def _resources(queue: QueueConfig) -> frozenset[str]:
    templates = () if queue.template is None else (queue.template.guaranteed, queue.template.max)
    limits = (limit.max_resources for limit in queue.limits)
    return frozenset().union(queue.guaranteed, queue.max, *templates, *limits, *map(_resources, queue.queues))
