"""The document of kind deployment (docs/original.md#deployment-documents): the head and template of an application,
with a strategy.

Wire names are exact; `maxUnavilable` is the spelling of the original for `maxUnavailable`. Fields of this project, in
`strategy.rollingupdate`: `minReadySeconds`, `stepTimeoutSeconds`, `onFailure`, `canary`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from bcs_scheduler.wire.decoding import Document
from bcs_scheduler.wire.documents.application import (
    API_VERSION,
    MAX_INSTANCES,
    ConstraintDocument,
    KillPolicyDocument,
    Metadata,
    PodTemplate,
    RestartPolicyDocument,
    UnreachablePolicyDocument,
)
from bcs_scheduler.wire.documents.pod import CONSOLE, DAY, ExecutorName

_Count = Annotated[int, Meta(ge=0, le=MAX_INSTANCES)]
_Seconds = Annotated[float, Meta(ge=0, le=30 * DAY)]
_OURS = ("minReadySeconds", "stepTimeoutSeconds", "onFailure", "canary")
_OF_STRATEGY = dict.fromkeys(_OURS, "belongs into spec.strategy.rollingupdate")


class CanaryDocument(Document, frozen=True, kw_only=True):
    """The first step of an update: so many new taskgroups, then a halt of `holdSeconds`, or with `manual` until the
    update is resumed. One of the two is given."""

    instances: Annotated[int, Meta(ge=1, le=MAX_INSTANCES)]
    hold_seconds: _Seconds = 0.0
    manual: bool = False


class RollingUpdateDocument(Document, frozen=True, kw_only=True):
    """`maxUnavailable`: old taskgroups removed, `maxSurge`: new ones added per step, at least one of them not 0.
    `upgradeDuration`: seconds between steps. `stepTimeoutSeconds` 0: as the scheduler's settings say."""

    aliases: ClassVar[dict[str, str]] = {"maxUnavilable": "maxUnavailable"}

    max_unavailable: _Count = 1
    max_surge: _Count = 1
    upgrade_duration: _Seconds = 0.0
    rolling_order: Literal["CreateFirst", "DeleteFirst"] = "CreateFirst"
    rolling_manually: bool = False
    min_ready_seconds: _Seconds = 0.0
    step_timeout_seconds: _Seconds = 0.0
    on_failure: Literal["suspend", "rollback"] = "suspend"
    canary: CanaryDocument | None = None


class StrategyDocument(Document, frozen=True, kw_only=True):
    refused: ClassVar[dict[str, str]] = _OF_STRATEGY

    type: str = "RollingUpdate"
    rollingupdate: RollingUpdateDocument = RollingUpdateDocument()


class DeploymentSpec(Document, frozen=True, kw_only=True):
    """`instance` is required with a template; left out of an update the number stays as it is. `minAvailable`: gang of
    each side. Without `template` the
    one application that `selector` matches is adopted."""

    refused: ClassVar[dict[str, str]] = _OF_STRATEGY
    ignored: ClassVar[dict[str, str]] = {
        **CONSOLE,
        "pauseDeployment": "to continue by hand after each step, set strategy.rollingupdate.rollingManually",
    }

    instance: Annotated[int, Meta(ge=0, le=MAX_INSTANCES)] | None = None
    min_available: Annotated[int, Meta(ge=0, le=MAX_INSTANCES)] = 0
    selector: dict[str, str] = field(default_factory=dict)
    strategy: StrategyDocument = StrategyDocument()
    template: PodTemplate | None = None


class DeploymentDocument(Document, frozen=True, kw_only=True):
    ignored: ClassVar[dict[str, str]] = {
        **CONSOLE,
        "updatePolicy": "updates of a deployment follow spec.strategy.rollingupdate",
    }
    lenient: ClassVar[dict[str, str]] = API_VERSION

    api_version: Literal["v4"] = "v4"
    kind: Literal["deployment"]
    metadata: Metadata
    restart_policy: RestartPolicyDocument = RestartPolicyDocument()
    kill_policy: KillPolicyDocument = KillPolicyDocument()
    unreachable_policy: UnreachablePolicyDocument = UnreachablePolicyDocument()
    constraint: ConstraintDocument = ConstraintDocument()
    executor: ExecutorName = ""
    spec: DeploymentSpec
