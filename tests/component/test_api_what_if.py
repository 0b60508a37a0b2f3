"""What-if over the API: who answers, and what the answer has."""

from __future__ import annotations

from tests.component.apiserver import Api
from tests.unit.api_support import CoreGateway, document

APPLICATIONS = "/namespaces/shop/applications"


def test_the_answer_has_the_changes_the_plan_and_sentences(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    gateway.offer(1, cpus=2)
    raw = document(instance=1, resources={"limits": {"cpu": "4", "memory": "32"}})
    assert api.call("POST", APPLICATIONS, json=raw).status_code == 202
    found = api.data(f"{APPLICATIONS}/web/whatif")
    assert (found["open"], found["examined"], found["heldBack"], found["complete"]) == (1, 1, False, True)
    first = found["solutions"][0]
    assert first["changes"] == [{"kind": "reduceResource", "resource": "cpus", "from": 4.0, "to": 1.99}]
    assert (first["placed"], first["agents"]) == (1, [{"hostname": "host-1", "taskgroups": 1}])
    assert found["text"][0] == "reduce cpus per taskgroup from 4 to 1.99 cores: 1 taskgroup placed on host-1"
    assert [one["changes"][0]["kind"] for one in found["solutions"]] == ["reduceResource", "addAgents"]


def test_an_unknown_application_is_not_found(gateway: CoreGateway, api: Api) -> None:
    gateway.connect()
    assert api.get(f"{APPLICATIONS}/none/whatif").status_code == 404
