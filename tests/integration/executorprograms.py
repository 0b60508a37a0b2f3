"""Programs for the executor to run, as launch data, and what is asked about them."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path
from typing import Any

from bcs_scheduler.executor.processes import process_tree
from tests.integration.standinagent import StandInAgent, encoded
from tests.waiting import wait_for

DAEMON = """
import os, signal, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0))
with open(sys.argv[1] + ".new", "w") as file:
    file.write(f"  {os.getpid()}\\n\\n")
os.rename(sys.argv[1] + ".new", sys.argv[1])
while True:
    time.sleep(60)
"""
"""Forks twice, changes its session and writes its pid with blanks around. Arguments: pid file, exit code."""
PYTHON = os.path.realpath(sys.executable)


def shell(line: str, **more: Any) -> dict[str, Any]:
    return {"kind": "command", "command": {"shell": True, "value": line}, **more}


def python(program: str, *arguments: str, **more: Any) -> dict[str, Any]:
    argv = [PYTHON, "-I", "-S", "-c", textwrap.dedent(program), *arguments]
    return {"kind": "command", "command": {"shell": False, "argv": argv}, **more}


def pid_in(path: Path) -> int:
    return wait_for(
        lambda: int(path.read_text()) if path.exists() and path.read_text().strip() else None, what=f"a pid in {path}"
    )


def gone(*pids: int) -> bool:
    found = [process_tree.process(pid) for pid in pids]
    return all(item is None or item.dead for item in found)


def executor_under(supervisor: int) -> int:
    return wait_for(lambda: process_tree.children(supervisor))[0]


def message(
    agent: StandInAgent, kind: str, body: dict[str, Any], identity: str = "m1", task: str = "0"
) -> dict[str, Any]:
    """Sends a message for a task; its last answer."""
    document = {"v": 1, "type": "message", "id": identity, "kind": kind, "tasks": [task], "timeout": 60.0, "body": body}
    agent.send("MESSAGE", message={"data": encoded(document)})

    def answered() -> Any:
        answers = [item for item in agent.messages if item.get("id") == identity and item["status"] != "running"]
        return answers and answers[0]

    return wait_for(answered, 30, lambda: f"an answer to {kind}: {agent.messages} {agent.log()[-1000:]}")


def restarted_from(agent: StandInAgent, pid: int) -> dict[str, Any]:
    """The detail of the first RUNNING with another pid."""

    def found() -> Any:
        running = [item["detail"] for item in agent.updates if item["state"] == "TASK_RUNNING"]
        return next((item for item in running if item["pid"] not in (0, pid) and not item["restarting"]), None)

    return wait_for(found, 30, "a RUNNING with another pid")
