"""Tasks in documents: processes, networks and ports, checks, references, engine parameters, and who can run what."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from bcs_scheduler.api.documents.convert import to_version
from bcs_scheduler.api.documents.validate import read_application
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.wire.problems import Problems
from store.records import Version
from store.records.definition import Amounts, Item, Port, Process, Reference, Uri
from tests.unit.api_support import document
from transactions.resource_request import EXECUTOR, fixed_port, is_random, request_of

POD = "$.spec.template.spec"
CONTAINER = f"{POD}.containers[0]"
PROCESS = f"{POD}.processes[0]"
IMAGE = "registry.example.org/demo:1"


def version_of(raw: Any, **more: Any) -> Version:
    read = read_application(raw, namespace="shop", creating=True, problems=Problems("Warn"), **more)
    return to_version(read, 0)


def problems_of(raw: Any, **more: Any) -> dict[str, str]:
    with pytest.raises(ApiError) as refused:
        read_application(raw, namespace="shop", creating=True, **more)
    return {problem.path: problem.message for problem in refused.value.problems}


def pod(raw: dict[str, Any], **fields: Any) -> dict[str, Any]:
    raw["spec"]["template"]["spec"].update(fields)
    return raw


def process(**fields: Any) -> dict[str, Any]:
    raw = document()
    raw["kind"] = "process"
    raw["spec"]["template"]["spec"] = {"processes": [{"procName": "chatd", "startCmd": "./start.sh", **fields}]}
    return raw


# --- processes ------------------------------------------------------------------------------------------------


def test_a_process_becomes_a_container_that_is_driven_by_commands() -> None:
    raw = process(
        workPath="/srv/chat",
        pidFile="/srv/chat/pid",
        startGracePeriod=3,
        checkCmd="test -e ok",
        stopCmd="./stop.sh",
        restartCmd="./restart.sh",
        reloadCmd="./reload.sh",
        killCmd="./kill.sh",
        user="chat",
        uris=[
            {"value": "http://pkg/one.tar.gz", "user": "reader", "pwd": "secret::pkg||key", "outputDir": "one"},
            {"value": "http://pkg/two.tar.gz", "outputDir": "${work_base_dir}/two"},
        ],
        ports=[{"name": "chat", "hostPort": 0}],
        configmaps=[{"name": "c", "items": [{"type": "file", "dataKey": "a", "keyOrPath": "/srv/a"}]}],
    )
    version = version_of(raw)
    only = version.containers[0]
    assert version.network_mode == "HOST" and only.name == "chatd" and not only.command and not only.image
    assert only.process == Process(
        name="chatd",
        start="./start.sh",
        start_grace=3.0,
        pid_file="/srv/chat/pid",
        check="test -e ok",
        stop="./stop.sh",
        restart="./restart.sh",
        reload="./reload.sh",
        kill="./kill.sh",
    )
    assert (only.user, only.working_dir) == ("chat", "/srv/chat")
    assert only.requests == Amounts(cpus=1000, mem=64_000, disk=64_000)
    assert only.uris == (
        Uri(value="http://pkg/one.tar.gz", user="reader", password="secret::pkg||key", output="one"),
        Uri(value="http://pkg/two.tar.gz", output="${work_base_dir}/two"),
    )
    assert is_random(version, only.ports[0])
    item = Item(type="file", key="a", target="/srv/a", mode=0o644, user="chat")
    assert only.configmaps == (Reference(name="c", items=(item,)),)


def test_limits_of_a_process_are_what_it_asks_for() -> None:
    only = version_of(process(resources={"limits": {"cpu": "0.5", "memory": "200"}})).containers[0]
    assert only.requests == Amounts(cpus=500, mem=200_000, disk=64_000)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"procName": ""}, ".procName"),
        ({"procName": "bin/chatd"}, ".procName"),
        ({"startCmd": " "}, ".startCmd"),
        ({"startCmd": None}, ".startCmd"),
        ({"logPath": "/var/log"}, ".logPath"),
        ({"cfgPath": "/etc"}, ".cfgPath"),
        ({"procGroup": "x"}, ".procGroup"),
        ({"workPath": "../x"}, ".workPath"),
        ({"user": "a b"}, ".user"),
        ({"uris": [{"value": "http://u:p@h/x"}]}, ".uris[0].value"),
        ({"uris": [{"value": "http://h/x", "pwd": "p"}]}, ".uris[0].user"),
        ({"uris": [{"value": "http://h/x", "user": "u", "pwd": "***"}]}, ".uris[0].pwd"),
        ({"uris": [{"value": "http://h/x", "user": "u", "pwd": "secret::x"}]}, ".uris[0].pwd"),
        ({"uris": [{"value": "http://h/x", "outputDir": "/abs"}]}, ".uris[0].output"),
        ({"stopcmd": "x", "stopCmd": "y"}, ".stopCmd"),
    ],
)
def test_problems_of_processes(fields: dict[str, Any], path: str) -> None:
    assert f"{PROCESS}{path}" in problems_of(process(**fields))


def test_kind_and_contents_must_agree() -> None:
    raw = process()
    raw["kind"] = "application"
    assert problems_of(raw).keys() == {f"{POD}.containers", f"{POD}.processes"}
    raw = document()
    raw["kind"] = "process"
    assert problems_of(raw).keys() == {f"{POD}.containers", f"{POD}.processes"}
    assert problems_of(pod(process(), networkMode="BRIDGE")).keys() == {f"{POD}.networkMode"}


def test_two_processes_of_one_name_are_refused() -> None:
    raw = process()
    processes = raw["spec"]["template"]["spec"]["processes"]
    processes.append(copy.deepcopy(processes[0]))
    assert problems_of(raw).keys() == {f"{POD}.processes[1].procName"}


# --- who runs it ----------------------------------------------------------------------------------------------


def test_the_executor_may_stand_in_two_places_but_not_in_two_ways() -> None:
    assert version_of(document()).executor == ""
    assert version_of(pod(document(), executor="mesos")).executor == "mesos"
    assert version_of({**document(), "executor": "mesos"}).executor == "mesos"
    assert problems_of({**pod(document(), executor="mesos"), "executor": "bcs"}).keys() == {f"{POD}.executor"}
    assert "did you mean mesos?" in problems_of(pod(document(), executor="meso"))[f"{POD}.executor"]


FILE = {"type": "file", "dataKey": "k", "keyOrPath": "/k"}
VARIABLE = {"type": "env", "dataKey": "k", "keyOrPath": "K"}
HEADERS = {"type": "HTTP", "http": {"port": 80, "headers": {"A": "b"}}}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"image": IMAGE, "privileged": True}, ".privileged"),
        ({"image": IMAGE, "parameters": [{"key": "rm", "value": "false"}]}, ".parameters"),
        ({"image": IMAGE, "imagePullUser": "u", "imagePullPasswd": "p"}, ".imagePullUser"),
        ({"image": IMAGE, "imagePullPolicy": "Never"}, ".imagePullPolicy"),
        ({"configmaps": [{"name": "c", "items": [FILE]}]}, ".configmaps[0].items[0]"),
        ({"secrets": [{"secretName": "c", "items": [VARIABLE, FILE]}]}, ".secrets[0].items[1]"),
        ({"uris": [{"value": "http://h/x", "user": "u"}]}, ".uris[0].user"),
        ({"healthChecks": [HEADERS]}, ".healthChecks[0].http.headers"),
    ],
)
def test_what_mesos_cannot_do_is_refused_where_it_is_asked_to(fields: dict[str, Any], path: str) -> None:
    raw = document(**fields)
    assert version_of(raw).executor == ""
    said = problems_of(pod(copy.deepcopy(raw), executor="mesos"))
    assert f"{CONTAINER}{path}" in said and '"mesos"' in said[f"{CONTAINER}{path}"]
    default = problems_of(raw, default_executor="mesos")
    assert '"executor": "bcs"' in default[f"{CONTAINER}{path}"]
    assert version_of(pod(raw, executor="bcs"), default_executor="mesos").executor == "bcs"


def test_what_only_mesos_may_know_how_to_fetch_is_refused_where_ours_runs() -> None:
    for url in ("hdfs://h/x.tgz", "FTP://h/x"):
        raw = document(uris=[{"value": "https://h/x"}, {"value": url}])
        assert problems_of(raw)[f"{CONTAINER}.uris[1].value"].startswith("cannot be fetched: http, https, file")
        assert version_of(raw, default_executor="mesos").containers[0].uris[1].value == url
        assert f"{PROCESS}.uris[0].value" in problems_of(process(uris=[{"value": url}]))


def test_mesos_runs_no_processes_and_knows_no_bridge() -> None:
    assert problems_of({**process(), "executor": "mesos"}).keys() == {f"{POD}.processes"}
    assert version_of(process(), default_executor="mesos").executor == ""
    raw = pod(document(image=IMAGE, ports=[]), networkMode="BRIDGE", executor="mesos")
    assert problems_of(raw).keys() == {f"{POD}.networkMode"}


def test_mesos_takes_variables_and_remote_checks() -> None:
    check = {"type": "REMOTE_HTTP", "http": {"port": 80, "headers": {"A": "b"}}}
    raw = document(secrets=[{"secretName": "c", "items": [VARIABLE]}], healthChecks=[check])
    assert version_of(pod(raw, executor="mesos")).containers[0].health_checks[0].headers == {"A": "b"}


# --- networks and ports ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "kind", "port", "expected", "random", "fixed"),
    [
        ("HOST", "", {}, (0, 0), True, 0),
        ("HOST", "", {"containerPort": 80}, (80, 80), False, 80),
        ("host", "", {"hostPort": 80}, (80, 80), False, 80),
        ("BRIDGE", "", {"containerPort": 80}, (80, 0), True, 0),
        ("BRIDGE", "cnm", {"containerPort": 80, "hostPort": 8080}, (80, 8080), False, 8080),
        ("BRIDGE", "", {"containerPort": 80, "hostPort": -1}, (80, -1), False, 0),
        ("BRIDGE", "", {}, (0, 0), True, 0),
        ("net-1", "cnm", {"containerPort": 80}, (80, 0), True, 0),
        ("net-1", "cni", {"containerPort": 80}, (80, -1), False, 0),
        ("net-1", "", {"containerPort": 80, "hostPort": -1}, (80, -1), False, 0),
        ("USER", "", {"containerPort": 80}, (80, -1), False, 0),
    ],
)
def test_ports_follow_the_network(
    mode: str, kind: str, port: dict[str, int], expected: tuple[int, int], random: bool, fixed: int
) -> None:
    raw = pod(document(image=IMAGE, ports=[{"name": "p", **port}]), networkMode=mode, networktype=kind)
    version = version_of(raw)
    only = version.containers[0].ports[0]
    assert only == Port(name="p", container_port=expected[0], host_port=expected[1])
    assert (is_random(version, only), fixed_port(version, only)) == (random, fixed)
    need = request_of(version, EXECUTOR)
    assert (need.random_ports, need.fixed_ports) == (int(random), (fixed,) if fixed else ())


@pytest.mark.parametrize(
    ("mode", "kind", "ports", "path"),
    [
        ("HOST", "", [{"containerPort": -1}], ".ports[0].containerPort"),
        ("HOST", "", [{"hostPort": -1}], ".ports[0].hostPort"),
        ("NONE", "", [{"containerPort": 80}], ".ports[0]"),
        ("net-1", "cni", [{"containerPort": 80, "hostPort": 8080}], ".ports[0].hostPort"),
        ("net-1", "cni", [{}], ".ports[0].containerPort"),
        ("BRIDGE", "", [{"hostPort": -1}], ".ports[0].containerPort"),
        ("BRIDGE", "", [{"containerPort": 80}, {"containerPort": 80}], ".ports[1].containerPort"),
        (
            "BRIDGE",
            "",
            [{"containerPort": 80, "hostPort": 90}, {"containerPort": 81, "hostPort": 90}],
            ".ports[1].hostPort",
        ),
    ],
)
def test_ports_that_a_network_cannot_have(mode: str, kind: str, ports: list[dict[str, int]], path: str) -> None:
    named = [{"name": f"p{i}", **port} for i, port in enumerate(ports)]
    raw = pod(document(image=IMAGE, ports=named), networkMode=mode, networktype=kind)
    assert problems_of(raw).keys() == {f"{CONTAINER}{path}"}


def test_one_number_may_be_used_by_both_transports_inside_a_container() -> None:
    ports = [{"name": "a", "containerPort": 53}, {"name": "b", "protocol": "udp", "containerPort": 53}]
    assert len(version_of(pod(document(image=IMAGE, ports=ports), networkMode="BRIDGE")).containers[0].ports) == 2


def test_one_host_port_may_be_used_by_both_transports() -> None:
    """A name server listens on tcp and udp: the agent gives the number once. The same transport twice is refused."""
    both = [{"name": "dns", "containerPort": 53, "protocol": "udp"}, {"name": "dns-tcp", "containerPort": 53}]
    version = version_of(pod(document(image=IMAGE, ports=both), networkMode="HOST"))
    assert [port.name for port in version.containers[0].ports] == ["dns", "dns-tcp"]
    assert request_of(version, EXECUTOR).fixed_ports == (53,)
    twice = [*both, {"name": "other", "containerPort": 53, "protocol": "http"}]
    raw = pod(document(image=IMAGE, ports=twice), networkMode="HOST")
    assert problems_of(raw).keys() == {f"{CONTAINER}.ports[2].containerPort"}


def test_networks_are_names_and_their_types_known() -> None:
    raw = pod(document(image=IMAGE, ports=[]), networkMode="a b", networktype="cnx")
    assert problems_of(raw).keys() == {f"{POD}.networkMode", f"{POD}.networktype"}
    assert problems_of(pod(document(ports=[]), networkMode="BRIDGE")).keys() == {f"{CONTAINER}.image"}
    raw = pod(document(image=IMAGE), netLimit={"egressLimit": 5})
    assert problems_of(raw).keys() == {f"{POD}.netLimit"}


# --- checks ---------------------------------------------------------------------------------------------------


def test_a_task_has_one_local_check_and_one_of_each_remote_kind() -> None:
    http = {"port": 80, "scheme": "HTTPS", "path": "/live"}
    checks = [
        {"type": "COMMAND", "command": {"value": "true"}},
        {"type": "REMOTE_HTTP", "http": http},
        {"type": "REMOTE_TCP", "tcp": {"portName": "http"}},
    ]
    made = version_of(document(healthChecks=checks)).containers[0].health_checks
    assert [(c.type, c.scheme, c.path) for c in made] == [
        ("COMMAND", "http", "/"), ("REMOTE_HTTP", "https", "/live"), ("REMOTE_TCP", "http", "/"),
    ]  # fmt: skip
    twice = [{"type": "TCP", "tcp": {"port": 1}}, checks[1], {"type": "REMOTE_HTTP", "http": {"port": 1}}, checks[0]]
    assert problems_of(document(healthChecks=twice)).keys() == {
        f"{CONTAINER}.healthChecks[2]", f"{CONTAINER}.healthChecks[3]",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("check", "path"),
    [
        ({"type": "REMOTE_HTTP", "tcp": {"port": 1}}, ".http"),
        ({"type": "REMOTE_TCP", "tcp": {"portName": "htp"}}, ".tcp.portName"),
        ({"type": "HTTP", "http": {"port": 1, "path": "live"}}, ".http.path"),
        ({"type": "HTTP", "http": {"port": 1, "scheme": "ftp"}}, ".http.scheme"),
        ({"type": "HTTP", "http": {"port": 1, "headers": {"A B": "x"}}}, '.http.headers["A B"]'),
        ({"type": "HTTP", "http": {"port": 1, "headers": {"A": "x\r\nB: y"}}}, ".http.headers.A"),
        ({"type": "COMMAND", "command": {"value": " "}}, ".command.value"),
    ],
)
def test_problems_of_checks(check: dict[str, Any], path: str) -> None:
    assert f"{CONTAINER}.healthChecks[0]{path}" in problems_of(document(healthChecks=[check]))


# --- configmaps and secrets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "key", "read_only", "mode"),
    [
        ("configmaps", "name", None, 0o644),
        ("configmaps", "name", True, 0o444),
        ("configmaps", "name", False, 0o644),
        ("secrets", "secretName", None, 0o400),
        ("secrets", "secretName", True, 0o400),
        ("secrets", "secretName", False, 0o600),
    ],
)
def test_permissions_of_files(field: str, key: str, read_only: bool | None, mode: int) -> None:
    item = {**FILE, "readOnly": read_only, "user": "web"}
    given: dict[str, Any] = {field: [{key: "x", "items": [item]}]}
    container = version_of(document(**given)).containers[0]
    made = getattr(container, field)[0].items[0]
    assert made == Item(type="file", key="k", target="/k", mode=mode, user="web")


def test_files_belong_to_the_user_of_the_task_unless_they_say_otherwise() -> None:
    given: dict[str, Any] = {"configmaps": [{"name": "x", "items": [FILE]}], "user": "web"}
    assert version_of(document(**given)).containers[0].configmaps[0].items[0].user == "web"
    assert version_of(document(**given, image=IMAGE)).containers[0].configmaps[0].items[0].user == ""


@pytest.mark.parametrize(
    ("items", "path"),
    [
        ([], ".items"),
        ([{**FILE, "type": "link"}], ".items[0].type"),
        ([{**FILE, "keyOrPath": "../k"}], ".items[0].keyOrPath"),
        ([{**FILE, "keyOrPath": ""}], ".items[0].keyOrPath"),
        ([{**FILE, "keyOrPath": "./stdout"}], ".items[0].keyOrPath"),
        ([{**FILE, "subPath": "x"}], ".items[0].subPath"),
        ([{**FILE, "dataKeyAlias": "x"}], ".items[0].dataKeyAlias"),
        ([{**FILE, "dataKey": ""}], ".items[0].dataKey"),
        ([FILE, {**FILE, "keyOrPath": "//k"}, {**FILE, "keyOrPath": "/./k"}], ".items[2].keyOrPath"),
        ([{**VARIABLE, "keyOrPath": "A=B"}], ".items[0].keyOrPath"),
        ([VARIABLE, VARIABLE], ".items[1].keyOrPath"),
        ([{**VARIABLE, "keyOrPath": "OWN"}], ".items[0].keyOrPath"),
        ([{**VARIABLE, "user": "root"}], ".items[0].user"),
        ([{**VARIABLE, "readOnly": True}], ".items[0].readOnly"),
    ],
)
def test_problems_of_references(items: list[dict[str, Any]], path: str) -> None:
    env = [{"name": "OWN", "value": "1"}]
    raw = document(env=env, configmaps=[{"name": "x", "items": items}])
    assert f"{CONTAINER}.configmaps[0]{path}" in problems_of(raw)


def test_a_warning_says_where_a_file_of_a_process_with_an_absolute_path_is() -> None:
    problems = Problems("Warn")
    secrets = [{"secretName": "x", "items": [{**FILE, "keyOrPath": "//etc/./k"}]}]
    read_application(document(secrets=secrets), namespace="shop", creating=True, problems=problems)
    told = {warning.path: warning.message for warning in problems.warnings()}
    words = "is written to etc/k in the folder of the process, not to this path of the agent"
    assert told[f"{CONTAINER}.secrets[0].items[0].keyOrPath"] == words


def test_files_of_containers_need_whole_paths() -> None:
    item = {**FILE, "keyOrPath": "etc/k"}
    secrets = [{"secretName": "x", "items": [item]}]
    assert version_of(document(secrets=secrets)).containers[0].secrets[0].items[0].target == "etc/k"
    assert problems_of(document(secrets=secrets, image=IMAGE)).keys() == {
        f"{CONTAINER}.secrets[0].items[0].keyOrPath"
    }  # fmt: skip


# --- engine parameters ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "field"),
    [
        (("ulimit", "nofil=5"), "value"),
        (("ulimit", "nofile"), "value"),
        (("ulimit", "nofile=-2"), "value"),
        (("rm", "yes"), "value"),
        (("oom-kill-disable", "1"), "value"),
        (("shm-size", "0"), "value"),
        (("ipc", ""), "value"),
        (("ip", "10.0.0.1"), "key"),
        (("net", "x"), "key"),
        (("P", ""), "key"),
        (("shm-siz", "1"), "key"),
    ],
)
def test_problems_of_parameters(parameter: tuple[str, str], field: str) -> None:
    given = [{"key": parameter[0], "value": parameter[1]}]
    assert problems_of(document(image=IMAGE, parameters=given)).keys() == {f"{CONTAINER}.parameters[0].{field}"}


def test_parameters_are_kept_in_order_and_only_limits_may_repeat() -> None:
    given = [("ulimit", "nofile=10"), ("ulimit", "core=-1"), ("ip", "10.0.0.9"), ("rm", "false")]
    parameters = [{"key": key, "value": value} for key, value in given]
    raw = pod(document(image=IMAGE, ports=[], parameters=parameters), networkMode="net-1")
    assert version_of(raw).containers[0].parameters == tuple(given)
    twice = [*parameters, parameters[0], parameters[3]]
    raw = pod(document(image=IMAGE, ports=[], parameters=twice), networkMode="net-1")
    assert problems_of(raw).keys() == {f"{CONTAINER}.parameters[4].value", f"{CONTAINER}.parameters[5].key"}


def test_a_plain_process_may_have_limits_only() -> None:
    limits = [{"key": "ulimit", "value": "nofile=10"}]
    assert version_of(document(parameters=limits)).containers[0].parameters == (("ulimit", "nofile=10"),)
    raw = document(parameters=[*limits, {"key": "shm-size", "value": "1"}])
    assert problems_of(raw).keys() == {f"{CONTAINER}.parameters[1].key"}


def test_a_host_name_has_no_meaning_in_the_host_network() -> None:
    assert problems_of(document(image=IMAGE, hostname="web")).keys() == {f"{CONTAINER}.hostname"}


def test_the_stored_document_makes_the_same_version_again() -> None:
    for raw in (process(uris=[{"value": "http://h/x", "user": "u", "pwd": "p"}]), document(image=IMAGE, name="x")):
        first = version_of(raw)
        assert version_of(json.loads(first.raw)) == first


# --- input ----------------------------------------------------------------------------------------------------


def with_input(*, image: str = "", executor: str = "bcs", **fields: bool) -> dict[str, Any]:
    raw = document()
    raw["executor"] = executor
    [container] = raw["spec"]["template"]["spec"]["containers"]
    container |= {"command": "cat", "image": image, **fields}
    return raw


@pytest.mark.parametrize(
    "raw",
    [
        with_input(stdin=True),
        with_input(stdin=True, tty=True),
        with_input(stdin=True, stdinOnce=True),
        with_input(stdin=True, image=IMAGE),
        with_input(stdin=True, tty=True, image=IMAGE),
        with_input(stdin=True, tty=True, executor="mesos"),
        with_input(stdin=True, tty=True, executor="mesos", image=IMAGE),
    ],
)
def test_input_and_terminal_of_a_container(raw: dict[str, Any]) -> None:
    [container] = version_of(raw).containers
    given = raw["spec"]["template"]["spec"]["containers"][0]
    assert container.stdin_once is given.get("stdinOnce", False)
    assert (container.stdin, container.tty) == (given["stdin"], given.get("tty", False))


@pytest.mark.parametrize(
    ("raw", "field", "words"),
    [
        (with_input(tty=True), "tty", "needs stdin: true"),
        (with_input(stdin=True, executor="mesos"), "stdin", 'needs tty: true with the executor "mesos"'),
        (with_input(tty=True, image=IMAGE), "tty", "needs stdin: true"),
        (with_input(stdinOnce=True), "stdinOnce", "needs stdin: true without tty"),
        (with_input(stdin=True, stdinOnce=True, tty=True), "stdinOnce", "needs stdin: true without tty"),
    ],
)
def test_an_input_that_the_executor_cannot_give_is_refused(raw: dict[str, Any], field: str, words: str) -> None:
    found = problems_of(raw)
    assert words in found[f"{CONTAINER}.{field}"]
