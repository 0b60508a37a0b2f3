"""How the executor starts and ends real programs, against a stand-in for its agent."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.executorprograms import DAEMON, PYTHON, executor_under, gone, pid_in, python, shell
from tests.integration.standinagent import StandInAgent, encoded, stand_in_agent
from tests.integration.zookeeper import free_port
from tests.waiting import wait_for


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[StandInAgent]:
    with stand_in_agent(tmp_path) as agent:
        yield agent
        assert agent.problems == []


@pytest.fixture(params=["on", "off"])
def control_groups(request: pytest.FixtureRequest, agent: StandInAgent) -> None:
    """Off: what belongs to a task is found by descent, session and environment alone."""
    agent.environment["BCS_EXECUTOR_CGROUPS"] = request.param


class TestLife:
    def test_a_web_server_runs_is_probed_and_ends_when_killed(self, agent: StandInAgent) -> None:
        port = free_port()
        check = {"type": "HTTP", "delay": 0.1, "interval": 0.1, "timeout": 20.0, "port": port, "grace_period": 10.0}
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
        assert executor.wait(30) == 0

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
        assert executor.wait(30) == 0

    def test_a_crash_fails_the_task_and_ends_the_taskgroup(self, agent: StandInAgent) -> None:
        executor = agent.start()
        agent.launch(shell("sleep 0.2; exit 3"), shell("exec sleep 60"))
        failed = agent.wait_for_state("FAILED")
        assert (failed["message"], failed["detail"]["exit_code"]) == ("exit code 3", 3)
        agent.wait_for_state("KILLED", "1")
        assert executor.wait(30) == 0

    def test_a_program_that_cannot_be_started(self, agent: StandInAgent) -> None:
        executor = agent.start()
        agent.launch({"kind": "command", "command": {"argv": ["./missing"]}})
        assert "./missing" in agent.wait_for_state("FAILED")["message"]
        assert agent.states() == ["STARTING", "FAILED"]
        assert executor.wait(30) == 0

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
        assert executor.wait(30) == 0

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
        assert executor.wait(30) == 0

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
        agent.wait_for_state("KILLED")
        assert executor.wait(30) == 0

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
        supervisor = agent.start()
        agent.launch(shell(f"env -i {PYTHON} -I -S {agent.sandbox}/daemon.py {agent.sandbox}/pid; exec sleep 60"))
        daemon, pid = pid_in(agent.sandbox / "pid"), agent.wait_for_state("RUNNING")["detail"]["pid"]
        os.kill(executor_under(supervisor.pid), signal.SIGKILL)
        assert supervisor.wait(30) == 128 + signal.SIGKILL
        assert gone(daemon, pid)

    def test_nothing_survives_the_warden(self, agent: StandInAgent) -> None:
        (agent.sandbox / "daemon.py").write_text(DAEMON)
        supervisor = agent.start()
        agent.launch(shell(f"{PYTHON} -I -S {agent.sandbox}/daemon.py {agent.sandbox}/pid; exec sleep 60"))
        daemon, pid = pid_in(agent.sandbox / "pid"), agent.wait_for_state("RUNNING")["detail"]["pid"]
        executor = executor_under(supervisor.pid)
        os.killpg(supervisor.pid, signal.SIGKILL)
        wait_for(lambda: gone(executor, daemon, pid), 30, "the end of everything")


def test_the_identity_of_the_executor_is_needed(agent: StandInAgent) -> None:
    executor = agent.start(MESOS_EXECUTOR_ID="")
    assert executor.wait(30) == 2
    assert "MESOS_EXECUTOR_ID" in agent.log()
