"""The tree of hierarchical queues as the engine of gangs, and its figures for the check of sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from offers.dimensions import Amounts
from offers.policy.amounts import Vector, difference, fits_limit
from offers.policy.applications.lifecycle.health import AllocationFigure, Figures, NodeFigure
from offers.policy.applications.metadata import ApplicationMetadata
from offers.policy.hierarchy.cluster import occupy
from offers.policy.hierarchy.configuration.partition import SortPolicy
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask
from offers.policy.hierarchy.tree import Tree


class TreeEngine:
    """The engine over a tree. `suits` judges a node for a task without its room: application, task, node."""

    def __init__(
        self, tree: Tree, suits: Callable[[str, str, str], bool] = lambda application, task, node: True
    ) -> None:
        self.tree, self._suits = tree, suits
        self._held: dict[tuple[str, str], tuple[Amounts, str]] = {}

    def add(self, metadata: ApplicationMetadata) -> None:
        """Adds an application to its queue, before its first ask. Raises ValueError if the queue does not take it."""
        self.tree.submit(Application(metadata.id, metadata.queue, metadata.created, metadata.user, metadata.groups))

    def cycles(self) -> Iterator[tuple[str, str, str]]:
        """Allocates until nothing more can be placed: application, name and node, for `Gang.allocated`."""
        for allocation in self.tree.run():
            yield allocation.ask.application, allocation.ask.name, allocation.node

    def refusal(self, application: str, queue: str, placeholder_ask: Vector) -> str | None:  # noqa: ARG002
        """A message if the queue cannot take a gang of this size; None if the queue takes the gang."""
        leaf = self.tree.queues.get(queue)
        if leaf is None:
            return f"the queue {queue} does not exist"
        if leaf.config.properties.sort_policy is not SortPolicy.FIFO:
            return f"the queue {queue} does not sort applications by submission"
        for one in leaf.path:
            if not fits_limit(placeholder_ask, one.config.max):
                return f"the maximum of the queue {one.name} is smaller than the gang"
        return None

    def ask(self, application: str, name: str, request: Amounts, created: float) -> None:
        """Adds a pending ask; `created` in Unix seconds."""
        self.tree.ask(Ask(application, name, request, created))

    def withdraw(self, application: str, name: str) -> None:
        """Removes a pending ask."""
        self.tree.withdraw(application, name)

    def occupy(self, application: str, name: str, request: Amounts, node: str) -> None:
        """Adds an allocation that exists already."""
        self.tree.recover(Allocation(Ask(application, name, request), node))

    def release(self, application: str, name: str) -> None:
        """Removes an allocation, or a room that is held."""
        held = self._held.pop((application, name), None)
        if held is None:
            self.tree.release(application, name)
        else:
            request, node = held
            occupy(self.tree, node, request, -1)

    def hold(self, application: str, name: str, request: Amounts, node: str) -> None:
        """Takes room of a node, and not yet of the queue."""
        self._held[application, name] = (request, node)
        occupy(self.tree, node, request, 1)

    def replace(self, application: str, placeholder: str, name: str, request: Amounts, node: str) -> None:
        """Removes a placeholder and adds the allocation of a task; no cycle comes between."""
        self.tree.release(application, placeholder)
        held = self._held.pop((application, name), None)
        if held is not None:
            occupy(self.tree, held[1], held[0], -1)
        self.occupy(application, name, request, node)

    def suits(self, application: str, name: str, node: str) -> bool:
        """True if the node passes all checks for the task but those of its room."""
        return self._suits(application, name, node)

    def find(self, application: str, name: str, request: Amounts) -> str | None:
        """The first node with room, in the order of placement, on which the task may run; None if there is none."""
        for node in self.tree.nodes.ordered.fitting(request):
            if self._suits(application, name, node.name):
                return node.name
        return None

    def figures(self) -> Figures:
        """The figures of the tree. Room that is held counts as occupied."""
        tree = self.tree
        allocations = tuple(
            AllocationFigure(owner.name, name, one.node, one.ask.request)
            for owner in tree.applications.values()
            for name, one in owner.allocations.items()
        )
        held: dict[str, dict[str, int]] = {}
        for request, place in self._held.values():
            for name, amount in request:
                held.setdefault(place, {})[name] = held.get(place, {}).get(name, 0) + amount
        nodes = {}
        for name, node in tree.nodes.by_name.items():
            occupied = held.get(name, {})
            used = difference(difference(node.total, node.free), occupied)
            nodes[name] = NodeFigure(node.total, used, dict(node.free), occupied)
        queues = {name: dict(queue.allocated) for name, queue in tree.queues.items()}
        parents = {name: queue.parent.name if queue.parent is not None else "" for name, queue in tree.queues.items()}
        applications = {name: (one.queue, dict(one.allocated)) for name, one in tree.applications.items()}
        return Figures(allocations, nodes, queues, parents, applications)
