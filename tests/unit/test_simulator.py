"""Simulations for users: determinism, waiting times, capacity, policies, dumps, and refused inputs."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.core.interface.requests import ScaleApplication
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.simulator.amounts import BadInput, read_duration, read_memory
from bcs_scheduler.simulator.comparison import fairness, percentile, summary
from bcs_scheduler.simulator.dump import read_dump
from bcs_scheduler.simulator.inputs import with_policy
from bcs_scheduler.simulator.model import AddAgent, EndTaskGroup, LoseAgent, Scenario, Submit
from bcs_scheduler.simulator.recorder import Group
from bcs_scheduler.simulator.simulation import Simulation
from bcs_scheduler.simulator.specs import creations_of, namespaces_of, read_agents, read_load

OPTIONS = CoreOptions(strict=True, validate=True)
ROOT = Path(__file__).resolve().parents[2]
TWO_QUEUES = ("6x4,cpus=0.5-2,duration=5m-10m,over=20m,queue=a", "9x4,duration=5m-10m,over=20m,queue=b")


def scenario(agents: str, *loads: str, seed: int = 1) -> Scenario:
    read = [read_load(spec) for spec in loads]
    return Scenario(tuple(read_agents(agents)), tuple(namespaces_of(read)), creations_of(read, seed))


def figures(given: Scenario, seconds: float = 3600.0, options: CoreOptions = OPTIONS) -> dict[str, Any]:
    return summary(Simulation("run", given, options).run(seconds))


@cache
def two_queues() -> dict[str, Any]:
    """Figures of the simple policy with two queues."""
    return figures(scenario("3x4cpu,8gb", *TWO_QUEUES))


def test_equal_seeds_give_equal_figures_and_other_seeds_give_others() -> None:
    again, other = (figures(scenario("3x4cpu,8gb", *TWO_QUEUES, seed=seed)) for seed in (1, 2))
    assert two_queues() == again
    assert two_queues() != other


def test_a_job_waits_until_the_job_before_has_finished() -> None:
    total = figures(scenario("1x1cpu,4gb", "2x1,cpus=1,duration=600,over=1s"))["total"]
    assert (total["launched"], total["finished"], total["waiting"]) == (2, 2, 0)
    assert 600 <= total["waitLongest"] < 620
    assert total["coreHours"] == pytest.approx(1200 / 3600, rel=0.02)


def test_services_stay_and_what_does_not_fit_waits() -> None:
    got = figures(scenario("2x2cpu,4gb", "1x6,cpus=1,over=1s"))
    assert (got["total"]["launched"], got["total"]["waiting"], got["total"]["finished"]) == (4, 2, 0)
    assert got["cpusUsed"] == pytest.approx(1.0, abs=0.01)
    assert got["total"]["served"] == pytest.approx(4 / 6, abs=0.02)


def test_no_agent_gives_more_than_its_capacity() -> None:
    run = Simulation("run", scenario("3x4cpu,2gb", *TWO_QUEUES), OPTIONS)
    least: list[int] = []
    outcome = run.run(3600.0, lambda part: least.extend(min(free.values()) for free in run._room._free.values()))
    assert min(least) >= 0
    assert max(sample.cpus for sample in outcome.samples) > 0.9
    assert not outcome.refused


@pytest.mark.slow
def test_a_policy_of_sessions_shares_between_queues_where_the_simple_policy_does_not() -> None:
    given = scenario("3x4cpu,8gb", *TWO_QUEUES)
    simple = two_queues()
    shared = figures(given, options=with_policy(OPTIONS, str(ROOT / "conf/policy.yaml")))
    assert shared["fairness"] > simple["fairness"]
    assert shared["total"]["finished"] == simple["total"]["finished"] == 60


@pytest.mark.slow
def test_a_tree_of_queues_is_a_policy() -> None:
    options = with_policy(OPTIONS, str(ROOT / "conf/queues.yaml"))
    assert options.hierarchy is not None
    assert figures(scenario("3x4cpu,8gb", *TWO_QUEUES), options=options)["total"]["finished"] == 60


def test_a_gang_starts_as_a_whole_or_waits() -> None:
    got = figures(scenario("1x4cpu,8gb", "1x5,cpus=1,gang=true,over=1s"))["total"]
    assert (got["launched"], got["waiting"]) == (0, 5)


DUMP = {
    "format": "bcs-dump",
    "formatVersion": 1,
    "agents": [
        {"id": "S1", "hostname": "one", "total": {"cpus": 4, "mem": 4096, "disk": 9000}, "attributes": {"zone": "a"}},
        {"id": "S2", "hostname": "two", "total": {"cpus": 4, "mem": 4096, "disk": 9000}, "cordoned": True},
        {"id": "S3", "hostname": "three", "total": {"cpus": 4, "mem": 4096, "disk": 9000}, "active": False},
    ],
    "namespaces": [{"name": "shop", "queue": "online"}],
    "queues": [{"name": "online", "weight": 3, "guarantee": {"cpus": 1}}],
    "taskgroups": [
        {"namespace": "shop", "application": "web", "index": n, "status": status, "agent": agent,
         "resources": {"cpus": 1.5, "mem": 512}}
        for n, (status, agent) in enumerate((("Running", "S1"), ("Running", "S1"), ("Failed", "S1"), ("Lost", "S3")))
    ],
}  # fmt: skip


def dumped(folder: Path, document: object, packed: bool = False) -> Path:
    file = folder / "cluster.json"
    data = json.dumps(document).encode()
    file.write_bytes(gzip.compress(data) if packed else data)
    return file


@pytest.mark.parametrize("packed", [False, True])
def test_the_taskgroups_of_a_dump_hold_their_capacity(tmp_path: Path, packed: bool) -> None:
    start = read_dump(dumped(tmp_path, DUMP, packed))
    assert start.notes == ("1 agents that are not active are left out.",)
    load = [read_load("1x4,cpus=1,over=1s,namespace=shop")]
    got = figures(start._replace(creations=creations_of(load, 1)))
    # 8 cores, of which 3 are held and 4 are on a cordoned agent.
    assert (got["groups"]["online"]["launched"], got["groups"]["online"]["waiting"]) == (1, 3)
    assert got["cpusUsed"] == pytest.approx(4 / 8, abs=0.02)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "$.format: must be bcs-dump 1"),
        ({"agents": [{"id": "S1", "hostname": "one", "total": {"cpus": "four"}}]}, "$.agents[0].total.cpus"),
        ({"taskgroups": None}, "$.taskgroups"),
    ],
)
def test_a_bad_dump_is_refused_with_file_and_field(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    file = dumped(tmp_path, {**DUMP, **change})
    with pytest.raises(BadInput) as refused:
        read_dump(file)
    assert str(file) in str(refused.value) and words in str(refused.value)


def test_a_damaged_or_absent_dump_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cut.json.gz"
    file.write_bytes(gzip.compress(json.dumps(DUMP).encode())[:-20])
    with pytest.raises(BadInput, match=r"cut\.json\.gz: incomplete"):
        read_dump(file)
    with pytest.raises(BadInput, match="absent: No such file"):
        read_dump(tmp_path / "absent")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("100", "must be COUNTxCORES"),
        ("0x4cpu,8gb", "count must be a whole number of at least 1"),
        ("3x4cores,8gb", "must be COUNTxCORES"),
        ("3x4cpu,8xb", 'memory has an unknown unit "xb"'),
        ("3x4cpu,8gb,zone", '"zone" must be NAME=VALUE'),
        ("200000x4cpu,8gb", "200000 is more than 100000"),
    ],
)
def test_bad_agents_are_refused_with_the_field(spec: str, words: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_agents(spec)
    assert str(refused.value).startswith(f'--agents "{spec}"') and words in str(refused.value)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("10", "must begin with APPLICATIONSxTASKGROUPS"),
        ("10x-1", "taskgroups must be a whole number"),
        ("10x1,cpu=1", 'unknown field "cpu"; known are cpus'),
        ("10x1,cpus=2-1", "cpus must begin with the smaller bound"),
        ("10x1,cpus=1,cpus=2", "cpus is given twice"),
        ("10x1,duration=soon", "duration must be a duration"),
        ("10x1,gang=yes", "gang must be true or false"),
        ("10x1,queue=A b", "queue must be a name"),
    ],
)
def test_a_bad_load_is_refused_with_the_field(spec: str, words: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_load(spec)
    assert str(refused.value).startswith(f'--load "{spec}"') and words in str(refused.value)


def test_a_bad_policy_is_refused_with_file_and_field(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("actions: allocate, dance\ntiers: []\n")
    with pytest.raises(BadInput, match=r"--policy: .*policy\.yaml"):
        with_policy(OPTIONS, str(file))
    with pytest.raises(BadInput, match=r"absent\.yaml: No such file"):
        with_policy(OPTIONS, str(tmp_path / "absent.yaml"))


def test_amounts() -> None:
    assert read_memory("1.5gb") == 1536_000 == read_memory("1.5Gi")
    assert read_memory("512") == 512_000
    assert read_duration("1.5h") == 5400.0
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0
    assert percentile([], 0.95) == 0.0


def test_fairness_is_jains_index() -> None:
    assert fairness([Group(used=1.0, wanted=2.0), Group(used=2.0, wanted=4.0)]) == pytest.approx(1.0)
    assert fairness([Group(used=1.0, wanted=1.0), Group(used=0.0, wanted=4.0)]) == pytest.approx(0.5)


def test_an_agent_that_is_lost_gives_its_taskgroups_to_others_and_one_that_joins_takes_what_waits() -> None:
    given = scenario("2x2cpu,4gb", "1x3,cpus=1,over=1s")
    joined = read_agents("1x2cpu,4gb", first=2)[0]
    actions = (LoseAgent(600.0, "agent-0"), AddAgent(1200.0, joined), LoseAgent(1300.0, "absent"))
    options = replace(OPTIONS, loss_share=0.0)
    outcome = Simulation("run", given._replace(actions=actions), options).run(2400.0)
    lost = [sample for sample in outcome.samples if 700 < sample.at < 1200]
    assert {sample.waiting for sample in lost} == {1}
    assert max(sample.waited for sample in lost) == pytest.approx(590, abs=20)
    assert outcome.samples[-1].waiting == 0
    assert lost[0].cpus == pytest.approx(1.0, abs=0.01)
    assert outcome.samples[-1].cpus == pytest.approx(3 / 4, abs=0.05)


def test_a_request_and_the_end_of_a_taskgroup_are_actions() -> None:
    given = scenario("1x4cpu,8gb", "1x2,cpus=1,over=1s")
    application = given.creations[0].version.application
    scale = ScaleApplication(namespace="load", name=application, instances=3)
    key = f"load/{application}"
    actions = (EndTaskGroup(300.0, key, 0), EndTaskGroup(400.0, key, 1, failed=True), Submit(600.0, scale))
    outcome = Simulation("run", given._replace(actions=actions), OPTIONS).run(1200.0)
    group = outcome.groups["load"]
    # The first end is a success and stays; the failed taskgroup is launched again; the scale adds one.
    assert (group.finished, group.launched, group.pending) == (1, 4, 0)


def test_a_run_that_is_stopped_has_the_figures_up_to_then() -> None:
    run = Simulation("run", scenario("1x2cpu,4gb", "1x2,cpus=1,over=1s"), OPTIONS)
    parts: list[float] = []
    outcome = run.run(1200.0, parts.append, lambda: parts[-1] >= 0.5)
    assert not outcome.complete and outcome.seconds == pytest.approx(600, abs=2)
    assert outcome.groups["load"].used == pytest.approx(2 * 600, rel=0.02)
    assert len(outcome.samples) == 120
