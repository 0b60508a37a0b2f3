"""Removal of containers whose executor has died: such containers continue to run, and no other process ends them."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from typing import Any

from ..processes import process_tree
from .engine import Engine, EngineError, NotFound
from .translate import LABEL_EXECUTOR, LABEL_KEEP, LABEL_SECRETS, LABEL_TASKGROUP


def reap(socket: str, taskgroup: str) -> None:
    """Kills and removes all containers of a taskgroup; those with rm=false are only killed. Secret files are emptied.
    `socket`: path of the engine's. Raises EngineError if containers could not be removed, after the others have
    been removed."""
    engine = Engine(socket)
    _remove_all(engine, _labelled(engine, f"{LABEL_TASKGROUP}={taskgroup}"))


def sweep(engine: Engine) -> None:
    """Removes the containers of all dead executors of this agent: an executor may have been killed together with its
    supervisor. Raises EngineError."""
    found = _labelled(engine, LABEL_EXECUTOR)
    _remove_all(engine, [item for item in found if _is_dead(str((item.get("Labels") or {}).get(LABEL_EXECUTOR, "")))])


def executor_mark() -> str:
    """Names this process: boot, process namespace, pid and start of it."""
    own = process_tree.process(os.getpid())
    return f"{_namespace()}.{os.getpid()}.{own.started if own else 0}"


def _namespace() -> str:
    """Identifies the process namespace, in which a pid means the same process."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    return f"{boot}.{os.stat('/proc/self/ns/pid').st_ino}"


def _is_dead(mark: str) -> bool:
    """True if the executor of the mark has ended. The state of executors in other namespaces is unknown: False."""
    parts = mark.rsplit(".", 2)
    if parts[0] != _namespace() or not all(part.isdecimal() for part in parts[1:]):
        return False
    process = process_tree.process(int(parts[1]))
    return process is None or process.dead or process.started != int(parts[2])


def _labelled(engine: Engine, label: str) -> list[dict[str, Any]]:
    filters = json.dumps({"label": [label]})
    return engine.call("GET", "/containers/json", {"all": "true", "filters": filters}) or []


def _remove_all(engine: Engine, containers: Iterable[dict[str, Any]]) -> None:
    problem: EngineError | None = None
    for found in containers:
        try:
            _remove(engine, found)
        except NotFound:
            continue
        except EngineError as error:
            problem = error
    if problem is not None:
        raise problem


def _remove(engine: Engine, found: dict[str, Any]) -> None:
    labels, identity = found.get("Labels") or {}, str(found["Id"])
    secrets = json.loads(labels.get(LABEL_SECRETS, "[]"))
    if found.get("State") == "running" and (secrets or LABEL_KEEP in labels):
        engine.call("POST", f"/containers/{identity}/kill")
    try:
        forget(engine, identity, secrets)
    finally:
        if LABEL_KEEP not in labels:
            remove(engine, identity)


def forget(engine: Engine, container: str, secrets: Iterable[str]) -> None:
    """Empties the secret files of a container, which may stay; a volume or the sandbox, where a file may be, outlives
    it. Raises EngineError."""
    from . import archive

    for path in secrets:
        with contextlib.suppress(NotFound):
            archive.put(engine, container, path, b"", 0o600, "")


def remove(engine: Engine, container: str) -> None:
    """Removes a container with its anonymous volumes, also while it runs. Raises NotFound if there is none."""
    engine.call("DELETE", f"/containers/{container}", {"force": "true", "v": "true"})
