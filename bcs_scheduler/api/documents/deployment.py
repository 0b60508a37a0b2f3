"""The document of kind deployment (docs/original.md#deployment-documents): the head and template of an application,
with a strategy.

Wire names are exact; `maxUnavilable` is how the original spells `maxUnavailable`. Fields of our own, in
`strategy.rollingupdate`: `minReadySeconds`, `stepTimeoutSeconds`, `onFailure`, `canary`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bcs_scheduler.api.documents import names
from bcs_scheduler.api.documents.convert import to_version
from bcs_scheduler.api.documents.validate import (
    POD,
    Present,
    check_application,
    check_identity,
    check_kind,
    check_least,
    check_metadata,
    with_namespace,
)
from bcs_scheduler.api.http.errors import invalid
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.application import (
    ApplicationDocument,
    ApplicationSpec,
)
from bcs_scheduler.wire.documents.deployment import CanaryDocument, DeploymentDocument, StrategyDocument
from bcs_scheduler.wire.problems import Problems, hint, member
from store.records import Canary, Deployment, Strategy, Version

KINDS = ("deployment",)
SUFFIX = len("-v1234567890")
NAME_LENGTH, LONGEST_NAME = names.NAME_LENGTH - SUFFIX, names.LONGEST_NAME - SUFFIX
ROLLING = "$.spec.strategy.rollingupdate"
_NEEDS_TEMPLATE = ("restart_policy", "kill_policy", "unreachable_policy", "constraint", "executor")
"""Parts of the head that concern the run of the template."""


def read_deployment(
    raw: object,
    *,
    namespace: str,
    name: str | None = None,
    present: Present | None = None,
    default_executor: str = "bcs",
    least: int = 0,
    problems: Problems | None = None,
) -> DeploymentDocument:
    """The checked document. An empty namespace is filled from the path; a different one (or name) is a problem
    (docs/original.md#path-and-body).

    `present`: of the deployment that is updated, for checks of fields that its numbers bound; None to create one.
    `least`: fewest taskgroups.
    Raises ApiError (422) with all problems.
    """
    problems = Problems() if problems is None else problems
    check_kind(raw, KINDS, problems)
    document: DeploymentDocument = decode(with_namespace(raw, namespace), DeploymentDocument, problems)
    check_identity(document.metadata, namespace, name, problems)
    names.check_labels(document.spec.selector, "$.spec.selector", problems)
    if len(document.metadata.name) > NAME_LENGTH:
        words = f"must have at most {NAME_LENGTH} characters: an update names its application like it, with -v<seconds>"
        (problems.add if len(document.metadata.name) > LONGEST_NAME else problems.warn)("$.metadata.name", words)
    check_least(document.spec.instance, least, problems)
    _check_strategy(document.spec.strategy, document.spec.instance, present, problems)
    application = as_application(document)
    if application is None:
        check_metadata(document.metadata, problems)
        _check_adoption(document, problems, updating=present is not None)
    else:
        if document.spec.instance is None and present is None:
            problems.add("$.spec.instance", "is required: how many taskgroups the deployment has")
        _check_contents(application, problems)
        check_application(application, default_executor, problems, present)
    if problems:
        raise invalid(problems.listed())
    return document


def as_application(document: DeploymentDocument) -> ApplicationDocument | None:
    """Converts the template into an application of the deployment's name; None without a template."""
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
        spec=ApplicationSpec(
            instance=document.spec.instance, min_available=document.spec.min_available, template=template
        ),
    )


def to_deployment(document: DeploymentDocument) -> Deployment:
    """`instances` 0 where the document leaves spec.instance out: the core knows the number that stands in for it. `raw`
    has neither a number nor a time of creation: the record has them, and a scale changes the number there."""
    numberless = msgspec.structs.replace(
        document,
        spec=msgspec.structs.replace(document.spec, instance=None),
        metadata=msgspec.structs.replace(document.metadata, creation_timestamp=""),
    )
    return Deployment(
        namespace=document.metadata.namespace,
        name=document.metadata.name,
        labels=document.metadata.labels,
        annotations=document.metadata.annotations,
        selector=document.spec.selector,
        strategy=to_strategy(document.spec.strategy),
        instances=document.spec.instance or 0,
        raw=msgspec.json.encode(numberless).decode(),
    )


def to_definition(document: DeploymentDocument) -> Version | None:
    """The version that runs, with the number of taskgroups from `to_deployment`; None without a template. The user's
    document is kept with the deployment and not here: a revision holds both, and must fit one record."""
    application = as_application(document)
    if application is None:
        return None
    return msgspec.structs.replace(to_version(application, 0), raw="")


def to_strategy(document: StrategyDocument) -> Strategy:
    rolling = document.rollingupdate
    canary = rolling.canary
    return Strategy(
        max_unavailable=rolling.max_unavailable or (0 if rolling.max_surge else 1),
        max_surge=rolling.max_surge or (0 if rolling.max_unavailable else 1),
        pause=rolling.upgrade_duration,
        order=rolling.rolling_order,
        manual=rolling.rolling_manually,
        min_ready=rolling.min_ready_seconds,
        step_timeout=rolling.step_timeout_seconds,
        on_failure=rolling.on_failure,
        canary=Canary(instances=canary.instances, hold=canary.hold_seconds, manual=canary.manual) if canary else None,
    )


def _check_strategy(
    strategy: StrategyDocument, instances: int | None, present: Present | None, problems: Problems
) -> None:
    if strategy.type == "Recreate":
        problems.warn(
            "$.spec.strategy.type",
            '"Recreate" is not supported',
            "for the same effect set maxUnavailable to the number of taskgroups and rollingOrder to DeleteFirst",
        )
    elif strategy.type not in ("RollingUpdate", ""):
        problems.warn(
            "$.spec.strategy.type",
            f'must be "RollingUpdate", not "{strategy.type[:40]}"',
            hint(strategy.type, ("RollingUpdate",)).removeprefix("; "),
        )
    rolling = strategy.rollingupdate
    if not rolling.max_surge and not rolling.max_unavailable:
        words = "is 0, and so is maxUnavailable: no update could make a step"
        problems.warn(member(ROLLING, "maxSurge"), words, "1 is used for both")
    else:
        for field, number in (("maxUnavailable", rolling.max_unavailable), ("maxSurge", rolling.max_surge)):
            if not number:
                problems.differs(member(ROLLING, field), "0 is kept; the original uses 1")
    if rolling.step_timeout_seconds and rolling.min_ready_seconds >= rolling.step_timeout_seconds:
        problems.add(
            member(ROLLING, "minReadySeconds"),
            f"must be less than stepTimeoutSeconds ({rolling.step_timeout_seconds:g}): no step could end in time",
        )
    if rolling.canary is not None:
        _check_canary(rolling.canary, instances, present, problems)


def _check_canary(canary: CanaryDocument, instances: int | None, present: Present | None, problems: Problems) -> None:
    at = member(ROLLING, "canary")
    kept = present is not None and present.leaves_alone(instances, present.canary, canary.instances)
    most = instances or (present.instances if present is not None else None)
    if most is not None and canary.instances > most and not kept:
        words = f"must be at most the number of taskgroups ({most}), not {canary.instances}"
        problems.add(member(at, "instances"), words)
    if canary.manual and canary.hold_seconds:
        problems.add(member(at, "manual"), "excludes holdSeconds: the update is either resumed by hand or by itself")
    elif not canary.manual and not canary.hold_seconds:
        problems.add(member(at, "holdSeconds"), "is required, more than 0; or manual, to wait until it is resumed")


def _check_adoption(document: DeploymentDocument, problems: Problems, *, updating: bool) -> None:
    if updating:
        problems.add("$.spec.template", "is required for an update")
        return
    if not document.spec.selector:
        problems.add("$.spec.template", "is required; or spec.selector, to adopt the one application that it matches")
    blank: Any = DeploymentDocument(kind="deployment", metadata=document.metadata, spec=document.spec)
    for name in _NEEDS_TEMPLATE:
        if getattr(document, name) != getattr(blank, name):
            wire = next(f.encode_name for f in msgspec.structs.fields(document) if f.name == name)
            words = "has no effect without spec.template: an adopted application keeps its own"
            problems.warn(member("$", wire), words)


def _check_contents(application: ApplicationDocument, problems: Problems) -> None:
    """Reports a template with both containers and processes, or with neither, in the words of a deployment. Reports
    of the application's check about the same places are dropped."""
    assert application.spec.template is not None
    pod = application.spec.template.spec
    if pod.containers and pod.processes:
        problems.add(member(POD, "processes"), "excludes containers: a template holds either")
    elif not pod.containers and not pod.processes:
        problems.add(member(POD, "containers"), "is required: at least one container, or one of processes")
