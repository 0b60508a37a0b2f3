"""Requests that wait until the operation on their object has ended (`onConflict=queue`).

A request that waits is a transaction of status QUEUED, so it is listed, watched and cancelled like others, and a new
leader finds it. The record holds the request. `RequestQueue` takes requests; `QueuedRequests` carries them out, first
come, first served. docs/decisions/0041-requests-that-wait.md has the reasons.

Number, size and time are bounded (CoreOptions.queue_requests, queue_total; Periods.queued).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeAlias, get_args

import msgspec

from bcs_scheduler.core.context import RETRY, UNFIT, TurnContext
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.requests.answers import Data, accepted
from bcs_scheduler.core.work_queue import WorkQueue
from store.advice import advise
from store.ids import object_key, transaction_id, transaction_name
from store.records import Note, Queued, Record, Transaction, TransactionKind, TransactionStatus
from transactions import base
from transactions.base import Refused
from transactions.text import counted, duration

Run = Callable[[requests.Request], Data]
Queueable: TypeAlias = (
    requests.UpdateApplication
    | requests.RollbackApplication
    | requests.ScaleApplication
    | requests.UpdateDeployment
    | requests.ScaleDeployment
)
"""Requests that name a wanted state of an application or a deployment."""
CLASSES: dict[str, type[Queueable]] = {cls.__name__: cls for cls in get_args(Queueable)}


class Target(NamedTuple):
    """The object of a request: its kind, `application` or `deployment`, its namespace and its name."""

    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """Key of the object: ``namespace/name``."""
        return object_key(self.namespace, self.name)


class RequestQueue:
    """Takes requests into the queues of their objects, and ends them. The records hold the requests that wait."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._size = 0
        """Bytes of the requests that wait; those of the records after `recover`."""
        self._superseded: set[str] = set()
        """Ids of the transactions that the present request has superseded."""
        turn.watch("requestqueue", ("transaction",), self._changed)

    def recover(self) -> None:
        """Counts the requests that wait."""
        self._size = 0
        self._superseded.clear()
        transactions = self._turn.state.transactions
        self._turn.each("transaction", transactions, lambda key: self._changed(key, None, transactions[key]))
        self._superseded.clear()

    def naming(self, request: Queueable, run: Run) -> Data:
        """Carries out the request with `run`, and adds `superseded`: the transactions that the request has superseded,
        oldest first. Raises Refused."""
        self._superseded.clear()
        data = run(request)
        return {**data, "superseded": sorted(self._superseded)} if self._superseded else data

    def take(self, request: Queueable, run: Run, tried: Run) -> Data:
        """Carries out the request with `run` if its object has no operation and no queued request; otherwise queues the
        request. A queued request is checked at once with `tried`, which carries it out as if it superseded the running
        operation; these changes are undone. Raises Refused."""
        turn, target = self._turn, target_of(request)
        turn.require("requestqueue")
        waiting = list(turn.state.queued_of(target.kind, target.key).values())
        if not waiting and not busy(turn, target):
            return run(msgspec.structs.replace(request, on_conflict="fail"))
        if getattr(request, "resources_only", False):
            words = f"limits of {target.kind} {target.key} change in place at once, or not at all: they cannot wait"
            raise Refused("conflict", words)
        body = msgspec.json.encode(msgspec.structs.replace(request, token=0, cause="", dry_run=False)).decode()
        last = waiting[-1] if waiting else None
        if last is not None and last.queued is not None and last.queued.body == body:
            return {**self._answer(target, last, waiting[:-1]), "queuePosition": len(waiting), "unchanged": True}
        data = self._try(request, target, tried)
        if not waiting and data.get("unchanged"):
            return data
        self._refuse_if_full(target, len(waiting), len(body))
        queued = self._write(request, target, body, len(waiting) + 1)
        return {**self._answer(target, queued, waiting), "queuePosition": len(waiting) + 1}

    def _try(self, request: Queueable, target: Target, tried: Run) -> Data:
        """Carries out the request and undoes it. Raises Refused, RecordTooLarge or RecordUnencodable."""
        turn = self._turn
        turn.cut()
        deployment = turn.state.deployments.get(target.key) if target.kind == "deployment" else None
        try:
            if deployment is not None and deployment.status == "UpdateResource":
                turn.uow.put(msgspec.structs.replace(deployment, status="Running", command=""))
            data = tried(msgspec.structs.replace(request, on_conflict="supersede"))
            turn.fits()
        finally:
            turn.uow.rollback()
        return data

    def _refuse_if_full(self, target: Target, waiting: int, size: int) -> None:
        options = self._turn.options
        if not options.queue_requests:
            words = "no requests wait here (setting scheduler.queue_requests)"
            raise Refused("too_many_open", f"{words}; {advise('supersede')}")
        if waiting >= options.queue_requests:
            most = options.queue_requests
            words = f"{waiting} requests wait for {target.kind} {target.key} already, at most {most} may"
            raise Refused("too_many_open", f"{words}; {advise('cancel_waiting')}")
        if self._size + size > options.queue_total * 1000:
            words = f"the requests that wait take {self._size} bytes in all, at most {options.queue_total} kB may"
            raise Refused("too_many_open", f"{words}; {advise('supersede')}")

    def _write(self, request: Queueable, target: Target, body: str, position: int) -> Transaction:
        turn, name = self._turn, target.name
        if target.kind == "deployment":
            name = turn.state.deployments[target.key].application
        kind: TransactionKind = "UPDATE"
        if isinstance(request, requests.ScaleApplication | requests.ScaleDeployment):
            kind = "SCALE"
        words = f"waits for {target.kind} {target.key}, position {position} of its queue"
        transaction = Transaction(
            id=transaction_id(turn.ids.next(turn.now)),
            type=kind,
            status="QUEUED",
            namespace=target.namespace,
            application=name,
            cause=turn.cause,
            created_at=turn.now,
            due_at=turn.now,
            deadline=turn.now + turn.options.transactions.periods.queued,
            target=_instances(request),
            queued=Queued(
                deployment=target.name if target.kind == "deployment" else "",
                request=type(request).__name__,
                body=body,
            ),
            history=(Note(at=turn.now, text=words),),
        )
        turn.record_event("transaction", transaction.id, "TransactionQueued", words)
        return turn.uow.put(transaction)

    def _answer(self, target: Target, transaction: Transaction, before: Sequence[Transaction]) -> Data:
        """`before`: the requests that came before. `queuedBehind` names the last of these, else the running operation;
        a halted update of a deployment has none."""
        ahead = before or operations(self._turn, target)
        behind = {"queuedBehind": ahead[-1].id} if ahead else {}
        if target.kind == "application":
            return {**accepted(transaction), **behind}
        revision = self._turn.state.deployments[target.key].revision
        data: Data = {"namespace": target.namespace, "name": target.name, "revision": revision}
        return {**data, "transactionID": transaction.id, **behind}

    # --- other requests ---------------------------------------------------------------------------------------

    def make_way(self, request: requests.Request) -> None:
        """Ends the queued requests of the object of a request that is carried out now: a newer state supersedes them, a
        deletion cancels them. Raises Refused (conflict) for a request with `fail` while others are queued."""
        match request:
            case requests.DeleteApplication():
                self.clear(
                    Target("application", request.namespace, request.name), "CANCEL", "the application is deleted"
                )
            case requests.DeleteDeployment():
                target = Target("deployment", request.namespace, request.name)
                self.clear(target, "CANCEL", "the deployment is deleted")
            case _ if isinstance(request, Queueable):
                target = target_of(request)
                waiting = self._turn.state.queued_of(target.kind, target.key)
                if waiting and request.on_conflict == "fail":
                    words = f"{counted(len(waiting), 'request')} for {target.kind} {target.key} came before"
                    first = transaction_name(next(iter(waiting)))
                    raise Refused("conflict", f"{words} and waits (transaction {first})")
                self.clear(target, "SUPERSEDED", "superseded by a newer request")

    def clear(self, target: Target, status: TransactionStatus, words: str) -> None:
        """Ends all requests that wait for the object."""
        for transaction in list(self._turn.state.queued_of(target.kind, target.key).values()):
            base.end(self._turn.context, transaction, status, words, 0)

    def _changed(self, key: str, before: Record | None, after: Record | None) -> None:
        self._size += _size(after) - _size(before)
        if _is_superseded(after):
            self._superseded.add(key)
        elif _is_superseded(before):
            self._superseded.discard(key)  # undone


def target_of(request: Queueable) -> Target:
    """The object of the request."""
    match request:
        case requests.UpdateApplication():
            return Target("application", request.version.namespace, request.version.application)
        case requests.UpdateDeployment():
            return Target("deployment", request.deployment.namespace, request.deployment.name)
        case requests.ScaleDeployment():
            return Target("deployment", request.namespace, request.name)
    return Target("application", request.namespace, request.name)


def busy(turn: TurnContext, target: Target) -> bool:
    """An operation works on the object: a request with `onConflict=queue` waits until it has ended."""
    deployment = turn.state.deployments.get(target.key) if target.kind == "deployment" else None
    if deployment is not None and (deployment.status != "Running" or deployment.next_revision):
        return True
    return bool(operations(turn, target))


def operations(turn: TurnContext, target: Target) -> Sequence[Transaction]:
    """The running operations on the object that keep others away, oldest first. Those of a deployment are operations on
    its applications."""
    keys = [target.key]
    if target.kind == "deployment":
        deployment = turn.state.deployments.get(target.key)
        names = (deployment.application, deployment.successor) if deployment is not None else ()
        keys = [object_key(target.namespace, name) for name in names if name]
    found = (turn.state.applications.get(key) for key in keys)
    running = (base.exclusive_operations(turn.context, application) for application in found if application is not None)
    return sorted(chain.from_iterable(running), key=lambda transaction: transaction.id)


def request_of(transaction: Transaction) -> Queueable:
    """The request that a transaction of status QUEUED holds. Raises ValueError if this scheduler does not know it."""
    queued = transaction.queued
    cls = CLASSES.get(queued.request) if queued is not None else None
    if queued is None or cls is None:
        raise ValueError(f"transaction {transaction.id} holds no request that this scheduler knows")
    request = msgspec.json.decode(queued.body, type=cls)
    return msgspec.structs.replace(request, cause=transaction.cause)


def _instances(request: Queueable) -> int:
    """Number of taskgroups that the request names; 0: none, or no taskgroups."""
    match request:
        case requests.ScaleApplication() | requests.ScaleDeployment():
            return request.instances
        case requests.UpdateApplication() | requests.UpdateDeployment():
            return request.size or request.version.instances
    return request.instances or 0


def _is_superseded(record: Record | None) -> bool:
    return isinstance(record, Transaction) and record.status == "SUPERSEDED"


def _size(record: Record | None) -> int:
    queued = record.queued if isinstance(record, Transaction) else None
    return len(queued.body) if queued is not None else 0


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
