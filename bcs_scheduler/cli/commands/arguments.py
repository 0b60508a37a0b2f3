"""Arguments of commands: workloads named as ``KIND/NAME``, ``NAME`` or kubectl's ``KIND NAME``, and completions, as
options and arguments of commands name them. The module of completions, suggestions, is loaded when a shell asks: a
command that runs completes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from bcs_scheduler.cli.client.lookup import OWNERS
from bcs_scheduler.cli.habits import instead_of_kind

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

SUGGESTIONS = "bcs_scheduler.cli.commands.suggestions"


def _completion(name: str) -> Complete:
    """The function `name` of the module suggestions."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        return cast("Complete", getattr(import_module(SUGGESTIONS), name))(ctx, param, incomplete)

    return complete


agent_names = _completion("agent_names")
application_names = _completion("application_names")
conditions = _completion("conditions")
deletable_names = _completion("deletable_names")
forwarded_names = _completion("forwarded_names")
kinds_and_names = _completion("kinds_and_names")
owner_names = _completion("owner_names")
partition_names = _completion("partition_names")
places = _completion("places")
queue_names = _completion("queue_names")
service_names = _completion("service_names")
target_names = _completion("target_names")
taskgroup_names = _completion("taskgroup_names")
transaction_names = _completion("transaction_names")


Command = TypeVar("Command", bound=Callable[..., Any])


def joined(words: Sequence[str]) -> str:
    """One name from the words of one. Raises UsageError (of click) for several names, and for a kind of others."""
    if len(words) == 1:
        return words[0]
    if len(words) == 2 and words[0].lower() in OWNERS and "/" not in words[1]:
        return f"{words[0]}/{words[1]}"
    if len(words) == 2 and (instead := instead_of_kind(words[0])):
        raise click.UsageError(instead)
    raise click.UsageError(f"give one [KIND/]NAME, not {len(words)} words" if words else "give a [KIND/]NAME")


def several(words: Sequence[str]) -> list[str]:
    """The names of one or more: ``KIND/NAME...``, ``NAME...`` or ``KIND NAME...``. Raises UsageError (of click)."""
    if len(words) < 2 or "/" in words[0] or not (words[0].lower() in OWNERS or instead_of_kind(words[0])):
        return list(words) or [joined(words)]
    return [joined((words[0], name)) for name in words[1:]]


def owner_argument(command: Command) -> Command:
    """The argument `name`."""
    return click.argument(
        "name",
        nargs=-1,
        required=True,
        metavar="[KIND/]NAME",
        callback=lambda ctx, param, words: joined(words),
        shell_complete=owner_names,
    )(command)
