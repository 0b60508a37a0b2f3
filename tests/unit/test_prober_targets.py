"""bcs_scheduler.prober.targets: what is probed, and where."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bcs_scheduler.prober.targets import Lookup, ProbeTarget
from store.records import Application, BoundPort, CheckResult, Task, TaskGroup, Version
from store.records.definition import Container, HealthCheck
from store.state import State

HTTP = HealthCheck(type="REMOTE_HTTP", port_name="web", interval=5.0, headers={"A": "b"})
TCP = HealthCheck(type="REMOTE_TCP", port=8080)
TASK = Task(
    id="1.0.0.web.ns.c", status="Running", container_ip="172.17.0.2", started_at=9_000.0, status_since=7.0,
    ports=(BoundPort(name="web", container_port=80, host_port=31000),
           BoundPort(name="x", container_port=8080, host_port=31001)),
    checks=(CheckResult(type="REMOTE_HTTP"), CheckResult(type="REMOTE_TCP", healthy=True)),
)  # fmt: skip
GROUP = TaskGroup(
    id="0.web.ns.c.1", namespace="ns", application="web", index=0, version="1", agent_ip="10.0.0.4", status="Running",
    tasks=(TASK,),
)  # fmt: skip


def state(group: TaskGroup = GROUP, mode: str = "HOST", *checks: HealthCheck) -> State:
    container = Container(image="x", health_checks=checks or (HTTP, TCP, HealthCheck(type="HTTP", port=1)))
    version = Version(namespace="ns", application="web", name="1", network_mode=mode, containers=(container,))
    other = Version(namespace="ns", application="web", name="0", containers=(Container(),))
    return State((Application(namespace="ns", name="web", version="1"), version, other, group))


def places(found: State) -> list[tuple[str, str, int]]:
    return [
        (target.probe_target.type, target.probe_target.host, target.probe_target.port) for target in Lookup(found)()
    ]


def test_targets_have_what_the_checks_say() -> None:
    http, tcp = Lookup(state())()
    assert http.probe_target == ProbeTarget(
        task_id=TASK.id, type="REMOTE_HTTP", host="10.0.0.4", port=31000, delay=10.0, grace_period=300.0, interval=5.0,
        timeout=20.0, started_at=7.0, headers=(("A", "b"),),
    )  # fmt: skip
    assert http.known.healthy is None and tcp.known.healthy is True


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("HOST", [("10.0.0.4", 31000), ("10.0.0.4", 31001)]),
        ("BRIDGE", [("10.0.0.4", 31000), ("10.0.0.4", 31001)]),
        ("mynet", [("172.17.0.2", 80), ("172.17.0.2", 8080)]),
    ],
)
def test_where_a_task_is_reached(mode: str, expected: list[tuple[str, int]]) -> None:
    assert [place[1:] for place in places(state(GROUP, mode))] == expected


def test_a_number_that_is_no_port_of_the_container_is_taken_as_it_is() -> None:
    assert places(state(GROUP, "HOST", HealthCheck(type="REMOTE_TCP", port=9))) == [("REMOTE_TCP", "10.0.0.4", 9)]


@pytest.mark.parametrize("check", [HealthCheck(type="REMOTE_TCP"), HealthCheck(type="REMOTE_TCP", port_name="ghost")])
def test_a_check_without_port_is_not_probed(check: HealthCheck) -> None:
    assert places(state(GROUP, "HOST", check)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "Starting"},
        {"killing_since": 1.0},
        {"version": "0"},
        {"agent_ip": ""},
        {"tasks": (msgspec.structs.replace(TASK, status="Starting"),)},
        {"tasks": (msgspec.structs.replace(TASK, ended=True),)},
        {"tasks": (msgspec.structs.replace(TASK, checks=()),)},
    ],
)
def test_what_does_not_run_is_no_target(changes: dict[str, Any]) -> None:
    assert places(state(msgspec.structs.replace(GROUP, **changes))) == []


def test_what_has_not_changed_is_not_derived_anew() -> None:
    found = state()
    lookup = Lookup(found)
    before = lookup()
    again = lookup()
    assert len(before) == 2 and all(one is two for one, two in zip(before, again, strict=True))
    found.apply("taskgroup", GROUP.id, msgspec.structs.replace(GROUP, agent_ip="10.0.0.5"))
    assert {target.probe_target.host for target in lookup()} == {"10.0.0.5"}
    found.apply("taskgroup", GROUP.id, None)
    assert lookup() == []


def refusals(address: str, **changes: Any) -> set[str]:
    group = msgspec.structs.replace(GROUP, tasks=(msgspec.structs.replace(TASK, container_ip=address),), **changes)
    return {target.probe_target.refused for target in Lookup(state(group, "mynet"))()}


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "::1", "169.254.169.254", "fe80::1", "fd00:ec2::254", "100.100.100.200", "0.0.0.0", "::",
        "224.0.0.1", "ff02::1", "255.255.255.255", "::ffff:169.254.169.254", "::ffff:127.0.0.1", "64:ff9b::7f00:1",
    ],
)  # fmt: skip
def test_an_address_beyond_the_networks_of_containers_is_refused(address: str) -> None:
    assert refusals(address) == {f"the container reports the local address {address}, which is not probed"}


@pytest.mark.parametrize(
    "address", ["metadata.google.internal", "localhost", "10.0.0", "2130706433", "127.1", "x" * 900]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    (words,) = refusals(address)
    assert "is not an IP address" in words and len(words) < 200


@pytest.mark.parametrize("address", ["172.17.0.2", "10.1.2.3", "192.168.1.1", "8.8.8.8", "fd12::7", "2001:4860::1"])
def test_addresses_of_networks_are_probed(address: str) -> None:
    assert refusals(address) == {""}


def test_the_address_of_the_agent_is_probed_whatever_it_is() -> None:
    """Mesos knows it from the operator; an agent on the scheduler's machine may be reached by loopback only."""
    assert refusals("127.0.0.1", agent_ip="127.0.0.1") == {""}
