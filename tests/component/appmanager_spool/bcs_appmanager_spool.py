"""An application manager of a third party: each JSON file of a folder is an application.

    {"queue": "root.batch", "taskGroups": [{"name": "w", "minMember": 2, "cpus": 1}],
     "parameters": "gangSchedulingStyle=Hard",
     "tasks": [{"id": "w0", "group": "w", "cpus": 1, "command": "sleep 60"}]}

Each task has 32 MB of memory, and sleeps for an hour without a command. The name of the file without its end is the
identifier. A task with ``"done": true`` has ended. An application whose file is removed has ended. Units of work have
the labels ``spool/application`` and ``spool/task``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from pathlib import Path
from typing import Any

from offers.dimensions import THOUSANDTHS, Amounts, amounts
from offers.policy.applications.interface import (
    AddApplicationRequest,
    AddTaskRequest,
    ApplicationManagementProtocol,
    ExistingAllocation,
    ManagementError,
    Services,
    TaskGroupRef,
)
from offers.policy.applications.metadata import ApplicationMetadata, TaskGroup, TaskMetadata, parameters_of

log = logging.getLogger(__name__)
MEM = 32
"""MB of memory of a task."""


class SpoolManager:
    """The manager. Settings: `folder`, and `seconds` between two looks at the folder."""

    name = "spool"

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._known: set[str] = set()

    async def service_init(self, context: ApplicationManagementProtocol, services: Services) -> None:
        """Reads the settings. Raises KeyError without a folder."""
        self._context = context
        self._folder = Path(str(services.settings["folder"]))
        self._seconds = float(str(services.settings.get("seconds", 0.05)))

    async def start(self) -> None:
        """Begins to follow the folder. Raises NotADirectoryError if there is none."""
        if not self._folder.is_dir():
            raise NotADirectoryError(str(self._folder))
        self._task = asyncio.get_running_loop().create_task(self._follow(), name="spool")

    async def stop(self) -> None:
        """Ends the task."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def list_applications(self) -> dict[str, ApplicationMetadata]:
        """The applications of the folder."""
        return {name: _metadata(name, document) for name, document in self._documents().items()}

    def get_existing_allocation(self, unit: TaskGroupRef) -> ExistingAllocation | None:
        """The task that the labels name; None without them."""
        name, task = unit.labels.get("spool/application"), unit.labels.get("spool/task")
        document = self._documents().get(name) if name else None
        entry = next((one for one in document["tasks"] if one["id"] == task), None) if document else None
        if name is None or entry is None or not unit.node:
            return None
        return ExistingAllocation(_task(name, entry), unit.node)

    async def _follow(self) -> None:
        while True:
            try:
                self._look()
            except (ManagementError, ValueError, KeyError, OSError) as error:
                log.warning("the folder %s cannot be taken over now: %s", self._folder, error)
            await asyncio.sleep(self._seconds)

    def _look(self) -> None:
        documents = self._documents()
        for name, document in documents.items():
            self._context.add_application(AddApplicationRequest(_metadata(name, document)))
            for entry in document["tasks"]:
                self._context.add_task(AddTaskRequest(_task(name, entry)))
                if entry.get("done"):
                    self._context.notify_task_complete(name, entry["id"])
        for name in self._known - set(documents):
            self._context.notify_application_complete(name)
        self._known = set(documents)

    def _documents(self) -> dict[str, Any]:
        return {path.stem: json.loads(path.read_text()) for path in sorted(self._folder.glob("*.json"))}


def _metadata(name: str, document: Any) -> ApplicationMetadata:
    groups = tuple(
        TaskGroup(one["name"], one["minMember"], _amounts(one)) for one in document.get("taskGroups", ())
    )  # fmt: skip
    parameters, _ = parameters_of(document.get("parameters", ""))
    return ApplicationMetadata(name, document["queue"], task_groups=groups, parameters=parameters)


def _task(name: str, entry: Any) -> TaskMetadata:
    container = {
        "command": entry.get("command", "sleep 3600"),
        "resources": {"limits": {"cpu": str(entry["cpus"]), "memory": str(MEM)}},
    }
    definition = {
        "metadata": {"labels": {"spool/application": name, "spool/task": entry["id"]}},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    return TaskMetadata(name, entry["id"], _amounts(entry), entry.get("group", ""), definition=json.dumps(definition))


def _amounts(entry: Any) -> Amounts:
    return amounts(
        {
            "cpus": THOUSANDTHS.at_least("cpus", entry["cpus"]),
            "mem": THOUSANDTHS.at_least("mem", MEM),
        }
    )
