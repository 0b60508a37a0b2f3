"""An illegal change of status in the core is undone, told and counted, and harms nothing else; a state is validated."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import effects
from bcs_scheduler.core.options import CoreOptions
from store.records import TaskGroup
from store.state import State
from store.state.validation import dangling, validate
from tests.unit.lab import Lab
from transactions.rules import lifecycle
from transactions.transitions import InvalidTransition


def resurrected(group: TaskGroup, tasks: tuple[Any, ...], now: float) -> TaskGroup:
    """A rule with a defect: whatever is reported, the taskgroup is staging."""
    return msgspec.structs.replace(group, tasks=tasks, status="Staging", updated_at=now)


def lab_with(*, strict: bool, **options: Any) -> Lab:
    lab = Lab(CoreOptions(strict=strict, **options))
    lab.create(2)
    lab.offer()
    lab.run()
    return lab


def test_an_illegal_change_harms_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = lab_with(strict=False)
    first, second = lab.groups
    with monkeypatch.context() as patch:
        patch.setattr(lifecycle, "advance", resurrected)
        lab.report(first, "FAILED")
    assert lab.core.state.taskgroups[first.id] == first
    (told,) = [line for line in lab.sent(effects.LogLine) if line.level == "error"]
    assert (told.kind, told.key, told.reason) == ("taskgroup", first.id, "TransitionRefused")
    assert told.public == f"taskgroup {first.id} cannot change from {first.status} to Staging"
    assert "TaskGroupPlaced" in told.message, "the story of the object"
    event = [h for run in lab.core.state.event_logs.values() for h in run.events][-1]
    assert (event.reason, event.level, event.message) == ("TransitionRefused", "error", told.public)
    lab.report(second, "FAILED")
    assert lab.core.state.taskgroups.get(second.id) != second
    lab.report(first, "FAILED")
    assert lab.core.state.taskgroups.get(first.id) != first


def test_it_is_let_out_where_nothing_must_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = lab_with(strict=True)
    monkeypatch.setattr(lifecycle, "advance", resurrected)
    with pytest.raises(InvalidTransition, match="to Staging"):
        lab.report(lab.groups[0], "FAILED")


# --- validation ---------------------------------------------------------------------------------------------------


def test_a_state_that_is_kept_up_to_date_is_valid() -> None:
    lab = lab_with(strict=True, validate=True)
    lab.report(lab.groups[0], "FAILED")
    lab.scale(1)
    lab.run()
    assert validate(lab.core.state) == []


def test_a_wrong_index_and_a_dangling_reference_are_named() -> None:
    lab = lab_with(strict=True)
    state, group = lab.core.state, lab.groups[0]
    state._status_of[f"{group.namespace}/{group.application}"]["Running"] += 1
    state.apply("application", f"{group.namespace}/{group.application}", None)
    words = validate(state)
    assert any("_status_of" in line for line in words)
    missing = f"refers to application {group.namespace}/{group.application}, which does not exist"
    assert any(line == f"taskgroup {group.id} {missing}" for line in words)


def test_what_cannot_be_read_exists() -> None:
    group = TaskGroup(id="0.web.shop.demo.1", namespace="shop", application="web", index=0, version="1")
    state = State([group])
    assert len(dangling(state)) == 1
    state.unreadable["application", "shop/web"] = "damaged"
    assert dangling(state) == []


def test_the_core_tells_each_fault_once() -> None:
    lab = lab_with(strict=False, validate=True)
    lab.core.state._unhealthy_of["shop/nobody"] = 1
    seen = [effect for instances in (3, 4) if lab.scale(instances) for effect in lab.out]
    told = [line for line in seen if isinstance(line, effects.LogLine) and line.reason == "StateInvalid"]
    assert [(line.kind, line.level) for line in told] == [("core", "error")]
    assert "_unhealthy_of" in told[0].message
    assert not [h for run in lab.core.state.event_logs.values() for h in run.events if h.reason == "StateInvalid"]


def test_nothing_is_validated_unless_it_is_asked_for() -> None:
    lab = lab_with(strict=True)
    lab.core.state._unhealthy_of["shop/nobody"] = 1
    assert not [line for line in lab.wait(1) if isinstance(line, effects.LogLine) and line.level == "error"]
