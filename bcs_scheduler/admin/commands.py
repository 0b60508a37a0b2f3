"""Commands for those who keep the scheduler: tokens, keys, and work on the store while no scheduler leads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bcs_scheduler.admin import maintenance
from bcs_scheduler.admin.maintenance import MaintenanceError
from bcs_scheduler.cli.commands import framework as unknown
from bcs_scheduler.cli.errors import CliError
from bcs_scheduler.cli.session import Session
from bcs_scheduler.security.caller import EVERYTHING, ROLES
from bcs_scheduler.security.tokens import hash_of, new_token, token_entry
from bcs_scheduler.security.watched import Broken
from bcs_scheduler.settings.command_line import fail, read_settings
from bcs_scheduler.settings.config import OPTIONS
from bcs_scheduler.settings.sections import ConfigError
from bcs_scheduler.settings.storage import store_of
from store.base import Store
from store.encoding.seal import new_key

STORE_OPTIONS = ("store.url", "store.user", "store.password_file", "store.secret_key_file")


@click.group()
def token() -> None:
    """Tokens for the HTTP API."""


@token.command("new")
@click.option("--name", required=True, help="Name of the token holder, as shown in logs.")
@click.option("--role", required=True, type=click.Choice(ROLES))
@click.option("--namespace", "namespaces", multiple=True, metavar="NS", help=f"May be repeated; {EVERYTHING} = all.")
def new(name: str, role: str, namespaces: tuple[str, ...]) -> None:
    """Print a new token, once, and its entry for the file api.tokens_file, which holds its hash alone."""
    if not namespaces:
        raise click.UsageError(
            f"--namespace is required; {EVERYTHING} means all namespaces and all objects without a namespace"
        )
    made = new_token()
    try:
        entry = token_entry(name, hash_of(made), role, namespaces)
    except Broken as broken:
        fail(str(broken))
    click.echo(
        f"Give this token to its holder; the token cannot be shown again:\n\n{made}\n\n"
        f"Add this entry to the file:\n\n{entry}"
    )


@click.group()
def key() -> None:
    """Keys that encrypt secrets in the store."""


@key.command("new")
def new_secret_key() -> None:
    """Print a new key: a line for the file store.secret_key_file. The first line encrypts, all decrypt."""
    click.echo(new_key())


def on_store(command: Callable[..., str]) -> Callable[..., None]:
    """Makes a command of a function that gets the store (not opened), and prints the line it returns."""

    def run(config: Path | None, **flags: Any) -> None:
        given = {path: flags.pop(path.replace(".", "__")) for path in STORE_OPTIONS}
        try:
            settings = read_settings(config, given)
            if config is None and given["store.url"] is None:
                raise click.UsageError("--store or --config is required")
            click.echo(command(store_of(settings.store), **flags))
        except (MaintenanceError, ConfigError, ValueError) as error:
            fail(str(error))

    wrapped: Callable[..., None] = run
    wrapped.__doc__, wrapped.__name__ = command.__doc__, command.__name__
    for path in reversed(STORE_OPTIONS):
        option = OPTIONS[path]
        wrapped = click.option(
            option.flag, path.replace(".", "__"), envvar=option.variable, metavar="VALUE", help=option.help
        )(wrapped)
    return click.option("--config", type=click.Path(path_type=Path), envvar="BCS_CONFIG", help="TOML file.")(wrapped)


@click.command("forget-framework")
@click.option(
    "--force",
    is_flag=True,
    help="Proceed even if taskgroups of the framework are recorded as alive: the scheduler no longer manages them.",
)
@on_store
def forget_framework(store: Store, force: bool) -> str:
    """Drop the stored framework id after Mesos removed the framework. Stop every scheduler first.

    A framework record that cannot be read or is missing is replaced too. The mark of time stays: the clock of the
    next leader continues where that of the last one ended.
    """
    dropped = maintenance.forget_framework(store, force=force)
    what = f"framework {dropped}" if dropped else "the lost framework"
    return (
        f"{what} was removed from the store; the next leader registers a new framework. The mark of time stays: its "
        "clock continues where that of the last leader ended."
    )


@click.command("set-framework")
@click.argument("identity", metavar="ID")
@click.option("--force", is_flag=True, help="Replace another stored framework id.")
@on_store
def set_framework(store: Store, identity: str, force: bool) -> str:
    """Store the framework ID under which Mesos lists this scheduler, after the record was lost or cannot be read.
    Stop every scheduler first.

    Tasks that run and that the store does not know are not ended: the next leader halts until `framework adopt` or
    `framework end`.
    """
    before = maintenance.set_framework(store, identity, force=force)
    replaced = f" (before: {before})" if before and before != identity else ""
    return f"the next leader subscribes as framework {identity}{replaced}"


class _Framework(click.Group):
    """The commands of the framework; those of a running leader end with the exit codes of `bcs`."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except CliError as error:
            Session().fail(error)
            ctx.exit(error.exit_code)


framework = _Framework(
    "framework",
    help="The framework id in the store, and running tasks that the store does not know. `set` and `forget` need the "
    "store while no scheduler leads; `show`, `adopt` and `end` ask the running leader (--server, --token-file).",
)
for name, one in (
    ("set", set_framework),
    ("forget", forget_framework),
    ("show", unknown.show),
    ("adopt", unknown.adopt),
    ("end", unknown.end),
):
    framework.add_command(one, name)


@click.command("reseal")
@on_store
def reseal(store: Store) -> str:
    """Encrypt everything in the store that may be confidential with the first key. Stop every scheduler first."""
    return maintenance.reseal(store)


@click.command("protect-store")
@on_store
def protect_store(store: Store) -> str:
    """Close all nodes in ZooKeeper to everybody but store.user. Stop every scheduler first."""
    return f"{maintenance.protect(store)} nodes are now accessible to store.user only"
