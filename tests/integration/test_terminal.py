"""What `bcs` shows in real terminals of 80 and 140 columns. test_command_blocks plays the documents."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.devprocess import Dev
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Terminal:
    """A folder like that of the README, and the program `bcs` in it."""

    def __init__(self, dev: Dev, folder: Path) -> None:
        self._folder, self.server = folder, dev.url
        self.raw = ""
        """What the last command wrote, with the sequences that control the terminal."""
        (folder / "conf").symlink_to(ROOT / "conf")
        (folder / "README.md").write_text("hello\n")
        program = folder / "bin" / "bcs"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m bcs_scheduler.cli.main "$@"\n')
        program.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BCS_", "COLUMNS", "LINES"))}
        path = f"{program.parent}:{os.environ['PATH']}"
        self._environment = {**kept, "PATH": path, "PYTHONPATH": str(ROOT), "BCS_SERVER": dev.url, "TERM": "xterm"}
        self._environment["BCS_CONFIG"] = str(folder / "config.toml")

    def run(self, command: str, columns: int) -> tuple[int, str]:
        """Exit code, and what the terminal shows, without colours."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        process = subprocess.Popen(
            ["sh", "-c", command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=self._folder,
            env=self._environment,
            start_new_session=True,
        )
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # the last process has closed the terminal
                break
        os.close(ours)
        self.raw = shown.decode()
        return process.wait(60), CONTROL.sub("", self.raw)

    def write(self, name: str, text: str) -> None:
        """A file in the folder."""
        file = self._folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    folder = tmp_path_factory.mktemp("terminal")
    dev = Dev(folder)
    try:
        yield Terminal(dev, folder)
    finally:
        dev.stop()


NARROW, WIDE = 80, 140
COMMANDS = ("", "get", "config")
"""The program, its longest help, and a group. tests/component/cli/test_help.py has the help of every command."""


def places(shown: str) -> int:
    return max(map(len, shown.splitlines()), default=0)


@pytest.fixture(scope="module")
def web(terminal: Terminal) -> Terminal:
    """An application in each of two namespaces."""
    document = "{kind: application, metadata: {name: web, namespace: NAMESPACE}, spec: {instance: 1, template: {spec: "
    document += "{containers: [{type: MESOS, command: sleep, args: ['600'], resources: {limits: {cpu: '0.1'}}}]}}}}"
    terminal.write("web.yaml", "\n---\n".join(document.replace("NAMESPACE", name) for name in ("shop", "bank")))
    assert terminal.run("bcs apply -f web.yaml --wait", NARROW)[0] == 0
    return terminal


@pytest.mark.parametrize("columns", [NARROW, WIDE])
def test_help_of_every_group_fits(terminal: Terminal, columns: int) -> None:
    line = "; ".join(f"bcs {words} --help || echo FAILED" for words in COMMANDS)
    code, shown = terminal.run(line, columns)
    assert code == 0 and "FAILED" not in shown and "Traceback" not in shown
    assert shown.count("Usage: bcs") == len(COMMANDS)
    assert places(shown) <= NARROW, "help is not wider than 80 columns, whatever the terminal is"


@pytest.mark.parametrize("columns", [NARROW, WIDE])
def test_lists_of_all_namespaces_fit(web: Terminal, columns: int) -> None:
    kinds = ("app,tg,agents,ns", "tx", "events")
    code, shown = web.run("; ".join(f"bcs get {kind} -A" for kind in kinds), columns)
    assert code == 0 and places(shown) <= columns
    rows = [line.split() for line in shown.splitlines()]
    assert {("bank", "application/web"), ("shop", "application/web")} <= {tuple(row[:2]) for row in rows}
    assert {("bank", "taskgroup/web-0"), ("shop", "taskgroup/web-0")} <= {tuple(row[:2]) for row in rows}
    assert [row[1].isdigit() and len(row[1]) == 6 for row in rows if "launch" in row[2:3]] == [True, True]
    assert "1 application" in shown and "1 applications" not in shown
    whole = [line for line in shown.splitlines() if "transaction/" in line]
    assert whole and all(re.search(r"transaction/\d{6} ", line) for line in whole)


@pytest.mark.parametrize("columns", [NARROW, WIDE])
def test_a_folder_with_errors_names_file_and_object(terminal: Terminal, columns: int) -> None:
    terminal.write("docs/bad.json", '{"kind": "application", "metadata": {"name": "bad"}, "spec": {"instance": "two"}}')
    terminal.write("docs/good.yaml", "{kind: namespace, metadata: {name: from-a-folder}}")
    code, shown = terminal.run("bcs apply -f docs", columns)
    assert code == 1 and "error: docs/bad.json: application/bad: " in shown
    assert "$.spec.instance" in shown and "error: 1 of 2 documents failed" in shown
    assert "namespace/from-a-folder" in shown, "the others are applied"
    terminal.write("broken/a.json", '{"kind": "application", ')
    terminal.write("broken/b.yaml", "kind: [x")
    terminal.write("broken/c.yaml", "{kind: namespace, metadata: {name: not-sent}}")
    code, shown = terminal.run("bcs apply -f broken; bcs get ns", columns)
    assert "error: the documents have 2 problems; nothing was sent" in shown and "not-sent" not in shown
    lines = shown.splitlines()
    assert sum(line.startswith(("  broken/a.json: not JSON: ", "  broken/b.yaml: not YAML: ")) for line in lines) == 2


def test_contexts(web: Terminal) -> None:
    url = web.server
    steps = (
        f"bcs config set-context here --server {url} -n shop",
        f"bcs config set-context tls --server {url.replace('http', 'https')}",
        "unset BCS_SERVER",
        "bcs config get-contexts",
        "bcs config use-context tls",
        "bcs get app",
        "bcs --context here get ns",
        "bcs --context nowhere get ns",
    )
    _, shown = web.run("; ".join(steps), NARROW)
    said = " ".join(shown.split())
    assert re.search(rf"\* +here +{url} +shop", shown), shown
    assert f"cannot reach {url.replace('http', 'https')}: the server does not use TLS: use {url}" in said
    assert "CONTENTS" in shown and "there is no context 'nowhere'" in said and "known: here, tls" in said


def test_the_progress_of_a_wait_is_one_line(web: Terminal) -> None:
    code, shown = web.run("bcs run --name slow --wait --timeout 2s --cpu 1000 -- sleep 600", NARROW)
    assert code == 4 and "not done after 2s" in shown
    bars = [line for line in re.split(r"[\r\n]+", web.raw) if "━" in line]
    assert bars and all(len(CONTROL.sub("", bar)) <= NARROW for bar in bars)
    assert any(re.search(r"transaction \d{6} ", CONTROL.sub("", bar)) for bar in bars)
    assert web.run("bcs delete app slow --wait", NARROW)[0] == 0


def test_a_program_that_cannot_start_ends_the_wait_with_its_reason(terminal: Terminal) -> None:
    code, shown = terminal.run("bcs run --name broken --wait -- /no/such/program", 80)
    assert code == 1 and "cannot start /no/such/program" in " ".join(shown.split())

    def with_reason() -> list[str] | None:
        """Between two attempts to start it, the taskgroup says why it has failed."""
        rows = terminal.run("bcs get pods", 80)[1].splitlines()
        return rows if rows[0].split()[-1] == "REASON" else None

    rows = wait_for(with_reason, 60, "the column REASON")
    assert any(row.startswith("broken-0") for row in rows)
    assert max(map(len, rows)) <= 80
    assert terminal.run("bcs delete app broken --wait", 80)[0] == 0


def test_a_program_that_crashes_after_it_ran_ends_a_stable_wait(terminal: Terminal) -> None:
    code, shown = terminal.run("bcs run --name crash --wait --stable 30s -- sh -c 'sleep 1; exit 3'", 80)
    assert code == 1 and "failed" in shown and "crash-0" in shown, shown
    assert terminal.run("bcs delete app crash --wait", 80)[0] == 0


@pytest.mark.parametrize("columns", [NARROW, WIDE])
def test_words_of_kubectl_are_understood(web: Terminal, columns: int) -> None:
    lines = (
        "bcs -n shop scale app web --replicas=1",
        "bcs -n shop wait --for=condition=available app web",
        "bcs apply -f web.yaml --dry-run=server",
        "bcs -n shop logs -l app=nothing; test $? = 3",
        "bcs api-resources; test $? = 2",
        "bcs -n shop delete pod web-0; test $? = 2",
    )
    for line in lines:
        code, shown = web.run(line, columns)
        assert code == 0 and "Traceback" not in shown, (line, shown)
        assert not re.search(r"\d{18}", shown), "no ids"


@pytest.mark.parametrize("columns", [NARROW, WIDE])
def test_the_reason_of_what_finds_no_place_has_the_numbers_of_agents(terminal: Terminal, columns: int) -> None:
    assert terminal.run("bcs run --name huge --cpu 1000 -- sleep 600", columns)[0] == 0

    def begun() -> bool:
        shown = terminal.run("bcs get app huge", columns)[1]
        assert places(shown) <= columns
        return "1 taskgroup without a" in shown

    def whole() -> bool:
        return "0 of 2 agents match: 2 lack CPUs" in terminal.run("bcs get app huge -o wide", columns)[1]

    wait_for(begun, 60, "the reason")
    wait_for(whole, 60, "the test that both agents failed")
    assert terminal.run("bcs delete app huge --wait", columns)[0] == 0
