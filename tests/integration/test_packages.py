"""The container image of `make image` and the Debian package of `make deb`, installed and started in an engine."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.security.tokens import hash_of, token_entry
from tests.integration.containerengine import CLIENT, ContainerEngine
from tests.sources import ROOT
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.rotating, pytest.mark.timeout(1200)]

BASE = "bcs-test/base:1"
VERSION = version("bcs-scheduler")
TOKEN = "token-of-the-test"
MESOS = "http://127.0.0.1:5050"
SECONDS = 90.0


def built(what: str, **environment: str) -> str:
    """What the build has made: the name of the image, or the path of the file."""
    kept = {"PACKAGE_CACHE_DAYS": "3650", "PATH": f"{CLIENT.parent}:{os.environ['PATH']}", **environment}
    done = subprocess.run(
        ["packaging/build.sh", what], cwd=ROOT, env={**os.environ, **kept}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


class Place:
    """A container without network, but for its own loopback."""

    def __init__(self, engine: ContainerEngine, name: str, *arguments: str) -> None:
        self.engine, self.name = engine, name
        engine.docker("run", "--detach", "--name", name, *arguments)

    def run(self, script: str, user: str = "") -> str:
        return self.engine.docker("exec", *(["--user", user] if user else []), self.name, "sh", "-ec", script)

    def succeeds(self, script: str) -> Callable[[], bool]:
        """Whether the script succeeds. Fails the test if the container has ended."""

        def attempt() -> bool:
            state = self.state()
            assert state["Running"], self.log()
            try:
                self.run(script)
            except AssertionError:
                return False
            return True

        return attempt

    def state(self) -> dict[str, Any]:
        found = self.engine.inspect(self.name)["State"]
        assert isinstance(found, dict)
        return found

    def log(self) -> str:
        return self.engine.docker("logs", self.name)


@pytest.fixture(scope="module")
def place(container_engine: ContainerEngine) -> Iterator[Callable[..., Place]]:
    names: list[str] = []

    def start(name: str, *arguments: str) -> Place:
        names.append(name)
        return Place(container_engine, name, *arguments)

    yield start
    for name in reversed(names):
        container_engine.docker("rm", "--force", "--volumes", name)


@pytest.fixture(scope="module")
def image(container_engine: ContainerEngine) -> str:
    return built("image", DOCKER_HOST=f"unix://{container_engine.socket}")


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.toml"
    path.write_text(token_entry("test", hash_of(TOKEN), "admin", ["*"]))
    path.chmod(0o644)
    return path


def test_the_image_runs_an_example(place: Callable[..., Place], image: str) -> None:
    dev = place("dev", "--network", "none", image, "dev", "--agents", "1", "--ports", "31000-31099")
    wait_for(dev.succeeds("bcs get servers"), SECONDS, "the API of the container")
    assert "bcs examples web.json | bcs apply -f -" in dev.log()
    dev.run("bcs examples web.json | bcs apply -f - --wait")
    found = json.loads(dev.run("bcs get taskgroups -o json"))
    assert [one["Status"] for one in found] == ["Running"] * 5
    dev.engine.docker("stop", "--time", "60", dev.name)
    assert dev.state()["ExitCode"] == 0, dev.log()


def test_the_image_serves_a_cluster(place: Callable[..., Place], image: str, tokens: Path) -> None:
    mesos = place("mesos", "--network", "none", image, "local-mesos", "--agents", "1")
    settings = {"BCS_MESOS_URL": MESOS, "BCS_STORE_URL": "sqlite:////var/lib/bcs-scheduler/state.db"}
    settings |= {"BCS_API_ADVERTISE": "http://127.0.0.1:8080"}
    options = [word for name, value in settings.items() for word in ("--env", f"{name}={value}")]
    options += ["--volume", f"{tokens}:/etc/bcs-scheduler/tokens.toml:ro", "--network", f"container:{mesos.name}"]
    scheduler = place("scheduler", *options, image)

    def healthy() -> bool:
        state = scheduler.state()
        assert state["Running"], scheduler.log()
        return bool(state["Health"]["Status"] == "healthy")

    wait_for(healthy, SECONDS, "the health check of the image")
    wait_for(scheduler.succeeds(f"BCS_TOKEN={TOKEN} bcs get agents | grep ready"), SECONDS, "an agent")


def test_the_debian_package_is_installed_and_its_unit_started(
    place: Callable[..., Place], container_engine: ContainerEngine
) -> None:
    package = Path(built("deb"))
    container_engine.docker("import", built("base"), BASE)
    host = place(
        "host", "--network", "none", "--volume", f"{ROOT / package.parent}:/packages:ro", BASE, "sleep", "3600"
    )
    host.run("rm /etc/dpkg/dpkg.cfg.d/99mmdebstrap")  # the base system leaves manual pages out, and says so to dpkg
    host.run(f"dpkg --force-unsafe-io --install /packages/{package.name}")
    assert host.run("dpkg --verify bcs-scheduler") == ""
    assert VERSION in host.run("cd /; bcs --version") and VERSION in host.run("cd /; bcs-scheduler --version")
    owned = host.run("stat -c %U:%G:%a /etc/bcs-scheduler/tokens.toml /var/lib/bcs-scheduler").split()
    assert owned == ["root:bcs-scheduler:640", "bcs-scheduler:bcs-scheduler:755"]
    files = host.run("dpkg -L bcs-scheduler").split()
    for file in ("man/man1/bcs-apply.1.gz", "bash-completion/completions/bcs", "zsh/vendor-completions/_bcs"):
        assert f"/usr/share/{file}" in files
    unit = host.run("cat /usr/lib/systemd/system/bcs-scheduler.service")
    (start,) = [line.removeprefix("ExecStart=") for line in unit.splitlines() if line.startswith("ExecStart=")]
    assert "User=bcs-scheduler" in unit.splitlines()
    host.run("cd /var/lib/bcs-scheduler; bcs-scheduler local-mesos --agents 1 >mesos.log 2>&1 &", "bcs-scheduler")
    settings = f"BCS_MESOS_URL={MESOS} BCS_STORE_URL=sqlite:////var/lib/bcs-scheduler/state.db"
    host.run(f"cd /; {settings} {start} >/var/lib/bcs-scheduler/log 2>&1 &", "bcs-scheduler")
    wait_for(host.succeeds("bcs get agents | grep ready"), SECONDS, "an agent")
    host.run("bcs examples process-simple.json | bcs apply -f - --wait")
    host.run("dpkg --force-unsafe-io --purge bcs-scheduler")
    left = host.run("ls -d /opt/bcs-scheduler /etc/bcs-scheduler /var/lib/bcs-scheduler 2>/dev/null || true")
    assert left == ""
