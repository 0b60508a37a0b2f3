"""Quotas of namespaces: no command may make the workloads of a namespace want more than its quota.

What they want is summed up as records change, so a check costs what the command changes, however many applications
there are. A command is carried out first and judged by what it made of the sums; one that goes too far is refused, and
the core undoes it. So whatever makes wants grow is bounded, and no command needs to know of quotas.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TypeVar

from store.ids import namespace_of, owner_of
from store.records import Application, Deployment, Namespace, Quota, Record
from store.state import State
from transactions import wants
from transactions.base import Refused
from transactions.wants import NOTHING, Wants

T = TypeVar("T")
Owner = tuple[str, str]
"""Kind (application or deployment) and key of what wants."""
UNITS = {"cpus": "cores", "mem": "MB", "disk": "MB", "taskgroups": ""}


class Quotas:
    """The sums of one state, of the namespaces that have a quota."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._stale: set[Owner] = set()
        """Owners in bounded namespaces that have changed since the sums were worked out."""
        self._parts: dict[str, dict[Owner, Wants]] = {}
        """What each owner wants, by namespace; the namespaces are those that have a quota."""
        self._sums: dict[str, Wants] = {}
        for key, namespace in state.namespaces.items():
            self._namespace_changed(key, None, namespace)
        state.watch(("application", "deployment"), self._owner_changed)
        state.watch(("version", "revision"), self._definition_changed)
        state.watch(("namespace",), self._namespace_changed)

    def guard(self, work: Callable[[], T]) -> T:
        """Does the work. Raises Refused (quota_exceeded) if it made a namespace want more than its quota and more than
        before: what is over already, because the quota was lowered, may shrink or stay."""
        self._settle()
        result = work()
        for namespace, before in self._settle().items():
            self._judge(namespace, before)
        return result

    def room(self, namespace: str, one: Wants, most: int) -> int:
        """How many more of something that wants `one` each the quota of the namespace leaves room for, at most `most`:
        for growth that no command asks for, which stays below the quota instead of being refused."""
        record = self._state.namespaces.get(namespace)
        if record is None or most <= 0 or namespace not in self._parts:
            return max(0, most)
        self._settle()
        now = self._sums.get(namespace, NOTHING)
        for (_, bound), used, each in zip(wants.bounds(record.quota), now, one, strict=True):
            if bound is not None and each > 0:
                most = min(most, max(0, bound - used) // each)
        return most

    def _judge(self, namespace: str, before: Wants) -> None:
        record = self._state.namespaces.get(namespace)
        if record is None:
            return
        problems = over(record.quota, before, self._sums.get(namespace, NOTHING))
        if problems:
            raise Refused("quota_exceeded", f"quota of namespace {namespace} exceeded: {'; '.join(problems)}", "$")

    # --- the sums ---------------------------------------------------------------------------------------------

    def _settle(self) -> dict[str, Wants]:
        """Brings the sums up to date; what those that changed were before, by namespace."""
        before: dict[str, Wants] = {}
        for owner in self._stale:
            namespace = namespace_of(owner[1])
            parts = self._parts.get(namespace)
            if parts is None:
                continue
            was, now = parts.get(owner, NOTHING), self._look(owner)
            if was != now:
                total = self._sums.get(namespace, NOTHING)
                before.setdefault(namespace, total)
                self._sums[namespace] = total.plus(now).minus(was)
            if now == NOTHING:
                parts.pop(owner, None)
            else:
                parts[owner] = now
        self._stale.clear()
        return before

    def _look(self, owner: Owner) -> Wants:
        kind, key = owner
        if kind == "application":
            application = self._state.applications.get(key)
            return wants.of_application(self._state, application) if application is not None else NOTHING
        deployment = self._state.deployments.get(key)
        return wants.of_deployment(self._state, deployment) if deployment is not None else NOTHING

    def _namespace_changed(self, key: str, before: Record | None, after: Record | None) -> None:
        """The sums of a namespace are worked out when it gets its first bound, and kept for as long as it has one."""
        bounded = isinstance(after, Namespace) and any(bound is not None for _, bound in wants.bounds(after.quota))
        if not bounded:
            self._parts.pop(key, None)
            self._sums.pop(key, None)
        elif key not in self._parts:
            kinds = ("application", "deployment")
            owners = [(kind, owner) for kind in kinds for owner in self._state.indexes.keys_in(kind, key)]
            found = {owner: wanted for owner in owners if (wanted := self._look(owner)) != NOTHING}
            self._parts[key] = found
            self._sums[key] = reduce(Wants.plus, found.values(), NOTHING)

    def _owner_changed(self, key: str, before: Record | None, after: Record | None) -> None:
        namespace = namespace_of(key)
        if namespace not in self._parts:
            return
        self._stale.add(("application" if isinstance(after or before, Application) else "deployment", key))
        for record in (before, after):
            if isinstance(record, Application) and record.deployment:
                self._stale.add(("deployment", f"{namespace}/{record.deployment}"))
            elif isinstance(record, Deployment):
                self._stale |= {
                    ("application", f"{namespace}/{name}") for name in (record.application, record.successor)
                }

    def _definition_changed(self, key: str, before: Record | None, after: Record | None) -> None:
        if namespace_of(key) not in self._parts:
            return
        owner = owner_of(key)
        self._stale |= {("application", owner), ("deployment", owner)}
        application = self._state.applications.get(owner)
        if application is not None and application.deployment:
            self._stale.add(("deployment", f"{application.namespace}/{application.deployment}"))


def over(quota: Quota, before: Wants, after: Wants) -> list[str]:
    """What exceeds the quota and has grown, in words: quota, used, asked for."""
    found = []
    for (name, bound), was, now in zip(wants.bounds(quota), before, after, strict=True):
        if bound is not None and now > bound and now > was:
            scale = 1 if name == "taskgroups" else 1000
            unit = f" {UNITS[name]}" if UNITS[name] else ""
            numbers = [f"{value / scale:.12g}" for value in (bound, was, now - was)]
            found.append(f"{name}: quota {numbers[0]}{unit}, used {numbers[1]}, {numbers[2]} more asked for")
    return found
