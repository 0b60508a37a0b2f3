"""The table of `make coverage`."""

from __future__ import annotations

from tests.coverage_table import modules_of, package_of, table


def summary(lines: int, run: int, branches: int, branches_run: int) -> dict[str, dict[str, int]]:
    named = {"num_statements": lines, "covered_lines": run, "num_branches": branches, "covered_branches": branches_run}
    return {"summary": named}


def test_packages_are_added_up_and_the_least_covered_modules_come_first() -> None:
    files = {
        "store/ids.py": summary(30, 30, 10, 10),
        "store/state/state.py": summary(40, 20, 20, 10),
        "bcs_scheduler/main.py": summary(50, 45, 0, 0),
        "bcs_scheduler/core/scheduler.py": summary(50, 50, 50, 25),
        "offers/__init__.py": summary(1, 0, 0, 0),
    }
    lines = table(modules_of({"files": files})).splitlines()
    packages, modules = lines[2 : lines.index("")], lines[lines.index("") + 3 :]
    assert packages == [
        "| bcs_scheduler | 50 | 45 | 0 | 0 | 90.0 |",
        "| bcs_scheduler/core | 50 | 50 | 50 | 25 | 75.0 |",
        "| offers | 1 | 0 | 0 | 0 | 0.0 |",
        "| store | 70 | 50 | 30 | 20 | 70.0 |",
        "| all | 171 | 145 | 80 | 45 | 75.7 |",
    ]
    assert modules[:2] == ["| `store/state/state.py` | 50.0 |", "| `bcs_scheduler/core/scheduler.py` | 75.0 |"]
    assert len(modules) == 4, "modules of a few lines are not named"


def test_modules_of_the_scheduler_are_counted_by_package() -> None:
    paths = ("offers/rules/taints.py", "bcs_scheduler/service.py", "bcs_scheduler/api/http/app.py")
    assert [package_of(path) for path in paths] == ["offers", "bcs_scheduler", "bcs_scheduler/api"]
