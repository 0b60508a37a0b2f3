"""Daemonsets as users see them (bcs_api 7.6), and how each agent stands to one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bcs_scheduler.api.views.agents import agent_key
from bcs_scheduler.api.views.base import Meta, rfc3339
from store.records import Daemonset, TaskGroup, Version
from store.state import State
from transactions import daemons, health, needs
from transactions.lifecycle import serves


class CountsView(msgspec.Struct, frozen=True, kw_only=True):
    """Taskgroups. `desired`: agents it is wanted on; `current`: agents that have one; `ready`: those that run and pass
    their checks; `updated`: those of the newest version; `available`: ready ones; `misscheduled`: those whose
    agents are not for it any more: they are being ended, or stay although a taint of the agent is not tolerated."""

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
    stuck: bool
    """Taskgroups have ended that nothing restarts, and nothing else is under way; `message` names them."""
    version: str
    max_unavailable: int = msgspec.field(name="maxUnavailable")
    counts: CountsView
    transaction: str
    """Id of the update or deletion that works on it."""


class AgentStanding(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent stands to a daemonset. `key`: what its settings are stored under. `wanted`: it is to have a
    taskgroup; `message` says why not, or why it has none yet or one that is not ready."""

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


def show_daemonset(state: State, daemonset: Daemonset) -> DaemonsetView:
    application = state.applications.get(daemonset.key)
    groups = sorted(state.groups_of(daemonset.key).values(), key=lambda group: (group.index, group.id))
    staying = [group for group in groups if not daemons.leaving(group)]
    newest = application.version if application is not None else ""
    ready = sum(map(serves, staying))
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
        stuck=daemonset.stuck,
        version=newest,
        max_unavailable=daemonset.max_unavailable,
        counts=CountsView(
            desired=application.instances if application is not None else 0,
            current=len(staying),
            ready=ready,
            updated=sum(group.version == newest for group in staying),
            available=ready,
            misscheduled=sum(daemons.leaving(group) or _unwelcome(state, group) for group in groups),
        ),
        transaction=application.operation if application is not None else "",
    )


def _unwelcome(state: State, group: TaskGroup) -> bool:
    """Its agent has a taint that its version does not tolerate."""
    setting = state.agent_settings.get(group.agent_ip) or state.agent_settings.get(group.hostname)
    version = state.version(f"{group.namespace}/{group.application}", group.version)
    if setting is None or not setting.taints or version is None:
        return False
    return needs.rules_of(version).untolerated(tuple(setting.taints.items())) is not None


def show_agents_of(state: State, daemonset: Daemonset, listed: Sequence[Mapping[str, Any]]) -> list[AgentStanding]:
    """Every agent that Mesos lists or that has a taskgroup of it, by host name."""
    application = state.applications.get(daemonset.key)
    newest = state.version(daemonset.key, application.version) if application is not None else None
    there = {group.agent_id: group for group in list(state.groups_of(daemonset.key).values())}
    found = [_standing(state, newest, agent["id"], agent_key(agent), agent, there.get(agent["id"])) for agent in listed]
    known = {agent["id"] for agent in listed}
    found += [
        _standing(state, newest, identity, group.agent_ip or group.hostname, None, group)
        for identity, group in there.items()
        if identity not in known
    ]
    return sorted(found, key=lambda standing: (standing.hostname, standing.id))


def _standing(
    state: State,
    newest: Version | None,
    identity: str,
    key: str,
    listed: Mapping[str, Any] | None,
    group: TaskGroup | None,
) -> AgentStanding:
    setting = state.agent_settings.get(key)
    objection = "Mesos does not list it" if listed is None else ""
    if listed is not None and newest is not None:
        given = {**setting.strings, **setting.scalars} if setting is not None else {}
        attributes = {**listed.get("attributes", {}), **given, "hostname": listed["hostname"]}
        taints = tuple(sorted(setting.taints.items())) if setting is not None else ()
        rules = needs.rules_of(newest)
        objection = rules.objection(attributes)
        if not objection and (taint := rules.untolerated(taints)) is not None:
            objection = f"taint {taint[0]}={taint[1]}"
        if not objection and setting is not None and setting.disabled:
            objection = "it is disabled"
    wanted = not objection or (group is not None and not daemons.leaving(group))
    return AgentStanding(
        id=identity,
        key=key,
        hostname=str(listed["hostname"]) if listed is not None else group.hostname if group is not None else "",
        wanted=wanted,
        taskgroup=group.id if group is not None else "",
        status=group.status if group is not None else "",
        ready=group is not None and serves(group),
        updated=group is not None and newest is not None and group.version == newest.name,
        version=group.version if group is not None else "",
        message=_words(group, objection),
    )


def _words(group: TaskGroup | None, objection: str) -> str:
    if group is None:
        return objection or "waits for a place"
    if serves(group):
        return objection
    if group.killing_since and not group.ended:
        return f"is being ended: {group.kill_reason}"
    if group.status == "Running":
        return f"is not healthy: {health.complaints(group)}"
    if group.ended:
        return f"has ended: {group.message}" if group.message else "has ended"
    return group.message
