"""Views that are refreshed: on a terminal in place, elsewhere printed again whenever they have changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

from bcs_scheduler.cli.client.http.outage import Outage
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import Unreachable
from bcs_scheduler.cli.listing import Shape
from bcs_scheduler.cli.output.terminal import Line, rich_text
from bcs_scheduler.cli.session import Session

INTERVAL = 1.0
"""Seconds between two polls."""


class Lines(Protocol):
    """A table or a picture."""

    def lines(self, width: int | None) -> Iterator[Line]:
        """The lines, of at most `width` places; None = no limit."""


def refresh(
    session: Session,
    shape: Shape,
    look: Callable[[], list[Json]],
    drawn: Callable[[list[Json]], Lines],
    print_: Callable[[Session, list[Json], Shape], None],
) -> None:
    """Polls until the user interrupts. `look` reads the objects, `drawn` makes them a table for a terminal, `print_`
    prints them elsewhere. Raises Unreachable if the first poll fails."""
    outage = Outage(session.warn)
    seen = look()
    if shape.form.is_table and session.interactive:
        from rich.console import Group
        from rich.live import Live

        with Live(console=session.out.console, auto_refresh=False) as live:
            while True:
                picture = drawn(seen)
                width = None if shape.form.name == "wide" else session.out.width
                live.update(Group(*map(rich_text, picture.lines(width))), refresh=True)
                time.sleep(INTERVAL)
                seen = _retried(look, outage)
    last: list[Json] | None = None
    while True:
        if seen != last:
            print_(session, seen, shape)
            last = seen
        time.sleep(INTERVAL)
        seen = _retried(look, outage)


def _retried(look: Callable[[], list[Json]], outage: Outage) -> list[Json]:
    """Repeats a poll until the server is reachable, so that a watch survives a change of leaders."""
    while True:
        try:
            found = look()
        except Unreachable as error:
            outage.failed(error)
            time.sleep(INTERVAL)
        else:
            outage.over()
            return found
