"""Options of the core. The defaults are those of the settings, too (bcs_scheduler.settings.sections)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from bcs_scheduler.core.interface.cluster_manager import Traits
from offers.matching.ranking import Scoring
from offers.model import DecidedBy
from offers.policy.hierarchy.configuration.partition import Partition
from offers.policy.session.guard import Watch
from offers.policy.session.policy import Policy
from store.records import DEFAULT_PARTITION, Executor
from transactions.base import Options

PolicyKind = Literal["simple", "session", "hierarchical"]
OTHERS = "*"
"""Stands for all roles that no other partition names, also for the role of this name."""


@dataclass(frozen=True, slots=True)
class RolePartition:
    """The policy of the demands and offers of some roles."""

    roles: tuple[str, ...] = ("*",)
    """Names of the roles; ``*`` stands for all roles that no other partition names."""
    policy: Policy | None = None
    """The policy of sessions that decide who gets room; None: demands are placed in the order of their arrival."""
    hierarchy: Partition | None = None
    """The tree of queues that decides who gets room; None: another policy decides."""
    hierarchy_document: str = ""
    """The file of `hierarchy` as canonical JSON, which becomes the first stored revision; empty: there is no file."""
    name: str = ""
    """Name of the partition; empty: it has none, or, with a tree of queues, `DEFAULT_PARTITION`."""

    @property
    def title(self) -> str:
        """The name of the partition; empty: it has none. A partition with a tree of queues always has a name."""
        return self.name or (DEFAULT_PARTITION if self.hierarchy is not None else "")

    @property
    def decides(self) -> DecidedBy:
        """The policy with the roles and the name of the partition."""
        return DecidedBy(self.kind, self.roles, self.title)

    @property
    def kind(self) -> PolicyKind:
        """Name of the policy."""
        if self.hierarchy is not None:
            return "hierarchical"
        return "simple" if self.policy is None else "session"


@dataclass(frozen=True, slots=True)
class CoreOptions:
    """Options of the core. Times are seconds."""

    transactions: Options = field(default_factory=Options)
    scoring: Scoring = "spread"
    """Choice among the agents that fit: the emptiest (spread) or the fullest (binpack)."""
    policy: Policy | None = None
    """The policy of sessions that decide who gets room; None: demands are placed in the order of their arrival."""
    hierarchy: Partition | None = None
    """The tree of queues that decides who gets room; None: another policy decides."""
    partitions: tuple[RolePartition, ...] = ()
    """Partitions of roles with a policy each, exactly one of them with ``*``; empty: one partition of all roles, with
    `policy` or `hierarchy`."""
    placeholders: Literal["off", "sleep", "reserve", "hold"] = "off"
    """Form of the placeholders that hold room for gangs whose documents ask for a reservation; off: none do. sleep:
    taskgroups that sleep; reserve: rooms that the cluster manager keeps; hold: room of offers that no other demand
    gets."""
    unmanaged: Literal["bypass", "wait", "refuse"] = "bypass"
    """Treatment of work that neither an application manager nor a reservation admits: bypass, it is placed; wait, its
    new taskgroups wait; refuse, new applications and deployments are refused. Daemonsets are always placed."""
    hierarchy_document: str = ""
    """The file of `hierarchy` as canonical JSON, which becomes the first stored revision; empty: there is no file."""
    session_period: float = 1.0
    """Seconds from a session to the next one at least (the period of the original)."""
    session_clock: Callable[[], float] | None = None
    """Seconds of any clock that never goes back, which bounds the time of third-party plug-ins; None: no bound."""
    plugin_watch: Watch | None = None
    """Bounds calls of third-party plug-ins that never return; None: no bound."""
    aging: float = 300.0
    """After so many seconds of waiting a demand reserves room on one agent (bcs_scheduler.core.placement.aging); 0 =
    never."""
    offer_hold: float = 5.0
    """Seconds for which offers that no demand can use are held; then they are declined."""
    offer_reserve: int = 100
    """At least so many offers are kept for `offer_hold` seconds after nothing waits for a place any more
    (core.controllers.cluster.offer_manager)."""
    refuse_idle: float = 120.0
    """Seconds for which declined resources are not offered again while nothing is pending (SUPPRESS goes with the
    decline)."""
    refuse_unfit: float = 10.0
    """Seconds for which resources that no open demand can use are not offered again."""
    explained: int = 256
    """Number of demands that one decision of a policy explains, others each time. Without a policy: number of demands,
    in the order of their opening, that are matched with every new offer, even one that is too small for them, so that
    their diagnoses cover all agents. The diagnosis of another demand covers the agents at the time when an offer was
    last large enough for it."""
    staging_timeout: float = 180.0
    """After so long in status Staging the cluster manager is asked about a taskgroup, which is then declared Lost."""
    silence_timeout: float = 720.0
    """After so long without a report of a taskgroup the cluster manager is asked about the taskgroup."""
    reconcile_interval: float = 900.0
    """Between two reconciliations of all tasks."""
    kill_retry: float = 10.0
    """After so long a kill without an answer is repeated; the pause doubles each time, up to `kill_retry_max`."""
    kill_retry_max: float = 60.0
    unit_changes: int = 50
    """A unit that is consistent in itself is closed when it has this many changes: about as many as make the best
    commits (bcs_scheduler.loop.commit_pacing.BATCH_BYTES), which never cut a unit."""
    unit_bytes: int = 64 * 1024
    """The same in bytes, so that few big records fit a store's batch as well as many small ones."""
    executor: Executor = "bcs"
    """Executor of taskgroups whose version does not name one: our own executor, or the executor of the cluster
    manager."""
    answer_timeout: float = 60.0
    """Seconds that an executor may take to answer a message, beyond the time of the work itself."""
    command_keep: int = 100
    """Ended commands kept of one application or deployment."""
    command_keep_total: int = 50_000
    """Bound in kB for the size in the store of all ended commands and their messages."""
    command_open: int = 50_000
    """Bound in kB: a command of a namespace is refused while its open commands and their messages take as much or
    more."""
    command_open_total: int = 200_000
    """The same of all namespaces together."""
    output_keep: int = 10
    """Outputs of failed tasks kept of one deployment or application, the newest; 0 = none of any."""
    output_keep_total: int = 16_000
    """Limit in kB for the size in the store of all kept outputs of failed tasks."""
    output_retention: float = 7 * 86400.0
    """After so long an output of a failed task is removed."""
    max_priority: int = 0
    """Greatest priority of new work in namespaces that have none of their own, and whose queues have none."""
    queue_requests: int = 10
    """Requests that may wait for one object (`onConflict=queue`); 0 = none."""
    queue_total: int = 64_000
    """Size in kB of all requests that may wait, of all objects. A document counts twice, as text and as definition."""
    traits: Traits = field(default_factory=Traits)
    """Abilities of the cluster manager. The program knows them before there is a connection, and on a standby."""
    loss_share: float = 0.3
    """Part of the agents or taskgroups whose loss at once stops the replacement of lost taskgroups; 0 = no guard."""
    loss_pause: float = 1800.0
    """Seconds after which lost taskgroups are replaced although no operator has resumed; 0 = never."""
    rebalance: Literal["off", "pack", "spread"] = "off"
    """Taskgroups are moved by themselves toward fewer agents (pack) or more even agents (spread); off: only on
    request."""
    rebalance_period: float = 300.0
    """Seconds between two rounds of such moves."""
    rebalance_moves: int = 10
    """Moves of a round at most."""
    rebalance_gain: float = 0.01
    """Least gain of a move: the change of the sum of squared shares of agents (offers.rebalancing)."""
    agent_return: float = 900.0
    """Seconds for which an agent may be missing from the list before ended taskgroups of a daemonset on it are removed:
    after a change of masters it takes agents some time to register again."""
    agent_forget: float = 86400.0
    """Seconds for which a taskgroup of a daemonset may be unreachable before its record is removed. If its agent
    returns later, the taskgroup is killed."""
    events_retention: float = 86400.0
    events_keep: int = 50_000
    """Events are readable for at least so long, unless there are more than so many newer ones."""
    validate: bool = False
    """Compare the indexes with a recount and resolve all references after every turn that has changed records
    (store.state.validation). Costs some 10 us per record and turn."""
    strict: bool = False
    """Let unexpected errors out (simulation and tests) instead of failing the one transaction they came from."""

    def parts(self) -> tuple[RolePartition, ...]:
        """The partitions of roles, at least one."""
        whole = RolePartition((OTHERS,), self.policy, self.hierarchy, self.hierarchy_document)
        return self.partitions or (whole,)

    def part_of(self, role: str) -> RolePartition:
        """The partition of a role."""
        parts = self.parts()
        rest = next(part for part in parts if OTHERS in part.roles)
        return next((part for part in parts if role in part.roles), rest)
