"""`bcs` against a stand-in for the server: what it sends, what it prints, how it exits."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from bcs_scheduler.cli.main import run
from bcs_scheduler.cli.output import age, duration
from tests.unit.standin import StandIn, application, failed, ok, taskgroup, transaction
from tests.waiting import wait_for

APPS = "/namespaces/defaultGroup/applications"
DOCUMENT: dict[str, Any] = {"kind": "application", "metadata": {"name": "web"}, "spec": {"instance": 2}}
ACCEPTED = {"transactionID": "application-1", "namespace": "defaultGroup", "name": "web", "opType": "LAUNCH"}
UNCHANGED = {"unchanged": True, "namespace": "defaultGroup", "name": "web"}
MISSING = failed(404, "application defaultGroup/web does not exist", "not_found")


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def server() -> Iterator[StandIn]:
    standin = StandIn()
    yield standin
    standin.close()


@pytest.fixture
def bcs(server: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("BCS_SERVER", server.url)
    monkeypatch.delenv("BCS_NAMESPACE", raising=False)
    monkeypatch.setenv("COLUMNS", "300")

    def call(*arguments: str) -> Result:
        code = run(arguments)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Result(code, captured.out, captured.err)

    return call


def write(tmp_path: Path, *documents: Any, name: str = "web.json") -> str:
    path = tmp_path / name
    text = json.dumps(documents[0]) if name.endswith(".json") else yaml.safe_dump_all(documents)
    path.write_text(text)
    return str(path)


# --- apply and its relatives ----------------------------------------------------------------------------------


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


def test_apply_changes_definition_and_number_one_after_the_other(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("GET", f"{APPS}/web", ok(application(wanted=5, running=5)))
    server.on("PUT", APPS, ok({**ACCEPTED, "transactionID": "application-7"}, 202))
    server.on("GET", "/transactions/defaultGroup/application-7", ok(transaction()), ok(transaction("FINISH")))
    server.on("PUT", f"{APPS}/web/scale/2", ok(ACCEPTED, 202))
    result = bcs("apply", "-f", write(tmp_path, DOCUMENT))
    assert result.out.splitlines() == [
        "application/web updated (transaction application-7)",
        "application/web scaled to 2 (transaction application-1)",
    ]
    update, scale = server.requests("PUT")
    assert update.body["spec"]["instance"] == 5
    assert scale.path.endswith("/scale/2")
    assert server.seen.index(scale) > [r.path for r in server.seen].index("/transactions/defaultGroup/application-7")


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
        "end": ["0.web.x.y.1"],
        "unplaced": 1,
        "message": "1 of 1 agents: not enough cpus",
    }
    server.on("GET", f"{APPS}/web", MISSING)
    server.on("POST", APPS, ok(plan))
    result = bcs("apply", "--dry-run", "--wait", "-f", write(tmp_path, DOCUMENT))
    assert result.out.splitlines() == [
        "application/web created (dry run)",
        "  + taskgroup 0 on agent1 ports 31000",
        "  - taskgroup 0.web.x.y.1",
        "  ! 1 taskgroups find no place: 1 of 1 agents: not enough cpus",
    ]
    assert server.requests("POST")[0].query == {"dryRun": "true"}


def test_problems_of_a_document_are_printed_one_per_line(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    problems = [
        {"path": "$.spec.instance", "message": "must be at least 1"},
        {"path": "$.spec.templat", "message": "is unknown; did you mean template?"},
    ]
    server.on("GET", f"{APPS}/web", MISSING)
    server.on("POST", APPS, failed(422, "the document is not acceptable", "invalid", problems))
    result = bcs("apply", "-f", write(tmp_path, DOCUMENT))
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines() == [
        "error: the document is not acceptable",
        "  $.spec.instance: must be at least 1",
        "  $.spec.templat: is unknown; did you mean template?",
    ]


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("{", "x.json", "not JSON: line 1, column 2"),
        ("a: [", "x.yaml", "not YAML: line 1"),
        ("[]", "x.json", "is not an object"),
        ('{"kind": "deployments"}', "x.json", "kind: 'deployments' is not known; known: application"),
        ('{"kind": "application"}', "x.json", "metadata.name: is missing"),
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
    assert "metadata.namespace: is 'arena', the command line says 'lab'" in result.err
    server.on("GET", "/namespaces/arena/applications/web", MISSING)
    server.on("POST", "/namespaces/arena/applications", ok(ACCEPTED, 202))
    assert bcs("apply", "-f", document).code == 0


def test_update_passes_its_bounds_on(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("PUT", APPS, ok(ACCEPTED, 202))
    result = bcs("update", "-f", write(tmp_path, DOCUMENT), "--instances", "3", "--max-unavailable", "1")
    assert result.code == 0
    assert server.requests("PUT")[0].query == {"instances": "3", "maxUnavailable": "1"}


# --- other changes --------------------------------------------------------------------------------------------


def test_scale_waits_for_transaction_and_application(server: StandIn, bcs: Any) -> None:
    server.on("PUT", f"{APPS}/web/scale/4", ok(ACCEPTED, 202))
    server.on("GET", "/transactions/defaultGroup/application-1", ok(transaction()), ok(transaction("FINISH")))
    states = [application(running=running, wanted=4) for running in (2, 3, 4)]
    server.on("GET", f"{APPS}/web", *map(ok, states))
    result = bcs("scale", "web", "4", "--wait")
    assert result.code == 0
    assert result.out.splitlines()[-1] == "application/web running"
    assert len([r for r in server.seen if r.path == f"{APPS}/web"]) == 3


def test_a_transaction_that_ends_badly_is_a_failure(server: StandIn, bcs: Any) -> None:
    server.on("PUT", f"{APPS}/web/scale/4", ok(ACCEPTED, 202))
    ended = transaction("TIMEOUT", message="not enough cpus")
    server.on("GET", "/transactions/defaultGroup/application-1", ok(ended))
    result = bcs("scale", "web", "4", "--wait")
    assert result.code == 1
    assert result.err == "error: transaction application-1 ended TIMEOUT: not enough cpus\n"


def test_delete_by_name_and_by_document(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    server.on("DELETE", f"{APPS}/web", ok(ACCEPTED, 202))
    server.on("GET", "/transactions/defaultGroup/application-1", ok(transaction("FINISH")))
    server.on("GET", f"{APPS}/web", ok(application()), MISSING)
    result = bcs("delete", "web", "--enforce", "--wait")
    assert result.out.splitlines()[-1] == "application/web deleted"
    assert server.requests("DELETE")[0].query == {"enforce": "true"}
    assert bcs("delete", "-f", write(tmp_path, DOCUMENT)).code == 0
    assert bcs("delete").code == 2
    assert bcs("delete", "web", "-f", "x.json").code == 2


def test_rollback_to_a_version(server: StandIn, bcs: Any) -> None:
    server.on("PUT", f"{APPS}/web/rollback", ok(ACCEPTED, 202))
    assert bcs("rollback", "web", "--to", "17").code == 0
    assert server.requests("PUT")[0].query == {"version": "17"}


def test_reschedule_finds_the_taskgroup_by_name(server: StandIn, bcs: Any) -> None:
    group = taskgroup(1)
    server.on("GET", "/taskgroups", ok([taskgroup(0), group]))
    server.on("PUT", f"{APPS}/web/taskgroups/{group['ID']}/rescheduler", ok(ACCEPTED, 202))
    result = bcs("reschedule", "web-1", "--host-retain", "1m30s")
    assert result.code == 0
    assert server.requests("PUT")[0].query == {"hostRetainTime": "90.0"}
    assert bcs("reschedule", "web-9").code == 3
    assert bcs("reschedule", "a.b").code == 2


def test_cancel_finds_the_transaction_in_any_namespace(server: StandIn, bcs: Any) -> None:
    server.on("GET", "/transactions", ok([transaction(namespace="arena")]))
    server.on("DELETE", "/transactions/arena/application-1", ok(ACCEPTED))
    assert bcs("cancel", "application-1").out == "transaction/application-1 cancelled\n"
    assert bcs("cancel", "application-2").code == 3


def test_agents_are_switched_together(server: StandIn, bcs: Any) -> None:
    server.on("POST", "/agentsettings/disable", ok(None))
    result = bcs("disable", "10.0.0.1", "10.0.0.2")
    assert result.out == "agent/10.0.0.1 disabled\nagent/10.0.0.2 disabled\n"
    assert server.requests("POST")[0].query == {"ips": "10.0.0.1,10.0.0.2"}


# --- waiting --------------------------------------------------------------------------------------------------


def test_wait_gives_up_in_time_and_says_how_far_it_is(server: StandIn, bcs: Any) -> None:
    server.on("GET", f"{APPS}/web", ok(application(running=1, wanted=2, Message="some taskgroups are starting")))
    result = bcs("wait", "web", "--timeout", "200ms")
    assert result.code == 4
    assert "not done after 0.2s: Deploying: some taskgroups are starting" in result.err


def test_wait_outlives_a_change_of_leaders(server: StandIn, bcs: Any) -> None:
    away = failed(503, "no leader is known", "no_leader")
    server.on("GET", f"{APPS}/web", away, away, ok(application()))
    assert bcs("wait", "web", "--timeout", "10s") == (0, "application/web running\n", "")


def test_wait_for_deletion_and_for_a_transaction(server: StandIn, bcs: Any) -> None:
    server.on("GET", f"{APPS}/web", ok(application()), MISSING)
    assert bcs("wait", "web", "--for", "deleted").out == "application/web deleted\n"
    server.on("GET", "/transactions/defaultGroup/application-1", ok(transaction()), ok(transaction("FINISH")))
    assert bcs("wait", "web", "--for", "application-1").out == "application/web application-1 finished\n"


def test_a_finished_application_is_settled(server: StandIn, bcs: Any) -> None:
    server.on("GET", f"{APPS}/web", ok(application(running=0, wanted=2, Status="Finish")))
    assert bcs("wait", "web", "--timeout", "0").code == 0


# --- reading --------------------------------------------------------------------------------------------------


def test_get_prints_json_to_a_program(server: StandIn, bcs: Any) -> None:
    server.on("GET", APPS, ok([application()]))
    result = bcs("get", "app", "-l", "app=web")
    assert json.loads(result.out) == [application()]
    assert server.seen[0].query["labelSelector"] == "app=web"
    server.on("GET", f"{APPS}/web", ok(application()))
    assert json.loads(bcs("get", "app", "web").out) == application()
    assert yaml.safe_load(bcs("get", "app", "web", "-o", "yaml").out) == application()


def test_lists_are_read_page_by_page(server: StandIn, bcs: Any) -> None:
    server.on("GET", APPS, ok([application("a")], **{"continue": "t1"}), ok([application("b")]))
    assert [item["Name"] for item in json.loads(bcs("get", "app").out)] == ["a", "b"]
    assert [request.query.get("continue") for request in server.seen] == [None, "t1"]


def test_tables_show_what_matters(server: StandIn, bcs: Any) -> None:
    server.on("GET", APPS, ok([application(), application("lobby", running=1, wanted=3)]))
    lines = bcs("get", "applications", "-o", "table").out.splitlines()
    assert lines[0].split() == ["NAME", "STATUS", "RUNNING", "AGE", "MESSAGE"]
    assert lines[2].split()[:3] == ["web", "Running", "2/2"]
    assert lines[3].split()[:3] == ["lobby", "Deploying", "1/3"]
    server.on("GET", "/applications", ok([application(RunAs="arena")]))
    assert bcs("get", "app", "-A", "-o", "table").out.splitlines()[2].split()[:2] == ["arena", "web"]


def test_wide_tables_keep_whole_ids_even_in_a_narrow_place(
    server: StandIn, bcs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    server.on("GET", f"{APPS}/web/taskgroups", ok([taskgroup(0), taskgroup(1, ReschededTimes=3)]))
    lines = bcs("get", "tg", "web", "-o", "wide").out.splitlines()
    assert lines[2].split()[:5] == [taskgroup(0)["ID"], "Running", "agent0", "http:31000", "0"]
    assert lines[3].split()[4] == "3"
    assert "1700000000000000001" in lines[3]


def test_transactions_agents_offers_versions(server: StandIn, bcs: Any) -> None:
    server.on("GET", "/transactions/defaultGroup", ok([transaction("FINISH")]))
    row = bcs("get", "tx", "-o", "table").out.splitlines()[2].split()
    assert row[:5] == ["application-1", "LAUNCH", "web", "FINISH", "1/2"]
    agent = {"hostname": "agent1", "ip": "10.0.0.1", "id": "a-1", "cputotal": 4, "cpuused": 1.5, "disabled": True}
    server.on("GET", "/agents", ok([agent]))
    row = bcs("get", "agents", "-o", "table").out.splitlines()[2].split()
    assert row[:4] == ["agent1", "10.0.0.1", "disabled", "1.5/4"]
    ports = {"name": "ports", "type": 1, "ranges": {"range": [{"begin": 31000, "end": 31099}]}}
    cpus = {"name": "cpus", "type": 0, "scalar": {"value": 0.5}}
    offer = {"id": {"value": "o-1"}, "hostname": "agent1", "resources": [cpus, {**cpus, "role": "web"}, ports]}
    server.on("GET", "/cluster/current/offers", ok([offer]))
    row = bcs("get", "offers", "-o", "table").out.splitlines()[2].split()
    assert row == ["agent1", "1", "0", "0", "100"]
    server.on("GET", f"{APPS}/web/versions", ok(["1", "2"]))
    for version in ("1", "2"):
        container = [{"Docker": {"Command": "python3", "Arguments": ["x"], "Image": ""}}]
        server.on(
            "GET", f"{APPS}/web/versions/{version}", ok({"Name": version, "Instances": 2, "Container": container})
        )
    rows = bcs("get", "versions", "web", "-o", "table").out.splitlines()
    assert [row.split()[0] for row in rows[2:]] == ["2", "1"]
    assert "python3 x" in rows[2]
    assert bcs("get", "versions").code == 2


def test_describe_shows_taskgroups_transactions_and_the_story(server: StandIn, bcs: Any) -> None:
    server.on("GET", f"{APPS}/web", ok(application(Message="all good [really]")))
    server.on("GET", f"{APPS}/web/taskgroups", ok([taskgroup()]))
    server.on("GET", "/transactions/defaultGroup", ok([transaction("FINISH")]))
    result = bcs("describe", "app", "web", "--story")
    assert result.code == 0
    for expected in ("all good [really]", taskgroup()["ID"], "2 running, 2 there, 2 wanted", "LAUNCH: launching 2"):
        assert expected in result.out
    data = json.loads(bcs("describe", "app", "web", "--story", "-o", "json").out)
    assert [line["text"] for line in data["story"]][:2] == ["taskgroup made for agent0", "LAUNCH: launching 2"] or data[
        "story"
    ]
    group = taskgroup()
    server.on("GET", f"/namespaces/defaultGroup/taskgroups/{group['ID']}", ok(group))
    assert "http 31000" in bcs("describe", "tg", group["ID"]).out
    server.on("GET", "/transactions/defaultGroup/application-1", ok(transaction()))
    assert "1 of 2" in bcs("describe", "tx", "application-1").out
    assert bcs("describe", "offers", "x").code == 2


def test_explain_prints_what_the_server_found(server: StandIn, bcs: Any) -> None:
    found = {
        "status": "Operating",
        "text": ["Operating: 1 of 2 taskgroups are ready", "3 of 3 agents: not enough cpus"],
    }
    server.on("GET", f"{APPS}/web/explain", ok(found))
    assert bcs("explain", "web", "-o", "table").out.splitlines() == found["text"]
    assert json.loads(bcs("explain", "web").out) == found


def test_version_of_both_sides(server: StandIn, bcs: Any) -> None:
    server.rules.append(lambda r: ok({"version": "9.9"}) if r.path == "/version" else None)
    found = json.loads(bcs("version").out)
    assert found["server"]["version"] == "9.9"
    assert found["client"]


# --- exit codes and the wire ----------------------------------------------------------------------------------


def test_exit_codes(server: StandIn, bcs: Any) -> None:
    assert bcs("get", "app", "nowhere").code == 3
    server.on("PUT", f"{APPS}/web/scale/4", failed(409, "application web is Operating", "conflict"))
    result = bcs("scale", "web", "4")
    assert (result.code, result.err) == (6, "error: application web is Operating\n")
    assert bcs("get", "nonsense").code == 2
    assert bcs("scale", "web", "-1").code == 2
    assert bcs("wait", "web", "--timeout", "soon").code == 2
    server.on("GET", APPS, failed(500, "internal error; the log has it as api-1"))
    assert bcs("get", "app").code == 1
    assert bcs("--help").code == 0


def test_an_unreachable_server_is_named(bcs: Any) -> None:
    result = bcs("--server", "http://127.0.0.1:1", "get", "app")
    assert result.code == 5
    assert result.err == "error: cannot reach http://127.0.0.1:1: connection refused\n"


def test_something_else_that_answers_is_no_scheduler(server: StandIn, bcs: Any) -> None:
    server.rules.append(lambda request: ok(None)._replace(body=b"<html>hello</html>"))
    result = bcs("get", "app")
    assert result.code == 1
    assert "is not a bcs-scheduler" in result.err
    server.on("GET", APPS, ok([{"unexpected": True}]))
    assert "the server's answer is not understood" in bcs("get", "app", "-o", "table").err


def test_writes_follow_to_the_leader_with_their_body(server: StandIn, bcs: Any, tmp_path: Path) -> None:
    leader = StandIn()
    try:
        server.on("GET", f"{APPS}/web", MISSING)
        location = f"{leader.url}/v4/scheduler/mesos{APPS}?dryRun=true"
        server.on("POST", APPS, failed(307, "not the leader", "not_leading")._replace(headers={"Location": location}))
        leader.on("POST", APPS, ok({"dryRun": True, "place": [], "end": [], "unplaced": 0}))
        assert bcs("apply", "--dry-run", "-f", write(tmp_path, DOCUMENT)).code == 0
        (request,) = leader.seen
        assert (request.method, request.query) == ("POST", {"dryRun": "true"})
        assert request.body["metadata"]["name"] == "web"
    finally:
        leader.close()


def test_a_busy_server_is_asked_again_but_never_when_the_outcome_is_unknown(server: StandIn, bcs: Any) -> None:
    busy, unknown = failed(503, "busy", "unavailable"), failed(503, "no answer after 30 s", "outcome_unknown")
    server.on("PUT", f"{APPS}/web/scale/4", busy, busy, ok(ACCEPTED, 202))
    assert bcs("scale", "web", "4").code == 0
    assert len(server.requests("PUT")) == 3
    server.on("PUT", f"{APPS}/web/scale/5", unknown, ok(ACCEPTED, 202))
    assert bcs("scale", "web", "5").code == 5
    assert len(server.requests("PUT")) == 4
    server.on("PUT", f"{APPS}/web/scale/6", busy)
    assert bcs("scale", "web", "6", "--timeout", "150ms").code == 5


# --- shells and terminals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(bcs: Any, shell: str) -> None:
    result = bcs("completion", shell)
    assert result.code == 0
    assert "_BCS_COMPLETE" in result.out


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bcs_scheduler.cli.main", *arguments]


def test_names_are_completed_by_asking_the_server(server: StandIn) -> None:
    server.on("GET", APPS, ok([application("web"), application("worker"), application("lobby")]))
    environ = {**os.environ, "BCS_SERVER": server.url, "_BCS_COMPLETE": "bash_complete"}

    def complete(words: str, **more: str) -> list[str]:
        numbered = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()))}
        code = "from bcs_scheduler.cli.main import main; main()"
        made = subprocess.run(
            [sys.executable, "-c", code], env=environ | numbered | more, capture_output=True, text=True, timeout=60
        )
        return [line.partition(",")[2] for line in made.stdout.split()]

    assert complete("bcs describe app") == ["web", "worker", "lobby"]
    assert complete("bcs describe app", BCS_SERVER="http://127.0.0.1:1") == []


def test_a_terminal_gets_tables_and_ctrl_c_is_quiet(server: StandIn) -> None:
    server.on("GET", APPS, ok([application()]))
    server.on("GET", f"{APPS}/web", ok(application(running=1)))
    environ = {**os.environ, "BCS_SERVER": server.url, "TERM": "xterm", "COLUMNS": "120"}
    ours, theirs = pty.openpty()
    try:
        streams: Any = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        assert subprocess.run(command("get", "app"), env=environ, timeout=60, **streams).returncode == 0
        assert b"NAME" in os.read(ours, 65536)
        server.seen.clear()
        waiting = subprocess.Popen(command("wait", "web"), env=environ, start_new_session=True, **streams)
        wait_for(lambda: len(server.seen) > 1, what="two looks at the application")
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(timeout=60) == 130
        shown = os.read(ours, 65536)
        assert b"1/2" in shown
        assert b"Traceback" not in shown
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_reader_that_leaves_early_is_no_error(server: StandIn) -> None:
    server.on("GET", APPS, ok([application(Message="x" * 1000) for _ in range(400)]))
    environ = {**os.environ, "BCS_SERVER": server.url}
    piped = subprocess.Popen(command("get", "app"), env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert piped.stdout is not None and piped.stderr is not None
    piped.stdout.read(10)
    piped.stdout.close()
    assert piped.wait(timeout=60) == 0
    assert piped.stderr.read() == b""
    piped.stderr.close()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.4, "0s"), (45, "45s"), (192, "3m12s"), (180, "3m"), (18180, "5h3m"), (1051200, "12d4h"), (-3, "0s")],
)
def test_durations_in_words(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_ages_of_numbers_and_timestamps() -> None:
    assert age(1700000000, now=1700000065) == "1m5s"
    assert age("2023-11-14T22:13:20.000000Z", now=1700000002) == "2s"
    assert age("0001-01-01T00:00:00Z", now=1700000002) == "-"
    assert age("", now=5) == "-"
