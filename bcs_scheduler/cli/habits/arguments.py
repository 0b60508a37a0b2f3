"""Arguments that name a workload as ``KIND/NAME``, ``NAME``, or kubectl's ``KIND NAME``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from bcs_scheduler.cli.client.lookup import OWNERS
from bcs_scheduler.cli.commands.completing import owner_names
from bcs_scheduler.cli.habits.kinds import instead_of_kind

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
