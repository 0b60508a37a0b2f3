"""The taskgroups that hold room in one role, as tasks of a snapshot.

Taskgroups that have changed are noted, and only these are read again for the next decision.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from bcs_scheduler.core.placement.source import Source
from offers.dimensions import Amounts, amounts
from offers.model import ResourceRequest
from offers.policy.session.model import Status, Task
from offers.resources import SCALARS
from store.records.definition import Amounts as Resources
from store.state.census import EXTENDED

MOST_TEMPLATES = 4096
"""Number of templates that are remembered; beyond it, all are forgotten. Equal templates that are different objects
cost time only."""


class ApplicationTasks(NamedTuple):
    """The tasks of one application."""

    tasks: tuple[Task, ...]
    """The tasks in the order of their creation, then of their names."""
    members: int
    """Number of tasks that count for the minimum of a gang."""


NONE = ApplicationTasks((), 0)


class HeldTasks:
    """Follows the taskgroups of one role."""

    def __init__(self, source: Source, role: str, *, plain: bool = False) -> None:
        """`plain`: all taskgroups count as ready, so that their starts and checks change nothing."""
        self._source = source
        self._role = role
        self._plain = plain
        self.drop_figures()

    def drop_figures(self) -> None:
        """Reads all taskgroups again."""
        self._tasks: dict[str, dict[str, Task]] = {}
        """Tasks by application and id of the taskgroup. The tasks of an application are replaced, and not changed in
        place, like the amounts of an agent in `used`."""
        self._held: dict[str, ApplicationTasks] = {}
        self._changed: dict[str, dict[str, None]] = {}
        """Ids of the taskgroups that have changed, by application."""
        self.used: dict[str, dict[str, int]] = {}
        """Amounts by agent and dimension."""
        self.touched: set[str] = set()
        """Agents whose amounts in `used` have changed; the reader empties the set."""
        for application, unit in self._source.units():
            self.note(application, unit, present=True)

    def note(self, application: str, identity: str, *, present: bool) -> None:
        """A taskgroup has changed. `present`: the taskgroup exists."""
        if present or identity in self._tasks.get(application, ()):
            self._changed.setdefault(application, {})[identity] = None
        elif identity in self._changed.get(application, ()):
            self._changed[application].pop(identity)

    @property
    def behind(self) -> int:
        """Number of taskgroups that have changed since they were read."""
        return sum(map(len, self._changed.values()))

    def refresh(self, most: int = sys.maxsize) -> set[str]:
        """Reads the taskgroups that have changed, `most` at most. Returns the applications whose tasks are
        different."""
        changed: set[str] = set()
        for key in list(self._changed):
            part = list(islice(self._changed[key], most))
            if len(part) < len(self._changed[key]):
                for identity in part:
                    del self._changed[key][identity]
            else:
                del self._changed[key]
            if self._read(key, part):
                changed.add(key)
            most -= len(part)
            if most <= 0:
                break
        return changed

    def of(self, application: str) -> ApplicationTasks:
        """The tasks of an application, as of the latest `refresh`; the same object until they change."""
        held = self._held.get(application)
        if held is None:
            tasks = tuple(self._tasks.get(application, {}).values())
            if not tasks:
                return NONE
            members = sum(task.status not in (Status.RELEASING, Status.UNKNOWN) for task in tasks)
            held = self._held[application] = ApplicationTasks(tasks, members)
        return held

    def _read(self, application: str, identities: Iterable[str]) -> bool:
        known = dict(self._tasks.get(application, ()))  # copies share the tasks of each application
        different = False
        in_order = True
        for identity in identities:
            before, after = known.get(identity), self._source.task(identity, self._role, self._plain)
            if before == after:
                continue
            different = True
            if before is not None:
                self._use(before, -1)
            if after is not None:
                in_order = in_order and (before is not None or _follows(known, after))
                known[identity] = after
                self._use(after, 1)
            else:
                del known[identity]
        if different:
            self._held.pop(application, None)
            if not in_order:
                known = dict(sorted(known.items(), key=lambda item: _place(item[1])))
            if known:
                self._tasks[application] = known
            else:
                self._tasks.pop(application, None)
        return different

    def _use(self, task: Task, sign: int) -> None:
        self.touched.add(task.agent)
        sums = dict(self.used.get(task.agent, ()))
        for name, amount in task.template.request:
            sums[name] = sums.get(name, 0) + sign * amount
            if not sums[name]:
                del sums[name]
        if sums:
            self.used[task.agent] = sums
        else:
            self.used.pop(task.agent, None)


def _place(task: Task) -> tuple[float, str]:
    return task.created, task.name


def _follows(known: Mapping[str, Task], task: Task) -> bool:
    last = next(reversed(known.values()), None) if isinstance(known, dict) else None
    return last is None or _place(last) < _place(task)


def request_of(scalars: Resources | ResourceRequest, extended: Iterable[tuple[str, int]]) -> Amounts:
    """The amounts that engines count. Ports are numerous, and are tested apart."""
    by_name = [(name, getattr(scalars, name)) for name in SCALARS]
    if isinstance(scalars, ResourceRequest) and scalars.amounts:
        by_name += scalars.amounts
    return amounts([*by_name, *((extended_dimension(name), amount) for name, amount in extended)])


def extended_dimension(name: str) -> str:
    """The dimension of an extended resource."""
    return EXTENDED + name


def dimension_of(resource: str) -> str:
    """The dimension of a resource that a queue names."""
    return resource if resource in SCALARS else extended_dimension(resource)


def resource_of(dimension: str) -> str:
    """The name of a resource of a queue; reverses `dimension_of`. Other dimensions keep their name."""
    name = dimension.removeprefix(EXTENDED)
    return dimension if name in SCALARS else name


def by_resource(amounts: Mapping[str, int]) -> dict[str, int]:
    """Amounts by dimension as amounts by resource."""
    return {resource_of(dimension): amount for dimension, amount in amounts.items()}


def by_dimension(amounts: Mapping[str, int]) -> dict[str, int]:
    """Amounts by resource as amounts by dimension."""
    return {dimension_of(resource): amount for resource, amount in amounts.items()}
