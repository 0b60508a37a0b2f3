"""The report of a simulation: one HTML file without scripts and without addresses, from the data of `-o json`."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from html import escape
from typing import Any, NamedTuple

STYLE = """
:root {
  color-scheme: light dark;
  --back: #f5f6f8; --card: #ffffff; --text: #1b2330; --quiet: #566073; --line: #d9dee7; --accent: #1d4fb8;
  --r0: #2457c5; --r1: #b3470b; --r2: #17633a; --r3: #8a1f7c; --r4: #6b5a00; --r5: #0b6b78;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #12161d; --card: #1b212b; --text: #e7ebf2; --quiet: #a3adbe; --line: #313a49; --accent: #93b6ff;
    --r0: #7ea6ff; --r1: #ffab7a; --r2: #8fe0ae; --r3: #f0a3e6; --r4: #e6d27a; --r5: #7fdbe8;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); }
body { font: 15px/1.5 system-ui, "Segoe UI", Roboto, Arial, sans-serif; }
main, header, footer { max-width: 1400px; margin: 0 auto; padding: 0.5rem 1.25rem; }
h1 { font-size: 1.5rem; margin: 1rem 0 0.25rem; }
h2 { font-size: 1.2rem; margin: 1.5rem 0 0.5rem; }
h3 { font-size: 1rem; margin: 0 0 0.25rem; overflow-wrap: anywhere; }
.quiet { color: var(--quiet); }
.legend { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: 0.25rem 1.5rem; }
.legend li { overflow-wrap: anywhere; }
.sample { width: 40px; height: 12px; margin-right: 0.5rem; vertical-align: middle; }
.cards { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; }
.card { padding: 0.9rem 1rem; min-width: 0; margin: 0; }
.chart { width: 100%; height: auto; display: block; }
.grid { stroke: var(--line); stroke-width: 1; }
.mark { fill: var(--quiet); font-size: 12px; }
.run { fill: none; stroke-width: 2; }
.run.r0 { stroke: var(--r0); }
.run.r1 { stroke: var(--r1); stroke-dasharray: 8 3; }
.run.r2 { stroke: var(--r2); stroke-dasharray: 2 3; }
.run.r3 { stroke: var(--r3); stroke-dasharray: 10 3 2 3; }
.run.r4 { stroke: var(--r4); stroke-dasharray: 5 5; }
.run.r5 { stroke: var(--r5); stroke-dasharray: 14 4; }
.bar.r0 { fill: var(--r0); } .bar.r1 { fill: var(--r1); } .bar.r2 { fill: var(--r2); }
.bar.r3 { fill: var(--r3); } .bar.r4 { fill: var(--r4); } .bar.r5 { fill: var(--r5); }
.scroll { overflow-x: auto; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; color: var(--quiet); padding: 0.25rem 0; }
th, td { padding: 0.3rem 0.7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { font-size: 0.85rem; color: var(--quiet); font-weight: 600; }
th:first-child, td:first-child, th[scope="row"] { text-align: left; color: var(--text); }
summary { cursor: pointer; color: var(--accent); margin-top: 0.4rem; }
code { overflow-wrap: anywhere; }
@media print { .card { break-inside: avoid; } }
"""


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


Run = dict[str, Any]
"""The figures of a run (`comparison.summary`)."""
MOST_QUEUES = 12
"""Queues with charts, those with the greatest demand; the tables have all."""
ROWS = 12
"""Rows of the table beside a chart over time, after the first one."""


def percent(value: float) -> str:
    """A part of 1 as text, such as ``12.5 %``."""
    return f"{100 * value:.1f} %".replace(".0 %", " %")


def number(value: float) -> str:
    """A number of objects."""
    return f"{value:,.2f}".rstrip("0").rstrip(".").replace(",", " ")


def factor(value: float) -> str:
    """An index between 0 and 1."""
    return f"{value:.2f}"


class Figure(NamedTuple):
    """`key`: its name in the data; `title`: its name for people; `form`: the text of a value."""

    key: str
    title: str
    form: Callable[[float], str]


CLUSTER = (
    Figure("cpusUsed", "Cores in use", percent),
    Figure("memUsed", "Memory in use", percent),
    Figure("fragmentation", "Fragmentation", percent),
    Figure("fairness", "Fairness", factor),
)
WORK = (
    Figure("launched", "Launched", number),
    Figure("finished", "Finished", number),
    Figure("waiting", "Pending at the end", number),
    Figure("preempted", "Preempted", number),
    Figure("waitMedian", "Waiting, median", clock),
    Figure("waitP90", "Waiting, 90 %", clock),
    Figure("waitLongest", "Waiting, worst", clock),
    Figure("served", "Served", percent),
)
TIMELINES = (
    (Figure("cpus", "Cores in use", percent), 1.0),
    (Figure("mem", "Memory in use", percent), 1.0),
    (Figure("pending", "Pending taskgroups", number), 0.0),
    (Figure("waited", "Longest wait so far of a pending taskgroup", clock), 0.0),
    (Figure("fragmented", "Fragmentation of the free cores", percent), 1.0),
    (Figure("preempted", "Preempted taskgroups since the start", number), 0.0),
)
OF_QUEUE = tuple(pair for pair in TIMELINES if pair[0].key in ("cpus", "pending", "waited", "preempted"))


def report(title: str, runs: Sequence[Run], differences: Sequence[Run], facts: Sequence[tuple[str, str]]) -> str:
    """The document. `differences`: those of `comparison.differences`. `facts`: names and values of the inputs."""
    digest = b64encode(sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return "".join(
        [
            "<!doctype html>\n",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n",
            f"<body><header><h1>{escape(title)}</h1>",
            '<p class="quiet">Figures of a simulation. No cluster was changed.</p>',
            _facts(facts),
            "</header>\n<main>",
            *_sections(runs, differences),
            "</main></body></html>\n",
        ]
    )


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    items = "".join(f"<li>{escape(name)}: <code>{escape(value)}</code></li>" for name, value in facts)
    return f'<ul class="legend">{items}</ul>' if items else ""


def _sections(runs: Sequence[Run], differences: Sequence[Run]) -> Iterator[str]:
    legend = "".join(f"<li>{sample(style)}{escape(run['name'])}</li>" for style, run in enumerate(runs))
    yield f'<section aria-labelledby="runs"><h2 id="runs">Runs</h2><ul class="legend">{legend}</ul>'
    for run in runs:
        if not run["complete"]:
            words = f"{run['name']} was stopped after {clock(run['seconds'])} of virtual time."
            yield f"<p><strong>{escape(words)}</strong></p>"
    yield '<div class="card">' + _comparison("Whole cluster", runs) + "</div></section>"
    if differences:
        yield '<section aria-labelledby="differences"><h2 id="differences">Differences</h2><div class="card">'
        yield _differences(differences) + "</div></section>"
    yield '<section aria-labelledby="time"><h2 id="time">Over virtual time</h2><div class="cards">'
    for figure, top in TIMELINES:
        yield _timeline(f"all-{figure.key}", figure, top, "whole cluster", runs, lambda run: run["history"])
    yield "</div></section>"
    queues = _queues(runs)
    if queues:
        yield from _of_queues(queues, runs)


def _of_queues(queues: list[str], runs: Sequence[Run]) -> Iterator[str]:
    yield '<section aria-labelledby="queues"><h2 id="queues">Queues</h2><div class="cards">'
    shown = queues[:MOST_QUEUES]
    for figure in (Figure("served", "Served part of the demand", percent), Figure("waitP90", "Waiting, 90 %", clock)):
        lines = [
            Line(run["name"], style, [run["groups"].get(queue, {}).get(figure.key, 0.0) for queue in shown])
            for style, run in enumerate(runs)
        ]
        chart = bar_chart(f"bars-{figure.key}", f"{figure.title}, by queue", shown, lines, Axis(figure.form))
        yield f'<figure class="card"><h3>{escape(figure.title)}</h3>{chart}</figure>'
    yield f'</div><div class="card">{_queue_table(queues, runs)}</div>'
    if len(queues) > len(shown):
        yield f'<p class="quiet">Charts show the {len(shown)} queues with the greatest demand of {len(queues)}.</p>'
    yield "</section>"
    for rank, queue in enumerate(shown):
        yield f'<section aria-labelledby="queue{rank}"><h2 id="queue{rank}">Queue {escape(queue)}</h2>'
        yield '<div class="cards">'
        for figure, top in OF_QUEUE:
            yield _timeline(f"q{rank}-{figure.key}", figure, top, f"queue {queue}", runs, _history_of(queue))
        yield "</div></section>"


def _history_of(queue: str) -> Callable[[Run], dict[str, list[float]]]:
    """The history of one queue; zeros in a run without the queue."""

    def read(run: Run) -> dict[str, list[float]]:
        known: dict[str, list[float]] | None = run["history"]["groups"].get(queue)
        return known or {figure.key: [0.0] * len(run["history"]["at"]) for figure, _ in OF_QUEUE}

    return read


def _timeline(
    key: str, figure: Figure, top: float, place: str, runs: Sequence[Run], read: Callable[[Run], dict[str, Any]]
) -> str:
    # A run that was stopped has the first samples only: each line is as long as the shortest history.
    length = min(len(run["history"]["at"]) for run in runs)
    times = [0.0, *runs[0]["history"]["at"][:length]]
    lines = [
        Line(
            run["name"],
            style,
            [0.0 if figure.key != "fragmented" else read(run)[figure.key][0], *read(run)[figure.key][:length]],
        )
        for style, run in enumerate(runs)
        if length
    ]
    title = f"{figure.title}, {place}"
    chart = line_chart(key, title, times, lines, Axis(figure.form, top if figure.key != "fragmented" else 0.0))
    picked = sorted({round(at * (len(times) - 1) / ROWS) for at in range(ROWS + 1)})
    heads = ["Time", *(run["name"] for run in runs)]
    rows = [[clock(times[at]), *(figure.form(line.values[at]) for line in lines)] for at in picked]
    return (
        f'<figure class="card"><h3>{escape(figure.title)}</h3>{chart}'
        f"<details><summary>Table of {escape(title)}</summary>{_table(title, heads, rows)}</details></figure>"
    )


def _comparison(title: str, runs: Sequence[Run]) -> str:
    heads = ["Run", *(figure.title for figure in (*CLUSTER, *WORK))]
    rows = [
        [run["name"], *(one.form(run[one.key]) for one in CLUSTER), *(one.form(run["total"][one.key]) for one in WORK)]
        for run in runs
    ]
    return _table(title, heads, rows)


def _queue_table(queues: list[str], runs: Sequence[Run]) -> str:
    heads = ["Queue", "Run", *(figure.title for figure in WORK)]
    rows = [
        [queue, run["name"], *(figure.form(run["groups"][queue][figure.key]) for figure in WORK)]
        for queue in queues
        for run in runs
        if queue in run["groups"]
    ]
    return _table("Figures by queue", heads, rows)


def _differences(differences: Sequence[Run]) -> str:
    heads = ["Run", "Scope", *(figure.title for figure in (*CLUSTER, *WORK))]
    rows = []
    for one in differences:
        name = f"{one['name']} against {one['against']}"
        cluster = [_signed(figure, one["cluster"][figure.key]) for figure in CLUSTER]
        rows.append([name, "whole cluster", *cluster, *(_signed(figure, one["total"][figure.key]) for figure in WORK)])
        for queue, row in one["groups"].items():
            rows.append(
                [name, f"queue {queue}", *[""] * len(CLUSTER), *(_signed(figure, row[figure.key]) for figure in WORK)]
            )
    return _table("A figure of the run less the same figure of the first run", heads, rows)


def _signed(figure: Figure, value: float) -> str:
    text = figure.form(abs(value))
    if text == figure.form(0.0):
        return "0"
    return f"{'+' if value > 0 else '-'}{text}"


def _queues(runs: Sequence[Run]) -> list[str]:
    """All queues of the runs, the greatest demand first."""
    wanted: dict[str, float] = {}
    for run in runs:
        for name, row in run["groups"].items():
            wanted[name] = max(wanted.get(name, 0.0), row["wantedCoreHours"])
    return sorted(wanted, key=lambda name: (-wanted[name], name))


def _table(title: str, heads: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:]) + "</tr>"
        for row in rows
    )
    words = escape(title, quote=True)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{words}"><table><caption>{words}</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )
