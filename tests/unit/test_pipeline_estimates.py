"""bcs_scheduler.pipeline.estimate: never less than what a store will write."""

from __future__ import annotations

import pytest

from bcs_scheduler.pipeline import estimate
from store.base import Change
from store.codec import encode_changes, size_of
from store.definition import AttributeValue
from store.records import (
    AgentSetting,
    Application,
    BoundPort,
    Endpoint,
    Member,
    MemberPort,
    Note,
    Record,
    Service,
    ServicePort,
    Task,
    TaskGroup,
    Transaction,
    Version,
)

NAME = "n" * 60
RECORDS: list[Record] = [
    AgentSetting(agent=NAME, disabled=True, strings={NAME: NAME}, scalars={NAME: 1.5}, taints={NAME: NAME}),
    Application(
        namespace=NAME, name=NAME, labels={NAME: NAME}, annotations={NAME: NAME}, version="1" * 19, message=NAME,
        status="RollingUpdate", last_status="RollingUpdate", operation=NAME, instances=99999,
        created_at=1.7e9 + 1 / 3, updated_at=1.7e9 + 1 / 3,
    ),
    Transaction(
        id=NAME, type="RESCHEDULE", namespace=NAME, application=NAME, created_at=1.7e9 + 1 / 3, cause=NAME,
        due_at=1.7e9 + 1 / 3, deadline=1.7e9 + 1 / 3, finished_at=1.7e9 + 1 / 3, taskgroup=2 * NAME, message=NAME,
        host_retain=NAME, host_retain_until=1.7e9 + 1 / 3, version="1" * 19, restarts=999, max_unavailable=999,
        target=99999, progress=99999, inner=True, enforce=True, force=True,
        history=tuple(Note(at=1.7e9 + 1 / 3, text=NAME) for _ in range(20)),
    ),
    TaskGroup(
        id=4 * NAME, namespace=NAME, application=NAME, index=99999, version="1" * 19, agent_id=NAME, hostname=NAME,
        agent_ip="255.255.255.255", role=NAME, status="Restarting", last_status="Restarting", message=NAME,
        tasks=tuple(
            Task(
                id=4 * NAME, name=NAME, status="Restarting", last_status="Restarting", message=NAME, reason=NAME,
                healthy=True, ended=True, oom=True, container_ip="255.255.255.255", updated_at=1.7e9 + 1 / 3,
                ports=tuple(
                    BoundPort(name=NAME[:30], protocol="https", container_port=65535, host_port=65535) for _ in range(9)
                ),
            )
            for _ in range(8)
        ),
        extended={NAME: 10**9}, attributes={NAME: AttributeValue(text=NAME)}, kill_reason=NAME, restarts=999,
        started=True, killing_since=1.7e9 + 1 / 3, last_restart_at=1.7e9 + 1 / 3, unreachable_since=1.7e9 + 1 / 3,
        created_at=1.7e9 + 1 / 3, running_since=1.7e9 + 1 / 3, ended_at=1.7e9 + 1 / 3, updated_at=1.7e9 + 1 / 3,
    ),
    Service(
        namespace=NAME, name=NAME, labels={NAME: NAME}, annotations={NAME: NAME}, selector={NAME: NAME},
        type="ClusterIP", cluster_ip=("255.255.255.255",), created_at=1.7e9 + 1 / 3, updated_at=1.7e9 + 1 / 3,
        ports=tuple(
            ServicePort(
                name=NAME, protocol="https", service_port=65535, domain_name=NAME, path=NAME, target_port=65535,
                node_port=65535,
            )
            for _ in range(9)
        ),
    ),
    Endpoint(
        namespace=NAME, name=NAME, version=10**18, updated_at=1.7e9 + 1 / 3, omitted=99999,
        members=tuple(
            Member(
                taskgroup=4 * NAME, name=NAME, application=NAME, network_mode="BRIDGE", node_ip="255.255.255.255",
                container_ip="255.255.255.255", ready=True, reason="unreachable", weight=10**6,
                ports=(
                    MemberPort(
                        name=NAME, protocol="https", host_port=65535, container_port=65535,
                        address="255.255.255.255:65535",
                    ),
                ),
            )
            for _ in range(9)
        ),
    ),
    Version(namespace=NAME, application=NAME, name="1" * 19, raw="x" * 2000, labels={NAME: NAME}),
]  # fmt: skip


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.kind)
def test_estimates_are_upper_bounds_but_not_absurd(record: Record) -> None:
    change = Change(record.kind, record.key, record)
    (encoded,) = encode_changes([change], 10**9)
    assert size_of(encoded) <= estimate(change) <= 5 * size_of(encoded)


def test_a_deletion_is_estimated_too() -> None:
    change = Change("taskgroup", "k" * 100, None)
    (encoded,) = encode_changes([change], 10**9)
    assert size_of(encoded) <= estimate(change) <= 2 * size_of(encoded)
