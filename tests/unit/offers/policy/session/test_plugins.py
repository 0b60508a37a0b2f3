"""Plug-ins of third parties: what they may do, and that their faults are theirs alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from offers.policy.session.configuration import Registry, policy_of
from offers.policy.session.decisions import SessionResult
from offers.policy.session.memory import Memory
from offers.policy.session.model import Agent, Job, Queue, Status, Task, Template
from offers.policy.session.plugins.interface import Argument, Functions, Verdict
from offers.policy.session.policy import Policy
from offers.policy.session.session import decide
from offers.policy.session.snapshot import Snapshot
from offers.policy.session.state.statements import ALLOCATE
from tests.unit.offers.policy.session.policy_clusters import TIERS, cores

ONE = Template(cores(1, 1000))


class Other:
    """A plug-in made of functions."""

    arguments: Mapping[str, Argument] = {}

    def __init__(
        self,
        name: str = "other",
        *,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        **more: Callable[..., Any],
    ) -> None:
        """`functions`: by name, beside those that are given as keyword arguments."""
        self.name, self.functions = name, {**(functions or {}), **more}
        self.opened = 0

    def open(self, session: Any, arguments: Any) -> Functions:
        self.opened += 1
        return Functions(**self.functions)  # type: ignore[arg-type]


class Action:
    """An action of a third party."""

    name = "special"
    arguments: Mapping[str, Argument] = {}

    def __init__(self, run: Callable[[Any], None]) -> None:
        self._run = run

    def run(self, session: Any, arguments: Any) -> None:
        self._run(session)


def chosen(
    *others: Other, actions: str = "allocate, preempt", switches: Any = None, session: Any = None, first: bool = False
) -> Policy:
    ours = [{"plugins": [{"name": name} for name in tier]} for tier in TIERS]
    theirs = [{"plugins": [{"name": other.name, **(switches or {})} for other in others]}]
    document = {
        "actions": actions,
        "tiers": theirs + ours if first else ours + theirs,
        "session": session or {},
    }
    return policy_of(document, Registry(others))


def snapshot(agents: int = 3, jobs: int = 2, tasks: int = 2, running: bool = False) -> Snapshot:
    made = [
        Job(f"j{n}", "q", tuple(Task(f"t{k}", ONE, created=float(k)) for k in range(tasks)), created=float(n))
        for n in range(jobs)
    ]
    if running:
        made.append(Job("low", "q", (Task("t", ONE, Status.RUNNING, "a0"),), priority=-1))
    return Snapshot([Agent(f"a{n}", cores(2, 8000)) for n in range(agents)], [Queue("q")], made)


def places(decisions: SessionResult) -> dict[str, str]:
    return {f"{bind.job}/{bind.task}": bind.agent for bind in decisions.binds}


def boom(*_: Any) -> Any:
    raise RuntimeError("it broke")


def test_orders_predicates_and_scores_of_others_count() -> None:
    last_first = Other(
        job_order=lambda job: -job.number,
        task_order=lambda job, task: -task.created,
        predicate=lambda template, view: "Odd" if view.agent.name == "a1" else None,
        node_order=lambda template, view: 100 if view.agent.name == "a2" else view.idle["cpus"] // 1000,
    )
    policy = policy_of(
        {"actions": "allocate", "tiers": [{"plugins": [{"name": "other"}, {"name": "predicates"}]}]},
        Registry([last_first]),
    )
    decisions = decide(snapshot(), policy)
    assert list(places(decisions).items()) == [("j1/t1", "a2"), ("j1/t0", "a2"), ("j0/t1", "a0"), ("j0/t0", "a0")]
    hopeless = decide(snapshot(agents=2, jobs=1, tasks=4), chosen(last_first))
    assert hopeless.conditions["j0"].type == "Scheduled"


def test_a_predicate_of_others_is_counted_in_the_refusals() -> None:
    other = Other(predicate=lambda template, view: "Odd" if view.agent.name < "a2" else None)
    job = Job("j", "q", tuple(Task(f"t{n}", ONE) for n in range(3)), min_available=3)
    decisions = decide(Snapshot(snapshot().agents, [Queue("q")], [job]), chosen(other))
    condition = decisions.conditions["j"]
    assert condition.reason == "NotEnoughResources"
    assert condition.refusals == {"Odd": 2}
    assert condition.message == "3/3 tasks in gang unschedulable: 2 Odd"


@pytest.mark.parametrize(
    ("switch", "function"),
    [
        ("enableJobOrder", "job_order"),
        ("enableQueueOrder", "queue_order"),
        ("enableTaskOrder", "task_order"),
        ("enablePredicate", "predicate"),
        ("enableNodeOrder", "node_order"),
        ("enablePreemptable", "preemptable"),
        ("enableReclaimable", "reclaimable"),
        ("enableJobReady", "job_ready"),
        ("enableJobPipelined", "job_pipelined"),
    ],
)
def test_a_switch_turns_off_one_function(switch: str, function: str) -> None:
    every = dict.fromkeys(FUNCTIONS, boom)
    only = decide(snapshot(running=True), chosen(Other(functions={function: boom}), switches={switch: False}))
    assert only.faults == ()
    rest = Other(functions={name: call for name, call in every.items() if name != function})
    assert decide(snapshot(running=True), chosen(rest, switches={switch: False})).faults


FUNCTIONS = (
    "job_order", "queue_order", "task_order", "predicate", "node_order", "preemptable", "reclaimable", "overused",
    "room", "allocatable", "job_valid", "job_ready", "job_pipelined", "on_allocate", "on_deallocate",
)  # fmt: skip
REACHED = [name for name in FUNCTIONS if name not in ("reclaimable", "allocatable", "on_deallocate", "preemptable")]


@pytest.mark.parametrize("on_fault", ["skip", "repeat"])
@pytest.mark.parametrize("function", REACHED)
def test_a_plugin_that_raises_is_named_and_the_session_goes_on_without_it(function: str, on_fault: str) -> None:
    gang = Job("gang", "q", tuple(Task(f"t{n}", ONE) for n in range(9)), min_available=9)
    state = snapshot()
    state = Snapshot(state.agents, state.queues, [*state.jobs.values(), gang])
    other = Other(functions={function: boom})
    decisions = decide(state, chosen(other, session={"onPluginFault": on_fault}, first=True))
    assert [(fault.plugin, fault.function, fault.cause) for fault in decisions.faults] == [
        ("other", function, "RuntimeError: it broke")
    ]
    without = decide(state, chosen(Other(), first=True))
    assert decisions._replace(faults=()) == without
    assert other.opened == 1


def test_a_plugin_that_fails_in_the_middle_of_a_session_is_out_from_then_on() -> None:
    asked: list[str] = []

    def fails_late(template: Template, view: Any) -> int:
        asked.append(view.agent.name)
        if len(asked) == 5:
            raise KeyError("late")
        return 100 if view.agent.name == "a2" else 0

    decisions = decide(snapshot(), chosen(Other(node_order=fails_late)))
    assert len(asked) == 5
    assert decisions.faults[0].cause == "KeyError: 'late'"
    assert len(decisions.binds) == 4
    repeated = decide(snapshot(), chosen(Other(node_order=boom), session={"onPluginFault": "repeat"}))
    assert places(repeated) == places(decide(snapshot(), chosen(Other())))


def test_a_session_that_is_repeated_gives_each_job_its_turn_again() -> None:
    agents = [Agent(f"a{n}", cores(1, 8000)) for n in range(3)]
    low = [Job(f"low{n}", "q", (Task("t", ONE, Status.RUNNING, f"a{n}"),), priority=-1) for n in range(3)]
    high = [Job(f"high{n}", "q", (Task("t", ONE),), created=float(n)) for n in range(3)]
    state = Snapshot(agents, [Queue("q")], [*low, *high])
    asked: list[Any] = []

    def fails_late(claim: Any, candidates: list[Any]) -> list[Any]:
        asked.append(claim)
        if len(asked) == 3:
            raise KeyError("late")
        return candidates

    policy = chosen(Other(preemptable=fails_late), session={"onPluginFault": "repeat"}, first=True)
    decisions = decide(state, policy, memory=Memory())
    assert decisions.faults
    assert {eviction.beneficiary for eviction in decisions.evictions} == {"high0", "high1", "high2"}


@pytest.mark.parametrize(
    ("function", "answer", "cause"),
    [
        ("predicate", 7, "it returned int"),
        ("node_order", "high", "it returned str"),
        ("overused", None, "it returned NoneType"),
        ("job_valid", "no", "it returned str"),
        ("room", 1.5, "it returned float"),
    ],
)
def test_an_answer_of_the_wrong_kind_is_a_fault(function: str, answer: Any, cause: str) -> None:
    decisions = decide(snapshot(), chosen(Other(functions={function: lambda *_: answer})))
    assert [fault.cause for fault in decisions.faults] == [cause]
    assert len(decisions.binds) == 4


def test_keys_that_cannot_be_compared_are_a_fault_of_their_plugin() -> None:
    decisions = decide(snapshot(), chosen(Other(job_order=lambda job: job.number if job.number else "first")))
    (fault,) = decisions.faults
    assert (fault.plugin, fault.function) == ("other", "job_order")
    assert "TypeError" in fault.cause
    assert len(decisions.binds) == 4


def test_a_slow_plugin_is_out_when_its_time_is_used_up() -> None:
    now = [0.0]

    def slow(template: Template, view: Any) -> None:
        now[0] += 0.4

    policy = chosen(Other(predicate=slow), session={"pluginSeconds": 1})
    decisions = decide(snapshot(), policy, clock=lambda: now[0])
    assert [fault.cause for fault in decisions.faults] == ["its calls took 1.200 s, more than 1 s"]
    assert now[0] == pytest.approx(1.2)
    assert len(decisions.binds) == 4
    assert decide(snapshot(), policy).faults == ()


def test_a_plugin_that_opens_with_something_else_is_a_fault() -> None:
    other = Other()
    other.open = lambda session, arguments: None  # type: ignore[method-assign,assignment,return-value]
    (fault,) = decide(snapshot(), chosen(other)).faults
    assert (fault.function, fault.cause) == ("open", "it returned NoneType and no Functions")


def test_an_objection_of_others_keeps_a_job_out() -> None:
    other = Other(job_valid=lambda job: Verdict("TooYoung", "wait a little") if job.name == "j0" else None)
    decisions = decide(snapshot(), chosen(other))
    assert {bind.job for bind in decisions.binds} == {"j1"}
    assert decisions.conditions["j0"][:3] == ("Unschedulable", "TooYoung", "wait a little")


def test_handlers_hear_of_every_task_once() -> None:
    heard: list[tuple[str, int, int]] = []
    other = Other(on_allocate=lambda job, position, rank: heard.append((job.name, position, rank)))
    decisions = decide(snapshot(), chosen(other))
    assert [(job, f"t{position}") for job, position, _ in heard] == [(b.job, b.task) for b in decisions.binds]


def test_an_action_of_others_decides_and_a_failing_one_leaves_nothing_behind() -> None:
    def place_one(session: Any) -> None:
        job = session.jobs["j1"]
        position = session.pending(job)[0]
        need = session.needs.of(job.job.tasks[position].template)
        statement = session.statement(job)
        statement.apply(ALLOCATE, job, need, position, 2)
        statement.commit()

    def fails(session: Any) -> None:
        place_one(session)
        job = session.jobs["j0"]
        statement = session.statement(job)
        statement.apply(ALLOCATE, job, session.needs.of(ONE), 0, 1)
        raise OSError("no more")

    one = decide(snapshot(), with_action("special", place_one))
    assert places(one) == {"j1/t0": "a2"}
    failed = decide(snapshot(), with_action("special, allocate", fails))
    assert [(fault.plugin, fault.function, fault.cause) for fault in failed.faults] == [
        ("special", "run", "OSError: no more")
    ]
    assert len(failed.binds) == 4 and failed.pipelined == {}


def with_action(actions: str, run: Callable[[Any], None]) -> Policy:
    tiers = [{"plugins": [{"name": name} for name in tier]} for tier in TIERS]
    return policy_of({"actions": actions, "tiers": tiers}, Registry(actions=[Action(run)]))
