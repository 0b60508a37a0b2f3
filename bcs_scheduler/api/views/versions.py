"""Stored versions as users see them (docs/original.md#version-view)."""

from __future__ import annotations

from typing import Any

import msgspec

from bcs_scheduler.api.reading.redaction import hide_document
from bcs_scheduler.api.views.base import KillPolicyView, Meta, ResourceView, RestartPolicyView, View, resources
from bcs_scheduler.api.views.taskgroups import show_health_checks, show_kill_policy, show_restart_policy
from bcs_scheduler.wire.redaction import hide
from bcs_scheduler.wire.times import rfc3339
from store.records import Application, Version
from store.records.definition import (
    Constraint,
    Container,
    EnvVar,
    HealthCheck,
    Port,
    Process,
    Reference,
    Toleration,
    Uri,
    Volume,
)
from store.state.reader import StateReader


class ParameterView(View, frozen=True, kw_only=True):
    key: str
    value: str


class DockerView(View, frozen=True, kw_only=True):
    """Image, command and network part of a container. `ImagePullPasswd` is a mark unless it is a reference."""

    image: str
    image_pull_user: str
    image_pull_passwd: str
    force_pull_image: bool
    hostname: str
    network: str
    network_type: str
    command: str
    arguments: tuple[str, ...]
    port_mappings: tuple[Port, ...]
    env: tuple[EnvVar, ...]
    parameters: list[ParameterView]
    privileged: bool


class ContainerView(View, frozen=True, kw_only=True):
    """`LimitResoures` is the original's spelling. `User`, `Uris`, `Process` and `ExtendedResources` (thousandths) are
    ours."""

    name: str
    type: str = "MESOS"
    docker: DockerView
    volumes: tuple[Volume, ...]
    resources: ResourceView
    limit_resources: ResourceView = msgspec.field(name="LimitResoures")
    health_checks: tuple[HealthCheck, ...]
    config_maps: tuple[Reference, ...]
    secrets: tuple[Reference, ...]
    extended_resources: dict[str, int]
    user: str
    uris: tuple[Uri, ...]
    process: Process | None


class VersionView(View, frozen=True, kw_only=True):
    """`raw_json` is the user's document without its passwords. Ours: `Tolerations`, `Role`, `Executor` (empty: the
    scheduler's default), `UnreachableReplaceAfter`, `MaxUnavailable`, `MinAvailable`,
    `Priority`."""

    id: str
    name: str
    object_meta: Meta
    pod_object_meta: Meta
    instances: int
    run_as: str
    container: list[ContainerView]
    labels: dict[str, str]
    kill_policy: KillPolicyView
    restart_policy: RestartPolicyView
    constraints: tuple[tuple[Constraint, ...], ...]
    tolerations: tuple[Toleration, ...]
    role: str
    executor: str
    unreachable_replace_after: float
    max_unavailable: int
    min_available: int
    priority: int
    priority_class_name: str = ""
    preemption_policy: str = "PreemptLowerPriority"
    mode: str = ""
    kind: str = "application"
    raw_json: str = msgspec.field(name="raw_json")


def show_version(version: Version) -> VersionView:
    created = rfc3339(version.created_at)
    return VersionView(
        id=version.application,
        name=version.name,
        object_meta=Meta(
            name=version.application,
            namespace=version.namespace,
            creation_timestamp=created,
            labels=version.labels,
            annotations=version.annotations,
        ),
        pod_object_meta=Meta(
            name=version.application,
            namespace=version.namespace,
            creation_timestamp=created,
            labels=version.pod_labels,
            annotations=version.pod_annotations,
        ),
        instances=version.instances,
        run_as=version.namespace,
        container=[_container(version, container) for container in version.containers],
        labels=version.labels,
        kill_policy=show_kill_policy(version.kill_policy),
        restart_policy=show_restart_policy(version.restart_policy),
        constraints=version.constraints,
        tolerations=version.tolerations,
        role=version.role,
        executor=version.executor,
        unreachable_replace_after=version.unreachable_policy.replace_after,
        max_unavailable=version.max_unavailable,
        min_available=version.min_available,
        priority=version.priority,
        priority_class_name=version.priority_class,
        preemption_policy=version.preemption_policy,
        kind="process" if any(container.process for container in version.containers) else "application",
        raw_json=msgspec.json.encode(hide_document(version.raw)).decode() if version.raw else "",
    )


def show_definition(raw: str, instances: int | None = None) -> dict[str, Any]:
    """The stored document of a workload without its passwords. `instances`: the present number of taskgroups, in place
    of the one of the document, which a scale does not change; None = the kind has no number."""
    document = hide_document(raw)
    if instances is None:
        return document
    return {**document, "spec": {**document.get("spec", {}), "instance": instances}}


def definition_of(state: StateReader, application: Application) -> dict[str, Any] | None:
    """The document of the newest version of an application, as `show_definition`; None: it has none of its own, because
    a deployment has the document."""
    version = state.version(application.key, application.version)
    if version is None or not version.raw:
        return None
    return show_definition(version.raw, None if application.type == "daemonset" else application.instances)


def _container(version: Version, container: Container) -> ContainerView:
    return ContainerView(
        name=container.name,
        docker=DockerView(
            image=container.image,
            image_pull_user=container.image_pull_user,
            image_pull_passwd=hide(container.image_pull_password),
            hostname=container.hostname,
            parameters=[ParameterView(key=key, value=value) for key, value in container.parameters],
            force_pull_image=container.image_pull_policy == "Always",
            network=version.network_mode,
            network_type=version.network_type,
            command=container.command,
            arguments=container.args,
            port_mappings=container.ports,
            env=container.env,
            privileged=container.privileged,
        ),
        volumes=container.volumes,
        resources=resources(container.requests),
        limit_resources=resources(container.limits),
        health_checks=show_health_checks(container),
        config_maps=container.configmaps,
        secrets=container.secrets,
        extended_resources=container.extended,
        user=container.user,
        uris=tuple(msgspec.structs.replace(uri, password=hide(uri.password)) for uri in container.uris),
        process=container.process,
    )
