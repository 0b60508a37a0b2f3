"""The policy in YAML, and the example of a plug-in: installed as a package and used as a user would."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

from bcs_scheduler.settings.policies import (
    ACTIONS,
    BadPlugin,
    installed,
    policy_of_settings,
    queues_of_settings,
    read_policy,
)
from bcs_scheduler.settings.sections import ConfigError
from offers.policy.session.configuration import BadPolicy, Registry, default_policy

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "conf" / "examples" / "policy-plugin"


def problems(path: Path) -> list[str]:
    with pytest.raises(BadPolicy) as bad:
        read_policy(path, Registry())
    return [str(problem) for problem in bad.value.problems]


def test_the_policy_that_is_shipped_is_the_default() -> None:
    shipped = read_policy(ROOT / "conf" / "policy.yaml", Registry())
    assert shipped == default_policy()


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    assert problems(path) == [f"{path}: No such file or directory"]
    path.write_text("actions: [")
    assert problems(path)[0].startswith(f"{path}: not YAML: ")
    path.write_bytes(b"actions: \xff")
    assert problems(path) == [f"{path}: not UTF-8"]
    path.write_text("")
    assert problems(path) == ["actions: is missing", "tiers: is missing"]
    path.write_text("actions: allocate\ntiers:\n- plugins:\n  - {name: gnag}\n  - {name: gang, arguments: {size: 1}}\n")
    assert [problem.split(": ")[0] for problem in problems(path)] == [
        "tiers[0].plugins[0].name",
        "tiers[0].plugins[1].arguments.size",
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("actions: allocate\ntiers: []\nactions: preempt\n", "line 3, column 1: the key 'actions' is given twice"),
        ("tiers: &a\n- plugins: *a\n", "line 2, column 12: the value &a contains itself"),
        ("tiers: " + "[" * 3000, "nested more than 66 levels deep"),
        ("session: {pluginSeconds: " + "9" * 5000 + "}", "Exceeds the limit"),
        ("actions: !!binary aGk=\n", "line 1, column 10: documents have no values of tag:yaml.org,2002:binary"),
        ("actions: a\n---\nactions: b\n", "holds 2 documents in place of one"),
    ],
)
def test_texts_that_readers_could_take_differently_are_refused(text: str, found: str, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    (problem,) = problems(path)
    assert problem.startswith(f"{path}: not YAML: {found}")


def test_aliases_that_stand_for_billions_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    lines = ["a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    path.write_text("\n".join(lines))
    (problem,) = problems(path)
    assert "the aliases stand for more than 1000000 values" in problem


def test_an_empty_file_is_no_tree_of_queues(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text("# nothing yet\n")
    with pytest.raises(ConfigError, match="queues: the file is empty"):
        queues_of_settings("hierarchical", str(path))


def test_the_tree_of_queues_that_is_shipped_can_be_used() -> None:
    found = queues_of_settings("hierarchical", str(ROOT / "conf" / "queues.yaml"))
    assert found is not None and [queue.name for queue in found.partition.root.queues] == ["default", "batch", "online"]
    assert queues_of_settings("session", "") is None and queues_of_settings("simple", "") is None
    assert json.loads(found.document)["queues"][0] == {"name": "default"}
    alone = queues_of_settings("hierarchical", "")
    assert alone is not None and alone.document == ""
    assert alone is not None and [queue.name for queue in alone.partition.root.queues] == ["default"]


def test_a_tree_of_queues_is_refused_with_all_its_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text(
        "queues:\n- {name: a, resources: {max: {cpus: 2}, guaranteed: {cpus: 3, gpu: 1}}}\n- {name: a}\n"
        "placementrules:\n- {name: fixed, value: missing}\n"
    )
    with pytest.raises(ConfigError) as refused:
        queues_of_settings("hierarchical", str(path))
    text = str(refused.value)
    for place in (
        "queues[0].resources.guaranteed.cpus: ",
        "queues[0].resources.guaranteed.gpu: unknown resource: GPUs are named gpus",
        "queues[1].name: two queues have the name a",
        "placementrules[0].value: ",
    ):
        assert place in text
    with pytest.raises(ConfigError, match="No such file"):
        queues_of_settings("hierarchical", str(tmp_path / "none.yaml"))


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the example was installed by pip."""
    folder = tmp_path_factory.mktemp("packages")
    source = tmp_path_factory.mktemp("source") / "policy-plugin"
    copytree(EXAMPLE, source)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(folder), str(source)], check=True, timeout=120)
    return folder


PROGRAM = """
import json, sys
from pathlib import Path
from bcs_scheduler.settings.policies import read_policy
from offers.policy.session.model import Agent, Job, Queue, Status, Task, Template
from offers.policy.session.session import decide
from offers.policy.session.snapshot import Snapshot

total = (("cpus", 8000), ("mem", 8000000))
agents = [
    Agent("a1", total, attributes={"power": "battery", "year": 30.0}),
    Agent("a2", total, attributes={"power": "mains", "year": 1.0}),
    Agent("a3", total, attributes={"power": "mains", "year": 9.0}),
]
small, large = Template((("cpus", 100), ("mem", 100000))), Template((("cpus", 4000), ("mem", 1000000)))
jobs = [
    Job("small", "q", (Task("t", small),)),
    Job("large", "q", tuple(Task(f"t{n}", large) for n in range(5)), min_available=5),
    Job("old", "q", (Task("t", small, Status.RUNNING, "a1"), Task("c", small, Status.RUNNING, "a1", critical=True))),
]
decisions = decide(Snapshot(agents, [Queue("q")], jobs), read_policy(Path(sys.argv[1])))
print(json.dumps({
    "binds": {f"{bind.job}/{bind.task}": bind.agent for bind in decisions.binds},
    "evictions": [f"{one.job}/{one.task}" for one in decisions.evictions],
    "refusals": dict(decisions.conditions["large"].refusals),
    "faults": decisions.faults,
}))
"""


def test_the_example_is_found_by_its_entry_points_and_decides(packages: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    found = subprocess.run(
        [sys.executable, str(program), str(EXAMPLE / "policy.yaml")],
        env={"PYTHONPATH": f"{packages}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.stderr == ""
    assert json.loads(found.stdout) == {
        # Twice the year of a1 is more than the points of a2 and a3 for mains.
        "binds": {"small/t": "a1"},
        "evictions": ["old/t"],
        "refusals": {"OnBattery": 1},
        "faults": [],
    }


def test_without_the_package_its_names_are_unknown() -> None:
    with pytest.raises(BadPolicy) as bad:
        read_policy(EXAMPLE / "policy.yaml", Registry())
    assert [problem.path for problem in bad.value.problems] == [
        "actions[1]",
        "tiers[1].plugins[4].name",
        "tiers[1].plugins[5].name",
    ]


def test_a_package_that_cannot_be_loaded_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "broken-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[{ACTIONS}]\nvanish = no_such_module:Vanish\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BadPlugin, match="vanish of broken: ModuleNotFoundError"):
        installed()


def test_the_settings_choose_the_policy(tmp_path: Path) -> None:
    assert policy_of_settings("simple", "") is None
    assert policy_of_settings("session", "") == default_policy()
    assert policy_of_settings("session", str(ROOT / "conf" / "policy.yaml")) == default_policy()
    path = tmp_path / "policy.yaml"
    path.write_text("actions: allocate, sleep\ntiers: [{plugins: [{name: gang}, {name: nothing}]}]")
    with pytest.raises(ConfigError) as refused:
        policy_of_settings("session", str(path))
    assert "sleep" in str(refused.value) and "nothing" in str(refused.value), "every mistake at a time"
    path.write_text("actions: reclaim, allocate, preempt\ntiers: [{plugins: [{name: gang}]}]")
    found = policy_of_settings("session", str(path))
    assert found is not None
    assert [choice.action.name for choice in found.actions] == ["reclaim", "allocate", "preempt"]
