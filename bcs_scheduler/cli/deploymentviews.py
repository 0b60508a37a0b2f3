"""How deployments, revisions and definitions are shown."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from bcs_scheduler.cli.client import Json
from bcs_scheduler.cli.deployments import standing
from bcs_scheduler.cli.options import Session
from bcs_scheduler.cli.output import Column, age, field_list, local_time, one_line, print_data, status_text, table
from bcs_scheduler.cli.story import pairs, print_story, section, when

REVISIONS = (
    Column("REVISION", lambda r: f"{r['revision']}{'*' if r.get('current') else ''}", right=True),
    Column("CREATED", lambda r: local_time(r.get("createTime"))),
    Column("AGE", lambda r: age(r.get("createTime")), right=True),
    Column("INSTANCES", lambda r: r.get("instances"), right=True),
    Column("WHY", lambda r: r.get("why")),
)


def describe_deployment(session: Session, name: str, story: bool, form: str) -> None:
    client, namespace = session.client, session.namespace
    found = client.deployment(namespace, name)
    groups = client.taskgroups(namespace, name, kind="deployment")
    operations = client.transactions(namespace, name, kind="deployment")
    revisions = client.revisions(namespace, name)
    if form:
        data = {"deployment": found, "taskgroups": groups, "transactions": operations, "revisions": revisions}
        print_data(session.out, data, form)
        return
    session.show(field_list(deployment_fields(found)))
    session.out.print(Text("\nConditions", style="bold"))
    session.show(field_list([(f"  {c['type']}", _condition(c)) for c in found["conditions"]]))
    session.out.print(Text("\nRevisions", style="bold"))
    session.show(table(REVISIONS, revisions))
    section(session, "Taskgroups", "taskgroups", groups)
    section(session, "Transactions", "transactions", operations)
    if story:
        for side in sides(found):
            print_story(session, namespace, side["name"])


def explain_deployment(session: Session, namespace: str, name: str) -> Json:
    """`text`: how it stands, then what keeps each of its applications."""
    found = session.client.deployment(namespace, name)
    explained = {side["name"]: session.client.explain(namespace, side["name"]) for side in sides(found)}
    text = [f"deployment {name}: {standing(found)}"]
    text += [f"{c['type']} is {c['status']} ({c['reason']}): {c['message']}" for c in found["conditions"]]
    for application, explanation in explained.items():
        text += [f"application {application}: {line}" for line in explanation["text"]]
    return {"conditions": found["conditions"], "applications": explained, "text": text}


def sides(deployment: Json) -> list[Json]:
    """Its one or two applications."""
    return [side for side in (deployment["application"], deployment["application_ext"]) if side is not None]


def deployment_fields(found: Json) -> list[tuple[str, Any]]:
    meta, counts = found["metadata"], found["counts"]
    return [
        ("Name", f"{found['namespace']}/{found['name']}"),
        ("Status", status_text(found["status"])),
        ("Message", found.get("message")),
        ("Standing", standing(found)),
        ("Revision", f"{found['revision']}{_leaving(found)}"),
        (
            "Taskgroups",
            f"{found['instances']} wanted, {counts['present']} there, {counts['ready']} ready, "
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
    """The bounds, and whatever is not as by default."""
    parts = [
        strategy["rollingOrder"],
        f"maxUnavailable {strategy['maxUnavailable']}",
        f"maxSurge {strategy['maxSurge']}",
    ]
    parts += [
        f"{words} {strategy[key]:g} s"
        for key, words in (
            ("upgradeDuration", "pause"),
            ("minReadySeconds", "ready for"),
            ("stepTimeoutSeconds", "step"),
        )
        if strategy[key]
    ]
    if strategy["rollingManually"]:
        parts.append("by hand")
    if strategy["onFailure"] != "suspend":
        parts.append(f"on failure {strategy['onFailure']}")
    canary = strategy.get("canary")
    if canary:
        halt = "until resumed" if canary["manual"] else f"{canary['holdSeconds']:g} s"
        parts.append(f"canary of {canary['instances']}, {halt}")
    return ", ".join(parts)


def print_version(session: Session, version: Json) -> None:
    """What a stored definition runs."""
    for number, container in enumerate(version.get("Container") or ()):
        docker, limits = container.get("Docker") or {}, container.get("LimitResoures") or {}
        program = " ".join([docker.get("Command") or "", *(docker.get("Arguments") or ())]).strip()
        process = container.get("process") or container.get("Process") or {}
        session.out.print(Text(f"\nContainer {container.get('Name') or number}", style="bold"))
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
    return f"{side['name']}: {side['CurrentRollingInstances']} there, {side['curr_target_instances']} wanted"


def _condition(condition: Json) -> str:
    return f"{condition['status']} ({condition['reason']}): {condition['message']}"
