"""What an operator does to the store while no scheduler leads."""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout

from store.base import Change, Store, StoreError, Term
from store.records import Framework
from store.state import State

ELECTION_PATIENCE = 30.0
"""Seconds to wait for leadership: longer than the session of a scheduler that was killed."""


class MaintenanceError(Exception):
    """It was not done; the message says why."""


def forget_framework(store: Store, *, force: bool) -> str:
    """Removes the stored framework id, so that the next leader registers anew; returns the id. Raises MaintenanceError.

    A new framework knows nothing of the tasks of the old one: with taskgroups left this is refused unless `force` is
    given. Leadership is taken first, so that no running scheduler can be working with the id.
    """
    try:
        store.open()
        elected: Future[Term] = Future()
        store.campaign("maintenance", elected.set_result, lambda reason: None)
        epoch = elected.result(ELECTION_PATIENCE).epoch
        state = State(store.load().records)
        framework = state.framework
        if not framework.id:
            raise MaintenanceError("no framework id is stored")
        alive = sum(1 for group in state.taskgroups.values() if not group.ended)
        if alive and not force:
            raise MaintenanceError(f"{alive} taskgroups belong to framework {framework.id}; delete them or use --force")
        store.commit([Change("framework", framework.key, Framework(created_at=framework.created_at))], epoch).result(
            30.0
        )
    except FutureTimeout:
        leader = store.leader()
        raise MaintenanceError(
            f"{leader.url if leader else 'somebody else'} leads; stop every scheduler first"
        ) from None
    except StoreError as error:
        raise MaintenanceError(str(error)) from None
    finally:
        store.close()
    return framework.id
