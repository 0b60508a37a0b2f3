"""Requests for dumps of the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from bcs_scheduler.cli.client.http.transport import Transport
from bcs_scheduler.cli.client.types import Json

PAGE = 1000
"""Objects of one page: a greater page would occupy the scheduler for longer at a time."""


class Dumps(Transport):
    def dumped(self, path: str) -> Iterator[Json]:
        """The objects of a list over all namespaces, page by page as they are used."""
        return self._pages(path, {"limit": PAGE})

    def halt(self) -> Json:
        """The large loss that stops replacements, if there is one."""
        return self._get("/cluster/halt")
