"""Tasks in containers of a real engine, as users run them: `bcs` - scheduler - agent - executor - engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.local.settings import ClusterSettings
from tests.integration.containerengine import IMAGE, ContainerEngine
from tests.integration.devprocess import Dev
from tests.integration.forwarding import page_behind
from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess
from tests.integration.typing_terminal import TypingTerminal
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

ROOT = Path(__file__).parents[2]
SECONDS = 60.0
SERVER = 'mkdir -p /srv && echo page > /srv/index.html && exec httpd -f -p "127.0.0.1:$PORT_http" -h /srv'


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory, container_engine: ContainerEngine) -> Iterator[Dev]:
    running = Dev(tmp_path_factory.mktemp("containers"), BCS_EXECUTOR_DOCKER_SOCKET=container_engine.socket)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory, dev: Dev) -> Iterator[TypingTerminal]:
    folder = tmp_path_factory.mktemp("terminal")
    program = folder / "bin" / "bcs"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m bcs_scheduler.cli.main "$@"\n')
    program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BCS_")}
    path = f"{program.parent}:{os.environ['PATH']}"
    ours = {"PATH": path, "PYTHONPATH": str(ROOT), "BCS_SERVER": dev.url, "BCS_NAMESPACE": "default"}
    shell = TypingTerminal(folder, {**kept, **ours, "BCS_CONFIG": str(folder / "none.toml")}, 90)
    try:
        yield shell
    finally:
        shell.close()


@pytest.fixture(scope="module")
def web(dev: Dev) -> Dev:
    """A server in one container: `web-0`."""
    run(dev, "web", SERVER, "--port", "http")
    return dev


def run(dev: Dev, name: str, script: str, *options: str) -> None:
    dev.done("run", IMAGE, "--name", name, "--wait", *options, "--", "sh", "-c", script)


def delete(dev: Dev, name: str) -> None:
    dev.done("delete", "app", name, "--wait")


def container(**more: Any) -> dict[str, Any]:
    return {"name": "main", "image": IMAGE, "resources": {"limits": {"cpu": "0.1", "memory": "32"}}, **more}


def apply(dev: Dev, name: str, one: dict[str, Any], *options: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """Applies an application with one taskgroup of this container."""
    mode = one.pop("networkMode", "HOST")
    spec = {"instance": 1, "template": {"spec": {"networkMode": mode, "containers": [one]}}}
    document = {"apiVersion": "v4", "kind": "application", "metadata": {"name": name}, "spec": spec, **more}
    return dev.bcs("apply", "-f", "-", *options, given=json.dumps(document).encode())


def taskgroup(dev: Dev, name: str) -> dict[str, Any]:
    found: dict[str, Any] = dev.data("get", "tg", name)
    return found[0] if isinstance(found, list) else found


def test_an_image_is_run_in_the_terminal_of_the_user(terminal: TypingTerminal, dev: Dev) -> None:
    terminal.type(f"bcs run -it --rm --name shell {IMAGE} -- sh")
    terminal.until("/ # ", SECONDS)
    terminal.type("stty size; echo in $BCS_POD_ID | head -c 11; exit 7")
    code, shown = terminal.ended(SECONDS)
    assert "50 90" in shown and "in 0.shell." in shown
    assert code == 7, shown
    assert dev.data("get", "app") == [] or all(app["metadata"]["name"] != "shell" for app in dev.data("get", "app"))


def test_commands_are_executed_in_the_container(terminal: TypingTerminal, web: Dev) -> None:
    script = 'echo "$BCS_NODE_IP"; cat /srv/index.html'
    assert web.done("exec", "web-0", "--", "sh", "-c", script) == b"127.0.0.1\npage\n"
    assert web.done("exec", "-i", "web-0", "--", "tr", "a-z", "A-Z", given=b"typed") == b"TYPED"
    assert web.bcs("exec", "web-0", "--", "sh", "-c", "exit 5").returncode == 5
    terminal.type("bcs exec -it web-0 -- sh")
    terminal.until("/ # ", SECONDS)
    terminal.type("test -t 0 && stty size; exit 4")
    code, shown = terminal.ended(SECONDS)
    assert (code, "50 90" in shown) == (4, True)


def test_both_streams_of_the_output_are_shown_and_kept_after_a_failure(dev: Dev) -> None:
    given = {"command": "sh", "args": ["-c", "echo first; echo second >&2; exit 3"]}
    assert apply(dev, "noisy", container(**given), restartPolicy={"policy": "Never"}).returncode == 0
    wait_for(lambda: taskgroup(dev, "noisy")["Status"] == "Failed", SECONDS, "the end of the container")
    assert taskgroup(dev, "noisy")["Taskgroup"][0]["ExitCode"] == 3
    shown = dev.done("logs", "noisy")
    assert b"first\n" in shown and b"second\n" in shown
    assert dev.done("logs", "noisy", "--stderr").endswith(b"second\n")
    delete(dev, "noisy")


def test_ports_are_forwarded_to_the_container(web: Dev) -> None:
    port = taskgroup(web, "web")["Taskgroup"][0]["PortMappings"][0]["HostPort"]
    command = [sys.executable, "-m", "bcs_scheduler.cli.main", "port-forward", "web-0", f":{port}"]
    environment = {**os.environ, "BCS_SERVER": web.url, "BCS_NAMESPACE": "default", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment) as forwarding:
        try:
            assert forwarding.stdout is not None
            line = forwarding.stdout.readline().decode()
            address = next(word for word in line.split() if word.startswith("127.0.0.1:"))
            assert wait_for(lambda: page_behind(address), SECONDS, "the server behind the port") == "page\n"
        finally:
            forwarding.terminate()


def test_files_and_folders_are_copied_both_ways(web: Dev, tmp_path: Path) -> None:
    folder = tmp_path / "site" / "deep"
    folder.mkdir(parents=True)
    (folder / "page.html").write_bytes(b"x" * 200_000)
    web.done("cp", str(tmp_path / "site"), "web-0:/srv/site")
    assert web.done("exec", "web-0", "--", "wc", "-c", "/srv/site/deep/page.html").split()[0] == b"200000"
    web.done("cp", "web-0:/srv/site", str(tmp_path / "back"))
    assert (tmp_path / "back" / "deep" / "page.html").read_bytes() == b"x" * 200_000


def test_checks_run_inside_the_container(dev: Dev) -> None:
    check = {"type": "COMMAND", "intervalSeconds": 2, "timeoutSeconds": 1, "gracePeriodSeconds": 1,
             "consecutiveFailures": 100, "command": {"value": "test -e /tmp/ready"}}  # fmt: skip
    given = {"command": "sleep", "args": ["600"], "healthChecks": [check]}
    assert apply(dev, "checked", container(**given), "--wait").returncode == 0

    def state() -> tuple[bool, bool]:
        """A check was made, and it passed."""
        task = taskgroup(dev, "checked")["Taskgroup"][0]
        return task["IsChecked"], task["HealthCheckStatus"][0]["result"]

    wait_for(lambda: state() == (True, False), SECONDS, "the failing check")
    assert "exit code 1" in taskgroup(dev, "checked")["Taskgroup"][0]["HealthCheckStatus"][0]["message"]
    dev.done("exec", "checked-0", "--", "touch", "/tmp/ready")
    wait_for(lambda: state() == (True, True), SECONDS, "the passing check")
    delete(dev, "checked")


def test_variables_and_files_of_configmaps_and_secrets_arrive(dev: Dev) -> None:
    dev.done("create", "configmap", "motd", "--from-literal", "text=hello", "--replace")
    dev.done("create", "secret", "key", "--from-literal", "token=s3cret", "--replace")
    item = {"type": "file", "dataKey": "text", "keyOrPath": "/etc/motd"}
    given = {
        "command": "sh",
        "args": ["-c", 'echo "$COLOUR $GREETING $TOKEN"; cat /etc/motd /run/key; echo; exec sleep 600'],
        "env": [{"name": "COLOUR", "value": "red"}],
        "configmaps": [{"name": "motd", "items": [item, {**item, "type": "env", "keyOrPath": "GREETING"}]}],
        "secrets": [
            {
                "secretName": "key",
                "items": [
                    {"type": "file", "dataKey": "token", "keyOrPath": "/run/key"},
                    {"type": "env", "dataKey": "token", "keyOrPath": "TOKEN"},
                ],
            }
        ],
    }
    result = apply(dev, "configured", container(**given), "--wait")
    assert result.returncode == 0, result.stderr
    wait_for(lambda: dev.done("logs", "configured") == b"red hello s3cret\nhellos3cret\n", SECONDS, "the output")
    delete(dev, "configured")


def test_limits_are_enforced_and_too_much_memory_is_reported(dev: Dev, container_engine: ContainerEngine) -> None:
    script = 'test -e /tmp/again && sleep 600; touch /tmp/again; tail /dev/zero; echo "tail has ended with $?"'
    given = {"command": "sh", "args": ["-c", f"exec 2>&1; {script}"]}
    limits = {"resources": {"limits": {"cpu": "0.5", "memory": "16"}}}
    policy = {"policy": "Never"}
    assert apply(dev, "greedy", container(**{**given, **limits}), restartPolicy=policy).returncode == 0
    identity = wait_for(lambda: next(iter(container_engine.containers("0.greedy.")), None), SECONDS, "the container")
    host: Any = container_engine.inspect(identity)["HostConfig"]
    assert host["Memory"] == 16 * 1024 * 1024 and host["NanoCpus"] + host["CpuQuota"] > 0
    wait_for(lambda: b"ended with 137" in dev.done("logs", "greedy"), SECONDS, "the end of what used too much")
    delete(dev, "greedy")


def test_the_end_of_a_task_respects_its_grace_period(dev: Dev, container_engine: ContainerEngine) -> None:
    for name, trap, grace in (("stubborn", "trap '' TERM", 1), ("polite", "trap 'exit 0' TERM", 300)):
        one = container(command="sh", args=["-c", f"{trap}; echo up; while true; do sleep 0.1; done"])
        assert apply(dev, name, one, "--wait", killPolicy={"gracePeriod": grace}).returncode == 0
        wait_for(lambda name=name: b"up" in dev.done("logs", name), SECONDS, "the output")  # type: ignore[misc]
        delete(dev, name)
        assert container_engine.containers(f"0.{name}.") == []


def test_a_missing_image_and_a_missing_program_are_explained(dev: Dev) -> None:
    lost = {**container(), "image": "127.0.0.1:9/nobody/nothing:1"}
    assert apply(dev, "lost", lost, restartPolicy={"policy": "Never"}).returncode == 0
    wait_for(lambda: taskgroup(dev, "lost")["Status"] == "Failed", SECONDS, "the failure")
    assert "image 127.0.0.1:9/nobody/nothing:1 cannot be pulled: " in taskgroup(dev, "lost")["Message"]
    delete(dev, "lost")
    result = dev.bcs("run", IMAGE, "--name", "absent", "--wait", "--", "/no/such/program")
    assert result.returncode == 1 and b"/no/such/program" in result.stderr
    delete(dev, "absent")


def test_a_network_of_the_engine_gives_the_container_an_address(dev: Dev, container_engine: ContainerEngine) -> None:
    network = container_engine.network("bcs-test-net")
    ports = [{"name": "http", "protocol": "tcp", "containerPort": 8080, "hostPort": 0}]
    given = {"command": "sh", "args": ["-c", "echo inside > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"]}
    one = container(**given, ports=ports, networkMode=network)
    result = apply(dev, "netted", one, "--wait")
    assert result.returncode == 0, result.stderr
    address = taskgroup(dev, "netted")["Taskgroup"][0]["ContainerIP"]
    settings: Any = container_engine.inspect(container_engine.containers("0.netted.")[0])["NetworkSettings"]
    assert address == settings["Networks"][network]["IPAddress"]
    with urllib.request.urlopen(f"http://{address}:8080/", timeout=SECONDS) as answer:
        assert answer.read() == b"inside\n"
    delete(dev, "netted")


def test_a_limit_of_bandwidth_reaches_the_network_of_the_engine(dev: Dev, container_engine: ContainerEngine) -> None:
    """Agents without a network that limits bandwidth are named. Then the limit is an option for the driver."""
    network = container_engine.network("bcs-limited-net")
    one = container(command="sleep", args=["600"])
    pod = {"networkMode": network, "networktype": "cni", "netLimit": {"egressLimit": 2}, "containers": [one]}
    spec = {"instance": 1, "template": {"spec": pod}}
    document = {"apiVersion": "v4", "kind": "application", "metadata": {"name": "limited"}, "spec": spec}
    assert dev.bcs("apply", "-f", "-", given=json.dumps(document).encode()).returncode == 0
    waiting = wait_for(lambda: dev.data("get", "app", "limited")["status"].get("Reason"), SECONDS, "the reason")
    assert "bcs-egress-limit" in waiting
    for agent in dev.data("get", "agents"):
        dev.done("set", "agent", str(agent["hostname"]), "--attribute", f"bcs-egress-limit={network}")
    wait_for(lambda: taskgroup(dev, "limited")["Status"] == "Running", SECONDS, "the taskgroup")
    settings: Any = container_engine.inspect(container_engine.containers("0.limited.")[0])["NetworkSettings"]
    assert settings["Networks"][network]["DriverOpts"] == {"CTNR_NET_EGRESS_RATE": "2048"}
    delete(dev, "limited")


ON_TERM = "trap 'echo asked; exit 0' TERM; echo up; while true; do sleep 0.1; done"
IGNORES = "trap '' TERM; echo up; while true; do sleep 0.1; done"
HTTPD = "echo up; exec httpd -f -p 127.0.0.1:$PORT_http -h /tmp"


def start_three(dev: Dev, grace: int) -> None:
    """A container that ends by itself when it is asked, one that ignores SIGTERM, and one whose first process has no
    handler, for which the kernel ignores SIGTERM too."""
    ports = [{"name": "http", "protocol": "tcp", "containerPort": 0, "hostPort": 0}]
    for name, script in (("polite", ON_TERM), ("stubborn", IGNORES), ("httpd", HTTPD)):
        one = container(command="sh", args=["-c", script], ports=ports)
        result = apply(dev, name, one, "--wait", killPolicy={"gracePeriod": grace})
        assert result.returncode == 0, result.stderr
        wait_for(lambda name=name: b"up" in dev.done("logs", name), SECONDS, "the output")  # type: ignore[misc]


def last_outputs(folder: Path) -> str:
    return "".join(file.read_text() for file in folder.rglob("sandboxes/**/tasks/*/stdout"))


@pytest.fixture
def own(tmp_path: Path, container_engine: ContainerEngine) -> Iterator[Path]:
    """A folder for a scheduler of the test's own. No container is left at the end, whatever the test did."""
    before = set(container_engine.containers())
    yield tmp_path
    for left in set(container_engine.containers()) - before:
        container_engine.docker("rm", "--force", left)


def started(folder: Path, engine: ContainerEngine, *options: str) -> Dev:
    return Dev(folder, *options, BCS_EXECUTOR_DOCKER_SOCKET=engine.socket)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_end_of_the_cluster_ends_containers(own: Path, container_engine: ContainerEngine, number: int) -> None:
    before = set(container_engine.containers())
    dev = started(own, container_engine)
    start_three(dev, grace=1)
    with subprocess.Popen(
        [sys.executable, "-m", "bcs_scheduler.cli.main", "exec", "stubborn-0", "--", "sh", "-c", "echo in; sleep 600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "BCS_SERVER": dev.url, "BCS_NAMESPACE": "default"},
    ) as session:
        assert session.stdout is not None and session.stdout.readline() == b"in\n"
        assert len(set(container_engine.containers()) - before) == 3
        dev.signal(number)
        dev.ended()
        assert session.wait(SECONDS) != 0
    assert set(container_engine.containers()) == before
    assert "Ending 3 tasks with SIGTERM" in dev.said
    assert last_outputs(own).count("asked") == 1


def test_a_second_signal_ends_containers_before_their_grace_period(
    own: Path, container_engine: ContainerEngine
) -> None:
    before = set(container_engine.containers())
    dev = started(own, container_engine)
    start_three(dev, grace=3600)
    dev.signal(signal.SIGINT)
    wait_for(lambda: "asked" in last_outputs(own), SECONDS, "the first signal")
    since = time.monotonic()
    dev.signal(signal.SIGINT)
    dev.ended()
    assert time.monotonic() - since < ClusterSettings().end_grace  # which the first signal alone would take
    assert set(container_engine.containers()) == before


def test_a_killed_cluster_leaves_no_containers(own: Path, container_engine: ContainerEngine) -> None:
    before = set(container_engine.containers())
    dev = started(own, container_engine)
    start_three(dev, grace=3600)
    dev.signal(signal.SIGKILL)
    dev.ended(-signal.SIGKILL)
    wait_for(lambda: set(container_engine.containers()) == before, SECONDS, "the end of the containers")
    assert "asked" not in last_outputs(own)


def test_kept_containers_run_on_until_the_cluster_ends(own: Path, container_engine: ContainerEngine) -> None:
    before = set(container_engine.containers())
    dev = started(own, container_engine, "--keep")
    start_three(dev, grace=1)
    kept = set(container_engine.containers()) - before
    dev.signal(signal.SIGINT)
    dev.ended()
    assert "with 3 tasks" in dev.said
    assert set(container_engine.containers()) - before == kept and len(kept) == 3
    states: Any = [container_engine.inspect(one)["State"] for one in kept]
    assert all(state["Running"] for state in states)
    ports = json.loads((own / "data" / "mesos" / "process.json").read_text())["settings"]["ports"]
    again = started(own, container_engine, f"--ports={ports}")
    wait_for(lambda: taskgroup(again, "httpd")["Status"] == "Running", SECONDS, "the taskgroup")
    assert set(container_engine.containers()) - before == kept
    again.signal(signal.SIGINT)
    again.ended()
    assert set(container_engine.containers()) == before


@pytest.mark.mesos
def test_a_restarted_agent_and_scheduler_find_the_container_again(
    own_mesos: RealMesos, container_engine: ContainerEngine, tmp_path: Path
) -> None:
    """The container runs on while nobody watches over its executor, and ends with the application."""
    settings = {"executor__default": "bcs", "executor__docker_socket": container_engine.socket}
    place = {"constraint": {"intersectionItem": [{"unionData": [{"name": "hostname", "operate": "CLUSTER",
             "type": 4, "set": {"item": ["agent1"]}}]}]}}  # fmt: skip
    one = container(command="sh", args=["-c", "echo up; exec sleep 600"])
    body = {"apiVersion": "v4", "kind": "application", "metadata": {"name": "kept"}, **place,
            "spec": {"instance": 1, "template": {"spec": {"networkMode": "HOST", "containers": [one]}}}}  # fmt: skip
    first = SchedulerProcess(tmp_path, f"sqlite:///{tmp_path}/state.db", own_mesos.url, **settings)
    try:
        first.start().wait_ready()
        first.call("POST", "/namespaces/default/applications", body)
        [before] = first.wait_running("kept", 1)
        [identity] = container_engine.containers("0.kept.")
        own_mesos.stop_process("s1")
        first.stop()
        own_mesos.start_process("s1")
        own_mesos.wait_for_agents()
        first.start().wait_ready()
        [after] = first.wait_running("kept", 1)
        assert after["ID"] == before["ID"] and container_engine.containers("0.kept.") == [identity]
        first.call("DELETE", "/namespaces/default/applications/kept")
        wait_for(lambda: container_engine.containers("0.kept.") == [], SECONDS, "the end of the container")
    finally:
        first.stop()
