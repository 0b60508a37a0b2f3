"""Which taskgroups a service selects, and what it knows of each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.records import Application, BoundPort, CheckResult, Member, Service, Task, TaskGroup, Version
from transactions.rules import membership

LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))


@given(LABELS, LABELS)
def test_selector_takes_what_has_all_its_pairs(selector: dict[str, str], labels: dict[str, str]) -> None:
    assert membership.selects(selector, labels) is (set(selector.items()) <= set(labels.items()))


def test_weights_are_the_labels_that_begin_so_and_hold_a_number() -> None:
    labels = {"BCS-WEIGHT-blue": "9", "BCS-WEIGHT-off": "0", "BCS-WEIGHT-bad": "-1", "BCS-WEIGHT-x": "²", "app": "7"}
    assert membership.weights(Service(namespace="a", name="b", labels=labels)) == {"blue": 9, "off": 0}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 1),
        ({"other": 5}, 1),
        ({"web-v2": 2, "web": 3, "blue": 4}, 2),
        ({"web": 3, "blue": 4}, 3),
        ({"blue": 4}, 4),
        ({"green": 6, "blue": 4}, 4),
        ({"blue": 0}, 0),
    ],
)
def test_weight_by_application_then_deployment_then_label(given: dict[str, int], expected: int) -> None:
    assert membership.weight(given, "web-v2", "web", {"side": "blue", "tint": "green"}) == expected


def member(mode: str = "HOST", task: dict[str, Any] | None = None, **group: Any) -> Member | None:
    port = BoundPort(name="http", protocol="http", container_port=80, host_port=31000)
    one = Task(id="t", status="Running", **{"ports": (port,), **(task or {})})
    made = TaskGroup(
        **{
            "id": "3.web.shop.demo.1",
            "namespace": "shop",
            "application": "web",
            "index": 3,
            "version": "1",
            "agent_ip": "10.0.0.1",
            "hostname": "node-1",
            "status": "Running",
            "tasks": (one,),
            **group,
        }
    )
    version = Version(namespace="shop", application="web", name="1", network_mode=mode)
    return membership.member(made, version, Application(namespace="shop", name="web"), {"http"}, {})


@pytest.mark.parametrize(
    ("mode", "task", "address"),
    [
        ("HOST", {}, "10.0.0.1:80"),
        ("BRIDGE", {"container_ip": "172.17.0.2"}, "10.0.0.1:31000"),
        ("overlay", {"container_ip": "192.168.4.2"}, "192.168.4.2:80"),
        ("USER", {"container_ip": "fd00::7"}, "[fd00::7]:80"),
    ],
)
def test_address_follows_from_the_network(mode: str, task: dict[str, Any], address: str) -> None:
    found = member(mode, task)
    assert found is not None and found.ready
    assert [(port.address, port.protocol) for port in found.ports] == [(address, "tcp")]


def test_bridge_without_a_mapped_port_is_reached_inside() -> None:
    port = BoundPort(name="http", container_port=80, host_port=-1)
    found = member("BRIDGE", {"ports": (port,), "container_ip": "172.17.0.2"})
    assert found is not None
    assert (found.ports[0].address, found.ports[0].host_port) == ("172.17.0.2:80", 0)


def test_host_network_has_the_address_of_its_agent() -> None:
    found = member()
    assert found is not None
    assert (found.node_ip, found.container_ip, found.name) == ("10.0.0.1", "10.0.0.1", "web-3")


@pytest.mark.parametrize(
    ("mode", "task", "group", "reason"),
    [
        ("HOST", {}, {"killing_since": 5.0}, "ending"),
        ("HOST", {}, {"status": "Killing", "last_status": "Running"}, "ending"),
        ("HOST", {}, {"status": "Restarting"}, "restarting"),
        ("HOST", {}, {"status": "Lost", "unreachable_since": 5.0}, "unreachable"),
        ("HOST", {"checks": (CheckResult(type="TCP"),)}, {}, "unhealthy"),
        ("HOST", {"checks": (CheckResult(type="TCP", healthy=False),), "healthy": False}, {}, "unhealthy"),
        ("overlay", {}, {}, "no address"),
    ],
)
def test_present_but_not_ready(mode: str, task: dict[str, Any], group: dict[str, Any], reason: str) -> None:
    found = member(mode, task, **group)
    assert found is not None
    assert (found.ready, found.reason) == (False, reason)


@pytest.mark.parametrize(
    "group",
    [
        {"status": "Staging"},
        {"status": "Starting"},
        {"status": "Killing", "last_status": "Starting"},
        {"status": "Finish", "tasks": (Task(id="t", status="Finish", ended=True),)},
        {"status": "Failed", "killing_since": 5.0},
        {"status": "Lost", "tasks": (Task(id="t", status="Lost", ended=True),)},
    ],
)
def test_who_does_not_answer_is_no_member(group: dict[str, Any]) -> None:
    assert member(**group) is None


def test_only_ports_that_the_service_names() -> None:
    found = member(task={"ports": (BoundPort(name="admin", container_port=1, host_port=1),)})
    assert found is not None
    assert found.ports == ()
