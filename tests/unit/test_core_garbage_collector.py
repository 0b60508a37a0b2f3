"""What is removed when it has had its time, and what is kept because it is in use."""

from __future__ import annotations

from bcs_scheduler.core.options import CoreOptions
from tests.unit.lab import KEY, Lab, running
from transactions.base import Options, Periods


def updated(times: int, *, part: int | None = None) -> Lab:
    """An application of two taskgroups after a number of updates, of which three versions may be remembered."""
    options = Options(version_history=3, periods=Periods(retention=10.0))
    lab = running(2, CoreOptions(strict=True, transactions=options), labels={"revision": "0"})
    for number in range(1, times + 1):
        lab.update(2, part=part, labels={"revision": str(number)})
        lab.run()
    return lab


def revisions(lab: Lab) -> list[str]:
    versions = lab.core.state.versions_of(KEY)
    return [versions[name].labels["revision"] for name in sorted(versions, key=int)]


def test_only_the_newest_versions_are_kept() -> None:
    lab = updated(5)
    lab.wait(60)
    assert revisions(lab) == ["3", "4", "5"]


def test_versions_that_taskgroups_run_are_kept_however_old() -> None:
    lab = updated(1, part=1)
    held = {group.version for group in lab.groups}
    for number in range(2, 6):
        lab.update(2, part=1, labels={"revision": str(number)})
        lab.cancel(lab.transaction("UPDATE"))
    lab.wait(60)
    assert held <= set(lab.core.state.versions_of(KEY))


def test_active_transactions_are_kept_however_old() -> None:
    options = Options(periods=Periods(launch=10_000.0, retention=10.0))
    lab = Lab(CoreOptions(strict=True, transactions=options))
    lab.create(1)
    lab.wait(100)
    assert lab.transaction("LAUNCH").active
