"""Events: what happened, listed and followed.

Only what is durable is shown: an event that a failover could take back would give its number to another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from bcs_scheduler.api import errors, streaming
from bcs_scheduler.api.errors import bad_parameter
from bcs_scheduler.api.operation import CONTINUE, LIMIT, Answered, Call, Param, Table
from bcs_scheduler.api.query import page, stretch
from bcs_scheduler.api.sse import EventStream, frame
from bcs_scheduler.api.views.events import (
    LEVELS,
    EventMatch,
    EventView,
    GapView,
    Wanted,
    chronicle,
    event_frame,
    item_frame,
    oldest,
    show_event,
)
from bcs_scheduler.gateway import NotLeading
from bcs_scheduler.hub import EVENTS
from store.ordered import Order
from store.records import Happening
from store.state import State

table = Table("events")
FILTERS = (
    Param("kind", "text", "Only those of objects of this kind: taskgroup, application, transaction, agent, …"),
    Param("name", "text", "Only those of the object of this name or key."),
    Param("prefix", "text", "Only those of objects whose name or key begins so."),
    Param("owner", "text", "Only those of the application, deployment or daemonset of this name, and of its parts."),
    Param("reason", "text", "Only those with one of these reasons, by commas."),
    Param("level", "text", "Only those of this level or a more serious one.", choices=LEVELS),
    Param("since", "float", "Only those since this moment, in Unix seconds.", 0),
    Param("transaction", "text", "Only those that belong to this transaction."),
    Param("last", "int", "Only so many, the newest.", 0, 100_000),
)
CHUNK = 200
"""Frames of the past that are written at once."""


@table.read(
    "/events",
    "List the events of all namespaces, newest last",
    query=(*FILTERS, LIMIT, CONTINUE),
    answer=list[EventView],
    reasons=(errors.BAD_PARAMETER,),
)
@table.read(
    "/namespaces/{ns}/events",
    "List the events of a namespace, newest last",
    query=(*FILTERS, LIMIT, CONTINUE),
    answer=list[EventView],
    reasons=(errors.BAD_PARAMETER,),
)
def list_events(call: Call) -> Answered:
    state = _state(call)
    durable, wanted = _durable(call), _wanted(call, state)
    if "last" in call.query:
        newest = deque(filter(wanted, chronicle(state, 0, durable)), call.query["last"])
        return page(newest, _order, call.query, show_event)

    def walk(after: Order | None) -> Iterator[tuple[Order, Happening]]:
        known = 0 if after is None else after[0]
        if not isinstance(known, int):
            raise TypeError("the orders of events are numbers")
        return ((_order(happening), happening) for happening in chronicle(state, known, durable))

    return stretch(walk, call.query, show_event, wanted)


@streaming.streams(table, "/events/watch", "Follow the events of all namespaces", query=FILTERS, answer=EventView)
@streaming.streams(
    table, "/namespaces/{ns}/events/watch", "Follow the events of a namespace", query=FILTERS, answer=EventView
)
async def watch_events(call: Call) -> EventStream:
    """From the caller's last event on; without one, the `last` newest (none if left out), then what comes."""
    known = _known(call)
    # All of one term, whatever becomes of it meanwhile: another state may have to be asked for at the store.
    hub = streaming.hub(call)
    test = _wanted(call, hub.state)
    watch = streaming.watch_in(hub, EVENTS, None, EventMatch(test))
    # What is in the journal up to here comes first; the watch gives what follows.
    opening = _past(hub.state, known, watch.after, test, call.query.get("last", 0))
    return EventStream(watch, item_frame, opening, call.query.get("timeoutSeconds"))


def _past(state: State, known: int | None, upto: int, test: Wanted, last: int) -> Iterator[bytes]:
    first = oldest(state)
    if known is None:
        found: Iterable[Happening] = deque(filter(test, chronicle(state, 0, upto)), last) if last else ()
    elif known > upto:
        yield frame("gap", GapView(first=known, last=known, message="events are counted anew"), upto)
        found = ()
    else:
        if known + 1 < first:
            words = f"events {known + 1} to {first - 1} are not kept any more"
            yield frame("gap", GapView(first=known + 1, last=first - 1, message=words), first - 1)
        found = filter(test, chronicle(state, known, upto))
    frames: list[bytes] = []
    for happening in found:
        frames.append(event_frame(happening))
        if len(frames) == CHUNK:
            yield b"".join(frames)
            frames = []
    yield b"".join(frames) + b"id: %d\n\n" % upto


def _known(call: Call) -> int | None:
    text = call.last_event_id
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise bad_parameter("lastEventId", "is the id of no event")
    return int(text)


def _state(call: Call) -> State:
    """The whole one: what the caller may not see `_wanted` leaves out, without copying runs of events for it."""
    call.state()  # refuses if there is none
    return call.gateway.state()


def _wanted(call: Call, state: State) -> Wanted:
    return Wanted(call.query, call.path.get("ns"), call.caller.namespaces, state)


def _durable(call: Call) -> int | None:
    """None on a standby: all it has read is durable."""
    try:
        return call.gateway.hub().latest
    except NotLeading:
        return None


def _order(happening: Happening) -> tuple[int]:
    return (happening.number,)
