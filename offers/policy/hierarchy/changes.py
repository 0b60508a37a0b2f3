"""Another configuration of a tree: applied while applications run, and tried on a copy.

Queues that are no longer configured drain and are removed when they are empty; queues that return are active again.
Running tasks continue: a lower maximum only keeps new work away, and quota preemption may take the excess.

`captured` notes the state of a tree in one piece, which is cheap: lists of immutable values. `copying` builds a tree
from that in steps, while the original changes. A dry trial (`trying`) compares two such copies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Hashable, Mapping
from math import inf
from typing import NamedTuple, TypeVar

from offers.dimensions import Amounts, amounts
from offers.errors import BadDocument, Problem
from offers.ledger.holds import RETRY
from offers.policy.amounts import Vector, added, difference
from offers.policy.hierarchy.cluster import expect, resize
from offers.policy.hierarchy.configuration.partition import Partition, QueueConfig
from offers.policy.hierarchy.explanation import Cause, cause_of
from offers.policy.hierarchy.preemption.preemption import preempting
from offers.policy.hierarchy.preemption.quota import giving_back
from offers.policy.hierarchy.queues import prune, renew, retire
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.limits import Trackers
from offers.policy.hierarchy.state.model import Allocation, Ask, Terms
from offers.policy.hierarchy.state.nodes import Closings, Node
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


# --- copies -----------------------------------------------------------------------------------------------------


class _Node(NamedTuple):
    name: str
    total: Mapping[str, int]
    free: Mapping[str, int]
    running: list[Allocation]
    coming: Amounts


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
    moving: set[str]
    promises: list[tuple[Ask, str]]
    reserves: set[tuple[str, str]]
    """The promises without victims: application and name of the ask."""


def captured(tree: Tree, admits: Callable[[Hashable, str], bool] | None = None) -> Captured:
    """The present state. `admits`: judges the constraints of asks in copies; None: as the tree does."""
    idle = [(owner, name) for owner, _, name in (identity.rpartition("/") for identity in tree.idle)]
    return Captured(
        tree.partition,
        admits if admits is not None else tree.nodes.admits,
        tree.terms._replace(lacking=dict(tree.terms.lacking), idle=lambda: idle, kept=None),
        [
            _Node(node.name, node.total, dict(node.free), [each.allocation for each in node.running], node.coming)
            for node in tree.nodes
        ],
        [_captured_queue(queue) for queue in tree.queues.values()],
        [
            _Application(
                application.name,
                application.queue,
                application.submitted,
                application.user,
                application.user_groups,
                list(application.allocations.values()),
                [ask for group in application.groups.values() for _, _, ask in group.asks],
                application.oldest,
                dict(application.preempted_at),
                dict(application.reserved_at),
                dict(application.paused_until),
                application.least,
            )
            for application in tree.applications.values()
        ],
        list(tree.leaving.values()),
        set(tree.moving),
        [(ask, node.name) for node in tree.nodes for ask in node.promises.values()],
        {(application.name, name) for application in tree.applications.values() for name in application.reserves},
    )


def _captured_queue(queue: Queue) -> _Queue:
    parent = queue.parent.name if queue.parent is not None else ""
    own = (queue.max, queue.guaranteed, queue.is_temporary, queue.above_since, queue.state)
    return _Queue(queue.name, parent, queue.config, *own)


def recounted(
    state: Captured, sizes: Mapping[str, tuple[Vector, Amounts, Amounts]], requests: Mapping[tuple[str, str], Amounts]
) -> Captured:
    """The state of a tree that counts other resources. `sizes`: the total of each node, the amounts that others than
    the applications use there, and those of these that come; `requests`: the amounts of each ask and allocation, by
    application and name. Nodes, asks and allocations that are missing there stay as they are."""

    def anew(ask: Ask) -> Ask:
        return ask._replace(request=requests.get((ask.application, ask.name), ask.request))

    def all_anew(allocations: list[Allocation]) -> list[Allocation]:
        return [allocation._replace(ask=anew(allocation.ask)) for allocation in allocations]

    def sized(node: _Node) -> _Node:
        running = all_anew(node.running)
        if node.name not in sizes:
            return node._replace(running=running)
        total, foreign, coming = sizes[node.name]
        used = [dict(allocation.ask.request) for allocation in running]
        free = difference(total, added(dict(foreign), *used))
        return node._replace(total=total, free=free, running=running, coming=coming)

    return state._replace(
        nodes=[sized(node) for node in state.nodes],
        applications=[
            application._replace(
                allocations=all_anew(application.allocations), asks=[anew(ask) for ask in application.asks]
            )
            for application in state.applications
        ],
        leaving=all_anew(state.leaving),
        promises=[(anew(ask), name) for ask, name in state.promises],
    )


def remade(tree: Tree) -> Tree:
    """A tree in the same state that takes the place of this one. No figures are taken over, but results, pauses and
    moments are."""
    made = finished(copying(captured(tree), tree.closings))
    for name, queue in tree.queues.items():
        other = made.queues[name]
        other.tried = dict(queue.tried)
        tries = queue.fruitless.items()
        pauses = {kind: fruitless._replace(top=other) for kind, fruitless in tries if fruitless.until < inf}
        other.fruitless = pauses
    return made


def copying(state: Captured, closings: Closings | None = None) -> Steps[Tree]:
    """Returns a tree in a captured state, built in steps. `closings`: those of the tree; None: no node was reserved."""
    copy = Tree(state.partition, (), state.admits, closings)
    copy.begin(state.terms)
    for number, node in enumerate(state.nodes, 1):
        other = Node(node.name, node.total)
        copy.nodes.add(other)
        used = added(*[dict(allocation.ask.request) for allocation in node.running])
        copy.nodes.use(node.name, amounts(difference(difference(node.total, node.free), used)), 1)
        expect(copy, node.name, node.coming)
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
        copy.leave(victim, moves=victim.ask.id in state.moving)
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


# --- applied ----------------------------------------------------------------------------------------------------


class CannotChange(BadDocument):
    """A configuration does not suit the applications that exist. The paths are full names of queues."""


def apply(tree: Tree, partition: Partition) -> list[str]:
    """Gives a tree another configuration. Returns the full names of the queues that drain from now on. Raises
    CannotChange, with the tree unchanged, if a queue with applications would become a parent, or a queue above
    applications a leaf."""
    return finished(applying(tree, partition))


def applying(tree: Tree, partition: Partition) -> Steps[list[str]]:
    """Like `apply`, in steps. The tree must not be used between the steps."""
    problems = list(conflicts(partition.root, tree.root))
    if problems:
        raise CannotChange(problems)
    yield from _forget_order(tree)
    tree.partition = partition
    tree.safe.clear()
    tree.nodes.reorder(partition.node_order, partition.weights)
    yield
    draining: list[str] = []
    _update(tree, partition.root, tree.root, draining)
    for queue in list(tree.queues.values()):
        if queue.name in tree.queues:
            prune(tree, queue)
    for queue in tree.queues.values():
        renew(queue)
        queue.resize(tree.total)
    yield from _renew_limits(tree)
    yield from _renew_order(tree)
    return [name for name in draining if name in tree.queues]


def conflicts(config: QueueConfig, queue: Queue) -> list[Problem]:
    """The reasons for which a configuration does not suit the applications of a queue and of those below."""
    problems: list[Problem] = []
    if queue.is_leaf and config.is_parent and queue.applications:
        problems.append(Problem(queue.name, f"becomes a parent, but has {len(queue.applications)} applications"))
    if not queue.is_leaf and not config.is_parent and any(leaf.applications for leaf in queue.leaves()):
        problems.append(Problem(queue.name, "becomes a leaf, but queues below have applications"))
    for child in config.queues:
        if child.name in queue.children:
            problems += conflicts(child, queue.children[child.name])
    return problems


def _forget_order(tree: Tree) -> Steps[None]:
    """Takes all requests out of their classes: keys of two configurations do not compare."""
    for leaf in tree.root.leaves():
        for application in leaf.applications.values():
            for group in application.groups.values():
                group.place(None)
            yield
        for request_class in list(leaf.classes.values()):
            leaf.place_class(request_class)
        leaf.place_path()


def _update(tree: Tree, config: QueueConfig, queue: Queue, draining: list[str]) -> None:
    was_retired = queue.is_temporary and queue.state is QueueState.DRAINING
    queue.config, queue.guaranteed, queue.is_temporary = config, config.guaranteed, False
    if queue.parent is not None:
        queue.max = config.max
    if was_retired:
        queue.state = QueueState.ACTIVE
    configured = {child.name: child for child in config.queues}
    for name, child in list(queue.children.items()):
        if name not in configured and not child.is_temporary:
            for below in (child, *_below(child)):
                if not below.is_temporary:
                    retire(below)
                    draining.append(below.name)
    for name, entry in configured.items():
        if name in queue.children:
            _update(tree, entry, queue.children[name], draining)
        else:
            tree.grow(entry, queue)


def _below(queue: Queue) -> list[Queue]:
    return [descendant for child in queue.children.values() for descendant in (child, *_below(child))]


def _renew_limits(tree: Tree) -> Steps[None]:
    tree.trackers = Trackers()
    for application in tree.applications.values():
        application.trackers = tree.trackers.of(tree.queues[application.queue], application)
        for tracker in application.trackers:
            tracker.running += bool(application.allocations)
            tracker.use(tuple(application.allocated.items()), 1)
        yield


def _renew_order(tree: Tree) -> Steps[None]:
    for application in tree.applications.values():
        application.key = ()
        tree.renew(application, application.priorities.greatest(), None)
        yield
    for leaf in tree.root.leaves():
        leaf.place_path()


# --- tried ------------------------------------------------------------------------------------------------------

ROUNDS = 100
"""Rounds of preemption at most, each `RETRY` seconds after the one before."""


class Wait(NamedTuple):
    """An application with more asks that wait than with the present configuration. `cause`: the cause of the first.
    `used`, `most`: usage and maximum of the queue of the cause; empty if the cause is no queue."""

    application: str
    asks: int
    before: int
    cause: Cause
    used: Amounts = ()
    most: Amounts = ()


class Victim(NamedTuple):
    """An allocation that would be preempted. `beneficiary`: the ask that gets the room; None if a maximum was lowered
    below the usage."""

    allocation: Allocation
    beneficiary: Ask | None


class Trial(NamedTuple):
    """The effect of a configuration. `draining`: queues that are no longer configured and still have applications.
    `moved_on`: applications with fewer asks that wait than with the present configuration."""

    waits: tuple[Wait, ...]
    moved_on: tuple[str, ...]
    preempted: tuple[Victim, ...]
    draining: tuple[str, ...]


def trying(
    present: Captured,
    partition: Partition,
    now: float,
    states: Mapping[str, QueueState] | None = None,
) -> Steps[Trial]:
    """Returns the trial of a tree in a captured state, made in steps. `now`: seconds of the clock of the asks.
    `states`: the states of queues by full name; None: as they are. Raises CannotChange."""
    before = yield from copying(present)
    after = yield from copying(present)
    draining = yield from applying(after, partition)
    for name, state in (states or {}).items():
        if name in after.queues and after.queues[name].state is not state:
            after.set_state(name, state)
    yield
    yield from _settle(before, now)
    victims = yield from _settle(after, now)
    waits, moved_on = [], []
    for name in sorted(application.name for application in present.applications):
        asks, earlier = after.applications[name].asks, len(before.applications[name].asks)
        if len(asks) > earlier:
            cause = cause_of(after, name, next(iter(asks)))
            queue = after.queues.get(cause.where)
            used, most = (amounts(queue.allocated), amounts(queue.max)) if queue is not None else ((), ())
            waits.append(Wait(name, len(asks), earlier, cause, used, most))
        elif len(asks) < earlier:
            moved_on.append(name)
        if len(waits) % STEP == 1:
            yield
    return Trial(tuple(waits), tuple(moved_on), tuple(victims), tuple(draining))


def _settle(tree: Tree, now: float) -> Steps[list[Victim]]:
    """Lets a tree place and preempt until nothing changes; victims end at once and do not come back. They spend the
    allowance of the tree."""
    spent: Counter[tuple[str, ...]] = Counter()
    """Victims by budget, those that have not ended included."""
    allowance, budget_of = tree.terms.allowance, tree.terms.budget_of
    if allowance is not None:
        tree.begin(tree.terms._replace(allowance=lambda name: allowance(name) - spent[budget_of(name)]))
    all_victims: list[Victim] = []
    for moment in (now, inf):
        for preemption in giving_back(tree, moment):
            if preemption is None:
                yield
                continue
            spent[budget_of(preemption.ask.application)] += preemption.ask.id not in tree.idle
            all_victims.append(Victim(preemption, None))
            if len(all_victims) % STEP == 0:
                yield
    yield from _end(tree, all_victims)
    later = now + max((leaf.config.properties.preemption_delay for leaf in tree.root.leaves()), default=0.0)
    for number in range(1, ROUNDS + 1):
        for placed, _ in enumerate(tree.run(), 1):
            if placed % STEP == 0:
                yield
        victims: list[Victim] = []
        for made in preempting(tree, later + number * RETRY):
            if made is not None:
                works = (victim.ask for victim in made.victims if victim.ask.id not in tree.idle)
                spent.update(budget_of(ask.application) for ask in works)
                victims += [Victim(victim, made.ask) for victim in made.victims]
            yield
        if not victims:
            break
        all_victims += victims
        yield from _end(tree, victims)
    return all_victims


def _end(tree: Tree, victims: list[Victim]) -> Steps[None]:
    for number, victim in enumerate(victims, 1):
        tree.release(victim.allocation.ask.application, victim.allocation.ask.name)
        if number % STEP == 0:
            yield
