"""Events: columns, lists, and streams of new events."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from bcs_scheduler.cli.client.kinds import KINDS, SINGULAR, is_cluster_wide
from bcs_scheduler.cli.client.lookup import find_taskgroup, find_transaction, name_of
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import NotFound, TimedOut, Unreachable, UsageError
from bcs_scheduler.cli.kinds.base import Functions
from bcs_scheduler.cli.kinds.fields import Condition, conditions_of, matching
from bcs_scheduler.cli.kinds.registry import known_kind, reader_of
from bcs_scheduler.cli.kinds.selection import kind_of
from bcs_scheduler.cli.listing import Shape, print_list
from bcs_scheduler.cli.output.data import print_form
from bcs_scheduler.cli.output.formats import Form
from bcs_scheduler.cli.output.tables import Column, age_column, joined, time_column
from bcs_scheduler.cli.output.terminal import Style, Styled
from bcs_scheduler.cli.output.text import local_time
from bcs_scheduler.cli.session import Session
from store.keys import custom_key

STYLES: Mapping[str, Style] = {"warning": "yellow", "error": "red"}


def level_text(event: Json) -> Styled:
    return Styled(event["level"], style=STYLES.get(event["level"], ""))


def _object_of(event: Json) -> str:
    """Kind and name of the object, as other commands take them."""
    return f"{event['kind']}/{name_of(event['kind'], event['name'])}"


EVENTS = (
    age_column("AGE", lambda event: event["time"]),
    Column("LEVEL", level_text),
    Column("NAMESPACE", lambda event: event["namespace"], wide=True),
    Column("OBJECT", _object_of),
    Column("REASON", lambda event: event["reason"]),
    Column("MESSAGE", lambda event: event["message"], long=True),
    Column("NAME", lambda event: event["name"], wide=True),
    Column("TRANSACTION", lambda event: event["transaction"], wide=True),
    Column("CAUSE", lambda event: event["cause"], wide=True),
    Column("ID", lambda event: event["id"], wide=True, right=True),
    time_column("TIME", lambda event: event["time"]),
)
CLOCK = Column("TIME", lambda event: local_time(event["time"]), whole=True)
"""In place of the age in a stream of events: a printed age does not grow."""
LISTED, FOLLOWED = 500, 20
MOST = 100_000
"""Number of events without --last: in a list, and before the new events of -w. `MOST`: that the API takes."""
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 2.0
"""Seconds before a lost stream is resumed: doubled after each attempt, up to the longest."""
WORKLOADS = ("deployments", "daemonsets", "applications")
KNOWN_BY_NAME = frozenset(
    (*WORKLOADS, "taskgroups", "transactions", "services", "endpoints", "configmaps", "secrets", "podgroups",
     "webhooks", "namespaces", "queues", "priorityclasses", "agents", "managed", "kinds")
)  # fmt: skip
"""Kinds whose objects are found by their names alone."""
WITHOUT_LISTS = ("customkind", "customobject", "framework", "queuetree")
"""Kinds of objects of events that `bcs get` does not list."""
OWNERS = frozenset({"application", "deployment", "daemonset"})
"""Kinds whose events include those of their parts."""


def show_events(
    session: Session,
    namespace: str | None,
    name: str | None,
    watch: bool,
    shape: Shape,
    chosen: Mapping[str, Any],
    fields: str = "",
) -> None:
    """Runs `bcs events`. `name`: a workload. `chosen`: values of the options for events. `fields`: a field selector."""
    filters = _filters(session, name, chosen)
    conditions = conditions_of(["events"], fields)
    if namespace is not None and (name or chosen.get("event_for")):
        _must_be_known(session, namespace, filters, name or chosen["event_for"])
    if not watch:
        _list(session, namespace, filters, shape, conditions)
        return
    for event in follow(session, namespace, filters):
        for one in matching("events", [event], conditions):
            _print_one(session, one, shape.form, everywhere=namespace is None)


def _filters(session: Session, name: str | None, chosen: Mapping[str, Any]) -> dict[str, Any]:
    given = {key.removeprefix("event_"): value for key, value in chosen.items() if value is not None}
    filters: dict[str, Any] = {key: given[key] for key in ("level", "reason", "last") if key in given}
    if "since" in given:
        filters["since"] = f"{time.time() - given['since']:.3f}"
    if name and "for" in given:
        raise UsageError("give the object once: as NAME or with --for")
    if name:
        filters["owner"] = name
    if "for" in given:
        filters |= _object(session, given["for"])
    return filters


def _must_be_known(session: Session, namespace: str, filters: Mapping[str, Any], text: str) -> None:
    """Raises NotFound for an object without events that does not exist."""
    about = {key: filters[key] for key in ("owner", "kind", "name") if key in filters}
    word, slash, name = text.partition("/")
    kinds = [kind_of(word)] if slash else WORKLOADS
    if kinds[0] not in KNOWN_BY_NAME or session.client.events(namespace, {**about, "last": 1}):
        return
    for kind in kinds:
        with suppress(NotFound):
            _read(session, kind, namespace, name if slash else text)
            return
    where = "" if is_cluster_wide(kinds[0]) else f" in namespace {namespace}"
    raise NotFound(
        f"{SINGULAR[kinds[0]] if slash else 'workload'} {name or text} does not exist{where}, and has no events"
    )


def _read(session: Session, kind: str, namespace: str, name: str) -> None:
    """Raises NotFound."""
    if kind == "taskgroups":
        find_taskgroup(session.client, namespace, name)
    elif kind == "transactions":
        find_transaction(session.client, namespace, name)
    else:
        reader_of(kind)(session, namespace, name, "")


def _object(session: Session, text: str) -> dict[str, str]:
    word, _, name = text.partition("/")
    if not name or not word:
        raise UsageError(f"--for takes KIND/NAME, such as application/web, not {text!r}")
    plural = kind_of(word)
    if plural not in KINDS and word not in WITHOUT_LISTS:
        return {"kind": "customobject", "name": custom_key(known_kind(session, word), session.namespace, name)}
    kind = SINGULAR.get(plural, plural)
    if kind in OWNERS:
        return {"owner": name}
    if kind == "taskgroup" and "." not in name:
        name = find_taskgroup(session.client, session.namespace, name)["ID"]
    elif kind == "transaction" and name.isdigit():
        name = find_transaction(session.client, session.namespace, name)["transactionID"]
    return {"kind": kind, "name": name}


def follow(session: Session, namespace: str | None, filters: Mapping[str, Any]) -> Iterator[Json]:
    """An endless stream of events, each of them once. After a lost connection the stream is resumed.

    Raises Unreachable or TimedOut if the first connection fails.
    """
    from bcs_scheduler.cli.client.outage import Outage

    known, pause, begun = "", FIRST_PAUSE, False
    outage = Outage(session.warn)
    while True:
        now = {**filters, "last": filters.get("last", FOLLOWED)} if not known else {**filters, "last": None}
        try:
            for frame in session.client.follow_events(namespace, now, known):
                begun, pause = True, FIRST_PAUSE
                outage.over()
                if frame.event == "event":
                    yield frame.data
                elif frame.event == "gap":
                    session.warn(str(frame.data["message"]))
                known = frame.identity or known
        except (Unreachable, TimedOut) as error:
            if not begun:
                raise
            outage.failed(error)
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


def _list(
    session: Session,
    namespace: str | None,
    filters: Mapping[str, Any],
    shape: Shape,
    conditions: Sequence[Condition],
) -> None:
    last = filters.get("last", LISTED)
    # The newest ones that meet the conditions are among all events, not among the newest.
    found = session.client.events(namespace, {**filters, "last": MOST if conditions else last})
    found = matching("events", found, conditions)[-last or len(found) :]
    columns = _columns(everywhere=namespace is None)
    if found or not shape.form.is_table:
        print_list(session, shape, found, columns, lambda event: f"event/{event['id']}")
    else:
        session.err.print(f"no events{'' if namespace is None else f' in namespace {namespace}'}")


def _columns(*, everywhere: bool) -> list[Column]:
    return [column._replace(wide=column.wide and not (everywhere and column.title == "NAMESPACE")) for column in EVENTS]


def _chosen(argument: str) -> Sequence[Column]:
    from bcs_scheduler.cli.output.expressions import custom_columns

    return custom_columns(argument)


def _print_one(session: Session, event: Json, form: Form, *, everywhere: bool) -> None:
    """Prints one event at once, without the alignment of a table."""
    if form.name == "json":
        session.out.file.write(json.dumps(event, ensure_ascii=False) + "\n")
    elif form.name == "yaml":
        from bcs_scheduler.wire.yamltext import text_of

        session.out.file.write("---\n" + text_of(event))
    elif form.name in ("jsonpath", "template"):
        print_form(session.out, event, form)
    elif form.name == "name":
        session.say(f"event/{event['id']}")
    else:
        columns = _chosen(form.argument) if form.argument else [CLOCK, *_columns(everywhere=everywhere)[1:]]
        shown = [column for column in columns if not column.wide or (form.name == "wide" and column.title != "TIME")]
        cells = [column.cell(event) for column in shown]
        session.out.print_lines([joined(cells)])
    session.out.file.flush()


FUNCTIONS = {"events": Functions(EVENTS, None)}
