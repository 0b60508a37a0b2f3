"""Points in time as text, as the API shows them."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

NO_TIME = "0001-01-01T00:00:00Z"
"""The zero time of the original's timestamps."""


def rfc3339(moment: float) -> str:
    """`moment` (Unix seconds) as RFC 3339 in UTC with microseconds; NO_TIME for 0 or less."""
    if moment <= 0:
        return NO_TIME
    seconds, fraction = divmod(moment, 1)
    return f"{_date_and_time(int(seconds))}.{int(fraction * 1e6):06}Z"


@lru_cache(maxsize=4096)
def _date_and_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
