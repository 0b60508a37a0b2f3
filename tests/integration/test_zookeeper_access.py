"""The tree in ZooKeeper belongs to one user: nobody else reads or changes it, and an open one can be taken over."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner
from kazoo.client import KazooClient
from kazoo.exceptions import InvalidACLError, NoAuthError
from kazoo.security import make_digest_acl

from bcs_scheduler.admin.commands import protect_store
from bcs_scheduler.admin.maintenance import MaintenanceError, forget_framework, protect
from store.base import Store, StoreUnavailable
from store.factory import open_store
from store.records import Framework, Secret
from tests.integration.storeplaces import Candidate, done, puts
from tests.integration.zookeeper import ZooKeeperServer

pytestmark = [pytest.mark.zookeeper, pytest.mark.rotating]
SECRETS = [Secret(namespace="shop", name=f"s{number}") for number in range(300)]


class Place:
    """A root of its own, seen as this or that user."""

    def __init__(self, hosts: str) -> None:
        self.hosts, self.root = hosts, f"/{uuid.uuid4().hex}/bcs"
        self.url = f"zk://{hosts}{self.root}"

    def store(self, user: str = "", password: str = "right") -> Store:
        return open_store(self.url, 4.0, user=user, password=password if user else "")

    @contextmanager
    def client(self, user: str = "", password: str = "right") -> Iterator[KazooClient]:
        client = KazooClient(self.hosts, auth_data=[("digest", f"{user}:{password}")] if user else [])
        client.start(20)
        try:
            yield client
        finally:
            client.stop()
            client.close()

    def everything(self, client: KazooClient, path: str = "") -> list[str]:
        path = path or self.root
        return [path, *(p for name in client.get_children(path) for p in self.everything(client, f"{path}/{name}"))]

    def filled(self, user: str = "") -> Candidate:
        candidate = Candidate(self.store(user))
        candidate.wait_elected()
        done([candidate.store.commit(puts(SECRETS), candidate.epoch)])
        return candidate


@pytest.fixture
def place(zookeeper: ZooKeeperServer) -> Place:
    return Place(zookeeper.hosts)


def attempts(client: KazooClient, path: str) -> list[Callable[[], Any]]:
    return [
        lambda: client.get(path),
        lambda: client.get_children(path),
        lambda: client.set(path, b"mine now"),
        lambda: client.create(f"{path}/child", b""),
        lambda: client.set_acls(path, [make_digest_acl("other", "x", all=True)]),
    ]


def test_nobody_else_reads_or_changes_any_node(place: Place) -> None:
    candidate = place.filled("bcs")
    with place.client("bcs") as owner:
        nodes = place.everything(owner)
        assert len([node for node in nodes if "/secret/" in node]) == 256 + len(SECRETS)
        assert any("/election/" in node for node in nodes) and f"{place.root}/leader" in nodes
        for node in nodes:
            acls, _ = owner.get_acls(node)
            assert [(acl.id.scheme, acl.id.id.partition(":")[0]) for acl in acls] == [("digest", "bcs")], node
    kinds = [place.root, f"{place.root}/epoch", f"{place.root}/epoch/1", f"{place.root}/leader"]
    kinds += [f"{place.root}/secret", next(node for node in nodes if node.endswith("s7"))]
    kinds += [next(node for node in nodes if "/election/" in node)]
    for user, password in (("", ""), ("bcs", "wrong"), ("other", "right")):
        with place.client(user, password) as client:
            for node in kinds:
                for attempt in attempts(client, node):
                    with pytest.raises(NoAuthError):
                        attempt()
            for node in (f"{place.root}/leader", f"{place.root}/epoch/1", kinds[-2]):
                with pytest.raises(NoAuthError):
                    client.delete(node)
    done([candidate.store.commit(puts([Secret(namespace="shop", name="after")]), candidate.epoch)])
    candidate.store.close()


@pytest.mark.parametrize(("user", "password"), [("", ""), ("bcs", "wrong"), ("other", "right")])
def test_a_scheduler_without_the_right_user_does_not_open_it(place: Place, user: str, password: str) -> None:
    place.filled("bcs").store.close()
    with pytest.raises(StoreUnavailable, match="belongs to another user"):
        place.store(user, password).open()


def test_leadership_passes_between_schedulers_of_one_user(place: Place) -> None:
    first = place.filled("bcs")
    second = Candidate(place.store("bcs"), "http://127.0.0.1:2")
    first.store.close()
    second.wait_elected()
    assert len(second.store.load().records) == len(SECRETS)
    done([second.store.commit(puts([Secret(namespace="shop", name="more")]), second.epoch)])
    leader = second.store.leader()
    assert leader is not None and leader.url == "http://127.0.0.1:2"
    second.store.erase()
    second.store.close()


def test_an_open_tree_is_told_of_and_taken_over(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    candidate = place.filled()
    done([candidate.store.commit(puts([Framework(id="framework-1", created_at=1.0)]), candidate.epoch)])
    candidate.store.close()
    with caplog.at_level(logging.WARNING):
        opened = place.store("bcs")
        opened.open()
        opened.close()
    assert "is open to everybody: bcs-scheduler protect-store" in caplog.text
    assert protect(place.store("bcs")) > 256 * 20 + len(SECRETS)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        again = place.filled("bcs")
        again.store.close()
    assert "open to everybody" not in caplog.text
    with place.client() as stranger, pytest.raises(NoAuthError):
        stranger.get_children(place.root)
    with place.client("bcs") as owner:
        for node in place.everything(owner):
            acls, _ = owner.get_acls(node)
            assert all(acl.id.scheme == "digest" for acl in acls), node
    with pytest.raises(MaintenanceError, match="belongs to another user"):
        forget_framework(place.store(), force=False)
    assert forget_framework(place.store("bcs"), force=False) == "framework-1"


def test_the_command_needs_a_user_and_takes_it_from_flags(place: Place, tmp_path: Any) -> None:
    place.filled().store.close()
    (tmp_path / "password").write_text("right\n")
    run = CliRunner(env={}).invoke
    refused = run(protect_store, ["--store", place.url])
    assert refused.exit_code == 2 and "store.user and store.password_file" in refused.output
    taken = run(
        protect_store,
        ["--store", place.url, "--store-user", "bcs", "--store-password-file", str(tmp_path / "password")],
    )
    assert taken.exit_code == 0 and "nodes are now accessible to store.user only" in taken.output, taken.output
    with place.client() as stranger, pytest.raises((NoAuthError, InvalidACLError)):
        stranger.get(place.root)
