"""Reservations of groups: no member starts before the placeholders of all members hold their room."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from bcs_scheduler.api.objects.groups import show_pod_group
from bcs_scheduler.api.views.explain import explain_application
from bcs_scheduler.core.interface import effects, inputs, requests
from bcs_scheduler.core.interface.requests import PutPodGroup
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.revisions import read_tree
from offers.policy.session.configuration import default_policy
from store.records import GROUP_ANNOTATION, Limits, PodGroup, Queue
from store.state.validation import validate
from tests.unit.core.controllers.managed.test_reservations import WHOLE, GangLab
from tests.unit.lab import version
from transactions.base import Options, Periods
from transactions.rules.gangs import PARAMETERS

MEMBERS = {"master": 1, "worker": 2}
AGENTS = ("a", "b", "c")
GROUP = "default/train"


class GroupLab(GangLab):
    """A lab with a group of two applications that asks for a reservation."""

    def turn(self, *batch: inputs.Input) -> list[effects.Effect]:
        out = super().turn(*batch)
        self.__dict__.setdefault("lines", []).extend(self.sent(effects.LogLine))
        return out

    def put(self, text: str | None = "", members: dict[str, int] | None = None) -> effects.Reply:
        annotations = {PARAMETERS: text} if text is not None else {}
        group = PodGroup(namespace="default", name="train", annotations=annotations, min_task_member=members or MEMBERS)
        return self.ask(PutPodGroup(pod_group=group))

    def member(self, name: str, instances: int, user: str = "", **fields: Any) -> None:
        wanted = version(instances, annotations={GROUP_ANNOTATION: "train"}, **fields)
        wanted = msgspec.structs.replace(wanted, application=name)
        reply = self.ask(requests.CreateApplication(version=wanted, user=user))
        assert not reply.error, reply.message
        self.wait(0.1)

    def group(self, text: str | None = "", **fields: Any) -> None:  # type: ignore[override]
        """The group and its members."""
        assert not self.put(text).error
        self.member("master", 1, **fields)
        self.member("worker", 2, **fields)

    def fill(self, *agents: str) -> None:
        for agent in agents:
            self.offer(agent, cpus=WHOLE)
        self.start()

    def swap(self) -> None:
        """The room of the placeholders that end is offered again."""
        for group in self.stop_ending():
            self.offer(group.agent_id, cpus=WHOLE)
        self.wait(0.1)

    def count(self, name: str) -> int:
        return sum(not one.ended for one in self.core.state.groups_of(f"default/{name}").values())

    def started(self) -> tuple[int, int]:
        return self.count("master"), self.count("worker")

    @property
    def states(self) -> dict[str, str]:
        return {record.name: record.state for record in self.core.state.managed_applications.values()}

    def told(self, reason: str) -> list[str]:
        return [line.key for line in self.__dict__["lines"] if line.reason == reason]

    def successor(self) -> GroupLab:
        made = GroupLab(self.records(), self.now, options=self.options)
        made._serial = self._serial + 1000
        return made

    def is_clean(self) -> bool:
        state = self.core.state
        records = state.placeholders or state.managed_tasks or state.managed_applications
        return not (self.holders or records) and validate(state) == []


def test_no_member_starts_before_all_placeholders_of_the_group_hold_their_room() -> None:
    lab = GroupLab()
    lab.put()
    lab.member("master", 1)
    lab.fill("a")
    assert not lab.holders, "a member is missing: nothing is held"
    lab.member("worker", 2)
    assert len(lab.holders) == 3
    lab.fill("b")
    lab.wait(30.0)
    found = explain_application(
        lab.core.state, lab.core.state.applications["default/worker"], lab.core.diagnosis, lab.now
    )
    words = "reservation of group train: 2 of 3 placeholders hold room, 14m29s left; of this application 1 of 2"
    assert words in found.text
    shown = show_pod_group(lab.core.state, lab.core.state.pod_groups[GROUP], lab.core.diagnosis).status.reservation
    assert shown is not None and (shown.state, shown.holding, shown.needed) == ("Reserving", 2, 3)
    assert (len(lab.sleeping), lab.started()) == (2, (0, 0))
    lab.fill("c")
    lab.swap()
    assert lab.started() == (1, 2)
    lab.start()
    assert lab.is_clean()
    assert lab.told("GroupReservationStarted") == lab.told("GroupReservationComplete") == [GROUP]
    assert sorted(lab.told("ReservationComplete")) == ["default/master", "default/worker"]


def test_a_member_that_is_complete_waits_for_the_others() -> None:
    lab = GroupLab()
    lab.group()
    lab.fill("a")
    assert set(lab.states.values()) == {"Reserving"}
    holders = {one.name.split("-")[1] for one in lab.holders for _ in lab.core.state.groups_of(one.key)}
    assert holders == {"master"}
    lab.wait(20.0)
    assert (lab.started(), lab.states) == ((0, 0), {"master": "Reserving", "worker": "Reserving"})


@pytest.mark.parametrize(("style", "launched"), [("Soft", (1, 2)), ("Hard", (0, 0))])
def test_a_time_out_ends_the_reservations_of_all_members(style: str, launched: tuple[int, int]) -> None:
    lab = GroupLab()
    lab.group(f"placeholderTimeoutInSeconds=60 gangSchedulingStyle={style}")
    lab.fill("a", "b")
    lab.wait(61.0)
    assert not set(lab.states.values()) & {"Reserving"}
    assert len(lab.stop_ending()) == 2
    lab.wait(1.0)
    assert not (lab.holders or lab.core.state.placeholders)
    assert lab.told("GroupReservationEnded") == [GROUP]
    lab.fill("a", "b")
    assert lab.started() == (0, 0), "a group without a reservation starts whole, too"
    lab.fill("c")
    assert lab.started() == launched
    if style == "Hard":
        found = [lab.core.state.applications[f"default/{name}"] for name in MEMBERS]
        assert {(one.status, one.instances) for one in found} == {("Stopped", 0)}
        failed = [one for one in lab.core.state.transactions.values() if one.status == "FAIL" and one.type == "LAUNCH"]
        assert len(failed) == 2 and all("ResourceReservationTimeout" in one.message for one in failed)


@pytest.mark.parametrize("style", ["Soft", "Hard"])
@pytest.mark.parametrize("how", ["delete", "cancel"])
def test_a_member_that_goes_ends_the_reservations_of_the_others(how: str, style: str) -> None:
    lab = GroupLab()
    lab.group(f"gangSchedulingStyle={style}")
    lab.fill("a", "b")
    if how == "delete":
        lab.ask(requests.DeleteApplication(namespace="default", name="master"))
    else:
        (launch,) = lab.core.state.active_of("default/master").values()
        lab.cancel(launch)
    lab.wait(1.0)
    lab.stop_ending()
    lab.wait(1.0)
    assert not (lab.holders or lab.core.state.placeholders)
    left = list(lab.core.state.active_of("default/worker").values())
    assert len(left) == (1 if style == "Soft" else 0)
    if style == "Hard":
        failed = [one for one in lab.core.state.transactions.values() if one.application == "worker"]
        assert failed[0].status == "FAIL" and "GroupMemberMissing" in failed[0].message
        return
    lab.fill("a", "b", "c")
    assert lab.started() == (0, 0)
    if how == "delete":
        lab.member("master", 1)
        assert len(lab.holders) == 3, "the group is whole again"
        lab.swap()
        lab.fill("d", "e", "f")
        lab.swap()
        assert lab.started() == (1, 2)


def test_a_changed_minimum_begins_anew() -> None:
    lab = GroupLab()
    lab.put()
    lab.member("master", 1)
    lab.member("worker", 4)
    lab.fill("a", "b")
    before = {one.name for one in lab.holders}
    lab.put(members={"master": 1, "worker": 3})
    lab.wait(0.1)
    lab.stop_ending()
    lab.wait(1.0)
    after = {one.name for one in lab.holders}
    assert (len(after), before & after) == (4, set())
    lab.fill("a", "b", "c")
    assert lab.started() == (0, 0)
    lab.fill("d")
    lab.swap()
    assert lab.started() == (1, 3)


def test_a_group_that_asks_for_no_reservation_any_more_starts_like_any_other() -> None:
    lab = GroupLab()
    lab.group("gangSchedulingStyle=Hard")
    lab.fill("a", "b")
    lab.put(None)
    lab.wait(0.1)
    lab.stop_ending()
    lab.wait(1.0)
    assert lab.is_clean()
    lab.fill("a", "b")
    assert lab.started() == (0, 0)
    lab.fill("c")
    assert lab.started() == (1, 2)


def test_a_group_asks_later() -> None:
    lab = GroupLab()
    lab.group(None)
    assert not lab.holders
    lab.put()
    lab.wait(0.1)
    assert len(lab.holders) == 3


def test_a_member_with_too_few_taskgroups_reserves_nothing() -> None:
    lab = GroupLab()
    lab.put()
    lab.member("master", 1)
    lab.member("worker", 1)
    assert not lab.holders


def test_taskgroups_above_the_minimum_and_other_members_follow() -> None:
    lab = GroupLab()
    lab.put()
    lab.member("extra", 1)
    lab.member("master", 1)
    lab.member("worker", 3)
    assert len(lab.holders) == 3
    lab.fill("a", "b", "c")
    assert (lab.started(), lab.count("extra")) == ((0, 0), 0)
    lab.swap()
    assert (lab.started(), lab.count("extra")) == ((1, 2), 0)
    lab.fill("d", "e")
    assert (lab.started(), lab.count("extra")) == ((1, 3), 1)
    assert lab.is_clean()


def test_a_member_that_runs_needs_no_placeholder_when_another_one_comes_again() -> None:
    lab = GroupLab()
    lab.group()
    lab.fill(*AGENTS)
    lab.swap()
    lab.start()
    lab.ask(requests.DeleteApplication(namespace="default", name="worker"))
    lab.wait(0.1)
    lab.stop_ending()
    lab.wait(1.0)
    lab.member("worker", 2)
    assert len(lab.holders) == 2
    lab.fill("b", "c")
    lab.swap()
    assert lab.started() == (1, 2)


@pytest.mark.parametrize("moment", ["begun", "half", "whole", "ending", "freed"])
def test_a_new_leader_continues_at_any_moment(moment: str) -> None:
    lab = GroupLab()
    lab.group()
    steps = {
        "half": lambda lab: lab.fill("a", "b"),
        "whole": lambda lab: lab.fill("c"),
        "ending": lambda lab: lab.wait(0.5),
        "freed": lambda lab: lab.stop_ending(),
    }
    names = ["begun", *steps]
    for name in names[1:]:
        if names.index(name) <= names.index(moment):
            steps[name](lab)
    lab = lab.successor()
    lab.wait(1.0)
    for agent in AGENTS:
        lab.offer(agent, cpus=WHOLE)
    if moment != "freed":
        assert lab.started() == (0, 0)
        lab.start()
        lab.swap()
    for agent in AGENTS:
        lab.offer(agent, cpus=WHOLE)
    assert lab.started() == (1, 2)
    assert lab.is_clean()


def test_a_new_leader_begins_what_the_one_before_did_not() -> None:
    """The leader before has ended between the creation of the last member and the reservation, or the change of the
    group and its consequence."""
    lab = GroupLab()
    lab.group()
    kinds = ("managedapplication", "managedtask", "placeholder")
    records = [
        one for one in lab.records() if one.kind not in kinds and not getattr(one, "key", "").startswith("default/tg-")
    ]
    records = [one for one in records if not getattr(one, "application_key", "").startswith("default/tg-")]
    late = GroupLab(records, lab.now)
    late._serial = 1000
    late.wait(1.0)
    assert len(late.holders) == 3


def test_a_launch_that_follows_one_without_room_reserves_nothing() -> None:
    """What is missing is launched again and again. Its placeholders would hold room without end."""
    lab = GroupLab(options=CoreOptions(strict=True, placeholders="sleep", transactions=Options(Periods(launch=120.0))))
    lab.put("placeholderTimeoutInSeconds=600", {"front": 2})
    lab.member("front", 2)
    assert len(lab.holders) == 2
    lab.fill("a")
    lab.wait(121.0)
    lab.stop_ending()
    lab.wait(60.0)
    kinds = {one.type for one in lab.core.state.active_of("default/front").values()}
    assert (kinds, lab.holders, lab.states) == ({"FILL"}, [], {})
    lab.fill("a", "b")
    assert lab.count("front") == 2


def test_the_room_of_the_whole_group_must_fit_into_its_queue() -> None:
    lab = GroupLab(options=CoreOptions(strict=True, placeholders="sleep", policy=default_policy(), session_period=1.0))
    lab.ask(requests.PutQueue(queue=Queue(name="default", capability=Limits(cpus=250))))
    lab.group()
    lab.wait(2.0)
    assert not lab.holders


def test_members_in_other_queues_need_their_room_below_their_own_maxima() -> None:
    """A rule may give members of one group to several queues. Their common parent has the room of all of them."""

    def begun(most: float) -> int:
        queues = [
            {"name": "ann", "resources": {"max": {"cpus": 0.2}}},
            {"name": "bea", "resources": {"max": {"cpus": 0.2}}},
        ]
        above = {"name": "work", "resources": {"max": {"cpus": most}}, "queues": queues}
        rule = {"name": "user", "parent": {"name": "fixed", "value": "root.work"}}
        tree = read_tree(json.dumps({"queues": [above], "placementrules": [rule]}))
        lab = GroupLab(options=CoreOptions(strict=True, placeholders="sleep", hierarchy=tree, session_period=1.0))
        lab.put("", {"front": 2, "back": 1})
        lab.member("front", 2, user="ann")
        lab.member("back", 1, user="bea")
        lab.wait(2.0)
        return len(lab.holders)

    assert (begun(0.3), begun(0.2)) == (3, 0)
