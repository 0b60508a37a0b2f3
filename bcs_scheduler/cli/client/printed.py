"""Output of tasks as `bcs logs` reads it: both streams in order where the executor records that, else file by file."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from bcs_scheduler.cli.client.following import Follower
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import CliError, NotFound
from store.keys import taskgroup_name

if TYPE_CHECKING:
    from bcs_scheduler.cli.client.client import Client

STREAMS = ("stdout", "stderr")
LENGTH = 512 * 1024
"""Bytes of one request."""
NO_TIMES = "the executor of this task does not record times: --since and --timestamps are not possible"


class Printed(NamedTuple):
    """`time` in Unix seconds; None = not known. `stream`: stdout, stderr, or the path of another file."""

    time: float | None
    stream: str
    data: bytes


class Page(NamedTuple):
    """`end`: there is nothing more at present."""

    entries: list[Printed]
    next: str
    end: bool
    lost: bool


class Selection(NamedTuple):
    """`files`: stdout, stderr or both, or another file. `since` in Unix seconds. `tail`: last lines."""

    files: tuple[str, ...] = STREAMS
    tail: int | None = None
    since: float | None = None
    rotated: bool = False
    times: bool = False
    """Times are needed."""
    executor: bool = False

    @property
    def streams_only(self) -> bool:
        return set(self.files) <= set(STREAMS)


def kept(client: Client, namespace: str, output: str, selection: Selection) -> list[Printed]:
    """The kept output of a failed task. Times that the server does not know are None. Raises CliError, also if
    times are needed and not known."""
    only = selection.files[0] if len(selection.files) == 1 else None
    query = {"stream": only, "since": selection.since, "tail": selection.tail}
    found = client.kept_output(namespace, output, query)
    if found["ordered"]:
        return _entries(found)
    if selection.since is not None or selection.times:
        raise CliError(NO_TIMES)
    return [entry._replace(time=None) for entry in _entries(found)]


def _entries(found: Json) -> list[Printed]:
    return [Printed(float(e["time"]), e["stream"], b64decode(e["data"])) for e in found["entries"]]


class TaskOutput:
    """Of one task, or of an executor. `unordered` is called when the order of both streams is not known and both have
    content; `lost` when output was rotated away before it was read."""

    def __init__(
        self,
        client: Client,
        taskgroup: str,
        task: str,
        selection: Selection,
        *,
        lost: Callable[[], None],
        unordered: Callable[[], None],
    ) -> None:
        self._client, self._taskgroup, self._task, self._selection = client, taskgroup, task, selection
        self._lost, self._unordered = lost, unordered
        self._cursor = ""
        """Of the ordered output; empty = the files are read one by one."""
        self._files = [
            Follower(client, taskgroup, task, file, executor=selection.executor, lost=lost) for file in selection.files
        ]
        self.begun = False
        """Output was read, or found to be empty."""

    def begin(self) -> Iterator[Printed]:
        """Present output. Raises CliError."""
        chosen = self._selection
        ordered = self._ordered() if chosen.streams_only and not chosen.executor else None
        self.begun = True
        if ordered is not None:
            yield from ordered
            return
        if chosen.since is not None or chosen.times:
            raise CliError(NO_TIMES)
        seen = set()
        for file, follower in zip(chosen.files, self._files, strict=True):
            for data in follower.begin(chosen.tail, rotated=chosen.rotated):
                if data and file not in seen:
                    seen.add(file)
                    if len(seen) > 1:
                        self._unordered()
                yield Printed(None, file, data)

    def more(self) -> Iterator[Printed]:
        """New output. Raises NotFound if the sandbox does not exist any more, CliError."""
        if not self.begun:
            yield from self.begin()
        elif self._cursor:
            yield from self._pages({"after": self._cursor})
        else:
            for file, follower in zip(self._selection.files, self._files, strict=True):
                for data in follower.more():
                    yield Printed(None, file, data)

    def _ordered(self) -> Iterator[Printed] | None:
        """None: the order is not known, to the executor or to an older server."""
        chosen = self._selection
        if chosen.tail is not None:
            query: dict[str, object] = {"tail": chosen.tail}
        else:
            query = {"rotated": chosen.rotated, "length": LENGTH}
        if chosen.since is not None:
            query["since"] = chosen.since
        try:
            first = self._page(query)
        except NotFound:
            return None
        return None if first is None else self._pages(query, first)

    def _pages(self, query: dict[str, object], page: Page | None = None) -> Iterator[Printed]:
        while True:
            page = page or self._page(query)
            if page is None:
                raise NotFound(f"the output of {taskgroup_name(self._taskgroup)} does not exist any more")
            if page.lost:
                self._lost()
            yield from page.entries
            self._cursor = page.next
            if page.end:
                return
            query, page = {"after": page.next, "length": LENGTH}, None

    def _page(self, query: dict[str, object]) -> Page | None:
        streams = self._selection.files
        only = streams[0] if len(streams) == 1 else None
        found = self._client.output(self._taskgroup, {"task": self._task or None, "stream": only, **query})
        if not found["ordered"]:
            return None
        return Page(_entries(found), found["next"], found["end"], found["lost"])
