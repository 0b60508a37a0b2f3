"""The greatest priority of namespaces: no request may make work with more priority than its namespace allows.

Like a quota (bcs_scheduler.core.quotas), the bound is compared with the records that a request has written, so
no request handler needs to know it. Work that has more priority already, because its namespace allowed more before, is
kept: it may be changed, scaled and restarted, but a new definition gets no more priority than the one in force has. The
answer names such work in a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from store.advice import AdviceCode, advise
from store.ids import ObjectKey, object_key, part_key
from store.records import (
    CRITICAL_CLASSES,
    DEFAULT_QUEUE,
    GROUP_ANNOTATION,
    Application,
    Deployment,
    ManagedTask,
    PodGroup,
    Record,
    Revision,
    Version,
)
from store.state import State, Watch
from transactions.base import Refused
from transactions.rules import priority_limits

Data = dict[str, Any]
KINDS = ("application", "deployment", "version", "revision", "managedtask", "podgroup")
PATH = "$.spec.template.spec"
GROUP_PATH = f'$.metadata.annotations["{GROUP_ANNOTATION}"]'
"""Path of the name of the pod group in documents of workloads."""


class PriorityBounds:
    """Follows the records that the present request writes."""

    def __init__(self, state: State, default: int, watch: Watch) -> None:
        """`default`: the greatest priority of namespaces that have none of their own. `watch`: as `State.watch`."""
        self._state = state
        self._default = default
        self._before: dict[tuple[str, str], Record | None] | None = None
        """Records before the first change by the present request; None: there is no request."""
        watch(KINDS, self._changed)

    def recover(self) -> None:
        """Forgets the present request."""
        self._before = None

    def check_after(self, work: Callable[[], Data]) -> Data:
        """Does the work. Raises Refused (invalid) if it has written work with more priority than its namespace allows,
        and than the work had before. Otherwise returns the data of the work, with `warnings` about kept priorities."""
        before: dict[tuple[str, str], Record | None] = {}
        self._before = before
        try:
            data = work()
        finally:
            self._before = None
        for (kind, key), was in before.items():
            record = self._state.get(kind, key)
            if record is not None and record != was:
                self._judge(record, was, before)
        kept = self._kept(before)
        return {**data, "warnings": [*data.get("warnings", ()), *kept]} if kept else data

    def refuse_class(self, namespace: str, name: str) -> None:
        """Raises Refused (invalid) if the namespace may not use this priority class."""
        found = self._state.priority_classes.get(name)
        if found is None or found.global_default:
            return
        self._refuse(
            Version(
                namespace=namespace, application="", priority=found.value, priority_class=name, priority_from="class"
            ),
            "$.spec.priorityClassName",
        )

    def _judge(self, record: Record, was: Record | None, before: Mapping[tuple[str, str], Record | None]) -> None:
        match record:
            case Version():
                application = self._state.applications.get(record.application_key)
                if application is None or not application.deployment:  # else the revision is judged
                    self._refuse_more(record, self._of_application(record.application_key, before))
            case Revision():
                same = isinstance(was, Revision) and was.version == record.version
                if not same:
                    key = object_key(record.namespace, record.deployment)
                    self._refuse_more(record.version, self._of_deployment(key, before))
            case ManagedTask() if record.version is not None:
                self._refuse_more(record.version, [])
            case PodGroup() if record.priority_class != (was.priority_class if isinstance(was, PodGroup) else ""):
                self.refuse_class(record.namespace, record.priority_class)

    def _refuse_more(self, version: Version, present: list[Version]) -> None:
        if not priority_limits.keeps(version, present):
            self._refuse(version, f"{PATH}.{'priorityClassName' if version.priority_class else 'priority'}")

    def _refuse(self, version: Version, path: str) -> None:
        if priority_limits.allows(self._state, version, self._default):
            return
        space, most = version.namespace, priority_limits.greatest(self._state, version.namespace, self._default)
        priority, where = str(version.priority), self._bounding_queue(space, most)
        name = version.priority_class
        if name:
            group = self._group_with(version)
            what = f"priority class {name}{f' of pod group {group.name}' if group is not None else ''}"
            path = path if group is None else GROUP_PATH
            helps = advise("allow_class", name=space, priority_class=name)
            if name in CRITICAL_CLASSES:
                protects = "protects work from evictions and is only for namespaces that name it"
                raise Refused("invalid", f"{what} {protects}; namespace {space} does not; {helps}", path)
            what = f"{what} has priority {priority}"
        else:
            what = f"priority {priority} is too great"
            code: AdviceCode = "raise_priority_of_queue" if where else "raise_priority"
            helps = advise(code, name=where or space, priority=priority)
        owner = f"queue {where}" if where else f"namespace {space}"
        raise Refused("invalid", f"{what}; the greatest priority of {owner} is {most}; {helps}", path)

    def _group_with(self, version: Version) -> PodGroup | None:
        """The pod group that gives the version its class; None: the document has the class, or it is the default."""
        name = version.annotations.get(GROUP_ANNOTATION, "")
        group = self._state.pod_groups.get(object_key(version.namespace, name)) if name else None
        return group if group is not None and group.priority_class == version.priority_class else None

    def _bounding_queue(self, namespace: str, most: int) -> str:
        """Name of the queue whose greatest priority counts, and not that of the namespace; empty: there is none."""
        record = self._state.namespaces.get(namespace)
        queue = self._state.queues.get((record.queue if record is not None else "") or DEFAULT_QUEUE)
        if queue is None or queue.max_priority != most or (record is not None and record.max_priority == most):
            return ""
        return queue.name

    # --- the records before ------------------------------------------------------------------------------------

    def _of_application(self, key: str, before: Mapping[tuple[str, str], Record | None]) -> list[Version]:
        application = self._was("application", key, before)
        if not isinstance(application, Application):
            return []
        version = self._was("version", part_key(key, application.version), before)
        return [version] if isinstance(version, Version) else []

    def _of_deployment(self, key: str, before: Mapping[tuple[str, str], Record | None]) -> list[Version]:
        """Definitions that are in force: the present revision, the one that an update comes from, and the one that
        follows; of a new deployment, those of the application that it adopts."""
        deployment = self._was("deployment", key, before)
        if isinstance(deployment, Deployment):
            numbers = (deployment.revision, deployment.previous, deployment.next_revision)
            found = [self._was("revision", part_key(key, number), before) for number in numbers]
            return [revision.version for revision in found if isinstance(revision, Revision)]
        created = self._state.deployments.get(key)
        return self._of_application(created.application_key, before) if created is not None else []

    def _was(self, kind: str, key: str, before: Mapping[tuple[str, str], Record | None]) -> Record | None:
        return before[kind, key] if (kind, key) in before else self._state.get(kind, key)

    def _kept(self, before: Mapping[tuple[str, str], Record | None]) -> list[str]:
        """A warning for each object that the request has changed and that has more priority than its namespace
        allows."""
        found: dict[str, None] = {}
        for kind, key in before:
            application = self._state.applications.get(key) if kind == "application" else None
            excess = application and priority_limits.excess_of(self._state, application, self._default)
            if excess:
                namespace = ObjectKey.of(excess.key).namespace
                most = priority_limits.greatest(self._state, namespace, self._default)
                words = f"{priority_limits.shown(excess)} is kept; new work of namespace {namespace} has {most} at most"
                found[words] = None
        return list(found)

    def _changed(self, key: str, before: Record | None, after: Record | None) -> None:
        record = after or before
        if self._before is not None and record is not None:
            self._before.setdefault((record.kind, key), before)
