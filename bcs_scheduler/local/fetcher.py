"""Fetches the URIs of a command into the sandbox, as the Mesos fetcher does: local files and HTTP."""

from __future__ import annotations

import shutil
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bcs_scheduler.local.errors import LocalClusterError
from bcs_scheduler.mesos.proto import mesos_pb2 as pb

ARCHIVES = (".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")
TIMEOUT = 60.0


class FetchError(LocalClusterError):
    """A URI cannot be had; the message names it."""


def fetch(uris: Iterable[pb.CommandInfo.URI], sandbox: Path) -> None:
    """Blocks. Raises FetchError."""
    for uri in uris:
        try:
            _fetch(uri, sandbox)
        except (OSError, ValueError, shutil.ReadError) as error:
            raise FetchError(f"Failed to fetch '{uri.value}': {error}") from error


def _fetch(uri: pb.CommandInfo.URI, sandbox: Path) -> None:
    parts = urlsplit(uri.value)
    source = unquote(parts.path)
    target = (sandbox / (uri.output_file or Path(source).name)).resolve()
    if not target.is_relative_to(sandbox.resolve()) or target == sandbox.resolve():
        raise ValueError("the file would lie outside the sandbox")
    target.parent.mkdir(parents=True, exist_ok=True)
    if parts.scheme in ("http", "https"):
        with urllib.request.urlopen(uri.value, timeout=TIMEOUT) as answer, target.open("wb") as file:
            shutil.copyfileobj(answer, file)
    elif parts.scheme in ("", "file"):
        shutil.copyfile(source, target)
    else:
        raise ValueError(f"scheme '{parts.scheme}' is not supported")
    if uri.executable:
        target.chmod(0o755)
    elif uri.extract and target.name.endswith(ARCHIVES):
        if target.suffix == ".zip":
            shutil.unpack_archive(target, sandbox)
        else:
            shutil.unpack_archive(target, sandbox, filter="data")
