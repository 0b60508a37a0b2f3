"""The rule by which the fault tests judge a missing transaction (tests.integration.chaos)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.integration.chaos import KEPT, made_room

CREATED = 1_700_000_000.5
MISSING = f"application-{int(CREATED * 1e9)}"


def ended(after: float, inner: bool = False) -> dict[str, Any]:
    """A transaction that ended so many seconds after the missing one was created."""
    at = datetime.fromtimestamp(CREATED + after, UTC)
    return {"inner": inner, "finishTime": at.isoformat().replace("+00:00", "Z")}


def test_it_may_be_gone_when_enough_others_ended_after_it() -> None:
    assert made_room(MISSING, [ended(number) for number in range(KEPT)])


def test_it_must_exist_while_there_is_room() -> None:
    assert not made_room(MISSING, [ended(number) for number in range(KEPT - 1)])


def test_what_ended_before_it_and_what_the_scheduler_began_take_no_room() -> None:
    own = [ended(number) for number in range(KEPT - 1)]
    assert not made_room(MISSING, [*own, ended(-1.0), ended(5.0, inner=True), {"inner": False, "finishTime": ""}])
