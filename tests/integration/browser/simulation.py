"""A report of `bcs simulate` for the tests and the pictures: two queues on three agents under three policies."""

from __future__ import annotations

from pathlib import Path

from bcs_scheduler.cli.main import run

ROOT = Path(__file__).resolve().parents[3]
LOADS = ("6x4,cpus=0.5-2,duration=5m-10m,over=20m,queue=a", "9x4,duration=5m-10m,over=20m,queue=b")


def write_report(file: Path) -> None:
    """Writes the report of the simulation in docs/simulator.md."""
    words = ["simulate", "--agents", "3x4cpu,8gb", "--for", "1h", "--report", str(file), "-o", "table"]
    for load in LOADS:
        words += ["--load", load]
    for policy in ("policy.yaml", "queues.yaml"):
        words += ["--policy", str(ROOT / "conf" / policy)]
    assert run(words) == 0
