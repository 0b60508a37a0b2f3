"""The needs of a task before its start: directory, environment, fetched and placed files."""

from __future__ import annotations

import os
import threading
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TypeVar

from ..model import Group, Task
from ..run import identity
from ..runtime import TaskError
from .fetch import fetch_all
from .files import place, variables
from .secrets import Secrets

PLACES = {"${work_base_dir}": "work_dir", "${run_base_dir}": "run_dir"}
"""Directories of the sandbox by the words that stand for them."""
D = TypeVar("D")


def prepared(task: Task, group: Group, directory: Path, stopping: threading.Event, secrets: Secrets) -> dict[str, str]:
    """The environment of the task, with all else ready for it below `directory`. Raises TaskError."""
    _own(directory, task.user)
    fetch_all(task.uris, directory, stopping, task.user)
    addressed = dict.fromkeys((*task.address_env, "BCS_CONTAINER_IP"), group.agent_ip)
    environment = {**task.env, **variables(task.remote_env, stopping), **addressed}
    place(task.files, directory, task.user, secrets, stopping)
    if "=" in "".join(environment) or "\0" in "".join((*environment, *environment.values())):
        raise TaskError("a variable of the environment has a character that no variable can have")
    return environment


def _own(directory: Path, user: str) -> None:
    who = identity(user)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not who.own:
            os.chown(directory, who.uid, who.gid)
    except OSError as error:
        raise TaskError(f"directory of the task: {error.strerror}") from None


def expand(task: Task, sandbox: Path) -> Task:
    """Replaces `${work_base_dir}` and `${run_base_dir}` by the real paths, and creates the directories that are
    used."""
    used: set[str] = set()

    def text(value: str) -> str:
        for word, name in PLACES.items():
            if word in value:
                used.add(name)
                value = value.replace(word, str(sandbox / name))
        return value

    def strings(value: D) -> D:
        changed = {
            item.name: text(getattr(value, item.name))
            for item in (fields(value) if is_dataclass(value) else ())
            if isinstance(getattr(value, item.name), str)
        }
        return replace(value, **changed)  # type: ignore[type-var]

    expanded = replace(
        task,
        process=strings(task.process),
        env={name: text(value) for name, value in task.env.items()},
        files=tuple(replace(item, path=text(item.path)) for item in task.files),
        uris=tuple(replace(item, output=text(item.output)) for item in task.uris),
        working_dir=text(task.working_dir),
    )
    for name in used:
        _own(sandbox / name, task.user)
    return expanded
