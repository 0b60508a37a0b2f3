"""Schedulers for tests: real runtimes on stores that can be held up, with a stand-in for the Mesos side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from bcs_scheduler.core.interface import cluster_manager, effects, inputs, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.decisions.recorded import Sink
from bcs_scheduler.leadership.gateway import Busy
from bcs_scheduler.leadership.runtime import Runtime
from bcs_scheduler.observability.metrics import Metrics
from store.base import Change, Loaded, Store
from store.memory import MemoryBackend, MemoryStore
from store.records import AgentSetting, Framework
from store.state import State
from tests.waiting import wait_for

Deliver = Callable[[inputs.Input], None]
A, B = "http://a:1", "http://b:2"


class FakeDriver:
    """Subscribes when it is started, keeps what it is sent."""

    def __init__(self, deliver: Deliver) -> None:
        self.deliver = deliver
        self.framework_id = ""
        self.traits = cluster_manager.Traits()
        self.sent: list[effects.Effect] = []
        self.started = self.stopped = False
        self.send_blocks = self.stop_blocks = False
        self.free = threading.Event()

    def start(
        self, framework_id: str, cluster: str = "", may_subscribe: Callable[[], bool | None] | None = None
    ) -> None:
        self.started, self.framework_id, self.may_subscribe = True, framework_id, may_subscribe
        self.deliver(
            cluster_manager.Connected(framework_id=framework_id or "framework-1", master="m:5050", cause="mesos:1")
        )

    def stop(self) -> None:
        self.stopped = True
        if self.stop_blocks:
            self.free.wait(60.0)
        self.free.set()

    def send(self, batch: Sequence[effects.Effect]) -> None:
        if self.send_blocks:
            self.free.wait(60.0)
        self.sent.extend(batch)

    def status(self) -> dict[str, Any]:
        return {"connected": self.started and not self.stopped, "master": "m:5050", "error": ""}


class HeldStore(MemoryStore):
    """A MemoryStore whose commits and loads can be held up, as by a slow disk or network."""

    def __init__(self, backend: MemoryBackend) -> None:
        super().__init__(backend)
        self.holding = False
        self.held: list[tuple[Sequence[Change], int, Future[None]]] = []
        self.load_gate = threading.Event()
        self.load_gate.set()
        self.loads = 0

    def commit(self, changes: Sequence[Change], epoch: int) -> Future[None]:
        if not self.holding:
            return super().commit(changes, epoch)
        future: Future[None] = Future()
        self.held.append((changes, epoch, future))
        return future

    def release(self) -> None:
        """Lets held commits go on, in order, and holds no more."""
        self.holding = False
        while self.held:
            changes, epoch, future = self.held.pop(0)
            error = super().commit(changes, epoch).exception()
            future.set_result(None) if error is None else future.set_exception(error)

    def load(self) -> Loaded:
        self.loads += 1
        assert self.load_gate.wait(60.0)
        return super().load()


class Process:
    """A runtime with its stand-in drivers, as one scheduler process has them."""

    def __init__(self, store: Store, url: str = A, decisions: Sink | None = None) -> None:
        self.store = store
        self.drivers: list[FakeDriver] = []
        self.metrics = Metrics()
        self.runtime = Runtime(store, CoreOptions(), self._driver, self.metrics, url, decisions=decisions)
        self.runtime.start()

    def _driver(self, deliver: Deliver) -> FakeDriver:
        self.drivers.append(FakeDriver(deliver))
        return self.drivers[-1]

    @property
    def driver(self) -> FakeDriver:
        return self.drivers[-1]

    def leads(self) -> Process:
        wait_for(lambda: self.runtime.role() == "master" and self.driver.started, what="leadership")
        return self

    def subscribed(self) -> Process:
        """Leads, and the id that the cluster manager gave the framework is stored: the next term uses that id."""
        self.leads()
        wait_for(
            lambda: any(isinstance(record, Framework) and record.id for record in self.store.load().records),
            what="the id of the framework in the store",
        )
        return self

    def stands_by(self) -> Process:
        wait_for(lambda: self.runtime.role() == "slave", what="standing by")
        return self

    def shown(self) -> State:
        """What reads are answered from, as soon as there is something."""

        def state() -> State | None:
            try:
                return self.runtime.state()
            except Busy:
                return None

        return wait_for(state, what="a state to read")

    def disable(self, agent: str) -> Future[effects.Reply]:
        return self.runtime.submit(requests.SetAgent(agent=agent, disabled=True))

    def check(self, name: str) -> tuple[bool, str]:
        return next((check.ok, check.message) for check in self.runtime.checks() if check.name == name)

    @property
    def epoch(self) -> int:
        assert self.runtime._term is not None
        return self.runtime._term.epoch


def stored(store: Store) -> set[str]:
    """Agents with settings in the store."""
    return {record.agent for record in store.load().records if isinstance(record, AgentSetting)}
