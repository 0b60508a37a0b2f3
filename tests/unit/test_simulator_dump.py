"""A dump with the demands of its applications: constraints, priorities, groups, owners, and work that waited."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.core.interface.requests import CreateApplication, ScaleApplication, ScaleDeployment
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.simulator.amounts import BadInput
from bcs_scheduler.simulator.dump import read_dump
from bcs_scheduler.simulator.inputs import with_policy
from bcs_scheduler.simulator.model import Scenario, Submit
from bcs_scheduler.simulator.simulation import Outcome, Simulation
from store.records import Application, Daemonset, Deployment, PodGroup, PriorityClass, TaskGroup, Version

OPTIONS = CoreOptions(strict=True, validate=True)


def agent(number: int, **more: Any) -> dict[str, Any]:
    total = {"cpus": 4, "mem": 8192, "disk": 9000}
    return {"id": f"S{number}", "hostname": f"h{number}", "ip": f"10.0.0.{number}", "total": total, **more}


def held(application: str, index: int, agent: str, cpus: float = 1) -> dict[str, Any]:
    return {"id": f"{index}.{application}.shop.c.17", "namespace": "shop", "application": application, "index": index,
            "status": "Running", "agent": agent, "resources": {"cpus": cpus, "mem": 544}}  # fmt: skip


def demand(application: str, cpus: float = 1, **more: Any) -> dict[str, Any]:
    containers = [{"resources": {"cpus": cpus, "mem": 512}}]
    return {"namespace": "shop", "application": application, "containers": containers, **more}


def wanted(name: str, number: int, **more: Any) -> dict[str, Any]:
    return {"namespace": "shop", "name": name, "wanted": number, "createTime": 5, **more}


def start(folder: Path, **sections: Any) -> Scenario:
    file = folder / "cluster.json"
    whole = {"format": "bcs-dump", "formatVersion": 1, "agents": [agent(1), agent(2), agent(3)], "taskgroups": []}
    file.write_text(json.dumps({**whole, **sections}))
    return read_dump(file)


def run(given: Scenario, seconds: float = 600.0, options: CoreOptions = OPTIONS) -> Outcome:
    outcome = Simulation("run", given, options).run(seconds)
    assert outcome.refused == []
    return outcome


def requests(given: Scenario) -> list[Any]:
    return [action.request for action in given.actions if isinstance(action, Submit)]


def test_constraints_hold_for_the_taskgroups_that_wait(tmp_path: Path) -> None:
    unique = [[{"name": "hostname", "operator": "UNIQUE"}]]
    given = start(
        tmp_path,
        taskgroups=[held("web", 0, "S1"), held("web", 1, "S2")],
        applications=[wanted("web", 4)],
        demands=[demand("web", constraints=unique)],
    )
    assert requests(given) == [ScaleApplication(namespace="shop", name="web", instances=4)]
    shop = run(given).groups["shop"]
    # The third taskgroup runs on the third agent; the fourth has no agent of its own.
    assert (shop.launched, shop.pending) == (1, 1)


def test_work_without_taskgroups_is_created_and_priorities_decide(tmp_path: Path) -> None:
    given = start(
        tmp_path,
        applications=[wanted("low", 12, createTime=1), wanted("high", 12, createTime=2)],
        demands=[demand("low"), demand("high", priority=10, priorityClass="urgent")],
        priorityClasses=[{"name": "urgent", "value": 10}],
    )
    assert [one.version.application for one in requests(given) if isinstance(one, CreateApplication)] == ["low", "high"]
    assert [one.name for one in given.records if isinstance(one, PriorityClass)] == ["urgent"]
    options = with_policy(OPTIONS, str(Path(__file__).parents[2] / "conf/policy.yaml"))
    simulation = Simulation("run", given, options)
    simulation.run(600.0)
    running = [one.application for one in simulation._core.state.taskgroups.values()]
    assert running.count("high") > running.count("low")


def test_deployments_and_daemonsets_keep_their_owners(tmp_path: Path) -> None:
    given = start(
        tmp_path,
        agents=[agent(1), agent(2), agent(3, cordoned=True)],
        taskgroups=[
            held("web-1", 0, "S1"),
            held("web-1", 1, "S2"),
            held("log", 0, "S1", 0.5),
            held("log", 1, "S2", 0.5),
        ],
        applications=[wanted("web-1", 3, deployment="web"), wanted("log", 2)],
        deployments=[{"namespace": "shop", "name": "web", "application": "web-1", "wanted": 3, "maxSurge": 1}],
        daemonsets=[{"namespace": "shop", "name": "log", "maxUnavailable": 1}],
        demands=[demand("web-1"), demand("log", 0.4)],
    )
    assert [one.name for one in given.records if isinstance(one, Deployment)] == ["web"]
    assert [one.name for one in given.records if isinstance(one, Daemonset)] == ["log"]
    assert requests(given) == [ScaleDeployment(namespace="shop", name="web", instances=3)]
    shop = run(given).groups["shop"]
    assert (shop.launched, shop.pending, shop.evicted, shop.finished) == (1, 0, 0, 0)


def test_groups_wait_for_all_their_members(tmp_path: Path) -> None:
    group = {"namespace": "shop", "name": "pair", "minMember": 14}
    sections: dict[str, Any] = {
        "applications": [wanted("one", 7), wanted("two", 7)],
        "demands": [demand("one", podGroup="pair"), demand("two", podGroup="pair")],
    }
    given = start(tmp_path, podGroups=[group], **sections)
    assert [one.min_member for one in given.records if isinstance(one, PodGroup)] == [14]
    assert run(given).groups["shop"].launched == 0, "12 cores have no room for 14"
    assert run(start(tmp_path, podGroups=[{**group, "minMember": 10}], **sections)).groups["shop"].launched == 12


def test_the_stored_tree_is_a_policy(tmp_path: Path) -> None:
    queue = {"name": "small", "resources": {"max": {"cpus": 3}}}
    spec = {"queues": [queue], "placementrules": [{"name": "provided"}]}
    given = start(
        tmp_path,
        namespaces=[{"name": "shop", "queue": "root.small"}],
        applications=[wanted("web", 8)],
        demands=[demand("web")],
        queueTreeDocument={"revision": 2, "spec": spec},
    )
    options = with_policy(OPTIONS, "dump", given.trees)
    assert run(given, options=options).groups["root.small"].launched == 3
    assert run(given).groups["root.small"].launched == 8
    with pytest.raises(BadInput, match="the dump has no tree of queues"):
        with_policy(OPTIONS, "dump", start(tmp_path).trees)
    with pytest.raises(BadInput, match="the tree of queues is refused"):
        with_policy(OPTIONS, "dump", {"default": {"queues": [{"name": "a", "sort": 1}]}})


RULES = {"placementrules": [{"name": "provided"}]}


def test_one_of_several_trees_is_a_policy(tmp_path: Path) -> None:
    trees = [
        {"partition": name, "spec": {"queues": [{"name": "small", "resources": {"max": {"cpus": most}}}], **RULES}}
        for name, most in (("day", 2), ("night", 5))
    ]
    given = start(
        tmp_path,
        namespaces=[{"name": "shop", "queue": "root.small"}],
        applications=[wanted("web", 8)],
        demands=[demand("web")],
        queueTreeDocument={},
        queueTreeDocuments=trees,
    )
    for name, most in (("day", 2), ("night", 5)):
        found = run(given, options=with_policy(OPTIONS, f"dump:{name}", given.trees))
        assert found.groups["root.small"].launched == most
    with pytest.raises(BadInput, match=r"several partitions have a tree of queues.*: day, night"):
        with_policy(OPTIONS, "dump", given.trees)
    with pytest.raises(BadInput, match="--policy: dump:week: partition week has no tree of queues"):
        with_policy(OPTIONS, "dump:week", given.trees)


def test_hidden_constraints_are_left_out_with_a_note(tmp_path: Path) -> None:
    hidden = [[{"name": "zone", "operator": "LIKE", "hidden": True}, {"name": "zone", "operator": "UNIQUE"}]]
    given = start(
        tmp_path, taskgroups=[held("web", 0, "S1")], applications=[wanted("web", 1)],
        demands=[demand("web", constraints=hidden)],
    )  # fmt: skip
    assert given.notes == ("1 constraints are left out, because the dump hides their values.",)
    assert [one.constraints for one in given.records if isinstance(one, Version)] == [()]


def test_the_placements_of_a_dump_are_unchanged_at_time_0(tmp_path: Path) -> None:
    taskgroups = [held("web", n, f"S{n % 3 + 1}", 0.5) for n in range(6)]
    taskgroups += [held("db", n, f"S{n + 1}", 1) for n in range(2)]
    given = start(
        tmp_path, taskgroups=taskgroups, applications=[wanted("web", 6), wanted("db", 2)],
        demands=[demand("web", 0.4), demand("db", constraints=[[{"name": "hostname", "operator": "UNIQUE"}]])],
    )  # fmt: skip
    before = {one.id: one.agent_id for one in given.records if isinstance(one, TaskGroup)}
    simulation = Simulation("run", given, OPTIONS)
    outcome = simulation.run(3600.0)
    after = {one.id: one.agent_id for one in simulation._core.state.taskgroups.values()}
    assert after == before and len(before) == 8
    assert outcome.groups["shop"].launched == 0 == outcome.groups["shop"].pending
    assert {one.name for one in given.records if isinstance(one, Application)} == {"web", "db"}


def test_jobs_that_have_finished_do_not_start_again(tmp_path: Path) -> None:
    ended = [{**held("job", n, "S1"), "status": "Finish"} for n in range(2)]
    failed = [{**held("once", 0, "S1"), "status": "Failed"}, {**held("again", 0, "S1"), "status": "Failed"}]
    given = start(
        tmp_path,
        taskgroups=[*ended, *failed, held("job", 2, "S2"), {**held("done", 0, "S1"), "status": "Finish"}],
        applications=[wanted("job", 4), wanted("done", 1), wanted("once", 1), wanted("again", 1)],
        demands=[demand("job"), demand("done"), demand("once", restartPolicy="Never"), demand("again")],
    )
    asked = requests(given)
    assert [one.version.application for one in asked if isinstance(one, CreateApplication)] == ["again"]
    assert [(one.name, one.instances) for one in asked if isinstance(one, ScaleApplication)] == [("job", 2)]
    assert run(given).groups["shop"].launched == 2
