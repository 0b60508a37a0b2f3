"""Long work of the embedded cluster (lists, offers, reports of all tasks) lets calls through in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, cast

from bcs_scheduler.local.agents.synthetic import SyntheticAgent
from bcs_scheduler.local.master import offers, operator_api, tasks
from bcs_scheduler.local.master.master import Master
from bcs_scheduler.local.master.operator_api import OperatorApi
from bcs_scheduler.local.objects.model import Executor, Framework, Task
from bcs_scheduler.local.objects.resources import Amounts
from bcs_scheduler.local.settings import ClusterSettings, agent_specs
from bcs_scheduler.local.transport.http import Connection, Request, SlicedResponse, failed, response
from bcs_scheduler.local.transport.stream import PROTOBUF
from bcs_scheduler.mesos.proto import master_pb2, scheduler_pb2
from bcs_scheduler.mesos.proto import mesos_pb2 as pb

Event = scheduler_pb2.Event
DEADLINE = 10.0


class Reader:
    """The stream of a framework; `backlog` is what it has not read."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.backlog = 0

    def send(self, event: Event) -> None:
        copy = Event()
        copy.CopyFrom(event)
        self.events.append(copy)

    def offered(self) -> list[str]:
        return [offer.agent_id.value for event in self.events for offer in event.offers.offers]

    def reported(self) -> list[str]:
        return [event.update.status.task_id.value for event in self.events if event.type == Event.UPDATE]


def cluster(agents: int) -> tuple[Master, Framework, Reader]:
    settings = ClusterSettings(synthetic=True, agents=agents)
    master = Master(settings)
    for spec in agent_specs(settings):
        agent = SyntheticAgent(f"S{spec.number}", spec, master.tasks, 0.0)
        master.agents[agent.id] = agent
    info = pb.FrameworkInfo(user="u", name="f", id=pb.FrameworkID(value="f"), roles=["*"])
    info.capabilities.add(type=pb.FrameworkInfo.Capability.MULTI_ROLE)
    framework, reader = Framework(info, 0.0), Reader()
    framework.stream = cast(Any, reader)
    master.frameworks[framework.id] = framework
    return master, framework, reader


def run_tasks(master: Master, framework: Framework, count: int) -> list[str]:
    agent = next(iter(master.agents.values()))
    executor = Executor(framework, agent, pb.ExecutorInfo(), Amounts(), "container")
    for number in range(count):
        task = Task(framework, agent, executor, pb.TaskInfo(task_id=pb.TaskID(value=f"t{number}")), Amounts())
        task.state = task.latest = pb.TASK_RUNNING
        framework.tasks[task.id] = task
    return list(framework.tasks)


def ask_all(master: Master, framework: Framework) -> None:
    master.tasks.reconcile(framework, [])


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():
            await asyncio.sleep(0)


def test_all_tasks_are_reported_in_slices_and_each_once() -> None:
    async def run() -> None:
        master, framework, reader = cluster(1)
        known = run_tasks(master, framework, 3 * tasks.SLICE + 1)
        ask_all(master, framework)
        assert reader.reported() == known[: tasks.SLICE]
        await until(lambda: len(reader.reported()) == len(known))
        assert reader.reported() == known

    asyncio.run(run())


def test_reports_of_all_tasks_wait_for_a_framework_that_reads_slowly() -> None:
    async def run() -> None:
        master, framework, reader = cluster(1)
        known = run_tasks(master, framework, 2 * tasks.SLICE)
        reader.backlog = tasks.BACKLOG + 1
        ask_all(master, framework)
        later = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(4 * tasks.PAUSE, later.set_result, None)
        await later
        assert reader.reported() == known[: tasks.SLICE]
        reader.backlog = 0
        await until(lambda: reader.reported() == known)

    asyncio.run(run())


def test_tasks_that_go_and_subscriptions_that_end_meanwhile_are_not_reported_to() -> None:
    async def run() -> None:
        master, framework, reader = cluster(1)
        known = run_tasks(master, framework, 2 * tasks.SLICE)
        ask_all(master, framework)
        gone = framework.tasks.pop(known[-1])
        await until(lambda: len(reader.reported()) == len(known) - 1)
        assert gone.id not in reader.reported()
        ask_all(master, framework)
        before, newer = len(reader.events), Reader()
        framework.stream = cast(Any, newer)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (len(reader.events), newer.events) == (before, [])

    asyncio.run(run())


def test_all_agents_are_offered_in_slices_and_each_once() -> None:
    async def run() -> None:
        master, _, reader = cluster(2 * offers.SLICE + 1)
        master.offers._every_interval()
        assert len(reader.offered()) == offers.SLICE
        await until(lambda: len(reader.offered()) >= len(master.agents))
        assert sorted(reader.offered()) == sorted(master.agents)
        master.offers.stop()

    asyncio.run(run())


def test_a_revive_during_an_allocation_offers_again_what_was_refused() -> None:
    async def run() -> None:
        master, framework, reader = cluster(2 * offers.SLICE)
        master.offers._every_interval()
        first = reader.events[0].offers.offers
        master.offers.decline(framework, [offer.id.value for offer in first], 60.0)
        master.revive(framework, [])
        await until(lambda: len(reader.offered()) >= len(master.agents) + len(first))
        assert sorted(set(reader.offered())) == sorted(master.agents)
        assert set(reader.offered()[offers.SLICE :]) == set(master.agents)
        master.offers.stop()

    asyncio.run(run())


def test_agents_are_listed_in_steps_without_those_that_leave_meanwhile() -> None:
    master, _, _ = cluster(2 * operator_api.SLICE)
    call = master_pb2.Call(type=master_pb2.Call.GET_AGENTS).SerializeToString()
    headers = {b"content-type": PROTOBUF.encode(), b"accept": PROTOBUF.encode()}
    work = OperatorApi(master)(Request("POST", b"/api/v1", headers, call))
    assert isinstance(work, SlicedResponse)
    assert work.step() is None
    left = list(master.agents)[-1]
    del master.agents[left]
    while (answer := work.step()) is None:
        pass
    listed = master_pb2.Response.FromString(answer.partition(b"\r\n\r\n")[2])
    assert [agent.agent_info.id.value for agent in listed.get_agents.agents] == list(master.agents)


# --- the server ---


class Transport:
    def __init__(self) -> None:
        self.written = b""
        self.reading = True
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


def steps(request: Request) -> Iterator[bytes | None]:
    if request.path == "/broken":
        raise ValueError("no answer")
    yield from [None, None, None]
    yield response(200, b"long")


def serve(request: Request) -> bytes | SlicedResponse:
    if request.path == "/short":
        return response(200, b"short")
    return SlicedResponse(steps(request))


def connect() -> tuple[Connection, Transport]:
    connection, transport = Connection(serve, set()), Transport()
    connection.connection_made(cast(Any, transport))
    return connection, transport


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def test_others_are_served_while_a_long_answer_is_made() -> None:
    async def run() -> None:
        (slow, slowly), (other, soon) = connect(), connect()
        slow.data_received(get("/long"))
        await asyncio.sleep(0)
        other.data_received(get("/short"))
        assert (slowly.written, soon.written) == (b"", response(200, b"short"))
        assert not slowly.reading
        await until(lambda: slowly.written == response(200, b"long"))
        assert slowly.reading

    asyncio.run(run())


def test_answers_behind_a_long_one_keep_their_order() -> None:
    async def run() -> None:
        connection, transport = connect()
        connection.data_received(get("/short") + get("/long") + get("/short") + get("/long") + get("/short"))
        short, long = response(200, b"short"), response(200, b"long")
        assert transport.written == short
        await until(lambda: transport.written == short + long + short + long + short)
        assert transport.reading

    asyncio.run(run())


def test_a_long_answer_that_fails_is_500_and_the_next_request_is_answered() -> None:
    async def run() -> None:
        connection, transport = connect()
        connection.data_received(get("/broken") + get("/short"))
        await until(lambda: transport.written.endswith(b"short"))
        assert transport.written == failed() + response(200, b"short")

    asyncio.run(run())


def test_a_peer_that_leaves_during_a_long_answer_ends_the_work() -> None:
    async def run() -> None:
        connection, transport = connect()
        connection.data_received(get("/long") + get("/short"))
        transport.closed = True
        connection.connection_lost(None)
        for _ in range(10):
            await asyncio.sleep(0)
        assert transport.written == b""

    asyncio.run(run())
