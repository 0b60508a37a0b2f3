"""The executor as one file: what is in it, that it runs, and how it is served."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import requests
from structlog.testing import capture_logs

from bcs_scheduler.api.routes import executor as route
from bcs_scheduler.executor_file import PACKAGE, build, executor_file, main
from bcs_scheduler.service import driver_factory, executor_options
from bcs_scheduler.settings.config import load_settings
from bcs_scheduler.settings.sections import ConfigError, ExecutorSettings, MesosSettings, Settings
from tests.component.apiserver import serving
from tests.unit.api_support import CoreGateway

PROGRAM = """
import sys

def main():
    from . import part
    print(part.__file__, part.__spec__.cached or "", *sys.argv[1:])
    return part.CODE
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "package"
    (folder / "inner").mkdir(parents=True)
    for name, text in {"__init__": "", "main": PROGRAM, "part": "CODE = 7", "inner/__init__": ""}.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "notes.txt").write_text("not part of it")
    return folder


def names(content: bytes) -> set[str]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return set(archive.namelist())


def run(file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", "-B", str(file), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


def without(content: bytes, suffix: str) -> bytes:
    """The archive without the files whose name ends so."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            if not name.endswith(suffix):
                new.writestr(name, old.read(name))
    return buffer.getvalue()


def test_it_holds_every_module_and_its_byte_code(package: Path) -> None:
    modules = {"__main__", *(f"bcs_executor/{name}" for name in ("__init__", "main", "part", "inner/__init__"))}
    assert names(build(package).content) == {f"{name}{suffix}" for name in modules for suffix in (".py", ".pyc")}


@pytest.mark.parametrize("dropped", [".pyc", ".py"], ids=["from source", "from byte code alone"])
def test_it_runs(package: Path, tmp_path: Path, dropped: str) -> None:
    """Byte code of another Python is passed over, which is as if it were not there."""
    file = tmp_path / "executor.pyz"
    file.write_bytes(without(build(package).content, dropped))
    done = run(file, "word")
    assert (done.returncode, done.stderr) == (7, "")
    assert done.stdout.split()[-1] == "word"


def test_foreign_byte_code_is_passed_over(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "MAGIC_NUMBER", b"\x00\x00\r\n")
    file = tmp_path / "executor.pyz"
    file.write_bytes(build(package).content)
    done = run(file)
    assert (done.returncode, done.stderr) == (7, "")


def test_the_same_sources_make_the_same_bytes(package: Path) -> None:
    first = build(package)
    assert first.digest == hashlib.sha256(first.content).hexdigest()
    for path in package.rglob("*.py"):
        os.utime(path, (1, 1))
    assert (build(package).name, build(package).content) == (first.name, first.content)
    (package / "part.py").write_text("CODE = 8")
    assert build(package).name != first.name


def test_the_name_needs_no_byte_code(package: Path) -> None:
    """A scheduler whose agents fetch nothing compiles nothing."""
    (package / "part.py").write_text("def")
    file = build(package)
    assert file.name.endswith(".pyz")
    with pytest.raises(SyntaxError):
        _ = file.content


def test_the_name_changes_with_the_python_that_compiles(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build(package).name
    monkeypatch.setattr(sys, "version", "4.0")
    assert build(package).name != before


def test_other_processes_make_the_same_bytes(tmp_path: Path) -> None:
    """Hash seeds and the order of imports have no say: schedulers of one release serve one file."""
    digests = set()
    for seed in ("1", "2"):
        target = tmp_path / seed / "bcs-executor.pyz"
        command = [sys.executable, "-m", "bcs_scheduler.executor_file", str(target)]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed}, timeout=60)
        digests.add(hashlib.sha256(target.read_bytes()).hexdigest())
    assert digests == {executor_file().digest}


def test_the_real_one_starts_and_says_what_it_lacks(tmp_path: Path) -> None:
    file = tmp_path / "bcs-executor.pyz"
    assert main([str(file)]) == 0
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", str(file)], capture_output=True, text=True, timeout=30, env={}
    )
    assert done.returncode == 2
    assert "is started by a Mesos agent" in done.stderr


def test_it_needs_nothing_but_python() -> None:
    """What a module imports is relative, or comes with Python."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(str(node.module).partition(".")[0])
    assert {"json", "os"} < found <= sys.stdlib_module_names


def test_the_command_line_wants_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err


class TestServing:
    def test_every_scheduler_serves_it_under_the_name_of_its_content(self) -> None:
        gateway = CoreGateway()
        gateway.stand_by("http://127.0.0.1:1")
        with serving(gateway) as api:
            answer = requests.get(route.location(api.url), timeout=30)
        assert answer.status_code == 200
        assert hashlib.sha256(answer.content).hexdigest() == executor_file().digest
        assert answer.headers["Content-Type"] == "application/zip"
        assert "immutable" in answer.headers["Cache-Control"]

    def test_another_hash_is_not_here_but_the_current_one_is_named(self) -> None:
        with serving(CoreGateway()) as api:
            answer = api.get("/executor/bcs-executor-000000000000.pyz")
        assert answer.status_code == 404
        assert executor_file().name in answer.json()["message"]

    def test_agents_are_sent_to_the_scheduler_unless_the_settings_name_a_place(self) -> None:
        own = executor_options(Settings(), "http://10.0.0.1:8080/")
        assert own.uri == f"http://10.0.0.1:8080/v4/scheduler/mesos/executor/{executor_file().name}"
        assert own.cache
        given = Settings(executor=ExecutorSettings(url="file:///opt/bcs-executor.pyz", python="python3.9", log_files=3))
        there = executor_options(given, "http://10.0.0.1:8080")
        assert (there.uri, there.cache, there.python, there.log_files) == (
            "file:///opt/bcs-executor.pyz",
            False,
            "python3.9",
            3,
        )

    @pytest.mark.parametrize(
        ("mesos", "advertise", "warned"),
        [
            ("http://10.0.0.9:5050", "", True),
            ("zk://10.0.0.9:2181/mesos", "", True),
            ("http://10.0.0.9:5050", "http://10.0.0.1:8080", False),
            ("http://127.0.0.1:5050", "", False),
        ],
    )
    def test_an_address_that_agents_cannot_reach_is_told(self, mesos: str, advertise: str, warned: bool) -> None:
        with capture_logs() as told:
            driver_factory(Settings(mesos=MesosSettings(url=mesos)), advertise or "http://127.0.0.1:8080")
        assert [line["log_level"] for line in told] == ["warning"] * warned

    @pytest.mark.parametrize(
        "url", ["file:///opt/bcs-executor.pyz", "http://files/bcs.pyz", "https://[::1]:81/a/b.pyz"]
    )
    def test_places_that_can_be_named(self, url: str) -> None:
        assert load_settings(None, {}, {"executor.url": url}).executor.url == url

    @pytest.mark.parametrize("url", ["bcs.pyz", "file://bcs.pyz", "file:///opt/", "http://files/", "ftp://files/b.pyz"])
    def test_places_that_cannot(self, url: str) -> None:
        with pytest.raises(ConfigError, match="executor-url"):
            load_settings(None, {}, {"executor.url": url})
