"""The tree of queues with its applications and nodes: one allocation per cycle.

A cycle descends from root into the first child that has something to try, down to the first class of requests of a
leaf. A class that the maximum of a queue or the nodes refuse is set aside among the requests that wait there, and
returns when there is room for it: a cycle therefore never walks over queues, applications or asks that cannot be
placed. Each change renews figures and keys on the path of one leaf only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from offers.dimensions import Amounts
from offers.policy.amounts import Vector, added
from offers.policy.hierarchy.configuration.partition import Partition, QueueConfig
from offers.policy.hierarchy.precedence import Side, outranks
from offers.policy.hierarchy.state.application import Alternative, Application, Group, RequestClass, alternative_of
from offers.policy.hierarchy.state.blocks import fits_request
from offers.policy.hierarchy.state.limits import Trackers
from offers.policy.hierarchy.state.model import Allocation, Ask, Preemption, Terms, add_to, limits_of
from offers.policy.hierarchy.state.nodes import Admits, Closings, Node, Nodes
from offers.policy.hierarchy.state.queue import Queue, QueueState
from offers.policy.hierarchy.state.waiting import Waiting
from offers.policy.hierarchy.steps import allocate, recover_all, withdraw_all

if TYPE_CHECKING:
    from offers.policy.hierarchy.preemption.preemption import Halted, Round, Safe


LOOKED_AT = 256
"""Objects that divided work looks at in one step, some milliseconds at most."""
Result = TypeVar("Result")
NO_ROOM: Mapping[str, Mapping[str, int]] = {}


class Tree:
    """The state of a partition. Names of queues are full names: ``root.batch.night``."""

    def __init__(
        self,
        partition: Partition,
        nodes: Iterable[tuple[str, Vector]],
        admits: Admits | None = None,
        closings: Closings | None = None,
    ) -> None:
        """`nodes`: name and total of each. `admits` judges the constraints of asks; None admits all. `closings`: those
        of a tree that this one replaces. Raises ValueError if two nodes have one name or an amount is negative."""
        self.partition = partition
        self.nodes = Nodes(partition.node_order, partition.weights, admits)
        self.nodes.fill(Node(name, total) for name, total in nodes)
        self.total = added(*[node.total for node in self.nodes])
        self.queues: dict[str, Queue] = {}
        self.applications: dict[str, Application] = {}
        self.leaving: dict[str, Allocation] = {}
        """The allocations that are being preempted, by id."""
        self.moving: set[str] = set()
        """The ids of those that leave for another node: their queues keep their amounts for the successors."""
        self.terms = Terms()
        """The facts of the present decision, or of the latest one."""
        self._idle: Mapping[str, str] | None = None
        self._idle_queues: frozenset[str] = frozenset()
        self.tries = 0
        """The number of requests that cycles have tried so far."""
        self.freed = 0
        """Changes whenever a node may have more room, now or once something has left, or may admit more."""
        self.safe: dict[frozenset[str], Safe] = {}
        """The leaves that can lose nothing, by the resources that are wanted (preemption.preemption)."""
        self.behind: Round | None = None
        """The round of preemption that the next turn continues (preemption.preemption)."""
        self.halted: dict[str, Halted] = {}
        """The searches for victims that a later turn continues, by id of the ask."""
        self.now = 0.0
        """The time of the present part of such work, seconds of the clock of the asks."""
        self.rests: dict[str, Iterator[Any]] = {}
        """Other work that the next turn continues, by its kind (`part`)."""
        self.closings = closings or Closings()
        """The times for which nodes were reserved."""
        self.trackers = Trackers()
        self.root = self.grow(partition.root, None)

    def begin(self, terms: Terms) -> None:
        """A decision begins, or another part of one: these are its facts."""
        if terms.kept != self.terms.kept:
            self.freed += 1
            if self.terms.kept is not None and limits_of(terms.kept) != limits_of(self.terms.kept):
                for owner in self.owners_of(self.terms.kept.applications, 0):
                    for queue in owner.leaf.path:
                        self.wake(queue.waiting.fitting(queue.headroom()))
        if terms.idle is not self.terms.idle:
            self._idle = None
        self.terms = terms

    @property
    def is_halted(self) -> bool:
        """True if a later turn continues some work."""
        return bool(self.halted or self.rests) or self.behind is not None

    @property
    def idle(self) -> Mapping[str, str]:
        """The queues of the running allocations that do not work (yet), by id: these end before all others, and spend
        nothing of the allowances."""
        if self._idle is None:
            known = self.applications
            idle = ((owner, name) for owner, name in self.terms.idle() if owner in known)
            self._idle = {f"{owner}/{name}": known[owner].queue for owner, name in idle}
            self._idle_queues = frozenset(self._idle.values())
        return self._idle

    @property
    def idle_queues(self) -> frozenset[str]:
        """The queues that have such allocations."""
        return self._idle_queues if self.idle else frozenset()

    def grow(self, config: QueueConfig, parent: Queue | None) -> Queue:
        """Adds a queue with its children below a parent, and returns the queue; None as the parent makes root."""
        queue = Queue(config, parent, self.total)
        self.queues[queue.name] = queue
        if parent is not None:
            parent.children[config.name] = queue
        for child in config.queues:
            self.grow(child, queue)
        return queue

    # --- changes ----------------------------------------------------------------------------------------------

    def submit(self, application: Application, *, forced: bool = False) -> None:
        """Adds an application to its leaf. Raises ValueError if the name is known, or the queue is no leaf or does not
        take applications; a forced application is also taken by a queue that takes no others."""
        queue = self.queues.get(application.queue)
        if queue is None or not queue.is_leaf:
            raise ValueError(f"application {application.name}: {application.queue} is no leaf")
        if not forced and any(ancestor.state is not QueueState.ACTIVE for ancestor in queue.path):
            raise ValueError(f"application {application.name}: {application.queue} takes no applications")
        if application.name in self.applications:
            raise ValueError(f"application {application.name}: exists already")
        self.applications[application.name] = application
        queue.applications[application.name] = application
        application.key = queue.key_of(application)
        application.trackers = self.trackers.of(queue, application)

    def finish(self, name: str) -> None:
        """Removes an application and its pending asks. Raises KeyError for an unknown application, ValueError if it has
        allocations."""
        application = self.applications[name]
        if application.allocations:
            raise ValueError(f"application {name}: {len(application.allocations)} allocations have not ended")
        withdraw_all(self, name)
        del self.applications[name], self.queues[application.queue].applications[name]

    def ask(self, ask: Ask) -> None:
        """Like `ask_all` for one ask."""
        self.ask_all([ask])

    def ask_all(self, asks: Iterable[Ask]) -> None:
        """Adds pending asks of one application. Raises KeyError for an unknown application, ValueError for a negative
        amount, a name with a slash or a name that is known; the asks before this one are added."""
        groups: dict[Group, None] = {}
        application, before = None, None
        try:
            for ask in asks:
                if application is None:
                    application = self.applications[ask.application]
                    before = application.priorities.greatest()
                groups[application.add(ask)] = None
                self._count(application, ask.request, 1)
        finally:
            for group in groups:
                assert application is not None
                self.renew(application, before, group)
                before = application.priorities.greatest()

    def withdraw(self, application: str, name: str) -> Ask:
        """Removes a pending ask, and returns the ask. Raises KeyError if there is no such ask."""
        owner = self.applications[application]
        group = owner.asks[name]
        before = owner.priorities.greatest()
        ask = self.remove_ask(owner, group, next(i for i, entry in enumerate(group.asks) if entry[1] == name))
        self.renew(owner, before, group)
        return ask

    def recover(self, allocation: Allocation) -> None:
        """Adds an allocation that runs already. Raises KeyError for an unknown application or node."""
        recover_all(self, allocation.ask.application, [allocation])

    def release(self, application: str, name: str) -> Allocation:
        """Removes an allocation that has ended, and returns the allocation. Requests that fit the room that this gives
        on the node or below a maximum may be tried again. Raises KeyError if there is no such allocation."""
        owner = self.applications[application]
        allocation = owner.allocations.pop(name)
        request = allocation.ask.request
        leaf = self.queues[owner.queue]
        self.touch(leaf)
        node = self.nodes.use(allocation.node, request, -1)
        self.nodes.forget(allocation, leaf)
        if self.leaving.pop(allocation.ask.id, None) is not None:
            self._count_leaving(allocation, -1)
        leaf.note(allocation, -1)
        add_to(owner.allocated, request, -1)
        for queue in leaf.path:
            add_to(queue.allocated, request, -1)
        if not owner.allocations:
            self.count_started(leaf, -1)
        for queue in leaf.path:
            if queue.waiting:
                self.wake(queue.waiting.fitting(queue.headroom()))
        for tracker in owner.trackers:
            tracker.use(request, -1)
            tracker.running -= not owner.allocations
            self.wake(list(tracker.woken()))
        self.wake_on(node)
        self.renew(owner, owner.priorities.greatest(), None)
        return allocation

    def set_state(self, name: str, state: QueueState) -> None:
        """Stops, drains or activates a queue; promises to asks of a stopped one end. Raises KeyError without one."""
        queue = self.queues[name]
        queue.state = state
        for leaf in queue.leaves():
            for request_class in list(leaf.classes.values()):
                if request_class.alternative.promised and state is QueueState.STOPPED:
                    for ask in [entry[2] for group in request_class.members for entry in group.asks]:
                        self.forget_promise(ask.application, ask.name)
                elif request_class.alternative.moves:
                    leaf.place_class(request_class)
        queue.place_path()

    def set_least(self, name: str, least: int) -> None:
        """Sets the minimum of an application. Raises KeyError for an unknown one."""
        application = self.applications[name]
        application.least = least
        self.touch(self.queues[application.queue])

    @contextmanager
    def as_active(self, names: Iterable[str]) -> Iterator[None]:
        """The queues with these names take applications meanwhile; unknown names are ignored."""
        halted = [(queue, queue.state) for name in names if (queue := self.queues.get(name)) is not None]
        for queue, _ in halted:
            queue.state = QueueState.ACTIVE
        try:
            yield
        finally:
            for queue, state in halted:
                queue.state = state
                queue.place_path()

    # --- promises ---------------------------------------------------------------------------------------------

    def promise(self, application: str, name: str, node: str, *, reserves: bool = False) -> None:
        """Holds room on a node for a pending ask, which is tried before all others. Others get the room that the ask
        leaves once everything has left that is leaving. The ask gets another node if that node has room earlier, except
        if the ask requires one node. `reserves`: no victims leave for the ask. Queues do not expect its usage then, and
        asks that outrank it may use the room (`outranks`). Raises KeyError if the ask or the node is unknown."""
        owner = self.applications[application]
        self._regroup(owner, owner.asks[name], name, node, reserves=reserves)

    def forget_promise(self, application: str, name: str) -> None:
        """Ends a promise; the ask is tried like others. Raises KeyError if there is no such ask or no promise."""
        owner = self.applications[application]
        self._regroup(owner, owner.asks[name], name, "")

    def preempt(self, preemption: Preemption) -> None:
        """Notes that victims are leaving, and promises their node to the ask. The caller ends the victims, and calls
        `release` for each that has ended. Raises KeyError if the ask is not pending or a victim has no allocation."""
        for victim in preemption.victims:
            self.leave(victim)
        ask = preemption.ask
        self.promise(ask.application, ask.name, preemption.node)

    def leave(self, victim: Allocation, *, moves: bool = False) -> None:
        """Notes that an allocation is being preempted, or leaves for another node. Raises KeyError for an unknown one,
        or one that is leaving."""
        owner = self.applications[victim.ask.application]
        if owner.allocations[victim.ask.name] != victim or victim.ask.id in self.leaving:
            raise KeyError(victim.ask.id)
        self.touch(self.queues[owner.queue])
        self.freed += 1
        self.leaving[victim.ask.id] = victim
        if moves:
            self.moving.add(victim.ask.id)
        self.nodes.columns.leave(victim.ask.id)
        self._count_leaving(victim, 1)
        if (node := self.nodes.by_name[victim.node]).promises:
            self.wake_on(node)  # leaving room serves the promises, so there is more beside them

    def stay(self, victim: Allocation) -> None:
        """Notes that an allocation that is being preempted is not ended. Raises KeyError if it is not leaving."""
        del self.leaving[victim.ask.id]
        self.touch(self.queues[self.applications[victim.ask.application].queue])
        self.nodes.columns.stay(victim.ask.id)
        self._count_leaving(victim, -1)

    def _count_leaving(self, victim: Allocation, sign: int) -> None:
        owner, request = self.applications[victim.ask.application], victim.ask.request
        owner.leaving += sign
        self.nodes.leave(victim.node, request, sign)
        for queue in () if victim.ask.id in self.moving else self.queues[owner.queue].path:
            add_to(queue.leaving, request, sign)
        if sign < 0:
            self.moving.discard(victim.ask.id)

    def _regroup(self, owner: Application, group: Group, name: str, node: str, *, reserves: bool = False) -> None:
        self.touch(self.queues[owner.queue])
        before, tried = owner.priorities.greatest(), owner.preempted_at.get(name)
        reserved = owner.reserved_at.get(name)
        ask = self.remove_ask(owner, group, next(i for i, entry in enumerate(group.asks) if entry[1] == name))
        if tried is not None:
            owner.preempted_at[name] = tried
        if node and reserved is not None:
            owner.reserved_at[name] = reserved
        new = owner.add(ask, node)
        self._count(owner, ask.request, 1)
        if node:
            self.nodes.promise(node, ask, reserves=reserves)
            if reserves:
                owner.reserves.add(name)
            for queue in () if reserves else self.queues[owner.queue].path:
                add_to(queue.promised, ask.request, 1)
        self.renew(owner, before, group)
        self.renew(owner, owner.priorities.greatest(), new)

    # --- the cycle --------------------------------------------------------------------------------------------

    def cycle(self) -> Allocation | None:
        """Makes the next allocation; None if nothing can be placed."""
        while self.root.state is not QueueState.STOPPED:
            request_class = self.root.ready_first.first()
            if request_class is None:
                queue: Queue | None = self.root
                while queue is not None and not queue.is_leaf:
                    queue = queue.ready_children.first()
                request_class = queue.first_class() if queue is not None else None
            if request_class is None:
                return None
            allocation = self._try(request_class)
            if allocation is not None:
                return allocation
        return None

    def run(self) -> Iterator[Allocation]:
        """Repeats cycles until nothing more can be placed."""
        while (allocation := self.cycle()) is not None:
            yield allocation

    def _try(self, request_class: RequestClass) -> Allocation | None:
        self.tries += 1
        group = request_class.members.first()
        assert group is not None
        application, alternative = group.application, request_class.alternative
        refused = self._refusal(request_class, application)
        node = None
        if refused is None:
            node, refused = self._node(alternative, group)
        if node is None and refused is not None:
            self._set_aside(request_class, refused)
            return None
        assert node is not None
        return allocate(self, request_class, group, node)

    def _refusal(self, request_class: RequestClass, application: Application) -> Waiting[RequestClass] | None:
        """The requests among which a class must wait because of a maximum or a limit; None if none is in the way."""
        for queue in request_class.leaf.path:
            exceeded = queue.exceeded if request_class.alternative.promised else queue.exceeded_beside_promises
            if queue.max and exceeded(request_class.request):
                return queue.waiting
        withheld = self.withheld(application, request_class.members.first()) if self.terms.kept is not None else None
        return withheld.waiting if withheld is not None else self.limit_of(application, request_class.request)

    def withheld(self, application: Application, group: Group | None) -> Queue | None:
        """The queue whose maximum does not hold an ask of a group beside old work for which others were ended, and that
        the ask does not outrank; None if none is in the way."""
        kept = self.terms.kept
        if kept is None or group is None or application.name in kept.applications or limits_of(kept) is None:
            return None
        leaf, alike = self.queues[application.queue], group.alike
        owners = self.owners_of(kept.applications, kept.priority)
        if outranks((Side(application.name, leaf, alike.priority, alike.request),), owners):
            return None
        needed = added(dict(alike.request), kept.sums())
        shared = (queue for queue in leaf.path if queue.max and any(queue in owner.leaf.path for owner in owners))
        return next((queue for queue in shared if queue.exceeded(tuple(needed.items()))), None)

    def limit_of(self, application: Application, request: Amounts) -> Waiting[RequestClass] | None:
        """The requests among which a request of an application must wait because of a limit of applications, or of a
        user or group; None if none is in the way."""
        started = bool(application.allocations)
        for queue in self.queues[application.queue].path:
            most = queue.config.max_applications
            if not started and most is not None and queue.running >= most:
                return queue.waiting_new
        for tracker in application.trackers:
            waiting = tracker.refuses(request, started)
            if waiting is not None:
                return waiting
        return None

    def headrooms(self, application: Application) -> list[dict[str, int]]:
        """The amounts that each maximum and each limit leaves to an application."""
        path = self.queues[application.queue].path
        return [*(queue.headroom() for queue in path), *(tracker.headroom() for tracker in application.trackers)]

    def _node(self, alternative: Alternative, group: Group) -> tuple[Node | None, Waiting[RequestClass] | None]:
        """`group`: the first group of the class."""
        request, constraint = alternative.request, alternative.constraint
        only = alternative.promised or alternative.required_node
        if only:
            there = self.nodes.by_name.get(only)
            if there is None:
                return None, self.nodes.missing
            node = self.nodes.has_room(only, request, constraint, in_turn=not alternative.promised)
            if node is not None or alternative.required_node:
                return node, there.waiting if node is None else None
        # A promise holds room on one node. It does not keep the ask from another node that has room now.
        node = self.nodes.find(request, constraint) or self._reserved_node(group)
        return node, self.nodes.waiting if node is None else None

    def _reserved_node(self, group: Group) -> Node | None:
        """The first node with room for a group that is reserved for asks which the group outranks; None without."""
        request, constraint = group.alike.request, group.alike.constraint
        for _, node in sorted(self.nodes.reserving.items()) if self.nodes.reserving else ():
            if (
                fits_request(request, node.open_beside(node.promised))
                and self.nodes.is_admitted(constraint, node.name)
                and self.outranks(group, node)
            ):
                return node
        return None

    def outranks(self, group: Group, node: Node) -> bool:
        """True if an ask of a group may use the room that others have reserved on a node."""
        alike, owner = group.alike, group.application
        ask = Side(owner.name, self.queues[owner.queue], alike.priority, alike.request)
        return outranks((ask,), [self.side(holder.application, holder.priority) for holder in node.reserving.values()])

    def side(self, application: str, priority: int) -> Side:
        """An application as the owner of room. Raises KeyError for an unknown one."""
        return Side(application, self.queues[self.applications[application].queue], priority)

    def owners_of(self, applications: Iterable[str], priority: int) -> list[Side]:
        """The known ones of some applications as the owners of room. `priority`: that of their asks."""
        return [self.side(name, priority) for name in applications if name in self.applications]

    def beside(self, leaf: Queue, ask: Ask) -> Mapping[str, Mapping[str, int]]:
        """The amounts of kept room that an ask of a leaf has beside the room of the nodes, by name of the node: those
        that are kept if the ask may use them; else those that are leaving and missing, below 0."""
        kept = self.terms.kept
        if kept is None:
            return NO_ROOM
        if kept.is_own:
            may_use = ask.application in kept.applications
        else:
            wants = Side(ask.application, leaf, ask.priority, ask.request)
            may_use = outranks((wants,), self.owners_of(kept.applications, kept.priority))
        if may_use:
            return kept.amounts
        nodes = ((self.nodes.by_name.get(name), lacks) for name, lacks in kept.lacks.items())
        return {node.name: node.withheld(lacks) for node, lacks in nodes if node is not None}

    def serves(self, ask: Ask) -> bool:
        """True if others end for an ask to fill the room that is kept for it."""
        return self.terms.kept is not None and self.terms.kept.serves(ask)

    # --- figures ----------------------------------------------------------------------------------------------

    def remove_ask(self, application: Application, group: Group, position: int) -> Ask:
        """Removes a pending ask from its group, with the room that was promised to the ask. The caller renews the
        application."""
        reserves = group.asks[position][1] in application.reserves
        ask = application.remove(group, position)
        self._count(application, ask.request, -1)
        if group.alike.promised:
            for queue in () if reserves else self.queues[application.queue].path:
                add_to(queue.promised, ask.request, -1)
                if queue.waiting:
                    self.wake(queue.waiting.fitting(queue.headroom()))
            self.wake_on(self.nodes.withdraw(group.alike.promised, ask.id))
        return ask

    def touch(self, leaf: Queue) -> None:
        """Notes a change below a leaf that may change the results of searches for victims."""
        for queue in leaf.path:
            queue.changes += 1

    def count_started(self, leaf: Queue, change: int) -> None:
        """Counts an application that starts or ends, and renews the leaves that a limit of applications concerns."""
        for queue in leaf.path:
            limit = queue.config.max_applications
            crossed = limit is not None and (queue.running >= limit) is not (queue.running + change >= limit)
            queue.running += change
            if crossed:
                for below in queue.leaves():
                    below.place_path()
                self.wake(list(queue.waiting_new))

    def _count(self, application: Application, request: Amounts, sign: int) -> None:
        for queue in self.queues[application.queue].path:
            add_to(queue.pending, request, sign)

    def part(
        self, kind: str, now: float, begin: Callable[[], Iterator[Result | None]], is_over: Callable[[], bool]
    ) -> list[Result]:
        """Does a part of work that a turn may leave to the next one: until it is done, or the time is over after a
        step. Returns the results of this part. `now`: seconds of the clock of the asks, which the steps find in
        `self.now`. `begin`: the steps of the work, each a result or None."""
        self.now = now
        steps = self.rests.pop(kind, None) or begin()
        results: list[Result] = []
        for result in steps:
            if result is not None:
                results.append(result)
            if is_over():
                self.rests[kind] = steps
                break
        return results

    # --- order ------------------------------------------------------------------------------------------------

    def _set_aside(self, request_class: RequestClass, waiting: Waiting[RequestClass]) -> None:
        request_class.waits = waiting
        waiting.add(request_class)
        request_class.leaf.place_class(request_class)
        request_class.leaf.place_path()

    def wake(self, classes: Iterable[RequestClass]) -> None:
        """Lets requests that wait be tried again."""
        for request_class in classes:
            assert request_class.waits is not None
            request_class.waits.remove(request_class)
            request_class.waits = None
            request_class.leaf.place_class(request_class)
            request_class.leaf.place_path()

    def wake_on(self, node: Node) -> None:
        """Lets the requests that wait for a node and fit it be tried again."""
        self.freed += 1
        if node.waiting:
            self.wake(node.waiting.fitting(node.open))
        if not self.nodes.waiting:
            return
        if not node.promises:
            self.wake(self.nodes.waiting.fitting(node.free))
            return
        groups = [self.applications[ask.application].asks.get(ask.name) for ask in node.promises.values()]
        classes = {group.request_class for group in groups if group is not None}
        promised = [
            request_class
            for request_class in classes
            if request_class is not None and request_class.waits is self.nodes.waiting
        ]
        self.wake(dict.fromkeys([*promised, *self.nodes.waiting.fitting(node.open)]))
        if node.reserving:
            self.wake([request_class for request_class in self.betters(node) if request_class is not None])

    def betters(self, node: Node) -> Iterator[RequestClass | None]:
        """Yields the requests that wait for a node, fit a reserved one and outrank the asks that reserve it; None
        between steps. The tree may change meanwhile."""
        for number, request_class in enumerate(self.nodes.waiting.fitting(node.open_beside(node.promised)), 1):
            if number % LOOKED_AT == 0:
                yield None
            if (
                request_class.waits is self.nodes.waiting
                and (group := request_class.members.first()) is not None
                and self.nodes.is_admitted(request_class.alternative.constraint, node.name)
                and self.outranks(group, node)
            ):
                yield request_class

    def renew(self, application: Application, before: int | None, changed: Group | None) -> None:
        """Renews the keys on a path. `before`: the priority of the application before the change; None if nothing was
        pending. `changed`: the group whose asks have changed; None if none have."""
        leaf = self.queues[application.queue]
        after = application.priorities.greatest()
        if before != after:
            if before is not None:
                leaf.priorities.remove(before)
            if after is not None:
                leaf.priorities.add(after)
        key = leaf.key_of(application)
        started = bool(application.allocations)
        whole = key != application.key or started is not application.counts_as_started
        application.counts_as_started = started
        application.key = key
        groups = set(application.groups.values()) if whole else set()
        if changed is not None:
            groups.add(changed)
        touched: dict[RequestClass, None] = {}
        for group in groups:
            old = group.request_class
            group.place(leaf.class_of(alternative_of(group)) if group.asks else None)
            for request_class in (old, group.request_class):
                if request_class is not None:
                    touched[request_class] = None
        for request_class in touched:
            leaf.place_class(request_class)
            if self.nodes.reserving and request_class.waits is self.nodes.waiting:
                self._wake_if_better(request_class)
        leaf.place_path()

    def _wake_if_better(self, request_class: RequestClass) -> None:
        """The first group of a class that waits for a node may be another one, which outranks a reservation."""
        group = request_class.members.first()
        if group is not None and self._reserved_node(group) is not None:
            self.wake([request_class])
