"""Detects soon and cheaply that agents have registered with the master, and lists all agents then.

A list of 10,000 agents takes a second to read and to convert, so it is not made often. The master's counters
(``/metrics/snapshot``, some ten kilobytes) say whether an agent has registered, returned or gone since the last list,
and are read every few seconds. The event stream of the operator API would report the same at once, but the stream
begins with the whole state: hundreds of megabytes at 100,000 tasks, made while the master serves no other request.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from bcs_scheduler.core.interface import cluster_manager
from bcs_scheduler.mesos import convert
from bcs_scheduler.mesos.errors import MesosError
from bcs_scheduler.mesos.transport import operator
from bcs_scheduler.mesos.transport.http import Master

log = structlog.get_logger(__name__)

POLL = 3.0
"""Seconds between two looks at the counters."""
BLIND = 15.0
"""Seconds between two lists if the master does not show its counters."""
RETRY = 10.0
"""Seconds until agents are listed again after a failure."""
SHARE = 0.1
"""Share of the time that lists may take: after one that took a second, the next follows nine seconds later."""


class AgentWatch:
    """Watches the list of agents of the master. Only one thread may use it, except for `ask` and `renew`. Times are
    monotonic seconds."""

    def __init__(self, headers: dict[str, str], interval: float, owner: str = "") -> None:
        """`headers`: of every request. `interval`: seconds between two lists if nothing changes. `owner`: name of the
        framework, for its kept rooms."""
        self._headers, self._owner = headers, owner
        self._interval = interval
        self._counters: dict[str, float] | None = None
        """At the last list; None = not known."""
        self._asked = self._renewed = False
        """Set by other threads."""
        self._list_at = 0.0
        self._look_at = 0.0
        self._earliest = 0.0
        """No list before, so that lists keep to their share of the time."""

    def ask(self) -> None:
        """Has the agents listed as soon as the share of lists allows."""
        self._asked = True

    def renew(self) -> None:
        """There is a new subscription, perhaps with another master, whose counters begin anew."""
        self._renewed = True

    def pause(self) -> float:
        """Seconds until `look` has something to do."""
        if self._asked or self._renewed:
            return 0.0
        return max(min(self._look_at, self._list_at) - time.monotonic(), 0.0)

    def look(self, master: Master, cause: Callable[[], str]) -> cluster_manager.AgentsListed | None:
        """Reads the counters if it is time to; lists the agents if these have changed or time says so. `cause` makes
        the cause of the event."""
        now = time.monotonic()
        if self._renewed:
            self._renewed, self._asked, self._counters, self._earliest = False, True, None, now
        if self._asked:
            self._asked = False
            self._list_at = max(now, self._earliest)
        if now < self._list_at and now >= self._look_at:
            self._look_at = now + POLL
            if self._changed(master):
                self._list_at = max(now, self._earliest)
        if now < self._list_at:
            return None
        self._list_at = now + min(self._interval, RETRY)  # unless the list says otherwise
        self._look_at = now + POLL
        return self._list(master, cause)

    def _changed(self, master: Master) -> bool:
        counters = self._read(master)
        if counters is None:
            self._list_at = min(self._list_at, max(time.monotonic() + BLIND, self._earliest))
            return False
        return self._counters is not None and counters != self._counters

    def _read(self, master: Master) -> dict[str, float] | None:
        """The counters of the master; None if it does not show any that can be read. Lists do without them."""
        try:
            return operator.agent_counters(master, self._headers)
        except MesosError as error:
            log.info("mesos.counters.failed", error=str(error))
            return None

    def _list(self, master: Master, cause: Callable[[], str]) -> cluster_manager.AgentsListed | None:
        began = time.monotonic()
        try:
            # The counters are read first: a change during the listing then causes one more list.
            counters = self._read(master)
            response, clock = operator.get_agents(master, self._headers)
        except MesosError as error:
            log.warning("mesos.agents.failed", error=str(error))
            return None
        listed = convert.agents(response, cause(), clock, self._owner)
        now = time.monotonic()
        self._counters = counters
        self._earliest = now + (now - began) * (1 - SHARE) / SHARE
        self._look_at = now + POLL
        self._list_at = max(now + (self._interval if counters is not None else BLIND), self._earliest)
        return listed
