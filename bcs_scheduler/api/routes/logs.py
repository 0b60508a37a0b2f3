"""What taskgroups write: files of their sandboxes, by way of the agents (bcs_scheduler.sandbox)."""

from __future__ import annotations

import asyncio
import base64
import codecs
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

from bcs_scheduler.addresses import HostPort
from bcs_scheduler.api import errors
from bcs_scheduler.api.downloads import Downloads
from bcs_scheduler.api.errors import ApiError, bad_parameter, not_found
from bcs_scheduler.api.needs import forbidden
from bcs_scheduler.api.operation import Answer, Call, Param, Streamed, Table, not_leading
from bcs_scheduler.core.effects import Reason
from bcs_scheduler.sandbox import PIECE, AgentAway, Folder, NoSuchFile, Piece, SandboxError
from store.records import Task, TaskGroup

T = TypeVar("T")

table = Table("logs")
LONGEST = 1024 * 1024
"""Bytes in one answer at most, before base64."""
MOST_LINES = 100_000
READERS = ThreadPoolExecutor(16, thread_name_prefix="sandbox")
"""Of its own, so that agents that do not answer hold up nobody who asks for something else."""
DOWNLOADS = Downloads()
OUTPUT = re.compile(r"(stdout|stderr)(\.[0-9]+)?")
"""Files that viewers may read: what tasks print, also rotated. Others may hold secrets that were injected as files."""

TASK = Param("task", "text", "Id, name or number of the task; not needed if there is only one.")
EXECUTOR = Param("executor", "bool", "The sandbox of the executor itself, not a task's folder in it.")
PATH = Param("path", "text", "Relative to the task's folder.")
FILE = Param(
    "file",
    "text",
    "stdout, stderr, or another path relative to the task's folder, which needs the role operator. Default: stdout.",
)
OFFSET = Param("offset", "int", "Byte to begin with. Default: 0.", 0)
LENGTH = Param("length", "int", f"Bytes at most. Default: {PIECE}.", 0, LONGEST)
TAIL = Param("tail", "int", f"The last so many lines instead, but at most {LONGEST} bytes.", 0, MOST_LINES)
ENCODING = Param("encoding", "text", "base64 gives the exact bytes. Default: text.", choices=("text", "base64"))


class FileView(msgspec.Struct, frozen=True, kw_only=True):
    """`path` relative to the folder that was listed; `mode` with the type bits of stat(2); `modified` Unix seconds."""

    path: str
    size: int
    modified: float
    mode: int
    owner: str
    folder: bool


class LogView(msgspec.Struct, frozen=True, kw_only=True):
    """`offset` of the first byte in `data`, `next` of the one after the last. As text, bytes that are no UTF-8 are
    replaced; a character cut in two by the end is left for the next answer. A `size` below the asked `offset`
    means that the file was rotated or cut off."""

    data: str
    offset: int
    next: int
    size: int


@table.read(
    "/taskgroup/{id}/files",
    "List a folder of a taskgroup's sandbox",
    query=(TASK, EXECUTOR, PATH),
    answer=list[FileView],
    reasons=(Reason.NOT_FOUND, errors.BAD_PARAMETER, errors.AGENT),
)
async def list_files(call: Call) -> Answer:
    entries = await _read(call, lambda folder: folder.browse(call.query.get("path", "")))
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
    reasons=(Reason.NOT_FOUND, errors.BAD_PARAMETER, errors.AGENT),
)
async def read_log(call: Call) -> Answer:
    query = call.query
    if "tail" in query and ("offset" in query or "length" in query):
        raise bad_parameter("tail", "cannot be combined with offset and length")
    file = query.get("file", "stdout")
    if not OUTPUT.fullmatch(file) and not call.caller.has("operator"):
        raise forbidden(call.caller, f"the role operator for other files than outputs; theirs is {call.caller.role}")

    def read(folder: Folder) -> Piece:
        if "tail" in query:
            return folder.tail(file, query["tail"], LONGEST)
        return folder.read(file, query.get("offset", 0), query.get("length", PIECE))

    return Answer(_shown(await _read(call, read), query.get("encoding", "text")))


@table.read(
    "/taskgroup/{id}/file",
    "Fetch a file of a taskgroup's sandbox as it is",
    query=(TASK, EXECUTOR, PATH),
    reasons=(Reason.NOT_FOUND, errors.BAD_PARAMETER, errors.AGENT, Reason.UNAVAILABLE),
    enveloped=False,
    media_type="application/octet-stream",
)
async def download_file(call: Call) -> Streamed:
    path = call.query.get("path")
    if not path:
        raise bad_parameter("path", "is missing")
    DOWNLOADS.check()
    found = await _read(call, lambda folder: folder.download(path))
    return Streamed(DOWNLOADS.passed_on(found.chunks), found.size)


async def _read(call: Call, work: Callable[[Folder], T]) -> T:
    """What `work` gives, done in a thread. Raises ApiError."""
    done = asyncio.get_running_loop().run_in_executor(READERS, lambda: work(_folder(call)))
    try:
        return await asyncio.wait_for(done, call.settings.command_timeout)
    except NoSuchFile as error:
        raise ApiError(Reason.NOT_FOUND, str(error)) from error
    except AgentAway as error:
        raise ApiError(errors.AGENT, str(error)) from error
    except SandboxError as error:
        raise bad_parameter("file" if "file" in call.query else "path", f"cannot be read: {error}") from error
    except TimeoutError as error:
        raise ApiError(Reason.UNAVAILABLE, "too many files are being read from agents that are slow") from error


def _folder(call: Call) -> Folder:
    """Where the asked files are. Raises ApiError."""
    state = call.state()
    group = state.taskgroups.get(call.path["id"])
    if group is None:
        raise not_found("taskgroup", call.path["id"])
    if call.query.get("executor") and "task" in call.query:
        raise bad_parameter("executor", "cannot be combined with task")
    inner = "" if call.query.get("executor") else f"tasks/{_task(group, call.query.get('task', '')).id}"
    return Folder(_address(call, group), state.framework.id, group.id, inner)


def _task(group: TaskGroup, wanted: str) -> Task:
    if not wanted and len(group.tasks) == 1:
        return group.tasks[0]
    for number, task in enumerate(group.tasks):
        if wanted in (task.id, task.name, str(number)):
            return task
    names = ", ".join(task.name or task.id for task in group.tasks)
    problem = f"is no task of {group.id}" if wanted else "is needed"
    raise bad_parameter("task", f"{problem}; its tasks are {names}")


def _address(call: Call, group: TaskGroup) -> str:
    """host:port of the agent. Only the leader lists agents: others point to it."""
    for agent in call.gateway.agents():
        if agent["id"] == group.agent_id and agent["ip"] and agent["port"]:
            return str(HostPort(str(agent["ip"]), int(agent["port"])))
    if call.gateway.role() != "master":
        raise not_leading(call.gateway.leader_url())
    raise ApiError(errors.AGENT, f"Mesos does not list agent {group.agent_id} on {group.hostname}")


def _shown(piece: Piece, encoding: str) -> LogView:
    after = piece.offset + len(piece.data)
    if encoding == "base64":
        text = base64.b64encode(piece.data).decode("ascii")
        return LogView(data=text, offset=piece.offset, next=after, size=piece.size)
    # At the end of the file nothing will complete a character: it is shown as it is, replaced.
    text, used = codecs.utf_8_decode(piece.data, "replace", after >= piece.size)
    if not used:
        text, used = codecs.utf_8_decode(piece.data, "replace", True)  # so short a part would never be left
    return LogView(data=text, offset=piece.offset, next=piece.offset + used, size=piece.size)
