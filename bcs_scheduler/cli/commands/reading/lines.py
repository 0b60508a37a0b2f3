"""Lines of `bcs logs`: names of sources, marks of standard error, and times."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime

from bcs_scheduler.cli.client.printed import STREAMS, Printed

LONGEST_LINE = 64 * 1024
"""Bytes of an unfinished line that are buffered, so that lines of several sources do not mix."""
RED, PLAIN = b"\x1b[31m", b"\x1b[0m"


class Lines:
    """Writes the output of one source. Without a name, marks and times, bytes are written as they come."""

    def __init__(self, name: str, *, named: bool, marked: bool, times: bool) -> None:
        """`named`: lines begin with the name; `marked`: those of standard error are marked."""
        self._name = name.encode() if named else b""
        self._marked, self._times = marked, times
        self._coloured = marked and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        self._rest: dict[str, tuple[float | None, bytes]] = {}
        """Unfinished line of each stream, with its time."""
        self._unended = False
        """The last line that was written has no end yet: the program may never write the end."""

    @property
    def raw(self) -> bool:
        return not (self._name or self._marked or self._times)

    def write(self, printed: Printed) -> None:
        out = sys.stdout.buffer
        if self.raw:
            out.write(printed.data)
            out.flush()
            return
        if printed.time is None:  # one file after the other
            self.finish(*[stream for stream in self._rest if stream != printed.stream])
        time, before = self._rest.pop(printed.stream, (printed.time, b""))
        *lines, rest = (before + printed.data).split(b"\n")
        if rest:
            self._rest[printed.stream] = (printed.time if lines else time, rest)
        for line in lines:
            self._line(printed.stream, time, line)
            time = printed.time
        if len(rest) > LONGEST_LINE:
            self.finish(printed.stream)
        out.flush()

    def finish_all(self) -> None:
        self.finish(*tuple(self._rest))

    def finish(self, *streams: str) -> None:
        """Writes unfinished lines. Those to which nothing is added stay without an end until another line follows: the
        standard output of one task is printed exactly."""
        for stream in streams:
            time, rest = self._rest.pop(stream, (None, b""))
            if rest:
                self._line(stream, time, rest, ended=False)
        sys.stdout.buffer.flush()

    def _line(self, stream: str, time: float | None, line: bytes, *, ended: bool = True) -> None:
        erroneous = self._marked and stream == STREAMS[1]
        head = b" ".join([*([self._name] if self._name else []), *([b"stderr"] if erroneous else [])])
        if head:
            head += b" | "
        if self._times and time is not None:
            head += stamp(time).encode() + b" "
        text = head + line
        if erroneous and self._coloured:
            text = RED + text + PLAIN
        before, self._unended = b"\n" if self._unended else b"", not ended and not head
        sys.stdout.buffer.write(before + text + (b"" if self._unended else b"\n"))


def stamp(time: float) -> str:
    """RFC 3339 in UTC, with microseconds."""
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
