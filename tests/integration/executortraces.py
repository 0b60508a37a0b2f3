"""Traces of our executor on the machine it runs on: its processes and its sandbox."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.integration.mesoscluster import RealMesos
from tests.waiting import wait_for

Record = dict[str, Any]


def the_task(taskgroup: Record) -> Record:
    task: Record = taskgroup["Taskgroup"][0]
    return task


def sandbox(mesos: RealMesos, taskgroup_id: str) -> Path:
    """Of the executor of a taskgroup, whichever agent it is on."""
    found = mesos.directory.glob(f"*/work/slaves/*/frameworks/*/executors/{taskgroup_id}/runs/latest")
    return wait_for(lambda: next(found, None), 30, f"the sandbox of {taskgroup_id}")


def processes_of(taskgroup_id: str) -> dict[int, list[str]]:
    """Command lines of all processes of the executor and its tasks, by pid: they inherit its environment or name it in
    their own."""
    marks = (f"MESOS_EXECUTOR_ID={taskgroup_id}\0".encode(), f"BCS_POD_ID={taskgroup_id}\0".encode())
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path("/proc", entry, "environ").read_bytes() + b"\0"
            command = Path("/proc", entry, "cmdline").read_bytes().split(b"\0")[:-1]
        except OSError:
            continue  # ended meanwhile
        if command and any(mark in environment for mark in marks):
            found[int(entry)] = [word.decode() for word in command]
    return found


def executors_of(taskgroup_id: str) -> list[int]:
    """Pids of the executor and its warden, the elder first."""
    return sorted(pid for pid, words in processes_of(taskgroup_id).items() if "bcs-executor.pyz" in words)


def wait_gone(*taskgroups: Record) -> None:
    for group in taskgroups:
        wait_for(
            lambda identity=group["ID"]: not processes_of(identity),  # type: ignore[misc]
            20,
            lambda identity=group["ID"]: f"the end of {processes_of(identity)}",  # type: ignore[misc]
        )
