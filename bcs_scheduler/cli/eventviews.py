"""How events are shown."""

from __future__ import annotations

from rich.text import Text

from bcs_scheduler.cli.client import Json
from bcs_scheduler.cli.output import Column, local_time

STYLES = {"warning": "yellow", "error": "red"}


def level_text(event: Json) -> Text:
    return Text(event["level"], style=STYLES.get(event["level"], ""))


EVENTS = (
    Column("TIME", lambda event: local_time(event["time"])),
    Column("LEVEL", level_text),
    Column("NAMESPACE", lambda event: event["namespace"], wide=True),
    Column("OBJECT", lambda event: f"{event['kind']}/{event['name']}"),
    Column("REASON", lambda event: event["reason"]),
    Column("MESSAGE", lambda event: event["message"]),
    Column("TRANSACTION", lambda event: event["transaction"], wide=True),
    Column("CAUSE", lambda event: event["cause"], wide=True),
    Column("ID", lambda event: event["id"], wide=True, right=True),
)
