"""`bcs exec`: runs a command in taskgroups."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from bcs_scheduler.cli.client.lookup import Target, find_target
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.arguments import target_names
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.kinds.objects.outcomes import Outcome, show, wait_for_outcome
from bcs_scheduler.cli.options import RenamedOption, connection_options, examples, pass_session
from bcs_scheduler.cli.session import Session

RESERVE = 60
"""Minutes during which `bcs get commands` shows the result."""
LIMIT = 60.0
"""Seconds that a command may run."""
ANSWER = 60.0
"""Seconds that are waited for an answer after the time limit of the command."""


@click.command(
    "exec",
    epilog=examples(
        "bcs exec -it web-0 -- sh",
        "bcs exec web-0 -- sh -c 'echo $PORT_http'",
        "echo hi | bcs exec -i web-0 -- cat",
        "bcs exec deployment/gallery --timeout 10s -- uptime",
    ),
)
@click.argument("target", metavar="TASKGROUP|WORKLOAD", shell_complete=target_names)
@click.argument("argv", nargs=-1, required=True, metavar="-- ARGV...")
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on to the command.")
@click.option("-t", "--tty", is_flag=True, help="Give the command a terminal; needs -i.")
@click.option(
    "--task",
    cls=RenamedOption,
    former=("-c", "--container"),
    default="",
    metavar="TASK",
    help="Run in this task, or print only its output (name or number).",
)
@click.option("--image", default="", metavar="TEXT", help="Run only in tasks whose image contains TEXT.")
@click.option("-u", "--user", default="", metavar="USER", help="User of the command. Default: the user of the task.")
@click.option(
    "-w", "--workdir", default="", metavar="PATH", help="Working directory. Default: the directory of the task."
)
@click.option(
    "-e", "--env", multiple=True, metavar="NAME=VALUE", help="An additional environment variable. May be repeated."
)
@click.option("--privileged", is_flag=True, help="Run with extended privileges in a container.")
@click.option("--detach", is_flag=True, help="Print the id of the command instead of waiting for it.")
@click.option(
    "-o", "--output", type=click.Choice(("text", "json", "yaml")), default="text", help="Output format. Default: text."
)
@connection_options
@pass_session
def execute(
    session: Session,
    target: str,
    argv: tuple[str, ...],
    stdin: bool,
    tty: bool,
    task: str,
    image: str,
    user: str,
    workdir: str,
    env: tuple[str, ...],
    privileged: bool,
    detach: bool,
    output: str,
) -> None:
    """Run ARGV in a taskgroup, or in all running taskgroups of a workload.

    In one task: bcs prints the output while it comes, and exits with the exit code of the command (128 plus the signal
    if a signal ended it). The command ends with bcs, or after --timeout. -it opens a terminal.

    In several tasks, with --image, --detach or -o: each line begins with the name of the taskgroup, and the exit code
    is 1 if any command failed. Output is printed when the command has ended, and is truncated at a limit. The command
    is killed after --timeout (default 60s).
    """
    if any("=" not in assignment for assignment in env):
        raise UsageError("-e takes NAME=VALUE")
    if tty:
        from bcs_scheduler.cli.commands.taskgroups.streams import check_terminal

        check_terminal(stdin, tty)
    limit = session.timeout or LIMIT
    found = find_target(session.client, session.namespace, target)
    if stdin or not (image or detach or output != "text"):
        document: Json = {"command": list(argv), "env": dict(a.split("=", 1) for a in env), "user": user}
        document |= {"workingDir": workdir, "privileged": privileged, "stdin": stdin}
        code = _in_session(session, found, document, task, tty)
        if code is not None:
            click.get_current_context().exit(code)
        if stdin:
            raise UsageError(f"{found.title} has several tasks: name a taskgroup, and its task with --task")
    spec = {
        "commandTargetRef": {
            "kind": found.kind.capitalize(),
            "namespace": found.namespace,
            "name": found.name,
            "image": image,
        },
        "taskgroups": _running(found),
        "command": list(argv),
        "env": list(env),
        "user": user,
        "workingDir": workdir,
        "privileged": privileged,
        "timeout": limit,
        "reserveTime": RESERVE,
    }
    document = {"apiVersion": "v4", "kind": "Command", "spec": spec}
    sent = session.client.run_command(found.namespace, found.name, document, kind=found.kind)
    if detach:
        session.say(sent.command)
        return
    answers = wait_for_outcome(session, found, sent, argv[0], limit + ANSWER)
    if task:
        answers = _of_task(found, answers, task)
    click.get_current_context().exit(show(session, answers, output))


def _in_session(session: Session, found: Target, document: Json, task: str, tty: bool) -> int | None:
    """The exit code of the command; None if the target is not one task, or the server does not offer sessions."""
    running = [group for group in found.taskgroups if found.one or group["Status"] == "Running"]
    if len(running) != 1 or (len(running[0]["Taskgroup"] or ()) != 1 and not task):
        return None
    from bcs_scheduler.cli.client.session_line import NoSessions
    from bcs_scheduler.cli.commands.taskgroups.streams import attend, terminal_size

    if tty:
        rows, columns = terminal_size()
        document = {**document, "tty": {"rows": rows, "columns": columns}}
        document["env"] = {"TERM": os.environ.get("TERM", "xterm"), **document["env"]}
    try:
        line = session.client.session(running[0]["ID"], "exec", document, task=task)
    except NoSessions:
        if document["stdin"]:
            raise
        return None
    return attend(line, stdin=document["stdin"], terminal=tty, seconds=session.timeout)


def _running(target: Target) -> list[str]:
    """Ids of the running taskgroups; empty = all. The server reports an error if none is running."""
    if target.one:
        return [target.taskgroup]
    running = [group["ID"] for group in target.taskgroups if group["Status"] == "Running"]
    return running if len(running) < len(target.taskgroups) else []


def _of_task(target: Target, answers: Sequence[Outcome], task: str) -> list[Outcome]:
    wanted = {
        found["ID"]
        for group in target.taskgroups
        for number, found in enumerate(group["Taskgroup"] or ())
        if task in (found["ID"], found["Name"], str(number))
    }
    kept = [answer for answer in answers if answer.task in wanted]
    if not kept:
        raise UsageError(f"{target.title} has no task {task}")
    return kept
