"""Completions of arguments, as options and arguments of commands name them. Their module, suggestions, is loaded when a
shell asks: a command that runs completes nothing."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import click
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
