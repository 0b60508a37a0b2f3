"""The driver against masters that misbehave; tests/integration/test_driver.py has a real one."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from structlog.testing import capture_logs

from bcs_scheduler.core.interface import cluster_manager, effects, inputs, leased
from bcs_scheduler.mesos import cluster_name
from bcs_scheduler.mesos.driver import TOGETHER, Driver
from bcs_scheduler.mesos.errors import DetectionError, SettingsError
from bcs_scheduler.mesos.launches.task_info import DefaultExecutorBuilder
from bcs_scheduler.mesos.proto import master_pb2, mesos_pb2
from bcs_scheduler.mesos.settings import MesosSettings
from bcs_scheduler.mesos.transport.detect import make_detector
from bcs_scheduler.mesos.transport.http import Master, redirect_target
from bcs_scheduler.mesos.transport.session import Session
from bcs_scheduler.wire.kept_output import Entry, unpacked
from offers.model import Allocation, ResourceKey
from store.records import Task, TaskGroup, Version
from store.records.definition import Container
from tests import fakemaster
from tests.component.agentfiles import AgentFiles
from tests.fakemaster import Call, Event, FakeMaster, Peer, Request
from tests.waiting import wait_for

E = TypeVar("E", bound=inputs.Input)


class Script:
    """Answers like a healthy master, except where a test replaces a part."""

    def __init__(self) -> None:
        self.streams: list[Peer] = []
        self.first_event = fakemaster.subscribed()
        self.cluster: str | None = "blue"
        self.flags_hang = False
        self.agents = master_pb2.Response(type=master_pb2.Response.GET_AGENTS)
        self.agents.get_agents.SetInParent()
        self.on_subscribe: Callable[[Peer, Request], bool] = lambda peer, request: False
        self.on_call: Callable[[Peer, Request], bytes] = lambda peer, request: fakemaster.ACCEPTED
        self.master = FakeMaster(self.answer)

    def answer(self, peer: Peer, request: Request) -> None:
        if request.path == "/api/v1/scheduler":
            if request.call.type != Call.SUBSCRIBE:
                peer.send(self.on_call(peer, request))
            elif not self.on_subscribe(peer, request):
                name = f"stream-{len(self.streams)}"
                self.streams.append(peer)  # a test may use the stream as soon as the event is there
                peer.send(fakemaster.stream_head(name) + fakemaster.event_chunk(self.first_event))
        elif request.path == "/flags":
            if self.flags_hang:
                return
            if self.cluster is None:
                peer.send(fakemaster.answer(404))
            else:
                peer.send(fakemaster.answer(200, json.dumps({"flags": {"cluster": self.cluster}}).encode()))
        elif request.path == "/state":
            peer.send(fakemaster.answer(200, json.dumps({"cluster": "from the state"}).encode()))
        else:
            peer.send(fakemaster.answer(200, self.agents.SerializeToString()))


class Running:
    """A driver and what it delivered."""

    def __init__(self, url: str, framework_id: str = "", **settings: object) -> None:
        self.inbox: queue.Queue[inputs.Input] = queue.Queue()
        self.deliveries: list[list[str]] = []
        """Types of the events of each delivery."""
        self.deliver: Callable[[inputs.Input], None] = settings.pop("deliver", self.inbox.put)  # type: ignore[assignment]
        cluster, asked = settings.pop("cluster", ""), settings.pop("may_subscribe", None)
        self.driver = Driver(
            MesosSettings(master=url, **settings),  # type: ignore[arg-type]
            self._deliver,
            DefaultExecutorBuilder(),
        )
        self.driver.start(framework_id, cluster, asked)  # type: ignore[arg-type]

    def _deliver(self, *events: inputs.Input) -> None:
        self.deliveries.append([type(event).__name__ for event in events])
        for event in events:
            self.deliver(event)

    def expect(self, kind: type[E]) -> E:
        """The next event of this kind; others are passed over."""
        while True:
            event = self.inbox.get(timeout=60)
            if isinstance(event, kind):
                return event


@pytest.fixture
def script() -> Iterator[Script]:
    made = Script()
    yield made
    made.master.close()


@pytest.fixture
def run() -> Iterator[Callable[..., Running]]:
    made: list[Running] = []

    def start(url: str, framework_id: str = "", **settings: object) -> Running:
        made.append(Running(url, framework_id, **settings))
        return made[-1]

    yield start
    for running in made:
        running.driver.stop()


Run = Callable[..., Running]


def accept(*offer_ids: str, command: str = "true") -> cluster_manager.LaunchOnAgent:
    version = Version(namespace="ns", application="web", containers=(Container(command=command),))
    taskgroup = TaskGroup(
        id="tg", namespace="ns", application="web", index=0, version="1", agent_id="s", tasks=(Task(id="t"),)
    )
    allocation = Allocation(
        ((ResourceKey("cpus", "*"), 10), (ResourceKey("mem", "*"), 64_000), (ResourceKey("disk", "*"), 64_000))
    )
    launch = cluster_manager.Launch(taskgroup=taskgroup, version=version, allocation=allocation)
    return cluster_manager.LaunchOnAgent(agent_id="s", offer_ids=offer_ids, launches=(launch,), cause="c")


class TestSubscribing:
    def test_what_is_told_to_mesos(self, script: Script, run: Run) -> None:
        running = run(
            script.master.url,
            "f-1",
            roles=("games", "web"),
            principal="bcs",
            secret="pw",
            gpus=True,
            webui_url="http://u",
        )
        event = running.expect(cluster_manager.Connected)
        assert (event.framework_id, event.cluster, event.heartbeat_interval) == ("f-1", "blue", 15.0)
        assert event.master == f"127.0.0.1:{script.master.port}"
        (call,) = script.master.calls(Call.SUBSCRIBE)
        info = call.subscribe.framework_info
        assert (call.framework_id.value, info.id.value, list(info.roles)) == ("f-1", "f-1", ["games", "web"])
        assert (info.name, info.failover_timeout, info.checkpoint) == ("bcs", 604800.0, True)
        assert (info.principal, info.webui_url) == ("bcs", "http://u")
        names = {info.Capability.Type.Name(item.type) for item in info.capabilities}
        assert names == {
            "MULTI_ROLE",
            "PARTITION_AWARE",
            "TASK_KILLING_STATE",
            "RESERVATION_REFINEMENT",
            "GPU_RESOURCES",
        }
        assert {request.headers["authorization"] for request in script.master.requests} == {"Basic YmNzOnB3"}

    def test_a_new_framework_has_no_id_until_mesos_gives_one(self, script: Script, run: Run) -> None:
        running = run(script.master.url)
        running.expect(cluster_manager.Connected)
        (call,) = script.master.calls(Call.SUBSCRIBE)
        assert not call.HasField("framework_id") and not call.subscribe.framework_info.HasField("id")
        script.streams[0].close()
        running.expect(cluster_manager.Disconnected)
        running.expect(cluster_manager.Connected)
        assert script.master.calls(Call.SUBSCRIBE)[1].framework_id.value == "f-1"

    def test_the_cluster_name_comes_from_the_state_where_flags_are_hidden(self, script: Script, run: Run) -> None:
        script.cluster = None
        assert run(script.master.url).expect(cluster_manager.Connected).cluster == "from the state"

    def test_another_framework_id_than_ours_ends_it(self, script: Script, run: Run) -> None:
        """docs/original.md#framework-id: going on would orphan the tasks of the real framework."""
        running = run(script.master.url, "f-mine")
        assert "f-mine" in running.expect(cluster_manager.RegistrationRevoked).message
        assert running.driver.status()["connected"] is False
        assert len(script.master.calls(Call.SUBSCRIBE)) == 1

    def test_the_last_words_of_a_stream_are_heard(self, script: Script, run: Run) -> None:
        """Mesos says ERROR and ends the stream in one breath when another scheduler takes the framework over."""
        running = run(script.master.url)
        running.expect(cluster_manager.Connected)
        error = Event(type=Event.ERROR, error=Event.Error(message="Framework failed over"))
        script.streams[0].send(fakemaster.event_chunk(error) + b"0\r\n\r\n")
        running.expect(cluster_manager.Superseded)

    def test_a_refusal_in_one_breath_with_the_head_of_the_stream_is_heard(self, script: Script, run: Run) -> None:
        """As Mesos refuses a framework that was removed: 200, ERROR, end."""
        error = Event(type=Event.ERROR, error=Event.Error(message="Framework has been removed"))

        def refuse(peer: Peer, request: Request) -> bool:
            peer.send(fakemaster.stream_head() + fakemaster.event_chunk(error) + b"0\r\n\r\n")
            return True

        script.on_subscribe = refuse
        running = run(script.master.url, "f-1")
        assert running.expect(cluster_manager.RegistrationRevoked).message == "Framework has been removed"
        assert len(script.master.calls(Call.SUBSCRIBE)) == 1

    def test_stopping_while_a_master_does_not_answer(self, script: Script, run: Run) -> None:
        script.on_subscribe = lambda peer, request: True
        running = run(script.master.url)
        wait_for(lambda: script.master.calls(Call.SUBSCRIBE))
        running.driver.stop()
        assert not any(thread.is_alive() for thread in running.driver._threads)

    def test_an_error_event_ends_it(self, script: Script, run: Run) -> None:
        running = run(script.master.url)
        running.expect(cluster_manager.Connected)
        script.streams[0].send(
            fakemaster.event_chunk(Event(type=Event.ERROR, error=Event.Error(message="Framework failed over")))
        )
        running.expect(cluster_manager.Superseded)
        running.expect(cluster_manager.Disconnected)
        assert len(script.master.calls(Call.SUBSCRIBE)) == 1

    def test_a_refused_subscription_is_tried_again(self, script: Script, run: Run) -> None:
        def refuse_twice(peer: Peer, request: Request) -> bool:
            if len(script.master.calls(Call.SUBSCRIBE)) > 2:
                return False
            peer.send(fakemaster.answer(503, b"No leader elected"))
            return True

        script.on_subscribe = refuse_twice
        run(script.master.url).expect(cluster_manager.Connected)
        assert len(script.master.calls(Call.SUBSCRIBE)) == 3

    @pytest.mark.parametrize(
        "form", ["//127.0.0.1:{port}/api/v1/scheduler", "http://127.0.0.1:{port}/api/v1/scheduler"]
    )
    def test_a_redirect_leads_to_the_leader(self, script: Script, run: Run, form: str) -> None:
        location = "Location: " + form.format(port=script.master.port)
        follower = FakeMaster(lambda peer, request: peer.send(fakemaster.answer(307, b"", location)))
        try:
            event = run(follower.url).expect(cluster_manager.Connected)
        finally:
            follower.close()
        assert event.master == f"127.0.0.1:{script.master.port}"

    def test_the_next_of_a_list_is_asked_when_one_is_down(self, script: Script, run: Run) -> None:
        down = FakeMaster(lambda peer, request: None)
        down.close()
        run(f"http://127.0.0.1:{down.port},127.0.0.1:{script.master.port}").expect(cluster_manager.Connected)

    def test_calls_that_follow_from_a_subscription_are_sent(self, script: Script, run: Run) -> None:
        """The core may answer the event before its delivery has returned."""
        seen: list[inputs.Input] = []

        def deliver(event: inputs.Input) -> None:
            seen.append(event)
            if isinstance(event, cluster_manager.Connected):
                running.driver.send([leased.Revive()])
                wait_for(
                    lambda: script.master.calls(Call.REVIVE) or running.driver.status()["dropped"],
                    what="the fate of the call",
                )

        ready = threading.Event()
        running = run(script.master.url, deliver=lambda event: ready.wait(20) and deliver(event))  # type: ignore[func-returns-value]
        ready.set()
        wait_for(lambda: any(isinstance(event, cluster_manager.Connected) for event in seen))
        wait_for(lambda: script.master.calls(Call.REVIVE) or running.driver.status()["dropped"])
        assert running.driver.status()["dropped"] == 0
        assert len(script.master.calls(Call.REVIVE)) == 1

    def test_the_stored_cluster_name_is_not_asked_for(self, script: Script, run: Run) -> None:
        assert run(script.master.url, "f-1", cluster="green").expect(cluster_manager.Connected).cluster == "green"
        assert "/flags" not in [request.path for request in script.master.requests]

    def test_a_master_that_hangs_on_its_flags_does_not_hold_up_the_subscription(
        self, script: Script, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cluster_name, "WAIT", 0.05)
        script.flags_hang = True
        running = run(script.master.url)
        assert running.expect(cluster_manager.Connected).cluster == ""
        assert "mesos-cluster" in {thread.name for thread in threading.enumerate()}, "the flags are still waited for"
        assert running.driver.status()["connected"]

    def test_nobody_subscribes_without_the_leave_of_the_store(self, script: Script, run: Run) -> None:
        """The first answers: the store cannot be reached. Then it confirms, and later it says that another leads."""
        answers = iter([None, None, True])
        running = run(script.master.url, "f-1", may_subscribe=lambda: next(answers, False))
        running.expect(cluster_manager.Connected)
        assert len(script.master.calls(Call.SUBSCRIBE)) == 1
        script.streams[0].close()
        running.expect(cluster_manager.Disconnected)
        wait_for(lambda: not running.driver._threads[0].is_alive(), what="the end of the subscriptions")
        assert len(script.master.calls(Call.SUBSCRIBE)) == 1
        assert running.driver.status()["error"] == "another scheduler leads"

    def test_an_error_in_the_delivery_of_an_event_leads_to_another_subscription(self, script: Script, run: Run) -> None:
        inbox: list[inputs.Input] = []
        fail = [True]

        def deliver(event: inputs.Input) -> None:
            if isinstance(event, cluster_manager.Connected) and fail:
                fail.clear()
                raise RuntimeError("unexpected")
            inbox.append(event)

        running = run(script.master.url, deliver=deliver)
        wait_for(
            lambda: any(isinstance(event, cluster_manager.Connected) for event in inbox), what="the second subscription"
        )
        assert len(script.master.calls(Call.SUBSCRIBE)) == 2
        assert running.driver.status()["connected"]

    def test_an_error_while_calls_are_made_leads_to_another_subscription(
        self, script: Script, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        running = run(script.master.url)
        running.expect(cluster_manager.Connected)
        monkeypatch.setattr(Session, "send", _fails)
        running.driver.send([leased.Revive()])
        running.expect(cluster_manager.Disconnected)
        monkeypatch.undo()
        running.expect(cluster_manager.Connected)
        running.driver.send([leased.Revive()])
        wait_for(lambda: script.master.calls(Call.REVIVE), what="the call of the second subscription")


def _fails(*_: object) -> None:
    raise RuntimeError("unexpected")


class TestStream:
    def test_an_unreadable_event_is_counted_and_the_stream_goes_on(self, script: Script, run: Run) -> None:
        running = run(script.master.url)
        running.expect(cluster_manager.Connected)
        rescind = Event(type=Event.RESCIND)
        rescind.rescind.offer_id.value = "o1"
        script.streams[0].send(fakemaster.chunk(b"3\n\xff\xff\xff") + fakemaster.event_chunk(rescind))
        assert running.expect(leased.OfferRescinded).offer_id == "o1"
        assert running.driver.status()["unreadable"] == 1

    def test_events_that_arrive_together_are_delivered_together(self, script: Script, run: Run) -> None:
        running = run(script.master.url)
        running.expect(cluster_manager.Connected)
        rescind, failure = Event(type=Event.RESCIND), Event(type=Event.ERROR)
        chunks = []
        for number in range(TOGETHER + 3):
            rescind.rescind.offer_id.value = f"o{number}"
            chunks.append(fakemaster.event_chunk(rescind))
        failure.error.message = "removed"
        script.streams[0].send(b"".join([*chunks, fakemaster.event_chunk(Event(type=Event.HEARTBEAT))]))
        ids = [running.expect(leased.OfferRescinded).offer_id for _ in chunks]
        assert ids == [f"o{number}" for number in range(TOGETHER + 3)]
        sizes = [len(kinds) for kinds in running.deliveries if "OfferRescinded" in kinds]
        assert max(sizes) == TOGETHER
        script.streams[0].send(chunks[0] + fakemaster.event_chunk(failure))
        assert running.expect(leased.OfferRescinded).offer_id == "o0", "the events before the end of the subscription"

    def test_garbage_of_executors_is_counted_and_told_once_without_its_content(self, script: Script, run: Run) -> None:
        running = run(script.master.url)
        running.expect(cluster_manager.Connected)
        message = Event(type=Event.MESSAGE)
        message.message.agent_id.value, message.message.executor_id.value = "s", "e"
        update = Event(type=Event.UPDATE)
        update.update.status.task_id.value, update.update.status.state = "t", mesos_pb2.TASK_RUNNING
        update.update.status.data = b'{"v": 1, "pid": "hidden"}'
        with capture_logs() as told:
            for data in (b"hidden", b"hidden", b'{"v": 2, "type": "hidden"}', b'{"v": 1, "type": "hidden"}'):
                message.message.data = data
                script.streams[0].send(fakemaster.event_chunk(message))
            message.message.data = b'{"v": 1, "type": "answer", "id": "7", "status": "running"}'
            script.streams[0].send(fakemaster.event_chunk(update) + fakemaster.event_chunk(message))
            assert running.expect(cluster_manager.StatusUpdate).detail is None
            assert running.expect(cluster_manager.MessageAnswered).message_id == "7"
        assert {kind: count for kind, count in running.driver.status()["garbage"].items() if count} == {
            "not JSON": 2,
            "other version": 1,
            "unknown type": 1,
            "wrong fields": 1,
        }
        assert [line["kind"] for line in told if line["event"] == "mesos.executor.unreadable"] == [
            "not JSON",
            "other version",
            "unknown type",
            "wrong fields",
        ]
        assert "hidden" not in repr(told)

    def test_missed_heartbeats_break_the_stream(self, script: Script, run: Run) -> None:
        script.first_event = fakemaster.subscribed(heartbeat=0.05)
        running = run(script.master.url)
        running.expect(cluster_manager.Connected)
        assert "no data from" in running.expect(cluster_manager.Disconnected).reason
        running.expect(cluster_manager.Connected)

    def test_bad_framing_breaks_the_stream(self, script: Script, run: Run) -> None:
        running = run(script.master.url)
        running.expect(cluster_manager.Connected)
        script.streams[0].send(fakemaster.chunk(b"nonsense\n"))
        assert "not a number" in running.expect(cluster_manager.Disconnected).reason
        running.expect(cluster_manager.Connected)

    def test_every_event_has_a_cause_of_its_own(self, script: Script, run: Run) -> None:
        running = run(script.master.url)
        causes = [running.expect(cluster_manager.Connected).cause, running.expect(cluster_manager.AgentsListed).cause]
        assert len(set(causes)) == 2 and all(cause.startswith("mesos:") for cause in causes)


class TestCalls:
    def test_calls_carry_the_stream_id_and_leave_in_order(self, script: Script, run: Run) -> None:
        running = run(script.master.url)
        running.expect(cluster_manager.Connected)
        running.driver.send(
            [cluster_manager.Acknowledge(task_id=f"t{n}", agent_id="s", uuid=b"u") for n in range(3000)]
        )
        wait_for(lambda: len(script.master.calls(Call.ACKNOWLEDGE)) == 3000)
        seen = script.master.calls(Call.ACKNOWLEDGE)
        assert [call.acknowledge.task_id.value for call in seen] == [f"t{n}" for n in range(3000)]
        sent = [request for request in script.master.requests if b"t2999" in request.body]
        assert [request.headers["mesos-stream-id"] for request in sent] == ["stream-0"]

    def test_the_end_of_a_taskgroup_is_sent_as_calls_for_its_tasks_and_its_executor(
        self, script: Script, run: Run
    ) -> None:
        running = run(script.master.url)
        running.expect(cluster_manager.Connected)
        ends = [
            cluster_manager.End(taskgroup="e1", tasks=("t1", "t2"), agent_id="s", forced=True),
            cluster_manager.End(taskgroup="e2", tasks=("t3",), agent_id="s"),
        ]
        running.driver.send([*ends, leased.Revive()])
        wait_for(lambda: script.master.calls(Call.REVIVE))
        named = [
            request.call.kill.task_id.value or request.call.shutdown.executor_id.value
            for request in script.master.requests
            if request.call.type in (Call.KILL, Call.SHUTDOWN)
        ]
        assert named == ["t1", "t2", "e1", "t3"]
        wait_for(lambda: running.driver.status()["calls"] == 5)

    def test_without_a_subscription_an_accept_certainly_failed(self, script: Script, run: Run) -> None:
        script.on_subscribe = lambda peer, request: True  # never answers
        running = run(script.master.url)
        running.driver.send([leased.Decline(offer_ids=("o",)), accept("o1")])
        event = running.expect(cluster_manager.LaunchFailed)
        assert (event.taskgroups, event.certain, event.cause) == (("tg",), True, "c")
        assert running.driver.status()["dropped"] == 2

    def test_a_refused_accept_certainly_failed_and_its_offers_are_given_back(self, script: Script, run: Run) -> None:
        def refuse_accepts(peer: Peer, request: Request) -> bytes:
            return fakemaster.answer(400, b"bad") if request.call.type == Call.ACCEPT else fakemaster.ACCEPTED

        script.on_call = refuse_accepts
        running = run(script.master.url)
        running.expect(cluster_manager.Connected)
        running.driver.send([accept("o1", "o2")])
        event = running.expect(cluster_manager.LaunchFailed)
        assert (event.taskgroups, event.certain, event.reason) == (("tg",), True, "bad")
        (decline,) = wait_for(lambda: script.master.calls(Call.DECLINE))
        assert [item.value for item in decline.decline.offer_ids] == ["o1", "o2"]
        assert running.driver.status()["connected"] is True

    def test_an_accept_whose_answer_never_came_is_uncertain_and_ends_the_subscription(
        self, script: Script, run: Run
    ) -> None:
        def break_off(peer: Peer, request: Request) -> bytes:
            peer.close()
            return b""

        script.on_call = break_off
        running = run(script.master.url)
        running.expect(cluster_manager.Connected)
        running.driver.send([accept("o1")])
        failed = [running.expect(cluster_manager.LaunchFailed)]
        assert (failed[0].taskgroups, failed[0].certain) == (("tg",), False)
        running.expect(cluster_manager.Connected)

    def test_an_idle_call_connection_may_close_without_harm(self, script: Script, run: Run) -> None:
        running = run(script.master.url)
        running.expect(cluster_manager.Connected)
        callers: list[Peer] = []

        def remember(peer: Peer, request: Request) -> bytes:
            callers.append(peer)
            return fakemaster.ACCEPTED

        script.on_call = remember
        running.driver.send([leased.Revive()])
        wait_for(lambda: callers and running.driver.status()["outstanding"] == 0)
        session = running.driver._session
        assert session is not None
        callers[0].close()
        wait_for(lambda: session._calls is None, what="the close to be noticed")
        running.driver.send([leased.Suppress()])
        wait_for(lambda: len(callers) == 2)
        assert running.driver.status()["subscriptions"] == 1

    def test_a_call_that_mesos_rejects_as_not_subscribed_ends_the_subscription(self, script: Script, run: Run) -> None:
        def forbid_once(peer: Peer, request: Request) -> bytes:
            script.on_call = lambda peer, request: fakemaster.ACCEPTED
            return fakemaster.answer(403, b"Framework is not subscribed")

        script.on_call = forbid_once
        running = run(script.master.url)
        running.expect(cluster_manager.Connected)
        running.driver.send([leased.Revive()])
        assert "Framework is not subscribed" in running.expect(cluster_manager.Disconnected).reason
        running.expect(cluster_manager.Connected)

    def test_a_launch_that_cannot_be_expressed_fails_alone(self, script: Script, run: Run) -> None:
        running = run(script.master.url)
        running.expect(cluster_manager.Connected)
        running.driver.send([accept("o1", command="")])
        event = running.expect(cluster_manager.LaunchFailed)
        assert event.certain and "neither a command nor an image" in event.reason
        (call,) = wait_for(lambda: script.master.calls(Call.ACCEPT))
        assert not call.accept.operations and call.accept.offer_ids[0].value == "o1"

    def test_only_calls_can_be_sent(self, script: Script, run: Run) -> None:
        with pytest.raises(TypeError, match="Reply"):
            run(script.master.url).driver.send([effects.Reply(token=1)])


class TestLastOutputs:
    def test_the_output_of_a_task_is_read_from_the_agent_that_the_master_lists(
        self, script: Script, run: Run, tmp_path: Path
    ) -> None:
        (tmp_path / "tasks" / "t").mkdir(parents=True)
        (tmp_path / "tasks" / "t" / "stderr").write_bytes(b"trouble\n")
        running = run(script.master.url)
        framework = running.expect(cluster_manager.Connected).framework_id
        agent = AgentFiles(tmp_path, framework, "tg")
        try:
            listed = script.agents.get_agents.agents.add(active=True, version="1.11.0", pid=f"slave(1)@{agent.address}")
            listed.agent_info.id.value, listed.agent_info.hostname = "s", "localhost"
            listed.agent_info.port = agent.port
            while not running.expect(cluster_manager.AgentsListed).agents:
                running.driver.send([cluster_manager.ListAgents()])
            running.driver.send(
                [
                    cluster_manager.FetchOutput(agent_id="gone", executor_id="tg", task_id="t"),
                    cluster_manager.FetchOutput(agent_id="s", executor_id="tg", task_id="t", name="server"),
                ]
            )
            found = running.expect(cluster_manager.OutputReported)
        finally:
            agent.close()
        assert (found.task_id, found.name, found.fetched) == ("t", "server", True)
        assert unpacked(found.data) == [Entry(0.0, "stderr", b"trouble\n")]
        wait_for(lambda: running.driver.status()["outputs"]["unreachable"] == 1, 30, "the agent that is not listed")


class TestDetection:
    @pytest.mark.parametrize(
        "url", ["", "localhost:5050", "https://h:5050", "http://", "http://h:x", "zk://h:1", "zk:///m"]
    )
    def test_unusable_urls(self, url: str) -> None:
        with pytest.raises(SettingsError):
            make_detector(url)

    def test_lists(self) -> None:
        assert make_detector("http://a:1,b,[::1]:7/").candidates() == [
            Master("a", 1),
            Master("b", 5050),
            Master("::1", 7),
        ]

    def test_addresses_are_written_as_urls_want_them(self) -> None:
        assert [Master("a", 1).url, Master("::1", 7).url] == ["http://a:1", "http://[::1]:7"]

    @pytest.mark.parametrize("location", ["ftp://h/x", "https://h:1/x", "//"])
    def test_redirects_to_nowhere(self, location: str) -> None:
        with pytest.raises(DetectionError):
            redirect_target(location)
