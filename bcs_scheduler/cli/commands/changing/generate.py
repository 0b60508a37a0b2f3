"""Documents of workloads from options: `bcs create application`, `deployment` and `job`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from bcs_scheduler.cli import habits
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.arguments import application_names
from bcs_scheduler.cli.documents import Document
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.kinds.registry import operations_of
from bcs_scheduler.cli.options import (
    RenamedOption,
    connection_options,
    examples,
    pass_session,
    reporting,
    validate_option,
    wait_option,
)
from bcs_scheduler.cli.output.data import print_data
from bcs_scheduler.cli.session import Session

Command = Callable[..., Any]
SEPARATOR = "--"
SEVERAL = re.compile(r",(?=[^,=]+=)")
"""Between labels that are given together, as kubectl takes them."""
CPU, MEMORY = "1", "64"
"""Cores and MB that the scheduler takes where a document has none. They are written into the document, because a
document without them means other amounts to the original."""


class CommandLine(click.Command):
    """Remembers the words after ``--``, which click would mix with those before."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        position = args.index(SEPARATOR) if SEPARATOR in args else len(args)
        ctx.meta["after"] = args[position + 1 :]
        return super().parse_args(ctx, args[:position])


def template_options(command: Command) -> Command:
    """Options of one container that has an image or a program, and of the number of taskgroups."""
    for option in reversed(
        (
            click.option(
                "--instances",
                cls=RenamedOption,
                former=("--replicas", "-r"),
                type=click.IntRange(0),
                default=1,
                show_default=True,
                help="Number of taskgroups.",
            ),
            click.option(
                "--port",
                "ports",
                multiple=True,
                metavar="NAME[:NUMBER]",
                help="A port; NUMBER is the port in the container. NUMBER alone is named portNUMBER. May be repeated.",
            ),
            click.option(
                "-e", "--env", multiple=True, metavar="NAME=VALUE", help="An environment variable. May be repeated."
            ),
            click.option(
                "-l",
                "--label",
                "labels",
                cls=RenamedOption,
                former=("--labels",),
                multiple=True,
                metavar="KEY=VALUE",
                callback=lambda ctx, param, given: tuple(one for each in given for one in SEVERAL.split(each)),
                help="A label. May be repeated. Default: app=NAME.",
            ),
            click.option(
                "--cpu",
                cls=RenamedOption,
                former=("--cpus",),
                metavar="CORES",
                default="",
                help="CPU limit, such as 0.5 or 500m.",
            ),
            click.option(
                "--memory",
                cls=RenamedOption,
                former=("-m",),
                metavar="MB",
                default="",
                help="Memory limit, such as 256 or 1Gi.",
            ),
        )
    ):
        command = option(command)
    return command


def _one_image(ctx: click.Context, param: click.Parameter, images: tuple[str, ...]) -> str:
    """Raises BadParameter."""
    if len(images) > 1:
        raise click.BadParameter("one image is given; a document may have several containers")
    return images[0] if images else ""


def program_options(command: Command) -> Command:
    """Options for the image and the program of one container."""
    image = click.option(
        "--image",
        multiple=True,
        callback=_one_image,
        metavar="IMAGE",
        help="Container image. Without an image the command runs as a process.",
    )
    program = click.option(
        "--command", "program", default="", metavar="PROGRAM", help="Program to run; all words after -- are arguments."
    )
    return image(program(template_options(command)))


dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Create nothing: show the plan, or the document with -o yaml or json."
)


def created(session: Session, body: Json, *, dry_run: bool, wait: bool = False, replace: bool = False) -> None:
    """Creates the object of a document, or with `replace` replaces one that exists; shows the plan or the document of a
    dry run."""
    if dry_run and session.change_format in ("json", "yaml"):
        print_data(session.out, body, session.change_format)
        return
    document = Document("command line", body)
    how = operations_of(document.kind)
    accepted = (how.apply if replace else how.create)(session, document, dry_run)
    if wait and not dry_run:
        how.wait_applied(session, document.namespace, document.name, accepted)


def _creating(command: Command) -> Command:
    """The options of a command that creates a workload, and the session as the first argument."""
    return dry_run_option(validate_option(wait_option(connection_options(pass_session(reporting(command))))))


name_argument = click.argument("name", metavar="NAME [-- PROGRAM ARGUMENT...]")


@click.command(
    cls=CommandLine,
    epilog=examples(
        "bcs create application web --image nginx --port http:80 --instances 3",
        "bcs create application echo --port http -- python3 -m http.server",
    ),
)
@name_argument
@program_options
@_creating
def application(session: Session, /, name: str, dry_run: bool, wait: bool, **described: Any) -> None:
    """Create application NAME with one container or one process."""
    created(session, application_document(session, name, **_with_program(described)), dry_run=dry_run, wait=wait)


@click.command(
    cls=CommandLine,
    epilog=examples(
        "bcs create job report -- sh -c 'df -h /'",
        "bcs create job check --image busybox -- sh -c 'exit 3'",
        "bcs wait check --for finished",
    ),
)
@name_argument
@program_options
@habits.answered(habits.JOB)
@_creating
def job(session: Session, /, name: str, dry_run: bool, wait: bool, **described: Any) -> None:
    """Create job NAME: an application whose program runs once, as `bcs run --restart Never` does."""
    body = application_document(session, name, **_with_program(described))
    created(session, {**body, "restartPolicy": {"policy": "Never"}}, dry_run=dry_run, wait=wait)


@click.command(
    cls=CommandLine,
    epilog=examples(
        "bcs create deployment web --image nginx --port http:80 --instances 3",
        "bcs create deployment gallery --from-application web",
    ),
)
@name_argument
@click.option(
    "--from-application",
    "adopted",
    default="",
    metavar="APP",
    shell_complete=application_names,
    help="Create the deployment from this running application.",
)
@program_options
@click.option(
    "--max-surge", type=click.IntRange(0), default=1, show_default=True, help="New taskgroups per step of an update."
)
@click.option(
    "--max-unavailable",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Old taskgroups to remove per step of an update.",
)
@_creating
def deployment(
    session: Session,
    /,
    name: str,
    adopted: str,
    max_surge: int,
    max_unavailable: int,
    dry_run: bool,
    wait: bool,
    **described: Any,
) -> None:
    """Create deployment NAME with one container or one process, or from a running application."""
    rolling = {"maxSurge": max_surge, "maxUnavailable": max_unavailable, "rollingOrder": "CreateFirst"}
    strategy = {"type": "RollingUpdate", "rollingupdate": rolling}
    body = _head("deployment", session, name)
    described = _with_program(described)
    if adopted:
        if any(described[key] for key in ("image", "program", "args", "ports", "env", "labels", "cpu", "memory")):
            raise UsageError(
                "--from-application cannot be combined with an image, a command, or options of a container"
            )
        labels, instances = _of_application(session, adopted)
        body["metadata"]["labels"] = labels
        body["spec"] = {"instance": instances, "selector": labels, "strategy": strategy}
    else:
        labels = _labels(name, described["labels"])
        body["metadata"]["labels"] = labels
        body["spec"] = {**_spec(name, **described), "selector": labels, "strategy": strategy}
    created(session, body, dry_run=dry_run, wait=wait)
    if adopted and session.change_format == "text":
        session.say(f"deployment/{name} adopts application {adopted}")


def _with_program(described: Json) -> Json:
    """The values of `program_options`, with the words after ``--``: program and arguments. They are only arguments if
    --command names the program, or if the first one is an option of the program of the image."""
    program, after = described["program"], tuple(click.get_current_context().meta["after"])
    if not program and after and not after[0].startswith("-"):
        program, after = after[0], after[1:]
    return {**described, "program": program, "args": after}


def application_document(session: Session, name: str, **described: Any) -> Json:
    """`described`: values of `program_options`, and `args`. Raises UsageError."""
    body = {**_head("application", session, name), "spec": _spec(name, **described)}
    body["metadata"]["labels"] = _labels(name, described["labels"])
    return body


def _head(kind: str, session: Session, name: str) -> Json:
    return {"apiVersion": "v4", "kind": kind, "metadata": {"name": name, "namespace": session.namespace}}


def _of_application(session: Session, name: str) -> tuple[dict[str, str], int]:
    """Labels and number of taskgroups of an application."""
    found = session.client.application(session.namespace, name)
    labels = (found.get("ObjectMeta") or {}).get("labels") or {}
    if not labels:
        raise UsageError(f"application {name} has no labels that a deployment could select")
    return labels, int(found["DefineInstances"])


def _spec(
    name: str,
    *,
    image: str,
    program: str,
    args: tuple[str, ...],
    instances: int,
    ports: tuple[str, ...],
    env: tuple[str, ...],
    labels: tuple[str, ...],
    cpu: str,
    memory: str,
) -> Json:
    if not image and not program:
        raise UsageError("give --image, or a program after --, or both")
    mapped = [port for port in ports if ":" in port or port.isdecimal()]
    if not image and mapped:
        raise UsageError(
            "--port NAME:NUMBER is for containers; a process listens on the port that it gets in PORT_NAME"
        )
    container: Json = {"name": name, **({"type": "DOCKER", "image": image} if image else {})}
    container |= {"command": program} if program else {}
    container |= {"args": list(args)} if args else {}
    if ports:
        container["ports"] = [_port(port) for port in ports]
    if env:
        container["env"] = [{"name": key, "value": value} for key, value in pairs_of("--env", env).items()]
    limits = {key: amount for key, amount in (("cpu", cpu), ("memory", memory)) if amount}
    container["resources"] = {"requests": {"cpu": cpu or CPU, "memory": memory or MEMORY}}
    if limits:
        container["resources"]["limits"] = limits
    network = "BRIDGE" if mapped else "HOST"
    metadata = {"labels": _labels(name, labels)}
    return {
        "instance": instances,
        "template": {"metadata": metadata, "spec": {"networkMode": network, "containers": [container]}},
    }


def named_port(text: str) -> str:
    """``NAME:NUMBER`` for the number of a port without a name, and any other text as it is."""
    return f"port{text}:{text}" if text.isdecimal() else text


def _port(text: str) -> Json:
    name, colon, number = named_port(text).partition(":")
    if not name or (colon and not (number.isascii() and number.isdigit())):
        raise UsageError("--port takes NAME, NAME:NUMBER or NUMBER")
    return {"name": name, "protocol": "tcp", **({"containerPort": int(number), "hostPort": 0} if colon else {})}


def _labels(name: str, given: tuple[str, ...]) -> dict[str, str]:
    return pairs_of("--label", given) if given else {"app": name}


def pairs_of(option: str, given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} takes NAME=VALUE")  # not shown: it may be confidential
        found[key] = value
    return found
