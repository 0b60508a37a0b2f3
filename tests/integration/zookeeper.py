"""A real ZooKeeper for tests: Debian's package, as a process of its own on loopback, with its own port and data.

    server = ZooKeeperServer(folder)
    server.start()
    ... server.hosts ...
    server.stop()

The data survives stop and kill, so that start() after them is a restart. fsync is on, as in production. Three of them
together: tests.integration.zookeeperensemble.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

_JARS = Path("/usr/share/java/zookeeper.jar")
_CLASS_PATH = f"{_JARS}:/usr/share/java/slf4j-simple.jar"
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_JAVA_OPTIONS = ("-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
SHORT_LIVED = "-XX:TieredStopAtLevel=1"
"""Only the first compiler: up sooner, and for the load of a test a third less processor time in all."""
ARCHIVE = Path(__file__).resolve().parents[2] / "build" / "zookeeper.jsa"
MEMBER_ARCHIVE = ARCHIVE.with_name("zookeeper-member.jsa")
"""Classes of a standalone server, and of a member of an ensemble, as the Java machine holds them in memory.
`tests.integration.zookeeperarchive` writes these files."""
ARCHIVING = "-XX:ArchiveClassesAtExit="
_START_SECONDS = 60.0
_PORTS = range(32_000, 32_768)
"""Above those that clusters give to tasks, below those that Linux takes for outgoing connections: before a server
listens or while it is down, nobody else must get its ports by chance, least of all a client that wants to reach it."""
_CONFIGURATION = """\
tickTime=500
initLimit=20
syncLimit=10
minSessionTimeout=500
maxSessionTimeout=60000
maxClientCnxns=0
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
4lw.commands.whitelist=ruok,srvr,mntr
{quorum}"""


class ZooKeeperServer:
    """One server, standalone unless it is told of others. `hosts` is its connect string."""

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        *,
        number: int = 0,
        quorum: str = "",
        java: Sequence[str] = ("-Xmx384m", SHORT_LIVED),
    ) -> None:
        """`folder` takes configuration, data and log; `port` 0 chooses a free one. `quorum`: the configuration's lines
        about all members of an ensemble, of which this is member `number`. `java`: further options of the machine."""
        if not _JARS.exists() or shutil.which("java") is None:
            raise RuntimeError("ZooKeeper is not installed: apt-get install zookeeper default-jre-headless")
        self.folder = folder
        self.port = port or free_port()
        self._number, self._quorum, self._java = number, quorum, java
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Returns when the server answers; raises RuntimeError with the end of its log if it does not come up."""
        self.launch()
        self.wait_until_it_serves()

    def launch(self) -> None:
        """Returns at once: a member of an ensemble does not serve before it has found others."""
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        if self._number:
            (data / "myid").write_text(str(self._number))
        configuration = self.folder / "zoo.cfg"
        configuration.write_text(_CONFIGURATION.format(data=data, port=self.port, quorum=self._quorum))
        command = ["java", *self._java, *_JAVA_OPTIONS, "-cp", _CLASS_PATH, _MAIN, str(configuration)]
        archive = MEMBER_ARCHIVE if self._number else ARCHIVE
        if archive.exists() and not any(ARCHIVING in option for option in self._java):
            command.insert(1, f"-XX:SharedArchiveFile={archive}")
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)

    def wait_until_it_serves(self) -> None:
        """Raises RuntimeError as `start` does."""
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self.runs:
            if self.mode():
                return
            time.sleep(0.05)
        log = (self.folder / "log").read_text(errors="replace")[-2000:]
        self.kill()
        raise RuntimeError(f"ZooKeeper did not come up:\n{log}")

    def mode(self) -> str:
        """standalone, leader or follower; empty while it does not serve."""
        try:
            lines = self.command("srvr").splitlines()
        except OSError:
            return ""
        return next((line.removeprefix("Mode: ") for line in lines if line.startswith("Mode: ")), "")

    def is_damaged(self) -> bool:
        """It has found that its records are not those of the ensemble: a transaction is missing in its log."""
        lines = self.command("mntr").splitlines()
        counts = [line.split()[1] for line in lines if line.startswith("zk_digest_mismatches_count")]
        return any(float(count) > 0 for count in counts)

    def replace(self) -> None:
        """Stops it, deletes its data and starts it: a member of an ensemble takes all records from the leader."""
        self.stop()
        shutil.rmtree(self.folder / "data" / "version-2")
        self.start()

    def stop(self) -> None:
        """Ends it in order; does nothing if it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it as a power cut would."""
        self._end(signal.SIGKILL)

    def suspend(self) -> None:
        """It keeps its connections but does not answer any more."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def command(self, word: str) -> str:
        """The answer to one of ZooKeeper's four letter words; raises OSError."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5.0) as connection:
            connection.sendall(word.encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()

    def _signal(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGCONT)
        process.send_signal(number)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    """A port that nobody listens on now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on now."""
    found: list[int] = []
    with ExitStack() as probes:
        for port in random.sample(_PORTS, len(_PORTS)):
            probe = probes.enter_context(socket.socket())
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    raise RuntimeError(f"fewer than {count} free ports")
