"""What a checked document becomes: a Version record without a name."""

from __future__ import annotations

import msgspec

from bcs_scheduler.api.documents import quantities
from bcs_scheduler.api.documents.application import (
    ApplicationDocument,
    ContainerDocument,
    HealthCheckDocument,
    HttpCheck,
    PortDocument,
    ResourceAmounts,
    ResourcesDocument,
    TcpCheck,
)
from bcs_scheduler.api.documents.constraints import to_constraints
from bcs_scheduler.api.documents.containers import READERS, fixed_host_port
from store.definition import (
    Amounts,
    Container,
    EnvVar,
    HealthCheck,
    KillPolicy,
    Port,
    RestartPolicy,
    UnreachablePolicy,
    Uri,
    Volume,
)
from store.records import Version

DEFAULT_REQUEST = Amounts(cpus=1000, mem=64_000, disk=64_000)
"""Where neither request nor limit is given: 1 core, 64 MB, 64 MB (bcs_internals 2.5, W22)."""
_FIELDS = {"cpu": "cpus", "memory": "mem", "storage": "disk", "gpu": "gpus"}


def to_version(document: ApplicationDocument, instances: int) -> Version:
    """`instances` stands in where the document leaves spec.instance out (an update keeps the stored number)."""
    metadata, template = document.metadata, document.spec.template
    unions, tolerations = to_constraints(document.constraint)
    restart = document.restart_policy
    return Version(
        namespace=metadata.namespace,
        application=metadata.name,
        instances=document.spec.instance or instances,
        labels={**metadata.labels, **template.metadata.labels},
        annotations=metadata.annotations,
        pod_labels={**metadata.labels, **template.metadata.labels},
        pod_annotations={**metadata.annotations, **template.metadata.annotations},
        network_mode=template.spec.network_mode.upper() or "NONE",
        network_type=template.spec.network_type.lower(),
        containers=tuple(to_container(c) for c in template.spec.containers),
        restart_policy=RestartPolicy(
            policy=restart.policy,
            interval=float(restart.interval),
            backoff=float(restart.backoff),
            max_times=restart.maxtimes,
            host_retain=float(restart.host_retain_time),
        ),
        kill_policy=KillPolicy(grace_period=float(max(1, document.kill_policy.grace_period))),
        unreachable_policy=UnreachablePolicy(replace_after=float(document.unreachable_policy.replace_after_seconds)),
        constraints=unions,
        tolerations=tolerations,
        max_unavailable=document.update_policy.max_unavailable,
        role=template.spec.role,
        raw=msgspec.json.encode(document).decode(),
    )


def to_container(document: ContainerDocument) -> Container:
    requests, limits = to_amounts(document.resources)
    return Container(
        name=document.name,
        image=document.image,
        image_pull_policy=document.image_pull_policy,
        command=document.command,
        args=tuple(document.args),
        user=document.user,
        working_dir=document.working_dir,
        env=tuple(
            EnvVar(
                name=e.name, value=e.value, resource=e.value_from.resource_field_ref.resource if e.value_from else ""
            )
            for e in document.env
        ),
        ports=tuple(to_port(p) for p in document.ports),
        volumes=tuple(
            Volume(host_path=v.volume.host_path, mount_path=v.volume.mount_path, read_only=v.volume.read_only)
            for v in document.volumes
        ),
        uris=tuple(
            Uri(value=u.value, output=u.output, executable=u.executable, extract=u.extract) for u in document.uris
        ),
        health_checks=tuple(to_health_check(check) for check in document.health_checks),
        requests=requests,
        limits=limits,
        extended={need.name: quantities.thousandths(need.value) for need in document.resources.extended_resources},
    )


def to_amounts(resources: ResourcesDocument) -> tuple[Amounts, Amounts]:
    """(requests, limits). Per resource: a request that is not given equals the limit, else the default."""
    requests, limits = _read(resources.requests), _read(resources.limits)
    defaults = msgspec.structs.asdict(DEFAULT_REQUEST)
    return Amounts(**{**defaults, **limits, **requests}), Amounts(**limits)


def _read(amounts: ResourceAmounts) -> dict[str, int]:
    given = {name: getattr(amounts, name) for name in READERS}
    return {_FIELDS[name]: READERS[name](written) for name, written in given.items() if written not in (None, "")}


def to_port(document: PortDocument) -> Port:
    """In host networking container and host port are one number: both 0 (random) or both the fixed one."""
    number = fixed_host_port(document)
    return Port(
        name=document.name,
        protocol=document.protocol.lower() or "tcp",  # type: ignore[arg-type]
        container_port=number,
        host_port=number,
    )


def to_health_check(document: HealthCheckDocument) -> HealthCheck:
    probe: HttpCheck | TcpCheck | None = document.http or document.tcp
    return HealthCheck(
        type=document.type,
        delay=float(document.delay_seconds),
        grace_period=float(document.grace_period_seconds),
        interval=float(document.interval_seconds),
        timeout=float(document.timeout_seconds),
        consecutive_failures=document.consecutive_failures,
        port=probe.port if probe else 0,
        port_name=probe.port_name if probe else "",
        scheme=document.http.scheme if document.http else "http",
        path=document.http.path if document.http else "/",
        command=document.command.value if document.command else "",
    )
