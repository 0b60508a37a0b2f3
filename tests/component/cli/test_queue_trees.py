"""`bcs queue` with the tree of the policy `hierarchical`, against the real API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from bcs_scheduler.cli.commands.bars import TREE_AMOUNTS, Bars
from bcs_scheduler.cli.kinds.objects.queuetrees import bars_of
from bcs_scheduler.core.options import CoreOptions, RolePartition
from offers.policy.hierarchy.configuration.document import canonical, partition_of
from offers.policy.session.configuration import default_policy
from tests.component.cli.test_extensions import bcs as bcs
from tests.component.cli.test_extensions import done
from tests.unit.api_support import CoreGateway

QUEUES = Path(__file__).parents[3] / "conf" / "queues.yaml"
TREE = yaml.safe_load(QUEUES.read_text())
SMALL = {"queues": [{"name": "batch"}, {"name": "default"}]}


@pytest.fixture
def gateway(request: pytest.FixtureRequest) -> CoreGateway:
    kind = getattr(request, "param", "")
    if kind == "simple":
        return CoreGateway()
    if kind == "trees":
        return CoreGateway(options=two_trees())
    if kind != "partitions":
        return CoreGateway(options=options())
    tree = RolePartition(hierarchy=partition_of(TREE, ("cpus", "mem")), hierarchy_document=canonical(TREE))
    return CoreGateway(options=CoreOptions(strict=True, partitions=(RolePartition(("web",), default_policy()), tree)))


def options() -> CoreOptions:
    return CoreOptions(
        strict=True, hierarchy=partition_of(TREE, ("cpus", "mem")), hierarchy_document=canonical(TREE), validate=True
    )


def two_trees() -> CoreOptions:
    """The tree of the example for all roles, and a small one for the role batch."""
    parts = [
        RolePartition(
            (role,), hierarchy=partition_of(tree, ("cpus", "mem")), hierarchy_document=canonical(tree), name=name
        )
        for role, tree, name in (("*", TREE, ""), ("batch", SMALL, "night"))
    ]
    return CoreOptions(strict=True, partitions=tuple(parts))


def exported(bcs: Any) -> Any:
    return yaml.safe_load(bcs("queue", "export").out)


def rows(bcs: Any, *command: str) -> list[list[str]]:
    return [line.split() for line in bcs("queue", *command, "-o", "table").out.splitlines()]


def test_the_tree_is_exported_changed_and_applied(bcs: Any, tmp_path: Path) -> None:
    tree = exported(bcs)
    assert tree == TREE
    tree["queues"].append({"name": "fresh"})
    path = tmp_path / "queues.yaml"
    path.write_text(yaml.safe_dump(tree))
    assert done(bcs("queue", "apply", "-f", str(path), "--dry-run")) == [("queue", "root", "applied")]
    assert exported(bcs) == TREE
    assert done(bcs("queue", "apply", "-f", str(path), "--expected", "1")) == [("queue", "root", "applied")]
    assert exported(bcs) == tree
    refused = bcs("queue", "apply", "-f", str(QUEUES), "--expected", "1")
    assert refused.code != 0 and "the present revision is 2, not 1" in refused.err
    assert done(bcs("queue", "apply", "-f", str(path))) == [("queue", "root", "unchanged")]
    path.write_text("queues: [{name: a.b}, {name: c, resources: {max: {pods: 1}}}]")
    bad = bcs("queue", "apply", "-f", str(path))
    assert bad.code != 0 and "$.queues[0].name" in bad.err and "$.queues[1].resources.max.pods" in bad.err
    path.write_text("- queues")
    assert "one object with the field queues or partitions is needed" in bcs("queue", "apply", "-f", str(path)).err


def test_queues_without_effect_are_listed_with_a_warning(bcs: Any) -> None:
    listed = bcs("get", "queues", "-o", "json")
    assert [one["metadata"]["name"] for one in json.loads(listed.out)] == ["default"]
    assert "warning: the policy is hierarchical" in listed.err and "bcs queue list" in listed.err
    assert "warning" not in bcs("queue", "list").err


@pytest.mark.parametrize("gateway", ["partitions", "simple"], indirect=True)
def test_queues_with_effect_are_listed_without_a_warning(bcs: Any) -> None:
    assert "warning" not in bcs("get", "queues").err


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.yaml", "queues:\n- name: a\n  name: b\n", "not YAML: line 3, column 3: the key 'name' is given twice"),
        (
            "a.yaml",
            "queues: &q\n- {name: a, queues: *q}\n",
            "not YAML: line 2, column 21: the value &q contains itself",
        ),
        ("a.yaml", "queues: " + "[" * 3000, "not YAML: nested more than 66 levels deep"),
        ("a.json", '{"queues": [], "queues": []}', "not JSON: the key 'queues' is given twice"),
        ("a.json", '{"queues": ' + "[" * 200_000, "not JSON: nested more than 66 levels deep"),
        ("a.json", '{"queues": ' + "9" * 5000 + "}", "not JSON: Exceeds the limit"),
    ],
)
def test_files_that_could_be_taken_differently_are_refused(
    bcs: Any, tmp_path: Path, name: str, text: str, found: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    for command in (("queue", "apply"), ("apply",), ("diff",)):
        refused = bcs(*command, "-f", str(path))
        assert refused.code != 0 and f"{path}: {found}" in refused.err, command
    assert exported(bcs) == TREE


def test_describe_takes_queues_of_the_tree(bcs: Any) -> None:
    described = bcs("describe", "queue", "root.online").out
    assert "Guaranteed" in described and "cpus=6" in described
    assert json.loads(bcs("describe", "queue", "online", "-o", "json").out)["name"] == "root.online"
    missing = bcs("describe", "queue", "root.nowhere")
    assert missing.code != 0 and "queue root.nowhere does not exist" in missing.err


def test_a_dry_run_prints_its_effect(bcs: Any) -> None:
    said = bcs("queue", "apply", "-f", str(QUEUES), "--dry-run", "-o", "text").out
    assert "queue/root unchanged (dry run)" in said
    said = bcs("queue", "stop", "batch", "--dry-run", "-o", "text").out
    assert "queue/root.batch stopped (dry run)" in said
    assert "0 more taskgroups would wait" in said and "0 taskgroups would be preempted" in said


def test_queues_are_created_set_and_deleted(bcs: Any) -> None:
    assert done(bcs("queue", "create", "batch.weekly", "--max", "cpus=3", "--max-applications", "2")) == [
        ("queue", "root.batch.weekly", "created")
    ]
    assert bcs("queue", "create", "root.batch.weekly").code != 0
    assert "queue root.none is not configured" in bcs("queue", "create", "none.below").err
    done(bcs("queue", "set", "root.batch.weekly", "--guaranteed", "cpus=1", "--property", "priority.offset=5"))
    entry = exported(bcs)["queues"][1]["queues"][-1]
    assert entry == {
        "name": "weekly",
        "resources": {"guaranteed": {"cpus": 1}, "max": {"cpus": 3}},
        "maxapplications": 2,
        "properties": {"priority.offset": "5"},
    }
    done(bcs("queue", "set", "batch.weekly", "--max", "cpus-", "--property", "priority.offset-"))
    described = json.loads(bcs("queue", "describe", "batch.weekly", "-o", "json").out)
    assert described["spec"]["max"] == {} and described["spec"]["guaranteed"] == {"cpus": 1.0}
    assert described["spec"]["maxApplications"] == 2
    refused = bcs("queue", "set", "batch.weekly", "--max", "cpus=0.5")
    assert refused.code != 0 and "resources" in refused.err
    done(bcs("queue", "set", "batch.weekly", "--max", "mem=2Gi", "--max", "cpus=1500m"))
    described = json.loads(bcs("queue", "describe", "batch.weekly", "-o", "json").out)
    assert described["spec"]["max"] == {"cpus": 1.5, "mem": 2048.0}
    assert "unknown unit" in bcs("queue", "set", "batch.weekly", "--max", "mem=2Xi").err
    assert "no --weight" in bcs("queue", "set", "batch.weekly", "--weight", "3").err
    assert bcs("queue", "set", "batch.weekly", "--max", "gpus=1", "--max", "nvidia.com/gpu=8").code == 0
    shown = json.loads(bcs("queue", "describe", "batch.weekly", "-o", "json").out)
    assert (shown["spec"]["max"]["gpus"], shown["spec"]["max"]["nvidia.com/gpu"]) == (1, 8)
    assert "nvidia.com/gpu  [" in bcs("queue", "top", "-o", "table").out
    assert bcs("queue", "set", "batch.weekly", "--max", "gpus-", "--max", "nvidia.com/gpu-").code == 0
    assert "queues count no taskgroups" in bcs("queue", "set", "batch.weekly", "--max", "pods=1").err
    assert done(bcs("queue", "delete", "batch.weekly")) == [("queue", "root.batch.weekly", "deleted")]
    assert bcs("queue", "describe", "batch.weekly").code != 0
    assert "is not configured" in bcs("queue", "delete", "batch.weekly").err


def test_queues_are_listed_and_described_with_their_state(bcs: Any) -> None:
    assert done(bcs("queue", "drain", "online")) == [("queue", "root.online", "draining")]
    assert done(bcs("queue", "stop", "root.batch.night")) == [("queue", "root.batch.night", "stopped")]
    listed = rows(bcs, "list")
    assert listed[0][:4] == ["NAME", "STATE", "GUARANTEED", "USED"]
    assert [row[0] for row in listed[1:]] == [
        "root", "root.batch", "root.batch.night", "root.batch.reports", "root.default", "root.online",
    ]  # fmt: skip
    assert {row[0]: row[1] for row in listed[1:]} | {"root.online": "Draining", "root.batch.night": "Stopped"} == {
        row[0]: row[1] for row in listed[1:]
    }
    described = bcs("queue", "describe", "online", "-o", "text").out
    assert "Draining" in described and "cpus=6" in described and "preemption.delay=5.0" in described
    assert done(bcs("queue", "start", "online")) == [("queue", "root.online", "started")]
    assert "Active" in bcs("queue", "describe", "online", "-o", "text").out
    assert "root cannot drain" in bcs("queue", "drain", "root").err


def test_revisions_are_listed_compared_and_brought_back(bcs: Any) -> None:
    bcs("queue", "create", "fresh")
    bcs("queue", "delete", "online")
    assert bcs("queue", "history", "-o", "table").err == ""
    assert [row[0] for row in rows(bcs, "history")[1:]] == ["3*", "2", "1"]
    assert yaml.safe_load(bcs("queue", "history", "--revision", "1").out) == TREE
    compared = bcs("queue", "history", "--diff", "1", "2").out
    assert "+- name: fresh" in compared and "revision 1" in compared
    assert done(bcs("queue", "rollback", "--dry-run")) == [("queue", "root", "rolled back")]
    assert done(bcs("queue", "rollback", "--to", "1")) == [("queue", "root", "rolled back")]
    assert exported(bcs) == TREE
    assert "rolled back to revision 1" in bcs("queue", "history", "-o", "table").out
    assert bcs("queue", "rollback", "--to", "99").code != 0
    assert bcs("queue", "history", "--revision", "1", "--diff", "1", "2").code == 2


def test_the_bars_are_a_tree(bcs: Any) -> None:
    drawn = bcs("queue", "top", "-o", "table").out.splitlines()
    assert TREE_AMOUNTS in drawn[0]
    assert [line.split("cpus")[0].rstrip() for line in drawn[1:]] == [
        "root", "├─ batch", "│  ├─ night", "│  └─ reports", "├─ default", "└─ online",
    ]  # fmt: skip
    assert [row["name"] for row in json.loads(bcs("queue", "top", "online", "-o", "json").out)] == ["root.online"]
    assert "queue root.none does not exist" in bcs("queue", "top", "none").err


def test_the_bar_of_a_queue_shows_guarantee_and_maximum() -> None:
    rest = {"mem": 0.0, "disk": 0.0, "gpus": 0.0}
    queue = {
        "partition": "default",
        "name": "root.a",
        "spec": {"guaranteed": {"cpus": 4.0}, "max": {"cpus": 10.0}},
        "status": {"used": {"cpus": 2.0}, "pending": {"queue_limit": 3}},
        "total": {"cpus": 20.0, **rest},
    }
    (line,) = Bars(bars_of([queue]), headers=False).lines(60)
    assert "2/4/10" in str(line) and "3 queue limit" in str(line)


@pytest.mark.parametrize("gateway", ["simple"], indirect=True)
def test_other_policies_have_queues_of_their_own(bcs: Any) -> None:
    assert rows(bcs, "list")[0][:2] == ["NAME", "WEIGHT"]
    assert "are for the tree" in bcs("queue", "create", "x", "--max-applications", "1").err
    assert "scheduler.policy is not hierarchical" in bcs("queue", "export").err


def test_a_file_of_yunikorn_is_applied_as_it_is(bcs: Any) -> None:
    path = QUEUES.parent / "yunikorn-queues.yaml"
    assert done(bcs("queue", "apply", "-f", str(path))) == [("queue", "root", "applied")]
    (root,) = exported(bcs)["queues"]
    assert root["queues"][1]["resources"]["max"] == {"cpus": 8, "mem": 6144, "nvidia.com/gpu": 8}


@pytest.mark.parametrize("gateway", ["partitions"], indirect=True)
def test_with_several_partitions_full_names_belong_to_the_tree(bcs: Any) -> None:
    assert done(bcs("queue", "create", "batch", "--weight", "3")) == [("queue", "batch", "created")]
    assert done(bcs("queue", "create", "root.fresh", "--max", "cpus=1")) == [("queue", "root.fresh", "created")]
    said = bcs("queue", "list", "-o", "table").out
    assert "Roles *: the tree of queues" in said and "Roles web: queues with shares" in said
    assert "root.fresh" in said and "\nbatch " in said
    assert "root.fresh" in bcs("queue", "top").out and "root.fresh" not in bcs("queue", "top", "batch").out
    assert "batch" in bcs("queue", "describe", "batch").out
    assert done(bcs("queue", "delete", "batch", "root.fresh")) == [
        ("queue", "batch", "deleted"),
        ("queue", "root.fresh", "deleted"),
    ]


@pytest.mark.parametrize("gateway", ["trees"], indirect=True)
def test_a_partition_names_one_of_several_trees(bcs: Any, tmp_path: Path) -> None:
    assert rows(bcs, "partitions") == [
        ["NAME", "POLICY", "ROLES", "REVISION"],
        ["default", "hierarchical", "*", "1"],
        ["night", "hierarchical", "batch", "1"],
    ]
    listed = rows(bcs, "list")
    assert listed[0][:2] == ["PARTITION", "NAME"]
    assert [row[:2] for row in listed[1:] if row[1] == "root.batch"] == [
        ["default", "root.batch"],
        ["night", "root.batch"],
    ]
    assert [row[1] for row in rows(bcs, "list", "-P", "night")[1:]] == ["root", "root.batch", "root.default"]

    changed = bcs("queue", "set", "batch", "--max", "cpus=3", "-P", "night", "-o", "text").out
    assert changed == "queue/root.batch updated (partition night, revision 2)\n"
    assert done(bcs("queue", "set", "batch", "--max", "cpus=9")) == [("queue", "root.batch", "updated")]
    most = {part: describe(bcs, "batch", "-P", part)["spec"]["max"]["cpus"] for part in ("night", "default")}
    assert most == {"night": 3.0, "default": 9.0}, "without a partition, default changes"
    assert describe(bcs, "batch")["partition"] == "default"
    assert "Partition" in bcs("queue", "describe", "batch", "-P", "night", "-o", "text").out

    assert [row[0] for row in rows(bcs, "history", "-P", "night")[1:]] == ["2*", "1"]
    assert "+  resources" in bcs("queue", "history", "--diff", "1", "2", "-P", "night").out
    assert yaml.safe_load(bcs("queue", "history", "--revision", "1", "-P", "night").out) == SMALL
    assert done(bcs("queue", "stop", "batch", "-P", "night")) == [("queue", "root.batch", "stopped")]
    assert describe(bcs, "batch")["status"]["state"] == "Active"
    assert done(bcs("queue", "start", "batch", "-P", "night")) == [("queue", "root.batch", "started")]
    assert done(bcs("queue", "create", "fresh", "-P", "night")) == [("queue", "root.fresh", "created")]
    assert done(bcs("queue", "delete", "fresh", "-P", "night")) == [("queue", "root.fresh", "deleted")]
    assert done(bcs("queue", "rollback", "--to", "1", "-P", "night")) == [("queue", "root", "rolled back")]
    assert yaml.safe_load(bcs("queue", "export", "-P", "night").out) == SMALL

    path = tmp_path / "night.yaml"
    path.write_text(yaml.safe_dump({"partitions": [{"name": "night", "queues": [{"name": "only"}]}]}))
    assert (
        bcs("queue", "apply", "-f", str(path), "-o", "text").out == "queue/root applied (partition night, revision 6)\n"
    )
    assert exported(bcs) != yaml.safe_load(bcs("queue", "export", "-P", "night").out)


def describe(bcs: Any, *words: str) -> Any:
    return json.loads(bcs("queue", "describe", *words, "-o", "json").out)


@pytest.mark.parametrize("gateway", ["trees"], indirect=True)
def test_an_unknown_partition_is_refused_with_the_known_ones(bcs: Any) -> None:
    for command in (
        ("list",),
        ("top",),
        ("export",),
        ("history",),
        ("stop", "batch"),
        ("set", "batch", "--max", "cpus=1"),
    ):
        refused = bcs("queue", *command, "-P", "day")
        assert refused.code == 3 and "partitions with a tree: default, night" in refused.err, command


@pytest.mark.parametrize("gateway", ["trees"], indirect=True)
def test_the_bars_of_several_trees_name_their_partitions(bcs: Any) -> None:
    drawn = [line.split("cpus")[0].rstrip() for line in bcs("queue", "top", "-o", "table").out.splitlines()[1:]]
    assert drawn == [
        "root (default)", "├─ batch", "│  ├─ night", "│  └─ reports", "├─ default", "└─ online",
        "root (night)", "├─ batch", "└─ default",
    ]  # fmt: skip
    drawn = [
        line.split("cpus")[0].rstrip() for line in bcs("queue", "top", "batch", "-o", "table").out.splitlines()[1:]
    ]
    assert drawn == ["root.batch (default)", "root.batch (night)"]


@pytest.mark.parametrize("gateway", ["trees"], indirect=True)
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("list", "-P", "n"), {"night"}),
        (("list", "-P", ""), {"night", "default"}),
        (("stop", "-P", "night", "root."), {"root.batch", "root.default"}),
    ],
)
def test_names_of_partitions_and_of_their_queues_are_completed(
    bcs: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], found: set[str]
) -> None:
    monkeypatch.setenv("_BCS_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(("bcs", "queue", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words) + 1))
    assert {line.partition(",")[2] for line in bcs().out.splitlines()} == found
