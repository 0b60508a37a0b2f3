"""Requests for endpoints of services."""

from __future__ import annotations

from collections.abc import Iterator

from bcs_scheduler.cli.client.http.sse import Frame, read_frames
from bcs_scheduler.cli.client.http.transport import Transport, path_of
from bcs_scheduler.cli.client.types import PREFIX, Json

LONGEST_WATCH = 30.0
"""Seconds of one long poll; less than the time limit of an answer."""


class Services(Transport):
    """Endpoints. Services themselves are read and written like configmaps (client.Client)."""

    def endpoints(self, namespace: str | None, *, selector: str = "") -> list[Json]:
        """All endpoints of a namespace; None = of all namespaces."""
        path = "/endpoints" if namespace is None else path_of("namespaces", namespace, "endpoints")
        return self._list(path, {"labelSelector": selector} if selector else {})

    def endpoint(self, namespace: str, name: str) -> Json:
        return self._get(path_of("namespaces", namespace, "endpoints", name))

    def watch_endpoint(self, namespace: str, name: str, known: str) -> Json:
        """The endpoint when its `resourceVersion` is not `known` any more, or after LONGEST_WATCH seconds."""
        query = {"watch": True, "resourceVersion": known or None, "timeoutSeconds": f"{LONGEST_WATCH:g}"}
        return self._get(path_of("namespaces", namespace, "endpoints", name), query)

    def follow_endpoints(self, namespace: str, name: str | None = None) -> Iterator[Frame]:
        """A stream with the events `endpoint`, `deleted`, `synced`, `end`, and heartbeats with an empty event. The
        server ends the stream. Raises CliError when the connection breaks."""
        path = path_of("namespaces", namespace, "endpoints", "watch")
        return read_frames(self._answered("GET", PREFIX + path, {"name": name}, stream=True))
