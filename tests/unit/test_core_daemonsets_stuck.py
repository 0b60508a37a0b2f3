"""Daemonsets whose taskgroups have ended for good: what runs is told from what has finished, and what hangs says so."""

from __future__ import annotations

from typing import Any

import pytest

from bcs_scheduler.core.controllers.daemonsets import Daemonsets
from bcs_scheduler.core.interface import effects, requests
from bcs_scheduler.core.options import CoreOptions
from store.records import TaskGroup
from store.records.definition import RestartPolicy, UnreachablePolicy
from tests.unit.agentlab import Cluster
from transactions.base import Options, Periods
from transactions.explain import deleting

NEVER = RestartPolicy(policy="Never")
ON_FAILURE = RestartPolicy(policy="OnFailure")
LATER = {"revision": "2"}


def running(agents: int = 3, policy: RestartPolicy = NEVER, **fields: Any) -> Cluster:
    lab = Cluster(agents, options=fields.pop("options", None))
    lab.begin(restart_policy=policy, **fields)
    lab.settle()
    assert (lab.daemonset.status, lab.daemonset.stuck) == ("Running", False)
    return lab


def update(lab: Cluster, bound: int, state: str, policy: RestartPolicy = NEVER) -> None:
    """To a version whose taskgroups end so, one after the other."""
    lab.change(bound, labels=LATER, restart_policy=policy)
    for _ in range(5):
        lab.offers()
        for group in lab.groups:
            if group.killing_since and not group.ended:
                lab.report(group, "KILLED")
        for group in new(lab):
            if not group.ended:
                lab.report(group, state)


def new(lab: Cluster) -> list[TaskGroup]:
    return [group for group in lab.groups if group.version == lab.application.version]


def told(lab: Cluster) -> list[str]:
    """Events that say that it is stuck."""
    found = [event for event_log in lab.core.state.event_logs.values() for event in event_log.events]
    return [event.message for event in found if (event.object, event.reason) == ("daemonset", "DaemonsetStuck")]


@pytest.mark.parametrize(("policy", "state"), [(ON_FAILURE, "FINISHED"), (NEVER, "FAILED")])
def test_what_has_ended_does_not_run(policy: RestartPolicy, state: str) -> None:
    lab = running(2, policy)
    for group in lab.groups:
        lab.report(group, state)
    assert (lab.daemonset.status, lab.daemonset.stuck) == ("Abnormal", True)
    assert lab.daemonset.message == (
        "2 taskgroups have ended and will not be restarted (web-0 on host-of-a0, web-1 on host-of-a1)"
    )


def test_what_is_restarted_has_ended_for_a_moment_only() -> None:
    lab = running(2, RestartPolicy(policy="Always", interval=10))
    lab.report(lab.on("a1"), "FINISHED")
    assert (lab.daemonset.status, lab.daemonset.stuck) == ("Abnormal", False)
    assert lab.daemonset.message == "1 taskgroup has ended (web-1 on host-of-a1)"
    lab.wait(11)
    lab.settle()
    assert lab.daemonset.status == "Running"


def test_restarts_that_are_used_up_are_told_from_those_to_come() -> None:
    lab = running(2, RestartPolicy(policy="OnFailure", max_times=1))
    lab.report(lab.on("a1"), "FAILED")
    assert not lab.daemonset.stuck
    lab.wait(5)
    lab.settle()
    lab.report(lab.on("a1"), "FAILED")
    lab.report(lab.on("a0"), "FAILED")
    assert lab.daemonset.message.startswith("2 taskgroups have ended and 1 of them will not be restarted (web-1 on")
    assert not lab.daemonset.stuck, "the other one is still being restarted"
    lab.wait(5)
    lab.settle()
    assert lab.daemonset.stuck
    lab.wait(600)
    assert lab.daemonset.stuck, "time alone does not restart it"
    later = Cluster(options=lab.options, records=lab.records(), now=lab.now + 2000)
    later.listed = lab.listed
    later.list()
    assert not later.daemonset.stuck, "a new leader judges what happened long ago anew"
    later.offers()
    assert later.on("a1").status == "Staging"


@pytest.mark.parametrize("state", ["FINISHED", "FAILED"])
@pytest.mark.parametrize("bound", [1, 2])
def test_new_ones_that_have_ended_for_good_use_up_the_bound(bound: int, state: str) -> None:
    lab = running(4)
    update(lab, bound, state)
    lab.wait(100)
    assert len(new(lab)) == bound
    assert sum(group.status == "Running" for group in lab.groups) == 4 - bound
    assert lab.transaction("UPDATE").active


def test_an_update_of_which_all_have_finished_does_not_succeed() -> None:
    lab = running(2)
    update(lab, 2, "FINISHED")
    assert len(new(lab)) == 2
    assert lab.transaction("UPDATE").status == "INIT"
    assert "stands still: 2 taskgroups have ended" in lab.daemonset.message


def test_a_stuck_update_says_so_once_and_names_what_has_ended() -> None:
    lab = running(3)
    update(lab, 2, "FAILED")
    version = lab.application.version
    assert (lab.daemonset.status, lab.daemonset.stuck) == ("Updating", True)
    assert lab.daemonset.message == (
        f"to version {version} stands still: "
        "2 taskgroups have ended and will not be restarted (web-0 on host-of-a0, web-1 on host-of-a1)"
    )
    assert told(lab) == [lab.daemonset.message]
    assert lab.transaction("UPDATE").history[-1].text == lab.daemonset.message
    seen = lab.wait(600)
    assert not [effect for effect in seen if isinstance(effect, effects.Changed | effects.LogLine)]
    lab = lab.succeed()
    lab.list()
    lab.wait(200)
    lab.report(lab.on("a2"), "UNREACHABLE")
    assert lab.daemonset.stuck
    assert "unreachable" in lab.daemonset.message
    lab.report(lab.on("a2"), "FAILED")
    assert not lab.daemonset.stuck, "it has made way and is replaced"
    lab.offers()
    lab.report(lab.on("a2"), "FAILED")
    assert "stands still: 3 taskgroups" in lab.daemonset.message
    assert len(told(lab)) == 1, "who leads next does not tell it again"


def test_an_update_tells_what_has_ended_although_it_goes_on() -> None:
    lab = running(4)
    lab.change(2, labels=LATER, restart_policy=NEVER)
    first = lab.groups[0]
    lab.report(first, "KILLED")
    lab.offers()
    lab.report(lab.group(0), "FAILED")
    assert not lab.daemonset.stuck
    assert "to version" in lab.daemonset.message
    assert "1 taskgroup has ended and will not be restarted (web-0 on host-of-a0)" in lab.daemonset.message
    lab.report(lab.group(3), "UNREACHABLE")
    assert lab.daemonset.message.endswith("1 unreachable taskgroup (web-3 on host-of-a3)")
    assert not told(lab)


def test_what_the_update_itself_has_ended_is_no_trouble() -> None:
    lab = running(2)
    lab.change(1, labels=LATER, restart_policy=NEVER)
    lab.core.turn_context.pool.hand.remove_agent("a0")
    lab.report(lab.group(0), "KILLED")
    assert lab.group(0).ended
    assert lab.daemonset.message == f"to version {lab.application.version}"


def test_an_update_that_does_not_reach_its_bound_is_stuck_when_nothing_else_is_left() -> None:
    lab = running(3)
    lab.change(2, labels=LATER, restart_policy=NEVER)
    lab.report(lab.group(0), "KILLED")
    lab.offers()
    lab.report(lab.group(0), "FAILED")
    assert not lab.daemonset.stuck
    lab.settle()
    assert [group.status for group in lab.groups] == ["Failed", "Running", "Running"]
    assert len(new(lab)) == 3
    assert lab.daemonset.stuck
    assert lab.transaction("UPDATE").active


def test_only_three_are_named() -> None:
    lab = running(5)
    for group in lab.groups:
        lab.report(group, "FAILED")
    assert lab.daemonset.message.endswith("web-2 on host-of-a2 and 2 more)")


def test_what_has_ended_is_replaced_on_request() -> None:
    lab = running(3)
    failed = lab.on("a1")
    lab.report(failed, "FAILED")
    assert lab.daemonset.stuck
    lab.core.turn_context.pool.hand.remove_agent("a1")
    assert not lab.ask(requests.RescheduleTaskGroup(taskgroup=failed.id)).error
    assert lab.on("a1").id == failed.id
    assert not lab.daemonset.stuck
    lab.settle()
    assert (lab.daemonset.status, lab.daemonset.stuck) == ("Running", False)


@pytest.mark.parametrize("way", ["rollback", "restart", "correction"])
def test_what_users_do_about_a_stuck_update_sets_it_going(way: str) -> None:
    lab = running(3)
    update(lab, 1, "FAILED")
    assert lab.daemonset.stuck
    match way:
        case "rollback":
            reply = lab.ask(requests.RollbackDaemonset(namespace="default", name="web"))
        case "restart":
            reply = lab.ask(requests.RestartDaemonset(namespace="default", name="web"))
        case "correction":
            reply = lab.change(labels={"revision": "3"}, restart_policy=NEVER)
    assert not reply.error
    assert (lab.daemonset.status, lab.daemonset.stuck) == ("Updating", False)
    lab.settle()
    assert (lab.daemonset.status, lab.daemonset.stuck) == ("Running", False)


def test_a_big_one_is_updating_as_soon_as_it_is_accepted() -> None:
    lab = running(3)
    controller = next(c for p in lab.core._controllers if isinstance(c := p.controller, Daemonsets))
    controller._work.rest("default/web", lab.now, lab.now + 10)  # as if it had hundreds of taskgroups
    lab.change(labels=LATER, restart_policy=NEVER)
    assert (lab.daemonset.status, lab.daemonset.stuck) == ("Updating", False)


def test_the_end_of_a_stuck_update_names_what_has_not_come_up() -> None:
    options = CoreOptions(transactions=Options(periods=Periods(inner_reschedule=60)), strict=True)
    lab = running(2, options=options)
    update(lab, 2, "FINISHED")
    lab.wait(61)
    ended = lab.transaction("UPDATE")
    assert ended.status == "TIMEOUT"
    assert ended.progress == 0
    assert "2 taskgroups are not running" in ended.message
    assert (lab.daemonset.status, lab.daemonset.stuck) == ("Abnormal", True)


def test_what_has_ended_on_an_agent_that_is_gone_does_not_hold_up_the_last_word() -> None:
    lab = running(2)
    lab.report(lab.on("a1"), "FAILED")
    assert lab.daemonset.stuck
    lab.leave("a1")
    assert not lab.daemonset.stuck, "it is forgotten after a while"
    lab.wait(1000)
    assert lab.daemonset.status == "Running"


def test_many_changes_of_agents_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = running(4)
    looks: list[set[str]] = []
    look = Daemonsets._rejudge
    monkeypatch.setattr(Daemonsets, "_rejudge", lambda self, *sets: (looks.append(sets[0]), look(self, *sets)))  # type: ignore[func-returns-value]
    lab.turn(*(requests.SetAgent(agent=f"a{number}", disabled=True) for number in range(4)))
    assert looks == [{"a0", "a1", "a2", "a3"}]
    lab.join("a4")
    assert looks[1:] == [{"a4"}], "the others have not changed"
    assert lab.application.instances == 5


def test_a_setting_that_changes_nothing_for_a_daemonset_costs_no_look_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = running(4)
    looks: list[str] = []
    look = Daemonsets._examine
    monkeypatch.setattr(Daemonsets, "_examine", lambda self, key: (looks.append(key), look(self, key)))  # type: ignore[func-returns-value]
    lab.set_agent("a1", strings={"colour": "red"})
    assert not looks
    lab.set_agent("a1", disabled=True)
    assert looks


def test_a_deletion_names_the_agents_it_waits_for() -> None:
    lab = running(3, unreachable_policy=UnreachablePolicy(replace_after=60.0))
    assert deleting(lab.groups) == "its taskgroups are being ended"
    lab.report(lab.on("a1"), "UNREACHABLE")
    lab.ask(requests.DeleteDaemonset(namespace="default", name="web"))
    words = "waits for 1 unreachable agent (host-of-a1); deleting it with --force (enforce=1) does not wait for them"
    assert (lab.daemonset.status, lab.daemonset.message) == ("Deleting", words)
    lab.report(lab.on("a2"), "UNREACHABLE")
    lab.settle()
    assert "waits for 2 unreachable agents (host-of-a1, host-of-a2)" in lab.daemonset.message
    lab.report(lab.on("a2"), "KILLED")
    assert lab.daemonset.message == words
    lab.report(lab.on("a1"), "RUNNING")
    assert lab.daemonset.message == "its taskgroups are being ended"
    lab.report(lab.on("a1"), "UNREACHABLE")
    lab.ask(requests.DeleteDaemonset(namespace="default", name="web", enforce=True))
    assert not lab.core.state.daemonsets
