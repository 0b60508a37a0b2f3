"""The executor's file, which agents fetch from here. Every scheduler has it, whether it leads or not."""

from __future__ import annotations

from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.api.http.operation import BASE, Call, Plain, Table
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.executor_file import executor_file

MEDIA_TYPE = "application/zip"
CACHING = {"Cache-Control": "public, max-age=31536000, immutable"}
"""The name changes with the content, so copies are kept for a year, the longest usual time."""

table = Table("executor")


def location(api_url: str) -> str:
    """URL at which the scheduler with this API serves the file."""
    return f"{api_url.rstrip('/')}{BASE}/executor/{executor_file().name}"


@table.read(
    "/executor/{file}",
    "Fetch the executor (called by agents); the name of the file is derived from its content",
    enveloped=False,
    media_type=MEDIA_TYPE,
)
def get_executor(call: Call) -> Plain:
    current = executor_file()
    asked = call.path["file"]
    if asked != current.name:
        raise ApiError(
            Reason.NOT_FOUND, f"executor {asked[:80]!r} does not exist; this scheduler serves {current.name}"
        )
    return Plain(current.content, MEDIA_TYPE, headers=CACHING)
