"""Quotas of namespaces: no request may raise the quota usage of a namespace above its quota.

The usage is summed up as records change, so the cost of a check depends on the changes of the request and not on the
number of applications. A request is carried out first, and then its effect on the sums is checked. A request that
exceeds the quota is refused, and the core undoes its changes. Every growth of the usage is therefore limited, and no
request handler needs to know quotas.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TypeVar

from store.ids import custom_namespace_of, namespace_of, object_key, owner_of
from store.records import Application, Deployment, Namespace, Quota, Record
from store.state import Watch
from transactions.base import Context, Refused
from transactions.rules import quota_usage
from transactions.rules.quota_usage import NOTHING, QuotaUsage

T = TypeVar("T")
Owner = tuple[str, str]
"""Kind and key of an object with quota usage: a workload, or of one of the kinds `quota_usage.STORED`."""
UNITS = {"cpus": "cores", "mem": "MB", "disk": "MB", "taskgroups": "", "objects": "", "objectStorage": "MB"}


class Quotas:
    """The sums of one state, of the namespaces that have a quota."""

    def __init__(self, context: Context, watch: Watch) -> None:
        """`watch`: as `State.watch`. The sums are there after `recover`."""
        self._context, self._state = context, context.state
        self._stale: set[Owner] = set()
        """Owners in bounded namespaces that have changed since the sums were worked out."""
        self._parts: dict[str, dict[Owner, QuotaUsage]] = {}
        """Quota usage of each owner, by namespace; only namespaces that have a quota."""
        self._sums: dict[str, QuotaUsage] = {}
        watch(("application", "deployment"), self._owner_changed)
        watch(("version", "revision"), self._definition_changed)
        watch(quota_usage.STORED, self._object_changed)
        watch(("namespace",), self._namespace_changed)

    def recover(self) -> None:
        """Drops the sums and works them out from the records."""
        for known in (self._stale, self._parts, self._sums):
            known.clear()
        namespaces = self._state.namespaces
        found = [("namespace", key) for key in namespaces]
        self._context.each_change(found, lambda _, key: self._namespace_changed(key, None, namespaces[key]))

    def check_after(self, work: Callable[[], T]) -> T:
        """Does the work. Raises Refused (quota_exceeded) if the usage of a namespace is then above its quota and has
        grown. Usage that is above the quota already, because the quota was lowered, may shrink or stay."""
        self._settle()
        result = work()
        for namespace, before in self._settle().items():
            self._judge(namespace, before)
        return result

    def room(self, namespace: str, one: QuotaUsage, most: int) -> int:
        """Number of units that still fit into the quota of the namespace if each requests `one`; at most `most`. For
        growth that no request asks for, which stays below the quota instead of being refused."""
        record = self._state.namespaces.get(namespace)
        if record is None or most <= 0 or namespace not in self._parts:
            return max(0, most)
        self._settle()
        now = self._sums.get(namespace, NOTHING)
        for (_, bound), used, each in zip(quota_usage.bounds(record.quota), now, one, strict=True):
            if bound is not None and each > 0:
                most = min(most, max(0, bound - used) // each)
        return most

    def _judge(self, namespace: str, before: QuotaUsage) -> None:
        record = self._state.namespaces.get(namespace)
        if record is None:
            return
        problems = over(record.quota, before, self._sums.get(namespace, NOTHING))
        if problems:
            raise Refused("quota_exceeded", f"quota of namespace {namespace} exceeded: {'; '.join(problems)}", "$")

    # --- the sums ---------------------------------------------------------------------------------------------

    def _settle(self) -> dict[str, QuotaUsage]:
        """Brings the sums up to date. Returns the former values of the changed sums, by namespace."""
        before: dict[str, QuotaUsage] = {}

        def settle(kind: str, key: str) -> None:
            namespace, owner = _namespace(kind, key), (kind, key)
            parts = self._parts.get(namespace)
            if parts is None:
                return
            was, now = parts.get(owner, NOTHING), self._look(kind, key)
            if was != now:
                total = self._sums.get(namespace, NOTHING)
                before.setdefault(namespace, total)
                self._sums[namespace] = total.plus(now).minus(was)
            if now == NOTHING:
                parts.pop(owner, None)
            else:
                parts[owner] = now

        self._context.each_change(self._stale, settle)
        self._stale.clear()
        return before

    def _look(self, kind: str, key: str) -> QuotaUsage:
        if kind in quota_usage.STORED:
            record = self._state.get(kind, key)
            return quota_usage.of_object(record) if record is not None else NOTHING
        overhead = self._context.overhead
        if kind == "application":
            application = self._state.applications.get(key)
            if application is None:
                return NOTHING
            return quota_usage.of_application(self._state, application, overhead)
        deployment = self._state.deployments.get(key)
        return quota_usage.of_deployment(self._state, deployment, overhead) if deployment is not None else NOTHING

    def _namespace_changed(self, key: str, _before: Record | None, after: Record | None) -> None:
        """The sums of a namespace are worked out when it gets its first bound, and kept for as long as it has one."""
        bounded = isinstance(after, Namespace) and any(
            bound is not None for _, bound in quota_usage.bounds(after.quota)
        )
        if not bounded:
            self._parts.pop(key, None)
            self._sums.pop(key, None)
        elif key not in self._parts:
            kinds = ("application", "deployment", *quota_usage.STORED)
            owners = [(kind, owner) for kind in kinds for owner in self._state.indexes.keys_in(kind, key)]
            found: dict[Owner, QuotaUsage] = {}

            def add(kind: str, owner: str) -> None:
                if (wanted := self._look(kind, owner)) != NOTHING:
                    found[kind, owner] = wanted

            self._context.each_change(owners, add)
            self._parts[key] = found
            self._sums[key] = reduce(QuotaUsage.plus, found.values(), NOTHING)

    def _owner_changed(self, key: str, before: Record | None, after: Record | None) -> None:
        namespace = namespace_of(key)
        if namespace not in self._parts:
            return
        self._stale.add(("application" if isinstance(after or before, Application) else "deployment", key))
        for record in (before, after):
            if isinstance(record, Application) and record.deployment:
                self._stale.add(("deployment", object_key(namespace, record.deployment)))
            elif isinstance(record, Deployment):
                self._stale |= {("application", object_key(namespace, name)) for name in record.sides}

    def _object_changed(self, key: str, before: Record | None, after: Record | None) -> None:
        record = after or before
        if record is not None and _namespace(record.kind, key) in self._parts:
            self._stale.add((record.kind, key))

    def _definition_changed(self, key: str, _before: Record | None, _after: Record | None) -> None:
        if namespace_of(key) not in self._parts:
            return
        owner = owner_of(key)
        self._stale |= {("application", owner), ("deployment", owner)}
        application = self._state.applications.get(owner)
        if application is not None and application.deployment:
            self._stale.add(("deployment", application.deployment_key))


def over(quota: Quota, before: QuotaUsage, after: QuotaUsage) -> list[str]:
    """Returns one message for each amount that exceeds the quota and has grown: quota, used, requested; empty if there
    is none."""
    found = []
    for (name, bound), was, now in zip(quota_usage.bounds(quota), before, after, strict=True):
        if bound is not None and now > bound and now > was:
            unit = f" {UNITS[name]}" if UNITS[name] else ""
            numbers = [f"{quota_usage.displayed(name, value):.12g}" for value in (bound, was, now - was)]
            found.append(f"{name}: quota {numbers[0]}{unit}, used {numbers[1]}, {numbers[2]} more asked for")
    return found


def _namespace(kind: str, key: str) -> str:
    return custom_namespace_of(key) if kind == "customobject" else namespace_of(key)
