"""The status of a publisher, for code that starts without the library for ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Status(NamedTuple):
    """`problem` is empty while all is well; `since`: monotonic seconds of its begin; `skipped`: reasons of the nodes
    that could not be written, by path."""

    connected: bool
    pending: int
    problem: str
    since: float
    skipped: Mapping[str, str] = {}
