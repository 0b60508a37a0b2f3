"""`bcs` with daemonsets against a real API over a bare core, and `bcs drain` to its different ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from bcs_scheduler.cli.commands import agents as draining
from bcs_scheduler.cli.errors import Conflict, TimedOut, UsageError
from bcs_scheduler.cli.kinds.registry import columns_of
from bcs_scheduler.core.interface.cluster_manager import AgentsListed
from tests.component.apiserver import serving
from tests.component.cli.standin import StandIn, failed, ok
from tests.unit.api_support import CoreGateway
from tests.unit.api_support import document as application

KEY = "shop/probe"


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[CoreGateway]:
    """A scheduler with two agents, which `bcs` asks from now on. What it logs is not for its output."""
    gateway = CoreGateway()
    gateway.connect()
    for number in (1, 2):
        gateway.offer(number)
    gateway.feed(AgentsListed(agents=tuple(gateway.listed)))
    with capture_logs(), serving(gateway) as api:
        monkeypatch.setenv("BCS_SERVER", api.url)
        monkeypatch.setenv("BCS_NAMESPACE", "shop")
        yield gateway


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path, "server")


def write(folder: Path, command: str, **head: Any) -> Path:
    document = {**application("probe", command=command), "kind": "daemonset", **head}
    del document["spec"]["instance"]
    path = folder / f"{command}.json"
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def running(bcs: Any, gateway: CoreGateway, file: Path) -> CoreGateway:
    applied = bcs("apply", "-f", str(file), "-o", "json")
    assert (applied.code, json.loads(applied.out)[0]["done"]) == (0, "created")
    gateway.report("RUNNING", KEY)
    return gateway


def test_it_is_shown(bcs: Any, gateway: CoreGateway, running: CoreGateway) -> None:
    lines = bcs("get", "ds", "-o", "table").out.splitlines()
    assert lines[0].split()[:6] == ["NAME", "STATUS", "DESIRED", "CURRENT", "READY", "UPDATED"]
    assert lines[1].split()[:6] == ["probe", "Running", "2", "2", "2", "2"]
    described = bcs("describe", "daemonset", "probe").out
    assert "2 desired, 2 present, 2 ready" in described
    assert "host-1" in described and "host-2" in described
    assert "daemonset is Running" in bcs("explain", "probe", "-o", "table").out
    data = json.loads(bcs("describe", "daemonset", "probe", "--events", "-o", "json").out)
    assert {"about", "at", "kind", "text"} == set(data["events"][0])
    assert len(json.loads(bcs("get", "tg", "probe", "-o", "json").out)) == 2
    assert bcs("wait", "probe", "--timeout", "60").code == 0


def test_it_is_updated_and_undone(bcs: Any, running: CoreGateway, tmp_path: Path) -> None:
    assert json.loads(bcs("apply", "-f", str(write(tmp_path, "server")), "-o", "json").out)[0]["done"] == "unchanged"
    assert json.loads(bcs("apply", "-f", str(write(tmp_path, "other")), "-o", "json").out)[0]["done"] == "updated"
    status = json.loads(bcs("rollout", "status", "probe", "--no-wait", "-o", "json").out)[0]
    assert (status["kind"], status["done"], status["status"]) == ("daemonset", "in progress", "Updating")
    history = json.loads(bcs("rollout", "history", "ds/probe", "-o", "json").out)
    assert [version["current"] for version in history] == [False, True]
    made = [datetime.fromisoformat(version["createTime"]) for version in history]
    assert made[0] < made[1]
    assert [f"{int(version['revision']) / 1e9:.3f}" for version in history] == [f"{at.timestamp():.3f}" for at in made]
    assert bcs("rollout", "undo", "probe").code == 0
    assert bcs("rollout", "restart", "probe").code == 0
    paused = bcs("rollout", "pause", "probe")
    assert paused.code == UsageError.exit_code
    assert "daemonsets do not support pause" in paused.err


def test_what_gets_no_further_is_not_waited_for(bcs: Any, running: CoreGateway, tmp_path: Path) -> None:
    """A client that did wait would need all of its time."""
    ended = write(tmp_path, "other", restartPolicy={"policy": "Never"})
    assert bcs("apply", "-f", str(ended)).code == 0
    fail_one(running)
    for command in (("rollout", "status", "probe"), ("wait", "ds/probe"), ("apply", "-f", str(ended), "--wait")):
        result = bcs(*command, "--timeout", "60")
        assert result.code == 1, result
        assert "stands still: 1 taskgroup has ended and will not be restarted (probe-" in result.err
        assert "bcs rollback daemonset/probe" in result.err
    assert bcs("rollout", "status", "probe", "--no-wait").code == 0
    back = bcs("rollout", "undo", "probe", "--wait", "--timeout", "3")
    assert back.code == TimedOut.exit_code, "going back is under way"


def test_what_has_finished_does_not_run(bcs: Any, running: CoreGateway) -> None:
    running.report("FINISHED", KEY)
    result = bcs("wait", "ds/probe", "--timeout", "60")
    assert result.code == 1
    assert "Abnormal, 0 of 2 ready, 2 up to date: 2 taskgroups have ended and will not be restarted" in result.err
    assert bcs("get", "ds", "-o", "table").out.splitlines()[1].split()[:5] == ["probe", "Abnormal", "2", "2", "0"]
    assert bcs("explain", "probe", "-o", "table").out.count("has ended") >= 2


def test_a_deletion_that_waits_says_for_which_agents(bcs: Any, running: CoreGateway) -> None:
    running.report("UNREACHABLE", KEY)
    waited = bcs("delete", "ds", "probe", "--wait", "--timeout", "3")
    assert waited.code == TimedOut.exit_code
    assert "waits for 2 unreachable agents (host-1, host-2); deleting it with --force" in waited.err
    assert bcs("delete", "ds", "probe", "--force", "--wait", "--timeout", "60").code == 0


def fail_one(gateway: CoreGateway) -> None:
    """The taskgroup that the update has ended makes way for one that fails."""
    (old,) = [group for group in gateway.core.state.taskgroups.values() if group.killing_since]
    gateway.report_taskgroup("KILLED", old.id)
    gateway.offer(int(old.agent_id[-1]))
    (new,) = [group for group in gateway.core.state.taskgroups.values() if not group.started]
    gateway.report_taskgroup("FAILED", new.id)


def test_it_is_not_scaled(bcs: Any, running: CoreGateway) -> None:
    refused = bcs("scale", "probe", "3")
    assert (refused.code, "a daemonset cannot be scaled" in refused.err) == (UsageError.exit_code, True)


def test_it_is_deleted(bcs: Any, running: CoreGateway) -> None:
    assert bcs("delete", "ds", "probe").code == 0
    waited = bcs("wait", "ds/probe", "--timeout", "0.2")
    assert waited.code == Conflict.exit_code
    running.report("KILLED", KEY)
    assert bcs("wait", "ds/probe", "--for", "deleted", "--timeout", "60").code == 0


# --- drains -------------------------------------------------------------------------------------------------------


def drained(server: StandIn, *states: str) -> None:
    """The drain of 10.0.0.1 as it is told look by look; an empty state: there is none."""
    left = list(states)

    def told() -> Any:
        state = left.pop(0) if len(left) > 1 else left[0]
        return [{"innerIP": "10.0.0.1", "state": state, "message": f"it is {state}", "left": 1}] if state else []

    result = {"innerIP": "10.0.0.1", "result": True, "message": "success"}
    server.rules.append(lambda r: ok([result]) if (r.method, r.path) == ("POST", "/agentsettings/drain") else None)
    server.rules.append(lambda r: ok(told()) if (r.method, r.path) == ("GET", "/agentsettings/drain") else None)
    server.rules.append(lambda r: ok({"agents": []}) if r.path == "/cluster/resources" else None)
    server.rules.append(lambda r: ok([]) if r.path == "/agents" else None)


def test_a_drain_is_followed_to_its_end(bcs: Any, server: StandIn) -> None:
    drained(server, "draining", "draining", "drained")
    result = bcs("drain", "10.0.0.1", "--parallel", "3", "--daemonsets", "-o", "json")
    assert result.code == 0
    assert [change["done"] for change in json.loads(result.out)] == ["draining", "drained"]
    asked = server.requests("POST")[0].query
    assert (asked["ips"], asked["atOnce"], asked["daemonsets"]) == ("10.0.0.1", "3", "true")
    assert "timeoutSeconds" not in asked


@pytest.mark.parametrize(("end", "code"), [("failed", TimedOut.exit_code), ("", Conflict.exit_code)])
def test_a_drain_that_does_not_succeed(bcs: Any, server: StandIn, end: str, code: int) -> None:
    drained(server, "draining", end)
    assert bcs("drain", "10.0.0.1", "--timeout", "20").code == code
    assert server.requests("POST")[0].query["timeoutSeconds"] == "20.0"


def test_a_drain_that_does_not_say_that_its_time_is_over(
    bcs: Any, server: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draining, "LATE", 0.3)
    drained(server, "draining")
    result = bcs("drain", "10.0.0.1", "--timeout", "200ms", "-o", "json")
    assert result.code == TimedOut.exit_code
    assert "10.0.0.1: not done after 0.2s and 0.3s more: it is draining" in result.err


def test_a_drain_is_followed_by_the_key_of_the_agent(bcs: Any, server: StandIn) -> None:
    """Whatever it is called, and whatever else is stored under that name."""
    stray = {"innerIP": "host-1", "state": "drained", "message": "no taskgroups are left", "left": 0}
    drained(server, "draining", "drained")
    told = server.rules[-3]

    def beside(request: Any) -> Any:
        found = told(request)
        return found if found is None else ok([stray, *found.body["data"]])

    server.rules[-3] = beside
    result = bcs("drain", "host-1", "-o", "text")
    assert result.code == 0
    assert result.out == "agent/10.0.0.1 draining\nagent/10.0.0.1 drained (it is drained)\n"


def test_a_drain_need_not_be_waited_for(bcs: Any, server: StandIn) -> None:
    drained(server, "draining")
    assert bcs("drain", "10.0.0.1", "--no-wait").code == 0
    assert [request.method for request in server.seen] == ["GET", "POST"]


def test_an_agent_nobody_knows_is_told(bcs: Any, server: StandIn) -> None:
    problem = [{"path": "nowhere", "message": "agent nowhere is not known"}]
    server.rules.append(lambda r: failed(404, "agent nowhere is not known", "not_found", problem))
    result = bcs("drain", "nowhere")
    assert result.code != 0
    assert "agent nowhere is not known" in result.err


def test_the_list_of_agents_tells_a_failed_drain_from_a_failed_agent() -> None:
    status = next(column.cell for column in columns_of("agents") if column.title == "STATUS")
    told = [str(status({"drain": drain, "disabled": True})) for drain in ("failed", "draining", "")]
    assert told == ["drain failed", "draining", "cordoned"]
