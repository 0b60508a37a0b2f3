"""Events that a simulation repeats: lines of JSON, events of a scheduler, and refused files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.core.interface.requests import DeleteApplication, ScaleApplication, SetAgent
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.simulator.amounts import BadInput
from bcs_scheduler.simulator.dump import read_dump
from bcs_scheduler.simulator.inputs import with_events
from bcs_scheduler.simulator.model import AddAgent, EndTaskGroup, LoseAgent, Scenario, Submit
from bcs_scheduler.simulator.simulation import Outcome, Simulation
from bcs_scheduler.simulator.specs import read_agents

OPTIONS = CoreOptions(strict=True, validate=True, loss_share=0.0)
TWO = Scenario(tuple(read_agents("2x4cpu,8gb")), (), ())
LINES: tuple[dict[str, Any], ...] = (
    {"time": 0, "event": "application-created", "namespace": "shop", "application": "web", "instances": 3, "cpus": 2},
    {"time": 60, "event": "application-created", "namespace": "jobs", "application": "sum", "instances": 2, "mem": 64,
     "duration": "5m", "gang": True, "priority": 3},
    {"time": 120, "event": "agent-added", "agent": "10.9.9.9", "cpus": 4, "mem": 8192, "attributes": {"zone": "b"}},
    {"time": 180, "event": "agent-lost", "agent": "agent-0"},
    {"time": 240, "event": "application-scaled", "namespace": "shop", "application": "web", "instances": 4},
    {"time": 300, "event": "taskgroup-ended", "namespace": "shop", "application": "web", "index": 1, "failed": True},
    {"time": 900, "event": "application-deleted", "namespace": "shop", "application": "web"},
)  # fmt: skip


def written(folder: Path, *lines: object, name: str = "events.jsonl") -> Path:
    file = folder / name
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def run(scenario: Scenario, seconds: float) -> Outcome:
    outcome = Simulation("run", scenario, OPTIONS).run(seconds)
    assert outcome.refused == []
    return outcome


def test_each_event_of_a_line_happens_at_its_time(tmp_path: Path) -> None:
    given = with_events(TWO, written(tmp_path, *LINES))
    assert [create.at for create in given.creations] == [0, 60]
    assert given.creations[1].durations == (300.0, 300.0)
    assert given.creations[1].version.min_available == 2 and given.creations[1].version.priority == 3
    kinds = [AddAgent, LoseAgent, Submit, EndTaskGroup, Submit]
    assert [type(action) for action in given.actions] == kinds
    shop = run(given, 840.0).groups["shop"]
    jobs = run(given, 840.0).groups["jobs"]
    assert (shop.cpus, shop.pending, shop.evicted) == (4 * 2000, 0, 0)
    assert (jobs.finished, jobs.cpus) == (2, 0)
    assert run(given, 1000.0).groups["shop"].cpus == 0


def test_times_may_be_moments_and_files_compressed(tmp_path: Path) -> None:
    moments = [
        {**LINES[0], "time": "2026-11-26T10:00:00Z"},
        {"time": "2026-11-26T12:00:30+01:00", "event": "agent-lost", "agent": "host-1"},
    ]
    file = written(tmp_path, *moments)
    file.write_bytes(gzip.compress(file.read_bytes()))
    given = with_events(TWO, file)
    assert given.creations[0].at == 0.0
    assert given.actions == (LoseAgent(3630.0, "agent-1"),)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "Input data was truncated"),
        ({"event": "agent-lost", "agent": "agent-0"}, "missing required field `time`"),
        ({"time": "soon", "event": "agent-lost", "agent": "agent-0"}, "time must be seconds or a time such as"),
        ({"time": "2026-11-26T10:00:00", "event": "agent-lost", "agent": "agent-0"}, "must have a time zone"),
        ({"time": 1, "event": "agent-burnt", "agent": "agent-0"}, "Invalid value 'agent-burnt' - at `$.event`"),
        ({"time": 1, "event": "agent-lost", "agent": "agent-9"}, 'agent "agent-9" is not in the cluster'),
        ({"time": 1, "event": "agent-lost", "agent": "agent-0", "why": "x"}, "unknown field `why`"),
        ({"time": 1, "event": "agent-added", "agent": "agent-1", "cpus": 1, "mem": 1}, "is in the cluster"),
        ({"time": 1, "event": "agent-added", "agent": "new", "cpus": -1, "mem": 1}, "at `$.cpus`"),
        ({**LINES[4], "time": 1, "application": "other"}, 'application "shop/other" does not exist'),
        ({**LINES[0], "time": 1}, 'application "shop/web" exists'),
        ({**LINES[1], "duration": "long"}, "duration must be a duration such as"),
    ],
)
def test_a_bad_line_is_refused_with_file_and_line(tmp_path: Path, line: object, words: str) -> None:
    file = written(tmp_path, LINES[0])
    with file.open("a") as more:
        more.write("\n" + (line if isinstance(line, str) else json.dumps(line)) + "\n")
    with pytest.raises(BadInput) as refused:
        with_events(TWO, file)
    assert str(refused.value).startswith(f"--events: {file}:3: ") and words in str(refused.value)


def test_absent_and_damaged_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="absent: No such file"):
        with_events(TWO, tmp_path / "absent")
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(b"{}" * 1000)[:-12])
    with pytest.raises(BadInput, match="incomplete or damaged"):
        with_events(TWO, cut)
    log = tmp_path / "decisions.log"
    log.write_bytes(b"BCSDLOG\x01nonsense")
    with pytest.raises(BadInput, match=r"--events: .*decisions\.log"):
        with_events(TWO, log)


AGENTS = [
    {"id": f"S{n}", "hostname": f"h{n}", "ip": f"10.0.0.{n}", "total": {"cpus": 4, "mem": 8192, "disk": 9000}}
    for n in (1, 2)
]
DUMP = {
    "format": "bcs-dump", "formatVersion": 1, "time": "2026-11-26T10:00:00Z", "agents": AGENTS,
    "taskgroups": [
        {"id": f"{n}.web.shop.c.17{n}", "namespace": "shop", "application": "web", "index": n, "status": "Running",
         "agent": f"S{n + 1}", "resources": {"cpus": 1, "mem": 512}}
        for n in (0, 1)
    ],
}  # fmt: skip


def event(at: str, kind: str, name: str, reason: str, namespace: str = "") -> dict[str, str]:
    return {"time": f"2026-11-26T{at}.000000Z", "kind": kind, "name": name, "reason": reason, "namespace": namespace}


RECORDED = (
    event("10:00:10", "agent", "10.0.0.2", "AgentDisabled"),
    event("10:01:00", "agent", "10.0.0.1", "AgentLeft"),
    event("10:02:00", "agent", "10.0.0.1", "AgentJoined"),
    event("10:02:30", "agent", "10.0.0.7", "AgentJoined"),
    event("10:03:00", "taskgroup", "0.web.shop.c.170", "TaskGroupFailed", "shop"),
    event("10:04:00", "taskgroup", "2.web.shop.c.190", "TaskGroupPlaced", "shop"),
    event("10:04:01", "taskgroup", "3.web.shop.c.191", "TaskGroupPlaced", "shop"),
    event("10:05:00", "taskgroup", "0.other.shop.c.192", "TaskGroupPlaced", "shop"),
    event("10:06:00", "application", "web", "ApplicationDeleted", "shop"),
)


@pytest.mark.parametrize("form", ["list", "lines", "dump"])
def test_events_of_a_scheduler_are_taken_as_they_are(tmp_path: Path, form: str) -> None:
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps(DUMP))
    start = read_dump(cluster)
    if form == "lines":
        file = written(tmp_path, *RECORDED)
    else:
        file = tmp_path / "events.json"
        whole = list(RECORDED) if form == "list" else {**DUMP, "events": list(RECORDED)}
        file.write_text(json.dumps(whole, indent=2))
    given = with_events(start, file)
    assert [(action.at, type(action)) for action in given.actions] == [
        (10, Submit), (60, LoseAgent), (120, AddAgent), (180, EndTaskGroup), (240, Submit), (360, Submit),
    ]  # fmt: skip
    requests = [action.request for action in given.actions if isinstance(action, Submit)]
    assert requests == [
        SetAgent(agent="h2", disabled=True, force=True),
        ScaleApplication(namespace="shop", name="web", instances=4),
        DeleteApplication(namespace="shop", name="web"),
    ]
    assert given.actions[3] == EndTaskGroup(180, "shop/web", 0, failed=True)
    assert given.notes == (
        "1 agents that join are left out, because their size is not known.",
        "1 applications are left out, because the dump has no definition of them.",
    )
    assert run(given, 350.0).groups["shop"].pending == 0
    assert run(given, 400.0).groups["shop"].cpus == 0


def test_a_dump_without_events_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(DUMP, indent=1))
    with pytest.raises(BadInput, match="events is missing: make the dump with --events"):
        with_events(TWO, file)
