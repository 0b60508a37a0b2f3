"""Bodies of the original's scheduler that are records of it: turned into documents, which the routes of documents take
(docs/original.md#version-view). Keys are read in any case of letters, as the original does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bcs_scheduler.wire.problems import Problems, element, member

Json = dict[str, Any]
_DEFAULT = {"cpus": 1.0, "mem": 64.0, "disk": 64.0}
"""Resources of a container whose record has none: cores, MB, MB."""
_NAMES = {"cpu": "cpus", "memory": "mem", "storage": "disk"}


class _Record:
    """A JSON object of the original at a path; an empty one stands for anything else."""

    def __init__(self, raw: object, path: str, problems: Problems) -> None:
        if raw is not None and not isinstance(raw, dict):
            problems.add(path, "must be an object")
        given = raw if isinstance(raw, dict) else {}
        self._given = {key.lower(): value for key, value in given.items()}
        self._names = {key.lower(): key for key in given}
        self.path, self._problems = path, problems

    def __contains__(self, name: str) -> bool:
        return self._given.get(name.lower()) is not None

    def get(self, name: str, default: Any = None) -> Any:
        value = self._given.get(name.lower())
        return default if value is None else value

    def at(self, name: str) -> str:
        return member(self.path, self._names.get(name.lower(), name))

    def text(self, name: str) -> str:
        value = self.get(name, "")
        if not isinstance(value, str):
            self._problems.add(self.at(name), "must be a text")
            return ""
        return value

    def record(self, name: str) -> _Record:
        return _Record(self.get(name), self.at(name), self._problems)

    def records(self, name: str) -> list[_Record]:
        found = self.get(name, [])
        if not isinstance(found, list):
            self._problems.add(self.at(name), "must be a list")
            return []
        return [_Record(item, element(self.at(name), i), self._problems) for i, item in enumerate(found)]

    def kept(self, *names: str) -> Json:
        """The members of these names that are there, under these names."""
        return {name: self.get(name) for name in names if name in self}


def application(raw: object, problems: Problems, namespace: str = "", name: str = "") -> Json:
    """The document of an application or process from a Version. `namespace` and `name`: of the path, for a record
    without."""
    version = _Record(raw, "$", problems)
    document = {
        "kind": "process" if version.get("Process") or version.text("Kind") == "process" else "application",
        "metadata": _metadata(version, namespace, name),
        **_head(version),
    }
    spec: Json = {"template": _template(version, problems)}
    if "Instances" in version:
        spec["instance"] = version.get("Instances")
    return {**document, "spec": spec}


def deployment(raw: object, problems: Problems, namespace: str, name: str) -> Json:
    """The document of a deployment from a DeploymentDef, whose version may be absent: an application is adopted."""
    given = _Record(raw, "$", problems)
    metadata = given.record("metadata")
    version = given.record("version")
    spec: Json = given.kept("selector", "strategy")
    head: Json = {}
    if "version" in given:
        spec["template"], head = _template(version, problems), _head(version)
        if "Instances" in version:
            spec["instance"] = version.get("Instances")
    named = {"name": metadata.text("name") or name, "namespace": metadata.text("namespace") or namespace}
    return {
        "kind": "deployment",
        "metadata": {**metadata.kept("labels", "annotations"), **named},
        **head,
        "spec": spec,
    }


def daemonset(raw: object, problems: Problems) -> Json:
    """The document of a daemonset from its definition, which has the fields of metadata beside the version."""
    given = _Record(raw, "$", problems)
    version = given.record("version")
    metadata = _metadata(version, given.text("namespace"), given.text("name"))
    named = {name: text for name in ("name", "namespace") if (text := given.text(name))}
    return {
        "kind": "daemonset",
        "metadata": {**metadata, **given.kept("labels", "annotations"), **named},
        **{key: value for key, value in _head(version).items() if key != "constraint"},
        "spec": {"template": _template(version, problems)},
    }


def _metadata(version: _Record, namespace: str, name: str) -> Json:
    meta = version.record("ObjectMeta")
    labels = meta.get("labels", version.get("Labels"))
    return {
        "name": version.text("ID") or meta.text("name") or name,
        "namespace": version.text("RunAs") or meta.text("namespace") or namespace,
        **({"labels": labels} if labels is not None else {}),
        **meta.kept("annotations"),
    }


def _head(version: _Record) -> Json:
    names = {"restartPolicy": "RestartPolicy", "killPolicy": "KillPolicy", "constraint": "Constraints"}
    return {name: version.get(of) for name, of in names.items() if of in version}


def _template(version: _Record, problems: Problems) -> Json:
    """The pod: the network of the first container is that of all."""
    containers = version.records("Container")
    pod: Json = {"containers": [_container(container, problems) for container in containers]}
    if processes := version.get("Process"):
        pod["processes"] = processes
        if not containers:
            del pod["containers"]
    if containers:
        first = containers[0].record("Docker")
        pod |= {"networkMode": first.text("Network"), "networktype": first.text("NetworkType")}
        limit = containers[0].get("NetLimit", containers[0].record("DataClass").get("NetLimit"))
        pod |= {"netLimit": limit} if limit else {}
        if (uris := version.get("Uris")) and pod["containers"]:
            pod["containers"][0]["uris"] = uris
    return {"metadata": version.record("PodObjectMeta").kept("labels", "annotations"), "spec": pod}


def _container(given: _Record, problems: Problems) -> Json:
    if "Docker" not in given:
        problems.add(given.at("Docker"), "is required")
    docker = given.record("Docker")
    return {
        "image": docker.text("Image"),
        "imagePullPolicy": "Always" if docker.get("ForcePullImage") else "IfNotPresent",
        "imagePullUser": docker.text("ImagePullUser"),
        "imagePullPasswd": docker.text("ImagePullPasswd"),
        "command": docker.text("Command"),
        "args": docker.get("Arguments", []),
        "hostname": docker.text("Hostname"),
        "privileged": docker.get("Privileged", False),
        "env": [{"name": name, "value": value} for name, value in _items(docker, "Env", problems)],
        "parameters": [{"key": one.text("Key"), "value": one.text("Value")} for one in docker.records("Parameters")],
        "ports": [
            {
                "name": port.text("Name"),
                "protocol": port.text("Protocol") or "tcp",
                "containerPort": port.get("ContainerPort", 0),
                "hostPort": port.get("HostPort", 0),
            }
            for port in docker.records("PortMappings")
        ],
        "volumes": [
            {
                "volume": {
                    "hostPath": volume.text("HostPath"),
                    "mountPath": volume.text("ContainerPath"),
                    "readOnly": volume.text("Mode").upper() in ("R", "RO"),
                }
            }
            for volume in given.records("Volumes")
        ],
        "resources": _resources(given),
        "healthChecks": given.get("HealthChecks", []),
        "configmaps": given.get("ConfigMaps", []),
        "secrets": given.get("Secrets", []),
    }


def _items(owner: _Record, name: str, problems: Problems) -> Sequence[tuple[str, Any]]:
    value = owner.get(name, {})
    if not isinstance(value, Mapping):
        problems.add(owner.at(name), "must be an object")
        return ()
    return tuple(value.items())


def _resources(given: _Record) -> Json:
    data = given.record("DataClass")
    requests = next((owner.record("Resources") for owner in (data, given) if "Resources" in owner), None)
    limits = data.record("LimitResources") if "LimitResources" in data else given.record("LimitResoures")
    extended = [{"Name": one.text("Name"), "Value": one.get("Value", 0)} for one in data.records("ExtendedResources")]
    return {
        "requests": _amounts(requests) if requests is not None else _texts(_DEFAULT),
        "limits": _amounts(limits),
        **({"extendedResources": extended} if extended else {}),
    }


def _amounts(given: _Record) -> dict[str, str]:
    """Amounts that are 0 are left out."""
    return _texts({name: given.get(name, 0) for name in _NAMES.values()})


def _texts(amounts: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(amounts[of]) for name, of in _NAMES.items() if amounts[of]}
