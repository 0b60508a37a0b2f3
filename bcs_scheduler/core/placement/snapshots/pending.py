"""The slots of open demands, and planned placements, as tasks of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from bcs_scheduler.core.placement.snapshots.held import MOST_TEMPLATES, request_of
from offers.model import Demand, Placement
from offers.policy.session.model import Nomination, Status, Task, Template
from transactions.base import Slot

Planned = tuple[Demand[Slot], Placement[Slot]]
"""A demand, and a placement of one of its slots that is not launched yet."""
MOVES, REPLACES, ADDS = 0.0, 1.0, 2.0
"""`Task.created` of pending tasks, which orders those of one job: the successor of a taskgroup comes before further
taskgroups, that of one that has moved before all others."""


def task_name(demand: Demand[Slot], slot: Slot) -> str:
    """The name of the task of a pending slot; unique within its job, and the same in following snapshots."""
    return f"{demand.id}/{slot.index}"


def demand_of(task: str) -> str:
    """Id of the demand that a pending task belongs to."""
    return task.rpartition("/")[0]


def index_of(task: str) -> int:
    """The index of the slot of a pending task."""
    return int(task.rpartition("/")[2])


def waiting_tasks(
    wants: Sequence[Demand[Slot]], is_promised: Callable[[str, str], bool]
) -> list[tuple[str, str]] | None:
    """The tasks of places of demands, by application and name, without those for which room is made already; None if
    there are too few. `is_promised`: judges a task by application and name."""
    tasks: list[tuple[str, str]] = []
    left: dict[str, Iterator[str]] = {}
    for want in wants:
        if want.id not in left:
            names = (task_name(want, slot) for slot in want.slots)
            left[want.id] = (name for name in names if not is_promised(want.application, name))
        name = next(left[want.id], None)
        if name is None:
            return None
        tasks.append((want.application, name))
    return tasks


class Kind:
    """The properties of a demand that the tests of agents depend on: `Template.tests`. Demands of one kind share one
    judgement. The hash is computed once."""

    __slots__ = ("_hash", "value")

    def __init__(self, value: Hashable) -> None:
        self.value = value
        self._hash = hash(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Kind) and self.value == other.value)


def kind_of(demand: Demand[Slot]) -> Kind:
    """The kind of a demand. Demands that are alike have equal kinds."""
    agents = (demand.only_agents, demand.except_agents)
    alike = (demand.request, demand.rules, demand.only_host, agents)
    return Kind((*alike, demand.application if demand.rules.live else ""))


class PendingTasks:
    """Makes tasks. Demands that are alike share one template."""

    def __init__(self) -> None:
        self._templates: dict[Kind, Template] = {}

    def tasks_of(
        self, demand: Demand[Slot], most: int | None, nominations: Mapping[str, Nomination]
    ) -> tuple[list[Task], Kind]:
        """The tasks of the first `most` slots (None: of all), and their kind. `nominations`: by name of the task."""
        kind = kind_of(demand)
        template = self._templates.get(kind)
        if template is None:
            if len(self._templates) >= MOST_TEMPLATES:
                self._templates.clear()
            request = request_of(demand.request, demand.request.extended)
            template = self._templates[kind] = Template(request, ports=demand.request.fixed_ports, tests=kind)
        tasks: list[Task] = []
        for slot in demand.slots[:most]:
            name = task_name(demand, slot)
            created = MOVES if slot.moves else REPLACES if slot.replaces else ADDS
            promise = nominations.get(name)
            tasks.append(Task(name, template, created=created, nomination=promise, moves=slot.moves))
        return tasks, kind


def planned_task(demand: Demand[Slot], placement: Placement[Any], templates: dict[int, Template]) -> Task:
    """The task of a placement that is planned and not launched. `templates`: those that were made before, by the
    identity of the demand; the caller keeps the demands meanwhile."""
    template = templates.get(id(demand))
    if template is None:
        template = templates[id(demand)] = Template(request_of(demand.request, demand.request.extended))
    return Task(task_name(demand, placement.slot), template, Status.BINDING, placement.agent_id)
