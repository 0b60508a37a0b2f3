"""One task of the taskgroup as the scheduler sees it: state, health, detail."""

from __future__ import annotations

import base64
import dataclasses
import json
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

from ..model import VERSION, CheckState, Detail, Task
from ..runtime import Exit, Runtime

STARTING, RUNNING, KILLING = "TASK_STARTING", "TASK_RUNNING", "TASK_KILLING"
KILLED, FINISHED, FAILED, ERROR = "TASK_KILLED", "TASK_FINISHED", "TASK_FAILED", "TASK_ERROR"
TERMINAL = (KILLED, FINISHED, FAILED, ERROR)


class CheckStates(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...

    def states(self) -> Sequence[CheckState]: ...


class Member:
    """Used under the lock of its taskgroup."""

    def __init__(self, identity: str, task: Task | None) -> None:
        self.id = identity
        self.task = task
        """Launch data of the task; None = the data cannot be used."""
        self.runtime: Runtime | None = None
        self.checks: CheckStates | None = None
        self.state = ""
        self.failure = ""
        """Reason for which the executor ends the task as failed, though its program continues; empty = none."""
        self.exit: Exit | None = None
        self.thread: threading.Thread | None = None
        self._finished_at = 0.0
        self._shown: Any = None

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL

    def ends(self, exit: Exit) -> None:
        self.exit = exit
        self._finished_at = time.time()

    def detail(self) -> Detail:
        found = self.runtime.detail() if self.runtime is not None else Detail()
        if self.exit is not None:
            found = dataclasses.replace(
                found,
                exit_code=self.exit.code,
                oom=self.exit.oom,
                restarting=False,
                finished_at=found.finished_at or self._finished_at,
            )
        return dataclasses.replace(found, checks=tuple(self.checks.states()) if self.checks is not None else ())

    def document(self) -> dict[str, Any]:
        return {"v": VERSION, **dataclasses.asdict(self.detail())}

    def changed(self) -> bool:
        """True if a visible field differs from the last status."""
        return bool(_visible(self.detail()) != self._shown)

    def status(self, message: str) -> dict[str, Any]:
        """Returns a TaskStatus of the task as it is now; remembers the shown fields."""
        detail = self.detail()
        self._shown = _visible(detail)
        document = {"v": VERSION, **dataclasses.asdict(detail)}
        status: dict[str, Any] = {
            "state": self.state,
            "data": base64.b64encode(json.dumps(document).encode()).decode(),
        }
        if message:
            status["message"] = message
        probed = [check.healthy for check in detail.checks if check.healthy is not None]
        if probed:
            status["healthy"] = all(probed) and not self.failure
        if detail.container_ip:
            address = {"ip_addresses": [{"ip_address": detail.container_ip}]}
            status["container_status"] = {"network_infos": [address]}
        return status


def _visible(detail: Detail) -> Any:
    """All but the counters of checks, and the messages of those that are well (docs/executor-protocol.md, State)."""
    checks = tuple(
        dataclasses.replace(check, failures=0, message="" if check.healthy else check.message)
        for check in detail.checks
    )
    return dataclasses.replace(detail, checks=checks)
