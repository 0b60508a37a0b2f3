"""Reservations: placeholders gather the room of a gang, and its taskgroups take the room over."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from bcs_scheduler.api.views.explain import explain_application
from bcs_scheduler.core.controllers.managed import sums
from bcs_scheduler.core.controllers.managed.applications import ManagedApplications
from bcs_scheduler.core.controllers.managed.sums import METRIC
from bcs_scheduler.core.interface import effects, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.revisions import read_tree
from offers.ledger.holds import SWAP_SECONDS
from store.records import ANNOTATION_OF_PLACEHOLDER, Application, ManagedApplication, Namespace, Quota, TaskGroup
from store.records.definition import Constraint
from store.state.validation import validate
from tests.counting import Calls
from tests.unit.lab import KEY, Lab, version
from tests.unit.rollinglab import named, wish
from transactions import explain
from transactions.rules.deployment_status import summarize
from transactions.rules.gangs import PARAMETERS

WHOLE = 150
"""Thousandths of a core of an agent with room for one taskgroup and not for two."""


class GangLab(Lab):
    """A lab with reservations. Every agent has room for one taskgroup, and offers it when nothing runs there."""

    def __init__(self, *arguments: Any, options: CoreOptions | None = None, **more: Any) -> None:
        super().__init__(options or CoreOptions(strict=True, placeholders="sleep"), *arguments, **more)

    def gang(self, instances: int, least: int, text: str = "", **fields: Any) -> None:
        reply = self.create(instances, min_available=least, annotations={PARAMETERS: text}, **fields)
        assert not reply.error, reply.message
        self.wait(0.1)

    @property
    def holders(self) -> list[Application]:
        found = self.core.state.applications.values()
        return [one for one in found if ANNOTATION_OF_PLACEHOLDER in one.annotations]

    @property
    def sleeping(self) -> list[TaskGroup]:
        groups = [group for one in self.holders for group in self.core.state.groups_of(one.key).values()]
        return [group for group in groups if not group.ended]

    def start(self) -> None:
        """Everything that is staged runs."""
        for group in list(self.core.state.taskgroups.values()):
            if not group.ended and not group.started and not group.killing_since:
                self.report(group, "RUNNING")
        self.wait(0.1)

    def stop_ending(self) -> list[TaskGroup]:
        """Everything that is to end is killed; its room is not offered yet."""
        ended = [group for group in self.core.state.taskgroups.values() if group.killing_since and not group.ended]
        for group in ended:
            self.report(group, "KILLED")
        self.wait(0.1)
        return ended

    def successor(self) -> GangLab:
        made = GangLab(self.records(), self.now, options=self.options)
        made._serial = self._serial + 1000
        return made


def check_launch(lab: GangLab, agents: tuple[str, ...], launched: int) -> None:
    """After the end of a reservation, agents offer room for the whole gang: so many taskgroups are launched."""
    for agent in agents:
        lab.offer(agent, cpus=WHOLE)
    lab.wait(1.0)
    assert len(lab.groups) == launched
    assert lab.transaction("LAUNCH").status == ("FINISH" if launched else "FAIL")


def test_placeholders_gather_room_one_by_one_and_the_gang_takes_it_over() -> None:
    lab = GangLab()
    lab.gang(3, 3)
    assert len(lab.holders) == 3
    assert lab.transaction("LAUNCH").history[-1].text.startswith("waiting for the room of its gang")
    for agent in ("a", "b"):
        lab.offer(agent, cpus=WHOLE)
        lab.start()
    assert (len(lab.sleeping), lab.groups) == (2, [])
    lab.wait(100.0)
    lab.offer("c", cpus=WHOLE)
    lab.start()
    ended = lab.stop_ending()
    assert {group.agent_id for group in ended} == {"a", "b", "c"}
    assert lab.groups == [], "the room is not offered yet"
    for group in ended:
        lab.offer(group.agent_id, cpus=WHOLE)
    assert sorted(group.agent_id for group in lab.groups) == ["a", "b", "c"]
    lab.start()
    assert lab.application.status == "Running"
    state = lab.core.state
    assert not (lab.holders or state.placeholders or state.managed_tasks or state.managed_applications)
    assert validate(state) == []


def test_a_reservation_that_times_out_while_no_leader_is_there_leaves_nothing() -> None:
    """One placeholder holds room, and the other one still waits for a place."""
    before = GangLab()
    before.gang(2, 2, "placeholderTimeoutInSeconds=5")
    before.offer("a", cpus=WHOLE)
    before.start()
    before.now += 60.0
    lab = before.successor()
    lab.wait(1.0)
    lab.stop_ending()
    assert (lab.holders, lab.sleeping) == ([], [])
    assert not lab.core.state.placeholders
    assert validate(lab.core.state) == []


def test_the_explanation_counts_the_placeholders_that_hold_room() -> None:
    lab = GangLab()
    lab.gang(3, 3, "placeholderTimeoutInSeconds=60")
    lab.offer("a", cpus=WHOLE)
    lab.start()
    lab.offer("b", cpus=WHOLE // 2)
    found = explain_application(lab.core.state, lab.application, lab.core.diagnosis, lab.now).reservation
    assert found is not None
    assert (found.state, found.needed, found.holding) == ("Reserving", 3, 1)
    assert found.left_seconds is not None and 50 < found.left_seconds <= 60
    assert "1 lacks CPUs" in found.waiting
    text = explain_application(lab.core.state, lab.application, lab.core.diagnosis, lab.now).text
    assert any(line.startswith("reservation: 1 of 3 placeholders hold room, ") for line in text)
    assert any(line.startswith("the next placeholder has no place: ") for line in text)


def test_freed_room_goes_to_the_gang_before_older_demands_of_others() -> None:
    """The other application is older and may first use the agents when the placeholders run there."""
    lab = GangLab()
    zone = ((Constraint(name="zone", operator="CLUSTER", items=("z1",)),),)
    other = msgspec.structs.replace(version(3), application="other", namespace="aaa", constraints=zone)
    lab.ask(requests.CreateApplication(version=other))
    lab.gang(2, 2)
    for agent in ("a", "b"):
        lab.offer(agent, cpus=WHOLE)
    lab.start()
    for agent in ("a", "b"):
        lab.ask(requests.SetAgent(agent=agent, strings={"zone": "z1"}))
    for group in lab.stop_ending():
        lab.offer(group.agent_id, cpus=WHOLE)
    assert len(lab.groups) == 2
    assert not lab.core.state.groups_of("aaa/other")
    lab.ask(requests.SetAgent(agent="c", strings={"zone": "z1"}))
    lab.offer("c", cpus=WHOLE)
    assert len(lab.core.state.groups_of("aaa/other")) == 1


def test_each_task_gets_the_room_of_its_own_placeholder() -> None:
    """The agent with room for two is offered first. A task of another agent there would leave one task without room."""
    lab = GangLab()
    lab.gang(3, 3)
    lab.offer("a", cpus=WHOLE)
    lab.offer("b", cpus=2 * WHOLE)
    lab.start()
    ended = lab.stop_ending()
    assert sorted(group.agent_id for group in ended) == ["a", "b", "b"]
    lab.offer("b", cpus=2 * WHOLE)
    assert [group.agent_id for group in lab.groups] == ["b", "b"]
    lab.offer("a", cpus=WHOLE)
    assert sorted(group.agent_id for group in lab.groups) == ["a", "b", "b"]


def test_what_exceeds_the_minimum_is_placed_like_any_other() -> None:
    lab = GangLab()
    lab.gang(3, 2)
    for agent in ("a", "b"):
        lab.offer(agent, cpus=WHOLE)
    lab.start()
    for group in lab.stop_ending():
        lab.offer(group.agent_id, cpus=WHOLE)
    assert [group.index for group in lab.groups] == [0, 1]
    lab.offer("c", cpus=WHOLE)
    assert [group.index for group in lab.groups] == [0, 1, 2]
    assert not lab.core.state.managed_applications


@pytest.mark.parametrize(("style", "launched"), [("Soft", 2), ("Hard", 0)])
def test_a_reservation_that_does_not_find_its_room_ends_by_its_style(style: str, launched: int) -> None:
    lab = GangLab()
    lab.gang(2, 2, f"placeholderTimeoutInSeconds=60 gangSchedulingStyle={style}")
    lab.offer("a", cpus=WHOLE)
    lab.start()
    lab.wait(61.0)
    assert [group.agent_id for group in lab.stop_ending()] == ["a"]
    lab.wait(1.0)
    assert not (lab.holders or lab.core.state.placeholders)
    check_launch(lab, ("a", "b"), launched)
    if not launched:
        assert "ResourceReservationTimeout" in lab.transaction("LAUNCH").message
        assert (lab.application.status, lab.application.instances) == ("Stopped", 0)


class NoTime:
    """A turn whose time is over from the beginning."""

    def spent(self) -> float:
        return 1.0

    def is_congested(self) -> bool:
        return False


def test_reservations_that_end_at_one_moment_end_one_after_the_other_if_there_is_no_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab, parameters = GangLab(), {PARAMETERS: "placeholderTimeoutInSeconds=60"}
    for number in range(4):
        on = ((Constraint(name="InnerIP", operator="CLUSTER", items=(f"h{number}",)),),)
        definition = version(instances=2, min_available=2, annotations=parameters, constraints=on)
        definition = msgspec.structs.replace(definition, application=f"a{number}")
        assert not lab.ask(requests.CreateApplication(version=definition)).error
    lab.wait(0.1)
    for number in range(4):
        lab.offer(f"h{number}", cpus=WHOLE)
    lab.start()
    managed = lab.core.state.managed_applications
    assert [one.state for one in managed.values()] == ["Reserving"] * 4
    lab.wait(59.0)
    looks, look = list[str](), ManagedApplications._settle_gang

    def counted(self: ManagedApplications, key: str) -> None:
        looks.append(key)
        look(self, key)

    monkeypatch.setattr(ManagedApplications, "_settle_gang", counted)
    lab.now += 2.0
    for _ in range(200):
        looks.clear()
        lab.core.turn((), lab.now, NoTime())
        assert len(looks) <= 1
        if "Reserving" not in {one.state for one in managed.values()}:
            break
        assert lab.core.next_wakeup(lab.now, 1.0) <= lab.now
    assert "Reserving" not in {one.state for one in managed.values()}


def failed_deployment() -> GangLab:
    """A deployment whose gang of style Hard has not found its room."""
    lab = GangLab()
    text = "placeholderTimeoutInSeconds=60 gangSchedulingStyle=Hard"
    definition = named(2, "web", min_available=2, annotations={PARAMETERS: text})
    assert not lab.ask(requests.CreateDeployment(deployment=wish(2), version=definition)).error
    lab.wait(0.1)
    lab.offer("a", cpus=WHOLE)
    lab.start()
    lab.wait(61.0)
    lab.stop_ending()
    lab.wait(1.0)
    assert lab.transaction("LAUNCH").status == "FAIL"
    return lab


def test_hard_means_the_same_for_a_deployment_as_for_an_application() -> None:
    """It launches nothing again by itself, and says so; a scale to the same number, or the same document, does."""
    lab = failed_deployment()
    lab.wait(3600.0)
    check_launch(lab, ("a", "b"), 0)
    assert [one.type for one in lab.core.state.transactions_of(KEY).values()] == ["LAUNCH"]
    deployment = lab.core.state.deployments[KEY]
    condition = summarize(lab.core.state, deployment, lab.now).conditions[0]
    assert (deployment.status, condition.status, condition.reason) == ("Running", "False", "LaunchFailed")
    assert "ResourceReservationTimeout" in condition.message and "tried again" not in condition.message
    assert not lab.ask(requests.ScaleDeployment(namespace="default", name="web", instances=2)).error
    for agent in ("c", "d"):
        lab.offer(agent, cpus=WHOLE)
    lab.wait(1.0)
    assert len(lab.groups) == 2 and not lab.core.state.deployments[KEY].launch_failed
    lab = failed_deployment()
    definition = lab.core.state.revisions[deployment.revision_key].version
    assert not lab.ask(requests.UpdateDeployment(deployment=wish(2), version=definition)).error
    for agent in ("c", "d"):
        lab.offer(agent, cpus=WHOLE)
    lab.wait(1.0)
    assert len(lab.groups) == 2


@pytest.mark.parametrize(("style", "launched"), [("Soft", 2), ("Hard", 0)])
def test_a_reservation_ends_by_its_style_if_a_placeholder_has_a_place_and_never_runs(style: str, launched: int) -> None:
    lab = GangLab()
    lab.gang(2, 2, f"placeholderTimeoutInSeconds=60 gangSchedulingStyle={style}")
    lab.offer("a", cpus=WHOLE)
    lab.start()
    lab.offer("b", cpus=WHOLE)
    lab.wait(61.0)
    lab.stop_ending()
    lab.wait(1.0)
    assert not (lab.holders or lab.core.state.placeholders)
    check_launch(lab, ("c", "d"), launched)


def test_the_placeholders_of_two_reservations_of_one_application_have_different_names() -> None:
    """More placeholders than one slice of deletions: one that ends must not be taken for a new one."""
    lab = GangLab()
    lab.gang(30, 30)
    before = {one.name for one in lab.holders}
    lab.delete()
    lab.gang(30, 30)
    lab.wait(1.0)
    after = {one.name for one in lab.holders}
    assert (len(before), len(after), before & after) == (30, 30, set())


def test_a_placeholder_that_ends_by_itself_is_replaced() -> None:
    lab = GangLab()
    lab.gang(2, 2)
    lab.offer("a", cpus=WHOLE)
    lab.start()
    (first,) = lab.sleeping
    lab.report(first, "FAILED")
    lab.wait(1.0)
    assert len(lab.holders) == 2
    assert first.application_key not in lab.core.state.applications
    for agent in ("a", "b"):
        lab.offer(agent, cpus=WHOLE)
    lab.start()
    for group in lab.stop_ending():
        lab.offer(group.agent_id, cpus=WHOLE)
    assert len(lab.groups) == 2


@pytest.mark.parametrize("how", ["moved", "deleted"])
def test_a_placeholder_that_users_move_or_delete_is_replaced(how: str) -> None:
    """A task would otherwise wait for room on the agent where the placeholder was."""
    lab = GangLab()
    lab.gang(2, 2)
    lab.offer("a", cpus=WHOLE)
    lab.start()
    (first,) = lab.sleeping
    if how == "moved":
        lab.ask(requests.RescheduleTaskGroup(taskgroup=first.id))
    else:
        lab.ask(requests.DeleteApplication(namespace="default", name=first.application))
    lab.wait(1.0)
    for agent in ("b", "c", "d"):
        lab.offer(agent, cpus=WHOLE)
        lab.start()
    while ended := lab.stop_ending():
        for group in ended:
            lab.offer(group.agent_id, cpus=WHOLE)
    lab.wait(1.0)
    assert len(lab.groups) == 2
    assert not (lab.sleeping or lab.core.state.placeholders or lab.core.state.managed_applications)


def test_a_task_whose_room_is_taken_by_another_framework_asks_like_any_other() -> None:
    lab = GangLab()
    lab.gang(2, 2)
    for agent in ("a", "b"):
        lab.offer(agent, cpus=WHOLE)
    lab.start()
    lab.stop_ending()
    lab.offer("a", cpus=WHOLE)
    assert len(lab.groups) == 1
    lab.offer("c", cpus=WHOLE)
    assert len(lab.groups) == 1, "the room on b was promised"
    lab.wait(SWAP_SECONDS + 1)
    lab.offer("d", cpus=WHOLE)
    assert len(lab.groups) == 2


def test_deleting_the_application_releases_its_placeholders() -> None:
    lab = GangLab()
    lab.gang(2, 2)
    lab.offer("a", cpus=WHOLE)
    lab.start()
    lab.delete()
    lab.wait(1.0)
    lab.stop_ending()
    assert KEY not in lab.core.state.applications
    assert not (lab.holders or lab.core.state.placeholders or lab.core.state.managed_applications)


def test_a_placeholder_whose_deletion_a_user_cancels_is_deleted_again() -> None:
    lab = GangLab()
    lab.gang(2, 2)
    lab.offer("a", cpus=WHOLE)
    lab.start()
    (sleeping,) = lab.sleeping
    lab.delete()
    lab.wait(0.1)
    (deletion,) = lab.core.state.active_of(sleeping.application_key).values()
    lab.cancel(deletion)
    lab.wait(1.0)
    lab.stop_ending()
    lab.wait(1.0)
    assert lab.holders == []


def test_without_the_setting_the_annotation_means_nothing() -> None:
    lab = GangLab(options=CoreOptions(strict=True))
    lab.gang(2, 2)
    assert not lab.holders
    for agent in ("a", "b"):
        lab.offer(agent, cpus=WHOLE)
    assert len(lab.groups) == 2


def test_placeholders_do_not_count_for_the_quota_of_the_namespace() -> None:
    lab = GangLab()
    lab.ask(requests.PutNamespace(namespace=Namespace(name="default", quota=Quota(taskgroups=3))))
    lab.gang(2, 2)
    assert len(lab.holders) == 2
    one = msgspec.structs.replace(version(1), application="one")
    assert not lab.ask(requests.CreateApplication(version=one)).error


# --- the gate -------------------------------------------------------------------------------------------------


def gated(unmanaged: str) -> GangLab:
    return GangLab(options=CoreOptions(strict=True, placeholders="sleep", unmanaged=unmanaged))  # type: ignore[arg-type]


def test_work_without_a_managed_application_waits_and_reservations_pass() -> None:
    lab = gated("wait")
    lab.create(1)
    lab.offer("a")
    assert lab.groups == []
    diagnosis = lab.core.diagnosis(lab.transaction("LAUNCH").id)
    assert diagnosis is not None
    assert explain.reasons(diagnosis).startswith("waiting for a managed application: ")
    lab.delete()
    lab.wait(1.0)
    lab.gang(2, 2)
    for agent in ("b", "c"):
        lab.offer(agent, cpus=WHOLE)
    lab.start()
    for group in lab.stop_ending():
        lab.offer(group.agent_id, cpus=WHOLE)
    assert len(lab.groups) == 2


def test_taskgroups_that_ran_are_replaced_behind_a_closed_gate() -> None:
    lab = GangLab()
    lab.create(1)
    lab.offer("a")
    lab.start()
    lab = GangLab(lab.records(), lab.now, options=CoreOptions(strict=True, unmanaged="wait"))
    lab._serial = 1000
    before = lab.group()
    lab.report(before, "FAILED")
    lab.wait(15.0)
    lab.offer("a")
    assert lab.group().id != before.id


def test_work_without_a_managed_application_is_refused() -> None:
    lab = gated("refuse")
    reply = lab.create(1)
    assert (reply.error, KEY in lab.core.state.applications) == ("conflict", False)
    assert "scheduler.unmanaged" in reply.message
    lab.gang(2, 2)
    assert len(lab.holders) == 2


def test_the_gate_passes_everything_by_default() -> None:
    lab = gated("bypass")
    lab.create(1)
    lab.offer("a")
    assert len(lab.groups) == 1


# --- the check of sums ----------------------------------------------------------------------------------------


def wrong_sums(lab: Lab) -> list[str]:
    return [line.message for line in lab.sent(effects.LogLine) if line.reason == "ManagedSumsWrong"]


def test_numbers_that_contradict_their_placeholders_are_reported_once() -> None:
    lab = GangLab()
    lab.gang(2, 2)
    lab.wait(200.0)
    assert wrong_sums(lab) == []
    records = [
        msgspec.structs.replace(
            record, task_groups=tuple(msgspec.structs.replace(one, total=one.total + 1) for one in record.task_groups)
        )
        if isinstance(record, ManagedApplication)
        else record
        for record in lab.records()
    ]
    lab = GangLab(records, lab.now)
    lab.wait(200.0)
    words = "task group web: 3 placeholders were asked for, but 0 were replaced, 0 given up, and 2 serve"
    assert wrong_sums(lab) == [words]
    assert [one.name for one in lab.sent(effects.Observed) if one.name == METRIC] == [METRIC]


# --- costs ----------------------------------------------------------------------------------------------------


def calls_of_a_report(others: int) -> int:
    """Calls for a report about a placeholder beside so many other reservations, whose placeholders run or wait."""
    lab = GangLab()
    for number in range(others):
        other = version(2, min_available=2, annotations={PARAMETERS: ""})
        lab.ask(requests.CreateApplication(version=msgspec.structs.replace(other, application=f"other-{number}")))
        lab.offer(f"agent-{number}", cpus=WHOLE)
    lab.wait(2.0)
    lab.start()
    lab.gang(2, 2)
    lab.wait(10.0)
    for number in range(2 * others):
        lab.offer(f"more-{number}", cpus=WHOLE)
    lab.offer("last", cpus=WHOLE)
    lab.wait(1.0)
    staged = [group for group in lab.sleeping if group.application.startswith("tg-web") and not group.started]
    with Calls() as counted:
        lab.report(staged[0], "RUNNING")
    return counted.number


@pytest.mark.slow
def test_a_report_costs_the_same_beside_many_other_reservations() -> None:
    few, many = calls_of_a_report(3), calls_of_a_report(60)
    assert many <= 1.1 * few


def test_the_check_of_sums_looks_at_a_bounded_number_of_records_in_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large managed application is looked at in several turns, and its fault is found."""
    monkeypatch.setattr(sums, "SLICE", 10)
    lab = GangLab()
    lab.gang(25, 25)
    record = next(iter(lab.core.state.managed_applications.values()))
    present = record.task_groups[0]
    wrong = msgspec.structs.replace(record, task_groups=(msgspec.structs.replace(present, total=present.total + 1),))
    lab.core.state.apply("managedapplication", record.key, wrong)
    turn = lab.core.turn_context
    check = sums.SumsCheck(turn)
    check.begin()
    check.next_wake = turn.now
    slices = 0
    while check.next_wake <= turn.now:
        check.go_on()
        slices += 1
    held = sum(len(lab.core.state.indexes.managed_by(kind, record.key)) for kind in ("placeholder", "managedtask"))
    assert held >= 50 and slices >= held // 10
    assert check._reported == {record.key: (next(iter(sums.faults_of(lab.core.state, wrong))),)}


def tree_of(most: dict[str, float], **more: Any) -> CoreOptions:
    """Options with a tree whose queue for all work has a maximum."""
    above = {"name": "work", "resources": {"max": most}, "queues": [{"name": "default"}]}
    document = {"queues": [above], "placementrules": [{"name": "fixed", "value": "root.work.default"}]}
    tree = read_tree(json.dumps(document))
    return CoreOptions(strict=True, placeholders="sleep", hierarchy=tree, session_period=0.5, **more)


@pytest.mark.parametrize("style", ["Soft", "Hard"])
def test_a_gang_that_is_larger_than_the_maximum_of_its_queue_is_rejected(style: str) -> None:
    lab = GangLab(options=tree_of({"cpus": 0.25}))
    reply = lab.create(3, min_available=3, annotations={PARAMETERS: f"gangSchedulingStyle={style}"})
    assert not reply.error, reply.message
    seen = [*lab.out, *lab.wait(2.0)]
    assert (lab.holders, dict(lab.core.state.managed_applications)) == ([], {})
    assert lab.application.status == "Stopped"
    assert lab.transaction("LAUNCH").message.endswith("the maximum of queue root.work is smaller than the gang")
    told = [line.message for line in seen if isinstance(line, effects.LogLine) and line.reason == "ReservationRejected"]
    assert told == ["the maximum of queue root.work is smaller than the gang"]


def test_a_gang_as_large_as_the_maximum_of_its_queue_reserves_its_room() -> None:
    lab = GangLab(options=tree_of({"cpus": 0.3}))
    lab.gang(3, 3)
    lab.wait(1.0)
    assert len(lab.holders) == 3
