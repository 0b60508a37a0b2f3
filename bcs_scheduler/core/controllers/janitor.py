"""Removes what has had its time: versions and revisions nobody uses, the oldest runs of the journal. Ended transactions
are removed by bcs_scheduler.core.controllers.history, ended commands by bcs_scheduler.core.controllers.outcomes."""

from __future__ import annotations

from collections.abc import Iterator

from bcs_scheduler.core.desk import Desk
from store.records import Deployment, Journal, Revision, Version

PERIOD = 30.0
"""Seconds between two rounds."""


class Janitor:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._next = 0.0
        self._round: Iterator[None] | None = None
        """What is left of the present round; None between rounds."""

    def tick(self) -> None:
        """Goes on with the round, or begins one if it is time. What a turn has no time for, later ones do."""
        desk = self._desk
        if self._round is None and desk.now < self._next:
            return
        if self._round is None:
            self._next = desk.now + PERIOD
            self._round = self._whole_round()
        work, self._round = self._round, None
        for _ in work:
            if desk.context.enough():
                self._round = work
                break

    def _whole_round(self) -> Iterator[None]:
        """Looks at one object with each step."""
        desk = self._desk
        for key in list(desk.state.applications):
            for version in self._superfluous(key):
                desk.uow.delete(version)
                desk.checkpoint()
            yield
        for run in self._forgotten():
            desk.uow.delete(run)
            desk.checkpoint()
            yield
        for deployment in list(desk.state.deployments.values()):
            for revision in self._outdated(deployment):
                desk.uow.delete(revision)
                desk.checkpoint()
            yield

    def _superfluous(self, key: str) -> list[Version]:
        """All but the newest `version_history` versions, and those in use by taskgroups or active transactions."""
        state = self._desk.state
        versions = state.versions_of(key)
        if key not in state.applications:
            return []
        limit = self._desk.options.transactions.version_history
        if len(versions) <= limit:
            return []
        used = {group.version for group in state.groups_of(key).values()}
        used |= {transaction.version for transaction in state.active_of(key).values()}
        used.add(state.applications[key].version)
        oldest = sorted(versions.values(), key=lambda v: int(v.name))[: len(versions) - limit]
        return [v for v in oldest if v.name not in used]

    def _forgotten(self) -> list[Journal]:
        """Whole runs that are too old, or behind as many newer events as are kept. Never the newest run: the numbers of
        events go on from it."""
        journals, options = self._desk.state.journals, self._desk.options
        found = []
        for key in sorted(journals)[:-1]:
            run = journals[key]
            newer = self._desk.scribe.latest - (run.number + len(run.happenings) - 1)
            last = run.happenings[-1].at if run.happenings else 0.0
            if newer < options.events_keep and last + options.events_retention > self._desk.now:
                break
            found.append(run)
        return found

    def _outdated(self, deployment: Deployment) -> list[Revision]:
        """All but the newest `version_history` revisions, and those an update goes to, came from or is followed by."""
        revisions = self._desk.state.revisions_of(deployment.key)
        keep = sorted(revisions)[-max(1, self._desk.options.transactions.version_history) :]
        used = {deployment.revision, deployment.previous, deployment.following, *keep}
        return [revision for number, revision in sorted(revisions.items()) if number not in used]
