"""tests/conftest.py: the order in which files of tests begin, and how they are given to processes."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import LONG, SINGLE, Sharing, order_of, pytest_collection_modifyitems, rank_of

ROOT = Path(__file__).resolve().parents[2]


NO_CONFIG: Any = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda items: None))
"""A configuration without plug-ins, which the order of tests does not need."""


def marked(nodeid: str, *markers: str) -> Any:
    return SimpleNamespace(
        nodeid=nodeid,
        get_closest_marker=lambda name: name if name in markers else None,
        iter_markers_with_node=lambda name: iter(()),
    )


@pytest.mark.parametrize(
    ("markers", "rank"), [(["slow", "mesos"], 0), (["mesos", "zookeeper"], 1), (["zookeeper"], 2), ([], len(LONG))]
)
def test_a_test_has_the_rank_of_its_longest_marker(markers: list[str], rank: int) -> None:
    assert rank_of(marked("tests/unit/test_it.py::test_it", *markers)) == rank


def test_long_files_come_first_and_both_kinds_are_mixed() -> None:
    waiting = {f"tests/integration/test_{number}.py": 3 - number for number in range(3)}
    computing = {f"tests/unit/test_{number}.py": 3 for number in range(6)}
    order = order_of({**computing, **waiting})
    assert [file for file in order if file in waiting] == sorted(waiting, reverse=True)
    assert [len(set(order[at : at + 3]) & set(waiting)) for at in (0, 3, 6)] == [1, 1, 1]


def test_the_tests_of_a_file_stay_together_in_their_order() -> None:
    ids = ["tests/unit/a.py::one", "tests/integration/b.py::one", "tests/unit/a.py::two", "tests/integration/b.py::two"]
    items = [marked(nodeid) for nodeid in ids]
    items[3] = marked(ids[3], "slow")
    pytest_collection_modifyitems(NO_CONFIG, items)
    assert [item.nodeid for item in items] == [ids[1], ids[3], ids[0], ids[2]]


def test_a_file_is_given_to_one_process() -> None:
    sharing: Any = SimpleNamespace()
    assert Sharing._split_scope(sharing, "tests/unit/test_it.py::TestIt::test_it[a::b]") == "tests/unit/test_it.py"


def test_the_tests_of_a_single_file_are_given_out_one_by_one_at_the_end() -> None:
    sharing: Any = SimpleNamespace()
    ids = [f"{SINGLE[0]}::test_it[a::b]", "tests/unit/test_it.py::test_it", f"{SINGLE[0]}::test_it[c]"]
    items = [marked(nodeid) for nodeid in ids]
    pytest_collection_modifyitems(NO_CONFIG, items)
    assert [item.nodeid for item in items] == [ids[1], ids[0], ids[2]]
    assert [Sharing._split_scope(sharing, nodeid) for nodeid in (ids[0], ids[2])] == [ids[0], ids[2]]
    assert all((ROOT / file).is_file() for file in SINGLE)


def test_no_two_files_give_their_clusters_the_same_ports() -> None:
    """Two processes may run them at the same time: a task that finds its port in use fails."""
    ranges = [
        (int(found[1]), int(found[2]), path.name)
        for path in sorted((ROOT / "tests/integration").glob("*.py"))
        for found in re.finditer(r"--ports=(\d+)-(\d+)", path.read_text(encoding="utf-8"))
    ]
    used = sorted({(low, high, name) for low, high, name in ranges if low < high})
    assert len(used) >= 6
    assert [pair for pair in itertools.pairwise(used) if pair[1][0] <= pair[0][1]] == []
