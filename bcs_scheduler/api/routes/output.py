"""Output of taskgroups: both streams, in order and with times (bcs_scheduler.agentapi.output)."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from bcs_scheduler.agentapi.output import NoIndex, Output
from bcs_scheduler.agentapi.output_index import STREAMS, Cursor, Entry, Page, Wanted, last_lines
from bcs_scheduler.agentapi.sandbox import PIECE, Folder
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import bad_parameter, not_found
from bcs_scheduler.api.http.operation import Answer, Call, Param, Table
from bcs_scheduler.api.routes.logs import ENCODING, LONGEST, MOST_LINES, REASONS, TASK, in_sandbox, unstarted
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.wire import kept_output

table = Table("logs")

STREAM = Param("stream", "text", "Only this stream. Default: both.", choices=STREAMS)
AFTER = Param("after", "text", "`next` of an answer: continues there.")
SINCE = Param("since", "float", "Only output printed at this time (Unix seconds) or later.", 0.0)
TAIL = Param("tail", "int", f"The last lines of both streams together, but at most {LONGEST} bytes.", 0, MOST_LINES)
ROTATED = Param("rotated", "bool", "Begins with the rotated files. With `since` and `tail` they are always read.")
LENGTH = Param("length", "int", f"Bytes of output at most. Default: {PIECE}.", 1, LONGEST)


class EntryView(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that the executor has read from a stream at once: some lines, or a part of a line. `time`: time of this
    read in Unix seconds. In text, bytes that are no UTF-8 are replaced."""

    time: float
    stream: str
    data: str


class OutputView(msgspec.Struct, frozen=True, kw_only=True):
    """`ordered` false: the executor of the task records neither order nor times; the streams can be read one by one
    with `/taskgroup/{id}/logs`. The kept output of such a failed task has standard output first and times of 0, and
    `since` does not apply. `end`: there is nothing more at present. `lost`: output was rotated away before this
    answer reached it."""

    ordered: bool
    entries: list[EntryView]
    next: str
    end: bool
    lost: bool


@table.read(
    "/taskgroup/{id}/output",
    "Read the output of a task, both streams in order",
    query=(TASK, STREAM, AFTER, SINCE, TAIL, ROTATED, LENGTH, ENCODING),
    answer=OutputView,
    reasons=REASONS,
)
async def read_output(call: Call) -> Answer:
    query = call.query
    if "after" in query and ("tail" in query or "rotated" in query):
        raise bad_parameter("after", "cannot be combined with tail and rotated")
    try:
        cursor = Cursor.of(query["after"]) if "after" in query else None
    except ValueError:
        raise bad_parameter("after", "is not the `next` of an answer") from None
    wanted = Wanted((query["stream"],) if "stream" in query else STREAMS, query.get("since", 0.0))
    waiting = unstarted(call)
    page = await in_sandbox(call, partial(_page, cursor=cursor, wanted=wanted, query=query))
    if page is None and waiting is not None:
        raise waiting  # the executor may not have begun the index yet
    if page is None:
        return Answer(OutputView(ordered=False, entries=[], next="", end=True, lost=False))
    shown = [_shown(entry, query.get("encoding", "text")) for entry in page.entries]
    return Answer(OutputView(ordered=True, entries=shown, next=str(page.next), end=page.end, lost=page.lost))


def _page(folder: Folder, cursor: Cursor | None, wanted: Wanted, query: Mapping[str, Any]) -> Page | None:
    """Reads a page of the output; None: there is no index. Raises SandboxError."""
    output = Output(folder)
    limit = query.get("length", PIECE)
    try:
        if "tail" in query:
            return output.tail(query["tail"], wanted, LONGEST)
        if cursor is None:
            cursor = output.begin(wanted, rotated=bool(query.get("rotated")) or "since" in query)
        return output.more(cursor, wanted, limit)
    except NoIndex:
        return None


def _shown(entry: Entry, encoding: str) -> EntryView:
    data = base64.b64encode(entry.data).decode() if encoding == "base64" else entry.data.decode(errors="replace")
    return EntryView(time=entry.time, stream=entry.stream, data=data)


# --- of tasks that have failed ----------------------------------------------------------------------------------------

APPLICATION = Param("application", "text", "Only outputs of this application.")
DEPLOYMENT = Param(
    "deployment", "text", "Only outputs of this deployment, also of applications that updates have removed."
)
TASKGROUP = Param("taskgroup", "text", "Only outputs of the taskgroup with this id.")


class KeptView(msgspec.Struct, frozen=True, kw_only=True):
    """`id` and `name` of the task, `number` in its taskgroup, `index` of the taskgroup in its application.
    `deployment`: empty = none. `time`: Unix seconds, when the scheduler received the output."""

    id: str
    name: str
    number: int
    taskgroup: str
    application: str
    deployment: str
    index: int
    agent_id: str = msgspec.field(name="agentID")
    time: float


@table.read(
    "/namespaces/{ns}/outputs",
    "List the last outputs that are kept of failed tasks, newest first",
    query=(APPLICATION, DEPLOYMENT, TASKGROUP),
    answer=list[KeptView],
)
async def list_outputs(call: Call) -> Answer:
    query = call.query
    found = [
        output
        for output in list(call.state().outputs.values())
        if output.namespace == call.path["ns"]
        and query.get("application", output.application) == output.application
        and query.get("deployment", output.deployment) == output.deployment
        and query.get("taskgroup", output.taskgroup) == output.taskgroup
    ]
    found.sort(key=lambda output: (-output.at, output.index, output.number))
    return Answer(
        [
            KeptView(
                id=output.id,
                name=output.name,
                number=output.number,
                taskgroup=output.taskgroup,
                application=output.application,
                deployment=output.deployment,
                index=output.index,
                agent_id=output.agent_id,
                time=output.at,
            )
            for output in found
        ]
    )


@table.read(
    "/namespaces/{ns}/outputs/{id}",
    "Read the last output that is kept of a failed task",
    query=(STREAM, SINCE, TAIL, ENCODING),
    answer=OutputView,
    reasons=(Reason.NOT_FOUND, errors.BAD_PARAMETER),
)
async def read_kept_output(call: Call) -> Answer:
    query, output = call.query, call.state().outputs.get(call.path["id"])
    if output is None or output.namespace != call.path["ns"]:
        raise not_found("output", call.path["id"])
    found = kept_output.unpacked(output.data)
    ordered = all(entry.time for entry in found)
    entries = [
        Entry(*entry)
        for entry in found
        if query.get("stream", entry.stream) == entry.stream and (not ordered or entry.time >= query.get("since", 0.0))
    ]
    if "tail" in query:
        entries = last_lines(entries, query["tail"])[0]
    shown = [_shown(entry, query.get("encoding", "text")) for entry in entries]
    return Answer(OutputView(ordered=ordered, entries=shown, next="", end=True, lost=False))
