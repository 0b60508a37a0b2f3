"""Runs vectors with the policy `session`: translates their input, and compares the decisions of the sessions.

`input.sessions` is the number of sessions, 1 without the field; they are `input.period` seconds apart (1). Between two
sessions launched tasks begin to run, evicted tasks have ended and wait again, and tasks with held room keep the promise
for the time that `config.session.nominationSeconds` gives. A job with `arrives` N exists from session N on.

`running`, `evictions` and `evicted` of `expect` are of the whole series: the number of tasks that hold room at the end,
by job; the number of evictions of each session; the number of evictions by job. All other fields are of the last
session. `operations` are its launches, evictions and held rooms in the order of the decisions; what is held stands
behind the last launch or eviction in the name of its job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offers.dimensions import amounts, share
from offers.policy.amounts import thousandths
from offers.policy.session.configuration import policy_of
from offers.policy.session.decisions import UNSCHEDULABLE, Bind, SessionResult
from offers.policy.session.model import HOLDING, Agent, Job, Nomination, Preference, Queue, Status, Task, Template
from offers.policy.session.policy import Policy
from offers.policy.session.session import Session
from offers.policy.session.snapshot import Snapshot
from offers.policy.session.state.statements import EVICT
from offers.rules.terms import Expression
from tests.vectors.comparing import differences
from tests.vectors.reading import PolicyVector

WEIGHTS = ("leastrequested", "mostrequested", "balancedresource", "nodeaffinity", "podaffinity")
"""Arguments of `nodeorder` whose names are written without ``.weight``."""


class NotUnderstood(ValueError):
    """A field of the vector that this adapter does not know."""


def run(vector: PolicyVector) -> list[str]:
    """The differences of a vector, those of its variants included."""
    config = vector.config
    found = _compare("expect", vector, config.get("arguments", {}), vector.expect)
    for name, expected in vector.variants.items():
        rest = {field: value for field, value in expected.items() if field != "arguments"}
        found += _compare(f"variant {name}", vector, expected["arguments"], rest)
    return found


def _compare(place: str, vector: PolicyVector, arguments: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    series = Series(vector.input, policy_from(vector.config, arguments))
    scores = _scores(series.open()) if "scores" in expected else {}
    for _ in range(vector.input.get("sessions", 1)):
        found = series.play()
    found["scores"] = scores
    unknown = sorted(set(expected) - set(found))
    lines = [f"{place}.{name}: unknown field" for name in unknown]
    for name in expected:
        if name in found:
            lines += differences(f"{place}.{name}", _set(name, expected[name]), _set(name, found[name]))
    return lines


def _set(name: str, value: Any) -> Any:
    """Kills are compared as a set; everything else as it is."""
    return sorted(value) if name == "evict" else value


class Series:
    """Sessions one after the other."""

    def __init__(self, given: Mapping[str, Any], policy: Policy) -> None:
        first = snapshot_of(given)
        self._agents, self._queues, self._policy = first.agents, first.queues, policy
        self._jobs = dict(first.jobs)
        self._arrivals = {job["name"]: job.get("arrives", 1) for job in given["jobs"]}
        self._period, self._now = given.get("period", 1.0), first.now
        self._evictions: list[int] = []
        self._evicted: dict[str, int] = {}

    def open(self) -> Session:
        """The session that comes next."""
        number = len(self._evictions) + 1
        there = [job for name, job in self._jobs.items() if self._arrivals[name] <= number]
        return Session(Snapshot(self._agents, self._queues, there, now=self._now), self._policy)

    def play(self) -> dict[str, Any]:
        """Holds the next session, and carries out what it decides. Returns what `expect` may name."""
        session = self.open()
        session.run()
        decisions = session.close()
        found = observed(session, decisions)
        self._evictions.append(len(decisions.evictions))
        for eviction in decisions.evictions:
            self._evicted[eviction.job] = self._evicted.get(eviction.job, 0) + 1
        self._carry_out(decisions)
        self._now += self._period
        running = {name: sum(task.status in HOLDING for task in job.tasks) for name, job in self._jobs.items()}
        found["running"] = {name: count for name, count in running.items() if count}
        found["evictions"], found["evicted"] = self._evictions, self._evicted
        return found

    def _carry_out(self, decisions: SessionResult) -> None:
        launched = {(bind.job, bind.task): bind.agent for bind in decisions.binds}
        ended = {(eviction.job, eviction.task) for eviction in decisions.evictions}
        for name, job in self._jobs.items():
            tasks = []
            for task in job.tasks:
                key = (name, task.name)
                if key in launched:
                    task = task._replace(status=Status.RUNNING, agent=launched[key], nomination=None)
                elif key in ended:
                    task = task._replace(status=Status.PENDING, agent="", nomination=None)
                elif key in decisions.pipelined:
                    until = self._now + self._policy.nomination_seconds
                    task = task._replace(nomination=Nomination(decisions.pipelined[key], until))
                tasks.append(task)
            self._jobs[name] = Job(
                name,
                job.queue,
                tuple(tasks),
                min_available=job.min_available,
                priority=job.priority,
                created=job.created,
                preempts=job.preempts,
            )


def _operations(session: Session, decisions: SessionResult) -> list[str]:
    """The operations of a session as lines."""
    lines: list[tuple[int, str]] = []
    latest: dict[str, int] = {}
    for number, (operation, beneficiary) in enumerate(session.changes.committed):
        latest[beneficiary.name] = number
        for position, rank in zip(operation.positions, operation.ranks, strict=True):
            task = f"{operation.job.name}/{operation.job.job.tasks[position].name}"
            agent = session.agents.agents[rank].name
            if operation.kind == EVICT:
                lines.append((number, f"evict {task} {agent} for {beneficiary.name}"))
            else:
                lines.append((number, f"bind {task} {agent}"))
    end = len(session.changes.committed)
    lines += [
        (latest.get(job, end), f"pipeline {job}/{task} {agent}") for (job, task), agent in decisions.pipelined.items()
    ]
    return [line for _, line in sorted(lines, key=lambda one: one[0])]


def observed(session: Session, decisions: SessionResult) -> dict[str, Any]:
    """The decisions in the terms of vectors."""
    counts: dict[str, int] = {}
    queue_of = {name: job.queue for name, job in session.snapshot.jobs.items()}
    for bind in decisions.binds:
        counts[queue_of[bind.job]] = counts.get(queue_of[bind.job], 0) + 1
    snapshot = session.snapshot
    totals = dict(zip(snapshot.dimensions, snapshot.totals, strict=True))
    return {
        "bind": {f"{bind.job}/{bind.task}": bind.agent for bind in decisions.binds},
        "evict": [f"{eviction.job}/{eviction.task}" for eviction in decisions.evictions],
        "pipelined": {f"{job}/{task}": agent for (job, task), agent in decisions.pipelined.items()},
        "job_conditions": {
            name: {"type": condition.type, "reason": condition.reason}
            for name, condition in decisions.conditions.items()
            if condition.type == UNSCHEDULABLE
        },
        "in_session": session.names,
        "decision_order": [
            f"bind {one.job}/{one.task} {one.agent}" if isinstance(one, Bind) else f"overused {one.queue}"
            for one in decisions.sequence
        ],
        "operations": _operations(session, decisions),
        "launches_sent": len(decisions.binds),
        "count": counts,
        "deserved": {
            queue: {name: amount / 1000 for name, amount in row.items() if totals[name]}
            for queue, row in decisions.deserved.items()
        },
        "dominant_share_after": {
            name: max(share(part, totals[key]) for key, part in zip(snapshot.dimensions, job.allocated, strict=True))
            for name in session.names
            if (job := session.job(name)) is not None
        },
    }


def _scores(session: Session) -> dict[str, int]:
    """The scores of the agents for the one task that is pending."""
    tasks = [job.job.tasks[position] for job in session.jobs.values() for position in session.pending(job)]
    if len(tasks) != 1:
        raise NotUnderstood("scores are compared for exactly one pending task")
    candidates = session.candidates(session.needs.of(tasks[0].template))
    return {
        session.agents.agents[rank].name: candidates.score(rank)
        for rank in range(len(session.agents))
        if candidates.accepts(rank)
    }


# --- input ----------------------------------------------------------------------------------------------------


def policy_from(config: Mapping[str, Any], arguments: Mapping[str, Any]) -> Policy:
    """The policy that the configuration of a vector means."""
    _known("config", config, ("actions", "tiers", "arguments", "session"))
    full = {
        plugin: {f"{name}.weight" if name in WEIGHTS else name: value for name, value in given.items()}
        for plugin, given in arguments.items()
    }
    document = {
        "actions": ", ".join(config["actions"]),
        "tiers": [
            {"plugins": [{"name": name, "arguments": full.get(name, {})} for name in tier]} for tier in config["tiers"]
        ],
        **({"session": config["session"]} if "session" in config else {}),
    }
    unknown = sorted(set(full) - {name for tier in config["tiers"] for name in tier})
    if unknown:
        raise NotUnderstood(f"config.arguments: no plug-in {', '.join(unknown)}")
    return policy_of(document)


def snapshot_of(given: Mapping[str, Any]) -> Snapshot:
    """The snapshot that the input of a vector means."""
    _known("input", given, ("nodes", "queues", "jobs", "now", "sessions", "period"))
    return Snapshot(
        [_agent(node) for node in given["nodes"]],
        [_queue(queue) for queue in given["queues"]],
        [_job(job) for job in given["jobs"]],
        now=given.get("now", 0.0),
    )


def _agent(node: Mapping[str, Any]) -> Agent:
    _known("nodes", node, ("name", "total", "attributes", "max_tasks", "ready", "unschedulable"))
    return Agent(
        node["name"],
        _amounts(node["total"]),
        attributes=node.get("attributes", {}),
        max_tasks=node.get("max_tasks"),
        ready=node.get("ready", True),
        schedulable=not node.get("unschedulable", False),
    )


def _queue(queue: Mapping[str, Any]) -> Queue:
    _known("queues", queue, ("name", "weight", "guarantee", "capability", "reclaimable", "created", "priority"))
    capability = queue.get("capability", {})
    return Queue(
        queue["name"],
        weight=queue.get("weight", 1),
        guarantee=_amounts(queue.get("guarantee", {})),
        capability=tuple((name, thousandths(value)) for name, value in sorted(capability.items())),
        reclaimable=queue.get("reclaimable", True),
        created=queue.get("created", 0.0),
        priority=queue.get("priority", 0),
    )


def _job(job: Mapping[str, Any]) -> Job:
    known = ("name", "queue", "created", "arrives", "min_available", "priority", "preempts", "tasks", "critical")
    _known("jobs", job, known)
    created = job.get("created", 0.0)
    tasks: list[Task] = []
    for entry in job["tasks"]:
        tasks += _tasks(entry, created, job.get("critical", False))
    return Job(
        job["name"],
        job["queue"],
        tuple(tasks),
        min_available=job.get("min_available", 1),
        priority=job.get("priority", 0),
        created=created,
        preempts=job.get("preempts", True),
    )


def _tasks(entry: Mapping[str, Any], created: float, critical: bool) -> list[Task]:
    known = (
        "name",
        "count",
        "request",
        "status",
        "node",
        "created",
        "priority",
        "best_effort",
        "preferred",
        "selector",
    )
    _known("tasks", entry, (*known, "critical", "ports"))
    template = Template(
        request=_amounts(entry["request"]),
        best_effort=entry.get("best_effort", False),
        preferred=tuple(
            Preference(((Expression(one["attribute"], "In", (one["value"],)),),), one["weight"])
            for one in entry.get("preferred", ())
        ),
        selector=(tuple(Expression(name, "In", (value,)) for name, value in sorted(entry["selector"].items())),)
        if entry.get("selector")
        else (),
        ports=tuple(entry.get("ports", ())),
    )
    names = [f"{entry['name']}{number}" for number in range(entry["count"])] if "count" in entry else [entry["name"]]
    return [
        Task(
            name,
            template,
            Status(entry.get("status", "pending")),
            agent=entry.get("node", ""),
            priority=entry.get("priority", 0),
            created=entry.get("created", created),
            critical=entry.get("critical", critical),
        )
        for name in names
    ]


def _amounts(given: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    return amounts({name: thousandths(value) for name, value in given.items()})


def _known(place: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise NotUnderstood(f"input {place}: unknown {', '.join(unknown)}")
