"""Faults in what is kept of what has ended, put in on purpose (see tests.simulation.mutants)."""

from __future__ import annotations

import pytest

from bcs_scheduler.core.controllers.ended_commands import EndedCommands
from bcs_scheduler.core.controllers.ended_objects import EndedObjects
from bcs_scheduler.core.controllers.kept_outputs import KeptOutputs
from bcs_scheduler.core.interface.cluster_manager import OutputReported
from store.records import Application, FailedOutput
from store.state.indexes import Indexes


def keep_everything(patch: pytest.MonkeyPatch) -> None:
    """Nothing is too much."""
    patch.setattr(EndedObjects, "surplus", lambda self: None)


def push_out_the_newest(patch: pytest.MonkeyPatch) -> None:
    """Where too much is kept, what ended last goes first."""
    honest = EndedObjects.surplus

    def careless(self: EndedObjects[object]) -> str | None:
        return next(reversed(self._all)) if honest(self) is not None else None

    patch.setattr(EndedObjects, "surplus", careless)


def end_at_the_first_answer(patch: pytest.MonkeyPatch) -> None:
    """A command counts as ended although messages are open."""
    patch.setattr(EndedCommands, "_look", lambda self, identity: self._answered.setdefault(identity))


def keep_outputs_of_the_deleted(patch: pytest.MonkeyPatch) -> None:
    """An output is written although its application is gone."""
    honest = KeptOutputs.reported

    class Everything(dict[str, Application]):
        def get(self, key: str, default: object = None) -> Application:
            return Application(namespace="", name="")

    def careless(self: KeptOutputs, event: OutputReported) -> None:
        state = self._turn.state
        applications, state.applications = state.applications, Everything()
        try:
            honest(self, event)
        finally:
            state.applications = applications

    patch.setattr(KeptOutputs, "reported", careless)


def leave_outputs_behind(patch: pytest.MonkeyPatch) -> None:
    """The deletion of an application leaves its outputs."""
    patch.setattr(Indexes, "outputs_of", lambda self, application: {})


def keep_every_output(patch: pytest.MonkeyPatch) -> None:
    """No output is too much, and none is too old."""
    patch.setattr(KeptOutputs, "tick", lambda self: None)


def drop_outputs_early(patch: pytest.MonkeyPatch) -> None:
    """Outputs are removed long before their time."""
    honest = KeptOutputs._keep

    def hasty(self: KeptOutputs, output: FailedOutput) -> None:
        honest(self, output)
        self._expiry.put(output.id, output.at + 5.0)

    patch.setattr(KeptOutputs, "_keep", hasty)
