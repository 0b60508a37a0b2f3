"""Managed applications over the API: states, tasks, placeholders, orphans, and the rights of callers."""

from __future__ import annotations

from typing import Any

from offers.policy.applications.metadata import Style
from store.records import ManagedApplication, ManagedTask, Placeholder, Record
from tests.component.apiserver import serving
from tests.component.test_appmanager_core import WHOLE, ManagedLab
from tests.unit.api_support import CoreGateway

Json = dict[str, Any]


def shown(records: list[Record], path: str) -> Any:
    """The answer about these records."""
    with serving(CoreGateway(records)) as api:
        return api.data(path)


def detail(lab: ManagedLab, name: str) -> Json:
    found: Json = shown(lab.records(), f"/namespaces/batch/managedapplications/{name}")
    return found


def reserving() -> ManagedLab:
    """A gang of two, of whose placeholders one holds room."""
    lab = ManagedLab()
    lab.add("gang", 2, members=2)
    lab.offer("a", cpus=WHOLE)
    lab.start()
    return lab


def test_a_gang_is_shown_with_its_placeholders_and_then_with_its_tasks() -> None:
    lab = reserving()
    found = detail(lab, "gang")
    assert (found["kind"], found["metadata"]["namespace"], found["metadata"]["name"]) == (
        "ManagedApplication", "batch", "gang",
    )  # fmt: skip
    assert found["spec"] == {
        "manager": "m", "podGroup": "", "queue": "root.q", "user": "nobody", "owner": "", "style": "Soft",
        "timeoutSeconds": 60.0,
    }  # fmt: skip
    assert found["status"] == {
        "state": "Reserving", "queueState": "Accepted", "wanted": "", "reason": "", "waiting": 2,
        "tasks": {"New": 2}, "placeholders": {"Asked": 1, "Bound": 1},
    }  # fmt: skip
    assert [change["event"] for change in found["history"]][:3] == ["Submit", "Accept", "TryReserve"]
    assert found["history"][-1]["after"] == "Reserving" and found["history"][0]["time"].startswith("2023-11-14T")
    assert [(change["before"], change["after"]) for change in found["queueHistory"]] == [("New", "Accepted")]
    assert found["groups"] == [{"name": "w", "minMember": 2, "total": 2, "replaced": 0, "timedOut": 0, "serving": 2}]
    assert {holder["state"]: (holder["agent"], holder["group"]) for holder in found["placeholders"]} == {
        "Bound": ("host-of-a", "w"), "Asked": ("", "w"),
    }  # fmt: skip
    assert [(task["name"], task["state"], task["agent"]) for task in found["tasks"]] == [
        ("t0", "New", ""), ("t1", "New", ""),
    ]  # fmt: skip
    lab.offer("b", cpus=WHOLE)
    lab.start()
    for group in lab.stop_ending():
        lab.offer(group.agent_id, cpus=WHOLE)
    lab.start()
    found = detail(lab, "gang")
    assert (found["status"]["state"], found["status"]["waiting"]) == ("Running", 0)
    assert found["status"]["tasks"] == {"Bound": 2} and found["status"]["placeholders"] == {}
    assert (found["placeholders"], found["orphans"]) == ([], [])
    assert found["groups"][0]["replaced"] == 2 and found["groups"][0]["serving"] == 0
    assert sorted(task["agent"] for task in found["tasks"]) == ["host-of-a", "host-of-b"]
    assert [task["application"] for task in found["tasks"]] == ["gang-t0", "gang-t1"]
    assert [change["after"] for change in found["tasks"][0]["history"]][-1] == "Bound"


def test_an_application_that_failed_says_why() -> None:
    lab = ManagedLab()
    lab.add("gang", 2, members=2, style=Style.HARD)
    lab.wait(0.1)
    lab.offer("a", cpus=WHOLE)
    lab.start()
    lab.wait(61.0)
    lab.stop_ending()
    lab.wait(1.0)
    found = detail(lab, "gang")
    assert (found["status"]["state"], found["status"]["queueState"]) == ("Failed", "Failed")
    assert found["status"]["reason"] == "ResourceReservationTimeout"
    assert found["status"]["tasks"] == {"Failed": 2} and found["groups"][0]["timedOut"] == 2


def test_a_placeholder_without_a_record_is_an_orphan_until_it_is_deleted() -> None:
    records = reserving().records()
    lost = next(one for one in records if isinstance(one, Placeholder) and one.state == "Bound")
    lab = ManagedLab([one for one in records if one is not lost], reserving().now)
    assert detail(lab, "gang")["orphans"] == [{"name": lost.name, "attempts": 1, "taskgroups": 1}]
    assert len(lab.stop_ending()) == 1
    lab.wait(5.0)
    assert detail(lab, "gang")["orphans"] == []


def test_a_reservation_of_a_user_has_no_manager() -> None:
    record = ManagedApplication(namespace="batch", name="own", state="Reserving", core_state="Accepted", created_at=1.0)
    tasks = [
        ManagedTask(namespace="batch", application="own", name=str(index), index=index, state="Pending", created_at=1.0)
        for index in (10, 9)
    ]
    found = shown([record, *tasks], "/namespaces/batch/managedapplications/own")
    assert found["spec"]["manager"] == "" and found["status"]["waiting"] == 2
    assert [(task["name"], task["application"]) for task in found["tasks"]] == [("9", "own"), ("10", "own")]


def named(*keys: str) -> list[Record]:
    pairs = (key.split("/") for key in keys)
    return [ManagedApplication(namespace=ns, name=name, manager="m", created_at=1.0) for ns, name in pairs]


def test_lists_are_in_order_and_in_pages() -> None:
    records = named("b/two", "a/one", "b/one", "c/one")
    with serving(CoreGateway(records)) as api:
        assert keys(api.data("/managedapplications")) == ["a/one", "b/one", "b/two", "c/one"]
        assert keys(api.data("/managedapplications?namespace=b")) == ["b/one", "b/two"]
        assert keys(api.data("/namespaces/b/managedapplications")) == ["b/one", "b/two"]
        page = api.get("/managedapplications?limit=3").json()
        assert keys(page["data"]) == ["a/one", "b/one", "b/two"]
        assert keys(api.data(f"/managedapplications?limit=3&continue={page['continue']}")) == ["c/one"]
        unknown = api.get("/managedapplications?state=New").json()
        assert unknown["data"] and [warning["path"] for warning in unknown["warnings"]] == ["?state"]
        missing = api.get("/namespaces/a/managedapplications/two")
        assert api.call("DELETE", "/namespaces/a/managedapplications/one").status_code == 405
        assert (missing.status_code, missing.json()["data"]["reason"]) == (404, "not_found")
        assert api.data("/managedapplications")[0]["status"]["state"] == "New"


def keys(found: list[Json]) -> list[str]:
    return [f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in found]
