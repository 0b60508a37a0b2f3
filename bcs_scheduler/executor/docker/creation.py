"""A container of a task is created, and the container of an earlier attempt removed."""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Callable
from typing import Any

from ..model import Group, Task
from . import address, translate
from .engine import Engine, NotFound
from .reap import executor_mark, remove


def create(
    engine: Engine, task: Task, group: Group, directory: pathlib.Path, env: dict[str, str], made: Callable[[str], None]
) -> None:
    """Creates a container that is not started. `made` gets the id as soon as there is a container, again if another
    one takes its place. Raises EngineError, TaskError."""
    name = translate.container_name(task)
    remove_any(engine, name)
    body = translate.create_body(task, group, directory, time.time_ns(), env)
    body["Labels"][translate.LABEL_EXECUTOR] = executor_mark()
    identity = _create(engine, name, body)
    made(identity)
    told = address.told(engine, identity, body, task)
    if told is not None:
        remove_any(engine, identity)
        made(_create(engine, name, told))


def _create(engine: Engine, name: str, body: dict[str, Any]) -> str:
    return str(engine.call("POST", "/containers/create", {"name": name}, body)["Id"])


def remove_any(engine: Engine, identity: str) -> None:
    """Removes the container of this id or name, if there is one. Raises EngineError."""
    with contextlib.suppress(NotFound):
        remove(engine, identity)


def make_volumes(task: Task, group: Group, directory: pathlib.Path) -> None:
    """Creates the folders of the task's volumes in the sandbox. Raises OSError."""
    for path in translate.volume_directories(task, group, directory):
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o777)  # as an emptyDir of Kubernetes: every user of the image may write
