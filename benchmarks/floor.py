"""The floor: what the messages and the records of a case cost by themselves, in one process, with nothing else done.

The same messages are parsed and written (protobuf, through a local socket), and the same records are committed to
the same store in the best batches. No scheduler can be faster than this with these formats and this store.
"""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from bcs_scheduler.core.interface.cluster_manager import Acknowledge, Launch, LaunchOnAgent
from bcs_scheduler.mesos.calls import CallMaker
from bcs_scheduler.mesos.ends import Kill
from bcs_scheduler.mesos.launches.executor_info import ExecutorBuilder, ExecutorOptions
from bcs_scheduler.mesos.proto import mesos_pb2, scheduler_pb2
from benchmarks.processes import StoreKind, running_store
from offers.model import Allocation, ResourceKey
from store.base import Change, Store, Term
from store.factory import open_store
from store.records import BoundPort, Task, TaskGroup, Version
from store.records.definition import Amounts, Container, EnvVar, Port

BATCH = 400
"""Records per commit; the best measured for both stores with records of about a kilobyte."""
IN_FLIGHT = 4
WARM_UP = 300
"""Other records committed first, as in the cases."""

VERSION = Version(
    namespace="bench",
    application="load",
    name="1700000000000000000",
    containers=(
        Container(
            name="main",
            command="/bin/true",
            requests=Amounts(cpus=100, mem=32_000),
            env=(EnvVar(name="A", value="b"),),
            ports=(Port(name="http"),),
        ),
    ),
)
EXECUTOR = ExecutorOptions(uri="http://127.0.0.1:8080/v4/scheduler/mesos/executor/bcs-executor-0123456789ab.pyz")
DETAIL = b'{"v": 1, "pid": 4711, "container_ip": "127.0.0.1", "exit_code": null, "started_at": 1700000000.0}'
"""What an executor says of a task beside its state."""
CLAIM = Allocation(
    scalars=((ResourceKey("cpus", "*"), 100), (ResourceKey("mem", "*"), 96_000), (ResourceKey("disk", "*"), 64_000)),
    ranges=((ResourceKey("ports", "*"), ((31000, 31000),)),),
)


def taskgroup(number: int, agent: int) -> TaskGroup:
    tail = f"{number}.load.bench.Unnamed"
    nano = 1_700_000_000_000_000_000 + number
    port = BoundPort(name="http", container_port=31000, host_port=31000)
    return TaskGroup(
        id=f"{tail}.{nano}",
        namespace="bench",
        application="load",
        index=number,
        version=VERSION.name,
        agent_id=f"agent-{agent}",
        hostname=f"agent-{agent}",
        agent_ip="127.0.0.1",
        tasks=(Task(id=f"{nano}.0.{tail}", name="main", ports=(port,), updated_at=1.7e9),),
        resources=Amounts(cpus=100, mem=96_000, disk=64_000),
        created_at=1.7e9,
        updated_at=1.7e9,
    )


def floor_seconds(kind: str, taskgroups: int, agents: int, store: StoreKind) -> float:
    """Seconds for the messages and the records of `launch`, `scale` or `delete` of so many taskgroups."""
    groups = [taskgroup(number, number % agents) for number in range(taskgroups)]
    incoming = list(_updates(kind, groups))
    return _messages(kind, groups, agents, incoming) + _records(groups, store, 3)


def _updates(kind: str, groups: list[TaskGroup]) -> Iterator[bytes]:
    states = ("TASK_KILLING", "TASK_KILLED") if kind == "delete" else ("TASK_STARTING", "TASK_RUNNING")
    for state in states:
        for group in groups:
            event = scheduler_pb2.Event(type=scheduler_pb2.Event.UPDATE)
            status = event.update.status
            status.task_id.value = group.tasks[0].id
            status.agent_id.value = group.agent_id
            status.executor_id.value = group.id
            status.state = mesos_pb2.TaskState.Value(state)  # type: ignore[assignment]
            status.uuid = b"0123456789abcdef"
            status.timestamp = 1.7e9
            status.data = DETAIL
            yield event.SerializeToString()


def _messages(kind: str, groups: list[TaskGroup], agents: int, incoming: list[bytes]) -> float:
    """Parses what comes in; makes and writes what goes out."""
    maker = CallMaker("framework", ExecutorBuilder(EXECUTOR))
    with _Sink() as target:
        began = time.perf_counter()
        for data in incoming:
            event = scheduler_pb2.Event.FromString(data)
            status = event.update.status
            acknowledge = Acknowledge(task_id=status.task_id.value, agent_id=status.agent_id.value, uuid=status.uuid)
            target.sendall(maker.call(acknowledge))
        for agent in range(agents):
            members = groups[agent::agents]
            if kind == "delete":
                for group in members:
                    target.sendall(maker.call(Kill(task_id=group.tasks[0].id, agent_id=group.agent_id)))
            elif members:
                launches = tuple(Launch(taskgroup=g, version=VERSION, allocation=CLAIM) for g in members)
                accept = LaunchOnAgent(agent_id=f"agent-{agent}", offer_ids=(f"offer-{agent}",), launches=launches)
                target.sendall(maker.accept(accept)[0])
        return time.perf_counter() - began


def load_floor_seconds(taskgroups: int, agents: int, store: StoreKind) -> float:
    """Seconds to read and decode so many records."""
    groups = [taskgroup(number, number % agents) for number in range(taskgroups)]
    with _leading(store) as (target, epoch):
        _commit_all(target, epoch, groups)
        began = time.perf_counter()
        assert len(target.load().records) == taskgroups
        return time.perf_counter() - began


def _records(groups: list[TaskGroup], store: StoreKind, writes: int) -> float:
    """Commits every record `writes` times, in full batches, pipelined."""
    with _leading(store) as (target, epoch):
        for _ in range(writes):
            _commit_all(target, epoch, [taskgroup(number, 0) for number in range(-WARM_UP, 0)])
        began = time.perf_counter()
        for _ in range(writes):
            _commit_all(target, epoch, groups)
        return time.perf_counter() - began


def _commit_all(target: Store, epoch: int, groups: list[TaskGroup]) -> None:
    flying: list[Future[None]] = []
    for first in range(0, len(groups), BATCH):
        batch = [Change("taskgroup", g.id, g) for g in groups[first : first + BATCH]]
        flying.append(target.commit(batch, epoch))
        if len(flying) >= IN_FLIGHT:
            flying.pop(0).result(60)
    for future in flying:
        future.result(60)


@contextmanager
def _leading(store: StoreKind) -> Iterator[tuple[Store, int]]:
    """An empty store with the epoch in which it leads."""
    with tempfile.TemporaryDirectory(prefix="floor-") as folder, running_store(store, Path(folder)) as url:
        target = open_store(url)
        target.open()
        elected: Future[Term] = Future()
        target.campaign("http://127.0.0.1:1", elected.set_result, lambda reason: None)
        try:
            yield target, elected.result(30).epoch
        finally:
            target.close()


class _Sink:
    """A loopback connection whose other end reads and forgets."""

    def __enter__(self) -> socket.socket:
        self._near, far = socket.socketpair()
        self._thread = threading.Thread(target=self._drain, args=(far,), daemon=True)
        self._thread.start()
        return self._near

    def _drain(self, far: socket.socket) -> None:
        while far.recv(1 << 16):
            pass
        far.close()

    def __exit__(self, *_: object) -> None:
        self._near.close()
        self._thread.join(10)
