"""The configuration of sessions: read as a whole, refused as a whole, with the path of every problem."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

import pytest

from offers.policy.session.configuration import DEFAULT, BadPolicy, Registry, default_policy, policy_of
from offers.policy.session.plugins.interface import Argument, Functions


def problems(document: Any, registry: Registry | None = None) -> list[str]:
    with pytest.raises(BadPolicy) as bad:
        policy_of(document, registry)
    return [str(problem) for problem in bad.value.problems]


def tiers(*plugins: Any) -> dict[str, Any]:
    return {"actions": "allocate", "tiers": [{"plugins": list(plugins)}]}


class Tenth:
    """A plug-in of a third party."""

    name = "tenth"
    arguments: Mapping[str, Argument] = {
        "factor": Argument("decimal", Fraction(1, 10), 0),
        "label": Argument("text", "x"),
    }

    def open(self, session: Any, arguments: Any) -> Functions:
        return Functions()


def test_the_default_has_two_tiers_and_two_actions() -> None:
    policy = default_policy()
    assert [choice.action.name for choice in policy.actions] == ["allocate", "backfill"]
    assert [[choice.plugin.name for choice in tier] for tier in policy.tiers] == [
        ["priority", "gang", "conformance"],
        ["drf", "predicates", "proportion", "nodeorder"],
    ]
    assert all(choice.trusted for tier in policy.tiers for choice in tier)


def test_arguments_are_typed_also_when_they_are_texts() -> None:
    policy = policy_of(
        tiers(
            {"name": "nodeorder", "arguments": {"leastrequested.weight": "3", "mostrequested.weight": 2}},
            {"name": "proportion", "arguments": {"strict": "True"}, "enableReclaimable": "false"},
            {"name": "tenth", "arguments": {"factor": "0.25"}},
        ),
        Registry([Tenth()]),
    )
    nodeorder, proportion, tenth = policy.tiers[0]
    assert nodeorder.arguments["leastrequested.weight"] == 3
    assert nodeorder.arguments["balancedresource.weight"] == 1
    assert proportion.arguments["strict"] is True
    assert proportion.off == {"enableReclaimable"}
    assert tenth.arguments == {"factor": Fraction(1, 4), "label": "x"}
    assert not tenth.trusted


def test_actions_and_sessions_have_settings() -> None:
    policy = policy_of(
        {
            **DEFAULT,
            "actions": "preempt,allocate",
            "configurations": [{"name": "preempt", "arguments": {"withinJobs": True}}],
            "session": {"onPluginFault": "repeat", "pluginSeconds": 0.5, "nominationSeconds": "30"},
        }
    )
    assert policy.actions[0].arguments == {"withinJobs": True}
    assert (policy.on_fault, policy.plugin_seconds, policy.nomination_seconds) == ("repeat", 0.5, 30.0)


def test_every_problem_is_named_with_its_path() -> None:
    document = {
        "actions": "allocate, fly, allocate",
        "tiers": [
            {"plugins": [{"name": "gang", "arguments": {"size": 3}}, {"name": "gnag"}, {"arguments": {}}]},
            {
                "plugins": [
                    {"name": "nodeorder", "arguments": {"leastrequested.weight": -1, "mostrequested.weight": "many"}},
                    {"name": "gang", "enableFlight": True, "enableJobOrder": "perhaps"},
                ],
                "colour": "red",
            },
        ],
        "configurations": [{"name": "reclaim"}, {"name": "allocate", "arguments": {"speed": 1}}],
        "session": {"onPluginFault": "panic", "pluginSeconds": -1, "rounds": 2},
        "queues": [],
    }
    found = problems(document)
    assert [problem.split(": ")[0] for problem in found] == [
        "queues",
        "session.rounds",
        "session.onPluginFault",
        "session.pluginSeconds",
        "configurations[0].name",
        "configurations[1].arguments.speed",
        "actions[1]",
        "actions[2]",
        "tiers[0].plugins[0].arguments.size",
        "tiers[0].plugins[1].name",
        "tiers[0].plugins[2].name",
        "tiers[1].colour",
        "tiers[1].plugins[0].arguments.leastrequested.weight",
        "tiers[1].plugins[0].arguments.mostrequested.weight",
        "tiers[1].plugins[1].enableFlight",
        "tiers[1].plugins[1].name",
        "tiers[1].plugins[1].enableJobOrder",
    ]


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([], "policy"),
        (7, "policy"),
        ({}, "actions"),
        ({"actions": ["allocate"], "tiers": []}, "actions"),
        ({"actions": "allocate", "tiers": {}}, "tiers"),
        ({"actions": "allocate", "tiers": ["gang"]}, "tiers[0]"),
        ({"actions": "allocate", "tiers": [{"plugins": ["gang"]}]}, "tiers[0].plugins[0]"),
        (tiers({"name": "gang", "arguments": []}), "tiers[0].plugins[0].arguments"),
    ],
)
def test_values_of_the_wrong_kind_are_refused(document: Any, path: str) -> None:
    assert path in [problem.split(": ")[0] for problem in problems(document)]


def test_a_registry_refuses_what_is_no_plugin_and_names_that_are_taken() -> None:
    class Nameless:
        arguments: ClassVar[dict[str, Argument]] = {}

        def open(self, session: Any, arguments: Any) -> Functions:
            return Functions()

    class Second(Tenth):
        name = "gang"

    class Closed:
        name = "closed"
        arguments: ClassVar[dict[str, Argument]] = {}

    for plugin, words in ((Nameless(), "`name`"), (Second(), "gang"), (Closed(), "`open`")):
        with pytest.raises(ValueError, match=words):
            Registry([plugin])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="`run`"):
        Registry(actions=[Tenth()])  # type: ignore[list-item]


@pytest.mark.parametrize("number", ["1e99999999", "9" * 5000, 10**400, "1e400", 2**31, float("nan"), float("inf")])
def test_numbers_of_any_size_are_refused_at_once(number: Any) -> None:
    document = {
        **tiers({"name": "nodeorder", "arguments": {"leastrequested.weight": number}}),
        "actions": "enqueue, allocate",
        "configurations": [{"name": "enqueue", "arguments": {"overcommit-factor": number}}],
        "session": {"pluginSeconds": number, "nominationSeconds": number},
    }
    found = problems(document)
    assert [problem.split(": ")[0] for problem in found] == [
        "session.pluginSeconds",
        "session.nominationSeconds",
        "configurations[0].arguments.overcommit-factor",
        "tiers[0].plugins[0].arguments.leastrequested.weight",
    ]
    assert all(len(problem) < 150 for problem in found)


def test_a_policy_without_actions_would_place_nothing() -> None:
    for actions in ("", " "):
        assert problems({**tiers(), "actions": actions}) == ["actions: names no action: nothing would be placed"]
