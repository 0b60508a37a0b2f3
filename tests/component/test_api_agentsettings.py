"""Agents by any of their names: over the API settings go to the agent that is meant, or say that there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bcs_scheduler.api.routes.agent_settings import UNLISTED
from bcs_scheduler.cli.main import run
from bcs_scheduler.core.interface.cluster_manager import AgentsListed
from bcs_scheduler.core.interface.requests import CreateApplication, Rebalance, SetAgent
from offers.agents import ListedAgent
from store.records import AgentSetting, Drain, Version
from store.records.definition import Container
from tests.component.apiserver import Api
from tests.unit.api_support import CoreGateway

NAMES = ("host-1", "agent-1", "10.0.0.1")
"""Of one agent; the last is the key of its settings."""


@pytest.fixture
def gateway() -> CoreGateway:
    gateway = CoreGateway()
    gateway.connect()
    for number in (1, 2):
        gateway.offer(number)
    gateway.feed(AgentsListed(agents=tuple(gateway.listed)))
    return gateway


def taint(name: str) -> tuple[str, str, Any]:
    return "PUT", "/agentsettings/taint", [{"innerIP": name, "noSchedule": {"for": "db"}}]


def setting(name: str) -> tuple[str, str, Any]:
    return "POST", "/agentsettings", [{"innerIP": name, "disabled": True}]


def extended(name: str) -> tuple[str, str, Any]:
    return "PUT", "/agentsettings/extendedresource", {"InnerIP": name, "Name": "gpu", "Capacity": 1}


def switch(name: str) -> tuple[str, str, Any]:
    return "POST", f"/agentsettings/disable?ips={name}", None


WAYS = [taint, setting, extended, switch]


def send(api: Api, request: tuple[str, str, Any]) -> Any:
    method, path, body = request
    return api.call(method, path, json=body)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_an_agent_means_its_settings(gateway: CoreGateway, api: Api, way: Any, name: str) -> None:
    answer = send(api, way(name))
    assert answer.json()["data"] == [{"innerIP": "10.0.0.1", "result": True, "message": "success"}]
    assert list(gateway.core.state.agent_settings) == ["10.0.0.1"]


def queried(request: tuple[str, str, Any], **query: str) -> tuple[str, str, Any]:
    method, path, body = request
    return method, path + "".join(f"{'&' if '?' in path else '?'}{key}={value}" for key, value in query.items()), body


def forced(request: tuple[str, str, Any]) -> tuple[str, str, Any]:
    return queried(request, force="true")


@pytest.mark.parametrize("way", [*WAYS, lambda name: ("POST", f"/agentsetting/{name}/disable", None)])
@pytest.mark.parametrize(
    ("name", "meant"), [("elsewhere", ""), ("agnt-1", "agent-1"), ("hots-1", "host-1"), ("10.0.0.11", "10.0.0.1")]
)
def test_a_name_that_no_agent_has_is_refused(gateway: CoreGateway, api: Api, way: Any, name: str, meant: str) -> None:
    for options in ({}, {"dryRun": "true"}):
        answer = send(api, queried(way(name), **options))
        assert (answer.status_code, answer.json()["data"]["reason"]) == (404, "not_found"), answer.text
        message = answer.json()["message"]
        assert f"agent {name} is not known" in message
        assert message.endswith(f"; did you mean {meant}?") == bool(meant)
    assert not gateway.core.state.agent_settings
    assert not [agent for agent in api.data("/agents") if not agent["active"]]


def test_an_uncordon_makes_no_agent(gateway: CoreGateway, api: Api) -> None:
    for path in ("/agentsettings/enable?ips=agent-9", "/agentsetting/agent-9/enable"):
        assert api.call("POST", path).status_code == 404
    assert api.call("POST", "/agentsettings/enable?ips=agent-9&force=true").status_code == 404
    assert not gateway.core.state.agent_settings


def test_of_many_agents_those_that_are_not_known_are_named(gateway: CoreGateway, api: Api) -> None:
    answer = api.call("POST", "/agentsettings/disable?ips=host-1,hots-2")
    assert answer.status_code == 404
    assert [result["result"] for result in answer.json()["data"]["results"]] == [True, False]
    assert "did you mean host-2?" in answer.json()["message"]
    assert list(gateway.core.state.agent_settings) == ["10.0.0.1"]


@pytest.mark.parametrize("way", WAYS)
def test_a_name_that_no_agent_has_is_kept_by_force_and_said(gateway: CoreGateway, api: Api, way: Any) -> None:
    answer = send(api, forced(way("agent-9")))
    assert answer.json()["data"] == [{"innerIP": "agent-9", "result": True, "message": UNLISTED, "listed": False}]
    assert "no agent of this name is listed" in UNLISTED
    assert list(gateway.core.state.agent_settings) == ["agent-9"]
    assert api.call("DELETE", "/agentsettings?ips=agent-9").json()["data"][0]["message"] == "success"


@pytest.mark.parametrize("path", ["/agentsettings", "/agentsettings/taint"])
def test_one_agent_by_two_names_is_given_twice(gateway: CoreGateway, api: Api, path: str) -> None:
    body: list[dict[str, Any]] = [{"innerIP": name, "noSchedule": {}} for name in ("10.0.0.2", "host-1", "10.0.0.1")]
    answer = api.call("PUT" if path.endswith("taint") else "POST", path, json=body)
    assert answer.status_code == 422
    (problem,) = answer.json()["data"]["problems"]
    assert problem == {"path": "$[2].innerIP", "message": '"10.0.0.1" is given twice: host-1 is the same agent'}
    assert not any(isinstance(command, SetAgent) for command in gateway.commands)


def test_a_name_of_several_agents_means_all_of_them_in_bodies_too(gateway: CoreGateway, api: Api) -> None:
    gateway.listed = [agent._replace(hostname="host") for agent in gateway.listed]
    answer = send(api, taint("host"))
    assert [result["innerIP"] for result in answer.json()["data"]] == ["10.0.0.1", "10.0.0.2"]


def test_settings_under_a_host_name_do_not_hide_the_agent(gateway: CoreGateway, api: Api) -> None:
    """As older ones may have been stored."""
    container = Container(command="/bin/true")
    gateway.feed(CreateApplication(version=Version(namespace="ns", application="web", containers=(container,))))
    gateway.offer(1)
    (group,) = gateway.core.state.taskgroups.values()
    gateway.feed(SetAgent(agent=group.hostname, taints={"a": "b"}))
    answer = api.call("POST", "/agentsettings/drain", params={"ips": group.hostname})
    assert answer.json()["data"][0]["innerIP"] == group.agent_ip
    gateway.feed()
    (told,) = api.data("/agentsettings/drain")
    assert (told["innerIP"], told["state"], told["left"]) == (group.agent_ip, "draining", 1)
    assert api.data(f"/agentsetting/{group.hostname}")["innerIP"] == group.agent_ip


def test_settings_alone_are_no_agent_to_be_drained(api: Api) -> None:
    send(api, forced(taint("agent-9")))
    answer = api.call("POST", "/agentsettings/drain?ips=agent-9")
    assert answer.status_code == 404
    assert answer.json()["message"].startswith("agent agent-9 is not known")


def test_what_was_set_before_the_agents_were_listed_counts_for_them(api: Api, gateway: CoreGateway) -> None:
    listed, gateway.listed = gateway.listed, []
    gateway.core.turn_context.agents.__init__()  # type: ignore[misc]
    assert send(api, switch("host-2")).json()["data"][0]["message"] == UNLISTED
    gateway.listed = listed
    gateway.feed(AgentsListed(agents=tuple(listed)))
    assert {agent["key"]: agent["disabled"] for agent in api.data("/agents")} == {"10.0.0.1": False, "10.0.0.2": True}
    told = [event for event in api.data("/events?kind=agent") if event["name"] in ("10.0.0.2", "host-2")]
    assert [(event["name"], event["reason"]) for event in told][-2:] == [
        ("10.0.0.2", "AgentDisabled"),
        ("host-2", "AgentSettingsForgotten"),
    ]


# --- lists that are not complete ----------------------------------------------------------------------------------


def way(method: str, path: str) -> Callable[[str], tuple[str, str, Any]]:
    """A request without a body; `path` has ``{}`` for the name of the agent."""
    return lambda name: (method, path.format(name), None)


drain = way("POST", "/agentsettings/drain?ips={}")
READS = {
    "read_settings": way("GET", "/agentsettings?ips={}"),
    "read_setting": way("GET", "/agentsetting/{}"),
    "read_drains": way("GET", "/agentsettings/drain?ips={}"),
}
LOOKUPS = {
    **{one.__name__: one for one in WAYS},
    "drain": drain,
    "enable": way("POST", "/agentsettings/enable?ips={}"),
    "switch_one": way("POST", "/agentsetting/{}/disable"),
    "forget": way("DELETE", "/agentsettings?ips={}"),
    **READS,
}


@pytest.mark.parametrize("way", LOOKUPS.values(), ids=LOOKUPS)
def test_an_agent_that_is_not_listed_yet_is_waited_for(gateway: CoreGateway, api: Api, way: Any) -> None:
    """Right after a change of leaders a host name or id cannot be resolved: the change would go to another name."""
    listed = gateway.listed
    cases: list[tuple[list[ListedAgent], set[str] | None]] = [([], None), (listed, {"host-3", "agent-3", "10.0.0.3"})]
    for agents, awaited in cases:
        gateway.listed, gateway.awaited = agents, awaited
        for name in ("host-3", "agent-3", "10.0.0.3"):
            answer = send(api, way(name))
            assert (answer.status_code, answer.json()["data"]["reason"]) == (503, "unavailable"), answer.text
            assert answer.headers["Retry-After"] == "1"
    assert not gateway.commands
    gateway.awaited = {"host-4"}
    assert send(api, way("host-3")).status_code != 503


@pytest.mark.parametrize("way", LOOKUPS.values(), ids=LOOKUPS)
def test_an_agent_with_settings_is_found_without_a_list(gateway: CoreGateway, api: Api, way: Any) -> None:
    assert send(api, drain("host-1")).status_code == 200
    gateway.listed, gateway.awaited = [], None
    assert send(api, way("10.0.0.1")).status_code == 200


@pytest.mark.parametrize("way", READS.values(), ids=READS)
def test_a_standby_has_no_list_and_points_to_the_leader(gateway: CoreGateway, api: Api, way: Any) -> None:
    send(api, drain("host-1"))
    gateway.listed = []
    gateway.stand_by("http://leader:8080")
    _, path, _ = way("host-1")
    answer = send(api, way("host-1"))
    assert answer.status_code == 307 and answer.headers["Location"].endswith(path)
    assert send(api, way("10.0.0.1")).status_code == 200


# --- plans --------------------------------------------------------------------------------------------------------


def test_a_dry_run_of_a_drain_has_a_plan_and_changes_nothing(gateway: CoreGateway, api: Api) -> None:
    web = Version(namespace="default", application="web", instances=2, containers=(Container(command="/bin/true"),))
    gateway.submit(CreateApplication(version=web)).result(30)
    (home, _) = {group.agent_id for group in gateway.core.state.taskgroups.values()}
    moved = {group.id for group in gateway.core.state.taskgroups.values() if group.agent_id == home}
    for number in (1, 2):
        gateway.offer(number)
    agent = next(one for one in gateway.listed if one.id == home)
    answer = api.call("POST", f"/agentsettings/drain?ips={agent.hostname}&dryRun=true")
    (result,) = answer.json()["data"]
    moves = result["plan"].pop("move")
    assert result["plan"] == {"stay": [], "pending": [], "evict": [], "daemonsets": 0, "unplanned": 0}
    assert {move["taskgroup"] for move in moves} == moved
    assert home not in {move["agent"] for move in moves}
    assert not gateway.core.state.agent_settings


@pytest.mark.parametrize("path", ["/agentsettings/disable?ips=host-1&", "/agentsetting/host-1/disable?"])
def test_a_dry_run_of_a_cordon_has_a_plan(gateway: CoreGateway, api: Api, path: str) -> None:
    (result,) = api.call("POST", path + "dryRun=true").json()["data"]
    assert result["plan"]["move"] == [] and result["plan"]["pending"] == []
    assert not gateway.core.state.agent_settings


def test_an_uncordon_has_no_plan(gateway: CoreGateway, api: Api) -> None:
    (result,) = api.call("POST", "/agentsettings/enable?ips=host-1&dryRun=true").json()["data"]
    assert "plan" not in result


def test_an_agent_that_cannot_be_drained_is_named_before_anything_is_planned(gateway: CoreGateway, api: Api) -> None:
    answer = api.call("POST", "/agentsettings/drain?ips=host-1,nobody&dryRun=true")
    assert answer.status_code == 404
    assert [result["result"] for result in answer.json()["data"]["results"]] == [True, False]


# --- rebalancing --------------------------------------------------------------------------------------------------


def test_a_rebalancing_answers_with_its_moves(gateway: CoreGateway, api: Api) -> None:
    data = api.call("POST", "/cluster/rebalance?goal=pack&moves=3&gain=0.1&dryRun=true").json()["data"]
    assert (data["goal"], data["moves"], data["stopped"], data["dryRun"]) == ("pack", [], "GainBelowBound", True)
    assert gateway.commands[-1].dry_run
    (command,) = [one for one in gateway.commands if isinstance(one, Rebalance)]
    assert (command.goal, command.moves, command.gain) == ("pack", 3, 0.1)


@pytest.mark.parametrize("query", ["goal=tidy", "moves=0", "moves=101", "gain=0", "gain=2", "gain=nan"])
def test_a_rebalancing_with_senseless_bounds_is_refused(gateway: CoreGateway, api: Api, query: str) -> None:
    answer = api.call("POST", f"/cluster/rebalance?{query}")
    assert answer.status_code == 400
    assert query.partition("=")[0] in answer.text
    assert not any(isinstance(one, Rebalance) for one in gateway.commands)


# --- blocked drains -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("drain", "message"),
    [
        (Drain(since=1.0, blocked=True, message="1 left; no room"), "1 left; no room"),
        (Drain(since=1.0, phase="Failed", done_at=2.0, message="its time is over"), "its time is over"),
        (Drain(since=1.0, message="2 left, 1 on the way"), ""),
        (Drain(since=1.0, phase="Done", done_at=2.0, message="no taskgroups are left"), ""),
    ],
    ids=["blocked", "failed", "moving", "done"],
)
def test_agents_show_why_a_drain_is_blocked(gateway: CoreGateway, api: Api, drain: Drain, message: str) -> None:
    gateway.core.turn_context.uow.put(AgentSetting(agent="10.0.0.1", disabled=True, drain=drain))
    shown = {agent["key"]: agent["drain_message"] for agent in api.data("/agents")}
    assert shown == {"10.0.0.1": message, "10.0.0.2": ""}


@pytest.mark.parametrize(
    "words",
    [
        ("cordon",),
        ("uncordon",),
        ("drain", "--no-wait"),
        ("taint", "node", "gpu=yes:NoSchedule"),
        ("set", "agent", "--attribute", "a=b"),
        ("set", "agent", "--reset"),
    ],
)
def test_each_refusal_is_printed_once(api: Api, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    at = 2 if words[0] in ("taint", "set") else 1
    for names in (("agnt-9",), ("agnt-9", "agnt-8")):
        if words[0] == "taint" and len(names) > 1:
            continue
        assert run([*words[:at], *names, *words[at:], "--server", api.url]) == 3
        printed = [line for line in capsys.readouterr().err.splitlines() if "agnt" in line]
        assert len(printed) == len(names), printed
        for line, name in zip(printed, names, strict=True):
            assert f"agent {name}" in line
