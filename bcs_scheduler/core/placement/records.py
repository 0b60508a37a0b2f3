"""The source of units that are records: taskgroups (`core.placement.source`)."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from bcs_scheduler.core.interface.cluster_manager import Launch, LaunchOnAgent
from bcs_scheduler.core.interface.leased import Decline
from bcs_scheduler.core.placement.revisions import Revisions, read_tree
from bcs_scheduler.core.placement.snapshots.held import MOST_TEMPLATES, by_dimension, dimension_of, request_of
from bcs_scheduler.core.placement.source import Facts, Follower, Member, News, StoredTree, Tenant, UsedAmounts
from bcs_scheduler.core.run_times import OF_APPLICATION
from offers.dimensions import Amounts, amounts
from offers.ledger.holds import Cause
from offers.model import Demand, Placement, Site
from offers.policy.hierarchy.placement import Submission
from offers.policy.obstacles import Obstacle
from offers.policy.session.model import Queue, Status, Task, Template
from offers.resources import SCALARS
from store.ids import namespace_of, nanoseconds_of, object_key, owner_of
from store.records import DEFAULT_QUEUE, Namespace, Record, ReschedulePayload, TaskGroup
from store.records import Queue as QueueRecord
from store.records.definition import Amounts as Resources
from transactions.base import Failure, Refused, Slot
from transactions.injection import Injections
from transactions.kinds import reschedule
from transactions.obstacles import protecting
from transactions.resource_request import request_of as requested_by
from transactions.rules import disruptions, endings, gangs
from transactions.rules.application_types import bound_to_agents
from transactions.rules.gangs import Shortage
from transactions.rules.queues import partition_of_revision, queue_of

if TYPE_CHECKING:
    from bcs_scheduler.core.context import TurnContext

OF_UNITS = frozenset({"taskgroup", "application", "namespace", "version"})
"""The kinds of the records that trees of queues count."""
OF_QUEUES = frozenset({"queue", "namespace", "podgroup"})
"""The kinds of the records that decide about the order of work."""
UNIT = 50
"""Taskgroups written in one unit at most, so that any store takes it whole."""
APPLICATIONS = 500
"""Applications that are looked at for runs that end soon, those with runs of their own first."""
NOBODY = "nobody"
"""The user of applications whose creator is not known, as in YuniKorn."""
TASKGROUPS = 500
"""Running taskgroups that are looked at for the same."""


class Records:
    """See `source.Source`. A unit is named by the id of its taskgroup, and a demand by the id of its transaction."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn, self._state = turn, turn.state
        self._templates: dict[tuple[Resources, tuple[tuple[str, int], ...]], Template] = {}
        self._followers: list[Follower] = []

    # --- units

    def tenant(self, unit: str) -> Tenant | None:
        """See `Source`."""
        group = self._state.taskgroups.get(unit)
        if group is None:
            return None
        title = object_key(group.namespace, group.name)
        leaves = bool(group.killing_since) or group.ended
        ended_at = group.ended_at if group.ended else 0.0
        return Tenant(unit, group.application_key, group.agent_id, title, leaves, ended_at)

    def has_ended(self, unit: str) -> bool:
        """See `Source`."""
        group = self._state.taskgroups.get(unit)
        return group is None or group.ended

    def has_started(self, application: str, since: float) -> bool:
        """See `Source`."""
        return any(group.created_at >= since for group in self._state.groups_of(application).values())

    def age_of(self, demand: str) -> int:
        """See `Units`: the id of a transaction has its time."""
        return nanoseconds_of(demand)

    def is_needed(self, demand: str) -> bool:
        """See `Units`: its transaction is active."""
        transaction = self._state.transactions.get(demand)
        return transaction is not None and transaction.active

    def priority(self, demand: Demand[Slot]) -> int:
        """See `Source`: that of the version that is launched."""
        return self._turn.engine.priority(self._state, demand.id)

    def used_on(self, agent: str) -> UsedAmounts:
        """See `Source`. The taskgroups of daemonsets stay."""
        used, lasting = Counter[str](), Counter[str]()
        for group in self._state.groups_on(agent).values():
            if not group.ended:
                application = self._state.applications.get(group.application_key)
                for sums in (used, lasting) if application and bound_to_agents(application) else (used,):
                    sums.update(cpus=group.resources.cpus, mem=group.resources.mem)
        return UsedAmounts((used["cpus"], used["mem"]), (lasting["cpus"], lasting["mem"]))

    def leaving_on(self, agent: str) -> Mapping[str, int]:
        """See `Source`."""
        sums = Counter[str]()
        for group in self._state.groups_on(agent).values():
            if group.killing_since and not group.ended:
                sums.update({name: getattr(group.resources, name) for name in SCALARS})
        return sums

    def ending_within(self, role: str, seconds: float) -> Mapping[str, dict[str, int]]:
        """See `Source`. The median of the runs that have lasted longer than the present one is the expected end."""
        state, run_times, now = self._state, self._turn.run_times, self._turn.now
        ending: dict[str, dict[str, int]] = {}
        if not len(run_times):
            return ending
        own = run_times.applications()
        kinds: dict[str, tuple[float, ...]] = {}
        left = TASKGROUPS
        for key in dict.fromkeys((*islice(own, APPLICATIONS), *islice(list(state.applications), APPLICATIONS))):
            application = state.applications.get(key)
            version = state.version(key, application.version) if application is not None else None
            if application is None or version is None or version.restart_policy.policy == "Always" or left <= 0:
                continue
            runs = run_times.own(key)
            if runs is None:
                kind = application.type
                runs = kinds[kind] if kind in kinds else kinds.setdefault(kind, run_times.basis("", kind))
            for group in islice(state.groups_of(key).values(), left) if runs else ():
                left -= 1
                if group.ended or group.killing_since or not group.running_since or (group.role or "*") != role:
                    continue
                rest = runs[bisect_right(runs, now - group.created_at) :]
                if len(rest) >= OF_APPLICATION and rest[len(rest) // 2] - (now - group.created_at) <= seconds:
                    sums = ending.setdefault(group.agent_id, {})
                    for name in SCALARS:
                        sums[name] = sums.get(name, 0) + getattr(group.resources, name)
        return ending

    def shortage(self, group: str) -> Shortage | None:
        """See `Source`."""
        record = self._state.pod_groups.get(group)
        return gangs.shortage(self._state, record, self._planned) if record is not None else None

    def _planned(self, application: str) -> int:
        return sum(map(self._turn.engine.planned, self._state.active_of(application)))

    def members(self, group: str) -> Iterable[Member]:
        """See `Source`."""
        state, default = self._state, self._turn.options.transactions.role
        for key in list(state.indexes.applications_in(group)):
            application = state.applications.get(key)
            version = state.version(key, application.version) if application is not None else None
            if application is not None and version is not None:
                yield Member(application.member, version.role or default)

    # --- tasks and jobs

    def follow(self, follower: Follower) -> None:
        """See `Source`."""
        if not self._followers:
            watch = partial(self._turn.watch, "offers")
            watch(("taskgroup",), self._group_changed)
            watch(("application",), self._application_changed)
            watch(("version",), self._version_changed)
            watch(("namespace",), self._namespace_changed)
            watch(("queue",), self._queue_changed)
        self._followers.append(follower)

    def units(self) -> Iterable[tuple[str, str]]:
        """See `Source`."""
        return ((group.application_key, group.id) for group in self._state.taskgroups.values())

    def task(self, unit: str, role: str, plain: bool) -> Task | None:
        """See `Source`."""
        group = self._state.taskgroups.get(unit)
        return self._task(group, role, plain) if group is not None else None

    def _task(self, group: TaskGroup, role: str, plain: bool) -> Task | None:
        if group.role != role or group.ended:
            return None
        key = (group.resources, tuple(sorted(group.extended.items())))
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= MOST_TEMPLATES:
                self._templates.clear()
            template = self._templates[key] = Template(request_of(group.resources, group.extended.items()))
        application = self._state.applications.get(group.application_key)
        bound = application is not None and bound_to_agents(application)
        critical = bound or disruptions.is_critical(self._state, group)
        ready = plain or application is None or disruptions.is_serving(application, group)
        return Task(
            group.id,
            template,
            _status(group),
            group.agent_id,
            created=group.created_at,
            critical=critical,
            ready=ready,
            moves=bool(group.killing_since) and group.end_cause in endings.MOVES,
        )

    def applications(self) -> Collection[str]:
        """See `Source`."""
        return self._state.applications

    def facts(self, application: str) -> Facts | None:
        """See `Source`: of the version of the application."""
        record = self._state.applications.get(application)
        if record is None:
            return None
        version = self._state.version(application, record.version)
        least, priority = (version.min_available, version.priority) if version is not None else (1, 0)
        preempts = version is None or version.preemption_policy != "Never"
        return Facts(least, priority, preempts, record.created_at, bound_to_agents(record))

    def queue_of(self, application: str) -> str:
        """See `Source`: that of its namespace."""
        return queue_of(self._state, namespace_of(application))

    def queues(self) -> list[Queue]:
        """See `Source`."""
        records = self._state.queues
        default = () if DEFAULT_QUEUE in records else (QueueRecord(name=DEFAULT_QUEUE),)
        return [_queue(record) for record in (*default, *records.values())]

    def capability(self, queue: str) -> Amounts:
        """See `Source`."""
        record = self._state.queues.get(queue)
        return tuple(record.limits.items()) if record is not None else ()

    def _group_changed(self, key: str, before: Record | None, after: Record | None) -> None:
        group = after if after is not None else before
        if not isinstance(group, TaskGroup):
            return
        for follower in self._followers:
            follower.unit_changed(group.application_key, key, present=after is not None)

    def _application_changed(self, key: str, _before: Record | None, _after: Record | None) -> None:
        for follower in self._followers:
            follower.application_changed(key)

    def _version_changed(self, key: str, _before: Record | None, _after: Record | None) -> None:
        for follower in self._followers:
            follower.application_changed(owner_of(key))

    def _namespace_changed(self, key: str, _before: Record | None, _after: Record | None) -> None:
        for follower in self._followers:
            follower.namespace_changed(key)

    def _queue_changed(self, key: str, before: Record | None, after: Record | None) -> None:
        for follower in self._followers:
            follower.queues_changed()
        if (before is None) is not (after is None):
            for name, record in self._state.namespaces.items():
                if isinstance(record, Namespace) and record.queue == key:
                    self._namespace_changed(name, None, None)

    # --- trees of queues

    def tree(self, partition: str) -> StoredTree | None:
        """See `Source`: the newest revision that this version can read."""
        record = Revisions(self._turn, partition).readable()
        return StoredTree(read_tree(record.document), record.document, record.halts) if record is not None else None

    def keep_tree(self, partition: str, document: str) -> bool:
        """See `Source`: as the first revision."""
        return Revisions(self._turn, partition).seed(document)

    dimension = staticmethod(dimension_of)

    def submission(self, application: str) -> Submission:
        """See `Source`."""
        namespace = namespace_of(application)
        record, settings = self._state.applications.get(application), self._state.namespaces.get(namespace)
        user, groups = (record.user, record.user_groups) if record is not None else ("", ())
        queue = settings.queue if settings is not None else ""
        return Submission(user or NOBODY, groups, queue, {"namespace": namespace})

    def roles(self) -> Iterable[str]:
        """See `Source`."""
        return (role for _, role in self._state.held())

    def beneficiaries(self) -> Iterable[tuple[str, str]]:
        """See `Source`: of the transactions that are active."""
        active = self._state.active_transactions()  # replays have another order
        for transaction in sorted(active, key=attrgetter("id")):
            payload = transaction.payload
            if isinstance(payload, ReschedulePayload) and payload.beneficiary:
                yield payload.taskgroup, payload.beneficiary

    def idle(self) -> Iterable[tuple[str, str]]:
        """See `Source`."""
        for key, groups in self._state.readiness.all.items():
            if (application := self._state.applications.get(key)) is not None:
                for group in groups.values():
                    if not (group.ended or group.killing_since or disruptions.is_serving(application, group)):
                        yield key, group.id

    # --- budgets

    def spends(self, unit: str) -> bool:
        """See `Source`."""
        group = self._state.taskgroups.get(unit)
        application = self._state.applications.get(group.application_key) if group is not None else None
        return group is not None and application is not None and disruptions.is_serving(application, group)

    def may_end(self, unit: str) -> bool:
        """See `Source`."""
        group = self._state.taskgroups.get(unit)
        return group is not None and disruptions.at(self._turn.context).judge(group, "evict").refusal is None

    def may_ever_end(self, unit: str) -> bool:
        """See `Source`."""
        group = self._state.taskgroups.get(unit)
        return group is not None and disruptions.at(self._turn.context).protection(group, "evict") is None

    def obstacle(self, unit: str) -> Obstacle:
        """See `Source`."""
        group = self._state.taskgroups.get(unit)
        return Obstacle.LEAVING if group is None else protecting(disruptions.at(self._turn.context), group)

    def allowance(self, application: str) -> int:
        """See `Source`."""
        return disruptions.allowance(self._turn.context, application)

    def admits_some(self, application: str) -> bool:
        """See `Source`."""
        return disruptions.admits_some(self._turn.context, application)

    def grows_at(self, application: str) -> float:
        """See `Source`."""
        return disruptions.grows_at(self._turn.context, application)

    def budget_of(self, application: str) -> tuple[str, ...]:
        """See `Source`."""
        return disruptions.budget_of(self._turn.context, application)

    # --- effects

    def evict(self, unit: str, beneficiary: str, queue: str, *, is_paid: bool) -> str | None:
        """See `Source`: begins a transaction, which kills the taskgroup and looks for another place."""
        group = self._state.taskgroups.get(unit)
        if group is None:
            return "it does not exist"
        try:
            reschedule.evict(self._turn.context, group, beneficiary, queue, is_paid=is_paid)
        except Refused as refused:
            return refused.message
        return None

    def fail(self, demand: str, failure: Failure) -> None:
        """See `Source`: the transaction ends."""
        self._turn.engine.fail(self._turn.context, demand, failure)

    def bind(self, site: Site, placements: Sequence[Placement[Slot]]) -> bool:
        """See `Source`: writes the taskgroups of one agent; their launch leaves after they are durable.

        The launch uses up lots, the leased parts of the agent; for a cluster manager with offers, a lot is an offer.
        Only `_send` depends on this."""
        pool, launches = self._turn.pool, list[Launch]()
        for first in range(0, len(placements), UNIT):
            self._write(placements[first : first + UNIT], launches)
        held = [launch for launch in launches if launch.held]
        if not held or len(held) < len(launches):
            lots = tuple(offer.id for offer in pool.hand.withdraw(*site))
            sent = tuple(launch for launch in launches if not launch.held)
            if pool.hand.external:
                pool.hand.external.used(launch.allocation for launch in sent)
            self._send(site[0], lots, sent)
        pool.hand.unplan(site)
        for launch in held:
            request = requested_by(launch.version, self._turn.options.traits.overhead)
            pool.holds.add(launch.taskgroup.id, Cause.PLACEHOLDER, site, request)
        self._turn.cut()
        return bool(launches)

    def _send(self, agent_id: str, lots: tuple[str, ...], launches: tuple[Launch, ...]) -> None:
        """One ACCEPT for all offers of the agent, or a DECLINE if nothing is left to be launched."""
        turn = self._turn
        if launches:
            turn.emit(LaunchOnAgent(agent_id=agent_id, offer_ids=lots, launches=launches, cause=turn.cause))
        else:
            turn.emit(Decline(offer_ids=lots, refuse_seconds=0.0, cause=turn.cause))

    def _write(self, placements: Sequence[Placement[Slot]], launches: list[Launch]) -> None:
        """Writes the taskgroups of placements as one unit and adds their launches to `launches`. A placement that
        cannot be written ends its transaction; the others of the unit are matched again."""
        turn = self._turn
        written: list[Launch | None] = []
        failure = turn.attempt("agent", placements[0].agent_id, partial(self._record, placements, written))
        if failure is None:
            launches += [launch for launch in written if launch is not None]
            return
        for number, placement in enumerate(placements):
            if number == len(written):
                turn.engine.fail(turn.context, placement.demand, failure)
            else:
                turn.engine.restore(turn.context, placement.demand, placement.slot)

    def _record(self, placements: Sequence[Placement[Slot]], written: list[Launch | None]) -> None:
        turn = self._turn
        injections = Injections(turn.state)
        for placement in placements:
            placed = turn.engine.placed(turn.context, placement, injections)
            launch = None
            if placed is not None:
                group, version, injected = placed
                launch = Launch(taskgroup=group, version=version, allocation=placement.allocation, injected=injected)
            written.append(launch)


def news_of(changed: Collection[tuple[str, str]]) -> News:
    """The news of records that have changed, each named by kind and key."""
    keys = dict[str, list[str]]()
    for kind, key in changed:
        keys.setdefault(kind, []).append(key)
    return News(
        units=not OF_UNITS.isdisjoint(keys),
        queues=not OF_QUEUES.isdisjoint(keys),
        demands=keys.get("transaction", ()),
        groups=keys.get("podgroup", ()),
        trees={partition_of_revision(key) for key in keys.get("queuetree", ())},
    )


def _status(group: TaskGroup) -> Status:
    """The status of a taskgroup that has not ended. One that starts may be evicted like one that runs."""
    if group.killing_since:
        return Status.RELEASING
    return Status.UNKNOWN if group.unreachable_since else Status.RUNNING


def _queue(record: QueueRecord) -> Queue:
    return Queue(
        record.name,
        record.weight,
        amounts(by_dimension(record.guaranteed)),
        tuple(by_dimension(record.limits).items()),
        record.reclaimable,
        created=record.created_at,
        priority=record.priority,
    )
