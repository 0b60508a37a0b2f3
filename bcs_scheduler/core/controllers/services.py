"""Keeps endpoints as their services and taskgroups are: one record per service and turn, and only where it differs.

What is held is derived: the members of each service, and the services of each taskgroup. A changed taskgroup costs its
own services and nothing else; services that may select it are found by one pair of their selector.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import Changed
from store.ids import index_of, namespace_of
from store.records import Endpoint, Member, Service, TaskGroup, Version
from transactions import membership
from transactions.explain import several

ENDPOINT_BYTES = 400_000
"""Most that the members of one endpoint may take, so that every store takes the record with room for others."""
SMALL = 100
PACE = 0.0002
"""Seconds per member above SMALL between two records of one endpoint: the record is written whole, so a service of
thousands must not write megabytes with every status report."""
AGAIN = 60.0
"""Seconds after which an endpoint that could not be written for an error of our own is tried again."""
NO_LABELS: Mapping[str, str] = {}


class _Bound(NamedTuple):
    """A service as it is asked: names of its ports, and its weights."""

    service: Service
    ports: frozenset[str]
    weights: dict[str, int]

    @property
    def anchor(self) -> tuple[str, str] | None:
        """The pair of the selector by which it is found; None: it selects everything."""
        return min(self.service.selector.items(), default=None)


class Services:
    """A Follower (core.scheduler). `flush` writes what has changed, once at the end of each turn. What is going to be
    ended is written as soon as it is noticed: the kills may leave before the turn is over."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._bound: dict[str, _Bound] = {}
        """By key of the service."""
        self._anchored: dict[str, dict[tuple[str, str] | None, set[str]]] = {}
        """Keys of services by namespace and anchor."""
        self._members: dict[str, dict[str, Member]] = {}
        """By key of the service, then by id of the taskgroup."""
        self._serves: dict[str, tuple[str, ...]] = {}
        """Keys of the services that select a taskgroup, by its id."""
        self._owners: dict[str, dict[str, str]] = {}
        """Applications of a namespace: deployment by key. Selectors are matched against them when a service changes,
        weights follow the deployment."""
        self._dirty: dict[str, None] = {}
        """Services whose members have changed since their endpoint was written, oldest change first."""
        self._paused: dict[str, tuple[float, float]] = {}
        """From when till when no record of a big endpoint is written."""
        self._withdrawn: dict[str, None] = {}
        """Services that have lost members by our own act, or that are gone: whoever follows them is told at once."""

    # --- following --------------------------------------------------------------------------------------------

    def recover(self) -> None:
        state = self._desk.state
        for key, application in state.applications.items():
            self._owners.setdefault(application.namespace, {})[key] = application.deployment
        for key, service in state.services.items():
            self._bind(key, service)
        for group in state.taskgroups.values():
            self._taskgroup(group.id)
        self._dirty = dict.fromkeys([*state.services, *state.endpoints])

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        for kind, key in changed:
            if kind == "taskgroup":
                self._taskgroup(key)
            elif kind == "service":
                self._service(key)
            elif kind == "application":
                self._application(key)
        withdrawn, self._withdrawn = self._withdrawn, {}
        for key in withdrawn:
            self._put(key)

    def tick(self) -> None:
        """Everything is done by `flush`."""

    def next_timer(self) -> float | None:
        return min((self._due(key) for key in self._dirty), default=None)

    # --- what has changed -------------------------------------------------------------------------------------

    def _taskgroup(self, key: str) -> None:
        group = self._desk.state.taskgroups.get(key)
        before = self._serves.get(key, ())
        if group is None:
            now: tuple[str, ...] = ()
        elif group.namespace in self._anchored:
            now = self._selecting(group.namespace, _labels(self._version(group)))
        else:
            now = ()
        for service in before:
            if service not in now:
                self._set(service, key, None)
        for service in now:
            assert group is not None
            self._set(service, key, self._member(self._bound[service], group))
        if now:
            self._serves[key] = now
        elif before:
            del self._serves[key]

    def _service(self, key: str) -> None:
        before = self._members.get(key, {})
        for group in before:
            left = tuple([service for service in self._serves.get(group, ()) if service != key])
            if left:
                self._serves[group] = left
            else:
                self._serves.pop(group, None)
        self._unbind(key)
        self._dirty[key] = None
        service = self._desk.state.services.get(key)
        if service is None:
            self._withdrawn[key] = None
            return
        bound = self._bind(key, service)
        self._select(bound)
        members = self._members[key]
        # Whom it does not select any more would not be found among its members when it is ended.
        if any(
            group not in members or self._withdraws(group, member, members[group]) for group, member in before.items()
        ):
            self._withdrawn[key] = None

    def _select(self, bound: _Bound) -> None:
        """Everything that a new or changed service selects."""
        namespace = bound.service.namespace
        if bound.anchor is None:
            concerned = list(self._owners.get(namespace, ()))
        else:
            # The one pair by which the service is found rules out nearly all of the applications.
            concerned = self._desk.state.census.applications_with(namespace, *bound.anchor)
        for application in concerned:
            self._admit(bound, application)

    def _admit(self, bound: _Bound, application: str) -> None:
        """The taskgroups of one application that a new or changed service selects."""
        state = self._desk.state
        versions = [
            version.name
            for version in state.versions_of(application).values()
            if membership.selects(bound.service.selector, version.labels)
        ]
        key = bound.service.key
        for group in state.groups_of(application).values():
            if group.version in versions or not bound.service.selector:
                if key not in self._serves.get(group.id, ()):
                    self._serves[group.id] = (*self._serves.get(group.id, ()), key)
                self._set(key, group.id, self._member(bound, group))

    def _application(self, key: str) -> None:
        application = self._desk.state.applications.get(key)
        if application is None:
            namespace = namespace_of(key)
            owners = self._owners.get(namespace, {})
            owners.pop(key, None)
            if not owners:
                self._owners.pop(namespace, None)
            return
        owners = self._owners.setdefault(application.namespace, {})
        before = owners.get(key)
        owners[key] = application.deployment
        if before is not None and before != application.deployment:
            for group in self._desk.state.groups_of(key):
                self._taskgroup(group)

    # --- the index --------------------------------------------------------------------------------------------

    def _bind(self, key: str, service: Service) -> _Bound:
        bound = _Bound(service, frozenset(port.name for port in service.ports), membership.weights(service))
        self._bound[key] = bound
        self._members[key] = {}
        self._anchored.setdefault(service.namespace, {}).setdefault(bound.anchor, set()).add(key)
        return bound

    def _unbind(self, key: str) -> None:
        bound = self._bound.pop(key, None)
        self._members.pop(key, None)
        if bound is None:
            return
        namespace = self._anchored[bound.service.namespace]
        namespace[bound.anchor].discard(key)
        if not namespace[bound.anchor]:
            del namespace[bound.anchor]
        if not namespace:
            del self._anchored[bound.service.namespace]

    def _selecting(self, namespace: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Services of the namespace that select what has these labels."""
        anchored = self._anchored[namespace]
        found = list(anchored.get(None, ()))
        for pair in labels.items():
            keys = anchored.get(pair, ())
            found += [key for key in keys if membership.selects(self._bound[key].service.selector, labels)]
        return tuple(found)

    def _set(self, service: str, group: str, member: Member | None) -> None:
        members = self._members.get(service)
        before = members.get(group) if members is not None else None
        if members is None or before == member:
            return
        if member is None:
            del members[group]
        else:
            members[group] = member
        self._dirty[service] = None
        if before is not None and self._withdraws(group, before, member):
            self._withdrawn[service] = None

    def _withdraws(self, group: str, before: Member, after: Member | None) -> bool:
        """We are going to end it, or have forgotten it, and those who follow the service have not been told."""
        if before.reason == "ending":
            return False
        if after is not None:
            return after.reason == "ending"
        known = self._desk.state.taskgroups.get(group)
        return known is None or bool(known.killing_since and not known.ended)

    def _member(self, bound: _Bound, group: TaskGroup) -> Member | None:
        application = self._desk.state.applications.get(f"{group.namespace}/{group.application}")
        return membership.member(group, self._version(group), application, bound.ports, bound.weights)

    def _version(self, group: TaskGroup) -> Version | None:
        return self._desk.state.version(f"{group.namespace}/{group.application}", group.version)

    # --- writing ----------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Writes the endpoints whose members have changed, unless it is too early for a big one."""
        now = self._desk.now
        for key in list(self._dirty):
            if self._due(key) <= now:
                self._put(key)

    def _put(self, key: str) -> None:
        self._dirty.pop(key, None)
        if self._desk.attempt("service", key, partial(self._write, key)):
            self._dirty[key] = None
            self._paused[key] = (self._desk.now, self._desk.now + AGAIN)

    def _due(self, key: str) -> float:
        since, until = self._paused.get(key, (0.0, 0.0))
        return until if self._desk.now >= since else 0.0  # the clock has been set back

    def _write(self, key: str) -> None:
        desk = self._desk
        before = desk.state.endpoints.get(key)
        bound = self._bound.get(key)
        if bound is None:
            self._paused.pop(key, None)
            if before is not None:
                desk.uow.delete(before)
                desk.emit(Changed(kind="endpoint", key=key, record=None, cause=desk.cause))
            return
        service = bound.service
        members, omitted = fitting(_ordered(self._members[key].values()))
        known = before or Endpoint(namespace=service.namespace, name=service.name, created_at=service.created_at)
        endpoint = msgspec.structs.replace(
            known,
            labels=service.labels,
            annotations=service.annotations,
            ports=service.ports,
            members=members,
            omitted=omitted,
        )
        if endpoint == before:
            return
        version = max(known.version + 1, int(desk.now * 1e9))
        endpoint = desk.uow.put(msgspec.structs.replace(endpoint, version=version, updated_at=desk.now))
        desk.emit(Changed(kind="endpoint", key=key, record=endpoint, cause=desk.cause))
        if len(members) > SMALL:
            self._paused[key] = (desk.now, desk.now + PACE * (len(members) - SMALL))
        else:
            self._paused.pop(key, None)
        self._tell(before, endpoint)

    def _tell(self, before: Endpoint | None, after: Endpoint) -> None:
        """What its users notice: nobody is ready any more, or somebody is again."""
        had, has = (any(member.ready for member in known.members) if known else False for known in (before, after))
        if had and not has:
            self._desk.tell("service", after.key, "unavailable", "no member of it is ready", "warning")
        elif has and not had:
            self._desk.tell("service", after.key, "available", several(len(after.members), "member"))
        if after.omitted and (before is None or not before.omitted):
            words = f"{after.omitted} of {len(after.members) + after.omitted} members find no room in its endpoint"
            self._desk.tell("service", after.key, "truncated", words, "warning")


def _labels(version: Version | None) -> Mapping[str, str]:
    return version.labels if version is not None else NO_LABELS


def _ordered(members: Iterable[Member]) -> tuple[Member, ...]:
    """By application and index."""
    return tuple(sorted(members, key=lambda m: (m.application, index_of(m.taskgroup), m.taskgroup)))


def fitting(members: tuple[Member, ...]) -> tuple[tuple[Member, ...], int]:
    """Those that find room in one record, in order, and how many do not: first those that are not ready."""
    sizes = {member.taskgroup: size(member) for member in members}
    if sum(sizes.values()) <= ENDPOINT_BYTES:
        return members, 0
    room, kept = ENDPOINT_BYTES, set()
    for member in sorted(members, key=lambda member: not member.ready):
        room -= sizes[member.taskgroup]
        if room < 0:
            break
        kept.add(member.taskgroup)
    return tuple([member for member in members if member.taskgroup in kept]), len(members) - len(kept)


def size(member: Member) -> int:
    """Its bytes as JSON in a list."""
    return len(msgspec.json.encode(member)) + 1
