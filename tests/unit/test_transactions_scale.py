"""LAUNCH and SCALE: filling and emptying indexes, time-outs that say what was missing, cancelling."""

from __future__ import annotations

from bcs_scheduler.core.interface import cluster_manager, requests
from bcs_scheduler.core.options import CoreOptions
from tests.unit.lab import Lab, running
from transactions.base import Options, Periods


def test_a_launch_ends_when_every_index_has_a_place() -> None:
    lab = Lab()
    reply = lab.create(3)
    assert reply.data["opType"] == "LAUNCH"
    assert lab.application.status == "Operating"
    lab.offer()
    assert [group.index for group in lab.groups] == [0, 1, 2]
    assert lab.transaction("LAUNCH").status == "FINISH"
    assert lab.application.status == "Deploying"
    lab.run()
    assert lab.application.status == "Running"


def test_a_launch_out_of_time_says_what_was_missing() -> None:
    lab = Lab()
    lab.create(3)
    lab.offer(cpus=250)
    lab.wait(1801)
    transaction = lab.transaction("LAUNCH")
    assert (transaction.status, transaction.progress) == ("TIMEOUT", 2)
    assert "have not enough resources: 1 taskgroup not placed" in transaction.message
    assert lab.application.status == "Abnormal"
    assert lab.application.message.startswith("launch timeout: after 30m")


def test_a_transaction_is_not_active_at_its_deadline() -> None:
    lab = Lab()
    lab.create(1)
    lab.now = lab.transaction("LAUNCH").deadline
    lab.turn()
    assert lab.transaction("LAUNCH").status == "TIMEOUT"


def test_scaling_to_the_present_size_is_done_at_once() -> None:
    lab = running(2)
    reply = lab.scale(2)
    assert not reply.error
    assert reply.data["unchanged"]
    assert lab.application.status == "Running"


def test_scaling_to_the_present_size_fills_what_is_missing() -> None:
    lab = Lab()
    lab.create(3)
    lab.offer(cpus=250)
    lab.wait(1801)
    reply = lab.scale(3)
    assert reply.data["opType"] == "SCALE"
    lab.offer()
    assert [group.index for group in lab.groups] == [0, 1, 2]


def test_scaling_down_ends_the_highest_indexes_and_waits_for_their_ends() -> None:
    lab = running(4)
    kept = {group.id for group in lab.groups[:2]}
    lab.scale(2)
    assert [bool(group.killing_since) for group in lab.groups] == [False, False, True, True]
    assert lab.transaction("SCALE").status == "INIT"
    lab.run()
    assert {group.id for group in lab.groups} == kept
    assert lab.transaction("SCALE").status == "FINISH"
    assert lab.application.status == "Running"


def test_scaling_down_does_not_wait_for_an_unreachable_taskgroup_but_kills_it() -> None:
    lab = running(2)
    away = lab.group(1)
    lab.report(away, "UNREACHABLE")
    lab.scale(1)
    assert lab.ended() == [away.tasks[0].id]
    assert [group.index for group in lab.groups] == [0]
    assert lab.transaction("SCALE").status == "FINISH"


def test_one_operation_at_a_time() -> None:
    lab = Lab()
    lab.create(2)
    reply = lab.scale(3)
    assert reply.error == "conflict"
    assert f"launch {lab.transaction('LAUNCH').id[-6:]}" in reply.message


def test_scaling_below_zero_is_refused() -> None:
    lab = running(1)
    reply = lab.scale(-1)
    assert (reply.error, reply.problems[0].path) == ("invalid", "$.instances")


def test_cancelling_a_launch_settles_at_what_exists() -> None:
    lab = Lab()
    lab.create(5)
    lab.offer(cpus=250)
    lab.cancel(lab.transaction("LAUNCH"))
    assert lab.transaction("LAUNCH").status == "CANCEL"
    assert lab.application.instances == 2
    lab.run()
    assert lab.application.status == "Running"
    assert len(lab.groups) == 2


def test_cancelling_twice_is_a_conflict() -> None:
    lab = Lab()
    lab.create(1)
    lab.cancel(lab.transaction("LAUNCH"))
    assert lab.cancel(lab.transaction("LAUNCH")).error == "conflict"


def test_a_successor_finishes_what_was_begun() -> None:
    lab = Lab()
    lab.create(3)
    lab.offer(cpus=250)
    first = {group.id for group in lab.groups}
    successor = lab.succeed()
    successor.offer()
    assert [group.index for group in successor.groups] == [0, 1, 2]
    assert first < {group.id for group in successor.groups}
    assert successor.transaction("LAUNCH").status == "FINISH"


def test_ids_of_a_successor_with_a_slow_clock_are_still_new() -> None:
    lab = running(1)
    successor = Lab(records=lab.records())
    successor.now = lab.now - 3600
    successor.scale(2)
    successor.offer()
    numbers = [int(group.id.rpartition(".")[2]) for group in successor.groups]
    assert numbers[1] > numbers[0]


def test_an_ended_transaction_stays_readable_for_the_retention_time() -> None:
    periods = Periods(retention=100.0)
    lab = running(1, CoreOptions(strict=True, transactions=Options(periods=periods)))
    identity = lab.transaction("LAUNCH").id
    lab.wait(60)
    assert identity in lab.core.state.transactions
    lab.wait(80)
    assert identity not in lab.core.state.transactions


def test_an_application_of_the_same_name_is_refused() -> None:
    lab = running(1)
    assert lab.create(1).error == "exists"


def test_two_tasks_of_a_taskgroup_are_launched_together() -> None:
    lab = Lab()
    lab.create(1, tasks=2)
    lab.offer()
    (accept,) = lab.sent(cluster_manager.LaunchOnAgent)
    assert len(accept.launches[0].taskgroup.tasks) == 2


def test_an_inner_scale_may_go_down_to_nothing_and_leaves_the_status_alone() -> None:
    lab = running(2)
    reply = lab.ask(requests.ScaleApplication(namespace="default", name="web", instances=0, inner=True))
    assert reply.data["opType"] == "INNERSCALE"
    assert lab.application.operation == ""
    lab.run()
    assert not lab.groups
    assert lab.transaction("INNERSCALE").status == "FINISH"


def test_two_scales_never_pull_in_two_directions() -> None:
    lab = running(2)
    lab.core.turn_context.pool.hand.clear()
    lab.ask(requests.ScaleApplication(namespace="default", name="web", instances=5, inner=True))
    reply = lab.scale(1)
    assert reply.error == "conflict"
    assert f"step of an update {lab.transaction('INNERSCALE').id[-6:]}" in reply.message


def test_scaling_down_ends_what_is_beyond_even_if_lower_indexes_are_missing() -> None:
    lab = running(4)
    for index in (0, 1, 2):
        lab.core.turn_context.uow.delete(lab.group(index))
    lab.core.turn_context.cut()
    lab.core.turn_context.pool.hand.clear()
    lab.scale(2)
    assert [(group.index, bool(group.killing_since)) for group in lab.groups] == [(3, True)]
    lab.run()
    lab.offer()
    lab.run()
    assert [group.index for group in lab.groups] == [0, 1]
    assert lab.application.status == "Running"
