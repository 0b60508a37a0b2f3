"""Requests for commands: each writes a Command record and one Message record per taskgroup.

core.controllers.cluster.message_sender sends the messages that can be sent once they are durable; the others are
written as failed at once, with the reason. The command is written first. Its messages follow in slices, over as many
turns as necessary, each message together with the change of its taskgroup. After a crash in between, the user has no
answer, and the command has fewer messages than `targets`, which shows that it was not carried out everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.ended_commands import remove
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.requests.answers import Data, Handlers
from store.ids import command_id, object_key
from store.records import Application, Command, CommandType, Message, TaskGroup, Version
from store.records.definition import Amounts
from transactions import base
from transactions.base import Refusal, Refused
from transactions.text import counted

Owner = tuple[Literal["application", "deployment"], str, str]
"""Kind, namespace, name."""

COMMAND_BYTES = 300_000
"""Largest body of a command: it is stored with it, and sent to every taskgroup."""
RESOURCES_RESERVE = 86400.0
"""Seconds the outcome of a change of limits in place stays readable."""
RESOURCES_TIMEOUT = 60.0
PATH = "$.spec.template.spec.containers[{}].resources"


def create(turn: TurnContext, asked: requests.CreateCommand) -> Data:
    """Writes a command with one message per taskgroup, in slices. Raises Refused (not_found, conflict, invalid,
    too_many_open)."""
    applications = _targets(turn, asked)
    for application in applications:
        if asked.type in ("restart", "reload") and application.status in ("Operating", "RollingUpdate"):
            raise Refused("conflict", f"cannot {asked.type} {application.key} while it is {application.status}")
    owner = f"{asked.owner} {object_key(asked.namespace, asked.name)}"
    groups = _members(turn, owner, applications, asked.taskgroups)
    command = _command(
        turn,
        (asked.owner, asked.namespace, asked.name),
        asked.type,
        asked.body,
        asked.timeout,
        asked.reserve,
        image=asked.image,
        targets=len(groups),
    )
    return _write(turn, command, groups, asked.dry_run)


def delete(turn: TurnContext, asked: requests.DeleteCommand) -> Data:
    """Removes a command with its messages, in slices. Raises Refused (not_found)."""
    command = turn.state.commands.get(asked.id)
    if command is None:
        raise Refused("not_found", f"command {asked.id} does not exist")
    if not asked.dry_run:
        turn.later(remove(turn, command))
    return {"commandID": command.id, "namespace": command.namespace, "name": command.application}


def change_limits(turn: TurnContext, asked: requests.UpdateApplication) -> Data:
    """Changes the limits of running containers. Stores the given definition as the newest version of the application.
    Moves to this version each taskgroup whose definition differs from it in nothing but limits, and sends the new
    limits to the executor of the taskgroup; a taskgroup that has ended is moved without a message, for its
    replacement. A taskgroup that cannot get the message (it is starting, its agent is unreachable, or the cluster
    manager's own executor runs it) keeps the version whose limits it has, or gets that version back
    (`restore_version`); the next update replaces it like a taskgroup of any older version.

    Returns ids of version, command and messages; ``unchanged`` if nothing differs. Raises Refused (not_found,
    conflict, invalid, too_many_open)."""
    application = _application(turn, asked.version.namespace, asked.version.application)
    base.refuse_if_busy(turn.context, application, "change resources of")
    newest = turn.state.version(application.key, application.version)
    if newest is None:
        raise Refused("not_found", f"application {application.key} has no version {application.version}")
    wanted = with_requests_kept(newest, asked.version, asked.requests_left_out)
    _refuse_other_changes(newest, wanted, application)
    version = newest
    if not _alike(newest.containers, wanted.containers):
        version = msgspec.structs.replace(
            wanted,
            name=str(turn.ids.next(turn.now)),
            created_at=turn.now,
            instances=application.instances,
        )
    groups = _outdated(turn, application, version)
    if version is newest and not groups:
        return {"unchanged": True, "namespace": application.namespace, "name": application.name}
    if version is not newest:
        turn.uow.put(version)
        turn.uow.put(msgspec.structs.replace(application, version=version.name, updated_at=turn.now))
    receivers = [group for group in groups if not group.ended]
    for group in groups:
        if group.ended:
            turn.uow.put(msgspec.structs.replace(group, version=version.name))
    limits = [
        {"index": index, "cpus": container.limits.cpus, "mem": container.limits.mem}
        for index, container in enumerate(version.containers)
    ]
    place = {"namespace": application.namespace, "name": application.name, "version": version.name}
    if not receivers:
        return {**place, "commandID": "", "messages": []}
    command = _command(
        turn,
        ("application", application.namespace, application.name),
        "resources",
        {"limits": limits},
        RESOURCES_TIMEOUT,
        RESOURCES_RESERVE,
        version=version.name,
        targets=len(receivers),
    )
    return {**place, **_write(turn, command, receivers, asked.dry_run)}


# --- receivers ----------------------------------------------------------------------------------------------------


def _application(turn: TurnContext, namespace: str, name: str) -> Application:
    application = turn.state.applications.get(object_key(namespace, name))
    if application is None:
        raise Refused("not_found", f"application {object_key(namespace, name)} does not exist")
    return application


def _targets(turn: TurnContext, asked: requests.CreateCommand) -> list[Application]:
    """The application, or those of the deployment."""
    if asked.owner == "application":
        return [_application(turn, asked.namespace, asked.name)]
    deployment = turn.state.deployments.get(object_key(asked.namespace, asked.name))
    if deployment is None:
        raise Refused("not_found", f"deployment {object_key(asked.namespace, asked.name)} does not exist")
    keys = [object_key(deployment.namespace, name) for name in deployment.sides]
    return [turn.state.applications[key] for key in keys if key in turn.state.applications]


def _members(turn: TurnContext, owner: str, applications: list[Application], named: tuple[str, ...]) -> list[TaskGroup]:
    """`owner`: kind and key, for messages."""
    members = {id: group for each in applications for id, group in turn.state.groups_of(each.key).items()}
    if not named:
        if not members:
            raise Refused("conflict", f"{owner} has no taskgroups")
        return sorted(members.values(), key=lambda group: (group.index, group.id))
    problems = tuple(
        ("taskgroups", f"taskgroup {identity} does not belong to {owner}")
        for identity in dict.fromkeys(named)
        if identity not in members
    )
    if problems:
        reason: Refusal = (
            "invalid" if any(n in turn.state.taskgroups for n in named if n not in members) else "not_found"
        )
        raise Refused(reason, "; ".join(words for _, words in problems[:10]), problems=problems)
    return [members[identity] for identity in dict.fromkeys(named)]


def _outdated(turn: TurnContext, application: Application, version: Version) -> list[TaskGroup]:
    """Taskgroups whose definition differs from the version in nothing but limits."""
    near: dict[str, bool] = {version.name: False}
    for name, other in turn.state.versions_of(application.key).items():
        if name != version.name:
            near[name] = _same_but_limits(other, version)
    members = sorted(turn.state.groups_of(application.key).values(), key=lambda group: (group.index, group.id))
    return [group for group in members if near.get(group.version, False)]


# --- changes in place -----------------------------------------------------------------------------------------------


def with_requests_kept(newest: Version, wanted: Version, left_out: tuple[frozenset[str], ...]) -> Version:
    """The wanted version with the present requests where the document leaves them out. `left_out`: names of resources,
    one set per container; empty = the document has all of them."""
    containers = list(wanted.containers)
    for index, (names, before) in enumerate(zip(left_out, newest.containers, strict=False)):
        kept = {name: getattr(before.requests, name) for name in names}
        requests = msgspec.structs.replace(containers[index].requests, **kept)
        containers[index] = msgspec.structs.replace(containers[index], requests=requests)
    return msgspec.structs.replace(wanted, containers=tuple(containers))


def _refuse_other_changes(newest: Version, wanted: Version, application: Application) -> None:
    """Raises Refused (invalid) if more than limits differ. The cluster manager accounts for the requests, so they can
    only change with a new taskgroup."""
    if wanted.instances != application.instances:
        raise Refused(
            "invalid",
            f"limits change in place without a change of instances ({application.instances}, not {wanted.instances})",
            "$.spec.instance",
        )
    pairs = list(zip(newest.containers, wanted.containers, strict=False))
    problems = tuple(
        (
            PATH.format(index) + ".requests",
            f"requests of container {index} cannot change in place, only limits can",
        )
        for index, (before, after) in enumerate(pairs)
        if before.requests != after.requests or before.extended != after.extended
    ) + tuple(
        (PATH.format(index) + ".limits", f"limits of container {index} are below its requests")
        for index, container in enumerate(wanted.containers)
        if any(
            0 < getattr(container.limits, name) < getattr(container.requests, name)
            for name in Amounts.__struct_fields__
        )
    )
    if problems:
        raise Refused("invalid", "; ".join(words for _, words in problems), problems=problems)
    if not _same_but_limits(newest, wanted):
        raise Refused("invalid", "only limits of containers can change in place, other fields differ as well", "$.spec")


def _same_but_limits(one: Version, other: Version) -> bool:
    return msgspec.structs.replace(
        one, name="", created_at=0.0, raw="", instances=0, containers=(), schema=other.schema, extra=other.extra
    ) == msgspec.structs.replace(other, name="", created_at=0.0, raw="", instances=0, containers=()) and _alike(
        [msgspec.structs.replace(c, limits=c.requests) for c in one.containers],
        [msgspec.structs.replace(c, limits=c.requests) for c in other.containers],
    )


def _alike(one: Iterable[Any], other: Iterable[Any]) -> bool:
    return list(one) == list(other)


# --- writing --------------------------------------------------------------------------------------------------------


def _command(
    turn: TurnContext,
    owner: Owner,
    kind: CommandType,
    body: Data,
    timeout: float,
    reserve: float,
    *,
    targets: int,
    image: str = "",
    version: str = "",
) -> Command:
    size = len(msgspec.json.encode(body))
    if size > COMMAND_BYTES:
        raise Refused("invalid", f"the {kind} has {size} bytes, of {COMMAND_BYTES} allowed")
    turn.require("opencommands")
    turn.open_commands.check_bounds(owner[1])
    deadline = turn.now + timeout + turn.options.answer_timeout
    return turn.uow.put(
        Command(
            id=command_id(*owner, turn.ids.next(turn.now)),
            type=kind,
            owner=owner[0],
            namespace=owner[1],
            application=owner[2],
            body=body,
            image=image,
            version=version,
            targets=targets,
            cause=turn.cause,
            created_at=turn.now,
            timeout=timeout,
            deadline=deadline,
            keep_until=max(deadline, turn.now + reserve),
        )
    )


def _write(turn: TurnContext, command: Command, groups: list[TaskGroup], dry_run: bool) -> Data:
    """The answer. Its messages are written after it has been made, one with each step."""
    written: list[Data] = []
    work = _messages(turn, command, groups, written, dry_run)
    next(work)
    turn.later(work)
    turn.record_event(
        "command", command.id, "CommandAccepted", f"{command.type} for {counted(len(groups), 'taskgroup')}"
    )
    return {"commandID": command.id, "messages": written}


def _messages(
    turn: TurnContext, command: Command, groups: list[TaskGroup], written: list[Data], dry_run: bool
) -> Iterator[None]:
    """Writes one message for each taskgroup and lists it in `written`. Taskgroups whose executors can get the message
    are moved to the version of the command, if it has one. A dry run writes nothing. The first step only marks the
    command as incomplete."""
    try:
        if not dry_run:
            turn.incomplete.add(command.id)
            turn.open_commands.begin(command.id, len(groups))
        yield
        for known in groups:
            if not dry_run and command.id not in turn.incomplete:
                raise Refused("conflict", f"command {command.id} was deleted before all its messages were written")
            group = turn.state.taskgroups.get(known.id)
            message = _message(turn, command, group or known, gone=group is None)
            if not dry_run:
                _move_to_version(turn, command, message, group)
            receivers = {"taskgroup": known.id, "messageID": message.id, "status": message.status}
            written.append({**receivers, "message": message.message})
            yield
    finally:
        turn.incomplete.discard(command.id)
        turn.open_commands.written(command.id)


def _move_to_version(turn: TurnContext, command: Command, message: Message, group: TaskGroup | None) -> None:
    if message.previous and message.open and group is not None:
        _supersede(turn, group)
        turn.uow.put(msgspec.structs.replace(group, version=command.version))
    turn.uow.put(message)
    if not message.open:
        _count_failure(turn, command)
    turn.checkpoint()


def _supersede(turn: TurnContext, group: TaskGroup) -> None:
    """Earlier limits that the taskgroup has not confirmed are sent no more: repeated after the new ones, they would
    replace them."""
    for message in list(turn.state.open_messages_of(group.id).values()):
        command = turn.state.commands.get(message.command)
        if command is not None and command.version:
            words = "limits were changed again before the executor answered"
            turn.uow.put(msgspec.structs.replace(message, status="failed", message=words, completed_at=turn.now))
            _count_failure(turn, command)


def _message(turn: TurnContext, command: Command, group: TaskGroup, *, gone: bool) -> Message:
    """`gone`: the taskgroup is recorded no more."""
    version = turn.state.version(group.application_key, group.version)
    tasks = tuple(
        task.id
        for index, task in enumerate(group.tasks)
        if not task.ended and (not command.image or command.image in _image(version, index))
    )
    objection = "the taskgroup has ended" if gone else _objection(turn, command, group, tasks)
    return Message(
        id=str(turn.ids.next(turn.now)),
        command=command.id,
        taskgroup=group.id,
        tasks=tasks,
        previous=group.version if command.version else "",
        status="failed" if objection else "staging",
        message=objection,
        created_at=turn.now,
        completed_at=turn.now if objection else 0.0,
    )


def _count_failure(turn: TurnContext, command: Command) -> None:
    turn.count("message_completed", (command.namespace, command.application, command.type, "failed"), 1.0)


def _objection(turn: TurnContext, command: Command, group: TaskGroup, tasks: tuple[str, ...]) -> str:
    if group.executor != "bcs" or not turn.options.traits.messages:
        return "it is run by the executor of the cluster manager, which takes no messages"
    if group.killing_since:
        return "the taskgroup is being ended"
    if group.status != "Running":
        return f"the taskgroup is {group.status}, not Running"
    return "" if tasks else f"no task of it has an image with {command.image!r} in its name"


def _image(version: Version | None, index: int) -> str:
    return version.containers[index].image if version is not None and index < len(version.containers) else ""


HANDLERS: Handlers = {
    requests.CreateCommand: create,
    requests.DeleteCommand: delete,
}
