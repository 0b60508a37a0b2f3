"""The demands of applications: the parts of their definitions that decide about placements."""

from __future__ import annotations

import msgspec

from bcs_scheduler.api.views.base import ResourceView, resources
from offers.dimensions import recorded
from store.records import Application, Version
from store.records.definition import Constraint, Container, Toleration


class DemandContainerView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`resources`: of one container. `hostPorts`: 0 asks for any free port."""

    resources: ResourceView
    extended: dict[str, float]
    host_ports: list[int]


class DemandView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The demand of an application by its newest version, without commands, images and variables. `version` is empty,
    and the other fields have their defaults, if the version is not stored any more."""

    namespace: str
    application: str
    version: str = ""
    containers: list[DemandContainerView] = []
    constraints: tuple[tuple[Constraint, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    restart_policy: str = "OnFailure"
    role: str = ""
    min_available: int = 0
    max_unavailable: int = 0
    priority: int = 0
    priority_class: str = ""
    preemption_policy: str = "PreemptLowerPriority"
    pod_group: str = ""


def show_demand(application: Application, version: Version | None) -> DemandView:
    group = application.group.removeprefix(f"{application.namespace}/")
    if version is None:
        return DemandView(namespace=application.namespace, application=application.name, pod_group=group)
    return DemandView(
        namespace=application.namespace,
        application=application.name,
        version=version.name,
        containers=[_container(container) for container in version.containers],
        constraints=version.constraints,
        tolerations=version.tolerations,
        restart_policy=version.restart_policy.policy,
        role=version.role,
        min_available=version.min_available,
        max_unavailable=version.max_unavailable,
        priority=version.priority,
        priority_class=version.priority_class,
        preemption_policy=version.preemption_policy,
        pod_group=group,
    )


def _container(container: Container) -> DemandContainerView:
    return DemandContainerView(
        resources=resources(container.requests),
        extended={name: recorded(name).displayed(amount) for name, amount in container.extended.items()},
        host_ports=[port.host_port for port in container.ports],
    )
