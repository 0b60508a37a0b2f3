"""Plays vectors of the area `placeholders/steps`: the life of one gang over one queue, in steps that the vector names.

A step is an object with one of these as `step`, and the fields that are named here:

submit                     the manager submits the application
task name group request    the manager adds a task
allocate most              the engine allocates, at most `most` times (without the field: what fits)
confirm                    creations, releases and launches happen and are reported, until none is due
end task                   a task ends
wait seconds               time passes, with every time-out in it
recover lost               another scheduler takes over: it has the records, and the placeholders that exist; `lost`
                           placeholders of a group (a number by group) do not exist any more
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offers.dimensions import amounts
from offers.policy.applications.metadata import ApplicationMetadata, SchedulingPolicyParameters, Style
from offers.policy.applications.records import Create, Existing, Traits
from offers.policy.applications.tables import PlaceholderState, TaskState
from tests.vectors.reading import PolicyVector
from tests.vectors.scenarios.engine import OneQueue, records_of, restored
from tests.vectors.scenarios.gangs import Play, groups_of, known

FIELDS: Mapping[str, tuple[str, ...]] = {
    "submit": (),
    "task": ("name", "group", "request"),
    "allocate": ("most",),
    "confirm": (),
    "end": ("task",),
    "wait": ("seconds",),
    "recover": ("lost",),
}
EXISTS = (PlaceholderState.BOUND, PlaceholderState.RELEASING)


def play(vector: PolicyVector) -> dict[str, Any]:
    """What the vector may expect after its steps. Raises ValueError for a step or a field that is unknown."""
    given = vector.input
    known("input", given, "app", "task_groups", "agents", "max", "style", "placeholder_timeout_s", "lasting", "steps")
    steps = Steps(given)
    for number, step in enumerate(given["steps"]):
        name = step.get("step")
        if name not in FIELDS:
            raise ValueError(f"input steps[{number}]: unknown step {name}")
        known(f"input steps[{number}]", step, "step", *FIELDS[name])
        steps.carry_out(name, {field: value for field, value in step.items() if field != "step"})
    return steps.found()


class Steps:
    def __init__(self, given: Mapping[str, Any]) -> None:
        self._nodes = {agent["name"]: agent["total"] for agent in given["agents"]}
        self._most, self._traits = given.get("max", {}), Traits(lasting=given.get("lasting", True))
        parameters = SchedulingPolicyParameters(
            given.get("placeholder_timeout_s", 0), Style(given.get("style", "Soft"))
        )
        groups = groups_of(given["task_groups"])
        metadata = ApplicationMetadata(given["app"], "root.q", task_groups=groups, parameters=parameters)
        self._play = Play(metadata, OneQueue(self._nodes, self._most))
        self._created = 0
        self._launched: dict[str, str] = {}

    def carry_out(self, step: str, fields: Mapping[str, Any]) -> None:
        """One step."""
        play = self._play
        match step:
            case "submit":
                play.gang.submit(play.now)
            case "task":
                play.task(fields["name"], fields["group"], amounts(fields["request"]))
            case "allocate":
                play.allocate(fields.get("most"))
            case "confirm":
                while due := list(play.gang.due()):
                    self._created += sum(isinstance(effect, Create) for effect in due)
                    play.confirm()
            case "end":
                play.gang.ended(fields["task"], play.now)
            case "wait":
                self._wait(fields["seconds"])
            case "recover":
                self._recover(dict(fields.get("lost", {})))
        play.watch()
        self._launched.update(play.launches)

    def _wait(self, seconds: float) -> None:
        play = self._play
        end = play.now + seconds
        while (wake := play.gang.next_wake()) is not None and wake <= end:
            before = play.gang.next_wake()
            play.now = max(play.now, wake)
            play.gang.tick(play.now)
            play.watch()
            if play.gang.next_wake() == before:
                break
        play.now = end

    def _recover(self, lost: dict[str, int]) -> None:
        play = self._play
        existing = []
        for one in play.gang.placeholders.values():
            if one.life.state not in EXISTS:
                continue
            if lost.get(one.group, 0) > 0:
                lost[one.group] -= 1
            else:
                existing.append(Existing(one.key, one.group, one.node))
        if any(lost.values()):
            raise ValueError(f"input: more placeholders are lost than exist: {lost}")
        before = {name: member.life.state for name, member in play.gang.members.items()}
        play.engine = OneQueue(self._nodes, self._most)
        play.gang = play.engine.gang = restored(records_of(play.gang), play.engine, self._traits)
        play.gang.adopt(existing, play.now)
        for name, state in before.items():
            if state == TaskState.BOUND:
                play.gang.launched(name, play.now)

    def found(self) -> dict[str, Any]:
        """The result in the fields of `expect`."""
        play = self._play
        states: dict[str, int] = {}
        for one in play.gang.placeholders.values():
            states[str(one.life.state)] = states.get(str(one.life.state), 0) + 1
        return {
            "manager_app_state": str(play.gang.record.manager.state),
            "core_app_state": str(play.gang.record.core.state),
            "manager_app_states": play.manager_states,
            "core_app_states": play.core_states,
            "placeholders": states,
            "placeholders_created": self._created,
            "placeholder_data": play.counters(),
            "launched": self._launched,
            "tasks": {name: str(member.life.state) for name, member in play.gang.members.items()},
            "queue_usage": {name: amount for name, amount in play.engine.used.items() if amount},
        }
