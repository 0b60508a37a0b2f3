"""tests/effort.py: which tests a run of `make test` has, and that none is left out for good."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest, effort
from tests.simulation import test_simulation as worlds
from tests.simulation.simulation import simulate

ROOT = Path(__file__).resolve().parents[2]
ALWAYS = (
    "tests/integration/test_contract.py",
    "tests/integration/test_dev.py",
    "tests/integration/test_end_to_end.py",
    "tests/integration/test_executor_mesos.py",
    "tests/integration/test_policies_mesos.py",
    "tests/integration/test_stores.py",
    "tests/integration/test_zookeeper_store.py",
)
"""Files that do not rotate as a whole: the real Mesos, the real ZooKeeper, the program as users run it."""
WHOLE = re.compile(r"^pytestmark = .*rotating", re.MULTILINE)
ROTATING = re.compile(r"pytest\.mark\.rotating|\"rotating\"")


def item(nodeid: str, *carriers: str) -> Any:
    """A test whose marker `rotating` is on `carriers`, the closest first."""
    marks = [(SimpleNamespace(nodeid=carrier), object()) for carrier in carriers]
    return SimpleNamespace(nodeid=nodeid, iter_markers_with_node=lambda name: marks if name == "rotating" else [])


def files(number: int) -> list[str]:
    return [f"tests/integration/test_{index}.py" for index in range(number)]


def test_successive_commits_run_every_rotating_test_once() -> None:
    items = [item(f"{name}::test_it", name) for name in files(200)]
    for first in (0, 3, 1_000):
        run = [
            one.nodeid
            for commits in range(first, first + effort.SHARES)
            for one in items
            if not effort.left_out(one, effort.share_of_commit(commits))
        ]
        assert sorted(run) == sorted(one.nodeid for one in items)


def test_shares_are_of_similar_size() -> None:
    shares = [effort.share_of_unit(name) for name in files(700)]
    assert all(35 <= shares.count(share) <= 85 for share in range(effort.SHARES))


def test_a_file_that_rotates_as_a_whole_is_in_one_share() -> None:
    name = files(1)[0]
    tests = [item(f"{name}::test_{number}", name) for number in range(50)]
    assert {effort.left_out(one, effort.share_of_unit(name)) for one in tests} == {False}


def test_a_test_without_the_marker_is_in_every_run() -> None:
    assert not any(effort.left_out(item("tests/unit/test_it.py::test_it"), share) for share in range(effort.SHARES))


def test_a_run_tells_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "ROTATE", True)
    monkeypatch.setenv("SHARE", "2")
    names = files(20)
    items = [item(f"{name}::test_it", name) for name in names]
    for one in items:
        one.get_closest_marker = lambda name: None
    told: list[Any] = []
    config: Any = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda items: told.extend(items)))
    conftest.pytest_collection_modifyitems(config, items)
    kept = {one.nodeid.partition("::")[0] for one in items}
    assert kept == {name for name in names if effort.share_of_unit(name) == 2}
    assert kept and len(told) + len(items) == len(names)


@pytest.mark.parametrize("text", ["12", "-1", "x"])
def test_a_share_that_does_not_exist_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARE", text)
    with pytest.raises(pytest.UsageError, match=f"SHARE={text}: a number from 0 to 11"):
        effort.chosen_share()


def test_what_proves_the_program_on_real_parts_is_in_every_run() -> None:
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in ALWAYS}
    assert [name for name, text in texts.items() if WHOLE.search(text)] == []
    assert all(text.count("\ndef test_") > len(ROTATING.findall(text)) for text in texts.values())


def test_a_simulation_of_every_policy_is_in_every_run() -> None:
    kinds = {name for world in worlds.WORLDS.values() for name in world}
    taken = inspect.signature(simulate).parameters.values()
    assert kinds == {one.name for one in taken if one.default is False and one.name not in ("trace", "verbose")}
    marks = getattr(worlds.test_worlds_of_every_policy_keep_the_rules, "pytestmark", [])
    assert [mark.name for mark in marks] == ["parametrize"]


def test_seeds_in_turn_differ_in_each_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "FULL", True)
    every = list(effort.in_turn(5, 2))
    monkeypatch.setattr(effort, "FULL", False)
    monkeypatch.setattr(effort, "ROTATE", True)
    shares: list[int] = []
    for number in range(effort.SHARES):
        monkeypatch.setenv("SHARE", str(number))
        shares += effort.in_turn(5, 2)
    assert shares == every == list(range(5, 29))
