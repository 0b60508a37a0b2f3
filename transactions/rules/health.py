"""Health of tasks and taskgroups, computed from the results of checks. Pure functions.

Local checks (HTTP, TCP, COMMAND) are run by the executor of the task, REMOTE ones by a prober of the scheduler or by an
outside module; here they count alike. A result is worth a write if its verdict or its words change, not if only the
number of failures in a row does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from store.records import CheckResult, Task, TaskGroup
from store.records.definition import Container

LOCAL = frozenset({"HTTP", "TCP", "COMMAND"})
WORDS_LIMIT = 256
"""Greatest number of characters kept of the message of a check, which is written with its taskgroup whenever it
changes."""


class Probe(Protocol):
    """One result as it is reported. `healthy` None: not probed yet."""

    @property
    def type(self) -> str:
        """Type of the check, as the definition names it."""

    @property
    def healthy(self) -> bool | None:
        """The result; None while there is none."""

    @property
    def message(self) -> str:
        """Result of the check for users."""

    @property
    def failures(self) -> int:
        """Failures in a row."""


def unknown(container: Container) -> tuple[CheckResult, ...]:
    """The checks of a task that has not been probed."""
    return tuple([CheckResult(type=check.type) for check in container.health_checks])


def apply(checks: tuple[CheckResult, ...], probes: Iterable[Probe], now: float) -> tuple[CheckResult, ...]:
    """Returns the checks after these results; the same object if no change is worth a write. Results of checks that the
    task does not have are ignored, and so are results without a verdict, because the earlier result is the best known.
    `now`: Unix seconds."""
    found = {probe.type: probe for probe in probes if probe.healthy is not None}
    if not any(_differs(check, found.get(check.type)) for check in checks):
        return checks
    return tuple([_after(check, found.get(check.type), now) for check in checks])


def apply_local(checks: tuple[CheckResult, ...], healthy: bool, now: float) -> tuple[CheckResult, ...]:
    """Returns the checks after the verdict of an executor that gives one verdict for the task and no details; the same
    object if nothing changes. `now`: Unix seconds."""
    if not any(check.type in LOCAL and check.healthy is not healthy for check in checks):
        return checks
    return tuple(
        [
            msgspec.structs.replace(check, healthy=healthy, message="", updated_at=now)
            if check.type in LOCAL and check.healthy is not healthy
            else check
            for check in checks
        ]
    )


def reset_local(checks: tuple[CheckResult, ...], now: float) -> tuple[CheckResult, ...]:
    """Returns the checks of a task that is being restarted in place: results of local checks are removed, because they
    were found for the process that ran before. `now`: Unix seconds."""
    if not any(check.type in LOCAL and check.healthy is not None for check in checks):
        return checks
    return tuple([CheckResult(type=c.type, updated_at=now) if c.type in LOCAL else c for c in checks])


def _differs(check: CheckResult, probe: Probe | None) -> bool:
    return probe is not None and (probe.healthy is not check.healthy or probe.message[:WORDS_LIMIT] != check.message)


def _after(check: CheckResult, probe: Probe | None, now: float) -> CheckResult:
    if probe is None or not _differs(check, probe):
        return check
    return msgspec.structs.replace(
        check,
        healthy=probe.healthy,
        message=probe.message[:WORDS_LIMIT],
        failures=max(0, probe.failures),
        # The time at which the verdict last changed: a new message with the same verdict does not change it.
        updated_at=now if probe.healthy is not check.healthy else check.updated_at,
    )


def summary(checks: Sequence[CheckResult]) -> bool | None:
    """False if any check fails, True if all pass, None while one is open or if there are none."""
    open_ = not checks
    for check in checks:
        if check.healthy is False:
            return False
        open_ = open_ or check.healthy is None
    return None if open_ else True


def describe_task_failures(task: Task) -> str:
    """Returns the checks of a task that do not pass, with their messages; empty if all pass or if there are none."""
    return ", ".join(
        f"{check.type}: {check.message or ('failing' if check.healthy is False else 'not probed yet')}"
        for check in task.checks
        if check.healthy is not True
    )


def describe_failures(group: TaskGroup) -> str:
    """Returns the tasks with checks that do not pass, with their messages; empty if there are none."""
    return "; ".join(
        f"{task.name} {words}" for task in group.tasks if not task.ended and (words := describe_task_failures(task))
    )
