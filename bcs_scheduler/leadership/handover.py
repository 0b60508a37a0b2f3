"""Handing the lead to a scheduler that reaches Mesos, when the leader alone is cut off from it.

Winning the election says nothing about the network between leader and Mesos. A leader that has not been subscribed for
`patience` seconds asks, by a note at its candidacy, who reaches the master; candidates that stand by look for such a
question every few seconds, try to reach the master only then, and answer by a note of their own. The notes go through
the store, which all schedulers share and which knows who they are: no address, token or certificate of another
scheduler's API is needed.

The leader gives up only on an answer to its own question. Each time that it has done so without having been subscribed
since, it waits twice as long before the next time, so that an answer that is wrong does not make the lead go round.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import Literal, Protocol

import structlog

from store import threads
from store.base import StoreError
from transactions.text import duration

log = structlog.get_logger(__name__)

ROUND = 2.0
"""Seconds between two looks at the subscription, or at the notes of the other candidates."""
LONGEST = 3600.0
"""Seconds: bound of the doubled patience."""
ASKS, REACHES = "asks:", "reaches:"
"""Beginnings of notes; the id of the question follows."""

Standing = Literal["subscribed", "cut off", "standing by", "not standing"]


class Notes(Protocol):
    """The methods of the store that the handover needs (store.base.Store)."""

    def note(self, text: str) -> None: ...

    def notes(self) -> dict[str, str]: ...


class Handover:
    """One per process. `step` does one look; `start` lets a thread call it every ROUND seconds."""

    def __init__(
        self,
        notes: Notes,
        patience: float,
        standing: Callable[[], Standing],
        reaches: Callable[[], bool],
        give_up: Callable[[str], None],
    ) -> None:
        """`patience`: seconds without a subscription before others are asked. `standing`: how this process stands now.
        `reaches`: tries to reach the leading Mesos master, may take seconds. `give_up`: leaves the lead, for the reason
        given."""
        self._notes, self._patience = notes, patience
        self._standing, self._reaches, self._give_up = standing, reaches, give_up
        self._cut_since: float | None = None
        self._question = ""
        self._noted = ""
        self._given_up = 0
        """Number of times the lead was given up since the last subscription of this process."""
        self._stopping = threading.Event()
        self._thread = threads.lasting("handover", self._run, self._stopping.wait)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Does not wait: a look may be trying to reach the master."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.wait(ROUND):
            try:
                self.step(time.monotonic())
            except StoreError as error:
                log.debug("the exchange with other schedulers failed", error=str(error))

    def step(self, now: float) -> None:
        """Does one step of the handover. `now`: monotonic seconds. Raises StoreError."""
        standing = self._standing()
        if standing == "cut off":
            self._seek(now)
            return
        self._cut_since, self._question = None, ""
        if standing == "subscribed":
            self._given_up = 0
            self._write("")
        elif standing == "standing by":
            self._answer()

    def _seek(self, now: float) -> None:
        """The leader: is there somebody who reaches Mesos?"""
        if self._cut_since is None:
            self._cut_since = now
        if now - self._cut_since < min(self._patience * 2**self._given_up, max(LONGEST, self._patience)):
            return
        if not self._question:
            self._question = uuid.uuid4().hex
            log.warning("cut off from Mesos, asking the other schedulers", seconds=round(now - self._cut_since))
        self._write(ASKS + self._question)
        wanted = REACHES + self._question
        found = next((url for url, note in sorted(self._notes.notes().items()) if note == wanted), None)
        if found is None:
            return
        seconds, self._cut_since, self._question, self._noted = now - self._cut_since, None, "", ""
        self._given_up = min(self._given_up + 1, 16)
        self._give_up(f"not subscribed with Mesos for {duration(seconds)}, and {found} reaches the master")

    def _answer(self) -> None:
        """A candidate that stands by: does the leader ask?"""
        asked = next((note for note in self._notes.notes().values() if note.startswith(ASKS)), "")
        reached = bool(asked) and self._reaches()
        if asked:
            log.info("the leader is cut off from Mesos", reached_from_here=reached)
        self._write(REACHES + asked.removeprefix(ASKS) if reached else "")

    def _write(self, text: str) -> None:
        if text or self._noted:  # again each time: another candidacy begins without a note
            self._notes.note(text)
            self._noted = text
