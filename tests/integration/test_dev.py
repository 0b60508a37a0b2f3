"""`bcs-scheduler dev`: what it opens, what it says, and what --keep keeps."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from bcs_scheduler.local.objects.ports import PortClaim, used_ports
from bcs_scheduler.local.settings import PORT_STRIDE, USUAL_PORTS, ClusterSettings
from bcs_scheduler.processes import living_descendants
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

LISTENS = "0A"


class Dev:
    """One run on a folder. `said`: the lines that it has printed so far."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder, self._log = folder, folder / f"dev-{len(list(folder.glob('dev-*')))}.log"
        command = [sys.executable, "-m", "bcs_scheduler.main", "dev", f"--data={folder / 'data'}", *options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BCS_")}
        self._process = self._started(command, environment)
        said = wait_for(self._introduced, 60, "the scheduler")
        assert said is not None
        self.said = said

    def _started(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        with self._log.open("w") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def _introduced(self) -> str | None:
        said = self._log.read_text()
        assert self._process.poll() is None, said
        return said if "Ctrl-C" in said and said.endswith("\n") else None

    @property
    def url(self) -> str:
        return str(re.findall(r"^api (\S+)$", self.said, re.MULTILINE)[0])

    @property
    def addresses(self) -> set[tuple[str, int]]:
        """Host and port of every URL that it printed."""
        return {(host, int(port)) for host, port in re.findall(r"http://([\d.]+):(\d+)", self.said)}

    @property
    def task_ports(self) -> list[tuple[int, int]]:
        return [(int(a), int(b)) for a, b in re.findall(r"ports of tasks (\d+)-(\d+)$", self.said, re.MULTILINE)]

    @property
    def processes(self) -> set[int]:
        kept = {int(pid) for pid in re.findall(r"process (\d+)\)", self.said)}
        roots = {self._process.pid} | kept
        return roots | {pid for root in roots for pid in living_descendants(root)}

    def bcs(self, *arguments: str) -> Any:
        result = subprocess.run(
            [sys.executable, "-m", "bcs_scheduler.cli.main", *arguments],
            capture_output=True,
            env={**os.environ, "BCS_SERVER": self.url, "BCS_OUTPUT": "json", "BCS_CONFIG": os.devnull},
            timeout=120,
        )
        assert result.returncode == 0, result.stderr.decode()
        return json.loads(result.stdout) if result.stdout else None

    def interrupt(self) -> str:
        """Ends it like Ctrl-C. Returns what it said at the end."""
        self._process.send_signal(signal.SIGINT)
        try:
            assert self._process.wait(60) == 0, self._log.read_text()
        finally:
            self.kill()
        return self._log.read_text().removeprefix(self.said)

    def interrupt_once(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def wait(self) -> None:
        """Waits for the end, which must be in order."""
        try:
            assert self._process.wait(60) == 0
        finally:
            self.kill()

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _take_terminal() -> None:
    """Makes standard input the terminal of this new session. Tests may run with `nohup`."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class OnTerminal(Dev):
    """The same on a terminal of its own."""

    def _started(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        self._ours, theirs = pty.openpty()
        try:
            return subprocess.Popen(
                command,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
                env=environment,
                start_new_session=True,
                preexec_fn=_take_terminal,
            )
        finally:
            os.close(theirs)

    def _introduced(self) -> str | None:
        while select.select([self._ours], [], [], 0)[0]:
            with self._log.open("ab") as log:
                log.write(os.read(self._ours, 65_536).replace(b"\r\n", b"\n"))
        return super()._introduced() if self._log.exists() else None

    def close_terminal(self) -> None:
        os.close(self._ours)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Ends what a test has left running."""
    yield tmp_path
    record = tmp_path / "data" / "mesos" / "process.json"
    if record.exists():
        os.kill(json.loads(record.read_text())["pid"], signal.SIGTERM)


def listening(processes: set[int]) -> set[tuple[str, int]]:
    """Addresses on which these processes take connections or datagrams, from /proc."""
    inodes = set()
    for pid in processes:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(entry)
            except FileNotFoundError:  # closed since it was listed
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found = set()
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes and (fields[3] == LISTENS or table.startswith("udp")):
                host, port = fields[1].split(":")
                packed = b"".join(bytes.fromhex(host[at : at + 8])[::-1] for at in range(0, len(host), 8))
                shown = socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
                found.add((shown, int(port, 16)))
    return found


@pytest.mark.parametrize("options", [(), ("--keep",)])
def test_it_listens_on_the_addresses_that_it_prints_and_on_no_other(folder: Path, options: tuple[str, ...]) -> None:
    dev = Dev(folder, "--agents=2", "--api=127.0.0.1:0", *options)
    try:
        assert dev.said.startswith("api http://"), "a warning stands before the address"
        assert listening(dev.processes) == dev.addresses
        assert len(dev.addresses) == 4 and {host for host, _ in dev.addresses} == {"127.0.0.1"}
    finally:
        dev.interrupt()


PAGES = (
    {"Host": "page.example"},
    {"Host": "page.example", "Origin": "http://page.example"},
    {"Origin": "http://page.example"},
    {"Origin": "null"},
)
"""Requests of a page under a name that leads to this machine, and of a page of another site."""


def test_no_server_takes_requests_of_pages_of_other_sites(folder: Path) -> None:
    run = Dev(folder, "--agents=1", "--api=127.0.0.1:0")
    try:
        servers = listening(run.processes)
        assert len(servers) == 3, "API, master and agent"
        for host, port in servers:
            url = f"http://{host}:{port}/version"
            assert requests.get(url, headers={"Host": f"localhost:{port}"}, timeout=60).status_code in (200, 404)
            for headers in PAGES:
                assert requests.get(url, headers=headers, timeout=60).status_code == 403, (url, headers)
        (master,) = re.findall(r"^mesos (\S+)", run.said, re.MULTILINE)
        for headers in PAGES:
            for path in ("/control", "/api/v1/scheduler", "/master/api/v1", "/state"):
                answer = requests.post(f"{master}{path}", data=b'{"action": "tasks"}', headers=headers, timeout=60)
                assert (answer.status_code, answer.text[:15]) == (403, "without a token"), (path, headers)
    finally:
        run.interrupt()


def test_ports_of_tasks_are_free_ones_and_no_two_clusters_share_them(folder: Path, tmp_path_factory: Any) -> None:
    before = used_ports()
    first = Dev(folder, "--agents=2", "--api=127.0.0.1:0")
    second = None
    try:
        second = Dev(tmp_path_factory.mktemp("second"), "--agents=1", "--api=127.0.0.1:0")
        ranges = first.task_ports + second.task_ports
        assert len(ranges) == len(set(ranges)) == 3
        used = before & used_ports()  # other programs may take ports of the ranges later
        assert not [port for begin, end in ranges for port in used if begin <= port <= end]
    finally:
        first.interrupt()
        if second is not None:
            second.interrupt()


def test_a_block_with_a_port_in_use_is_passed_over() -> None:
    claims = PortClaim(), PortClaim()
    try:
        begin = int(claims[0].take(1).partition("-")[0])
        claims[0].close()
        with socket.create_server(("127.0.0.1", begin + 7)):
            assert int(claims[1].take(1).partition("-")[0]) > begin
            assert int(USUAL_PORTS.partition("-")[0]) % PORT_STRIDE == begin % PORT_STRIDE
    finally:
        for claim in claims:
            claim.close()


def test_keep_leaves_tasks_running_and_the_next_start_resumes_them(folder: Path) -> None:
    seconds = str(86_400 + os.getpid())
    dev = Dev(folder, "--keep", "--agents=1", "--api=127.0.0.1:0")
    assert "the cluster (process" in dev.said and f"bcs-scheduler dev --keep --data {folder / 'data'}" in dev.said
    dev.bcs("run", "--name", "web", "--wait", "--", "/bin/sleep", seconds)
    (group,) = dev.bcs("get", "tg")
    before = sleepers(seconds)
    assert len(before) == 1
    said = dev.interrupt()
    assert "continues to run, with 1 task." in said and f"bcs-scheduler dev --keep --data {folder / 'data'}" in said
    assert sleepers(seconds) == before

    dev = Dev(folder, "--api=127.0.0.1:0")
    assert "(resumed, 1 agent)" in dev.said
    assert "Ctrl-C ends the scheduler, the cluster and all tasks." in dev.said
    wait_for(lambda: [one["Status"] for one in dev.bcs("get", "tg")] == ["Running"], 60, "the taskgroup")
    assert [one["ID"] for one in dev.bcs("get", "tg")] == [group["ID"]]
    assert sleepers(seconds) == before
    dev.interrupt()
    wait_for(lambda: not sleepers(seconds), 30, "the end of the tasks")
    assert not (folder / "data" / "mesos" / "process.json").exists()


def start_tasks(dev: Dev, folder: Path, seconds: str, grace: int) -> None:
    """Two tasks: one writes a file when it gets SIGTERM, and ends; the other ignores SIGTERM, with all its processes,
    one of which is in a session of its own."""
    polite = f"trap 'echo > {folder}/asked; exit 0' TERM; while true; do sleep 0.1; done"
    stubborn = f"trap '' TERM; setsid sleep {seconds} & sleep {seconds}"
    for name, script in (("polite", polite), ("stubborn", stubborn)):
        spec = {
            "kind": "application",
            "metadata": {"name": name},
            "killPolicy": {"gracePeriod": grace},
            "spec": {
                "instance": 1,
                "template": {"spec": {"containers": [{"command": "/bin/sh", "args": ["-c", script]}]}},
            },
        }
        document = folder / f"{name}.json"
        document.write_text(json.dumps(spec))
        dev.bcs("apply", "-f", str(document), "--wait")
    wait_for(lambda: len(sleepers(seconds)) == 2, 60, "the processes")


@pytest.mark.parametrize("options", [(), ("--keep",)])
def test_the_end_of_the_cluster_asks_tasks_first_and_kills_the_rest(folder: Path, options: tuple[str, ...]) -> None:
    seconds = str(86_400 + os.getpid())
    dev = Dev(folder, "--agents=1", "--api=127.0.0.1:0", *options)
    start_tasks(dev, folder, seconds, grace=1)
    if options:
        assert "with 2 tasks" in dev.interrupt() and not (folder / "asked").exists()
        dev = Dev(folder, "--api=127.0.0.1:0")
    assert "Ending 2 tasks with SIGTERM" in dev.interrupt()
    assert (folder / "asked").exists() and not sleepers(seconds)


@pytest.mark.parametrize("options", [(), ("--keep",)])
def test_a_second_signal_kills_tasks_in_their_grace_period(folder: Path, options: tuple[str, ...]) -> None:
    seconds = str(86_400 + os.getpid())
    dev = Dev(folder, "--agents=1", "--api=127.0.0.1:0", *options)
    start_tasks(dev, folder, seconds, grace=3600)
    if options:
        dev.interrupt()
        dev = Dev(folder, "--api=127.0.0.1:0")
    dev.interrupt_once()
    wait_for(lambda: (folder / "asked").exists(), 60, "the first signal")
    assert len(sleepers(seconds)) == 2
    since = time.monotonic()
    dev.interrupt()
    assert time.monotonic() - since < ClusterSettings().end_grace  # which the first signal alone would take
    assert not sleepers(seconds)


@pytest.mark.parametrize("options", [(), ("--keep",)])
def test_the_end_of_the_terminal_is_the_end_of_the_program(folder: Path, options: tuple[str, ...]) -> None:
    """Before, a closed window left a cluster that nobody saw. SIGHUP is what the kernel sends."""
    seconds = str(86_400 + os.getpid())
    dev = OnTerminal(folder, "--agents=1", "--api=127.0.0.1:0", *options)
    start_tasks(dev, folder, seconds, grace=1)
    dev.close_terminal()
    dev.wait()
    assert (folder / "asked").exists() == (not options)
    assert len(sleepers(seconds)) == (2 if options else 0)
    if options:
        Dev(folder, "--api=127.0.0.1:0").interrupt()
        assert not sleepers(seconds)


def test_a_kept_cluster_is_not_resumed_with_other_agents(folder: Path) -> None:
    Dev(folder, "--keep", "--agents=1", "--api=127.0.0.1:0").interrupt()
    command = [sys.executable, "-m", "bcs_scheduler.main", "dev", f"--data={folder / 'data'}", "--agents=2"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert "agents: the cluster that runs in" in result.stderr and "has 1, not 2" in result.stderr
    dev = Dev(folder, "--api=127.0.0.1:0")
    assert "resumed" in dev.said
    dev.interrupt()


def sleepers(seconds: str) -> set[int]:
    """Processes `sleep SECONDS`."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"sleep") and seconds.encode() in words:
                found.add(int(entry.name))
    return found


def test_a_kill_of_the_process_that_starts_tasks_is_made_good(folder: Path) -> None:
    """Twice, and for tasks that leave processes in sessions of their own. No process of before is left when the
    taskgroups run again."""
    seconds = str(86_400 + os.getpid())
    dev = Dev(folder, "--api=127.0.0.1:0")
    script = f"setsid sleep {seconds} & exec sleep {seconds}"
    spec = {
        "kind": "application",
        "metadata": {"name": "web"},
        "restartPolicy": {"policy": "Always", "interval": 0, "backoff": 0},
        "spec": {
            "instance": 6,
            "template": {"spec": {"containers": [{"command": "/bin/sh", "args": ["-c", script]}]}},
        },
    }
    (folder / "web.json").write_text(json.dumps(spec))
    dev.bcs("apply", "-f", str(folder / "web.json"), "--wait")
    groups, pids = {one["ID"] for one in dev.bcs("get", "tg")}, sleepers(seconds)
    for _ in range(2):
        assert len(groups) == 6 and len(pids) == 12
        (helper,) = [pid for pid in dev.processes if b"launcher.py" in commandline(pid)]
        os.kill(helper, signal.SIGKILL)

        def run_again(groups: set[str] = groups) -> bool:
            found = dev.bcs("get", "tg")
            return {one["Status"] for one in found} == {"Running"} and groups.isdisjoint(one["ID"] for one in found)

        wait_for(run_again, 60, lambda: f"the taskgroups: {dev.bcs('get', 'tg')}")
        assert not sleepers(seconds) & pids
        wait_for(lambda: len(sleepers(seconds)) == 12, 30, "the processes")
        groups, pids = {one["ID"] for one in dev.bcs("get", "tg")}, sleepers(seconds)
    dev.interrupt()
    wait_for(lambda: not sleepers(seconds), 30, "the end of the tasks")


def commandline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
