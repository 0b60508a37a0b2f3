"""The style sheet of a report: light and dark, from 360 pixels of width on."""

from __future__ import annotations

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
