"""The name of the Mesos cluster, asked for beside the subscription: a master that does not answer must not delay the
subscription."""

from __future__ import annotations

import threading

import structlog

from bcs_scheduler.mesos.errors import MesosError
from bcs_scheduler.mesos.transport import operator
from bcs_scheduler.mesos.transport.http import Master
from store import threads

log = structlog.get_logger(__name__)

WAIT = 2.0
"""Seconds that the report of a first subscription waits for the name. Later subscriptions do not ask."""
UNNAMED = "Unnamed"
"""Stored in place of a name that no master has told (store.records.Framework)."""


class ClusterName:
    """Belongs to one driver; `of` is for one thread."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers
        self._known = ""
        self._asking: _Question | None = None

    def remember(self, stored: str) -> None:
        """The name in the stored framework record: with it no master is asked."""
        self._known = "" if stored == UNNAMED else stored

    def of(self, master: Master) -> str:
        """The name, asked at `master` unless it is known; empty if the master has none, hides it, or does not tell it
        within WAIT seconds."""
        if self._known:
            return self._known
        question = self._asking
        if question is None or question.master != master or question.done.is_set():
            question = self._asking = _Question(master, self._headers)
        if not question.done.wait(WAIT):
            log.warning("mesos.cluster.unknown", master=str(master), error=f"no answer within {WAIT:g} s")
        self._known = question.name
        return self._known


class _Question:
    """One attempt, in a thread of its own; callers wait WAIT seconds at most."""

    def __init__(self, master: Master, headers: dict[str, str]) -> None:
        self.master = master
        self.name = ""
        self.done = threading.Event()
        self._headers = headers
        threads.ending("mesos-cluster", self._ask).start()

    def _ask(self) -> None:
        try:
            self.name = operator.cluster_name(self.master, self._headers)
        except MesosError as error:
            log.warning("mesos.cluster.unknown", master=str(self.master), error=str(error))
        finally:
            self.done.set()
