"""The trees of queues of all roles of one partition: the stored tree of the partition, or that of the settings.

The source of units knows the stored tree (`Source.tree`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice

from bcs_scheduler.core.placement.hierarchy.role_tree import RoleTree
from bcs_scheduler.core.placement.snapshots.role import STEP, Changes, some_of
from bcs_scheduler.core.placement.source import Halt
from bcs_scheduler.core.placement.turn import Turn
from offers.errors import Problem
from offers.ledger.holds import UNOFFERED_SECONDS
from offers.model import Demand
from offers.policy.amounts import Vector, added, fits_limit
from offers.policy.hierarchy.changes import CannotChange, Steps, Trial, conflicts, trying
from offers.policy.hierarchy.configuration.document import DEFAULT_QUEUES, canonical
from offers.policy.hierarchy.configuration.partition import ROOT, Partition, full_names
from offers.policy.hierarchy.maintenance import keep
from offers.policy.hierarchy.placement import NotPlaced, nearest, queue_for
from offers.policy.hierarchy.preemption.promises import Vacated, promises
from offers.policy.hierarchy.state.queue import QueueState
from offers.policy.session.decisions import Eviction
from transactions.base import Slot


class Trees:
    """Belongs to the thread that owns the state. Any thread may read `roles` and the figures of queues."""

    def __init__(
        self,
        turn: Turn,
        configured: Partition,
        file: str,
        covers: Callable[[str], bool],
        name: str,
    ) -> None:
        """`configured`: the tree of the settings, for the time before a revision is stored. `file`: the same as
        canonical JSON; empty = there is no file. `covers`: the roles of the partition. `name`: that of the
        partition."""
        self._turn, self._configured, self._file = turn, configured, file
        self.covers, self.name = covers, name
        self.partition: Partition = configured
        self.halts: tuple[Halt, ...] = ()
        self.roles: dict[str, RoleTree] = {}
        self._document = ""
        self.load()

    def knowing(self, demand: Demand[Slot]) -> RoleTree | None:
        """The tree that has taken the application of a demand over: it has a queue, or no queue takes it. None if no
        tree has taken it over yet."""
        tree_of = self.roles.get(demand.role)
        return tree_of if tree_of is not None and tree_of.knows(demand.application) else None

    @property
    def document(self) -> str:
        """The tree that counts, as canonical JSON."""
        return self._document or self._file or canonical(DEFAULT_QUEUES)

    def recover(self) -> None:
        """A term begins: the source keeps the tree of the settings."""
        if self._file and self._turn.source.keep_tree(self.name, self._file):
            self.load()

    def load(self) -> bool:
        """Takes over the stored tree. Returns True if anything is different."""
        stored = self._turn.source.tree(self.name)
        halts, document = (stored.halts, stored.document) if stored is not None else ((), "")
        if (document, halts) == (self._document, self.halts):
            return False
        if document != self._document:
            self.partition = stored.partition if stored is not None else self._configured
        self._document, self.halts = document, halts
        for tree_of in self.roles.values():
            tree_of.change(self.partition, halts)
        return True

    def suppose(self, partition: Partition) -> None:
        """Gives the trees of a copy another configuration."""
        for tree_of in self.roles.values():
            tree_of.change(partition, self.halts)
        self.partition = partition

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
            always = self._turn.pool.hand.dimensions.names[:2]
            tree_of = RoleTree(self.partition, self.halts, self._turn.source, always, self._vacated())
            self.roles[role] = tree_of
        return tree_of

    def forget(self) -> None:
        """Makes all trees anew from the records, when they follow the next time."""
        for tree_of in self.roles.values():
            tree_of.renew(self._vacated())

    def _vacated(self) -> list[Vacated]:
        """The room of units that are being ended for other applications, or were ended lately."""
        source, now = self._turn.source, self._turn.now
        vacated: list[Vacated] = []
        for unit, beneficiary in source.beneficiaries():
            tenant = source.tenant(unit)
            until = tenant.ended_at + UNOFFERED_SECONDS if tenant is not None and source.has_ended(unit) else 0.0
            if tenant is not None and (not until or now < until):
                vacated.append(Vacated(beneficiary, tenant.agent, now, until))
        return vacated

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

    def too_small(self, role: str, needed: Mapping[str, Vector]) -> str | None:
        """Like `QueueAccounts.too_small`."""
        tree = self.of(role).tree
        sums: dict[str, Vector] = {}
        for application, amounts in needed.items():
            try:
                name = queue_for(tree.queues, tree.partition.rules, self._turn.source.submission(application))
            except NotPlaced:
                continue
            for queue in nearest(tree.queues, name).path:
                sums[queue.name] = added(sums.get(queue.name, {}), amounts)
        return next((name for name, amount in sums.items() if not fits_limit(amount, tree.queues[name].max)), None)

    # --- changes ----------------------------------------------------------------------------------------------

    def refuse(self, partition: Partition) -> None:
        """Raises CannotChange if the applications of a role do not suit a configuration."""
        problems: dict[Problem, None] = {}
        for tree_of in self.roles.values():
            problems.update(dict.fromkeys(conflicts(partition.root, tree_of.tree.root)))
        if problems:
            raise CannotChange(list(problems))

    def trying(self, partition: Partition, halts: tuple[Halt, ...]) -> Steps[Mapping[str, Trial]]:
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
