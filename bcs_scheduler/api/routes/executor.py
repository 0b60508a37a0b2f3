"""The executor's file, which agents fetch from here. Every scheduler has it, whether it leads or not."""

from __future__ import annotations

from bcs_scheduler.api.errors import ApiError
from bcs_scheduler.api.operation import BASE, Call, Plain, Table
from bcs_scheduler.core.effects import Reason
from bcs_scheduler.executor_file import executor_file

MEDIA_TYPE = "application/zip"
CACHING = {"Cache-Control": "public, max-age=31536000, immutable"}
"""The name says the content: a year, the longest that is usual."""

table = Table("executor")


def location(api_url: str) -> str:
    """URL at which the scheduler with this API serves the file."""
    return f"{api_url.rstrip('/')}{BASE}/executor/{executor_file().name}"


@table.read(
    "/executor/{file}",
    "The executor, as agents fetch it; its name is that of its content",
    enveloped=False,
    media_type=MEDIA_TYPE,
)
def get_executor(call: Call) -> Plain:
    current = executor_file()
    asked = call.path["file"]
    if asked != current.name:
        raise ApiError(Reason.NOT_FOUND, f"there is no executor {asked[:80]!r} here, only {current.name}")
    return Plain(current.content, MEDIA_TYPE, headers=CACHING)
