"""Commands and messages as users see them (docs/original.md#command-view, #message-view): the request, without
contents, and the result."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec

from bcs_scheduler.api.reading.redaction import fingerprint
from bcs_scheduler.api.views.base import View
from bcs_scheduler.wire.redaction import HIDDEN
from store.records import Command, Message, MessageResult
from store.state.reader import StateReader

TYPES = {
    "local": 1, "signal": 2, "env": 3, "remote": 4, "resources": 8, "commit": 9, "reload": 10, "restart": 11,
    "command": 12,
}  # fmt: skip
"""Numbers of the original by our type."""
_TASK_STATUS = {"staging": "staging", "running": "running", "success": "finish", "failed": "failed"}


class CommandOutput(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`truncated`: one of the streams was longer than its kept part."""

    exit_code: int | None
    """Exit code of the command; None: killed before it ended."""
    stdout: str
    stderr: str
    truncated: bool


class TaskOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`status`: staging, running, finish (carried out, with any exit code) or failed."""

    task_id: str
    status: str
    message: str
    comm_inspect: CommandOutput | None


class TaskGroupOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`messageId`, `status` (of its message) and `message` are ours."""

    taskgroup_id: str
    tasks: list[TaskOutcome]
    message_id: str
    status: str
    message: str


class CommandStatus(msgspec.Struct, frozen=True, kw_only=True):
    taskgroups: list[TaskGroupOutcome]


class CommandView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`spec` as in the document (values of variables hidden) for commands, else empty. Ours: from `type` on; `state`
    sums up the messages: running while one is open, failed if one failed or there are fewer of them than `targets` (the
    number of addressed taskgroups: the others never received a message), else success. Times in Unix seconds."""

    id: str
    create_time: int
    spec: dict[str, Any]
    status: CommandStatus
    type: str
    body: dict[str, Any]
    state: str
    targets: int
    deadline: int
    keep_until: int
    cause: str


class ResultView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    task_id: str
    ok: bool
    message: str
    comm_inspect: CommandOutput | None


class MessageView(View, frozen=True, kw_only=True):
    """`Body` stands for the original's one key per type; of files it has digest and size. Ours: `Command`, `Kind`,
    `Results`. Times in Unix seconds."""

    id: str = msgspec.field(name="Id")
    type: int
    kind: str
    command: str
    task_group_id: str
    task_id: str | None = msgspec.field(name="TaskID", default=None)
    body: dict[str, Any]
    status: str
    message: str
    create_time: int
    complete_time: int
    results: list[ResultView]


def show_command(state: StateReader, command: Command) -> CommandView:
    messages = messages_of(state, command)
    return CommandView(
        id=command.id,
        create_time=int(command.created_at),
        spec=_spec(command, messages) if command.type == "command" else {},
        status=CommandStatus(taskgroups=[_outcome(message) for message in messages]),
        type=command.type,
        body={} if command.type == "command" else show_body(command),
        state=_state(command, messages),
        targets=max(command.targets, len(messages)),
        deadline=int(command.deadline),
        keep_until=int(command.keep_until),
        cause=command.cause,
    )


def show_message(message: Message, command: Command | None) -> MessageView:
    return MessageView(
        id=message.id,
        type=TYPES.get(command.type, 0) if command is not None else 0,
        kind=command.type if command is not None else "",
        command=message.command,
        task_group_id=message.taskgroup,
        body=show_body(command) if command is not None else {},
        status=message.status,
        message=message.message,
        create_time=int(message.created_at),
        complete_time=int(message.completed_at),
        results=[
            ResultView(task_id=result.task, ok=result.ok, message=result.message, comm_inspect=_output(result))
            for result in message.results
        ],
    )


def messages_of(state: StateReader, command: Command) -> list[Message]:
    """Messages of the command, in the order in which they were made."""
    return sorted(state.messages_of(command.id).values(), key=message_order)


def message_order(message: Message) -> tuple[int, str]:
    return (int(message.id) if message.id.isdigit() else 0, message.id)


def show_body(command: Command) -> dict[str, Any]:
    """The body for an executor, without contents, values of variables and passwords."""
    shown = dict(command.body)
    content = shown.pop("data", None)
    if command.type == "local" and isinstance(content, str):
        shown["digest"], shown["size"] = fingerprint(content)
    if command.type == "env" and "value" in shown:
        value = b64encode(str(shown.pop("value")).encode()).decode()
        shown["digest"], shown["size"] = fingerprint(value)
    if shown.get("password"):
        shown["password"] = HIDDEN
    if "env" in shown:
        shown["env"] = dict.fromkeys(shown["env"], HIDDEN)
    return shown


def _spec(command: Command, messages: list[Message]) -> dict[str, Any]:
    """The spec as in documents of kind Command (docs/original.md#command-documents)."""
    body = command.body
    return {
        "commandTargetRef": {
            "kind": command.owner.capitalize(),
            "namespace": command.namespace,
            "name": command.application,
            "image": command.image,
        },
        "taskgroups": [message.taskgroup for message in messages],
        "command": body.get("argv", []),
        "env": [f"{name}={HIDDEN}" for name in body.get("env", {})],
        "user": body.get("user", ""),
        "workingDir": body.get("working_dir", ""),
        "privileged": body.get("privileged", False),
        "reserveTime": round((command.keep_until - command.created_at) / 60),
        "timeout": command.timeout,
    }


def _state(command: Command, messages: list[Message]) -> str:
    if any(message.open for message in messages):
        return "running"
    if len(messages) < command.targets or any(message.status == "failed" for message in messages):
        return "failed"
    return "success"


def _outcome(message: Message) -> TaskGroupOutcome:
    results = {result.task: result for result in message.results}
    return TaskGroupOutcome(
        taskgroup_id=message.taskgroup,
        tasks=[_task(task, message, results.get(task)) for task in message.tasks],
        message_id=message.id,
        status=message.status,
        message=message.message,
    )


def _task(task: str, message: Message, result: MessageResult | None) -> TaskOutcome:
    if result is None:
        return TaskOutcome(
            task_id=task, status=_TASK_STATUS[message.status], message=message.message, comm_inspect=None
        )
    return TaskOutcome(
        task_id=task,
        status="finish" if result.ok else "failed",
        message=result.message,
        comm_inspect=_output(result),
    )


def _output(result: MessageResult) -> CommandOutput | None:
    """Output of a command. The output of a command that was killed at its time-out is shown too, without an exit code.
    None: there is no exit code and no output."""
    if result.exit_code is None and not (result.stdout or result.stderr):
        return None
    return CommandOutput(
        exit_code=result.exit_code, stdout=result.stdout, stderr=result.stderr, truncated=result.truncated
    )
