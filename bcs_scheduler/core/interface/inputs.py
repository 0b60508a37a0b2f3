"""Everything that can happen to the core, as data. Adapters make these; the core handles them in order.

`cause` identifies the event in logs, records and effects. Times are Unix seconds.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class RemoteResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One REMOTE health check, as the core applies it."""

    type: Literal["REMOTE_HTTP", "REMOTE_TCP"]
    healthy: bool
    message: str = ""
    failures: int = 0


class Input(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something that reaches the core. `cause`: id of the request; empty = none."""

    cause: str = ""


class HealthReported(Input, frozen=True, kw_only=True):
    """Result of a REMOTE check by the built-in prober; only changes are reported."""

    task_id: str
    type: Literal["REMOTE_HTTP", "REMOTE_TCP"]
    healthy: bool
    message: str = ""


class Tick(Input, frozen=True, kw_only=True):
    """The moment the core asked for has come (or simply time has passed)."""


class TermBegan(Input, frozen=True, kw_only=True):
    """The first input of a term. `scheduler`: address of the API of the leader. `epoch`: number of the term."""

    scheduler: str
    epoch: int
