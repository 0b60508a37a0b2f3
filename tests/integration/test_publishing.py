"""Services and endpoints in a real ZooKeeper, as components of the original read them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from bcs_scheduler.leadership import readiness
from bcs_scheduler.publishing import publisher as publishing
from bcs_scheduler.publishing.publisher import Publisher
from bcs_scheduler.publishing.target import Target
from store.records import Endpoint, Member, MemberPort, Record, Service, ServicePort
from tests.integration.zookeeper import SHORT_LIVED, ZooKeeperServer
from tests.waiting import wait_for

pytestmark = pytest.mark.zookeeper

Begin = Callable[..., Publisher]
SERVICE = Service(
    namespace="sandbox",
    name="hello-svc",
    selector={"app": "hello"},
    labels={"BCSGROUP": "external"},
    ports=(ServicePort(name="web", service_port=8080),),
)


def member(index: int, *, ready: bool = True, **fields: Any) -> Member:
    port = MemberPort(name="web", host_port=31004, container_port=8080, address="10.10.1.4:31004")
    return Member(
        taskgroup=f"{index}.hello.sandbox.demo.17",
        name=f"hello-{index}",
        application="hello",
        network_mode="BRIDGE",
        node_ip="10.10.1.4",
        container_ip="172.17.0.3",
        ports=(port,),
        ready=ready,
        **fields,
    )


def endpoint(*members: Member, version: int = 1) -> Endpoint:
    return Endpoint(namespace="sandbox", name="hello-svc", version=version, members=members)


class Nodes:
    """What is there."""

    def __init__(self, hosts: str) -> None:
        self.root = f"/blueking-{uuid4().hex[:8]}"
        self.client = KazooClient(hosts=hosts)
        self.client.start()

    def read(self, path: str) -> Any:
        found = self.client.exists(self.root + path) and self.client.get(self.root + path)[0]
        return json.loads(found) if found else None

    def changes(self, path: str) -> int:
        """How often the node has been written since it was created."""
        return int(self.client.get(self.root + path)[1].version)

    def names(self, path: str) -> list[str]:
        """Sorted. A node that does not exist, or goes meanwhile, has none."""
        try:
            return sorted(self.client.get_children(self.root + path))
        except NoNodeError:
            return []


@pytest.fixture
def nodes(zookeeper: ZooKeeperServer) -> Iterator[Nodes]:
    found = Nodes(zookeeper.hosts)
    yield found
    found.client.stop()
    found.client.close()


@pytest.fixture
def begin(zookeeper: ZooKeeperServer, nodes: Nodes) -> Iterator[Begin]:
    made: list[Publisher] = []

    def begin(
        epoch: int,
        *records: Record,
        counts: Counter[tuple[str, str]] | None = None,
        login: tuple[str, str] = ("", ""),
    ) -> Publisher:
        def counted(kind: str, done: str, count: int) -> None:
            if counts is not None:
                counts[kind, done] += count

        made.append(Publisher(Target(zookeeper.hosts, nodes.root, *login), epoch, f"http://s{epoch}", records, counted))
        made[-1].start()
        return made[-1]

    yield begin
    for one in made:
        one.stop()
    for one in made:
        one.thread.join(30)


def well(publisher: Publisher) -> None:
    wait_for(
        lambda: publisher.status().connected and not publisher.status().pending, 20, what="a publisher that is well"
    )


def test_nodes_are_what_readers_of_the_original_expect(begin: Begin, nodes: Nodes) -> None:
    well(begin(1, SERVICE, endpoint(member(0))))
    head = {
        "name": "hello-svc",
        "namespace": "sandbox",
        "creationTimestamp": "0001-01-01T00:00:00Z",
    }
    assert nodes.read("/endpoint/sandbox/hello-svc") == {
        "apiVersion": "v4",
        "kind": "service",
        "metadata": head,
        "publishedBy": "bcs-scheduler",
        "eps": [
            {
                "networkMode": "BRIDGE",
                "nodeIP": "10.10.1.4",
                "containerIP": "172.17.0.3",
                "targetRef": {
                    "kind": "taskgroup", "id": "0.hello.sandbox.demo.17", "name": "hello-0", "namespace": "sandbox",
                    "image": "",
                },
                "ports": [
                    {"name": "web", "hostPort": 31004, "containerPort": 8080, "hostIP": "10.10.1.4", "protocol": "tcp"}
                ],
            }
        ],
    }  # fmt: skip
    service = nodes.read("/service/sandbox/hello-svc")
    assert service["metadata"] == {**head, "labels": {"BCSGROUP": "external"}}
    assert service["spec"]["selector"] == {"app": "hello"}
    assert service["spec"]["ports"][0]["servicePort"] == 8080


def test_who_gets_no_traffic_is_left_out_and_costs_no_write(begin: Begin, nodes: Nodes) -> None:
    publisher = begin(1, SERVICE, endpoint(member(0), member(1)))
    well(publisher)
    states = [member(0, ready=False, reason="ending"), member(1, ready=False, reason="unreachable")]
    publisher.changed("endpoint", "sandbox/hello-svc", endpoint(*states, version=2))
    wait_for(lambda: nodes.changes("/endpoint/sandbox/hello-svc") == 1, 30, what="the change")
    assert [m["targetRef"]["name"] for m in nodes.read("/endpoint/sandbox/hello-svc")["eps"]] == ["hello-1"]
    publisher.changed("endpoint", "sandbox/hello-svc", endpoint(states[1], version=3))
    publisher.changed("service", "sandbox/other", msgspec.structs.replace(SERVICE, name="other"))
    wait_for(lambda: nodes.read("/service/sandbox/other") is not None, 30, what="the service that came after")
    assert nodes.changes("/endpoint/sandbox/hello-svc") == 1
    publisher.changed("endpoint", "sandbox/hello-svc", endpoint(version=4))
    wait_for(lambda: nodes.read("/endpoint/sandbox/hello-svc")["eps"] is None, 30, what="nobody")


def test_a_term_begins_with_a_comparison(begin: Begin, nodes: Nodes) -> None:
    other = msgspec.structs.replace(SERVICE, namespace="lab", name="gone")
    first = begin(1, SERVICE, other, endpoint(member(0)))
    well(first)
    second = begin(2, SERVICE, endpoint(member(1)))
    well(second)
    assert nodes.names("/service") == ["sandbox"]
    assert nodes.changes("/service/sandbox/hello-svc") == 0
    assert [m["targetRef"]["name"] for m in nodes.read("/endpoint/sandbox/hello-svc")["eps"]] == ["hello-1"]


def test_a_deposed_term_writes_nothing(begin: Begin, nodes: Nodes) -> None:
    first = begin(1, SERVICE, endpoint(member(0)))
    well(first)
    well(begin(2, SERVICE, endpoint(member(1))))
    first.changed("endpoint", "sandbox/hello-svc", endpoint(member(7), version=2))
    first.thread.join(30)
    assert not first.thread.is_alive()
    assert "epoch 2 (http://s2) publishes" in first.status().problem
    assert nodes.changes("/endpoint/sandbox/hello-svc") == 1
    late = begin(1, SERVICE, endpoint(member(0)))
    late.thread.join(30)
    assert not late.status().connected
    assert [m["targetRef"]["name"] for m in nodes.read("/endpoint/sandbox/hello-svc")["eps"]] == ["hello-1"]


def test_what_others_remove_comes_back(begin: Begin, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher = begin(1, SERVICE, endpoint(member(0)))
    well(publisher)
    nodes.client.delete(f"{nodes.root}/endpoint/sandbox/hello-svc")
    publisher.changed("endpoint", "sandbox/hello-svc", endpoint(member(1), version=2))
    wait_for(lambda: nodes.read("/endpoint/sandbox/hello-svc") is not None, 30, what="the node")
    monkeypatch.setattr(publishing, "RESYNC", 0.2)
    nodes.client.delete(f"{nodes.root}/service/sandbox/hello-svc")
    nodes.client.delete(nodes.root + "/publisher")  # also what keeps others away
    publisher.changed("endpoint", "sandbox/hello-svc", endpoint(member(2), version=3))
    wait_for(lambda: nodes.read("/service/sandbox/hello-svc") is not None, 30, what="the service")
    assert nodes.read("/publisher") == {"epoch": 1, "url": "http://s1"}


def test_survives_the_loss_of_zookeeper(begin: Begin, tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path)
    server.start()
    nodes = Nodes(server.hosts)
    publisher = Publisher(Target(server.hosts, "/blueking"), 1, "", [SERVICE, endpoint(member(0))])
    nodes.root = "/blueking"
    try:
        publisher.start()
        well(publisher)
        server.kill()
        wait_for(lambda: "no connection" in publisher.status().problem, 30, what="trouble")
        for version in range(2, 1000):
            publisher.changed("endpoint", "sandbox/hello-svc", endpoint(member(version), version=version))
        assert publisher.status().pending <= 1
        server.start()
        nodes.client.restart()  # the session of this client may have run out meanwhile
        well(publisher)
        wait_for(lambda: nodes.read("/endpoint/sandbox/hello-svc")["eps"][0]["targetRef"]["name"] == "hello-999", 30)
        assert nodes.changes("/endpoint/sandbox/hello-svc") <= 2
    finally:
        publisher.stop()
        nodes.client.stop()
        publisher.thread.join(30)
        server.stop()


def test_many_services_go_in_few_transactions(begin: Begin, nodes: Nodes) -> None:
    services = [msgspec.structs.replace(SERVICE, name=f"s{number}") for number in range(450)]
    large = {"text": "x" * 90_000}
    services += [msgspec.structs.replace(SERVICE, name=f"l{number}", annotations=large) for number in range(12)]
    publisher = begin(1, *services)
    well(publisher)
    assert len(nodes.names("/service/sandbox")) == 462


FOREIGN = b'{"apiVersion":"v4","kind":"service","metadata":{"name":"x","namespace":"sandbox"},"eps":null}'
LOGIN = ("bcs", "right")


def test_nodes_of_other_programs_stay_as_they_are(begin: Begin, nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree that the original made: its nodes are published beside, also by the next leader, and a name that one of
    them has is told and free for us when the node is gone."""
    monkeypatch.setattr(publishing, "RESYNC", 0.2)
    make = nodes.client.create
    made = ["/endpoint/sandbox/hello-svc", "/service/old/one", "/service/old/two/below", "/endpoint/lab/mine/notes"]
    for path in made:
        make(nodes.root + path, FOREIGN, makepath=True)
    make(f"{nodes.root}/service/empty", b"")
    other = msgspec.structs.replace(SERVICE, namespace="old", name="ours")
    mine = Endpoint(namespace="lab", name="mine")
    for epoch in (1, 2):
        publisher = begin(epoch, SERVICE, other, endpoint(member(0)), mine)
        well(publisher)
        skipped = publisher.status().skipped
        held = {f"{nodes.root}/endpoint/sandbox/hello-svc", f"{nodes.root}/endpoint/lab/mine"}
        assert set(skipped) == held and set(skipped.values()) == {"another program has written this node"}
        assert nodes.names("/service") == ["empty", "old", "sandbox"]
        assert nodes.names("/service/old") == ["one", "ours", "two"]
    publisher.changed("service", "old/ours", None)
    publisher.changed("service", "sandbox/hello-svc", None)
    wait_for(lambda: nodes.names("/service/old") == ["one", "two"], 30, what="the end of our node")
    wait_for(lambda: nodes.names("/service") == ["empty", "old"], 30, what="the end of our namespace")
    for path in made:
        assert (nodes.client.get(nodes.root + path)[0], nodes.changes(path)) == (FOREIGN, 0)
    nodes.client.delete(f"{nodes.root}/endpoint/sandbox/hello-svc")
    wait_for(
        lambda: len((nodes.read("/endpoint/sandbox/hello-svc") or {}).get("eps", ())) == 1, 90, what="our endpoint"
    )
    publisher.changed("endpoint", "sandbox/hello-svc", None)
    wait_for(lambda: nodes.names("/endpoint/sandbox") == [], 30, what="the end of our endpoint")


def test_what_another_program_has_written_over_ours_is_kept(begin: Begin, nodes: Nodes) -> None:
    publisher = begin(1, SERVICE, endpoint(member(0)))
    well(publisher)
    for kind in ("service", "endpoint"):
        nodes.client.set(f"{nodes.root}/{kind}/sandbox/hello-svc", FOREIGN)
    publisher.changed("endpoint", "sandbox/hello-svc", endpoint(member(1), version=2))
    publisher.changed("service", "sandbox/hello-svc", None)
    wait_for(lambda: len(publisher.status().skipped) == 2, 30, what="both nodes that are not ours any more")
    assert [nodes.client.get(f"{nodes.root}/{kind}/sandbox/hello-svc")[0] for kind in ("service", "endpoint")] == [
        FOREIGN,
        FOREIGN,
    ]


def test_what_others_put_below_ours_keeps_it(begin: Begin, nodes: Nodes) -> None:
    publisher = begin(1, SERVICE, endpoint(member(0)))
    well(publisher)
    nodes.client.create(f"{nodes.root}/endpoint/sandbox/hello-svc/notes", b"x")
    publisher.changed("endpoint", "sandbox/hello-svc", None)
    path = f"{nodes.root}/endpoint/sandbox/hello-svc"
    wait_for(lambda: publisher.status().skipped, 30, what="the node that cannot be deleted")
    assert publisher.status().skipped == {path: "another program has nodes below this node"}
    assert nodes.names("/endpoint/sandbox/hello-svc") == ["notes"]


def test_a_tree_behind_a_login(begin: Begin, nodes: Nodes) -> None:
    """The original's tree lets only its user write."""
    owned = [make_digest_acl(*LOGIN, all=True), make_acl("world", "anyone", read=True)]
    nodes.client.create(nodes.root, b"", acl=owned)
    stranger = begin(1, SERVICE)
    wait_for(lambda: "refuses access" in stranger.status().problem, 30, what="the refusal")
    (check,) = readiness.publishing(SimpleNamespace(publishing=stranger.status))  # type: ignore[arg-type]
    assert check.ok and "refuses access" in check.message
    stranger.stop()
    well(begin(1, SERVICE, endpoint(member(0)), login=LOGIN))
    only_the_user_changes(nodes, "", "/service", "/endpoint")


def test_nodes_from_before_the_login_are_protected_too(begin: Begin, nodes: Nodes) -> None:
    well(begin(1, SERVICE, endpoint(member(0))))
    well(begin(2, SERVICE, endpoint(member(0)), login=LOGIN))
    only_the_user_changes(nodes)


def only_the_user_changes(nodes: Nodes, *more: str) -> None:
    """Everybody can read our nodes."""
    kinds = ("service", "endpoint")
    ours = ["/publisher", *(f"/{kind}/sandbox" for kind in kinds), *(f"/{kind}/sandbox/hello-svc" for kind in kinds)]
    for path in (*ours, *more):
        assert nodes.client.get(nodes.root + path)
        with pytest.raises(NoAuthError):
            nodes.client.set(nodes.root + path, b"mine")
        with pytest.raises(NoAuthError):
            nodes.client.create(f"{nodes.root}{path}/below", b"mine")


def test_a_node_that_cannot_be_written_holds_up_no_other(
    begin: Begin, nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    said: list[tuple[str, str]] = []

    def say(event: str, **values: str) -> None:
        said.append((event, values.get("node", "")))

    monkeypatch.setattr(publishing, "log", SimpleNamespace(info=say, warning=say, exception=say))
    others = [msgspec.structs.replace(SERVICE, name=f"s{number}") for number in range(30)]
    publisher = begin(1, SERVICE, *others, counts=counts)
    well(publisher)
    path = f"{nodes.root}/service/sandbox/hello-svc"
    nodes.client.set_acls(path, [make_acl("world", "anyone", read=True, admin=True)])
    for record in (SERVICE, *others):
        changed = msgspec.structs.replace(record, type="changed")
        publisher.changed("service", record.key, changed)
    wait_for(lambda: all(nodes.changes(f"/service/{o.key}") == 1 for o in others), 30, what="the others")
    wait_for(lambda: counts["service", "skipped"] >= 2, 30, what="another attempt")
    assert (nodes.changes("/service/sandbox/hello-svc"), publisher.status().problem) == (0, "")
    publisher.changed("service", "sandbox/s0", None)
    wait_for(lambda: "s0" not in nodes.names("/service/sandbox"), 30, what="what comes after it")
    nodes.client.set_acls(path, OPEN_ACL_UNSAFE)
    wait_for(lambda: nodes.changes("/service/sandbox/hello-svc") == 1, 30, what="the node when it can be written")
    assert counts["", "failed"] == 0
    lines = ["node not published", "node published again"]
    wait_for(lambda: [event for event, node in said if node == path] == lines, 30, what="both lines of the log")


def test_what_is_too_large_is_left_out_until_it_is_smaller(begin: Begin, nodes: Nodes) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    large = msgspec.structs.replace(SERVICE, annotations={"text": "x" * 1_200_000})
    other = msgspec.structs.replace(SERVICE, name="other")
    publisher = begin(1, large, other, counts=counts)
    well(publisher)
    assert nodes.names("/service/sandbox") == ["other"]
    assert counts["service", "skipped"] >= 1
    publisher.changed("service", "sandbox/hello-svc", SERVICE)
    wait_for(lambda: nodes.read("/service/sandbox/hello-svc") is not None, 30, what="the service")
    publisher.changed("service", "sandbox/hello-svc", large)
    publisher.changed("service", "sandbox/other", None)
    wait_for(lambda: nodes.names("/service/sandbox") == ["hello-svc"], 30, what="the other is gone")
    assert nodes.changes("/service/sandbox/hello-svc") == 0
    publisher.changed("service", "sandbox/hello-svc", None)
    wait_for(lambda: nodes.names("/service") == [], 30, what="the end of it")
    assert counts["", "failed"] == 0


def test_a_server_that_takes_less_holds_up_nobody_else(tmp_path: Path) -> None:
    server = ZooKeeperServer(tmp_path, java=("-Xmx128m", SHORT_LIVED, "-Djute.maxbuffer=100000"))
    server.start()
    nodes = Nodes(server.hosts)
    large = msgspec.structs.replace(SERVICE, annotations={"text": "x" * 150_000})
    others = [msgspec.structs.replace(SERVICE, name=name) for name in ("a-before", "z-after")]
    counts: Counter[str] = Counter()
    publisher = Publisher(
        Target(server.hosts, nodes.root),
        1,
        "",
        [large, *others],
        lambda kind, done, count: counts.update({done: count}),
    )
    try:
        publisher.start()
        wait_for(lambda: nodes.names("/service/sandbox") == ["a-before", "z-after"], 30, what="the others")
        wait_for(lambda: counts["skipped"] >= 2, 30, what="another attempt")
        publisher.changed("service", "sandbox/a-before", None)
        wait_for(lambda: nodes.names("/service/sandbox") == ["z-after"], 30, what="what comes after it")
    finally:
        publisher.stop()
        nodes.client.stop()
        publisher.thread.join(30)
        server.stop()
