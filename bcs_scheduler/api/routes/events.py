"""Events: lists and streams.

Only durable events are shown: a failover could take another event back and give its number to a new one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import bad_parameter
from bcs_scheduler.api.http.operation import CONTINUE, LIMIT, Answered, Call, Param, Table
from bcs_scheduler.api.reading.query import page, page_or_all
from bcs_scheduler.api.streams import streaming
from bcs_scheduler.api.streams.live import WATCHABLE
from bcs_scheduler.api.streams.sse import EventStream, frame
from bcs_scheduler.api.views.events import (
    LEVELS,
    EventFilter,
    EventMatch,
    EventView,
    GapView,
    event_frame,
    item_frame,
    oldest,
    past_events,
    show_event,
)
from bcs_scheduler.leadership.gateway import NotLeading
from bcs_scheduler.leadership.items import EVENTS
from store.records import Event
from store.state.ordered import Order
from store.state.reader import StateReader

table = Table("events")
FILTERS = (
    Param("kind", "text", "Only events of objects of this kind: taskgroup, application, transaction, agent, …"),
    Param("name", "text", "Only events of the object of this name or key."),
    Param("prefix", "text", "Only events of objects whose name or key has this prefix."),
    Param("owner", "text", "Only events of the application, deployment or daemonset of this name, and of its parts."),
    Param("reason", "text", "Only events with one of these reasons, separated by commas."),
    Param("level", "text", "Only events of this level or a more serious level.", choices=LEVELS),
    Param("since", "float", "Only events since this time, in Unix seconds.", 0),
    Param("transaction", "text", "Only events of this transaction."),
    Param("last", "int", "Only this number of the newest events.", 0, 100_000),
)
CHUNK = 200
"""Frames of the past that are written at once."""


@streaming.streams(table, "/events/watch", "Follow the events of all namespaces", query=FILTERS, answer=EventView)
@streaming.streams(
    table, "/namespaces/{ns}/events/watch", "Follow the events of a namespace", query=FILTERS, answer=EventView
)
async def watch_events(call: Call) -> EventStream:
    """Follows events after the caller's last event; without one, the `last` newest events (none if left out) come
    first."""
    for name in ("limit", "continue"):
        if name in call.query:
            raise bad_parameter(name, "cannot be combined with watch")
    known = _known(call)
    # All parts come from one term, also if the term ends meanwhile: another state may have to be read from the store.
    hub = streaming.hub(call)
    test = _wanted(call, hub.state)
    watch = streaming.watch_in(call, hub, EVENTS, None, EventMatch(test))
    # The events in the log up to here come first; the watch gives the later ones.
    opening = _past(hub.state, known, watch.after, test, call.query.get("last", 0))
    return EventStream(watch, item_frame, opening, call.query.get("timeoutSeconds"))


@table.read(
    "/events",
    "List the events of all namespaces, newest last",
    query=(*FILTERS, LIMIT, CONTINUE, *WATCHABLE),
    answer=list[EventView],
    watcher=watch_events,
    reasons=(errors.BAD_PARAMETER,),
)
@table.read(
    "/namespaces/{ns}/events",
    "List the events of a namespace, newest last",
    query=(*FILTERS, LIMIT, CONTINUE, *WATCHABLE),
    answer=list[EventView],
    watcher=watch_events,
    reasons=(errors.BAD_PARAMETER,),
)
def list_events(call: Call) -> Answered:
    state = _state(call)
    durable, wanted = _durable(call), _wanted(call, state)
    if "last" in call.query:
        newest = deque(filter(wanted, past_events(state, 0, durable)), call.query["last"])
        return page(newest, _order, call.query, show_event)

    def walk(after: Order | None) -> Iterator[tuple[Order, Event]]:
        known = 0 if after is None else after[0]
        if not isinstance(known, int):
            raise TypeError("the orders of events are numbers")
        return ((_order(event), event) for event in past_events(state, known, durable))

    return page_or_all(walk, call.query, show_event, wanted)


def _past(state: StateReader, known: int | None, upto: int, test: EventFilter, last: int) -> Iterator[bytes]:
    first = oldest(state)
    if known is None:
        found: Iterable[Event] = deque(filter(test, past_events(state, 0, upto)), last) if last else ()
    elif known > upto:
        yield frame("gap", GapView(first=known, last=known, message="the numbering of events has started again"), upto)
        found = ()
    else:
        if known + 1 < first:
            words = f"events {known + 1} to {first - 1} are no longer stored"
            yield frame("gap", GapView(first=known + 1, last=first - 1, message=words), first - 1)
        found = filter(test, past_events(state, known, upto))
    frames: list[bytes] = []
    for event in found:
        frames.append(event_frame(event))
        if len(frames) == CHUNK:
            yield b"".join(frames)
            frames = []
    yield b"".join(frames) + b"id: %d\n\n" % upto


def _known(call: Call) -> int | None:
    text = call.last_event_id
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise bad_parameter("lastEventId", "is not the id of an event")
    return int(text)


def _state(call: Call) -> StateReader:
    """Returns the unrestricted state: `_wanted` leaves out events that the caller may not see, without a copy of runs
    of events."""
    call.state()  # refuses if there is none
    return call.gateway.state()


def _wanted(call: Call, state: StateReader) -> EventFilter:
    return EventFilter(call.query, call.path.get("ns"), call.caller.namespaces, state)


def _durable(call: Call) -> int | None:
    """Number of the last durable event; None on a standby, where all events in the state are durable."""
    try:
        return call.gateway.hub().latest
    except NotLeading:
        return None


def _order(event: Event) -> tuple[int]:
    return (event.number,)
