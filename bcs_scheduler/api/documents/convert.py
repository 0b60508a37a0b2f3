"""Converts a checked document into a Version record without a name."""

from __future__ import annotations

from typing import Any

import msgspec

from bcs_scheduler.api.documents.addresses import to_reserved
from bcs_scheduler.api.documents.checks import effective_checks, payload_of
from bcs_scheduler.api.documents.constraints import to_constraints
from bcs_scheduler.api.documents.engine import honours
from bcs_scheduler.api.documents.ports import bound_ports, effective_ports, egress_limit, network_mode, network_type
from bcs_scheduler.api.documents.references import target_of
from bcs_scheduler.wire import quantities
from bcs_scheduler.wire.documents.application import ApplicationDocument
from bcs_scheduler.wire.documents.pod import (
    ITEM_TYPES,
    CommandCheck,
    ContainerDocument,
    HealthCheckDocument,
    HttpCheck,
    ItemDocument,
    PodSpec,
    PortDocument,
    ProcessDocument,
    ResourceAmounts,
    ResourcesDocument,
    TaskDocument,
    TcpCheck,
)
from bcs_scheduler.wire.quantities import READERS, is_given
from store.records import PriorityFrom, Version
from store.records.definition import (
    Amounts,
    Container,
    EnvVar,
    HealthCheck,
    Item,
    KillPolicy,
    Port,
    Process,
    Reference,
    RestartPolicy,
    UnreachablePolicy,
    Uri,
    Volume,
)

DEFAULT_REQUEST = Amounts(cpus=1000, mem=64_000, disk=0)
DEFAULT_OF_PROCESS = Amounts(cpus=1000, mem=64_000, disk=64_000)
"""Resources without request and limit: 1 core and 64 MB, processes also 64 MB of storage
(docs/original.md#default-resources)."""
CONFIG_MODES, SECRET_MODES = (0o644, 0o444), (0o600, 0o400)
"""Permissions of files: (writable, read-only). Secrets are for their owner alone."""
_FIELDS = {"cpu": "cpus", "memory": "mem", "storage": "disk", "gpu": "gpus"}


def to_version(document: ApplicationDocument, instances: int) -> Version:
    """`instances` stands in where the document leaves spec.instance out; 0 leaves it to the core."""
    metadata, template = document.metadata, document.spec.template
    unions, tolerations = to_constraints(document.constraint)
    restart = document.restart_policy
    labels = {**metadata.labels, **template.metadata.labels}
    return Version(
        namespace=metadata.namespace,
        application=metadata.name,
        instances=document.spec.instance or instances,
        labels=labels,
        annotations=metadata.annotations,
        pod_labels=labels,
        pod_annotations={**metadata.annotations, **template.metadata.annotations},
        executor=template.spec.executor or document.executor,
        network_mode=network_mode(template.spec),
        network_type=network_type(template.spec),
        egress_limit=egress_limit(template.spec),
        reserved=to_reserved(labels, metadata.annotations),
        containers=to_containers(template.spec),
        restart_policy=RestartPolicy(
            policy=restart.policy,
            interval=float(restart.interval),
            backoff=float(restart.backoff),
            max_times=restart.maxtimes,
            host_retain=float(restart.host_retain_time),
        ),
        kill_policy=KillPolicy(
            grace_period=float(max(1, document.kill_policy.grace_period)),
            shutdown_delay=float(document.kill_policy.shutdown_delay_seconds),
        ),
        unreachable_policy=UnreachablePolicy(replace_after=float(document.unreachable_policy.replace_after_seconds)),
        constraints=unions,
        tolerations=tolerations,
        max_unavailable=document.update_policy.max_unavailable,
        min_available=document.spec.min_available,
        priority=template.spec.priority or 0,
        priority_class=template.spec.priority_class_name,
        priority_from=_priority_from(template.spec),
        role=template.spec.role,
        raw=msgspec.json.encode(document).decode(),
    )


def _priority_from(pod: PodSpec) -> PriorityFrom:
    """The core finds the class, and the default class."""
    if pod.priority_class_name:
        return "class"
    return "document" if pod.priority is not None else ""


def to_containers(pod: PodSpec) -> tuple[Container, ...]:
    containers = [_container(document, pod) for document in pod.containers]
    return (*containers, *(_process(document, pod) for document in pod.processes))


def _container(document: ContainerDocument, pod: PodSpec) -> Container:
    return Container(
        **_common(document, pod, owner="" if document.image else document.user),
        name=document.name,
        image=document.image,
        image_pull_policy=document.image_pull_policy,
        image_pull_user=document.image_pull_user,
        image_pull_password=document.image_pull_passwd,
        command=document.command,
        args=tuple(document.args),
        working_dir=document.working_dir,
        privileged=document.privileged,
        stdin=document.stdin,
        stdin_once=document.stdin_once,
        tty=document.tty,
        hostname="" if document.hostname and network_mode(pod) == "HOST" else document.hostname,
        parameters=tuple((p.key, p.value) for p in document.parameters if honours(p, network_mode(pod))),
        volumes=tuple(
            Volume(host_path=v.volume.host_path, mount_path=v.volume.mount_path, read_only=v.volume.read_only)
            for v in document.volumes
        ),
    )


def _process(document: ProcessDocument, pod: PodSpec) -> Container:
    return Container(
        **_common(document, pod, owner=document.user),
        name=document.proc_name,
        working_dir=document.work_path,
        process=Process(
            name=document.proc_name,
            start=document.start_cmd,
            start_grace=float(document.start_grace_period),
            pid_file=document.pid_file,
            check=document.check_cmd,
            stop=document.stop_cmd,
            restart=document.restart_cmd,
            reload=document.reload_cmd,
            kill=document.kill_cmd,
        ),
    )


def _common(document: TaskDocument, pod: PodSpec, *, owner: str) -> dict[str, Any]:
    """The fields that containers and processes share. `owner`: owner of files that name none; empty leaves it to the
    executor."""
    default = DEFAULT_OF_PROCESS if isinstance(document, ProcessDocument) else DEFAULT_REQUEST
    requests, limits = to_amounts(document.resources, default)
    return {
        "user": document.user,
        "env": tuple(
            EnvVar(
                name=e.name, value=e.value, resource=e.value_from.resource_field_ref.resource if e.value_from else ""
            )
            for e in {variable.name: variable for variable in document.env}.values()  # the last one of a name counts
        ),
        "ports": tuple(to_port(p, pod) for p in effective_ports(document.ports, pod)),
        "uris": tuple(
            Uri(
                value=u.value,
                output=u.output,
                executable=u.executable,
                extract=u.extract,
                user=u.user,
                password=u.pwd,
            )
            for u in document.uris
        ),
        "health_checks": tuple(to_health_check(check) for check in effective_checks(document)),
        "requests": requests,
        "limits": limits,
        "extended": {need.name: quantities.thousandths(need.value) for need in document.resources.extended_resources},
        "configmaps": tuple(
            Reference(name=r.name, items=tuple(to_item(i, owner, CONFIG_MODES, i.read_only or False) for i in items))
            for r in document.configmaps
            if (items := _injected(r.items))
        ),
        "secrets": tuple(
            Reference(
                name=r.secret_name,
                items=tuple(to_item(i, owner, SECRET_MODES, i.read_only is not False) for i in items),
            )
            for r in document.secrets
            if (items := _injected(r.items))
        ),
    }


def _injected(items: tuple[ItemDocument, ...]) -> tuple[ItemDocument, ...]:
    """Without the items of other types, which inject nothing."""
    return tuple(item for item in items if item.type in ITEM_TYPES)


def to_item(document: ItemDocument, owner: str, modes: tuple[int, int], read_only: bool) -> Item:
    if document.type == "env":
        return Item(type="env", key=document.data_key, target=target_of(document))
    return Item(
        type="file",
        key=document.data_key,
        target=target_of(document),
        mode=modes[read_only],
        user=document.user or owner,
    )


def to_amounts(resources: ResourcesDocument, default: Amounts = DEFAULT_REQUEST) -> tuple[Amounts, Amounts]:
    """(requests, limits). Per resource: a request that is not given equals the limit, else the default."""
    requests, limits = _read(resources.requests), _read(resources.limits)
    defaults = msgspec.structs.asdict(default)
    return Amounts(**{**defaults, **limits, **requests}), Amounts(**limits)


def requests_left_out(pod: PodSpec) -> tuple[frozenset[str], ...]:
    """Names of the requests (fields of Amounts) that the document leaves out, one set per container or process."""
    tasks: tuple[TaskDocument, ...] = (*pod.containers, *pod.processes)
    names = msgspec.structs.asdict(DEFAULT_REQUEST).keys()
    return tuple(frozenset(names - _read(task.resources.requests).keys()) for task in tasks)


def _read(amounts: ResourceAmounts) -> dict[str, int]:
    given = {name: written for name in READERS if (written := getattr(amounts, name)) is not None}
    return {_FIELDS[name]: READERS[name](written) for name, written in given.items() if is_given(name, written)}


def to_port(document: PortDocument, pod: PodSpec) -> Port:
    container_port, host_port = bound_ports(document, pod)
    return Port(
        name=document.name,
        protocol=document.protocol.lower() or "tcp",  # type: ignore[arg-type]
        container_port=container_port,
        host_port=host_port,
    )


def to_health_check(document: HealthCheckDocument) -> HealthCheck:
    """Raises ValueError for a check without a type, which has no effect."""
    if not document.type:
        raise ValueError("a health check without a type")
    part = payload_of(document)
    probe = part if isinstance(part, HttpCheck | TcpCheck) else None
    http = part if isinstance(part, HttpCheck) else HttpCheck()
    return HealthCheck(
        type=document.type,
        delay=float(document.delay_seconds),
        grace_period=float(document.grace_period_seconds),
        interval=float(document.interval_seconds),
        timeout=float(document.timeout_seconds),
        consecutive_failures=document.consecutive_failures,
        port=probe.port if probe else 0,
        port_name=probe.port_name if probe else "",
        scheme=http.scheme.lower(),
        path=http.path,
        headers=http.headers,
        command=part.value if isinstance(part, CommandCheck) else "",
    )
