"""Commands that are run in running taskgroups, and the record of all documents that were sent to executors.

Commands to a deployment go to the taskgroups of both its applications.
"""

from __future__ import annotations

from bcs_scheduler.api.documents.commands import CommandDocument, Owner, read_command, to_command_content
from bcs_scheduler.api.http.errors import bad_parameter, not_found
from bcs_scheduler.api.http.operation import CONTINUE, LIMIT, Answer, Call, Param, Table
from bcs_scheduler.api.reading.query import page
from bcs_scheduler.api.routes.applications import find_application
from bcs_scheduler.api.routes.deployments import DEPLOYMENT, find_deployment
from bcs_scheduler.api.routes.messages import CommandMessages
from bcs_scheduler.api.views.messages import CommandView, show_command
from bcs_scheduler.core.interface.requests import CreateCommand, DeleteCommand
from store.ids import object_key
from store.records import Command
from store.state.reader import StateReader

table = Table("commands")
COMMAND = "/command/application/{ns}/{name}"
OF_DEPLOYMENT = "/command/deployment/{ns}/{name}"
ID = Param("id", "text", "Id of the command.")


@table.write(
    "POST", COMMAND, "Run a command in taskgroups of an application", body=CommandDocument, answer=CommandMessages
)
async def run_command(call: Call) -> Answer:
    return await _run(call, "application")


@table.write(
    "POST", OF_DEPLOYMENT, "Run a command in taskgroups of a deployment", body=CommandDocument, answer=CommandMessages
)
async def run_command_of_deployment(call: Call) -> Answer:
    return await _run(call, "deployment")


async def _run(call: Call, owner: Owner) -> Answer:
    spec = read_command(call.body, call.path["ns"], call.path["name"], owner, call.problems)
    content = to_command_content(spec)
    command = CreateCommand(
        namespace=call.path["ns"],
        name=call.path["name"],
        owner=owner,
        type=content.type,
        body=content.body,
        taskgroups=spec.taskgroups,
        image=spec.command_target_ref.image,
        timeout=spec.timeout or call.settings.answer_timeout,
        reserve=spec.reserve_time * 60.0 or call.settings.reserve,
    )
    return await call.submit(command)


@table.read(COMMAND, "Fetch a command with its results", query=(ID,), answer=CommandView)
def get_command(call: Call) -> Answer:
    return Answer(show_command(call.state(), _find(call, "application")))


@table.read(OF_DEPLOYMENT, "Fetch a command with its results", query=(ID,), answer=CommandView)
def get_command_of_deployment(call: Call) -> Answer:
    return Answer(show_command(call.state(), _find(call, "deployment")))


@table.read(
    "/namespaces/{ns}/applications/{name}/commands",
    "List the commands to the executors of an application, oldest first",
    query=(LIMIT, CONTINUE),
    answer=list[CommandView],
)
@table.read(
    "/commands/application/{ns}/{name}",
    "List the commands to the executors of an application, oldest first",
    query=(LIMIT, CONTINUE),
    answer=list[CommandView],
)
def list_commands(call: Call) -> Answer:
    state = call.state()
    application = find_application(state, call.path["ns"], call.path["name"])
    return _list(call, state, {("application", application.namespace, application.name)})


@table.read(
    f"{DEPLOYMENT}/commands",
    "List the commands to the executors of a deployment, oldest first",
    query=(LIMIT, CONTINUE),
    answer=list[CommandView],
)
def list_commands_of_deployment(call: Call) -> Answer:
    """Lists commands of the deployment and of its applications, such as new limits."""
    state = call.state()
    deployment = find_deployment(state, call.path["ns"], call.path["name"])
    own = ("deployment", deployment.namespace, deployment.name)
    return _list(call, state, {own, *(("application", deployment.namespace, name) for name in deployment.sides)})


def _list(call: Call, state: StateReader, meant: set[tuple[str, str, str]]) -> Answer:
    owners = {(namespace, name) for _, namespace, name in meant}
    found = [c for owner in owners for _, c in state.in_order(Command, owner) if _target(c) in meant]
    return page(found, order, call.query, lambda command: show_command(state, command))


@table.write(
    "DELETE", COMMAND, "Delete the record of a command; running programs on agents continue", query=(ID,), status=200
)
async def delete_command(call: Call) -> Answer:
    return await _delete(call, "application")


@table.write(
    "DELETE",
    OF_DEPLOYMENT,
    "Delete the record of a command; running programs on agents continue",
    query=(ID,),
    status=200,
)
async def delete_command_of_deployment(call: Call) -> Answer:
    return await _delete(call, "deployment")


async def _delete(call: Call, owner: Owner) -> Answer:
    command = _find(call, owner)
    reply = await call.reply(DeleteCommand(id=command.id))
    return Answer(reply.data)


def order(command: Command) -> tuple[str | int, ...]:
    return int(command.created_at * 1000), command.id


def _target(command: Command) -> tuple[str, str, str]:
    return command.owner, command.namespace, command.application


def _find(call: Call, owner: Owner) -> Command:
    """Finds a command of the object in the path; a command of another object counts as absent
    (docs/original.md#commands)."""
    identity = call.query.get("id", "")
    if not identity:
        raise bad_parameter("id", "is required")
    command = call.state().commands.get(identity)
    if command is None or _target(command) != (owner, call.path["ns"], call.path["name"]):
        raise not_found("command", f"{identity} of {owner} {object_key(call.path['ns'], call.path['name'])}")
    return command
