"""The fields of a dump that decide about placements: the demands of applications, and the trees of queues."""

from __future__ import annotations

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.dumping.fields import Field, Fields, Hide, amounts, each, name, plain, queue


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
