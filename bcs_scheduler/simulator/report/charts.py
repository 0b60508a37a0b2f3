"""Charts as inline SVG: lines over virtual time, and bars. Colours and dashes are classes of the style sheet.

Each chart has the role of an image, a title, and a description of its lines in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT = 640, 220
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 28
STYLES = 6
"""Number of colours and dashes; further lines repeat them."""
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
"""Leading digits of the marks of an axis."""
DURATIONS = (
    1.0,
    2.0,
    5.0,
    10.0,
    15.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    900.0,
    1800.0,
    3600.0,
    7200.0,
    10800.0,
    21600.0,
    43200.0,
)
"""Seconds between the marks of an axis of times."""


class Line(NamedTuple):
    """The values of one run, at the times of the chart. `style`: number of the run."""

    name: str
    style: int
    values: Sequence[float]


class Axis(NamedTuple):
    """The values of a chart. `form`: their text. `top`: least upper end of the axis."""

    form: Callable[[float], str]
    top: float = 0.0


def line_chart(key: str, title: str, times: Sequence[float], lines: Sequence[Line], axis: Axis) -> str:
    """Lines over virtual time. `key`: unique in the page; `times`: seconds from the start, the same for all lines."""
    marks = ticks(max([axis.top, *(value for line in lines for value in line.values)]), axis.form)
    end = times[-1] if times else 1.0
    parts = [_open(key, title, " ".join(_told(line, times, axis) for line in lines))]
    for mark in marks:
        y = _y(mark, marks[-1])
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="mark" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(axis.form(mark))}</text>'
        )
    for number in range(5):
        x = LEFT + (WIDTH - LEFT - RIGHT) * number / 4
        anchor = "end" if number == 4 else "middle" if number else "start"
        words = escape(clock(end * number / 4))
        parts.append(f'<text class="mark" x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{words}</text>')
    for line in lines:
        points = " ".join(
            f"{LEFT + (WIDTH - LEFT - RIGHT) * at / end:.1f},{_y(value, marks[-1]):.1f}"
            for at, value in zip(times, line.values, strict=True)
        )
        parts.append(f'<polyline class="run r{line.style % STYLES}" points="{points}"/>')
    return "".join([*parts, "</svg>"])


def bar_chart(key: str, title: str, groups: Sequence[str], lines: Sequence[Line], axis: Axis) -> str:
    """One bar for each line in each group. `lines` have a value for each group."""
    marks = ticks(max([axis.top, *(value for line in lines for value in line.values)]), axis.form)
    bar, gap = 16, 14
    height = TOP + len(groups) * (len(lines) * bar + gap) + BOTTOM
    left = 150
    told = " ".join(
        f"{name}: {', '.join(f'{line.name} {axis.form(line.values[at])}' for line in lines)}."
        for at, name in enumerate(groups)
    )
    parts = [_open(key, title, told, height)]
    for mark in marks:
        x = left + (WIDTH - left - RIGHT) * mark / marks[-1]
        anchor = "end" if mark == marks[-1] else "middle"
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{height - BOTTOM}"/>')
        words = escape(axis.form(mark))
        parts.append(f'<text class="mark" x="{x:.1f}" y="{height - 8}" text-anchor="{anchor}">{words}</text>')
    for at, name in enumerate(groups):
        y = TOP + at * (len(lines) * bar + gap)
        middle = y + len(lines) * bar / 2 + 4
        parts.append(f'<text class="mark" x="{left - 8}" y="{middle:.1f}" text-anchor="end">{escape(cut(name))}</text>')
        for rank, line in enumerate(lines):
            width = (WIDTH - left - RIGHT) * line.values[at] / marks[-1]
            place = f'x="{left}" y="{y + rank * bar + 1}" width="{max(width, 1):.1f}" height="{bar - 2}"'
            parts.append(f'<rect class="bar r{line.style % STYLES}" {place}/>')
    return "".join([*parts, "</svg>"])


def sample(style: int) -> str:
    """The line of a run, for the legend. Hidden from screen readers: the name stands beside it."""
    return (
        '<svg class="sample" viewBox="0 0 40 12" aria-hidden="true" focusable="false">'
        f'<polyline class="run r{style % STYLES}" points="0,6 40,6"/></svg>'
    )


def ticks(highest: float, form: Callable[[float], str] | None = None) -> list[float]:
    """Marks from 0 to at least `highest`, at most six. Those of an axis of times (`form` is `clock`) are whole seconds,
    minutes or hours."""
    if highest <= 0:
        return [0.0, 1.0]
    if form is clock:
        step = next((step for step in DURATIONS if step * 5 >= highest), 86400.0 * math.ceil(highest / 5 / 86400))
    else:
        power = 10.0 ** math.floor(math.log10(highest / 5))
        step = next(power * digit for digit in STEPS if power * digit * 5 >= highest * (1 - 1e-9))
    return [step * number for number in range(6) if number == 0 or step * (number - 1) < highest * (1 - 1e-9)]


def clock(seconds: float) -> str:
    """Virtual time as ``6h``, ``6h 30m``, ``45m`` or ``30s``."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else "", f"{rest}s" if rest and not hours else ""]
    return " ".join(part for part in parts if part) or "0"


def cut(name: str, places: int = 20) -> str:
    """The name, or its end after an ellipsis."""
    return name if len(name) <= places else "…" + name[1 - places :]


def _open(key: str, title: str, told: str, height: int = HEIGHT) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="{key}-t {key}-d">'
        f'<title id="{key}-t">{escape(title)}</title><desc id="{key}-d">{escape(told)}</desc>'
    )


def _told(line: Line, times: Sequence[float], axis: Axis) -> str:
    if not line.values:
        return f"{line.name}: no values."
    highest = max(range(len(line.values)), key=lambda at: line.values[at])
    return (
        f"{line.name}: {axis.form(line.values[0])} at the start, {axis.form(line.values[highest])} at most "
        f"(after {clock(times[highest])}), {axis.form(line.values[-1])} at the end."
    )


def _y(value: float, highest: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / highest
