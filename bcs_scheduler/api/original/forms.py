"""Records in the form and with the types in which clients of the original decode them (docs/original.md#read-models):
whole numbers are integers, points in time are RFC 3339 text or whole Unix seconds, absent objects are null.

tests/conformance/answers.yaml has the table of fields and types. Confidential values are hidden as in our own views.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from bcs_scheduler.api.reading.redaction import hide_document
from bcs_scheduler.api.views.base import KillPolicyView, ResourceView, RestartPolicyView
from bcs_scheduler.api.views.base import resources as show_resources
from bcs_scheduler.api.views.taskgroups import show_kill_policy, show_restart_policy
from bcs_scheduler.wire.redaction import hide, hide_headers
from bcs_scheduler.wire.times import NO_TIME, rfc3339
from offers.dimensions import THOUSANDTHS, recorded
from store.records import Version
from store.records.definition import (
    Amounts,
    Constraint,
    Container,
    EnvVar,
    HealthCheck,
    Item,
    Port,
    Reference,
    Uri,
    Volume,
)

Json = dict[str, Any]
SCALAR, TEXT, SET = 1, 3, 4
"""Types of payloads of constraints."""
_PAYLOADS = {"MAXPER": TEXT, "GREATER": SCALAR, "UNIQUE": 0}
"""Type of the payload by operator; SET for the others."""
_AMOUNTS = ("cpu", "memory", "storage")


def whole(number: float) -> int:
    """A number that is an integer in the original; parts count as whole."""
    return math.ceil(number)


def timestamp(text: object) -> str:
    """A point in time of a document; the zero time if it is none."""
    if isinstance(text, str) and "T" in text.upper():
        try:
            if datetime.fromisoformat(text.upper()).tzinfo is not None:
                return text.upper()
        except ValueError:
            pass
    return NO_TIME


def metadata(
    name: str, namespace: str, created: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Json:
    return {
        "name": name,
        "namespace": namespace,
        "creationTimestamp": created,
        "labels": labels,
        "annotations": annotations,
        "clusterName": "",
    }


def amounts(record: Amounts) -> Json:
    return resources(show_resources(record))


def resources(view: ResourceView) -> Json:
    """Cores, MB, MB."""
    return {"Cpus": view.cpus, "Mem": view.mem, "Disk": view.disk}


def kill_policy(view: KillPolicyView) -> Json:
    return {"gracePeriod": whole(view.grace_period)}


def restart_policy(view: RestartPolicyView) -> Json:
    return {
        "policy": view.policy,
        "interval": whole(view.interval),
        "backoff": whole(view.backoff),
        "maxtimes": view.maxtimes,
        "hostRetainTime": whole(view.host_retain_time),
    }


def definition(document: Mapping[str, Any]) -> Json:
    """A stored document of a workload as it was given, with the types of the original: amounts of resources are text,
    and points in time that are not known are the zero time."""
    made: Json = {**document, "metadata": _with_time(document.get("metadata"))}
    spec = made.get("spec") or {}
    template = spec.get("template")
    if template:
        pod = dict(template.get("spec") or {})
        for tasks in ("containers", "processes"):
            pod[tasks] = [_task_document(task) for task in pod.get(tasks) or ()]
        template = {**template, "metadata": _with_time(template.get("metadata")), "spec": pod}
        spec = {**spec, "template": template}
    rolling = (spec.get("strategy") or {}).get("rollingupdate")
    if rolling:
        spec = {**spec, "strategy": {**spec["strategy"], "rollingupdate": _rolling_update(rolling)}}
    return {**made, "spec": spec} if spec else made


def raw_document(raw: str) -> Json | None:
    """A stored document without its passwords; None if there is none."""
    return definition(hide_document(raw)) if raw else None


def _rolling_update(given: Mapping[str, Any]) -> Json:
    made = {**given, "upgradeDuration": whole(given.get("upgradeDuration", 0))}
    return {"maxUnavilable": given["maxUnavailable"], **made} if "maxUnavailable" in given else made


def _with_time(given: Mapping[str, Any] | None) -> Json:
    given = given or {}
    return {**given, "creationTimestamp": timestamp(given.get("creationTimestamp"))}


def _task_document(task: Mapping[str, Any]) -> Json:
    made = dict(task)
    needs = dict(made.get("resources") or {})
    for part in ("requests", "limits"):
        given = needs.get(part) or {}
        needs[part] = {name: str(value) for name, value in given.items() if value is not None}
    made["resources"] = needs
    if made.get("uris"):
        made["uris"] = [{**uri, "outputDir": uri.get("output", "")} for uri in made["uris"]]
    return made


# --- versions -------------------------------------------------------------------------------------------------


def version(record: Version) -> Json:
    created = rfc3339(record.created_at)
    names = record.application, record.namespace, created
    plain = [container for container in record.containers if container.process is None]
    return {
        "ID": record.application,
        "Name": record.name,
        "ObjectMeta": metadata(*names, record.labels, record.annotations),
        "PodObjectMeta": metadata(*names, record.pod_labels, record.pod_annotations),
        "Instances": record.instances,
        "RunAs": record.namespace,
        "Container": [_container(record, container) for container in plain],
        "Process": [process(record, container) for container in record.containers if container.process is not None],
        "Labels": record.labels,
        "KillPolicy": kill_policy(show_kill_policy(record.kill_policy)),
        "RestartPolicy": restart_policy(show_restart_policy(record.restart_policy)),
        "Constraints": _constraints(record),
        "Uris": [uri for container in plain for uri in uris(container.uris)],
        "Ip": [],
        "Mode": "",
        "Kind": kind_of(record),
        "raw_json": raw_document(record.raw),
    }


def kind_of(record: Version) -> str:
    return "process" if any(container.process is not None for container in record.containers) else "application"


def _container(record: Version, container: Container) -> Json:
    docker = {
        "Hostname": container.hostname,
        "ForcePullImage": container.image_pull_policy == "Always",
        "Image": container.image,
        "ImagePullUser": container.image_pull_user,
        "ImagePullPasswd": hide(container.image_pull_password),
        "Network": record.network_mode,
        "NetworkType": record.network_type,
        "Command": container.command,
        "Arguments": container.args,
        "Parameters": parameters(container),
        "PortMappings": [_port(port) for port in container.ports],
        "Env": environment(container),
        "Privileged": container.privileged,
    }
    return {
        "Type": "MESOS",
        "Docker": docker,
        "Volumes": volumes(container.volumes),
        "Resources": amounts(container.requests),
        "LimitResoures": amounts(container.limits),
        "DataClass": data_class(record, container),
        "HealthChecks": health_checks(container.health_checks),
        "ConfigMaps": references("name", container.configmaps),
        "Secrets": references("secretName", container.secrets),
        "NetLimit": net_limit(record),
    }


def _port(port: Port) -> Json:
    return {
        "Name": port.name,
        "Protocol": port.protocol,
        "ContainerPort": port.container_port,
        "HostPort": port.host_port,
    }


def parameters(container: Container) -> list[Json]:
    return [{"Key": key, "Value": value} for key, value in container.parameters]


def volumes(given: Iterable[Volume]) -> list[Json]:
    return [
        {
            "ContainerPath": volume.mount_path,
            "HostPath": volume.host_path,
            "Mode": "R" if volume.read_only else "RW",
        }
        for volume in given
    ]


def uris(given: Iterable[Uri]) -> list[Json]:
    return [{"value": uri.value, "user": uri.user, "pwd": hide(uri.password), "outputDir": uri.output} for uri in given]


def net_limit(record: Version) -> Json | None:
    return {"egressLimit": record.egress_limit} if record.egress_limit else None


def environment(container: Container) -> dict[str, str]:
    return {variable.name: _value(variable, container) for variable in container.env}


def _value(variable: EnvVar, container: Container) -> str:
    """The value as the task gets it: an amount of the container is in thousandths of a core, or in MB."""
    kind, _, name = variable.resource.partition(".")
    if name not in _AMOUNTS:
        return variable.value
    given = [container.requests] if kind == "requests" else [container.limits, container.requests]
    found = [(item.cpus, item.mem // 1000, item.disk // 1000)[_AMOUNTS.index(name)] for item in given]
    return str(next(filter(None, found), 0))


def data_class(record: Version, container: Container) -> Json:
    """`Msgs`, which hold the contents of configmaps and secrets there, are empty."""
    return {
        "Resources": amounts(container.requests),
        "LimitResources": amounts(container.limits),
        "ExtendedResources": extended_resources(container),
        "Msgs": [],
        "NetLimit": net_limit(record),
        "ProcInfo": process(record, container) if container.process is not None else None,
    }


def extended_resources(container: Container) -> list[Json]:
    return [
        {"InnerIP": "", "Name": name, "Capacity": 0.0, "Value": recorded(name).displayed(amount), "Socket": ""}
        for name, amount in container.extended.items()
    ]


def health_checks(given: Iterable[HealthCheck]) -> list[Json]:
    return [_health_check(check) for check in given]


def _health_check(check: HealthCheck) -> Json:
    at = {"port": check.port, "portName": check.port_name}
    http = {**at, "scheme": check.scheme, "path": check.path, "headers": hide_headers(check.headers)}
    return {
        "type": check.type,
        "delaySeconds": whole(check.delay),
        "gracePeriodSeconds": whole(check.grace_period),
        "intervalSeconds": whole(check.interval),
        "timeoutSeconds": whole(check.timeout),
        "consecutiveFailures": check.consecutive_failures,
        "command": {"value": check.command} if check.type == "COMMAND" else None,
        "http": http if check.type.endswith("HTTP") else None,
        "tcp": at if check.type.endswith("TCP") else None,
    }


def references(key: str, given: Iterable[Reference]) -> list[Json]:
    """`key`: the field that holds the name."""
    return [{key: reference.name, "items": [_item(item) for item in reference.items]} for reference in given]


def _item(item: Item) -> Json:
    return {
        "type": item.type,
        "dataKey": item.key,
        "dataKeyAlias": "",
        "keyOrPath": item.target,
        "subPath": "",
        "readOnly": not item.mode & 0o200,
        "user": item.user,
    }


def process(record: Version, container: Container) -> Json | None:
    """A process in the form of its document."""
    given = container.process
    if given is None:
        return None
    return {
        "procName": given.name,
        "user": container.user,
        "workPath": container.working_dir,
        "procGroup": "",
        "pidFile": given.pid_file,
        "cfgPath": "",
        "logPath": "",
        "startCmd": given.start,
        "startGracePeriod": whole(given.start_grace),
        "checkCmd": given.check,
        "stopCmd": given.stop,
        "restartCmd": given.restart,
        "reloadCmd": given.reload,
        "killCmd": given.kill,
        "env": [{"name": name, "value": value} for name, value in environment(container).items()],
        "ports": [
            {
                "name": port.name,
                "protocol": port.protocol,
                "containerPort": port.container_port,
                "hostPort": port.host_port,
            }
            for port in container.ports
        ],
        "resources": {"requests": _amounts(container.requests), "limits": _amounts(container.limits)},
        "uris": uris(container.uris),
        "healthChecks": health_checks(container.health_checks),
        "configmaps": references("name", container.configmaps),
        "secrets": references("secretName", container.secrets),
    }


def _amounts(amounts: Amounts) -> dict[str, str]:
    shown = THOUSANDTHS.displayed(amounts)
    return {
        name: f"{shown[dimension]:.3f}".rstrip("0").rstrip(".")
        for name, dimension in zip(_AMOUNTS, ("cpus", "mem", "disk"), strict=True)
    }


def _constraints(record: Version) -> Json | None:
    items = [{"unionData": [_union_datum(one) for one in union]} for union in record.constraints]
    items += [
        {"unionData": [_datum(toleration.key, "TOLERATION", TEXT, text={"value": toleration.value})]}
        for toleration in record.tolerations
    ]
    return {"intersectionItem": items} if items else None


def _union_datum(constraint: Constraint) -> Json:
    match kind := _PAYLOADS.get(constraint.operator, SET):
        case 1:
            payload: Json = {"scalar": {"value": constraint.number}}
        case 3:
            payload = {"text": {"value": str(constraint.limit)}}
        case 4:
            payload = {"set": {"item": constraint.items}}
        case _:
            payload = {}
    return _datum(constraint.name, constraint.operator, kind, **payload)


def _datum(name: str, operator: str, kind: int, **payload: Any) -> Json:
    empty = {"scalar": None, "ranges": None, "text": None, "set": None}
    return {"name": name, "operate": operator, "type": kind, **empty, **payload}


def text_of(value: Any) -> str:
    """The value as a JSON text."""
    return msgspec.json.encode(value).decode()
