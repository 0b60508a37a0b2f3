"""What readers of lists as streams cost the leader: `python -m benchmarks.lists [READERS] [CHANGES PER SECOND]`.

The records of taskgroups change at a steady rate, in a process with the hub and the API, without core and store. The
readers follow `/watch` of all kinds but taskgroups, as consoles do, in another process. Prints the processor time per
second with and without readers, and the time of one examination beside 1,000 and 50,000 taskgroups. Ends with exit code
1 if 50 readers cost `SHARE` of a core or more.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import Future
from typing import Any

import msgspec

from bcs_scheduler.api.http.app import create_app
from bcs_scheduler.api.http.operation import BASE
from bcs_scheduler.api.http.server import ApiServer
from bcs_scheduler.leadership.hub import Hub
from bcs_scheduler.leadership.touches import Touches
from offers.agents import ListedAgent
from store.base import Change
from store.ids import TaskGroupId
from store.records import Application, TaskGroup
from store.state import State

READERS, RATE, SECONDS = 50, 100, 20.0
SHARE = 0.05
"""Part of a core that 50 readers may cost while 100 taskgroups a second change; other numbers in proportion."""
KINDS = "applications,deployments,transactions,agents,queues"
PER_APPLICATION = 100
TICK = 0.05
"""Seconds between two commits."""
EXAMINED = 2_000


class Cluster:
    """A gateway over records alone."""

    def __init__(self, size: int) -> None:
        self.records = State()
        self.listed = [ListedAgent(f"agent-{n}", f"host-{n}") for n in range(max(1, size // 10))]
        for number in range(size // PER_APPLICATION):
            application = Application(namespace="shop", name=f"app-{number}", instances=PER_APPLICATION)
            self.records.apply("application", application.key, application)
            for index in range(PER_APPLICATION):
                id = TaskGroupId.make(index, application.name, "shop", "demo", 10**18 + number * 1000 + index)
                agent = f"agent-{(number * PER_APPLICATION + index) % len(self.listed)}"
                group = TaskGroup(
                    id=str(id), namespace="shop", application=application.name, index=index, version="1", agent_id=agent
                )
                self.records.apply("taskgroup", group.id, group)
        self.ids = list(self.records.taskgroups)
        self.follow = Hub(state=self.records)
        self.follow.touch_agents(self.listed)

    def change(self, number: int) -> Change:
        group = self.records.taskgroups[self.ids[number % len(self.ids)]]
        changed = msgspec.structs.replace(group, restarts=group.restarts + 1)
        self.records.apply("taskgroup", group.id, changed)
        return Change("taskgroup", group.id, changed)

    def role(self) -> str:
        return "master"

    def state(self) -> State:
        return self.records

    def hub(self) -> Hub:
        return self.follow

    def agents(self) -> list[ListedAgent]:
        return self.listed

    def age(self) -> None:
        return None

    def now(self) -> float:
        return time.time()

    def diagnosis(self, transaction: str) -> None:
        return None

    def submit(self, command: Any) -> Future[Any]:
        raise NotImplementedError


def spent(cluster: Cluster, rate: int, seconds: float) -> float:
    """Processor seconds per second while records change."""
    began, wall, number = time.process_time(), time.monotonic(), 0
    while (passed := time.monotonic() - wall) < seconds:
        cluster.follow.touch([cluster.change(n) for n in range(number, int(passed * rate))])
        number = int(passed * rate)
        time.sleep(TICK)
    return (time.process_time() - began) / (time.monotonic() - wall)


def examined(size: int) -> float:
    """Microseconds for the touches of one changed taskgroup."""
    cluster = Cluster(size)
    changes, touches = [cluster.change(n) for n in range(EXAMINED)], Touches(cluster.records)
    began = time.process_time()
    for change in changes:
        touches.note([change])
    return (time.process_time() - began) / EXAMINED * 1e6


def _told(process: subprocess.Popen[str]) -> int:
    """Number of frames that all readers together have received."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def main(readers: int = READERS, rate: int = RATE) -> None:
    for size in (1_000, 50_000):
        print(f"one change of a taskgroup beside {size} taskgroups: {examined(size):.1f} us", flush=True)
    cluster = Cluster(1_000)
    server = ApiServer()
    server.start(create_app(cluster))  # type: ignore[arg-type]
    alone = spent(cluster, rate, SECONDS)
    command = [sys.executable, "-m", "benchmarks.watchers", f"{server.url}{BASE}/watch?kinds={KINDS}", str(readers)]
    command.append("application")
    told = 0
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "watching\n":
            raise SystemExit("the readers have not begun")
        time.sleep(2.0)
        before, beside = _told(process), spent(cluster, rate, SECONDS)
        told = _told(process) - before
    finally:
        process.kill()
        process.wait()
        cluster.follow.close("measured")
        server.stop()
    if told < readers * SECONDS:
        raise SystemExit(f"the readers were told of {told} changes in {SECONDS:.0f} s")
    print(f"{rate} taskgroups/s: {alone:.3f} of a core without readers, {beside:.3f} with {readers} readers")
    bound = SHARE * (readers * rate) / (READERS * RATE)
    if beside - alone >= bound:
        raise SystemExit(f"the readers cost {beside - alone:.3f} of a core, the bound is {bound:.3f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
