"""Everything the core can ask of the world, as data. Effects leave only after the changes they were made with are
durable, in order (DESIGN.md section 3)."""

from __future__ import annotations

from typing import Any

import msgspec

from offers.model import Claim
from store.records import CommandType, Happening, Record, TaskGroup, Version
from transactions.injection import Injected


class Effect(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    cause: str = ""


# --- calls to Mesos -------------------------------------------------------------------------------------------


class Launch(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One taskgroup to launch: record, definition, and the concrete resources it takes from the agent's offers."""

    taskgroup: TaskGroup
    version: Version
    claim: Claim
    injected: tuple[Injected, ...] = ()
    """Per container what its configmaps and secrets hold now; empty if none refers to any. Never to be logged."""


class Accept(Effect, frozen=True, kw_only=True):
    """One ACCEPT: all used offers of one agent, one LAUNCH_GROUP operation per launch."""

    agent_id: str
    offer_ids: tuple[str, ...]
    launches: tuple[Launch, ...]
    refuse_seconds: float = 0.0


class Decline(Effect, frozen=True, kw_only=True):
    offer_ids: tuple[str, ...]
    refuse_seconds: float = 5.0


class AcceptInverseOffers(Effect, frozen=True, kw_only=True):
    offer_ids: tuple[str, ...]


class Kill(Effect, frozen=True, kw_only=True):
    task_id: str
    agent_id: str
    grace_period: float = 1.0


class Shutdown(Effect, frozen=True, kw_only=True):
    executor_id: str
    agent_id: str


class SendMessage(Effect, frozen=True, kw_only=True):
    """One message to our executor of a taskgroup. Not to be logged: `body` may hold confidential content."""

    agent_id: str
    executor_id: str
    message_id: str
    type: CommandType
    tasks: tuple[str, ...]
    body: dict[str, Any]
    timeout: float

    def __repr__(self) -> str:
        return f"SendMessage({self.message_id}, {self.type}, {self.executor_id})"


class Acknowledge(Effect, frozen=True, kw_only=True):
    task_id: str
    agent_id: str
    uuid: bytes


class Reconcile(Effect, frozen=True, kw_only=True):
    """Explicit for (task id, agent id) pairs; implicit if there are none."""

    tasks: tuple[tuple[str, str], ...] = ()


class Suppress(Effect, frozen=True, kw_only=True):
    pass


class Revive(Effect, frozen=True, kw_only=True):
    pass


class ListAgents(Effect, frozen=True, kw_only=True):
    """Ask the master for its agents soon (AgentsListed answers), not only when it is time again."""


# --- to users -------------------------------------------------------------------------------------------------


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong with a request: where (JSON path) and what."""

    path: str
    message: str


class Reply(Effect, frozen=True, kw_only=True):
    """Answer to a command. `error` is empty on success, else a stable reason (see `Reason`), and `message` says it in
    words; `data` is plain data that can be encoded as JSON."""

    token: int
    error: str = ""
    message: str = ""
    problems: tuple[Problem, ...] = ()
    data: Any = None


class Reason:
    """Stable reasons of refused commands; bcs_scheduler.api.errors turns each into an HTTP status and a BCS code."""

    NOT_FOUND = "not_found"  # 404
    EXISTS = "exists"  # 409
    CONFLICT = "conflict"  # 409: wrong state, another operation runs
    QUOTA = "quota_exceeded"  # 409: the namespace would want more than its quota
    INVALID = "invalid"  # 422: the request cannot be honoured as it stands
    INTERNAL = "internal"  # 500: an error of the scheduler itself; nothing was changed
    UNAVAILABLE = "unavailable"  # 503
    STEPPED_DOWN = "stepped_down"  # 504: leadership was lost before the change was durable


class Changed(Effect, frozen=True, kw_only=True):
    """A record that others follow (an endpoint, a deployment) is as given now, and durable; None: it is gone."""

    kind: str
    key: str
    record: Record | None


class Observed(Effect, frozen=True, kw_only=True):
    """A thing that happened and is counted. `name` is a metric of bcs_scheduler.metrics."""

    name: str
    labels: tuple[str, ...] = ()
    value: float = 1.0


class Story(Effect, frozen=True, kw_only=True):
    """One line of what happened to an object, for logs and events. `kind`/`key` name the record. `transaction`: id of
    the one it happened for, if that is another than the one that owns the application."""

    kind: str
    key: str
    reason: str
    message: str
    level: str = "info"
    transaction: str = ""


class Happened(Effect, frozen=True, kw_only=True):
    """Events of the journal (bcs_scheduler.core.journal) that are durable now."""

    happenings: tuple[Happening, ...]
