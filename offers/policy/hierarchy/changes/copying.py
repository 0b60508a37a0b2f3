"""A copy of a tree that shares only immutable values with the original.

`captured` notes the state of a tree in one piece, which is cheap: lists of immutable values. `copying` builds a tree
from that in steps, while the original changes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping
from typing import NamedTuple, TypeVar

from offers.dimensions import Amounts, amounts
from offers.policy.amounts import Vector, added, difference
from offers.policy.hierarchy.cluster import resize
from offers.policy.hierarchy.configuration.partition import Partition, QueueConfig
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask, Terms
from offers.policy.hierarchy.state.nodes import Node
from offers.policy.hierarchy.state.queue import Queue, QueueState
from offers.policy.hierarchy.tree import Tree

STEP = 200
"""Objects that one step of a copy or of a trial works on."""
T = TypeVar("T")
Steps = Generator[None, None, T]


def finished(steps: Steps[T]) -> T:
    """The result of all steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


class _Node(NamedTuple):
    name: str
    total: Mapping[str, int]
    free: Mapping[str, int]
    running: list[Allocation]


class _Queue(NamedTuple):
    name: str
    parent: str
    config: QueueConfig
    max: Mapping[str, int]
    guaranteed: Mapping[str, int]
    is_temporary: bool
    above_since: float | None
    state: QueueState


class _Application(NamedTuple):
    name: str
    queue: str
    submitted: float
    user: str
    user_groups: tuple[str, ...]
    allocations: list[Allocation]
    asks: list[Ask]
    oldest: float | None
    preempted_at: Mapping[str, float]
    reserved_at: Mapping[str, float]
    paused_until: Mapping[Amounts, float]
    least: int


class Captured(NamedTuple):
    """The state of a tree at one moment."""

    partition: Partition
    admits: Callable[[Hashable, str], bool] | None
    terms: Terms
    nodes: list[_Node]
    queues: list[_Queue]
    applications: list[_Application]
    leaving: list[Allocation]
    promises: list[tuple[Ask, str]]
    reserves: set[tuple[str, str]]
    """The promises without victims: application and name of the ask."""


def captured(tree: Tree, admits: Callable[[Hashable, str], bool] | None = None) -> Captured:
    """The present state. `admits`: judges the constraints of asks in copies; None: as the tree does."""
    idle = [(owner, name) for owner, _, name in (one.rpartition("/") for one in tree.idle)]
    return Captured(
        tree.partition,
        admits if admits is not None else tree.nodes.admits,
        tree.terms._replace(lacking=dict(tree.terms.lacking), idle=lambda: idle, kept=None),
        [_Node(one.name, one.total, dict(one.free), [each.allocation for each in one.running]) for one in tree.nodes],
        [_captured_queue(queue) for queue in tree.queues.values()],
        [
            _Application(
                one.name,
                one.queue,
                one.submitted,
                one.user,
                one.user_groups,
                list(one.allocations.values()),
                [ask for group in one.groups.values() for _, _, ask in group.asks],
                one.oldest,
                dict(one.preempted_at),
                dict(one.reserved_at),
                dict(one.paused_until),
                one.least,
            )
            for one in tree.applications.values()
        ],
        list(tree.leaving.values()),
        [(ask, node.name) for node in tree.nodes for ask in node.promises.values()],
        {(one.name, name) for one in tree.applications.values() for name in one.reserves},
    )


def _captured_queue(queue: Queue) -> _Queue:
    parent = queue.parent.name if queue.parent is not None else ""
    own = (queue.max, queue.guaranteed, queue.is_temporary, queue.above_since, queue.state)
    return _Queue(queue.name, parent, queue.config, *own)


def recounted(
    state: Captured, sizes: Mapping[str, tuple[Vector, Amounts]], requests: Mapping[tuple[str, str], Amounts]
) -> Captured:
    """The state of a tree that counts other resources. `sizes`: the total of each node, and the amounts that others
    than the applications use there; `requests`: the amounts of each ask and allocation, by application and name.
    Nodes, asks and allocations that are missing there stay as they are."""

    def anew(ask: Ask) -> Ask:
        return ask._replace(request=requests.get((ask.application, ask.name), ask.request))

    def all_anew(allocations: list[Allocation]) -> list[Allocation]:
        return [one._replace(ask=anew(one.ask)) for one in allocations]

    def sized(node: _Node) -> _Node:
        running = all_anew(node.running)
        if node.name not in sizes:
            return node._replace(running=running)
        total, foreign = sizes[node.name]
        used = [dict(one.ask.request) for one in running]
        return node._replace(total=total, free=difference(total, added(dict(foreign), *used)), running=running)

    return state._replace(
        nodes=[sized(node) for node in state.nodes],
        applications=[
            one._replace(allocations=all_anew(one.allocations), asks=[anew(ask) for ask in one.asks])
            for one in state.applications
        ],
        leaving=all_anew(state.leaving),
        promises=[(anew(ask), name) for ask, name in state.promises],
    )


def copying(state: Captured) -> Steps[Tree]:
    """Returns a tree in a captured state, built in steps."""
    copy = Tree(state.partition, (), state.admits)
    copy.begin(state.terms)
    for number, node in enumerate(state.nodes, 1):
        other = Node(node.name, node.total)
        copy.nodes.add(other)
        used = added(*[dict(allocation.ask.request) for allocation in node.running])
        copy.nodes.use(node.name, amounts(difference(difference(node.total, node.free), used)), 1)
        if number % STEP == 0:
            yield
    resize(copy)
    yield
    for queue in state.queues:
        _copy_queue(copy, queue)
    for application in state.applications:
        yield from _copy_application(copy, application)
        yield
    for victim in state.leaving:
        copy.leave(victim)
    for ask, name in state.promises:
        copy.promise(ask.application, ask.name, name, reserves=(ask.application, ask.name) in state.reserves)
    for queue in state.queues:
        copy.queues[queue.name].state = queue.state
    for leaf in copy.root.leaves():
        leaf.place_path()
    return copy


def _copy_queue(copy: Tree, queue: _Queue) -> None:
    other = copy.queues.get(queue.name)
    if other is None:
        other = copy.grow(queue.config._replace(queues=()), copy.queues[queue.parent])
    other.max, other.guaranteed, other.is_temporary = queue.max, queue.guaranteed, queue.is_temporary
    other.above_since = queue.above_since
    other.resize(copy.total)


def _copy_application(copy: Tree, application: _Application) -> Steps[None]:
    other = Application(
        application.name, application.queue, application.submitted, application.user, application.user_groups
    )
    copy.submit(other, forced=True)
    for number, allocation in enumerate(application.allocations, 1):
        copy.recover(allocation)
        if number % STEP == 0:
            yield
    for number, ask in enumerate(application.asks, 1):
        copy.ask(ask)
        if number % STEP == 0:
            yield
    other.oldest, other.least = application.oldest, application.least
    other.preempted_at, other.reserved_at = dict(application.preempted_at), dict(application.reserved_at)
    other.paused_until = dict(application.paused_until)
    copy.renew(other, other.priorities.greatest(), None)
