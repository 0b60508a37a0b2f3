"""bcs_scheduler.executor.docker.address: a container learns the address that its engine draws."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.executor.docker import address
from bcs_scheduler.executor.docker.engine import Engine
from bcs_scheduler.executor.runtime import TaskError
from tests.component.executor.dockertasks import container_task, started
from tests.component.executor.standinengine import Container, StandInEngine

HOSTS = "127.0.0.1\tlocalhost\n::1 localhost ip6-localhost\n10.9.9.9 front-12\n172.17.0.5\tother front-1 f1\n"


@pytest.fixture
def with_shell(engine: StandInEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every image has a shell, and says what it runs."""
    made = Container.__init__

    def create(self: Container, *given: Any, **more: Any) -> None:
        made(self, *given, **more)
        self.files["/bin/sh"] = b"tar"

    monkeypatch.setattr(Container, "__init__", create)
    engine.config |= {"Entrypoint": ["/entry"], "Cmd": ["serve", "-v"]}


def told(tmp_path: Path, names: tuple[str, ...], *command: str) -> str:
    """What a program prints that is begun as in a container."""
    (tmp_path / "hosts").write_text(HOSTS)
    (tmp_path / "hostname").write_text("front-1\n")
    line = address.line(names, str(tmp_path / "hosts"), str(tmp_path / "hostname"))
    argv = ["/bin/sh", "-c", line, "/bin/sh", *command]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=10).stdout


def test_a_program_sees_the_address_in_every_variable_that_refers_to_it(tmp_path: Path) -> None:
    shown = told(tmp_path, ("MINE", "my.own", "OTHER"), "env")
    found = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
    assert {found[name] for name in ("BCS_CONTAINER_IP", "MINE", "my.own", "OTHER")} == {"172.17.0.5"}


def test_arguments_arrive_as_they_are(tmp_path: Path) -> None:
    assert told(tmp_path, (), "printf", "[%s]", "a b", "$HOME", "") == "[a b][$HOME][]"


@pytest.mark.usefixtures("with_shell")
def test_a_container_of_a_bridge_is_begun_through_its_shell(engine: StandInEngine, make: Any) -> None:
    started(make)
    body = engine.only().body
    assert body["Entrypoint"] == ["/bin/sh", "-c", address.line(()), "/bin/sh"]
    assert body["Cmd"] == ["/entry", "serve", "-v"]
    assert not any(item.startswith("BCS_CONTAINER_IP") for item in body["Env"])


@pytest.mark.usefixtures("with_shell")
@pytest.mark.parametrize(
    "known",
    [
        {"network_mode": "HOST"},
        {"network_mode": "NONE"},
        {"network_mode": "USER", "network": "b", "addresses": ("10.1.1.1",)},
    ],
)
def test_where_the_address_is_known_nothing_is_changed(engine: StandInEngine, make: Any, known: dict[str, Any]) -> None:
    started(make, **known)
    assert "Entrypoint" not in engine.only().body


def test_an_image_without_a_shell_runs_unless_a_variable_needs_the_address(engine: StandInEngine, make: Any) -> None:
    started(make)
    container = engine.only()
    assert "Entrypoint" not in container.body
    task = replace(container_task(), address_env=("MINE",))
    with pytest.raises(TaskError, match="MINE need the address of the container"):
        address.told(Engine(engine.path), container.id, {}, task)
