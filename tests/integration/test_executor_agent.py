"""The executor as a real process: its agent goes and comes, daemons, messages, what it costs."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.executorprograms import (
    DAEMON,
    PYTHON,
    executor_under,
    gone,
    message,
    pid_in,
    python,
    restarted_from,
    shell,
)
from tests.integration.standinagent import StandInAgent, encoded, stand_in_agent
from tests.waiting import wait_for


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[StandInAgent]:
    with stand_in_agent(tmp_path) as agent:
        yield agent
        assert agent.problems == []


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
        assert executor.wait(30) == 0

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
        assert executor.wait(30) == 1
        assert agent.states()[-1] == "FINISHED"

    def test_an_agent_that_hangs_and_is_killed_hears_of_the_end_when_it_is_back(self, agent: StandInAgent) -> None:
        """Without a word: its connections stay open."""
        executor = agent.start(MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD="300ms")
        agent.launch(shell("while ! test -e go; do sleep 0.02; done; exit 0"))
        agent.wait_for_state("RUNNING")
        message(agent, "signal", {"signal": 0, "process": ""})  # all that is to be acknowledged has been
        agent.answering.clear()
        (agent.sandbox / "tasks/0/go").touch()
        wait_for(lambda: "connection to the agent failed: " in agent.log(), 30, "doubts about the agent")
        assert len(agent.subscriptions) == 1
        agent.go()
        agent.answering.set()
        agent.come()
        assert executor.wait(30) == 0
        [again] = agent.subscriptions[-1]["unacknowledged_updates"]
        assert again["status"]["state"] == "TASK_FINISHED"

    def test_everything_ends_when_the_recovery_time_is_over(self, agent: StandInAgent) -> None:
        executor = agent.start(MESOS_RECOVERY_TIMEOUT="300ms")
        agent.launch(shell("exec sleep 60"))
        pid = agent.wait_for_state("RUNNING")["detail"]["pid"]
        agent.go()
        assert executor.wait(30) == 1
        assert gone(pid)

    def test_without_checkpoint_everything_ends_with_the_agent(self, agent: StandInAgent) -> None:
        executor = agent.start(MESOS_CHECKPOINT="0")
        agent.launch(shell("exec sleep 60"))
        pid = agent.wait_for_state("RUNNING")["detail"]["pid"]
        agent.go()
        assert executor.wait(30) == 1
        assert gone(pid)

    @pytest.mark.parametrize("killed", ["executor", "supervisor", "both"])
    def test_secrets_are_gone_after_a_kill(self, agent: StandInAgent, killed: str) -> None:
        """At once; if nothing is left that could remove them, with the start of the next executor."""
        secret = {"path": "/etc/key", "data": base64.b64encode(b"hidden").decode(), "secret": True}
        supervisor = agent.start()
        agent.launch(shell("cat etc/key; exec sleep 60", files=[secret]))
        wait_for(lambda: agent.output() == "hidden", what=agent.log)
        memory = (agent.sandbox / "tasks/0/etc/key").resolve().parent
        executor = executor_under(supervisor.pid)
        if killed == "both":  # neither lives to see the end of the other
            for pid in (supervisor.pid, executor):
                os.kill(pid, signal.SIGSTOP)
        for pid in {"executor": (executor,), "supervisor": (supervisor.pid,), "both": (executor, supervisor.pid)}[
            killed
        ]:
            os.kill(pid, signal.SIGKILL)
        supervisor.wait(30)
        if killed == "both":
            assert memory.exists()
            agent.start()
        wait_for(lambda: not memory.exists(), what=f"the end of {memory}")

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

    def test_nothing_is_told_of_tasks_that_have_not_arrived(self, agent: StandInAgent) -> None:
        """The agent would die of it."""
        agent.start()
        wait_for(lambda: agent.subscriptions)
        agent.kill("queued")
        agent.launch(shell("exec sleep 60"))
        agent.wait_for_state("RUNNING")
        agent.kill("queued")
        answer = message(agent, "restart", {}, task="queued")
        assert answer["results"][0]["message"] == "the task is not there"
        agent.end_stream()
        wait_for(lambda: len(agent.subscriptions) == 2)
        agent.kill()
        agent.wait_for_state("KILLED")
        assert {item["task_id"]["value"] for item in agent.updates} == {"0"}

    def test_what_is_under_way_is_answered_before_the_end(self, agent: StandInAgent) -> None:
        executor = agent.start()
        agent.launch(shell("exec sleep 60"))
        agent.wait_for_state("RUNNING")
        document = {"v": 1, "type": "message", "id": "m", "kind": "command", "tasks": ["0"], "timeout": 600.0}
        body = {"argv": ["/bin/sh", "-c", "touch begun; exec sleep 600"]}
        agent.send("MESSAGE", message={"data": encoded({**document, "body": body})})
        wait_for((agent.sandbox / "tasks/0/begun").exists)
        agent.kill()
        assert executor.wait(30) == 0
        assert [item["status"] for item in agent.messages if item.get("id") == "m"][-1] != "running"

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
        assert executor.wait(30) == 0

    def test_the_exit_code_of_a_daemon_is_known(self, agent: StandInAgent) -> None:
        agent.start()
        task = self.process(agent)
        task["process"]["start"] += " 7"
        agent.launch(task)
        os.kill(agent.wait_for_state("RUNNING")["detail"]["pid"], signal.SIGTERM)
        failed = agent.wait_for_state("FAILED")
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
        assert executor.wait(30) == 0

    def test_a_daemon_that_is_another_program_is_not_taken_for_it(self, agent: StandInAgent) -> None:
        agent.start()
        agent.launch(self.process(agent, name="chatd"))
        pid = pid_in(agent.sandbox / "run_dir/d.pid")
        agent.kill()
        agent.wait_for_state("KILLED")
        assert agent.states() == ["STARTING", "KILLING", "KILLED"]
        assert gone(pid)

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


def processor_seconds(pid: int) -> float:
    """Processor time of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


class TestCost:
    def test_memory_and_processor_time_of_a_start(self, agent: StandInAgent) -> None:
        supervisor = agent.start()
        wait_for(lambda: agent.subscriptions)
        before = processor_seconds(executor_under(supervisor.pid))
        agent.launch(shell("exec sleep 60"))
        agent.wait_for_state("RUNNING")
        assert processor_seconds(executor_under(supervisor.pid)) - before < 0.5
        status = Path(f"/proc/{executor_under(supervisor.pid)}/status").read_text()
        resident = int(status.split("VmRSS:")[1].split()[0])
        assert resident < 25 * 1024, f"{resident} kB"

    def test_a_task_that_prints_without_end_grows_nothing(self, agent: StandInAgent) -> None:
        agent.group.update(log_max_bytes=200_000, log_files=3)
        supervisor = agent.start()
        agent.launch(shell("exec yes"))
        directory = agent.sandbox / "tasks/0"
        wait_for(lambda: (directory / "stdout.2").exists())
        status = Path(f"/proc/{executor_under(supervisor.pid)}/status").read_text()
        assert int(status.split("VmRSS:")[1].split()[0]) < 25 * 1024
        agent.kill()
        agent.wait_for_state("KILLED")
        index = directory / ".bcs-output"
        assert {path.name for path in directory.iterdir()} == {"stdout", "stdout.1", "stdout.2", "stderr", index.name}
        assert 400_000 < sum(path.stat().st_size for path in directory.iterdir() if path != index) <= 3 * 200_000
        assert index.stat().st_size <= 2 * 3 * 200_000 / 4, "a quarter of the space of both outputs"
