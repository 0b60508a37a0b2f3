"""Begins the requests that wait for an object, one after the other, when the operation on it has ended.

The records hold the requests that wait (core.requests.queue). This controller holds only the objects that must be
examined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from bcs_scheduler.core.context import RETRY, UNFIT, TurnContext
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.requests.queue import Target, busy, request_of
from bcs_scheduler.core.structures.work_queue import WorkQueue
from store.records import Transaction, TransactionStatus
from transactions import base
from transactions.base import Refused
from transactions.text import duration

Data = dict[str, Any]


class QueuedRequests:
    """Follows the objects that requests wait for."""

    def __init__(self, turn: TurnContext, run: Callable[[requests.Request], Data]) -> None:
        """`run`: carries out a request whose turn has come, quotas included, and returns the data of its answer."""
        self._turn = turn
        self._run = run
        self._targets: dict[str, Target] = {}
        """Objects that requests wait for, by kind and key."""
        self._work = WorkQueue()
        self._unchecked = False
        """The first request of the present object waits on, because it cannot be checked now."""

    def recover(self) -> None:
        """Takes up all requests that wait; the first turn looks at their objects."""
        self._targets.clear()
        self._work.clear()

        def take(key: str) -> None:
            transaction = self._turn.state.transactions[key]
            if transaction.waiting:
                self._work.put(self._follow(transaction), 0.0)

        self._turn.each("transaction", self._turn.state.transactions, take)

    def next_timer(self) -> float | None:
        """Unix seconds of the earliest deadline of a queued request; None if no request is queued."""
        return self._work.first()

    def tick(self) -> None:
        """Ends requests whose time is over."""
        self._work.mark_due(self._turn.now)
        self._look_at_marked()

    def notice(self, changed: Sequence[tuple[str, str]]) -> None:
        """Looks at the objects that the changes concern."""
        self._turn.each_change(changed, self._concern)
        self._look_at_marked()

    def _concern(self, kind: str, key: str) -> None:
        if kind == "transaction":
            transaction = self._turn.state.transactions.get(key)
            if transaction is not None and transaction.waiting:
                self._work.mark(self._follow(transaction))
            elif transaction is not None and not transaction.active and self._targets:
                self._mark("application", transaction.application_key)
                application = self._turn.state.applications.get(transaction.application_key)
                if application is not None and application.deployment:
                    self._mark("deployment", application.deployment_key)
        elif self._targets and kind in ("application", "deployment"):
            self._mark(kind, key)

    def _follow(self, transaction: Transaction) -> str:
        queued = transaction.queued
        deployment = queued.deployment if queued is not None else ""
        target = Target("application", transaction.namespace, transaction.application)
        if deployment:
            target = Target("deployment", transaction.namespace, deployment)
        name = f"{target.kind} {target.key}"
        self._targets[name] = target
        return name

    def _mark(self, kind: str, key: str) -> None:
        name = f"{kind} {key}"
        if name in self._targets:
            self._work.mark(name)

    def _look_at_marked(self) -> None:
        ready = list(self._work.ready(self._turn.now))
        for name in self._turn.each("queue", ready, self._serve):
            self._work.put(name, self._turn.now + RETRY)

    def _serve(self, name: str) -> None:
        target, self._unchecked = self._targets[name], False
        while self._look(target):
            pass
        waiting = self._turn.state.queued_of(target.kind, target.key).values()
        if waiting:
            again = [self._turn.now + RETRY] if self._unchecked else []
            self._work.put(name, min(again + [transaction.deadline for transaction in waiting]))
        else:
            self._work.forget(name)
            del self._targets[name]

    def _look(self, target: Target) -> bool:
        """Ends or begins the first request that is to be; False if all of them wait on."""
        turn = self._turn
        waiting = list(turn.state.queued_of(target.kind, target.key).values())
        table = turn.state.deployments if target.kind == "deployment" else turn.state.applications
        for transaction in waiting:
            if target.key not in table:
                return self._end(transaction, "CANCEL", f"{target.kind} {target.key} is gone")
            if turn.now >= transaction.deadline:
                seconds = transaction.deadline - transaction.created_at
                return self._end(transaction, "TIMEOUT", f"its turn did not come within {duration(seconds)}")
        if not waiting or busy(turn, target):
            return False
        head = waiting[0]
        failure = turn.attempt("transaction", head.id, partial(self._begin, head))
        if failure is not None:
            return self._end(head, "FAIL", failure.message)
        turn.cut()
        return not self._unchecked

    def _begin(self, head: Transaction) -> None:
        """The request is checked again: much may have changed since it was accepted."""
        turn = self._turn
        turn.start(turn.now, head.cause)
        turn.context.queued = head
        try:
            data = self._run(msgspec.structs.replace(request_of(head), on_conflict="fail"))
            turn.fits()
        except (Refused, *UNFIT) as refused:
            turn.uow.rollback()
            if isinstance(refused, Refused) and refused.reason == "unavailable":
                self._unchecked = True
                return
            words = refused.message if isinstance(refused, Refused) else str(refused)
            base.end(turn.context, head, "FAIL", f"refused when its turn came: {words}", 0)
            return
        finally:
            turn.context.queued = None
            turn.start(turn.now, "turn")
        if turn.state.transactions[head.id].waiting:
            words = "nothing was left to do" if data.get("unchanged") else f"revision {data.get('revision')} has begun"
            base.end(turn.context, head, "FINISH", words, 0)

    def _end(self, transaction: Transaction, status: TransactionStatus, words: str) -> bool:
        base.end(self._turn.context, transaction, status, words, 0)
        self._turn.cut()
        return True
