"""Every example of the help is typed into a real terminal, with the newest dependencies. The layout is checked."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from bcs_scheduler.cli.main import bcs
from tests.integration.desk import Desk, started
from tests.integration.typing_terminal import TypingTerminal
from tests.screens import faults
from tests.sources import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.rotating, pytest.mark.timeout(900)]

AGENTS = {"10.0.0.7": "agent-1", "10.0.0.8": "agent-2"}
"""Those of the examples, and those of the embedded cluster."""
REMARK = re.compile(r"\s{2,}(#.*|[a-z].*)$")
FOLLOWS = {
    "bcs logs web -f": " serves on port ",
    "bcs logs web-0 -f": " serves on port ",
    "bcs get events --for deployment/web -w": "  info  ",
    "bcs events web -w": "  info  ",
    "bcs top applications -A -w": "NAMESPACE",
    "bcs queue top batch online -w": "QUEUE",
}
"""Examples that go on until Ctrl-C, and a text of each that does not stand in its line."""
SHELL = "bcs exec -it web-0 -- sh"
LEFT_OUT = {
    "bcs follow": "ends with Ctrl-C; tests/integration/test_publishing.py and test_command_blocks.py have its output",
    "bcs attach": "shows the output of a task only; test_container_engine.py has it",
    "bcs port-forward": "shows nothing but its address; test_forwarding.py has it",
    "curl": "needs the port that the line before has opened",
    "bcs wait web --for deleted": "waits for another command",
    "bcs drain": "waits until its taskgroups have moved, which depends on the other examples; test_drains.py has it",
    "bcs set image": "needs containers with images; tests/component/cli has it",
    "bcs framework": "ends the registration of the cluster that the other examples use",
    "bcs completion fish": "a line of another shell",
    'eval "$(bcs completion zsh)"': "a line of another shell",
}
LAST = ("bcs delete", "bcs queue delete", "bcs config")
"""Commands whose examples come after those of all others."""
ENDINGS = (0, 1, 3, 6)
"""Exit codes of examples: done; failed or different; not found; a conflict. The cluster does not have every object that
the examples name, and no container engine. Others, such as those of an internal error or a wrong option, are faults."""
LEAST_DONE = 0.5
"""Share of the examples that end with 0."""
UNBOUNDED = 1000
"""Columns that are enough for tables with whole cells, whose lines may be longer than those of the terminal."""


def examples() -> list[str]:
    """In the order of the help, each once, with lines that go on joined and without remarks."""
    blocks = [(command.epilog or "").partition("Examples:\n")[2] for command in walked(bcs)]
    lines = [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    found = [" ".join(REMARK.sub("", line).split()) for line in lines if line]
    return sorted(dict.fromkeys(found), key=lambda line: line.startswith(LAST))


def walked(command: click.Command) -> Iterator[click.Command]:
    if command.hidden:
        return
    yield command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from walked(found)


@pytest.fixture(scope="module", params=[80, 140])
def terminal(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[TypingTerminal]:
    desk = Desk(tmp_path_factory.mktemp("examples"), request.param)
    try:
        url = started(desk)
        folder = desk.folder.parent / "desk"
        files(folder)
        for line in (f". .venv/bin/activate; cd {folder}; export BCS_SERVER={url}", *WORLD):
            code, text = desk.second.run(line)
            assert code == 0, (line, text)
        yield desk.second
        desk.first.interrupt()
    finally:
        desk.close()


def files(folder: Path) -> None:
    """What the examples read."""
    folder.mkdir()
    conf = ROOT / "conf"
    for name in ("web.json", "web-v2.json"):
        shutil.copy(conf / "examples" / name, folder)
    shutil.copy(conf / "examples" / "web.json", folder / "web.yaml")
    shutil.copy(conf / "queues.yaml", folder)
    shutil.copy(conf / "policy.yaml", folder)
    shutil.copy(conf / "examples" / "simulation" / "demo.jsonl", folder / "events.jsonl")
    for name in ("directory", "site"):
        (folder / name).mkdir()
    shutil.copy(conf / "examples" / "namespace.json", folder / "directory")
    (folder / "site" / "index.html").write_text("hello")
    (folder / "page.html").write_text("hello")
    (folder / "motd.txt").write_text("hello")
    (folder / "change.yaml").write_text("metadata: {labels: {a: b}}")
    (folder / "haproxy.j2").write_text("# {{ services }}")


WORLD = (
    "export EDITOR=true",
    "bcs apply -f web.json --wait",
    "bcs apply -f $OLDPWD/conf/examples/deployment.json --wait",
    "bcs apply -f $OLDPWD/conf/examples/shop.yaml --wait",
    "bcs create namespace shop",
    "bcs -n shop create deployment web --instances 2 --port http --wait -- sleep 3600",
    "bcs -n shop create service web --port http:8000",
    "bcs queue create online",
    "bcs create configmap motd --from-literal text=hello",
    "bcs create secret motd --from-literal text=hello",
    "bcs config set-context old --server http://127.0.0.1:1",
)


def typed(terminal: TypingTerminal, example: str) -> int:
    """Exit code. The screen has what the line shows."""
    line = example.replace("EDITOR=nano", "EDITOR=true")
    for theirs, ours in AGENTS.items():
        line = line.replace(theirs, ours)
    if re.search(r"(deploy|deployment|svc)/web|deployment web", line):
        line = f"BCS_NAMESPACE=shop {line}"
    if example == SHELL:
        terminal.type(line)
        terminal.until("# " if os.geteuid() == 0 else "$ ")
        terminal.type("exit")
        return terminal.ended()[0]
    if example in FOLLOWS:
        terminal.type(line)
        terminal.until(FOLLOWS[example], 60)
        code, _ = terminal.interrupt()
        return 0 if code == 130 else code
    return terminal.run(line)[0]


def test_every_example_shows_a_screen_in_order(terminal: TypingTerminal) -> None:
    played = [example for example in examples() if not example.startswith(tuple(LEFT_OUT))]
    codes, wrong = {}, []
    for example in played:
        codes[example] = typed(terminal, example)
        screen = terminal.screen(UNBOUNDED if " -o wide" in example else 0)
        text = "\n".join(screen.lines)
        if codes[example] not in ENDINGS or "Traceback" in text:
            wrong.append(f"{example}: exit code {codes[example]}\n{text}")
        wrong += [f"{example}: {fault}" for fault in faults(screen)]
    assert wrong == []
    done = [example for example, code in codes.items() if code == 0]
    assert len(done) > LEAST_DONE * len(played), {example: code for example, code in codes.items() if code}


def test_reasons_for_examples_that_are_left_out_belong_to_examples() -> None:
    known = examples()
    assert [name for name in (*LEFT_OUT, *FOLLOWS, SHELL) if not any(line.startswith(name) for line in known)] == []
