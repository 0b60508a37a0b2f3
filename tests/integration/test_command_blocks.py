"""Every command block of README.md and docs/ is executed as it stands, or is known for a reason why it cannot be.

Two terminals play the README from a folder like that of the source: one runs `bcs-scheduler dev`, the other one types
everything else. They have 80 columns, and in turn 140; commands that only read are shown in both widths. Their
environment has the newest versions of the dependencies. The layout on the screen of each command is checked.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.commandblocks import Block, collected, options
from tests.integration.desk import Desk, named, started
from tests.integration.typing_terminal import TypingTerminal
from tests.screens import faults, tables

pytestmark = pytest.mark.slow

ROOT_ONLY = "needs root: it writes below /etc"
OTHER_HOSTS = "needs other hosts: an ensemble of ZooKeeper and Mesos by name"
ITSELF = "is the run of the tests itself"
MEASUREMENT = "takes minutes: it measures"
OWN_CLUSTER = "starts a cluster of its own; test_policies.py plays the example"
OWN_PARTITIONS = "starts a cluster of its own; test_partition_trees.py plays the example"
OWN_TREE = "starts a cluster of its own; engines/test_hierarchical.py has the preemption towards a guarantee"
RESERVING = "starts a cluster of its own; test_reservations.py and test_appmanagers.py have reservations"
MANAGER = "installs a package beside the program; test_appmanagers.py has the manager of the example"
INSTALLS = "installs on this machine; test_packages.py builds, installs and starts package and image in containers"
"""The only reasons for which a block is not executed."""


class Excluded(NamedTuple):
    why: str


class Executed(NamedTuple):
    """`before`, `after`: what a reader has done before the block, and does to clean up."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


PARTITIONS = "BCS_SCHEDULER_POLICIES_FILE=conf/policies.yaml BCS_MESOS_ROLES='*,prod,web,batch' bcs-scheduler"
HIERARCHICAL = "BCS_SCHEDULER_POLICY=hierarchical BCS_SCHEDULER_POLICY_FILE=conf/queues.yaml bcs-scheduler"
WEB = Executed(("bcs apply -f conf/examples/web.json --wait",), ("bcs delete web --wait",))
TABLE: dict[str, Excluded | Executed] = {
    "README.md: make demo #": Executed(),
    "README.md: make venv &&": Executed(),
    "README.md: bcs-scheduler dev": Executed(),
    "README.md: . .venv/bin/activate": Executed(),
    "README.md: bcs apply -f": Executed((), ("rm v2.json",)),
    "README.md: bcs scale web": Executed(),
    "README.md: bcs-scheduler serve --config": Excluded(OTHER_HOSTS),
    "docs/api.md: S=http://127.0.0.1:8080/v4/scheduler/mesos": Executed((), ("bcs delete web -n default --wait",)),
    "docs/benchmarks.md: python -m benchmarks": Excluded(MEASUREMENT),
    "docs/benchmarks.md: python -m benchmarks.dumping": Excluded(MEASUREMENT),
    "docs/benchmarks.md: python -m benchmarks.console": Excluded(MEASUREMENT),
    "docs/coming-from-bcs.md: bcs diff -n": Executed(),
    "docs/coming-from-bcs.md: bcs apply -n": Executed(),
    "docs/coming-from-bcs.md: bcs describe app": Executed(),
    "docs/coming-from-kubectl.md: bcs run --name": Executed(),
    "docs/installation.md: pipx install dist/bcs_scheduler-*.whl": Excluded(INSTALLS),
    "docs/installation.md: make deb": Excluded(INSTALLS),
    "docs/installation.md: make image": Excluded(INSTALLS),
    "docs/jobs.md: bcs run --name": Executed(),
    "docs/jobs.md: bcs apply -f": Executed(),
    "docs/operations.md: bcs-scheduler serve --config": Excluded(ROOT_ONLY),
    "docs/policies.md: bcs-scheduler dev &": Executed(),
    "docs/policies.md: export BCS_NAMESPACE=default": Executed(
        ("bcs delete application gang filler --wait",), ("bcs delete application filler master worker --wait",)
    ),
    'docs/policies.md: echo \'{"kind": "PriorityClass",': Executed((), ("bcs delete priorityclass online",)),
    "docs/policies.md: BCS_SCHEDULER_POLICY=session bcs-scheduler dev": Excluded(OWN_CLUSTER),
    f"docs/policies.md: {HIERARCHICAL}": Excluded(OWN_TREE),
    f"docs/policies.md: {PARTITIONS}": Excluded(OWN_PARTITIONS),
    "docs/policies.md: BCS_SCHEDULER_POLICY=session BCS_SCHEDULER_POLICY_FILE=preempt.yaml bcs-scheduler": Excluded(
        OWN_CLUSTER
    ),
    "docs/policies.md: BCS_SCHEDULER_PLACEHOLDERS=sleep bcs-scheduler dev": Excluded(RESERVING),
    "docs/policies.md: pip install tests/component/appmanager_spool": Excluded(MANAGER),
    "docs/simulator.md: bcs simulate --agents": Executed((), ("rm -f report.html",)),
    "docs/simulator.md: bcs simulate --live": Executed(),
    "docs/simulator.md: bcs dump cluster.json.gz": Executed((), ("rm cluster.json.gz",)),
    "docs/operations.md: bcs-scheduler serve --store": Excluded(OTHER_HOSTS),
    "docs/operations.md: bcs logs web": WEB,
    "docs/operations.md: bcs follow -n": Excluded(ROOT_ONLY),
    "docs/operations.md: bcs-scheduler token new": Executed(),
    "docs/operations.md: (umask 077; bcs-scheduler": Excluded(ROOT_ONLY),
    "docs/operations.md: bcs-scheduler protect-store --store": Excluded(OTHER_HOSTS),
}
ENDS = re.compile(r"# exit code (\d)")
WIDE, NARROW = 140, 80
TABLE_OF = re.compile(r"bcs (get|top|rollout history|queue list)\b(?!.* -o [^w])(?!.*\|)")
"""Commands that print a table."""
WHOLE, UNBOUNDED = re.compile(r" -o wide\b"), 1000
"""Lines of such tables may be longer than those of the terminal, as with kubectl. Columns that are enough for each."""
READS = re.compile(
    r"bcs (get|top|describe|explain|story|events|diff|rollout (history|status)|queue list)\b[^|>&]*(#|$)"
)
"""Commands that change nothing, so that they can be repeated in a terminal of another width."""
PLACEHOLDERS = ("1700000000123456789", "10.0.0.4")
"""Time in ids of examples, which no object has, and address of an agent, which the embedded cluster has not."""
DONE, NOT_FOUND = 0, 1405202
"""Codes of answers."""


def test_every_block_is_executed_or_known_for_a_reason() -> None:
    found = {block.name for block in collected()}
    assert found == TABLE.keys()
    assert sum(isinstance(entry, Executed) for entry in TABLE.values()) > len(TABLE) / 2


def test_a_new_block_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.commandblocks.ROOT", tmp_path)
    (tmp_path / "docs" / "deep").mkdir(parents=True)
    (tmp_path / "README.md").write_text(
        "```\nbcs new \\\n  -x\nnext\n```\n```json\n{}\n```\ntext\n\n    make it\n    bcs it\n\nend\n"
    )
    (tmp_path / "docs" / "deep" / "page.md").write_text("```sh\ncurl x\n```\n    no command\n")
    assert [(block.file, block.line, block.commands) for block in collected()] == [
        ("README.md", 2, ["bcs new    -x", "next"]),
        ("README.md", 11, ["make it", "bcs it"]),
        ("docs/deep/page.md", 2, ["curl x"]),
    ]


def blocks(kind: type) -> list[Block]:
    return [block for block in collected() if isinstance(TABLE.get(block.name), kind)]


@pytest.mark.parametrize("block", blocks(Excluded), ids=lambda block: f"{block.file}:{block.line}")
def test_options_of_a_block_that_is_not_executed_exist(block: Block) -> None:
    for command in simple_commands(block):
        program, given = options(command)
        words = () if program[0] == "python" else tuple(program[1:])
        missing = [option for option in given if not re.search(rf"{option}\b", help_of(program[0], words))]
        assert missing == [], command


def simple_commands(block: Block) -> list[str]:
    """The calls of our programs, without variables before them, pipes, redirections and the end of a sub-shell."""
    found = []
    for line in block.commands:
        for part in line.partition(" #")[0].replace("(umask 077; ", "").split("|"):
            call = re.sub(r"^(\w+=\S+ )+", "", part.partition(" > ")[0].strip()).removesuffix("&")
            if call.split()[:1] in (["bcs"], ["bcs-scheduler"], ["python"]):
                found.append(call)
    return found


@cache
def help_of(program: str, words: tuple[str, ...]) -> str:
    module = {"bcs": "bcs_scheduler.cli.main", "bcs-scheduler": "bcs_scheduler.main", "python": "benchmarks"}[program]
    command = [sys.executable, "-m", module, *words, "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


# --- two terminals ------------------------------------------------------------------------------------------------


@pytest.fixture
def empty_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """For an example that needs all room of the cluster."""
    desk = Desk(tmp_path_factory.mktemp("terminals"))
    try:
        yield desk
    finally:
        desk.close()


@pytest.fixture(scope="module", params=[NARROW, pytest.param(WIDE, marks=pytest.mark.rotating)])
def desk(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Desk]:
    desk = Desk(tmp_path_factory.mktemp("terminals"), request.param)
    try:
        yield desk
    finally:
        desk.close()


def test_gangs_groups_and_priority_classes(empty_desk: Desk) -> None:
    started(empty_desk)
    assert empty_desk.second.run(". .venv/bin/activate")[0] == 0
    of_policies = [block for block in blocks(Executed) if block.file == "docs/policies.md"]
    assert len(of_policies) == 3
    for block in of_policies:
        entry = TABLE[block.name]
        assert isinstance(entry, Executed)
        for line in (*entry.before, *block.commands, *entry.after):
            if line.partition(" &")[0] != "bcs-scheduler dev":
                type_line(empty_desk.second, line, block)
    assert empty_desk.first.interrupt()[0] == 0


def test_the_readme_and_all_other_blocks_work_in_two_terminals(desk: Desk) -> None:
    url = started(desk)
    for block in blocks(Executed):
        if block.lines[0].startswith(("make", "bcs-scheduler dev")) or block.file == "docs/policies.md":
            continue
        entry = TABLE[block.name]
        assert isinstance(entry, Executed)
        for line in (*entry.before, *block.commands, *entry.after):
            type_line(desk.second, line.replace("http://127.0.0.1:8080", url), block)
    code, _ = desk.first.interrupt()
    assert code == 0


@pytest.mark.rotating
def test_the_demo_works_and_the_other_targets_exist(desk: Desk) -> None:
    command: dict[str, Any] = {"cwd": desk.folder, "env": desk.environment, "capture_output": True, "text": True}
    demo = subprocess.run(["make", "demo"], **command)
    assert demo.returncode == 0 and "done in" in demo.stdout, (demo.stdout + demo.stderr)[-3000:]
    targets = [line.split()[1] for line in named("README.md: make demo #").commands]
    assert subprocess.run(["make", "-n", *targets], **command).returncode == 0


def checked(terminal: TypingTerminal, line: str) -> None:
    """The layout on the screen is in order, and a command for tables shows one."""
    screen = terminal.screen(UNBOUNDED if WHOLE.search(line) else 0)
    assert faults(screen) == [], line
    if TABLE_OF.match(line):
        assert any(tables(screen.lines)), (line, screen.lines)
        assert screen.colours_of("Running") <= {"green"}, line
    if line.startswith("bcs diff"):
        signs = {(text[0], colours[0]) for text, colours in zip(screen.lines, screen.colours, strict=True) if text}
        assert {("-", "red"), ("+", "green")} <= signs, (line, screen.lines)


def type_line(terminal: TypingTerminal, line: str, block: Block) -> None:
    """The line ends as its block promises."""
    if re.match(r"bcs logs [^#]* -f\b", line):
        terminal.type(line)
        terminal.until(" serves on port ")
        code, shown = terminal.interrupt()
        assert code in (0, 130), (line, shown)
        return
    code, shown = terminal.run(line)
    said = ENDS.search(line)
    expected = int(said[1]) if said else 1 if line.startswith("bcs diff") else 0
    assert code == expected, (block.file, line, shown)
    assert "Traceback" not in shown, (line, shown)
    checked(terminal, line)
    if READS.match(line):
        usual = terminal.columns
        for other in {NARROW, WIDE} - {usual}:
            terminal.resize(other)
            assert terminal.run(line)[0] == expected, line
            checked(terminal, line)
            terminal.resize(usual)
    if line.startswith("curl") and block.file == "README.md":
        assert "\nweb v1 taskgroup 0 on " in shown, shown
    elif line.startswith("curl"):
        answer, _ = json.JSONDecoder().raw_decode(shown[shown.rindex('{"result"') :])
        allowed = (DONE, NOT_FOUND) if any(word in line for word in PLACEHOLDERS) else (DONE,)
        assert answer["code"] in allowed, (line, answer)
