"""Requests for managed applications."""

from __future__ import annotations

from bcs_scheduler.cli.client.http.transport import Transport, path_of
from bcs_scheduler.cli.client.types import Json


class Managed(Transport):
    def managed_applications(self, namespace: str | None) -> list[Json]:
        """All managed applications of a namespace; None = of all namespaces."""
        plural = "managedapplications"
        return self._list(f"/{plural}" if namespace is None else path_of("namespaces", namespace, plural))

    def managed_application(self, namespace: str, name: str) -> Json:
        """One with its tasks, placeholders, orphans and histories."""
        return self._get(path_of("namespaces", namespace, "managedapplications", name))
