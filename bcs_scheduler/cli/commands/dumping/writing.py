"""The file of a dump: written beside its place and renamed, so that the file is complete or absent."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from bcs_scheduler.cli.errors import CliError, UsageError

COMPRESSION = 5
"""Level of gzip: a tenth larger than with the highest level, in a third of the time."""


def check_place(file: Path) -> None:
    """Raises UsageError if the file cannot be made there, before the cluster is read."""
    if file.is_dir():
        raise UsageError(f"{file}: is a directory")
    if not file.parent.is_dir():
        raise UsageError(f"{file}: the directory {file.parent} does not exist")
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise UsageError(f"{file}: the directory {file.parent} is not writable")


def write_dump(file: Path, document: dict[str, Any]) -> int:
    """Writes the file with mode 0600, compressed if the name ends in ``.gz``; returns its bytes. A present file is
    replaced. Raises CliError; a present file is then unchanged."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # with mode 0600
        fresh = Path(name)
        try:
            with os.fdopen(handle, "wb") as raw:
                if file.name.endswith(".gz"):
                    with gzip.GzipFile("", "wb", COMPRESSION, raw) as packed:
                        _write(cast(BinaryIO, packed), document)
                else:
                    _write(raw, document)
                raw.flush()
                os.fsync(raw.fileno())
            os.replace(fresh, file)
        finally:
            fresh.unlink(missing_ok=True)
        return file.stat().st_size
    except OSError as error:
        raise CliError(f"{file}: cannot be written: {error.strerror or error}") from None


def _write(file: BinaryIO, document: dict[str, Any]) -> None:
    for piece in pieces(document):
        file.write(piece.encode())


def pieces(document: dict[str, Any]) -> Iterator[str]:
    """The text of a document in parts: one line for each value, and for each object of a list."""
    start = "{\n"
    for key, value in document.items():
        yield f"{start}{json.dumps(key)}: "
        start = ",\n"
        if isinstance(value, list) and value:
            yield "[\n"
            for number, item in enumerate(value):
                yield (",\n" if number else "") + _json(item)
            yield "\n]"
        else:
            yield _json(value)
    yield "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
