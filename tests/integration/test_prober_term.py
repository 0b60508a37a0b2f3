"""The prober as part of a term: it probes while its scheduler leads, and its results are in the state."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.leadership.runtime import Runtime
from bcs_scheduler.observability.metrics import Metrics
from bcs_scheduler.service import prober_factory
from bcs_scheduler.settings.sections import HealthSettings, Settings
from store.encoding.codec import encode
from store.memory import MemoryBackend, MemoryStore
from store.records import Application, BoundPort, CheckResult, Framework, Task, TaskGroup, Version
from store.records.definition import Container, HealthCheck
from tests.integration.schedulers import A, FakeDriver
from tests.waiting import wait_for

GROUP = "0.web.ns.c.1"


class Web(ThreadingHTTPServer):
    """Answers with `status`."""

    daemon_threads = True
    status = 200
    asked = 0


class Handler(BaseHTTPRequestHandler):
    server: Web

    def do_GET(self) -> None:
        self.server.asked += 1
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def backend(web: Web) -> MemoryBackend:
    """With one running taskgroup that has a REMOTE_HTTP check."""
    check = HealthCheck(type="REMOTE_HTTP", port_name="web", interval=0.5, timeout=30.0, delay=0.0, grace_period=0.0)
    port = BoundPort(name="web", container_port=web.server_port, host_port=web.server_port)
    task = Task(id="1.0.0.web.ns.c", status="Running", ports=(port,), checks=(CheckResult(type="REMOTE_HTTP"),))
    records = (
        Framework(id="framework", cluster="c", created_at=1.0),
        Application(namespace="ns", name="web", version="1", instances=1, status="Running"),
        Version(
            namespace="ns", application="web", name="1", network_mode="HOST",
            containers=(Container(command="serve", health_checks=(check,)),),
        ),
        TaskGroup(
            id=GROUP, namespace="ns", application="web", index=0, version="1", agent_id="agent", agent_ip="127.0.0.1",
            status="Running", started=True, tasks=(task,),
        ),
    )  # fmt: skip
    found = MemoryBackend()
    found.records.update({(record.kind, record.key): encode(record) for record in records})
    return found


@pytest.fixture
def lead(backend: MemoryBackend) -> Iterator[Callable[[bool], Runtime]]:
    made: list[Runtime] = []

    def make(probing: bool) -> Runtime:
        settings, metrics = Settings(health=HealthSettings(prober=probing)), Metrics()
        factory = prober_factory(settings, metrics)
        made.append(Runtime(MemoryStore(backend), CoreOptions(), FakeDriver, metrics, A, factory))
        made[-1].start()
        wait_for(lambda: made[-1].role() == "master", what="leadership")
        return made[-1]

    yield make
    for runtime in made:
        runtime.stop()


def health(runtime: Runtime) -> bool | None:
    return runtime.state().taskgroups[GROUP].tasks[0].healthy


def probers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "prober"]


def test_the_leader_probes_and_the_state_knows(lead: Callable[[bool], Runtime], web: Web) -> None:
    runtime = lead(True)
    wait_for(lambda: health(runtime) is True, what="the check to pass")
    web.status = 500
    wait_for(lambda: health(runtime) is False, what="the check to fail")
    (check,) = runtime.state().taskgroups[GROUP].tasks[0].checks
    assert (check.healthy, check.message) == (False, "500")
    assert runtime.state().taskgroups[GROUP].status == "Running", "a REMOTE check ends nothing"
    assert b'bkbcs_scheduler_unhealthy_tasks{namespace="ns",application="web"} 1.0' in runtime.metrics()
    assert b'bkbcs_scheduler_queue_depth{queue="probes"} 0.0' in runtime.metrics()
    web.status = 200
    wait_for(lambda: health(runtime) is True, what="the check to pass again")


def test_probing_ends_with_the_term_and_begins_with_the_next(
    lead: Callable[[bool], Runtime], backend: MemoryBackend, web: Web
) -> None:
    runtime = lead(True)
    wait_for(lambda: web.asked, what="a probe")
    (first,) = probers()
    backend.depose("session lost")
    wait_for(lambda: not first.is_alive(), what="the prober's end")
    wait_for(lambda: runtime.role() == "master", what="the next term")
    before = web.asked
    wait_for(lambda: web.asked > before, what="a probe of the next term")
    runtime.stop()
    assert probers() == []


def test_nothing_is_probed_where_others_do_it(lead: Callable[[bool], Runtime]) -> None:
    runtime = lead(False)
    assert probers() == [] and health(runtime) is None
