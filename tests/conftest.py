"""How tests are shared out when several processes run them (`pytest -n 2`).

Every test belongs to one group, and a group runs in one process, in its order:

    mesos        every test with the real Mesos: its clusters are shared, and a test may kill what another would miss
    zookeeper    the tests with the real ZooKeeper and without the real Mesos, for the same reason
    <file>       all others, with those of the same file, for the sake of the fixtures that they share

The two groups that cannot be divided are begun first, one in each process; files fill up what is left.

The process that shares the tests out knows only their ids. The processes that run them know the markers, so they leave
the groups in a file. (`--dist loadgroup` of xdist does not work with pytest 9.2: it changes ids that are fixed there.)
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling

# Hypothesis's deadline of 200 ms per example measures the machine, not the code: two processes share its cores.
hypothesis.settings.register_profile("no-deadline", deadline=None)
hypothesis.settings.load_profile("no-deadline")

SHARED = {
    "mesos": {"real_mesos", "ha_mesos", "own_mesos", "big_mesos"},
    "zookeeper": {"zookeeper", "zookeeper_ensemble", "shared_ensemble"},
}
"""Groups of tests that use one shared part, in the order in which they are begun: their marker, which is the name of
the group, and the fixtures that give the part. A test of both groups belongs to the first."""
GROUPS_FILE = "groups_file"
"""Key of what a worker process is given."""


class Sharing(LoadScopeScheduling):
    """Shares out whole groups."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self.groups: dict[str, str] = {}
        """By id of the test."""

    def add_node_collection(self, node: Any, collection: Any) -> None:
        self.groups = self.groups or json.loads(Path(node.workerinput[GROUPS_FILE]).read_text())
        super().add_node_collection(node, collection)

    def _split_scope(self, nodeid: str) -> str:
        return self.groups[nodeid]


def group_of(item: pytest.Item) -> str:
    """The name of the group that the test belongs to."""
    used = set(getattr(item, "fixturenames", ()))
    shared = (name for name, parts in SHARED.items() if item.get_closest_marker(name) is not None or used & parts)
    return next(shared, item.nodeid.partition("::")[0])


def _rank(item: pytest.Item) -> int:
    group = group_of(item)
    return list(SHARED).index(group) if group in SHARED else len(SHARED)


# --- hooks of pytest and xdist ----------------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # the order is that of `pytest_collection_modifyitems`


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_rank)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    given = getattr(session.config, "workerinput", None)
    if given is not None:
        Path(given[GROUPS_FILE]).write_text(json.dumps({item.nodeid: group_of(item) for item in session.items}))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    folder = node.config.stash.setdefault(_FOLDER, tempfile.TemporaryDirectory(prefix="test-groups-"))
    node.workerinput[GROUPS_FILE] = f"{folder.name}/{node.gateway.id}.json"


_FOLDER: pytest.StashKey[tempfile.TemporaryDirectory[str]] = pytest.StashKey()


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Sharing:
    return Sharing(config, log)
