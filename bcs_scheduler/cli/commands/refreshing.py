"""Views that are refreshed: on a terminal in place, elsewhere printed again whenever they have changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NoReturn, Protocol, TypeVar

from bcs_scheduler.cli.client.outage import Outage
from bcs_scheduler.cli.errors import Unreachable
from bcs_scheduler.cli.listing import Shape
from bcs_scheduler.cli.output.terminal import Line
from bcs_scheduler.cli.session import Session

INTERVAL = 1.0
"""Seconds between two polls."""


T = TypeVar("T")


class Lines(Protocol):
    """A table or a picture."""

    def lines(self, width: int | None) -> Iterator[Line]:
        """The lines, of at most `width` places; None = no limit."""


def refresh(
    session: Session,
    shape: Shape,
    look: Callable[[], T],
    drawn: Callable[[T], Lines],
    print_: Callable[[T], None],
    pause: float = INTERVAL,
) -> NoReturn:
    """Polls until the user interrupts. `look` reads the objects, `drawn` makes them a table for a terminal, `print_`
    prints them elsewhere. `pause`: seconds between two polls. Raises Unreachable if the first poll fails."""
    outage = Outage(session.warn)
    seen = look()
    if shape.form.is_table and session.interactive:
        with session.out.in_place() as show:
            while True:
                show(drawn(seen).lines(None if shape.form.name == "wide" else session.out.width))
                time.sleep(pause)
                seen = _retried(look, outage)
    last: T | None = None
    while True:
        if seen != last:
            print_(seen)
            last = seen
        time.sleep(pause)
        seen = _retried(look, outage)


def _retried(look: Callable[[], T], outage: Outage) -> T:
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
