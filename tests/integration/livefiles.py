"""Files below a folder in which a running program creates and removes files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def contents_below(folder: Path, prefix: str = "") -> Iterator[tuple[Path, bytes]]:
    """Regular files whose names begin with `prefix`, with their contents. A file or folder that is removed during the
    walk is passed over; a folder that does not exist has no files. Links to folders are not followed."""
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            if not name.startswith(prefix) or not path.is_file():
                continue
            try:
                yield path, path.read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
