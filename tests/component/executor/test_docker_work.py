"""bcs_scheduler.executor.docker.runtime against a stand-in engine: images, output, files, commands, changes."""

from __future__ import annotations

import base64
import io
import json
import os
import subprocess
import tarfile
import uuid
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bcs_scheduler.executor.docker import command
from bcs_scheduler.executor.docker.engine import Engine
from bcs_scheduler.executor.docker.reap import reap
from bcs_scheduler.executor.docker.runtime import ContainerRuntime
from bcs_scheduler.executor.model import File, Registry, Volume
from bcs_scheduler.executor.runtime import Exit, TaskError
from tests.component.executor.dockertasks import IMAGE, TASKGROUP, container_task, directory_in, started
from tests.component.executor.standinengine import Command, StandInEngine
from tests.waiting import wait_for

# --- images -------------------------------------------------------------------------------------------------------


def test_the_policy_never_pulls_nothing(engine: StandInEngine, make: Any) -> None:
    engine.images.clear()
    with pytest.raises(TaskError, match="pull policy is Never"):
        make(pull_policy="Never").start()
    assert "POST /images/create" not in engine.lines()


def test_an_image_that_is_there_is_pulled_only_when_always(engine: StandInEngine, make: Any) -> None:
    started(make, pull_policy="Always").stop(1.0)
    assert engine.last("POST /images/create").query == {"fromImage": "reg.example.com/demo/front", "tag": "1"}
    engine.requests.clear()
    started(make, pull_policy="IfNotPresent")
    assert "POST /images/create" not in engine.lines()


def test_an_image_that_is_not_there_is_pulled_with_credentials_in_the_header_alone(
    engine: StandInEngine, make: Any
) -> None:
    engine.images.clear()
    started(make, registry=Registry("joe", "s3cret"))
    request = engine.last("POST /images/create")
    assert json.loads(base64.urlsafe_b64decode(request.headers["X-Registry-Auth"])) == {
        "username": "joe", "password": "s3cret", "serveraddress": "reg.example.com",
    }  # fmt: skip
    others = [r for r in engine.requests if r is not request]
    assert not any("s3cret" in str(r) or "X-Registry-Auth" in r.headers for r in others)


def test_a_failure_within_the_progress_of_a_pull(engine: StandInEngine, make: Any) -> None:
    engine.images.clear()
    engine.pull = [{"status": "Pulling"}, {"errorDetail": {"message": "unauthorized"}, "error": "unauthorized"}]
    with pytest.raises(TaskError, match=rf"image {IMAGE} cannot be pulled: unauthorized"):
        make(registry=Registry("joe", "s3cret")).start()
    assert "POST /containers/create" not in engine.lines()


def test_a_container_becomes_an_image_and_is_pushed(engine: StandInEngine, make: Any) -> None:
    found = started(make)
    assert found.commit("r:5/snap:2", "joe", "s3cret", 5.0) == "sha256:committed"
    assert engine.last("POST /commit").query == {"container": engine.only().id, "repo": "r:5/snap", "tag": "2"}
    push = engine.last("POST /images/r:5/snap/push")
    assert push.query == {"tag": "2"}
    assert json.loads(base64.urlsafe_b64decode(push.headers["X-Registry-Auth"]))["password"] == "s3cret"
    engine.push = [{"error": "denied"}]
    with pytest.raises(TaskError, match="made but cannot be pushed: denied"):
        found.commit("r:5/snap:2", "joe", "s3cret", 5.0)


# --- output -------------------------------------------------------------------------------------------------------


def test_output_goes_to_the_files_of_the_sandbox(engine: StandInEngine, make: Any, tmp_path: Path) -> None:
    found = started(make)
    engine.prints(engine.only(), b"one\n")
    engine.prints(engine.only(), b"bad\n", stderr=True)
    engine.prints(engine.only(), b"x" * 200_000 + b"\n")
    engine.ends(engine.only(), 0)
    found.wait()
    assert (directory_in(tmp_path) / "stdout").read_bytes() == b"one\n" + b"x" * 200_000 + b"\n"
    assert (directory_in(tmp_path) / "stderr").read_bytes() == b"bad\n"


def test_output_has_neither_gap_nor_double_over_a_break(engine: StandInEngine, make: Any, tmp_path: Path) -> None:
    found = started(make)
    container, file = engine.only(), directory_in(tmp_path) / "stdout"
    for at, text in (("2024-01-01T00:00:01Z", b"1\n"), ("2024-01-01T00:00:02.5Z", b"2\n")):
        engine.prints(container, text, at=at)
    engine.prints(container, b"3\n", at="2024-01-01T00:00:02.5Z")
    wait_for(lambda: file.exists() and file.read_bytes() == b"1\n2\n3\n")
    engine.cut()
    engine.prints(container, b"4\n", at="2024-01-01T00:00:02.5Z")
    engine.prints(container, b"5\n", at="2024-01-01T00:00:03Z")
    wait_for(lambda: file.read_bytes() == b"1\n2\n3\n4\n5\n")
    since = [r.query["since"] for r in engine.requests if r.path.endswith("/logs")]
    assert since[0] == "0" and "1704067202.5" in since
    engine.ends(container, 0)
    found.wait()
    assert file.read_bytes() == b"1\n2\n3\n4\n5\n"


# --- files --------------------------------------------------------------------------------------------------------


def archive_of(content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    with tarfile.open(fileobj=io.BytesIO(content)) as found:
        (entry,) = found.getmembers()
        file = found.extractfile(entry)
        assert file is not None
        return entry, file.read()


def tar(text: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as found:
        entry = tarfile.TarInfo("passwd")
        entry.size = len(text)
        found.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


def test_config_files_are_there_before_it_starts(engine: StandInEngine, make: Any) -> None:
    file = File(path="/etc/app.toml", data=base64.b64encode(b"a = 1").decode(), mode=0o600, owner="7:8")
    found = make(replace(container_task(), files=(file,)))
    found.start()
    identity = engine.only().id
    lines = engine.lines()
    assert lines.index(f"PUT /containers/{identity}/archive") < lines.index(f"POST /containers/{identity}/start")
    request = engine.last(f"PUT /containers/{identity}/archive")
    assert request.query == {"path": "/", "noOverwriteDirNonDir": "true"}
    entry, content = archive_of(request.content)
    assert (entry.name, entry.mode, entry.uid, entry.gid, content) == ("etc/app.toml", 0o600, 7, 8, b"a = 1")


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("reaped", [False, True])
def test_secrets_are_emptied_before_a_container_goes_or_stays(
    engine: StandInEngine, make: Any, keep: bool, reaped: bool
) -> None:
    """A volume and the sandbox outlive the container."""
    secret = File(path="/data/key", data=base64.b64encode(b"s").decode(), secret=True)
    public = File(path="/data/page", data=base64.b64encode(b"p").decode())
    parameters = (("rm", "false"),) if keep else ()
    found = make(replace(container_task(parameters=parameters), files=(secret, public)))
    found.start()
    identity = engine.only().id
    if reaped:
        reap(engine.path, TASKGROUP)
    else:
        found.stop(5.0)
    written = [archive_of(r.content) for r in engine.requests if r.line == f"PUT /containers/{identity}/archive"]
    placed, emptied_files = written[:2], written[2:]
    assert [(entry.name, content) for entry, content in placed] == [("data/key", b"s"), ("data/page", b"p")]
    # The reaper and the executor that sees the container end may both empty it.
    assert {(entry.name, content) for entry, content in emptied_files} == {("data/key", b"")}
    assert len(emptied_files) <= (2 if reaped else 1)
    lines = engine.lines()
    ended = [n for n, line in enumerate(lines) if line == f"POST /containers/{identity}/kill"]
    emptied = [n for n, line in enumerate(lines) if line == f"PUT /containers/{identity}/archive"]
    removed = [n for n, line in enumerate(lines) if line == f"DELETE /containers/{identity}"]
    assert ended[0] < emptied[-1]
    assert removed == [] if keep else removed[0] > emptied[-1]


def test_owners_by_name_are_those_of_the_image(engine: StandInEngine, make: Any) -> None:
    found = started(make)
    container = engine.only()
    container.files["/etc/passwd"] = tar("root:x:0:0::/:\napp:x:1000:1001::/:\n")
    container.files["/etc/group"] = tar("staff:x:50:\n")
    found.put("x/y", b"1", 0o644, "app:staff")
    entry, _ = archive_of(engine.last(f"PUT /containers/{container.id}/archive").content)
    assert (entry.name, entry.uid, entry.gid) == ("mnt/mesos/sandbox/x/y", 1000, 50)
    with pytest.raises(TaskError, match="knows no 'ghost'"):
        found.put("x", b"", 0o644, "ghost")


# --- commands -----------------------------------------------------------------------------------------------------


def run(found: ContainerRuntime, **options: Any) -> Any:
    return found.execute(["ls", "-l"], **{"env": {}, "timeout": 10.0, "limit": 100, **options})


def test_a_command_beside_the_container(engine: StandInEngine, make: Any) -> None:
    found = started(make)
    engine.next_command = Command([(False, b"out"), (True, b"err"), (False, b"put")], exit_code=2)
    done = run(found, env={"X": "1"}, user="app", working_dir="/srv", privileged=True)
    assert (done.code, done.stdout, done.stderr, done.truncated, done.timed_out) == (2, b"output", b"err", False, False)
    body = engine.last(f"POST /containers/{engine.only().id}/exec").body
    mark = body["Env"].pop()
    assert mark.startswith(f"{command.MARK}=")
    assert body == {
        "AttachStdout": True, "AttachStderr": True, "Tty": False, "Cmd": ["ls", "-l"], "Env": ["X=1"],
        "Privileged": True, "User": "app", "WorkingDir": "/srv",
    }  # fmt: skip
    assert engine.last("POST /exec/e0/start").body == {"Detach": False, "Tty": False}


def test_a_command_that_prints_too_much_is_cut(engine: StandInEngine, make: Any) -> None:
    found = started(make)
    engine.next_command = Command([(False, b"x" * 300_000), (True, b"short")])
    done = run(found)
    assert done.stdout == b"x" * 100 and done.stderr == b"short" and done.truncated


def test_a_command_that_hangs_is_killed(engine: StandInEngine, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = started(make)
    mark = uuid.UUID(int=7)
    monkeypatch.setattr(uuid, "uuid4", lambda: mark)
    with subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True, env={command.MARK: mark.hex}) as process:
        engine.next_command = Command([(False, b"so far")], hangs=True, process=process)
        done = run(found, timeout=3.0)
        assert done.timed_out and done.code is None and done.stdout == b"so far"
        assert process.wait(30) == -9


def test_a_command_that_cannot_be_ended_is_told(
    engine: StandInEngine, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "SETTLING", 0.1)
    found = started(make)
    engine.next_command = Command(hangs=True)
    with pytest.raises(TaskError, match="could not be ended"):
        run(found, timeout=1.0)


def test_no_command_where_nothing_runs(make: Any) -> None:
    with pytest.raises(TaskError, match="does not run"):
        run(make())


# --- changes ------------------------------------------------------------------------------------------------------


def test_a_restart_in_place_is_no_end(engine: StandInEngine, make: Any) -> None:
    found = started(make)
    container = engine.only()
    found.restart(10.0)
    assert container.started == 2 and engine.only() is container
    assert engine.last(f"POST /containers/{container.id}/restart").query == {"t": "3"}
    engine.ends(container, 5)
    assert found.wait().code == 5


def test_a_restart_with_another_environment_makes_another_container(
    engine: StandInEngine, make: Any, tmp_path: Path
) -> None:
    found = started(make)
    first = engine.only()
    engine.prints(first, b"first\n")
    found.put("note", b"kept", 0o644, "")
    found.set_env("A", "2")
    found.restart(10.0)
    second = engine.only()
    assert second.id != first.id and "A=2" in second.body["Env"] and "A=1" not in second.body["Env"]
    assert archive_of(engine.last(f"PUT /containers/{second.id}/archive").content)[1] == b"kept"
    assert found.detail().container_id == second.id
    engine.prints(second, b"second\n")
    engine.ends(second, 0)
    assert found.wait() == Exit(0, "exit code 0")
    assert (directory_in(tmp_path) / "stdout").read_bytes() == b"first\nsecond\n"


def test_a_restart_that_fails_ends_the_task_with_its_reason(engine: StandInEngine, make: Any) -> None:
    found = started(make)
    found.set_env("A", "2")
    engine.faults["POST /containers/create"] = [(500, "no space left on device")]
    with pytest.raises(TaskError, match="no space left"):
        found.restart(10.0)
    assert found.wait().message.startswith("the restart failed: ") and "no space left" in found.wait().message


def test_limits_change_while_it_runs(engine: StandInEngine, make: Any) -> None:
    found = started(make)
    found.limit(500, 64000)
    assert engine.last(f"POST /containers/{engine.only().id}/update").body == {
        "CpuPeriod": 100000, "CpuQuota": 50000, "Memory": 67108864, "MemorySwap": 67108864,
    }  # fmt: skip
    with pytest.raises(TaskError, match="neither"):
        found.limit(0, 1000)


def test_signals(engine: StandInEngine, make: Any) -> None:
    found = started(make)
    kill = f"POST /containers/{engine.only().id}/kill"
    found.signal(10, "")
    assert engine.last(kill).query == {"signal": "10"}
    found.reload(5.0)
    assert engine.last(kill).query == {"signal": "SIGHUP"}
    with subprocess.Popen(["sleep", "1000"]) as process:
        engine.top = [[str(process.pid), "a-process-with-"], [str(os.getpid()), "other"]]
        found.signal(15, "a-process-with-a-long-name")
        assert process.wait(30) == -15
    with pytest.raises(TaskError, match="no process 'ghost'"):
        found.signal(15, "ghost")


def test_private_volumes_are_made(engine: StandInEngine, make: Any, tmp_path: Path) -> None:
    started(make, volumes=(Volume("", "/data"),))
    assert (directory_in(tmp_path) / "volumes" / "0").stat().st_mode & 0o777 == 0o777
    assert f"{directory_in(tmp_path)}/volumes/0:/data" in engine.only().body["HostConfig"]["Binds"]


def test_a_process_that_only_has_the_number_of_a_command_is_spared() -> None:
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as stranger:
        answers = {"Running": True, "Pid": stranger.pid}
        killed = SimpleNamespace(call=lambda *request: answers)
        try:
            command._kill(cast(Engine, killed), "id", f"{command.MARK}=another")
            assert stranger.poll() is None
        finally:
            stranger.kill()
