"""Real parts for the integration tests: each is started once per run, on demand, and ended with it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from bcs_scheduler.local.cluster import LocalCluster
from bcs_scheduler.local.settings import ClusterSettings
from tests.integration.containerengine import ContainerEngine
from tests.integration.mesoscluster import RealMesos
from tests.integration.zookeeper import ZooKeeperServer
from tests.integration.zookeeperensemble import ZooKeeperEnsemble


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """One server for all tests of a run: each uses a path of its own."""
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def shared_ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperEnsemble]:
    ensemble = ZooKeeperEnsemble(tmp_path_factory.mktemp("ensemble"))
    try:
        ensemble.start()
        yield ensemble
    finally:
        ensemble.stop()


@pytest.fixture
def zookeeper_ensemble(shared_ensemble: ZooKeeperEnsemble) -> Iterator[ZooKeeperEnsemble]:
    """Three servers that the test may leave in pieces; each test uses a path of its own."""
    yield shared_ensemble
    shared_ensemble.heal()


@pytest.fixture(scope="session")
def real_mesos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesos]:
    """A master and three agents, shared by all tests of a run: use frameworks of your own, and leave the processes
    alone or bring them back before the test ends."""
    yield from _started(RealMesos(tmp_path_factory.mktemp("mesos"), environment={"MESOS_CLUSTER": "integration"}))


@pytest.fixture(scope="session")
def container_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerEngine]:
    """A real container engine with the image containerengine.IMAGE, shared by all tests of a run.
    Only root can start one."""
    if os.geteuid() != 0:
        pytest.skip("a container engine needs root")
    engine = ContainerEngine(tmp_path_factory.mktemp("engine"))
    try:
        yield engine.start()
    finally:
        engine.stop()


@pytest.fixture(scope="session")
def embedded_mesos() -> Iterator[str]:
    """Address of an embedded cluster whose three agents run processes, shared likewise."""
    with LocalCluster(ClusterSettings()) as cluster:
        yield cluster.url.removeprefix("http://")


@pytest.fixture(scope="module", params=["local", "synthetic", pytest.param("real", marks=pytest.mark.mesos)])
def master(request: pytest.FixtureRequest) -> Iterator[str]:
    """Address of a master with three agents: of each kind of cluster in turn."""
    if request.param == "real":
        yield request.getfixturevalue("real_mesos").masters["solo"]
        return
    if request.param == "local":
        yield request.getfixturevalue("embedded_mesos")
        return
    with LocalCluster(ClusterSettings(synthetic=True)) as cluster:
        yield cluster.url.removeprefix("http://")


@pytest.fixture(autouse=True)
def mesos_for_the_next(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tasks of frameworks that a test has left without a scheduler would take the room of the next tests."""
    cluster = request.getfixturevalue("real_mesos") if "real_mesos" in request.fixturenames else None
    yield
    if cluster is not None:
        cluster.end_abandoned()


@pytest.fixture(scope="module")
def module_ha_mesos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesos]:
    yield from _started(RealMesos(tmp_path_factory.mktemp("mesos-ha"), kind="ha"))


@pytest.fixture(scope="module")
def module_own_mesos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesos]:
    yield from _started(RealMesos(tmp_path_factory.mktemp("mesos-own")))


def _started(cluster: RealMesos) -> Iterator[RealMesos]:
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@pytest.fixture
def ha_mesos(module_ha_mesos: RealMesos) -> RealMesos:
    """ZooKeeper, three masters and three agents, which the test may kill and suspend as it likes. The tests of a file
    have them one after the other: all processes run at the begin of a test, and no framework is left."""
    module_ha_mesos.heal()
    return module_ha_mesos


@pytest.fixture
def own_mesos(module_own_mesos: RealMesos) -> RealMesos:
    """A master and three agents, likewise."""
    module_own_mesos.heal()
    return module_own_mesos


@pytest.fixture
def big_mesos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesos]:
    """Agents that claim to be large: room for hundreds of small taskgroups."""
    environment = {"REALMESOS_SCALARS": "cpus:40;mem:60000;disk:60000"}
    yield from _started(RealMesos(tmp_path_factory.mktemp("mesos-big"), environment=environment))
