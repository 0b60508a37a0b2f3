"""store.threads and bcs_scheduler.tasks: an unexpected error in any thread or task is logged, and what rests on it goes
on or ends in order. The loops of the process are tested here one by one, with an error put into each."""

from __future__ import annotations

import ast
import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import MethodType
from typing import Any

import pytest
import uvloop
from structlog.testing import capture_logs

import bcs_scheduler
from bcs_scheduler import tasks
from bcs_scheduler.agentapi.usage import Meter, Place
from bcs_scheduler.api.http.server import ApiServer
from bcs_scheduler.executor import threads as executor_threads
from bcs_scheduler.executor.agent import messages as executor_messages
from bcs_scheduler.executor.model import Check, Detail
from bcs_scheduler.executor.taskgroup.checks import Checks
from bcs_scheduler.foreground import EndSignal
from bcs_scheduler.leadership import runtime
from bcs_scheduler.leadership.handover import Handover
from bcs_scheduler.leadership.hub import Hub, Watch
from bcs_scheduler.leadership.items import WatchEnded
from bcs_scheduler.leadership.standby import Standby
from bcs_scheduler.mesos.transport import http as mesos_http
from bcs_scheduler.mesos.transport.connection import CallConnection
from bcs_scheduler.mesos.transport.http import Master
from bcs_scheduler.observability import alarms
from bcs_scheduler.prober import prober as prober_module
from bcs_scheduler.prober.probe import Verdict
from bcs_scheduler.prober.prober import Prober
from bcs_scheduler.prober.targets import KnownTarget, ProbeTarget
from bcs_scheduler.publishing.publisher import Publisher
from bcs_scheduler.publishing.target import parse_target
from bcs_scheduler.settings.sections import AlarmSettings
from store import threads
from store.base import StaleEpoch, StoreUnavailable
from store.memory import MemoryBackend, MemoryStore
from store.records import CheckResult
from store.zookeeper.commit_pipeline import Commit, CommitPipeline
from store.zookeeper.election import Election
from store.zookeeper.store import _Opened
from store.zookeeper.tree import Tree
from tests.component.test_hub import endpoint
from tests.integration.schedulers import A, Process
from tests.waiting import wait_for

ROOT = Path(bcs_scheduler.__file__).parents[1]
MAKERS = {
    "Thread", "Timer", "ThreadPoolExecutor", "ProcessPoolExecutor", "start_new_thread", "spawn",
    "create_task", "ensure_future", "run_in_executor",
}  # fmt: skip
ALLOWED = {
    "store/threads.py": {"Thread"},
    "bcs_scheduler/executor/threads.py": {"Thread"},
    "bcs_scheduler/tasks.py": {"create_task"},
    # Pools whose results are awaited by the request that needs them.
    "bcs_scheduler/api/streams/downloads.py": {"ThreadPoolExecutor"},
    "bcs_scheduler/api/routes/logs.py": {"ThreadPoolExecutor", "run_in_executor"},
    "bcs_scheduler/agentapi/following.py": {"ThreadPoolExecutor", "run_in_executor"},
    # Commands of users: their threads end with the command.
    "bcs_scheduler/cli/commands/taskgroups/streams.py": {"Thread", "Timer"},
    "bcs_scheduler/cli/commands/taskgroups/archives.py": {"Thread"},
    "bcs_scheduler/cli/commands/taskgroups/forwarding.py": {"Thread"},
    "bcs_scheduler/cli/client/websocket.py": {"Thread"},
}


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (threads, executor_threads):
        monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
        monkeypatch.setattr(module, "LONGEST_PAUSE", 0.02)


class Once:
    """Raises when it is called first (or the first `times`), then does what `then` does."""

    def __init__(self, then: Callable[..., Any] = lambda *_: None, times: int = 1) -> None:
        self.then, self.times, self.calls = then, times, 0

    def __get__(self, owner: object, kind: type) -> Any:
        return MethodType(self, owner) if owner is not None else self

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        if self.calls <= self.times:
            raise ZeroDivisionError("unexpected")
        return self.then(*args)


# --- the source ---------------------------------------------------------------------------------------------------


def _made(path: Path) -> set[str]:
    """Names of what begins threads or tasks that are called in a file; classes that are derived from Thread."""
    found: set[str] = set()
    source = path.read_text()
    if not any(maker in source for maker in MAKERS):
        return found
    for node in ast.walk(ast.parse(source)):
        names = [node.func] if isinstance(node, ast.Call) else node.bases if isinstance(node, ast.ClassDef) else []
        for name in names:
            last = name.attr if isinstance(name, ast.Attribute) else name.id if isinstance(name, ast.Name) else ""
            found |= {last} & MAKERS
    return found


def test_threads_and_tasks_begin_in_one_place() -> None:
    elsewhere = {}
    for folder in ("store", "offers", "transactions", "bcs_scheduler"):
        for path in (ROOT / folder).rglob("*.py"):
            name = str(path.relative_to(ROOT))
            found = _made(path) - ALLOWED.get(name, set())
            if found:
                elsewhere[name] = found
    assert not elsewhere, "use store.threads, bcs_scheduler.tasks, or executor.threads"
    assert all(_made(ROOT / name) == makers for name, makers in ALLOWED.items())


# --- the helpers --------------------------------------------------------------------------------------------------


def test_a_loop_begins_again_and_ends_when_it_returns() -> None:
    work = Once(times=3)
    with capture_logs() as lines:
        thread = threads.lasting("loop", work, threading.Event().wait)
        thread.start()
        thread.join(30)
    assert not thread.is_alive() and work.calls == 4
    assert [(line["event"], line["thread"]) for line in lines] == [("thread.failed", "loop")] * 3
    assert all(line["exc_info"] for line in lines)


def test_a_loop_that_always_fails_ends_when_it_is_over() -> None:
    over, work = threading.Event(), Once(times=10**9)
    thread = threads.lasting("loop", work, over.wait)
    thread.start()
    wait_for(lambda: work.calls > 3, what="attempts")
    over.set()
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.parametrize("telling_fails", [False, True])
def test_a_role_is_told_of_the_end_of_its_thread(telling_fails: bool) -> None:
    told: list[str] = []

    def failed(reason: str) -> None:
        told.append(reason)
        if telling_fails:
            raise RuntimeError("this too")

    with capture_logs() as lines:
        thread = threads.ending("core", Once(), failed)
        thread.start()
        thread.join(30)
    assert told == ["thread core failed: ZeroDivisionError: unexpected"]
    assert [line["event"] for line in lines] == ["thread.failed"] * (1 + telling_fails)


def test_all_parts_of_an_end_are_done() -> None:
    done: list[int] = []
    threads.each("end", (lambda: done.append(1), Once(), lambda: done.append(3)))
    assert done == [1, 3]


def test_the_error_of_a_task_is_logged() -> None:
    async def body() -> None:
        async def fails() -> None:
            raise ZeroDivisionError

        task = tasks.background(fails(), "job")
        await asyncio.wait({task})

    with capture_logs() as lines:
        asyncio.run(body())
    assert [(line["event"], line["task"]) for line in lines] == [("task.failed", "job")]


def test_a_loop_of_the_executor_begins_again_and_does_not_log_what_may_be_confidential(
    caplog: pytest.LogCaptureFixture,
) -> None:
    work = Once()
    thread = executor_threads.lasting("loop", work)
    thread.start()
    thread.join(30)
    assert work.calls == 2
    assert "thread.failed: loop: ZeroDivisionError" in caplog.text and "unexpected" not in caplog.text


# --- loops in the background go on --------------------------------------------------------------------------------


def test_alarms_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarms.Alarms, "_put_late", Once())
    monkeypatch.setattr(alarms.Alarms, "_deliver", Once(lambda *_: True))
    counts: list[str] = []
    siren = alarms.Alarms(AlarmSettings(url="http://127.0.0.1:1"), "c", "s", counts.append)
    siren.start()
    try:
        for epoch in range(2):
            siren.leading(epoch)
            siren._past.clear()
            wait_for(lambda number=epoch: len(counts) > number, what="the alarm")  # type: ignore[misc]
    finally:
        siren.stop()
    assert counts == ["failed", "sent"], "the error costs one alarm, which is counted"


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Prober]]:
    async def verdict(probe_target: ProbeTarget) -> Verdict:
        return Verdict(True, "200")

    monkeypatch.setattr(prober_module, "probe", verdict)
    made: list[Prober] = []

    def start(counted: Callable[..., None]) -> Prober:
        target = KnownTarget(
            ProbeTarget("t", "REMOTE_TCP", "127.0.0.1", 1, 0.0, 0.0, 0.5, 1.0, 0.0), CheckResult(type="REMOTE_TCP")
        )
        made.append(Prober(lambda: [target], lambda report: None, 4, time.time, counted, 0.02))
        made[-1].start()
        return made[-1]

    yield start
    for prober in made:
        prober.stop()


def test_the_prober_goes_on_after_an_error_in_its_thread(
    probed: Callable[..., Prober], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prober_module.Prober, "_look", Once(prober_module.Prober._look))
    make = Once(uvloop.new_event_loop)
    monkeypatch.setattr(uvloop, "new_event_loop", make)
    prober = probed(lambda *_: None)
    wait_for(lambda: prober.status()["probes"] > 1, what="probes")


def test_a_target_is_probed_again_after_an_error(probed: Callable[..., Prober]) -> None:
    counted = Once()
    probed(counted)
    wait_for(lambda: counted.calls > 2, what="more probes of the same target")


def test_publishing_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions, rests = Once(lambda *_: publisher.stop()), Once()
    monkeypatch.setattr(Publisher, "_session", sessions)
    monkeypatch.setattr(Publisher, "_rest", rests)
    publisher = Publisher(parse_target("zk://127.0.0.1:1/x"), 1, "http://a", [])
    publisher.start()
    publisher.thread.join(30)
    assert sessions.calls == 2 and rests.calls == 1 and not publisher.thread.is_alive()


def test_a_standby_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore(MemoryBackend())
    store.open()
    monkeypatch.setattr(Standby, "_fail", Once())
    monkeypatch.setattr(store, "follow", Once(store.follow))
    standby = Standby(store)
    standby.start()
    wait_for(lambda: standby.status().age is not None, what="a read")
    standby.stop()


def test_the_looks_at_other_schedulers_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bcs_scheduler.leadership.handover.ROUND", 0.01)
    standing = Once(lambda: "not standing")
    handover = Handover(MemoryStore(MemoryBackend()), 1.0, standing, lambda: True, lambda reason: None)
    handover.start()
    wait_for(lambda: standing.calls > 2, what="more looks")
    handover.stop()


def test_watchers_are_told_when_something_cannot_be_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        hub = Hub()
        first, second = hub.watch("endpoint"), hub.watch("endpoint")
        monkeypatch.setattr(Watch, "offer", Once(Watch.offer))
        hub.publish([endpoint("a", 1)])
        for watch in (first, second):
            with pytest.raises(WatchEnded) as ended:
                await asyncio.wait_for(watch.take(10.0), 30)
            assert ended.value.why == "failed"
        third = hub.watch("endpoint")
        hub.publish([endpoint("a", 2)])
        assert [item.key for item in await third.take(10.0)] == ["shop/a"]

    asyncio.run(body())


def test_an_agent_that_cannot_be_measured_is_named_and_the_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    async def pair(self: Meter, place: Place, known: object) -> Any:
        if place.id == "bad":
            raise ZeroDivisionError
        return "measured"

    monkeypatch.setattr(Meter, "_pair", pair)
    bad, good = Place("bad", "a:1"), Place("good", "b:1")  # type: ignore[arg-type]

    async def body() -> dict[Place, Any]:
        return dict(await Meter().measure([bad, good]))

    found = asyncio.run(body())
    assert found[good] == "measured" and found[bad].problem == "agent a:1 could not be asked: ZeroDivisionError"


# --- what the lead rests on ends in order -------------------------------------------------------------------------


def test_a_term_is_stopped_although_steps_of_its_end_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once a term that was not stopped kept its subscription with Mesos, beside the next leader."""
    for name in ("FIRST_PAUSE", "LONGEST_PAUSE", "FIRST_RECESS", "LONGEST_RECESS"):
        monkeypatch.setattr(runtime, name, 0.01)
    process = Process(MemoryStore(MemoryBackend()), A)
    try:
        process.leads()
        before = process.driver
        # Fails while the role changes, and again while the error of that is dealt with.
        monkeypatch.setattr(process.runtime._metrics, "lead", Once(process.runtime._metrics.lead))
        monkeypatch.setattr(Hub, "close", Once(Hub.close))
        monkeypatch.setattr(runtime.Runtime, "_change", Once(runtime.Runtime._change))
        process.runtime._hand_over("test")
        wait_for(lambda: len(process.drivers) > 1, what="the next term")
        wait_for(lambda: before.stopped, what="the end of the subscription before")
        process.leads()
        assert process.disable("agent-1").result(30.0).error == ""
    finally:
        process.runtime.stop()


def test_the_term_does_not_end_with_an_alarm_that_cannot_be_made() -> None:
    process = Process(MemoryStore(MemoryBackend()), A)
    try:
        process.leads()
        process.runtime._term._alarms = fails = Once()  # type: ignore[union-attr]
        assert process.disable("agent-1").result(30.0).error == ""
        process.runtime._term._alarm([])  # type: ignore[union-attr]
        assert fails.calls >= 1 and process.disable("agent-2").result(30.0).error == "" and process.epoch == 1
    finally:
        process.runtime.stop()


def test_the_end_of_a_connection_is_told_although_an_outcome_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    class Far:
        def recv(self, size: int) -> bytes:
            return b""

        def sendall(self, data: bytes) -> None: ...

    monkeypatch.setattr(mesos_http, "connect", lambda *_: Far())
    monkeypatch.setattr(mesos_http, "close", lambda *_: None)
    release, broken = threading.Event(), []
    monkeypatch.setattr(Far, "recv", lambda *_: release.wait(10) and b"")
    calls: CallConnection[str] = CallConnection(
        Master("m", 1), {}, Once(times=9), lambda reason, unknown: broken.append(unknown)
    )
    calls.send([(b"x", "a")])
    release.set()
    calls._reader.join(30)
    assert broken == [1]


class _NoSession:
    acl, connected, closed = None, threading.Event(), False


def test_commits_to_zookeeper_go_on_although_the_end_of_a_term_cannot_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Once()
    pipeline = CommitPipeline(_NoSession(), Tree("/x"), 1000, told)  # type: ignore[arg-type]
    monkeypatch.setattr(pipeline, "_guarded", Once(lambda *_: None))
    pipeline.start()
    pipeline._inbox.put(Commit((), 0, lost := Future()))  # type: ignore[arg-type, var-annotated]
    with pytest.raises(Exception, match="writing to ZooKeeper failed"):
        lost.result(30)
    pipeline._inbox.put(Commit((), 7, late := Future()))  # type: ignore[arg-type, var-annotated]
    with pytest.raises(StaleEpoch):
        late.result(30)
    assert told.calls == 1
    monkeypatch.setattr(pipeline, "_finish", Once())
    pipeline._inbox.put(Commit((), 0, left := Future()))  # type: ignore[arg-type, var-annotated]
    pipeline.stop()
    pipeline.join()
    with pytest.raises(StoreUnavailable):
        left.result(30)


def test_a_leader_node_that_cannot_be_read_does_not_keep_the_store_from_being_opened() -> None:
    opened = object.__new__(_Opened)
    opened.tree, opened.leader = Tree("/x"), None
    opened.election = Election(_NoSession(), opened.tree, None)  # type: ignore[arg-type]
    opened.leader_changed(b"garbage", None)
    assert opened.leader is None


def test_the_process_ends_with_its_api(monkeypatch: pytest.MonkeyPatch) -> None:
    class Signals(EndSignal):
        def __init__(self) -> None:
            self.failure = ""
            self._caught, self._written = __import__("socket").socketpair()

    end = Signals()
    failing = Once(times=9)
    server = ApiServer(failed=end.fail)
    server.start(lambda *_: None)  # type: ignore[arg-type]
    assert server._server is not None
    monkeypatch.setattr(server._server, "on_tick", failing)
    wait_for(lambda: end.failure, what="the end of the API")
    end.wait()
    assert end.failure == "thread api failed: ZeroDivisionError: unexpected"
    server.stop()
    with pytest.raises(SystemExit) as ended:
        end.exit_on_failure()
    assert ended.value.code == 1, "2 would keep the supervisor from starting it again"


# --- the executor -------------------------------------------------------------------------------------------------


def test_a_worker_of_the_executor_does_the_next_job() -> None:
    workers, done = executor_messages._Workers(1, 10), threading.Event()
    workers.add([Once(), done.set])
    assert done.wait(30)
    workers.stop()


def test_health_checks_go_on() -> None:
    class Task:
        def detail(self) -> Detail:
            return Detail(started_at=1.0)

    changed = Once()
    checks = Checks(
        [Check(type="COMMAND", delay=0.0, grace_period=0.0, interval=0.01)],
        Task(),  # type: ignore[arg-type]
        changed,
        lambda message: None,
    )
    look = checks._instance
    checks._instance = Once(look)  # type: ignore[method-assign]
    checks.start()
    wait_for(lambda: changed.calls > 0, what="the first result")
    before = checks.states()[0].failures
    wait_for(lambda: checks.states()[0].failures > before, what="more results")
    checks.stop()
