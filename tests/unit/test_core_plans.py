"""Plans of several requests: a plan is what the requests do afterwards, one after the other, and changes nothing."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import effects, leased, requests
from bcs_scheduler.core.interface.requests import PlanRequests
from bcs_scheduler.core.requests import planned_documents
from bcs_scheduler.decisions import content
from store.ids import object_key
from store.records import Namespace, Quota, Record
from store.records.definition import Amounts, Container
from tests.effort import share
from tests.unit.core.policy_options import POLICIES, options_of
from tests.unit.lab import Lab, version


def lab_of(policy: str = "simple") -> Lab:
    return Lab(options_of(policy))


def creation(name: str, instances: int, cpus: int = 100) -> requests.CreateApplication:
    container = Container(command="serve", requests=Amounts(cpus=cpus, mem=32_000, disk=0))
    wanted = version(instances, containers=(container,))
    return requests.CreateApplication(version=msgspec.structs.replace(wanted, application=name), dry_run=True)


def plan(lab: Lab, *asked: requests.Request) -> dict[str, Any]:
    """The plan; proves that nothing changes and that nothing leaves but the reply."""
    before, offers = lab.records(), lab.core.offers()
    batch: list[requests.Request] = [PlanRequests(token=7, requests=asked)]
    for _ in range(3000):
        units = lab.core.turn(batch, lab.now)
        assert not [change for unit in units for change in unit.changes]
        found = [effect for unit in units for effect in unit.effects if not isinstance(effect, effects.LogLine)]
        batch = []
        if found:
            break
    (reply,) = found
    assert isinstance(reply, effects.Reply) and not reply.error, reply
    assert lab.records() == before and lab.core.offers() == offers
    data: dict[str, Any] = reply.data
    return data


def placed(data: dict[str, Any]) -> list[int]:
    return [len(one["place"]) for one in data["requests"]]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", range(share(80)))
def test_the_plan_is_what_the_requests_do(seed: int, policy: str) -> None:
    chance = random.Random(seed)
    lab = lab_of(policy)
    rooms = [chance.choice((250, 450, 850, 1650)) for _ in range(chance.randint(1, 4))]
    lab.turn(leased.OffersArrived(offers=tuple(lab.make_offer(f"a{n}", cpus=cpus) for n, cpus in enumerate(rooms))))
    lab.ask(requests.PutNamespace(namespace=Namespace(name="default", quota=Quota(taskgroups=chance.randint(6, 30)))))
    sizes = [(f"app{n}", chance.randint(1, 7), chance.choice((100, 200, 400))) for n in range(chance.randint(1, 6))]
    if chance.random() < 0.5:
        sizes.append(sizes[0])
    data = plan(lab, *(creation(*size) for size in sizes))
    asked = [msgspec.structs.replace(creation(*size), dry_run=False, token=n + 1) for n, size in enumerate(sizes)]
    lab.turn(*asked)
    replies = {reply.token: reply for reply in lab.sent(effects.Reply)}
    for number, answer in enumerate(data["requests"]):
        reply = replies[number + 1]
        assert answer.get("error", "") == reply.error
        assert answer.get("message", "") == reply.message or not reply.error
    lab.wait(0.2)
    state = lab.core.state
    for (name, instances, _), answer in zip(sizes, data["requests"], strict=True):
        if answer.get("error"):
            continue
        assert len(answer["place"]) + answer["unplaced"] == instances
        groups = state.groups_of(object_key("default", name))
        assert len(groups) == len(answer["place"]), (name, data)


def test_a_refused_request_leaves_nothing_behind() -> None:
    lab = lab_of()
    lab.offer(cpus=1000)
    again = creation("web", 1)
    data = plan(
        lab, again, again, requests.ScaleApplication(namespace="default", name="web", instances=3, dry_run=True)
    )
    first, second, third = data["requests"]
    assert (len(first["place"]), second["error"]) == (1, "exists")
    assert third.get("error", "") == "conflict" or len(third["place"]) == 2


def test_many_slots_are_matched_in_slices_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = lab_of()
    for number in range(4):
        lab.offer(f"a{number}", cpus=1650)
    asked = [creation("one", 9), creation("two", 11, 200), creation("three", 40)]
    at_once = plan(lab, *asked)
    monkeypatch.setattr(planned_documents, "SLICE", 4)
    monkeypatch.setattr(planned_documents, "AT_ONCE", 0)
    in_slices = plan(lab, *asked)
    assert placed(in_slices) == placed(at_once)
    assert [one["unplaced"] for one in in_slices["requests"]] == [one["unplaced"] for one in at_once["requests"]]
    assert placed(at_once)[:2] == [9, 11] and at_once["requests"][2]["message"]


def test_too_many_requests_are_refused() -> None:
    lab = lab_of()
    lab.offer()
    reply = lab.ask(PlanRequests(requests=(creation("web", 1),) * (planned_documents.MOST + 1)))
    assert reply.error == "invalid"


def test_the_decision_log_keeps_the_requests_of_a_plan() -> None:
    secret = requests.PutNamespace(namespace=Namespace(name="one"), dry_run=True)
    asked = PlanRequests(token=3, cause="c", requests=(creation("web", 2), secret))
    assert content.read(*content.written(asked, lambda value: value)) == asked


def test_what_a_plan_costs_in_records_is_undone_bit_for_bit() -> None:
    lab = lab_of()
    lab.offer(cpus=2000)
    lab.ask(msgspec.structs.replace(creation("web", 2), dry_run=False))

    def encoded() -> list[bytes]:
        return sorted(msgspec.json.encode(record) for record in lab.records())

    lab.offer(cpus=2000)
    before = encoded()
    update = requests.UpdateApplication(version=version(5), size=5, on_conflict="supersede", dry_run=True)
    delete = requests.DeleteApplication(namespace="default", name="web", dry_run=True)
    data = plan(lab, creation("api", 2), update, creation("api", 1), delete)
    assert [one.get("error", "") for one in data["requests"]] == ["", "", "exists", ""]
    assert encoded() == before
    records: list[Record] = lab.records()
    assert records
