"""A server of the ensemble has lost a transaction of its log (ZooKeeper before 3.8.4 and 3.9.2 can do that when it is
killed soon after it has joined): it shows a record that the ensemble has deleted, for ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from store.base import StaleEpoch, StoreError
from store.records import Application
from store.zookeeper import session
from store.zookeeper.store import ZooKeeperStore
from store.zookeeper.tree import Address, Tree
from tests.integration.storeplaces import PATIENCE, Candidate, done
from tests.integration.zookeeper import ZooKeeperServer
from tests.integration.zookeeperensemble import ZooKeeperEnsemble
from tests.integration.zookeeperlog import remove_transaction
from tests.waiting import wait_for

pytestmark = [pytest.mark.zookeeper, pytest.mark.timeout(180), pytest.mark.rotating]
ROOT = "/damaged"
GHOST = Application(namespace="ns", name="ghost")


@pytest.fixture
def ensemble(tmp_path: Path) -> Iterator[ZooKeeperEnsemble]:
    """Of its own: what is damaged here nobody else can use."""
    ensemble = ZooKeeperEnsemble(tmp_path)
    ensemble.start()
    yield ensemble
    ensemble.stop()


@pytest.fixture
def damaged(ensemble: ZooKeeperEnsemble) -> ZooKeeperServer:
    """A follower that has forgotten the deletion of GHOST, and nothing else."""
    server = ensemble.followers()[0]
    leader = Candidate(ZooKeeperStore(ensemble.hosts, ROOT))
    leader.wait_elected()
    done([leader.put(GHOST, *(Application(namespace="ns", name=f"app-{number}") for number in range(5)))])
    done([leader.remove(GHOST)])
    path = Tree(ROOT).record(Address("application", GHOST.key))
    client = KazooClient(server.hosts)
    client.start()
    client.sync(path)
    wait_for(lambda: client.exists(path) is None, PATIENCE, "the deletion")
    deletion = client.exists(path.rpartition("/")[0]).pzxid
    client.stop()
    client.close()
    done([leader.put(Application(namespace="ns", name="later"))])
    leader.store.close()
    server.stop()
    assert remove_transaction(server.folder / "data", deletion)
    server.start()
    assert shows(server, path)
    return server


def shows(server: ZooKeeperServer, path: str) -> bool:
    client = KazooClient(server.hosts)
    client.start()
    try:
        return client.exists(path) is not None
    finally:
        client.stop()
        client.close()


def test_a_leader_on_a_damaged_server_steps_down_and_reads_from_another(
    ensemble: ZooKeeperEnsemble, damaged: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [member.hosts for member in ensemble.members if member is not damaged]
    monkeypatch.setattr(session, "_shuffled", lambda hosts: hosts)
    leader = Candidate(ZooKeeperStore(",".join([damaged.hosts, *others]), ROOT))
    leader.wait_elected()
    loaded = {record.key for record in leader.store.load().records}
    assert GHOST.key in loaded, "the store is not connected to the damaged server"

    removal = leader.remove(GHOST)
    with pytest.raises((StoreError, StaleEpoch)) as failure:
        removal.result(PATIENCE)
    assert damaged.hosts in str(failure.value)
    assert damaged.hosts in leader.wait_deposed()

    leader.stand()
    leader.wait_elected()
    assert {record.key for record in leader.store.load().records} == loaded - {GHOST.key}
    done([leader.put(GHOST)])
    done([leader.remove(GHOST)])
    leader.store.close()


def test_a_damaged_server_knows_and_is_replaced(ensemble: ZooKeeperEnsemble, damaged: ZooKeeperServer) -> None:
    """What docs/operations.md tells operators to look at and to do."""
    assert damaged.is_damaged()
    assert ensemble.replace_damaged() == 1
    assert not shows(damaged, Tree(ROOT).record(Address("application", GHOST.key)))
    assert ensemble.replace_damaged() == 0


def test_one_server_alone_is_not_given_up(ensemble: ZooKeeperEnsemble) -> None:
    store = ZooKeeperStore(ensemble.members[0].hosts, "/alone")
    leader = Candidate(store)
    leader.wait_elected()
    assert store._opened is not None
    assert store._opened.session.leave_server() == ensemble.members[0].hosts
    done([leader.put(GHOST)])
    leader.store.close()
