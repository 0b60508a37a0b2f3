"""tests/conftest.py: which tests must run in one process."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import GROUPS_FILE, Sharing, group_of, pytest_collection_finish


@pytest.mark.parametrize(
    ("markers", "fixtures", "group"),
    [
        ([], [], "tests/integration/test_it.py"),
        (["slow"], ["tmp_path"], "tests/integration/test_it.py"),
        (["zookeeper"], [], "zookeeper"),
        ([], ["zookeeper_ensemble"], "zookeeper"),
        (["mesos"], [], "mesos"),
        ([], ["own_mesos"], "mesos"),
        (["zookeeper", "mesos"], [], "mesos"),
    ],
)
def test_a_test_belongs_to_the_group_of_the_shared_part_that_it_uses(
    markers: list[str], fixtures: list[str], group: str
) -> None:
    item: Any = SimpleNamespace(
        nodeid="tests/integration/test_it.py::test_it[zookeeper]",
        fixturenames=fixtures,
        get_closest_marker=lambda name: name if name in markers else None,
    )
    assert group_of(item) == group


def test_every_process_leaves_the_groups_of_its_tests_to_the_one_that_shares_them_out(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    file = tmp_path / "groups.json"
    config = SimpleNamespace(workerinput={GROUPS_FILE: str(file)})
    session: Any = SimpleNamespace(config=config, items=[request.node])
    pytest_collection_finish(session)
    sharing: Any = SimpleNamespace(groups=json.loads(file.read_text()))
    assert Sharing._split_scope(sharing, request.node.nodeid) == "tests/unit/test_sharing.py"
