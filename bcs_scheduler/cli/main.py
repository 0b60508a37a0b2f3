"""`bcs`, the command users type. Exit codes: bcs_scheduler.cli.errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import click
from click.shell_completion import get_completion_class
from rich.console import Console

from bcs_scheduler.cli import (
    agentsettings,
    changes,
    configure,
    copying,
    describe,
    difference,
    draining,
    execute,
    follow,
    generate,
    get,
    logs,
    messages,
    operate,
    rollout,
    top,
)
from bcs_scheduler.cli.errors import EXIT_CODES, INTERRUPTED, CliError, Problem, Unreachable
from bcs_scheduler.cli.options import Session, chosen_format, connection_options, output_option, pass_session
from bcs_scheduler.cli.output import print_data

COMPLETION = "_BCS_COMPLETE"
"""Set by the shell that asks for completions."""
STANDARD_OUTPUT = 1


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT_CODES)
@connection_options
def bcs() -> None:
    """Run applications on Apache Mesos with bcs-scheduler."""


@click.command()
@click.option("--client", "client_only", is_flag=True, help="Do not ask the server.")
@output_option
@connection_options
@pass_session
def version(session: Session, client_only: bool, output: str | None) -> None:
    """Print the versions of this command and of the server."""
    found: dict[str, Any] = {"client": metadata.version("bcs-scheduler")}
    unreachable = None
    if not client_only:
        try:
            found["server"] = session.client.server_version()
        except Unreachable as error:
            unreachable = error
    form = chosen_format(output)
    if form in ("json", "yaml"):
        print_data(session.out, found, form)
    else:
        server = found.get("server", {})
        session.say(f"client {found['client']}")
        if server:
            session.say(f"server {server.get('version', server)} at {session.server}")
    if unreachable is not None:
        raise unreachable


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of SHELL.

    For bash: eval "$(bcs completion bash)" in ~/.bashrc; zsh likewise; fish: bcs completion fish | source
    """
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(bcs, {}, "bcs", COMPLETION).source())


for command in (
    changes.apply,
    difference.diff,
    get.get,
    describe.describe,
    changes.scale,
    changes.update,
    changes.rollback,
    changes.delete,
    configure.create,
    rollout.rollout,
    follow.follow,
    logs.logs,
    execute.execute,
    copying.copy,
    messages.signal,
    messages.restart,
    messages.reload,
    messages.env,
    messages.commit,
    operate.reschedule,
    operate.cancel,
    describe.explain,
    operate.wait,
    operate.enable,
    operate.disable,
    draining.drain,
    operate.cordon,
    operate.uncordon,
    operate.taint,
    agentsettings.settings,
    top.top,
    version,
    completion,
):
    bcs.add_command(command)
configure.create.add_command(generate.application)
configure.create.add_command(generate.deployment)


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code; whatever goes wrong ends in a message, not a traceback."""
    try:
        code = bcs.main(args=None if arguments is None else list(arguments), prog_name="bcs", standalone_mode=False)
    except CliError as error:
        _print_error(error)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except SystemExit as leaving:
        if COMPLETION in os.environ:
            return leaving.code if isinstance(leaving.code, int) else 0
        # So click and rich answer a closed pipe: its reader (head, less) has seen enough, which is no fault. What is
        # buffered must not be flushed into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), STANDARD_OUTPUT)
        return 0
    except (KeyError, TypeError, ValueError) as error:
        _print_error(CliError(f"the server's answer is not understood: {type(error).__name__}: {error}"))
        return CliError.exit_code
    return code if isinstance(code, int) else 0


def _print_error(error: CliError) -> None:
    console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
    console.print("[bold red]error:[/] ", end="")
    console.print(error.message, markup=False)
    for problem in error.problems:
        line = f"{problem.path}: {problem.message}" if problem.path else problem.message
        if line != error.message and (len(error.problems) > 1 or _points_somewhere(problem)):
            console.print(f"  {line}", markup=False)


def _points_somewhere(problem: Problem) -> bool:
    """Its path says more than that the whole document, or a parameter that the message names, is meant."""
    return problem.path != "$" and not problem.path.startswith("?")


def main() -> None:
    sys.exit(run())


if __name__ == "__main__":
    main()
