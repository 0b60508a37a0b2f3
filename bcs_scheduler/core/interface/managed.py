"""Requests of application managers about their applications and tasks (bcs_scheduler.appmanagers)."""

from __future__ import annotations

from bcs_scheduler.core.interface.requests import Request
from store.records import ManagedApplication, ManagedTask


class AddManagedApplication(Request, frozen=True, kw_only=True):
    """Adds an application of a manager. One that exists stays as it is. Times and states are filled in."""

    application: ManagedApplication


class AddManagedTask(Request, frozen=True, kw_only=True):
    """Adds a task with the definition of its unit. One that exists stays as it is."""

    task: ManagedTask


class EndManagedApplication(Request, frozen=True, kw_only=True):
    """The manager has ended an application. `failed`: with an error, whose `reason` users see. `removed`: its records
    go as well; its tasks must have ended."""

    namespace: str
    name: str
    failed: bool = False
    removed: bool = False
    reason: str = ""


class EndManagedTask(Request, frozen=True, kw_only=True):
    """A task has ended, as its manager says. Its unit is deleted. `removed`: its record goes as well; the task must
    have ended."""

    namespace: str
    application: str
    name: str
    removed: bool = False
