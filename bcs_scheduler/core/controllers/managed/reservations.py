"""Reservations of users: an application with a minimum whose document asks for placeholders, while it is launched.

The reservation begins with the launch and ends with it: from then on the application is like any other. Its tasks are
the taskgroups of the application, by index.

A group of applications asks for the reservations of its members. They begin together when all members are there, and
each of them is a record of its own (docs/decisions/0072-reservations-of-groups.md).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.managed import units
from bcs_scheduler.core.controllers.managed.gangs import Gangs
from offers.policy.applications.metadata import SchedulingPolicyParameters, parameters_of
from offers.policy.applications.records import NoticeCode
from offers.policy.applications.tables import UNDECIDED
from store.records import Application, ManagedApplication, ManagedTask, MemberGroup, PodGroup, Transaction, Version
from transactions.kinds.registry import kind_of
from transactions.rules.gangs import PARAMETERS, is_reserved_by_group
from transactions.text import duration

MOST = 500
"""Greatest number of taskgroups of a reservation: its records change in one unit."""
CAUSES = {
    "ResourceReservationTimeout": "the room of the gang was not found within {timeout}",
    "ApplicationRejected": "the queue cannot take the gang",
    "GroupMemberMissing": "a member of the group is not there, is stopped, or wants fewer taskgroups than its minimum",
}
STEP = 0.001
"""Seconds between two reservations that begin at one moment, so that the names of their placeholders differ."""


class Reservations:
    """Begins and ends the records of reservations."""

    def __init__(self, turn: TurnContext, gangs: Gangs) -> None:
        self._turn, self._gangs = turn, gangs
        self._latest = 0.0
        """Unix seconds of the latest reservation of this term."""
        self._group_of: dict[str, str] = {}
        """The group by the key of its application, of groups whose reservations are not complete."""
        self._members: dict[str, tuple[str, ...]] = {}
        """The same by group."""

    def clear(self) -> None:
        """Forgets everything that was derived from the records."""
        self._group_of.clear()
        self._members.clear()

    def unseen(self) -> list[str]:
        """Keys of the applications that may ask for a reservation, without those of groups: the leader before may have
        ended between their creation and their reservation."""
        applications, keys = self._turn.state.applications, list[str]()

        def follow_key(key: str) -> None:
            if PARAMETERS in applications[key].annotations and not applications[key].group:
                keys.append(key)

        self._turn.each("application", applications, follow_key)
        return keys

    def consider(self, key: str) -> None:
        """Begins the reservation of an application (``namespace/name``) that has just been created and asks for it."""
        turn = self._turn
        application = turn.state.applications.get(key)
        if application is None or PARAMETERS not in application.annotations or turn.options.placeholders == "off":
            return
        version = turn.state.version(key, application.version)
        if not _asks(application, version) or key in turn.state.managed_applications:
            return
        if version is None or self._launch(key) is None or turn.state.groups_of(key):
            return
        self._begin(application, version)

    def is_needed(self, record: ManagedApplication) -> bool:
        """True while the launch of the application of a reservation is in progress, and for applications of managers
        always."""
        if record.manager:
            return True
        application = self._turn.state.applications.get(record.key)
        if application is None or (record.pod_group and application.group != record.pod_group_key):
            return False
        return self._launch(record.key) is not None

    def fail(self, record: ManagedApplication, cause: str) -> None:
        """Ends the launch. The application keeps its definition, and is stopped; its deployment launches nothing more
        until a user asks for it."""
        turn, launch = self._turn, self._launch(record.key)
        if launch is None:
            return
        refusal = self._gangs.refusal(record) if cause == NoticeCode.APPLICATION_REJECTED else None
        turn.engine.end(turn.context, launch, "FAIL", why(record, cause, refusal))
        kind_of(turn.state, launch).cancelled(turn.context, launch)
        deployment = turn.state.deployments.get(turn.state.applications[record.key].deployment_key)
        if deployment is not None:
            turn.uow.put(msgspec.structs.replace(deployment, launch_failed=True))

    def _launch(self, key: str) -> Transaction | None:
        state = self._turn.state
        return next(
            (transaction for transaction in state.active_of(key).values() if kind_of(state, transaction).reserves), None
        )

    def _begin(self, application: Application, version: Version) -> None:
        parameters, _ = parameters_of(application.annotations[PARAMETERS])
        self._put(_reservation(application, version, version.min_available, parameters), version, self._moment())

    def _moment(self) -> float:
        self._latest = max(self._turn.now, self._latest + STEP)
        return self._latest

    def _put(self, record: ManagedApplication, version: Version, now: float) -> None:
        turn = self._turn
        record = msgspec.structs.replace(record, created_at=now)
        turn.uow.put(record)
        for index in range(version.instances):
            turn.uow.put(
                ManagedTask(
                    namespace=record.namespace,
                    application=record.name,
                    name=str(index),
                    index=index,
                    group=record.task_groups[0].name,
                    request=record.task_groups[0].request,
                    created_at=now + index * 1e-6,
                )
            )
        self._gangs.follow(record)
        if (launch := self._launch(record.key)) is not None:
            turn.engine.withhold(launch.id)

    # --- groups of applications -------------------------------------------------------------------------------

    def groups(self) -> list[str]:
        """Keys of the groups that ask for reservations."""
        return [key for key in self._turn.state.pod_groups if is_reserved_by_group(self._turn.state, key)]

    def group_of(self, key: str) -> str:
        """The group whose reservations a change of the application (``namespace/name``) may begin or end; empty: none.
        The cost does not depend on the number of members."""
        state = self._turn.state
        if key in self._group_of:
            return self._group_of[key]
        application = state.applications.get(key)
        group = application.group if application is not None else ""
        if not is_reserved_by_group(state, group) or key in state.managed_applications:
            return ""
        enough = len(state.indexes.applications_in(group)) >= len(state.pod_groups[group].min_task_member)
        return group if enough and self._launch(key) is not None and not state.groups_of(key) else ""

    def follow_group(self, group: str, waits: bool) -> None:
        """Changes of all members of a group count while its reservations are not complete (`waits`)."""
        for key in self._members.pop(group, ()):
            self._group_of.pop(key, None)
        if waits:
            self._members[group] = tuple(self._turn.state.indexes.applications_in(group))
            self._group_of.update(dict.fromkeys(self._members[group], group))

    def of_group(self, group: str) -> dict[str, ManagedApplication]:
        """The reservations that the members of a group (``namespace/name``) should have now, by application, as if they
        were new. Empty: the group asks for none, or cannot come together now, because a member is missing or stopped,
        or wants fewer taskgroups than its minimum.

        Members whose taskgroups exist need no reservation: a restart does not wait for others."""
        state = self._turn.state
        record = state.pod_groups.get(group)
        if record is None or PARAMETERS not in record.annotations:
            return {}
        of_member: dict[str, list[Application]] = {}
        for key in list(state.indexes.applications_in(group)):
            application = state.applications[key]
            of_member.setdefault(application.member, []).append(application)
        records: dict[str, ManagedApplication] = {}
        tasks = 0
        for name, least in record.min_task_member.items():
            members = of_member.get(name, [])
            if sum(len(state.indexes_of(member.key)) for member in members) >= least:
                continue
            version = self._reservable(members)
            if version is None or version.instances < least:
                return {}
            records[members[0].key] = _of_member(record, members[0], version, least)
            tasks += version.instances
        return records if tasks <= MOST else {}

    def _reservable(self, members: list[Application]) -> Version | None:
        """The definition of the only application of a member, whose launch has no taskgroup yet; None: it is not so."""
        state = self._turn.state
        if len(members) != 1 or members[0].rolling or self._launch(members[0].key) is None:
            return None
        if state.groups_of(members[0].key):
            return None
        return state.version(members[0].key, members[0].version)

    def begin_group(self, records: dict[str, ManagedApplication]) -> None:
        """Begins these reservations, at one moment."""
        state, now = self._turn.state, self._moment()
        for key, record in records.items():
            version = state.version(key, state.applications[key].version)
            if version is not None:
                self._put(record, version, now)


def is_undecided(record: ManagedApplication) -> bool:
    """True until the tasks of a reservation may start, with their room or without it."""
    return not record.state or record.state in UNDECIDED


def is_same(present: Iterable[ManagedApplication], records: dict[str, ManagedApplication]) -> bool:
    """True if the reservations of a group are those that it should have."""
    return {record.key: _terms(record) for record in present} == {
        key: _terms(record) for key, record in records.items()
    }


def why(record: ManagedApplication, cause: str, refusal: str | None = None) -> str:
    """The end of a reservation in words. `cause`: a code of the gang. `refusal`: the message of the queue that refuses
    the gang; None: there is none."""
    words = refusal or CAUSES.get(cause, "").format(timeout=duration(parameters_timeout(record)))
    group = f" (pod group {record.pod_group_key})" if record.pod_group else ""
    return f"{cause}: {words}{group}" if words else cause


def _terms(record: ManagedApplication) -> tuple[object, ...]:
    groups = [(group.name, group.min_member, group.request) for group in record.task_groups]
    return groups, record.timeout, record.style


def _of_member(group: PodGroup, application: Application, version: Version, least: int) -> ManagedApplication:
    """A member with a minimum of its own (`minAvailable`) starts with this minimum."""
    parameters, _ = parameters_of(group.annotations[PARAMETERS])
    own = version.min_available if version.min_available > 1 else 0
    return _reservation(application, version, max(least, own), parameters, group.name)


def _reservation(
    application: Application, version: Version, least: int, parameters: SchedulingPolicyParameters, group: str = ""
) -> ManagedApplication:
    member = MemberGroup(name=application.name, min_member=least, request=units.request_of(version))
    return ManagedApplication(
        namespace=application.namespace,
        name=application.name,
        pod_group=group,
        task_groups=(member,),
        timeout=parameters.placeholder_timeout,
        style=parameters.style.value,
    )


def parameters_timeout(record: ManagedApplication) -> float:
    """Seconds after which a reservation ends, with the default."""
    text = f"placeholderTimeoutInSeconds={int(record.timeout)}" if record.timeout else ""
    return parameters_of(text)[0].timeout


def _asks(application: Application, version: Version | None) -> bool:
    if version is None or version.min_available < 2 or application.rolling or application.group:
        return False
    return version.min_available <= version.instances <= MOST
