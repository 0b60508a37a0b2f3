"""Settings of the embedded cluster."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.local.errors import SettingsError
from bcs_scheduler.local.settings import ClusterSettings, agent_specs, parse_attributes, parse_ranges


def test_defaults() -> None:
    specs = agent_specs(ClusterSettings())
    assert [spec.hostname for spec in specs] == ["agent-1", "agent-2", "agent-3"]
    assert specs[0].scalars == {"cpus": 4000, "mem": 4_096_000, "disk": 8_192_000}


def test_port_ranges_of_real_agents_do_not_meet() -> None:
    specs = agent_specs(ClusterSettings(ports="31000-31499,31600-31999"))
    assert [spec.ports for spec in specs] == [
        ((31000, 31499), (31600, 31999)),
        ((32000, 32499), (32600, 32999)),
        ((33000, 33499), (33600, 33999)),
    ]


def test_synthetic_agents_share_their_port_range() -> None:
    specs = agent_specs(ClusterSettings(synthetic=True, agents=5000, ports="31000-31999"))
    assert {spec.ports for spec in specs} == {((31000, 31999),)}


def test_reservations_are_taken_out_of_the_total() -> None:
    spec = agent_specs(ClusterSettings(reservations="web=cpus:1;mem:512 batch=cpus:2"))[0]
    assert spec.reserved == {"web": {"cpus": 1000, "mem": 512_000}, "batch": {"cpus": 2000}}
    assert spec.scalars["cpus"] == 1000


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"agents": 0}, "agents"),
        ({"cpus": -1}, "cpus"),
        ({"mem": float("nan")}, "mem"),
        ({"disk": float("inf")}, "disk"),
        ({"ports": "5"}, "ports"),
        ({"ports": "20-10"}, "ports"),
        ({"ports": "10-20,15-30"}, "ports"),
        ({"agents": 40, "ports": "31000-31999"}, "ports"),
        ({"attributes": "rack"}, "attributes"),
        ({"attributes": "rack:"}, "attributes"),
        ({"reservations": "web"}, "reservations"),
        ({"reservations": "*=cpus:1"}, "reservations"),
        ({"reservations": "web=cpus:x"}, "reservations"),
        ({"reservations": "web=cpus:5"}, "reservations"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(SettingsError, match=name):
        agent_specs(ClusterSettings(**settings))


def test_attributes_are_typed_as_by_mesos() -> None:
    assert parse_attributes("rack:r{n%4};n:{n};zone:z:1;r:[1-2,5-6]", 6) == {
        "rack": "r2",
        "n": 6.0,
        "zone": "z:1",
        "r": ((1, 2), (5, 6)),
    }


def test_ranges_are_sorted() -> None:
    assert parse_ranges("ports", "30-40, 10-20") == ((10, 20), (30, 40))
    assert parse_ranges("ports", "") == ()
