"""Events of a scheduler, as `bcs get events -o json` prints them and `bcs dump --events` writes them.

Such events have no documents. An application that is created gets the definition that it has in the dump; applications
without one are left out. Only codes are read, never messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from bcs_scheduler.core.interface.requests import DeleteApplication, Request, ScaleApplication, SetAgent
from bcs_scheduler.simulator.amounts import BadInput
from bcs_scheduler.simulator.model import (
    Action,
    AddAgent,
    Create,
    EndTaskGroup,
    LoseAgent,
    Replay,
    Start,
    Submit,
    seconds_of,
)
from offers.names import name_of
from store.ids import TaskGroupId, namespace_of, object_key, without_namespace

TOGETHER = 60.0
"""Seconds within which placements of one application belong to one creation or one scale."""
ENDS = {"TaskGroupFinished": False, "TaskGroupFailed": True}
"""Reasons of taskgroups that end by themselves, and whether these failed."""


class RecordedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an event that are read; others are ignored."""

    time: str
    kind: str
    name: str
    reason: str
    namespace: str = ""
    message: str = ""


class _Placed(msgspec.Struct):
    """Placements of one application. `at`: the first of them; `most`: taskgroups that the application has with them."""

    at: float
    most: int


def read_recorded(place: str, events: Iterable[tuple[int, RecordedEvent]], start: Start) -> Replay:
    """`place`: option and file; `events` with the numbers of their lines or places. Raises BadInput, which names file
    and line."""
    timed = []
    for number, event in events:
        try:
            timed.append((seconds_of(event.time), event))
        except BadInput as error:
            raise BadInput(f"{place}:{number}: time {error}") from None
    timed.sort(key=lambda pair: pair[0])
    first = timed[0][0] if timed else 0.0
    zero = first if start.moment is None or start.moment > first else start.moment
    reading = _Reading(start)
    for moment, event in timed:
        reading.take(moment - zero, event)
    return reading.replay()


class _Reading:
    def __init__(self, start: Start) -> None:
        self._start = start
        self._wanted = dict(start.applications)
        self._placed: dict[str, _Placed] = {}
        """Placements beyond the wanted taskgroups, by application key."""
        self._creations: list[Create] = []
        self._actions: list[Action] = []
        self._left_out: Counter[str] = Counter()

    def take(self, at: float, event: RecordedEvent) -> None:
        match event.kind, event.reason:
            case "agent", reason:
                self._agent(at, event.name, reason)
            case "taskgroup", "TaskGroupPlaced":
                self._place(at, event)
            case "taskgroup", reason if reason in ENDS:
                found = self._taskgroup(event)
                if found is not None and self._present(found[0]):
                    self._actions.append(EndTaskGroup(at, *found, failed=ENDS[reason]))
            case "application", "ApplicationDeleted":
                self._delete(at, event.namespace, event.name)

    def replay(self) -> Replay:
        for key in list(self._placed):
            self._flush(key)
        words = {
            "agents": "agents that join are left out, because their size is not known.",
            "applications": "applications are left out, because the dump has no definition of them.",
            "taskgroups": "events of taskgroups are left out, because their names are hidden.",
        }
        notes = tuple(f"{number} {words[kind]}" for kind, number in sorted(self._left_out.items()))
        actions = sorted(self._actions, key=lambda one: one.at)
        return Replay(tuple(sorted(self._creations, key=lambda one: one.at)), tuple(actions), notes)

    def _agent(self, at: float, name: str, reason: str) -> None:
        machine = self._start.agents.get(name)
        if reason == "AgentLeft" and machine is not None:
            self._actions.append(LoseAgent(at, machine.id))
        elif reason == "AgentJoined":
            if machine is None:
                self._left_out["agents"] += 1
            else:
                self._actions.append(AddAgent(at, machine))
        elif reason in ("AgentDisabled", "AgentEnabled") and machine is not None:
            agent = name_of(machine.attributes, machine.hostname)
            self._submit(at, SetAgent(agent=agent, disabled=reason == "AgentDisabled", force=True))

    def _taskgroup(self, event: RecordedEvent) -> tuple[str, int] | None:
        """Application key and index; None if the name is hidden."""
        known = self._start.taskgroups.get(event.name)
        if known is not None:
            return known
        parsed = TaskGroupId.parse(event.name)
        if parsed is None:
            self._left_out["taskgroups"] += 1
            return None
        return parsed.owner, parsed.index

    def _present(self, key: str) -> bool:
        return key in self._wanted or key in self._placed

    def _place(self, at: float, event: RecordedEvent) -> None:
        found = self._taskgroup(event)
        if found is None:
            return
        key, index = found
        placed = self._placed.get(key)
        if placed is not None and at > placed.at + TOGETHER:
            self._flush(key)
            placed = None
        if index < self._wanted.get(key, 0):
            return
        if placed is None:
            self._placed[key] = _Placed(at, index + 1)
        else:
            placed.most = max(placed.most, index + 1)

    def _flush(self, key: str) -> None:
        """The placements of an application become a creation, or a scale of an application that exists."""
        placed = self._placed.pop(key, None)
        if placed is None:
            return
        if key in self._wanted:
            namespace = namespace_of(key)
            name = without_namespace(key, namespace)
            self._submit(placed.at, ScaleApplication(namespace=namespace, name=name, instances=placed.most))
        else:
            version = self._start.versions.get(key)
            if version is None:
                self._left_out["applications"] += 1
                return
            plain = msgspec.structs.replace(version, name="", instances=placed.most, created_at=0.0)
            self._creations.append(Create(placed.at, plain))
        self._wanted[key] = placed.most

    def _delete(self, at: float, namespace: str, name: str) -> None:
        key = object_key(namespace, name)
        self._flush(key)
        if self._wanted.pop(key, None) is not None:
            self._submit(at, DeleteApplication(namespace=namespace, name=name))

    def _submit(self, at: float, request: Request) -> None:
        self._actions.append(Submit(at, request))
