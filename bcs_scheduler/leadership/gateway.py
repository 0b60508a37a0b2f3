"""The gateway between the API's event loop and the core's thread: the methods of the running service that the HTTP API
needs. Implemented by bcs_scheduler.leadership.runtime.Runtime; tests of the API implement it with a bare core or a
fake.

Implemented by bcs_scheduler.leadership.runtime.Runtime; tests of the API implement it with a bare core or a fake.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Literal, NamedTuple, Protocol

from bcs_scheduler.core.interface.effects import Reply
from bcs_scheduler.core.interface.requests import Request
from bcs_scheduler.core.interface.unknown import UnknownTaskGroups
from bcs_scheduler.core.placement.hierarchy.figures import TreeFigures
from bcs_scheduler.core.placement.queue_accounts import QueueFigures
from bcs_scheduler.leadership.hub import Hub
from offers.agents import ListedAgent
from offers.model import DecidedBy, Diagnosis, Offer
from store.state import State
from transactions.rules.losses import Halt, halts

Role = Literal["master", "slave", "unknown"]


class Check(NamedTuple):
    """One line of /readyz."""

    name: str  # e.g. "store", "mesos", "leadership"
    ok: bool
    message: str
    code: str = ""
    """Stable name of the fault, if programs may need it; empty otherwise."""


class NotLeading(Exception):
    """This process does not lead; `leader` is the URL of the one that does, if known."""

    def __init__(self, leader: str | None) -> None:
        super().__init__(f"not the leader; the leader is {leader or 'not known yet'}")
        self.leader = leader


class Busy(Exception):
    """Commands cannot be taken now (store unreachable, inbox full, stepping down). The message says why."""


class Facts(Protocol):
    """Answers that routes may use as they are: the state, which `Call.state` restricts, and facts of the cluster that
    only callers of all namespaces may ask for."""

    def role(self) -> Role: ...

    def leader_url(self) -> str | None:
        """http://host:port of the leading scheduler's API, None if unknown."""

    def state(self) -> State:
        """The current state: live on the master; on a slave the one that follows the store. Never waits. Raises Busy if
        there is none, or if it is too old because the store does not answer."""

    def age(self) -> float | None:
        """Seconds by which `state` may be behind the store; None on the master, and if there is no state."""

    def hub(self) -> Hub:
        """The hub of the present term, which gives durable changes to watchers. Raises NotLeading."""

    def offers(self) -> list[Offer]:
        """Offers held now, emptiest agent first."""

    def unknown_tasks(self) -> UnknownTaskGroups:
        """Taskgroups that run although no record requires them. Raises NotLeading."""

    def agents(self) -> list[ListedAgent]:
        """Agents as listed by the Mesos master last (core.interface.cluster_manager.AgentsListed). The
        list is replaced, never changed."""

    def awaits_agent(self, name: str) -> bool:
        """True if an agent of this id, host name or key that `agents` does not have may be listed soon: the master has
        not listed its agents to this leader yet, or waits for the agent. False on a slave."""

    def queues(self) -> list[QueueFigures]:
        """Figures of all queues, by name; none on a slave."""

    def partitions(self) -> list[DecidedBy]:
        """The partitions of roles with their policies, in the order of the settings; none on a slave."""

    def queue_tree(self, partition: str) -> TreeFigures | None:
        """The tree of queues of a partition; None if the partition has none, and on a slave."""

    def mesos_master(self) -> str:
        """host:port of the Mesos master this scheduler has subscribed with; empty if there is none, and on a slave."""

    def checks(self) -> list[Check]:
        """Readiness: store, leadership, Mesos, ..."""

    def now(self) -> float:
        """Unix seconds by the clock that the times in the state are from; of a process that does not lead, by that of
        its host."""

    def metrics(self) -> bytes:
        """Prometheus text."""


class Gateway(Facts, Protocol):
    """The whole connection between the API and the core. Routes get `Facts` only; answers of the core come to them
    through `Call.reply` and `Call.diagnosis`, which leave out objects that the caller may not see."""

    def submit(self, command: Request) -> Future[Reply]:
        """Hands a command to the core. The future ends when the change is durable (or refused). Raises NotLeading or
        Busy at once. The command's `token` and `cause` are filled in by the gateway (cause is kept if given)."""

    def withdraw(self, future: Future[Reply]) -> bool:
        """Takes back a command by the future that `submit` gave. True: the core has not begun it and never will. False:
        it has begun or ended, and the future will be done."""

    def diagnosis(self, transaction_id: str) -> Diagnosis | None:
        """Explains why the transaction's open taskgroups could not be placed in the last pass; None if no diagnosis
        exists."""


def halts_of(facts: Facts) -> list[Halt]:
    """The halts of the whole cluster, for every caller; none if there is no state."""
    try:
        return halts(facts.state().framework)
    except (Busy, NotLeading):
        return []
