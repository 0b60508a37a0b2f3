"""Updates whose documents name no number of taskgroups, beside a scale: the core keeps the number of the moment."""

from __future__ import annotations

import msgspec
import pytest

from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.scheduler import Core
from store.records import TaskGroup, Transaction
from tests.unit.lab import Lab, version


def running(count: int) -> Lab:
    lab = Lab()
    lab.create(count)
    lab.offer()
    lab.run()
    return lab


def test_an_update_that_names_no_number_keeps_the_one_of_a_scale_before_it() -> None:
    lab = running(2)
    unnamed = version(0, labels={"revision": "2"})  # what the API makes of the document before the scale is carried out
    assert not lab.scale(4).error
    lab.offer()
    lab.run()
    assert not lab.ask(requests.UpdateApplication(version=unnamed)).error
    lab.run()
    assert lab.application.instances == 4
    newest = lab.core.state.version("default/web", lab.application.version)
    assert newest is not None and (newest.instances, newest.labels) == (4, {"revision": "2"})
    assert {group.version for group in lab.groups} == {newest.name} and len(lab.groups) == 4


def test_a_plan_places_no_taskgroup_above_the_new_number() -> None:
    lab = running(4)
    names = {group.index: group.id for group in lab.groups}
    lab.offer()
    reply = lab.ask(requests.UpdateApplication(version=version(2, labels={"revision": "2"}), dry_run=True))
    assert reply.data["instances"] == {"from": 4, "to": 2}
    assert reply.data["end"] == [names[2], names[3], names[0]], "the two above the number, and the first of the update"
    assert [(place["index"], place["replaces"]) for place in reply.data["place"]] == [(0, names[0])]
    assert not reply.data["unplaced"]


@pytest.mark.parametrize("dry_run", [False, True])
def test_the_same_definition_without_a_number_changes_nothing(dry_run: bool) -> None:
    lab = running(2)
    assert not lab.scale(3).error
    lab.offer()
    lab.run()
    transactions = set(lab.core.state.transactions)
    assert not lab.ask(requests.UpdateApplication(version=version(0), dry_run=dry_run)).error
    assert lab.application.instances == 3 and set(lab.core.state.transactions) == transactions


def test_limits_change_in_place_without_a_number() -> None:
    lab = running(2)
    assert not lab.scale(3).error
    lab.offer()
    lab.run()
    reply = lab.ask(requests.UpdateApplication(version=version(0), resources_only=True))
    assert not reply.error and lab.application.instances == 3


def test_a_cancelled_update_to_fewer_taskgroups_ends_those_above_the_number() -> None:
    """The update may be cancelled before its first step. The number was accepted, and stays the wanted one."""
    before = Lab()
    before.create(4)
    before.offer()
    before.run()
    before.wait(2.0)
    before.ask(requests.UpdateApplication(version=version(4, labels={"release": "2"})))
    before.ask(requests.ScaleApplication(namespace="default", name="web", instances=2, on_conflict="supersede"))
    records = before.records()
    for number, record in enumerate(records):
        if isinstance(record, TaskGroup):
            records[number] = msgspec.structs.replace(record, killing_since=0.0, end_cause="", kill_reason="")
    lab = Lab()
    lab.core = Core(records, lab.options, before.now)  # no turn has passed
    lab.now = lab.core.began.now
    (update,) = (one for one in records if isinstance(one, Transaction) and one.active)
    assert update.target == 2
    assert not lab.cancel(update).error
    assert [(group.index, group.end_cause) for group in lab.groups if group.killing_since] == [
        (2, "ScaledDown"),
        (3, "ScaledDown"),
    ]
    for group in lab.groups[2:]:
        lab.report(group, "KILLED")
    lab.wait(1.0)
    assert [group.index for group in lab.groups] == [0, 1]
    assert (lab.application.instances, lab.application.status) == (2, "Running")
