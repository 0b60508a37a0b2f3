"""Records as version 0.1 wrote them (tests/golden/old_texts): what they say in words is understood as codes."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from store.base import Quarantined
from store.codes import EndCause
from store.encoding.codec import Stored, decode, encode
from store.encoding.upgrades import upgraded
from store.records import AgentSetting, Deployment, Drain, Note, Record, TaskGroup, Transaction

R = TypeVar("R", bound=Record)
OLD = Path(__file__).resolve().parents[1] / "golden" / "old_texts"
CAUSES: dict[str, EndCause] = {
    "a task of it has ended": "TaskEnded",
    "replaced by a new version": "NewVersion",
    "removed by a rolling update": "RollingUpdate",
    "scaled down to 3": "ScaledDown",
    "application deleted": "Deleted",
    "rescheduled": "Rescheduled",
    "rescheduled on request": "Rescheduled",
    "moved away from agent 10.0.0.7": "Drained",
    "its agent is not for it any more": "Misplaced",
    "a reason that nobody knows": "",
    "": "",
}


def stored(kind: type[R]) -> list[Stored]:
    lines = (OLD / "codes.txt").read_bytes().splitlines()
    parts = (line.split(b" ", 2) for line in lines)
    return [Stored(found.decode(), key.decode(), data) for found, key, data in parts if found.decode() == kind.kind]


def loaded(kind: type[R]) -> dict[str, R]:
    found: dict[str, R] = {}
    for item in stored(kind):
        record = decode(item)
        assert isinstance(record, kind), record
        found[item.key] = record
    assert found
    return found


def test_the_cause_of_a_taskgroup_that_is_ended() -> None:
    groups = loaded(TaskGroup).values()
    assert {group.kill_reason: group.end_cause for group in groups} == CAUSES


def test_the_phase_of_a_drain() -> None:
    drains = {key: setting.drain for key, setting in loaded(AgentSetting).items()}
    phases = {key: drain.phase if drain is not None else None for key, drain in drains.items()}
    assert phases == {"begun": "Pending", "moving": "Moving", "done": "Done", "failed": "Failed", "none": None}


def test_the_update_of_a_daemonset_that_is_known_to_be_stuck() -> None:
    codes = {key: [note.code for note in found.history] for key, found in loaded(Transaction).items()}
    assert codes == {"transaction-1": ["", "Stuck"], "transaction-2": [""], "transaction-3": [""]}


def test_why_an_update_is_undone() -> None:
    why = {deployment.name: deployment.rollback_reason for deployment in loaded(Deployment).values()}
    assert why == {"back": "step 2: the taskgroups going back and forth failed", "suspended": "", "forward": ""}


@pytest.mark.parametrize("kind", [TaskGroup, AgentSetting, Transaction, Deployment])
def test_what_is_upgraded_is_written_and_read_as_it_is(kind: type[Record]) -> None:
    for key, record in loaded(kind).items():
        assert decode(Stored(kind.kind, key, encode(record))) == record
        assert upgraded(record) is record
        assert not record.extra


def test_a_record_of_the_present_version_is_not_copied() -> None:
    group = TaskGroup(
        id="0.web.shop.demo.1", namespace="shop", application="web", index=0, version="1", killing_since=1.0,
        end_cause="ScaledDown", kill_reason="scaled down to 0",
    )  # fmt: skip
    drained = AgentSetting(agent="a", drain=Drain(since=1.0, phase="Pending", message="begins"))
    assert upgraded(group) is group and upgraded(drained) is drained


def test_words_of_a_scheduler_that_does_not_know_the_code_decide() -> None:
    """A scheduler of version 0.1 that leads for a while during an upgrade keeps the code and changes the words."""
    (rolled,) = [item for item in stored(TaskGroup) if b'"removed by a rolling update"' in item.data]
    mixed = rolled.data[:-1] + b',"end_cause":"ScaledDown"}'
    group = decode(Stored("taskgroup", rolled.key, mixed))
    assert isinstance(group, TaskGroup) and group.end_cause == "RollingUpdate"
    (moving,) = [item for item in stored(AgentSetting) if item.key == "moving"]
    looked_at = moving.data.replace(b'"drain":{', b'"drain":{"phase":"Pending",')
    setting = decode(Stored("agentsetting", "moving", looked_at))
    assert isinstance(setting, AgentSetting) and setting.drain is not None and setting.drain.phase == "Moving"


def test_words_that_nobody_knows_leave_the_code() -> None:
    group = TaskGroup(
        id="0.web.shop.demo.1", namespace="shop", application="web", index=0, version="1", killing_since=1.0,
        end_cause="Misplaced", kill_reason="the agent does not belong to the daemonset",
    )  # fmt: skip
    assert upgraded(group) is group


def test_a_code_of_no_set_is_quarantined_with_its_place() -> None:
    (setting,) = [item for item in stored(AgentSetting) if item.key == "moving"]
    wrong = setting.data.replace(b'"drain":{', b'"drain":{"phase":"Sleeping",')
    found = decode(Stored("agentsetting", "moving", wrong))
    assert isinstance(found, Quarantined) and "$.drain.phase" in found.error


def test_notes_without_a_code_stay_short() -> None:
    assert msgspec.json.encode(Note(at=1.0, text="accepted")) == b'{"at":1.0,"text":"accepted"}'


def test_an_update_is_stored_with_the_names_that_earlier_versions_read() -> None:
    deployment = Deployment(
        namespace="n", name="d", rolling_back=True, rollback_reason="why", phase="START", next_revision=3
    )
    stored = msgspec.to_builtins(deployment)
    assert {key: stored[key] for key in ("back", "back_why", "half", "following")} == {
        "back": True, "back_why": "why", "half": "START", "following": 3
    }  # fmt: skip
    assert msgspec.convert(stored, Deployment) == deployment
