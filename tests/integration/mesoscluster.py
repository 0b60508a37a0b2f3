"""A real Apache Mesos on loopback, driven through ``tests/integration/mesos/mesosctl``."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from bcs_scheduler.processes import living_descendants
from tests.waiting import wait_for

HERE = Path(__file__).resolve().parent / "mesos"
PROGRAMS = ("bin/mesos-master", "bin/mesos-agent", "libexec/mesos-containerizer", "libexec/mesos-io-switchboard")
"""What setup.sh makes, below HERE."""
PORTS_USED = (0, 1, 2, 3, 10, 20, -2869)
"""What mesosctl adds to the base port: solo or first master, three agents, more masters, ZooKeeper."""
FIRST_PORT, LAST_PORT, STEP = 17000, 20000, 40
"""Base ports: above are those that embedded clusters give to tasks."""
FIRST_TASK_PORT, TASK_SPAN, TASK_WINDOWS = 10_000, 100, 23
"""Ports for tasks: clusters that run side by side must not hand out the same ones, and they must lie below 32768, from
where on the kernel takes the local ports of outgoing connections."""
LAUNCHER_FOLDER = "MESOS_CONTAINERIZER_RUNTIME_DIRECTORY"
"""Variable of the process above each container: tasks of Mesos's own executor are not below that."""
CLAIM, TASK_CLAIM = 39, 16_977
"""Ports that nobody listens on, but that a cluster holds as long as it lives, so that no other takes what it has: what
is added to the base port, and the one of the first window of ports for tasks."""


class RealMesos:
    """One cluster with its own ports and its own state in `directory`.

    `kind`: ``solo`` (a master without ZooKeeper, agents s1..s3) or ``ha`` (ZooKeeper, masters m1..m3, agents a1..a3).
    Agents have cpus 4, 2, 1; mem 4096, 2048, 1024; a hundred ports each from `task_ports` on; attributes are in
    ``SPEC`` of mesosctl. `environment` reaches the processes, e.g. ``MESOS_CLUSTER``.
    """

    def __init__(self, directory: Path, kind: str = "solo", environment: dict[str, str] | None = None) -> None:
        self.kind = kind
        self.directory = directory
        self.base_port, base_claim = claim_base_port()
        self.task_ports, task_claim = claim_task_ports()
        self._claims = (base_claim, task_claim)
        self._environment = {
            **os.environ,
            "REALMESOS_PORT": str(self.base_port),
            "REALMESOS_RUN": str(directory),
            "REALMESOS_TASK_PORTS": str(self.task_ports),
            "REALMESOS_TASK_SPAN": str(TASK_SPAN),
            **(environment or {}),
        }

    # --- addresses --------------------------------------------------------------------------------------------------

    @property
    def masters(self) -> dict[str, str]:
        """``host:port`` by name."""
        if self.kind == "solo":
            return {"solo": f"127.0.0.1:{self.base_port}"}
        return {f"m{n}": f"127.0.0.1:{self.base_port + 10 * (n - 1)}" for n in (1, 2, 3)}

    @property
    def agents(self) -> list[str]:
        return [("s" if self.kind == "solo" else "a") + str(n) for n in (1, 2, 3)]

    @property
    def url(self) -> str:
        """As the scheduler takes it: all masters by address."""
        return "http://" + ",".join(self.masters.values())

    @property
    def zk_url(self) -> str:
        return f"zk://127.0.0.1:{self.base_port - 2869}/mesos"

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self) -> RealMesos:
        build()
        self._control("up", self.kind)
        return self

    def stop(self) -> None:
        """Ends all processes of the cluster, those of its tasks included, and makes sure that none is left."""
        self._control("down")
        wait_for(self._is_empty, 30, lambda: f"the end of {self.processes()}")
        for allocation in self._claims:
            allocation.close()

    def _is_empty(self) -> bool:
        """Kills the processes that are left: a task that was being started when its executor was killed has no parent
        that ends it."""
        left = self.processes()
        for pid in left:
            send_signal(pid, signal.SIGKILL)
        return not left

    def start_process(self, *names: str) -> None:
        self._control("start", *names)

    def stop_process(self, *names: str) -> None:
        self._control("stop", *names)

    def kill_process(self, *names: str) -> None:
        self._control("kill", *names)

    def pid_of(self, name: str) -> int | None:
        """Of a process of the cluster; None if it does not run."""
        try:
            pid = int((self.directory / name / "pid").read_text())
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ValueError):
            return None
        return pid if state != "Z" else None

    def suspend_process(self, name: str) -> None:
        """The process keeps its connections but does nothing until it is resumed."""
        self._signal(name, signal.SIGSTOP)

    def resume_process(self, name: str) -> None:
        """Does nothing if the process runs or is gone."""
        self._signal(name, signal.SIGCONT)

    def _signal(self, name: str, number: int) -> None:
        pid = self.pid_of(name)
        if pid is not None:
            send_signal(pid, number)

    def kill_agent(self, name: str, with_tasks: bool = False) -> None:
        """SIGKILL to the agent; `with_tasks` also to everything that runs on it, as if the machine had lost power."""
        self.kill_process(name)
        if with_tasks:
            for pid in self.task_pids(name):
                send_signal(pid, signal.SIGKILL)

    def task_pids(self, agent: str) -> list[int]:
        """Processes of executors and tasks of the agent, known by their folders, and all below them."""
        marks = tuple(f"{name}={self.directory / agent}/" for name in ("MESOS_DIRECTORY", LAUNCHER_FOLDER))
        found: set[int] = set()
        for process in Path("/proc").glob("[0-9]*"):
            if any(entry.startswith(marks) for entry in environment_of(process)):
                found |= {int(process.name), *living_descendants(int(process.name))}
        return sorted(found)

    def _end_tasks(self, agent: str) -> int:
        """Ends what runs on the agent; the number of its processes."""
        pids = self.task_pids(agent)
        for pid in pids:
            send_signal(pid, signal.SIGKILL)
        return len(pids)

    def processes(self) -> dict[int, str]:
        """All that was started by the cluster or runs in a folder of it: command lines by pid."""
        root, found = f"{self.directory}/", {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                folders = [os.readlink(process / "cwd"), *(e.partition("=")[2] for e in environment_of(process))]
                if any(f"{folder}/".startswith(root) for folder in folders):
                    found[int(process.name)] = (process / "cmdline").read_text("utf-8", "replace").replace("\0", " ")
            except OSError:
                continue  # ended meanwhile, or not ours
        return found

    def leader(self) -> str:
        """Name of the leading master; empty while there is none."""
        for name, address in self.masters.items():
            try:
                if get_json(address, "/master/state", 5.0).get("elected_time"):
                    return name
            except (OSError, ValueError):
                continue
        return ""

    def teardown(self, framework_id: str) -> None:
        """Ends the framework with all its tasks, as an operator would."""
        address = self.masters[self.wait_for_leader()]
        urllib.request.urlopen(f"http://{address}/teardown", f"frameworkId={framework_id}".encode(), timeout=60).close()

    def heal(self) -> None:
        """All processes of the cluster run again, all agents are registered, and neither a framework nor a process of a
        task is left: as after `start`, but for what the master remembers."""
        names = [*(["zk"] if self.kind == "ha" else []), *self.masters, *self.agents]
        for name in names:
            self.resume_process(name)
        self.start_process(*[name for name in names if self.pid_of(name) is None])
        self.wait_for_leader()
        self.wait_for_agents(len(self.agents))
        for framework in self.state()["frameworks"]:
            self.teardown(framework["id"])
        wait_for(lambda: sum(map(self._end_tasks, self.agents)) == 0, 60, "the end of all tasks")

    def end_abandoned(self) -> None:
        """Ends the frameworks that no scheduler is connected for."""
        self.wait_for_leader()
        for framework in self.state()["frameworks"]:
            if not framework["connected"]:
                self.teardown(framework["id"])

    def state(self) -> dict[str, Any]:
        """``/master/state`` of the leader."""
        return get_json(self.masters[self.leader()], "/master/state")

    def wait_for_leader(self, seconds: float = 60.0) -> str:
        return wait_for(self.leader, seconds, "a leading master")

    def wait_for_agents(self, count: int = 3, seconds: float = 60.0) -> None:
        def registered() -> bool:
            try:
                return len([agent for agent in self.state()["slaves"] if agent["active"]]) >= count
            except (KeyError, OSError, ValueError):
                return False

        wait_for(registered, seconds, f"{count} active agents")

    def log(self, name: str) -> str:
        return (self.directory / name / "log").read_text(errors="replace")

    def _control(self, *arguments: str) -> None:
        # Without site packages, which it does not need, and without a search for the interpreter: it is started often.
        command = [sys.executable, "-IS", str(HERE / "mesosctl"), *arguments]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {done.stdout}{done.stderr}")


def send_signal(pid: int, number: int) -> None:
    """Does nothing if the process is gone: it may have ended since it was looked up."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def environment_of(process: Path) -> list[str]:
    """What it was started with; nothing of one that has ended or is not ours. `process`: its folder in /proc."""
    try:
        return (process / "environ").read_text("utf-8", "replace").split("\0")
    except OSError:
        return []


def build() -> None:
    """Builds what is missing, once for all processes of the tests."""
    with (HERE / "setup.sh").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((HERE / program).exists() for program in PROGRAMS):
            subprocess.run([str(HERE / "setup.sh")], check=True)
        missing = [program for program in PROGRAMS if not (HERE / program).exists()]
        assert not missing, f"setup.sh did not make {missing}: without these no task starts"


class _KeepRedirects(urllib.request.HTTPRedirectHandler):
    """Masters that do not lead answer with a redirect, which is what we want to see."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_KeepRedirects)


def get_json(address: str, path: str, seconds: float = 60.0) -> dict[str, Any]:
    """Raises OSError (redirects and no answer within `seconds` included) or ValueError."""
    with _OPENER.open(f"http://{address}{path}", timeout=seconds) as answer:
        document = json.load(answer)
    return document if isinstance(document, dict) else {}


def claim_base_port() -> tuple[int, socket.socket]:
    """A base port whose derived ports are all free, and what holds it. Different processes start looking at different
    places."""
    span = (LAST_PORT - FIRST_PORT) // STEP
    for attempt in range(span):
        base = FIRST_PORT + STEP * ((os.getpid() * 7 + attempt) % span)
        allocation = held(base + CLAIM)
        if allocation is not None:
            if all(_is_free(base + offset) for offset in PORTS_USED):
                return base, allocation
            allocation.close()
    raise RuntimeError("no free ports for a Mesos cluster")


def claim_task_ports() -> tuple[int, socket.socket]:
    """First of the ports for tasks of a cluster, and what holds them."""
    for attempt in range(TASK_WINDOWS):
        window = (os.getpid() * 7 + attempt) % TASK_WINDOWS
        allocation = held(TASK_CLAIM + window)
        if allocation is not None:
            return FIRST_TASK_PORT + 3 * TASK_SPAN * window, allocation
    raise RuntimeError("no free ports for the tasks of a Mesos cluster")


def held(port: int) -> socket.socket | None:
    """Bound to the port; None if somebody else is."""
    sock = socket.socket()
    try:
        sock.bind(("127.0.0.1", port))
    except OSError:
        sock.close()
        return None
    return sock


def _is_free(port: int) -> bool:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
