"""Commands that change something: what they send, what they print, what they wait for."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from bcs_scheduler.cli.documents import APPLY_ORDER
from tests.component.cli.standin import (
    ACCEPTED,
    APPS,
    DOCUMENT,
    MISSING,
    Answer,
    Request,
    StandIn,
    application,
    failed,
    ok,
    taskgroup,
    transaction,
    write,
)


@pytest.fixture
def bcs(bcs: Any) -> Any:
    """In words, as on a terminal; what programs get is tested at the end."""
    return lambda *arguments: bcs(*arguments, "-o", "text")


UNCHANGED = {"unchanged": True, "namespace": "defaultGroup", "name": "web"}


# --- apply and its relatives ---------------------------------------------------------------------------------------


def test_apply_creates_what_is_missing(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("GET", f"{APPS}/web", MISSING)
    server.on("POST", APPS, ok(ACCEPTED, 202))
    result = bcs("apply", "-f", write(tmp_path, DOCUMENT))
    assert result == (0, "application/web created (transaction application-1)\n", "")
    assert server.requests("POST")[0].body["metadata"] == {"name": "web", "namespace": "defaultGroup"}


def test_apply_updates_what_is_there_and_says_unchanged(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("GET", f"{APPS}/web", ok(application()))
    server.on("PUT", APPS, ok(ACCEPTED, 202), ok(UNCHANGED))
    document = write(tmp_path, DOCUMENT)
    assert bcs("apply", "-f", document).out == "application/web updated (transaction application-1)\n"
    assert bcs("apply", "-f", document).out == "application/web unchanged\n"
    assert server.requests("POST") == []


def test_apply_changes_definition_and_number_with_one_request(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("GET", f"{APPS}/web", ok(application(wanted=5, running=5)))
    server.on("PUT", APPS, ok({**ACCEPTED, "transactionID": "application-7"}, 202))
    result = bcs("apply", "-f", write(tmp_path, DOCUMENT))
    assert result.out == "application/web updated and scaled from 5 to 2 (transaction application-7)\n"
    (update,) = server.requests("PUT")
    assert update.body["spec"]["instance"] == 2


def test_apply_takes_folders_yaml_with_several_documents_and_standard_input(
    server: StandIn, bcs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abcd":
        server.on("GET", f"{APPS}/{name}", MISSING)
    server.on("POST", APPS, ok(ACCEPTED, 202))
    named = [{**DOCUMENT, "metadata": {"name": name, "annotations": {"made": "2024-01-01"}}} for name in "abcd"]
    write(tmp_path, named[0], named[1], name="1.yaml")
    write(tmp_path, named[2], name="2.json")
    (tmp_path / "notes.txt").write_text("not a document")
    monkeypatch.setattr("sys.stdin", io.StringIO("# a comment\n" + yaml.safe_dump(named[3])))
    assert bcs("apply", "-f", str(tmp_path), "-f", "-").code == 0
    sent = [request.body["metadata"] for request in server.requests("POST")]
    assert [metadata["name"] for metadata in sent] == ["a", "b", "c", "d"]
    assert {metadata["annotations"]["made"] for metadata in sent} == {"2024-01-01"}


def test_dry_run_prints_the_plan_and_waits_for_nothing(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    plan = {
        "dryRun": True,
        "place": [{"index": 0, "agent": "a", "hostname": "agent1", "ports": [31000], "replaces": ""}],
        "end": ["0.web.x.y.1700000000000000000"],
        "unplaced": 1,
        "message": "1 of 1 agent: not enough cpus",
        "steps": 4,
        "replaced": 8,
    }
    server.on("GET", f"{APPS}/web", MISSING)
    server.on("POST", APPS, ok(plan))
    result = bcs("apply", "--dry-run", "--wait", "-f", write(tmp_path, DOCUMENT))
    assert result.out.splitlines() == [
        "application/web created (dry run)",
        "  + taskgroup 0 on agent1 ports 31000",
        "  - taskgroup web-0",
        "    this is the first of at least 4 steps; the whole update replaces 8 taskgroups",
        "  ! 1 taskgroup cannot be placed: 1 of 1 agent: not enough cpus",
    ]
    assert server.requests("POST")[0].query == {"dryRun": "true"}


def test_problems_of_a_document_are_printed_one_per_line(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    problems = [
        {"path": "$.spec.instance", "message": "must be at least 1"},
        {"path": "$.spec.templat", "message": "is unknown; did you mean template?"},
    ]
    server.on("GET", f"{APPS}/web", MISSING)
    server.on("POST", APPS, failed(422, "the document is not acceptable", "invalid", problems))
    path = write(tmp_path, DOCUMENT)
    result = bcs("apply", "-f", path)
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines() == [
        f"error: {path}: application/web: the document is not acceptable",
        "  $.spec.instance: must be at least 1",
        "  $.spec.templat: is unknown; did you mean template?",
    ]


@pytest.mark.parametrize(
    ("message", "path", "problem"),
    [
        ("$.spec.command: is required", "$.spec.command", "is required"),
        ("query parameter image is required", "?image", "is required"),
        ("configmap default/big has 400000 bytes", "$", "configmap default/big has 400000 bytes"),
    ],
)
def test_what_the_message_says_is_not_said_twice(
    server: StandIn, bcs: Any, tmp_path: Path, message: str, path: str, problem: str
) -> None:
    server.on("GET", f"{APPS}/web", MISSING)
    server.on("POST", APPS, failed(422, message, "invalid", [{"path": path, "message": problem}]))
    file = write(tmp_path, DOCUMENT)
    assert bcs("apply", "-f", file).err.splitlines() == [f"error: {file}: application/web: {message}"]


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("{", "x.json", "not JSON: line 1, column 2"),
        ("a: [", "x.yaml", "not YAML: line 1"),
        ("[]", "x.json", "no documents found"),
        ("3", "x.json", "is not an object"),
        (
            '{"kind": "deployments"}',
            "x.json",
            f"kind: 'deployments' is not known; known: {', '.join(APPLY_ORDER)}",
        ),
        ('{"msgtype": "signal"}', "x.json", f"kind: is missing; known: {', '.join(APPLY_ORDER)}"),
        ('{"kind": "application"}', "x.json", "metadata.name: is missing"),
        ('{"kind": "application", "metdata": {}}', "x.json", "did you mean metadata instead of metdata?"),
        ("", "x.yaml", "no documents found"),
    ],
)
def test_wrong_files_are_refused_before_anything_is_sent(
    server: StandIn, bcs: Any, tmp_path: Path, text: str, name: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    result = bcs("apply", "-f", str(tmp_path / name))
    assert result.code == 2
    assert message in result.err
    assert server.seen == []


def test_a_namespace_of_the_command_line_must_agree_with_the_document(
    server: StandIn, bcs: Any, tmp_path: Path
) -> None:
    document = write(tmp_path, {**DOCUMENT, "metadata": {"name": "web", "namespace": "arena"}})
    result = bcs("apply", "-n", "lab", "-f", document)
    assert result.code == 2
    assert "metadata.namespace: is 'arena', but -n is 'lab'" in result.err
    server.on("GET", "/namespaces/arena/applications/web", MISSING)
    server.on("POST", "/namespaces/arena/applications", ok(ACCEPTED, 202))
    assert bcs("apply", "-f", document).code == 0


def test_update_passes_its_bounds_on(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("PUT", APPS, ok(ACCEPTED, 202))
    result = bcs("update", "-f", write(tmp_path, DOCUMENT), "--instances", "3", "--max-unavailable", "1")
    assert result.code == 0
    assert server.requests("PUT")[0].query == {"instances": "3", "maxUnavailable": "1"}


# --- other changes -------------------------------------------------------------------------------------------------


def test_scale_waits_for_transaction_and_application(server: StandIn, bcs: Any) -> None:
    server.on("PUT", f"{APPS}/web/scale/4", ok(ACCEPTED, 202))
    server.on("GET", "/transactions/defaultGroup/application-1", ok(transaction()), ok(transaction("FINISH")))
    states = [application(running=running, wanted=4) for running in (2, 3, 4)]
    server.on("GET", f"{APPS}/web", *map(ok, states))
    result = bcs("scale", "web", "4", "--wait")
    assert result.code == 0
    assert result.out.splitlines()[-1] == "application/web running"
    # The first look at the transaction looks for failures too.
    assert len([r for r in server.seen if r.path == f"{APPS}/web"]) == 4


def test_a_transaction_that_ends_badly_is_a_failure(server: StandIn, bcs: Any) -> None:
    server.on("PUT", f"{APPS}/web/scale/4", ok(ACCEPTED, 202))
    ended = transaction("TIMEOUT", message="not enough cpus")
    server.on("GET", "/transactions/defaultGroup/application-1", ok(ended))
    result = bcs("scale", "web", "4", "--wait")
    assert result.code == 1
    assert result.err == "error: transaction application-1 timed out: not enough cpus\n"


def test_delete_by_name_and_by_document(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("DELETE", f"{APPS}/web", ok(ACCEPTED, 202))
    server.on("GET", "/transactions/defaultGroup/application-1", ok(transaction("FINISH")))
    server.on("GET", f"{APPS}/web", ok(application()), MISSING)
    result = bcs("delete", "web", "--force", "--wait")
    assert result.out.splitlines()[-1] == "application/web deleted"
    assert server.requests("DELETE")[0].query == {"enforce": "true"}
    assert bcs("delete", "-f", write(tmp_path, DOCUMENT)).code == 0
    assert bcs("delete").code == 2
    assert bcs("delete", "web", "-f", "x.json").code == 2


def test_a_kind_before_names_is_never_taken_for_a_name(server: StandIn, bcs: Any) -> None:
    server.on("DELETE", f"{APPS}/web", ok(ACCEPTED, 202))
    for word in ("managed", "offers", "transactions"):
        refused = bcs("delete", word, "web")
        assert refused.code == 2 and "are not deleted by this command" in refused.err
        assert f"bcs delete app {word}" in refused.err
    assert server.requests("DELETE") == []
    assert bcs("delete", "applications", "web").code == 0
    assert len(server.requests("DELETE")) == 1


def test_rollback_to_a_version(server: StandIn, bcs: Any) -> None:
    server.on("PUT", f"{APPS}/web/rollback", ok(ACCEPTED, 202))
    assert bcs("rollback", "web", "--to", "17").code == 0
    assert server.requests("PUT")[0].query == {"version": "17"}


def test_rollback_and_deletion_can_be_planned(server: StandIn, bcs: Any) -> None:
    place = {"index": 0, "hostname": "agent1", "ports": [31000], "replaces": "0.web.x"}
    server.on("PUT", f"{APPS}/web/rollback", ok({"place": [place], "end": ["0.web.x"], "unplaced": 0}))
    server.on("DELETE", f"{APPS}/web", ok({"place": [], "end": ["0.web.x"], "unplaced": 0}))
    assert bcs("rollback", "web", "--dry-run", "--wait").out.splitlines() == [
        "application/web rolled back (dry run)",
        "  + taskgroup 0 on agent1 ports 31000, replaces 0.web.x",
        "  - taskgroup 0.web.x",
    ]
    assert bcs("delete", "web", "--dry-run", "--wait").out.splitlines() == [
        "application/web deletion started (dry run)",
        "  - taskgroup 0.web.x",
    ]
    asked = [request for request in server.seen if request.method != "GET"]
    assert [request.query for request in asked] == [{"dryRun": "true"}] * 2


def test_reschedule_finds_the_taskgroup_by_name(server: StandIn, bcs: Any) -> None:
    group = taskgroup(1)
    server.on("GET", f"{APPS}/web/taskgroups", ok([taskgroup(0), group]))
    server.on("PUT", f"{APPS}/web/taskgroups/{group['ID']}/rescheduler", ok(ACCEPTED, 202))
    result = bcs("reschedule", "web-1", "--host-retain", "1m30s")
    assert result.code == 0
    assert server.requests("PUT")[0].query == {"hostRetainTime": "90.0"}
    assert bcs("reschedule", "web-9").code == 3
    assert bcs("reschedule", "a.b").code == 2


def test_cancel_finds_the_transaction_in_any_namespace(server: StandIn, bcs: Any) -> None:
    server.on("GET", "/transactions/defaultGroup", ok([]))
    server.on("GET", "/transactions", ok([transaction(namespace="arena")]))
    server.on("DELETE", "/transactions/arena/application-1", ok(ACCEPTED))
    assert bcs("cancel", "application-1").out == "transaction/application-1 cancelled\n"
    assert bcs("cancel", "application-2").code == 3


def test_agents_are_switched_together(server: StandIn, bcs: Any) -> None:
    server.on("POST", "/agentsettings/disable", ok(None))
    result = bcs("cordon", "10.0.0.1", "10.0.0.2")
    assert result.out == "agent/10.0.0.1 cordoned\nagent/10.0.0.2 cordoned\n"
    assert server.requests("POST")[0].query == {"ips": "10.0.0.1,10.0.0.2"}


# --- waiting -------------------------------------------------------------------------------------------------------


def test_wait_gives_up_in_time_and_says_how_far_it_is(server: StandIn, bcs: Any) -> None:
    server.on("GET", f"{APPS}/web", ok(application(running=1, wanted=2, Message="some taskgroups are starting")))
    result = bcs("wait", "web", "--timeout", "200ms")
    assert result.code == 4
    assert "not done after 0.2s: Deploying: some taskgroups are starting" in result.err


def test_a_wait_for_an_operation_without_a_message_tells_its_progress(server: StandIn, bcs: Any) -> None:
    server.on("PUT", f"{APPS}/web/scale/4", ok(ACCEPTED, 202))
    server.on("GET", "/transactions/defaultGroup/application-1", ok(transaction()))
    result = bcs("scale", "web", "4", "--wait", "--timeout", "200ms")
    assert result.code == 4
    assert "not done after 0.2s: 1 of 2; `bcs explain app/web` shows the reasons" in result.err


def test_wait_outlives_a_change_of_leaders(server: StandIn, bcs: Any) -> None:
    away = failed(503, "no leader is known", "no_leader")
    server.on("GET", f"{APPS}/web", away, away, ok(application()))
    assert bcs("wait", "web", "--timeout", "60s") == (0, "application/web running\n", "")


def test_wait_for_deletion_and_for_a_transaction(server: StandIn, bcs: Any) -> None:
    server.on("GET", f"{APPS}/web", ok(application()), MISSING)
    assert bcs("wait", "web", "--for", "deleted").out == "application/web deleted\n"
    server.on("GET", "/transactions/defaultGroup/application-1", ok(transaction()), ok(transaction("FINISH")))
    assert bcs("wait", "web", "--for", "application-1").out == "application/web transaction application-1 finished\n"


def test_a_finished_application_is_settled(server: StandIn, bcs: Any) -> None:
    server.on("GET", f"{APPS}/web", ok(application(running=0, wanted=2, Status="Finish")))
    assert bcs("wait", "web", "--timeout", "0") == (0, "application/web finished\n", "")


def test_every_document_of_a_directory_is_applied_and_failures_name_file_and_object(
    server: StandIn, bcs: Any, tmp_path: Path
) -> None:
    good = write(tmp_path, {**DOCUMENT, "metadata": {"name": "shop"}}, name="b.json")
    bad = write(tmp_path, DOCUMENT, name="a.json")
    for name in ("web", "shop"):
        server.on("GET", f"{APPS}/{name}", MISSING)

    def created(request: Request) -> Answer | None:
        if (request.method, request.path) != ("POST", APPS):
            return None
        return (
            ok(ACCEPTED) if request.body["metadata"]["name"] == "shop" else failed(409, "is being deleted", "conflict")
        )

    server.rules.insert(0, created)
    result = bcs("apply", "-f", str(tmp_path), "-o", "text")
    assert result.code == 6 and "application/shop created" in result.out
    assert f"{bad}: application/web: is being deleted" in result.err
    assert "1 of 2 documents failed" in result.err and good not in result.err


def failing(**changes: Any) -> Any:
    task = {"ID": "t", "Name": "b", "Status": "Failed", "Message": "cannot start /no/such/program", "ExitCode": None}
    return taskgroup(Status="Failed", Taskgroup=[{**task, **changes}])


def test_a_wait_ends_with_the_reason_of_a_failure(server: StandIn, bcs: Any) -> None:
    server.on("PUT", f"{APPS}/web/scale/2", ok(ACCEPTED, 202))
    server.on("GET", "/transactions/defaultGroup/application-1", ok(transaction("INIT")))
    server.on("GET", f"{APPS}/web", ok(application(running=0, Status="Abnormal")))
    server.on("GET", f"{APPS}/web/taskgroups", ok([failing()]))
    result = bcs("scale", "application/web", "2", "--wait")
    assert result.code == 1 and "taskgroup web-0 failed: cannot start /no/such/program;" in result.err
    server.on("GET", f"{APPS}/web/taskgroups", ok([failing(Message="exited", ExitCode=3)]))
    assert "web-0 failed: exited (exit code 3)" in bcs("wait", "application/web").err


def test_failures_of_an_older_version_do_not_end_a_wait(server: StandIn, bcs: Any) -> None:
    old = failing()
    server.on("GET", f"{APPS}/web", ok(application(Version="2")))
    server.on("GET", f"{APPS}/web/taskgroups", ok([old]))
    assert bcs("wait", "application/web").code == 0


def test_a_crash_after_it_ran_once_ends_a_stable_wait(server: StandIn, bcs: Any) -> None:
    server.on("PUT", f"{APPS}/web/scale/2", ok(ACCEPTED, 202))
    server.on("GET", "/transactions/defaultGroup/application-1", ok(transaction("FINISH")))
    server.on("GET", f"{APPS}/web", ok(application()))
    replaced = [taskgroup(ReschededTimes=1)]
    server.on("GET", f"{APPS}/web/taskgroups", ok([taskgroup()]), ok([taskgroup()]), ok(replaced))
    event = {"name": "0.web.defaultGroup.dev.1", "message": "Running -> Failed exit code 3"}
    server.on("GET", "/namespaces/defaultGroup/events", ok([event]))
    result = bcs("scale", "application/web", "2", "--wait", "--stable", "30s")
    assert result.code == 1
    assert "taskgroup web-0 failed and was replaced: Running -> Failed exit code 3" in result.err
    # Without --stable the operation has succeeded as soon as all taskgroups run.
    assert bcs("scale", "application/web", "2", "--wait").code == 0


def test_several_documents_are_planned_together(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    other = {**DOCUMENT, "metadata": {"name": "api"}}
    settings = {"kind": "configmap", "metadata": {"name": "motd"}}
    place = {"index": 0, "agent": "a", "hostname": "agent1", "ports": [], "replaces": ""}
    same = {"namespace": "defaultGroup", "kind": "application"}
    told = [
        {**same, "kind": "configmap", "name": "motd", "outcome": "unchanged"},
        {**same, "name": "web", "outcome": "created", "place": [place], "unplaced": 1, "message": "not enough cpus"},
        {**same, "name": "api", "outcome": "refused", "reason": "quota_exceeded", "message": "the quota is used up"},
    ]
    server.on("POST", "/plans", ok({"documents": told, "evict": ["0.old.x.y.1700000000000000000"],
                                    "placed": 1, "unplaced": 1}))  # fmt: skip
    files = [write(tmp_path, one, name=f"{number}.json") for number, one in enumerate((DOCUMENT, other, settings))]
    result = bcs("apply", "--dry-run", *(part for file in files for part in ("-f", file)), "--on-conflict", "fail")
    assert result.out.splitlines() == [
        "configmap/motd unchanged (dry run)",
        "application/web created (dry run)",
        "  + taskgroup 0 on agent1",
        "  ! 1 taskgroup cannot be placed: not enough cpus",
        "- taskgroup old-0 of other work is evicted to make room",
        "1 taskgroup would be placed, 1 taskgroup would stay pending",
    ]
    assert result.code == 6 and "the quota is used up" in result.err and "1 of 3 documents failed" in result.err
    (request,) = server.requests("POST")
    assert request.query == {"onConflict": "fail"}
    assert [one["metadata"]["name"] for one in request.body] == ["motd", "web", "api"]


def test_a_command_is_checked_beside_the_plan_of_the_other_documents(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    other = {**DOCUMENT, "metadata": {"name": "api"}}
    target = {"kind": "Application", "name": "web", "namespace": "defaultGroup"}
    command = {"kind": "Command", "apiVersion": "v4", "spec": {"commandTargetRef": target, "command": ["date"]}}
    same = {"namespace": "defaultGroup", "kind": "application", "outcome": "unchanged"}
    told = [{**same, "name": "web"}, {**same, "name": "api"}]
    server.on("POST", "/plans", ok({"documents": told, "evict": [], "placed": 0, "unplaced": 0}))
    server.on("POST", "/command/application/defaultGroup/web", ok({"taskgroups": [], "messages": [], "dryRun": True}))
    files = [write(tmp_path, one, name=f"{number}.json") for number, one in enumerate((command, DOCUMENT, other))]
    result = bcs("apply", "--dry-run", *(part for file in files for part in ("-f", file)))
    assert result.code == 0, result.err
    assert [request.path for request in server.requests("POST")] == ["/plans", "/command/application/defaultGroup/web"]
    assert [one["metadata"]["name"] for one in server.requests("POST")[0].body] == ["web", "api"]
    assert "application/web unchanged (dry run)" in result.out.splitlines()
    assert any(line.startswith("command/") and line.endswith("(dry run)") for line in result.out.splitlines())


def test_an_older_server_plans_the_documents_one_by_one(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    other = {**DOCUMENT, "metadata": {"name": "api"}}
    server.on("GET", f"{APPS}/web", MISSING)
    server.on("GET", f"{APPS}/api", MISSING)
    server.on("POST", APPS, ok({"dryRun": True, "place": [], "end": [], "unplaced": 0}))
    files = [write(tmp_path, one, name=f"{number}.json") for number, one in enumerate((DOCUMENT, other))]
    result = bcs("apply", "--dry-run", "-f", files[0], "-f", files[1])
    assert result.out.splitlines() == ["application/web created (dry run)", "application/api created (dry run)"]
    assert [request.path for request in server.requests("POST")] == ["/plans", APPS, APPS]
