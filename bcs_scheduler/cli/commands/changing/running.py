"""`bcs run`: an application with one container or one process, without a document."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

import click

from bcs_scheduler.cli.commands.changing import generate
from bcs_scheduler.cli.documents.operations import report
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.kinds.registry import OPERATIONS
from bcs_scheduler.cli.options import (
    connection_options,
    examples,
    pass_session,
    reporting,
    validate_option,
    wait_option,
)
from bcs_scheduler.cli.session import Session

SEPARATOR = "--"


class CommandLine(click.Command):
    """Remembers the words after ``--``, which click would mix with those before."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        position = args.index(SEPARATOR) if SEPARATOR in args else len(args)
        ctx.meta["after"] = args[position + 1 :]
        return super().parse_args(ctx, args[:position])


@click.command(
    cls=CommandLine,
    epilog=examples(
        "bcs run nginx --port http:80 --wait",
        "bcs run -- python3 -m http.server 8000",
        "bcs run redis --name cache --instances 2 -- redis-server --save ''",
    ),
)
@click.argument("image", required=False, metavar="[IMAGE]")
@click.option("--name", default="", metavar="NAME", help="Name of the application. Default: that of image or program.")
@generate.template_options
@generate.dry_run_option
@validate_option
@wait_option
@connection_options
@pass_session
@reporting
def run(session: Session, /, image: str | None, name: str, dry_run: bool, wait: bool, **described: Any) -> None:
    """Run IMAGE, or the command after `--`, as an application.

    Without IMAGE the command runs as a process of the agent. The application runs until it is deleted: a program that
    fails is started again.
    """
    program, *arguments = click.get_current_context().meta["after"] or [""]
    if not image and not program:
        raise UsageError("give an image, or a command after --")
    name = name or name_from(image or program)
    options = {**described, "image": image or "", "program": program}
    body = generate.application_document(session, name, tuple(arguments), **options)
    if generate.shown(session, body, dry_run):
        return
    accepted = session.client.create(body)
    report(session, "application", name, "created", accepted)
    if wait:
        OPERATIONS["application"].wait_applied(session, session.namespace, name, accepted)


def name_from(program: str) -> str:
    """``registry:5000/team/My_App:1.2`` becomes ``my-app``."""
    base = PurePosixPath(program.partition("@")[0]).name.partition(":")[0]
    name = re.sub(r"[^a-z0-9]+", "-", base.lower()).strip("-")
    if not name or not name[0].isalpha():
        raise UsageError(f"give a name with --name: no name can be derived from {program!r}")
    return name
