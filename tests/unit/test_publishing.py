"""Where services are published, what it looks like there, and what readiness says of it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from bcs_scheduler.leadership import readiness
from bcs_scheduler.observability.metrics import Metrics
from bcs_scheduler.publishing import documents, retry_queue
from bcs_scheduler.publishing.publisher import Publisher
from bcs_scheduler.publishing.status import Status
from bcs_scheduler.publishing.target import Target, parse_target
from bcs_scheduler.publishing.tree import Write, batches
from bcs_scheduler.service import publisher_factory
from bcs_scheduler.settings.config import load_settings
from bcs_scheduler.settings.sections import ConfigError
from bcs_scheduler.settings.storage import warn_of_readable_files
from store.records import Application, Endpoint, Member, Service


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("zk://a:2181,b:2182", Target("a:2181,b:2182", "/blueking")),
        ("zk://a", Target("a:2181", "/blueking")),
        ("zk://[::1]:2181/x/y/", Target("[::1]:2181", "/x/y")),
        ("zk://bcs:pass:word@a,b/x", Target("a:2181,b:2181", "/x", "bcs", "pass:word")),
    ],
)
def test_targets(url: str, target: Target) -> None:
    assert parse_target(url) == target
    assert "word" not in repr(parse_target(url))


WRONG = ("http://a", "zk://", "zk://a:x", "zk://a/b c", "zk://a/../b", "zk://a//b", "zk://a:0", "zk://u@a", "zk://:p@a")


@pytest.mark.parametrize("url", [*WRONG, "zk://u:secret@a:x", "zk://u:secret@a/b c", "http://u:secret@a"])
def test_what_is_no_target_stops_the_start(url: str) -> None:
    with pytest.raises(ConfigError, match="--services-publish") as refused:
        load_settings(None, {}, {"services.publish": url})
    assert "secret" not in str(refused.value)


def test_the_password_of_the_login_is_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("right\n")
    given = {"services.publish": "zk://a", "services.user": "bcs", "services.password_file": str(file)}
    settings = load_settings(None, {}, given)
    make = publisher_factory(settings, "http://a", Metrics())
    assert make is not None
    for mode, warned in ((0o644, [str(file)]), (0o600, [])):
        file.chmod(mode)
        with capture_logs() as said:
            warn_of_readable_files(settings)
        assert [line["file"] for line in said] == warned
    made = make(1, [])
    assert isinstance(made, Publisher) and made.target == Target("a:2181", "/blueking", "bcs", "right")
    for wrong, message in (
        ({"services.password_file": ""}, "services.user.*must be set together"),
        ({"services.user": "a:b"}, "services.user.*':'"),
        ({"services.publish": "zk://x:y@a"}, "services.user.*has a user already"),
        ({"services.password_file": str(tmp_path / "none")}, "services.password_file: cannot read"),
    ):
        with pytest.raises(ConfigError, match=message):
            load_settings(None, {}, {**given, **wrong})


def test_nothing_is_published_unless_asked_for() -> None:
    assert publisher_factory(load_settings(None, {}, {}), "http://a", Metrics()) is None
    settings = load_settings(None, {"BCS_SERVICES_PUBLISH": "zk://127.0.0.1:1"}, {})
    make = publisher_factory(settings, "http://a", Metrics())
    assert make is not None
    made = make(3, [Service(namespace="a", name="b"), Application(namespace="a", name="b")])
    assert not made.status().connected


def test_times_and_names_of_the_original() -> None:
    record = Service(namespace="a", name="b", created_at=1_700_000_000.5, cluster_ip=("10.0.0.1",), type="ClusterIP")
    found = json.loads(documents.service(record))
    assert found["metadata"]["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert (found["spec"]["clusterIP"], found["spec"]["type"]) == (["10.0.0.1"], "ClusterIP")


@pytest.mark.parametrize(
    ("ready", "reason", "published"),
    [
        (True, "", True),
        (False, "unreachable", True),
        (False, "unhealthy", False),
        (False, "ending", False),
        (False, "restarting", False),
        (False, "no address", False),
    ],
)
def test_who_is_published(ready: bool, reason: Any, published: bool) -> None:
    member = Member(taskgroup="0.a.b.c.1", name="a-0", application="a", ready=ready, reason=reason)
    found = json.loads(documents.endpoint(Endpoint(namespace="b", name="s", members=(member,))))
    assert (found["kind"], found["eps"] is not None) == ("service", published)


def test_only_services_and_endpoints_wait() -> None:
    made = Publisher(Target("127.0.0.1:1", "/x"), 1, "", [])
    for number in range(5):
        made.changed("endpoint", "a/b", Endpoint(namespace="a", name="b", version=number))
    made.changed("application", "a/b", Application(namespace="a", name="b"))
    assert made.status().pending == 1


def test_batches_keep_below_what_zookeeper_takes() -> None:
    big = [Write(f"/s/{n}", b"x" * 200_000, None) for n in range(5)]
    small = [Write(f"/s/{n}", None, 0) for n in range(250)]
    assert [len(batch) for batch in batches(big)] == [2, 2, 1]
    assert [len(batch) for batch in batches(small)] == [100, 100, 50]
    assert [write for batch in batches(big + small) for write in batch] == big + small


def test_what_has_failed_waits_the_longer_the_more_often() -> None:
    held = retry_queue.RetryQueue()
    write = Write("/s/a", b"x", 0)
    now = 100.0
    pauses: list[float] = []
    for _ in range(8):
        assert held.failed(write, "NoAuthError", now) == (not pauses)
        assert (held.waits(write, now), held.due(now)) == (True, [])
        pauses.append(held.next() - now)
        now = held.next()
        assert (held.waits(write, now), held.due(now)) == (False, ["/s/a"])
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert held.failed(write, "another reason", now)
    assert not held.waits(write._replace(data=b"y"), now)
    assert held.is_suspect("/s/a")
    assert held.succeeded("/s/a")
    assert not (held.is_suspect("/s/a") or held.waits(write, now) or held.succeeded("/s/a"))


def test_a_node_is_blamed_for_a_lost_connection_when_it_was_alone_often_enough() -> None:
    held = retry_queue.RetryQueue()
    pair = [Write("/s/a", b"x", 0), Write("/s/b", b"y", 0)]
    assert not any(held.lost(pair) for _ in range(5))
    assert held.lost(pair[:1])
    held.succeeded("/s/a")
    assert [held.lost(pair[:1]) for _ in range(retry_queue.LOSSES)] == [False] * (retry_queue.LOSSES - 1) + [True]


def test_who_wrote_a_node_is_in_the_node() -> None:
    ours = (documents.service(Service(namespace="a", name="b")), documents.endpoint(Endpoint(namespace="a", name="b")))
    assert all(map(documents.is_ours, (*ours, documents.NAMESPACE)))
    foreign = (b"", b"text", b"[]", b"{}", b'{"kind":"service"}', b'{"publishedBy":"other"}', b'{"publishedBy":7}')
    assert not any(map(documents.is_ours, foreign))


@pytest.mark.parametrize("skipped", [{}, {"/b/service/x/y": "another program has written this node", "/b/z": "large"}])
@pytest.mark.parametrize("trouble", ["", "no connection"])
def test_readiness_names_troubles_and_bears_them(trouble: str, skipped: dict[str, str]) -> None:
    """Another scheduler could not publish either, and this one serves everything else."""
    assert readiness.publishing(None) == []
    status = Status(not trouble, 0, trouble, time.monotonic() - 1000, skipped)
    (check,) = readiness.publishing(SimpleNamespace(publishing=lambda: status))  # type: ignore[arg-type]
    assert (check.name, check.ok, trouble in check.message) == ("publishing", True, True)
    if skipped and not trouble:
        assert "without /b/service/x/y (another program has written this node), and 1 more" in check.message
    assert readiness.publishing(SimpleNamespace(publishing=lambda: None)) == []  # type: ignore[arg-type]
