"""The routes that measure: whom they ask, what they sum up, and what they say when an agent says nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bcs_scheduler.agentapi import usage
from bcs_scheduler.api.views.usage import BY_DOCKER, NOT_LISTED, UNKNOWN_AGENT
from store.records import Framework, Task, TaskGroup, Version
from store.records.definition import Amounts, Container
from tests.component.agentusage import AgentUsage, container, counted, listing
from tests.component.apiserver import Api, serving
from tests.unit.api_support import CoreGateway, listed_agent

FRAMEWORK = "framework-1"
NOTHING = {"cpus": None, "mem": None, "disk": None}


def group(name: str, namespace: str = "shop", agent: str = "agent-1", *, ended: bool = False) -> TaskGroup:
    return TaskGroup(
        id=name,
        namespace=namespace,
        application=name.split(".")[1],
        index=int(name[0]),
        version="1",
        agent_id=agent,
        hostname=agent.replace("agent", "host"),
        executor="bcs",
        status="Finish" if ended else "Running",
        tasks=(Task(id=f"task-of-{name}", ended=ended),),
        resources=Amounts(cpus=500, mem=128_000, disk=10_000),
    )


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentUsage]:
    """With taskgroups of ours, and one of another framework."""
    monkeypatch.setattr(usage, "STEP", 0.02)

    def says(number: int) -> bytes:
        return listing(
            container("0.web.1", FRAMEWORK, **counted(2 * number, number, disk_used_bytes=usage.MIB)),
            container("1.web.1", FRAMEWORK, **counted(2 * number, number / 2)),
            container("0.boxed.1", FRAMEWORK, **counted(2 * number, number)),
            container("0.web.1", "another", **counted(4 * number, 6 * number)),
        )

    served = AgentUsage(says)
    yield served
    served.close()


@pytest.fixture
def gateway(agent: AgentUsage) -> CoreGateway:
    """agent-1 answers, agent-2 is away, agent-3 is not listed by Mesos."""
    made = CoreGateway(
        [
            Framework(id=FRAMEWORK),
            Version(namespace="shop", application="boxed", name="1", containers=(Container(image="nginx"),)),
            *(group(name) for name in ("0.web.1", "1.web.1", "2.web.1", "0.boxed.1")),
            group("0.far.1", "other", "agent-2"),
            group("1.far.1", "other", "agent-3"),
            group("9.web.1", ended=True),
        ]
    )
    made.listed = [
        listed_agent(1, 8, 1024)._replace(ip="127.0.0.1", port=agent.port),
        listed_agent(2, 1, 1)._replace(ip="127.0.0.1", port=1),
    ]
    return made


@pytest.fixture
def api(gateway: CoreGateway) -> Iterator[Api]:
    with serving(gateway) as served:
        yield served


def test_taskgroups_with_what_they_use_and_have(api: Api) -> None:
    found = {each["id"]: each for each in api.data("/usage/taskgroups")}
    assert list(found) == ["0.far.1", "1.far.1", "0.boxed.1", "0.web.1", "1.web.1", "2.web.1"], (
        "in the order of lists, live ones"
    )
    assert found["0.web.1"] == {
        "id": "0.web.1",
        "namespace": "shop",
        "application": "web",
        "status": "Running",
        "hostname": "host-1",
        "used": {"cpus": 0.5, "mem": 64.0, "disk": 1.0},
        "allocated": {"cpus": 0.5, "mem": 128.0, "disk": 10.0, "gpus": 0.0},
        "interval": 2.0,
        "problem": "",
    }
    assert found["1.web.1"]["used"] == {"cpus": 0.25, "mem": 64.0, "disk": None}


def test_why_nothing_is_known_of_a_taskgroup(api: Api) -> None:
    found = {each["id"]: (each["used"], each["problem"]) for each in api.data("/usage/taskgroups")}
    assert found["0.boxed.1"] == (NOTHING, BY_DOCKER)
    assert found["2.web.1"] == (NOTHING, NOT_LISTED)
    assert found["1.far.1"] == (NOTHING, UNKNOWN_AGENT)
    assert found["0.far.1"] == (NOTHING, "agent 127.0.0.1:1 does not answer: the connection failed")


def test_agents_with_the_sum_of_what_is_known(api: Api) -> None:
    found = {each["id"]: each for each in api.data("/usage/agents")}
    assert list(found) == ["agent-1", "agent-2", "agent-3"]
    assert found["agent-1"] == {
        "id": "agent-1",
        "hostname": "host-1",
        "ip": "127.0.0.1",
        "disabled": False,
        "taskgroups": 4,
        "used": {"cpus": 2.25, "mem": 192.0, "disk": 1.0},
        "allocated": {"cpus": 2.0, "mem": 512.0, "disk": 40.0, "gpus": 0.0},
        "total": {"cpus": 8.0, "mem": 1024.0, "disk": 100_000.0, "gpus": 0.0},
        "interval": 4.0,
        "uncounted": 1,
        "problem": "",
    }
    assert (found["agent-2"]["used"], found["agent-3"]["used"]) == (NOTHING, NOTHING)
    assert found["agent-2"]["problem"].startswith("agent 127.0.0.1:1 ") and found["agent-3"]["problem"] == UNKNOWN_AGENT


def test_an_agent_without_containers_uses_nothing(api: Api, agent: AgentUsage) -> None:
    agent.says = lambda number: listing()
    (found,) = api.data("/usage/agents", params={"agent": "host-1"})
    assert found["used"] == {"cpus": 0.0, "mem": 0.0, "disk": 0.0}


def test_only_agents_that_have_what_is_asked_for_are_asked(api: Api, agent: AgentUsage) -> None:
    def ids(path: str, **query: str) -> list[str]:
        return [each["id"] for each in api.data(path, params=query)]

    assert (
        ids("/namespaces/other/usage/taskgroups")
        == ids("/usage/taskgroups", namespace="other")
        == ["0.far.1", "1.far.1"]
    )
    assert ids("/usage/taskgroups", agent="agent-2") == ids("/usage/taskgroups", agent="host-2") == ["0.far.1"]
    assert ids("/namespaces/none/usage/taskgroups") == ids("/usage/agents", agent="nobody") == []
    assert agent.asked == []
    assert ids("/namespaces/shop/usage/taskgroups", application="boxed") == ["0.boxed.1"]
    assert agent.asked
    assert api.get("/usage/agents", params={"limits": 1}).json()["warnings"][0]["path"] == "?limits"


def test_a_standby_points_to_who_knows_the_agents(api: Api, gateway: CoreGateway) -> None:
    gateway.stand_by("http://leader:8080")
    for path in ("/usage/agents", "/usage/taskgroups", "/namespaces/shop/usage/taskgroups"):
        answer = api.get(path)
        assert answer.status_code == 307
        assert answer.headers["Location"] == f"http://leader:8080/v4/scheduler/mesos{path}"


@pytest.mark.parametrize("path", ["/usage/taskgroups", "/usage/agents"])
def test_pages_measure_only_what_they_show_and_are_the_list_together(api: Api, agent: AgentUsage, path: str) -> None:
    first = api.get(path, params={"limit": 1, "agent": "agent-2"}).json()
    assert len(first["data"]) == 1 and "continue" not in first and agent.asked == []
    whole = [each["id"] for each in api.data(path)]
    found, token = [], ""
    while True:
        page = api.get(path, params={"limit": 2, "continue": token}).json()
        found += [each["id"] for each in page["data"]]
        token = page.get("continue", "")
        assert len(page["data"]) == 2 or not token
        if not token:
            break
    assert found == whole and len(found) > 2
    assert api.get(path, params={"limit": 2, "continue": "none"}).status_code == 400
