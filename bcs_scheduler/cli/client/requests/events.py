"""Requests for events, and for lists as streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bcs_scheduler.cli.client.http.sse import Frame, read_frames
from bcs_scheduler.cli.client.http.transport import Transport, path_of
from bcs_scheduler.cli.client.types import PREFIX, Json


class Events(Transport):
    """Filters are the parameters of the API (docs/api.md, Events). None and empty values are not sent."""

    def events(self, namespace: str | None, filters: Mapping[str, Any]) -> list[Json]:
        """Events of a namespace, newest last; None = of all namespaces."""
        return self._list(_events(namespace), _given(filters))

    def follow_events(self, namespace: str | None, filters: Mapping[str, Any], known: str = "") -> Iterator[Frame]:
        """A stream with the events `event`, `gap`, `end`; frames without an event carry only the position in the
        stream.

        The stream begins after the event with the id `known`, or with the newest events (filter `last`). Raises
        CliError when the connection breaks.
        """
        query = {**_given(filters), "lastEventId": known or None}
        return read_frames(self._answered("GET", f"{PREFIX}{_events(namespace)}/watch", query, stream=True))

    def follow_list(self, kind: str, namespace: str | None, selector: str = "", known: str = "") -> Iterator[Frame]:
        """A list of `bcs get` as a stream (docs/api.md, Lists as streams), after the frame with the id `known`. Raises
        CliError when the connection breaks."""
        if kind in ("agents", "queues") or namespace is None:
            path = f"/{kind}"
        else:
            path = path_of(
                *(("transactions", namespace) if kind == "transactions" else ("namespaces", namespace, kind))
            )
        query = {**_given({"labelSelector": selector}), "watch": "true", "lastEventId": known or None}
        return read_frames(self._answered("GET", PREFIX + path, query, stream=True))


def _events(namespace: str | None) -> str:
    return "/events" if namespace is None else path_of("namespaces", namespace, "events")


def _given(filters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in filters.items() if value not in (None, "")}
