"""Figures of the last hour for the overview: capacity and use of the cluster, and taskgroups. The leader keeps them in
memory, so they begin with its term."""

from __future__ import annotations

import threading
from collections import deque

import msgspec

from bcs_scheduler.leadership.gateway import Busy, Gateway
from offers.dimensions import recorded
from store import threads

EVERY = 10.0
"""Seconds between two samples."""
KEPT = 360
"""Samples: one hour."""
RUNNING = ("Running", "Restarting")


class Sample(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`at`: Unix seconds. Cores and MB: `total` of the agents that are registered, `allocated` to taskgroups that
    have not ended. `wanted`, `running`: taskgroups."""

    at: int
    agents: int
    away: int
    """Agents that are listed and not registered."""
    cpus_total: float
    cpus_allocated: float
    mem_total: float
    mem_allocated: float
    wanted: int
    running: int


class Figures:
    """Samples the gateway in a thread of its own while this process leads."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._samples: deque[Sample] = deque(maxlen=KEPT)
        self._stopped = threading.Event()
        self._thread = threads.lasting("figures", self._run, self._stopped.wait)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def samples(self) -> list[Sample]:
        """The samples, oldest first, with the present one at the end; empty on a standby."""
        if self._gateway.role() != "master":
            return []
        return [*self._samples, self.sample()]

    def sample(self) -> Sample:
        """The figures of this moment. Costs with the agents and applications. Raises Busy."""
        agents, state = self._gateway.agents(), self._gateway.state()
        here = [agent for agent in agents if agent.active]

        def total(name: str) -> float:
            return round(recorded(name).displayed(sum(agent.total.get(name, 0) for agent in here)), 3)

        held = list(state.held().values())

        def allocated(name: str) -> float:
            return round(recorded(name).displayed(sum(amounts.get(name, 0) for amounts in held)), 3)

        applications = list(state.applications.values())
        counts = [state.status_counts(application.key) for application in applications]
        return Sample(
            at=int(self._gateway.now()),
            agents=len(here),
            away=len(agents) - len(here),
            cpus_total=total("cpus"),
            cpus_allocated=allocated("cpus"),
            mem_total=total("mem"),
            mem_allocated=allocated("mem"),
            wanted=sum(application.instances for application in applications),
            running=sum(count.get(status, 0) for count in counts for status in RUNNING),
        )

    def _run(self) -> None:
        while not self._stopped.wait(EVERY):
            if self._gateway.role() != "master":
                self._samples.clear()
                continue
            try:
                self._samples.append(self.sample())
            except Busy:
                continue  # the term has just ended
