"""Which taskgroups are ready, said once more and plainly: what the scheduler thinks of it is not asked."""

from __future__ import annotations

from store.records import Record, TaskGroup

READY = ("Running", "Finish")


def ready(group: Record) -> bool:
    """It runs or has done its work, its checks pass, and nobody is about to end it."""
    if not isinstance(group, TaskGroup) or group.status not in READY or group.killing_since:
        return False
    return group.status == "Finish" or _checked(group)


def is_ready(group: Record) -> bool:
    """It runs, its checks pass, and nobody is about to end it."""
    return isinstance(group, TaskGroup) and group.status == "Running" and not group.killing_since and _checked(group)


def _checked(group: TaskGroup) -> bool:
    checks = [check for task in group.tasks if not task.ended for check in task.checks]
    return all(check.healthy is True for check in checks)
