"""Taints with effects, tolerations with operators, ports of hosts."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offers.host_ports import HostPort
from offers.rules.constraints import compile_rules
from offers.rules.taints import REFUSING, Effect, Operator, Taint, Toleration, untolerated

EFFECTS: tuple[Effect, ...] = get_args(Effect)
OPERATORS: tuple[Operator, ...] = get_args(Operator)

keys, values = st.sampled_from(("dedicated", "old", "disk")), st.sampled_from(("", "gpu", "yes"))
taints = st.builds(Taint, keys, values, st.sampled_from(EFFECTS))
tolerations = st.builds(
    Toleration, st.one_of(st.just(""), keys), st.sampled_from(OPERATORS), values, st.sampled_from(EFFECTS)
)


@given(st.lists(taints), st.lists(tolerations))
def test_the_first_taint_that_nothing_tolerates_refuses(there: list[Taint], given_: list[Toleration]) -> None:
    found = untolerated(there, given_)
    if found is None:
        for taint in there:
            assert taint.effect == "PreferNoSchedule" or any(one.tolerates(taint) for one in given_)
    else:
        assert (found.effect or "NoSchedule") in REFUSING
        assert not any(one.tolerates(found) for one in given_)
        assert untolerated(there[: there.index(found)], given_) is None


@given(st.lists(taints), st.lists(tolerations), tolerations)
def test_one_more_toleration_never_refuses_more(there: list[Taint], given_: list[Toleration], more: Toleration) -> None:
    if untolerated(there, given_) is None:
        assert untolerated(there, [more, *given_]) is None


@given(taints, tolerations)
def test_a_toleration_word_for_word(taint: Taint, toleration: Toleration) -> None:
    effect = toleration.effect in ("", taint.effect or "NoSchedule")
    everything = toleration.operator == "Exists" and not toleration.key
    equal = toleration.operator == "Exists" or toleration.value == taint.value
    assert toleration.tolerates(taint) == (effect and (everything or (toleration.key == taint.key and equal)))


@given(st.lists(taints))
def test_existing_without_key_or_effect_tolerates_everything(there: list[Taint]) -> None:
    assert untolerated(there, [Toleration(operator="Exists")]) is None


@pytest.mark.parametrize(
    ("toleration", "admitted"),
    [
        ([], "n3"),
        ([Toleration(operator="Exists")], "n1 n2 n3 n4"),
        ([Toleration("dedicated", "Equal", "gpu", "NoExecute")], "n3"),
        ([Toleration("cordoned", "Exists")], "n3 n4"),
    ],
)
def test_scenario_10_of_the_specification(toleration: list[Toleration], admitted: str) -> None:
    nodes = {
        "n1": Taint("dedicated", "gpu", "NoSchedule"),
        "n2": Taint("maint", "", "NoExecute"),
        "n3": Taint("x", "y", "PreferNoSchedule"),
        "n4": Taint("cordoned", "", "NoSchedule"),
    }
    assert " ".join(name for name, taint in nodes.items() if untolerated([taint], toleration) is None) == admitted


@given(keys, values, st.sampled_from(EFFECTS))
def test_a_pair_of_a_document_tolerates_every_effect(key: str, value: str, effect: Effect) -> None:
    rules = compile_rules([], [(key, value)])
    assert rules.untolerated([Taint(key, value, effect)]) is None
    assert rules.untolerated([(key, value)]) is None
    assert rules.untolerated([(key, "other")]) == Taint(key, "other")


def test_rules_know_both_forms_of_tolerations() -> None:
    rules = compile_rules([], [("old", "yes")], tolerated=[Toleration("dedicated", "Exists", "", "NoSchedule")])
    assert rules.untolerated([Taint("old", "yes", "NoExecute"), Taint("dedicated", "db")]) is None
    assert rules.untolerated([Taint("dedicated", "db", "NoExecute")]) == Taint("dedicated", "db", "NoExecute")
    assert rules != compile_rules([], [("old", "yes")])
    assert (
        len({rules, compile_rules([], [("old", "yes")], (), [Toleration("dedicated", "Exists", "", "NoSchedule")])})
        == 1
    )


def test_titles_of_taints() -> None:
    assert Taint("dedicated", "arena").title == "dedicated=arena"
    assert Taint("dedicated", "gpu", "NoSchedule").title == "dedicated=gpu:NoSchedule"


# --- ports of hosts -------------------------------------------------------------------------------------------

addresses = st.sampled_from(("", "0.0.0.0", "::", "127.0.0.1", "10.0.0.1"))
ports = st.builds(HostPort, st.integers(80, 81), st.sampled_from(("", "TCP", "UDP")), addresses)


@given(ports, ports)
def test_conflicts_are_mutual(one: HostPort, other: HostPort) -> None:
    assert one.conflicts(one)
    assert one.conflicts(other) == other.conflicts(one)
    if one.conflicts(other):
        assert one.port == other.port


def test_scenario_11_of_the_specification() -> None:
    taken = HostPort(8080, "TCP", "0.0.0.0")
    assert HostPort(8080, "TCP", "127.0.0.1").conflicts(taken)
    assert HostPort(8080).conflicts(taken)
    assert not HostPort(8080, "UDP").conflicts(taken)
    assert not HostPort(8081, "TCP").conflicts(taken)
    assert not HostPort(80, "TCP", "127.0.0.1").conflicts(HostPort(80, "TCP", "10.0.0.1"))
    assert (str(taken), str(HostPort(8080))) == ("TCP/8080", "8080")
