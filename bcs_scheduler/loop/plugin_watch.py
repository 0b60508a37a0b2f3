"""Sessions with plug-ins of third parties run in a thread of their own while the core waits, so that a call that never
returns ends the session and not the core (decision 57).

A session is given up only while a call of a third party is at work, never within the scheduler's own code that uses
state outside of the session. From then on the abandoned thread cannot enter such code: each entrance raises Abandoned.
Abandoned is raised in the thread as well, which ends a loop in Python; a call that sleeps ends when it returns.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import structlog

from offers.policy.session.decisions import PluginFault
from offers.policy.session.guard import Abandoned, Calls, NeverReturned
from store import threads

log = structlog.get_logger(__name__)
T = TypeVar("T")

HUNG = "policy.plugin_hung"
"""Event of the log line. Operators may have alerts for it, so it does not change."""
LEAST_WAIT = 0.01
"""Seconds between two looks at a call whose time is over while the scheduler's own code runs within it."""
LINES = 20
"""Lines of the abandoned call's stack in the log."""


class PluginWatch:
    """Implements offers.policy.session.guard.Watch. One thread at a time may call `run`."""

    def __init__(self) -> None:
        self._left: list[_Session] = []
        """Sessions that were given up and whose threads still run."""

    def run(self, work: Callable[[Calls], T], seconds: float) -> T:
        """Implements Watch.run."""
        self._left = [left for left in self._left if left.interrupt()]  # again: a plug-in may catch the exception
        session = _Session(work)
        session.thread.start()
        wait = seconds
        while not session.done.wait(max(wait, LEAST_WAIT)):
            now = time.monotonic()
            late = session.give_up(now - seconds)
            if late is not None:
                raise NeverReturned(self._abandon(session, late, now - late.since))
            since = session.latest()
            wait = seconds if since is None else since + seconds - now
        if session.error is not None:
            raise session.error
        found: T = session.result
        return found

    def _abandon(self, session: _Session, late: _Call, seconds: float) -> PluginFault:
        frame = sys._current_frames().get(session.thread.ident or 0)
        stack = traceback.format_stack(frame)[-LINES:] if frame is not None else []
        log.error(HUNG, plugin=late.plugin, function=late.function, seconds=round(seconds, 3), stack="".join(stack))
        session.interrupt()
        self._left.append(session)
        return PluginFault(late.plugin, late.function, f"the call did not return within {seconds:.3f} s")


class _Call(NamedTuple):
    plugin: str
    function: str
    since: float
    """Seconds of the monotonic clock."""


class _Session:
    """The work of one session in its thread. Implements Calls."""

    def __init__(self, work: Callable[[Calls], Any]) -> None:
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None
        self.thread = threads.ending("policy-session", self._run)
        self._work = work
        self._lock = threading.Lock()
        self._calls: list[_Call | None] = []
        """The calls at work, the latest last; None: the scheduler's own code."""
        self._given_up = False
        self._over = False
        """The thread has left the work, and nothing is raised in it any more."""

    def _run(self) -> None:
        try:
            self.result = self._work(self)
        except BaseException as error:
            self.error = error
        while True:
            try:
                with self._lock:
                    self._over = True
                    abandoned = self._given_up
                break
            except Abandoned:
                continue
        if abandoned:
            self._consume()
        else:
            self.done.set()

    def _consume(self) -> None:
        """Waits until an error that is still to be raised in this thread has been raised. An error that is taken back,
        or that a thread leaves behind at its end, keeps the interpreter of Python 3.11 at looking for errors in every
        loop of every thread, and a trace function is never called again."""
        try:
            _raise_in(self.thread, Abandoned)  # takes the place of one that is to be raised already
            while True:
                pass
        except Abandoned:
            return

    def interrupt(self) -> bool:
        """Raises Abandoned in the thread, if the thread still works. False if the work is over."""
        with self._lock:  # the thread cannot end meanwhile, so its number is not that of another thread
            if not self._over:
                _raise_in(self.thread, Abandoned)
            return not self._over

    def enter(self, plugin: str, function: str) -> None:
        self._push(_Call(plugin, function, time.monotonic()))

    def leave(self) -> None:
        with self._lock:
            if self._given_up:
                raise Abandoned
            self._calls.pop()

    def enter_own(self) -> None:
        self._push(None)

    leave_own = leave

    def _push(self, call: _Call | None) -> None:
        with self._lock:
            if self._given_up:
                raise Abandoned
            self._calls.append(call)

    def give_up(self, before: float) -> _Call | None:
        """Gives the session up if a call that began before this time is at work. Returns the latest such call; None if
        there is none, or if the scheduler's own code runs within the call."""
        with self._lock:
            if not self._calls or self._calls[-1] is None:
                return None
            for call in reversed(self._calls):
                if call is not None and call.since <= before:
                    self._given_up = True
                    return call
            return None

    def latest(self) -> float | None:
        """The time at which the first of the calls at work began; None if there is none."""
        with self._lock:
            return next((call.since for call in self._calls if call is not None), None)


def _raise_in(thread: threading.Thread, error: type[BaseException]) -> None:
    """Raises an error in a thread at one of its next instructions."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(error))
