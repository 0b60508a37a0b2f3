"""`bcs version`, `bcs completion` and `bcs help`."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from bcs_scheduler.cli.errors import Unreachable
from bcs_scheduler.cli.lazy import COMPLETION, LazyGroup
from bcs_scheduler.cli.options import connection_options, examples, output_option, pass_session
from bcs_scheduler.cli.output.data import print_form
from bcs_scheduler.cli.output.formats import Form, chosen_form
from bcs_scheduler.cli.session import Session


@click.command(epilog=examples("bcs version", "bcs version --client -o json"))
@click.option("--client", "client_only", is_flag=True, help="Print the version of the client only.")
@output_option
@connection_options
@pass_session
def version(session: Session, client_only: bool, output: Form | None) -> None:
    """Print the versions of client and server."""
    from importlib import metadata

    found: dict[str, Any] = {"client": metadata.version("bcs-scheduler")}
    unreachable = None
    if not client_only:
        try:
            found["server"] = session.client.server_version()
        except Unreachable as error:
            unreachable = error
    if not print_form(session.out, found, chosen_form(output)):
        server = found.get("server", {})
        session.say(f"client {found['client']}")
        if server:
            session.say(f"server {server.get('version', server)} at {session.server}")
    if unreachable is not None:
        raise unreachable


@click.command(
    epilog=examples(
        'eval "$(bcs completion bash)"      # in ~/.bashrc',
        'eval "$(bcs completion zsh)"       # in ~/.zshrc',
        "bcs completion fish | source",
    )
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL."""
    made = get_completion_class(shell)
    assert made is not None
    root = click.get_current_context().find_root().command
    click.echo(made(root, {}, "bcs", COMPLETION).source())


def _subcommands(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The commands of the program, or of the group whose name was typed before."""
    found: click.Command | None = ctx.find_root().command
    for name in ctx.params.get("commands") or ():
        found = found.get_command(ctx, name) if isinstance(found, click.Group) else None
    if not isinstance(found, click.Group):
        return []
    names = [name for name in found.list_commands(ctx) if name.startswith(incomplete)]
    if not isinstance(found, LazyGroup):  # which lists no hidden commands, and loads a command that is looked at
        names = [name for name in names if not found.commands[name].hidden]
    return [CompletionItem(name) for name in names]


@click.command("help", epilog=examples("bcs help", "bcs help get", "bcs help rollout pause"))
@click.argument("commands", nargs=-1, metavar="[COMMAND]...", shell_complete=_subcommands)
def help_command(commands: tuple[str, ...]) -> None:
    """Print the help of a command, like --help after its name."""
    root = click.get_current_context().find_root()
    # The arguments of a group are its command and the options; --help comes before missing arguments are noticed.
    root.command.main([*commands, "--help"], prog_name=root.info_name, standalone_mode=False)
