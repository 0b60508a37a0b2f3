"""Health of tasks and taskgroups: what the results of checks add up to. Pure functions.

Local checks (HTTP, TCP, COMMAND) are run by what runs the task, REMOTE ones by a prober of the scheduler or by an
outside module; here they count alike. A result is worth a write if its verdict or its words change, not if only the
number of failures in a row does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from store.definition import Container
from store.records import CheckResult, Task, TaskGroup

LOCAL = frozenset({"HTTP", "TCP", "COMMAND"})
REMOTE = frozenset({"REMOTE_HTTP", "REMOTE_TCP"})
WORDS_LIMIT = 256
"""Characters kept of what a check says: it is written with its taskgroup whenever it changes."""


class Probe(Protocol):
    """One result as it is reported. `healthy` None: not probed yet."""

    @property
    def type(self) -> str: ...
    @property
    def healthy(self) -> bool | None: ...
    @property
    def message(self) -> str: ...
    @property
    def failures(self) -> int: ...


def unknown(container: Container) -> tuple[CheckResult, ...]:
    """The checks of a task that has not been probed."""
    return tuple([CheckResult(type=check.type) for check in container.health_checks])


def apply(checks: tuple[CheckResult, ...], probes: Iterable[Probe], now: float) -> tuple[CheckResult, ...]:
    """The checks after these results; the same object if nothing worth a write has changed. Results of checks that the
    task does not have are ignored; so are those not probed yet: what was known before is the best that is known."""
    found = {probe.type: probe for probe in probes if probe.healthy is not None}
    if not any(_differs(check, found.get(check.type)) for check in checks):
        return checks
    return tuple([_after(check, found.get(check.type), now) for check in checks])


def apply_local(checks: tuple[CheckResult, ...], healthy: bool, now: float) -> tuple[CheckResult, ...]:
    """The checks after the verdict of an executor that gives one for the task and no details."""
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


def reopen(checks: tuple[CheckResult, ...], now: float) -> tuple[CheckResult, ...]:
    """The checks of a task that is being restarted in place: what local ones found was true of what ran before."""
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
        # Since when the verdict stands: other words for it do not begin it anew.
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


def passes(group: TaskGroup) -> bool:
    """Every check of every task that runs has passed; so it is where there are none."""
    for task in group.tasks:  # noqa: SIM110 (asked for each member of an application that is being updated)
        if task.checks and not task.ended and task.healthy is not True:
            return False
    return True


def complaint(task: Task) -> str:
    """What the checks of a task say against it; empty if all pass or there are none."""
    return ", ".join(
        f"{check.type}: {check.message or ('failing' if check.healthy is False else 'not probed yet')}"
        for check in task.checks
        if check.healthy is not True
    )


def complaints(group: TaskGroup) -> str:
    return "; ".join(f"{task.name} {words}" for task in group.tasks if not task.ended and (words := complaint(task)))
