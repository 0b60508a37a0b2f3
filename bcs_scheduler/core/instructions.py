"""Commands that tell executors to do something: they write a Command and one Message per taskgroup.

The messages that can be sent are sent by core.controllers.messenger once they are durable; the others are written as
failed at once, with the reason. The command comes first; its messages follow in slices, in as many turns as that takes,
each message together with what it changes of its taskgroup. A crash in between leaves its user without an answer and a
command with fewer messages than it has `targets`: whoever reads it sees that it was not carried out everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from bcs_scheduler.core import events
from bcs_scheduler.core.desk import Desk
from store.ids import command_id
from store.records import Application, Command, CommandType, Message, TaskGroup, Version
from transactions import base
from transactions.base import Refused

Data = dict[str, Any]
Owner = tuple[Literal["application", "deployment"], str, str]
"""Kind, namespace, name."""

COMMAND_BYTES = 300_000
"""Largest body of a command: it is stored with it, and sent to every taskgroup."""
RESOURCES_RESERVE = 86400.0
"""Seconds the outcome of a change of limits in place stays readable."""
RESOURCES_TIMEOUT = 60.0
PATH = "$.spec.template.spec.containers[{}].resources"


def instruct(desk: Desk, asked: events.Instruct) -> Data:
    applications = _targets(desk, asked)
    for application in applications:
        if asked.type in ("restart", "reload") and application.status in ("Operating", "RollingUpdate"):
            raise Refused("conflict", f"cannot {asked.type} {application.key} while it is {application.status}")
    owner = f"{asked.owner} {asked.namespace}/{asked.name}"
    groups = _members(desk, owner, applications, asked.taskgroups)
    command = _command(
        desk,
        (asked.owner, asked.namespace, asked.name),
        asked.type,
        asked.body,
        asked.timeout,
        asked.reserve,
        image=asked.image,
        targets=len(groups),
    )
    return _write(desk, command, groups, asked.dry_run)


def forget(desk: Desk, asked: events.DeleteCommand) -> Data:
    command = desk.state.commands.get(asked.id)
    if command is None:
        raise Refused("not_found", f"command {asked.id} does not exist")
    if not asked.dry_run:
        desk.later(discard(desk, command))
    return {"commandID": command.id, "namespace": command.namespace, "name": command.application}


def discard(desk: Desk, command: Command) -> Iterator[None]:
    """Removes a command after its messages, one with each step: no message ever lacks its command, also if messages are
    still being written."""
    desk.incomplete.discard(command.id)
    while keys := list(desk.state.messages_of(command.id)):
        for key in keys:
            message = desk.state.messages.get(key)
            if message is None:
                continue
            if message.open:
                take_back(desk, command, message)
            desk.uow.delete(message)
            desk.checkpoint()
            yield
    desk.uow.delete(command)
    desk.checkpoint()


def take_back(desk: Desk, command: Command, message: Message) -> None:
    """A taskgroup that lives on without having taken its new limits gets the version back whose limits it has: the
    same request tells it again, an update replaces it. One that did not answer may have taken them; to be told twice
    does no harm."""
    group = desk.state.taskgroups.get(message.taskgroup)
    if group is None or group.ended or not message.previous or group.version != command.version:
        return
    if desk.state.version(f"{group.namespace}/{group.application}", message.previous) is not None:
        desk.uow.put(msgspec.structs.replace(group, version=message.previous))


def change_limits(desk: Desk, asked: events.UpdateApplication) -> Data:
    """Changes limits in place. The newest definition becomes the given one; every taskgroup that runs a definition that
    differs from it in nothing but limits is moved to it and told. Of the others, those that have ended are moved too,
    for their replacement; those that cannot be told (they are starting, or away, or run by Mesos's executor) keep the
    version whose limits they have, or get it back (`take_back`), and an update replaces them like those of any older
    version."""
    application = _application(desk, asked.version.namespace, asked.version.application)
    base.refuse_if_busy(desk.context, application, "change resources of")
    newest = desk.state.version(application.key, application.version)
    if newest is None:
        raise Refused("not_found", f"application {application.key} has no version {application.version}")
    _refuse_other_changes(newest, asked.version, application)
    version = newest
    if not _alike(newest.containers, asked.version.containers):
        version = msgspec.structs.replace(
            asked.version,
            name=str(desk.ids.next(desk.now)),
            created_at=desk.now,
            instances=application.instances,
        )
    groups = _outdated(desk, application, version)
    if version is newest and not groups:
        return {"unchanged": True, "namespace": application.namespace, "name": application.name}
    if version is not newest:
        desk.uow.put(version)
        desk.uow.put(msgspec.structs.replace(application, version=version.name, updated_at=desk.now))
    told = [group for group in groups if not group.ended]
    for group in groups:
        if group.ended:
            desk.uow.put(msgspec.structs.replace(group, version=version.name))
    limits = [
        {"index": index, "cpus": container.limits.cpus, "mem": container.limits.mem}
        for index, container in enumerate(version.containers)
    ]
    place = {"namespace": application.namespace, "name": application.name, "version": version.name}
    if not told:
        return {**place, "commandID": "", "messages": []}
    command = _command(
        desk,
        ("application", application.namespace, application.name),
        "resources",
        {"limits": limits},
        RESOURCES_TIMEOUT,
        RESOURCES_RESERVE,
        version=version.name,
        targets=len(told),
    )
    return {**place, **_write(desk, command, told, asked.dry_run)}


# --- whom it concerns ---------------------------------------------------------------------------------------------


def _application(desk: Desk, namespace: str, name: str) -> Application:
    application = desk.state.applications.get(f"{namespace}/{name}")
    if application is None:
        raise Refused("not_found", f"application {namespace}/{name} does not exist")
    return application


def _targets(desk: Desk, asked: events.Instruct) -> list[Application]:
    """The application, or those of the deployment."""
    if asked.owner == "application":
        return [_application(desk, asked.namespace, asked.name)]
    deployment = desk.state.deployments.get(f"{asked.namespace}/{asked.name}")
    if deployment is None:
        raise Refused("not_found", f"deployment {asked.namespace}/{asked.name} does not exist")
    keys = [f"{deployment.namespace}/{name}" for name in (deployment.application, deployment.successor) if name]
    return [desk.state.applications[key] for key in keys if key in desk.state.applications]


def _members(desk: Desk, owner: str, applications: list[Application], named: tuple[str, ...]) -> list[TaskGroup]:
    """`owner`: kind and key, for messages."""
    members = {id: group for each in applications for id, group in desk.state.groups_of(each.key).items()}
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
        reason = "invalid" if any(n in desk.state.taskgroups for n in named if n not in members) else "not_found"
        raise Refused(reason, "; ".join(words for _, words in problems[:10]), problems=problems)
    return [members[identity] for identity in dict.fromkeys(named)]


def _outdated(desk: Desk, application: Application, version: Version) -> list[TaskGroup]:
    """Taskgroups whose definition differs from the version in nothing but limits."""
    near: dict[str, bool] = {version.name: False}
    for name, other in desk.state.versions_of(application.key).items():
        if name != version.name:
            near[name] = _same_but_limits(other, version)
    members = sorted(desk.state.groups_of(application.key).values(), key=lambda group: (group.index, group.id))
    return [group for group in members if near.get(group.version, False)]


# --- what may change in place ---------------------------------------------------------------------------------------


def _refuse_other_changes(newest: Version, wanted: Version, application: Application) -> None:
    """Requests are what Mesos accounts for: they can only change with a new taskgroup."""
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
            f"requests of container {index} cannot change in place, only limits can; requests that are left out"
            " equal the limits",
        )
        for index, (before, after) in enumerate(pairs)
        if before.requests != after.requests or before.extended != after.extended
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
    desk: Desk,
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
    deadline = desk.now + timeout + desk.options.answer_timeout
    return desk.uow.put(
        Command(
            id=command_id(*owner, desk.ids.next(desk.now)),
            type=kind,
            owner=owner[0],
            namespace=owner[1],
            application=owner[2],
            body=body,
            image=image,
            version=version,
            targets=targets,
            cause=desk.cause,
            created_at=desk.now,
            timeout=timeout,
            deadline=deadline,
            keep_until=max(deadline, desk.now + reserve),
        )
    )


def _write(desk: Desk, command: Command, groups: list[TaskGroup], dry_run: bool) -> Data:
    """The answer. Its messages are written after it has been made, one with each step."""
    written: list[Data] = []
    work = _messages(desk, command, groups, written, dry_run)
    next(work)
    desk.later(work)
    desk.tell("command", command.id, "accepted", f"{command.type} for {len(groups)} taskgroups")
    return {"commandID": command.id, "messages": written}


def _messages(
    desk: Desk, command: Command, groups: list[TaskGroup], written: list[Data], dry_run: bool
) -> Iterator[None]:
    """One message for each taskgroup, which `written` tells. Those that can be told are moved to the version of the
    command, if it has one. A plan writes nothing. The first step only notes that the command is incomplete."""
    try:
        if not dry_run:
            desk.incomplete.add(command.id)
        yield
        for known in groups:
            if not dry_run and command.id not in desk.incomplete:
                raise Refused("conflict", f"command {command.id} was deleted before all its messages were written")
            group = desk.state.taskgroups.get(known.id)
            message = _message(desk, command, group or known, gone=group is None)
            if not dry_run:
                _tell(desk, command, message, group)
            told = {"taskgroup": known.id, "messageID": message.id, "status": message.status}
            written.append({**told, "message": message.message})
            yield
    finally:
        desk.incomplete.discard(command.id)


def _tell(desk: Desk, command: Command, message: Message, group: TaskGroup | None) -> None:
    if message.previous and message.open and group is not None:
        _supersede(desk, group)
        desk.uow.put(msgspec.structs.replace(group, version=command.version))
    desk.uow.put(message)
    if not message.open:
        _count_failure(desk, command)
    desk.checkpoint()


def _supersede(desk: Desk, group: TaskGroup) -> None:
    """Earlier limits that the taskgroup has not confirmed are sent no more: repeated after the new ones, they would
    replace them."""
    for message in list(desk.state.open_messages_of(group.id).values()):
        command = desk.state.commands.get(message.command)
        if command is not None and command.version:
            words = "limits were changed again before the executor answered"
            desk.uow.put(msgspec.structs.replace(message, status="failed", message=words, completed_at=desk.now))
            _count_failure(desk, command)


def _message(desk: Desk, command: Command, group: TaskGroup, *, gone: bool) -> Message:
    """`gone`: the taskgroup is recorded no more."""
    version = desk.state.version(f"{group.namespace}/{group.application}", group.version)
    tasks = tuple(
        task.id
        for index, task in enumerate(group.tasks)
        if not task.ended and (not command.image or command.image in _image(version, index))
    )
    objection = "the taskgroup has ended" if gone else _objection(command, group, tasks)
    return Message(
        id=str(desk.ids.next(desk.now)),
        command=command.id,
        taskgroup=group.id,
        tasks=tasks,
        previous=group.version if command.version else "",
        status="failed" if objection else "staging",
        message=objection,
        created_at=desk.now,
        completed_at=desk.now if objection else 0.0,
    )


def _count_failure(desk: Desk, command: Command) -> None:
    desk.count("message_completed", (command.namespace, command.application, command.type, "failed"), 1.0)


def _objection(command: Command, group: TaskGroup, tasks: tuple[str, ...]) -> str:
    if group.executor == "mesos":
        return "it is run by Mesos's own executor, which takes no messages"
    if group.killing_since:
        return "the taskgroup is being ended"
    if group.status != "Running":
        return f"the taskgroup is {group.status}, not Running"
    return "" if tasks else f"no task of it has an image with {command.image!r} in its name"


def _image(version: Version | None, index: int) -> str:
    return version.containers[index].image if version is not None and index < len(version.containers) else ""


HANDLERS: Mapping[type[events.Command], Callable[[Desk, Any], dict[str, Any]]] = {
    events.Instruct: instruct,
    events.DeleteCommand: forget,
}
