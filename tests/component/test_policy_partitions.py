"""Partitions of roles with a policy each: the file, its mistakes, and the core that is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from bcs_scheduler.decisions.format import Begin
from bcs_scheduler.service import core_options
from bcs_scheduler.settings.config import load_settings
from bcs_scheduler.settings.partitions import partitions_of_settings
from bcs_scheduler.settings.recorded import recorded_settings, settings_of
from bcs_scheduler.settings.sections import ConfigError, Settings

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "conf" / "policies.yaml"
ROLES = ("*", "prod", "web", "batch")


def settings(path: Path, **more: str) -> Settings:
    flags = {"scheduler.policies_file": str(path), "mesos.roles": ",".join(ROLES), **more}
    return load_settings(None, {}, flags)


def refused(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "policies.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as bad:
        partitions_of_settings(str(path), ROLES)
    first, *problems = str(bad.value).splitlines()
    assert first == f"scheduler.policies_file: {path} is refused:"
    return [problem.strip() for problem in problems]


def test_the_example_gives_each_role_its_policy() -> None:
    options = core_options(settings(EXAMPLE))
    kinds = {role: options.part_of(role).kind for role in (*ROLES, "other")}
    assert kinds == {
        "*": "hierarchical",
        "prod": "session",
        "web": "session",
        "batch": "hierarchical",
        "other": "hierarchical",
    }
    assert [part.title for part in options.parts()] == ["", "batch", "default"]
    tree = options.part_of("*").hierarchy
    assert tree is not None and [queue.name for queue in tree.root.queues] == ["default", "batch", "online"]
    assert options.session_clock is not None and options.plugin_watch is not None


def test_without_a_file_one_policy_is_for_all_roles() -> None:
    options = core_options(load_settings(None, {}, {"scheduler.policy": "session"}))
    assert options.partitions == () and options.part_of("any").kind == "session"
    assert [part.roles for part in options.parts()] == [("*",)]


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (
            'policies: [{roles: [prod, web], policy: session}, {roles: ["*", web], policy: simple}]',
            ["policies[1].roles[1]: role web is in policies[0], too"],
        ),
        (
            "policies: [{roles: [prod], policy: simple}]",
            ['policies: no entry has the role "*", which stands for all other roles'],
        ),
        (
            'policies: [{roles: ["*", shop], policy: simple}]',
            ["policies[0].roles[1]: role shop is not one of mesos.roles: *, prod, web, batch"],
        ),
        (
            'policies: [{roles: ["*"], policy: session, file: none.yaml}]',
            ["policies[0].file: {folder}/none.yaml: No such file or directory"],
        ),
        (
            'policies: [{roles: ["*"], policy: session, file: bad.yaml}]',
            ["policies[0].file: bad.yaml: tiers: is missing"],
        ),
        (
            'policies: [{roles: ["*"], policy: hierarchical, document: {queues: [{name: a}, {name: a}]}}]',
            ["policies[0].document: queues[1].name: two queues have the name a"],
        ),
        (
            'policies: [{roles: ["*"], policy: hierarchical}, {roles: [web], policy: hierarchical}]',
            [
                "policies[1].name: policies[0] has the name default, too; a tree of queues without a name has the "
                "name default"
            ],
        ),
        (
            'policies: [{roles: ["*"], policy: hierarchical, name: a}, {roles: [web], policy: simple, name: a}]',
            ["policies[1].name: policies[0] has the name a, too"],
        ),
        (
            'policies: [{roles: [web], policy: fair}, {roles: ["*", web], policy: hierarchical, name: A.b}]',
            [
                "policies[0].policy: must be one of simple, session, hierarchical",
                "policies[1].name: must be a DNS label: lower-case letters, digits and dashes",
            ],
        ),
        (
            'policies: [3, {roles: ["*", shop], policy: simple}]',
            [
                "policies[0]: must be a section with roles and policy",
                "policies[1].roles[1]: role shop is not one of mesos.roles: *, prod, web, batch",
            ],
        ),
        (
            'policies: [{roles: ["*"], policy: simple, file: x.yaml}]',
            [
                "policies[0].file: {folder}/x.yaml: No such file or directory",
                "policies[0]: the policy simple has no file",
            ],
        ),
        (
            "policies: [{roles: [], policy: fair, weight: 1}, 3]\nmore: 1",
            [
                "more: unknown field",
                "policies[0].weight: unknown field",
                "policies[0].roles: must be a list of names of roles",
                "policies[0].policy: must be one of simple, session, hierarchical",
                "policies[1]: must be a section with roles and policy",
            ],
        ),
        ("roles: [web]", ["policies: must be a list of partitions"]),
    ],
)
def test_a_file_is_refused_with_all_its_mistakes(tmp_path: Path, text: str, problems: list[str]) -> None:
    (tmp_path / "bad.yaml").write_text("actions: allocate\n")
    assert refused(tmp_path, text) == [problem.format(folder=tmp_path) for problem in problems]


@pytest.mark.parametrize("more", [{"scheduler.policy": "session"}, {"scheduler.policy_file": "x.yaml"}])
def test_partitions_exclude_the_policy_of_all_roles(more: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as bad:
        settings(EXAMPLE, **more)
    assert "scheduler.polic" in str(bad.value)


def test_the_decision_log_keeps_the_partitions_with_their_files(tmp_path: Path) -> None:
    kept, text = recorded_settings(settings(EXAMPLE))
    begin = Begin(epoch=1, program="1", wall=0.0, elapsed=None, limit=1, sealed=False, settings=kept, policy=text)
    before, after = core_options(settings(EXAMPLE)), core_options(settings_of(begin, str(tmp_path)))
    assert after.partitions == before.partitions and len(after.partitions) == 3


TREES = """
policies:
  - {roles: [batch], policy: hierarchical, file: yunikorn.yaml}
  - {roles: [web], policy: hierarchical, name: online, document: {queues: [{name: web}]}}
  - {roles: [prod], policy: session, name: prod}
  - {roles: ["*"], policy: hierarchical}
"""


def test_several_partitions_have_a_tree_each(tmp_path: Path) -> None:
    path = tmp_path / "policies.yaml"
    path.write_text(TREES)
    (tmp_path / "yunikorn.yaml").write_text("partitions: [{name: gpu, queues: [{name: a}]}]")
    options = core_options(settings(path))
    assert [(part.title, part.kind) for part in options.parts()] == [
        ("gpu", "hierarchical"),
        ("online", "hierarchical"),
        ("prod", "session"),
        ("default", "hierarchical"),
    ]
    kept, text = recorded_settings(settings(path))
    begin = Begin(epoch=1, program="1", wall=0.0, elapsed=None, limit=1, sealed=False, settings=kept, policy=text)
    assert core_options(settings_of(begin, str(tmp_path))).partitions == options.partitions
