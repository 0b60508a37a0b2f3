"""The part of the client that is about events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bcs_scheduler.cli.frames import Frame, read_frames
from bcs_scheduler.cli.wire import PREFIX, Json, Wire, path_of


class Events(Wire):
    """Filters are the parameters of the API (docs/api.md, Events); those that are None or empty are left out."""

    def events(self, namespace: str | None, filters: Mapping[str, Any]) -> list[Json]:
        """Of a namespace, or of all with None; newest last."""
        return self._list(_events(namespace), _given(filters))

    def follow_events(self, namespace: str | None, filters: Mapping[str, Any], known: str = "") -> Iterator[Frame]:
        """One stream: `event`, `gap`, `end`; frames without event say only how far the stream is. It begins behind the
        event `known`, or with the newest (filter `last`). Raises CliError when the connection breaks off."""
        query = {**_given(filters), "lastEventId": known or None}
        return read_frames(self._answered("GET", f"{PREFIX}{_events(namespace)}/watch", query, stream=True))


def _events(namespace: str | None) -> str:
    return "/events" if namespace is None else path_of("namespaces", namespace, "events")


def _given(filters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in filters.items() if value not in (None, "")}
