"""Deployments on the command line: what is sent, what is printed, and how following an update ends."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.cli.kinds.registry import columns_of
from tests.component.cli.standin import APPS, StandIn, application, failed, ok, taskgroup, write

ALL = "/namespaces/defaultGroup/deployments"
FRONT = f"{ALL}/front"
BODY = {"kind": "deployment", "metadata": {"name": "front"}, "spec": {"instance": 3, "template": {"spec": {}}}}
STARTED = {"namespace": "defaultGroup", "name": "front", "revision": 2, "transactionID": "application-7"}
MISSING = failed(404, "deployment defaultGroup/front does not exist", "not_found")


@pytest.fixture
def plain(bcs: Any) -> Any:
    """With no other arguments than are given."""
    return bcs


@pytest.fixture
def words(bcs: Any) -> Any:
    """In words, as on a terminal."""
    return lambda *arguments: bcs(*arguments, "-o", "text")


def deployment(status: str = "Running", done: int = 3, **changes: Any) -> dict[str, Any]:
    updating = status.startswith("Update")
    rolling = {
        "maxUnavilable": 1, "maxUnavailable": 1, "maxSurge": 1, "upgradeDuration": 0.0, "rollingOrder": "CreateFirst",
        "rollingManually": False, "minReadySeconds": 5.0, "stepTimeoutSeconds": 0.0, "onFailure": "rollback",
        "canary": {"instances": 1, "holdSeconds": 0.0, "manual": True},
    }  # fmt: skip
    return {
        "metadata": {"name": "front", "namespace": "defaultGroup", "labels": {"app": "front"}},
        "selector": {"app": "front"},
        "strategy": {"type": "RollingUpdate", "rollingupdate": rolling},
        "status": status,
        "application": {"name": "front", "curr_target_instances": 3, "CurrentRollingInstances": 3},
        "application_ext": {"name": "front-v1", "curr_target_instances": 1, "CurrentRollingInstances": 1}
        if updating
        else None,
        "message": "",
        "kind": "deployment",
        "name": "front",
        "namespace": "defaultGroup",
        "instances": 3,
        "revision": 2,
        "previousRevision": 1 if updating else 0,
        "nextRevision": 0,
        "rollingBack": False,
        "rollbackRequested": False,
        "pausing": False,
        "counts": {
            "old": 3 if updating else 0,
            "new": 1,
            "newReady": 1,
            "ready": 4,
            "available": 3,
            "present": 4 if updating else 3,
        },
        "progress": {"done": done, "total": 3, "step": 1},
        "conditions": [
            {"type": "Progressing", "status": "True", "reason": "Updating" if updating else "Complete", "message": "x"},
            {"type": "Available", "status": "True", "reason": "Enough", "message": "3 of 3"},
        ],
        "createTime": "2023-11-14T22:13:20.000000Z",
        "updateTime": "2023-11-14T22:13:20.000000Z",
        "progressTime": "2023-11-14T22:13:20.000000Z",
        "resourceVersion": f"{status}-{done}",
        **changes,
    }


UPDATING, SETTLED = ok(deployment("Update", 1)), ok(deployment())


# --- handing in ---------------------------------------------------------------------------------------------------


def test_apply_creates_or_updates_and_can_wait(server: StandIn, words: Any, tmp_path: Path) -> None:
    document = write(tmp_path, BODY)
    server.on("GET", FRONT, MISSING)
    server.on("POST", ALL, ok(STARTED, 202))
    assert words("apply", "-f", document).out == "deployment/front created (transaction application-7)\n"
    server.on("GET", FRONT, UPDATING, UPDATING, SETTLED)
    server.on("PUT", ALL, ok(STARTED, 202))
    assert words("apply", "-f", document, "--wait").out.splitlines() == [
        "deployment/front updated (transaction application-7)",
        "deployment/front running (revision 2)",
    ]
    known = [request.query for request in server.requests("GET") if "watch" in request.query]
    assert known[0]["resourceVersion"] == "Update-1", "a long poll with what is known"


def test_a_document_that_adopts_only_scales_afterwards(server: StandIn, words: Any, tmp_path: Path) -> None:
    body: dict[str, Any] = {**BODY, "spec": {"instance": 5, "selector": {"app": "front"}}}
    server.on("GET", FRONT, SETTLED)
    kept = {**copy.deepcopy(body), "metadata": {"name": "front", "namespace": "defaultGroup", "labels": {}}}
    server.on("GET", "/definition/deployment/defaultGroup/front", ok(kept))
    server.on("PUT", f"{FRONT}/scale/5", ok(STARTED, 202))
    assert words("apply", "-f", write(tmp_path, body)).out.startswith("deployment/front scaled to 5")
    body["spec"]["instance"] = 3
    assert words("apply", "-f", write(tmp_path, body)).out == "deployment/front unchanged\n"
    body["spec"]["strategy"] = {"rollingupdate": {"maxSurge": 4}}
    server.on("PUT", ALL, failed(422, "$.spec.template: is required", "invalid"))
    assert "template" in words("apply", "-f", write(tmp_path, body)).err


def test_update_takes_limits_alone_and_no_counts(server: StandIn, words: Any, tmp_path: Path) -> None:
    server.on("PUT", ALL, ok({"namespace": "defaultGroup", "name": "front", "unchanged": True}))
    document = write(tmp_path, BODY)
    assert words("update", "-f", document, "--resources-only").out == "deployment/front unchanged\n"
    assert server.requests("PUT")[0].query == {"args": "resource"}
    assert words("update", "-f", document, "--instances", "2").code == 2


def test_a_bare_name_is_the_deployment_and_a_kind_can_be_said(server: StandIn, words: Any) -> None:
    server.on("GET", FRONT, SETTLED)
    server.on("PUT", f"{FRONT}/scale/5", ok(STARTED, 202))
    assert words("scale", "front", "5").out == "deployment/front scaled to 5 (transaction application-7)\n"
    server.on("PUT", f"{APPS}/front/scale/5", failed(409, "it belongs to deployment front", "conflict"))
    assert words("scale", "application/front", "5").code == 6
    assert words("scale", "service/front", "5").code == 2
    server.on("GET", ALL + "/hello", ok(deployment(name="hello")))
    server.on("GET", f"{APPS}/hello", ok(application("hello")))
    assert "both a deployment and an application" in words("scale", "hello", "5").err


def test_delete_waits_until_it_is_gone(server: StandIn, words: Any) -> None:
    server.on("GET", FRONT, SETTLED, ok(deployment("Deleting")), MISSING)
    server.on("DELETE", FRONT, ok(STARTED, 202))
    assert words("delete", "front", "--wait").out.splitlines()[-1] == "deployment/front deleted"
    assert words("delete", "deployment", "front", "--force").code == 0
    assert server.requests("DELETE")[-1].query == {"enforce": "true"}


# --- following ----------------------------------------------------------------------------------------------------


def test_status_follows_to_the_end(server: StandIn, words: Any) -> None:
    server.on("GET", FRONT, UPDATING, UPDATING, ok(deployment("Running", 2)), SETTLED)
    assert words("rollout", "status", "front") == (0, "deployment/front rolled out (revision 2)\n", "")
    watched = [request.query["timeoutSeconds"] for request in server.requests("GET") if "watch" in request.query]
    assert set(watched) == {"30.000"}, "whoever follows does not ask all the time"


def test_status_without_waiting_says_how_far_it_is(server: StandIn, words: Any) -> None:
    server.on("GET", FRONT, UPDATING)
    result = words("rollout", "status", "deployment/front", "--no-wait")
    assert result.out == "deployment/front in progress (Update, revision 2: 1 of 3 ready, 3 old)\n"


@pytest.mark.parametrize(
    ("end", "code", "said"),
    [
        (deployment("UpdateSuspend", 1, message="a step did not end"), 1, "suspended: a step did not end"),
        (deployment("UpdatePaused", 1), 6, "bcs rollout resume front"),
        (deployment("Deleting", 1), 6, "being deleted"),
        (deployment(revision=1, message="went back to revision 1: exit code 3"), 1, "exit code 3"),
    ],
)
def test_what_is_no_success_has_an_exit_code(server: StandIn, words: Any, end: Any, code: int, said: str) -> None:
    server.on("GET", FRONT, UPDATING, UPDATING, ok(end))
    result = words("rollout", "status", "front")
    assert result.code == code and said in result.err and result.out == ""


@pytest.mark.parametrize("looks", [1, 2], ids=["at once", "a moment later"])
def test_a_failure_that_halts_the_update_is_told_as_the_halt(server: StandIn, words: Any, looks: int) -> None:
    """The taskgroup of the new version has failed before the deployment is read again."""
    strategy = copy.deepcopy(deployment()["strategy"])
    strategy["rollingupdate"]["onFailure"] = "suspend"
    updating = ok(deployment("Update", 1, strategy=strategy))
    halted = ok(deployment("UpdateSuspend", 1, message="taskgroup front-v1-0 failed: exit code 3", strategy=strategy))
    server.on("GET", FRONT, *[updating] * (looks + 1), halted)
    server.on("GET", f"{APPS}/front-v1", ok(application("front-v1", Status="Abnormal")))
    server.on("GET", f"{APPS}/front-v1/taskgroups", ok([taskgroup(Name="front-v1-0", Status="Failed", Message="gone")]))
    result = words("rollout", "status", "front")
    assert result.code == 1 and "suspended: taskgroup front-v1-0 failed: exit code 3" in result.err
    server.on("GET", FRONT, updating)
    assert "taskgroup front-v1-0 failed: gone" in words("rollout", "status", "front").err


def test_an_update_that_was_rolled_back_before_is_no_success_either(server: StandIn, words: Any) -> None:
    conditions = [{"type": "Progressing", "status": "False", "reason": "RolledBack", "message": "went back"}]
    server.on("GET", FRONT, ok(deployment(revision=1, conditions=conditions)))
    result = words("rollout", "status", "front")
    assert result.code == 1 and "rolled back: went back" in result.err
    assert words("wait", "front").code == 0, "it runs"


def test_status_ends_in_time(server: StandIn, words: Any) -> None:
    server.on("GET", FRONT, UPDATING)
    result = words("rollout", "status", "front", "--timeout", "3s")
    assert result.code == 4 and "1 of 3 ready" in result.err
    watched = [request.query for request in server.requests("GET") if "watch" in request.query]
    assert watched and all(float(query["timeoutSeconds"]) <= 3 for query in watched)


def test_going_back_on_the_way_to_what_is_wanted_is_no_failure(server: StandIn, words: Any) -> None:
    undone = deployment("Update", 1, rollingBack=True, nextRevision=3, message="revision 3 follows instead")
    server.on("GET", FRONT, ok(undone), ok(undone), ok(deployment("Update", 2, revision=3)), ok(deployment(revision=3)))
    assert words("rollout", "status", "front").out.splitlines() == ["deployment/front rolled out (revision 3)"]


def test_what_was_to_follow_and_does_not_is_a_failure(server: StandIn, words: Any) -> None:
    undone = deployment("Update", 1, rollingBack=True, nextRevision=3)
    refused = "revision 3 was to follow, and cannot: configmap conf is missing"
    server.on("GET", FRONT, ok(undone), ok(undone), ok(deployment(revision=1, message=refused)))
    result = words("rollout", "status", "front")
    assert result.code == 1 and "configmap conf is missing" in result.err


def test_the_status_of_an_undoing_that_was_asked_for_is_a_success(server: StandIn, words: Any) -> None:
    """`bcs rollback web && bcs rollout status web` succeeds, like with kubectl. An undoing after a failure does not."""
    back = ok(deployment("Update", 1, rollingBack=True, rollbackRequested=True))
    server.on("GET", FRONT, back, back, ok(deployment(revision=1, rollbackRequested=True)))
    assert words("rollout", "status", "front").out.splitlines() == ["deployment/front rolled out (revision 1)"]
    back = ok(deployment("Update", 1, rollingBack=True))
    server.on("GET", FRONT, back, back, ok(deployment(revision=1)))
    assert words("rollout", "status", "front").code == 1


def test_going_back_is_a_success_when_it_was_asked_for(server: StandIn, words: Any) -> None:
    back = ok(deployment("Update", 1, rollingBack=True))
    conditions = [{"type": "Progressing", "status": "False", "reason": "RolledBack", "message": "cancelled"}]
    server.on("GET", FRONT, UPDATING, back, back, ok(deployment(revision=1, conditions=conditions)))
    server.on("PUT", f"{FRONT}/cancelupdate", ok(STARTED, 202))
    assert words("rollout", "cancel", "front", "--wait").out.splitlines() == [
        "deployment/front rolling back (transaction application-7)",
        "deployment/front running (revision 1)",
    ]


# --- steering -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "path"),
    [("pause", "pauseupdate"), ("resume", "resumeupdate"), ("cancel", "cancelupdate"), ("restart", "restart")],
)
def test_actions_have_routes(server: StandIn, words: Any, action: str, path: str) -> None:
    server.on("GET", FRONT, UPDATING)
    server.on("PUT", f"{FRONT}/{path}", ok(STARTED, 202))
    assert words("rollout", action, "front").code == 0
    assert server.requests("PUT")[0].query == {}
    assert words("rollout", action, "front", "--dry-run").code == 0
    assert server.requests("PUT")[1].query == {"dryRun": "true"}


def test_undo_goes_to_the_one_before_or_a_named_one(server: StandIn, words: Any) -> None:
    server.on("GET", FRONT, SETTLED)
    server.on("PUT", f"{FRONT}/rollback", ok(STARTED, 202))
    assert words("rollout", "undo", "front").code == 0
    assert words("rollout", "undo", "front", "--to-revision", "4").code == 0
    assert words("rollback", "front", "--to", "3").code == 0
    assert [request.query.get("revision") for request in server.requests("PUT")] == [None, "4", "3"]
    assert words("rollout", "undo", "front", "--to-revision", "x").code == 2


def test_an_application_has_no_rollouts(server: StandIn, words: Any) -> None:
    server.on("GET", "/namespaces/defaultGroup/applications/web", ok({"name": "web", "Kind": "application"}))
    result = words("rollout", "status", "web")
    assert result.code == 2 and "application web has no rollouts" in result.err
    result = words("rollout", "status", "nobody")
    assert result.code == 3 and "there is no deployment or daemonset defaultGroup/nobody" in result.err


def test_history_lists_revisions_and_shows_one(server: StandIn, plain: Any) -> None:
    one = {"revision": 1, "current": False, "instances": 3, "why": "created", "createTime": "2023-11-14T22:13:20Z"}
    server.on("GET", FRONT, SETTLED)
    server.on("GET", f"{FRONT}/revisions", ok([one, {**one, "revision": 2, "current": True, "why": "updated"}]))
    definition = {"Container": [{"Name": "c", "Docker": {"Image": "web:2", "Command": "run", "Arguments": ["-x"]}}]}
    server.on("GET", f"{FRONT}/revisions/2", ok({**one, "revision": 2, "definition": definition}))
    listed = shown(plain, "rollout", "history", "front")
    assert "2*" in listed and "created" in listed
    one_shown = shown(plain, "rollout", "history", "front", "--revision", "2")
    assert "web:2" in one_shown and "run -x" in one_shown


def shown(plain: Any, *arguments: str) -> str:
    """Output of a command that prints tables."""
    result = plain(*arguments, "-o", "table")
    assert result.code == 0, result.err
    return str(result.out)


# --- reading ------------------------------------------------------------------------------------------------------


def test_lists_and_descriptions(server: StandIn, plain: Any) -> None:
    server.on("GET", ALL, ok([deployment("Update", 1)]))
    server.on("GET", FRONT, UPDATING)
    server.on("GET", f"{FRONT}/taskgroups", ok([]))
    server.on("GET", f"{FRONT}/revisions", ok([]))
    server.on("GET", "/transactions/defaultGroup", ok([]))
    listed = shown(plain, "get", "dep")
    assert "REVISION" in listed and "1/3" in listed and "4/3" in listed
    described = shown(plain, "describe", "dep", "front")
    assert "2 (from 1)" in described and "Progressing" in described
    assert "canary of 1, until resumed" in described and "on failure rollback" in described
    asked = next(request for request in server.seen if request.path == "/transactions/defaultGroup")
    assert (asked.query["objKind"], asked.query["objName"]) == ("deployment", "front")


def test_explain_tells_of_both_applications(server: StandIn, plain: Any) -> None:
    server.on("GET", FRONT, UPDATING)
    for name in ("front", "front-v1"):
        server.on("GET", f"{APPS}/{name}/explain", ok({"text": [f"{name} waits"]}))
    lines = shown(plain, "explain", "front").splitlines()
    assert lines[0].startswith("deployment front: Update") and "application front-v1: front-v1 waits" in lines


def test_exec_goes_to_the_deployment(server: StandIn, plain: Any) -> None:
    server.on("GET", FRONT, UPDATING)
    server.on("GET", f"{FRONT}/taskgroups", ok([]))
    server.on("POST", "/command/deployment/defaultGroup/front", failed(409, "has no taskgroups", "conflict"))
    assert plain("exec", "front", "--", "true").code == 6
    sent = server.requests("POST")[0].body
    assert sent["spec"]["commandTargetRef"]["kind"] == "Deployment"


def test_the_list_says_why_a_deployment_is_not_available() -> None:
    cells = {column.title: column.cell for column in columns_of("deployments")}
    short = {"type": "Available", "status": "False", "message": "0 taskgroups are available, 3 are needed"}
    body = {"status": "RollingUpdate", "progress": {"done": 0, "total": 3}, "counts": {"ready": 0}, "instances": 3}
    assert cells["REASON"]({**body, "message": "", "conditions": [short]}) == short["message"]
    assert cells["REASON"]({**body, "message": "paused on request", "conditions": [short]}) == "paused on request"
    assert cells["REASON"]({**body, "message": "", "conditions": [{**short, "status": "True"}]}) == ""
    right = {**body, "status": "Running", "progress": {"done": 3, "total": 3}, "counts": {"ready": 3}}
    assert cells["REASON"]({**right, "message": "updated", "conditions": []}) == ""
