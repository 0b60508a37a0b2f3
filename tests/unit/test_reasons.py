"""The reasons of events: one closed set in one style, listed in docs/api.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from bcs_scheduler.api.http import errors
from bcs_scheduler.core.interface.effects import ErrorReason, Reason
from store.reasons import (
    APPLICATION_TURNED,
    DAEMONSET_TURNED,
    KEPT,
    REASONS,
    TASKGROUP_TURNED,
    TRANSACTION_ENDED,
    EventReason,
)
from store.records import TaskGroupStatus, TransactionStatus
from transactions.base import Refusal
from transactions.rules.deployment_status import AvailableReason, ProgressReason

ROOT = Path(__file__).resolve().parents[2]


CHANGED = re.compile(r"The [\w ]+ was (created|changed|deleted)\.")


EVIDENT: frozenset[EventReason] = frozenset({
    "TransactionQueued", "TransactionStarted", "TransactionFinished", "TaskGroupRunning", "TaskGroupFailed",
    "TaskGroupHealthy", "TaskGroupUnhealthy", "ApplicationPending", "ApplicationFinished", "ApplicationDeleted",
    "ManagedApplicationChanged", "DeploymentAdopted", "DeploymentScaled", "DeploymentDeleting", "DeploymentDeleted",
    "LimitsChanging", "UpdateStarted", "StepEnded", "UpdatePaused", "UpdateResumed", "UpdateWentBack", "UpdateFinished",
    "DaemonsetAgentsChanged", "DaemonsetRestarted", "DaemonsetUpdating", "DaemonsetDeleted", "QueueStarted",
    "CustomKindRegistered", "CustomKindDeleted", "AgentJoined", "AgentLeft", "AgentTainted", "DrainStarted",
    "DrainFinished", "DrainCancelled", "FrameworkSubscribed", "FrameworkDisconnected", "FrameworkRemoved",
    "ReplacementsResumed", "UnknownTasksDecided",
})  # fmt: skip
"""Reasons whose names say all that their meanings say."""


def rows() -> list[str]:
    """The lines of the table in docs/api.md, as they follow from the code: a line for each kind of objects, and the
    reasons of this kind below. The plain changes of objects share a row, and evident reasons of a kind do."""
    plain = [reason for reason, meaning in REASONS.items() if meaning.event and CHANGED.fullmatch(meaning.text)]
    kinds: dict[str, list[EventReason]] = {}
    for reason, meaning in REASONS.items():
        if meaning.event and reason not in plain:
            kind = ", ".join(f"`{kind}`" for kind in meaning.kinds) or "any"
            kinds.setdefault(kind, []).append(reason)
    lines = []
    for kind, reasons in kinds.items():
        lines += [f"| **{kind}** | |", *(f"| `{one}` | {REASONS[one].text} |" for one in reasons if one not in EVIDENT)]
        if evident := [one for one in reasons if one in EVIDENT]:
            lines.append(f"| {listed(evident)} | as the name says |")
    return [
        *lines,
        "| **the one of the name** | |",
        f"| {listed(plain)} | The object was created, changed or deleted. |",
    ]


def listed(reasons: list[EventReason]) -> str:
    return ", ".join(f"`{reason}`" for reason in reasons)


def test_the_documentation_lists_all_reasons_with_their_meanings() -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    head = "| Object (`kind`), and reason | Meaning |\n|---|---|\n"
    table = text.partition(head)[2].partition("\n\n")[0]
    assert table.splitlines() == rows(), "docs/api.md must have this table:\n" + head + "\n".join(rows())


def test_every_reason_has_a_meaning_and_one_style() -> None:
    assert set(get_args(EventReason)) == set(REASONS)
    assert [reason for reason in REASONS if not re.fullmatch("([A-Z][a-z]+){2,}", reason)] == []
    assert [reason for reason, meaning in REASONS.items() if not re.fullmatch(r"[A-Z].*\.", meaning.text)] == []


def test_every_reason_is_recorded_somewhere() -> None:
    """A reason that nothing records is one that users wait for in vain."""
    rooms = (*(ROOT / "bcs_scheduler" / "core").rglob("*.py"), *(ROOT / "transactions").rglob("*.py"))
    source = "\n".join(path.read_text() for path in rooms)
    derived = {
        *TASKGROUP_TURNED.values(), *APPLICATION_TURNED.values(), *DAEMONSET_TURNED.values(),
        *TRANSACTION_ENDED.values(), *(reason for triple in KEPT.values() for reason in triple),
    }  # fmt: skip
    assert [reason for reason in REASONS if reason not in derived and f'"{reason}"' not in source] == []


def test_every_status_has_its_reason() -> None:
    assert set(TASKGROUP_TURNED) == set(get_args(TaskGroupStatus))
    assert set(TRANSACTION_ENDED) == set(get_args(TransactionStatus)) - {"INIT", "QUEUED"}


def members(literal: object) -> set[str]:
    """All values of a Literal, or of a union of several."""
    return {value for part in get_args(literal) for value in (members(part) if get_args(part) else {part})}


def test_every_reason_of_a_failure_has_a_status_and_a_code() -> None:
    assert members(errors.ApiReason) == set(errors.TABLE)


def test_every_reason_of_a_refusal_has_a_name() -> None:
    named = {value for name, value in vars(Reason).items() if name.isupper()}
    assert members(ErrorReason) == named
    assert members(Refusal) <= named


def test_the_documents_name_all_reasons_of_conditions() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith("| `conditions`"))
    words = set(re.findall(r"`(\w+)`", row)) - {"conditions", "Progressing", "Available"}
    assert words == members(ProgressReason) | members(AvailableReason)
