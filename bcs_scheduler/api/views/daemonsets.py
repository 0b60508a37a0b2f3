"""Daemonsets as users see them (docs/original.md#daemonset-view), and how each agent stands to one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from bcs_scheduler.api.views.base import Meta
from bcs_scheduler.api.views.reasons import Diagnose, reason_of
from bcs_scheduler.api.views.versions import definition_of
from bcs_scheduler.wire.times import rfc3339
from offers.agents import ListedAgent
from store.records import Daemonset, TaskGroup, Version
from store.state.reader import StateReader
from transactions import resource_request
from transactions.kinds import daemonset as daemons
from transactions.rules import health
from transactions.rules.lifecycle import is_ready


class DaemonsetCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Taskgroups. `desired`: agents it is wanted on; `current`: agents that have one; `ready`: taskgroups that run and
    pass their checks; `updated`: taskgroups of the newest version; `available`: ready ones; `misscheduled`: taskgroups
    on agents that the daemonset does not want any more. They are being ended, or stay although a taint of the agent is
    not tolerated."""

    desired: int
    current: int
    ready: int
    updated: int
    available: int
    misscheduled: int


class DaemonsetView(msgspec.Struct, frozen=True, kw_only=True):
    """Capital names are the original's; `Pods` has the ids of the taskgroups as keys. Ours: from `kind` on."""

    name: str
    namespace: str
    metadata: Meta
    instances: int = msgspec.field(name="Instances")
    running_instances: int = msgspec.field(name="RunningInstances")
    status: str = msgspec.field(name="Status")
    created: int = msgspec.field(name="Created")
    last_update_time: int = msgspec.field(name="LastUpdateTime")
    pods: dict[str, dict[str, str]] = msgspec.field(name="Pods")
    kind: str = "daemonset"
    message: str
    reason: str
    """Words for the cause if the daemonset is not as it is defined; otherwise empty."""
    stuck: bool
    """Taskgroups have ended that nothing restarts, and no other operation is in progress; `message` names them."""
    version: str
    max_unavailable: int = msgspec.field(name="maxUnavailable")
    counts: DaemonsetCounts
    transaction: str
    """Id of the update or deletion that works on it."""
    document: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    """The answer of GET /definition, if the query asks for documents."""


class DaemonsetAgent(msgspec.Struct, frozen=True, kw_only=True):
    """State of a daemonset on one agent. `key`: key of the agent's settings. `wanted`: the agent is to have a
    taskgroup; `message` says why not, or why the taskgroup is missing or not ready."""

    id: str
    key: str
    hostname: str
    wanted: bool
    taskgroup: str
    status: str
    ready: bool
    updated: bool
    version: str
    message: str


def show_daemonset(
    state: StateReader, daemonset: Daemonset, diagnose: Diagnose, *, document: bool = False
) -> DaemonsetView:
    """Shows a daemonset as it is at one moment."""
    return state.moment.read(partial(_shown, state, daemonset.key, daemonset, diagnose, document))


def _shown(
    state: StateReader, key: str, known: Daemonset, diagnose: Diagnose, document: bool, since: float
) -> DaemonsetView:
    """The view. `known`: shown if the daemonset has been removed meanwhile. `since`: see `Moment.read`."""
    daemonset = state.daemonsets.get(key, known)
    application = state.applications.get(daemonset.key)
    groups = sorted(state.groups_of(daemonset.key).values(), key=lambda group: (group.index, group.id))
    staying = [group for group in groups if not daemons.is_misplaced(group)]
    newest = application.version if application is not None else ""
    ready = sum(map(is_ready, staying))
    return DaemonsetView(
        name=daemonset.name,
        namespace=daemonset.namespace,
        metadata=Meta(
            name=daemonset.name,
            namespace=daemonset.namespace,
            creation_timestamp=rfc3339(daemonset.created_at),
            labels=daemonset.labels,
            annotations=daemonset.annotations,
        ),
        instances=application.instances if application is not None else 0,
        running_instances=sum(group.status in ("Running", "Restarting") for group in groups),
        status=daemonset.status,
        created=int(daemonset.created_at),
        last_update_time=int(daemonset.updated_at),
        pods={group.id: {} for group in groups},
        message=daemonset.message,
        reason=reason_of(state, application, diagnose) if application is not None else "",
        stuck=daemonset.stuck and daemonset.updated_at < since,
        version=newest,
        max_unavailable=daemonset.max_unavailable,
        counts=DaemonsetCounts(
            desired=application.instances if application is not None else 0,
            current=len(staying),
            ready=ready,
            updated=sum(group.version == newest for group in staying),
            available=ready,
            misscheduled=sum(daemons.is_misplaced(group) or _unwelcome(state, group) for group in groups),
        ),
        transaction=application.operation if application is not None else "",
        document=(definition_of(state, application) if application is not None else None)
        if document
        else msgspec.UNSET,
    )


def _unwelcome(state: StateReader, group: TaskGroup) -> bool:
    """Its agent has a taint that its version does not tolerate."""
    setting = state.agent_settings.get(group.agent_ip) or state.agent_settings.get(group.hostname)
    version = state.version(group.application_key, group.version)
    if setting is None or not setting.taints or version is None:
        return False
    return resource_request.rules_of(version).untolerated(tuple(setting.taints.items())) is not None


def show_agents_of(state: StateReader, daemonset: Daemonset, listed: Sequence[ListedAgent]) -> list[DaemonsetAgent]:
    """Every agent that Mesos lists or that has a taskgroup of it, by host name."""
    application = state.applications.get(daemonset.key)
    newest = state.version(daemonset.key, application.version) if application is not None else None
    there = {group.agent_id: group for group in list(state.groups_of(daemonset.key).values())}
    found = [_standing(state, newest, agent.id, agent.key, agent, there.get(agent.id)) for agent in listed]
    known = {agent.id for agent in listed}
    found += [
        _standing(state, newest, identity, group.agent_ip or group.hostname, None, group)
        for identity, group in there.items()
        if identity not in known
    ]
    return sorted(found, key=lambda standing: (standing.hostname, standing.id))


def _standing(
    state: StateReader,
    newest: Version | None,
    identity: str,
    key: str,
    listed: ListedAgent | None,
    group: TaskGroup | None,
) -> DaemonsetAgent:
    setting = state.agent_settings.get(key)
    objection = "Mesos does not list the agent" if listed is None else ""
    if listed is not None and newest is not None:
        given = {**setting.strings, **setting.scalars} if setting is not None else {}
        attributes = {**listed.attributes, **given, "hostname": listed.hostname}
        taints = tuple(sorted(setting.taints.items())) if setting is not None else ()
        rules = resource_request.rules_of(newest)
        objection = rules.objection(attributes)
        if not objection and (taint := rules.untolerated(taints)) is not None:
            objection = f"taint {taint[0]}={taint[1]}"
        if not objection and setting is not None and setting.disabled:
            objection = "the agent is cordoned"
    wanted = not objection or (group is not None and not daemons.is_misplaced(group))
    return DaemonsetAgent(
        id=identity,
        key=key,
        hostname=listed.hostname if listed is not None else group.hostname if group is not None else "",
        wanted=wanted,
        taskgroup=group.id if group is not None else "",
        status=group.status if group is not None else "",
        ready=group is not None and is_ready(group),
        updated=group is not None and newest is not None and group.version == newest.name,
        version=group.version if group is not None else "",
        message=_words(group, objection),
    )


def _words(group: TaskGroup | None, objection: str) -> str:
    if group is None:
        return objection or "waits for a place"
    if is_ready(group):
        return objection
    if group.killing_since and not group.ended:
        return f"is being ended: {group.kill_reason}"
    if group.status == "Running":
        return f"is not healthy: {health.describe_failures(group)}"
    if group.ended:
        return f"has ended: {group.message}" if group.message else "has ended"
    return group.message
