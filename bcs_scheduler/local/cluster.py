"""A whole cluster in one event loop, and the same in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import uvloop

from bcs_scheduler.local.agents.agent_server import AgentServer
from bcs_scheduler.local.agents.custom_executor import ExecutorServices
from bcs_scheduler.local.agents.fetcher import Fetcher
from bcs_scheduler.local.agents.files import Files
from bcs_scheduler.local.agents.process import Launcher
from bcs_scheduler.local.agents.process_agent import ProcessAgent
from bcs_scheduler.local.agents.synthetic import SyntheticAgent
from bcs_scheduler.local.control import Control
from bcs_scheduler.local.errors import LocalClusterError, SettingsError
from bcs_scheduler.local.master.master import Master
from bcs_scheduler.local.master.operator_api import OperatorApi
from bcs_scheduler.local.master.scheduler_api import SchedulerApi
from bcs_scheduler.local.objects.ports import PortClaim
from bcs_scheduler.local.settings import ClusterSettings, agent_specs
from bcs_scheduler.local.transport.http import Answer, Handler, HttpServer, Request, response
from bcs_scheduler.tasks import background
from store import threads
from store.sqlite.file_lock import FileLock

IDENTITY = "cluster.json"
LOCK = "lock"
"""Held while a cluster runs in the directory: two would take each other's agent ids and sandboxes for theirs."""
START_TIMEOUT = 30.0


class Cluster:
    """To be used from one running event loop."""

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings
        self._specs = agent_specs(settings)
        self._claim = PortClaim()
        self._server = HttpServer(self._handle)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._lock: FileLock | None = None
        self.master = Master(settings)
        self._launcher = Launcher()
        self._agents: list[ProcessAgent] = []
        self._ending = False
        self._shared_server = AgentServer(Files())
        """Of all agents that run no processes."""
        scheduler_api = SchedulerApi(self.master)
        operator_api = OperatorApi(self.master)
        self._control = Control(self.master)
        self._routes: dict[str, Handler] = {
            "/api/v1/scheduler": scheduler_api,
            "/master/api/v1/scheduler": scheduler_api,
            "/api/v1": operator_api,
            "/master/api/v1": operator_api,
            "/health": operator_api.health,
            "/master/health": operator_api.health,
            "/state": operator_api.state,
            "/master/state": operator_api.state,
            "/version": operator_api.version,
            "/metrics/snapshot": operator_api.metrics,
            "/flags": operator_api.flags,
            "/master/flags": operator_api.flags,
            "/control": self._control,
        }

    @property
    def url(self) -> str:
        host, port = self._server.address
        return f"http://{host}:{port}"

    async def start(self) -> None:
        data = self._data_directory()
        if not self.settings.ports and not self.settings.synthetic:
            self._specs = agent_specs(replace(self.settings, ports=self._claim.take(self.settings.agents)))
        ids = agent_ids(data, len(self._specs), self.master.id)
        if not self.settings.synthetic:
            await self._launcher.start()
        await self._server.start(self.settings.host, self.settings.port)
        self.master.address = self._server.address
        if self.settings.synthetic:
            await self._add_synthetic_agents(ids)
        else:
            await self._add_process_agents(ids, data)
        self.master.start()

    async def _add_synthetic_agents(self, ids: list[str]) -> None:
        await self._shared_server.start(self._specs[0].ip)
        for agent_id, spec in zip(ids, self._specs, strict=True):
            agent = SyntheticAgent(agent_id, spec, self.master.tasks, self.settings.start_delay)
            agent.port = self._shared_server.port
            self.master.add_agent(agent)

    async def _add_process_agents(self, ids: list[str], data: Path) -> None:
        for agent_id, spec in zip(ids, self._specs, strict=True):
            fetcher = Fetcher(data / "fetched" / spec.hostname)
            around = ExecutorServices(self.master.tasks, self._launcher, fetcher, self.settings)
            agent = ProcessAgent(agent_id, spec, around, data / "sandboxes")
            await agent.listen()
            self._agents.append(agent)
            self.master.add_agent(agent)

    async def end_tasks(self) -> None:
        """Asks all tasks to end, and returns when they have ended, or their grace periods are over. Schedulers are
        cut off first: they would start the tasks again. May be cancelled: `stop` kills the tasks that are left."""
        self._ending = True
        self._control.stop()
        self.master.stop()
        for agent in self._agents:
            agent.end_tasks()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._launcher.wait_until_idle(), self.settings.end_grace)

    async def stop(self) -> None:
        """Kills the tasks that are left."""
        self._ending = True
        self._control.stop()
        self.master.stop()
        self.master.destroy_agents()
        await self._launcher.stop()
        await self._server.stop()
        await self._shared_server.stop()
        for agent in self._agents:
            await agent.close()
        self._claim.close()
        if self._lock is not None:
            self._lock.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def _data_directory(self) -> Path:
        if self.settings.data is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="local-mesos-")
            directory = Path(self._temporary.name)
            directory.chmod(0o711)  # tasks of other users must reach their sandboxes
            return directory
        directory = self.settings.data.absolute()  # executors get the paths of their sandboxes and run elsewhere
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(directory / LOCK)
        if not self._lock.try_acquire():
            raise SettingsError(f"data: another cluster runs in {self.settings.data}")
        return directory

    def _handle(self, request: Request) -> Answer:
        if self._ending:
            return response(503)
        handler = self._routes.get(request.path)
        return handler(request) if handler is not None else response(404)


def agent_ids(data: Path, count: int, master_id: str) -> list[str]:
    """Stable over restarts with the same directory, so that a scheduler which asks about tasks of the time before
    learns that they are gone from agents that exist."""
    file = data / IDENTITY
    ids: list[str] = json.loads(file.read_text())["agents"] if file.exists() else []
    if len(ids) < count:
        ids += [f"{master_id}-S{number}" for number in range(len(ids), count)]
        temporary = file.with_suffix(f".{uuid4()}")
        temporary.write_text(json.dumps({"agents": ids}))
        temporary.replace(file)
    return ids[:count]


class LocalCluster:
    """The cluster in a thread with an event loop of its own. Usable as a context manager."""

    def __init__(self, settings: ClusterSettings | None = None) -> None:
        self.settings = settings or ClusterSettings()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._cluster: Cluster | None = None
        self._thread: threading.Thread | None = None
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._hurry: asyncio.Event | None = None
        self._error: BaseException | None = None
        self.url = ""

    def start(self) -> LocalCluster:
        """Starts the cluster and returns when it answers. Raises the error that prevented the start (SettingsError,
        OSError)."""
        self._thread = threads.ending("local-mesos", self._run)
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT):
            raise LocalClusterError(f"the embedded cluster did not start within {START_TIMEOUT:g} s")
        if self._error is not None:
            raise self._error
        return self

    def stop(self) -> None:
        """Asks the tasks to end. Returns when every process of the cluster has ended."""
        if self._loop is not None and self._stop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._loop = None

    def hurry(self) -> None:
        """`stop` kills the tasks before their grace periods are over. Any thread."""
        loop, hurry = self._loop, self._hurry
        if loop is not None and hurry is not None:
            with suppress(RuntimeError):  # the cluster has ended
                loop.call_soon_threadsafe(hurry.set)

    def __enter__(self) -> LocalCluster:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except Exception as error:
            if self._ready.is_set():
                raise
            self._error = error  # start() raises it
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        cluster = Cluster(self.settings)
        self._stop, self._hurry = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        try:
            await cluster.start()
            self.url = cluster.url
            self._ready.set()
            await self._stop.wait()
            await end_tasks(cluster, self._hurry)
        finally:
            await cluster.stop()


async def end_tasks(cluster: Cluster, hurry: asyncio.Event) -> None:
    """As `Cluster.end_tasks`; returns at once when `hurry` is set."""
    ending = background(cluster.end_tasks(), "end of tasks")
    hurried = background(hurry.wait(), "hurry")
    await asyncio.wait((ending, hurried), return_when=asyncio.FIRST_COMPLETED)
    for task in (ending, hurried):
        task.cancel()
