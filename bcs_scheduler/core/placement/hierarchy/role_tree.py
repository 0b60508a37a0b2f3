"""The tree of queues of one role, which follows the kept snapshot of the role.

Agents become nodes with CPU and memory, and with the resources that the configuration of the queues names.
Applications belong to a leaf. Slots of open demands become asks, taskgroups and planned placements become allocations.
Other resources are a condition on nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import NamedTuple

from bcs_scheduler.core.placement.hierarchy.admission import Admits, frozen
from bcs_scheduler.core.placement.hierarchy.asks import (
    Counted,
    ask_of,
    counted_with,
    least_of,
    safe,
    same,
    sized_anew,
    task_name,
)
from bcs_scheduler.core.placement.snapshots.pending import demand_of, waiting_tasks
from bcs_scheduler.core.placement.source import Halt, Source
from offers.dimensions import Amounts
from offers.model import Demand
from offers.policy.amounts import Vector
from offers.policy.hierarchy.changes import CannotChange, Captured, apply, captured, recounted, remade
from offers.policy.hierarchy.cluster import conditions_changed, expect, occupy, remove_nodes, set_nodes
from offers.policy.hierarchy.configuration.partition import Partition
from offers.policy.hierarchy.gangs import Attempts
from offers.policy.hierarchy.maintenance import keep
from offers.policy.hierarchy.placement import NotPlaced, Refusal, Submission
from offers.policy.hierarchy.precedence import Side, outranks
from offers.policy.hierarchy.preemption.preemption import has_victims
from offers.policy.hierarchy.preemption.promises import (
    NOTHING,
    Promise,
    Vacated,
    hand_over,
    promise_again,
    promises,
    promises_to,
    regain,
)
from offers.policy.hierarchy.queues import finish, place
from offers.policy.hierarchy.state.application import Group
from offers.policy.hierarchy.state.limits import Tracker
from offers.policy.hierarchy.state.model import Allocation, Ask, Terms
from offers.policy.hierarchy.state.queue import Queue, QueueState
from offers.policy.hierarchy.steps import recover_all, rename
from offers.policy.hierarchy.tree import Tree
from offers.policy.session.decisions import Bind
from offers.policy.session.model import ON_AGENT, Agent, Job, Status, Task, Template
from offers.policy.session.snapshot import Snapshot
from transactions.base import Slot


class AskedPlaces(NamedTuple):
    """So many places of a demand, given by id, with the names of its tasks, which are read as far as needed. `is_gang`:
    the places are needed at the same time, and room that is made for the demand counts."""

    application: str
    demand: str
    tasks: Iterator[str]
    number: int
    is_gang: bool


class RoleTree:
    """Follows one snapshot."""

    def __init__(
        self,
        partition: Partition,
        halts: tuple[Halt, ...],
        source: Source,
        always: Sequence[str],
        vacated: Iterable[Vacated] = (),
    ) -> None:
        """`always`: the resources that every tree counts, CPU and memory. `vacated`: from a former leader."""
        self._partition, self._halts, self._source, self._always = partition, halts, source, always
        self.counted = self._counting(partition.resources)
        """The resources that the tree counts."""
        self._is_recounting = False
        """The tree counts other resources than before: asks and allocations follow."""
        self._has_all = False
        """All agents and jobs are among the changes that `follow` gets."""
        self.tree = Tree(partition, (), self._admitted)
        self.attempts = Attempts(self.tree, vacated)
        self._set_states()
        self.unplaced: dict[str, Refusal] = {}
        """Applications that no queue takes, by name."""
        self._agents: dict[str, Agent] = {}
        self._gone: set[str] = set()
        """Agents that are gone, and on which the tree has allocations: their tasks follow in another part."""
        self._given: dict[str, Submission] = {}
        """The properties with which an application was placed."""
        self._tasks: dict[str, dict[str, Task]] = {}
        """The tasks that the tree knows, by application and name."""
        self._again: set[str] = set()
        """Applications that are to be placed anew."""
        self._is_new = False
        """The tree was made anew, and has nothing of the snapshot."""
        self._doubtful: set[str] = set()
        """Applications whose asks the latest run has placed in the tree. The cluster may have no place for them."""
        self._took_back = False
        """A taskgroup was taken back that the tree does not count."""
        self._ended: dict[str, tuple[Queue, Allocation]] = {}
        """Allocations that ended and were not preempted, with their leaves, by id of the ask, until a `follow`."""
        self._promised: list[Promise] = []
        """Promises of a replaced tree, until the new one has the applications."""

    def _counting(self, names: Iterable[str]) -> Counted:
        """`names`: of resources that the configuration names."""
        return Counted((*self._always, *names), self._source.dimension)

    def _admitted(self, constraint: Hashable, node: str) -> bool:
        admits = self.tree.terms.admits
        return admits is None or not isinstance(constraint, Template) or admits(constraint, node)

    def captured(self, partition: Partition) -> Captured:
        """The state of the tree, with amounts of all resources that it counts at present or with a configuration."""
        names = counted_with(self.tree, partition) - self.counted.names
        if not names:
            return captured(self.tree, frozen(self._present, self.counted.by_dimension))
        counted = self._counting(names | self.counted.names)
        sizes = {
            name: (dict(counted.of(agent.total)), counted.of(agent.foreign), counted.of(agent.coming))
            for name, agent in self._agents.items()
        }
        requests = {
            (application, safe(name)): counted.of(task.template.request)
            for application, tasks in self._tasks.items()
            for name, task in tasks.items()
        }
        return recounted(captured(self.tree, frozen(self._present, counted.by_dimension)), sizes, requests)

    def _present(self) -> Admits | None:
        return self.tree.terms.admits

    def change(self, partition: Partition, halts: tuple[Halt, ...]) -> None:
        """Gives the tree another configuration. The next `follow` tries applications again that no queue has taken."""
        self._halts = halts
        self.attempts.restore()
        if partition is not self._partition:
            self._partition = partition
            try:
                apply(self.tree, partition)
            except CannotChange:
                self.renew()  # the request was checked: applications that have come since then get other queues
            else:
                self._recount(counted_with(self.tree, partition))
        self._set_states()
        again = {*self.unplaced, *(name for name, given in self._given.items() if given.forced)}
        self._again |= again
        self._doubtful |= again

    def _recount(self, names: Iterable[str]) -> None:
        """The tree counts other resources from now on. Nodes follow at once, asks and allocations with the next
        `follow`."""
        before, after = self.counted, self._counting(names)
        if after.names == before.names:
            return
        self.counted, self._is_recounting = after, True
        nodes = self.tree.nodes.by_name
        there = [agent for name, agent in self._agents.items() if name in nodes]
        sizes = {agent.name: dict(after.of(agent.total)) for agent in there}
        with self.tree.nodes.settling():
            for agent in there:
                occupy(self.tree, agent.name, before.of(agent.foreign), after.of(agent.foreign))
                expect(self.tree, agent.name, after.of(agent.coming))
            set_nodes(self.tree, {name: size for name, size in sizes.items() if size != nodes[name].total})

    def wants_all(self) -> bool:
        """True if the next `follow`, or those that follow in parts, must look at all agents and jobs; once."""
        wants, self._has_all = self._is_recounting and not self._has_all, self._is_recounting
        return wants

    def _set_states(self) -> None:
        halted = {halt.queue: QueueState(halt.state) for halt in self._halts}
        for name, queue in list(self.tree.queues.items()):
            state = halted.get(name, QueueState.ACTIVE)
            if not queue.is_temporary and queue.state is not state:
                self.tree.set_state(name, state)

    def follow(
        self, snapshot: Snapshot, agents: Iterable[str], jobs: Iterable[str], terms: Terms, *, partly: bool = False
    ) -> int:
        """Takes over agents and jobs that may have changed. Returns the number of agents and tasks that were looked at.
        `partly`: other changes follow before the next decision."""
        self.tree.begin(terms)
        self._took_back = False
        self.attempts.restore()
        is_new, self._is_new = self._is_new, False
        agents = list(snapshot.rank if is_new else agents)
        changed = set(snapshot.jobs if is_new else jobs)
        if not partly:
            changed |= self._doubtful
            self._doubtful = set()
        sized = sized_anew(self._agents, snapshot, agents, self.counted)
        self.tree.nodes.defer()
        try:
            return len(agents) + self._take_over(snapshot, agents, sized, sorted(changed))
        finally:
            if is_new:
                promise_again(self.tree, self._promised)
                self._promised.clear()
            if not partly:
                self._is_recounting = self._has_all = False
                self.tree.nodes.settle()
                regain(self.tree, self._ended.values(), snapshot.now)
                self._ended.clear()

    def _take_over(
        self, snapshot: Snapshot, agents: Iterable[str], sized: Mapping[str, Vector], jobs: Iterable[str]
    ) -> int:
        """Returns the number of tasks that were looked at."""
        known, rank = self._agents, snapshot.rank
        there = [snapshot.agents[rank[name]] for name in agents if name in rank]
        if sized:
            set_nodes(self.tree, sized)
        for agent in there:
            self._set_agent(agent)
        looked_at = 0
        for name in jobs:
            job = snapshot.jobs.get(name)
            looked_at += 0 if job is None else len(job.tasks)
            self._set_job(name, job)
        nodes = self.tree.nodes.by_name
        gone = {name for name in (*agents, *self._gone) if name in known and name not in rank}
        empty = sorted(name for name in gone if not nodes[name].running)
        self._gone = gone.difference(empty)
        if empty:
            remove_nodes(self.tree, empty)
        for name in empty:
            del known[name]
        return looked_at

    def renew(self, vacated: list[Vacated] | None = None) -> None:
        """Puts a tree without nodes and applications in place of the present one; the next `follow` takes over all of
        them. `vacated`: as for a new leader; None: the promises stay."""
        before = self.tree
        self._promised = [] if vacated is not None else [*self._promised, *promises(before)]
        self.counted = self._counting(self._partition.resources)  # it has no queues but the configured ones
        self._is_recounting, self._has_all, self._is_new = False, False, True
        self.tree = Tree(self._partition, (), self._admitted, before.closings)
        self.tree.begin(before.terms)
        self.attempts = self.attempts.moved(self.tree) if vacated is None else Attempts(self.tree, vacated)
        self._set_states()
        self.unplaced, self._agents, self._given, self._tasks, self._again = {}, {}, {}, {}, set()
        self._gone.clear()
        self._ended.clear()

    def drop_figures(self) -> None:
        """Makes the tree anew from its own asks, allocations, promises and moments. A tree with a search that continues
        stays as it is."""
        tree = self.tree
        if tree.is_halted or self.attempts.is_begun:
            return
        self.attempts.restore()
        self.tree = remade(tree)
        self.tree.begin(tree.terms)
        self.attempts = self.attempts.moved(self.tree)

    def _set_agent(self, agent: Agent) -> None:
        before = self._agents.get(agent.name)
        if before is agent:
            conditions_changed(self.tree, agent.name)
            return
        self._agents[agent.name] = agent
        foreign = before.foreign if before is not None else ()
        occupy(self.tree, agent.name, self.counted.of(foreign), self.counted.of(agent.foreign))
        expect(self.tree, agent.name, self.counted.of(agent.coming))

    # --- applications -----------------------------------------------------------------------------------------

    def _set_job(self, name: str, job: Job | None) -> None:
        given = None if job is None else self._submission(name)
        known = self.tree.applications.get(name)
        is_other = job is not None and known is not None and known.submitted != job.created  # created anew
        if given is None or given != self._given.get(name) or name in self._again or is_other:
            self._remove(name)
            if given is not None:
                given = given._replace(forced=False)
        if job is None or given is None:
            return
        if name not in self._given and not self._place(name, job, given):
            return
        tasks = {task.name: task for task in job.tasks if self._is_known(task, forced=given.forced)}
        if len(tasks) < len(job.tasks) and any(
            task.status in ON_AGENT and task.name not in tasks for task in job.tasks
        ):
            self._doubtful.add(name)  # the agents may follow
        self.tree.set_least(name, least_of(job))
        self._set_tasks(job, tasks)

    def _set_tasks(self, job: Job, tasks: dict[str, Task]) -> None:
        """Brings the asks and allocations of an application up to date. An allocation whose task is gone, or is on
        another agent, continues with a task that is new on its agent: a placement was planned, or was launched."""
        name, tree = job.name, self.tree
        application = tree.applications[name]
        present = self._tasks[name] = dict(self._tasks[name])  # copies share the tasks of each application
        allocations = application.allocations
        promised, tried = promises_to(tree, name), dict(application.preempted_at)
        free: dict[tuple[str, Amounts], list[str]] = {}
        """Names of allocations without a task, by agent and amounts."""
        for identity, task in list(present.items()):
            after, known = tasks.get(identity), safe(identity)
            held = allocations.get(known)
            is_stale = self._is_recounting and self._is_stale(name, task)
            if (held is None) is (task.agent == "") and not is_stale and (after is task or same(task, after)):
                continue
            if held is None or is_stale or held.ask.id in tree.leaving:
                self._drop(name, identity)
            else:
                del present[identity]
                free.setdefault((held.node, held.ask.request), []).append(known)
        asks: list[Ask] = []
        goes_on: list[tuple[str, Allocation]] = []
        runs: list[Allocation] = []
        for identity, task in tasks.items():
            if identity in present:
                continue
            ask = ask_of(job, task, self.counted, self._source.age_of)
            if not task.agent:
                asks.append(ask)
            elif names := free.get((task.agent, ask.request)):
                goes_on.append((names.pop(), Allocation(ask, task.agent)))
            else:
                runs.append(Allocation(ask, task.agent))
        leaf = tree.queues[tree.applications[name].queue]
        for ended in chain(*free.values()):
            released = tree.release(name, ended)
            self._ended[released.ask.id] = (leaf, released)
        if goes_on:
            rename(tree, name, goes_on)
        recover_all(tree, name, runs)
        self._tasks[name] = tasks
        for identity, task in tasks.items():
            if (task.status is Status.RELEASING) is (f"{name}/{safe(identity)}" in tree.leaving):
                continue
            leaving = allocations[safe(identity)]
            if task.status is not Status.RELEASING:
                keep(tree, leaving)
            else:
                tree.leave(leaving, moves=task.moves)
        tree.ask_all(asks)
        # An ask with other conditions, as in a dry run without some agents, has waited and tried as before.
        application.preempted_at.update((ask.name, tried[ask.name]) for ask in asks if ask.name in tried)
        # The matcher places the first slots, whichever asks the tree has placed.
        self.attempts.leave(hand_over(tree, promised, asks))

    def _is_stale(self, name: str, task: Task) -> bool:
        """True if the tree has another request of a known task than it counts now."""
        application, known = self.tree.applications[name], safe(task.name)
        held = application.allocations.get(known)
        request = held.ask.request if held is not None else application.asks[known].alike.request
        return request != self.counted.of(task.template.request)

    def _is_known(self, task: Task, *, forced: bool) -> bool:
        if task.status in ON_AGENT:
            return task.agent in self._agents
        return task.status is Status.PENDING and not forced

    def _is_placed(self, name: str, identity: str) -> bool:
        return safe(identity) in self.tree.applications[name].allocations

    def _submission(self, name: str) -> Submission:
        """Properties for placement rules. An application that runs and has no queue counts in the recovery queue."""
        given = self._source.submission(name)
        forced = self._given.get(name)
        if forced is not None and forced == given._replace(forced=True):
            return forced
        return given

    def _place(self, name: str, job: Job, given: Submission) -> bool:
        self._again.discard(name)
        try:
            with self._as_before_halts(job.created):
                place(self.tree, name, job.created, given)
        except NotPlaced as refused:
            self.unplaced[name] = refused.reason
            if given.forced or not any(task.status in ON_AGENT for task in job.tasks):
                return False
            given = given._replace(forced=True)
            place(self.tree, name, job.created, given)
        else:
            self.unplaced.pop(name, None)
        self._given[name] = given
        self._tasks[name] = {}
        return True

    def _as_before_halts(self, created: float) -> AbstractContextManager[None]:
        """Queues that were halted later than an application was created still take the application: it was in the
        queue before. `created`: Unix seconds."""
        return self.tree.as_active(halt.queue for halt in self._halts if halt.since > created)

    def _remove(self, name: str) -> None:
        self._again.discard(name)
        self.unplaced.pop(name, None)
        if self._given.pop(name, None) is None:
            return
        # It may be placed anew: the room that comes is for the application, and not for the asks that go.
        self.attempts.leave(promise for promise in promises_to(self.tree, name) if not promise.reserves)
        for identity in self._tasks[name]:
            if self._is_placed(name, identity):
                self.tree.release(name, safe(identity))
        del self._tasks[name]
        finish(self.tree, name)

    def _drop(self, name: str, identity: str) -> None:
        del self._tasks[name][identity]
        if self._is_placed(name, identity):
            self.tree.release(name, safe(identity))
        else:
            self.tree.withdraw(name, safe(identity))

    # --- decisions --------------------------------------------------------------------------------------------

    def run(self, terms: Terms, most: int | None = None) -> list[tuple[str, str, str]]:
        """Like `Attempts.run`. Returns names of application, task and agent."""
        self.tree.begin(terms)
        made = self.attempts.run(terms.lacking, most)
        self._doubtful.update(allocation.ask.application for allocation in made)
        return [(allocation.ask.application, task_name(allocation.ask.name), allocation.node) for allocation in made]

    def knows(self, name: str) -> bool:
        """True if an application has a queue, or no queue takes it."""
        return name in self.tree.applications or name in self.unplaced

    def takes_back(self, name: str, replaced: str, request: Amounts) -> bool:
        """True if queues and limits admit the request of an application in the place of a taskgroup whose launch did
        not happen, given by id. If the tree no longer counts this taskgroup, it admits one until it follows again."""
        application = self.tree.applications.get(name)
        if application is None:
            return False
        leaf = self.tree.queues[application.queue]
        if leaf.is_stopped or self._is_recounting:
            return False
        if safe(replaced) in application.allocations:
            return all(amount >= 0 for headroom in self.tree.headrooms(application) for amount in headroom.values())
        admits = self.takes_together([(name, request)], (), uses=True)
        self._took_back = True
        return admits

    def takes_together(
        self, asks: Sequence[tuple[str, Amounts]], own: Iterable[tuple[str, str]], *, uses: bool
    ) -> bool:
        """True if the maxima of the queues, and the limits, admit all these requests together, each of an application.
        `own`: their demands, by application and id: promises to others count in the maxima. `uses`: they are placed
        then. The tree admits no others to use until it follows again, since it does not count these."""
        if self._is_recounting or (uses and self._took_back):
            return False
        in_queues: dict[str, Counter[str]] = {}
        of_trackers: dict[Tracker, Counter[str]] = {}
        for name, request in asks:
            application = self.tree.applications.get(name)
            if application is None or self.tree.queues[application.queue].is_stopped:
                return False
            needed = self.counted.of(request)
            if self.tree.limit_of(application, needed) is not None:
                return False
            for queue in self.tree.queues[application.queue].path:
                in_queues.setdefault(queue.name, Counter()).update(dict(needed))
            for tracker in application.trackers:
                of_trackers.setdefault(tracker, Counter()).update(dict(needed))
        kept: dict[str, Counter[str]] = {}
        for name, demand in own:
            application = self.tree.applications[name]
            for task in self.promised_to(name, demand):
                for queue in self.tree.queues[application.queue].path:
                    kept.setdefault(queue.name, Counter()).update(dict(application.asks[safe(task)].alike.request))
        admitted = not any(
            self.tree.queues[name].exceeded_beside_promises(tuple(sums.items()), kept.get(name, NOTHING))
            for name, sums in in_queues.items()
        )
        admitted &= all(limit.refuses(tuple(sums.items()), started=True) is None for limit, sums in of_trackers.items())
        self._took_back |= uses and admitted
        return admitted

    def outrank(self, wants: Iterable[AskedPlaces], owners: Iterable[str], priority: int) -> bool:
        """True if places may use, together, room that is kept for asks of some applications with this priority. Those
        for which room is made count as if they had it."""
        asks: list[Side] = []
        for want in wants:
            application = self.tree.applications.get(want.application)
            if application is None:
                return False
            left = want.number - (len(self.promised_to(want.application, want.demand)) if want.is_gang else 0)
            leaf = self.tree.queues[application.queue]
            for task in want.tasks:
                if left <= 0:
                    break
                group = application.asks.get(safe(task))
                if group is not None and not has_victims(group, safe(task)):
                    asks.append(Side(application.name, leaf, group.alike.priority, group.alike.request))
                    left -= 1
            if left > 0:
                return False
        return outranks(asks, self.tree.owners_of(owners, priority))

    def promised_to(self, name: str, demand: str) -> dict[str, str]:
        """The tasks of a demand for which others are ended, by name, with the agents."""
        application = self.tree.applications.get(name)
        groups = () if application is None else application.groups.values()
        return {
            task_name(ask.name): group.alike.promised
            for group in groups
            if group.alike.promised
            for _, _, ask in group.asks
            if has_victims(group, ask.name) and demand_of(task_name(ask.name)) == demand
        }

    def promised_amounts(self, without: Collection[str]) -> dict[str, dict[str, int]]:
        """Amounts by agent and dimension that must stay free for promises to other applications than `without`: the
        taskgroups that are ending there do not leave them."""
        amounts: dict[str, dict[str, int]] = {}
        for node in self.tree.nodes.promising.values():
            sums = Counter[str]()
            for identity, ask in node.promises.items():
                if identity not in node.reserving and ask.application not in without:
                    sums.update(dict(ask.request))
            names = self.counted.by_dimension.items()
            left = {line: sums[name] - node.leaving.get(name, 0) for line, name in names if name in sums}
            if left := {line: amount for line, amount in left.items() if amount > 0}:
                amounts[node.name] = left
        return amounts

    def end_promises(self, binds: Iterable[Bind]) -> None:
        """Ends the promises whose room launches use that the tree has not placed: that of the task of the launch, or
        else another one of the same application on the node."""
        self.attempts.restore()
        for name, task, node in binds:
            promised = [promise for promise in promises_to(self.tree, name) if promise.node == node]
            asks = [promise.ask.name for promise in promised if not promise.reserves]
            if asks:
                self.tree.forget_promise(name, safe(task) if safe(task) in asks else asks[0])

    def without_victims(self, wants: Sequence[Demand[Slot]]) -> list[tuple[str, str]] | None:
        """The tasks of places of demands, by application and name, without those for which other work is ending; None
        if there are too few."""

        def is_promised(name: str, task: str) -> bool:
            group = self._group(name, task)
            return group is not None and has_victims(group, safe(task))

        return waiting_tasks(wants, is_promised)

    def _group(self, name: str, task: str) -> Group | None:
        """The equal asks of an application that a task belongs to; None if the task does not wait."""
        application = self.tree.applications.get(name)
        return application.asks.get(safe(task)) if application is not None else None

    def pending(self, tasks: Iterable[tuple[str, str]]) -> list[Ask] | None:
        """The asks of tasks, given by application and name; None if one does not wait."""
        asks: list[Ask] = []
        for name, task in tasks:
            group = self._group(name, task)
            if group is None:
                return None
            asks.append(next(ask for _, ask_name, ask in group.asks if ask_name == safe(task)))
        return asks

    def awaiting(self) -> Iterator[tuple[str, str]]:
        """Yields the tasks for which others are ended, each with its agent."""
        for node in self.tree.nodes.promising.values():
            yield from (
                (task_name(ask.name), node.name) for ask in node.promises.values() if ask.id not in node.reserving
            )

    def waits(self, name: str) -> bool:
        """True if an application waits for places, or for a queue."""
        application = self.tree.applications.get(name)
        return name in self.unplaced or (application is not None and bool(application.asks))
