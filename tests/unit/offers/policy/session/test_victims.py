"""Which tasks a session evicts: limits of queues, the comparison of agents, and that every victim is needed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from offers.policy.session.decisions import SessionResult
from offers.policy.session.kept import Kept, Standing
from offers.policy.session.model import HOLDING, Agent, Job, Nomination, Queue, Status, Task, Template
from offers.policy.session.plugins.proportion import Shares
from offers.policy.session.session import Session, decide
from offers.policy.session.snapshot import Snapshot
from offers.policy.session.state.statements import EVICT, Operation
from tests.effort import share
from tests.unit.offers.policy.session.policy_clusters import ACTIONS, cores, crowded_cluster, policy

EVERYTHING = policy("reclaim", "allocate", "backfill", "preempt")
SEEDS = st.integers(0, 2**32)


def runs(name: str, sizes: Sequence[float], agent: str, **facts: object) -> Job:
    """A job of running tasks of so many cores on one agent."""
    tasks = tuple(Task(f"t{n}", Template(cores(size, 0)), Status.RUNNING, agent) for n, size in enumerate(sizes))
    return Job(name, str(facts.pop("queue", "batch")), tasks, **facts)  # type: ignore[arg-type]


def waits(name: str, sizes: Sequence[float], **facts: object) -> Job:
    """A job of pending tasks, created after the running ones."""
    tasks = tuple(Task(f"t{n}", Template(cores(size, 0))) for n, size in enumerate(sizes))
    return Job(name, str(facts.pop("queue", "batch")), tasks, created=9.0, **facts)  # type: ignore[arg-type]


def evicted(decisions: SessionResult) -> list[str]:
    return [f"{one.job}/{one.task}" for one in decisions.evictions]


# --- limits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("queues", "reasons"),
    [
        ([Queue("batch", capability=(("cpus", 3000),))], {"QueueLimit": 1}),
        ([Queue("batch"), Queue("other", guarantee=cores(1, 0))], {}),
    ],
    ids=["capability", "guarantee of another queue"],
)
def test_a_task_that_its_queue_could_never_hold_evicts_nothing_and_no_room_is_promised_to_it(
    queues: list[Queue], reasons: dict[str, int]
) -> None:
    jobs = [runs("low", [1, 1], "a1"), waits("mid", [4], priority=10)]
    decisions = decide(Snapshot([Agent("a1", cores(4, 1))], queues, jobs), EVERYTHING)
    assert (evicted(decisions), decisions.pipelined) == ([], {})
    assert decisions.conditions["mid"].refusals == reasons
    jobs[1] = waits("mid", [3], priority=10)
    assert evicted(decide(Snapshot([Agent("a1", cores(4, 1))], queues, jobs), EVERYTHING)) == ["low/t1", "low/t0"]


def test_victims_for_a_limit_run_on_any_agent_and_the_task_waits_where_room_is_idle() -> None:
    agents = [Agent("a1", cores(2, 1)), Agent("a2", cores(2, 1))]
    queue = Queue("batch", capability=(("cpus", 2000),))
    decisions = decide(
        Snapshot(agents, [queue], [runs("low", [1, 1], "a1"), waits("high", [1], priority=10)]), EVERYTHING
    )
    assert evicted(decisions) == ["low/t1"]
    assert decisions.pipelined == {("high", "t0"): "a2"}


def test_where_room_and_limit_are_short_victims_of_other_agents_leave_for_the_limit() -> None:
    """On the only possible agent one core leaves for the room; the queue has to lose two more, which run elsewhere."""
    agents = [Agent("a1", cores(4, 1)), Agent("a2", cores(2, 1), schedulable=False)]
    queues = [Queue("batch", capability=(("cpus", 3000),)), Queue("other")]
    jobs = [
        runs("there", [1], "a1"),
        runs("elsewhere", [2], "a2", priority=1),
        runs("theirs", [2], "a1", queue="other", priority=20),
        waits("high", [2], priority=10),
    ]
    decisions = decide(Snapshot(agents, queues, jobs), policy("preempt"))
    assert evicted(decisions) == ["there/t0", "elsewhere/t0"]
    assert decisions.pipelined == {("high", "t0"): "a1"}


def test_tasks_of_a_job_that_is_not_valid_count_for_the_limit_and_the_share_of_their_queue() -> None:
    """A gang that has lost a member is outside of the session until its next member is there. Its others still run."""
    agents, theirs = [Agent("a1", cores(4, 1))], Queue("theirs")
    jobs = [
        runs("gang", [1, 1], "a1", min_available=3),
        runs("others", [1, 1], "a1", queue="theirs"),
        waits("more", [1]),
    ]
    limited = [Queue("batch", capability=(("cpus", 2000),)), theirs]
    assert evicted(decide(Snapshot(agents, limited, jobs), EVERYTHING)) == []
    jobs[2] = waits("more", [1], queue="theirs")
    decisions = decide(Snapshot(agents, [Queue("batch"), theirs], jobs), EVERYTHING)
    assert evicted(decisions) == []
    assert (decisions.deserved["batch"]["cpus"], decisions.allocated["batch"]["cpus"]) == (2000, 2000)


def test_a_job_for_which_nothing_is_evicted_now_takes_no_idle_room_from_others() -> None:
    """Else `small` evicts a task as well, and `big` does not use the idle room."""
    agents, queues = [Agent("a1", cores(6, 1))], [Queue("batch"), Queue("theirs")]
    jobs = [
        runs("low", [1, 1, 1, 1], "a1", queue="theirs"),
        waits("big", [3], priority=5),
        waits("small", [2]),
    ]
    snapshot = Snapshot(agents, queues, jobs)
    assert evicted(decide(snapshot, EVERYTHING)) == ["low/t3"]
    decisions = decide(snapshot, EVERYTHING, closed={"big"})
    assert (evicted(decisions), decisions.pipelined) == ([], {})
    assert [(bind.job, bind.task) for bind in decisions.binds] == [("small", "t0")]
    assert evicted(decide(snapshot, EVERYTHING, closed={"big", "small"})) == []


def test_work_with_a_reservation_that_makes_room_gets_none_from_the_session() -> None:
    """Else both would make the same room (seed 22063 of `fair-session`). Other tasks of the job get theirs (22106)."""
    jobs = [runs("low", [1, 1, 1, 1], "a1"), waits("old", [1, 1], priority=9)]
    snapshot = Snapshot([Agent("a1", cores(4, 1))], [Queue("batch")], jobs)
    standing = Standing("batch", 9, is_owed=False, is_entitled=False)
    kept = Kept({"a1": {"cpus": 0}}, {"a1": {"cpus": 1000}}, standing, frozenset({"old"}))
    assert evicted(decide(snapshot, policy("preempt", "reclaim"), kept=kept)) == ["low/t3"]
    served = kept._replace(served=frozenset({("old", "t0")}))
    decisions = decide(snapshot, policy("preempt", "reclaim"), kept=served)
    assert evicted(decisions) == ["low/t3"] and list(decisions.pipelined) == [("old", "t1")]
    served = kept._replace(served=frozenset({("old", "t0"), ("old", "t1")}))
    assert evicted(decide(snapshot, policy("preempt", "reclaim"), kept=served)) == []


def test_a_victim_of_one_action_stays_if_those_of_the_next_one_suffice() -> None:
    """`preempt` frees one core too many, which the victim of `reclaim` needs (seed 22092 of `fair-session`)."""
    agents, queues = [Agent("a1", cores(4, 1))], [Queue("batch", weight=3), Queue("theirs")]
    jobs = [
        runs("low", [2], "a1"),
        runs("far", [1, 1], "a1", queue="theirs"),
        waits("high", [1], priority=9),
        waits("mid", [1], priority=5),
    ]
    snapshot = Snapshot(agents, queues, jobs)
    assert evicted(decide(snapshot, policy("reclaim"))) == ["far/t1"]
    for actions in (("reclaim", "preempt"), ("reclaim", "allocate", "preempt")):
        decisions = decide(snapshot, policy(*actions))
        assert evicted(decisions) == ["low/t0"]
        assert decisions.pipelined == {("high", "t0"): "a1", ("mid", "t0"): "a1"}


def test_a_gang_keeps_its_promises_while_another_member_is_leaving_for_another_agent() -> None:
    """Else others use the room until the gang can be complete again, and are ended for it (seed 22161 of
    `fair-session`)."""
    one = Template(cores(1, 0))
    tasks = [
        Task("stays", one, Status.RUNNING, "a1"),
        Task("moves", one, Status.RELEASING, "a1", moves=True),
        Task("has left", one, nomination=Nomination("a2", 100.0)),
    ]
    agents = [Agent("a1", cores(2, 1)), Agent("a2", cores(1, 1))]
    jobs = [Job("gang", "batch", tuple(tasks), min_available=3, priority=5), waits("small", [1])]
    decisions = decide(Snapshot(agents, [Queue("batch")], jobs), EVERYTHING)
    assert (decisions.binds, evicted(decisions)) == ((), [])
    assert decisions.pipelined == {("gang", "has left"): "a2"}


def test_nothing_is_evicted_for_others_where_more_has_to_end_for_old_work() -> None:
    """Else `mid` ends a victim of the old work, which then has to end `mid` in its place."""
    agents = [Agent("a1", cores(4, 1), foreign=cores(1, 0)), Agent("a2", cores(1, 1))]
    jobs = [
        runs("low", [1, 1, 1], "a1"),
        runs("dear", [1], "a2", priority=2),
        waits("old", [3], priority=9),
        waits("mid", [1], priority=5),
    ]
    snapshot, decides = Snapshot(agents, [Queue("batch")], jobs), policy("preempt")
    standing = Standing("batch", 9, is_owed=False, is_entitled=False)
    kept = Kept({"a1": {"cpus": 1000}}, {"a1": {"cpus": 2000}}, standing, frozenset({"old"}))
    assert evicted(decide(snapshot, decides, kept=kept, closed={"old"})) == ["dear/t0"]
    complete = kept._replace(lacks={"a1": {"cpus": 0}})
    assert evicted(decide(snapshot, decides, kept=complete, closed={"old"})) == ["low/t2"]
    better = kept._replace(standing=standing._replace(priority=4))
    assert evicted(decide(snapshot, decides, kept=better, closed={"old"})) == []  # it uses the room


def test_a_limit_counts_the_victims_of_the_statement_only_once() -> None:
    """Two tasks of a gang need two victims: the room below the limit that the first one makes is used up."""
    agents = [Agent("a1", cores(8, 1))]
    queue = Queue("batch", capability=(("cpus", 4000),))
    jobs = [runs("low", [1, 1, 1, 1], "a1"), waits("high", [1, 1], priority=10, min_available=2)]
    decisions = decide(Snapshot(agents, [queue], jobs), EVERYTHING)
    assert evicted(decisions) == ["low/t3", "low/t2"]


@given(SEEDS, st.permutations(ACTIONS))
@settings(max_examples=share(120), deadline=None)
def test_no_queue_gets_more_than_its_limit_by_evictions(seed: int, actions: list[str]) -> None:
    """With all victims gone and all tasks placed, each dimension that a placed task asks for is within the limit."""
    session = Session(crowded_cluster(seed).snapshot(), policy(*actions))
    session.run()
    limits = Shares(session).limits
    for queue in session.queues.values():
        for job in queue.jobs:
            for position in job.placed:
                for d, _ in session.needs.of(job.job.tasks[position].template).row:
                    assert queue.allocated[d] <= limits[queue.name][d]


@pytest.mark.parametrize(
    ("limit", "others"),
    [((("cpus", 3000),), [waits("high", [1], priority=9)]), ((), [waits("theirs", [3], queue="theirs")])],
    ids=["limit", "share"],
)
def test_a_task_that_has_left_another_agent_keeps_its_part_of_the_limit_and_the_share_of_its_queue(
    limit: tuple[tuple[str, int], ...], others: list[Job]
) -> None:
    one = Template(cores(1, 0))
    running = tuple(Task(f"t{number}", one, Status.RUNNING, "a1") for number in range(2))
    queues = [Queue("batch", capability=limit), Queue("theirs")]
    for moves in (False, True):
        moved = Job("moved", "batch", (*running, Task("moved", one, moves=moves)))
        snapshot = Snapshot([Agent("a1", cores(4, 1))], queues, [moved, *others])
        binds = [(bind.job, bind.task) for bind in decide(snapshot, policy("allocate")).binds]
        assert (("moved", "moved") in binds) is moves


@pytest.mark.parametrize("actions", ["reclaim, allocate", "preempt, allocate"])
def test_nothing_is_evicted_for_the_part_of_the_limit_that_a_task_keeps_which_has_left_another_agent(
    actions: str,
) -> None:
    """Its drain found no place for it (seed 24957 of the world `fair-session`, I85)."""
    queues = [Queue("batch", weight=9, capability=(("cpus", 3000),)), Queue("theirs")]
    moved = Job("moved", "batch", (Task("moved", Template(cores(1, 0)), moves=True),), created=9.0)
    other = waits("other", [3], priority=9)
    theirs = runs("theirs", [3], "a1", queue="theirs")
    low = runs("low", [2], "a1", queue="batch")
    jobs = [moved, other, theirs if actions.startswith("reclaim") else low]
    found = decide(Snapshot([Agent("a1", cores(3, 1)), Agent("a2", cores(1, 1))], queues, jobs), policy(actions))
    assert [(bind.job, bind.task) for bind in found.binds] == [("moved", "moved")]
    assert found.evictions == ()


def test_tasks_that_have_left_another_agent_come_neither_before_promises_nor_with_further_tasks_of_their_job() -> None:
    """Otherwise the victims that have made room below the limit would have ended in vain (seed 22046)."""
    one = Template(cores(1, 0))
    queue = Queue("batch", capability=(("cpus", 1000),))
    moved = Job("moved", "batch", (Task("moved", one, moves=True), Task("further", one)))
    promised = Job("high", "batch", (Task("t", one, nomination=Nomination("a1", 100.0)),), priority=9)
    found = decide(Snapshot([Agent("a1", cores(4, 1))], [queue], [moved, promised]), policy("allocate"))
    assert [(bind.job, bind.task) for bind in found.binds] == [("high", "t")]
    moved = Job("moved", "batch", (Task("moved", Template(cores(9, 0)), moves=True), Task("further", one)))
    waiting = [moved, waits("high", [1], priority=9)]
    found = decide(Snapshot([Agent("a1", cores(4, 1))], [queue], waiting), policy("allocate"))
    assert [(bind.job, bind.task) for bind in found.binds] == [("high", "t0")]


# --- which agent --------------------------------------------------------------------------------------------------

CASES = {
    "the highest priority of a victim first": ([("p5", [2], 5)], [("p1", [1, 1], 1)], 2, ["p1/t1", "p1/t0"]),
    "then their number": ([("one", [1, 1], 1)], [("two", [2], 1)], 2, ["two/t0"]),
    "then their amounts": ([("large", [2], 1)], [("small", [1, 1], 1)], 1, ["small/t1"]),
    "then the agent": ([("first", [1, 1], 1)], [("second", [1, 1], 1)], 1, ["first/t1"]),
}


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
@pytest.mark.parametrize("case", CASES)
def test_agents_are_compared_by_what_the_victims_cost(case: str, action: str) -> None:
    """The agent `a1` comes first by its score, and its victims are dearer in all cases but the last."""
    on_first, on_second, size, wanted = CASES[case]
    agents = [Agent("a1", cores(2, 1)), Agent("a2", cores(2, 1))]
    jobs = [
        runs(name, sizes, agent, priority=rank)
        for agent, there in (("a1", on_first), ("a2", on_second))
        for name, sizes, rank in there
    ]
    queue = "batch" if action == "preempt" else "other"
    jobs.append(waits("new", [size], priority=9, queue=queue))
    decisions = decide(Snapshot(agents, [Queue("batch"), Queue("other")], jobs), policy(action))
    assert evicted(decisions) == wanted


@pytest.mark.parametrize("action", ["preempt", "reclaim"])
def test_tasks_that_are_not_ready_leave_before_all_others(action: str) -> None:
    """On their agent, and among agents, although their job is more important."""
    agents = [Agent("a1", cores(2, 1)), Agent("a2", cores(2, 1))]
    one = Template(cores(1, 0))
    jobs = [
        runs("low", [1, 1], "a1"),
        Job(
            "starts",
            "batch",
            (Task("t0", one, Status.RUNNING, "a2", ready=False), Task("t1", one, Status.RUNNING, "a2")),
            priority=5,
        ),
        waits("new", [1], priority=9, queue="batch" if action == "preempt" else "other"),
    ]
    decisions = decide(Snapshot(agents, [Queue("batch"), Queue("other")], jobs), policy(action))
    assert evicted(decisions) == ["starts/t0"]


def test_idle_room_costs_less_than_any_victim() -> None:
    """A gang waits where room is idle, although the agent with victims has the better score."""
    agents = [Agent("a1", cores(4, 9)), Agent("a2", cores(1, 1))]
    jobs = [runs("low", [1, 1, 1, 1], "a1"), waits("gang", [1, 1], priority=9, min_available=2)]
    decisions = decide(Snapshot(agents, [Queue("batch")], jobs), policy("preempt"))
    assert len(evicted(decisions)) == 1 and set(decisions.pipelined.values()) == {"a1", "a2"}


# --- no more than needed ------------------------------------------------------------------------------------------


def test_small_victims_stay_if_a_larger_one_must_leave_anyway() -> None:
    """The least important tasks are taken first, and do not suffice; with the larger one they are not needed."""
    jobs = [
        runs("small", [1], "a1"),
        runs("large", [3], "a1", priority=1),
        waits("new", [3], priority=9),
    ]
    decisions = decide(Snapshot([Agent("a1", cores(4, 1))], [Queue("batch")], jobs), EVERYTHING)
    assert evicted(decisions) == ["large/t0"]


def test_a_victim_is_given_back_that_a_later_task_of_the_gang_makes_needless() -> None:
    """The first task takes the core of `small`. The second one needs all of `large`, which leaves room for both."""
    agents = [Agent("a1", cores(5, 1))]
    jobs = [
        runs("small", [1], "a1"),
        runs("large", [4], "a1", priority=1),
        Job(
            "gang",
            "batch",
            (Task("t0", Template(cores(1, 0)), priority=5), Task("t1", Template(cores(3, 0)))),
            min_available=2,
            priority=9,
            created=9.0,
        ),
    ]
    decisions = decide(Snapshot(agents, [Queue("batch")], jobs), EVERYTHING)
    assert evicted(decisions) == ["large/t0"]


@pytest.mark.parametrize("action", ["preempt", "reclaim", "within"])
@given(seed=SEEDS)
@example(seed=36398)
@settings(max_examples=share(120), deadline=None)
def test_every_victim_is_needed(action: str, seed: int) -> None:
    """If any single victim stayed, its agent would have too little room, or its queue would exceed its limit. Tasks
    that `reclaim` leaves to `allocate`, because they fit idle room, keep this room here."""
    cluster = crowded_cluster(seed)
    chosen = policy("preempt" if action == "within" else action)
    if action == "within":
        action_of = chosen.actions[0]
        arguments = {**action_of.arguments, "withinJobs": True}
        chosen = chosen._replace(actions=(action_of._replace(arguments=arguments),))
    session = Session(cluster.snapshot(), chosen)
    plain = session.changes.take_back

    def take_back(operation: Operation) -> None:
        if operation.kind == EVICT:
            plain(operation)

    session.changes.take_back = take_back  # type: ignore[method-assign]
    session.run()
    decisions = session.close()
    limits = Shares(session).limits
    gone = {(one.job, one.task) for one in decisions.evictions}
    assert not gone & {(job, task) for job, task in decisions.pipelined}
    for one in decisions.evictions:
        job = session.jobs[one.job]
        request = session.needs.of(job.job.tasks[job.job.position(one.task)].template).row
        rank = session.snapshot.rank[one.agent]
        too_little = any(session.agents.future[d][rank] < amount for d, amount in request)
        allocated = job.queue.allocated
        wanted = {
            d
            for other in job.queue.jobs
            for position in other.placed
            for d, _ in session.needs.of(other.job.tasks[position].template).row
        }
        above = any(allocated[d] + amount > limits[job.queue.name][d] for d, amount in request if d in wanted)
        assert too_little or above or any(allocated[d] > limits[job.queue.name][d] for d in wanted)


@given(SEEDS, st.sampled_from([("preempt",), ("reclaim",), ("reclaim", "allocate", "preempt")]))
@settings(max_examples=share(120), deadline=None)
def test_victims_leave_each_gang_its_minimum_and_the_beneficiary_reaches_its_own(
    seed: int, actions: tuple[str, ...]
) -> None:
    cluster = crowded_cluster(seed)
    decisions = decide(cluster.snapshot(), policy(*actions))
    for job in cluster.jobs:
        ready = sum(task.status in HOLDING for task in job.tasks)
        lost = sum(one.job == job.name for one in decisions.evictions)
        placed = sum(key[0] == job.name for key in decisions.pipelined)
        placed += sum(bind.job == job.name for bind in decisions.binds)
        if lost and job.min_available > 1:
            assert ready - lost >= job.min_available
        if any(one.beneficiary == job.name for one in decisions.evictions):
            assert ready - lost + placed >= job.min_available


def test_within_a_job_a_task_takes_the_room_of_less_important_tasks_only_if_the_policy_says_so() -> None:
    def job(priority: int) -> Job:
        tasks = (
            Task("equal", Template(cores(2, 0)), Status.RUNNING, "a1", priority=5),
            Task("low", Template(cores(2, 0)), Status.RUNNING, "a1"),
            Task("new", Template(cores(2, 0)), priority=priority),
        )
        return Job("one", "batch", tasks)

    plain = policy("preempt")
    (choice,) = plain.actions
    within = plain._replace(actions=(choice._replace(arguments={**choice.arguments, "withinJobs": True}),))
    for chosen, priority, leaves in ((within, 5, ["one/low"]), (within, 0, []), (plain, 5, [])):
        snapshot = Snapshot([Agent("a1", cores(4, 1))], [Queue("batch")], [job(priority)])
        assert evicted(decide(snapshot, chosen)) == leaves
