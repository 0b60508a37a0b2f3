"""Exit codes, the leader, busy servers, terminals and shells."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.cli.client.reaching import NO_SERVER
from bcs_scheduler.cli.errors import EXIT_CODES, INTERRUPTED, CliError
from bcs_scheduler.cli.output.text import age, duration
from tests.component.cli.standin import (
    ACCEPTED,
    APPS,
    DOCUMENT,
    MISSING,
    StandIn,
    application,
    failed,
    ok,
    taskgroup,
    write,
)
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[3]
NAMESPACE = {"kind": "namespace", "metadata": {"name": "shop"}}

# --- exit codes and the wire ---------------------------------------------------------------------------------------


def test_exit_codes(server: StandIn, bcs: Any) -> None:
    assert bcs("get", "app", "nowhere").code == 3
    server.on("PUT", f"{APPS}/web/scale/4", failed(409, "application web is Operating", "conflict"))
    result = bcs("scale", "web", "4")
    assert (result.code, result.err) == (6, "error: application web is Operating\n")
    assert bcs("get", "nonsense").code == 2
    assert bcs("scale", "web", "-1").code == 2
    assert bcs("wait", "web", "--timeout", "soon").code == 2
    server.on("GET", APPS, failed(500, "internal error; search the log of the scheduler for api-1"))
    assert bcs("get", "app").code == 1
    assert bcs("--help").code == 0


def test_an_unreachable_server_is_named(bcs: Any) -> None:
    for command in (("get", "app"), ("exec", "0.web.shop.dev.1", "--", "ls")):
        result = bcs("--server", "http://127.0.0.1:1", *command)
        assert result.code == 5
        assert result.err == f"error: cannot reach http://127.0.0.1:1: connection refused\n{NO_SERVER}\n"


def test_something_else_that_answers_is_no_scheduler(server: StandIn, bcs: Any) -> None:
    server.rules.append(lambda request: ok(None)._replace(body=b"<html>hello</html>"))
    result = bcs("get", "app")
    assert result.code == 1
    assert "is not a bcs-scheduler" in result.err
    server.on("GET", APPS, ok([{"unexpected": True}]))
    result = bcs("get", "app", "-o", "table")
    assert result.code == 70 and "the answer of the server has an unexpected form" in result.err


def test_a_defect_has_an_exit_code_of_its_own_and_names_its_place(
    server: StandIn, bcs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `bcs diff`, 1 would mean that there are differences."""

    def defect(*given: object) -> None:
        raise AttributeError("no such thing")

    monkeypatch.setattr("bcs_scheduler.cli.commands.changing.diff.difference", defect)
    result = bcs("diff", "-f", write(tmp_path, DOCUMENT))
    assert result.code == 70 and not result.out
    found = re.fullmatch(
        r"error: bcs has a defect, .*: AttributeError: no such thing \((\S+), line \d+\)\n", result.err
    )
    assert found is not None and found[1] == "cli/commands/changing/diff.py", result.err


def test_an_output_that_cannot_be_written_is_no_difference(
    server: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BCS_SERVER", server.url)
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "bcs_scheduler.cli.main", "diff", "-f", write(tmp_path, NAMESPACE)]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (70, "error: cannot write the output: No space left on device\n")


def test_every_exit_code_is_documented() -> None:
    _, _, section = (ROOT / "docs" / "operations.md").read_text().partition("### Exit codes of `bcs`\n")
    table = re.findall(r"^\| (\d+) \| (.+) \|$", section.partition("\n#")[0], re.MULTILINE)
    assert {int(code): meaning for code, meaning in table} == EXIT_CODES
    kinds: list[type[CliError]] = [CliError, *CliError.__subclasses__()]
    assert {kind.exit_code for kind in kinds} | {0, INTERRUPTED} == EXIT_CODES.keys()


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


def test_the_token_goes_with_the_request_to_the_leader(server: StandIn, bcs: Any, monkeypatch: Any) -> None:
    """requests itself would drop it on the way to another port."""
    monkeypatch.setenv("BCS_TOKEN", "bcs_abc")
    leader = StandIn()
    try:
        location = f"{leader.url}/v4/scheduler/mesos{APPS}/web/scale/4"
        away = failed(307, "not the leader", "not_leading")._replace(headers={"Location": location})
        server.on("PUT", f"{APPS}/web/scale/4", away)
        leader.on("PUT", f"{APPS}/web/scale/4", ok(ACCEPTED, 202))
        assert bcs("scale", "web", "4").code == 0
        assert [request.token for request in (*server.requests("PUT"), *leader.seen)] == [
            "Bearer bcs_abc",
            "Bearer bcs_abc",
        ]
    finally:
        leader.close()


def test_the_token_goes_to_no_other_path_or_scheme(server: StandIn, bcs: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("BCS_TOKEN", "bcs_abc")
    thief = StandIn()
    port = thief.url.rpartition(":")[2]
    path = f"/v4/scheduler/mesos{APPS}/web/scale/4"
    try:
        for location in (
            f"{thief.url}/steal",
            f"{thief.url}{path}?more=1",
            f"https://127.0.0.1:{port}{path}",
            f"ftp://127.0.0.1:{port}{path}",
            f"http://user:password@127.0.0.1:{port}{path}",
            f"//127.0.0.1:{port}{path}",
            path,
            "",
        ):
            away = failed(307, "not the leader", "not_leading")._replace(headers={"Location": location})
            server.rules.clear()
            server.on("PUT", f"{APPS}/web/scale/4", away)
            result = bcs("scale", "web", "4", "--timeout", "100ms")
            assert result.code in (1, 5), location
            assert "password" not in result.err and "bcs_abc" not in result.err
        assert thief.seen == []
    finally:
        thief.close()


def test_schedulers_that_point_at_each_other_end_in_a_message(server: StandIn, bcs: Any) -> None:
    location = f"{server.url}/v4/scheduler/mesos{APPS}/web/scale/4"
    away = failed(307, "not the leader", "not_leading")._replace(headers={"Location": location})
    server.on("PUT", f"{APPS}/web/scale/4", away)
    result = bcs("scale", "web", "4", "--timeout", "100ms")
    assert result.code == 5 and "not the leader" in result.err
    assert len(server.requests("PUT")) == 5


def test_a_limit_is_obeyed(server: StandIn, bcs: Any) -> None:
    slowly = failed(429, "too many requests", "too_many_requests")._replace(headers={"Retry-After": "1"})
    server.on("PUT", f"{APPS}/web/scale/4", slowly, ok(ACCEPTED, 202))
    assert bcs("scale", "web", "4").code == 0
    assert len(server.requests("PUT")) == 2
    server.on("PUT", f"{APPS}/web/scale/5", slowly)
    assert bcs("scale", "web", "5", "--timeout", "100ms").code == 1


def test_a_token_must_be_one_and_its_file_readable(bcs: Any, tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "token"
    file.write_text("bcs_abc\nX-Header: 1")
    refused = bcs("get", "app", "--token-file", str(file))
    assert refused.code == 2 and "the token is invalid" in refused.err
    assert bcs("get", "app", "--token-file", str(tmp_path / "none")).code == 2
    assert bcs("get", "app", "--ca-file", str(tmp_path / "none")).code == 2
    monkeypatch.setenv("BCS_TOKEN", "gr\u00fc\u00df")
    assert bcs("get", "app").code == 2


def test_a_token_in_clear_over_the_network_is_warned_of(bcs: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("BCS_TOKEN", "bcs_abc")
    warned = bcs("--server", "http://192.0.2.1:1", "get", "app", "--timeout", "1ms")
    assert "the token is sent unencrypted to 192.0.2.1" in warned.err


def test_a_busy_server_is_asked_again_but_never_when_the_outcome_is_unknown(server: StandIn, bcs: Any) -> None:
    busy, unknown = failed(503, "busy", "unavailable"), failed(504, "no answer after 30 s", "outcome_unknown")
    server.on("PUT", f"{APPS}/web/scale/4", busy, busy, ok(ACCEPTED, 202))
    assert bcs("scale", "web", "4").code == 0
    assert len(server.requests("PUT")) == 3
    server.on("PUT", f"{APPS}/web/scale/5", unknown, ok(ACCEPTED, 202))
    assert bcs("scale", "web", "5").code == 5
    assert len(server.requests("PUT")) == 4
    server.on("PUT", f"{APPS}/web/scale/6", busy)
    assert bcs("scale", "web", "6", "--timeout", "150ms").code == 5


# --- shells and terminals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(bcs: Any, shell: str) -> None:
    result = bcs("completion", shell)
    assert result.code == 0
    assert "_BCS_COMPLETE" in result.out


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bcs_scheduler.cli.main", *arguments]


def test_names_are_completed_by_asking_the_server(server: StandIn) -> None:
    server.on("GET", APPS, ok([application("web"), application("worker"), application("lobby")]))
    server.on("GET", "/namespaces/defaultGroup/deployments", ok([{"name": "front"}]))
    environ = {**os.environ, "BCS_SERVER": server.url, "_BCS_COMPLETE": "bash_complete"}

    def complete(words: str, **more: str) -> list[str]:
        numbered = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()))}
        code = "from bcs_scheduler.cli.main import main; main()"
        made = subprocess.run(
            [sys.executable, "-c", code], env=environ | numbered | more, capture_output=True, text=True, timeout=60
        )
        return [line.partition(",")[2] for line in made.stdout.split()]

    assert complete("bcs describe deployment") == ["front"]
    assert complete("bcs explain") == ["front", "web", "worker", "lobby"]
    server.on("GET", "/namespaces/defaultGroup/configmaps", ok([{"metadata": {"name": "motd"}}]))
    server.on("GET", "/agents", ok([{"ip": "", "hostname": "host-1"}]))
    assert complete("bcs describe configmap") == complete("bcs get cm") == ["motd"]
    assert complete("bcs get agents") == complete("bcs set agent") == ["host-1"]
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
        # Whoever runs the tests in the background may have them ignore SIGINT, which children inherit.
        streams["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
        waiting = subprocess.Popen(command("wait", "web"), env=environ, start_new_session=True, **streams)
        looks = f"{APPS}/web"
        wait_for(lambda: [r.path for r in server.seen].count(looks) > 3, what="two looks at the application")
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
    [
        (0, "0s"),
        (0.4, "0.4s"),
        (45, "45s"),
        (192, "3m12s"),
        (180, "3m"),
        (18180, "5h3m"),
        (1051200, "12d4h"),
        (-3, "0s"),
    ],
)
def test_durations_in_words(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_ages_of_numbers_and_timestamps() -> None:
    assert age(1700000000, now=1700000065) == "1m5s"
    assert age("2023-11-14T22:13:20.000000Z", now=1700000002) == "2s"
    assert age("0001-01-01T00:00:00Z", now=1700000002) == "-"
    assert age("", now=5) == "-"


def test_a_leader_that_is_gone_is_waited_for(server: StandIn, bcs: Any) -> None:
    gone = f"http://127.0.0.1:1/v4/scheduler/mesos{APPS}/web/scale/4"
    away = failed(307, "not the leader", "not_leading")._replace(headers={"Location": gone})
    server.on("PUT", f"{APPS}/web/scale/4", away, away, ok(ACCEPTED, 202))
    assert bcs("scale", "web", "4").code == 0
    there = {"Location": gone.replace("scale/4", "scale/5")}
    server.on("PUT", f"{APPS}/web/scale/5", away._replace(headers=there))
    result = bcs("scale", "web", "5", "--timeout", "150ms")
    assert (result.code, result.err) == (5, "error: cannot reach http://127.0.0.1:1: connection refused\n")


def test_files_namespaces_and_agents_are_completed(server: StandIn) -> None:
    agents = [{"hostname": "h", "ip": "10.0.0.1", "id": "a"}, {"hostname": "h", "ip": "10.0.0.2", "id": "b"}]
    server.on("GET", "/agents", ok(agents))
    server.on("GET", "/namespaces", ok([{"metadata": {"name": "shop"}}, {"metadata": {"name": "bank"}}]))
    server.on("GET", "/taskgroups", ok([taskgroup()]))
    environ = {**os.environ, "BCS_SERVER": server.url, "BCS_CONFIG": os.devnull, "_BCS_COMPLETE": "bash_complete"}

    def complete(words: str) -> list[str]:
        numbered = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()))}
        code = "from bcs_scheduler.cli.main import main; main()"
        made = subprocess.run(
            [sys.executable, "-c", code], env=environ | numbered, capture_output=True, text=True, timeout=60
        )
        return made.stdout.split()

    assert complete("bcs apply -f") == ["file,"]
    assert complete("bcs get app -n") == ["plain,shop", "plain,bank"]
    assert complete("bcs cordon") == ["plain,10.0.0.1", "plain,10.0.0.2"]
    assert complete("bcs cp") == ["file,", "plain,web-0:"]
