"""Fetches the URIs of a command into the sandbox, as the Mesos fetcher does: local files and HTTP."""

from __future__ import annotations

import hashlib
import shutil
import threading
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from bcs_scheduler.local.errors import LocalClusterError
from bcs_scheduler.mesos.proto import mesos_pb2 as pb

ARCHIVES = (".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip")
TIMEOUT = 60.0


class FetchError(LocalClusterError):
    """A URI cannot be fetched; the message names the URI."""


class Fetcher:
    """`cache`: the directory for URIs with the flag `cache`; each such URI is fetched once. Several threads may use a
    Fetcher."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._locks: dict[str, threading.Lock] = {}

    def fetch(self, uris: Iterable[pb.CommandInfo.URI], sandbox: Path) -> None:
        """Blocks. Raises FetchError."""
        for uri in uris:
            try:
                self._fetch(uri, sandbox)
            except (OSError, ValueError, shutil.ReadError) as error:
                raise FetchError(f"Failed to fetch all URIs for container: '{uri.value}': {error}") from error

    def _fetch(self, uri: pb.CommandInfo.URI, sandbox: Path) -> None:
        source = unquote(urlsplit(uri.value).path)
        target = (sandbox / (uri.output_file or Path(source).name)).resolve()
        if not target.is_relative_to(sandbox.resolve()) or target == sandbox.resolve():
            raise ValueError("the file would lie outside the sandbox")
        target.parent.mkdir(parents=True, exist_ok=True)
        if uri.cache:
            shutil.copyfile(self._cached(uri.value), target)
        else:
            _download(uri.value, target)
        if uri.executable:
            target.chmod(0o755)
        elif uri.extract and target.name.endswith(ARCHIVES):
            if target.suffix == ".zip":
                shutil.unpack_archive(target, sandbox)
            else:
                shutil.unpack_archive(target, sandbox, filter="data")

    def _cached(self, value: str) -> Path:
        file = self._cache / hashlib.sha256(value.encode()).hexdigest()
        with self._locks.setdefault(value, threading.Lock()):
            if not file.exists():
                self._cache.mkdir(parents=True, exist_ok=True)
                temporary = file.with_suffix(f".{uuid4()}")
                try:
                    _download(value, temporary)
                    temporary.replace(file)
                finally:
                    temporary.unlink(missing_ok=True)
        return file


def _download(value: str, target: Path) -> None:
    parts = urlsplit(value)
    if parts.scheme in ("http", "https"):
        with urllib.request.urlopen(value, timeout=TIMEOUT) as answer, target.open("wb") as file:
            shutil.copyfileobj(answer, file)
    elif parts.scheme in ("", "file"):
        shutil.copyfile(unquote(parts.path), target)
    else:
        raise ValueError(f"scheme '{parts.scheme}' is not supported")
