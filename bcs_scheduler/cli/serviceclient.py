"""The part of the client that is about services and their endpoints."""

from __future__ import annotations

from collections.abc import Iterator

from bcs_scheduler.cli.frames import Frame, read_frames
from bcs_scheduler.cli.wire import PREFIX, Json, Wire, path_of

LONGEST_WATCH = 30.0
"""Seconds of one long poll: below the time after which an answer counts as missing."""


class Services(Wire):
    """Services themselves are written and read like configmaps (bcs_scheduler.cli.client)."""

    def endpoints(self, namespace: str | None, *, selector: str = "") -> list[Json]:
        """All of a namespace, or of all namespaces with None."""
        path = "/endpoints" if namespace is None else path_of("namespaces", namespace, "endpoints")
        return self._list(path, {"labelSelector": selector} if selector else {})

    def endpoint(self, namespace: str, name: str) -> Json:
        return self._get(path_of("namespaces", namespace, "endpoints", name))

    def watch_endpoint(self, namespace: str, name: str, known: str) -> Json:
        """As soon as it differs from the `resourceVersion` that is known, or after LONGEST_WATCH seconds."""
        query = {"watch": True, "resourceVersion": known or None, "timeoutSeconds": f"{LONGEST_WATCH:g}"}
        return self._get(path_of("namespaces", namespace, "endpoints", name), query)

    def follow_endpoints(self, namespace: str, name: str | None = None) -> Iterator[Frame]:
        """What the server says of them until it ends the stream: `endpoint`, `deleted`, `synced`, `end`; also
        heartbeats, whose event is empty. Raises CliError when the connection breaks off."""
        path = path_of("namespaces", namespace, "endpoints", "watch")
        return read_frames(self._answered("GET", PREFIX + path, {"name": name}, stream=True))
