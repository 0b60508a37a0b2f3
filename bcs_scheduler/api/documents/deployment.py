"""The document of kind deployment (bcs_api 6.13): the head and template of an application, with a strategy.

Wire names are exact; `maxUnavilable` is how the original spells `maxUnavailable`. Fields of our own, in
`strategy.rollingupdate`: `minReadySeconds`, `stepTimeoutSeconds`, `onFailure`, `canary`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, field

from bcs_scheduler.api.documents import names
from bcs_scheduler.api.documents.application import (
    MAX_INSTANCES,
    ApplicationDocument,
    ApplicationSpec,
    ConstraintDocument,
    KillPolicyDocument,
    Metadata,
    PodTemplate,
    RestartPolicyDocument,
    UnreachablePolicyDocument,
)
from bcs_scheduler.api.documents.convert import to_version
from bcs_scheduler.api.documents.pod import DAY, LATER, ExecutorName
from bcs_scheduler.api.documents.validate import (
    POD,
    check_application,
    check_identity,
    check_kind,
    check_metadata,
    with_namespace,
)
from bcs_scheduler.api.documents.walk import Document, Problems, decode, member
from bcs_scheduler.api.errors import invalid
from store.records import Canary, Deployment, Strategy, Version

KINDS = ("deployment",)
NAME_LENGTH = names.NAME_LENGTH - len("-v1234567890")
ROLLING = "$.spec.strategy.rollingupdate"
_Count = Annotated[int, Meta(ge=0, le=MAX_INSTANCES)]
_Seconds = Annotated[float, Meta(ge=0, le=30 * DAY)]
_OURS = ("minReadySeconds", "stepTimeoutSeconds", "onFailure", "canary")
_OF_STRATEGY = dict.fromkeys(_OURS, "belongs into spec.strategy.rollingupdate")
_NEEDS_TEMPLATE = ("restart_policy", "kill_policy", "unreachable_policy", "constraint", "executor")
"""Parts of the head that say how the template is run."""


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
    """`instance` is required with a template; left out of an update the number stays as it is. Without `template` the
    one application that `selector` matches is adopted."""

    refused: ClassVar[dict[str, str]] = {
        **_OF_STRATEGY,
        "pauseDeployment": f"{LATER}; to go on by hand from step to step set strategy.rollingupdate.rollingManually",
    }

    instance: Annotated[int, Meta(ge=1, le=MAX_INSTANCES)] | None = None
    selector: dict[str, str] = field(default_factory=dict)
    strategy: StrategyDocument = StrategyDocument()
    template: PodTemplate | None = None


class DeploymentDocument(Document, frozen=True, kw_only=True):
    refused: ClassVar[dict[str, str]] = {
        "updatePolicy": "has no meaning for a deployment; its updates follow spec.strategy.rollingupdate"
    }

    api_version: Literal["v4"] = "v4"
    kind: Literal["deployment"]
    metadata: Metadata
    restart_policy: RestartPolicyDocument = RestartPolicyDocument()
    kill_policy: KillPolicyDocument = KillPolicyDocument()
    unreachable_policy: UnreachablePolicyDocument = UnreachablePolicyDocument()
    constraint: ConstraintDocument = ConstraintDocument()
    executor: ExecutorName = ""
    spec: DeploymentSpec


def read_deployment(
    raw: object,
    *,
    namespace: str,
    name: str | None = None,
    present: int | None = None,
    default_executor: str = "bcs",
) -> DeploymentDocument:
    """The checked document. An empty namespace is filled from the path; a different one (or name) is a problem (W8).

    `present`: taskgroups of the deployment that is updated, for checks of what is bounded by them; None to create one.
    Raises ApiError (422) with all problems.
    """
    problems = Problems()
    check_kind(raw, KINDS, problems)
    document: DeploymentDocument = decode(with_namespace(raw, namespace), DeploymentDocument, problems)
    check_identity(document.metadata, namespace, name, problems)
    names.check_labels(document.spec.selector, "$.spec.selector", problems)
    if len(document.metadata.name) > NAME_LENGTH:
        words = f"must have at most {NAME_LENGTH} characters: an update names its application like it, with -v<seconds>"
        problems.add("$.metadata.name", words)
    _check_strategy(document.spec.strategy, document.spec.instance or present, problems)
    application = as_application(document)
    if application is None:
        check_metadata(document.metadata, problems)
        _check_adoption(document, problems, updating=present is not None)
    else:
        if document.spec.instance is None and present is None:
            problems.add("$.spec.instance", "is required: how many taskgroups the deployment has")
        _check_contents(application, problems)
        check_application(application, default_executor, problems)
    if problems:
        raise invalid(problems.listed())
    return document


def as_application(document: DeploymentDocument) -> ApplicationDocument | None:
    """What the template describes, as an application of the deployment's name; None without a template."""
    template = document.spec.template
    if template is None:
        return None
    return ApplicationDocument(
        kind="process" if template.spec.processes and not template.spec.containers else "application",
        metadata=document.metadata,
        restart_policy=document.restart_policy,
        kill_policy=document.kill_policy,
        unreachable_policy=document.unreachable_policy,
        constraint=document.constraint,
        executor=document.executor,
        spec=ApplicationSpec(instance=document.spec.instance, template=template),
    )


def to_deployment(document: DeploymentDocument) -> Deployment:
    """`instances` 0 where the document leaves spec.instance out: the core knows the number that stands in for it."""
    return Deployment(
        namespace=document.metadata.namespace,
        name=document.metadata.name,
        labels=document.metadata.labels,
        annotations=document.metadata.annotations,
        selector=document.spec.selector,
        strategy=to_strategy(document.spec.strategy),
        instances=document.spec.instance or 0,
        raw=msgspec.json.encode(document).decode(),
    )


def to_definition(document: DeploymentDocument) -> Version | None:
    """What runs, with as many taskgroups as `to_deployment` says; None without a template. The user's document is kept
    with the deployment and not here: a revision holds both, and must fit one record."""
    application = as_application(document)
    if application is None:
        return None
    return msgspec.structs.replace(to_version(application, 0), raw="")


def to_strategy(document: StrategyDocument) -> Strategy:
    rolling = document.rollingupdate
    canary = rolling.canary
    return Strategy(
        max_unavailable=rolling.max_unavailable,
        max_surge=rolling.max_surge,
        pause=rolling.upgrade_duration,
        order=rolling.rolling_order,
        manual=rolling.rolling_manually,
        min_ready=rolling.min_ready_seconds,
        step_timeout=rolling.step_timeout_seconds,
        on_failure=rolling.on_failure,
        canary=Canary(instances=canary.instances, hold=canary.hold_seconds, manual=canary.manual) if canary else None,
    )


def _check_strategy(strategy: StrategyDocument, instances: int | None, problems: Problems) -> None:
    if strategy.type == "Recreate":
        problems.add(
            "$.spec.strategy.type",
            '"Recreate" is not supported: for the same effect set maxUnavailable to the number of taskgroups and '
            "rollingOrder to DeleteFirst",
        )
    elif strategy.type not in ("RollingUpdate", ""):
        problems.add(
            "$.spec.strategy.type",
            f'must be "RollingUpdate", not "{strategy.type[:40]}"',
            strategy.type,
            ("RollingUpdate",),
        )
    rolling = strategy.rollingupdate
    if not rolling.max_surge and not rolling.max_unavailable:
        problems.add(member(ROLLING, "maxSurge"), "is 0, and so is maxUnavailable: no update could make a step")
    if rolling.step_timeout_seconds and rolling.min_ready_seconds >= rolling.step_timeout_seconds:
        problems.add(
            member(ROLLING, "minReadySeconds"),
            f"must be less than stepTimeoutSeconds ({rolling.step_timeout_seconds:g}): no step could end in time",
        )
    if rolling.canary is not None:
        _check_canary(rolling.canary, instances, problems)


def _check_canary(canary: CanaryDocument, instances: int | None, problems: Problems) -> None:
    at = member(ROLLING, "canary")
    if instances is not None and canary.instances > instances:
        words = f"must be at most the number of taskgroups ({instances}), not {canary.instances}"
        problems.add(member(at, "instances"), words)
    if canary.manual and canary.hold_seconds:
        problems.add(member(at, "manual"), "excludes holdSeconds: the update is either resumed by hand or by itself")
    elif not canary.manual and not canary.hold_seconds:
        problems.add(member(at, "holdSeconds"), "is required, more than 0; or manual, to wait until it is resumed")


def _check_adoption(document: DeploymentDocument, problems: Problems, *, updating: bool) -> None:
    if updating:
        problems.add("$.spec.template", "is required: an update says what is to run")
        return
    if not document.spec.selector:
        problems.add("$.spec.template", "is required; or spec.selector, to adopt the one application that it matches")
    blank: Any = DeploymentDocument(kind="deployment", metadata=document.metadata, spec=document.spec)
    for name in _NEEDS_TEMPLATE:
        if getattr(document, name) != getattr(blank, name):
            wire = next(f.encode_name for f in msgspec.structs.fields(document) if f.name == name)
            problems.add(member("$", wire), "needs spec.template: an adopted application keeps its own")


def _check_contents(application: ApplicationDocument, problems: Problems) -> None:
    """In the words of a deployment; what an application's check would say of the same places is dropped."""
    assert application.spec.template is not None
    pod = application.spec.template.spec
    if pod.containers and pod.processes:
        problems.add(member(POD, "processes"), "excludes containers: a template holds either")
    elif not pod.containers and not pod.processes:
        problems.add(member(POD, "containers"), "is required: at least one container, or one of processes")
