"""`bcs create application` and `bcs create deployment`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.completing import application_names
from bcs_scheduler.cli.documents.operations import report
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.options import (
    RenamedOption,
    connection_options,
    examples,
    pass_session,
    reporting,
    validate_option,
)
from bcs_scheduler.cli.output.data import print_data
from bcs_scheduler.cli.session import Session

Command = Callable[..., Any]
CPU, MEMORY = "1", "64"
"""Cores and MB that the scheduler takes where a document has none. They are written into the document, because a
document without them means other amounts to the original."""


def template_options(command: Command) -> Command:
    """Options of one container that has an image or a program, and of the number of taskgroups."""
    for option in reversed(
        (
            click.option(
                "--instances",
                cls=RenamedOption,
                former=("--replicas",),
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
                help="A port; NUMBER is the port in the container. May be repeated.",
            ),
            click.option(
                "-e", "--env", multiple=True, metavar="NAME=VALUE", help="An environment variable. May be repeated."
            ),
            click.option(
                "-l",
                "--label",
                "labels",
                multiple=True,
                metavar="KEY=VALUE",
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


def program_options(command: Command) -> Command:
    """Options for the image and the program of one container."""
    image = click.option(
        "--image",
        default="",
        metavar="IMAGE",
        help="Container image. Without an image the command runs as a process.",
    )
    program = click.option(
        "--command", "program", default="", metavar="PROGRAM", help="Program to run; its arguments follow after --."
    )
    return image(program(template_options(command)))


dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print the document (-o yaml or json), and create nothing."
)


@click.command(
    epilog=examples(
        "bcs create application web --image nginx --port http:80 --instances 3",
        "bcs create application echo --command python3 --port http -- -m http.server",
    )
)
@click.argument("name")
@click.argument("args", nargs=-1, metavar="[-- ARG...]")
@program_options
@dry_run_option
@validate_option
@connection_options
@pass_session
@reporting
def application(session: Session, /, name: str, args: tuple[str, ...], dry_run: bool, **described: Any) -> None:
    """Create application NAME with one container or one process."""
    body = application_document(session, name, args, **described)
    if shown(session, body, dry_run):
        return
    accepted = session.client.create(body)
    report(session, "application", name, "created", accepted)


@click.command(
    epilog=examples(
        "bcs create deployment web --image nginx --port http:80 --instances 3",
        "bcs create deployment gallery --from-application web",
    )
)
@click.argument("name")
@click.argument("args", nargs=-1, metavar="[-- ARG...]")
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
@dry_run_option
@validate_option
@connection_options
@pass_session
@reporting
def deployment(
    session: Session,
    /,
    name: str,
    args: tuple[str, ...],
    adopted: str,
    max_surge: int,
    max_unavailable: int,
    dry_run: bool,
    **described: Any,
) -> None:
    """Create deployment NAME with one container or one process, or from a running application."""
    rolling = {"maxSurge": max_surge, "maxUnavailable": max_unavailable, "rollingOrder": "CreateFirst"}
    strategy = {"type": "RollingUpdate", "rollingupdate": rolling}
    body = _head("deployment", session, name)
    if adopted:
        if args or any(described[key] for key in ("image", "program", "ports", "env", "labels", "cpu", "memory")):
            raise UsageError(
                "--from-application cannot be combined with an image, a command, or options of a container"
            )
        labels, instances = _of_application(session, adopted)
        body["metadata"]["labels"] = labels
        body["spec"] = {"instance": instances, "selector": labels, "strategy": strategy}
    else:
        labels = _labels(name, described["labels"])
        body["metadata"]["labels"] = labels
        body["spec"] = {**_spec(name, args, **described), "selector": labels, "strategy": strategy}
    if shown(session, body, dry_run):
        return
    accepted = session.client.create_deployment(body)
    report(session, "deployment", name, f"adopted application {adopted}" if adopted else "created", accepted)


def application_document(session: Session, name: str, args: tuple[str, ...], **described: Any) -> Json:
    """`described`: values of `template_options` and `program_options`. Raises UsageError."""
    body = {**_head("application", session, name), "spec": _spec(name, args, **described)}
    body["metadata"]["labels"] = _labels(name, described["labels"])
    return body


def shown(session: Session, body: Json, dry_run: bool) -> bool:
    """Prints the document of a dry run. True if it is one."""
    if dry_run:
        print_data(session.out, body, "json" if session.change_format == "json" else "yaml")
    return dry_run


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
    args: tuple[str, ...],
    *,
    image: str,
    program: str,
    instances: int,
    ports: tuple[str, ...],
    env: tuple[str, ...],
    labels: tuple[str, ...],
    cpu: str,
    memory: str,
) -> Json:
    if not image and not program:
        raise UsageError("give --image, --command, or both")
    if not image and any(":" in port for port in ports):
        raise UsageError(
            "--port NAME:NUMBER is for containers; a process listens on the port that it gets in PORT_NAME"
        )
    container: Json = {"name": name, **({"type": "DOCKER", "image": image} if image else {})}
    container |= {"command": program} if program else {}
    container |= {"args": list(args)} if args else {}
    if ports:
        container["ports"] = [_port(port) for port in ports]
    if env:
        container["env"] = [{"name": key, "value": value} for key, value in _pairs("--env", env).items()]
    limits = {key: amount for key, amount in (("cpu", cpu), ("memory", memory)) if amount}
    container["resources"] = {"requests": {"cpu": cpu or CPU, "memory": memory or MEMORY}}
    if limits:
        container["resources"]["limits"] = limits
    network = "BRIDGE" if image and any(":" in port for port in ports) else "HOST"
    metadata = {"labels": _labels(name, labels)}
    return {
        "instance": instances,
        "template": {"metadata": metadata, "spec": {"networkMode": network, "containers": [container]}},
    }


def _port(text: str) -> Json:
    name, colon, number = text.partition(":")
    if not name or (colon and not (number.isascii() and number.isdigit())):
        raise UsageError("--port takes NAME or NAME:NUMBER")
    return {"name": name, "protocol": "tcp", **({"containerPort": int(number), "hostPort": 0} if colon else {})}


def _labels(name: str, given: tuple[str, ...]) -> dict[str, str]:
    return _pairs("--label", given) if given else {"app": name}


def _pairs(option: str, given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} takes NAME=VALUE")  # not shown: it may be confidential
        found[key] = value
    return found
