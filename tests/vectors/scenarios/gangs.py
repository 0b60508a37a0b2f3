"""Plays vectors of the areas `placeholders` and `placeholders/timeout`: gangs over one queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offers.dimensions import Amounts, amounts
from offers.policy.applications.gang import Gang
from offers.policy.applications.metadata import ApplicationMetadata, SchedulingPolicyParameters, Style, TaskGroup
from offers.policy.applications.metadata import TaskMetadata as Task
from offers.policy.applications.records import Create, Launch, NoticeCode, Release, Traits
from offers.policy.applications.tables import AppState, PlaceholderState, TaskState
from tests.vectors.reading import PolicyVector
from tests.vectors.scenarios.engine import OneQueue

PROSE = ("when_core_becomes_running", "no_real_launch_before", "timer")
"""Fields of `expect` that state in words what is checked while the scenario is played."""


class Unmet(AssertionError):
    """A statement of the vector in words does not hold."""


def require(holds: object, statement: str) -> None:
    """Raises Unmet with the statement if it does not hold."""
    if not holds:
        raise Unmet(statement)


class Play:
    """A gang with its engine. Effects are carried out by hand, so that the scenario decides when they are confirmed."""

    def __init__(self, metadata: ApplicationMetadata, engine: OneQueue) -> None:
        self.engine, self.now = engine, 0.0
        self.gang = engine.gang = Gang.born(metadata, engine, Traits())
        self.withdrawn = 0
        self._asked: set[str] = set()
        self.core_states: list[str] = []
        self.manager_states: list[str] = []
        self.launches: dict[str, str] = {}
        self.releases: dict[str, str] = {}
        self.removed: dict[str, Any] = {}
        self.watch()

    def watch(self) -> None:
        """Reads the changes of the records: every state that the application had, every release."""
        record = self.gang.record
        for states, life in ((self.core_states, record.core), (self.manager_states, record.manager)):
            path = [life.history[0].before, *(change.after for change in life.history)] if life.history else ["New"]
            states[:] = [str(state) for n, state in enumerate(path) if not n or path[n - 1] != state]
        for effect in self.gang.due():
            if isinstance(effect, Release):
                self.releases[effect.placeholder] = effect.type
        pending = set(self.engine.pending)
        self.withdrawn += len(self._asked - pending - set(self.engine.allocations))
        self._asked = pending
        self.engine.check()

    def allocate(self, limit: int | None = None) -> int:
        """The engine allocates."""
        done = self.engine.cycle(self.now, limit)
        self.watch()
        return done

    def confirm(self) -> None:
        """The backend creates and releases, and tasks are launched."""
        for effect in list(self.gang.due()):
            match effect:
                case Create(placeholder=name):
                    self.gang.bound(name, self.now)
                case Release(placeholder=name):
                    self.gang.gone(name, self.now)
                case Launch(task=name, node=node):
                    require(name not in self.launches, f"{name} is launched once")
                    self.launches[name] = node
                    self.gang.launched(name, self.now)
            self.watch()

    def task(self, name: str, group: str, request: Amounts) -> None:
        """The manager adds a task."""
        self.gang.add_task(Task(self.gang.record.key, name, request, group, created=self.now), self.now)
        self.watch()

    def counters(self) -> dict[str, Any]:
        """The numbers of the groups, in the fields of vectors."""
        return {
            one.group: {"count": one.total, "replaced": one.replaced, "timed_out": one.timed_out}
            for one in self.gang.record.counters
        }


def known(place: str, given: Mapping[str, Any], *names: str) -> None:
    """Raises ValueError for a field that is unknown."""
    if unknown := set(given) - set(names):
        raise ValueError(f"{place}: unknown {', '.join(sorted(unknown))}")


def groups_of(given: list[Mapping[str, Any]]) -> tuple[TaskGroup, ...]:
    for group in given:
        known("input task_groups", group, "name", "min_member", "min_resource")
    return tuple(TaskGroup(one["name"], one["min_member"], amounts(one["min_resource"])) for one in given)


# --- states, swap, counters -----------------------------------------------------------------------------------

EVENTS = [
    "submit app with first real task r-drv (group drv)",
    "allocate placeholders",
    "placeholder launches confirmed running",
    "real task r-drv asked",
    "placeholder kill confirmed",
    "real tasks r-e0, r-e1 (group exe) asked, swapped the same way",
    "all three real tasks finish",
    "30 s pass",
]


def swaps(vector: PolicyVector) -> dict[str, Any]:
    """Plays the events of the vector. Raises ValueError for another list of events, Unmet for a statement that does not
    hold."""
    given = vector.input
    known("input", given, "app", "queue", "task_groups", "agents", "style", "placeholder_timeout_s", "events")
    known("input queue", given["queue"], "name", "sort", "max")
    if given["events"] != EVENTS:
        raise ValueError("input events: unknown")
    groups = groups_of(given["task_groups"])
    sizes = {group.name: group.min_resource for group in groups}
    engine = OneQueue(
        {agent["name"]: agent["total"] for agent in given["agents"]},
        given["queue"]["max"],
        given["queue"]["sort"] == "fifo",
    )
    parameters = SchedulingPolicyParameters(given["placeholder_timeout_s"], Style(given["style"]))
    metadata = ApplicationMetadata(given["app"], given["queue"]["name"], task_groups=groups, parameters=parameters)
    play = Play(metadata, engine)
    found: dict[str, Any] = {name: vector.expect[name] for name in PROSE if name in vector.expect}
    found["placeholder_ask"] = metadata.placeholder_ask
    usage = found["queue_usage_vcore"] = []

    play.gang.submit(play.now)
    play.task("r-drv", "drv", sizes["drv"])
    found["placeholders_created"] = len(play.gang.placeholders)

    require(play.gang.record.timer is None, "the timer does not run before an allocation")
    play.now = 1.0
    while play.allocate(1):
        pending = len([one for one in play.gang.placeholders.values() if one.life.state == PlaceholderState.ASKED])
        require(play.gang.record.timer == 1.0, "the timer runs from the first allocated placeholder")
        running = play.gang.record.core.state == "Running"
        require(running == (not pending), "the application runs when every placeholder is allocated")
    usage.append({"after": "3 placeholders", "value": engine.used.get("vcore", 0)})

    for name in list(play.gang.placeholders):
        require(play.gang.record.manager.state == AppState.RESERVING, "reserved until every placeholder is bound")
        require(play.gang.members["r-drv"].life.state == TaskState.NEW, "no task is sent before")
        play.gang.bound(name, play.now)
        play.watch()
    require(play.gang.record.manager.state == AppState.RUNNING, "runs when every placeholder is bound")

    found["swap"] = [_swapped(play, "r-drv")]
    for name in ("r-e0", "r-e1"):
        play.task(name, "exe", sizes["exe"])
        _swapped(play, name)
    found["placeholder_data_after_swaps"] = play.counters()
    require(play.gang.record.timer is None, "the timer is cleared when no placeholder is left")
    usage.append({"after": "all swapped", "value": engine.used.get("vcore", 0)})

    for name in ("r-drv", "r-e0", "r-e1"):
        play.gang.ended(name, play.now)
        play.watch()
    usage.append({"after": "real tasks finished", "value": engine.used.get("vcore", 0)})
    play.gang.tick(play.now + 29.999)
    play.watch()
    require(play.core_states[-1] == "Completing", "completes after 30 seconds and not before")
    play.gang.tick(play.now + 30)
    play.watch()
    found["manager_app_states"], found["core_app_states"] = play.manager_states, play.core_states
    return found


def _swapped(play: Play, name: str) -> dict[str, Any]:
    """Follows one swap, and describes what happened in the words of the vector."""
    member = play.gang.members[name]
    holder = play.gang.placeholders[member.placeholder]
    require(holder.member == name and holder.node == member.node, "task and placeholder name each other")
    require(holder.life.state == PlaceholderState.RELEASING and not play.launches.get(name), "nothing is launched yet")
    entry = {
        "real": name,
        "step1": f"real marked allocated on the node of placeholder {holder.group}, two-way link",
        "step2": f"release of the placeholder requested with type {play.releases[holder.key]}",
    }
    play.gang.gone(holder.key, play.now)
    require([one for one in play.gang.due() if isinstance(one, Launch)] == [Launch(name, "job1", member.node)], name)
    play.confirm()
    require(play.launches[name] == holder.node, "the task runs where the placeholder was")
    return entry | {"step3": "real task launched only after the release is confirmed", "node_usage_never_exceeds_total":
                    True}  # fmt: skip


# --- time-outs ------------------------------------------------------------------------------------------------


def timeouts(vector: PolicyVector) -> dict[str, Any]:
    """Plays the cases of the vector, each with a gang of its own."""
    known("input", vector.input, "common", "cases")
    common = vector.input["common"]
    known(
        "input common", common, "task_groups", "agents", "placeholder_timeout_s", "first_placeholder_allocated_at"
    )  # fmt: skip
    found = {}
    for case in vector.input["cases"]:
        known("input cases", case, "name", "style", "note")
        found[case["name"]] = CASES[case["name"]](common, case)
    return found


def _reserving(common: Mapping[str, Any], case: Mapping[str, Any], members: int) -> tuple[Play, OneQueue]:
    (group,) = groups_of(common["task_groups"])
    group = group._replace(min_member=members)
    engine = OneQueue({agent["name"]: agent["total"] for agent in common["agents"]})
    parameters = SchedulingPolicyParameters(common["placeholder_timeout_s"], Style(case["style"]))
    play = Play(ApplicationMetadata("gang", "root.batch", task_groups=(group,), parameters=parameters), engine)
    play.gang.submit(0.0)
    for number in range(members):
        play.task(f"r{number}", "w", group.min_resource)
    play.now = float(common["first_placeholder_allocated_at"])
    play.allocate()
    play.confirm()
    return play, engine


def _time_out(play: Play) -> float:
    at = play.gang.next_wake()
    require(at is not None, "a time-out is due")
    assert at is not None
    play.gang.tick(at - 0.001)
    require(not list(play.gang.due()), "nothing is released before")
    play.now = at
    play.gang.tick(at)
    play.watch()
    return at


def _soft(common: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
    play, engine = _reserving(common, case, 4)
    at = _time_out(play)
    found: dict[str, Any] = {
        "at": int(at),
        "message": _notice(play),
        "placeholders_released": len(play.releases),
        "pending_placeholder_asks_removed": play.withdrawn,
        "termination_type": _only(play.releases.values()),
    }
    require(not play.launches and not engine.pending, "no task is asked for while placeholders are left")
    play.confirm()
    fitting = play.allocate()
    play.confirm()
    require(set(play.launches) == {"r0", "r1", "r2"}, "three tasks run as ordinary ones")
    found["then"] = (
        "when the last placeholder is confirmed gone the app returns to Accepted and its real tasks are scheduled as "
        f"ordinary tasks ({fitting} fit at 2 vcore each)"
    )
    found["core_states"] = play.core_states
    found["placeholder_data"] = play.counters()["w"]
    return found


def _hard(common: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
    play, engine = _reserving(common, case, 4)
    at = _time_out(play)
    released = len(play.releases)
    play.confirm()
    members = play.gang.members.values()
    require({one.life.state for one in members} == {TaskState.FAILED}, "every task has failed")
    play.task("late", "w", amounts({"vcore": 2}))
    again = play.allocate() or engine.pending or play.gang.members["late"].life.state != TaskState.FAILED
    return {
        "at": int(at),
        "core_states": play.core_states,
        "placeholders_released": released,
        "real_tasks": f"failed with reason {_only(one.cause for one in members)}",
        "app_may_not_be_scheduled_again": not again,
    }


def _too_small(common: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
    (group,) = groups_of(common["task_groups"])
    engine = OneQueue({agent["name"]: agent["total"] for agent in common["agents"]})
    group = group._replace(min_member=3)
    play = Play(ApplicationMetadata("gang", "root.batch", task_groups=(group,)), engine)
    play.gang.submit(0.0)
    play.allocate()
    play.confirm()
    play.task("large", "w", amounts({"vcore": 3}))
    require(not play.launches and set(engine.pending) == {"large"}, "the task is an ordinary ask")
    notices = [one for one in play.gang.take_notices() if one.code is NoticeCode.PLACEHOLDER_INCOMPATIBLE]
    found = {
        "placeholder_released_type": _only(play.releases.values()),
        "message_contains": "incompatible" if all("incompatible" in one.message for one in notices) else notices,
        "placeholders_of_the_group_released": len(play.releases) if len(notices) == len(play.releases) else notices,
    }
    play.confirm()
    play.allocate()
    play.confirm()
    require(play.launches == {"large": "n1"}, "the task runs on a node with room")
    return found | {"real_task": "scheduled as an ordinary task on any node with room"}


def _notice(play: Play) -> str:
    return _only(one.message for one in play.gang.take_notices())


def _only(values: Any) -> str:
    (value,) = set(values)
    return str(value)


CASES = {"soft": _soft, "hard": _hard, "too_small": _too_small}
