"""transactions.rules.health: what results of health checks make of what is known of a task."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from store.records import CheckResult
from transactions.rules import health

TYPES = ("HTTP", "TCP", "COMMAND", "REMOTE_HTTP", "REMOTE_TCP")
NOW = 1000.0


class Probed(NamedTuple):
    type: str
    healthy: bool | None
    message: str
    failures: int


verdicts = st.sampled_from([None, True, False])
words = st.text("ab", max_size=3) | st.just("x" * (health.WORDS_LIMIT + 1))
checks = st.lists(
    st.builds(CheckResult, type=st.sampled_from(TYPES), healthy=verdicts, message=words, updated_at=st.just(1.0)),
    unique_by=lambda check: check.type,
).map(tuple)
probes = st.lists(
    st.builds(Probed, st.sampled_from(TYPES), verdicts, words, st.integers(-1, 5)), unique_by=lambda p: p.type
)


@given(checks, probes)
def test_a_result_is_taken_once(known: tuple[CheckResult, ...], found: list[Probed]) -> None:
    after = health.apply(known, found, NOW)
    assert health.apply(after, found, NOW + 1) is after


@given(checks, probes)
def test_only_results_of_checks_that_the_task_has_change_anything(
    known: tuple[CheckResult, ...], found: list[Probed]
) -> None:
    after = health.apply(known, found, NOW)
    assert [check.type for check in after] == [check.type for check in known]
    by_type = {probe.type: probe for probe in found if probe.healthy is not None}
    for before, check in zip(known, after, strict=True):
        probe = by_type.get(check.type)
        assert check.healthy is (before.healthy if probe is None else probe.healthy)
        assert (check.updated_at == NOW) == (check.healthy is not before.healthy), "since when the verdict stands"
        assert len(check.message) <= max(len(before.message), health.WORDS_LIMIT)
        assert check.failures >= 0


@given(checks)
def test_a_task_is_healthy_if_all_checks_pass_and_unhealthy_if_one_fails(known: tuple[CheckResult, ...]) -> None:
    verdicts = [check.healthy for check in known]
    expected = False if False in verdicts else None if None in verdicts or not verdicts else True
    assert health.summary(known) is expected


@given(checks, st.booleans())
def test_an_executor_decides_about_local_checks_only(known: tuple[CheckResult, ...], healthy: bool) -> None:
    after = health.apply_local(known, healthy, NOW)
    for before, check in zip(known, after, strict=True):
        if check.type in health.LOCAL:
            assert check.healthy is healthy
        else:
            assert check == before
    assert health.apply_local(after, healthy, NOW + 1) is after


@given(checks)
def test_a_restart_opens_local_checks_and_keeps_remote_ones(known: tuple[CheckResult, ...]) -> None:
    after = health.reset_local(known, NOW)
    for before, check in zip(known, after, strict=True):
        assert check.healthy is None if check.type in health.LOCAL else check == before
    assert health.reset_local(after, NOW + 1) is after
