"""The trees of queues of all roles of one partition: the stored tree of the partition, or that of the settings.

The newest stored revision counts. The file of the settings becomes the first revision, and counts by itself only while
nothing is stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Any

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.placement.hierarchy.role_tree import RoleTree
from bcs_scheduler.core.placement.snapshots.held import request_of
from bcs_scheduler.core.placement.snapshots.role import STEP, Changes, some_of
from offers.errors import Problem
from offers.ledger.holds import UNOFFERED_SECONDS
from offers.model import Demand
from offers.policy.amounts import Vector, added, fits_limit
from offers.policy.hierarchy.changes import CannotChange, Steps, Trial, conflicts, trying
from offers.policy.hierarchy.configuration.document import DEFAULT_QUEUES, TAGS, canonical, partition_of
from offers.policy.hierarchy.configuration.fields import BadQueues
from offers.policy.hierarchy.configuration.partition import ROOT, Partition, QueueConfig
from offers.policy.hierarchy.maintenance import keep
from offers.policy.hierarchy.placement import NotPlaced, Submission, nearest, queue_for
from offers.policy.hierarchy.preemption.promises import Vacated, promises
from offers.policy.hierarchy.state.queue import QueueState
from offers.policy.session.decisions import Eviction
from offers.resources import SCALARS
from store.ids import namespace_of
from store.records import DEFAULT_PARTITION, DEFAULT_QUEUE, QueueHalt, QueueTree, ReschedulePayload
from transactions.base import Slot
from transactions.rules.application_types import bound_to_agents
from transactions.rules.queues import partition_of_revision, present_tree, revisions_of

KEPT = 20
"""Revisions of the tree that are kept."""
NOBODY = "nobody"
"""The user of applications whose creator is not known, as in YuniKorn."""


@lru_cache(maxsize=4)
def read_tree(document: str) -> Partition:
    """The configuration that a document (JSON) describes. Raises BadQueues with every problem.

    A change is read when it is tried, stored and taken over; the latest documents are read once (1,000 queues take some
    30 ms)."""
    try:
        parsed = json.loads(document)
    except ValueError as error:
        raise BadQueues([Problem("$", f"not JSON: {error}")]) from None
    return partition_of(parsed, SCALARS, tags=TAGS)


def full_names(config: QueueConfig, above: str = "") -> Iterator[tuple[str, QueueConfig]]:
    """All queues of a configuration with their full names, parents first."""
    name = f"{above}.{config.name}" if above else config.name
    yield name, config
    for child in config.queues:
        yield from full_names(child, name)


class Trees:
    """Belongs to the thread that owns the state. Any thread may read `roles` and the figures of queues."""

    def __init__(
        self,
        turn: TurnContext,
        configured: Partition,
        file: str = "",
        covers: Callable[[str], bool] = lambda role: True,
        name: str = DEFAULT_PARTITION,
    ) -> None:
        """`configured`: the tree of the settings, for the time before a revision is stored. `file`: the same as
        canonical JSON; empty = there is no file. `covers`: the roles of the partition. `name`: that of the
        partition."""
        self._turn, self._configured, self._file = turn, configured, file
        self.covers, self.name = covers, name
        self.partition: Partition = configured
        self.halts: tuple[QueueHalt, ...] = ()
        self.roles: dict[str, RoleTree] = {}
        self._document = ""
        self.load()

    def knows(self, demand: Demand[Slot]) -> bool:
        """True if the tree of its role has taken the application over: it has a queue, or no queue takes it."""
        tree_of = self.roles.get(demand.role)
        return tree_of is not None and tree_of.knows(demand.application)

    def takes_back(self, demand: Demand[Slot], replaced: str) -> bool:
        """Like `RoleTree.takes_back`; False for a role without a tree."""
        tree_of = self.roles.get(demand.role)
        request = request_of(demand.request, demand.request.extended)
        return tree_of is not None and tree_of.takes_back(demand.application, replaced, request)

    def takes_together(self, wants: Sequence[Demand[Slot]], *, root: bool) -> bool:
        """Like `RoleTree.takes_together` for places of demands of one role; False for a role without a tree."""
        tree_of = self.roles.get(wants[0].role)
        asks = [(want.application, request_of(want.request, want.request.extended)) for want in wants]
        return tree_of is not None and tree_of.takes_together(asks, root=root)

    @property
    def document(self) -> str:
        """The tree that counts, as canonical JSON."""
        return self._document or self._file or canonical(DEFAULT_QUEUES)

    def seed(self) -> None:
        """Makes the file of the settings the first revision. A stored tree counts, and a file that differs is named."""
        turn, document = self._turn, self._file
        if not document:
            return
        present = self.present()
        setting = "scheduler.policies_file" if turn.options.partitions else "scheduler.policy_file"
        if present is None and not self._has_unreadable():
            why, now = f"from {setting}", turn.now
            first = self.revision(number=1, document=document, why=why, created_at=now, updated_at=now)
            turn.uow.put(first)
            turn.record_event("queuetree", first.key, "QueueTreeUpdated", f"revision 1, {why}")
            self.load()
        elif present is not None and present.document != document:
            words = f"{setting} differs from the stored tree; revision {present.number} of the tree counts"
            turn.record_event("queuetree", present.key, "QueueTreeFileIgnored", words)
        turn.cut()

    def present(self) -> QueueTree | None:
        """The newest stored revision; None if no revision is stored."""
        return present_tree(self._turn.state, self.name)

    def revision(self, **fields: Any) -> QueueTree:
        """A revision of the tree with these fields."""
        return QueueTree(partition=self.name if self.name != DEFAULT_PARTITION else "", **fields)

    def _has_unreadable(self) -> bool:
        unreadable = self._turn.state.unreadable
        return any(kind == "queuetree" and partition_of_revision(key) == self.name for kind, key in unreadable)

    def load(self) -> bool:
        """Takes over the newest stored revision that can be read. Returns True if anything is different."""
        record = self._readable()
        halts = record.halts if record is not None else ()
        document = record.document if record is not None else ""
        if (document, halts) == (self._document, self.halts):
            return False
        if document != self._document:
            self.partition = read_tree(document) if document else self._configured
        self._document, self.halts = document, halts
        for tree_of in self.roles.values():
            tree_of.change(self.partition, halts)
        return True

    def suppose(self, partition: Partition) -> None:
        """Gives the trees of a copy another configuration."""
        for tree_of in self.roles.values():
            tree_of.change(partition, self.halts)
        self.partition = partition

    def _readable(self) -> QueueTree | None:
        newest = self.present()
        if newest is None or newest.document == self._document:
            return newest
        for record in reversed(revisions_of(self._turn.state, self.name)):
            try:
                read_tree(record.document)
            except BadQueues as error:
                words = (
                    f"revision {record.number} cannot be read by this version: {'; '.join(map(str, error.problems))}"
                )
                self._turn.record_event("queuetree", record.key, "QueueTreeUnreadable", words)
            else:
                return record
        return None

    def catch_up(self, role: str, changes: Changes, left: int | None = None) -> int:
        """Has the tree of a role follow a part of the changes, if there are many. Returns the number of agents and
        tasks that were looked at; 0: the rest follows at once. `left`: the number of agents and of tasks that may be
        left; None: `STEP`."""
        left = STEP if left is None else left
        snapshot, agents, jobs = changes

        def size(name: str) -> int:
            job = snapshot.jobs.get(name)
            return 0 if job is None else len(job.tasks)

        tree_of = self.of(role)
        some = list(islice(agents, STEP))
        work = some_of(jobs, size, left) if len(some) == len(agents) else []
        if not work and len(agents) <= left:
            return 0
        agents.difference_update(some)
        jobs.difference_update(work)
        # Without the tests of agents, which are those of the next decision, requests are tried again in vain at most.
        return tree_of.follow(snapshot, some, work, tree_of.tree.terms._replace(admits=None), partly=True)

    def settle(self, role: str) -> None:
        """Renews the order of the nodes that have changed in `catch_up`."""
        if role in self.roles:
            self.roles[role].tree.nodes.settle()

    def of(self, role: str) -> RoleTree:
        """The tree of a role, which is made if there is none."""
        tree_of = self.roles.get(role)
        if tree_of is None:
            facts = (self._submission, self._has_ended, self._vacated(), self._lasts)
            tree_of = self.roles[role] = RoleTree(self.partition, self.halts, *facts)
        return tree_of

    def forget(self) -> None:
        """Makes all trees anew from the records, when they follow the next time."""
        for tree_of in self.roles.values():
            tree_of.renew(self._vacated())

    def _vacated(self) -> list[Vacated]:
        """The room of taskgroups that are being ended for other applications, or were ended lately."""
        state, now = self._turn.state, self._turn.now
        vacated: list[Vacated] = []
        for transaction in sorted(state.active_transactions(), key=attrgetter("id")):  # replays have another order
            payload = transaction.payload
            if isinstance(payload, ReschedulePayload) and payload.beneficiary:
                group = state.taskgroups.get(payload.taskgroup)
                if group is not None and (not group.ended or now < group.ended_at + UNOFFERED_SECONDS):
                    until = group.ended_at + UNOFFERED_SECONDS if group.ended else 0.0
                    vacated.append(Vacated(payload.beneficiary, group.agent_id, now, until))
        return vacated

    def _lasts(self, application: str) -> bool:
        record = self._turn.state.applications.get(application)
        return record is not None and bound_to_agents(record)

    def _has_ended(self, taskgroup: str) -> bool:
        group = self._turn.state.taskgroups.get(taskgroup)
        return group is None or group.ended

    def promised(self) -> set[str]:
        """The nodes whose room is promised to asks, or reserved."""
        return {promise.node for tree_of in self.roles.values() for promise in promises(tree_of.tree)}

    def keep(self, eviction: Eviction) -> None:
        """Takes an eviction back that is not carried out."""
        for tree_of in self.roles.values():
            application = tree_of.tree.applications.get(eviction.job)
            victim = application.allocations.get(eviction.task) if application is not None else None
            if victim is not None and victim.ask.id in tree_of.tree.leaving:
                keep(tree_of.tree, victim)

    def queue_of(self, application: str) -> str:
        """The full name of the queue of an application; that of root for an application without a queue."""
        for tree_of in self.roles.values():
            known = tree_of.tree.applications.get(application)
            if known is not None:
                return known.queue
        return ROOT

    def named_queue(self, application: str) -> str:
        """The queue that the namespace of an application names."""
        settings = self._turn.state.namespaces.get(namespace_of(application))
        return (settings.queue if settings is not None else "") or DEFAULT_QUEUE

    def too_small(self, role: str, needed: Mapping[str, Vector]) -> str | None:
        """Like `QueueAccounts.too_small`."""
        tree = self.of(role).tree
        sums: dict[str, Vector] = {}
        for application, amounts in needed.items():
            try:
                name = queue_for(tree.queues, tree.partition.rules, self._submission(application))
            except NotPlaced:
                continue
            for queue in nearest(tree.queues, name).path:
                sums[queue.name] = added(sums.get(queue.name, {}), amounts)
        return next((name for name, amount in sums.items() if not fits_limit(amount, tree.queues[name].max)), None)

    def _submission(self, application: str) -> Submission:
        """The properties of an application that placement rules and limits look at."""
        state, namespace = self._turn.state, namespace_of(application)
        record, settings = state.applications.get(application), state.namespaces.get(namespace)
        user, groups = (record.user, record.user_groups) if record is not None else ("", ())
        queue = settings.queue if settings is not None else ""
        return Submission(user or NOBODY, groups, queue, {"namespace": namespace})

    # --- changes ----------------------------------------------------------------------------------------------

    def refuse(self, partition: Partition) -> None:
        """Raises CannotChange if the applications of a role do not suit a configuration."""
        problems: dict[Problem, None] = {}
        for tree_of in self.roles.values():
            problems.update(dict.fromkeys(conflicts(partition.root, tree_of.tree.root)))
        if problems:
            raise CannotChange(list(problems))

    def trying(self, partition: Partition, halts: tuple[QueueHalt, ...]) -> Steps[Mapping[str, Trial]]:
        """Returns the effect of a configuration by role, in steps. Together they cost with all applications, taskgroups
        and agents as they are at the first step. Raises CannotChange."""
        self.refuse(partition)
        states = {name: QueueState.ACTIVE for name, _ in full_names(partition.root)}
        states |= {halt.queue: QueueState(halt.state) for halt in halts if halt.queue in states}
        now = self._turn.now
        present = [(role, tree_of.captured(partition)) for role, tree_of in sorted(self.roles.items())]
        trials: dict[str, Trial] = {}
        for role, state in present:
            yield
            trials[role] = yield from trying(state, partition, now, states=states)
        return trials


def halts_in(partition: Partition, halts: tuple[QueueHalt, ...]) -> tuple[QueueHalt, ...]:
    """The halted queues that a configuration has."""
    names = {name for name, _ in full_names(partition.root)}
    return tuple(halt for halt in halts if halt.queue in names)
