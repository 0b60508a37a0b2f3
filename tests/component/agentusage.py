"""A stand-in for what an agent says of its containers (GET_CONTAINERS), in the words of Mesos 1.11."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.component.standinserver import QuietHandler, StandInServer

Json = dict[str, Any]
MIB = 1024 * 1024


def container(executor: str = "E", framework: str = "F", **statistics: float) -> Json:
    """Of an executor. Without statistics the agent has none."""
    identity = {"value": f"container-of-{executor}"}
    return {
        "framework_id": {"value": framework},
        "executor_id": {"value": executor},
        "executor_name": "",
        "container_id": identity,
        "container_status": {"container_id": identity, "executor_pid": 7},
        **({"resource_statistics": statistics} if statistics else {}),
    }


def counted(at: float, cpu: float, mem: int = 64, **more: float) -> Json:
    """Statistics: seconds, seconds, MiB."""
    half = cpu / 2
    return {
        "timestamp": at, "cpus_user_time_secs": half, "cpus_system_time_secs": half, "mem_rss_bytes": mem * MIB, **more
    }  # fmt: skip


def nested(parent: str = "E") -> Json:
    """In the container of this executor; an agent without cgroups counts nothing of it."""
    return {
        "container_id": {"value": "inner"},
        "container_status": {"container_id": {"value": "inner", "parent": {"value": f"container-of-{parent}"}}},
        "resource_statistics": {"timestamp": 1.0, "cpus_soft_limit": 0.1},
    }


def listing(*containers: Json) -> bytes:
    listed = {"get_containers": {"containers": list(containers)}} if containers else {}
    return json.dumps({"type": "GET_CONTAINERS", **listed}).encode()


Answer = bytes | tuple[int, bytes]
"""A body, or a status with one."""


class AgentUsage(StandInServer):
    """Answers the first question with `says(1)`, the next with `says(2)`, and so on."""

    def __init__(self, says: Callable[[int], Answer]) -> None:
        self.asked: list[Json] = []
        self.says = says
        agent, lock = self, threading.Lock()

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    agent.asked.append({"path": self.path, **call})
                    number = len(agent.asked)
                answer = agent.says(number)
                status, body = answer if isinstance(answer, tuple) else (200, answer)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with suppress(OSError):  # the asking side has had enough
                    self.wfile.write(body)

        super().__init__(Handler)
