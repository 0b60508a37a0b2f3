"""The executor as a real process with real programs, against a stand-in for its agent."""

from __future__ import annotations

import os
import signal
import socket
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.executor import proctree
from tests.integration.standinagent import StandInAgent, encoded, stand_in_agent
from tests.waiting import wait_for

DAEMON = """
import os, signal, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(sys.argv[2]) if len(sys.argv) > 2 else 0))
with open(sys.argv[1] + ".new", "w") as file:
    file.write(f"  {os.getpid()}\\n\\n")
os.rename(sys.argv[1] + ".new", sys.argv[1])
while True:
    time.sleep(60)
"""
"""Forks twice, changes its session and writes its pid with blanks around. Arguments: pid file, exit code."""
PYTHON = os.path.realpath(sys.executable)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[StandInAgent]:
    with stand_in_agent(tmp_path) as agent:
        yield agent
        assert agent.problems == []


@pytest.fixture(params=["on", "off"])
def control_groups(request: pytest.FixtureRequest, agent: StandInAgent) -> None:
    """Off: what belongs to a task is found by descent, session and environment alone."""
    agent.environment["BCS_EXECUTOR_CGROUPS"] = request.param


def shell(line: str, **more: Any) -> dict[str, Any]:
    return {"kind": "command", "command": {"shell": True, "value": line}, **more}


def python(program: str, *arguments: str, **more: Any) -> dict[str, Any]:
    argv = [PYTHON, "-I", "-S", "-c", textwrap.dedent(program), *arguments]
    return {"kind": "command", "command": {"shell": False, "argv": argv}, **more}


def pid_in(path: Path) -> int:
    return wait_for(
        lambda: path.exists() and path.read_text().strip() and int(path.read_text()), what=f"a pid in {path}"
    )


def gone(*pids: int) -> bool:
    found = [proctree.process(pid) for pid in pids]
    return all(item is None or item.dead for item in found)


def executor_under(warden: int) -> int:
    return wait_for(lambda: proctree.children(warden))[0]


def message(
    agent: StandInAgent, kind: str, body: dict[str, Any], identity: str = "m1", task: str = "0"
) -> dict[str, Any]:
    """Sends a message for a task; its last answer."""
    document = {"v": 1, "type": "message", "id": identity, "kind": kind, "tasks": [task], "timeout": 10.0, "body": body}
    agent.send("MESSAGE", message={"data": encoded(document)})

    def answered() -> Any:
        answers = [item for item in agent.messages if item.get("id") == identity and item["status"] != "running"]
        return answers and answers[0]

    return wait_for(answered, 15, lambda: f"an answer to {kind}: {agent.messages} {agent.log()[-1000:]}")


def restarted_from(agent: StandInAgent, pid: int) -> dict[str, Any]:
    """The detail of the first RUNNING with another pid."""

    def found() -> Any:
        running = [item["detail"] for item in agent.updates if item["state"] == "TASK_RUNNING"]
        return next((item for item in running if item["pid"] not in (0, pid) and not item["restarting"]), None)

    return wait_for(found, 10, "a RUNNING with another pid")


class TestLife:
    def test_a_web_server_runs_is_probed_and_ends_when_killed(self, agent: StandInAgent) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        check = {"type": "HTTP", "delay": 0.1, "interval": 0.1, "timeout": 2.0, "port": port, "grace_period": 10.0}
        executor = agent.start()
        task = shell(f'exec {PYTHON} -m http.server "$PORT_web" --bind 127.0.0.1', env={"PORT_web": str(port)})
        agent.launch({**task, "checks": [check]})

        pid = agent.wait_for_state("RUNNING")["detail"]["pid"]
        healthy = wait_for(lambda: next((item for item in agent.updates if item.get("healthy")), None))
        assert healthy["state"] == "TASK_RUNNING"
        assert healthy["detail"]["checks"][0]["healthy"] is True
        address = healthy["container_status"]["network_infos"][0]["ip_addresses"][0]["ip_address"]
        assert address == healthy["detail"]["container_ip"] == "127.0.0.1"
        agent.kill()
        killed = agent.wait_for_state("KILLED")
        assert killed["detail"]["exit_code"] == -signal.SIGTERM
        assert killed["detail"]["finished_at"] >= killed["detail"]["started_at"] > 0
        assert agent.states()[:2] == ["STARTING", "RUNNING"]
        assert agent.states()[-2:] == ["KILLING", "KILLED"]
        assert gone(pid)
        assert executor.wait(10) == 0

    def test_exit_code_0_finishes_a_task_and_leaves_the_others_alone(self, agent: StandInAgent) -> None:
        executor = agent.start()
        agent.launch(shell("echo out; echo err >&2"), shell("exec sleep 60"))
        assert agent.wait_for_state("FINISHED")["detail"]["exit_code"] == 0
        assert (agent.output("stdout"), agent.output("stderr")) == ("out\n", "err\n")
        assert agent.wait_for_state("RUNNING", "1")
        assert "KILLING" not in agent.states("1")
        agent.kill("1")
        agent.wait_for_state("KILLED", "1")
        assert agent.states("0") == ["STARTING", "RUNNING", "FINISHED"]
        assert executor.wait(10) == 0

    def test_a_crash_fails_the_task_and_ends_the_taskgroup(self, agent: StandInAgent) -> None:
        executor = agent.start()
        agent.launch(shell("sleep 0.2; exit 3"), shell("exec sleep 60"))
        failed = agent.wait_for_state("FAILED")
        assert (failed["message"], failed["detail"]["exit_code"]) == ("exit code 3", 3)
        agent.wait_for_state("KILLED", "1")
        assert executor.wait(10) == 0

    def test_a_program_that_cannot_be_started(self, agent: StandInAgent) -> None:
        executor = agent.start()
        agent.launch({"kind": "command", "command": {"argv": ["./missing"]}})
        assert "./missing" in agent.wait_for_state("FAILED")["message"]
        assert agent.states() == ["STARTING", "FAILED"]
        assert executor.wait(10) == 0

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            ("no base64!", "not base64"),
            (encoded({"v": 2}), "protocol version 2"),
            (encoded({"v": 1, "kind": "boat"}), "'boat' is not known"),
            (encoded({"v": 1, "env": {"TOKEN": ["hunter2"]}}), "task data.env.TOKEN: not of type str"),
        ],
    )
    def test_launch_data_that_cannot_be_used(self, agent: StandInAgent, data: str, words: str) -> None:
        executor = agent.start()
        wait_for(lambda: agent.subscriptions)
        good = agent.info("1", shell("exec sleep 60"))
        bad = {"task_id": {"value": "0"}, "name": "bad", "data": data}
        agent.send("LAUNCH_GROUP", launch_group={"task_group": {"tasks": [bad, good]}})
        error = agent.wait_for_state("ERROR")
        assert words in error["message"]
        assert "hunter2" not in error["message"] + agent.log()
        agent.wait_for_state("KILLED", "1")
        assert executor.wait(10) == 0

    def test_environment_directory_and_places(self, agent: StandInAgent) -> None:
        agent.start(MESOS_EXECUTOR_AUTHENTICATION_TOKEN="hunter2")
        files = [{"path": "${work_base_dir}/f", "data": "aGVsbG8=", "mode": 0o600}]
        task = shell('pwd; echo "$WHERE"; env | grep -c MESOS_; cat "$WHERE/f"', env={"WHERE": "${work_base_dir}"})
        agent.launch({**task, "files": files})
        agent.wait_for_state("FINISHED")
        sandbox = agent.sandbox.resolve()
        assert agent.output().split() == [f"{sandbox}/tasks/0", f"{sandbox}/work_dir", "0", "hello"]

    def test_another_user(self, agent: StandInAgent) -> None:
        for directory in (agent.sandbox, *list(agent.sandbox.parents)[:3]):
            directory.chmod(0o755)
        agent.start()
        agent.launch(shell('id -un; echo "$HOME"; touch mine', user="nobody"))
        agent.wait_for_state("FINISHED")
        assert agent.output().split()[0] == "nobody"
        assert (agent.sandbox / "tasks/0/mine").owner() == "nobody"

    def test_a_user_that_does_not_exist(self, agent: StandInAgent) -> None:
        agent.start()
        agent.launch(shell("true", user="nobody-at-all"))
        assert "nobody-at-all" in agent.wait_for_state("FAILED")["message"]


@pytest.mark.usefixtures("control_groups")
class TestEnding:
    def test_a_program_that_ignores_sigterm_is_killed_after_the_grace_period(self, agent: StandInAgent) -> None:
        executor = agent.start()
        agent.launch(shell("trap '' TERM; echo ready; while :; do sleep 60; done"))
        wait_for(lambda: "ready" in agent.output())
        asked = time.monotonic()
        agent.kill(grace=0.5)
        killed = agent.wait_for_state("KILLED")
        assert killed["detail"]["exit_code"] == -signal.SIGKILL
        assert time.monotonic() - asked >= 0.5
        assert executor.wait(10) == 0

    def test_a_second_kill_may_shorten_the_grace_period(self, agent: StandInAgent) -> None:
        agent.start()
        agent.launch(shell("trap '' TERM; echo ready; while :; do sleep 60; done"))
        wait_for(lambda: "ready" in agent.output())
        agent.kill(grace=600)
        agent.wait_for_state("KILLING")
        agent.kill(grace=0)
        agent.wait_for_state("KILLED")

    @pytest.mark.parametrize("environment", ["", "env -i "])
    def test_what_forked_away_ends_with_its_task(self, agent: StandInAgent, environment: str) -> None:
        (agent.sandbox / "daemon.py").write_text(DAEMON)
        daemon = f"{environment}{PYTHON} -I -S {agent.sandbox}/daemon.py {agent.sandbox}/pid"
        agent.start()
        agent.launch(shell(f"{daemon}; exec sleep 60"), shell("exec sleep 60"))
        pid = pid_in(agent.sandbox / "pid")
        agent.kill()
        agent.wait_for_state("KILLED")
        agent.wait_for_state("KILLED", "1")
        assert gone(pid)

    def test_what_forked_away_ends_with_a_task_that_finishes(self, agent: StandInAgent) -> None:
        (agent.sandbox / "daemon.py").write_text(DAEMON)
        agent.start()
        start = f"{PYTHON} -I -S {agent.sandbox}/daemon.py {agent.sandbox}/pid"
        wait = f"until test -f {agent.sandbox}/pid; do sleep 0.02; done"
        agent.launch(shell(f"{start}; {wait}"), shell("exec sleep 60"))
        agent.wait_for_state("FINISHED")
        assert gone(pid_in(agent.sandbox / "pid"))
        assert "KILLING" not in agent.states("1")

    def test_shutdown(self, agent: StandInAgent) -> None:
        agent.group["grace_period"] = 600.0
        executor = agent.start(MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD="1secs")
        agent.launch(shell("trap '' TERM; echo ready; while :; do sleep 60; done"))
        wait_for(lambda: "ready" in agent.output())
        agent.send("SHUTDOWN")
        agent.wait_for_state("KILLED", seconds=5)
        assert executor.wait(10) == 0

    def test_a_leaking_program_is_ended_at_its_memory_limit(self, agent: StandInAgent) -> None:
        leak = """
            kept = []
            while True:
                kept.append(bytearray(b"x" * 1_000_000))
        """
        agent.start()
        agent.launch(python(leak, limits={"mem": 60_000}))
        failed = agent.wait_for_state("FAILED")
        assert failed["detail"]["oom"] is True
        assert failed["detail"]["exit_code"] == -signal.SIGKILL
        assert "out of memory" in failed["message"]
        assert "60 MB" in failed["message"]

    def test_a_failing_health_check_fails_the_task(self, agent: StandInAgent) -> None:
        check = {"type": "COMMAND", "command": "exit 1", "delay": 0.0, "grace_period": 0.0, "interval": 0.05}
        agent.start()
        agent.launch(shell("exec sleep 60", checks=[{**check, "consecutive_failures": 2}]), shell("exec sleep 60"))
        failed = agent.wait_for_state("FAILED")
        assert failed["healthy"] is False
        assert failed["message"]
        agent.wait_for_state("KILLED", "1")

    def test_nothing_survives_the_executor(self, agent: StandInAgent) -> None:
        (agent.sandbox / "daemon.py").write_text(DAEMON)
        warden = agent.start()
        agent.launch(shell(f"env -i {PYTHON} -I -S {agent.sandbox}/daemon.py {agent.sandbox}/pid; exec sleep 60"))
        daemon, pid = pid_in(agent.sandbox / "pid"), agent.wait_for_state("RUNNING")["detail"]["pid"]
        os.kill(executor_under(warden.pid), signal.SIGKILL)
        assert warden.wait(10) == 128 + signal.SIGKILL
        assert gone(daemon, pid)

    def test_nothing_survives_the_warden(self, agent: StandInAgent) -> None:
        (agent.sandbox / "daemon.py").write_text(DAEMON)
        warden = agent.start()
        agent.launch(shell(f"{PYTHON} -I -S {agent.sandbox}/daemon.py {agent.sandbox}/pid; exec sleep 60"))
        daemon, pid = pid_in(agent.sandbox / "pid"), agent.wait_for_state("RUNNING")["detail"]["pid"]
        executor = executor_under(warden.pid)
        warden.send_signal(signal.SIGKILL)
        wait_for(lambda: gone(executor, daemon, pid), 10, "the end of everything")


class TestAgent:
    def test_updates_of_the_time_without_agent_arrive_when_it_is_back(self, agent: StandInAgent) -> None:
        executor = agent.start()
        agent.launch(shell(f"until test -f {agent.sandbox}/go; do sleep 0.05; done; exit 4"))
        agent.wait_for_state("RUNNING")
        agent.go()
        (agent.sandbox / "go").touch()
        wait_for(lambda: gone(agent.updates[-1]["detail"]["pid"]))
        agent.come()
        assert agent.wait_for_state("FAILED")["detail"]["exit_code"] == 4
        assert agent.states() == ["STARTING", "RUNNING", "FAILED"]
        assert len(agent.subscriptions) == 2
        assert executor.wait(10) == 0

    def test_what_is_not_acknowledged_is_in_the_next_subscription(self, agent: StandInAgent) -> None:
        agent.acknowledges = False
        agent.start()
        agent.launch(shell("exec sleep 60"))
        agent.wait_for_state("RUNNING")
        agent.end_stream()
        wait_for(lambda: len(agent.subscriptions) == 2)
        states = [item["status"]["state"] for item in agent.subscriptions[1]["unacknowledged_updates"]]
        assert states == ["TASK_STARTING", "TASK_RUNNING"]
        assert [item["task_id"]["value"] for item in agent.subscriptions[1]["unacknowledged_tasks"]] == ["0"]

    def test_acknowledged_updates_are_not_sent_again(self, agent: StandInAgent) -> None:
        agent.start()
        agent.launch(shell("exec sleep 60"))
        agent.wait_for_state("RUNNING")
        message(agent, "signal", {"signal": 0, "process": ""})  # the acknowledgements are in the stream before it
        agent.end_stream()
        wait_for(lambda: len(agent.subscriptions) == 2)
        assert agent.subscriptions[1] == {"unacknowledged_tasks": [], "unacknowledged_updates": []}

    def test_an_agent_that_never_acknowledges_does_not_hold_up_the_end(self, agent: StandInAgent) -> None:
        agent.acknowledges = False
        executor = agent.start(MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD="300ms")
        agent.launch(shell("exit 0"))
        assert executor.wait(10) == 1
        assert agent.states()[-1] == "FINISHED"

    def test_everything_ends_when_the_recovery_time_is_over(self, agent: StandInAgent) -> None:
        executor = agent.start(MESOS_RECOVERY_TIMEOUT="300ms")
        agent.launch(shell("exec sleep 60"))
        pid = agent.wait_for_state("RUNNING")["detail"]["pid"]
        agent.go()
        assert executor.wait(10) == 1
        assert gone(pid)

    def test_without_checkpoint_everything_ends_with_the_agent(self, agent: StandInAgent) -> None:
        executor = agent.start(MESOS_CHECKPOINT="0")
        agent.launch(shell("exec sleep 60"))
        pid = agent.wait_for_state("RUNNING")["detail"]["pid"]
        agent.go()
        assert executor.wait(10) == 1
        assert gone(pid)

    def test_unknown_and_broken_events_are_skipped(self, agent: StandInAgent) -> None:
        agent.start()
        wait_for(lambda: agent.subscriptions)
        for record in (b'{"type": "DANCE"}', b"{", b"[]", b'{"type": "KILL"}', b'{"type": "LAUNCH_GROUP"}', b"\xff"):
            agent.send_record(record)
        agent.send("HEARTBEAT")
        agent.launch(shell("exit 0"))
        agent.wait_for_state("FINISHED")
        assert len(agent.subscriptions) == 1

    def test_a_stream_that_breaks_inside_a_record_is_subscribed_anew(self, agent: StandInAgent) -> None:
        agent.start()
        agent.launch(shell("exec sleep 60"))
        agent.wait_for_state("RUNNING")
        agent.send_bytes(b'1000\n{"type": "KILL", "kill": {"task_id"')
        agent.end_stream()
        wait_for(lambda: len(agent.subscriptions) == 2)
        agent.kill()
        agent.wait_for_state("KILLED")

    def test_steady_reports(self, agent: StandInAgent) -> None:
        agent.group["report_interval"] = 0.1
        agent.start()
        agent.launch(shell("exec sleep 60"))
        pid = agent.wait_for_state("RUNNING")["detail"]["pid"]
        reports = wait_for(lambda: [item for item in agent.messages if item["type"] == "report" and item["tasks"]])
        assert [(item["task"], item["detail"]["pid"]) for item in reports[-1]["tasks"]] == [("0", pid)]
        assert agent.states() == ["STARTING", "RUNNING"]


class TestProcess:
    def process(self, agent: StandInAgent, **more: Any) -> dict[str, Any]:
        (agent.sandbox / "daemon.py").write_text(DAEMON)
        start = f"echo starting; {PYTHON} -I -S {agent.sandbox}/daemon.py ${{run_base_dir}}/d.pid"
        name = os.path.basename(PYTHON)
        process = {"name": name, "start": start, "pid_file": "${run_base_dir}/d.pid", **more}
        return {"kind": "process", "process": process, "env": {"A": "1"}}

    def test_a_daemon_is_found_by_its_pid_file_and_stopped_by_its_command(self, agent: StandInAgent) -> None:
        (agent.sandbox / "run_dir").mkdir()
        (agent.sandbox / "run_dir/d.pid").write_text("1")  # stale
        executor = agent.start()
        agent.launch(self.process(agent, stop="echo stopping; kill $(cat ${run_base_dir}/d.pid)"))
        running = agent.wait_for_state("RUNNING")
        assert running["detail"]["pid"] == pid_in(agent.sandbox / "run_dir/d.pid") > 1
        agent.kill()
        assert agent.wait_for_state("KILLED")["detail"]["exit_code"] == 0
        assert agent.output() == "starting\nstopping\n"
        assert executor.wait(10) == 0

    def test_the_exit_code_of_a_daemon_is_known(self, agent: StandInAgent) -> None:
        agent.start()
        task = self.process(agent)
        task["process"]["start"] += " 7"
        agent.launch(task)
        os.kill(agent.wait_for_state("RUNNING")["detail"]["pid"], signal.SIGTERM)
        failed = agent.wait_for_state("FAILED", seconds=3)
        assert (failed["message"], failed["detail"]["exit_code"]) == ("exit code 7", 7)

    @pytest.mark.parametrize("restart", ["", "yes"])
    def test_a_restart_is_no_end(self, agent: StandInAgent, restart: str) -> None:
        agent.start()
        task = self.process(agent)
        if restart:
            task["process"]["restart"] = f"kill $(cat ${{run_base_dir}}/d.pid); {task['process']['start']}"
        agent.launch(task)
        pid = agent.wait_for_state("RUNNING")["detail"]["pid"]
        answer = message(agent, "restart", {})
        assert answer["status"] == "success", answer
        detail = restarted_from(agent, pid)
        assert gone(pid)
        assert not gone(detail["pid"])
        assert set(agent.states()) == {"STARTING", "RUNNING"}
        os.kill(detail["pid"], signal.SIGTERM)
        agent.wait_for_state("FINISHED")

    def test_start_commands_that_fail(self, agent: StandInAgent) -> None:
        executor = agent.start()
        agent.launch(self.process(agent, start="echo no luck >&2; exit 5"))
        assert agent.wait_for_state("FAILED")["message"] == "the start command failed: exit code 5"
        assert agent.output("stderr") == "no luck\n"
        assert executor.wait(10) == 0

    def test_another_program_than_expected(self, agent: StandInAgent) -> None:
        agent.start()
        agent.launch(self.process(agent, name="chatd"))
        pid_in(agent.sandbox / "run_dir/d.pid")
        agent.kill()
        assert "not chatd" in agent.wait_for_state("KILLED")["message"]

    def test_without_pid_file_the_start_line_is_the_process(self, agent: StandInAgent) -> None:
        agent.start()
        stop = f"echo bye; touch {agent.sandbox}/end"
        line = f"until test -f {agent.sandbox}/end; do sleep 0.05; done"
        agent.launch({"kind": "process", "process": {"start": line, "stop": stop}})
        agent.wait_for_state("RUNNING")
        agent.kill()
        assert agent.wait_for_state("KILLED")["detail"]["exit_code"] == 0
        assert agent.output() == "bye\n"


class TestMessages:
    def test_a_restart_in_place_takes_the_new_environment(self, agent: StandInAgent) -> None:
        agent.start()
        agent.launch(shell('echo "A=$A"; exec sleep 60', env={"A": "1"}))
        pid = agent.wait_for_state("RUNNING")["detail"]["pid"]
        assert message(agent, "env", {"name": "A", "value": "2"}, "m1")["status"] == "success"
        assert message(agent, "restart", {}, "m2")["status"] == "success"
        assert restarted_from(agent, pid)["pid"] != pid
        wait_for(lambda: agent.output() == "A=1\nA=2\n", what=agent.output)
        assert set(agent.states()) == {"STARTING", "RUNNING"}

    def test_a_command_runs_in_the_environment_of_the_task(self, agent: StandInAgent) -> None:
        agent.start()
        agent.launch(shell("exec sleep 60", env={"A": "1"}))
        agent.wait_for_state("RUNNING")
        answer = message(agent, "command", {"argv": ["/bin/sh", "-c", 'echo "$A $B"; pwd; exit 3'], "env": {"B": "2"}})
        result = answer["results"][0]
        assert (result["exit_code"], result["stdout"]) == (3, f"1 2\n{agent.sandbox.resolve()}/tasks/0\n")

    def test_limits_change_while_it_runs(self, agent: StandInAgent) -> None:
        agent.start()
        wait_for(lambda: agent.subscriptions)
        identity = "1700000000.0.0.web.default"
        program = "kept = bytearray(b'x' * 60_000_000); import time; print('full', flush=True); time.sleep(60)"
        info = agent.info(identity, python(program, limits={"mem": 200_000}))
        agent.send("LAUNCH_GROUP", launch_group={"task_group": {"tasks": [info]}})
        wait_for(lambda: agent.output(task=identity))

        def limit(name: str, mem: int) -> dict[str, Any]:
            return message(agent, "resources", {"limits": [{"index": 0, "cpus": 0, "mem": mem}]}, name, identity)

        assert limit("m1", 300_000)["status"] == "success"
        refused = limit("m2", 30_000)
        assert refused["status"] == "failed"
        assert "more than the new limit of 30 MB" in refused["results"][0]["message"]
        assert agent.states(identity) == ["STARTING", "RUNNING"]


class TestCost:
    def test_memory_and_start_time(self, agent: StandInAgent) -> None:
        warden = agent.start()
        wait_for(lambda: agent.subscriptions)
        asked = time.time()
        agent.launch(shell("exec sleep 60"))
        running = agent.wait_for_state("RUNNING")
        assert running["timestamp"] - asked < 0.5
        status = Path(f"/proc/{executor_under(warden.pid)}/status").read_text()
        resident = int(status.split("VmRSS:")[1].split()[0])
        assert resident < 25 * 1024, f"{resident} kB"

    def test_a_task_that_prints_without_end_grows_nothing(self, agent: StandInAgent) -> None:
        agent.group.update(log_max_bytes=200_000, log_files=3)
        warden = agent.start()
        agent.launch(shell("exec yes"))
        directory = agent.sandbox / "tasks/0"
        wait_for(lambda: (directory / "stdout.2").exists())
        status = Path(f"/proc/{executor_under(warden.pid)}/status").read_text()
        assert int(status.split("VmRSS:")[1].split()[0]) < 25 * 1024
        agent.kill()
        agent.wait_for_state("KILLED", seconds=5)
        assert {path.name for path in directory.iterdir()} == {"stdout", "stdout.1", "stdout.2", "stderr"}
        assert 400_000 < sum(path.stat().st_size for path in directory.iterdir()) <= 3 * 200_000


def test_the_identity_of_the_executor_is_needed(agent: StandInAgent) -> None:
    executor = agent.start(MESOS_EXECUTOR_ID="")
    assert executor.wait(10) == 2
    assert "MESOS_EXECUTOR_ID" in agent.log()
