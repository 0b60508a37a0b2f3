"""The columns of `bcs get`, by kind."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.text import Text

from bcs_scheduler.cli import daemonsetviews, eventviews, extensionviews, serviceviews
from bcs_scheduler.cli.client import Json
from bcs_scheduler.cli.output import Column, age, duration, local_time, moment, one_line, status_text
from store.ids import taskgroup_name

ENDED = ("FINISH", "FAIL", "TIMEOUT", "CANCEL")

ALIASES = {
    "deployment": "deployments",
    "dep": "deployments",
    "deploy": "deployments",
    "daemonset": "daemonsets",
    "ds": "daemonsets",
    "application": "applications",
    "app": "applications",
    "apps": "applications",
    "taskgroup": "taskgroups",
    "tg": "taskgroups",
    "transaction": "transactions",
    "tx": "transactions",
    "agent": "agents",
    "ag": "agents",
    "offer": "offers",
    "server": "servers",
    "definitions": "definition",
    "version": "versions",
    "task": "tasks",
    "configmap": "configmaps",
    "cm": "configmaps",
    "service": "services",
    "svc": "services",
    "endpoint": "endpoints",
    "ep": "endpoints",
    "namespace": "namespaces",
    "ns": "namespaces",
    "webhook": "webhooks",
    "admissionwebhook": "webhooks",
    "admissionwebhooks": "webhooks",
    "kind": "kinds",
    "crr": "kinds",
    "secret": "secrets",
    "command": "commands",
    "cmd": "commands",
    "event": "events",
    "ev": "events",
    "message": "messages",
    "msg": "messages",
}


def ports_of(group: Json) -> list[tuple[str, int]]:
    """(name, host port) of all tasks of a taskgroup."""
    return [
        (str(port.get("Name") or ""), int(port.get("HostPort") or 0))
        for task in group.get("Taskgroup") or ()
        for port in task.get("PortMappings") or ()
    ]


def health_text(task: Json) -> Text:
    """Of all checks of a task together."""
    if not task.get("HealthCheckStatus"):
        return Text("-")
    if not task.get("Healthy", True):
        return Text("failing", style="red")
    return Text("healthy", style="green") if task.get("IsChecked") else Text("not checked yet", style="yellow")


def _complaint(task: Json) -> str:
    """Its message; without one, what the checks say that fail."""
    failing = (check for check in task.get("HealthCheckStatus") or () if not check["result"])
    return task.get("Message") or ", ".join(f"{check['type']}: {check['message']}" for check in failing)


def tasks_of(groups: Iterable[Json]) -> list[Json]:
    """Tasks with the short name of their taskgroup as `Taskgroup`."""
    return [{**task, "Taskgroup": group["Name"]} for group in groups for task in group.get("Taskgroup") or ()]


def _agent_status(agent: Json) -> str:
    drain = agent.get("drain")
    if drain == "failed":
        return "drain failed"
    return drain or ("disabled" if agent.get("disabled") else "enabled")


def _deployment_message(deployment: Json) -> str:
    """Its message; without one, why it is not available."""
    short = (c["message"] for c in deployment["conditions"] if (c["type"], c["status"]) == ("Available", "False"))
    return deployment.get("message") or next(short, "")


def _answered(command: Json) -> str:
    groups = command["status"]["taskgroups"]
    return f"{sum(1 for group in groups if group['status'] not in ('staging', 'running'))}/{len(groups)}"


def _asked(command: Json) -> str:
    if command["type"] == "command":
        return one_line(" ".join(command["spec"].get("command") or ()))
    return one_line(body_text(command))


def body_text(command: Json) -> str:
    """What the message of a command holds beside its type."""
    body = {key: value for key, value in (command.get("body") or {}).items() if value}
    limits = body.pop("limits", ())
    parts = [f"{key}={value}" for key, value in body.items()]
    parts += [f"container {one['index']}: {one['cpus'] / 1000:g} cores, {one['mem'] / 1000:g} MB" for one in limits]
    return ", ".join(parts)


def _exit_codes(message: Json) -> str:
    outputs = [result.get("commInspect") for result in message.get("results") or message.get("Results") or ()]
    return ",".join(str(output["exitCode"]) for output in outputs if output)


def _created(item: Json) -> str:
    return age((item.get("metadata") or {}).get("creationTimestamp"))


def resources_of(offer: Json) -> dict[str, float]:
    """Scalars of an offer, summed over roles and reservations; ports are counted."""
    sums: dict[str, float] = {}
    for resource in offer.get("resources") or ():
        name = str(resource["name"])
        if "scalar" in resource:
            sums[name] = sums.get(name, 0.0) + float(resource["scalar"]["value"])
        for item in (resource.get("ranges") or {}).get("range") or ():
            sums[name] = sums.get(name, 0.0) + item["end"] - item["begin"] + 1
    return sums


def attributes_text(attributes: Sequence[Json]) -> str:
    """``zone:a;rack:7``: attributes as agents are given them on their command line."""
    return ";".join(f"{item['name']}:{_attribute(item)}" for item in attributes)


def _attribute(item: Json) -> str:
    for form in ("text", "scalar", "set", "ranges"):
        value = item.get(form)
        if value in (None, {}, ""):
            continue
        inner = value.get("value", value.get("item", value.get("range"))) if isinstance(value, dict) else value
        if isinstance(inner, float):
            return f"{inner:g}"
        return ",".join(map(str, inner)) if isinstance(inner, list) else str(inner)
    return ""


def _share(used: Any, total: Any) -> str:
    return f"{float(used or 0):g}/{float(total or 0):g}"


def _ready(application: Json) -> Text:
    running, wanted = application["RunningInstances"], application["DefineInstances"]
    return Text(f"{running}/{wanted}", style="" if running == wanted else "yellow")


def _ready_of(deployment: Json) -> Text:
    ready, wanted = deployment["counts"]["ready"], deployment["instances"]
    return Text(f"{ready}/{wanted}", style="" if ready >= wanted else "yellow")


def _sides(deployment: Json) -> str:
    return ",".join(side["name"] for side in (deployment["application"], deployment["application_ext"]) if side)


def _ports(group: Json) -> str:
    return ",".join(f"{name}:{port}" if name else str(port) for name, port in ports_of(group))


def _left(transaction: Json) -> str:
    if transaction["status"] in ENDED:
        return "-"
    deadline = moment(transaction.get("deadline"))
    return duration(deadline - time.time()) if deadline else "-"


def _progress(transaction: Json) -> str:
    target = transaction.get("target")
    return f"{transaction.get('progress', 0)}/{target}" if target else "-"


NAMESPACE = Column(
    "NAMESPACE",
    lambda item: item.get("RunAs") or item.get("namespace") or (item.get("metadata") or {}).get("namespace"),
)

COLUMNS: Mapping[str, Sequence[Column]] = {
    "events": eventviews.EVENTS,
    "deployments": (
        Column("NAME", lambda d: d["name"]),
        Column("STATUS", lambda d: status_text(d["status"])),
        Column("READY", _ready_of, right=True),
        Column("UPDATED", lambda d: f"{d['progress']['done']}/{d['progress']['total']}", right=True),
        Column("AVAILABLE", lambda d: d["counts"]["available"], right=True),
        Column("REVISION", lambda d: d["revision"], right=True),
        Column("AGE", lambda d: age(d.get("createTime")), right=True),
        Column("APPLICATIONS", _sides, wide=True),
        Column("MESSAGE", _deployment_message),
    ),
    "daemonsets": daemonsetviews.DAEMONSETS,
    "applications": (
        Column("NAME", lambda a: a["Name"]),
        Column("STATUS", lambda a: status_text(a["Status"])),
        Column("RUNNING", _ready, right=True),
        Column("AGE", lambda a: age(a.get("Created")), right=True),
        Column("KIND", lambda a: a.get("Kind"), wide=True),
        Column("UPDATED", lambda a: age(a.get("UpdateTime")), wide=True, right=True),
        Column("MESSAGE", lambda a: a.get("Message")),
    ),
    "taskgroups": (
        Column("ID", lambda g: g["ID"]),
        Column("STATUS", lambda g: status_text(g["Status"])),
        Column("HOST", lambda g: g.get("HostName")),
        Column("PORTS", _ports),
        Column("RESTARTS", lambda g: g.get("ReschededTimes") or 0, right=True),
        Column("AGE", lambda g: age(g.get("StartTime")), right=True),
        Column("AGENT", lambda g: g.get("AgentID"), wide=True),
        Column("VERSION", lambda g: g.get("VersionName"), wide=True),
        Column("MESSAGE", lambda g: g.get("Message"), wide=True),
    ),
    "tasks": (
        Column("TASKGROUP", lambda t: t.get("Taskgroup")),
        Column("NAME", lambda t: t.get("Name")),
        Column("STATUS", lambda t: status_text(t["Status"])),
        Column("HEALTH", health_text),
        Column("PID", lambda t: t.get("Pid") or "", right=True),
        Column("EXIT", lambda t: t.get("ExitCode"), right=True),
        Column("HOST", lambda t: t.get("AgentHostname")),
        Column("AGE", lambda t: age(t.get("StartTime")), right=True),
        Column("ID", lambda t: t["ID"], wide=True),
        Column("MESSAGE", _complaint),
    ),
    "services": serviceviews.SERVICES,
    "endpoints": serviceviews.ENDPOINTS,
    "namespaces": extensionviews.NAMESPACES,
    "webhooks": extensionviews.WEBHOOKS,
    "kinds": extensionviews.KINDS,
    "configmaps": (
        Column("NAME", lambda c: c["metadata"]["name"]),
        Column("KEYS", lambda c: ",".join(c.get("datas") or ())),
        Column("AGE", _created, right=True),
    ),
    "secrets": (
        Column("NAME", lambda s: s["metadata"]["name"]),
        Column("KEYS", lambda s: ",".join(s.get("datas") or ())),
        Column("BYTES", lambda s: sum(item.get("size", 0) for item in s["datas"].values()), right=True),
        Column("AGE", _created, right=True),
    ),
    "commands": (
        Column("ID", lambda c: c["id"]),
        Column("TYPE", lambda c: c["type"]),
        Column("STATE", lambda c: status_text(c["state"])),
        Column("ANSWERED", _answered, right=True),
        Column("AGE", lambda c: age(c.get("createTime")), right=True),
        Column("WHAT", _asked),
    ),
    "messages": (
        Column("ID", lambda m: m["Id"]),
        Column("TYPE", lambda m: m.get("Kind")),
        Column("TASKGROUP", lambda m: m["TaskGroupId"], wide=True),
        Column("NAME", lambda m: taskgroup_name(m["TaskGroupId"])),
        Column("STATUS", lambda m: status_text(m["Status"])),
        Column("EXIT", _exit_codes, right=True),
        Column("AGE", lambda m: age(m.get("CreateTime")), right=True),
        Column("MESSAGE", lambda m: m.get("Message")),
    ),
    "transactions": (
        Column("ID", lambda t: t["transactionID"]),
        Column("OPERATION", lambda t: (t.get("curOp") or {}).get("opType")),
        Column("OBJECT", lambda t: t.get("objectName")),
        Column("STATUS", lambda t: status_text(t["status"])),
        Column("PROGRESS", _progress, right=True),
        Column("AGE", lambda t: age(t.get("createTime")), right=True),
        Column("LEFT", _left, right=True),
        Column("MESSAGE", lambda t: t.get("message")),
    ),
    "agents": (
        Column("HOST", lambda a: a.get("hostname")),
        Column("IP", lambda a: a.get("ip")),
        Column("STATUS", lambda a: status_text(_agent_status(a))),
        Column("CPU", lambda a: _share(a.get("cpuused"), a.get("cputotal")), right=True),
        Column("MEMORY MB", lambda a: _share(a.get("memused"), a.get("memtotal")), right=True),
        Column("TASKGROUPS", lambda a: a.get("taskgroups"), right=True),
        Column("DISK MB", lambda a: _share(a.get("diskused"), a.get("disktotal")), wide=True, right=True),
        Column("ID", lambda a: a.get("id"), wide=True),
        Column("ATTRIBUTES", lambda a: attributes_text(a.get("attributes") or ()), wide=True),
    ),
    "offers": (
        Column("HOST", lambda o: o.get("hostname")),
        Column("CPU", lambda o: f"{resources_of(o).get('cpus', 0):g}", right=True),
        Column("MEMORY MB", lambda o: f"{resources_of(o).get('mem', 0):g}", right=True),
        Column("DISK MB", lambda o: f"{resources_of(o).get('disk', 0):g}", right=True),
        Column("PORTS", lambda o: f"{resources_of(o).get('ports', 0):g}", right=True),
        Column("ID", lambda o: (o.get("id") or {}).get("value"), wide=True),
        Column("ATTRIBUTES", lambda o: attributes_text(o.get("attributes") or ()), wide=True),
    ),
    "cluster": (
        Column("AGENTS", lambda c: len(c["agents"]), right=True),
        Column("CPU", lambda c: _share(c["cpuused"], c["cputotal"]), right=True),
        Column("MEMORY MB", lambda c: _share(c["memused"], c["memtotal"]), right=True),
        Column("DISK MB", lambda c: _share(c["diskused"], c["disktotal"]), right=True),
    ),
    "servers": (
        Column("SERVER", lambda s: s["server"]),
        Column("ADDRESS", lambda s: f"{s['hostname'] or s['ip']}:{s['port']}"),
        Column("VERSION", lambda s: s["version"]),
        Column("CLUSTER", lambda s: s["cluster"]),
    ),
    "definition": (),
    "versions": (
        Column("VERSION", lambda v: v["Name"]),
        Column("CREATED", lambda v: local_time(int(v["Name"]) / 1e9 if str(v["Name"]).isdigit() else 0)),
        Column("INSTANCES", lambda v: v.get("Instances"), right=True),
        Column("IMAGE OR COMMAND", lambda v: one_line("; ".join(_what(c) for c in v.get("Container") or ()))),
    ),
}


def _what(container: Json) -> str:
    docker = container.get("Docker") or {}
    return str(docker.get("Image") or " ".join([docker.get("Command") or "", *(docker.get("Arguments") or ())]).strip())
