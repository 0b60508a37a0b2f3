"""The input of a session: agents from the offers that are held, jobs from applications with their open demands.

A job is an application. Its tasks are the taskgroups that hold room, those that are planned and not launched yet, and
the slots of the open demands of its operations. An agent has in total as much as is known of it, at least the offered
amounts and those of our taskgroups; the rest is in the hands of others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from offers.dimensions import Amounts, amounts
from offers.leased.row import LeasedRow
from offers.model import Demand, Placement, ResourceRequest
from offers.policy.session.model import Agent, Job, Nomination, Queue, Status, Task, Template
from offers.policy.session.snapshot import Snapshot
from offers.resources import SCALARS
from store.records import DEFAULT_QUEUE, Application, TaskGroup
from store.records import Queue as QueueRecord
from store.records.definition import Amounts as Resources
from store.state import State
from transactions.base import Slot

TaskName = tuple[str, str]
"""Names of job and task."""
Planned = tuple[Demand[Slot], Placement[Slot]]


class Leaving(NamedTuple):
    """A taskgroup that leaves promised room, as a task of its job."""

    job: str
    task: Task
    until: float
    """Unix seconds from which the room is not expected any more."""


class Promises(NamedTuple):
    """The promises of earlier sessions."""

    nominations: Mapping[TaskName, Nomination]
    leaving: Mapping[str, Leaving]
    """Taskgroups whose room is promised and was not offered yet, by id."""


class SessionInput(NamedTuple):
    """A snapshot, and the objects that its names stand for."""

    snapshot: Snapshot
    rows: Sequence[LeasedRow | None]
    """The rows of the agents, in the order of their names; None for agents that were not offered in this term."""
    demand_of: Mapping[TaskName, str]
    """Id of the demand that a pending task belongs to."""
    tests: Mapping[Hashable, Demand[Slot]]
    """A demand for each value of `Template.tests`."""
    members: Mapping[str, int]
    """Number of tasks by job that count for the minimum of its gang without this session."""
    least: Mapping[str, int]
    """Minimum by job."""


def task_name(demand: Demand[Slot], slot: Slot) -> str:
    """The name of the task of a pending slot; unique within its job, and the same in following sessions."""
    return f"{demand.id}/{slot.index}"


class _Held(NamedTuple):
    """The taskgroups of an application in one role that hold room."""

    groups: list[TaskGroup]
    """All taskgroups of the application when this was made."""
    tasks: list[Task]
    used: dict[tuple[str, Template], int]
    """Number of tasks by agent and template."""
    members: int
    """Tasks that count for the minimum of a gang."""


class Snapshots:
    """Makes snapshots; keeps the tasks of applications of which no taskgroup has changed."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._held: dict[str, dict[str, _Held]] = {}
        """Tasks by role and application, as in the latest session of the role."""
        self._templates: dict[tuple[Resources, tuple[tuple[str, int], ...]], Template] = {}

    def take(
        self,
        rows: Iterable[LeasedRow],
        totals: Mapping[str, tuple[int, int]],
        role: str,
        demands: Iterable[Demand[Slot]],
        most: Mapping[str, int],
        planned: Iterable[Planned],
        promises: Promises,
        now: float,
    ) -> SessionInput:
        """The state of one role. `rows`: the agents that have been offered in it. `totals`: CPU and memory of all
        agents whose size is known. `demands`: the open ones of the role. `most`: number of slots that take part, by the
        id of the demand, where not all do. `now`: Unix seconds."""
        offered = {row.agent_id: row for row in rows}
        wanted: dict[str, list[Demand[Slot]]] = defaultdict(list)
        for demand in demands:
            wanted[demand.application].append(demand)
        planned_tasks: dict[str, list[Task]] = defaultdict(list)
        used: Counter[tuple[str, Template]] = Counter()
        for demand, placement in planned:
            if demand.role == role:
                task = _planned_task(demand, placement)
                planned_tasks[demand.application].append(task)
                used[task.agent, task.template] += 1
        held = self._take_held(role)
        gone = self._gone(promises.leaving.values(), offered.keys())
        pending, members, least, demand_of = _Pending(promises.nominations), {}, {}, {}
        jobs: list[Job] = []
        for application in self._state.applications.values():
            key = application.key
            there = held[key]
            tasks = [*planned_tasks.get(key, ()), *there.tasks]
            members[key] = len(tasks) - len(there.tasks) + there.members
            used.update(there.used)
            for task in gone.get(key, ()):
                used[task.agent, task.template] += 1
            open_demands = wanted.get(key, ())
            least[key] = self._least(application, len(tasks) + sum(len(demand.slots) for demand in open_demands))
            for demand in open_demands:
                for task in pending.tasks_of(demand, most.get(demand.id)):
                    tasks.append(task)
                    demand_of[key, task.name] = demand.id
            tasks += gone.get(key, ())
            if tasks:
                jobs.append(self._job(application, tasks, least[key]))
        sums = _summed(used)
        agents = [
            _agent(name, offered.get(name), sums.get(name, {}), totals.get(name, (0, 0)))
            for name in sorted({*offered, *sums, *totals})
        ]
        snapshot = Snapshot(agents, self._queues(), jobs, now)
        rows_of = [offered.get(agent.name) for agent in agents]
        return SessionInput(snapshot, rows_of, demand_of, pending.tests, members, least)

    def _gone(self, leaving: Iterable[Leaving], agents: Container[str]) -> dict[str, list[Task]]:
        """Taskgroups that have ended on these agents, and whose room was not offered yet, by job."""
        found: dict[str, list[Task]] = defaultdict(list)
        for job, task, _ in leaving:
            group = self._state.taskgroups.get(task.name)
            if task.agent in agents and (group is None or group.ended):
                found[job].append(task)
        return found

    def _job(self, application: Application, tasks: list[Task], least: int) -> Job:
        version = self._state.version(application.key, application.version)
        return Job(
            application.key,
            self.queue_of(application.namespace),
            tuple(tasks),
            min_available=least,
            priority=version.priority if version is not None else 0,
            created=application.created_at,
        )

    def _queues(self) -> list[Queue]:
        records = self._state.queues
        default = () if DEFAULT_QUEUE in records else (QueueRecord(name=DEFAULT_QUEUE),)
        return [_queue(record) for record in (*default, *records.values())]

    def queue_of(self, namespace: str) -> str:
        """Name of the queue that the work of a namespace belongs to."""
        record = self._state.namespaces.get(namespace)
        return record.queue if record is not None and record.queue in self._state.queues else DEFAULT_QUEUE

    def _least(self, application: Application, tasks: int) -> int:
        """The minimum of the gang, as far as there are tasks: an application may have been made smaller."""
        version = self._state.version(application.key, application.version)
        return max(1, min(version.min_available, tasks)) if version is not None else 1

    def _take_held(self, role: str) -> dict[str, _Held]:
        """The tasks of all applications in one role."""
        known = self._held.get(role, {})
        found: dict[str, _Held] = {}
        for key in self._state.applications:
            groups = list(self._state.groups_of(key).values())
            held = known.get(key)
            found[key] = held if held is not None and held.groups == groups else self._hold(role, groups)
        self._held[role] = found
        return found

    def _hold(self, role: str, groups: list[TaskGroup]) -> _Held:
        tasks = [self._task(group) for group in groups if group.role == role and not group.ended]
        used = Counter((task.agent, task.template) for task in tasks)
        members = sum(task.status not in (Status.RELEASING, Status.UNKNOWN) for task in tasks)
        return _Held(groups, tasks, used, members)

    def _task(self, group: TaskGroup) -> Task:
        key = (group.resources, tuple(sorted(group.extended.items())))
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = Template(_request(group.resources, group.extended.items()))
        return Task(group.id, template, _status(group), group.agent_id, created=group.created_at)


def _queue(record: QueueRecord) -> Queue:
    guarantee = amounts((name, getattr(record.guarantee, name)) for name in SCALARS)
    limits = ((name, getattr(record.capability, name)) for name in SCALARS)
    return Queue(
        record.name,
        record.weight,
        guarantee,
        tuple((name, most) for name, most in limits if most is not None),
        record.reclaimable,
        created=record.created_at,
    )


def _planned_task(demand: Demand[Slot], placement: Placement[Slot]) -> Task:
    return Task(task_name(demand, placement.slot), Template(request_of(demand)), Status.BINDING, placement.agent_id)


class _Pending:
    """The tasks of open demands. Demands that are alike share one template."""

    def __init__(self, nominations: Mapping[TaskName, Nomination]) -> None:
        self._nominations = nominations
        self._templates: dict[Hashable, Template] = {}
        self.tests: dict[Hashable, Demand[Slot]] = {}

    def tasks_of(self, demand: Demand[Slot], most: int | None) -> list[Task]:
        agents = (demand.only_agents, demand.except_agents)
        alike = (demand.request, demand.rules, demand.only_host, agents)
        key = (*alike, demand.application if demand.rules.live else "")
        template = self._templates.get(key)
        if template is None:
            template = Template(request_of(demand), ports=demand.request.fixed_ports, tests=key)
            self._templates[key] = template
            self.tests[key] = demand
        application, nominations = demand.application, self._nominations
        names = [task_name(demand, slot) for slot in demand.slots[:most]]
        return [Task(name, template, nomination=nominations.get((application, name))) for name in names]


def request_of(demand: Demand[Slot]) -> Amounts:
    """The amounts of one slot that sessions count. Ports are numerous, and are tested apart."""
    return _request(demand.request, demand.request.extended)


def _request(scalars: Resources | ResourceRequest, extended: Iterable[tuple[str, int]]) -> Amounts:
    found = [(name, getattr(scalars, name)) for name in SCALARS]
    return amounts([*found, *((_extended(name), amount) for name, amount in extended)])


def _summed(used: Mapping[tuple[str, Template], int]) -> dict[str, dict[str, int]]:
    """Amounts by agent and dimension."""
    found: dict[str, dict[str, int]] = {}
    for (agent, template), number in used.items():
        sums = found.setdefault(agent, {})
        for name, amount in template.request:
            sums[name] = sums.get(name, 0) + number * amount
    return found


def _status(group: TaskGroup) -> Status:
    if group.killing_since:
        return Status.RELEASING
    if group.unreachable_since:
        return Status.UNKNOWN
    return Status.RUNNING if group.status == "Running" else Status.BOUND


def _agent(name: str, row: LeasedRow | None, used: Mapping[str, int], size: tuple[int, int]) -> Agent:
    """The agent with `used` of our taskgroups: the rest that is not free now is in the hands of others."""
    is_open = row is not None and row.open
    total = dict(zip(SCALARS, row.amounts, strict=False)) if row is not None and is_open else dict.fromkeys(SCALARS, 0)
    for dimension, amount in used.items():
        total[dimension] = total.get(dimension, 0) + amount
    known = row.totals if row is not None else size
    foreign = [(line, max(amount - total[line], 0)) for line, amount in zip(("cpus", "mem"), known, strict=True)]
    for line, amount in foreign:
        total[line] += amount
    for extended, capacity in row.overrides.extended.items() if row is not None else ():
        total[_extended(extended)] = max(capacity, used.get(_extended(extended), 0))
    return Agent(name, amounts(total), amounts(foreign), row.attributes if row is not None else {})


def _extended(name: str) -> str:
    return f"extended resource {name}"
