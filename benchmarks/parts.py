"""Where the processor time of a launch goes: every part of the scheduler by itself, on the messages of a real launch.

`python -m benchmarks.parts [TASKGROUPS AGENTS]` prints microseconds per taskgroup, from the offers to Running, durable
and acknowledged. The parts run one after the other in one thread, without waits and without the interpreter lock
between them; what sockets, fsync and the server of the store cost is not in them.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from bcs_scheduler.core.interface import cluster_manager, effects, inputs, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.mesos.calls import CallMaker
from bcs_scheduler.mesos.convert import event_of
from bcs_scheduler.mesos.launches.executor_info import ExecutorBuilder
from bcs_scheduler.mesos.proto import mesos_pb2, scheduler_pb2
from bcs_scheduler.observability.series import ApplicationSeries, TrackedObjects
from bcs_scheduler.settings.sections import MetricsSettings
from benchmarks.floor import DETAIL, EXECUTOR, VERSION
from store.base import Change
from store.encoding.codec import encode_changes
from store.encoding.sizes import Sizer
from store.records import Version
from store.state.unit_of_work import Unit
from store.zookeeper.tree import Address, Tree
from store.zookeeper.wire import Multi, create

NOW = 1.7e9
REPEATS = 5
RESOURCES = {"cpus": 1000.0, "mem": 1_000_000.0, "disk": 1_000_000.0}
T = TypeVar("T")


class Parts:
    """Runs one launch; `seconds` by part."""

    def __init__(self, taskgroups: int, agents: int) -> None:
        self.taskgroups, self.agents = taskgroups, agents
        self.seconds: dict[str, float] = {}

    def run(self) -> None:
        core = Core([], CoreOptions(), NOW)
        core.turn([cluster_manager.Connected(framework_id="framework"), self._command()], NOW)
        offers = self._timed("parse offers", partial(_parse_all, self._offers()))
        placing = self._timed("core: place and record", lambda: core.turn(offers, NOW + 1))
        self._outgoing(placing)
        self._committing(placing)
        for state in ("TASK_STARTING", "TASK_RUNNING"):
            wire = list(_updates(core, state))
            updates = self._timed("parse updates", partial(_parse_all, wire))
            units = self._timed("core: updates", partial(core.turn, updates, NOW + 2))
            self._outgoing(units)
            self._committing(units)
        assert core.state.status_counts("bench/load") == {"Running": self.taskgroups}

    def _timed(self, part: str, action: Callable[[], T]) -> T:
        began = time.thread_time()
        result = action()
        self.seconds[part] = self.seconds.get(part, 0.0) + time.thread_time() - began
        return result

    def _command(self) -> inputs.Input:
        version = Version(
            namespace=VERSION.namespace,
            application=VERSION.application,
            instances=self.taskgroups,
            containers=VERSION.containers,
        )
        return requests.CreateApplication(version=version, token=1)

    def _offers(self) -> list[bytes]:
        event = scheduler_pb2.Event(type=scheduler_pb2.Event.OFFERS)
        ports = -(-self.taskgroups // self.agents) + 10
        for number in range(self.agents):
            offer = event.offers.offers.add(hostname=f"host-{number}")
            offer.id.value, offer.agent_id.value = f"offer-{number}", f"agent-{number}"
            offer.framework_id.value = "framework"
            for name, amount in RESOURCES.items():
                resource = offer.resources.add(name=name, type=mesos_pb2.Value.SCALAR)
                resource.scalar.value, resource.allocation_info.role = amount, "*"
            resource = offer.resources.add(name="ports", type=mesos_pb2.Value.RANGES)
            resource.ranges.range.add(begin=31000, end=31000 + ports)
            resource.allocation_info.role = "*"
        return [event.SerializeToString()]

    def _outgoing(self, units: list[Unit]) -> None:
        leaving = [effect for unit in units for effect in unit.effects]
        self._timed("count what happened", lambda: _count(leaving))
        maker = CallMaker("framework", ExecutorBuilder(EXECUTOR))
        accepts = [effect for effect in leaving if isinstance(effect, cluster_manager.LaunchOnAgent)]
        acknowledgements = [effect for effect in leaving if isinstance(effect, cluster_manager.Acknowledge)]
        self._timed("make ACCEPT", lambda: [maker.accept(effect) for effect in accepts])
        self._timed("make ACKNOWLEDGE", lambda: [maker.call(effect) for effect in acknowledgements])

    def _committing(self, units: list[Unit]) -> None:
        self._timed("commit pipeline", lambda: _through_pipeline(units))
        changes = [change for unit in units for change in unit.changes]
        batches = [_merged(changes[first : first + 400]) for first in range(0, len(changes), 400)]
        self._timed("encode records", lambda: [encode_changes(batch, 1 << 30) for batch in batches])
        self._timed("build ZooKeeper multis", lambda: [_multi(batch) for batch in batches])


def _count(leaving: list[object]) -> None:
    series = ApplicationSeries(False, TrackedObjects(MetricsSettings().application_series), False)
    for effect in leaving:
        if isinstance(effect, effects.Observed):
            series.observe(effect)


def _through_pipeline(units: list[Unit]) -> None:
    """What the commit pipeline does besides waiting: adds up sizes and merges units."""
    room, sizer = 6_000_000, Sizer(1 << 30)
    merged: dict[tuple[str, str], Change] = {}
    for unit in units:
        size = sum(map(sizer.size, unit.changes))
        room = room - size if room > size else 6_000_000
        for change in unit.changes:
            merged[change.kind, change.key] = change


def _merged(changes: list[Change]) -> list[Change]:
    """As the pipeline writes them: the last state of every record."""
    return list({(change.kind, change.key): change for change in changes}.values())


def _multi(batch: list[Change]) -> bytes:
    tree = Tree("/bench")
    return Multi([create(tree.record(Address(c.kind, c.key)), b"") for c in batch]).serialize()


def _parse_all(wire: list[bytes]) -> list[inputs.Input]:
    found = [event_of(scheduler_pb2.Event.FromString(data), "mesos:1") for data in wire]
    return [event for event in found if event is not None]


def _updates(core: Core, state: str) -> Iterator[bytes]:
    for group in list(core.state.taskgroups.values()):
        event = scheduler_pb2.Event(type=scheduler_pb2.Event.UPDATE)
        status = event.update.status
        status.task_id.value, status.agent_id.value = group.tasks[0].id, group.agent_id
        status.executor_id.value = group.id
        status.state = mesos_pb2.TaskState.Value(state)  # type: ignore[assignment]
        status.source = mesos_pb2.TaskStatus.SOURCE_EXECUTOR
        status.uuid, status.timestamp, status.data = os.urandom(16), NOW, DETAIL
        address = status.container_status.network_infos.add().ip_addresses.add()
        address.ip_address = "127.0.0.1"
        yield event.SerializeToString()


def measure(taskgroups: int, agents: int) -> dict[str, float]:
    """Microseconds per taskgroup by part: for each part the best of several runs."""
    best: dict[str, float] = {}
    for _ in range(REPEATS):
        gc.collect()
        parts = Parts(taskgroups, agents)
        parts.run()
        for part, seconds in parts.seconds.items():
            best[part] = min(best.get(part, float("inf")), seconds * 1e6 / taskgroups)
    return best


def main() -> None:
    taskgroups, agents = (int(word) for word in (*sys.argv[1:3], "5000", "1000")[:2])
    found = measure(taskgroups, agents)
    for part, microseconds in found.items():
        print(f"{part:<26} {microseconds:7.1f}")
    print(f"{'sum':<26} {sum(found.values()):7.1f}")


if __name__ == "__main__":
    main()
