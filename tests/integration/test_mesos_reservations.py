"""Dynamic reservations as frameworks and operators see them: one set of tests for the real Mesos and for the embedded
cluster."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any

import pytest
import requests

from tests.integration.schedulerclient import SchedulerClient, amounts, fresh, scalar, task
from tests.waiting import wait_for

Json = dict[str, Any]
PATIENCE = 30.0
_roles = count(1)


class Operator:
    """The operator API of a master."""

    def __init__(self, address: str) -> None:
        self._url = f"http://{address}/api/v1"

    def post(self, type_: str, body: Json | None = None) -> requests.Response:
        call = {"type": type_} if body is None else {"type": type_, type_.lower(): body}
        return requests.post(self._url, json=call, headers={"Accept": "application/json"}, timeout=PATIENCE)

    def agents(self) -> list[Json]:
        found: list[Json] = self.post("GET_AGENTS").json()["get_agents"]["agents"]
        return found

    def total(self, agent_id: Json) -> list[Json]:
        """The resources of the agent with their present reservations."""
        (found,) = [one for one in self.agents() if one["agent_info"]["id"] == agent_id]
        resources: list[Json] = found["total_resources"]
        return resources

    def reserved(self, role: str) -> list[tuple[Json, Json]]:
        """Agent and resource, of all resources that are dynamically reserved for the role."""
        return [
            (agent["agent_info"]["id"], resource)
            for agent in self.agents()
            for resource in agent["total_resources"]
            if is_dynamic(resource) and resource["reservations"][-1]["role"] == role
        ]

    def unreserve_all(self, role: str) -> None:
        def none_left() -> bool:
            for agent_id, resource in self.reserved(role):
                self.post("UNRESERVE_RESOURCES", {"agent_id": agent_id, "resources": [resource]})
            return not self.reserved(role)

        wait_for(none_left, PATIENCE, "the end of the reservations")


def is_dynamic(resource: Json) -> bool:
    return any(one["type"] == "DYNAMIC" for one in resource.get("reservations", []))


@pytest.fixture
def operator(master: str) -> Operator:
    return Operator(master)


@pytest.fixture
def role(operator: Operator) -> Iterator[str]:
    """A role that no other test has. Nothing stays reserved for this role."""
    name = f"role-{next(_roles)}"
    yield name
    operator.unreserve_all(name)


@pytest.fixture
def client(master: str, role: str, operator: Operator) -> Iterator[SchedulerClient]:
    client = SchedulerClient(master, roles=[role], principal="owner").subscribe()
    yield client
    operator.post("TEARDOWN", {"framework_id": client.info["id"]})


def held(role: str, name: str = "cpus", value: float = 0.5, *, allocated: bool = True, **more: Any) -> Json:
    """A resource that is dynamically reserved for the role."""
    reservation = {"type": "DYNAMIC", "role": role, "principal": "owner", **more}
    resource = {**scalar(name, value, role if allocated else None), "reservations": [reservation]}
    return copy.deepcopy(resource)


def labels(**values: str) -> Json:
    return {"labels": [{"key": name, "value": value} for name, value in values.items()]}


def reserve(*resources: Json, **more: Any) -> Json:
    return {"type": "RESERVE", "reserve": {"resources": list(resources)}, **more}


def unreserve(*resources: Json, **more: Any) -> Json:
    return {"type": "UNRESERVE", "unreserve": {"resources": list(resources)}, **more}


def launch(*tasks: Json) -> Json:
    return {"type": "LAUNCH", "launch": {"task_infos": list(tasks)}}


def dynamic(offer: Json) -> list[Json]:
    return [resource for resource in offer["resources"] if is_dynamic(resource)]


def holds(*resources: Json) -> Callable[[Json], bool]:
    """True for offers whose dynamically reserved resources are these."""
    return lambda offer: texts(dynamic(offer)) == texts(map(plain, resources))


def texts(values: Iterable[Any]) -> list[str]:
    return sorted(json.dumps(value, sort_keys=True) for value in values)


def plain(resource: Json) -> Json:
    """As in an offer of the master."""
    role = resource["reservations"][-1]["role"]
    return {**resource, "allocation_info": {"role": role}}


def of_agent(offer: Json) -> Callable[[Json], bool]:
    return lambda other: bool(other["agent_id"] == offer["agent_id"])


def free_cpus(offer: Json) -> float:
    found = [one for one in offer["resources"] if one["name"] == "cpus" and not one.get("reservations")]
    return float(sum(one["scalar"]["value"] for one in found))


def test_reserved_resources_are_offered_to_their_role_only(
    client: SchedulerClient, operator: Operator, role: str, master: str
) -> None:
    offer = client.offers()[0]
    mine = [held(role, "cpus", 0.5, labels=labels(gang="g", n="1")), held(role, "mem", 64.0)]
    client.accept([offer], reserve(*mine))
    again = client.offers(accept=holds(*mine))[0]
    assert again["agent_id"] == offer["agent_id"]
    assert free_cpus(again) == free_cpus(offer) - 0.5
    total = operator.total(offer["agent_id"])
    assert texts(one["reservations"] for one in total if is_dynamic(one)) == texts(one["reservations"] for one in mine)
    client.decline([again], 3600.0)
    other = SchedulerClient(master, roles=["another"]).subscribe()
    seen = other.offers(accept=of_agent(offer))[0]
    assert dynamic(seen) == []
    assert free_cpus(seen) == free_cpus(offer) - 0.5
    other.teardown()


def test_a_reservation_survives_its_task_and_its_framework(
    client: SchedulerClient, operator: Operator, role: str, master: str
) -> None:
    offer = client.offers()[0]
    mine = [held(role, "cpus", 0.5), held(role, "mem", 64.0)]
    name = fresh("task")
    client.accept([offer], reserve(*mine), launch(task(name, offer, resources=mine)))
    client.states(name, "TASK_RUNNING")
    client.call("KILL", {"task_id": {"value": name}, "agent_id": offer["agent_id"]})
    client.states(name, "TASK_KILLED")
    client.offers(accept=holds(*mine))
    client.teardown()
    next_one = SchedulerClient(master, roles=[role], principal="owner").subscribe()
    found = next_one.offers(accept=holds(*mine))[0]
    assert found["agent_id"] == offer["agent_id"]
    next_one.accept([found], unreserve(*mine))
    whole = next_one.offers(accept=lambda one: of_agent(offer)(one) and not dynamic(one))[0]
    assert free_cpus(whole) == free_cpus(offer)
    assert operator.reserved(role) == []
    next_one.teardown()


def test_room_is_unreserved_and_used_in_one_accept(client: SchedulerClient, operator: Operator, role: str) -> None:
    offer = client.offers()[0]
    mine = [held(role, "cpus", 0.5), held(role, "mem", 64.0)]
    client.accept([offer], reserve(*mine))
    found = client.offers(accept=holds(*mine))[0]
    name, whole = fresh("task"), free_cpus(offer)
    resources = [scalar("cpus", whole, role), scalar("mem", 32.0, role)]
    client.accept([found], unreserve(*mine), launch(task(name, found, resources=resources)))
    client.states(name, "TASK_RUNNING")
    assert operator.reserved(role) == []


def test_reservations_with_other_labels_are_other_resources(
    client: SchedulerClient, operator: Operator, role: str
) -> None:
    offer = client.offers()[0]
    one, two = held(role, labels=labels(gang="a")), held(role, labels=labels(gang="b"))
    client.accept([offer], reserve(one), reserve(two))
    found = client.offers(accept=holds(one, two))[0]
    wrong = held(role, value=1.0, labels=labels(gang="a"))
    client.accept([found], unreserve(wrong, id={"value": "wrong"}))
    status = client.event("UPDATE_OPERATION_STATUS")["status"]
    assert status["state"] == "OPERATION_ERROR"
    assert "does not contain cpus" in status["message"]
    assert "(DYNAMIC," in status["message"]
    found = client.offers(accept=holds(one, two))[0]
    client.accept([found], unreserve(two))
    client.offers(accept=holds(one))


def test_a_finished_operation_is_reported_until_it_is_acknowledged(
    client: SchedulerClient, role: str, master: str
) -> None:
    offer = client.offers()[0]
    mine = held(role)
    client.accept([offer], reserve(mine, id={"value": "made"}))
    status = client.event("UPDATE_OPERATION_STATUS")["status"]
    assert (status["operation_id"]["value"], status["state"]) == ("made", "OPERATION_FINISHED")
    assert status["agent_id"] == offer["agent_id"]
    heir = SchedulerClient(master, roles=[role], principal="owner", id=client.info["id"]).subscribe()
    again = heir.event("UPDATE_OPERATION_STATUS")["status"]
    assert again["uuid"] == status["uuid"]
    known = {"agent_id": status["agent_id"], "operation_id": status["operation_id"], "uuid": status["uuid"]["value"]}
    heir.call("ACKNOWLEDGE_OPERATION_STATUS", known)
    heir.offers(accept=holds(mine))


STATIC = {"type": "STATIC", "role": "web"}
BAD: dict[str, tuple[Callable[[str], Json], str]] = {
    "more than offered": (lambda role: reserve(held(role, value=1000.0)), "does not contain cpus"),
    "not reserved": (lambda role: reserve(scalar("cpus", 0.5, role)), "is not dynamically reserved; on agent"),
    "static": (
        lambda role: reserve({**scalar("cpus", 0.5, role), "reservations": [STATIC]}),
        "is not dynamically reserved; on agent",
    ),
    "unreserved twice": (lambda role: unreserve(held(role)), "does not contain cpus"),
    "unreserve what is not reserved": (
        lambda role: unreserve(scalar("cpus", 0.5, role)),
        "is not dynamically reserved",
    ),
    "another role": (
        lambda role: reserve({**held("other"), "allocation_info": {"role": role}}),
        "A reserve operation was attempted for a resource with role 'other', but the resource was allocated to role",
    ),
    "another allocation": (
        lambda role: reserve(held("other")),
        "A reserve operation was attempted for a resource allocated to role 'other', but the framework only has roles",
    ),
    "no principal": (
        lambda role: reserve({**scalar("cpus", 0.5, role), "reservations": [{"type": "DYNAMIC", "role": role}]}),
        "A reserve operation was attempted by principal 'owner', but there is a reserved resource in the request with "
        "no principal set",
    ),
    "another principal": (
        lambda role: reserve(held(role, principal="thief")),
        "A reserve operation was attempted by authenticated principal 'owner', which does not match a reserved "
        "resource in the request with principal 'thief'",
    ),
    "role of all": (
        lambda role: reserve({**held("*"), "allocation_info": {"role": role}}),
        'is invalid: Invalid reservation: role "*" cannot be reserved',
    ),
    "no type": (
        lambda role: reserve({**scalar("cpus", 0.5, role), "reservations": [{"role": role}]}),
        "is invalid: Invalid reservation: 'Resource.ReservationInfo.type' field must be set.",
    ),
    "no refinement": (
        lambda role: reserve({**held(role), "reservations": [STATIC, {"type": "DYNAMIC", "role": role}]}),
        "is invalid: Invalid refined reservation: role",
    ),
    "source": (
        lambda role: {
            "type": "RESERVE",
            "reserve": {"source": [scalar("cpus", 0.5, role)], "resources": [held(role)]},
        },
        "Operation attempted with invalid resources: Reservation updates are not yet implemented for the scheduler "
        "API.",
    ),
    "no payload": (
        lambda role: {"type": "RESERVE"},
        "Operation attempted with invalid resources: A RESERVE offer operation must have the Offer.Operation.reserve "
        "field set.",
    ),
}


def test_bad_operations_are_dropped_and_the_others_are_carried_out(
    client: SchedulerClient, operator: Operator, role: str
) -> None:
    offer = client.offers()[0]
    name = fresh("task")
    bad = [{**made(role), "id": {"value": id_}} for id_, (made, _) in BAD.items()]
    client.accept([offer], *bad, launch(task(name, offer, resources=[scalar("cpus", 0.5, role)])))
    found = {}
    for _ in BAD:
        status = client.event("UPDATE_OPERATION_STATUS")["status"]
        assert status["state"] == "OPERATION_ERROR"
        assert "uuid" not in status
        found[status["operation_id"]["value"]] = status["message"]
    wrong = {id_: found[id_] for id_, (_, message) in BAD.items() if message not in found[id_]}
    assert wrong == {}
    client.states(name, "TASK_RUNNING")
    assert operator.reserved(role) == []


def test_operations_with_invalid_offers_are_dropped(client: SchedulerClient, operator: Operator, role: str) -> None:
    offer = client.offers()[0]
    client.decline([offer], 0.0)
    client.accept([offer], reserve(held(role), id={"value": "late"}))
    status = client.event("UPDATE_OPERATION_STATUS")["status"]
    assert status["state"] == "OPERATION_ERROR"
    assert "is no longer valid" in status["message"]
    assert operator.reserved(role) == []


def test_an_operator_reserves_and_unreserves(client: SchedulerClient, operator: Operator, role: str) -> None:
    agent_id = client.offers()[0]["agent_id"]
    mine = held(role, allocated=False, labels=labels(gang="g"))
    body = {"agent_id": agent_id, "resources": [mine]}
    answer = operator.post("RESERVE_RESOURCES", body)
    assert (answer.status_code, answer.text) == (202, "")
    offer = client.offers(accept=holds(mine))[0]
    assert operator.post("UNRESERVE_RESOURCES", body).status_code == 202
    client.event("RESCIND", lambda event: bool(event["offer_id"] == offer["id"]))
    name = fresh("task")
    client.accept([offer], launch(task(name, offer, resources=amounts()[:2])))
    status = client.update(name)
    assert (status["state"], status["reason"]) == ("TASK_DROPPED", "REASON_INVALID_OFFERS")
    assert "Task launched with invalid offers" in status["message"]
    assert operator.reserved(role) == []


def test_an_operator_does_not_take_what_is_used(client: SchedulerClient, operator: Operator, role: str) -> None:
    offer = client.offers()[0]
    mine, name = held(role), fresh("task")
    client.accept([offer], reserve(mine), launch(task(name, offer, resources=[mine, scalar("mem", 32.0, role)])))
    client.states(name, "TASK_RUNNING")
    body = {"agent_id": offer["agent_id"], "resources": [held(role, allocated=False)]}
    answer = operator.post("UNRESERVE_RESOURCES", body)
    assert answer.status_code == 409
    assert "does not contain cpus(reservations: [(DYNAMIC," in answer.text
    assert len(operator.reserved(role)) == 1


BAD_CALLS: dict[str, tuple[str, Callable[[str, Json], Json | None], str]] = {
    "no body": ("RESERVE_RESOURCES", lambda role, agent: None, "Expecting 'reserve_resources' to be present"),
    "no body to unreserve": (
        "UNRESERVE_RESOURCES",
        lambda role, agent: None,
        "Expecting 'unreserve_resources' to be present",
    ),
    "unknown agent": (
        "RESERVE_RESOURCES",
        lambda role, agent: {"agent_id": {"value": "nobody"}, "resources": [held(role, allocated=False)]},
        "No agent found with specified ID",
    ),
    "not reserved": (
        "RESERVE_RESOURCES",
        lambda role, agent: {"agent_id": agent, "resources": [scalar("cpus", 0.5, None)]},
        "Resource cpus:0.5 is not dynamically reserved",
    ),
    "not reserved to unreserve": (
        "UNRESERVE_RESOURCES",
        lambda role, agent: {"agent_id": agent, "resources": [scalar("cpus", 0.5, None)]},
        "Invalid UNRESERVE operation: Resource cpus:0.5 is not dynamically reserved",
    ),
    "allocated": (
        "RESERVE_RESOURCES",
        lambda role, agent: {"agent_id": agent, "resources": [held(role)]},
        "A reserve operation was attempted with an allocated resource, but the operator API only allows reservations "
        "to be made to unallocated resources",
    ),
    "invalid": (
        "RESERVE_RESOURCES",
        lambda role, agent: {"agent_id": agent, "resources": [held("*", allocated=False)]},
        'is invalid: Invalid reservation: role "*" cannot be reserved',
    ),
    "other amounts": (
        "RESERVE_RESOURCES",
        lambda role, agent: {
            "agent_id": agent,
            "source": [held(role, value=0.1, allocated=False)],
            "resources": [held(role, value=0.2, allocated=False)],
        },
        "Source and target resources should refer to identical resource quantities: cpus:0.1 vs. cpus:0.2",
    ),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_calls_of_operators_are_refused(case: str, client: SchedulerClient, operator: Operator, role: str) -> None:
    type_, made, message = BAD_CALLS[case]
    answer = operator.post(type_, made(role, client.offers()[0]["agent_id"]))
    assert answer.status_code == 400
    assert message in answer.text


def test_an_operator_replaces_a_reservation(client: SchedulerClient, operator: Operator, role: str) -> None:
    agent_id = client.offers()[0]["agent_id"]
    before, after = held(role, allocated=False, labels=labels(n="1")), held(role, allocated=False, labels=labels(n="2"))
    assert operator.post("RESERVE_RESOURCES", {"agent_id": agent_id, "resources": [before]}).status_code == 202
    body = {"agent_id": agent_id, "source": [before], "resources": [after]}
    assert operator.post("RESERVE_RESOURCES", body).status_code == 202
    client.offers(accept=holds(after))


def test_a_framework_of_the_old_format_sees_one_reservation(operator: Operator, role: str, master: str) -> None:
    old = SchedulerClient(master, capabilities=["PARTITION_AWARE"], role=role, principal="owner").subscribe()
    agent_id = old.offers()[0]["agent_id"]
    mine = held(role, allocated=False, labels=labels(gang="g"))
    assert operator.post("RESERVE_RESOURCES", {"agent_id": agent_id, "resources": [mine]}).status_code == 202

    def is_reserved(offer: Json) -> bool:
        return any(one.get("role") == role for one in offer["resources"])

    offer = old.offers(accept=is_reserved)[0]
    (seen,) = [one for one in offer["resources"] if one.get("role") == role]
    assert seen["reservation"] == {"principal": "owner", "labels": labels(gang="g")}
    assert "reservations" not in seen
    back = {**scalar("cpus", 0.5, None), "role": role, "reservation": seen["reservation"]}
    old.accept([offer], unreserve(back))
    old.offers(accept=lambda one: of_agent(offer)(one) and not is_reserved(one))
    old.teardown()
