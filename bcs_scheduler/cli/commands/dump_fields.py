"""The fields of a dump: for each kind of object an explicit list, so that a new field of the API is not dumped.

Free texts (messages, descriptions, annotations) are in no list: they may quote outputs, commands or documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bcs_scheduler.cli.client.types import Json

Hide = Callable[[str], str]
"""The shown form of a name: a pseudonym, or the name itself."""
Rule = Callable[[Any, Hide], Any]
"""The dumped form of a value of an answer."""


class Field(NamedTuple):
    """`source`: the path of the value in the answer, with dots; empty = the whole object. A value that the answer does
    not have is left out."""

    source: str
    rule: Rule


_SINGLE = (str, int, float)
Fields = Mapping[str, Field]
"""The fields of a kind, by their names in the dump."""


def shaped(item: Json, fields: Fields, hide: Hide) -> Json:
    """The dumped form of an object. Raises TypeError if a value has another form than the API describes."""
    found = {}
    for name, (source, rule) in fields.items():
        value: Any = item
        if "." in source:
            for part in source.split("."):
                value = value.get(part) if isinstance(value, dict) else None
        elif source:
            value = item.get(source)
        if value is not None:
            found[name] = rule(value, hide)
    return found


def plain(value: Any, hide: Hide) -> Any:
    """An amount, a time, a state or another code. Raises TypeError for anything that has parts."""
    if not isinstance(value, _SINGLE):
        raise TypeError(f"a single value was expected, not {type(value).__name__}")
    return value


def amounts(value: Json, hide: Hide) -> Json:
    """Amounts or codes by names that the scheduler gives."""
    return {key: plain(amount, hide) for key, amount in value.items() if amount is not None}


def name(value: str, hide: Hide) -> str:
    return hide(value)


def names(value: list[str], hide: Hide) -> list[str]:
    return [hide(one) for one in value]


def queue(value: str, hide: Hide) -> str:
    """The full name of a queue; each part is a name of its own, so that the tree can be seen."""
    return ".".join(hide(part) for part in value.split("."))


def labels(value: Mapping[str, str], hide: Hide) -> Json:
    """Labels or taints: keys and values are names."""
    return {hide(key): hide(str(one)) for key, one in value.items()}


def by_name(value: Mapping[str, Any], hide: Hide) -> Json:
    """Amounts by names that users give."""
    return {hide(key): plain(one, hide) for key, one in value.items()}


def attributes(value: list[Json], hide: Hide) -> Json:
    """Attributes of agents by name: a text, a number, or ranges as pairs of first and last number."""
    return {one["name"]: _attribute(one, hide) for one in value}


def _attribute(attribute: Json, hide: Hide) -> Any:
    if "text" in attribute:
        return hide(attribute["text"]["value"])
    if "scalar" in attribute:
        return plain(attribute["scalar"]["value"], hide)
    return [[span["begin"], span["end"]] for span in attribute["ranges"]["range"]]


def each(fields: Fields) -> Rule:
    """A rule for lists of objects."""
    return lambda value, hide: [shaped(one, fields, hide) for one in value]


def _whose(value: str, hide: Hide) -> str:
    """``user alice``: the user or the group of a limit."""
    kind, _, given = value.partition(" ")
    return f"{kind} {hide(given)}"


def _resources(suffix: str) -> Rule:
    """Cores, MB, MB and GPUs of an agent, whose keys end in `suffix`."""
    sources = {"cpus": f"cpu{suffix}", "mem": f"mem{suffix}", "disk": f"disk{suffix}", "gpus": f"gpu{suffix}"}
    return lambda agent, hide: {key: plain(agent[source], hide) for key, source in sources.items()}


def _event_name(event: Json, hide: Hide) -> str:
    """The name of the object of an event, in the form that the object has in its own section."""
    return queue(event["name"], hide) if event["kind"] == "queue" else hide(event["name"])


AGENT: Fields = {
    "id": Field("id", name),
    "hostname": Field("hostname", name),
    "ip": Field("ip", name),
    "active": Field("active", plain),
    "cordoned": Field("disabled", plain),
    "drain": Field("drain", plain),
    "total": Field("", _resources("total")),
    "allocated": Field("", _resources("used")),
    "taskgroups": Field("taskgroups", plain),
    "attributes": Field("attributes", attributes),
    "taints": Field("taints", labels),
    "extended": Field("extended", amounts),
    "registeredTime": Field("registered_time", plain),
}
NAMESPACE: Fields = {
    "name": Field("metadata.name", name),
    "labels": Field("metadata.labels", labels),
    "recorded": Field("status.recorded", plain),
    "queue": Field("spec.queue", queue),
    "quota": Field("spec.quota", amounts),
    "used": Field("status.used", amounts),
}
QUEUE: Fields = {
    "name": Field("metadata.name", queue),
    "labels": Field("metadata.labels", labels),
    "recorded": Field("status.recorded", plain),
    "weight": Field("spec.weight", plain),
    "guarantee": Field("spec.guarantee", amounts),
    "capability": Field("spec.capability", amounts),
    "reclaimable": Field("spec.reclaimable", plain),
    "priority": Field("spec.priority", plain),
    "namespaces": Field("status.namespaces", names),
    "taskgroups": Field("status.taskgroups", plain),
    "used": Field("status.used", amounts),
}
LIMIT: Fields = {
    "whose": Field("whose", _whose),
    "used": Field("used", amounts),
    "max": Field("max", amounts),
    "running": Field("running", plain),
    "maxApplications": Field("maxApplications", plain),
}
TREE_QUEUE: Fields = {
    "partition": Field("partition", name),
    "name": Field("name", queue),
    "guaranteed": Field("spec.guaranteed", amounts),
    "max": Field("spec.max", amounts),
    "maxApplications": Field("spec.maxApplications", plain),
    "properties": Field("spec.properties", amounts),
    **{
        key: Field(f"status.{key}", plain)
        for key in ("state", "leaf", "dynamic", "taskgroups", "applications", "runningApplications")
    },
    **{key: Field(f"status.{key}", amounts) for key in ("used", "waiting", "pending")},
    "limits": Field("status.limits", each(LIMIT)),
}
PRIORITY_CLASS: Fields = {
    "name": Field("metadata.name", name),
    "labels": Field("metadata.labels", labels),
    "value": Field("value", plain),
    "globalDefault": Field("globalDefault", plain),
    "preemptionPolicy": Field("preemptionPolicy", plain),
}
POD_GROUP: Fields = {
    "name": Field("metadata.name", name),
    "namespace": Field("metadata.namespace", name),
    "labels": Field("metadata.labels", labels),
    "minMember": Field("spec.minMember", plain),
    "minTaskMember": Field("spec.minTaskMember", by_name),
    "queue": Field("spec.queue", queue),
    "priorityClass": Field("spec.priorityClassName", name),
    "phase": Field("status.phase", plain),
    "running": Field("status.running", plain),
    "members": Field(
        "status.members",
        each(
            {
                "application": Field("application", name),
                "running": Field("running", plain),
                "wanted": Field("wanted", plain),
            }
        ),
    ),
}
APPLICATION: Fields = {
    "name": Field("Name", name),
    "namespace": Field("RunAs", name),
    "kind": Field("Kind", plain),
    "labels": Field("ObjectMeta.labels", labels),
    "status": Field("Status", plain),
    "lastStatus": Field("LastStatus", plain),
    "side": Field("SubStatus", plain),
    "wanted": Field("DefineInstances", plain),
    "present": Field("Instances", plain),
    "running": Field("RunningInstances", plain),
    "version": Field("Version", plain),
    "transaction": Field("Transaction", name),
    "deployment": Field("Deployment", name),
    "createTime": Field("Created", plain),
    "updateTime": Field("UpdateTime", plain),
}
DEPLOYMENT: Fields = {
    "name": Field("name", name),
    "namespace": Field("namespace", name),
    "labels": Field("metadata.labels", labels),
    "selector": Field("selector", labels),
    "status": Field("status", plain),
    "application": Field("application.name", name),
    "nextApplication": Field("application_ext.name", name),
    "phase": Field("curr_rolling_operation", plain),
    **{
        key: Field(f"strategy.rollingupdate.{key}", plain)
        for key in (
            "maxUnavailable",
            "maxSurge",
            "upgradeDuration",
            "rollingOrder",
            "rollingManually",
            "minReadySeconds",
            "stepTimeoutSeconds",
            "onFailure",
        )
    },
    "wanted": Field("instances", plain),
    "revision": Field("revision", plain),
    "rollingBack": Field("rolling_back", plain),
    "counts": Field("counts", amounts),
    "progress": Field("progress", amounts),
    "createTime": Field("createTime", plain),
    "updateTime": Field("updateTime", plain),
    "progressTime": Field("progressTime", plain),
}
DAEMONSET: Fields = {
    "name": Field("name", name),
    "namespace": Field("namespace", name),
    "labels": Field("metadata.labels", labels),
    "status": Field("Status", plain),
    "stuck": Field("stuck", plain),
    "wanted": Field("Instances", plain),
    "running": Field("RunningInstances", plain),
    "maxUnavailable": Field("maxUnavailable", plain),
    "counts": Field("counts", amounts),
    "version": Field("version", plain),
    "transaction": Field("transaction", name),
    "createTime": Field("Created", plain),
    "updateTime": Field("LastUpdateTime", plain),
}
TASK: Fields = {
    "id": Field("ID", name),
    "status": Field("Status", plain),
    "lastStatus": Field("LastStatus", plain),
    "healthy": Field("Healthy", plain),
    "exitCode": Field("ExitCode", plain),
    "oomKilled": Field("OOMKilled", plain),
    "startTime": Field("StartTime", plain),
    "finishTime": Field("FinishTime", plain),
    "resources": Field("Resources", amounts),
    "ports": Field("PortMappings", each({"protocol": Field("Protocol", plain), "hostPort": Field("HostPort", plain)})),
}
TASKGROUP: Fields = {
    "id": Field("ID", name),
    "namespace": Field("RunAs", name),
    "application": Field("AppID", name),
    "index": Field("InstanceID", plain),
    "agent": Field("AgentID", name),
    "hostname": Field("HostName", name),
    "ip": Field("AgentIP", name),
    "role": Field("Role", name),
    "executor": Field("Executor", plain),
    "version": Field("VersionName", plain),
    "status": Field("Status", plain),
    "lastStatus": Field("LastStatus", plain),
    "healthy": Field("Healthy", plain),
    "endCause": Field("EndCause", plain),
    "restarts": Field("ReschededTimes", plain),
    "lastRestartTime": Field("LastReschedTime", plain),
    "startTime": Field("StartTime", plain),
    "updateTime": Field("UpdateTime", plain),
    "endTime": Field("EndTime", plain),
    "unreachableSince": Field("UnreachableSince", plain),
    "killingSince": Field("KillingSince", plain),
    "resources": Field("CurrResource", amounts),
    "tasks": Field("Taskgroup", each(TASK)),
}
TRANSACTION: Fields = {
    "id": Field("transactionID", name),
    "namespace": Field("namespace", name),
    "objectKind": Field("objectKind", plain),
    "object": Field("objectName", name),
    "type": Field("type", plain),
    "status": Field("status", plain),
    "target": Field("target", plain),
    "progress": Field("progress", plain),
    "remaining": Field("remaining", plain),
    "version": Field("version", plain),
    "taskgroup": Field("taskgroup", name),
    "inner": Field("inner", plain),
    "queuePosition": Field("queuePosition", plain),
    "createTime": Field("createTime", plain),
    "dueTime": Field("dueTime", plain),
    "deadline": Field("deadline", plain),
}
EVENT: Fields = {
    "id": Field("id", plain),
    "time": Field("time", plain),
    "kind": Field("kind", plain),
    "namespace": Field("namespace", name),
    "name": Field("", _event_name),
    "reason": Field("reason", plain),
    "level": Field("level", plain),
    "transaction": Field("transaction", name),
}
HALT: Fields = {key: Field(key, plain) for key in ("halted", "since", "agents", "taskgroups", "total")}


def _constraints(value: list[list[Json]], hide: Hide) -> list[list[Json]]:
    """Constraints on attributes of agents. Values are names, as in the attributes; names of attributes are shown."""
    return [[_constraint(one, hide) for one in union] for union in value]


def _constraint(constraint: Json, hide: Hide) -> Json:
    """`hidden`: the patterns of LIKE and UNLIKE cannot be given for hidden names, and are left out."""
    found: Json = {key: plain(constraint[key], hide) for key in ("name", "operator")}
    found.update({key: plain(constraint[key], hide) for key in ("number", "limit") if constraint.get(key)})
    items = constraint.get("items") or []
    if not items:
        return found
    if constraint["operator"] in ("LIKE", "UNLIKE") and hide is not str:
        return {**found, "hidden": True}
    if constraint["operator"] == "EXCLUDE":
        pairs = (item.partition(":") for item in items)
        return {**found, "items": [f"{hide(key)}:{hide(one)}" for key, _, one in pairs]}
    return {**found, "items": [hide(item) for item in items]}


def _numbers(value: list[int], hide: Hide) -> list[int]:
    return [plain(one, hide) for one in value]


def tree(value: Json, hide: Hide) -> Json:
    """A queue configuration: queues and placement rules. Filters and access lists are left out."""
    found: Json = {"queues": [_tree_queue(one, hide) for one in value.get("queues") or []]}
    if value.get("placementrules"):
        found["placementrules"] = [_rule(one, hide) for one in value["placementrules"]]
    return found


def _tree_queue(value: Json, hide: Hide) -> Json:
    found: Json = {"name": hide(value["name"])}
    for key in ("parent", "maxapplications"):
        if key in value:
            found[key] = plain(value[key], hide)
    if "resources" in value:
        found["resources"] = {key: amounts(one or {}, hide) for key, one in value["resources"].items()}
    if value.get("properties"):
        found["properties"] = amounts(value["properties"], hide)
    if value.get("limits"):
        found["limits"] = [_limit(one, hide) for one in value["limits"]]
    if value.get("queues"):
        found["queues"] = [_tree_queue(one, hide) for one in value["queues"]]
    return found


def _limit(value: Json, hide: Hide) -> Json:
    found: Json = {
        key: [hide(one) if one != "*" else one for one in value[key]] for key in ("users", "groups") if value.get(key)
    }
    if "maxapplications" in value:
        found["maxapplications"] = plain(value["maxapplications"], hide)
    if value.get("maxresources"):
        found["maxresources"] = amounts(value["maxresources"], hide)
    return found


def _rule(value: Json, hide: Hide) -> Json:
    found: Json = {key: plain(value[key], hide) for key in ("name", "create") if key in value}
    if "value" in value:
        found["value"] = value["value"] if value["name"] == "tag" else queue(value["value"], hide)
    if value.get("parent"):
        found["parent"] = _rule(value["parent"], hide)
    return found


DEMAND: Fields = {
    "namespace": Field("namespace", name),
    "application": Field("application", name),
    "version": Field("version", plain),
    "containers": Field(
        "containers",
        each(
            {
                "resources": Field("resources", amounts),
                "extended": Field("extended", amounts),
                "hostPorts": Field("hostPorts", _numbers),
            }
        ),
    ),
    "constraints": Field("constraints", _constraints),
    "tolerations": Field("tolerations", each({"key": Field("key", name), "value": Field("value", name)})),
    "restartPolicy": Field("restartPolicy", plain),
    "role": Field("role", name),
    "minAvailable": Field("minAvailable", plain),
    "maxUnavailable": Field("maxUnavailable", plain),
    "priority": Field("priority", plain),
    "priorityClass": Field("priorityClass", name),
    "preemptionPolicy": Field("preemptionPolicy", plain),
    "podGroup": Field("podGroup", name),
}
TREE: Fields = {
    "partition": Field("partition", name),
    "revision": Field("metadata.revision", plain),
    "spec": Field("spec", tree),
}
