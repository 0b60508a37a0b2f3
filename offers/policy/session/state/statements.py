"""Statements: tentative operations on the session, each with an exact inverse.

An operation changes the session at once, so that later choices see it. `undo` runs backwards to a savepoint; `commit`
makes the decisions of the statement final. A statement of the session's own scope may be neither: its operations then
hold for this session and launch nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from offers.policy.session.state.agents import AgentTable
from offers.policy.session.state.jobs import JobState, QueueState
from offers.policy.session.state.templates import Need

Handler = Callable[[JobState, int, int], None]
"""Called with job, position of the task, and rank of the agent."""
ALLOCATE, PIPELINE, EVICT, RELEASE_PROMISE = range(4)


class Operation(NamedTuple):
    """One operation on tasks of one template. `positions` and `ranks` go together."""

    kind: int
    job: JobState
    need: Need
    positions: list[int]
    ranks: list[int]


class Changes:
    """Applies operations to agents, jobs and queues. One per session."""

    def __init__(self, agents: AgentTable) -> None:
        self.agents = agents
        self.on_allocate: list[Handler] = []
        self.on_deallocate: list[Handler] = []
        self.committed: list[tuple[Operation, JobState]] = []
        """Committed launches and evictions in order, each with the job in whose name it was done."""
        self.kept: dict[int, list[Operation]] = {}
        """Launches that are in force without a decision, by number of the job: they wait for the rest of its gang."""
        self.version = 0
        """Names the present state: a state that is reached again by undoing has its number again."""
        self._versions = 0
        self.undone: list[int] = []
        """The versions that were reached by undoing, in the order of time."""
        self.job_log: list[JobState] = []
        """Every job whose figures changed outside its own turn."""
        self.evictions = 0
        """Number of evictions in force."""
        self.widened = False
        """A gang with running tasks was given more of them: some of these may leave now."""
        self.grown: dict[int, JobState] = {}
        """The jobs that were given tasks in this session, by number."""
        self.promised: dict[tuple[int, int], int] = {}
        """Rank of the agent where room is kept, by numbers of job and task."""
        self._charged: QueueState | None = None
        """The queue whose promises count as allocated."""

    def promise(self, job: JobState, need: Need, position: int, rank: int, sign: int = 1) -> None:
        """Keeps room on an agent for a pending task (`sign` 1), or gives it up (-1)."""
        self.agents.promise(rank, need, sign)
        if sign > 0:
            self.promised[job.number, position] = rank
        else:
            del self.promised[job.number, position]
        queue = job.queue
        for d, amount in need.row:
            queue.promised[d] += sign * amount
            if queue is self._charged:
                queue.allocated[d] += sign * amount

    @contextmanager
    def promises_count(self, queue: QueueState) -> Iterator[None]:
        """Within it, the promises to tasks of a queue count as allocated: its limits and its share must hold them
        beside the tasks for which more is evicted."""
        self._charge(queue, 1)
        self._charged = queue
        try:
            yield
        finally:
            self._charged = None
            self._charge(queue, -1)

    @staticmethod
    def _charge(queue: QueueState, sign: int) -> None:
        for d, amount in enumerate(queue.promised):
            queue.allocated[d] += sign * amount

    def begin(self) -> int:
        """A new state begins. The number of the one before, for `account` with the inverse."""
        before = self.version
        self._versions += 1
        self.version = self._versions
        return before

    def account(self, operation: Operation, sign: int, *, agents: bool = True) -> None:
        """Applies an operation (`sign` 1) or its inverse (-1). `agents`: also to the table of agents."""
        kind, job, need, positions, ranks = operation
        if kind == RELEASE_PROMISE:
            for position, rank in zip(positions, ranks, strict=True):
                self.promise(job, need, position, rank, -sign)
            return
        number = sign * len(positions)
        if kind == EVICT:
            self.evictions += number
            for position, rank in zip(positions, ranks, strict=True):
                self.agents.release(rank, need, sign)
                (job.evicted.add if sign > 0 else job.evicted.remove)(position)
            job.ready -= number
            self._amounts(job, need, -number)
            self.job_log.append(job)
        else:
            if agents:
                for rank in ranks:
                    self.agents.place(rank, need, sign, later=kind == PIPELINE)
            if sign > 0:
                job.placed.update(zip(positions, ranks, strict=True))
            else:
                for position in positions:
                    del job.placed[position]
            job.pending -= number
            if kind == ALLOCATE:
                job.ready += number
                self.grown[job.number] = job
                self.widened = self.widened or (job.running > 0 and job.min_available > 1)
            else:
                job.waiting += number
            self._amounts(job, need, number)
        gains = (kind != EVICT) == (sign > 0)
        for handler in self.on_allocate if gains else self.on_deallocate:
            for position, rank in zip(positions, ranks, strict=True):
                handler(job, position, rank)

    def take_back(self, operation: Operation) -> None:
        """Undoes an operation that its statement has given up; no statement may be open. The caller takes it out of
        `committed`."""
        self.begin()
        self.account(operation, -1)

    @staticmethod
    def _amounts(job: JobState, need: Need, number: int) -> None:
        allocated, of_queue = job.allocated, job.queue.allocated
        for d, amount in need.row:
            allocated[d] += number * amount
            of_queue[d] += number * amount


class Statement:
    """A list of operations in the name of one job."""

    def __init__(self, changes: Changes, job: JobState) -> None:
        self._changes = changes
        self.job = job
        self.operations: list[Operation] = []
        self._versions: list[int] = []

    @property
    def evictions(self) -> int:
        """Number of evictions that are not undone."""
        return sum(len(operation.positions) for operation in self.operations if operation.kind == EVICT)

    def savepoint(self) -> int:
        """The present moment, for `undo`."""
        return len(self.operations)

    def apply(self, kind: int, job: JobState, need: Need, position: int, rank: int) -> None:
        """Does one operation."""
        operation = Operation(kind, job, need, [position], [rank])
        self._versions.append(self._changes.begin())
        self._changes.account(operation, 1)
        self.operations.append(operation)

    def note(self, job: JobState, need: Need, positions: list[int], ranks: list[int]) -> None:
        """Takes over launches of several tasks whose room is taken on the agents already."""
        operation = Operation(ALLOCATE, job, need, positions, ranks)
        self._versions.append(self._changes.begin())
        self._changes.account(operation, 1, agents=False)
        self.operations.append(operation)

    def undo(self, to: int = 0) -> None:
        """Undoes everything after a savepoint, the latest first."""
        if len(self.operations) <= to:
            return
        while len(self.operations) > to:
            self._changes.account(self.operations.pop(), -1)
            self._changes.version = self._versions.pop()
        self._changes.undone.append(self._changes.version)

    def commit(self, *, ready: bool = False) -> None:
        """Makes launches and evictions final. Pipelined tasks stay held. The statement is empty afterwards.

        `ready`: the job is ready, so launches that earlier statements of the session kept are final as well."""
        kept = self._changes.kept.pop(self.job.number, ()) if ready else ()
        for operation in (*kept, *self.operations):
            if operation.kind in (ALLOCATE, EVICT):
                self._changes.committed.append((operation, self.job))
        self._clear()

    def keep(self) -> None:
        """Leaves the operations in force for the session without a decision, until a later statement commits the job.
        The statement is empty afterwards."""
        launches = [operation for operation in self.operations if operation.kind == ALLOCATE]
        if launches:
            self._changes.kept.setdefault(self.job.number, []).extend(launches)
        self._clear()

    def taken(self) -> list[Operation]:
        """The operations, which the caller undoes with `Changes.take_back`. The statement is empty afterwards."""
        operations = self.operations.copy()
        self._clear()
        return operations

    def _clear(self) -> None:
        self.operations.clear()
        self._versions.clear()
