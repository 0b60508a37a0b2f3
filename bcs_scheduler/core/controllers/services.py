"""Keeps endpoints up to date with their services and taskgroups. A turn writes at most one record per service, and only
changed records.

The members of each service and the services of each taskgroup are derived from the records. The cost of a changed
taskgroup depends on its own services only; services that may select it are found by one pair of their selector. A new
or changed service is compared with the taskgroups that it may select in slices, over several turns if there are many.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.roster import Roster
from bcs_scheduler.core.interface.effects import Changed
from bcs_scheduler.core.work_queue import WorkQueue
from store.ids import namespace_of
from store.records import Endpoint, Member, Service, TaskGroup, Version
from transactions.rules import membership
from transactions.text import counted

SLICE = 400
"""Taskgroups that are looked at in one piece for a changed service: some milliseconds."""
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


class _Survey(NamedTuple):
    """Remaining work for a new or changed service."""

    work: Iterator[None]
    dropped: set[str]
    """Taskgroups that were members when the service changed, and are none any more: its record still names them."""


class Services:
    """The controller of services (core.parts). `flush` writes changed endpoints once at the end
    of each turn. Taskgroups that are going to be ended are written as soon as they are noticed, because the kills may
    leave before the turn is over."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self._bound: dict[str, _Bound] = {}
        """Bound services by key."""
        self._anchored: dict[str, dict[tuple[str, str] | None, set[str]]] = {}
        """Keys of services by namespace and anchor."""
        self._rosters: dict[str, Roster] = {}
        """Members by key of the service."""
        self._services_of: dict[str, tuple[str, ...]] = {}
        """Keys of the services that select a taskgroup, by its id. Services that are gone may be among them."""
        self._surveys: OrderedDict[str, _Survey] = OrderedDict()
        """Surveys by key of the service. The record of the service is not written before the survey has ended, unless a
        member is ended."""
        self._moved: OrderedDict[str, Iterator[None]] = OrderedDict()
        """Applications that have got another deployment, by key: the remaining work for their taskgroups."""
        self._owners: dict[str, dict[str, str]] = {}
        """Applications of a namespace: deployment by key. Selectors are matched against them when a service changes,
        weights follow the deployment."""
        self._stale = WorkQueue()
        """Services whose members have changed since their endpoint was written, by key, oldest change first. Big ones
        rest after they have been written."""
        self._withdrawn: dict[str, None] = {}
        """Services that are gone, or with members that the scheduler itself ends: followers are notified at once."""

    # --- following --------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Derives the members of all services from the records."""
        state = self._turn.state
        for known in (
            self._bound, self._anchored, self._rosters, self._services_of, self._surveys, self._moved, self._owners,
            self._stale, self._withdrawn,
        ):  # fmt: skip
            known.clear()
        self._turn.each("application", state.applications, self._application)
        self._turn.each("service", state.services, lambda key: self._bind(key, state.services[key]))
        self._turn.each("taskgroup", state.taskgroups, self._taskgroup)
        self._stale.mark(*state.services, *state.endpoints)

    def notice(self, changed: Iterable[tuple[str, str]]) -> None:
        """Follows services, applications and taskgroups."""
        self._turn.each_change(changed, self._follow)
        withdrawn, self._withdrawn = self._withdrawn, {}
        for key in withdrawn:
            self._put(key)

    def _follow(self, kind: str, key: str) -> None:
        if kind == "taskgroup":
            self._taskgroup(key)
        elif kind == "service":
            self._service(key)
        elif kind == "application":
            self._application(key)

    def tick(self) -> None:
        """Does no work: `flush` does all of it."""

    def next_timer(self) -> float | None:
        """Unix seconds of the earliest endpoint that is to be written; None if there is none."""
        return self._stale.next_ready(self._turn.now, unless=self._surveys)

    @property
    def busy(self) -> bool:
        """There are taskgroups that have not been compared with a changed service yet."""
        return bool(self._surveys or self._moved)

    # --- changed records --------------------------------------------------------------------------------------

    def _taskgroup(self, key: str) -> None:
        group = self._turn.state.taskgroups.get(key)
        before = self._services_of.get(key, ())
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
            self._services_of[key] = now
        elif before:
            del self._services_of[key]
        for service, survey in self._surveys.items():
            if key in survey.dropped and self._we_end(group):
                self._withdrawn[service] = None

    def _service(self, key: str) -> None:
        self._unbind(key)
        self._surveys.pop(key, None)
        self._stale.mark(key)
        service = self._turn.state.services.get(key)
        if service is None:
            self._rosters.pop(key, None)
            self._withdrawn[key] = None
            return
        bound = self._bind(key, service)
        self._surveys[key] = _Survey(self._survey(bound), set())

    def _survey(self, bound: _Bound) -> Iterator[None]:
        """Finds the taskgroups that a new or changed service selects, and its members that it does not select any
        more."""
        service, state = bound.service, self._turn.state
        before = list(self._rosters[service.key])
        if bound.anchor is None:
            concerned = list(self._owners.get(service.namespace, ()))
        else:
            # The one label by which the service is indexed excludes nearly all applications.
            concerned = state.census.applications_with(service.namespace, *bound.anchor)
        for application in concerned:
            yield from self._sliced(list(state.groups_of(application)), partial(self._admit, bound))
        yield from self._sliced(before, partial(self._confirm, bound))

    def _sliced(self, taskgroups: list[str], look: Callable[[str], None]) -> Iterator[None]:
        for first in range(0, len(taskgroups), SLICE):
            self._turn.each("taskgroup", taskgroups[first : first + SLICE], look)
            if first + SLICE < len(taskgroups):
                yield

    def _admit(self, bound: _Bound, identity: str) -> None:
        """A taskgroup becomes a member if the service selects it."""
        group = self._turn.state.taskgroups.get(identity)
        if group is None or not membership.selects(bound.service.selector, _labels(self._version(group))):
            return
        key, services = bound.service.key, self._services_of.get(identity, ())
        if key not in services:
            self._services_of[identity] = (*[service for service in services if service in self._bound], key)
        self._set(key, identity, self._member(bound, group))

    def _confirm(self, bound: _Bound, identity: str) -> None:
        """A former member goes if the service does not select it any more."""
        group = self._turn.state.taskgroups.get(identity)
        if group is None or not membership.selects(bound.service.selector, _labels(self._version(group))):
            self._taskgroup(identity)

    def _application(self, key: str) -> None:
        application = self._turn.state.applications.get(key)
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
            self._moved[key] = self._sliced(list(self._turn.state.groups_of(key)), self._taskgroup)

    # --- the index --------------------------------------------------------------------------------------------

    def _bind(self, key: str, service: Service) -> _Bound:
        bound = _Bound(service, frozenset(port.name for port in service.ports), membership.weights(service))
        self._bound[key] = bound
        self._rosters.setdefault(key, Roster())
        self._anchored.setdefault(service.namespace, {}).setdefault(bound.anchor, set()).add(key)
        return bound

    def _unbind(self, key: str) -> None:
        bound = self._bound.pop(key, None)
        if bound is None:
            return
        namespace = self._anchored[bound.service.namespace]
        namespace[bound.anchor].discard(key)
        if not namespace[bound.anchor]:
            del namespace[bound.anchor]
        if not namespace:
            del self._anchored[bound.service.namespace]

    def _selecting(self, namespace: str, labels: Mapping[str, str]) -> tuple[str, ...]:
        """Returns the services of the namespace that select taskgroups with these labels."""
        anchored = self._anchored[namespace]
        found = list(anchored.get(None, ()))
        for pair in labels.items():
            keys = anchored.get(pair, ())
            found += [key for key in keys if membership.selects(self._bound[key].service.selector, labels)]
        return tuple(found)

    def _set(self, service: str, group: str, member: Member | None) -> None:
        roster = self._rosters.get(service)
        before = roster.get(group) if roster is not None else None
        if roster is None or before == member:
            return
        roster.set(group, member)
        self._stale.mark(service)
        if before is None:
            return
        if member is None and service in self._surveys:
            self._surveys[service].dropped.add(group)
        if self._withdraws(group, before, member):
            self._withdrawn[service] = None

    def _withdraws(self, group: str, before: Member, after: Member | None) -> bool:
        """True if followers of the service do not know yet that this taskgroup is being ended or was removed."""
        if before.reason == "ending":
            return False
        if after is not None:
            return after.reason == "ending"
        return self._we_end(self._turn.state.taskgroups.get(group))

    @staticmethod
    def _we_end(group: TaskGroup | None) -> bool:
        return group is None or bool(group.killing_since and not group.ended)

    def _member(self, bound: _Bound, group: TaskGroup) -> Member | None:
        application = self._turn.state.applications.get(group.application_key)
        return membership.member(group, self._version(group), application, bound.ports, bound.weights)

    def _version(self, group: TaskGroup) -> Version | None:
        return self._turn.state.version(group.application_key, group.version)

    # --- writing ----------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Writes the endpoints whose members have changed, unless it is too early for a big one."""
        self._go_on()
        for key in self._stale.ready(self._turn.now, unless=self._surveys):
            self._put(key)

    def _go_on(self) -> None:
        """Does at least one slice of the work for changed services, and more slices as long as the turn has time. The
        services take turns, so a big service does not delay others."""
        while self.busy:
            if self._surveys:
                key, survey = next(iter(self._surveys.items()))
                ended = _step(survey.work)
                del self._surveys[key]
                if not ended:
                    self._surveys[key] = survey
                elif survey.dropped:
                    self._put(key)
            if self._moved:
                key, work = self._moved.popitem(last=False)
                if not _step(work):
                    self._moved[key] = work
            if self._turn.context.time_is_up():
                return

    def _put(self, key: str) -> None:
        self._stale.unmark(key)
        if self._turn.attempt("service", key, partial(self._write, key)) is not None:
            self._stale.mark(key)
            self._stale.rest(key, self._turn.now, self._turn.now + AGAIN)

    def _write(self, key: str) -> None:
        turn = self._turn
        before = turn.state.endpoints.get(key)
        bound = self._bound.get(key)
        if bound is None:
            self._stale.wake(key)
            if before is not None:
                turn.uow.delete(before)
                turn.emit(Changed(kind="endpoint", key=key, record=None, cause=turn.cause))
            return
        service = bound.service
        members, omitted = self._rosters[key].fitting()
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
        version = max(known.version + 1, int(turn.now * 1e9))
        endpoint = turn.uow.put(msgspec.structs.replace(endpoint, version=version, updated_at=turn.now))
        turn.emit(Changed(kind="endpoint", key=key, record=endpoint, cause=turn.cause))
        if len(members) > SMALL:
            self._stale.rest(key, turn.now, turn.now + PACE * (len(members) - SMALL))
        else:
            self._stale.wake(key)
        self._record_readiness(before, endpoint)

    def _record_readiness(self, before: Endpoint | None, after: Endpoint) -> None:
        """Records an event when the last ready member is lost, and when the first one is ready again."""
        had, has = (any(member.ready for member in known.members) if known else False for known in (before, after))
        if had and not has:
            self._turn.record_event("service", after.key, "ServiceUnavailable", "none of its members is ready")
        elif has and not had:
            self._turn.record_event("service", after.key, "ServiceAvailable", counted(len(after.members), "member"))
        if after.omitted and (before is None or not before.omitted):
            words = f"{after.omitted} of {len(after.members) + after.omitted} members do not fit into its endpoint"
            self._turn.record_event("service", after.key, "ServiceTruncated", words)


def _labels(version: Version | None) -> Mapping[str, str]:
    return version.labels if version is not None else NO_LABELS


def _step(work: Iterator[None]) -> bool:
    """Does one slice of the work; True if there was none left."""
    for _ in work:
        return False
    return True
