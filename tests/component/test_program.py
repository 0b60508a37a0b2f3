"""The program `bcs-scheduler`: its table of commands is true, and a command loads the modules that it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest
from click.testing import CliRunner

from bcs_scheduler.main import COMMANDS, main

ENTRIES = COMMANDS["Commands"]


@pytest.mark.parametrize("name", ENTRIES)
def test_every_command_of_the_table_exists(name: str) -> None:
    assert ENTRIES[name].load().name == name
    shown = CliRunner().invoke(main, [name, "--help"])
    assert shown.exit_code == 0 and f"{name} [OPTIONS]" in shown.output


def test_the_help_lists_all_commands() -> None:
    shown = CliRunner().invoke(main, ["--help"])
    assert shown.exit_code == 0 and "Connection options" not in shown.output
    for name, entry in ENTRIES.items():
        assert f"{name} " in shown.output and entry.help in shown.output


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (["--help"], ("numpy", "structlog", "store", "bcs_scheduler.local", "bcs_scheduler.settings")),
        (["local-mesos", "--help"], ("bcs_scheduler.service", "bcs_scheduler.core", "kazoo")),
        (
            ["serve", "--help"],
            (
                *("bcs_scheduler.admin", "bcs_scheduler.local.cluster", "bcs_scheduler.local.kept"),
                *("rich", "requests", "urllib3", "yaml", "httpcore", "kazoo", "websockets", "cryptography"),
            ),
        ),
    ],
)
def test_a_command_does_not_load_what_others_need(arguments: list[str], unneeded: tuple[str, ...]) -> None:
    program = (
        "import sys; from bcs_scheduler.main import main\n"
        f"main({arguments!r}, standalone_mode=False)\n"
        "print('loaded', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    loaded = done.stdout.rpartition("loaded ")[2].split()
    assert "click" in loaded and not set(unneeded) & set(loaded)
