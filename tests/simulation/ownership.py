"""What must hold of deployments, daemonsets, services, drains and the event log, whatever happens.

I20  rolling updates keep their bounds: by their own act never fewer ready, never more there; at their end all serve
I21  at most one taskgroup of a daemonset per agent
I22  endpoints say what the taskgroups say, after every turn
I23  drains keep the bounds of whose taskgroups they move; if a deployment may surge, a stand-in is ready before a ready
     taskgroup is moved, also in a gang below its minimum
I24  the event log has no gap and no repetition, and what it told stays
I25  an application has an owner that knows it, and a deployment has its application
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from typing import TypeVar

from bcs_scheduler.core.options import CoreOptions
from offers.model import Allocation
from store.base import Change
from store.records import (
    Application,
    Deployment,
    Endpoint,
    EventLog,
    Namespace,
    Quota,
    Record,
    Service,
    TaskGroup,
    Transaction,
    Version,
)
from store.records.running import Owner
from store.state.unit_of_work import Unit
from tests.simulation.budgets import budget
from tests.simulation.driver import Term
from tests.simulation.mesos import Master
from tests.simulation.oracle import Site, neighbours_in, objection, shortage
from tests.simulation.readiness import is_ready, ready
from tests.simulation.room import Room, claim_room
from tests.simulation.users import setting_of
from tests.simulation.violation import Violation
from tests.simulation.world import World
from transactions.resource_request import EXECUTOR, request_of
from transactions.rules.draining import drained_agent

Records = Mapping[tuple[str, str], Record]
R = TypeVar("R", bound=Record)


ANSWERING = frozenset({"application", "endpoint", "service", "taskgroup", "version"})
"""Kinds of records that decide on the members of services."""
OWNING = frozenset({"application", "daemonset", "deployment"})
"""Kinds of records that own others or are owned."""


class Ownership:
    def __init__(self, world: World, master: Master, options: CoreOptions) -> None:
        self.world, self._master, self._options = world, master, options
        self._reported = 0
        """Number of the last event that has become durable."""

    # --- a process decides ------------------------------------------------------------------------------------

    def decided(self, term: Term, unit: Unit) -> None:
        """Judges one unit against what had been decided before it."""
        before: Records = term.mirror
        self._stand_ins_keep_bounds(before, unit)
        if not any(change.kind in ("taskgroup", "deployment") for change in unit.changes):
            return
        after = dict(before)
        for change in unit.changes:
            if change.record is None:
                after.pop((change.kind, change.key), None)
            else:
                after[change.kind, change.key] = change.record
        for change in unit.changes:
            if isinstance(change.record, Deployment):
                self._ends_when_all_serve(before.get((change.kind, change.key)), change.record, after)
        ended = [new for new in _newly(before, unit, "ended") if ready(before[new.kind, new.key])]
        placed = _newly(before, unit, "placed")
        for deployment in _of(after, Deployment):
            if deployment.successor:
                self._keeps_floor(deployment, after, ended)
                self._keeps_ceiling(deployment, before, after, unit, placed)
        for group in placed:
            self._alone_on_agent(group, after)
        self._drains_keep_bounds(term, unit, after, ended)

    @staticmethod
    def _ends_when_all_serve(old: Record | None, new: Deployment, after: Records) -> None:
        """I20, at its end: an update that was not undone leaves as many as are wanted, and every one serves."""
        if not isinstance(old, Deployment) or not old.successor or new.successor or new.status != "Running":
            return
        if new.revision != old.revision:
            return  # undone
        left = _members(after, new)
        serving = sum(1 for group in left if is_ready(group))
        if serving < max(len(left), new.instances):
            raise Violation(
                "I20",
                f"the update of {new.key} is complete, and {serving} of {new.instances} taskgroups serve",
                new.key,
                *(group.id for group in left if not is_ready(group)),
            )

    def _keeps_floor(self, deployment: Deployment, after: Records, ended: list[TaskGroup]) -> None:
        """I20, first half: what is ready and ended by the update leaves enough that are ready."""
        own = [g for g in ended if g.end_cause == "RollingUpdate" and _is_of(after, deployment, g)]
        if not own:
            return
        left = sum(1 for group in _members(after, deployment) if is_ready(group))
        floor = _wanted(deployment) - deployment.strategy.max_unavailable
        if left < floor:
            raise Violation(
                "I20",
                f"the update of {deployment.key} leaves {left} ready, at least {floor} must be",
                deployment.key,
                *(g.id for g in own),
            )

    def _keeps_ceiling(
        self, deployment: Deployment, before: Records, after: Records, unit: Unit, placed: list[TaskGroup]
    ) -> None:
        """I20, second half: what the update adds leaves no more than it may have, those included that have ended and
        are about to be restarted."""
        gone = {
            (old.application, old.index)
            for change in unit.changes
            if change.record is None and isinstance(old := before.get((change.kind, change.key)), TaskGroup)
        }
        added = [g for g in placed if _is_of(after, deployment, g) and (g.application, g.index) not in gone]
        if not added:
            return
        restarting = {t.taskgroup for t in _of(after, Transaction) if t.active and t.taskgroup}
        there = [g for g in _members(after, deployment) if not g.ended or g.id in restarting]
        ceiling = _wanted(deployment) + deployment.strategy.max_surge
        if len(there) > ceiling:
            raise Violation(
                "I20",
                f"the update of {deployment.key} has {len(there)} taskgroups, at most {ceiling} may be there",
                deployment.key,
                *(g.id for g in added),
            )

    @staticmethod
    def _alone_on_agent(group: TaskGroup, after: Records) -> None:
        """I21"""
        application = after.get(("application", f"{group.namespace}/{group.application}"))
        if not isinstance(application, Application) or application.type != "daemonset":
            return
        others = [
            g.id
            for g in _of(after, TaskGroup)
            if g.agent_id == group.agent_id
            and (g.namespace, g.application) == (group.namespace, group.application)
            and not g.ended
            and g.id != group.id
        ]
        if others:
            raise Violation("I21", f"{group.id} is placed on {group.agent_id} beside {others}", group.id, *others)

    def _drains_keep_bounds(self, term: Term, unit: Unit, after: Records, ended: list[TaskGroup]) -> None:
        """I23"""
        moves = {
            t.taskgroup: t.created_at
            for change in unit.changes
            if isinstance(t := change.record, Transaction) and drained_agent(t)
        }
        for group in ended:
            if group.id not in moves:
                continue
            application = after[("application", f"{group.namespace}/{group.application}")]
            assert isinstance(application, Application)
            owner = after.get(("deployment", f"{application.namespace}/{application.deployment}"))
            members = [
                g for g in _of(after, TaskGroup) if (g.namespace, g.application) == (group.namespace, group.application)
            ]
            found = budget(after, application, moves[group.id])
            if found.ready < found.least:
                words = f"a drain leaves {found.ready} of {found.places} of {application.key} ready"
                raise Violation("I23", words, group.id)
            if isinstance(owner, Deployment) and not application.rolling and not is_limited(after, owner.namespace):
                free = owner.strategy.max_unavailable and application.instances <= owner.instances
                if free and (_is_operated(after, application) or not self._has_place_beside(term, after, application)):
                    continue  # no stand-in can be started: the disruption budget alone decides
                _has_stand_ins(owner, application, group, members, moves)

    def _has_place_beside(self, term: Term, after: Records, application: Application) -> bool:
        """True if one taskgroup more of the application has certainly a place: no policy decides about it, and an agent
        offers enough for it and for all that waits."""
        options, turn = self._options, term.core.turn_context
        if options.policy is not None or options.hierarchy is not None or options.partitions:
            return False
        known = neighbours_in(after.values())
        version = known.versions[application.key, application.version]
        waiting = Counter({"ports": 0})
        ports: set[int] = set()
        requests = [(demand.request, len(demand.slots)) for demand in turn.engine.demands.values()]
        ending = [group for group in known.live if group.killing_since]
        requests += [(request_of(known.versions[g.application_key, g.version], EXECUTOR), 1) for g in ending]
        for request, number in requests:
            waiting.update(cpus=request.cpus * number, mem=request.mem * number, disk=request.disk * number)
            waiting["ports"] += request.random_ports * number
            ports.update(request.fixed_ports)
        for agent in self._master.registered.values():
            row = turn.pool.row(agent.id, version.role or options.transactions.role)
            if row is None or row.claims:
                continue
            room = Room()
            for offer in row.offers.values():
                room.add(claim_room(Allocation(offer.scalars, offer.ranges)))
            room.subtract(Room(waiting, ports.union(sorted(room.ports - ports)[: waiting["ports"]])))
            site = Site(agent, setting_of(dict(after), str(agent.attributes["InnerIP"])))
            if not shortage(version, room) and not objection(version, site, known):
                return True
        return False

    def _stand_ins_keep_bounds(self, before: Records, unit: Unit) -> None:
        """I23: a scale to more than its deployment wants stays within the surge of the deployment."""
        for change in unit.changes:
            application = change.record
            if not isinstance(application, Application) or application.rolling or not application.deployment:
                continue
            key = application.deployment_key
            owner = before.get(("deployment", key))
            owner = next((c.record for c in unit.changes if (c.kind, c.key) == ("deployment", key)), owner)
            if not isinstance(owner, Deployment) or owner.status != "Running":
                continue
            beyond = application.instances - owner.instances
            self.world.counts["applications with stand-ins"] += beyond > 0
            if beyond > owner.strategy.max_surge:
                words = f"{application.key} has {beyond} stand-ins, {owner.strategy.max_surge} may be"
                raise Violation("I23", words, application.key)

    # --- after a turn -----------------------------------------------------------------------------------------

    def turned(self, term: Term) -> None:
        """Both depend on records alone, which most turns do not change."""
        changed = {change.kind for unit in term.made for change in unit.changes}
        if not changed.isdisjoint(ANSWERING):
            self._endpoints_are_true(term.mirror)
        if not changed.isdisjoint(OWNING):
            self._everybody_has_an_owner(term.mirror)

    def _endpoints_are_true(self, records: Records) -> None:
        """I22"""
        endpoints = {e.key: e for e in _of(records, Endpoint)}
        services = {s.key: s for s in _of(records, Service)}
        if set(endpoints) != set(services):
            raise Violation("I22", f"services {sorted(services)} have endpoints {sorted(endpoints)}")
        groups = list(_of(records, TaskGroup)) if services else []
        for key, service in services.items():
            found = {(m.taskgroup, m.ready, m.weight) for m in endpoints[key].members}
            wanted = {
                (g.id, is_ready(g), _weight(service, g, records))
                for g in groups
                if _answers(g) and _selected(service, g, records)
            }
            if found != wanted:
                raise Violation("I22", f"endpoint {key} is {sorted(found)}, should be {sorted(wanted)}", key)

    def _everybody_has_an_owner(self, records: Records) -> None:
        """I25"""
        owned: dict[str, set[str]] = {}
        for application in _of(records, Application):
            if application.type == "daemonset":
                if ("daemonset", application.key) not in records:
                    raise Violation("I25", f"{application.key} belongs to no daemonset", application.key)
            elif application.deployment:
                owned.setdefault(f"{application.namespace}/{application.deployment}", set()).add(application.name)
            elif application.rolling:
                raise Violation("I25", f"{application.key} is rolling {application.rolling} for nobody")
        for key, names in owned.items():
            deployment = records.get(("deployment", key))
            if not isinstance(deployment, Deployment):
                raise Violation("I25", f"{sorted(names)} belong to {key}, which does not exist", key)
        for deployment in _of(records, Deployment):
            missing = set(deployment.sides) - owned.get(deployment.key, set())
            if missing and deployment.status != "Deleting":
                raise Violation("I25", f"{deployment.key} has lost {sorted(missing)}", deployment.key)

    # --- the store --------------------------------------------------------------------------------------------

    def applying(self, old: Record | None, change: Change) -> None:
        """I24"""
        new = change.record
        if not isinstance(new, EventLog):
            return
        was = old.events if isinstance(old, EventLog) else ()
        if new.events[: len(was)] != was:
            raise Violation("I24", f"event log {new.key} was rewritten")
        for event in new.events[len(was) :]:
            if event.number != self._reported + 1:
                raise Violation("I24", f"event {event.number} follows {self._reported}", event.key)
            self._reported = event.number


def _newly(before: Records, unit: Unit, what: str) -> list[TaskGroup]:
    """Taskgroups that the unit adds, or marks as unwanted."""
    found = []
    for change in unit.changes:
        new, old = change.record, before.get((change.kind, change.key))
        if not isinstance(new, TaskGroup):
            continue
        if what == "placed" and old is None:
            found.append(new)
        if what == "ended" and isinstance(old, TaskGroup) and new.killing_since and not old.killing_since:
            found.append(new)
    return found


def _members(records: Records, deployment: Deployment) -> list[TaskGroup]:
    return [group for group in _of(records, TaskGroup) if _is_of(records, deployment, group)]


def _is_of(records: Records, deployment: Deployment, group: TaskGroup) -> bool:
    """True for a taskgroup of a side of the update. While a deployment is deleted, a user may create an application
    with the name of a side that is gone already; it belongs to the user."""
    if group.namespace != deployment.namespace or group.application not in deployment.sides:
        return False
    application = records.get(("application", group.application_key))
    return not isinstance(application, Application) or application.owner == Owner("deployment", deployment.key)


def _wanted(deployment: Deployment) -> int:
    return deployment.previous_instances if deployment.rolling_back else deployment.instances


def _answers(group: TaskGroup) -> bool:
    """It runs or may run. One that is ending stays until it has ended, so that its connections can end before."""
    if group.ended:
        return False
    if group.status == "Killing":
        return group.last_status in ("Running", "Restarting")
    return group.status in ("Running", "Restarting") or (group.status == "Lost" and group.unreachable_since > 0)


def _selected(service: Service, group: TaskGroup, records: Records) -> bool:
    version = records.get(("version", f"{group.namespace}/{group.application}/{group.version}"))
    if service.namespace != group.namespace or not isinstance(version, Version):
        return False
    return all(version.labels.get(key) == value for key, value in service.selector.items())


def _weight(service: Service, group: TaskGroup, records: Records) -> int:
    application = records.get(("application", f"{group.namespace}/{group.application}"))
    names = [group.application]
    if isinstance(application, Application) and application.deployment:
        names.append(application.deployment)
    for name in names:
        if f"BCS-WEIGHT-{name}" in service.labels:
            return int(service.labels[f"BCS-WEIGHT-{name}"])
    return 1


def _of(records: Records, kind: type[R]) -> list[R]:
    return [record for record in records.values() if isinstance(record, kind)]


def is_limited(records: Records, namespace: str) -> bool:
    """True if the namespace has a quota, which may have no room for a stand-in."""
    settings = records.get(("namespace", namespace))
    return isinstance(settings, Namespace) and settings.quota != Quota()


def _is_operated(records: Records, application: Application) -> bool:
    """True while an operation works on more than one taskgroup of the application. No stand-in can be started then."""
    active = (one for one in _of(records, Transaction) if one.active and not one.waiting and not one.taskgroup)
    return any(one.application_key == application.key for one in active)


def _has_stand_ins(
    owner: Deployment, application: Application, moved: TaskGroup, members: list[TaskGroup], moves: Container[str]
) -> None:
    """I23: a drain begins a move of a ready taskgroup. `members`: the taskgroups of the application; `moves`: the ids
    of those that the same unit moves."""
    strategy = owner.strategy
    surges = strategy.max_surge > 0 and (strategy.order == "CreateFirst" or strategy.max_unavailable < 1)
    if owner.status != "Running" or not surges or moved.index >= owner.instances:
        return
    wanted = max(1, application.instances - owner.instances)
    present = sum(is_ready(g) or g.id in moves for g in members if g.index >= owner.instances)
    if present < wanted:
        raise Violation("I23", f"{moved.id} is moved while {present} of {wanted} stand-ins are ready", moved.id)
