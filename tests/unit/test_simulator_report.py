"""The report of a simulation: axes, texts, escapes, and the policy of contents."""

from __future__ import annotations

import itertools
import re
from base64 import b64encode
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.simulator.comparison import differences, summary
from bcs_scheduler.simulator.model import Scenario
from bcs_scheduler.simulator.report import Axis, Line, clock, line_chart, percent, report, ticks
from bcs_scheduler.simulator.simulation import Simulation
from bcs_scheduler.simulator.specs import creations_of, namespaces_of, read_agents, read_load


@given(st.floats(min_value=1e-3, max_value=1e9), st.sampled_from([None, clock]))
def test_the_marks_of_an_axis_reach_the_highest_value_in_even_steps(highest: float, form: object) -> None:
    found = ticks(highest, clock if form else None)
    assert found[0] == 0.0 and len(found) <= 6
    assert found[-1] >= highest * (1 - 1e-6)
    assert found[-2] < highest
    steps = {round(b - a, 9) for a, b in itertools.pairwise(found)}
    assert len(steps) == 1 or max(steps) / min(steps) < 1.0001


def test_texts_of_values() -> None:
    assert [clock(at) for at in (0, 30, 90, 3600, 23400)] == ["0", "30s", "1m 30s", "1h", "6h 30m"]
    assert [percent(part) for part in (0.0, 0.125, 1.0)] == ["0 %", "12.5 %", "100 %"]


def test_a_chart_says_in_words_what_its_lines_show() -> None:
    chart = line_chart("k", "Cores", [0.0, 1800.0, 3600.0], [Line("a", 0, [0.0, 0.5, 0.25])], Axis(percent, 1.0))
    assert 'role="img" aria-labelledby="k-t k-d"' in chart
    assert "a: 0 % at the start, 50 % at most (after 30m), 25 % at the end." in chart


def figures(name: str) -> dict[str, object]:
    load = [read_load("2x2,cpus=1,duration=60,over=10s,queue=a")]
    given = Scenario(tuple(read_agents("1x2cpu,4gb")), tuple(namespaces_of(load)), creations_of(load, 1))
    return summary(Simulation(name, given, CoreOptions()).run(600.0))


def test_the_policy_of_contents_allows_the_style_sheet_only_and_names_are_escaped() -> None:
    name = "<script>alert('&')</script>"
    runs = [figures("simple"), figures(name)]
    text = report("Simulation", runs, differences(runs), [("--load", name)])
    style = re.search(r"<style>(.*?)</style>", text, re.S)
    assert style is not None
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    assert f"style-src &#x27;sha256-{digest}&#x27;" in text
    assert "<script" not in text
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;" in text
    assert "<tbody>" in text and "queue a" in text


def test_a_run_that_was_stopped_is_named_and_its_lines_end_early() -> None:
    whole = figures("simple")
    load = [read_load("2x2,cpus=1,duration=60,over=10s,queue=a")]
    given = Scenario(tuple(read_agents("1x2cpu,4gb")), tuple(namespaces_of(load)), creations_of(load, 1))
    parts: list[float] = []
    stopped = summary(Simulation("other", given, CoreOptions()).run(600.0, parts.append, lambda: parts[-1] >= 0.25))
    text = report("Simulation", [whole, stopped], [], [])
    assert "other was stopped after 2m 30s of virtual time." in text


def test_a_difference_is_the_figure_of_the_run_less_that_of_the_first() -> None:
    first, other = figures("simple"), figures("other")
    (found,) = differences([first, other])
    assert (found["name"], found["against"]) == ("other", "simple")
    assert found["total"]["launched"] == 0 and found["cluster"]["cpusUsed"] == pytest.approx(0.0)
    assert set(found["groups"]) == {"a"}
