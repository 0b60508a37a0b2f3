"""`bcs run`: an application with one container or one process, without a document."""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath
from typing import Any

import click

from bcs_scheduler.cli import habits
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.changing import generate
from bcs_scheduler.cli.commands.taskgroups.detaching import detach_keys_option, parse_keys
from bcs_scheduler.cli.commands.taskgroups.foreground import attend_application
from bcs_scheduler.cli.commands.taskgroups.streams import check_terminal
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.options import (
    connection_options,
    examples,
    pass_session,
    reporting,
    validate_option,
    wait_option,
)
from bcs_scheduler.cli.session import Session

POLICIES = ("Never", "OnFailure", "Always")
OF_DOCKER = {"no": "Never", "on-failure": "OnFailure", "unless-stopped": "Always"}
"""Policies of `docker run --restart`."""


@click.command(
    cls=generate.CommandLine,
    epilog=examples(
        "bcs run nginx --port http:80 --wait",
        "bcs run -- python3 -m http.server 8000",
        "bcs run redis --name cache --instances 2 -- redis-server --save ''",
        "bcs run -it --rm busybox -- sh",
        "bcs run --name report --restart Never -- sh -c 'df -h /'",
    ),
)
@click.argument("image", required=False, metavar="[IMAGE]")
@click.option("--image", "other", default="", hidden=True, help="The image; the argument is the name then.")
@click.option("--name", default="", metavar="NAME", help="Name of the application. Default: that of image or program.")
@click.option("-i", "--stdin", is_flag=True, help="Open the input of the task, and attach to the task.")
@click.option("-t", "--tty", is_flag=True, help="Give the task a terminal; needs -i.")
@click.option("--rm", "remove", is_flag=True, help="With -i: delete the application when the task has ended.")
@click.option(
    "--restart",
    type=click.Choice((*POLICIES, *OF_DOCKER), case_sensitive=False),
    metavar="|".join(POLICIES),
    help="When a taskgroup that has ended is started again. Default: OnFailure, and Never with -i.",
)
@click.option("-d", "--detach", is_flag=True, help="With -i: do not attach.")
@click.option(
    "--executor",
    type=click.Choice(("bcs", "mesos")),
    help="Executor of the taskgroup. Default: bcs with -i, otherwise that of the scheduler.",
)
@detach_keys_option
@generate.template_options
@generate.dry_run_option
@validate_option
@wait_option
@habits.answered(habits.RUN)
@connection_options
@pass_session
@reporting
def run(
    session: Session,
    /,
    image: str | None,
    other: str,
    name: str,
    stdin: bool,
    tty: bool,
    remove: bool,
    restart: str | None,
    detach: bool,
    executor: str | None,
    detach_keys: str,
    dry_run: bool,
    wait: bool,
    **described: Any,
) -> None:
    """Run IMAGE, or the command after `--`, as an application.

    Without IMAGE the command runs as a process of the agent. The application runs until it is deleted: a program that
    fails is started again. With --restart Never it is a job, and `bcs wait NAME --for finished` waits for its end.

    With -i, bcs attaches to the task as `bcs attach -i --logs` does, and exits with the exit code of the task. The task
    is not started again when it has ended. Without -t the end of standard input, or of bcs, ends the input of the task.
    """
    if other:  # as kubectl: run NAME --image IMAGE
        image, name = other, name or image or ""
    program, *arguments = click.get_current_context().meta["after"] or [""]
    if not image and not program:
        raise UsageError("give an image, or a command after --")
    name = name or name_from(image or program)
    if remove and not stdin:
        raise UsageError("--rm needs -i")
    if remove and detach:
        raise UsageError("--rm cannot be combined with --detach")
    keys = parse_keys(detach_keys)
    policy = OF_DOCKER.get(restart or "", restart)
    if stdin and policy not in (None, "Never"):
        raise UsageError(f"-i runs the task once: --restart {restart} cannot be combined with it")
    _check_input(stdin, tty, attaching=not (detach or dry_run), instances=described["instances"])
    options = {**described, "image": image or "", "program": program, "args": tuple(arguments)}
    body = generate.application_document(session, name, **options)
    if policy:
        body["restartPolicy"] = {"policy": policy}
    if stdin:
        _open_input(body, tty)
    if executor or stdin:
        body["executor"] = executor or "bcs"
    if stdin and not detach and not dry_run:
        session.client.create(body)
        session.change_format = "text"  # standard output has the output of the task
        code = attend_application(session, name, terminal=tty, keys=keys, remove=remove)
        click.get_current_context().exit(code)
    generate.created(session, body, dry_run=dry_run, wait=wait)


def _check_input(stdin: bool, tty: bool, *, attaching: bool, instances: int) -> None:
    """Raises UsageError."""
    if tty and (attaching or not stdin):
        check_terminal(stdin, tty)
    if not stdin:
        return
    if instances != 1:
        raise UsageError("-i needs one taskgroup: --instances cannot be used with it")


def _open_input(body: Json, tty: bool) -> None:
    """Adds input and terminal to the only container of an application that is not started again."""
    (container,) = body["spec"]["template"]["spec"]["containers"]
    container["stdin"] = True
    if not tty:
        container["stdinOnce"] = True
    else:
        container["tty"] = True
        known = [variable["name"] for variable in container.get("env", [])]
        if "TERM" not in known and (term := os.environ.get("TERM")):
            container["env"] = [*container.get("env", []), {"name": "TERM", "value": term}]
    body["restartPolicy"] = {"policy": "Never"}


def name_from(program: str) -> str:
    """``registry:5000/team/My_App:1.2`` becomes ``my-app``."""
    base = PurePosixPath(program.partition("@")[0]).name.partition(":")[0]
    name = re.sub(r"[^a-z0-9]+", "-", base.lower()).strip("-")
    if not name or not name[0].isalpha():
        raise UsageError(f"give a name with --name: no name can be derived from {program!r}")
    return name
