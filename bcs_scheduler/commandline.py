"""What the commands of `bcs-scheduler` have in common: settings of flags, environment and file; a line for failures."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from bcs_scheduler.config import OPTIONS, ConfigError, Settings, load_settings, unknown_variables


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Adds --config and one flag per setting."""
    for option in reversed(list(OPTIONS.values())):
        name = option.path.replace(".", "__")
        command = click.option(option.flag, name, default=None, metavar="VALUE", help=option.path)(command)
    return click.option(
        "--config", type=click.Path(path_type=Path), envvar="BCS_CONFIG", help="TOML file, see conf/scheduler.toml."
    )(command)


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
