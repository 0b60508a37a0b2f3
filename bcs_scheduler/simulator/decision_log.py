"""A decision log as a scenario: the cluster at the start of its term, the requests of users, agents, and ends of
taskgroups. The decisions themselves are made anew."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from bcs_scheduler.core.interface import cluster_manager, requests
from bcs_scheduler.core.interface.inputs import Input
from bcs_scheduler.decisions import content
from bcs_scheduler.decisions.format import Begin, DamagedLog, Full, Lost, Records, Turn
from bcs_scheduler.decisions.reading import term_frames
from bcs_scheduler.simulator.amounts import BadInput
from bcs_scheduler.simulator.model import PORTS, Action, AddAgent, EndTaskGroup, LoseAgent, Machine, Scenario, Submit
from offers.agents import ListedAgent
from store.encoding.codec import Stored, decode_all
from store.ids import TaskId
from store.records import Record, TaskGroup
from transactions.rules.task_states import TaskState

KINDS = frozenset(
    {
        "application", "version", "taskgroup", "deployment", "daemonset", "revision", "transaction", "namespace",
        "queue", "queuetree", "priorityclass", "podgroup", "agentsetting", "configmap", "secret",
    }
)  # fmt: skip
"""Kinds of records that decide about placements. Contents of configmaps and secrets are redacted in the log."""
NEVER = (
    requests.CreateCommand,
    requests.DeleteCommand,
    requests.ReportHealth,
    requests.RescheduleTaskGroup,
    requests.CancelTransaction,
)
"""Requests to executors, which the virtual cluster does not have, and requests that name taskgroups or transactions of
the recorded run by their ids."""
ENDS = {TaskState.FINISHED: False, TaskState.FAILED: True}
"""Ends of tasks by themselves, and whether they failed."""


def read_log(scenario: Scenario, file: Path) -> Scenario:
    """The scenario with the events of a decision log. Without agents, the scenario gets the cluster of the log. Raises
    BadInput, which names file and place."""
    reading = _Reading()
    try:
        for frame in term_frames(file):
            reading.take(frame)
        reading.check(file)
    except OSError as error:
        raise BadInput(f"--events: {file}: {error.strerror or error}") from None
    except (DamagedLog, ValueError) as error:
        raise BadInput(f"--events: {error}") from None
    return reading.scenario(scenario)


class _Reading:
    def __init__(self) -> None:
        self._zero: float | None = None
        """Unix seconds of the start of the term."""
        self._records: list[Record] = []
        self._first: dict[str, Machine] | None = None
        """Agents of the first list, by id; None before."""
        self._present: dict[str, Machine] = {}
        self._actions: list[Action] = []
        self._ended: set[str] = set()
        """Ids of taskgroups whose end has been read: each of their tasks reports it."""
        self._left_out: Counter[str] = Counter()
        self._notes: list[str] = []

    def take(self, frame: object) -> None:
        """Raises ValueError for an input that this version cannot read."""
        match frame:
            case Begin():
                self._zero = frame.wall
            case Records():
                kept = (item for item in frame.records if not content.fault_of(item[2]))
                found = decode_all(Stored(*item) for item in kept)
                for kind, key, data in frame.records:
                    if kind in KINDS and content.fault_of(data):
                        self._notes.append(f"{kind} {key} was left out of the decision log.")
                self._records += [record for record in found.records if record.kind in KINDS]
            case Turn() if self._zero is not None:
                for name, data in frame.inputs:
                    if name in _WANTED:
                        self._input(max(0.0, frame.now - self._zero), content.read(name, data))
            case Lost():
                self._notes.append(f"{frame.turns} turns are missing in the decision log: {frame.reason}.")
            case Full():
                self._notes.append("The decision log reached its bound: later turns are missing.")

    def check(self, file: Path) -> None:
        """Raises DamagedLog for a log without the start of its term."""
        if self._zero is None:
            raise DamagedLog(f"{file}: the start of the term is missing")

    def scenario(self, given: Scenario) -> Scenario:
        notes = [*given.notes, *self._notes]
        for name, number in sorted(self._left_out.items()):
            notes.append(f"{number} requests {name} are left out.")
        actions = tuple(sorted((*given.actions, *self._actions), key=lambda one: one.at))
        if given.machines:
            return given._replace(actions=actions, notes=tuple(notes))
        machines = self._first or {}
        records = [record for record in self._records if not _homeless(record, machines)]
        if len(records) < len(self._records):
            notes.append(f"{len(self._records) - len(records)} taskgroups without an agent are left out.")
        return given._replace(
            machines=tuple(machines.values()),
            records=(*records, *given.records),
            actions=actions,
            notes=tuple(notes),
            began=self._zero or given.began,
        )

    def _input(self, at: float, event: Input) -> None:
        match event:
            case cluster_manager.AgentsListed():
                self._listed(at, {one.id: machine_of(one) for one in event.agents if one.active})
            case cluster_manager.StatusUpdate():
                self._status(at, event)
            case requests.Request() if isinstance(event, NEVER):
                self._left_out[type(event).__name__] += 1
            case requests.Request() if not event.dry_run:
                self._actions.append(Submit(at, event))

    def _listed(self, at: float, agents: dict[str, Machine]) -> None:
        if self._first is None:
            self._first = agents
        else:
            self._actions += [AddAgent(at, agents[one]) for one in agents if one not in self._present]
            self._actions += [LoseAgent(at, one) for one in self._present if one not in agents]
        self._present = agents

    def _status(self, at: float, update: cluster_manager.StatusUpdate) -> None:
        task = TaskId.parse(update.task_id)
        if update.state not in ENDS or update.answer or task is None:
            return
        group = task.taskgroup
        if str(group) not in self._ended:
            self._ended.add(str(group))
            self._actions.append(EndTaskGroup(at, group.owner, group.index, failed=ENDS[update.state]))


def _homeless(record: Record, machines: dict[str, Machine]) -> bool:
    """True for a taskgroup that runs on an agent that is not known."""
    return isinstance(record, TaskGroup) and not record.ended and record.agent_id not in machines


def machine_of(agent: ListedAgent) -> Machine:
    """An agent as the cluster manager lists it."""
    return Machine(agent.id, agent.hostname, agent.attributes, agent.total, tuple(agent.ports) or PORTS, agent.ip)


def _names(cls: type[Input]) -> set[str]:
    return {cls.__name__}.union(*(_names(known) for known in cls.__subclasses__()))


_WANTED = _names(requests.Request) | {"AgentsListed", "StatusUpdate"}
"""Classes of inputs that are read; the others take most of the log."""
