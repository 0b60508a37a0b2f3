"""bcs_scheduler.executor.docker.runtime against a stand-in engine: the life of a container, and what is done to it."""

from __future__ import annotations

import socket
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.executor.docker import note, runtime
from bcs_scheduler.executor.docker.engine import Engine
from bcs_scheduler.executor.docker.reap import reap, sweep
from bcs_scheduler.executor.runtime import Exit, TaskError
from tests.component.executor.dockertasks import ID, IMAGE, TASKGROUP, started, stopping
from tests.component.executor.standinengine import StandInEngine, frame
from tests.waiting import wait_for

# --- life ---------------------------------------------------------------------------------------------------------


def test_a_container_starts_and_ends_by_itself(engine: StandInEngine, make: Any) -> None:
    found = started(make)
    container = engine.only()
    assert container.name == f"bcs-{ID}"
    detail = found.detail()
    assert (detail.pid, detail.container_id, detail.container_ip) == (4711, container.id, "172.17.0.2")
    assert detail.started_at == 1704067200.5 and detail.finished_at == 0.0
    assert found.address() == "172.17.0.2"
    engine.ends(container, 3)
    assert found.wait() == Exit(3, "exit code 3")
    assert engine.containers == {}, "it is removed"
    assert (found.detail().exit_code, found.detail().pid, found.detail().finished_at) == (3, 0, 1704067209.0)


def test_the_requests_of_a_life(engine: StandInEngine, make: Any) -> None:
    found = started(make)
    identity = engine.only().id
    engine.ends(engine.only(), 0)
    found.wait()
    lines = [line for line in engine.lines() if not line.startswith("GET /containers")]
    assert lines == [
        "GET /_ping",
        f"GET /images/{IMAGE}/json",
        f"DELETE /containers/bcs-{ID}",
        "POST /containers/create",
        f"POST /containers/{identity}/start",
        f"POST /containers/{identity}/wait",
        f"DELETE /containers/{identity}",
    ]
    assert engine.last(f"DELETE /containers/{identity}").query == {"force": "true", "v": "true"}


def test_out_of_memory_is_told(engine: StandInEngine, make: Any) -> None:
    found = started(make)
    engine.ends(engine.only(), 137, oom=True)
    ended = found.wait()
    assert ended.oom and ended.code == 137 and "memory" in ended.message
    assert found.detail().oom


def test_stop_asks_with_the_signal_of_the_image(engine: StandInEngine, make: Any) -> None:
    engine.config["StopSignal"] = "SIGQUIT"
    found = started(make)
    found.stop(30.0)
    kills = [request.query["signal"] for request in engine.requests if request.path.endswith("/kill")]
    assert kills == ["SIGQUIT"]
    assert found.wait().code == 143
    assert engine.containers == {}


def test_stop_kills_what_does_not_obey(engine: StandInEngine, make: Any) -> None:
    engine.obeys.clear()
    found = started(make)
    found.stop(0.1)
    kills = [request.query["signal"] for request in engine.requests if request.path.endswith("/kill")]
    assert kills[:2] == ["SIGTERM", "SIGKILL"]
    assert found.wait().code == 137


def test_a_second_stop_cuts_the_grace_period(engine: StandInEngine, make: Any) -> None:
    engine.obeys.clear()
    found = started(make)
    first = stopping(found, 3600.0)
    wait_for(lambda: any(line.endswith("/kill") for line in engine.lines()))
    found.stop(0.0)
    first.join(30)
    assert not first.is_alive() and found.wait().code == 137


def test_stop_before_the_start(make: Any) -> None:
    found = make()
    found.stop(1.0)
    assert found.wait().code is None
    with pytest.raises(TaskError, match="stopped"):
        found.start()


def test_stop_gives_up_a_pull(engine: StandInEngine, make: Any) -> None:
    engine.stalled.set()
    found = make(pull_policy="Always")
    failed: list[TaskError] = []

    def start() -> None:
        try:
            found.start()
        except TaskError as error:
            failed.append(error)

    starting = threading.Thread(target=start)
    starting.start()
    wait_for(lambda: "POST /images/create" in engine.lines())
    found.stop(60.0)
    starting.join(30)
    assert not starting.is_alive() and "being stopped" in str(failed[0])
    assert engine.containers == {}


def test_rm_false_keeps_the_container(engine: StandInEngine, make: Any) -> None:
    found = started(make, parameters=(("rm", "false"),))
    found.stop(5.0)
    assert not engine.only().running


def test_a_leftover_of_an_earlier_attempt_goes(engine: StandInEngine, make: Any) -> None:
    started(make, parameters=(("rm", "false"),)).stop(5.0)
    old = engine.only().id
    started(make)
    assert engine.only().id != old


def test_a_container_removed_from_outside_is_noticed(engine: StandInEngine, make: Any) -> None:
    found = started(make)
    with engine.changed:
        engine.only().running = False
        engine.containers.clear()
        engine.changed.notify_all()
    assert found.wait() == Exit(None, "the container was removed from outside")


# --- the engine's faults ------------------------------------------------------------------------------------------


def test_an_engine_that_is_away_for_a_while_is_survived(engine: StandInEngine, make: Any) -> None:
    found = started(make)
    container = engine.only()
    watched = f"POST /containers/{container.id}/wait"
    wait_for(lambda: watched in engine.lines())
    engine.away()
    engine.requests.clear()
    engine.back()
    wait_for(lambda: watched in engine.lines())
    engine.prints(container, b"still here\n")
    engine.ends(container, 0)
    assert found.wait() == Exit(0, "exit code 0")


def test_an_engine_that_stays_away_ends_the_task(
    engine: StandInEngine, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "AWAY", 0.1)
    monkeypatch.setattr(runtime, "AWAY_AT_START", 0.1)
    found = started(make)
    engine.away()
    ended = found.wait()
    assert ended.code is None and ended.message.startswith("lost: the container engine")


def test_no_engine_on_the_agent(make: Any, engine: StandInEngine) -> None:
    engine.away()
    Path(engine.path).unlink()
    with pytest.raises(TaskError, match="no container engine on the agent"):
        make().start()


def test_something_else_at_the_socket(engine: StandInEngine, make: Any) -> None:
    engine.faults["GET /_ping"] = [(200, "hello")] * 9
    engine.faults["GET /version"] = [(200, "hello")] * 9
    with pytest.raises(TaskError, match="is not a container engine"):
        make().start()


@pytest.mark.parametrize(("said", "spoken"), [("1.43", "v1.43"), ("1.99", "v1.47"), ("", "v1.40")])
def test_the_version_is_negotiated(engine: StandInEngine, make: Any, said: str, spoken: str) -> None:
    engine.api_version = said
    started(make)
    assert {target.split("/")[1] for target in engine.targets if "containers" in target} == {spoken}


def test_an_engine_that_is_too_old(engine: StandInEngine, make: Any) -> None:
    engine.api_version = "1.12"
    with pytest.raises(TaskError, match=r"too old: API 1\.12"):
        make().start()


def test_refusals_are_passed_on_and_leave_nothing(engine: StandInEngine, make: Any) -> None:
    engine.faults["POST /containers/ID/start"] = [(500, "driver failed: port is already allocated")]
    found = make()
    with pytest.raises(TaskError, match="port is already allocated"):
        found.start()
    assert engine.containers == {}
    assert "port is already" in found.wait().message


def test_a_break_while_it_is_made_is_tried_again(engine: StandInEngine, make: Any) -> None:
    engine.faults["POST /containers/create"] = [(0, "")]
    started(make)
    assert engine.only().running


# --- orphans ------------------------------------------------------------------------------------------------------


def test_containers_of_a_dead_executor_are_removed(engine: StandInEngine, make: Any) -> None:
    started(make)
    mine = engine.only()
    engine.containers["other"] = replace(
        mine, id="other", name="other", body={**mine.body, "Labels": {"io.bcs.taskgroup": "9.x"}}
    )
    reap(engine.path, TASKGROUP)
    assert list(engine.containers) == ["other"]


def test_the_note_in_the_sandbox_leads_to_the_containers(
    engine: StandInEngine, make: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    note.follow(str(tmp_path))
    started(make)
    note.follow(str(tmp_path))
    assert engine.containers == {}
    engine.away()
    note.follow(str(tmp_path))
    assert "containers may be left behind: the container engine does not run" in capfd.readouterr().err


def test_a_directory_that_cannot_be_made_is_told(engine: StandInEngine, make: Any, tmp_path: Path) -> None:
    (tmp_path / "tasks").write_text("in the way")
    with pytest.raises(TaskError, match="directory cannot be used"):
        make().start()
    assert engine.containers == {}


def test_one_that_is_to_be_kept_is_only_killed(engine: StandInEngine, make: Any) -> None:
    started(make, parameters=(("rm", "false"),))
    reap(engine.path, TASKGROUP)
    assert not engine.only().running
    reap(engine.path, TASKGROUP)
    assert not engine.only().running


def test_a_start_removes_what_dead_executors_of_the_agent_have_left(engine: StandInEngine, make: Any) -> None:
    started(make)
    mine = engine.only()
    mark = mine.body["Labels"]["io.bcs.executor"]
    with subprocess.Popen(["true"]) as process:
        dead = process.pid
    marks = {
        "ended": f"{mark.rsplit('.', 2)[0]}.{dead}.1",
        "reused-pid": f"{mark}0",
        "alive": mark,
        "elsewhere": f"other-boot.1.{dead}.1",
        "unreadable": "x",
    }
    for name, value in marks.items():
        body = {**mine.body, "Labels": {"io.bcs.executor": value}}
        engine.containers[name] = replace(mine, id=name, name=name, body=body)
    sweep(Engine(engine.path))
    assert set(engine.containers) == {mine.id, "alive", "elsewhere", "unreadable"}


def test_one_that_resists_does_not_save_the_others(engine: StandInEngine, make: Any) -> None:
    started(make)
    mine = engine.only()
    engine.containers = {"a": replace(mine, id="a", name="a"), "b": replace(mine, id="b", name="b")}
    engine.faults["DELETE /containers/ID"] = [(500, "device busy")]
    with pytest.raises(TaskError, match="device busy"):
        reap(engine.path, TASKGROUP)
    assert len(engine.containers) == 1


def test_frames_are_what_the_engine_documents() -> None:
    assert frame(True, b"abc") == b"\x02\0\0\0\0\0\0\x03abc"


def test_a_frozen_engine_hangs_neither_the_watch_nor_a_stop(
    engine: StandInEngine, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LOOK", 0.1)
    found = started(make)
    for name in ("AWAY_AT_START", "LAST_OUTPUT"):
        monkeypatch.setattr(runtime, name, 0.1)
    defaults = Engine.call.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "timeout", 0.1)
    engine.away()
    Path(engine.path).unlink()
    with socket.socket(socket.AF_UNIX) as frozen:  # takes connections and says nothing
        frozen.bind(engine.path)
        frozen.listen(100)
        thread = stopping(found, 0.0)
        assert found.wait().message == "lost: the container engine does not answer"
        thread.join(30)
        assert not thread.is_alive()


def test_the_end_is_asked_for_anew_from_time_to_time(
    engine: StandInEngine, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LOOK", 0.05)
    found = started(make)
    container = engine.only()
    wait_for(lambda: engine.lines().count(f"POST /containers/{container.id}/wait") > 2)
    engine.ends(container, 4)
    assert found.wait() == Exit(4, "exit code 4")


def test_an_unforeseen_error_of_the_watch_is_not_quoted(
    engine: StandInEngine, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Any) -> None:
        raise ValueError("hunter2")

    monkeypatch.setattr(runtime, "LAST_OUTPUT", 0.1)
    monkeypatch.setattr(runtime.ContainerRuntime, "_next_state", broken)
    assert started(make).wait() == Exit(None, "the watch of the container failed: ValueError")
