"""Deployments as users see them (docs/original.md#deployment-view), how far they are, and the revisions they have
had."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from bcs_scheduler.api.views.base import Meta
from bcs_scheduler.api.views.reasons import Diagnose, reason_of
from bcs_scheduler.api.views.transactions import QueuedView, show_queue
from bcs_scheduler.api.views.versions import VersionView, show_definition, show_version
from bcs_scheduler.wire.times import rfc3339
from store.ids import object_key, part_key
from store.records import Application, Deployment, Revision, Strategy
from store.state.reader import StateReader
from transactions.rules.deployment_status import Condition, DeploymentSummary, summarize


class RollingUpdateView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=False):
    """Settings as in documents; `maxUnavilable` is the spelling of `maxUnavailable` in the original. `canary` null:
    none."""

    max_unavilable: int
    max_unavailable: int
    max_surge: int
    upgrade_duration: float
    rolling_order: str
    rolling_manually: bool
    min_ready_seconds: float
    step_timeout_seconds: float
    on_failure: str
    canary: dict[str, Any] | None


class StrategyView(msgspec.Struct, frozen=True, kw_only=True):
    type: str = "RollingUpdate"
    rollingupdate: RollingUpdateView


class SideView(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two applications: where the present step brings it, and how many taskgroups it has."""

    name: str
    curr_target_instances: int
    current_rolling_instances: int = msgspec.field(name="CurrentRollingInstances")


class ConditionView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`status`: True, False or Unknown, as text. `reason` is one word for programs."""

    type: str
    status: str
    reason: str
    message: str


class DeploymentCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Taskgroups: `old` and `new` of the two sides of an update (none is old without one), `ready` and `available`
    (ready for minReadySeconds) of both, `present` altogether."""

    old: int
    new: int
    new_ready: int = msgspec.field(name="newReady")
    ready: int
    available: int
    present: int


class ProgressView(msgspec.Struct, frozen=True, kw_only=True):
    """`done` of `total` taskgroups are as they are wanted and available; `step` counts the steps of this update."""

    done: int
    total: int
    step: int


class DeploymentView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Names with underscores are the original's. `raw_json` is the user's document, `raw_json_backup` that of the
    revision which an update leaves; both without passwords. Times are Unix seconds where the original has them.

    Ours: from `kind` on. `resourceVersion` changes whenever anything but a time does.
    """

    metadata: Meta
    selector: dict[str, str]
    strategy: StrategyView
    status: str
    application: SideView | None
    application_ext: SideView | None = msgspec.field(name="application_ext")
    retiring: list[SideView] | msgspec.UnsetType = msgspec.UNSET
    """Ours. During an update: applications of superseded updates that still have taskgroups, if there are any."""
    last_rolling_time: int = msgspec.field(name="last_rolling_time")
    curr_rolling_operation: str = msgspec.field(name="curr_rolling_operation")
    is_in_rolling: bool = msgspec.field(name="is_in_rolling")
    check_time: int = msgspec.field(name="check_time")
    message: str
    raw_json: str = msgspec.field(name="raw_json")
    raw_json_backup: str = msgspec.field(name="raw_json_backup")
    kind: str = "deployment"
    name: str
    namespace: str
    content: str
    """Kind of its taskgroups: application (containers) or process."""
    instances: int
    revision: int
    previous_revision: int
    """During an update: the revision that was wanted before; else 0."""
    next_revision: int
    """While an update is undone: the revision that follows after that; else 0."""
    rolling_back: bool
    """The update is being undone."""
    rollback_requested: bool
    """A user has asked for the last undoing of an update."""
    pausing: bool
    """A pause was asked for; the step that runs is completed first."""
    counts: DeploymentCounts
    progress: ProgressView
    conditions: list[ConditionView]
    create_time: str
    update_time: str
    progress_time: str
    reason: str
    """Words for the cause if the newest application is not as it is defined; otherwise empty."""
    resource_version: str = ""
    queued: list[QueuedView] | msgspec.UnsetType = msgspec.UNSET
    """Requests that wait for their turn, if there are any."""


class RevisionView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`why`: reason in words; `current`: this is the wanted revision."""

    revision: int
    current: bool
    instances: int
    why: str
    create_time: str


class RevisionDetail(RevisionView, frozen=True, kw_only=True, rename="camel"):
    """`document`: the user's, without passwords; null if there was none."""

    definition: VersionView
    document: dict[str, Any] | None


def show_deployment(state: StateReader, deployment: Deployment, diagnose: Diagnose, now: float) -> DeploymentView:
    """`now`: Unix seconds."""
    found = summarize(state, deployment, now)
    view = _view(state, deployment, diagnose, found)
    times = {"reason": "", "check_time": 0, "update_time": "", "progress_time": ""}
    digest = blake2b(msgspec.json.encode(msgspec.structs.replace(view, **times)), digest_size=8)
    return msgspec.structs.replace(view, resource_version=digest.hexdigest())


def _reason(state: StateReader, deployment: Deployment, diagnose: Diagnose) -> str:
    newest = deployment.successor or deployment.application
    application = state.applications.get(object_key(deployment.namespace, newest))
    return reason_of(state, application, diagnose) if application is not None else ""


def _view(state: StateReader, deployment: Deployment, diagnose: Diagnose, found: DeploymentSummary) -> DeploymentView:
    bound = state.applications.get(deployment.application_key)
    previous = state.revisions.get(part_key(deployment.key, deployment.previous)) if deployment.previous else None
    return DeploymentView(
        metadata=Meta(
            name=deployment.name,
            namespace=deployment.namespace,
            creation_timestamp=rfc3339(deployment.created_at),
            labels=deployment.labels,
            annotations=deployment.annotations,
        ),
        selector=deployment.selector,
        strategy=show_strategy(deployment.strategy),
        status=deployment.status,
        application=_side(state, deployment, deployment.application),
        application_ext=_side(state, deployment, deployment.successor),
        retiring=_retiring(state, deployment) or msgspec.UNSET,
        last_rolling_time=int(deployment.rested_at),
        curr_rolling_operation=deployment.phase,
        is_in_rolling=bool(deployment.phase),
        check_time=int(deployment.updated_at),
        message=deployment.message,
        reason=_reason(state, deployment, diagnose),
        raw_json=_document_text(deployment.raw, deployment.instances),
        raw_json_backup=_document_text(previous.raw, previous.instances) if previous else "",
        name=deployment.name,
        namespace=deployment.namespace,
        content=bound.type if bound is not None else "application",
        instances=deployment.instances,
        revision=deployment.revision,
        previous_revision=deployment.previous,
        next_revision=deployment.next_revision,
        rolling_back=deployment.rolling_back,
        rollback_requested=deployment.rollback_requested,
        pausing=deployment.pausing,
        counts=DeploymentCounts(
            old=found.old,
            new=found.new,
            new_ready=found.new_ready,
            ready=found.ready,
            available=found.available,
            present=found.old + found.new,
        ),
        progress=ProgressView(done=found.done, total=found.total, step=deployment.step),
        conditions=[_condition(condition) for condition in found.conditions],
        create_time=rfc3339(deployment.created_at),
        update_time=rfc3339(deployment.updated_at),
        progress_time=rfc3339(deployment.progress_at),
        queued=show_queue(state, "deployment", deployment.key),
    )


def show_strategy(strategy: Strategy) -> StrategyView:
    canary = strategy.canary
    return StrategyView(
        rollingupdate=RollingUpdateView(
            max_unavilable=strategy.max_unavailable,
            max_unavailable=strategy.max_unavailable,
            max_surge=strategy.max_surge,
            upgrade_duration=strategy.pause,
            rolling_order=strategy.order,
            rolling_manually=strategy.manual,
            min_ready_seconds=strategy.min_ready,
            step_timeout_seconds=strategy.step_timeout,
            on_failure=strategy.on_failure,
            canary={"instances": canary.instances, "holdSeconds": canary.hold, "manual": canary.manual}
            if canary
            else None,
        )
    )


def show_revision(deployment: Deployment, revision: Revision) -> RevisionView:
    return RevisionView(**_head(deployment, revision))


def show_revision_in_full(deployment: Deployment, revision: Revision) -> RevisionDetail:
    return RevisionDetail(
        **_head(deployment, revision),
        definition=show_version(revision.version),
        document=show_definition(revision.raw, revision.instances) if revision.raw else None,
    )


def _head(deployment: Deployment, revision: Revision) -> dict[str, Any]:
    return {
        "revision": revision.number,
        "current": revision.number == deployment.revision,
        "instances": revision.instances,
        "why": revision.why,
        "create_time": rfc3339(revision.created_at),
    }


def _side(state: StateReader, deployment: Deployment, name: str) -> SideView | None:
    application: Application | None = state.applications.get(object_key(deployment.namespace, name)) if name else None
    if application is None:
        return None
    return SideView(
        name=name,
        curr_target_instances=application.instances,
        current_rolling_instances=len(state.groups_of(application.key)),
    )


def _retiring(state: StateReader, deployment: Deployment) -> list[SideView]:
    return [view for name in deployment.retiring if (view := _side(state, deployment, name)) is not None]


def _condition(condition: Condition) -> ConditionView:
    return ConditionView(
        type=condition.type, status=condition.status, reason=condition.reason, message=condition.message
    )


def _document_text(raw: str, instances: int) -> str:
    return msgspec.json.encode(show_definition(raw, instances)).decode() if raw else ""
