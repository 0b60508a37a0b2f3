"""Proof that this process still leads: an empty commit that the store takes under the epoch of the term.

Asked before every subscription with Mesos. A leader that has been replaced without knowing it (it was stopped, or cut
off from the store alone) would otherwise subscribe again and throw the true leader out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

import structlog

from store.base import StaleEpoch, Store

log = structlog.get_logger(__name__)

PATIENCE = 15.0
"""Seconds one call waits for the store."""


class LeadCheck:
    """Called by one thread; `close` by any."""

    def __init__(self, store: Store, epoch: int, lost: Callable[[str], None]) -> None:
        """`lost` is called with the reason when another leader has taken over."""
        self._store, self._epoch, self._lost = store, epoch, lost
        self._asked: Future[None] | None = None
        self._changed = threading.Condition()
        self._closed = False

    def __call__(self) -> bool | None:
        """True: the store has taken a commit of this epoch, made after the call. False: this epoch is over. None: the
        store has not answered within PATIENCE seconds or cannot be reached, or `close` was called."""
        late = self._asked
        if late is None or late.done():
            # The answer to a question of an earlier call says nothing about now.
            self._asked = self._store.commit((), self._epoch)
            self._asked.add_done_callback(self._answered)
        asked = self._asked
        assert asked is not None
        with self._changed:
            self._changed.wait_for(lambda: asked.done() or self._closed, PATIENCE)
        if self._closed or not asked.done():
            return None
        error = asked.exception()
        if isinstance(error, StaleEpoch):
            self._lost(f"deposed: {error}")
            return False
        if error is not None:
            log.warning("leadership not confirmed", epoch=self._epoch, error=str(error))
        return None if error is not None else True

    def close(self) -> None:
        """Ends a call that waits."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _answered(self, _: Future[None]) -> None:
        with self._changed:
            self._changed.notify_all()
