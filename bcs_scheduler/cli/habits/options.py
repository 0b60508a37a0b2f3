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

APPLY: Mapping[tuple[str, ...], str] = {
    ("--prune-allowlist", "--prune-whitelist", "--applyset", "--field-manager"): (
        "objects belong to no set: `bcs apply` changes the objects of the documents, and no others"
    ),
}
PRUNE = "`bcs delete -f FILE` deletes the objects of documents, and `bcs delete KIND -l SELECTOR` those with labels"
GRACE = "the field `killPolicy.gracePeriod` of a document is the time between SIGTERM and SIGKILL"
DELETE: Mapping[tuple[str, ...], str] = {("--grace-period",): GRACE}
DELETE_FLAGS: Mapping[tuple[str, ...], str] = {("--now",): GRACE}
APPLY_FLAGS: Mapping[tuple[str, ...], str] = {("--prune",): PRUNE}


def answered(table: Mapping[tuple[str, ...], str], *, flags: bool = False) -> Callable[[Command], Command]:
    """Adds hidden options that end the command with the way here. `table`: as `RUN`. `flags`: they take no values."""

    def add(command: Command) -> Command:
        for name, way in ((name, way) for names, way in table.items() for name in names):
            command = click.option(
                name,
                is_flag=flags,
                expose_value=False,
                hidden=True,
                callback=_refusal(name, way),
                help="Not supported.",
            )(command)
        return command

    return add


def without_effect(*names: str) -> Callable[[Command], Command]:
    """Adds hidden flags of kubectl that ask for the only behaviour here."""

    def add(command: Command) -> Command:
        return click.option(*names, is_flag=True, expose_value=False, hidden=True, help="Has no effect.")(command)

    return add


def cascade(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """For --cascade of kubectl: the parts of an object never outlive it. Raises BadParameter."""
    if value not in (None, "background", "foreground", "true"):
        raise click.BadParameter("a deletion ends all taskgroups of the object")


def _refusal(name: str, way: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def refuse(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if value not in (None, False):
            raise click.UsageError(f"{name} is not an option of `{ctx.command_path}`: {way}")

    return refuse
