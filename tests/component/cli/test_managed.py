"""Managed applications as a kind of `bcs`, against the real API."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from bcs_scheduler.leadership.items import EVENTS, Item
from store.records import ManagedApplication, Placeholder
from tests.component.cli.test_extensions import bcs as bcs
from tests.component.test_api_managed import reserving
from tests.component.test_appmanager_core import ManagedLab
from tests.unit.api_support import CoreGateway


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> CoreGateway:
    """A core with a gang that reserves its room, one of whose placeholders has lost its record over a minute ago."""
    records = [
        msgspec.structs.replace(one, timeout=600.0) if isinstance(one, ManagedApplication) else one
        for one in reserving().records()
    ]
    lost = next(one for one in records if isinstance(one, Placeholder) and one.state == "Bound")
    lab = ManagedLab([one for one in records if one is not lost], reserving().now)
    lab.wait(61.0)
    made = CoreGateway(lab.records())
    events = [event for log in lab.core.state.event_logs.values() for event in log.events]
    made.follow.publish([Item(EVENTS, "", event, event.number) for event in events])
    return made


@pytest.fixture(autouse=True)
def namespace(bcs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BCS_NAMESPACE", "batch")


@pytest.mark.parametrize("kind", ["managed", "managedapplication", "managedapplications"])
def test_they_are_listed_under_each_name(bcs: Any, kind: str) -> None:
    rows = [line.split() for line in bcs("get", kind, "-o", "table").out.splitlines()]
    assert rows[0][:5] == ["NAME", "MANAGER", "STATE", "TASKS", "AGE"]
    assert rows[1][:2] == ["gang", "m"] and len(rows) == 2


def test_lists_of_all_namespaces_and_wide_ones_have_more_columns(bcs: Any) -> None:
    everywhere = bcs("get", "managed", "-A", "-o", "table").out.splitlines()
    assert everywhere[0].split()[:2] == ["NAMESPACE", "NAME"] and everywhere[1].split()[:2] == ["batch", "gang"]
    wide = bcs("get", "managed", "-o", "wide").out
    assert {"QUEUE", "QUEUE-STATE", "WAITING", "PLACEHOLDERS"} <= set(wide.split()) and "root.q" in wide
    assert json.loads(bcs("get", "managed", "-o", "json").out)[0]["metadata"]["name"] == "gang"
    assert json.loads(bcs("get", "managed", "gang", "-o", "json").out)["orphans"]
    refused = bcs("get", "managed", "-l", "a=b")
    assert refused.code == 2 and "-l" in refused.err


def test_one_is_described_with_tasks_placeholders_orphans_and_checks(bcs: Any) -> None:
    text = bcs("describe", "managed/gang", "-o", "text").out
    lines = [line.split() for line in text.splitlines()]
    for title in ("Tasks", "Placeholders", "Orphans", "Changes"):
        assert any(line[:1] == [title] for line in lines), title
    assert ["Outstanding:", "2", "tasks", "without", "an", "agent"] in lines
    assert "placeholders were asked for" in text
    assert "TryReserve" in text
    found = json.loads(bcs("describe", "managed", "gang", "-o", "json", "--events").out)
    assert [event["reason"] for event in found["sums"]] == ["ManagedSumsWrong"]
    assert "ReservationStarted" in {event["reason"] for event in found["events"]}
    assert found["managed"]["orphans"][0]["attempts"] == 1
    assert "managed:" in bcs("describe", "managed", "gang", "-o", "yaml").out


def test_a_missing_one_is_named(bcs: Any) -> None:
    missing = bcs("describe", "managed/other")
    assert missing.code == 3 and "batch/other" in missing.err
