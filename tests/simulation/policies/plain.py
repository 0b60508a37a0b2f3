"""A world as a test says, so that a rule is judged without an engine: records, asks and queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from bcs_scheduler.simulator.model import START
from offers.model import Demand, ResourceRequest
from store.base import Change
from store.records import Application, Record, ReschedulePayload, TaskGroup, Transaction, Version
from store.records.definition import Amounts
from store.records.running import Task
from store.records.transactions import NOTHING, Payload, TransactionKind
from store.state import State
from store.state.unit_of_work import Unit
from tests.simulation.policies.queues import Amount, Ask, Promised, Queues
from tests.simulation.policies.users import address, machine
from tests.simulation.policies.world import SHORT, QuietWorld
from transactions.base import Slot


class PlainWorld(QuietWorld):
    """Records that a test gives, and agents with these cores, in thousandths; nothing decides."""

    def __init__(self, *agents: int) -> None:
        self.counts, self.units, self.pause = Counter(), (), SHORT
        self._at = START
        self._records: dict[tuple[str, str], Record] = {}
        self._state = State()
        self._groups: dict[str, TaskGroup] = {}
        self.demands: dict[str, Demand[Slot]] = {}
        machines = [SimpleNamespace(machine=machine(number, cpus)) for number, cpus in enumerate(agents)]
        self.cluster: Any = SimpleNamespace(_agents={one.machine.id: one for one in machines})
        placing = SimpleNamespace(_launcher=SimpleNamespace(placements=tuple), agent_holds=tuple)
        engine = SimpleNamespace(demands=self.demands)
        self.core: Any = SimpleNamespace(
            turn_context=SimpleNamespace(engine=engine), _offer_manager=SimpleNamespace(placing=placing)
        )

    @property
    def now(self) -> float:
        return self._at

    @property
    def state(self) -> State:
        return self._state

    def pass_time(self, seconds: float) -> None:
        self._at += seconds
        self.turn()

    def turn(self, *units: Sequence[Record]) -> None:
        """A turn with these units. The state is that after all of them when the first one is judged, as it is of a
        core."""
        for records in units:
            self._records.update({(record.kind, record.key): record for record in records})
        if units:
            self._state = State(self._records.values())
        self.units = [Unit(tuple(Change(one.kind, one.key, one) for one in records), ()) for records in units]
        for unit in self.units:
            self.decided(unit, self._groups)
            for change in unit.changes:
                if isinstance(change.record, TaskGroup):
                    self._groups[change.key] = change.record
        self.turned()

    # --- what happens -----------------------------------------------------------------------------------------

    def work(self, key: str, *agents: int, cpus: int = 1000, waits: int = 0, **fields: Any) -> list[TaskGroup]:
        """An application with a taskgroup on each of these agents. `waits`: so many more wait for a place. `fields`: of
        its version."""
        namespace, _, name = key.partition("/")
        groups = [group(key, index, agent, cpus) for index, agent in enumerate(agents)]
        number = len(agents) + waits
        self.turn([
            Application(namespace=namespace, name=name, version="1", instances=number, status="Running"),
            Version(namespace=namespace, application=name, name="1", instances=number, **fields),
            *groups,
        ])  # fmt: skip
        if waits:
            slots = tuple(Slot(index) for index in range(len(agents), number))
            self.demands[key] = Demand(f"waits-{key}", key, slots, ResourceRequest(cpus=cpus, mem=1000), rules=None)  # type: ignore[arg-type]
            self.turn([self._transaction(f"waits-{key}", "SCALE", key)])
        return groups

    def ended_for(self, beneficiary: str, victims: Iterable[TaskGroup]) -> list[Record]:
        """The unit that ends taskgroups for an application."""
        found: list[Record] = []
        for one in victims:
            payload = ReschedulePayload(taskgroup=one.id, beneficiary=beneficiary)
            found.append(replace(one, end_cause="Evicted", killing_since=self.now))
            found.append(self._transaction(f"ends-{one.id}", "RESCHEDULE", one.application_key, payload))
        return found

    def _transaction(self, name: str, kind: TransactionKind, key: str, payload: Payload = NOTHING) -> Transaction:
        namespace, _, application = key.partition("/")
        return Transaction(
            id=name,
            type=kind,
            namespace=namespace,
            application=application,
            created_at=self.now,
            due_at=self.now,
            deadline=self.now + 1e6,
            payload=payload,
        )


def group(key: str, index: int, agent: int, cpus: int, number: int = 0) -> TaskGroup:
    """A taskgroup that runs and is ready. `number`: of those with this index before it."""
    namespace, _, name = key.partition("/")
    return TaskGroup(
        id=f"{index}.{name}.{namespace}.{number}",
        namespace=namespace,
        application=name,
        index=index,
        version="1",
        agent_id=f"agent-{agent}",
        hostname=address(agent),
        status="Running",
        tasks=(Task(id="task", status="Running"),),
        resources=Amounts(cpus=cpus, mem=1000),
    )


class PlainQueues(Queues):
    """Each namespace has a queue of its name. `most`: limits of cores, in thousandths, by queue; `parents`: the queue
    above a queue; `kept`: promises; `entitled`: the queues that may take from all others."""

    def __init__(
        self,
        world: PlainWorld,
        most: Mapping[str, int] | None = None,
        parents: Mapping[str, str] | None = None,
        entitled: Collection[str] = (),
    ) -> None:
        super().__init__(world)
        self.most, self.parents, self.entitled = most or {}, parents or {}, entitled
        self.kept: list[Promised] = []

    def promised(self) -> list[Promised]:
        return self.kept

    def name(self, application: str) -> str:
        return application.partition("/")[0]

    def limits(self, application: str) -> Mapping[str, Mapping[str, int]]:
        name = self.name(application)
        path = [name, self.parents.get(name, "")]
        return {queue: {"cpus": self.most[queue]} for queue in path if queue in self.most}

    def is_in(self, application: str, queue: str) -> bool:
        name = self.name(application)
        return queue in (name, self.parents.get(name))

    def waits_for_its_share(self, application: str) -> bool:
        return False

    def is_entitled(self, application: str, wanted: Amount) -> bool:
        return self.name(application) in self.entitled

    def may_lose(self, group: TaskGroup, ask: Ask) -> bool:
        return self.name(group.application_key) != self.name(ask.application)
