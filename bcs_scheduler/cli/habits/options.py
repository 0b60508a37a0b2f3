"""Options of kubectl, docker and nomad that have another name here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

DOCUMENT = (
    "`bcs run ... --dry-run -o yaml` prints a document to begin with, and `bcs apply -f FILE` starts the document"
)
RUN: Mapping[tuple[str, ...], str] = {
    (
        "-p",
        "--publish",
    ): "`--port NAME:80` publishes port 80 of the container on a port of the agent; `bcs get taskgroups` "
    "shows that port",
    ("-v", "--volume", "--mount"): f"the field `volumes` of a document mounts folders; {DOCUMENT}",
    ("--network", "--net"): f"the field `networkMode` of a document names the network; {DOCUMENT}",
    ("-u", "--user"): f"the field `user` of a document names the user; {DOCUMENT}",
    (
        "--env-file",
    ): "`-e NAME=VALUE` sets a variable; `bcs create configmap NAME --from-env-file FILE` stores all of a file",
}
"""The way here, by the names of an option of `docker run` or `kubectl run`."""
JOB: Mapping[tuple[str, ...], str] = {("--from",): "a timer of systemd, or CI, starts jobs at fixed times"}
LOGIN = "`bcs examples registry-login.json` prints documents with the login of a registry"
CERTIFICATE = "`bcs create secret NAME --from-file tls.crt=FILE --from-file tls.key=FILE` stores a certificate"
SECRET: Mapping[tuple[str, ...], str] = {
    ("--docker-server", "--docker-username", "--docker-password", "--docker-email"): LOGIN,
    ("--cert", "--key"): CERTIFICATE,
}
SECRET_TYPES = {"generic": "", "docker-registry": LOGIN, "tls": CERTIFICATE}
"""Types of kubectl, with the way here; empty for a type that exists."""
ADDRESSES = "a service has no address of its own: `bcs get endpoints NAME` shows those of its taskgroups"
SERVICE: Mapping[tuple[str, ...], str] = {("--clusterip", "--node-port", "--external-name"): ADDRESSES}
SERVICE_TYPES = {"clusterip": "", "nodeport": "", "loadbalancer": "", "externalname": ADDRESSES}


def answered(table: Mapping[tuple[str, ...], str]) -> Callable[[Command], Command]:
    """Adds hidden options that end the command with the way here. `table`: as `RUN`."""

    def add(command: Command) -> Command:
        for name, way in ((name, way) for names, way in table.items() for name in names):
            command = click.option(
                name, expose_value=False, hidden=True, callback=_refusal(name, way), help="Not supported."
            )(command)
        return command

    return add


def _refusal(name: str, way: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def refuse(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise click.UsageError(f"{name} is not an option of `{ctx.command_path}`: {way}")

    return refuse
