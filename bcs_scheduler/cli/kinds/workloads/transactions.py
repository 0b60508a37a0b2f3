"""Transactions: columns, lists, descriptions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from bcs_scheduler.cli.client.lookup import find_owner, find_transaction, running_kind, short_names
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import NotFound
from bcs_scheduler.cli.kinds.base import Found, Functions
from bcs_scheduler.cli.output.data import print_data
from bcs_scheduler.cli.output.tables import Column, age_column, field_list, time_column
from bcs_scheduler.cli.output.text import duration, local_time, moment, operation, status_text, verdict, when
from bcs_scheduler.cli.session import Session
from store.keys import object_key, transaction_name

ENDED = ("FINISH", "FAIL", "TIMEOUT", "CANCEL", "SUPERSEDED")


def _left(transaction: Json) -> str:
    if transaction["status"] in ENDED:
        return "-"
    deadline = moment(transaction.get("deadline"))
    return duration(int(deadline - time.time())) if deadline else "-"


def _progress(transaction: Json) -> str:
    target = transaction.get("target")
    return f"{transaction.get('progress', 0)}/{target}" if target else "-"


TRANSACTIONS: Sequence[Column] = (
    Column("NAME", lambda t: t.get("Name") or t["transactionID"]),
    Column("OPERATION", operation),
    Column("OBJECT", lambda t: t.get("objectName")),
    Column("STATUS", lambda t: status_text(verdict(t["status"]))),
    Column("PROGRESS", _progress, right=True),
    age_column("AGE", lambda t: t.get("createTime")),
    Column("LEFT", _left, right=True, order=lambda t: moment(t.get("deadline"))),
    time_column("CREATED", lambda t: t.get("createTime")),
    Column("MESSAGE", lambda t: t.get("message"), long=True),
    Column("ID", lambda t: t["transactionID"], wide=True),
)


def with_names(transactions: Sequence[Json]) -> list[Json]:
    """Transactions with their short names as `Name`: ids are longer than half of a terminal."""
    names = short_names([str(one["transactionID"]) for one in transactions])
    return [{**one, "Name": name} for one, name in zip(transactions, names, strict=True)]


def read_transactions(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    if not name:
        return session.client.transactions(namespace)
    try:
        return find_transaction(session.client, namespace or session.namespace, name)
    except NotFound:
        kind, owner = find_owner(session.client, namespace or session.namespace, name)
        found = session.client.transactions(namespace, owner, kind=running_kind(kind))
        if not found:
            raise
        return found


def describe_transaction(session: Session, name: str, events: bool, form: str) -> None:
    found = find_transaction(session.client, session.namespace, name)
    if form:
        print_data(session.out, found, form)
        return
    owner = object_key(found.get("namespace", ""), found.get("objectName", ""))
    session.show(
        field_list(
            [
                ("Name", transaction_name(found["transactionID"])),
                ("ID", found["transactionID"] if session.wide else ""),
                ("Operation", operation(found)),
                ("Object", f"{found.get('objectKind')} {owner}"),
                ("Status", status_text(verdict(found["status"]))),
                ("Message", found.get("message")),
                ("Progress", f"{found.get('progress', 0)} of {found['target']}" if found.get("target") else ""),
                ("Created", when(found.get("createTime"))),
                ("Deadline", local_time(found.get("deadline"))),
                ("Ended", when(found["finishTime"]) if found.get("finishTime") else ""),
            ],
        )
    )
    session.out.print("\nHistory", "bold")
    for note in found.get("history") or ():
        session.say(f"  {_note(note)}")


def _note(note: Any) -> str:
    return f"{local_time(note.get('at'))}  {note.get('text')}" if isinstance(note, dict) else str(note)


FUNCTIONS = {"transactions": Functions(TRANSACTIONS, read_transactions, describe_transaction)}
