"""What an installed program has: the folder `conf`, manual pages, and shell completion."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from bcs_scheduler.admin.manual import PAGES, completions, pages, programs
from bcs_scheduler.cli.document_files import load_documents
from bcs_scheduler.foreground import FIRST_COMMANDS
from bcs_scheduler.main import main
from bcs_scheduler.version import VERSION
from tests.sources import ROOT

EXAMPLES = ROOT / "conf" / "examples"
REQUESTS = {".TH", ".SH", ".TP", ".PP", ".B", ".BR", ".nf", ".fi"}
"""All requests of roff that a page has."""


def files_of(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_a_built_package_has_its_modules_and_the_folder_conf(tmp_path: Path) -> None:
    command = [sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", str(tmp_path)]
    command += ["build_py", "--build-lib", str(tmp_path / "lib")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    assert files_of(tmp_path / "lib/bcs_scheduler/conf") == files_of(ROOT / "conf")
    installed = [sys.executable, "-P", "-c", "from bcs_scheduler.shipped import CONF; print(CONF)"]
    shown = subprocess.run(
        installed, env={"PYTHONPATH": str(tmp_path / "lib")}, check=True, capture_output=True, text=True, timeout=60
    )
    assert shown.stdout.strip() == str(tmp_path / "lib/bcs_scheduler/conf")


def test_examples_are_listed_printed_and_written(bcs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BCS_OUTPUT")
    listed = bcs("examples").out
    assert "application web" in listed and "deployment shop, service shop" in listed
    names = bcs("examples", "-o", "name").out.split()
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} < set(names)
    for name in names:
        folder = EXAMPLES if (EXAMPLES / name).exists() else EXAMPLES.parent
        assert bcs("examples", name).out == (folder / name).read_text()
    assert (bcs("examples", "nix").code, bcs("examples", "web.json", "--to", "x").code) == (3, 2)
    target = tmp_path / "conf"
    assert bcs("examples", "--to", str(target)).code == 0
    assert files_of(target) == files_of(EXAMPLES.parent)
    assert "exists already" in bcs("examples", "--to", str(target)).err


def test_the_first_commands_of_dev_need_no_checkout(bcs: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`bcs examples NAME | bcs apply -f -`, from any folder."""
    monkeypatch.chdir(tmp_path)
    assert "conf/" not in FIRST_COMMANDS
    (name,) = re.findall(r"bcs examples (\S+) \| bcs apply -f -", FIRST_COMMANDS)
    (tmp_path / name).write_text(bcs("examples", name).out)
    loaded = load_documents([name], "default")
    assert loaded.documents and not loaded.problems


def commands_of(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None
            if not below.hidden:
                yield from commands_of(below, (*words, name))


def test_every_command_has_a_manual_page_with_its_options() -> None:
    found = pages()
    known: dict[tuple[str, ...], click.Command] = {}
    for name, program in programs().items():
        known.update(commands_of(program, (name,)))
    assert set(found) == {PAGES / f"{'-'.join(words)}.1" for words in known} and len(found) > 100
    for words, command in known.items():
        page = found[PAGES / f"{'-'.join(words)}.1"]
        assert page.startswith(f'.TH "{"-".join(words).upper()}" "1" "" "bcs-scheduler {VERSION}"\n')
        plain = page.replace("\\-", "-")
        assert f".SH NAME\n{'-'.join(words)} - " in plain and f".SH SYNOPSIS\n.B {' '.join(words)}\n" in plain
        shown = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
        for option in shown:
            if option.get_help_record(click.Context(command, parent=click.Context(command))) is not None:
                assert max(option.opts, key=len) in plain, words
        assert {line.split()[0] for line in page.splitlines() if line[:1] in (".", "'")} <= REQUESTS, words
        assert not re.search(r"\\(?!-|e|&)", page), words
    assert ".SH EXAMPLES\n.nf\n" in found[PAGES / "bcs-apply.1"]
    assert ".BR bcs\\-rollout\\-pause (1)" in found[PAGES / "bcs-rollout.1"]


def test_completion_of_both_programs_for_three_shells(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["manual", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert {str(path) for path in (*pages(), *completions())} == set(files_of(tmp_path))
    folder = tmp_path / "bash-completion/completions"
    for program, variable in (("bcs", "_BCS_COMPLETE"), ("bcs-scheduler", "_BCS_SCHEDULER_COMPLETE")):
        script = (folder / program).read_text()
        assert f"{variable}=bash_complete" in script
        subprocess.run(["bash", "-n", folder / program], check=True, timeout=60)
        for other in (f"zsh/site-functions/_{program}", f"fish/vendor_completions.d/{program}.fish"):
            assert variable in (tmp_path / other).read_text()


def test_manual_names_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "man").write_text("")
    refused = CliRunner().invoke(main, ["manual", str(tmp_path)])
    assert refused.exit_code == 2 and str(tmp_path / "man") in refused.output
