"""Carries out the effects of gangs that concern placeholders, and removes those that no gang knows.

A removal is repeated until the placeholder is gone. Pure: the caller passes the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from offers.policy.applications.gangs.effects import Create, Effect, Launch, Release
from offers.policy.applications.placeholders.backend import PlaceholderBackend, Presence, Refused

REMOVAL_SECONDS = 5.0
"""The time between two attempts to remove a placeholder."""

Report = Callable[[str, str, float], None]
"""Passes a fact to a gang: name of the application, name of the placeholder, Unix seconds."""


class PlaceholderManager:
    """The placeholders of all gangs of a partition. `bound`, `gone` and `failed` report to the gangs."""

    def __init__(self, backend: PlaceholderBackend, bound: Report, gone: Report, failed: Report) -> None:
        self.backend = backend
        self._bound, self._gone, self._failed = bound, gone, failed
        self._awaited: dict[str, str] = {}
        self._held: dict[str, str] = {}
        self._leaving: dict[str, str] = {}
        self.removals: dict[str, float] = {}
        """The placeholders that are not gone yet, with the moment of the next attempt in Unix seconds."""
        self.faults: dict[str, str] = {}
        """The last error of each placeholder whose operation could not be sent."""

    def carry_out(self, application: str, effects: Iterable[Effect], now: float) -> None:
        """Carries out the effects that concern placeholders; `now` in Unix seconds."""
        for effect in list(effects):
            if isinstance(effect, Create):
                self._create(effect, now)
            elif isinstance(effect, Release):
                self._leaving[effect.placeholder] = application
                if effect.placeholder not in self.removals:
                    self._remove(effect.placeholder, now)
            elif isinstance(effect, Launch) and effect.consumes:
                self._held.pop(effect.consumes, None)
                self.backend.consumed(effect.consumes)
        self.report(now)

    def retry(self, known: Callable[[str, str], bool], now: float) -> None:
        """Renews placeholders, reports ended ones, and removes unknown ones; `now` in Unix seconds. `known` says
        whether the gang of an application has a record of a placeholder, or launches a task that consumes the
        placeholder."""
        for name in self.backend.pass_time(now):
            application = self._held.pop(name, None) or self._awaited.pop(name, None)
            if application is not None:
                self._gone(application, name, now)
        for application, one in list(self.backend.list()):
            if one.placeholder not in self.removals and not known(application, one.placeholder):
                self.removals[one.placeholder] = now
        for name, at in list(self.removals.items()):
            if at <= now:
                self._remove(name, now)
        self.report(now)

    def next_wake(self) -> float | None:
        """The moment of the next attempt in Unix seconds; None if nothing is to be removed."""
        return min(self.removals.values(), default=None)

    def report(self, now: float) -> None:
        """Reports the news of the backend to the gangs; `now` in Unix seconds."""
        for name, application in list(self._awaited.items()):
            presence = self.backend.confirm(name)
            if presence is Presence.THERE:
                del self._awaited[name]
                self._held[name] = application
                self._bound(application, name, now)
            elif presence is Presence.GONE:
                del self._awaited[name]
                self._gone(application, name, now)
        for name in list(self.removals):
            if self.backend.confirm(name) is Presence.GONE:
                del self.removals[name]
        for name, application in list(self._leaving.items()):
            if self.backend.confirm(name) is Presence.GONE:
                del self._leaving[name]
                self._gone(application, name, now)

    def _create(self, spec: Create, now: float) -> None:
        name = spec.placeholder
        try:
            self.backend.create(spec, now)
        except Refused:
            self._failed(spec.application, name, now)
        except Exception as error:
            self.faults[name] = f"{type(error).__name__}: {error}"
        else:
            self.faults.pop(name, None)
            self._awaited[name] = spec.application

    def _remove(self, name: str, now: float) -> None:
        self._awaited.pop(name, None)
        self._held.pop(name, None)
        self.removals[name] = now + REMOVAL_SECONDS
        try:
            self.backend.release(name, now)
        except Exception as error:
            self.faults[name] = f"{type(error).__name__}: {error}"
        else:
            self.faults.pop(name, None)
