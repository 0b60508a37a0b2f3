"""bcs_scheduler.executor.docker.translate: what an engine is asked for, compared as a whole."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.executor.docker import translate
from bcs_scheduler.executor.model import Amounts, Command, Container, Group, Port, Task, Volume
from bcs_scheduler.executor.runtime import TaskError

GROUP = Group(taskgroup="0.web.ns.c.1", name="web-0", namespace="ns", application="web", agent_ip="10.0.0.4")
DIRECTORY = Path("/box/tasks/t1")
NOW = 1_700_000_000_123_456_789
LABELS = {"io.bcs.taskgroup": "0.web.ns.c.1", "io.bcs.task": "1.0.0.web.ns.c"}
LOG = {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "2"}}


def task(**container: Any) -> Task:
    given: dict[str, Any] = {"image": "demo/front:1", "network_mode": "HOST", **container}
    return Task(id="1.0.0.web.ns.c", name="web", kind="container", container=Container(**given))


def body(found: Task, group: Group = GROUP) -> dict[str, Any]:
    env = translate.complete_env(found, group, {})
    return translate.create_body(found, group, DIRECTORY, NOW, env)


def test_a_plain_container_asks_for_little() -> None:
    assert body(task()) == {
        "Image": "demo/front:1",
        "Env": ["BCS_CONTAINER_IP=10.0.0.4", "MESOS_SANDBOX=/mnt/mesos/sandbox"],
        "Labels": LABELS,
        "AttachStdout": False,
        "AttachStderr": False,
        "Tty": False,
        "HostConfig": {
            "NetworkMode": "host",
            "Binds": ["/box/tasks/t1:/mnt/mesos/sandbox"],
            "LogConfig": LOG,
            "CpuShares": 1024,
        },
    }


def test_everything_a_container_may_have() -> None:
    found = replace(
        task(
            network_mode="BRIDGE",
            hostname="front",
            privileged=True,
            parameters=(
                ("ulimit", "nofile=1024"), ("ulimit", "nproc=64"), ("oom-kill-disable", "true"), ("shm-size", "128"),
                ("ipc", "host"), ("rm", "false"), ("P", ""), ("net", "ignored"), ("ip", "10.1.1.1"),
            ),
            volumes=(
                Volume("", "/cache"),
                Volume("/data/$BCS_POD_ID/x", "/data", read_only=True),
                Volume("shared", "/shared"),
            ),
            labels={"namespace": "ns", "pod_name": "web-0"},
        ),
        command=Command(argv=("serve", "--port", "80")),
        working_dir="/srv",
        user="app",
        env={"A": "1=2", "B": ""},
        ports=(
            Port("web", "http", 80, 31000), Port("dns", "UDP", 53, 31001), Port("two", "tcp", 80, 31002),
            Port("unmapped", "tcp", 81, -1),
        ),
        requests=Amounts(cpus=500, mem=64000),
        limits=Amounts(cpus=1500, mem=128000),
    )  # fmt: skip
    assert body(found) == {
        "Image": "demo/front:1",
        "Cmd": ["serve", "--port", "80"],
        "WorkingDir": "/srv",
        "User": "app",
        "Hostname": "front-1700000000123456789",
        "Env": ["A=1=2", "B=", "MESOS_SANDBOX=/mnt/mesos/sandbox"],
        "Labels": {"namespace": "ns", "pod_name": "web-0", **LABELS, "io.bcs.keep": "true"},
        "AttachStdout": False,
        "AttachStderr": False,
        "Tty": False,
        "ExposedPorts": {"80/tcp": {}, "53/udp": {}},
        "HostConfig": {
            "NetworkMode": "bridge",
            "Binds": [
                "/box/tasks/t1:/mnt/mesos/sandbox",
                "/box/tasks/t1/volumes/0:/cache",
                "/data/0.web.ns.c.1/x:/data:ro",
                "/box/tasks/t1/shared:/shared",
            ],
            "LogConfig": LOG,
            "CpuShares": 512,
            "CpuPeriod": 100000,
            "CpuQuota": 150000,
            "Memory": 134217728,
            "MemorySwap": 134217728,
            "Privileged": True,
            "PortBindings": {
                "80/tcp": [{"HostPort": "31000"}, {"HostPort": "31002"}],
                "53/udp": [{"HostPort": "31001"}],
            },
            "Ulimits": [
                {"Name": "nofile", "Soft": 1024, "Hard": 1024},
                {"Name": "nproc", "Soft": 64, "Hard": 64},
            ],
            "OomKillDisable": True,
            "ShmSize": 134217728,
            "IpcMode": "host",
            "PublishAllPorts": True,
        },
    }  # fmt: skip


def test_a_network_of_its_own_takes_the_fixed_address() -> None:
    found = body(task(network_mode="USER", network="blue", parameters=(("ip", "10.1.1.1"), ("net", "red"))))
    assert found["HostConfig"]["NetworkMode"] == "blue"
    assert found["NetworkingConfig"] == {"EndpointsConfig": {"blue": {"IPAMConfig": {"IPv4Address": "10.1.1.1"}}}}
    assert "BCS_CONTAINER_IP=10.1.1.1" in found["Env"]
    six = body(task(network_mode="USER", network="blue", parameters=(("ip", "fd00::1"),)))
    assert six["NetworkingConfig"]["EndpointsConfig"]["blue"] == {"IPAMConfig": {"IPv6Address": "fd00::1"}}


def test_a_network_of_its_own_is_asked_for_the_reserved_addresses_and_the_bandwidth() -> None:
    asked: dict[str, Any] = {
        "addresses": ("10.1.1.3", "fd00::3"),
        "egress_kbps": 20480,
        "parameters": (("ip", "10.9.9.9"),),
    }
    found = replace(
        task(network_mode="USER", network="blue", **asked), address_env=("MINE",), env={"MINE": "$BCS_CONTAINER_IP"}
    )
    assert body(found)["NetworkingConfig"] == {
        "EndpointsConfig": {
            "blue": {
                "IPAMConfig": {"IPv4Address": "10.1.1.3", "IPv6Address": "fd00::3"},
                "DriverOpts": {"CTNR_NET_EGRESS_RATE": "20480"},
            }
        }
    }
    assert {"BCS_CONTAINER_IP=10.1.1.3", "MINE=10.1.1.3"} <= set(body(found)["Env"])
    for mode in ("HOST", "BRIDGE", "NONE"):
        assert "NetworkingConfig" not in body(task(network_mode=mode, **asked))


@pytest.mark.parametrize(
    ("mode", "network", "expected"),
    [("HOST", "", "host"), ("BRIDGE", "x", "bridge"), ("NONE", "", "none"), ("", "", "none"), ("mynet", "", "mynet")],
)
def test_modes_become_networks(mode: str, network: str, expected: str) -> None:
    assert translate.network_of(task(network_mode=mode, network=network)) == expected


@pytest.mark.parametrize("mode", ["HOST", "NONE"])
def test_ports_are_mapped_only_where_there_is_a_network_to_map_from(mode: str) -> None:
    found = body(replace(task(network_mode=mode), ports=(Port("web", "tcp", 80, 31000),)))
    assert "ExposedPorts" not in found and "PortBindings" not in found["HostConfig"]


def test_a_host_name_is_for_containers_with_a_network_of_their_own_and_fits_the_kernel() -> None:
    assert "Hostname" not in body(task(hostname="front"))
    long = body(task(hostname="x" * 80, network_mode="BRIDGE"))["Hostname"]
    assert len(long) == 63 and long.endswith("-1700000000123456789")


def test_a_shell_line_is_run_by_the_shell() -> None:
    found = replace(task(), command=Command(shell=True, value="exec serve $PORT"))
    assert body(found)["Cmd"] == ["/bin/sh", "-c", "exec serve $PORT"]


@pytest.mark.parametrize(("cpus", "expected"), [(0, 1024), (1, 2), (100, 102), (1000, 1024), (2500, 2560)])
def test_shares(cpus: int, expected: int) -> None:
    assert translate.shares(cpus) == expected


@pytest.mark.parametrize(
    ("mem", "expected"), [(0, None), (3999, None), (4000, 6291456), (6001, 6292504), (64000, 67108864)]
)
def test_little_memory_is_not_enforced(mem: int, expected: int | None) -> None:
    found = translate.limits(0, mem)
    assert found == ({} if expected is None else {"Memory": expected, "MemorySwap": expected})


def test_a_quota_has_a_least() -> None:
    assert translate.limits(1, 0) == {"CpuPeriod": 100000, "CpuQuota": 1000}


def test_the_memory_request_is_the_limit_where_none_is_given() -> None:
    assert body(replace(task(), requests=Amounts(mem=64000)))["HostConfig"]["Memory"] == 67108864


@pytest.mark.parametrize(
    ("volume", "said"),
    [
        (Volume("/a:b", "/c"), "colon"),
        (Volume("/a", "/c:ro"), "colon"),
        (Volume("/a", "data"), "absolute"),
        (Volume("../../etc", "/c"), "out of the sandbox"),
    ],
)
def test_volumes_that_cannot_be(volume: Volume, said: str) -> None:
    with pytest.raises(TaskError, match=said):
        body(task(volumes=(volume,)))


@pytest.mark.parametrize("parameter", [("ulimit", "nofile=many"), ("ulimit", "nofile"), ("shm-size", "64m")])
def test_parameters_that_are_no_numbers(parameter: tuple[str, str]) -> None:
    with pytest.raises(TaskError, match="not a whole number"):
        body(task(parameters=(parameter,)))


def test_the_directories_of_private_volumes() -> None:
    found = task(volumes=(Volume("", "/a"), Volume("/host", "/b"), Volume("x/$BCS_POD_ID", "/c")))
    assert translate.volume_directories(found, GROUP, DIRECTORY) == [
        DIRECTORY / "volumes" / "0",
        DIRECTORY / "x" / "0.web.ns.c.1",
    ]


@pytest.mark.parametrize(
    ("reference", "repository", "tag", "registry"),
    [
        ("nginx", "nginx", "latest", "https://index.docker.io/v1/"),
        ("demo/front:1", "demo/front", "1", "https://index.docker.io/v1/"),
        ("reg.example.com/a/b", "reg.example.com/a/b", "latest", "reg.example.com"),
        ("localhost:5000/a:2", "localhost:5000/a", "2", "localhost:5000"),
        ("localhost/a", "localhost/a", "latest", "localhost"),
        ("r:5/a@sha256:ab", "r:5/a", "sha256:ab", "r:5"),
    ],
)
def test_image_references(reference: str, repository: str, tag: str, registry: str) -> None:
    image = translate.image_of(reference)
    assert (image.repository, image.tag, image.registry) == (repository, tag, registry)


def test_credentials_are_for_the_registry_of_the_image() -> None:
    found = json.loads(base64.urlsafe_b64decode(translate.registry_auth("r:5/a", "joe", "s3cret")))
    assert found == {"username": "joe", "password": "s3cret", "serveraddress": "r:5"}
    assert base64.urlsafe_b64decode(translate.registry_auth("r:5/a", "", "")) == b"{}"
