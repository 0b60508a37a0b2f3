"""`bcs exec`: a command in running taskgroups."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

import click

from bcs_scheduler.cli.client import Accepted, Json
from bcs_scheduler.cli.complete import target_names
from bcs_scheduler.cli.documents import Document, owner_of
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.handling import Handling, UpdateOptions
from bcs_scheduler.cli.instructing import Outcome, outcomes, raise_failures, wait_for_outcome
from bcs_scheduler.cli.lookup import Target, find_command, find_target, owner_target
from bcs_scheduler.cli.options import Session, connection_options, pass_session
from bcs_scheduler.cli.output import print_data

RESERVE = 60
"""Minutes the outcome stays readable with `bcs get commands`."""
LIMIT = 60.0
"""Seconds a command may run."""
ANSWER = 60.0
"""Seconds an answer may be late, beyond the time that the command itself may take."""


@click.command("exec")
@click.argument("target", metavar="TASKGROUP|OWNER", shell_complete=target_names)
@click.argument("argv", nargs=-1, required=True, metavar="-- ARGV...")
@click.option("-t", "--task", default="", metavar="TASK", help="Show only what this task (name or number) answers.")
@click.option("--image", default="", metavar="TEXT", help="Only in tasks whose image contains TEXT.")
@click.option("-u", "--user", default="", metavar="USER", help="As this user. Default: that of the task.")
@click.option("-w", "--workdir", default="", metavar="PATH", help="In this folder. Default: that of the task.")
@click.option("-e", "--env", multiple=True, metavar="NAME=VALUE", help="Additional variable; may be repeated.")
@click.option("--privileged", is_flag=True, help="With extended privileges, in a container.")
@click.option("--detach", is_flag=True, help="Print the id of the command instead of waiting for it.")
@click.option("-o", "--output", type=click.Choice(("text", "json", "yaml")), default="text", help="Default: text.")
@connection_options
@pass_session
def execute(
    session: Session,
    target: str,
    argv: tuple[str, ...],
    task: str,
    image: str,
    user: str,
    workdir: str,
    env: tuple[str, ...],
    privileged: bool,
    detach: bool,
    output: str,
) -> None:
    """Run ARGV in a taskgroup, or in all running taskgroups of a deployment or application.

    In one task: prints its output as it is and exits with its exit code (128 and more: by a signal). In several: each
    line with the name of the taskgroup, exit code 1 if any failed. Output is shown when the command has ended, and cut
    off at a limit. After --timeout (default 60s) it is killed.
    """
    if any("=" not in assignment for assignment in env):
        raise UsageError("-e takes NAME=VALUE")
    limit = session.timeout or LIMIT
    found = find_target(session.client, session.namespace, target)
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
    told = session.client.run_command(found.namespace, found.name, document, kind=found.kind)
    if detach:
        session.say(told.command)
        return
    answers = wait_for_outcome(session, found, told, argv[0], limit + ANSWER)
    if task:
        answers = _of_task(found, answers, task)
    click.get_current_context().exit(show(session, answers, output))


def show(session: Session, answers: Sequence[Outcome], form: str) -> int:
    """The exit code."""
    code = answers[0].code if len(answers) == 1 else int(any(answer.code for answer in answers))
    if form != "text":
        print_data(session.out, [answer.shown() for answer in answers], form)
        return code
    for answer in answers:
        prefix = f"{answer.name} | " if len(answers) > 1 else ""
        _write(sys.stdout, answer.stdout, prefix)
        _write(sys.stderr, answer.stderr, prefix)
        for note in _notes(answer, several=len(answers) > 1):
            session.err.print(f"{prefix}{note}", style="yellow", markup=False)
    return code


def show_command(session: Session, command: Json, form: str) -> int:
    """Of a command that has been run, from its record."""
    return show(session, outcomes(command), form)


def _running(target: Target) -> list[str]:
    """Empty = all: that one is not running is for the server to say if it was named, or if none is."""
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


def _write(stream: TextIO, text: str, prefix: str) -> None:
    if not prefix:
        stream.write(text)
    else:
        stream.writelines(f"{prefix}{line}\n" for line in text.splitlines())
    stream.flush()


def _notes(answer: Outcome, *, several: bool) -> list[str]:
    """What the output does not say itself."""
    notes = []
    if answer.truncated:
        notes.append("output was cut off; let the command write a file and fetch it with bcs cp")
    if answer.exit_code is None or not answer.ok:
        if answer.message or not answer.ok:
            notes.append(answer.message or "failed")
    elif several and answer.code:
        notes.append(f"exit code {answer.code}")
    return notes


# --- documents of kind Command ------------------------------------------------------------------------------------


def _apply(session: Session, document: Document, dry_run: bool) -> Accepted:
    kind = owner_of(document)
    told = session.client.run_command(document.namespace, document.name, document.body, kind=kind, dry_run=dry_run)
    session.report("command", told.command, "started", "dry run" if dry_run else "", dryRun=dry_run)
    return Accepted("", (kind, told))


def _update(session: Session, document: Document, options: UpdateOptions) -> Accepted:
    raise UsageError(f"{document.source}: a Command is not updated but applied")


def _forget(session: Session, namespace: str, identity: str, enforce: bool, dry_run: bool) -> Accepted:
    found = find_command(session.client, namespace, identity)["spec"]["commandTargetRef"]
    accepted = session.client.forget_command(
        found["namespace"], found["name"], identity, kind=found.get("kind", "application").lower(), dry_run=dry_run
    )
    session.report("command", identity, "forgotten", "dry run" if dry_run else "", dryRun=dry_run)
    return accepted


def _settle(session: Session, namespace: str, name: str, accepted: Accepted) -> None:
    kind, told = accepted.data
    found = wait_for_outcome(session, owner_target(session.client, namespace, kind, name), told, name)
    raise_failures(f"command {told.command}", found)
    session.report("command", told.command, "finished", outcomes=[each.shown() for each in found])


COMMANDS = Handling(_apply, _update, _forget, _settle)
