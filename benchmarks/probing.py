"""What the prober costs: REMOTE_HTTP targets of a real state, served by another process.

`python -m benchmarks.probing` is that process: it prints its port and answers every request with 200.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import cast

import msgspec
import uvloop

from bcs_scheduler.core.interface.inputs import HealthReported
from bcs_scheduler.observability.metrics import Metrics
from bcs_scheduler.prober.prober import Prober
from bcs_scheduler.prober.targets import Lookup
from store.records import Application, BoundPort, CheckResult, Record, Task, TaskGroup, Version
from store.records.definition import Container, HealthCheck
from store.state import State

INTERVAL = 10.0
"""Seconds between the probes of a target."""
WINDOW = 40.0
"""Seconds of measuring: whole intervals."""
PER_APPLICATION = 100
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"


def state(count: int, port: int) -> State:
    """`count` running taskgroups of one task each."""
    records: list[Record] = []
    check = HealthCheck(
        type="REMOTE_HTTP", port_name="web", interval=INTERVAL, timeout=2.0, delay=0.0, grace_period=0.0
    )
    for number in range(0, count, PER_APPLICATION):
        name = f"app{number}"
        container = Container(command="/bin/serve", health_checks=(check,))
        records.append(Application(namespace="bench", name=name, version="1"))
        records.append(
            Version(namespace="bench", application=name, name="1", network_mode="HOST", containers=(container,))
        )
        records.extend(_group(name, index, port) for index in range(min(PER_APPLICATION, count - number)))
    return State(records)


def _group(application: str, index: int, port: int) -> TaskGroup:
    suffix = f"{index}.{application}.bench.cluster"
    task = Task(
        id=f"1.0.{suffix}",
        status="Running",
        ports=(BoundPort(name="web", container_port=port, host_port=port),),
        checks=(CheckResult(type="REMOTE_HTTP"),),
    )
    return TaskGroup(
        id=f"{suffix}.1", namespace="bench", application=application, index=index, version="1", agent_ip="127.0.0.1",
        status="Running", tasks=(task,),
    )  # fmt: skip


class Cost:
    """Processor seconds of this process, which does nothing else, and probes that ended, while measuring."""

    def __init__(self, count: int, port: int) -> None:
        self._state = state(count, port)
        self._count = count
        self._groups = {group.tasks[0].id: key for key, group in self._state.taskgroups.items()}
        metrics = Metrics()
        self.unhealthy = 0
        self._prober = Prober(Lookup(self._state), self._report, 256, time.time, metrics.probed)

    def _report(self, event: HealthReported) -> None:
        """As the core does it: the state knows the result from now on."""
        self.unhealthy += not event.healthy
        key = self._groups[event.task_id]
        group = self._state.taskgroups[key]
        known = CheckResult(type=event.type, healthy=event.healthy, message=event.message)
        task = msgspec.structs.replace(group.tasks[0], checks=(known,))
        self._state.apply("taskgroup", key, msgspec.structs.replace(group, tasks=(task,)))

    def measure(self) -> tuple[float, int]:
        self._prober.start()
        try:
            deadline = time.monotonic() + 2 * INTERVAL
            while self._prober.status()["probes"] < self._count and time.monotonic() < deadline:
                time.sleep(0.2)
            cpu, probes = time.process_time(), self._prober.status()["probes"]
            time.sleep(WINDOW)
            return time.process_time() - cpu, self._prober.status()["probes"] - probes
        finally:
            self._prober.stop()


class _Answering(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(ANSWER)
        self._transport.close()


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Answering, "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"serving on port {server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())
