"""Deployments at rest that change in place: number, strategy, limits."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.core.interface import effects
from bcs_scheduler.core.interface import requests as orders
from bcs_scheduler.core.interface.cluster_manager import MessageAnswered
from store.records import Strategy
from store.records.definition import Amounts, Container
from tests.unit.lab import version
from tests.unit.rollinglab import NEW, WEB, RollingLab, deployed, wish

# --- scale ------------------------------------------------------------------------------------------------------------


def test_scale_goes_to_the_bound_application() -> None:
    lab = deployed(2)
    reply = lab.resize(4)
    assert lab.core.state.transactions[reply.data["transactionID"]].type == "SCALE"
    lab.run()
    assert (len(lab.groups), lab.deployment.instances, lab.application.instances) == (4, 4, 4)
    assert lab.resize(4).data["unchanged"]
    assert lab.resize(-1).error == "invalid"


def test_another_scale_takes_the_place_of_one_that_runs() -> None:
    lab = deployed(1)
    lab.core.turn_context.pool.hand.clear()
    first = lab.resize(50).data["transactionID"]
    lab.resize(2)
    assert lab.core.state.transactions[first].status == "CANCEL"
    lab.run()
    assert (len(lab.groups), lab.deployment.instances) == (2, 2)


def test_during_an_update_it_is_not_scaled() -> None:
    lab = deployed(2)
    lab.renew(2, **NEW)
    reply = lab.resize(5)
    assert (reply.error, "cancel the update" in reply.message) == ("conflict", True)


def test_a_document_with_another_number_alone_is_a_scale() -> None:
    lab = deployed(2)
    lab.renew(3)
    assert lab.deployment.status == "Running"
    assert lab.transaction("SCALE").target == 3
    lab.run()
    assert len(lab.core.state.revisions_of(WEB)) == 1


def test_a_document_with_another_strategy_alone_changes_the_record() -> None:
    lab = deployed(2)
    reply = lab.renew(2, strategy=Strategy(max_surge=5))
    assert "transactionID" not in reply.data
    assert lab.deployment.strategy.max_surge == 5
    assert lab.core.state.revisions_of(WEB)[1].strategy.max_surge == 5
    assert lab.renew(2).data["unchanged"]


# --- limits -----------------------------------------------------------------------------------------------------------


def limited(cpus: int) -> dict[str, Any]:
    requests = Amounts(cpus=100, mem=32_000, disk=0)
    return {"containers": (Container(command="serve", requests=requests, limits=Amounts(cpus=cpus, mem=64_000)),)}


def in_place(lab: RollingLab, cpus: int, instances: int = 2) -> effects.Reply:
    return lab.ask(
        orders.UpdateDeployment(
            deployment=wish(instances, strategy=lab.deployment.strategy),
            version=version(instances, **limited(cpus)),
            resources_only=True,
        )
    )


def test_limits_change_in_place_as_a_revision() -> None:
    lab = deployed(2, **limited(200))
    reply = in_place(lab, 400)
    assert reply.data["commandID"] == lab.deployment.command
    assert lab.deployment.status == "UpdateResource"
    assert lab.renew(2, **NEW).error == "conflict"
    for message in list(lab.core.state.messages.values()):
        lab.turn(
            MessageAnswered(
                agent_id="", executor_id=message.taskgroup, message_id=message.id, status="success", message=""
            )
        )
    assert (lab.deployment.status, lab.deployment.revision, lab.deployment.command) == ("Running", 2, "")
    assert lab.core.state.revisions_of(WEB)[2].version.containers[0].limits.cpus == 400
    assert in_place(lab, 400).data["unchanged"]


def test_limits_change_of_as_many_taskgroups_as_there_are() -> None:
    lab = deployed(2, **limited(200))
    assert in_place(lab, 400, instances=0).data["revision"] == 2
    assert (lab.deployment.instances, lab.core.state.revisions_of(WEB)[2].instances) == (2, 2)


def test_limits_that_no_executor_answers_for_come_to_an_end() -> None:
    lab = deployed(2, **limited(200))
    in_place(lab, 400)
    successor = lab.succeed()
    successor.wait(600)
    assert successor.deployment.status == "Running"
    assert "2 of 2" in successor.deployment.message
