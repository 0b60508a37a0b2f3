"""What operators set about agents: every change is told, and what is set for a name that turns out to be that of a
listed agent counts for this agent."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.interface import cluster_manager, requests
from offers.agents import ListedAgent
from store.records import AgentSetting, Drain
from tests.unit.agentlab import Cluster
from tests.unit.test_core_drains import finish, loaded, on

Told = list[tuple[str, str, str]]


def told(lab: Cluster) -> Told:
    """(key, reason, message) of the events of agents, in order."""
    runs = [lab.core.state.event_logs[key] for key in sorted(lab.core.state.event_logs)]
    return [(h.key, h.reason, h.message) for run in runs for h in run.events if h.object == "agent"]


def news(lab: Cluster, *commands: requests.Request) -> Told:
    """What the last of these commands has told."""
    before: Told = []
    for command in commands:
        before = told(lab)
        assert not lab.ask(command).error
    return told(lab)[len(before) :]


def put(**fields: Any) -> requests.SetAgent:
    return requests.SetAgent(agent="a0", **fields)


DRAIN = requests.DrainAgent(agent="a0")
FORGET = requests.DeleteAgentSetting(agent="a0")
OFF, ON = put(disabled=True), put(disabled=False)


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ([OFF], [("AgentDisabled", "nothing is placed on it")]),
        ([OFF, ON], [("AgentEnabled", "it takes taskgroups again")]),
        ([put(taints={"for": "db", "old": "yes"})], [("AgentTainted", "for=db, old=yes")]),
        ([put(taints={"for": "db"}), put(taints={})], [("AgentTainted", "no taints are left")]),
        (
            [put(strings={"zone": "z1"}, scalars={"rank": 2.5})],
            [("AgentSettingsChanged", "attribute zone=z1, attribute rank=2.5")],
        ),
        ([put(strings={"zone": "z1"}), put(strings={})], [("AgentSettingsChanged", "attribute zone removed")]),
        (
            [put(strings={"rank": "2"}), put(strings={}, scalars={"rank": 2.0})],
            [("AgentSettingsChanged", "attribute rank=2.0")],
        ),
        (
            [put(extended={"gpu": 1500}, sockets={"gpu": "/s"})],
            [("AgentSettingsChanged", "extended resource gpu=1.5, socket gpu=/s")],
        ),
        (
            [put(disabled=True, taints={"a": "b"}, strings={"c": "d"})],
            [
                ("AgentDisabled", "nothing is placed on it"),
                ("AgentTainted", "a=b"),
                ("AgentSettingsChanged", "attribute c=d"),
            ],
        ),
        ([OFF, FORGET], [("AgentSettingsForgotten", "all settings of the agent were deleted")]),
        ([DRAIN], [("DrainStarted", "at most 1 taskgroup at once")]),
        (
            [DRAIN, ON],
            [("DrainCancelled", "the agent is enabled again"), ("AgentEnabled", "it takes taskgroups again")],
        ),
        (
            [DRAIN, FORGET],
            [
                ("DrainCancelled", "the settings of the agent were deleted"),
                ("AgentSettingsForgotten", "all settings of the agent were deleted"),
            ],
        ),
    ],
)
def test_every_change_is_told(commands: list[requests.Request], expected: list[tuple[str, str]]) -> None:
    lab = loaded(1)
    assert news(lab, *commands) == [("a0", *one) for one in expected]


@pytest.mark.parametrize(
    ("command", "again"),
    [
        (OFF, OFF),
        (put(taints={"a": "b"}), put(taints={"a": "b"})),
        (put(strings={"a": "b"}), put(strings={"a": "b"})),
        (put(extended={"gpu": 1000}), put(extended={"gpu": 1000})),
        (put(), put()),
        (put(), ON),
    ],
)
def test_what_changes_nothing_is_not_told(command: requests.Request, again: requests.Request) -> None:
    assert news(loaded(1), command, again) == []


def test_a_dry_run_tells_nothing_and_ends_no_drain() -> None:
    lab = loaded(1)
    lab.ask(DRAIN)
    before = told(lab)
    for command in (
        put(disabled=False, dry_run=True),
        put(taints={"a": "b"}, dry_run=True),
        requests.DeleteAgentSetting(agent="a0", dry_run=True),
    ):
        assert not lab.ask(command).error
    assert told(lab) == before
    drain = lab.core.state.agent_settings["a0"].drain
    assert drain is not None and not drain.done_at


# --- names that are not keys ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["id-7", "host-7", "10.0.0.7"])
def test_what_was_set_for_another_name_counts_once_the_agent_is_listed(name: str) -> None:
    lab = Cluster()
    lab.ask(requests.SetAgent(agent=name, disabled=True, taints={"for": "db"}))
    assert lab.sent(cluster_manager.ListAgents), "an agent that joined a moment ago is not in the last list"
    lab.listed["a7"] = ListedAgent(id="id-7", hostname="host-7", ip="10.0.0.7", attributes={"InnerIP": "a7"}, total={})
    lab.list()
    (setting,) = lab.core.state.agent_settings.values()
    assert setting == AgentSetting(agent="a7", disabled=True, taints={"for": "db"})
    assert told(lab)[-3:] == [
        ("a7", "AgentDisabled", f"nothing is placed on it (set for {name})"),
        ("a7", "AgentTainted", f"for=db (set for {name})"),
        (name, "AgentSettingsForgotten", "it is a7: the settings for this name now count there"),
    ]


def test_nothing_is_placed_on_an_agent_that_was_disabled_before_it_was_listed() -> None:
    lab = Cluster()
    lab.ask(requests.SetAgent(agent="host-of-a0", disabled=True))
    lab.join("a0")
    lab.create(1)
    lab.offers()
    assert not lab.groups
    lab.ask(ON)
    lab.offers()
    assert lab.groups


def test_what_the_agent_itself_says_wins_but_either_disables() -> None:
    own = AgentSetting(
        agent="a0",
        strings={"zone": "own", "rank": "own"},
        taints={"a": "own"},
        extended={"gpu": 1000},
        sockets={"gpu": "/own"},
    )
    other = AgentSetting(
        agent="host-of-a0",
        disabled=True,
        strings={"zone": "other", "more": "other"},
        scalars={"rank": 1.0, "size": 2.0},
        taints={"a": "other", "b": "other"},
        extended={"gpu": 2000, "fpga": 3000},
        sockets={"gpu": "/other"},
    )
    lab = Cluster(records=[own, other])
    lab.join("a0")
    assert list(lab.core.state.agent_settings.values()) == [
        AgentSetting(
            agent="a0",
            disabled=True,
            strings={"zone": "own", "more": "other", "rank": "own"},
            scalars={"size": 2.0},
            taints={"a": "own", "b": "other"},
            extended={"gpu": 1000, "fpga": 3000},
            sockets={"gpu": "/own"},
        )
    ]


def test_a_name_of_several_agents_means_all_of_them() -> None:
    lab = Cluster(records=[AgentSetting(agent="10.0.0.1", disabled=True)])
    lab.listed = {name: ListedAgent(id=name, hostname=name, ip="10.0.0.1", total={}) for name in ("a0", "a1")}
    lab.list()
    assert lab.core.state.agent_settings == {name: AgentSetting(agent=name, disabled=True) for name in ("a0", "a1")}


def test_the_settings_of_an_agent_that_is_away_are_left_alone() -> None:
    """Two agents of a host, one of them known by the name of the host."""
    lab = Cluster()
    first = ListedAgent(id="id-1", hostname="host", ip="10.0.0.1", total={})
    lab.listed = {"1": first, "2": first._replace(id="id-2", attributes={"InnerIP": "second"})}
    lab.list()
    lab.ask(requests.SetAgent(agent="host", disabled=True))
    del lab.listed["1"]
    lab.list()
    assert lab.core.state.agent_settings == {"host": AgentSetting(agent="host", disabled=True)}


def test_what_nobody_is_called_waits() -> None:
    lab = Cluster(1)
    assert not lab.ask(requests.SetAgent(agent="nobody", disabled=True, force=True)).error
    lab.list()
    assert "nobody" in lab.core.state.agent_settings
    assert told(lab) == [("nobody", "AgentDisabled", "nothing is placed on it")]


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("fields", [{"disabled": True}, {"disabled": False}, {"taints": {"a": "b"}}, {"strings": {}}])
def test_an_agent_that_is_not_known_is_refused(fields: dict[str, Any], dry_run: bool) -> None:
    lab = Cluster(1)
    refused = lab.ask(requests.SetAgent(agent="a9", dry_run=dry_run, **fields))
    assert (refused.error, lab.core.state.agent_settings) == ("not_found", {})
    assert "agent a9 is not known" in refused.message


def test_settings_of_agents_that_have_left_can_be_changed_and_deleted() -> None:
    lab = Cluster(2)
    lab.leave("a1")
    assert not lab.ask(requests.SetAgent(agent="a1", disabled=True)).error, "it may come back"
    assert not lab.ask(requests.SetAgent(agent="future", disabled=True, force=True)).error
    assert not lab.ask(requests.SetAgent(agent="future", disabled=False)).error, "it has settings"
    for name in ("a1", "future"):
        assert not lab.ask(requests.DeleteAgentSetting(agent=name)).error
    assert not lab.core.state.agent_settings
    assert lab.ask(requests.SetAgent(agent="future", disabled=False)).error == "not_found"


def test_what_grows_too_large_stays_and_is_told_once() -> None:
    large = {f"key-{i}": "x" * 100 for i in range(600)}
    other = {f"more-{i}": "x" * 100 for i in range(600)}
    records = [AgentSetting(agent="a0", taints=large), AgentSetting(agent="host-of-a0", taints=other)]
    lab = Cluster(records=records)
    lab.join("a0")
    lab.list()
    assert list(lab.core.state.agent_settings.values()) == records
    assert [(key, reason) for key, reason, _ in told(lab)] == [("host-of-a0", "AgentSettingsTooLarge")]


# --- drains by a name that is no key ------------------------------------------------------------------------------


def test_a_drain_that_began_before_the_list_moves_what_is_there() -> None:
    lab = loaded(2)
    lab = lab.succeed()
    assert not lab.ask(requests.DrainAgent(agent="host-of-a0")).error
    lab.wait(5)
    lab.list()
    assert list(lab.core.state.agent_settings) == ["a0"]
    assert ("a0", "DrainStarted", "begun for host-of-a0") in told(lab)
    lab.offers()
    finish(lab)
    assert not on(lab)
    assert [reason for key, reason, _ in told(lab) if key == "a0"][-1] == "DrainFinished"


def test_a_drain_of_nobody_fails_once_the_agents_are_listed() -> None:
    lab = Cluster()
    assert not lab.ask(requests.DrainAgent(agent="nobody")).error
    lab.wait(2)
    lab.join("a0")
    lab.wait(2)
    drain = lab.core.state.agent_settings["nobody"].drain
    assert drain is not None
    assert (drain.phase, drain.message) == ("Failed", "no agent of this name is listed")


def test_a_setting_alone_is_no_agent_to_be_drained() -> None:
    lab = Cluster(1)
    lab.set_agent("nobody", taints={"a": "b"}, force=True)
    assert lab.ask(requests.DrainAgent(agent="nobody")).error == "not_found"


def test_a_drain_that_has_ended_does_not_begin_again_under_the_other_name() -> None:
    ended = Drain(since=1.0, at_once=1, done_at=2.0, message="no taskgroups are left")
    lab = Cluster(records=[AgentSetting(agent="host-of-a0", disabled=True, drain=ended)])
    lab.join("a0")
    assert list(lab.core.state.agent_settings.values()) == [AgentSetting(agent="a0", disabled=True)]
