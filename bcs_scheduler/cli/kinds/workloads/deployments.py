"""Deployments: columns, lists, descriptions. Operations: cli.kinds.workloads.deployment_operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.kinds.base import Found, Functions
from bcs_scheduler.cli.output.tables import Column, age_column, field_list, reason_column, table, time_column
from bcs_scheduler.cli.output.terminal import Styled
from bcs_scheduler.cli.output.text import duration, one_line, pairs, status_text, when
from bcs_scheduler.cli.session import Session
from store.keys import object_key


def is_complete(deployment: Json) -> bool:
    """No update is in progress, and all taskgroups are available."""
    progress = deployment["progress"]
    return bool(deployment["status"] == "Running" and progress["done"] >= progress["total"])


def status_line(deployment: Json) -> str:
    """Status, counts and message on one line."""
    counts = deployment["counts"]
    parts = [deployment["status"]]
    if deployment["application_ext"] is not None:
        parts.append(f"revision {deployment['revision']}: {counts['newReady']} of {deployment['instances']} ready")
        parts.append(f"{counts['old']} old")
    elif deployment["progress"]["done"] < deployment["progress"]["total"]:
        parts.append(f"{counts['available']} of {deployment['instances']} available")
    if deployment["rollingBack"]:
        following = deployment["nextRevision"]
        parts.append(f"rolling back, revision {following} is next" if following else "rolling back")
    message = deployment.get("message")
    return ", ".join(parts) + (f": {message}" if message else "")


STUCK = ("UpdateSuspend", "UpdatePaused")
"""Statuses that a deployment does not leave by itself."""


def _reason(deployment: Json) -> str:
    """The reason of the newest application, after the message if the deployment is stuck; empty if all is right."""
    if is_complete(deployment) and deployment["counts"]["ready"] >= deployment["instances"]:
        return ""
    short = (c["message"] for c in deployment["conditions"] if (c["type"], c["status"]) == ("Available", "False"))
    said, cause = str(deployment.get("message") or ""), str(deployment.get("reason") or "")
    if deployment["status"] in STUCK:
        return "; ".join(filter(None, (said, cause)))
    return cause or said or next(short, "")


def _ready_of(deployment: Json) -> Styled:
    ready, wanted = deployment["counts"]["ready"], deployment["instances"]
    return Styled(f"{ready}/{wanted}", style="" if ready >= wanted else "yellow")


def _sides(deployment: Json) -> str:
    return ",".join(side["name"] for side in sides(deployment))


DEPLOYMENTS: Sequence[Column] = (
    Column("NAME", lambda d: d["name"]),
    Column("STATUS", lambda d: status_text(d["status"])),
    Column("READY", _ready_of, right=True),
    Column("UPDATED", lambda d: f"{d['progress']['done']}/{d['progress']['total']}", right=True),
    Column("AVAILABLE", lambda d: d["counts"]["available"], right=True),
    Column("REVISION", lambda d: d["revision"], right=True),
    age_column("AGE", lambda d: d.get("createTime")),
    Column("APPLICATIONS", _sides, wide=True),
    time_column("CREATED", lambda d: d.get("createTime")),
    reason_column(_reason),
)
REVISIONS = (
    Column("REVISION", lambda r: f"{r['revision']}{'*' if r.get('current') else ''}", right=True),
    age_column("AGE", lambda r: r.get("createTime")),
    Column("INSTANCES", lambda r: r.get("instances"), right=True),
    Column("CAUSE", lambda r: r.get("why"), long=True),
    time_column("CREATED", lambda r: r.get("createTime")),
)


def describe_deployment(session: Session, name: str, events: bool, form: str) -> None:
    from bcs_scheduler.cli.kinds.workloads.applications import print_contents, read_version
    from bcs_scheduler.cli.kinds.workloads.history import events_of, print_events, section
    from bcs_scheduler.cli.kinds.workloads.taskgroups import TASKGROUPS
    from bcs_scheduler.cli.kinds.workloads.transactions import TRANSACTIONS, with_names
    from bcs_scheduler.cli.output.data import print_data

    client, namespace = session.client, session.namespace
    found = client.deployment(namespace, name)
    groups = client.taskgroups(namespace, name, kind="deployment")
    operations = client.transactions(namespace, name, kind="deployment")
    revisions = client.revisions(namespace, name)
    if form:
        data = {"deployment": found, "taskgroups": groups, "transactions": operations, "revisions": revisions}
        if events:
            data["events"] = [event for side in sides(found) for event in events_of(client, namespace, side["name"])]
        print_data(session.out, data, form)
        return
    session.show(field_list(deployment_fields(found)))
    if found["application"] is not None:
        newest = (found["application_ext"] or found["application"])["name"]
        if version := read_version(session, newest):
            print_contents(session, version)
    session.out.print("\nConditions", "bold")
    session.show(field_list([(f"  {c['type']}", _condition(c)) for c in found["conditions"]]))
    session.out.print("\nRevisions", "bold")
    session.show(table(REVISIONS, revisions))
    section(session, "Taskgroups", TASKGROUPS, groups)
    section(session, "Transactions", TRANSACTIONS, with_names(operations))
    if events:
        for side in sides(found):
            print_events(session, namespace, side["name"])


def explain_deployment(session: Session, namespace: str, name: str) -> Json:
    """Conditions of a deployment, and explanations of its applications."""
    found = session.client.deployment(namespace, name)
    explained = {side["name"]: session.client.explain(namespace, side["name"]) for side in sides(found)}
    text = [f"deployment {name}: {status_line(found)}"]
    text += [f"{c['type']} is {c['status']} ({c['reason']}): {c['message']}" for c in found["conditions"]]
    for application, explanation in explained.items():
        text += [f"application {application}: {line}" for line in explanation["text"]]
    return {"conditions": found["conditions"], "applications": explained, "text": text}


def sides(deployment: Json) -> list[Json]:
    """The applications of a deployment: one; during an update two, or more if newer documents have superseded it."""
    both = (deployment["application"], deployment["application_ext"])
    return [side for side in (*both, *deployment.get("retiring", ())) if side is not None]


def deployment_fields(found: Json) -> list[tuple[str, Any]]:
    meta, counts = found["metadata"], found["counts"]
    return [
        ("Name", object_key(found["namespace"], found["name"])),
        ("Status", status_text(found["status"])),
        ("Message", found.get("message")),
        ("Reason", found.get("reason")),
        ("Progress", status_line(found)),
        ("Revision", f"{found['revision']}{_leaving(found)}"),
        (
            "Taskgroups",
            f"{found['instances']} defined, {counts['present']} present, {counts['ready']} ready, "
            f"{counts['available']} available",
        ),
        ("Application", _side(found["application"])),
        ("Successor", _side(found["application_ext"])),
        ("Strategy", strategy_text(found["strategy"]["rollingupdate"])),
        ("Selector", pairs(found.get("selector"))),
        ("Labels", pairs(meta.get("labels"))),
        ("Created", when(found.get("createTime"))),
        ("Last step", when(found.get("progressTime"))),
    ]


def strategy_text(strategy: Json) -> str:
    """Bounds of an update strategy, and all settings that differ from their default."""
    parts = [
        strategy["rollingOrder"],
        f"maxUnavailable {strategy['maxUnavailable']}",
        f"maxSurge {strategy['maxSurge']}",
    ]
    parts += [
        f"{words} {duration(strategy[key])}"
        for key, words in (
            ("upgradeDuration", "pause"),
            ("minReadySeconds", "minimum ready time"),
            ("stepTimeoutSeconds", "step limit"),
        )
        if strategy[key]
    ]
    if strategy["rollingManually"]:
        parts.append("manual")
    if strategy["onFailure"] != "suspend":
        parts.append(f"on failure {strategy['onFailure']}")
    canary = strategy.get("canary")
    if canary:
        halt = "until resumed" if canary["manual"] else duration(canary["holdSeconds"])
        parts.append(f"canary of {canary['instances']}, {halt}")
    return ", ".join(parts)


def print_version(session: Session, version: Json) -> None:
    """Prints the containers of a stored definition."""
    for number, container in enumerate(version.get("Container") or ()):
        docker, limits = container.get("Docker") or {}, container.get("LimitResoures") or {}
        program = " ".join([docker.get("Command") or "", *(docker.get("Arguments") or ())]).strip()
        process = container.get("process") or container.get("Process") or {}
        session.out.print(f"\nContainer {container.get('Name') or number}", "bold")
        session.show(
            field_list(
                [
                    ("  Image", docker.get("Image")),
                    ("  Command", one_line(program or str(process.get("start") or ""), 100)),
                    ("  Limits", ", ".join(f"{limits[key]:g} {unit}" for key, unit in LIMITS if limits.get(key))),
                    ("  Variables", ", ".join(f"{e['name']}={e.get('value', '')}" for e in docker.get("Env") or ())),
                    ("  Checks", ", ".join(check["type"] for check in container.get("HealthChecks") or ())),
                ]
            )
        )


LIMITS = (("Cpus", "cores"), ("Mem", "MB"), ("Disk", "MB of disk"), ("Gpus", "GPUs"))


def _leaving(found: Json) -> str:
    if not found["previousRevision"]:
        return ""
    if not found["rollingBack"]:
        return f" (from {found['previousRevision']})"
    following = found["nextRevision"]
    return f" (back to {found['previousRevision']}{f', then to {following}' if following else ''})"


def _side(side: Json | None) -> str:
    if side is None:
        return ""
    return f"{side['name']}: {side['CurrentRollingInstances']} present, {side['curr_target_instances']} wanted"


def _condition(condition: Json) -> str:
    return f"{condition['status']} ({condition['reason']}): {condition['message']}"


def read_deployments(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    if name:
        return session.client.deployment(namespace or session.namespace, name)
    return session.client.deployments(namespace, selector=selector)


FUNCTIONS = {"deployments": Functions(DEPLOYMENTS, read_deployments, describe_deployment, explain=explain_deployment)}
