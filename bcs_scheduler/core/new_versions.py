"""The priority and the group of a new version: those that its document names, and those of its class, its group, or the
default class."""

from __future__ import annotations

from typing import Any

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.options import RolePartition
from bcs_scheduler.core.placement.groups import partitions_of
from bcs_scheduler.core.priority_bounds import GROUP_PATH
from store.ids import object_key
from store.records import GROUP_ANNOTATION, Deployment, PodGroup, PriorityClass, Version
from transactions.base import Refused

PATH = "$.spec.template.spec.priorityClassName"
ROLE = "$.spec.template.spec.role"


def resolved(turn: TurnContext, version: Version, before: Version | None = None) -> Version:
    """The version with the priority of its class. Without class and number in the document the class of
    the group counts, then the default class; an
    update that gives neither, of work that had neither, keeps its priority, so that a new default class replaces
    no taskgroups. `before`: the newest version; None: the work is new. Raises Refused (invalid) for a class
    or group that does not exist, and for a group that could not start together."""
    state, group = turn.state, group_of(turn, version)
    if version.priority_from == "document":  # a class beside the number would have the rights of the class
        return msgspec.structs.replace(version, priority_class="") if version.priority_class else version
    if version.priority_class:
        found = state.priority_classes.get(version.priority_class)
        if found is None:
            raise Refused("invalid", f"priority class {version.priority_class} does not exist", PATH)
        return _with_class(version, found, "class")
    if group is not None and group.priority_class:
        of_group = state.priority_classes.get(group.priority_class)
        if of_group is None:
            words = f"priority class {group.priority_class} of pod group {group.name} does not exist"
            raise Refused("invalid", words, GROUP_PATH)
        return _with_class(version, of_group, "class")
    if before is not None and before.priority_from in ("", "default"):
        return msgspec.structs.replace(
            version,
            priority=before.priority,
            priority_class=before.priority_class,
            priority_from=before.priority_from,
            preemption_policy=before.preemption_policy,
        )
    for name in state.indexes.default_priority_classes():
        return _with_class(version, state.priority_classes[name], "default")
    return version


def of_update(turn: TurnContext, asked: requests.UpdateDeployment, present: Deployment) -> requests.UpdateDeployment:
    """The update with the priority of its class; see `resolved`. Raises Refused (invalid)."""
    revision = turn.state.revisions.get(present.revision_key)
    version = resolved(turn, asked.version, revision.version if revision is not None else None)
    return msgspec.structs.replace(asked, version=version)


def _with_class(version: Version, found: PriorityClass, source: Any) -> Version:
    return msgspec.structs.replace(
        version,
        priority=found.value,
        priority_class=found.name,
        priority_from=source,
        preemption_policy=found.preemption_policy,
    )


def group_of(turn: TurnContext, version: Version) -> PodGroup | None:
    """The group that a version names; None: it names none. Raises Refused (invalid) for a group that does not exist,
    and for a role that another policy decides about than about the roles of other members."""
    name = version.annotations.get(GROUP_ANNOTATION, "")
    if not name:
        return None
    found = turn.state.pod_groups.get(object_key(version.namespace, name))
    if found is None:
        raise Refused("invalid", f"pod group {name} does not exist in namespace {version.namespace}", GROUP_PATH)
    own, role = version.application, version.role or turn.options.transactions.role
    decided = partitions_of(turn, found.key, beside=own)
    mine = turn.options.part_of(role)
    other = next((name for name, part in decided.items() if part is not mine), None)
    if other is not None:
        words = f"{_shown(mine)} decides about role {role}, and {_shown(decided[other])} about {other}"
        words = f"{words}, which is in the pod group {name}, too: the group could never start together"
        raise Refused("invalid", words, ROLE if version.role else GROUP_PATH)
    return found


def _shown(part: RolePartition) -> str:
    return f"the policy {part.kind} (roles {', '.join(part.roles)})"
