"""Random small clusters for tests of sessions."""

from __future__ import annotations

import random
from typing import NamedTuple

from offers.dimensions import Amounts, amounts
from offers.policy.session.configuration import policy_of
from offers.policy.session.model import Agent, Job, Nomination, Preference, Queue, Status, Task, Template
from offers.policy.session.policy import Policy
from offers.policy.session.snapshot import Snapshot
from offers.rules.taints import Taint, Toleration
from offers.rules.terms import Expression

ACTIONS = ("allocate", "backfill", "preempt", "reclaim")
TIERS = (("priority", "gang", "conformance"), ("drf", "predicates", "proportion", "nodeorder"))


class Cluster(NamedTuple):
    """What a session is given."""

    agents: list[Agent]
    queues: list[Queue]
    jobs: list[Job]
    now: float = 100.0

    def snapshot(self) -> Snapshot:
        return Snapshot(self.agents, self.queues, self.jobs, self.now)


def policy(*actions: str, strict: bool = False) -> Policy:
    """The full set of plug-ins with these actions."""
    return policy_of(
        {
            "actions": ", ".join(actions),
            "tiers": [
                {
                    "plugins": [
                        {"name": name, "arguments": {"strict": strict} if name == "proportion" else {}} for name in tier
                    ]
                }
                for tier in TIERS
            ],
        }
    )


def cores(cpus: float, mem: float, gpus: int = 0) -> Amounts:
    """Amounts of cores, MB and GPUs."""
    return amounts({"cpus": int(cpus * 1000), "mem": int(mem * 1000), "gpus": gpus * 1000})


def in_zone(zone: str) -> tuple[tuple[Expression, ...], ...]:
    return ((Expression("zone", "In", (zone,)),),)


def random_cluster(seed: int) -> Cluster:
    """A cluster with pending, running and leaving tasks; what runs fits its agent."""
    chance = random.Random(seed)
    agents = [_agent(chance, number) for number in range(chance.randint(1, 5))]
    queues = [_queue(chance, number) for number in range(chance.randint(1, 3))]
    room = {agent.name: dict(agent.total) for agent in agents}
    for agent in agents:
        for name, amount in agent.foreign:
            room[agent.name][name] -= amount
    jobs = [_job(chance, number, queues, agents, room) for number in range(chance.randint(1, 7))]
    return Cluster(agents, queues, jobs)


def _agent(chance: random.Random, number: int) -> Agent:
    return Agent(
        f"a{number}",
        cores(chance.randint(1, 8), 1000 * chance.randint(1, 8), chance.choice((0, 0, 2))),
        foreign=cores(0.5, 100) if chance.random() < 0.2 else (),
        attributes={"zone": chance.choice("xy")},
        ready=chance.random() > 0.08,
        schedulable=chance.random() > 0.08,
        max_tasks=chance.choice((None, None, None, 2, 4)),
        taints=(Taint("dedicated"),) if chance.random() < 0.15 else (),
        ports=(80,) if chance.random() < 0.2 else (),
    )


def _queue(chance: random.Random, number: int) -> Queue:
    return Queue(
        f"q{number}",
        weight=chance.randint(1, 3),
        guarantee=cores(chance.randint(0, 3), 0) if chance.random() < 0.3 else (),
        capability=(("cpus", 1000 * chance.randint(0, 10)),) if chance.random() < 0.2 else (),
        reclaimable=chance.random() > 0.1,
    )


def _template(chance: random.Random) -> Template:
    if chance.random() < 0.1:
        return Template(best_effort=True)
    return Template(
        cores(chance.choice((0.5, 1, 1, 2, 3)), 500 * chance.randint(1, 4), int(chance.random() < 0.1)),
        selector=in_zone("x") if chance.random() < 0.15 else (),
        tolerations=(Toleration("dedicated", "Exists"),) if chance.random() < 0.3 else (),
        ports=(80,) if chance.random() < 0.1 else (),
        preferred=(Preference(in_zone("y"), chance.randint(1, 3)),) if chance.random() < 0.15 else (),
    )


def _job(
    chance: random.Random, number: int, queues: list[Queue], agents: list[Agent], room: dict[str, dict[str, int]]
) -> Job:
    templates = [_template(chance) for _ in range(chance.randint(1, 2))]
    tasks = []
    for position in range(chance.randint(1, 6)):
        template = chance.choice(templates)
        status, agent = Status.PENDING, ""
        if chance.random() < 0.5:
            status, agent = _settled(chance, template, agents, room)
        nomination = None
        if status is Status.PENDING and chance.random() < 0.1:
            nomination = Nomination(chance.choice(agents).name, chance.choice((99.0, 200.0)))
        tasks.append(
            Task(
                f"t{position}",
                template,
                status,
                agent,
                priority=chance.choice((0, 0, 0, 5)),
                created=float(chance.randint(0, 3)),
                nomination=nomination,
                critical=chance.random() < 0.05,
            )
        )
    return Job(
        f"j{number}",
        chance.choice(queues).name if chance.random() > 0.03 else "unknown",
        tuple(tasks),
        min_available=chance.randint(1, max(1, len(tasks))) if chance.random() < 0.9 else len(tasks) + 1,
        priority=chance.randint(0, 3),
        created=float(chance.randint(0, 4)),
    )


def _settled(
    chance: random.Random, template: Template, agents: list[Agent], room: dict[str, dict[str, int]]
) -> tuple[Status, str]:
    if chance.random() < 0.1:
        return chance.choice((Status.SUCCEEDED, Status.FAILED)), ""
    agent = chance.choice(agents).name
    if any(amount > room[agent].get(name, 0) for name, amount in template.request):
        return Status.PENDING, ""
    for name, amount in template.request:
        room[agent][name] -= amount
    return chance.choice((Status.RUNNING, Status.RUNNING, Status.RUNNING, Status.BOUND, Status.RELEASING)), agent


def crowded_cluster(seed: int) -> Cluster:
    """Agents that are full of running tasks of several sizes and priorities, in queues of which some are at their
    limits, and jobs that can only run if others leave."""
    chance = random.Random(seed)
    agents = [Agent(f"a{number}", cores(chance.randint(4, 10), 8000)) for number in range(chance.randint(2, 4))]
    queues = [
        Queue(
            f"q{number}",
            weight=chance.randint(1, 3),
            guarantee=cores(chance.randint(1, 4), 0) if chance.random() < 0.4 else (),
            capability=(("cpus", 1000 * chance.randint(3, 12)),) if chance.random() < 0.5 else (),
        )
        for number in range(chance.randint(1, 3))
    ]
    places = [(agent.name, amount) for agent in agents for amount in _parts(chance, dict(agent.total)["cpus"])]
    chance.shuffle(places)
    jobs: list[Job] = []
    while places:
        number = chance.randint(1, 4)
        taken, places = places[:number], places[number:]
        tasks = tuple(
            Task(
                f"t{n}",
                Template(amounts({"cpus": amount, "mem": 1000 * chance.randint(1, 900)})),
                Status.RUNNING,
                agent,
                critical=chance.random() < 0.04,
                ready=chance.random() > 0.15,
            )
            for n, (agent, amount) in enumerate(taken)
        )
        jobs.append(
            Job(
                f"r{len(jobs)}",
                chance.choice(queues).name,
                tasks,
                min_available=chance.choice((1, 1, chance.randint(1, len(tasks)))),
                priority=chance.randint(0, 2),
                created=float(len(jobs)),
            )
        )
    for number in range(chance.randint(1, 4)):
        template = Template(cores(chance.choice((1, 2, 3, 5)), chance.choice((500, 2000))))
        other = Template(cores(chance.choice((1, 2)), 500))
        tasks = tuple(Task(f"t{n}", chance.choice((template, template, other))) for n in range(chance.randint(1, 3)))
        jobs.append(
            Job(
                f"w{number}",
                chance.choice(queues).name,
                tasks,
                min_available=chance.randint(1, len(tasks)),
                priority=chance.randint(1, 4),
                created=100.0 + number,
            )
        )
    return Cluster(agents, queues, jobs)


def _parts(chance: random.Random, whole: int) -> list[int]:
    """Amounts that fill an agent, or nearly."""
    found: list[int] = []
    while (left := whole - sum(found)) >= 500 and chance.random() < 0.95:
        found.append(min(left, 500 * chance.choice((1, 1, 2, 3, 4))))
    return found
