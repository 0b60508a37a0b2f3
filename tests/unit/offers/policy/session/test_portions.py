"""Sessions in portions, and tries that are remembered because they cannot help."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.policies import at_minimum, hopeless
from offers.policy.session.decisions import QUEUE_LIMIT, SessionResult
from offers.policy.session.memory import Memory, Portion
from offers.policy.session.model import Agent, Job, Queue, Status, Task, Template
from offers.policy.session.preemption import make_room
from offers.policy.session.session import Session, decide
from offers.policy.session.snapshot import Snapshot
from offers.policy.session.state.candidates import Candidates
from tests.effort import share
from tests.unit.offers.policy.session.policy_clusters import ACTIONS, cores, crowded_cluster, policy

EVERYTHING = policy("reclaim", "allocate", "backfill", "preempt")
SEEDS = st.integers(0, 2**32)


def carry_out(snapshot: Snapshot, decisions: SessionResult) -> None:
    """Takes the decisions over into the snapshot: launched tasks run, victims leave, the others have promises."""
    launched = {(bind.job, bind.task): bind.agent for bind in decisions.binds}
    gone = {(one.job, one.task) for one in decisions.evictions}
    jobs: dict[str, Job | None] = {}
    for name, job in snapshot.jobs.items():
        tasks = []
        for task in job.tasks:
            key = (name, task.name)
            if key in launched:
                task = task._replace(status=Status.BOUND, agent=launched[key], nomination=None)
            elif key in gone:
                task = task._replace(status=Status.RELEASING)
            elif task.status is Status.PENDING and task.nomination != decisions.nominations.get(key):
                task = task._replace(nomination=decisions.nominations.get(key))
            tasks.append(task)
        if any(one is not other for one, other in zip(tasks, job.tasks, strict=True)):
            jobs[name] = remade(job, tuple(tasks))
    snapshot.advance(snapshot.now, jobs=jobs)


def remade(job: Job, tasks: tuple[Task, ...]) -> Job:
    return Job(job.name, job.queue, tasks, min_available=job.min_available, priority=job.priority, created=job.created)


def in_portions(snapshot: Snapshot, actions: list[str]) -> list[SessionResult]:
    """One round of sessions, each of which ends as soon as it may."""
    memory, chosen = Memory(), policy(*actions)
    found: list[SessionResult] = []
    while not found or found[-1].unfinished:
        found.append(decide(snapshot, chosen, memory=memory, is_used_up=lambda: True))
        carry_out(snapshot, found[-1])
    return found


def test_each_portion_goes_on_where_the_one_before_has_stopped() -> None:
    agents = [Agent(f"a{n}", cores(2, 1)) for n in range(3)]
    low = [
        Job(f"low{n}", "q", (Task("t", Template(cores(2, 0)), Status.RUNNING, f"a{n}"),), created=float(n))
        for n in range(3)
    ]
    high = [Job(f"high{n}", "q", (Task("t", Template(cores(2, 0))),), priority=5, created=10.0 + n) for n in range(3)]
    found = in_portions(Snapshot(agents, [Queue("q")], [*low, *high]), ["preempt"])
    assert [[(one.beneficiary, one.job) for one in portion.evictions] for portion in found] == [
        [("high0", "low0")],
        [("high1", "low1")],
        [("high2", "low2")],
    ]
    assert [portion.unfinished for portion in found] == [True, True, False]
    assert found[-1].pipelined.keys() == {("high0", "t"), ("high1", "t"), ("high2", "t")}


def test_the_last_portion_names_all_jobs_that_the_round_has_held_back() -> None:
    def limited() -> Snapshot:
        run = Job("run", "q", (Task("t", Template(cores(2, 0)), Status.RUNNING, "a0"),))
        jobs = [Job(f"j{n:02}", "q", (Task("t", Template(cores(1, n + 1))),), created=1.0 + n) for n in range(40)]
        return Snapshot([Agent("a0", cores(8, 8000))], [Queue("q", capability=(("cpus", 2000),))], [run, *jobs])

    snapshot, memory, chosen = limited(), Memory(), policy("allocate")
    portions: list[SessionResult] = []
    while not portions or portions[-1].unfinished:
        portions.append(decide(snapshot, chosen, memory=memory, is_used_up=lambda: True))
    assert len(portions) > 1
    assert len(portions[-1].held_back) == 40
    assert portions[-1].held_back == decide(limited(), chosen).held_back
    snapshot.advance(snapshot.now, queues=[Queue("q")])
    assert decide(snapshot, chosen, memory=memory).held_back == {}, "the next round finds its own"


@pytest.mark.parametrize("actions", [["allocate"], ["reclaim", "allocate", "backfill", "preempt"]])
def test_a_limit_below_the_minimum_of_a_job_is_named_although_the_agents_are_full(actions: list[str]) -> None:
    run = Job("run", "other", tuple(Task(f"t{n}", Template(cores(1, 0)), Status.RUNNING, "a0") for n in range(3)))
    gang = Job("gang", "q", tuple(Task(f"t{n}", Template(cores(1, 0))) for n in range(3)), min_available=3)
    queues = [Queue("other"), Queue("q", capability=(("cpus", 2000),))]
    decisions = decide(Snapshot([Agent("a0", cores(4, 0))], queues, [run, gang]), policy(*actions))
    assert (decisions.binds, decisions.evictions) == ((), ())
    assert decisions.held_back == {"gang": QUEUE_LIMIT}


def test_a_portion_that_is_cut_in_allocate_evicts_nothing() -> None:
    """The second job has room, and is reached by the second portion only."""
    agents = [Agent("a1", cores(2, 1)), Agent("a2", cores(20, 1))]
    jobs = [Job("low", "q", (Task("t", Template(cores(2, 0)), Status.RUNNING, "a1"),))]
    jobs += [
        Job(f"new{n:02}", "q", (Task("t", Template(cores(1, 0))),), priority=5, created=1.0 + n) for n in range(20)
    ]
    found = in_portions(Snapshot(agents, [Queue("q")], jobs), ["allocate", "preempt"])
    assert len(found) > 1
    assert sum(len(portion.binds) for portion in found) == 20
    assert not any(portion.evictions for portion in found)


@given(SEEDS, st.permutations(ACTIONS))
@settings(max_examples=share(80), deadline=None)
def test_promises_of_a_portion_last_until_the_round_ends(seed: int, actions: list[str]) -> None:
    snapshot = crowded_cluster(seed).snapshot()
    found = in_portions(snapshot, actions)
    assert len(found) <= 4 * len(snapshot.jobs) + 1
    bound: set[tuple[str, str]] = set()
    for before, after in pairwise(found):
        bound.update((bind.job, bind.task) for bind in after.binds)
        gone = {(one.job, one.task) for one in after.evictions}
        assert before.pipelined.keys() <= after.pipelined.keys() | bound | gone
    for column in snapshot.columns.future:
        assert min(column) >= 0


@given(SEEDS, st.permutations(ACTIONS))
@settings(max_examples=share(80), deadline=None)
def test_sessions_that_remember_decide_as_sessions_that_do_not(seed: int, actions: list[str]) -> None:
    """While tasks end, jobs come, and limits and agents change."""
    chance = random.Random(seed)
    cluster = crowded_cluster(seed)
    snapshot, memory, chosen = cluster.snapshot(), Memory(), policy(*actions)
    for number in range(6):
        expected = decide(snapshot, chosen)
        found = decide(snapshot, chosen, memory=memory)
        assert found == expected
        _change(chance, snapshot, number)
        if chance.random() < 0.3:
            carry_out(snapshot, found)


def _change(chance: random.Random, snapshot: Snapshot, number: int) -> None:
    name = chance.choice(list(snapshot.jobs))
    job = snapshot.jobs[name]
    match chance.choice(("end", "come", "limit", "agent", "priority", "nothing")):
        case "end":
            snapshot.advance(snapshot.now, jobs={name: remade(job, job.tasks[1:]) if len(job.tasks) > 1 else None})
        case "come":
            tasks = (Task("t0", Template(cores(chance.choice((1, 2)), 100))),)
            new = Job(f"new{number}", job.queue, tasks, priority=3, created=200.0 + number)
            snapshot.advance(snapshot.now, jobs={new.name: new})
        case "limit":
            queues = [queue._replace(capability=(("cpus", 1000 * chance.randint(2, 14)),)) for queue in snapshot.queues]
            snapshot.advance(snapshot.now, queues=queues)
        case "agent":
            agent = chance.choice(snapshot.agents)
            total = cores(dict(agent.total)["cpus"] / 1000 + 1, 9000)
            snapshot.advance(snapshot.now, agents={agent.name: agent._replace(total=total)})
        case "priority":
            changed = Job(name, job.queue, job.tasks, min_available=1, priority=0, created=job.created)
            snapshot.advance(snapshot.now, jobs={name: changed})


CHANGES = {"an ending": 1, "another victim": 2, "a limit": 0, "the ask": 1, "a larger agent": 1}
"""Changes, and the number of victims after them."""


def _count(monkeypatch: pytest.MonkeyPatch, tries: Counter[str]) -> None:
    """Counts the searches of both actions."""
    plain: Any = make_room

    def counted(*arguments: object) -> Any:
        tries["made"] += 1
        return plain(*arguments)

    monkeypatch.setattr("offers.policy.session.preemption.make_room", counted)


@pytest.mark.parametrize("change", CHANGES)
def test_a_try_in_vain_is_made_again_when_something_changes(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: Counter[str] = Counter()
    _count(monkeypatch, tries)
    one = Template(cores(1, 0))
    low = Job("low", "q", (Task("t0", one, Status.RUNNING, "a1"),))
    other = Job("other", "o", tuple(Task(f"t{n}", one, Status.RUNNING, "a1") for n in range(3)))
    high = Job("high", "q", (Task("t", Template(cores(2, 0))),), priority=5, created=9.0)
    queues = [Queue("q", capability=(("cpus", 9000),)), Queue("o")]
    snapshot = Snapshot([Agent("a1", cores(4, 1))], queues, [low, other, high])
    memory, chosen = Memory(), policy("allocate", "preempt")
    for _ in range(3):
        assert not decide(snapshot, chosen, memory=memory).evictions
    assert tries["made"] == 1
    unrelated = Job("apart", "o", (Task("t", Template(cores(64, 0))),), created=99.0)
    snapshot.advance(1.0, jobs={"apart": unrelated})
    assert not decide(snapshot, chosen, memory=memory).evictions
    assert tries["made"] == 1 + 1  # the other one has been tried, and not this one again
    match change:
        case "an ending":
            snapshot.advance(2.0, jobs={"other": remade(other, other.tasks[1:])})
        case "another victim":
            changed = Job("other", "q", other.tasks)
            snapshot.advance(2.0, jobs={"other": changed})
        case "a limit":
            snapshot.advance(2.0, queues=[queues[0]._replace(capability=(("cpus", 8000),)), queues[1]])
        case "the ask":
            smaller = Job("high", "q", (Task("t", one),), priority=5, created=9.0)
            snapshot.advance(2.0, jobs={"high": smaller})
        case _:
            snapshot.advance(2.0, agents={"a1": Agent("a1", cores(5, 1))})
    decisions = decide(snapshot, chosen, memory=memory)
    assert tries["made"] > 1 + 1
    assert len(decisions.evictions) == CHANGES[change]


@pytest.mark.parametrize("make", [hopeless, at_minimum])
def test_the_tries_of_a_round_in_vain_are_not_made_in_the_next_one(
    make: Callable[[int], Snapshot], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: Counter[str] = Counter()
    _count(monkeypatch, tries)
    snapshot, memory = make(20), Memory()
    decide(snapshot, EVERYTHING, memory=memory)
    first = tries["made"]
    assert first > 0
    decide(snapshot, EVERYTHING, memory=memory)
    assert tries["made"] == first


def test_the_memory_of_tries_is_bounded() -> None:
    memory = Memory()
    for number in range(10_000):
        memory.in_vain(number, 0)
    assert not memory.is_vain(0, 0)
    assert memory.is_vain(9_999, 0)
    assert not memory.is_vain(9_999, 1)


def test_agents_on_which_nothing_helps_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of a try that cannot help does not grow with the running tasks in steps of Python."""
    looks: Counter[str] = Counter()
    running_on = Session.running_on

    def counted(session: Session, rank: int) -> object:
        looks["agents"] += 1
        return running_on(session, rank)

    monkeypatch.setattr(Session, "running_on", counted)
    monkeypatch.setattr("offers.policy.session.closing.attempts", lambda *_: {})
    decide(hopeless(50), EVERYTHING)
    decide(at_minimum(50), EVERYTHING)
    assert not looks


def test_a_portion_finds_no_obstacle_for_a_job_with_promised_room() -> None:
    """Earlier portions made the room. Later ones, in which the job has no turn, look for no victims."""
    one = Template((("cpus", 1000),))
    low = Job("low", "q", tuple(Task(f"l{n}", one, Status.RUNNING, "a") for n in range(2)), created=1.0)
    high = Job("high", "q", (Task("h", one),), priority=10, created=2.0)
    large = Job("large", "q", tuple(Task(f"x{n}", one) for n in range(9)), min_available=9, priority=10, created=3.0)
    snapshot = Snapshot([Agent("a", (("cpus", 2000),))], [Queue("q")], [low, high, large], now=100.0)
    found = in_portions(snapshot, ["allocate", "preempt"])
    found += in_portions(snapshot, ["allocate", "preempt"])
    assert len(found) > 2
    assert sum(len(decisions.evictions) for decisions in found) == 1
    promised = [decisions for decisions in found if ("high", "h") in decisions.nominations]
    assert len(promised) > 1
    attempts = [decisions.attempts["high"] for decisions in promised if "high" in decisions.attempts]
    assert [attempt for attempt in attempts if attempt is not None and attempt.met] == []


def unlike(number: int) -> Snapshot:
    """An agent that one queue uses alone, and jobs of another queue that want different amounts of it."""
    work = Job("low", "o", tuple(Task(f"t{n}", Template(cores(1, 0)), Status.RUNNING, "a") for n in range(4)))
    asks = [
        Job(f"w{n:03}", "q", (Task("t", Template((*cores(1, 0)[:1], ("mem", 1 + n)))),), created=1.0 + n)
        for n in range(number)
    ]
    return Snapshot([Agent("a", cores(4, 9))], [Queue("o"), Queue("q")], [work, *asks])


def test_the_first_portions_of_many_unlike_jobs_end_before_all_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shares depend on all jobs, so nothing is decided before; the decisions are the same in the end."""
    asked: list[int] = []
    capacity = Candidates.capacity

    def counted(self: Candidates, *, ever: bool) -> int:
        asked[-1] += ever
        return capacity(self, ever=ever)

    monkeypatch.setattr(Candidates, "capacity", counted)
    memory, number = Memory(), 5 * Portion.EACH
    snapshot, found = unlike(number), list[SessionResult]()
    while not any(one.evictions for one in found):
        asked.append(0)
        found.append(decide(snapshot, EVERYTHING, memory=memory, is_used_up=lambda: True))
    assert max(asked) <= Portion.EACH
    assert sum(asked) == number
    assert found[-1].evictions[0] == decide(unlike(number), EVERYTHING).evictions[0]


def test_jobs_that_were_in_vain_are_passed_over_once_in_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at what is remembered costs a look at the agents; later portions of a round need none."""
    asked = list[Any]()
    is_vain = Memory.is_vain

    def noted(self: Memory, attempt: Any, state: Any) -> bool:
        asked.append(attempt)
        return is_vain(self, attempt, state)

    snapshot, memory = hopeless(20), Memory()
    while decide(snapshot, EVERYTHING, memory=memory, is_used_up=lambda: True).unfinished:
        pass
    monkeypatch.setattr(Memory, "is_vain", noted)
    portions = 1
    while decide(snapshot, EVERYTHING, memory=memory, is_used_up=lambda: True).unfinished:
        portions += 1
    assert portions > 1
    assert max(Counter(asked).values()) == 1


def test_needs_stay_from_session_to_session_until_their_template_is_gone() -> None:
    template, other = Template(cores(1, 0)), Template(cores(2, 0))
    job = Job("j", "q", (Task("t", template),))
    snapshot = Snapshot([Agent("a", cores(2, 0))], [Queue("q")], [job])
    need = snapshot.needs.of(template)
    decide(snapshot, EVERYTHING)
    assert snapshot.needs.of(Template(cores(1, 0))) is need
    snapshot.advance(1.0, jobs={"j": Job("j", "q", (Task("t", other),))})
    snapshot.advance(2.0, jobs={"j": Job("j", "q", (Task("t", template),))})
    assert snapshot.needs.of(template).number == snapshot.templates[template] != need.number
