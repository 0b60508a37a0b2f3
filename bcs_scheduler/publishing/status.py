"""The status of a publisher, for code that starts without the library for ZooKeeper."""

from __future__ import annotations

from typing import NamedTuple


class Status(NamedTuple):
    """`problem` is empty while all is well; `since`: monotonic seconds of its begin."""

    connected: bool
    pending: int
    problem: str
    since: float
