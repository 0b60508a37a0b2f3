"""Reservations of users: an application with a minimum whose document asks for placeholders, while it is launched.

The reservation begins with the launch and ends with it: from then on the application is like any other. Its tasks are
the taskgroups of the application, by index.
"""

from __future__ import annotations

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.managed import units
from bcs_scheduler.core.controllers.managed.gangs import Gangs
from bcs_scheduler.core.requests.policies.managed import PARAMETERS
from offers.policy.applications.metadata import parameters_of
from store.records import Application, ManagedApplication, ManagedTask, MemberGroup, Transaction, Version
from transactions.kinds.registry import kind_of
from transactions.text import duration

MOST = 500
"""Greatest number of taskgroups of a reservation: its records change in one unit."""
CAUSES = {
    "ResourceReservationTimeout": "the room of the gang was not found within {timeout}",
    "ApplicationRejected": "the queue cannot take the gang",
}


class Reservations:
    """Begins and ends the records of reservations."""

    def __init__(self, turn: TurnContext, gangs: Gangs) -> None:
        self._turn, self._gangs = turn, gangs

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

    def wanted(self, record: ManagedApplication) -> bool:
        """True while the launch of the application of a reservation is in progress, and for applications of managers
        always."""
        return bool(record.manager) or self._launch(record.key) is not None

    def fail(self, record: ManagedApplication, cause: str) -> None:
        """Ends the launch. The application keeps its definition, and is stopped."""
        turn, launch = self._turn, self._launch(record.key)
        if launch is None:
            return
        timeout = duration(parameters_timeout(record))
        words = CAUSES.get(cause, cause).format(timeout=timeout)
        turn.engine.end(turn.context, launch, "FAIL", f"{cause}: {words}")
        kind_of(turn.state, launch).cancelled(turn.context, launch)

    def _launch(self, key: str) -> Transaction | None:
        state = self._turn.state
        return next((one for one in state.active_of(key).values() if kind_of(state, one).reserves), None)

    def _begin(self, application: Application, version: Version) -> None:
        turn = self._turn
        parameters, _ = parameters_of(application.annotations[PARAMETERS])
        request = units.request_of(version)
        group = MemberGroup(name=application.name, min_member=version.min_available, request=request)
        record = ManagedApplication(
            namespace=application.namespace,
            name=application.name,
            task_groups=(group,),
            timeout=parameters.placeholder_timeout,
            style=parameters.style.value,
            created_at=turn.now,
        )
        turn.uow.put(record)
        for index in range(version.instances):
            turn.uow.put(
                ManagedTask(
                    namespace=application.namespace,
                    application=application.name,
                    name=str(index),
                    index=index,
                    group=group.name,
                    request=request,
                    created_at=turn.now + index * 1e-6,
                )
            )
        self._gangs.follow(record)


def parameters_timeout(record: ManagedApplication) -> float:
    """Seconds after which a reservation ends, with the default."""
    text = f"placeholderTimeoutInSeconds={int(record.timeout)}" if record.timeout else ""
    return parameters_of(text)[0].timeout


def _asks(application: Application, version: Version | None) -> bool:
    if version is None or version.min_available < 2 or application.rolling or application.group:
        return False
    return version.min_available <= version.instances <= MOST
