"""Files of the sandboxes of taskgroups, read by way of the agents (bcs_scheduler.agentapi.sandbox)."""

from __future__ import annotations

import asyncio
import base64
import codecs
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from bcs_scheduler.agentapi.sandbox import PIECE, AgentAway, Folder, NoSuchFile, Piece, SandboxError
from bcs_scheduler.api.access import forbidden
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import ApiError, bad_parameter, not_found
from bcs_scheduler.api.http.operation import Answer, Call, Param, Streamed, Table, always
from bcs_scheduler.api.reading.agents import check_complete
from bcs_scheduler.api.streams.downloads import Downloads
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.net.addresses import HostPort
from store.records import Task, TaskGroup

T = TypeVar("T")

table = Table("logs")
LONGEST = 1024 * 1024
"""Bytes in one answer at most, before base64."""
MOST_LINES = 100_000
UNSTARTED = ("Staging", "Starting")
"""Statuses of tasks that may have no folder and no output on the agent."""
READERS = ThreadPoolExecutor(16, thread_name_prefix="sandbox")
"""A thread pool of its own, so that agents that do not answer delay no other requests."""
DOWNLOADS = Downloads()
OUTPUT = re.compile(r"(stdout|stderr)(\.[0-9]+)?")
"""Files that viewers may read: the output of tasks, also rotated. Other files may hold secrets that were injected as
files."""

TASK = Param("task", "text", "Id, name or number of the task. Required if the taskgroup has several tasks.")
EXECUTOR = Param("executor", "bool", "The sandbox of the executor instead of the folder of a task.")
PATH = Param("path", "text", "Relative to the task's folder.")
FILE = Param(
    "file",
    "text",
    "stdout, stderr, or another path relative to the task's folder, which needs the role operator. Default: stdout.",
)
OFFSET = Param("offset", "int", "Byte to begin with. Default: 0.", 0)
LENGTH = Param("length", "int", f"Bytes at most. Default: {PIECE}.", 0, LONGEST)
TAIL = Param("tail", "int", f"This number of last lines, but at most {LONGEST} bytes.", 0, MOST_LINES)
ENCODING = Param("encoding", "text", "base64 returns the exact bytes. Default: text.", choices=("text", "base64"))

REASONS: errors.Reasons = (
    Reason.NOT_FOUND,
    errors.NOT_STARTED,
    errors.BAD_PARAMETER,
    errors.AGENT,
    Reason.UNAVAILABLE,
    errors.NOT_LEADING,
)
"""Reasons for which a read of files of an agent may fail."""


class FileView(msgspec.Struct, frozen=True, kw_only=True):
    """`path` relative to the folder that was listed; `mode` with the type bits of stat(2); `modified` Unix seconds."""

    path: str
    size: int
    modified: float
    mode: int
    owner: str
    folder: bool


class LogView(msgspec.Struct, frozen=True, kw_only=True):
    """`offset`: position of the first byte in `data`; `next`: position after the last byte. In text, bytes that are no
    UTF-8 are replaced; a character that the end cuts in two is left for the next answer. A `size` below the requested
    `offset` means that the file was rotated or truncated."""

    data: str
    offset: int
    next: int
    size: int


def is_output(file: str) -> bool:
    """True for the output of a task. All other files may hold secrets."""
    return OUTPUT.fullmatch(file) is not None


@table.read(
    "/taskgroup/{id}/files",
    "List a folder of a taskgroup's sandbox",
    query=(TASK, EXECUTOR, PATH),
    answer=list[FileView],
    reasons=REASONS,
)
async def list_files(call: Call) -> Answer:
    entries = await in_sandbox(call, lambda folder: folder.browse(call.query.get("path", "")))
    return Answer(
        [
            FileView(path=e.path, size=e.size, modified=e.modified, mode=e.mode, owner=e.owner, folder=e.is_folder)
            for e in entries
        ]
    )


@table.read(
    "/taskgroup/{id}/logs",
    "Read a part of a file of a taskgroup's sandbox",
    query=(TASK, EXECUTOR, FILE, OFFSET, LENGTH, TAIL, ENCODING),
    answer=LogView,
    reasons=REASONS,
    audited=lambda query: not is_output(query.get("file", "stdout")),
)
async def read_log(call: Call) -> Answer:
    query = call.query
    if "tail" in query and ("offset" in query or "length" in query):
        raise bad_parameter("tail", "cannot be combined with offset and length")
    file = query.get("file", "stdout")
    if not is_output(file) and not call.caller.has("operator"):
        raise forbidden(
            call.caller,
            f"the role operator for files other than stdout and stderr; the role of the token is {call.caller.role}",
        )

    def read(folder: Folder) -> Piece:
        if "tail" in query:
            return folder.tail(file, query["tail"], LONGEST)
        return folder.read(file, query.get("offset", 0), query.get("length", PIECE))

    return Answer(_shown(await in_sandbox(call, read), query.get("encoding", "text")))


@table.read(
    "/taskgroup/{id}/file",
    "Fetch the contents of a file of a taskgroup's sandbox",
    query=(TASK, EXECUTOR, PATH),
    reasons=REASONS,
    audited=always,
    enveloped=False,
    media_type="application/octet-stream",
)
async def download_file(call: Call) -> Streamed:
    path = call.query.get("path")
    if not path:
        raise bad_parameter("path", "is missing")
    DOWNLOADS.check()
    found = await in_sandbox(call, lambda folder: folder.download(path))
    return Streamed(DOWNLOADS.passed_on(found.chunks), found.size)


async def in_sandbox(call: Call, work: Callable[[Folder], T]) -> T:
    """Returns the result of `work`, which runs in a thread with the folder that the query names. Raises ApiError."""
    waiting = unstarted(call)  # before the read: the task may start during the read
    done = asyncio.get_running_loop().run_in_executor(READERS, lambda: work(_folder(call)))
    try:
        return await asyncio.wait_for(done, call.settings.command_timeout)
    except NoSuchFile as error:
        if waiting is not None:
            raise waiting from error
        raise ApiError(Reason.NOT_FOUND, str(error)) from error
    except AgentAway as error:
        raise ApiError(errors.AGENT, str(error)) from error
    except SandboxError as error:
        raise bad_parameter("file" if "file" in call.query else "path", f"cannot be read: {error}") from error
    except TimeoutError as error:
        raise ApiError(Reason.UNAVAILABLE, "too many files are being read from slow agents; try again") from error


def unstarted(call: Call) -> ApiError | None:
    """The answer about files that do not exist because the task, or every task of the taskgroup, has not started; None
    if a task has started. Raises ApiError."""
    group = call.state().taskgroups.get(call.path["id"])
    if group is None:
        raise not_found("taskgroup", call.path["id"])
    of_executor = call.query.get("executor")
    tasks = group.tasks if of_executor else (find_task(group, call.query.get("task", "")),)
    if any(task.status not in UNSTARTED for task in tasks):
        return None
    name = f"taskgroup {group.name}" if of_executor else f"task {tasks[0].name or tasks[0].id} of {group.name}"
    status = group.status if of_executor else tasks[0].status
    return ApiError(errors.NOT_STARTED, f"{name} has not started: the status is {status}")


def _folder(call: Call) -> Folder:
    """The folder of the requested files. Raises ApiError."""
    state = call.state()
    group = state.taskgroups.get(call.path["id"])
    if group is None:
        raise not_found("taskgroup", call.path["id"])
    if call.query.get("executor") and "task" in call.query:
        raise bad_parameter("executor", "cannot be combined with task")
    inner = "" if call.query.get("executor") else f"tasks/{find_task(group, call.query.get('task', '')).id}"
    return Folder(str(host_port_of(call, group)), state.framework.id, group.id, inner)


def find_task(group: TaskGroup, wanted: str) -> Task:
    """Finds a task by id, name or number; empty = the only one. Raises ApiError."""
    if not wanted and len(group.tasks) == 1:
        return group.tasks[0]
    for number, task in enumerate(group.tasks):
        if wanted in (task.id, task.name, str(number)):
            return task
    names = ", ".join(task.name or task.id for task in group.tasks)
    problem = f"is not a task of {group.name}" if wanted else "is needed"
    raise bad_parameter("task", f"{problem}; its tasks are {names}")


def host_port_of(call: Call, group: TaskGroup) -> HostPort:
    """The address at which the agent answers. Only the leader lists agents: standbys point to the leader. Raises
    ApiError."""
    for agent in call.gateway.agents():
        if agent.id == group.agent_id and agent.ip and agent.port:
            return HostPort(str(agent.ip), int(agent.port))
    check_complete(call, group.agent_id, f"the agent of {group.name}")
    raise ApiError(errors.AGENT, f"Mesos does not list the agent of {group.name} on {group.hostname}")


def _shown(piece: Piece, encoding: str) -> LogView:
    after = piece.offset + len(piece.data)
    if encoding == "base64":
        text = base64.b64encode(piece.data).decode("ascii")
        return LogView(data=text, offset=piece.offset, next=after, size=piece.size)
    # At the end of the file no later byte completes a character: the part is shown, replaced.
    text, used = codecs.utf_8_decode(piece.data, "replace", after >= piece.size)
    if not used:
        text, used = codecs.utf_8_decode(piece.data, "replace", True)  # otherwise the reader would never pass this part
    return LogView(data=text, offset=piece.offset, next=piece.offset + used, size=piece.size)
