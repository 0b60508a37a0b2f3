"""Sessions with tasks of both executors, on the real Mesos and on the embedded cluster: streams, terminals, ends."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests

from tests.integration.devprocess import Dev
from tests.integration.forwarding import page_behind
from tests.integration.livefiles import contents_below
from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import PREFIX, SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = [pytest.mark.mesos, pytest.mark.slow, pytest.mark.rotating]

SERVER = ["python3", "-u", "-m", "http.server", "${bcs.ports.http}", "--bind", "127.0.0.1"]
CONTAINER = {
    "env": [{"name": "COLOUR", "value": "red"}],
    "resources": {"limits": {"cpu": "0.1", "memory": "96", "storage": "1"}},
    "ports": [{"name": "http", "protocol": "tcp", "containerPort": 0, "hostPort": 0}],
}
BIG = 3_000_000


class Place(NamedTuple):
    """A scheduler with one taskgroup of each executor: `bcs-app-0` and `mesos-app-0`."""

    name: str
    url: str
    executor: str

    @property
    def taskgroup(self) -> str:
        return f"{self.executor}-app-0"

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "BCS_SERVER": self.url, "BCS_NAMESPACE": "default", "TERM": "xterm"}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "bcs_scheduler.cli.main", *arguments]

    def bcs(self, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.command(*arguments), input=given, capture_output=True, env=self.environment, timeout=120
        )

    def groups(self, application: str) -> list[dict[str, Any]]:
        path = f"{self.url}{PREFIX}/namespaces/default/applications/{application}/taskgroups"
        found: list[dict[str, Any]] = requests.get(path, timeout=30).json()["data"]
        return found

    def exec(self, *argv: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        return self.exec_in(self.taskgroup, *argv, given=given)

    def exec_in(self, group: str, *argv: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        options = () if given is None else ("-i",)
        return self.bcs("exec", *options, group, "--", *argv, given=given or b"")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sessions")


def runs(groups: list[dict[str, Any]]) -> bool:
    return bool(groups) and all(group["Status"] == "Running" for group in groups)


@pytest.fixture(scope="module")
def real(real_mesos: RealMesos, folder: Path) -> Iterator[str]:
    (folder / "real").mkdir()
    scheduler = SchedulerProcess(folder / "real", f"sqlite:///{folder / 'store.db'}", real_mesos.url)
    scheduler.start().wait_ready()
    for executor in ("bcs", "mesos"):
        wanted = document(f"{executor}-app", 1, SERVER, container=CONTAINER) | {"executor": executor}
        scheduler.call("POST", "/namespaces/default/applications", wanted)
        wait_for(lambda name=f"{executor}-app": runs(scheduler.taskgroups(name)), what="a running taskgroup")  # type: ignore[misc]
    yield scheduler.url
    for executor in ("bcs", "mesos"):
        answer = scheduler.call("DELETE", f"/namespaces/default/applications/{executor}-app")
        scheduler.wait_transaction(answer["transactionID"])
    scheduler.stop()


@pytest.fixture(scope="module")
def embedded(folder: Path) -> Iterator[str]:
    (folder / "embedded").mkdir()
    dev = Dev(folder / "embedded")
    try:
        for executor in ("bcs", "mesos"):
            wanted = document(f"{executor}-app", 1, SERVER, container=CONTAINER) | {"executor": executor}
            path = folder / "embedded" / f"{executor}.json"
            path.write_text(json.dumps(wanted))
            dev.done("apply", "-f", str(path), "--wait")
        yield dev.url
    finally:
        dev.stop()


@pytest.fixture(params=["real-bcs", "embedded-bcs", "real-mesos", "embedded-mesos"])
def place(request: pytest.FixtureRequest) -> Place:
    cluster, executor = request.param.split("-")
    return Place(cluster, request.getfixturevalue(cluster), executor)


def test_streams_environment_and_exit_code(place: Place) -> None:
    done = place.exec("sh", "-c", "cat; echo $COLOUR $1; echo trouble >&2; exit 7", "sh", "a b", given=b"hi\n")
    assert (done.stdout, done.stderr, done.returncode) == (b"hi\nred a b\n", b"trouble\n", 7)
    assert place.exec("sh", "-c", "kill -9 $$").returncode == 128 + signal.SIGKILL
    assert place.exec("true").returncode == 0
    without_input = place.exec("cat")
    assert (without_input.stdout, without_input.returncode) == (b"", 0)
    assert place.exec("/no/such/program").returncode != 0


def test_streams_have_no_limit(place: Place) -> None:
    given = os.urandom(BIG)
    back = place.exec("cat", given=given)
    assert hashlib.sha256(back.stdout).digest() == hashlib.sha256(given).digest()
    assert back.returncode == 0
    long = place.exec("sh", "-c", f"head -c {BIG} /dev/zero; head -c {BIG} /dev/zero >&2")
    assert (len(long.stdout), len(long.stderr)) == (BIG, BIG)


class Attached:
    """`bcs attach` in the background. Its output is read with `line`."""

    def __init__(self, place: Place, *arguments: str) -> None:
        self.process = subprocess.Popen(
            place.command("attach", *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=place.environment
        )
        self._seen = {"stdout": b"", "stderr": b""}

    def seen(self, stream: str) -> bytes:
        pipe = self.process.stdout if stream == "stdout" else self.process.stderr
        assert pipe is not None
        while select.select([pipe], [], [], 0.05)[0] and (data := os.read(pipe.fileno(), 65536)):
            self._seen[stream] += data
        return self._seen[stream]

    def end(self) -> int:
        return self.process.wait(60)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def attached() -> Iterator[Callable[..., Attached]]:
    begun: list[Attached] = []

    def begin(place: Place, *arguments: str) -> Attached:
        begun.append(Attached(place, *arguments))
        return begun[-1]

    yield begin
    for each in begun:
        each.close()


def test_attach_prints_what_the_task_prints_from_now_on(place: Place, attached: Callable[..., Attached]) -> None:
    [group] = place.groups(f"{place.executor}-app")
    port = group["Taskgroup"][0]["PortMappings"][0]["HostPort"]
    requests.get(f"http://127.0.0.1:{port}/?before", timeout=30)
    user = attached(place, place.taskgroup)

    def asked() -> bool:
        requests.get(f"http://127.0.0.1:{port}/?now", timeout=30)
        return b"GET /?now" in user.seen("stderr")

    wait_for(asked, 60, "the output of the task")
    assert b"?before" not in user.seen("stderr")
    assert user.seen("stdout") == b""
    user.process.send_signal(signal.SIGINT)
    assert user.end() == 128 + signal.SIGINT
    [after] = place.groups(f"{place.executor}-app")
    assert (after["ID"], after["Status"], after["Taskgroup"][0]["Pid"]) == (
        group["ID"], "Running", group["Taskgroup"][0]["Pid"],
    )  # fmt: skip


def test_attach_ends_with_the_task_and_its_exit_code(
    place: Place, attached: Callable[..., Attached], tmp_path: Path
) -> None:
    name = f"{place.executor}-short"
    line = "until test -f go; do echo tick; sleep 0.05; done; echo last; echo worse >&2; exit 7"
    wanted = document(name, 1, ["sh", "-c", line]) | {"executor": place.executor}
    wanted |= {"restartPolicy": {"policy": "Never"}}
    (tmp_path / "short.json").write_text(json.dumps(wanted))
    made = place.bcs("apply", "-f", str(tmp_path / "short.json"), "--wait")
    assert made.returncode == 0, made.stderr.decode()
    try:
        user = attached(place, f"{name}-0")
        wait_for(lambda: b"tick" in user.seen("stdout"), 60, "the output of the task")
        # The end of the task ends all programs in its place, also the one that has just made the file.
        assert place.bcs("exec", f"{name}-0", "--", "touch", "go").returncode in (0, 128 + signal.SIGTERM)
        assert user.end() == 7
        assert user.seen("stdout").endswith(b"tick\nlast\n")
        assert user.seen("stderr") == b"worse\n"
    finally:
        place.bcs("delete", "application", name, "--wait")


def test_attach_with_input_names_what_is_missing(place: Place) -> None:
    refused = place.bcs("attach", "-i", place.taskgroup, given=b"x")
    assert refused.returncode == 6
    assert b"was started without an input" in refused.stderr


def _in_background() -> None:
    """As shells start what runs in the background: SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def test_ports_are_forwarded(place: Place) -> None:
    path = f"{place.url}{PREFIX}/namespaces/default/applications/{place.executor}-app/taskgroups"
    [group] = requests.get(path, timeout=30).json()["data"]
    port = group["Taskgroup"][0]["PortMappings"][0]["HostPort"]
    user = subprocess.Popen(
        place.command("port-forward", place.taskgroup, f":{port}"),
        stdout=subprocess.PIPE,
        preexec_fn=_in_background,
        env=place.environment,
    )
    try:
        assert user.stdout is not None
        told = re.match(rb"(\S+) leads to port", user.stdout.readline())
        assert told is not None
        wait_for(lambda: page_behind(told[1].decode()), 60, "the server behind the port")
        for _ in range(2):
            answer = requests.get(f"http://{told[1].decode()}/", timeout=60)
            assert answer.status_code == 200
            assert "Directory listing" in answer.text
    finally:
        user.terminate()
        user.wait(30)


@pytest.mark.parametrize("place", ["real-bcs", "embedded-bcs"], indirect=True)
def test_a_connection_to_a_port_on_which_nothing_listens_ends(place: Place) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        user = subprocess.Popen(
            place.command("port-forward", place.taskgroup, f":{taken.getsockname()[1]}"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=_in_background,
            env=place.environment,
        )
        try:
            assert user.stdout is not None and user.stderr is not None
            told = re.match(rb"(\S+):(\d+) leads to port", user.stdout.readline())
            assert told is not None
            with socket.create_connection((told[1].decode(), int(told[2])), timeout=30) as connection:
                assert connection.recv(100) == b""
            assert b"refused" in user.stderr.readline()
        finally:
            user.terminate()
            user.wait(30)


def test_folders_and_large_files_are_copied(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "site"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "deep" / "er" / "big").write_bytes(os.urandom(BIG))
    (source / "run").write_text("#!/bin/sh\n")
    (source / "run").chmod(0o755)
    (source / "link").symlink_to("run")
    (source / "empty").mkdir()

    def copied(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        done = place.bcs("cp", *arguments, given=given)
        assert done.returncode == 0, done.stderr.decode()
        return done

    group, name = place.taskgroup, tmp_path.name
    copied(str(source), f"{group}:{name}")
    listed = place.exec("sh", "-c", f"cd {name} && find . -type l -o -type f -perm -u+x -o -type d | sort").stdout
    assert listed.split() == [b".", b"./deep", b"./deep/er", b"./empty", b"./link", b"./run"]
    back = copied(f"{group}:{name}", str(tmp_path / "back"))
    assert (tmp_path / "back" / "deep" / "er" / "big").read_bytes() == (source / "deep" / "er" / "big").read_bytes()
    assert os.access(tmp_path / "back" / "run", os.X_OK)
    assert (tmp_path / "back" / "empty").is_dir()
    assert not os.path.lexists(tmp_path / "back" / "link")
    assert b"link: skipped" in back.stderr

    content = os.urandom(BIG)
    copied("-", f"{group}:{name}/given", given=content)
    (tmp_path / "file").write_bytes(content)
    copied(str(tmp_path / "file"), f"{group}:{name}")
    sums = place.exec("sh", "-c", f"cd {name} && sha256sum < given && sha256sum < file && ls -a | grep -c part").stdout
    assert sums.split() == [hashlib.sha256(content).hexdigest().encode(), b"-"] * 2 + [b"0"]

    folder = place.exec("pwd").stdout.decode().strip()
    copied(f"{group}:{folder}/{name}/given", str(tmp_path / "absolute"))
    assert (tmp_path / "absolute").read_bytes() == content
    assert place.bcs("cp", f"{group}:{folder}/nothing", str(tmp_path / "x")).returncode == 3
    assert place.bcs("cp", str(source), f"{group}:/proc/no/such").returncode == 1


def test_the_program_ends_with_its_user(place: Place) -> None:
    mark = new_mark()
    user = subprocess.Popen(
        place.command("exec", place.taskgroup, "--", "sh", "-c", f"echo ready; exec sleep {mark}"),
        stdout=subprocess.PIPE,
        env=place.environment,
    )
    try:
        assert user.stdout is not None
        assert user.stdout.readline() == b"ready\n"
        wait_for(lambda: running(mark), 30, "the program")
    finally:
        user.kill()
        user.wait()
    wait_for(lambda: not running(mark), 30, "the end of the program")


def new_mark() -> str:
    """A number of seconds that no other test sleeps for."""
    return f"9{time.time_ns() % 10**8}"


def running(mark: str) -> list[str]:
    """Processes whose last argument is that."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", mark.encode()]:
            found.append(process.name)
    return found


class Terminal:
    """`bcs` on a real pseudo-terminal."""

    def __init__(self, place: Place, *arguments: str, rows: int = 33, columns: int = 77) -> None:
        self.pid, self._master = pty.fork()
        if not self.pid:
            os.execvpe(sys.executable, place.command(*arguments), place.environment)
        self.resize(rows, columns)
        self.seen = b""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def raw(self) -> bool:
        return not termios.tcgetattr(self._master)[3] & termios.ICANON

    def type(self, text: bytes) -> None:
        os.write(self._master, text)

    def _reads(self) -> bool:
        """Reads what has come; False if `bcs` has ended."""
        if select.select([self._master], [], [], 0.05)[0]:
            try:
                self.seen += os.read(self._master, 65536)
            except OSError:  # no process has the terminal open any more
                return False
        return True

    def read(self) -> bytes:
        """All that has come and was not waited for."""
        self._reads()
        return self.seen

    def wait(self, pattern: bytes) -> re.Match[bytes]:
        """Reads until the pattern has come; what came up to it is forgotten. Fails when `bcs` has ended before."""

        def look() -> re.Match[bytes] | None:
            ended = not self._reads()
            found = re.search(pattern, self.seen)
            assert found or not ended, f"bcs ended with {self.end()} before {pattern!r} came; it printed {self.seen!r}"
            return found

        found = wait_for(look, 60, lambda: f"{pattern!r} in {self.seen[-500:]!r}; bcs waits in {self._waits_in()}")
        self.seen = self.seen[found.end() :]
        return found

    def _waits_in(self) -> str:
        """Functions of the kernel in which the threads of `bcs` wait."""
        functions = [data.decode() for path, data in contents_below(Path(f"/proc/{self.pid}/task"), "wchan")]
        return ", ".join(sorted(functions)) or "nothing: there is no such process"

    def end(self) -> int:
        """Exit code."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self) -> None:
        os.close(self._master)


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open_terminal(place: Place, *arguments: str) -> Terminal:
        opened.append(Terminal(place, *arguments))
        return opened[-1]

    yield open_terminal
    for each in opened:
        each.close()


def test_a_terminal(place: Place, terminal: Callable[..., Terminal]) -> None:
    user = terminal(place, "exec", "-it", place.taskgroup, "--", "sh")
    user.wait(rb"[#$] $")
    assert user.raw
    user.type(b"PS1=; tty; echo size $(stty size) $COLOUR $TERM\r")
    user.wait(rb"/dev/pts/\d+\r\n")
    user.wait(rb"size 33 77 red xterm\r\n")

    user.resize(20, 100)
    user.type(b"while [ \"$(stty size)\" != '20 100' ]; do sleep 0.05; done; echo now $(stty size)\r")
    user.wait(rb"now 20 100\r\n")

    mark = new_mark()
    user.type(f"trap 'echo interrupted by $?' INT; sleep {mark}\r".encode())
    user.wait(rf"sleep {mark}\r\n".encode())
    wait_for(lambda: running(mark), 30, "sleep")
    user.type(b"\x03")
    user.wait(rb"interrupted by 130\r\n")

    user.type(b"exit 9\r")
    assert user.end() == 9
    assert not user.raw


def test_a_terminal_is_as_before_when_a_signal_ends_the_command(
    place: Place, terminal: Callable[..., Terminal]
) -> None:
    mark = new_mark()
    user = terminal(place, "exec", "-it", place.taskgroup, "--", "sh", "-c", f"echo ready; exec sleep {mark}")
    user.wait(rb"ready")
    assert user.raw
    os.kill(user.pid, signal.SIGTERM)
    assert user.end() == 128 + signal.SIGTERM
    assert not user.raw
    wait_for(lambda: not running(mark), 30, "the end of the program")


INPUT = {"resources": {"limits": {"cpu": "0.1", "memory": "96", "storage": "1"}}, "stdin": True}
LOOP = 'echo begun; while read line; do echo got $line; test "$line" != end || exit 5; done'


@pytest.fixture
def launched(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Applies an application of one taskgroup, and returns the name of the taskgroup."""
    made: list[tuple[Place, str]] = []

    def launch(place: Place, name: str, line: str, **container: Any) -> str:
        wanted = document(name, 1, ["sh", "-c", line], container=container)
        wanted |= {"executor": place.executor, "restartPolicy": {"policy": "Never"}}
        (tmp_path / f"{name}.json").write_text(json.dumps(wanted))
        made.append((place, name))
        done = place.bcs("apply", "-f", str(tmp_path / f"{name}.json"), "--wait")
        assert done.returncode == 0, done.stderr.decode()
        return f"{name}-0"

    yield launch
    for place, name in made:
        place.bcs("delete", "application", name, "--wait")


@pytest.mark.parametrize("place", ["real-bcs", "embedded-bcs"], indirect=True)
def test_attach_writes_to_the_open_input_of_a_task(place: Place, launched: Callable[..., str]) -> None:
    """Several users one after the other: the end of the input of a user does not end the input of the task."""
    group = launched(place, "reader", LOOP, **INPUT)
    for word in (b"one", b"two"):
        with subprocess.Popen(
            place.command("attach", "-i", group),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=place.environment,
        ) as user:
            assert user.stdin is not None and user.stdout is not None
            user.stdin.write(word + b"\n")
            user.stdin.flush()
            assert user.stdout.readline() == b"got " + word + b"\n"
            user.stdin.close()
            user.terminate()
            assert user.wait(60) == 128 + signal.SIGTERM
    ended = place.bcs("attach", "-i", group, given=b"end\n")
    assert (ended.returncode, ended.stdout) == (5, b"got end\n")


@pytest.mark.parametrize("place", ["real-bcs", "embedded-bcs", "real-mesos"], indirect=True)
def test_attach_to_the_terminal_of_a_task(
    place: Place, terminal: Callable[..., Terminal], launched: Callable[..., str]
) -> None:
    size = 'test $line = size && line="size $(stty size) $TERM"; echo got $line'
    line = "trap 'echo interrupted; exit 5' INT; " + LOOP.replace("echo got $line", size)
    group = launched(place, f"{place.executor}-shell", line, **INPUT, tty=True)
    user = terminal(place, "attach", "-it", group)
    wait_for(lambda: user.raw, 60, "the session")
    user.type(b"hello\r")
    user.wait(rb"hello\r\n")
    user.wait(rb"got hello\r\n")
    user.type(b"size\r")
    user.wait(rb"got size 33 77 xterm\r\n")
    user.resize(20, 100)
    wait_for(lambda: (user.type(b"size\r"), b"20 100" in user.read())[1], 60, "the new size")  # type: ignore[func-returns-value]
    user.type(b"\x03")
    user.wait(rb"interrupted\r\n")
    assert user.end() == 5
    assert not user.raw


@pytest.mark.parametrize("place", ["real-bcs", "embedded-bcs", "real-mesos"], indirect=True)
def test_what_is_typed_directly_before_the_detach_keys_reaches_the_task(
    place: Place, terminal: Callable[..., Terminal], launched: Callable[..., str]
) -> None:
    group = launched(place, f"{place.executor}-last", LOOP, **INPUT, tty=True)
    for number in range(3):
        user = terminal(place, "attach", "-it", group)
        wait_for(lambda user=user: user.raw, 60, "the session")  # type: ignore[misc]
        user.type(b"first\r")
        user.wait(rb"got first")
        user.type(f"last {number}\r".encode() + b"\x10\x11")
        user.wait(rb"detached from")
        assert user.end() == 0

    def missing() -> list[int]:
        shown = place.bcs("logs", group).stdout
        return [number for number in range(3) if b"got last %d" % number not in shown]

    wait_for(lambda: not missing(), 30, lambda: f"the inputs {missing()}")


@pytest.mark.parametrize("place", ["embedded-mesos"], indirect=True)
def test_the_embedded_cluster_refuses_terminals_of_the_executor_of_mesos(place: Place, tmp_path: Path) -> None:
    wanted = document("no-terminal", 1, ["cat"], container={**INPUT, "tty": True}) | {"executor": "mesos"}
    wanted |= {"restartPolicy": {"policy": "Never"}}
    (tmp_path / "x.json").write_text(json.dumps(wanted))
    try:
        refused = place.bcs("apply", "-f", str(tmp_path / "x.json"), "--wait")
        assert refused.returncode != 0
        assert b"the embedded cluster has no terminals" in refused.stderr
    finally:
        place.bcs("delete", "application", "no-terminal", "--wait")


# --- bcs run -i -------------------------------------------------------------------------------------------------

RUN = ("--cpu", "0.1", "--memory", "64")
OURS = pytest.mark.parametrize("place", ["real-bcs", "embedded-bcs"], indirect=True)


def applications(place: Place) -> list[str]:
    return [line.split()[0] for line in place.bcs("get", "app", "--no-headers").stdout.decode().splitlines() if line]


@OURS
def test_run_has_the_streams_and_the_exit_code_of_the_task(place: Place) -> None:
    """The end of standard input ends the input of the task, and --rm removes the application."""
    given = os.urandom(100_000)
    line = "echo begin >&2; cat; exit 3"
    done = place.bcs("run", "-i", "--rm", "--name", "streams", *RUN, "--", "sh", "-c", line, given=given)
    assert (done.returncode, done.stdout, done.stderr) == (3, given, b"begin\n")
    assert "streams" not in " ".join(applications(place))


@OURS
@pytest.mark.parametrize("seconds", [0, 1])
def test_run_of_a_short_task_shows_its_output_once(place: Place, seconds: int) -> None:
    """The task ends before, or while, bcs attaches to it."""
    line = f"sleep {seconds}; echo hello; echo bad >&2; exit 4"
    done = place.bcs("run", "-i", "--rm", "--name", "short-lived", *RUN, "--", "sh", "-c", line)
    assert (done.returncode, done.stdout, done.stderr) == (4, b"hello\n", b"bad\n")


@OURS
def test_run_says_why_a_task_cannot_start(place: Place) -> None:
    done = place.bcs("run", "-i", "--rm", "--name", "unstartable", *RUN, "--", "/no/such/program")
    assert done.returncode == 1
    assert b"cannot start /no/such/program" in done.stderr
    assert "unstartable" not in " ".join(applications(place))


@OURS
def test_run_with_a_terminal(place: Place, terminal: Callable[..., Terminal]) -> None:
    """The prompt that was printed before bcs attached is shown, and the detach keys leave the task running."""
    line = "printf 'ready> '; " + LOOP.replace("echo begun; ", "").replace("got $line", "got $line in $(stty size)")
    user = terminal(place, "run", "-it", "--rm", "--name", "dialog", *RUN, "--", "sh", "-c", line)
    wait_for(lambda: b"ready> " in user.read(), 60, "the prompt")
    wait_for(lambda: user.raw, 60, "the session")
    user.type(b"one\r")
    user.wait(rb"got one in 33 77\r\n")
    user.type(b"\x10\x11")
    user.wait(rb"detached from dialog-0; the task runs on")
    assert user.end() == 0
    try:
        again = terminal(place, "attach", "-it", "--logs", "dialog-0")
        again.wait(rb"ready> one\r\ngot one in 33 77\r\n")
        wait_for(lambda: again.raw, 60, "the session")
        again.type(b"end\r")
        assert again.end() == 5
    finally:
        place.bcs("delete", "application", "dialog", "--wait")


def test_attach_begins_with_the_output_so_far_if_wanted(place: Place, attached: Callable[..., Attached]) -> None:
    [group] = place.groups(f"{place.executor}-app")
    port = group["Taskgroup"][0]["PortMappings"][0]["HostPort"]
    requests.get(f"http://127.0.0.1:{port}/?earlier", timeout=30)
    user = attached(place, "--logs", place.taskgroup)
    wait_for(lambda: b"GET /?earlier" in user.seen("stderr"), 60, "the output before")
    user.process.send_signal(signal.SIGINT)
    assert user.end() == 128 + signal.SIGINT
