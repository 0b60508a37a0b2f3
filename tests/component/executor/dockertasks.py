"""Container tasks for tests."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from bcs_scheduler.executor.docker.runtime import ContainerRuntime
from bcs_scheduler.executor.model import Container, Task

IMAGE = "reg.example.com/demo/front:1"
ID = "1.0.0.web.ns.c"
TASKGROUP = "0.web.ns.c.1"


def directory_in(sandbox: Path) -> Path:
    return sandbox / "tasks" / ID


def container_task(*, stdin: bool = False, tty: bool = False, stdin_once: bool = False, **container: Any) -> Task:
    given: dict[str, Any] = {"image": IMAGE, "network_mode": "BRIDGE", **container}
    inputs: dict[str, Any] = {"stdin": stdin, "tty": tty, "stdin_once": stdin_once}
    return Task(id=ID, name="web", kind="container", container=Container(**given), env={"A": "1"}, **inputs)


def started(make: Any, **container: Any) -> ContainerRuntime:
    found: ContainerRuntime = make(**container)
    found.start()
    return found


def stopping(found: ContainerRuntime, grace: float) -> threading.Thread:
    thread = threading.Thread(target=found.stop, args=(grace,), daemon=True)
    thread.start()
    return thread
