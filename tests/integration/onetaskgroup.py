"""Applications of one taskgroup, and what is said to it, through the API of a scheduler process."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from tests.integration.executortraces import sandbox, wait_gone
from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

NAMESPACE = "/namespaces/default"
APPS = f"{NAMESPACE}/applications"

Record = dict[str, Any]


def create(scheduler: SchedulerProcess, name: str, line: str, memory: str = "32", **spec: Any) -> None:
    limits = {"resources": {"limits": {"cpu": "0.02", "memory": memory, "storage": "1"}}}
    container = {**limits, **spec.pop("container", {})}
    scheduler.call("POST", APPS, document(name, 1, ["/bin/sh", "-c", line], container=container, **spec))


def settled(scheduler: SchedulerProcess, name: str, status: str) -> Record:
    """The only taskgroup of the application, once it has the status."""

    def found() -> Record | None:
        groups = scheduler.taskgroups(name)
        return groups[0] if groups and groups[0]["Status"] == status else None

    return wait_for(found, 30, lambda: f"{status} of {name}: {scheduler.taskgroups(name)}")


def home(mesos: RealMesos, group: Record, number: int = 0) -> Path:
    return sandbox(mesos, group["ID"]) / "tasks" / str(group["Taskgroup"][number]["ID"])


def remove(scheduler: SchedulerProcess, *groups: Record) -> None:
    """Deletes the applications of the groups; nothing of them is left on the agents."""
    for group in groups:
        scheduler.call("DELETE", f"{APPS}/{group['AppID']}")
    names = [group["AppID"] for group in groups]
    wait_for(lambda: not any(scheduler.application(name) for name in names), 30, f"the deletion of {names}")
    wait_gone(*groups)


def put_secret(scheduler: SchedulerProcess, name: str, value: str) -> None:
    document = {
        "apiVersion": "v4",
        "kind": "secret",
        "metadata": {"name": name, "namespace": "default"},
        "datas": {"key": {"content": encoded(value.encode())}},
    }
    scheduler.call("POST", f"{NAMESPACE}/secrets", document)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def tell(scheduler: SchedulerProcess, group: Record, **body: Any) -> Record:
    """Sends a message to the taskgroup; the outcome."""
    path = f"{APPS}/{group['AppID']}/taskgroups/{group['ID']}/message"
    return outcome(scheduler, scheduler.call("POST", path, body))


def ask(scheduler: SchedulerProcess, group: Record, line: str) -> Record:
    """Orders a command in the taskgroup; what the API says at once."""
    target = {"kind": "Application", "name": group["AppID"]}
    body = {"kind": "Command", "spec": {"commandTargetRef": target, "command": ["/bin/sh", "-c", line]}}
    said: Record = scheduler.call("POST", f"/command/application/default/{group['AppID']}", body)
    return said


def outcome(scheduler: SchedulerProcess, told: Record) -> Record:
    identity = told["messages"][0]["messageID"]

    def last_word() -> Record | None:
        message: Record = scheduler.call("GET", f"/message/{identity}")
        return message if message["Status"] in ("success", "failed") else None

    return wait_for(last_word, 30, lambda: f"the last word on {scheduler.call('GET', f'/message/{identity}')}")
