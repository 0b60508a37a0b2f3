"""Objects that are kept up to date by a stream of the scheduler: in general, and the lists of `bcs get KIND -w`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from bcs_scheduler.cli.client.outage import Outage
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import CliError, TimedOut, Unreachable
from store import threads

if TYPE_CHECKING:
    from bcs_scheduler.cli.client.client import Client

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 2.0
"""Seconds before a new stream is opened. After failed attempts, the pause is doubled up to the longest."""
GATHER = 0.2
"""Seconds in which changes are gathered after the first one, so that a burst is printed once."""
Name = tuple[str, str]
"""Namespace and name, as in the frame `deleted`."""


def _named(item: Json) -> Name:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


NAMES: Mapping[str, Callable[[Json], Name]] = {
    "applications": lambda item: (item["ObjectMeta"]["namespace"], item["Name"]),
    "taskgroups": lambda item: (item["ObjectMeta"]["namespace"], item["ID"]),
    "deployments": _named,
    "transactions": lambda item: (item["namespace"], item["transactionID"]),
    "agents": lambda item: ("", item["id"] or item["key"]),
    "queues": _named,
}
"""Kinds whose lists are streams, with the name of an object."""


class StreamReader:
    """Base of classes that keep the objects of a stream. While the scheduler is unreachable, the last objects remain.

    `_condition` guards `_changed`, `_failure` and the objects, and is notified of their changes.
    """

    def __init__(
        self,
        thread: str,
        stream: str,
        first_pause: float = FIRST_PAUSE,
        warn: Callable[[str], object] = lambda text: None,
    ) -> None:
        """Does not start the thread; `_start` does. `thread`: name of the thread. `stream`: the stream in messages of
        errors. `first_pause`: seconds after the first failed attempt. `warn`: gets a text after a long
        time without a server; called by the thread."""
        self._outage = Outage(warn)
        self._first_pause = first_pause
        self._stream = stream
        self._changed = False
        self._failure: CliError | None = None
        """The error that has ended the thread; None = the thread runs."""
        self._closed = threading.Event()
        self._condition = threading.Condition()
        self._start = threads.ending(thread, self._follow).start

    def close(self) -> None:
        """Prevents further streams."""
        self._closed.set()

    def _read(self) -> None:
        """Reads one stream, to its end. Raises CliError; Unreachable and TimedOut do not end the thread."""
        raise NotImplementedError

    def _needed(self) -> bool:
        """True if a failed attempt ends the thread."""
        return False

    def _follow(self) -> None:
        pause = self._first_pause
        while not self._closed.is_set():
            try:
                self._read()
                pause = self._first_pause
                self._closed.wait(FIRST_PAUSE)
            except (Unreachable, TimedOut) as error:
                if self._needed():
                    self._fail(error)
                    return
                self._outage.failed(error)
                self._closed.wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            except CliError as error:
                self._fail(error)
                return
            except Exception as error:
                self._fail(CliError(f"{self._stream} has an unexpected form: {type(error).__name__}: {error}"))
                return

    def _fail(self, error: CliError) -> None:
        with self._condition:
            self._failure = error
            self._condition.notify_all()


class StreamedList(StreamReader):
    """The objects of a kind. A thread reads the stream; while the scheduler is unreachable, the last objects remain. A
    scheduler that cannot be reached at the beginning is an error."""

    def __init__(
        self, client: Client, kind: str, namespace: str | None, selector: str, warn: Callable[[str], object]
    ) -> None:
        """`warn`: as for StreamReader."""
        super().__init__("list", "the stream", 2 * FIRST_PAUSE, warn)
        self._client, self._kind, self._namespace, self._selector = client, kind, namespace, selector
        self._found: dict[Name, Json] = {}
        self._known = ""
        self._complete = False
        self._start()

    def take(self, timeout: float) -> list[Json]:
        """The objects after the next change, or after `timeout` seconds without one; the first time as soon as the list
        is complete. Raises the error that ended the thread."""
        with self._condition:
            self._condition.wait_for(lambda: self._complete or self._failure is not None)
            self._condition.wait_for(lambda: self._changed or self._failure is not None, timeout)
            gathering = self._changed and self._failure is None
        if gathering:
            time.sleep(GATHER)
        with self._condition:
            if self._failure is not None:
                raise self._failure
            self._changed = False
            return list(self._found.values())

    def _needed(self) -> bool:
        return not self._complete

    def _read(self) -> None:
        """Reads one stream, to its end."""
        seen: set[Name] | None = set()
        frames = self._client.follow_list(self._kind, self._namespace, self._selector, self._known)
        for event, data, identity in frames:
            if self._closed.is_set():
                return
            self._outage.over()
            with self._condition:
                if event == "synced" and seen is not None:
                    self._synced(None if data["resumed"] else seen)
                    seen = None
                elif event == "deleted":
                    self._changed |= self._found.pop((data["namespace"], data["name"]), None) is not None
                elif event == self._kind.removesuffix("s"):
                    name = NAMES[self._kind](data)
                    self._changed |= self._found.get(name) != data
                    self._found[name] = data
                    if seen is not None:
                        seen.add(name)
                self._known = identity or self._known
                if self._complete:
                    self._condition.notify_all()

    def _synced(self, seen: set[Name] | None) -> None:
        """The first objects are complete. `seen`: all objects there are; None = only the changes."""
        if seen is not None:
            gone = self._found.keys() - seen
            for name in gone:
                del self._found[name]
            self._changed |= bool(gone)
        self._changed |= not self._complete
        self._complete = True
