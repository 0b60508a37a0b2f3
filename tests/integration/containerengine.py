"""A real container engine, Debian's docker.io, with folders, socket and networks of its own, and one small image."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.waiting import wait_for

DAEMON, CLIENT, BUSYBOX = Path("/usr/sbin/dockerd"), Path("/usr/bin/docker"), Path("/bin/busybox")
IMAGE = "bcs-test/busybox:1"
APPLETS = (
    *("sh", "cat", "cp", "echo", "env", "head", "httpd", "id", "kill", "ls", "mkdir", "rm"),
    *("sleep", "stty", "tail", "tar", "test", "touch", "tr", "wc"),
)
START_SECONDS, STOP_SECONDS, ANSWER_SECONDS = 60.0, 60.0, 60.0


class ContainerEngine:
    """Neither bridge nor rules of iptables exist on the host: networks are made by `network`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Paths of sockets have at most 107 characters, and those of containerd are below this one.
        self._sockets = tempfile.TemporaryDirectory(prefix="bcs-engine-", dir="/tmp")
        self.socket = f"{self._sockets.name}/engine.sock"
        self._log = folder / "engine.log"
        self._networks: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> ContainerEngine:
        settings = self._folder / "daemon.json"
        settings.write_text("{}")
        command = [str(DAEMON), f"--config-file={settings}", f"--host=unix://{self.socket}"]
        command += [f"--data-root={self._folder / 'data'}", f"--exec-root={self._sockets.name}/exec"]
        command += [f"--pidfile={self._sockets.name}/pid", "--bridge=none"]
        command += ["--iptables=false", "--ip6tables=false"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        wait_for(self._answers, START_SECONDS, "the container engine")
        self._make_image()
        return self

    def stop(self) -> None:
        """Ends the engine, with its containers and networks."""
        process = self._process
        if process is None:
            return
        try:
            if process.poll() is None:
                for container in self.containers():
                    self.docker("rm", "--force", container)
                for network in self._networks:
                    self.docker("network", "rm", network)
        finally:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            self._unmount()
            self._sockets.cleanup()

    def _unmount(self) -> None:
        """The engine leaves the network namespace of the host mounted below its folder."""
        mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        for place in (mount for mount in mounts if mount.startswith(f"{self._sockets.name}/")):
            subprocess.run(["umount", place], check=True)

    def docker(self, *arguments: str) -> str:
        """Standard output of a command of the engine's own client, which must succeed."""
        done = subprocess.run(
            [str(CLIENT), "--host", f"unix://{self.socket}", *arguments],
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
            env={"PATH": os.environ["PATH"], "HOME": str(self._folder)},
        )
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    def containers(self, name: str = "") -> list[str]:
        """Ids of the containers, running or not, of the taskgroups whose ids contain `name`; empty = of all."""
        found = self.docker("ps", "--all", "--no-trunc", "--format", '{{.ID}} {{.Label "io.bcs.taskgroup"}}')
        return [line.split()[0] for line in found.splitlines() if name in line.partition(" ")[2]]

    def inspect(self, container: str) -> dict[str, object]:
        found: list[dict[str, object]] = json.loads(self.docker("inspect", container))
        return found[0]

    def network(self, name: str) -> str:
        """Makes a network with addresses of its own. Returns its name."""
        self.docker("network", "create", "--driver", "bridge", name)
        self._networks.append(name)
        return name

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, self.log()[-3000:]
        return Path(self.socket).exists() and "API listen on" in self.log()

    def _make_image(self) -> None:
        archive = self._folder / "image.tar"
        with tarfile.open(archive, "w") as made:
            made.add(BUSYBOX, "bin/busybox")
            for applet in APPLETS:
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                made.addfile(link)
            folder = tarfile.TarInfo("tmp")
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
            made.addfile(folder)
        self.docker("import", str(archive), IMAGE)
