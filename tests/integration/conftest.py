"""Real parts for the integration tests: each is started once per run, on demand, and ended with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.mesoscluster import RealMesos


@pytest.fixture(scope="session")
def real_mesos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesos]:
    """A master and three agents, shared by all tests of a run: use frameworks of your own, and leave the processes
    alone or bring them back before the test ends."""
    cluster = RealMesos(tmp_path_factory.mktemp("mesos"), environment={"MESOS_CLUSTER": "integration"})
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@pytest.fixture
def ha_mesos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesos]:
    """ZooKeeper, three masters and three agents, for one test."""
    cluster = RealMesos(tmp_path_factory.mktemp("mesos-ha"), kind="ha")
    try:
        yield cluster.start()
    finally:
        cluster.stop()
