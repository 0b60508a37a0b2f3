"""`bcs set agent`: attributes and extended resources beside what is set already."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.cli.client.kinds import ALIASES
from bcs_scheduler.cli.client.lookup import AGENT_WORDS
from tests.component.cli.standin import StandIn, ok

AGENTS = [
    {"id": f"S{number}", "key": f"10.0.0.{number}", "ip": f"10.0.1.{number}", "hostname": f"host-{number}"}
    for number in (1, 2)
]
SETTING = {
    "innerIP": "10.0.0.1",
    "disabled": True,
    "strings": {"zone": {"value": "z1"}, "rack": {"value": "r1"}},
    "scalars": {"rank": {"value": 3.0}},
    "noSchedule": {"gpu": "yes"},
    "ExtendedResources": {"fpga": {"InnerIP": "10.0.0.1", "Name": "fpga", "Capacity": 2.0}},
}


@pytest.fixture
def agents(server: StandIn) -> StandIn:
    server.on("GET", "/agents", ok(AGENTS))
    server.on("GET", "/agentsettings", ok([SETTING]))
    server.on("POST", "/agentsettings", ok([]))
    server.on("DELETE", "/agentsettings", ok([]))
    return server


def test_what_is_not_named_stays(agents: StandIn, bcs: Any) -> None:
    result = bcs("set", "agent", "host-1", "S2", "new", "--attribute", "zone=z2", "--attribute", "rack-", "-o", "text")
    assert result.out.splitlines() == [f"agent/{key} set" for key in ("10.0.0.1", "10.0.0.2", "new")]
    first, second, third = agents.requests("POST")[0].body
    assert first == {
        "innerIP": "10.0.0.1", "strings": {"zone": {"value": "z2"}}, "scalars": {"rank": {"value": 3.0}},
    }  # fmt: skip
    assert second == {"innerIP": "10.0.0.2", "strings": {"zone": {"value": "z2"}}, "scalars": {}}
    assert third["innerIP"] == "new"


def test_an_attribute_is_a_text_or_a_number(agents: StandIn, bcs: Any) -> None:
    assert bcs("set", "agent", "S1", "--scalar", "rack=7", "--attribute", "rank=first").code == 0
    (body,) = agents.requests("POST")[0].body
    assert body["strings"] == {"zone": {"value": "z1"}, "rank": {"value": "first"}}
    assert body["scalars"] == {"rack": {"value": 7.0}}


def test_extended_resources_are_set_by_name(agents: StandIn, bcs: Any) -> None:
    assert bcs("set", "agent", "S1", "--extended", "gpu=1.5", "--extended", "fpga-", "--dry-run").code == 0
    (request,) = agents.requests("POST")
    assert request.query == {"dryRun": "true"}
    assert request.body[0]["ExtendedResources"] == {
        "gpu": {"Name": "gpu", "Capacity": 1.5},
        "fpga": {"Name": "fpga", "Capacity": 0.0},
    }


def test_a_reset_forgets_the_settings(agents: StandIn, bcs: Any) -> None:
    assert bcs("set", "agent", "host-1", "10.0.0.1", "--reset", "-o", "text").out == "agent/10.0.0.1 reset\n"
    assert agents.requests("DELETE")[0].query == {"ips": "10.0.0.1"}
    assert not agents.requests("POST")


@pytest.mark.parametrize(
    "words",
    [(), ("--reset", "--attribute", "a=b"), ("--attribute", "zone"), ("--attribute", "=x"), ("--scalar", "a=b"),
     ("--extended", "a="), ("--extended", "-")],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(agents: StandIn, bcs: Any, words: tuple[str, ...]) -> None:
    assert bcs("set", "agent", "S1", *words).code == 2
    assert not agents.requests("POST") and not agents.requests("DELETE")


# --- names ------------------------------------------------------------------------------------------------------

UNLISTED = "no agent of this name is listed; the setting applies as soon as one is listed"


@pytest.mark.parametrize(
    ("words", "method", "path", "done"),
    [
        (("cordon", "nope"), "POST", "/agentsettings/disable", "cordoned"),
        (("taint", "nope", "a=b"), "PUT", "/agentsettings/taint", "tainted (a=b)"),
        (("set", "agent", "nope", "--attribute", "a=b"), "POST", "/agentsettings", "set"),
    ],
)
def test_a_setting_for_a_future_agent_is_forced_and_warned_of(
    server: StandIn, bcs: Any, words: tuple[str, ...], method: str, path: str, done: str
) -> None:
    server.on("GET", "/agents", ok(AGENTS))
    server.on("GET", "/agentsettings", ok([]))
    server.on(method, path, ok([{"innerIP": "nope", "result": True, "message": UNLISTED, "listed": False}]))
    result = bcs(*words, "--force", "-o", "text")
    assert server.requests(method)[-1].query["force"] == "true"
    assert (result.code, result.out) == (0, f"agent/nope {done}\n")
    assert result.err == f"warning: agent nope: {UNLISTED}\n"


@pytest.mark.parametrize("before", [("nodes",), ("node",), ("agent",), ("Agents",), ()])
@pytest.mark.parametrize("form", ["{}", "node/{}"])
def test_agents_are_named_as_kubectl_names_nodes(agents: StandIn, bcs: Any, before: tuple[str, ...], form: str) -> None:
    agents.on("PUT", "/agentsettings/taint", ok([]))
    agents.on("POST", "/agentsettings/disable", ok([]))
    name = form.format("host-1")
    assert bcs("taint", *before, name, "gpu=yes:NoSchedule").code == 0
    assert agents.requests("PUT")[0].body == [{"innerIP": "10.0.0.1", "noSchedule": {"gpu": "yes"}}]
    assert bcs("cordon", *before, name).code == 0
    assert agents.requests("POST")[0].query["ips"] == "10.0.0.1"


def test_a_word_for_agents_alone_is_no_agent(agents: StandIn, bcs: Any) -> None:
    for words in (("taint", "nodes", "a=b"), ("cordon", "nodes"), ("drain", "node"), ("uncordon", "agents")):
        assert bcs(*words).code == 2
    assert set(AGENT_WORDS) == {"agents", *(word for word, kind in ALIASES.items() if kind == "agents")} - {"ag", "no"}
    assert not [request for request in agents.seen if request.method != "GET"]


@pytest.mark.parametrize(
    "mark", ["gpu=yes:NoExecute", "gpu:PreferNoSchedule", "gpu:NoExecute-", "gpu=yes:NoSchedul", "gpu=yes:Foo"]
)
def test_other_effects_of_taints_are_refused(agents: StandIn, bcs: Any, mark: str) -> None:
    result = bcs("taint", "nodes", "host-1", mark)
    assert result.code == 2 and "NoSchedule" in result.err
    assert not agents.requests("PUT")


def test_the_settings_of_an_agent_that_is_not_registered_are_deleted(agents: StandIn, bcs: Any) -> None:
    stray = {"id": "", "key": "agnt-9", "ip": "agnt-9", "hostname": "", "active": False}
    agents.on("GET", "/agents", ok([stray, *({**agent, "active": True} for agent in AGENTS)]))
    for kind in ("agent", "node", "nodes"):
        assert bcs("delete", kind, "agnt-9", "-o", "text").out == "agent/agnt-9 deleted\n"
    assert agents.requests("DELETE")[0].query["ips"] == "agnt-9"
    result = bcs("delete", "agent", "host-1")
    assert result.code == 6 and "bcs set agent host-1 --reset" in result.err
    assert len(agents.requests("DELETE")) == 3


def test_a_reset_of_an_agent_without_settings_is_not_refused(agents: StandIn, bcs: Any) -> None:
    assert bcs("set", "agent", "host-2", "--reset").code == 0
    assert not agents.requests("DELETE")


def test_what_is_fine_is_not_warned_of(server: StandIn, bcs: Any) -> None:
    server.on("POST", "/agentsettings/disable", ok([{"innerIP": "10.0.0.1", "result": True, "message": "success"}]))
    assert bcs("cordon", "host-1").err == ""


def test_mere_settings_do_not_hide_an_agent(server: StandIn, bcs: Any) -> None:
    """Settings that were stored under a name of the agent are listed beside it."""
    stray = {"id": "", "key": "host-1", "ip": "host-1", "hostname": "", "taints": {"old": "yes"}}
    server.on("GET", "/agents", ok([stray, {**AGENTS[0], "taints": {"present": "yes"}}]))
    server.on("PUT", "/agentsettings/taint", ok([]))
    assert bcs("taint", "host-1", "new=yes").code == 0
    assert server.requests("PUT")[0].body == [
        {"innerIP": "10.0.0.1", "noSchedule": {"present": "yes", "new": "yes"}},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [("taint", "host", "a=b"), ("cordon", "host"), ("drain", "host"), ("set", "agent", "host", "--attribute", "a=b")],
    ids=lambda words: words[0],
)
def test_a_name_of_several_agents_is_refused_with_the_candidates(
    server: StandIn, bcs: Any, words: tuple[str, ...]
) -> None:
    server.on("GET", "/agents", ok([{**agent, "hostname": "host"} for agent in AGENTS]))
    result = bcs(*words)
    assert result.code == 2
    assert "host is the name of 2 agents: give one of 10.0.1.1, 10.0.1.2" in result.err
    assert {request.method for request in server.seen} == {"GET"}


def test_an_ambiguous_name_is_not_described_either(server: StandIn, bcs: Any) -> None:
    agents = [{"hostname": f"agent-{n}", "ip": "127.0.0.1", "id": str(n), "key": f"agent-{n}"} for n in (1, 2, 3)]
    server.on("GET", "/agents", ok(agents))
    result = bcs("get", "agent", "127.0.0.1")
    assert result.code == 2 and "127.0.0.1 is the name of 3 agents: give one of agent-1, agent-2, agent-3" in result.err
    assert bcs("get", "agent", "agent-2", "-o", "name").out == "agent/agent-2\n"


def test_table_is_another_word_for_text(server: StandIn, bcs: Any) -> None:
    server.on("POST", "/agentsettings/disable", ok([]))
    assert bcs("cordon", "10.0.0.1", "-o", "table") == bcs("cordon", "10.0.0.1", "-o", "text")
    assert bcs("cordon", "10.0.0.1", "-o", "table").out == "agent/10.0.0.1 cordoned\n"
    refused = bcs("cordon", "10.0.0.1", "-o", "wide")
    assert refused.code == 2 and all(word in refused.err for word in ("text", "table", "json", "yaml"))


def test_a_blocked_drain_is_shown_with_its_causes(server: StandIn, bcs: Any) -> None:
    blocked = {**AGENTS[0], "active": True, "drain": "draining", "drain_message": "1 left; no room"}
    server.on("GET", "/agents", ok([blocked, {**AGENTS[1], "active": True, "drain": "draining"}]))
    first, second = bcs("get", "agents", "-o", "table").out.splitlines()[1:]
    assert "being moved away, which is blocked: 1 left; no room" in first
    assert "being moved away" in second and "blocked" not in second


# --- plans --------------------------------------------------------------------------------------------------------

PLAN = {
    "move": [
        {"taskgroup": "0.web.shop.c1.1700000000000000001", "agent": "S2", "hostname": "host-2", "waits": ""},
        {"taskgroup": "1.web.shop.c1.1700000000000000002", "agent": "S2", "hostname": "host-2", "waits": "1 changes"},
    ],
    "stay": [{"taskgroup": "2.web.shop.c1.1700000000000000003", "reason": "1 of 1 agent: not enough cpus"}],
    "pending": [{"application": "shop/db", "transaction": "t1", "taskgroups": 2, "reason": "no room"}],
    "evict": ["0.batch.shop.c1.1700000000000000004"],
    "daemonsets": 1,
    "unplanned": 3,
}


@pytest.mark.parametrize(
    ("command", "path", "done"),
    [("drain", "/agentsettings/drain", "draining"), ("cordon", "/agentsettings/disable", "cordoned")],
)
def test_a_dry_run_shows_the_plan(agents: StandIn, bcs: Any, command: str, path: str, done: str) -> None:
    agents.on("POST", path, ok([{"innerIP": "10.0.0.1", "result": True, "message": "success", "plan": PLAN}]))
    assert bcs(command, "host-1", "--dry-run", "-o", "text").out.splitlines() == [
        f"agent/10.0.0.1 {done} (dry run)",
        "  > taskgroup web-0 to host-2",
        "  > taskgroup web-1 to host-2, waits at first: 1 changes",
        "  - taskgroup batch-0 of other work is evicted to make room",
        "  ! taskgroup web-2 stays: 1 of 1 agent: not enough cpus",
        "  ! 2 waiting taskgroups of shop/db would find no place: no room",
        "  = 1 taskgroup of daemonsets on the agent",
        "  ! 3 more taskgroups beyond the limit of a plan",
    ]
    assert agents.requests("POST")[0].query["dryRun"] == "true"


def test_an_uncordon_is_checked_too(agents: StandIn, bcs: Any) -> None:
    agents.on("POST", "/agentsettings/enable", ok([{"innerIP": "10.0.0.1", "result": True, "message": "success"}]))
    assert bcs("uncordon", "host-1", "--dry-run", "-o", "text").out == "agent/10.0.0.1 uncordoned (dry run)\n"
    assert agents.requests("POST")[0].query["dryRun"] == "true"


# --- rebalancing --------------------------------------------------------------------------------------------------

MOVED = {
    "goal": "pack",
    "moves": [
        {
            "taskgroup": "0.web.shop.c1.1700000000000000001",
            "source": "S1",
            "sourceHost": "host-1",
            "target": "S2",
            "targetHost": "host-2",
            "gain": 0.25,
        }
    ],
    "refused": [{"taskgroup": "1.web.shop.c1.1700000000000000002", "reason": "it is gone"}],
    "stopped": "MoveLimit",
    "message": "the limit of moves is reached",
}


def test_a_rebalancing_shows_its_moves(agents: StandIn, bcs: Any) -> None:
    agents.on("POST", "/cluster/rebalance", ok(MOVED), ok(MOVED))
    words = ("rebalance", "--goal", "pack", "--budget", "1", "--gain", "0.1")
    assert bcs(*words, "--dry-run", "-o", "text").out.splitlines() == [
        "cluster/pack planned (1 move; the limit of moves is reached; dry run)",
        "  > taskgroup web-0 from host-1 to host-2, gain 0.25",
        "  ! taskgroup web-1 stays: it is gone",
    ]
    assert bcs(*words, "-o", "text").out.startswith("cluster/pack rebalanced (1 move;")
    first, second = agents.requests("POST")
    assert first.query == {"goal": "pack", "moves": "1", "gain": "0.1", "dryRun": "true"}
    assert second.query.get("dryRun", "false") == "false"


@pytest.mark.parametrize("words", [("--goal", "tidy"), ("--budget", "0"), ("--gain", "0")])
def test_a_rebalancing_with_senseless_options_is_refused(agents: StandIn, bcs: Any, words: tuple[str, ...]) -> None:
    assert bcs("rebalance", *words).code == 2
    assert not agents.requests("POST")
