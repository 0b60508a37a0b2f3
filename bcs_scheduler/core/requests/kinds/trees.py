"""Requests about the trees of queues of the policy `hierarchical`: new revisions, roll back, halted queues, dry trials.

A request is validated as a whole before anything is stored. The placement pass takes the stored tree over in the same
turn. The states of halted queues belong to the present, and not to a revision: a roll back does not bring them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.placement.engines.hierarchical import Hierarchical
from bcs_scheduler.core.placement.hierarchy.asks import QUEUE_HOLDS, held_back
from bcs_scheduler.core.placement.partitions import Placing
from bcs_scheduler.core.placement.revisions import KEPT, Revisions, read_tree
from bcs_scheduler.core.requests.answers import Data
from bcs_scheduler.core.requests.planned_effect import shown_partition
from offers.errors import Problem
from offers.model import DecidedBy
from offers.policy.hierarchy.changes import CannotChange, Trial, Wait
from offers.policy.hierarchy.configuration.document import canonical
from offers.policy.hierarchy.configuration.fields import BadQueues
from offers.policy.hierarchy.configuration.partition import ROOT, Partition, full_names
from store.records import DEFAULT_PARTITION, QueueHalt, QueueTree
from transactions import explain
from transactions.base import Refused
from transactions.rules.queues import chosen_tree, present_tree, revisions_of
from transactions.text import counted

LISTED = 1000
"""Applications and taskgroups that a trial lists at most; the numbers count all."""


def has_queue(turn: TurnContext, name: str) -> bool:
    """True if a tree has a configured queue of this name, full or below root. With other policies, the stored tree of
    the default partition counts: a namespace may name its queue before the policy is `hierarchical`."""
    roots = [trees.partition.root for trees in turn.queues.trees.values()]
    stored = present_tree(turn.state, DEFAULT_PARTITION) if not roots else None
    if stored is not None:
        roots.append(read_tree(stored.document).root)
    wanted = name.lower() if name.lower().startswith(f"{ROOT}.") else f"{ROOT}.{name.lower()}"
    return any(known == wanted for root in roots for known, _ in full_names(root))


class TreeRequests:
    """Handles requests about the trees of queues."""

    def __init__(self, turn: TurnContext, placing: Placing) -> None:
        self._turn, self._placing = turn, placing
        self.handlers: Mapping[type[requests.Request], Callable[[Any], Data]] = {
            requests.PutQueueTree: self._put,
            requests.RollbackQueueTree: self._roll_back,
            requests.SetQueueState: self._set_state,
        }

    def _put(self, command: requests.PutQueueTree) -> Data:
        return self._store(self._expect(command), command, command.document, command.why)

    def _roll_back(self, command: requests.RollbackQueueTree) -> Data:
        placing = self._expect(command)
        revisions = {tree.number: tree for tree in revisions_of(self._turn.state, placing.trees.name)}
        present = max(revisions, default=0)
        kept = [number for number in revisions if number != present]
        wanted = command.revision if command.revision is not None else max(kept, default=0)
        if wanted == present:
            raise Refused("conflict", f"revision {wanted} of the queues is the present one", "$.revision")
        found = revisions.get(wanted)
        if found is None:
            listed = ", ".join(map(str, kept)) or "none"
            raise Refused(
                "not_found", f"revision {wanted} of the queues is not kept; kept beside the present: {listed}"
            )
        return self._store(placing, command, found.document, f"rolled back to revision {wanted}")

    def _set_state(self, command: requests.SetQueueState) -> Data:
        placing = self._expect(command)
        trees, name = placing.trees, command.queue.lower()
        if name not in dict(full_names(trees.partition.root)):
            created = any(name in tree_of.tree.queues for tree_of in list(trees.roles.values()))
            more = "; a placement rule has created it: stop or drain a queue above" if created else ""
            raise Refused("not_found", f"queue {name} is not configured{more}")
        if name == ROOT and command.state == "Draining":
            raise Refused("invalid", "root cannot drain; stop root, or drain the queues below", "$.state")
        halted = tuple(self._halts(placing))
        before = next((halt for halt in halted if halt.queue == name), None)
        answer: Data = {"queue": name, "state": command.state} | self._labelled(placing)
        if command.state == (before.state if before is not None else "Active"):
            return answer | {"unchanged": True}
        others = tuple(halt for halt in halted if halt.queue != name)
        halts = others
        if command.state != "Active":
            halts = (*others, QueueHalt(queue=name, state=command.state, since=self._turn.now))
        if command.dry_run:
            self._turn.later(self._try(placing, trees.partition, halts, answer))
        record = self._revisions(placing).present()
        if record is None:  # the tree of the settings counts, and becomes the first revision
            record = self._next(placing, trees.document, (), "from the settings", "")
        self._turn.uow.put(msgspec.structs.replace(record, halts=halts, updated_at=self._turn.now))
        words = f"{name}: {command.state}" + (f", by {command.author}" if command.author else "")
        self._turn.record_event(
            "queuetree", record.key, "QueueStarted" if command.state == "Active" else "QueueHalted", words
        )
        return answer

    # --- parts ------------------------------------------------------------------------------------------------

    def _expect(self, command: requests.ChangeTree) -> Hierarchical:
        """The engine with the tree. Raises Refused (conflict with another policy, or if another revision counts; as
        `chosen_tree`)."""
        found = self._placing.trees()
        if not found:
            raise Refused("conflict", "the scheduler has no tree of queues: scheduler.policy is not hierarchical")
        placing = found[chosen_tree(found, command.partition)]
        present = self._revisions(placing).present()
        number = present.number if present is not None else 0
        if command.expected not in (None, number):
            words = f"the queues have been changed: the present revision is {number}, not {command.expected}"
            raise Refused("conflict", f"{words}; read the queues again, or leave out the revision", "$.revision")
        return placing

    def _store(self, placing: Hierarchical, command: requests.ChangeTree, document: str, why: str) -> Data:
        present = self._revisions(placing).present()
        try:
            partition = read_tree(document)
        except BadQueues as error:
            raise _refused("invalid", "the queues are refused", error.problems) from None
        document = canonical(msgspec.json.decode(document))
        if document == (present.document if present is not None else placing.trees.document):
            return {"revision": present.number if present is not None else 0, "unchanged": True} | self._labelled(
                placing
            )
        try:
            placing.present().refuse(partition)
        except CannotChange as error:
            raise _refused("conflict", "the queues do not suit the present applications", error.problems) from None
        names = {name for name, _ in full_names(partition.root)}
        halts = tuple(halt for halt in self._halts(placing) if halt.queue in names)
        record = self._next(placing, document, halts, why, command.author)
        answer: Data = {"revision": record.number} | self._labelled(placing)
        if command.dry_run:
            self._turn.later(self._try(placing, partition, halts, answer))
        self._turn.uow.put(record)
        for old in revisions_of(self._turn.state, placing.trees.name)[:-KEPT]:
            self._turn.uow.delete(old)
        words = f"revision {record.number}, {why}" + (f", by {record.author}" if record.author else "")
        self._turn.record_event("queuetree", record.key, "QueueTreeUpdated", words)
        return answer

    def _revisions(self, placing: Hierarchical) -> Revisions:
        return Revisions(self._turn, placing.trees.name)

    def _halts(self, placing: Hierarchical) -> Iterator[QueueHalt]:
        """The halted queues, as records."""
        return (QueueHalt(queue=one.queue, state=one.state, since=one.since) for one in placing.trees.halts)

    def _next(
        self, placing: Hierarchical, document: str, halts: tuple[QueueHalt, ...], why: str, author: str
    ) -> QueueTree:
        revisions, now = self._revisions(placing), self._turn.now
        present = revisions.present()
        number = present.number + 1 if present is not None else 1
        return revisions.made(
            number=number, document=document, halts=halts, author=author, why=why, created_at=now, updated_at=now
        )

    def _try(
        self, placing: Hierarchical, partition: Partition, halts: tuple[QueueHalt, ...], answer: Data
    ) -> Iterator[None]:
        """Adds the effect of a configuration to an answer, in steps."""
        try:
            tried = yield from placing.present().trying(partition, halts)
        except CannotChange as error:
            raise _refused("conflict", "the queues do not suit the present applications", error.problems) from None
        waits = [one for found in tried.values() for one in _waits(found)]
        preempted = [one for found in tried.values() for one in _victims(found)]
        moved = sorted({name for found in tried.values() for name in found.moved_on})
        answer["trial"] = {
            "waiting": sum(one["taskgroups"] - one["before"] for one in waits),
            "waits": waits[:LISTED],
            "preempting": len(preempted),
            "preempted": preempted[:LISTED],
            "movedOn": moved[:LISTED],
            "draining": sorted({name for found in tried.values() for name in found.draining}),
            **shown_partition(self._decided_by(placing)),
        }

    def _labelled(self, placing: Hierarchical) -> Data:
        """The name of the partition, if several have a tree."""
        return {"partition": placing.trees.name} if len(self._placing.trees()) > 1 else {}

    def _decided_by(self, placing: Hierarchical) -> DecidedBy | None:
        """The partition with the tree; None: there is one partition."""
        parts = self._turn.queues.partitions()
        return next((one for one in parts if one.name == placing.trees.name), None) if len(parts) > 1 else None


def _waits(found: Trial) -> list[Data]:
    return [
        {
            "application": one.application,
            "taskgroups": one.asks,
            "before": one.before,
            "reason": str(one.cause.kind),
            "queue": one.cause.where,
            "whose": one.cause.whose,
            "message": _message(one),
        }
        for one in found.waits
    ]


def _message(one: Wait) -> str:
    if one.cause.kind in QUEUE_HOLDS:
        return explain.held_back(held_back(one.cause, one.used, one.most))
    return "no agent has room for the taskgroup"


def _victims(found: Trial) -> list[Data]:
    return [
        {
            "application": one.allocation.ask.application,
            "taskgroup": one.allocation.ask.name,
            "beneficiary": one.beneficiary.application if one.beneficiary is not None else "",
        }
        for one in found.preempted
    ]


def _refused(reason: Any, words: str, problems: tuple[Problem, ...]) -> Refused:
    listed = tuple((_path(problem.path), problem.text) for problem in problems)
    return Refused(reason, f"{words}: {counted(len(problems), 'problem')}", problems=listed)


def _path(path: str) -> str:
    return path if path.startswith("$") else f"$.{path}"
