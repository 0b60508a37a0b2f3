"""A click group that loads the module of a command when the command is used.

The names and short help texts of all commands are in a table, so that `bcs --help` and the completion of command names
load none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from bcs_scheduler.cli.habits import INSTEAD, no_command
from bcs_scheduler.cli.options import ConnectionOption

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMPLETION = "_BCS_COMPLETE"
"""Environment variable that a shell sets to ask for completions."""


class Entry(NamedTuple):
    """One command: the module and the attribute that hold it, and its short help."""

    module: str
    attribute: str
    help: str

    def load(self) -> click.Command:
        return cast(click.Command, getattr(import_module(self.module), self.attribute))


Sections = Mapping[str, Mapping[str, Entry]]
"""Commands by name, under the titles that --help shows."""


class LazyCommands(MutableMapping[str, click.Command]):
    """Commands by name; reading an item loads its module."""

    def __init__(self, sections: Sections) -> None:
        self.entries = {name: entry for section in sections.values() for name, entry in section.items()}
        self._added: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        return self._added[name] if name in self._added else self.entries[name].load()

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._added[name] = command

    def __delitem__(self, name: str) -> None:
        del self._added[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.entries
        yield from self._added

    def __len__(self) -> int:
        return sum(1 for _ in self)


class LazyGroup(click.Group):
    def __init__(self, *arguments: Any, sections: Sections, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sections = sections
        self.commands = LazyCommands(sections)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises UsageError with the way to do it here for a command of another command line."""
        if args and args[0] in INSTEAD and args[0] not in cast(LazyCommands, self.commands).entries:
            ctx.fail(no_command(args[0]))
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options of this program, and the connection options as a group of their own."""
        groups: dict[str, list[tuple[str, str]]] = {"Options": [], "Connection options, for all commands": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                titles = list(groups)
                groups[titles[isinstance(parameter, ConnectionOption)]].append(record)
        for title, rows in groups.items():
            if not rows:
                continue
            with formatter.section(title):
                formatter.write_dl(rows)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(len(name) for name in self.commands)
        for title, section in self.sections.items():
            with formatter.section(title):
                rows = [(f"{name:{width}}", entry.help) for name, entry in section.items()]
                formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        entries = cast(LazyCommands, self.commands).entries.items()
        names = [CompletionItem(name, help=entry.help) for name, entry in entries if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)
