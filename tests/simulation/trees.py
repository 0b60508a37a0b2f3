"""Worlds with the policy `hierarchical`: operators change, roll back and halt the tree of queues; rules of the tree.

I52  no launch takes a queue above its maximum
I53  no launch takes a user above a limit
I54  preemption leaves queues of others their guarantee, and lowered maxima leave every queue its guarantee
I55  every application is in a queue or has no queue for a reason, and the figures of queues are sums
I56  nothing is placed in a stopped queue, and a draining queue gets no applications that are younger
I57  each tree of a leader is the newest revision that is stored for its partition, with its halted queues, and was made
     for this partition
I73  taskgroups are ended for a gang only if nodes are promised to as many of its taskgroups as it lacks; members of a
     gang that runs return one by one
I74  a tree that has followed the records counts taskgroups as leaving only if they are being ended, or have ended

These worlds have seeds of their own (`simulate(..., trees=True)`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import msgspec

from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.engines.hierarchical import Hierarchical
from bcs_scheduler.core.placement.hierarchy.asks import task_name
from bcs_scheduler.core.placement.hierarchy.role_tree import RoleTree
from bcs_scheduler.core.placement.hierarchy.trees import Trees
from bcs_scheduler.core.placement.records import NOBODY
from bcs_scheduler.core.placement.revisions import read_tree
from offers.model import Demand, Placement
from offers.policy.hierarchy.configuration.document import canonical
from offers.policy.hierarchy.state.queue import Queue
from offers.policy.hierarchy.tree import Tree
from store.records import DEFAULT_PARTITION, Application, QueueTree, Record, ReschedulePayload, TaskGroup, Transaction
from store.records.definition import Amounts, Container
from store.state import State
from store.state.unit_of_work import Unit
from tests.simulation.driver import Term
from tests.simulation.operators import NAMESPACES
from tests.simulation.queues import QueueOperators
from tests.simulation.violation import Violation
from tests.simulation.world import World
from transactions.base import Slot
from transactions.rules.queues import present_tree

Records = dict[tuple[str, str], Record]
USERS = ("ann", "bea", "")
RULES = [
    {"name": "tag", "value": "namespace", "parent": {"name": "fixed", "value": "work"}},
    {"name": "user", "create": True, "parent": {"name": "fixed", "value": "teams"}},
]
CALM: dict[str, Any] = {
    "queues": [
        {"name": "default"},
        {"name": "work", "queues": [{"name": name} for name in NAMESPACES]},
        {"name": "teams", "parent": True},
    ],
    "placementrules": RULES,
}
"""The tree without limits."""


def calm(partition: str) -> str:
    """The tree of a partition without limits; empty: the default partition."""
    return canonical({**CALM, "queues": [*CALM["queues"], *_mark(partition)]})


def _beneficiary(evicted: TaskGroup, changed: dict[str, Record | None]) -> str:
    """The application for which a taskgroup is ended; empty: none. `changed`: the transactions of the same unit."""
    found = (
        one.payload.beneficiary
        for one in changed.values()
        if isinstance(one, Transaction) and one.taskgroup == evicted.id and isinstance(one.payload, ReschedulePayload)
    )
    return next(found, "")


def _mark(partition: str) -> list[dict[str, Any]]:
    """The queue by which the documents of a named partition are known."""
    return [{"name": f"only-{partition}"}] if partition else []


HALTED = ("root.work", *(f"root.work.{name}".lower() for name in NAMESPACES), "root.teams", "root.default")


def with_trees(options: CoreOptions) -> CoreOptions:
    text = calm("")
    return replace(options, hierarchy=read_tree(text), hierarchy_document=text, session_period=0.5)


def created_by(command: requests.Request) -> requests.Request:
    """The command with a user, by the name of the object: no chance is drawn."""
    if not isinstance(command, requests.Creation):
        return command
    version = getattr(command, "version", None)
    user = USERS[sum(map(ord, version.application)) % len(USERS)] if version is not None else ""
    return msgspec.structs.replace(command, user=user, user_groups=(f"of-{user}",) if user else ())


class TreeOperators(QueueOperators):
    """Operators of the tree of a partition."""

    def __init__(self, world: World, durable: Records, partition: str = "") -> None:
        """`partition`: its name; empty = the default partition."""
        super().__init__(world, durable)
        self._partition = partition

    def ask(self, token: int, dry: bool) -> requests.Request:
        """One command at random."""
        world = self.world
        common: dict[str, Any] = {"token": token, "dry_run": dry, "cause": f"user-{token}", "author": "ops"}
        common["partition"] = self._partition
        present = self._present()
        if world.chance(0.25):
            state: Literal["Stopped", "Draining", "Active"] = world.pick(("Stopped", "Draining", "Active", "Active"))
            return requests.SetQueueState(queue=world.pick(HALTED), state=state, **common)
        if world.chance(0.2):
            kept = [str(tree.number) for tree in self._revisions()]
            revision = int(world.pick(sorted(kept))) if kept and world.chance(0.7) else None
            return requests.RollbackQueueTree(revision=revision, **common)
        expected = present.number if present is not None and world.chance(0.5) else None
        return requests.PutQueueTree(document=json.dumps(self._document()), expected=expected, **common)

    def _document(self) -> dict[str, Any]:
        world = self.world
        leaves = [self._queue(name) for name in NAMESPACES if world.chance(0.85)]
        work: dict[str, Any] = {"name": "work", "parent": True, "queues": leaves}
        if world.chance(0.3):
            work["resources"] = {"max": {"cpus": world.pick((2, 4, 8))}}
        teams: dict[str, Any] = {"name": "teams", "parent": True}
        if world.chance(0.3):
            teams["childtemplate"] = {"resources": {"max": {"cpus": world.pick((1, 2))}}}
        queues = [work, teams]
        if world.chance(0.7):
            queues.append({"name": "default"})
        queues += _mark(self._partition)
        return {"queues": queues, "placementrules": RULES if world.chance(0.8) else RULES[:1]}

    def _queue(self, name: str) -> dict[str, Any]:
        world = self.world
        queue: dict[str, Any] = {"name": name}
        least, most = world.pick((0, 0, 1, 2)), world.pick((None, None, 1, 2, 4))
        resources = {"guaranteed": {"cpus": least}} if least else {}
        if most is not None and most >= least:
            resources["max"] = {"cpus": most}
        queue["resources"] = resources
        queue["properties"] = {
            "preemption.delay": "2s",
            "quota.preemption.delay": world.pick(("0s", "1s", "1s")),
            "application.sort.policy": world.pick(("fifo", "fair")),
            "preemption.policy": world.pick(("default", "default", "fence", "disabled")),
        }
        if world.chance(0.3):
            limit: dict[str, Any] = world.pick(({"maxapplications": 2}, {"maxresources": {"cpus": 1}}))
            queue["limits"] = [{"users": [world.pick(("*", "ann", NOBODY))], **limit}]
        if world.chance(0.2):
            queue["maxapplications"] = 3
        return queue

    def _revisions(self) -> list[QueueTree]:
        found = (record for record in self._durable.values() if isinstance(record, QueueTree))
        return [record for record in found if record.partition == self._partition]

    def _present(self) -> QueueTree | None:
        return max(self._revisions(), key=lambda record: record.number, default=None)

    def repair(self, token: int) -> requests.Request | None:
        """The next change towards the tree without limits; None if nothing is to be changed."""
        common: dict[str, Any] = {"token": token, "cause": f"user-{token}", "partition": self._partition}
        present = self._present()
        if present is None:
            return None
        if present.halts:
            return requests.SetQueueState(queue=present.halts[0].queue, state="Active", **common)
        if present.document != calm(self._partition):
            return requests.PutQueueTree(document=calm(self._partition), **common)
        return None


class GuaranteeOperators(TreeOperators):
    """Operators who give both queues guarantees that change, and nothing that keeps preemption away."""

    def ask(self, token: int, dry: bool) -> requests.Request:
        """Another tree with guarantees."""
        queues = [self._queue(name) for name in NAMESPACES]
        document = {"queues": [{"name": "work", "queues": queues}], "placementrules": RULES[:1]}
        common: dict[str, Any] = {"token": token, "dry_run": dry, "cause": f"user-{token}", "author": "ops"}
        return requests.PutQueueTree(document=json.dumps(document), **common)

    def _queue(self, name: str) -> dict[str, Any]:
        least = self.world.pick((0.5, 1, 1, 2))
        return {
            "name": name,
            "resources": {"guaranteed": {"cpus": least}},
            "properties": {"preemption.delay": "1s", "application.sort.policy": self.world.pick(("fifo", "fair"))},
        }


def small(world: World) -> dict[str, Any]:
    """Fields of versions in worlds with guarantees: many small taskgroups that fill the agents, in gangs and
    alone."""
    requested = Amounts(cpus=world.pick((200, 300, 500)), mem=10_000, disk=1_000)
    return {
        "containers": (Container(command="serve", requests=requested),),
        "constraints": (),
        "role": "",
        "priority": world.pick((0, 0, 1)),
        "max_unavailable": world.pick((2, 4, 6)),
        "min_available": world.pick((0, 0, 2, 3)),
    }


Held = tuple[str, str]
"""A role, and an application with room of this role. An update may give an application another role, and with the role
another policy."""


class _Before(NamedTuple):
    """The state of a term after a turn."""

    planned: set[Held]
    """Applications with placements that were not launched."""
    known: set[str]
    """Taskgroups."""
    running: set[Held]
    """Applications with taskgroups or placements."""


class TreeRules:
    """Looks at nothing in worlds with another policy."""

    def __init__(self, world: World, options: CoreOptions) -> None:
        self.world = world
        self._asked = any(part.hierarchy is not None for part in options.parts())
        self._terms: dict[int, _Before] = {}
        """The state after the turn before, by epoch: a leader that does not know its successor works beside it."""

    def leading(self, term: Term) -> None:
        """A term begins."""
        groups = term.core.state.taskgroups.values()
        running = {(group.role, group.application_key) for group in groups if not group.ended}
        self._terms[term.epoch] = _Before(set(), {group.id for group in groups}, running)

    # --- I54 --------------------------------------------------------------------------------------------------

    def decided(self, term: Term, unit: Unit) -> None:
        if not self._asked:
            return
        before = term.mirror
        evicted: dict[str, list[TaskGroup]] = {}
        for change in unit.changes:
            old, new = before.get((change.kind, change.key)), change.record
            if not isinstance(new, TaskGroup) or new.end_cause != "Evicted" or new.ended:
                continue
            if isinstance(old, TaskGroup) and old.end_cause != "Evicted":
                evicted.setdefault(old.role, []).append(old)
        changed = {change.key: change.record for change in unit.changes if change.kind == "transaction"}
        for role, groups in evicted.items():
            placing = next((one for one in _passes(term) if role in one.trees.roles), None)
            if placing is not None:
                self.world.count("taskgroups evicted by queues")
                coming = self._coming(term, before, role)
                self._guarantees_stay(before, coming, placing.trees.roles[role].tree, role, groups, changed)
                for beneficiary in sorted({_beneficiary(group, changed) for group in groups}):
                    self._gang_can_start(term, placing, role, beneficiary)

    def _gang_can_start(self, term: Term, placing: Hierarchical, role: str, beneficiary: str) -> None:
        """I73."""
        lacking = placing._inputs.snapshots._roles[role]._missing.get(beneficiary, 0)
        application = placing.trees.roles[role].tree.applications.get(beneficiary)
        if lacking < 2 or application is None:
            return
        if _returns_one_by_one(term, role, beneficiary):
            self.world.count("members of gangs that preempt")
            return
        self.world.count("gangs that preempt")
        names = [name for name, group in application.asks.items() if group.alike.promised]
        promised = len(set(names) - application.reserves)
        if promised < lacking:
            raise Violation("I73", f"taskgroups are ended for {promised} of {lacking} of {beneficiary}", beneficiary)

    @staticmethod
    def _coming(term: Term, before: Records, role: str) -> list[tuple[str, Counter[str]]]:
        """Application and amounts of each placement that is decided and not stored yet: the tree counts these."""
        found = [
            (demand.application, Counter(cpus=demand.request.cpus, mem=demand.request.mem))
            for demand, _ in _placements(term)
            if demand.role == role
        ]
        found += [
            (group.application_key, Counter(_amounts(group)))
            for group in term.core.state.taskgroups.values()
            if group.role == role and not group.ended and ("taskgroup", group.id) not in before
        ]
        return found

    def _guarantees_stay(
        self,
        before: Records,
        coming: list[tuple[str, Counter[str]]],
        tree: Tree,
        role: str,
        evicted: list[TaskGroup],
        changed: dict[str, Record | None],
    ) -> None:
        lost: dict[str, Counter[str]] = {}
        for group in evicted:
            gains = {queue.name for queue in _path(tree, _beneficiary(group, changed))}
            for queue in _path(tree, group.application_key):
                if queue.name not in gains:
                    lost.setdefault(queue.name, Counter()).update(_amounts(group))
        for name, amounts in lost.items():
            queue = tree.queues[name]
            held = Counter[str]()
            for one in before.values():
                if not isinstance(one, TaskGroup) or one.role != role or one.ended or one.killing_since:
                    continue
                if any(above.name == name for above in _path(tree, one.application_key)):
                    held.update(_amounts(one))
            for application, wanted in coming:
                if any(above.name == name for above in _path(tree, application)):
                    held.update(wanted)
            for resource, least in queue.guaranteed.items():
                left = held[resource] - amounts[resource] + queue.promised.get(resource, 0)
                if amounts[resource] and left < least:
                    words = f"evictions leave queue {name} {left} of {least} guaranteed {resource}"
                    raise Violation("I54", words, *(group.id for group in evicted))

    # --- after a turn -----------------------------------------------------------------------------------------

    def turned(self, term: Term) -> None:
        if not self._asked:
            return
        state, before = term.core.state, self._terms[term.epoch]
        planned: dict[Held, Counter[str]] = {}
        running: set[Held] = set()
        for demand, _ in _placements(term):
            amounts = {"cpus": demand.request.cpus, "mem": demand.request.mem}
            planned.setdefault((demand.role, demand.application), Counter()).update(amounts)
        fresh = {held for held in planned if held not in before.planned}
        for group in state.taskgroups.values():
            if not group.ended:
                held = (group.role, group.application_key)
                running.add(held)
                if group.id not in before.known and held not in before.planned:
                    fresh.add(held)
        for placing in _passes(term):
            self._tree_is_stored(term, placing.trees)
            for role, tree_of in placing.trees.roles.items():
                names = {name for of, name in fresh if of == role and not self._is_daemonset(term, name)}
                if names:
                    self._bounds_hold(term, role, tree_of, names, planned)
                for name in names:
                    is_new = (role, name) not in before.running
                    self._is_not_halted(term, placing.trees, tree_of.tree, name, is_new=is_new)
            for tree_of in placing.trees.roles.values():
                self._sums_are_true(tree_of)
                if not placing._outdated:
                    self._victims_leave(state, tree_of.tree)
        self._terms[term.epoch] = _Before(set(planned), set(state.taskgroups), running | set(planned))

    @staticmethod
    def _is_daemonset(term: Term, name: str) -> bool:
        application = term.core.state.applications.get(name)
        return application is None or application.type == "daemonset"

    # --- I57 --------------------------------------------------------------------------------------------------

    def _tree_is_stored(self, term: Term, trees: Trees) -> None:
        newest = present_tree(term.core.state, trees.name)
        if newest is not None and (trees.document, trees.halts) != (newest.document, newest.halts):
            raise Violation("I57", f"revision {newest.number} is stored, and another tree counts", newest.key)
        made_for = [queue.name.removeprefix("only-") for queue in trees.partition.root.queues if "only-" in queue.name]
        if made_for != ([] if trees.name == DEFAULT_PARTITION else [trees.name]):
            raise Violation(
                "I57", f"partition {trees.name} has the tree of {made_for or DEFAULT_PARTITION}", trees.name
            )
        if newest is not None and newest.number > 1:
            self.world.count("turns with a changed tree")

    # --- I52, I53 ---------------------------------------------------------------------------------------------

    def _bounds_hold(
        self, term: Term, role: str, tree_of: RoleTree, fresh: set[str], planned: dict[Held, Counter[str]]
    ) -> None:
        tree, state = tree_of.tree, term.core.state
        used: dict[str, Counter[str]] = {}
        here = {name: amounts for (of, name), amounts in planned.items() if of == role}
        placed = set(here)
        for group in state.taskgroups.values():
            if group.role == role and not (group.ended or group.killing_since or group.unreachable_since):
                used.setdefault(group.application_key, Counter()).update(_amounts(group))
                if group.id not in self._terms[term.epoch].known:
                    placed.add(group.application_key)
        for name, amounts in here.items():
            used.setdefault(name, Counter()).update(amounts)
        touched = {queue.name for name in fresh & placed for queue in _path(tree, name)}
        sums: dict[str, Counter[str]] = {}
        users: dict[tuple[str, str], Counter[str]] = {}
        for name, amounts in used.items():
            for queue in _path(tree, name):
                sums.setdefault(queue.name, Counter()).update(amounts)
                users.setdefault((queue.name, _user(state.applications.get(name))), Counter()).update(amounts)
        for name in touched:
            queue = tree.queues[name]
            if any(self._is_daemonset(term, one) for one in used if queue in _path(tree, one)):
                continue  # daemonsets do not wait for queues
            self.world.count("queues of the tree judged")
            for resource, most in queue.config.max.items():
                if sums[name][resource] > most:
                    words = f"queue {name} has {sums[name][resource]} {resource} of at most {most} in role {role}"
                    raise Violation("I52", words, *fresh)
            for (where, user), amounts in users.items():
                if where == name:
                    self._limits_hold(queue, user, amounts, {_user(state.applications.get(one)) for one in fresh})

    def _limits_hold(self, queue: Queue, user: str, used: Counter[str], fresh: set[str]) -> None:
        if user not in fresh:
            return
        named = [limit for limit in queue.config.limits if user in limit.users]
        for limit in named or [limit for limit in queue.config.limits if "*" in limit.users]:
            self.world.count("limits judged")
            for resource, most in limit.max_resources.items():
                if used[resource] > most:
                    words = f"user {user} has {used[resource]} {resource} of at most {most} in queue {queue.name}"
                    raise Violation("I53", words)

    # --- I56 --------------------------------------------------------------------------------------------------

    @staticmethod
    def _is_not_halted(term: Term, trees: Trees, tree: Tree, name: str, *, is_new: bool) -> None:
        newest = present_tree(term.core.state, trees.name)
        halts = {halt.queue: halt for halt in newest.halts} if newest is not None else {}
        application = term.core.state.applications[name]
        for queue in _path(tree, name):
            halt = halts.get(queue.name)
            if halt is None or halt.since >= term.core.turn_context.now:
                continue
            if halt.state == "Stopped":
                raise Violation("I56", f"{name} is placed in the stopped queue {queue.name}", name)
            if is_new and application.created_at > halt.since:
                raise Violation("I56", f"{name} begins in the draining queue {queue.name}", name)

    # --- I55 --------------------------------------------------------------------------------------------------

    def _sums_are_true(self, tree_of: RoleTree) -> None:
        tree = tree_of.tree
        lost = [name for name in tree_of._given if name not in tree.applications]
        if lost:
            raise Violation("I55", f"{lost[0]} is in no queue of the tree", *lost)
        known = {name for queue in tree.queues.values() for name in queue.applications}
        if known != set(tree.applications):
            odd = sorted(known ^ set(tree.applications))
            raise Violation("I55", f"queues and tree do not have the same applications: {odd[0]}", *odd)
        sums: dict[str, dict[str, int]] = {}
        for application in tree.applications.values():
            held: dict[str, int] = {}
            for allocation in application.allocations.values():
                for resource, amount in allocation.ask.request:
                    held[resource] = held.get(resource, 0) + amount
            for queue in tree.queues[application.queue].path if held else ():
                sum_of = sums.setdefault(queue.name, {})
                for resource, amount in held.items():
                    sum_of[resource] = sum_of.get(resource, 0) + amount
        for name, queue in tree.queues.items():
            found = {resource: amount for resource, amount in queue.allocated.items() if amount}
            wanted = {resource: amount for resource, amount in sums.get(name, {}).items() if amount}
            if found != wanted:
                raise Violation("I55", f"queue {name} has {found}, its taskgroups have {wanted}")
        self.world.count("trees judged")

    # --- I74 --------------------------------------------------------------------------------------------------

    def _victims_leave(self, state: State, tree: Tree) -> None:
        for victim in tree.leaving.values():
            group = state.taskgroups.get(task_name(victim.ask.name))
            if group is not None and not (group.killing_since or group.ended):
                raise Violation(
                    "I74", f"the tree counts {group.id} as leaving, and nothing ends the taskgroup", group.id
                )
            self.world.count("victims that leave")


def _passes(term: Term) -> list[Hierarchical]:
    return list(term.core._offer_manager.placing.trees().values())


def _placements(term: Term) -> Iterable[tuple[Demand[Slot], Placement[Slot]]]:
    """All placements that are decided and not launched: partitions share one launcher."""
    return term.core._offer_manager.placing._launcher.placements()


def _returns_one_by_one(term: Term, role: str, key: str) -> bool:
    """True if members of a gang run, and all that wait are restarted or updated in place (decision 109)."""
    demands = (
        one for one in term.core.turn_context.engine.demands.values() if (one.application, one.role) == (key, role)
    )
    members = (group for group in term.core.state.groups_of(key).values() if group.role == role)
    runs = any(not (group.ended or group.killing_since or group.unreachable_since) for group in members)
    return runs and all(slot.replaces for demand in demands for slot in demand.slots)


def _path(tree: Tree, application: str) -> Iterable[Queue]:
    found = tree.applications.get(application)
    return tree.queues[found.queue].path if found is not None else ()


def _amounts(group: TaskGroup) -> dict[str, int]:
    return {"cpus": group.resources.cpus, "mem": group.resources.mem}


def _user(application: Application | None) -> str:
    return (application.user if application is not None else "") or NOBODY
