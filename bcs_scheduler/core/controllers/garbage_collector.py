"""Removes records that are no longer needed: unused versions and revisions, and the oldest runs of the event log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from bcs_scheduler.core.context import TurnContext
from store.records import Deployment, EventLog, Revision, Version
from transactions.base import Failure

PERIOD = 30.0
"""Seconds between two rounds."""


class GarbageCollector:
    """Removes records that nothing uses any more, in rounds."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._next = 0.0
        self._round: Iterator[None] | None = None
        """Remaining work of the present round; None between rounds."""

    def recover(self) -> None:
        """Drops the present round; the next one looks at everything."""
        self._round = None

    def notice(self, changed: Sequence[tuple[str, str]]) -> None:
        """Changes are seen by the next round."""

    def next_timer(self) -> float | None:
        """Returns None: regular turns are frequent enough (Unix seconds otherwise)."""
        return None

    def tick(self) -> None:
        """Continues the present round, or begins one if it is time. Later turns do the work that this turn has no time
        for."""
        turn = self._turn
        if self._round is None and turn.now < self._next:
            return
        if self._round is None:
            self._next = turn.now + PERIOD
            self._round = self._whole_round()
        work, self._round = self._round, None
        for _ in work:
            if turn.context.time_is_up():
                self._round = work
                break

    def _whole_round(self) -> Iterator[None]:
        """Looks at one object with each step."""
        turn = self._turn
        for key in list(turn.state.applications):
            turn.attempt("application", key, partial(self._collect_versions, key))
            yield
        runs = turn.attempt("core", "event log", self._forgotten)
        for run in runs if not isinstance(runs, Failure) else ():
            turn.uow.delete(run)
            turn.checkpoint()
            yield
        for key, deployment in list(turn.state.deployments.items()):
            turn.attempt("deployment", key, partial(self._collect_revisions, deployment))
            yield

    def _collect_versions(self, key: str) -> None:
        for version in self._superfluous(key):
            self._turn.uow.delete(version)
            self._turn.checkpoint()

    def _collect_revisions(self, deployment: Deployment) -> None:
        for revision in self._outdated(deployment):
            self._turn.uow.delete(revision)
            self._turn.checkpoint()

    def _superfluous(self, key: str) -> list[Version]:
        """All but the newest `version_history` versions, and those in use by taskgroups or active transactions."""
        state = self._turn.state
        versions = state.versions_of(key)
        if key not in state.applications:
            return []
        limit = self._turn.options.transactions.version_history
        if len(versions) <= limit:
            return []
        used = {group.version for group in state.groups_of(key).values()}
        used |= {transaction.version for transaction in state.active_of(key).values()}
        used.add(state.applications[key].version)
        oldest = sorted(versions.values(), key=lambda v: int(v.name))[: len(versions) - limit]
        return [v for v in oldest if v.name not in used]

    def _forgotten(self) -> list[EventLog]:
        """Returns the whole runs that are too old, or that have as many newer events as are kept. The newest run is
        never among them: the numbers of events continue from that run."""
        event_logs, options = self._turn.state.event_logs, self._turn.options
        found = []
        for key in sorted(event_logs)[:-1]:
            run = event_logs[key]
            newer = self._turn.recorder.latest - (run.number + len(run.events) - 1)
            last = run.events[-1].at if run.events else 0.0
            if newer < options.events_keep and last + options.events_retention > self._turn.now:
                break
            found.append(run)
        return found

    def _outdated(self, deployment: Deployment) -> list[Revision]:
        """All but the newest `version_history` revisions, and those an update goes to, came from or is followed by."""
        revisions = self._turn.state.revisions_of(deployment.key)
        keep = sorted(revisions)[-max(1, self._turn.options.transactions.version_history) :]
        used = {deployment.revision, deployment.previous, deployment.next_revision, *keep}
        return [revision for number, revision in sorted(revisions.items()) if number not in used]
