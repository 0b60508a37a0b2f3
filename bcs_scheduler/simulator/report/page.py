"""The report of a simulation: one HTML file without scripts and without addresses, from the data of `-o json`."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from html import escape
from typing import Any, NamedTuple

from bcs_scheduler.simulator.report.charts import Axis, Line, bar_chart, clock, line_chart, sample
from bcs_scheduler.simulator.report.style import STYLE

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
