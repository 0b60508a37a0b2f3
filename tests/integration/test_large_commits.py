"""Commits near the limits of a real store: what is too large fails its request, the term goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bcs_scheduler.core.interface import cluster_manager, effects, requests
from store.base import Change, Store, Term
from store.encoding.seal import Sealer, new_key
from store.records import (
    Application,
    ConfigItem,
    ConfigMap,
    Framework,
    Message,
    MessageResult,
    Record,
    Task,
    TaskGroup,
    Version,
)
from store.sqlite.store import SqliteStore
from store.zookeeper.store import ZooKeeperStore
from tests.integration.schedulers import Process
from tests.integration.zookeeper import ZooKeeperServer
from tests.waiting import wait_for

pytestmark = pytest.mark.rotating

GROUPS = 100
NOISE = "\x01" * 2_000
"""Six bytes each in the store: together a multiple of what one commit takes."""


@pytest.fixture(params=[False, True], ids=["clear", "sealed"])
def sealer(request: pytest.FixtureRequest) -> Sealer:
    return Sealer([new_key()] if request.param else [])


@pytest.fixture(params=["sqlite", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def store(request: pytest.FixtureRequest, tmp_path: Path, sealer: Sealer) -> Store:
    """With the limit of ZooKeeper."""
    if request.param == "sqlite":
        return SqliteStore(tmp_path / "state.db", batch_bytes=700_000, sealer=sealer)
    server: ZooKeeperServer = request.getfixturevalue("zookeeper")
    return ZooKeeperStore(server.hosts, f"/{tmp_path.name}", sealer=sealer)


@pytest.fixture
def process(store: Store) -> Iterator[Process]:
    made = Process(store).leads()
    yield made
    made.runtime.stop()


def plant(store: Store, records: list[Record]) -> None:
    """Puts records into the store that a scheduler finds when it begins to lead."""
    terms: list[Term] = []
    store.open()
    store.campaign("http://127.0.0.1:1", terms.append, lambda reason: None)
    wait_for(lambda: terms)
    for first in range(0, len(records), 100):
        part = [Change(record.kind, record.key, record) for record in records[first : first + 100]]
        store.commit(part, terms[0].epoch).result(30.0)
    store.resign()
    store.close()


def running() -> list[Record]:
    """An application with GROUPS taskgroups that run."""
    groups = [
        TaskGroup(
            id=f"{n}.web.default.c.{1000 + n}", namespace="default", application="web", index=n, version="1",
            agent_id=f"agent-{n % 10}", executor="bcs", status="Running", started=True, created_at=1.7e9,
            running_since=1.7e9, updated_at=1.7e9,
            tasks=(Task(id=f"{1000 + n}.0.{n}.web.default.c", status="Running", last_status="Running"),),
        )
        for n in range(GROUPS)
    ]  # fmt: skip
    version = Version(namespace="default", application="web", name="1", instances=GROUPS)
    application = Application(
        namespace="default", name="web", instances=GROUPS, version="1", status="Running", created_at=1.7e9
    )
    return [Framework(id="framework-1", cluster="c", created_at=1.7e9), application, version, *groups]


def configmap(name: str, size: int) -> ConfigMap:
    return ConfigMap(namespace="default", name=name, items={"content": ConfigItem(content="x" * size)})


def test_four_configmaps_of_230_kb_in_flight_do_not_end_the_term(process: Process) -> None:
    epoch = process.epoch
    asked = [
        process.runtime.submit(requests.PutConfigMap(config_map=configmap(f"c{n}", 230_000 - 400))) for n in range(4)
    ]
    assert [reply.result(60.0).error for reply in asked] == [""] * 4
    assert process.epoch == epoch and len(process.drivers) == 1
    found = {r.name for r in process.store.load().records if isinstance(r, ConfigMap)}
    assert found == {"c0", "c1", "c2", "c3"}


def test_a_command_with_large_output_over_a_hundred_taskgroups_does_not_end_the_term(store: Store) -> None:
    plant(store, running())
    process = Process(store).leads()
    try:
        epoch = process.epoch
        for _ in range(2):
            asked = process.runtime.submit(
                requests.CreateCommand(
                    namespace="default", name="web", type="command", timeout=60.0, body={"command": ["x" * 150_000]}
                )
            )
            assert asked.result(60.0).error == ""
        state = process.runtime.state()
        assert len(state.messages) == 2 * GROUPS
        for message in list(state.messages.values()):
            process.driver.deliver(
                cluster_manager.MessageAnswered(
                    agent_id="agent", executor_id=message.taskgroup, message_id=message.id, status="success",
                    results=tuple(
                        MessageResult(task=task, ok=True, stdout=NOISE, stderr=NOISE) for task in message.tasks
                    ),
                )
            )  # fmt: skip
        messages = process.runtime.state().messages
        wait_for(lambda: all(m.status == "success" for m in messages.values()), 60.0, "all answers to be heard")
        assert process.runtime._term is not None
        assert process.runtime._term._pipeline.drain(60.0)
        records = process.store.load().records
        assert sum(isinstance(r, Message) and r.status == "success" for r in records) == 2 * GROUPS
        assert process.epoch == epoch and len(process.drivers) == 1
    finally:
        process.runtime.stop()


def test_what_no_store_takes_fails_its_request_alone(process: Process) -> None:
    """Small enough for the door, too large with all that is stored because of it."""
    epoch = process.epoch
    version = Version(namespace="default", application="web", raw="\x01" * 15_000, annotations={"a": "\x01" * 20_000})
    before = process.runtime.submit(requests.CreateApplication(version=version)).result(60.0)
    assert before.error == "", "35,000 characters fit"
    huge = ConfigMap(
        namespace="default", name="huge", items={"content": ConfigItem(content="y" * 220_000)}, labels={"b": "z" * 2}
    )
    assert process.runtime.submit(requests.PutConfigMap(config_map=huge)).result(60.0).error == ""
    assert process.runtime._term is not None
    process.runtime._term._largest = 10**9
    bad = Version(namespace="default", application="bad", raw="\x01" * 100_000, annotations={"a": "\x01" * 90_000})
    refused = process.runtime.submit(requests.CreateApplication(version=bad)).result(60.0)
    assert refused.error == effects.Reason.INVALID
    assert "the store takes at most" in refused.message and "default/bad" in refused.message
    assert process.disable("agent-1").result(60.0).error == ""
    assert process.epoch == epoch and len(process.drivers) == 1
    assert "default/bad" not in process.runtime.state().applications
