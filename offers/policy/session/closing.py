"""The end of a session: its decisions, and the conditions of its jobs."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from typing import TYPE_CHECKING

from offers.policy.session.attempts import attempts
from offers.policy.session.blocked import Conditions
from offers.policy.session.decisions import (
    NOT_ENOUGH_RESOURCES,
    QUEUE_KEPT,
    QUEUE_NOT_FOUND,
    QUEUE_OVERUSED,
    SCHEDULED,
    UNSCHEDULABLE,
    Bind,
    Condition,
    Eviction,
    Overused,
    Passing,
    SessionResult,
)
from offers.policy.session.model import Job, Nomination
from offers.policy.session.state.jobs import JobState
from offers.policy.session.state.statements import EVICT
from offers.policy.session.state.templates import Need

if TYPE_CHECKING:
    from offers.policy.session.session import Session


def close(session: Session) -> SessionResult:
    """The decisions of the session."""
    agents = session.agents.agents
    binds: list[Bind] = []
    evictions: list[Eviction] = []
    sequence: list[Bind | Overused] = []
    launched: set[tuple[int, int]] = set()
    passed_over = iter(session.sequence)
    following = next(passed_over, None)
    for number, (operation, beneficiary) in enumerate(session.changes.committed):
        while following is not None and following[0] <= number:
            sequence.append(following[1])
            following = next(passed_over, None)
        job = operation.job
        tasks, name = job.job.tasks, job.name
        if operation.kind == EVICT:
            for position, rank in zip(operation.positions, operation.ranks, strict=True):
                evictions.append(Eviction(name, tasks[position].name, agents[rank].name, beneficiary.name))
            continue
        made = [
            Bind(name, tasks[position].name, agents[rank].name)
            for position, rank in zip(operation.positions, operation.ranks, strict=True)
        ]
        launched.update((job.number, position) for position in operation.positions)
        binds += made
        sequence += made
    if following is not None:
        sequence += [following[1], *(step for _, step in passed_over)]
    held = {
        (job.name, job.job.tasks[position].name): agents[rank].name
        for job in session.jobs.values()
        if len(job.placed)
        for position, rank in job.placed.items()
        if (job.number, position) not in launched
        # Its offers may be on their way: it may wait to be spread, and promises would end this.
        and (job.name not in session.closed or job.job.tasks[position].nomination is not None)
    }
    kept = _kept(session) if session.partial else {}
    until = session.snapshot.now + session.policy.nomination_seconds
    tried = attempts(session, evictions)
    nominations = {**kept, **{task: Nomination(agent, until) for task, agent in held.items()}}
    if binds and session.evicts:
        session.may_change(Passing.LAUNCHES, session.snapshot.now)
    if nominations:
        session.may_change(Passing.PROMISE, min(nomination.until for nomination in nominations.values()))
    session.memory.later = session.later if session.portion.over else None
    return SessionResult(
        binds=tuple(binds),
        evictions=tuple(evictions),
        pipelined={**{task: nomination.agent for task, nomination in kept.items()}, **held},
        nominations=nominations,
        conditions=Closing(session).conditions(),
        admitted=tuple(session.admitted),
        sequence=tuple(sequence),
        deserved=session.rules.deserved(),
        faults=tuple(session.guard.faults),
        allocated={
            name: dict(zip(session.snapshot.dimensions, queue.allocated, strict=True))
            for name, queue in session.queues.items()
        },
        held_back=_held_back(session),
        attempts=tried,
        later=session.later,
        unfinished=session.portion.over,
    )


def _kept(session: Session) -> dict[tuple[str, str], Nomination]:
    """The promises of earlier portions to tasks of jobs that had no turn in this one."""
    tasks = (
        (job, job.job.tasks[position])
        for job in session.jobs.values()
        for position in job.job.pending
        if (job.number, position) in session.changes.promised
    )
    return {(job.name, task.name): task.nomination for job, task in tasks if task.nomination is not None}


def _held_back(session: Session) -> dict[str, str]:
    """The reasons that lie with the queues of jobs, also of those that had their turn in earlier portions."""
    memory, reasons, passed_over = session.memory, dict[str, str](), _passed_over(session)
    for name, job in session.jobs.items():
        before = memory.held_back.get(name)
        held = job.over_limit or (job.misfit is None and job.queue.name in passed_over)
        if (held or before is not None) and len(job.job.pending) > len(job.placed):
            reason = next(iter(held_back(session, job, passed_over)), before)
            if reason is not None:
                reasons[name] = reason
    memory.held_back = reasons.copy() if session.portion.over else {}
    return reasons


def no_queue(job: Job) -> Condition:
    """The condition of a job whose queue is not there."""
    return Condition(UNSCHEDULABLE, QUEUE_NOT_FOUND, f"the queue {job.queue} does not exist")


def held_back(session: Session, job: JobState, passed_over: Container[str]) -> dict[str, int]:
    """The reasons that lie with the queue of a job. `passed_over`: the names of the queues that `allocate` has passed
    over."""
    if job.over_limit and (limit := _limit(session, job)):
        return {limit: 1}
    return {QUEUE_OVERUSED: 1} if job.misfit is None and job.queue.name in passed_over else {}


def _passed_over(session: Session) -> set[str]:
    return {step.queue for _, step in session.sequence}


def _limit(session: Session, job: JobState) -> str:
    """The limit of the queue that holds the first task without a place back; empty if none does."""
    tasks, rules = job.job.tasks, session.rules
    position = next((task_position for task_position in job.job.pending if task_position not in job.placed), None)
    if position is None:
        return ""
    need, gone = session.needs.of(tasks[position].template), session.withheld(job)
    limit = rules.limit(job, need)
    return limit or (QUEUE_KEPT if gone is not None and rules.room(job.queue, need, gone) <= 0 else "")


class Closing:
    """Makes the conditions of the jobs."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._passed_over = _passed_over(session)
        self._refusals: dict[int, dict[str, int]] = {}

    def conditions(self) -> Conditions:
        """The conditions of all jobs. They are made when they are asked for."""
        session = self._session
        for group in session.aside:
            self._refusals_of(session.needs.of(group.template))
        return Conditions(session.conditions, self._late)

    def _condition(self, job: JobState) -> Condition | None:
        session = self._session
        if session.rules.ready(job):
            return Condition(SCHEDULED)
        if job.pending or job.placed or session.snapshot.figures[job.name].settled > len(job.evicted):
            missing, tasks = job.min_available - job.ready, len(job.job.tasks)
            return self._unschedulable(
                missing, tasks, job.waiting, job.misfit, held_back(session, job, self._passed_over)
            )
        return None

    def _late(self) -> dict[str, Callable[[], Condition]]:
        """The functions that make the conditions, by name of the job."""
        session = self._session
        late: dict[str, Callable[[], Condition]] = {}
        for job in session.jobs.values():
            condition = self._condition(job)
            if condition is not None:
                late[job.name] = partial(_known, condition)
        for group in session.aside:
            need = session.needs.of(group.template)
            for name in group.jobs:
                late[name] = partial(self._aside_condition, need, session.snapshot.jobs[name])
        for resting in session.standing():
            if resting.queue not in session.queues:
                late[resting.name] = partial(no_queue, resting)
                continue
            state = JobState(resting, -1, session.snapshot.figures[resting.name], session.queues[resting.queue])
            condition = self._condition(state)
            if condition is not None:
                late[resting.name] = partial(_known, condition)
        return late

    def _aside_condition(self, need: Need, job: Job) -> Condition:
        return self._unschedulable(job.min_available, len(job.tasks), 0, need, {})

    def _refusals_of(self, need: Need) -> dict[str, int]:
        refusals = self._refusals.get(need.number)
        if refusals is None:
            refusals = self._refusals[need.number] = self._session.candidates(need).refusals()
        return refusals

    def _unschedulable(
        self, missing: int, tasks: int, waiting: int, misfit: Need | None, held_back: dict[str, int]
    ) -> Condition:
        why = held_back if misfit is None else {**held_back, **self._refusals_of(misfit)}
        reasons = ", ".join(f"{number} {reason}" for reason, number in why.items())
        message = f"{missing}/{tasks} tasks in gang unschedulable{f': {reasons}' if reasons else ''}"
        if waiting:
            message = f"{message}; {waiting} wait for room that is being released"
        return Condition(UNSCHEDULABLE, NOT_ENOUGH_RESOURCES, message, why, waiting)


def _known(condition: Condition) -> Condition:
    return condition
