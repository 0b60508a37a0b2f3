"""Sessions of placement policies alone: how fast one session decides with the full set of plug-ins.

    policy-gangs-N-A      N tasks in gangs of 100 of five templates on A agents
    policy-drf-N-A        N tasks of jobs with a minimum of 1: one turn, by dominant share, per task
    policy-gang-N-A       one gang of N tasks on A agents that are half full
    policy-session-N-A    N pending tasks of N/10 jobs in 5 queues, beside 50 running jobs, on A agents; all actions
    policy-hopeless-N-A   the same with 1,000 pending tasks, without and with N tasks that fit no agent
    policy-evict-N-A      N tasks in gangs of 10 of ten templates that must evict, on A full agents; all actions
    policy-preempt-N-A    one task that must evict, among N running tasks on A full agents
    policy-hopeless-preempt-A    200 tasks of 50 queues on A full agents, on none of which enough may leave; all actions
    policy-unlike-A       2,000 tasks of as many templates, which no agent of A full ones can take; all actions
    policy-gangs-at-minimum-A    100 tasks of 25 templates beside gangs that may lose nothing, on A full agents

Timed is `decide`, from a snapshot to its decisions: processor time of one thread, the median of several runs, so that
other programs on the machine do not count. Making the snapshot is timed by itself (part `snapshot`). Each case fails
beyond its bound. For the cases in which one job arrives, `following` is the time with a snapshot that advances.
For the last three, the decisions are made in portions, as in the turns of the core: `turn` is the longest portion, and
`again` the same decisions when nothing has changed.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from benchmarks.load import Result
from benchmarks.processes import Failure
from offers.dimensions import Amounts, amounts
from offers.policy.session.configuration import DEFAULT, policy_of
from offers.policy.session.decisions import SessionResult
from offers.policy.session.memory import Memory
from offers.policy.session.model import Agent, Job, Queue, Status, Task, Template
from offers.policy.session.policy import Policy
from offers.policy.session.session import decide
from offers.policy.session.snapshot import Snapshot

PLACING = policy_of(DEFAULT)
EVERYTHING = policy_of({**DEFAULT, "actions": "reclaim, allocate, backfill, preempt"})
REPEATS = 7
PAIRS = 15
"""Sessions without and with hopeless tasks."""
KINDS = (
    "policy-gangs",
    "policy-drf",
    "policy-gang",
    "policy-session",
    "policy-hopeless",
    "policy-evict",
    "policy-preempt",
)
IN_PORTIONS = ("policy-hopeless-preempt", "policy-gangs-at-minimum", "policy-unlike")
CASES = (
    "policy-gangs-10000-1000",
    "policy-gangs-10000-5000",
    "policy-drf-5000-1000",
    "policy-drf-5000-5000",
    "policy-gang-50-5000",
    "policy-session-1000-1000",
    "policy-hopeless-10000-1000",
    "policy-evict-10000-1000",
    "policy-preempt-50000-5000",
    "policy-hopeless-preempt-5000",
    "policy-gangs-at-minimum-5000",
    "policy-unlike-1000",
    "policy-unlike-5000",
)
FASTEST = {"policy-gangs": 100_000.0, "policy-drf": 20_000.0}
"""SessionResult a second that a case must reach."""
LONGEST = {"policy-gang": 0.020, "policy-session": 0.050, "policy-evict": 1.0, "policy-preempt": 0.050}
"""Seconds that a case may take."""
PORTION, LONGEST_PORTION, LONGEST_IN_ALL = 0.030, 0.050, 1.0
"""Seconds after which a portion ends, that a portion may take, and that all portions may take."""
SLOWER = 1.10
"""A session may take so many times as long with hopeless tasks."""
QUEUES = tuple(Queue(f"q{number}", weight=number + 1) for number in range(5))


class Timing(NamedTuple):
    """Medians in seconds of processor time, and the decisions of the last run."""

    session: float
    snapshot: float
    decisions: SessionResult


def policies(case: str, kind: str, tasks: int, agents: int) -> Result:
    """Runs one case. Raises Failure if it decides something else than it must; the result names the bounds that are
    missed."""
    if kind in IN_PORTIONS:
        make = {"policy-hopeless-preempt": hopeless, "policy-gangs-at-minimum": at_minimum}.get(kind, unlike)
        return portions(case, make, tasks, agents)
    missed: list[str] = []
    parts: dict[str, float] = {}
    match kind:
        case "policy-gangs":
            timing = measured(lambda: Snapshot(machines(agents), QUEUES, gangs(tasks, 100, 100)))
        case "policy-drf":
            timing = measured(lambda: Snapshot(machines(agents), QUEUES, gangs(tasks, 10, 1)))
        case "policy-gang":
            timing = measured(lambda: gang_arrives(tasks, agents))
        case "policy-session":
            timing = measured(lambda: busy(tasks, agents, 0), everything=True)
        case "policy-hopeless":
            without, timing, slower = beside(lambda number: busy(1000, agents, number), tasks)
            parts = {"without": without.session, "slower": slower}
            if parts["slower"] > SLOWER:
                missed.append(f"{parts['slower']:.2f} times as long with hopeless tasks, {SLOWER} at most")
        case "policy-evict":
            timing = evicting(case, lambda: crowded(tasks // 10, agents), agents, tasks)
        case _:
            timing = evicting(case, lambda: full(tasks, agents), 1, 1)
    if kind in ARRIVALS:
        policy = EVERYTHING if kind == "policy-preempt" else PLACING
        parts["following"] = following(lambda: ARRIVALS[kind](tasks, agents), policy)
        if parts["following"] > LONGEST[kind]:
            missed.append(f"{parts['following']:.4f} s with the snapshot, {LONGEST[kind]} at most")
    binds = len(timing.decisions.binds)
    if kind not in ("policy-evict", "policy-preempt") and binds < min(tasks, 1000):
        raise Failure(f"{case}: only {binds} tasks are placed")
    per_second = max(binds, 1) / timing.session
    if per_second < FASTEST.get(kind, 0.0):
        missed.append(f"{per_second:.0f} decisions a second, {FASTEST[kind]:.0f} at least")
    if timing.session > LONGEST.get(kind, timing.session):
        missed.append(f"{timing.session:.4f} s, {LONGEST[kind]} at most")
    return Result(
        case,
        "none",
        agents,
        tasks,
        timing.session,
        per_second,
        cpu_us=timing.session / max(binds, 1) * 1e6,
        parts={"session": timing.session, "snapshot": timing.snapshot, **parts},
        missed="; ".join(missed),
    )


def evicting(case: str, make: Callable[[], Snapshot], least: int, most: int) -> Timing:
    """Times sessions with all actions. Raises Failure if the number of evictions is not within the bounds."""
    timing = measured(make, everything=True)
    number = len(timing.decisions.evictions)
    if not least <= number <= most:
        raise Failure(f"{case}: {number} evictions, {least} to {most} expected")
    return timing


def portions(case: str, make: Callable[[int], Snapshot], tasks: int, agents: int) -> Result:
    """Times decisions in portions: those of one round, and of a second one over the same state."""
    begun = time.process_time()
    snapshot = make(agents)
    _ = snapshot.tenants
    made = time.process_time() - begun
    memory = Memory()
    rounds: list[list[float]] = []
    for _ in range(2):
        rounds.append([])
        unfinished = True
        gc.collect()
        gc.disable()
        while unfinished:
            begun = time.process_time()
            decisions = decide(snapshot, EVERYTHING, memory=memory, is_used_up=_used_up(begun))
            rounds[-1].append(time.process_time() - begun)
            unfinished = decisions.unfinished
            if decisions.evictions or decisions.binds:
                raise Failure(f"{case}: nothing can help, and something is decided")
        gc.enable()
    turn, whole = max(map(max, rounds)), sum(rounds[0])
    missed = [f"{turn:.4f} s in one turn, {LONGEST_PORTION} at most"] if turn > LONGEST_PORTION else []
    if make is not unlike and whole > LONGEST_IN_ALL:
        missed.append(f"{whole:.4f} s in all, {LONGEST_IN_ALL} at most")
    parts = {"session": whole, "snapshot": made, "turn": turn, "again": sum(rounds[1])}
    return Result(
        case, "none", agents, tasks, whole, 1 / whole, cpu_us=whole * 1e6, parts=parts, missed="; ".join(missed)
    )


def _used_up(begun: float) -> Callable[[], bool]:
    return lambda: time.process_time() - begun >= PORTION


def beside(make: Callable[[int], Snapshot], hopeless: int) -> tuple[Timing, Timing, float]:
    """Times sessions without and with hopeless tasks in turns, so that the load of the machine concerns both. Returns
    both, and the median of the ratios of the pairs."""
    pairs: list[tuple[Timing, Timing]] = []
    for number in range(PAIRS):
        numbers = (0, hopeless) if number % 2 else (hopeless, 0)
        found = {one: measured(lambda one=one: make(one), everything=True, repeats=1) for one in numbers}  # type: ignore[misc]
        pairs.append((found[0], found[hopeless]))
    without, timing = (
        Timing(median(pair[which].session for pair in pairs), median(pair[which].snapshot for pair in pairs), last)
        for which, last in enumerate(one.decisions for one in pairs[-1])
    )
    return without, timing, median(more.session / less.session for less, more in pairs)


def following(make: Callable[[], Snapshot], policy: Policy) -> float:
    """Seconds from the arrival of the last job to the decisions: `Snapshot.advance` and the session, the median."""
    found = []
    for _ in range(REPEATS):
        whole = make()
        *running, arriving = whole.jobs.values()
        before = Snapshot(whole.agents, whole.queues, running)
        _ = before.tenants
        decide(before, policy)
        gc.collect()
        gc.disable()
        begun = time.process_time()
        before.advance(1.0, jobs={arriving.name: arriving})
        decide(before, policy)
        found.append(time.process_time() - begun)
        gc.enable()
    return median(found)


def measured(make: Callable[[], Snapshot], *, everything: bool = False, repeats: int = REPEATS) -> Timing:
    """Times sessions over equal snapshots, each of which is made anew."""
    policy = EVERYTHING if everything else PLACING
    sessions, snapshots = [], []
    for _ in range(repeats):
        gc.collect()
        begun = time.process_time()
        snapshot = make()
        _ = (snapshot.columns, snapshot.figures, snapshot.totals, snapshot.groups, snapshot.tenants)
        snapshots.append(time.process_time() - begun)
        gc.collect()
        gc.disable()
        begun = time.process_time()
        decisions = decide(snapshot, policy)
        sessions.append(time.process_time() - begun)
        gc.enable()
    return Timing(median(sessions), median(snapshots), decisions)


# --- clusters -------------------------------------------------------------------------------------------------


def room(cpus: float, mem: int) -> Amounts:
    """Amounts of cores and MB."""
    return amounts({"cpus": int(cpus * 1000), "mem": mem * 1000})


def machines(number: int) -> list[Agent]:
    """Agents of 32 cores and 64 GB."""
    total = room(32, 64_000)
    return [Agent(f"a{rank:05}", total) for rank in range(number)]


def gangs(tasks: int, size: int, minimum: int, templates: int = 5) -> list[Job]:
    """Jobs of identical tasks, in five queues."""
    known = [Template(room(0.5 * (1 + n % 4), 500 * (1 + n % 3))) for n in range(templates)]
    return [
        Job(
            f"j{n:05}",
            f"q{n % 5}",
            tuple(Task(f"t{k}", known[n // 5 % templates], created=float(n)) for k in range(size)),
            min_available=minimum,
            created=float(n),
        )
        for n in range(tasks // size)
    ]


def half_full(tasks: int, agents: int) -> list[Job]:
    """A job that uses half of every agent, and a gang that waits."""
    large, small = Template(room(16, 32_000)), Template(room(1, 2000))
    return [
        Job("running", "q0", tuple(Task(f"t{n}", large, Status.RUNNING, f"a{n:05}") for n in range(agents))),
        Job("gang", "q0", tuple(Task(f"t{n}", small) for n in range(tasks)), min_available=tasks, created=1.0),
    ]


def busy(tasks: int, agents: int, hopeless: int) -> Snapshot:
    """Pending jobs of 10 tasks with a minimum of 5, beside 50 running jobs, and jobs that fit no agent."""
    running = [Template(room(4, 8000)), Template(room(2, 6000))]
    too_large = [Template(room(33 + n, 1000)) for n in range(10)]
    jobs = gangs(tasks, 10, 5, 10)
    jobs += [
        Job(
            f"r{n}",
            f"q{n % 5}",
            tuple(Task(f"t{k}", running[k % 2], Status.RUNNING, f"a{(n * 100 + k) % agents:05}") for k in range(100)),
            min_available=1 + n % 3,
            priority=-(n % 4),
        )
        for n in range(50)
    ]
    jobs += [
        Job(f"h{n}", f"q{n % 5}", tuple(Task(f"t{k}", too_large[n % 10]) for k in range(10)), min_available=10)
        for n in range(hopeless // 10)
    ]
    return Snapshot(machines(agents), QUEUES, jobs)


def full(tasks: int, agents: int) -> Snapshot:
    """Jobs of 100 running tasks that fill all agents, and one pending task of a higher priority."""
    per_agent = tasks // agents
    template = Template(room(32 / per_agent, 64_000 // per_agent))
    jobs = [
        Job(
            f"r{n:04}",
            "q0",
            tuple(Task(f"t{k}", template, Status.RUNNING, f"a{(n * 100 + k) % agents:05}") for k in range(100)),
            priority=n % 10,
        )
        for n in range(tasks // 100)
    ]
    urgent = Job("urgent", "q0", (Task("t", template),), priority=5, created=1.0)
    return Snapshot(machines(agents), QUEUES[:1], [*jobs, urgent])


def gang_arrives(tasks: int, agents: int) -> Snapshot:
    """Half-full agents, and a gang that waits."""
    return Snapshot(machines(agents), QUEUES[:1], half_full(tasks, agents))


ARRIVALS = {"policy-gang": gang_arrives, "policy-preempt": full}
"""Clusters in which the last job arrives."""


def crowded(gangs: int, agents: int) -> Snapshot:
    """Full agents of 10 tasks, and gangs of 10 tasks of ten templates and a higher priority that no agent has room
    for."""
    machines = [Agent(f"a{number:05}", (("cpus", 10_000), ("mem", 100_000))) for number in range(agents)]
    running, jobs = Template((("cpus", 1000), ("mem", 1000))), []
    for number in range(agents // 5):
        tasks = tuple(
            Task(f"r{number}-{n}", running, Status.RUNNING, agent=machines[number * 5 + n // 10].name)
            for n in range(50)
        )
        jobs.append(Job(f"run{number:05}", QUEUES[number % 5].name, tasks, created=1.0))
    for number in range(gangs):
        template = Template((("cpus", 1000 + number % 10 * 100), ("mem", 1000)))
        tasks = tuple(Task(f"g{number}-{n}", template, Status.PENDING) for n in range(10))
        queue = QUEUES[number % 5].name
        jobs.append(Job(f"gang{number:05}", queue, tasks, min_available=10, priority=5, created=2.0 + number))
    return Snapshot(machines, QUEUES, jobs)


def hopeless(agents: int) -> Snapshot:
    """Full agents with one task of each of ten queues, of 50 in all, and four tasks of each queue that need two to five
    times as much as one task of the queue could leave them."""
    return crowd(agents, [(2 + number % 4) * 1000 for number in range(200)])


def unlike(agents: int) -> Snapshot:
    """The same with 2,000 tasks that need different amounts."""
    return crowd(agents, [2000 + number for number in range(2000)])


def crowd(agents: int, wanted: Sequence[int]) -> Snapshot:
    """Full agents with one task of each of ten queues, of 50 in all, and tasks that want these amounts of CPU."""
    machines = [Agent(f"a{number:05}", (("cpus", 10_000), ("mem", 100_000))) for number in range(agents)]
    running, jobs = Template((("cpus", 1000), ("mem", 1000))), []
    for queue in range(50):
        places = [agent for agent in range(agents) if queue // 10 == agent % 5]
        for begin in range(0, len(places), 100):
            tasks = tuple(
                Task(f"t{place}", running, Status.RUNNING, machines[place].name)
                for place in places[begin : begin + 100]
            )
            jobs.append(Job(f"r{queue:02}-{begin:05}", f"q{queue:02}", tasks))
    for number, cpus in enumerate(wanted):
        tasks = (Task("t", Template((("cpus", cpus), ("mem", 1000)))),)
        jobs.append(Job(f"w{number:04}", f"q{number // 4 % 50:02}", tasks, priority=5, created=1.0))
    return Snapshot(machines, [Queue(f"q{number:02}") for number in range(50)], jobs)


def at_minimum(agents: int) -> Snapshot:
    """Full agents, each with a gang of ten tasks at its minimum, and tasks of 25 templates with a higher priority."""
    machines = [Agent(f"a{number:05}", (("cpus", 10_000), ("mem", 100_000))) for number in range(agents)]
    running = Template((("cpus", 1000), ("mem", 1000)))
    jobs = [
        Job(
            f"g{number:05}",
            "q0",
            tuple(Task(f"t{n}", running, Status.RUNNING, machines[number].name) for n in range(10)),
            min_available=10,
        )
        for number in range(agents)
    ]
    for shape in range(25):
        wanted = Template((("cpus", 1000 + 100 * shape), ("mem", 1000)))
        jobs += [Job(f"w{shape}-{n}", "q0", (Task("t", wanted),), priority=5, created=1.0 + n) for n in range(4)]
    return Snapshot(machines, QUEUES[:1], jobs)
