"""Shows what `make coverage` has measured: the share of lines and branches of each package that the tests run, and the
modules that they cover least. The argument is the JSON report of coverage.py."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

LEAST = 15
"""Modules that are named."""
SMALL = 20
"""Lines and branches of a module below which its share says little."""


class Share(NamedTuple):
    """Lines and branches of a part of the program: how many there are, and how many of them the tests run."""

    lines: int
    lines_run: int
    branches: int
    branches_run: int

    @property
    def whole(self) -> int:
        return self.lines + self.branches

    @property
    def percent(self) -> float:
        """Of lines and branches together."""
        return 100.0 * (self.lines_run + self.branches_run) / self.whole if self.whole else 100.0


def together(shares: list[Share]) -> Share:
    return Share(*(sum(column) for column in zip(*shares, strict=True)))


def package_of(path: str) -> str:
    """The package that a module is counted for: `store`, `offers`, `transactions`, or a package of `bcs_scheduler`."""
    parts = Path(path).parts
    return "/".join(parts[:2]) if parts[0] == "bcs_scheduler" and len(parts) > 2 else parts[0]


def modules_of(report: dict[str, Any]) -> dict[str, Share]:
    """Share of each module by its path."""
    names = ("num_statements", "covered_lines", "num_branches", "covered_branches")
    return {path: Share(*(found["summary"][name] for name in names)) for path, found in report["files"].items()}


def table(modules: dict[str, Share]) -> str:
    """In Markdown."""
    packages: dict[str, list[Share]] = defaultdict(list)
    for path, share in modules.items():
        packages[package_of(path)].append(share)
    rows = [(name, together(packages[name])) for name in sorted(packages)]
    rows.append(("all", together(list(modules.values()))))
    lines = ["| Package | Lines | run | Branches | run | % |", "|---|---|---|---|---|---|"]
    lines += [f"| {name} | {' | '.join(map(str, share))} | {share.percent:.1f} |" for name, share in rows]
    worst = sorted((path for path, share in modules.items() if share.whole >= SMALL), key=lambda p: modules[p].percent)
    lines += ["", "| Least covered module | % |", "|---|---|"]
    lines += [f"| `{path}` | {modules[path].percent:.1f} |" for path in worst[:LEAST]]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(modules_of(json.loads(Path(sys.argv[1]).read_text()))))
