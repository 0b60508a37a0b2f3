"""The rule by which the fault tests judge a missing transaction (tests.integration.chaos)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from tests.integration.chaos import KEPT, complete, cut_short, made_room, short
from tests.integration.schedulerprocess import SchedulerProcess

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


def running(*indexes: int) -> list[dict[str, Any]]:
    return [{"InstanceID": index, "Status": "Running"} for index in indexes]


WANTED = {"Name": "a", "DefineInstances": 3}


def test_each_index_has_one_running_taskgroup() -> None:
    assert complete(WANTED, running(2, 0, 1))
    assert not complete(WANTED, running(0, 1))
    assert not complete(WANTED, [*running(0, 1), {"InstanceID": 2, "Status": "Starting"}])


def test_what_was_cancelled_may_be_short_but_not_wrong() -> None:
    assert short(WANTED, running(0, 2))
    assert short(WANTED, [])
    assert not short(WANTED, running(0, 0))
    assert not short(WANTED, running(0, 3))
    assert not short(WANTED, [{"InstanceID": 0, "Status": "Lost"}])


class Told:
    """A leader that knows of these transactions."""

    def __init__(self, *statuses: str, inner: bool = False) -> None:
        self._transactions = [
            {"status": status, "inner": inner, "finishTime": f"2026-01-01T00:00:{number:02}.000000Z"}
            for number, status in enumerate(statuses)
        ]

    def call(self, _method: str, _path: str, **_query: Any) -> list[dict[str, Any]]:
        return self._transactions


def told(*statuses: str, inner: bool = False) -> SchedulerProcess:
    return cast(SchedulerProcess, Told(*statuses, inner=inner))


def test_only_a_cancelled_operation_that_is_the_last_one_leaves_an_application_short() -> None:
    assert cut_short(told("FINISH", "CANCEL"), WANTED)
    assert not cut_short(told("CANCEL", "FINISH"), WANTED)
    assert not cut_short(told(), WANTED)
    assert not cut_short(told("CANCEL", inner=True), WANTED)
