"""executor.agent.updates: status updates are repeated until acknowledged."""

from __future__ import annotations

import base64
import uuid

import pytest

from bcs_scheduler.executor.agent.updates import Updates


def launched(*tasks: str) -> Updates:
    updates = Updates()
    for task in tasks:
        updates.launched({"task_id": {"value": task}})
    return updates


def states(updates: Updates) -> list[str]:
    return [item["status"]["state"] for item in updates.subscription()["unacknowledged_updates"]]


def send_all(updates: Updates) -> list[str]:
    found = []
    while (item := updates.next()) is not None:
        updates.sent(item[0])
        found.append(item[0])
    return found


def test_updates_are_sent_in_order_and_kept_until_acknowledged() -> None:
    updates = launched("t")
    for state in ("TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED"):
        updates.add("t", {"state": state})
    first, second, third = send_all(updates)
    assert states(updates) == ["TASK_STARTING", "TASK_RUNNING", "TASK_FINISHED"]
    updates.acknowledged("t", second)
    assert states(updates) == ["TASK_STARTING", "TASK_FINISHED"]
    assert not updates.wait_until_empty(0)
    updates.acknowledged("t", first)
    updates.acknowledged("t", third)
    assert updates.wait_until_empty(0)


def test_a_subscription_carries_all_so_that_nothing_is_sent_after_it() -> None:
    updates = launched("t")
    updates.add("t", {"state": "TASK_STARTING"})
    assert states(updates) == ["TASK_STARTING"]
    assert updates.next() is None


def test_changes_do_not_pile_up_while_nothing_can_be_sent() -> None:
    updates = launched("t", "other")
    updates.add("t", {"state": "TASK_STARTING"})
    for message in ("1", "2", "3"):
        updates.add("t", {"state": "TASK_RUNNING", "message": message})
        updates.add("other", {"state": "TASK_RUNNING"})
    kept = [item["status"] for item in updates.subscription()["unacknowledged_updates"]]
    assert [(item["task_id"]["value"], item["state"], item.get("message")) for item in kept] == [
        ("t", "TASK_STARTING", None),
        ("t", "TASK_RUNNING", "3"),
        ("other", "TASK_RUNNING", None),
    ]


def test_a_running_that_was_sent_is_not_replaced() -> None:
    updates = launched("t")
    updates.add("t", {"state": "TASK_RUNNING", "message": "1"})
    send_all(updates)
    updates.add("t", {"state": "TASK_RUNNING", "message": "2"})
    assert states(updates) == ["TASK_RUNNING", "TASK_RUNNING"]


def test_tasks_are_unacknowledged_until_any_of_their_updates_is() -> None:
    updates = Updates()
    info = {"task_id": {"value": "t"}, "name": "web"}
    updates.launched(info)
    updates.add("t", {"state": "TASK_STARTING"})
    assert updates.subscription()["unacknowledged_tasks"] == [info]
    updates.acknowledged("t", "unknown")
    assert updates.subscription()["unacknowledged_tasks"] == []
    assert states(updates) == ["TASK_STARTING"]


def test_what_identifies_an_update() -> None:
    updates = launched("t")
    updates.add("t", {"state": "TASK_STARTING"})
    updates.add("t", {"state": "TASK_RUNNING"})
    first, second = (item["status"] for item in updates.subscription()["unacknowledged_updates"])
    found = uuid.UUID(bytes=base64.b64decode(first["uuid"]))
    assert (found.version, found.variant) == (4, uuid.RFC_4122)
    assert first["uuid"] != second["uuid"]
    assert first["source"] == "SOURCE_EXECUTOR"
    assert first["timestamp"] <= second["timestamp"]


def test_there_is_no_update_of_a_task_that_has_not_arrived() -> None:
    updates = launched("t")
    with pytest.raises(ValueError, match="not launched here"):
        updates.add("queued", {"state": "TASK_KILLED"})
    assert updates.subscription()["unacknowledged_updates"] == []


def test_a_task_that_has_arrived_may_be_told_of_after_its_first_acknowledgement() -> None:
    updates = launched("t")
    updates.add("t", {"state": "TASK_STARTING"})
    (first,) = send_all(updates)
    updates.acknowledged("t", first)
    updates.add("t", {"state": "TASK_RUNNING"})
    assert states(updates) == ["TASK_RUNNING"]
