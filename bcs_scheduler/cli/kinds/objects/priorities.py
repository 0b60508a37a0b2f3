"""Priority classes: columns, operations, descriptions."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.kinds.base import Functions
from bcs_scheduler.cli.kinds.objects.extensions import describe_object, operations_of, reading
from bcs_scheduler.cli.output.tables import Column, age_column, time_column
from bcs_scheduler.cli.session import Session


def _created(found: Json) -> Any:
    return found["metadata"].get("creationTimestamp")


PRIORITY_CLASS_COLUMNS = (
    Column("NAME", lambda c: c["metadata"]["name"]),
    Column("VALUE", lambda c: c["value"], right=True),
    Column("GLOBAL-DEFAULT", lambda c: "yes" if c["globalDefault"] else "no"),
    Column("PREEMPTION-POLICY", lambda c: c["preemptionPolicy"]),
    age_column("AGE", _created),
    time_column("CREATED", _created),
    Column("DESCRIPTION", lambda c: c["description"], long=True),
)


def describe_priority_class(session: Session, name: str, events: bool, form: str) -> None:
    found = session.client.object("PriorityClass", "", name)
    describe_object(
        session,
        found,
        form,
        lambda: [
            ("Value", str(found["value"])),
            ("Global default", "yes" if found["globalDefault"] else "no"),
            ("Preemption policy", found["preemptionPolicy"]),
            ("Description", found["description"] or "none"),
        ],
    )


FUNCTIONS = {
    "priorityclasses": Functions(
        PRIORITY_CLASS_COLUMNS, reading("PriorityClass"), describe_priority_class, operations_of("PriorityClass")
    )
}
