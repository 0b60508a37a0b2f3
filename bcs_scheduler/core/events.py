"""Everything that can happen to the core, as data. Adapters make these; the core handles them in order.

`cause` identifies the event in logs, records and effects. Times are Unix seconds.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from offers.model import Offer
from store.records import Version

MesosState = Literal[
    "TASK_STAGING",
    "TASK_STARTING",
    "TASK_RUNNING",
    "TASK_KILLING",
    "TASK_FINISHED",
    "TASK_FAILED",
    "TASK_KILLED",
    "TASK_ERROR",
    "TASK_LOST",
    "TASK_DROPPED",
    "TASK_UNREACHABLE",
    "TASK_GONE",
    "TASK_GONE_BY_OPERATOR",
    "TASK_UNKNOWN",
]


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    cause: str = ""


# --- from Mesos -----------------------------------------------------------------------------------------------


class Subscribed(Event, frozen=True, kw_only=True):
    """A subscription is up. Every offer known before is void."""

    framework_id: str
    heartbeat_interval: float = 15.0
    master: str = ""
    cluster: str = ""
    """Cluster name the master reports; empty if it has none."""


class Disconnected(Event, frozen=True, kw_only=True):
    """The subscription is down; the driver connects again by itself. Every offer known before is void."""

    reason: str = ""


class FrameworkRemoved(Event, frozen=True, kw_only=True):
    """Mesos will not have this framework any more (ERROR event)."""

    message: str


class Superseded(Event, frozen=True, kw_only=True):
    """Another connection has subscribed as this framework (ERROR event). It is for the term, which ends; the core does
    not see it."""


class OffersArrived(Event, frozen=True, kw_only=True):
    offers: tuple[Offer, ...]


class OfferRescinded(Event, frozen=True, kw_only=True):
    offer_id: str


class InverseOffersArrived(Event, frozen=True, kw_only=True):
    """Planned maintenance: agents whose resources are asked back, with the moment (Unix seconds)."""

    offers: tuple[tuple[str, str, float], ...]  # (inverse offer id, agent id or "", unavailable from)


class StatusUpdate(Event, frozen=True, kw_only=True):
    """A task status. `uuid` is empty for updates that need no acknowledgement (reconciliation, master-made)."""

    task_id: str
    state: str
    agent_id: str = ""
    executor_id: str = ""
    uuid: bytes = b""
    source: str = ""
    reason: str = ""
    message: str = ""
    healthy: bool | None = None
    timestamp: float = 0.0
    container_ip: str = ""
    data: bytes = b""


class ExecutorTerminated(Event, frozen=True, kw_only=True):
    """FAILURE event with an executor id."""

    agent_id: str
    executor_id: str
    status: int = 0


class AgentRemoved(Event, frozen=True, kw_only=True):
    """FAILURE event for a whole agent."""

    agent_id: str


class AcceptFailed(Event, frozen=True, kw_only=True):
    """Mesos refused an ACCEPT (4xx) or it certainly never left. Its taskgroups were not launched if `certain`;
    otherwise only reconciliation can tell."""

    taskgroups: tuple[str, ...]
    reason: str
    certain: bool = False


class AgentsListed(Event, frozen=True, kw_only=True):
    """Answer of GET_AGENTS: agent id, host name, ip, totals and attributes, for the cluster resources."""

    agents: tuple[dict[str, Any], ...]


# --- time -----------------------------------------------------------------------------------------------------


class Tick(Event, frozen=True, kw_only=True):
    """The moment the core asked for has come (or simply time has passed)."""


# --- commands of the API --------------------------------------------------------------------------------------


class Command(Event, frozen=True, kw_only=True):
    """Asked by a user. Answered by exactly one Reply effect with the same token. With `dry_run` nothing changes and the
    answer is the plan."""

    token: int = 0
    dry_run: bool = False


class CreateApplication(Command, frozen=True, kw_only=True):
    """`version` comes from the document, without a name."""

    version: Version
    type: Literal["application", "process"] = "application"


class UpdateApplication(Command, frozen=True, kw_only=True):
    """Replaces the definition. `instances`: how many taskgroups to bring to it (None = all)."""

    version: Version
    instances: int | None = None
    max_unavailable: int | None = None


class RollbackApplication(Command, frozen=True, kw_only=True):
    """Updates to a stored version (None = the one before the newest)."""

    namespace: str
    name: str
    version: str | None = None
    instances: int | None = None


class ScaleApplication(Command, frozen=True, kw_only=True):
    namespace: str
    name: str
    instances: int
    inner: bool = False


class DeleteApplication(Command, frozen=True, kw_only=True):
    namespace: str
    name: str
    enforce: bool = False


class RescheduleTaskGroup(Command, frozen=True, kw_only=True):
    taskgroup: str
    host_retain: float = 0.0


class CancelTransaction(Command, frozen=True, kw_only=True):
    id: str


class SetAgent(Command, frozen=True, kw_only=True):
    """Changes the settings of one agent; None leaves a part as it is."""

    agent: str
    disabled: bool | None = None
    strings: dict[str, str] | None = None
    scalars: dict[str, float] | None = None
    taints: dict[str, str] | None = None
    extended: dict[str, int] | None = None
    """Upserted by name."""
    sockets: dict[str, str] | None = None


class DeleteAgentSetting(Command, frozen=True, kw_only=True):
    agent: str
