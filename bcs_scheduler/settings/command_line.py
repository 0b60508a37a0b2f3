"""The settings of the commands of `bcs-scheduler`, from flags, environment and file; failures in one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from bcs_scheduler.settings.config import OPTIONS, Option, load_settings, unknown_variables
from bcs_scheduler.settings.sections import ConfigError, Settings


class SettingsCommand(click.Command):
    """A command with a flag per setting. The help shows the flags by section: a line with flag and default, and below
    it a line with the description."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options into the help."""
        sections: dict[str, list[tuple[str, str]]] = {}
        settings = {_parameter(option): option for option in OPTIONS.values()}
        for param in self.get_params(ctx):
            flag, text = param.get_help_record(ctx) or ("", "")
            section = ""
            if option := settings.get(str(param.name)):
                flag += f" [default: {option.shown_default or 'empty'}]"
                section = option.path.rpartition(".")[0]
            sections.setdefault(section, []).append((flag, text))
        for section, records in sections.items():
            with formatter.section(f"Settings of [{section}]" if section else "Options"):
                for flag, text in records:
                    formatter.write_text(flag)
                    with formatter.indentation():
                        formatter.write_text(text)


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Adds --config and one flag per setting, to a function that becomes a SettingsCommand."""
    for option in reversed(list(OPTIONS.values())):
        command = click.option(option.flag, _parameter(option), default=None, metavar="VALUE", help=option.help)(
            command
        )
    return click.option(
        "--config",
        type=click.Path(path_type=Path),
        envvar="BCS_CONFIG",
        help="TOML file; `bcs examples scheduler.toml` prints one with all settings.",
    )(command)


def _parameter(option: Option) -> str:
    return option.path.replace(".", "__")


def read_settings(config: Path | None, flags: dict[str, Any]) -> Settings:
    """Settings or a start that stops with one line. Variables that are no settings are named on stderr."""
    for line in unknown_variables(os.environ):
        click.echo(f"bcs-scheduler: warning: {line}", err=True)
    try:
        return load_settings(config, os.environ, {name.replace("__", "."): value for name, value in flags.items()})
    except ConfigError as error:
        fail(str(error))


def fail(message: str) -> NoReturn:
    click.echo(f"bcs-scheduler: {message}", err=True)
    sys.exit(2)
