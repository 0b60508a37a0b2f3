"""Messages to the executors of running taskgroups: files, signals, variables, restart, reload, image commit.

Each taskgroup has an outcome of its own. A message that fails at once makes the whole request fail
(docs/original.md#answers-per-taskgroup), with all outcomes in the answer; the other messages continue, and are read by
their ids.
"""

from __future__ import annotations

from typing import Any

import msgspec

from bcs_scheduler.api.access import check_program
from bcs_scheduler.api.documents.commands import CommandContent, DriverMessage, RawMessage, read_message
from bcs_scheduler.api.http.errors import ApiError, bad_parameter, not_found
from bcs_scheduler.api.http.operation import CONTINUE, LIMIT, Answer, Call, Param, Table, accepted
from bcs_scheduler.api.reading.query import page
from bcs_scheduler.api.routes.applications import find_application
from bcs_scheduler.api.views.messages import MessageView, message_order, show_message
from bcs_scheduler.core.interface.effects import Problem, Reason
from bcs_scheduler.core.interface.requests import CreateCommand
from store.records import Command, TaskGroup, Version
from transactions.injection import Credentials, Missing, inject, resolve
from transactions.text import counted

table = Table("messages")
APPLICATION = "/namespaces/{ns}/applications/{name}"
APPS = "/apps/{ns}/{name}"
IMAGE = Param("image", "text", "Exact image of the containers to commit.")
URL = Param("url", "text", "Repository and tag to commit to and push.")
FILES = ("local", "remote")
"""Types of messages that write a file into a task. A file can be a program that the task starts."""
COMMIT_SECONDS = 3600.0
"""A layer of many gigabytes takes its time to be pushed."""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """State of the message to one taskgroup so far: staging, running, success or failed."""

    taskgroup: str
    message_id: str = msgspec.field(name="messageID")
    status: str
    message: str


class CommandMessages(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of the started work: the command as a whole, and its message to each taskgroup."""

    command_id: str = msgspec.field(name="commandID")
    messages: list[Sent]


@table.write(
    "POST", f"{APPLICATION}/message", "Send a message to all taskgroups", body=DriverMessage, answer=CommandMessages
)
@table.write("POST", f"{APPS}/message", "Send a message to all taskgroups", body=RawMessage, answer=CommandMessages)
async def send_message(call: Call) -> Answer:
    namespace, name = call.path["ns"], call.path["name"]
    return await _send(call, namespace, name, _message(call))


@table.write(
    "POST",
    f"{APPLICATION}/taskgroups/{{taskgroup}}/message",
    "Send a message to one taskgroup",
    body=DriverMessage,
    answer=CommandMessages,
)
@table.write(
    "POST", f"{APPS}/message/{{taskgroup}}", "Send a message to one taskgroup", body=RawMessage, answer=CommandMessages
)
async def send_message_to_taskgroup(call: Call) -> Answer:
    namespace, name = call.path["ns"], call.path["name"]
    return await _send(call, namespace, name, _message(call), (call.path["taskgroup"],))


def _message(call: Call) -> CommandContent:
    """Content of the message in the body, with the present content of the secrets that it refers to. Raises ApiError
    (403, 409, 422)."""
    namespace = call.path["ns"]
    content = read_message(call.body, namespace, call.path["name"], call.problems)
    if content.type in FILES:
        check_program(call.caller, "copy")
    if content.type != "remote":
        return content
    body = content.body
    try:
        account = resolve(call.state(), namespace, body["user"], body["password"])
    except Missing as error:
        raise ApiError(Reason.CONFLICT, str(error)) from None
    return CommandContent("remote", {**body, "user": account.user, "password": account.password})


@table.write(
    "POST", f"{APPLICATION}/taskgroups/{{taskgroup}}/restart", "Restart a taskgroup in place", answer=CommandMessages
)
@table.write("POST", "/taskgroup/{taskgroup}/restart", "Restart a taskgroup in place", answer=CommandMessages)
async def restart_taskgroup(call: Call) -> Answer:
    return await _send_to_one(call, CommandContent("restart", {}))


@table.write(
    "POST",
    f"{APPLICATION}/taskgroups/{{taskgroup}}/reload",
    "Reload the processes of a taskgroup",
    answer=CommandMessages,
)
@table.write("POST", "/taskgroup/{taskgroup}/reload", "Reload the processes of a taskgroup", answer=CommandMessages)
async def reload_taskgroup(call: Call) -> Answer:
    return await _send_to_one(call, CommandContent("reload", {}))


@table.write(
    "POST",
    "/image/commit/{taskgroup}",
    "Commit containers as a new image and push it",
    query=(IMAGE, URL),
    answer=CommandMessages,
)
async def commit_image(call: Call) -> Answer:
    """The registry's account is that of the container (its imagePullUser and imagePullPasswd)."""
    image, url = call.query.get("image", ""), call.query.get("url", "")
    for name, value in (("image", image), ("url", url)):
        if not value or not value.isprintable() or " " in value:
            raise bad_parameter(name, "is required: an image reference")
    group = _find(call)
    version = call.state().version(group.application_key, group.version)
    images = [container.image for container in version.containers] if version is not None else []
    if version is None or image not in images:
        known = ", ".join(filter(None, images))
        listed = f"they are {known}" if known else "it has none"
        raise bad_parameter("image", f"is not an image of the taskgroup's containers; {listed}")
    account = _registry_account(call, version, images.index(image))
    body = {"target": url, "user": account.user, "password": account.password}
    return await _send_to_one(call, CommandContent("commit", body), image)


def _registry_account(call: Call, version: Version, index: int) -> Credentials:
    """Registry credentials of the container with that index, with the present content of its secrets. Raises ApiError
    (409)."""
    try:
        found = inject(call.state(), version)
    except Missing as error:
        raise ApiError(Reason.CONFLICT, str(error)) from None
    return found[index].registry if found else Credentials()


@table.read("/message/{id}", "Fetch a message with its result", answer=MessageView)
def get_message(call: Call) -> Answer:
    state = call.state()
    message = state.messages.get(call.path["id"])
    if message is None:
        raise not_found("message", call.path["id"])
    return Answer(show_message(message, state.commands.get(message.command)))


@table.read(
    f"{APPLICATION}/messages",
    "List the messages to an application's taskgroups, oldest first",
    query=(LIMIT, CONTINUE),
    answer=list[MessageView],
)
@table.read(
    f"{APPS}/messages",
    "List the messages to an application's taskgroups, oldest first",
    query=(LIMIT, CONTINUE),
    answer=list[MessageView],
)
def list_messages(call: Call) -> Answer:
    state = call.state()
    application = find_application(state, call.path["ns"], call.path["name"])
    told = state.in_order(Command, (application.namespace, application.name))
    commands = {command.id: command for _, command in told}
    found = [message for identity in commands for message in list(state.messages_of(identity).values())]
    return page(found, message_order, call.query, lambda message: show_message(message, commands[message.command]))


def _find(call: Call) -> TaskGroup:
    """The taskgroup of the path, which must belong to the application of the path if that names one."""
    identity = call.path["taskgroup"]
    group = call.state().taskgroups.get(identity)
    owner = (call.path.get("ns"), call.path.get("name"))
    if group is None or owner not in ((None, None), (group.namespace, group.application)):
        raise not_found("taskgroup", identity)
    return group


async def _send_to_one(call: Call, content: CommandContent, image: str = "") -> Answer:
    group = _find(call)
    return await _send(call, group.namespace, group.application, content, (group.id,), image)


async def _send(
    call: Call,
    namespace: str,
    name: str,
    content: CommandContent,
    taskgroups: tuple[str, ...] = (),
    image: str = "",
) -> Answer:
    reply = await call.reply(
        CreateCommand(
            namespace=namespace,
            name=name,
            type=content.type,
            body=content.body,
            taskgroups=taskgroups,
            image=image,
            timeout=COMMIT_SECONDS if content.type == "commit" else call.settings.answer_timeout,
            reserve=call.settings.reserve,
        )
    )
    _refuse_failures(reply.data)
    return accepted(reply)


def _refuse_failures(data: Any) -> None:
    """Raises ApiError (409) if some taskgroups certainly will not do it."""
    messages = data.get("messages", []) if isinstance(data, dict) else []
    failed = [Problem(m["taskgroup"], m["message"]) for m in messages if m["status"] == "failed"]
    if failed:
        words = f"{len(failed)} of {counted(len(messages), 'taskgroup')}: {failed[0].message}"
        raise ApiError(Reason.CONFLICT, words, failed, extra=data)
