"""Routes of deployments over a bare core: every operation, its answers, and what is refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from bcs_scheduler.api.http.operation import ApiSettings
from bcs_scheduler.api.streams import streaming
from bcs_scheduler.core.interface.effects import Reply
from bcs_scheduler.core.interface.requests import Request, ScaleDeployment
from tests.component.apiserver import WATCH, Api, Switchboard, paths, serving
from tests.unit.api_support import CoreGateway, document
from tests.unit.deployment_support import deployment
from tests.waiting import wait_for

ALL = "/namespaces/shop/deployments"
FRONT = f"{ALL}/front"


@pytest.fixture
def gateway() -> CoreGateway:
    made = CoreGateway()
    made.connect()
    made.offer()
    return made


@pytest.fixture(scope="module")
def switched() -> Iterator[tuple[Switchboard, Api]]:
    switchboard = Switchboard()
    with serving(switchboard, ApiSettings(max_body=20_000)) as api:
        yield switchboard, api


@pytest.fixture
def running(gateway: CoreGateway, api: Api) -> Api:
    """`front` of two taskgroups, Running."""
    assert api.call("POST", ALL, json=deployment()).status_code == 202
    settle(gateway)
    assert api.data(FRONT)["status"] == "Running"
    return api


@pytest.fixture
def updating(running: Api) -> Api:
    """An update of `front` of which the first new taskgroup has been placed and does not run yet."""
    response = running.call("PUT", ALL, json=newer())
    assert response.status_code == 202, response.text
    return running


def newer(**rolling: Any) -> dict[str, Any]:
    raw = deployment(**rolling)
    raw["spec"]["template"]["spec"]["containers"][0]["command"] = "newer-server"
    return raw


def settle(gateway: CoreGateway, rounds: int = 12) -> None:
    """Agents that do what they are told at once: what is to end has ended, everything else runs."""
    for number in range(rounds):
        gateway.offer(2 + number)
        gateway.obey()


def reason(response: Any) -> tuple[int, str]:
    return response.status_code, response.json()["data"]["reason"]


def condition(view: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(found for found in view["conditions"] if found["type"] == kind)


# --- life of a deployment -------------------------------------------------------------------------------------


def test_creating_answers_a_handle_and_runs(gateway: CoreGateway, api: Api) -> None:
    response = api.call("POST", ALL, json=deployment())
    answer = response.json()["data"]
    assert response.status_code == 202 and answer["name"] == "front" and answer["revision"] == 1
    assert api.data(f"/transactions/shop/{answer['transactionID']}")["objectName"] == "front"
    view = api.data(FRONT)
    assert (view["instances"], view["counts"]["ready"], view["progress"]["done"]) == (2, 0, 0)
    assert condition(view, "Progressing")["reason"] == "Starting" and condition(view, "Available")["status"] == "False"
    settle(gateway)
    view = api.data(FRONT)
    assert (view["status"], view["progress"]) == ("Running", {"done": 2, "total": 2, "step": 0})
    assert view["application"] == {"name": "front", "curr_target_instances": 2, "CurrentRollingInstances": 2}
    assert view["application_ext"] is None and view["is_in_rolling"] is False
    assert condition(view, "Available")["status"] == "True"
    assert view["strategy"]["rollingupdate"]["maxUnavilable"] == view["strategy"]["rollingupdate"]["maxUnavailable"]


def test_an_existing_name_is_a_conflict_of_its_own_code(running: Api) -> None:
    response = running.call("POST", ALL, json=deployment())
    assert reason(response) == (409, "exists") and response.json()["code"] == 1405201


def test_lists_are_of_a_namespace_or_all_with_selectors_and_pages(running: Api) -> None:
    for namespace, name in (("shop", "side"), ("bank", "front")):
        made = running.call("POST", f"/namespaces/{namespace}/deployments", json=deployment(name, namespace))
        assert made.status_code == 202

    def names(path: str, **query: Any) -> list[tuple[str, str]]:
        return [(found["namespace"], found["name"]) for found in running.data(path, params=query)]

    assert names(ALL) == [("shop", "front"), ("shop", "side")]
    assert names("/deployments") == [("bank", "front"), ("shop", "front"), ("shop", "side")]
    assert names("/deployments", labelSelector="app=side") == [("shop", "side")]
    assert names(ALL, status="Running")[0] == ("shop", "front") and names(ALL, status="Deleting") == []
    first = running.get("/deployments", params={"limit": 2}).json()
    assert len(first["data"]) == 2
    assert names("/deployments", **{"continue": first["continue"]}) == [("shop", "side")]


def test_an_update_shows_both_applications_until_it_ends(gateway: CoreGateway, updating: Api) -> None:
    view = updating.data(FRONT)
    assert (view["status"], view["revision"], view["previousRevision"]) == ("Update", 2, 1)
    assert view["application"]["name"] == "front" and view["application_ext"]["name"].startswith("front-v")
    assert view["counts"] == {"old": 2, "new": 1, "newReady": 0, "ready": 2, "available": 2, "present": 3}
    assert condition(view, "Progressing")["reason"] == "Updating"
    assert '"server"' in view["raw_json_backup"] and "newer-server" in view["raw_json"]
    groups = updating.data(f"{FRONT}/taskgroups")
    assert {group["AppID"] for group in groups} == {"front", view["application_ext"]["name"]} and len(groups) == 3
    assert updating.data(f"{FRONT}/taskgroups", params={"labelSelector": "app=front"}) == groups
    assert updating.data(f"{FRONT}/taskgroups", params={"labelSelector": "app=side"}) == []
    settle(gateway)
    view = updating.data(FRONT)
    assert (view["status"], view["counts"]["old"], view["progress"]["done"]) == ("Running", 0, 2)
    assert view["application"]["name"].startswith("front-v") and view["raw_json_backup"] == ""
    assert condition(view, "Progressing")["reason"] == "Complete"


def test_an_update_while_updating_is_refused_on_request(updating: Api) -> None:
    for response in (
        updating.call("PUT", FRONT, json=deployment(), params={"onConflict": "fail"}),
        updating.call("PUT", f"{FRONT}/scale/5", params={"onConflict": "fail"}),
        updating.call("PUT", f"{FRONT}/restart"),
        updating.call("PUT", FRONT, params={"args": "resource"}, json=deployment()),
    ):
        assert reason(response) == (409, "conflict"), response.text


def test_a_scale_while_updating_is_taken(gateway: CoreGateway, updating: Api) -> None:
    assert updating.call("PUT", f"{FRONT}/scale/4").status_code == 202
    view = updating.data(FRONT)
    assert (view["status"], view["instances"]) == ("Update", 4)
    settle(gateway)
    view = updating.data(FRONT)
    assert (view["status"], view["revision"], view["instances"], view["counts"]["ready"]) == ("Running", 2, 4, 4)


def test_a_scale_waits_for_the_end_of_an_update(gateway: CoreGateway, updating: Api) -> None:
    response = updating.call("PUT", f"{FRONT}/scale/4", params={"onConflict": "queue"})
    data = response.json()["data"]
    assert (response.status_code, data["queuePosition"], data["name"]) == (202, 1, "front")
    view = updating.data(FRONT)
    assert view["instances"] == 2 and view["queued"][0]["transactionID"] == data["transactionID"]
    settle(gateway)
    view = updating.data(FRONT)
    assert (view["revision"], view["instances"], view["counts"]["ready"], view.get("queued")) == (2, 4, 4, None)


def test_the_same_document_changes_nothing(running: Api) -> None:
    response = running.call("PUT", ALL, json=deployment())
    assert response.status_code == 200 and response.json()["data"]["unchanged"] is True
    response = running.call("PUT", f"{FRONT}/scale/2")
    assert response.status_code == 200 and response.json()["data"]["unchanged"] is True


def test_strategy_and_number_change_without_a_new_revision(gateway: CoreGateway, running: Api) -> None:
    raw = deployment(instance=4, maxSurge=3)
    assert running.call("PUT", FRONT, json=raw).status_code == 202
    settle(gateway)
    view = running.data(FRONT)
    assert (view["revision"], view["instances"], view["counts"]["ready"]) == (1, 4, 4)
    assert view["strategy"]["rollingupdate"]["maxSurge"] == 3


@pytest.mark.parametrize("query", [{}, {"dryRun": "true"}])
def test_an_update_without_a_number_does_not_undo_a_scale_that_overtakes_it(
    gateway: CoreGateway, running: Api, monkeypatch: pytest.MonkeyPatch, query: dict[str, str]
) -> None:
    hand_over = gateway.submit

    def overtaken(command: Request) -> Future[Reply]:
        gateway.feed(ScaleDeployment(namespace="shop", name="front", instances=4))
        return hand_over(command)

    monkeypatch.setattr(gateway, "submit", overtaken)
    raw = newer(maxSurge=1)
    del raw["spec"]["instance"]
    answer = running.call("PUT", FRONT, json=raw, params=query)
    assert answer.json()["data"]["mostPresent"] == 5, answer.text
    settle(gateway)
    view = running.data(FRONT)
    assert (view["status"], view["instances"], view["counts"]["ready"]) == ("Running", 4, 4)
    assert view["revision"] == (1 if query else 2)


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_an_update_is_paused_resumed_and_cancelled(gateway: CoreGateway, updating: Api, method: str) -> None:
    assert updating.call(method, f"{FRONT}/pauseupdate").status_code == 202
    assert updating.data(FRONT)["pausing"] is True
    settle(gateway)
    view = updating.data(FRONT)
    assert view["status"] == "UpdatePaused" and condition(view, "Progressing")["reason"] == "Paused"
    assert reason(updating.call(method, f"{FRONT}/pauseupdate")) == (409, "conflict")
    assert updating.call(method, f"{FRONT}/resumeupdate").status_code == 202
    assert updating.data(FRONT)["status"] == "Update"
    assert updating.call(method, f"{FRONT}/cancelupdate").status_code == 202
    assert updating.data(FRONT)["rollingBack"] is True
    settle(gateway)
    view = updating.data(FRONT)
    assert (view["status"], view["revision"], view["application"]["name"]) == ("Running", 1, "front")
    assert condition(view, "Progressing")["reason"] == "Complete" and view["rollbackRequested"] is True
    assert reason(updating.call(method, f"{FRONT}/resumeupdate")) == (409, "conflict")


def test_a_newer_document_during_an_update_that_is_undone_rolls_forward(gateway: CoreGateway, updating: Api) -> None:
    assert updating.call("PUT", f"{FRONT}/cancelupdate").status_code == 202
    newest = newer()
    newest["spec"]["template"]["spec"]["containers"][0]["command"] = "newest-server"
    answer = updating.call("PUT", FRONT, json=newest)
    assert (answer.status_code, answer.json()["data"]["revision"]) == (202, 3)
    before = updating.data(FRONT)
    assert (before["rollingBack"], before["revision"], before["previousRevision"]) == (False, 3, 1)
    (superseded,) = before["retiring"]
    names = {superseded["name"], before["application"]["name"], before["application_ext"]["name"]}
    groups = updating.data(f"{FRONT}/taskgroups")
    assert len(names) == 3 and {group["AppID"] for group in groups} <= names
    assert before["counts"]["present"] == len(groups)
    settle(gateway)
    view = updating.data(FRONT)
    assert (view["status"], view["revision"], view.get("retiring")) == ("Running", 3, None)
    assert [application["Name"] for application in updating.data("/namespaces/shop/applications")] == [
        view["application"]["name"]
    ]
    assert "newest-server" in view["raw_json"]


def test_rolling_back_goes_to_a_kept_revision(gateway: CoreGateway, updating: Api) -> None:
    settle(gateway)
    assert [r["revision"] for r in updating.data(f"{FRONT}/revisions")] == [1, 2]
    assert [r["current"] for r in updating.data(f"{FRONT}/revisions")] == [False, True]
    kept = updating.data(f"{FRONT}/revisions/1")
    assert kept["definition"]["Container"][0]["Docker"]["Command"] == "server"
    assert kept["document"]["metadata"]["name"] == "front" and kept["why"] == "created"
    assert updating.call("PUT", f"{FRONT}/rollback").status_code == 202
    settle(gateway)
    view = updating.data(FRONT)
    assert view["revision"] == 3 and '"server"' in view["raw_json"]
    assert updating.call("POST", f"{FRONT}/rollback", params={"revision": 2}).status_code == 202
    settle(gateway)
    assert "newer-server" in updating.data(FRONT)["raw_json"]
    assert reason(updating.call("PUT", f"{FRONT}/rollback", params={"revision": 77})) == (404, "not_found")


def test_a_restart_replaces_everything_with_the_same_definition(gateway: CoreGateway, running: Api) -> None:
    before = {group["ID"] for group in running.data(f"{FRONT}/taskgroups")}
    assert running.call("POST", f"{FRONT}/restart").status_code == 202
    settle(gateway)
    after = {group["ID"] for group in running.data(f"{FRONT}/taskgroups")}
    assert len(after) == 2 and before.isdisjoint(after)


def test_a_scaled_deployment_is_deleted_with_its_application(gateway: CoreGateway, running: Api) -> None:
    assert running.call("PUT", f"{FRONT}/scale/3").json()["data"]["transactionID"]
    settle(gateway)
    assert running.data(FRONT)["counts"]["ready"] == 3
    assert running.call("DELETE", FRONT).status_code == 202
    assert running.data(FRONT)["status"] == "Deleting"
    settle(gateway)
    assert running.get(FRONT).status_code == 404
    assert running.get("/namespaces/shop/applications/front").status_code == 404


def test_an_application_is_adopted_by_its_labels(gateway: CoreGateway, api: Api) -> None:
    assert api.call("POST", "/namespaces/shop/applications", json=document("front")).status_code == 202
    settle(gateway)
    raw = deployment()
    del raw["spec"]["template"], raw["spec"]["instance"]
    response = api.call("POST", ALL, json=raw)
    assert response.status_code == 202, response.text
    view = api.data(FRONT)
    assert (view["status"], view["instances"], view["counts"]["ready"]) == ("Running", 2, 2)
    raw["metadata"]["name"] = "other"
    raw["spec"]["selector"] = {"app": "nobody"}
    assert paths(api.call("POST", ALL, json=raw)) == {"$.spec.template"}


def test_what_belongs_to_a_deployment_is_not_changed_past_it(running: Api) -> None:
    owned = "/namespaces/shop/applications/front"
    for response in (
        running.call("PUT", f"{owned}/scale/5"),
        running.call("PUT", owned, json=document("front", instance=2, command="else")),
        running.call("DELETE", owned),
    ):
        assert reason(response) == (409, "conflict")
        assert "deployment" in response.json()["message"]
    definition = running.get("/definition/application/shop/front")
    assert definition.status_code == 404 and "deployment shop/front" in definition.json()["message"]


def test_every_change_can_be_planned(running: Api) -> None:
    before = running.data(FRONT)["resourceVersion"]
    for method, path, body in (
        ("PUT", ALL, newer()),
        ("PUT", f"{FRONT}/scale/5", None),
        ("PUT", f"{FRONT}/restart", None),
        ("DELETE", FRONT, None),
        ("POST", ALL, deployment("other")),
    ):
        response = running.call(method, path, params={"dryRun": "true"}, json=body)
        assert response.status_code == 200, response.text
    assert running.data(FRONT)["resourceVersion"] == before
    assert [found["name"] for found in running.data(ALL)] == ["front"]


# --- what is beside it ----------------------------------------------------------------------------------------


def test_passwords_of_the_document_are_not_shown(api: Api) -> None:
    raw = deployment()
    raw["spec"]["template"]["spec"]["containers"][0] |= {"image": "x", "imagePullUser": "u", "imagePullPasswd": "hush"}
    assert api.call("POST", ALL, json=raw).status_code == 202
    for path in (FRONT, f"{FRONT}/revisions/1", "/definition/deployment/shop/front", ALL):
        text = api.get(path).text
        assert "hush" not in text and "***" in text, path


def test_the_definition_is_the_users_document(running: Api) -> None:
    found = running.data("/definition/deployment/shop/front")
    assert found["kind"] == "deployment" and found["spec"]["selector"] == {"app": "front"}
    assert running.get("/definition/deployment/shop/nobody").status_code == 404


def test_transactions_are_found_by_deployment(gateway: CoreGateway, updating: Api) -> None:
    assert updating.call("POST", "/namespaces/shop/applications", json=document("front-desk")).status_code == 202
    settle(gateway)

    def objects(**query: Any) -> set[str]:
        return {found["objectName"].partition("-v")[0] for found in updating.data("/transactions/shop", params=query)}

    assert objects(objKind="deployment", objName="front") == {"front"}
    assert objects(objKind="deployment") == {"front"}
    assert objects() == {"front", "front-desk"}
    query = {"objKind": "deployment", "objName": "front"}
    names = {found["objectName"] for found in updating.data("/transactions/shop", params=query)}
    assert len(names) == 2, "of both applications, the one that is gone as well"


def test_commands_go_to_both_applications(gateway: CoreGateway, updating: Api) -> None:
    body: dict[str, Any] = {
        "kind": "Command",
        "spec": {"commandTargetRef": {"kind": "Deployment"}, "command": ["true"]},
    }
    response = updating.call("POST", "/command/deployment/shop/front", json=body)
    assert response.status_code == 202, response.text
    told = response.json()["data"]
    assert told["commandID"].startswith("Deployment-shop-front-") and len(told["messages"]) == 3
    where: dict[str, Any] = {"params": {"id": told["commandID"]}}
    found = updating.data("/command/deployment/shop/front", **where)
    assert found["spec"]["commandTargetRef"]["kind"] == "Deployment"
    assert [command["id"] for command in updating.data(f"{FRONT}/commands")] == [told["commandID"]]
    assert updating.get("/command/application/shop/front", **where).status_code == 404
    assert updating.data("/namespaces/shop/applications/front/commands") == []
    one = updating.data(f"{FRONT}/taskgroups")[0]["ID"]
    body["spec"]["taskgroups"] = [one, "0.other.shop.demo.1"]
    assert reason(updating.call("POST", "/command/deployment/shop/front", json=body))[0] == 404
    body["spec"] |= {"taskgroups": [], "commandTargetRef": {"kind": "Application"}}
    wrong = updating.call("POST", "/command/deployment/shop/front", json=body)
    assert paths(wrong) == {"$.spec.commandTargetRef.kind"}
    assert updating.call("DELETE", "/command/deployment/shop/front", **where).status_code == 200
    assert updating.get("/command/deployment/shop/front", **where).status_code == 404
    body["spec"]["commandTargetRef"] = {}
    assert reason(updating.call("POST", "/command/deployment/shop/nobody", json=body)) == (404, "not_found")


# --- watching -------------------------------------------------------------------------------------------------


def test_a_watch_answers_with_the_next_change(gateway: CoreGateway, updating: Api) -> None:
    known = updating.data(FRONT)["resourceVersion"]
    query = {"watch": "true", "resourceVersion": known, "timeoutSeconds": "20"}
    seen: list[dict[str, Any]] = []
    watcher = threading.Thread(target=lambda: seen.append(updating.data(FRONT, params=query)))
    watcher.start()
    groups = [group for group in gateway.core.state.taskgroups.values() if group.application != "front"]
    gateway.report_taskgroup("RUNNING", groups[0].id)
    wait_for(lambda: seen, 30, "the answer of the watch")
    watcher.join()
    assert seen[0]["resourceVersion"] != known


def test_a_watch_is_told_of_a_changed_record_and_does_not_have_to_look(
    gateway: CoreGateway, updating: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "LOOK_SECONDS", 60.0)
    known = updating.data(FRONT)["resourceVersion"]
    query = {"watch": "true", "resourceVersion": known, "timeoutSeconds": str(WATCH)}
    seen: list[dict[str, Any]] = []
    watcher = threading.Thread(target=lambda: seen.append(updating.data(FRONT, params=query)))
    watcher.start()
    wait_for(lambda: gateway.hub().watchers == 1, 30, "the watch")
    assert updating.call("PUT", f"{FRONT}/pauseupdate").status_code == 202
    wait_for(lambda: seen, 30, "the answer of the watch")
    watcher.join()
    assert seen[0]["pausing"]
    wait_for(lambda: gateway.hub().watchers == 0, 30, "the end of the watch")


def test_a_watch_without_news_ends_in_time(running: Api) -> None:
    known = running.data(FRONT)["resourceVersion"]
    began = time.monotonic()
    query = {"watch": "true", "resourceVersion": known, "timeoutSeconds": "0.3"}
    assert running.data(FRONT, params=query)["resourceVersion"] == known
    assert time.monotonic() - began > 0.25


def test_a_watch_without_a_known_version_is_answered_at_once(running: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[object] = []
    monkeypatch.setattr(streaming, "_wait", lambda *given: waited.append(given))
    known = running.data(FRONT)["resourceVersion"]
    assert running.data(FRONT, params={"watch": "true", "timeoutSeconds": "20"})["resourceVersion"] == known
    assert waited == []


# --- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", ["null", "[]", "{}", '{"kind": "deployment"}', '{"kind": "deployment", "spec": null}'])
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_rubbish_is_a_bad_request(running: Api, method: str, body: str) -> None:
    response = running.call(method, ALL, data=body, headers={"Content-Type": "application/json"})
    assert reason(response) == (422, "invalid")


def test_path_and_body_must_agree(running: Api) -> None:
    assert paths(running.call("PUT", f"{ALL}/else", json=deployment())) == {"$.metadata.name"}
    assert paths(running.call("POST", "/namespaces/bank/deployments", json=deployment())) == {"$.metadata.namespace"}
    assert paths(running.call("POST", ALL, json=document())) == {"$.kind"}
    assert paths(running.call("POST", "/namespaces/shop/applications", json=deployment("x"))) == {"$.kind"}


def test_what_does_not_exist_is_not_found(api: Api) -> None:
    for method, path, body in (
        ("GET", FRONT, None),
        ("GET", f"{FRONT}/revisions", None),
        ("GET", f"{FRONT}/taskgroups", None),
        ("PUT", FRONT, deployment()),
        ("PUT", f"{FRONT}/scale/2", None),
        ("PUT", f"{FRONT}/pauseupdate", None),
        ("POST", f"{FRONT}/rollback", None),
        ("DELETE", FRONT, None),
    ):
        assert reason(api.call(method, path, json=body)) == (404, "not_found"), (method, path)


@pytest.mark.parametrize("number", ["0", "abc", "1x", "99999999999", "-1", "1.0"])
def test_revisions_are_whole_numbers(running: Api, number: str) -> None:
    assert running.get(f"{FRONT}/revisions/{number}").status_code == 404


def test_selector_and_limits_follow_their_rules(running: Api) -> None:
    raw = deployment()
    raw["spec"]["selector"] = {"app": "else"}
    assert paths(running.call("PUT", ALL, json=raw)) == {"$.spec.selector"}
    limits = deployment()
    limits["spec"]["template"]["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "0.1", "memory": "32"},
        "limits": {"cpu": "0.2", "memory": "64"},
    }
    response = running.call("PUT", ALL, params={"args": "resource"}, json=limits)
    assert response.status_code == 202 and response.json()["data"]["commandID"], response.text
    assert running.data(FRONT)["status"] == "UpdateResource"
    told = running.data(f"{FRONT}/commands")
    assert [command["type"] for command in told] == ["resources"], "told to its application"
