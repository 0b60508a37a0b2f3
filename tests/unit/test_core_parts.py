"""An unexpected error in any step of any part of the core: the term goes on, and the part works again afterwards.

Parts and steps are not listed here: they are those that the core calls.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core import controllers, parts, run_times
from bcs_scheduler.core import requests as handlers
from bcs_scheduler.core.context import ERRORS_AT_ONCE, RETRY, TurnContext
from bcs_scheduler.core.controllers.cluster.loss_guard import LossGuard
from bcs_scheduler.core.controllers.managed.applications import ManagedApplications
from bcs_scheduler.core.controllers.services import Services
from bcs_scheduler.core.interface import cluster_manager, effects, leased, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.parts import LONGEST_REST, LONGEST_RETRY, ControllerPart, GuardedGate, Part
from offers.agents import ListedAgent
from offers.policy.session.configuration import default_policy
from store.records import ConfigMap, Namespace, Queue, Quota, Service, Transaction
from store.state.validation import validate
from tests.unit.lab import START, Lab, running, version
from transactions.base import Failure, Step
from transactions.rules.gangs import FAILED

StepName = tuple[str, str]
"""The name of a part and of its step."""
ALWAYS = 10**9
SHORT_REST = 8.0
"""Longest rest of parts in these tests, in seconds."""
AGENTS = ("agent-1", "agent-2")
PLAIN = CoreOptions()


class Broken(Exception):
    pass


class Faults:
    """Counts the steps of all parts, and lets one of them fail."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.called: Counter[StepName] = Counter()
        self.failed = 0
        self.step: StepName | None = None
        self.left = 0
        self.late = False
        """The step fails after its work, not before."""
        honest = Part._try

        def run(part: Part, step: str, work: Callable[[], Any]) -> Any:
            self.called[part.name, step] += 1
            return honest(part, step, lambda: self._work((part.name, step), work))

        patch.setattr(Part, "_try", run)

    def _work(self, step: StepName, work: Callable[[], Any]) -> Any:
        broken = step == self.step and self.left > 0
        result = work() if not broken or self.late else None
        if broken:
            self.left -= 1
            self.failed += 1
            raise Broken
        return result

    def begin(self, step: StepName, times: int, *, late: bool) -> None:
        self.called.clear()
        self.step, self.left, self.failed, self.late = step, times, 0, late


class Bench(Lab):
    """A lab in which errors are no failures of the test, with all effects of its life."""

    def __init__(self, records: Any = (), now: float = START, options: CoreOptions = PLAIN) -> None:
        self.seen: list[effects.Effect] = []
        super().__init__(options, records, now)

    def turn(self, *batch: Any) -> list[effects.Effect]:
        self.seen += super().turn(*batch)
        return self.out

    def list_agents(self) -> None:
        listed = tuple(
            ListedAgent(id=one, hostname=f"host-of-{one}", ip="10.0.0.1", attributes={"InnerIP": one}) for one in AGENTS
        )
        self.turn(cluster_manager.AgentsListed(agents=listed))

    def reach(self, goal: Callable[[], bool]) -> None:
        """Offers room, lets tasks start and end, until the goal is reached; within ten minutes."""
        for _ in range(60):
            if goal():
                return
            for agent in AGENTS:
                if not any(offer.agent_id == agent for offer in self.core.offers()):
                    self.offer(agent)
            self.wait(10.0)
            for group in [g for g in self.core.state.taskgroups.values() if not g.ended]:
                if group.killing_since:
                    self.report(group, "KILLED")
                elif not group.started:
                    self.report(group, "RUNNING")
        assert goal()

    def live(self, name: str) -> int:
        groups = self.core.state.groups_of(f"default/{name}").values()
        return sum(not group.ended and group.status == "Running" for group in groups)

    def members(self) -> int:
        endpoint = self.core.state.endpoints.get("default/all")
        return len(endpoint.members) if endpoint is not None else 0

    def launch(self, name: str, instances: int, tier: str = "all") -> None:
        wanted = msgspec.structs.replace(version(instances, labels={"tier": tier}), application=name)
        reply = self.ask(requests.CreateApplication(token=7, version=wanted))
        assert not reply.error, reply.message

    def remove(self, name: str) -> None:
        reply = self.ask(requests.DeleteApplication(token=8, namespace="default", name=name))
        assert not reply.error, reply.message


def begun(options: CoreOptions = PLAIN) -> Bench:
    """Two applications run, one is being launched, one is being ended; a service selects all of them."""
    lab = Bench(options=options)
    service = Service(namespace="default", name="all", selector={"tier": "all"})
    assert not lab.ask(requests.PutService(token=1, service=service)).error
    for name in ("web", "leaving"):
        lab.launch(name, 2)
    lab.list_agents()
    lab.reach(lambda: lab.live("web") == lab.live("leaving") == 2)
    lab.remove("leaving")
    lab.launch("coming", 1)
    return lab


def go_on(lab: Bench) -> None:
    """A piece of a life in which every part has something to do: its agents, its connection, work and time."""
    lab.list_agents()
    lab.turn(cluster_manager.Disconnected(reason="test"))
    lab.turn(cluster_manager.Connected(framework_id="framework", cluster="dc1.example.com"))
    lab.list_agents()
    lab.launch("other", 1)
    lab.wait(2.0)


def finish(lab: Bench) -> None:
    """Everything that was wanted is there, and all of it can be changed."""
    lab.reach(lambda: lab.live("web") == 2 and lab.live("coming") == lab.live("other") == 1)
    lab.reach(lambda: "default/leaving" not in lab.core.state.applications)
    lab.reach(lambda: lab.members() == 4)
    assert not lab.scale(3).error
    lab.reach(lambda: lab.live("web") == 3 and lab.members() == 5)
    lab.remove("web")
    lab.reach(lambda: "default/web" not in lab.core.state.applications and lab.members() == 2)
    assert [words for words in validate(lab.core.state) if "default/spoilt" not in words] == []


def steps() -> list[StepName]:
    """The steps that the core calls in the life that the tests use."""
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(patch)
        go_on(begun())
        return sorted(faults.called)


STEPS = steps()


def test_the_life_has_every_step_of_every_part() -> None:
    """A part without a step here would not be tested."""
    core = begun().core
    for part in core.parts:
        known = {step for name, step in STEPS if name == part.name}
        assert "notice" in known or part._notice is None
        assert "recover" in known or part is core._offers, "the offers begin with the engine"
        assert not isinstance(part, ControllerPart) or "tick" in known or part is core._endpoints
    assert {("engine", "settle"), ("offers", "place"), ("offers", "tick"), ("services", "flush")} <= set(STEPS)
    assert {name for name, _ in STEPS} == {part.name for part in core.parts}


def test_every_controller_is_a_part() -> None:
    """Everything below core/controllers and core/requests, and the count of running times, that follows records is
    called by the guarded function, or by a controller."""
    core = begun().core
    parts = [one.controller for one in core.parts if isinstance(one, ControllerPart)]
    known = {type(one) for one in (*parts, core._offer_manager)}
    known |= {type(rooms) for one in parts if isinstance(one, ManagedApplications) for rooms in one._placeholders}
    found = set()
    folders = (controllers, handlers)
    below = chain(*(pkgutil.walk_packages(one.__path__, f"{one.__name__}.") for one in folders))
    for name in (run_times.__name__, *(module.name for module in below)):
        for _, one in inspect.getmembers(importlib.import_module(name), inspect.isclass):
            methods = all(hasattr(one, method) for method in ("recover", "notice", "tick", "next_timer"))
            if methods and one.__module__ == name and not getattr(one, "_is_protocol", False):
                found.add(one)
    assert found == known


@pytest.mark.parametrize("late", [False, True], ids=["before its work", "after its work"])
@pytest.mark.parametrize("step", [one for one in STEPS if one[1] != "recover"], ids="-".join)
def test_a_step_that_fails_once_is_undone_and_reported_and_its_part_made_anew(
    step: StepName, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults(monkeypatch)
    lab = begun()
    faults.begin(step, 1, late=late)
    go_on(lab)
    name, what = step
    assert faults.failed == 1
    assert faults.called[name, "recover"] == 1, "made anew at once"
    lines = [one for one in lab.seen if isinstance(one, effects.LogLine) and one.reason == "InternalError"]
    assert [(one.key, one.message.startswith("Broken"), one.level) for one in lines] == [
        (f"{name}.{what}", True, "error")
    ]
    counted = [one.labels for one in lab.seen if isinstance(one, effects.Observed) and one.name == "part_failures"]
    assert counted == [step]
    finish(lab)


@pytest.mark.parametrize("step", STEPS, ids="-".join)
def test_a_part_that_fails_again_and_again_rests_and_the_others_go_on(
    step: StepName, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults(monkeypatch)
    monkeypatch.setattr(parts, "LONGEST_REST", SHORT_REST)
    lab = begun()
    faults.begin(step, ALWAYS, late=False)
    if step[1] == "recover":
        lab = lab_of(lab)
    if step in (("quotas", "recover"), ("priorities", "recover")):
        the_bounds_cannot_be_checked(lab, step[0])
        faults.left = 0
        lab.wait(SHORT_REST)
    go_on(lab)
    turns = len(lab.wait(3 * SHORT_REST))
    assert 1 <= faults.failed <= 20, "some errors at first, then longer and longer rests"
    assert turns < 2000
    assert not lab.ask(requests.PutConfigMap(token=9, config_map=ConfigMap(namespace="default", name="c"))).error
    if step[1] == "recover" and step[0] in FAILED:
        lab.wait(10.0)
        assert not lab.live("other"), "the gate of a part that is not made anew is closed"
        assert FAILED[step[0]] in waiting(lab, "other")
    elif step[0] not in ("engine", "offers"):
        lab.reach(lambda: lab.live("other") == 1)
    faults.left = 0
    lab.wait(2 * SHORT_REST)
    finish(lab)


def the_bounds_cannot_be_checked(lab: Bench, part: str) -> None:
    """Nothing grows, and everything else can be asked for."""
    wanted = msgspec.structs.replace(version(1), application="other")
    refused = lab.ask(requests.CreateApplication(token=7, version=wanted))
    assert refused.error == "unavailable" and f"made anew: {part}" in refused.message
    assert "default/other" not in lab.core.state.applications
    assert not lab.ask(requests.SetAgent(token=7, agent="agent-7", force=True, disabled=True)).error


def test_one_object_that_a_part_cannot_take_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The part that ends taskgroups fails for those of one application, again and again."""
    lab = begun()
    lab.launch("other", 2)
    lab.reach(lambda: lab.live("other") == 2)
    part = lab.core._part_of(lab.core._task_killer)
    honest = lab.core._task_killer.notice

    def notice(changed: Iterable[tuple[str, str]]) -> None:
        changed = list(changed)
        if any(".web." in key for kind, key in changed if kind == "taskgroup"):
            raise Broken
        honest(changed)

    monkeypatch.setattr(part, "_notice", notice)
    for instances in (3, 4, 5):  # changes of the application that cannot be taken
        lab.scale(instances)
        lab.offer()
        lab.wait(0.1)
    assert part._resting
    lab.remove("other")
    lab.wait(0.5)
    leaving = lab.core.state.groups_of("default/other")
    assert leaving and set(leaving) <= set(lab.core._task_killer._sent)
    monkeypatch.undo()
    lab.wait(2 * LONGEST_REST)
    lab.remove("web")
    lab.reach(lambda: not lab.core.state.groups_of("default/web") and not lab.core.state.groups_of("default/other"))


def waiting(lab: Bench, name: str) -> str:
    """What the operations on an application wait for."""
    active = lab.core.state.active_of(f"default/{name}").values()
    return "; ".join(words for one in active for words in lab.core.turn_context.engine.missing.get(one.id, ()))


# --- hooks ----------------------------------------------------------------------------------------------------


def gates() -> list[GuardedGate]:
    return [one for one in begun().core.turn_context.context.gates if isinstance(one, GuardedGate)]


def test_every_gate_belongs_to_a_part() -> None:
    lab = begun()
    assert len(gates()) == len(lab.core.turn_context.context.gates) == len(FAILED) == 4
    assert {one._part.name for one in gates()} == set(FAILED)


@pytest.mark.parametrize("number", range(len(FAILED)), ids=sorted(FAILED))
def test_a_gate_that_fails_lets_no_slot_pass_and_its_part_is_made_anew(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults(monkeypatch)
    lab = begun()
    gate = next(
        one
        for one in lab.core.turn_context.context.gates
        if isinstance(one, GuardedGate) and one._part.name == sorted(FAILED)[number]
    )
    name, asked = gate._part.name, []

    def broken(transaction: Transaction, step: Step) -> Step:
        asked.append(transaction.application)
        raise Broken("secret words")

    faults.called.clear()
    with monkeypatch.context() as patch:
        patch.setattr(gate._gate, "admitted", broken)
        lab.launch("other", 1)
        for _ in range(3):
            lab.offer("agent-1")
            lab.wait(1.0)
            lab.offer("agent-2")
        assert not lab.core.state.groups_of("default/other")
        assert len(lab.core.state.active_of("default/other")) == 1, "the operation has not failed"
        assert FAILED[name] in waiting(lab, "other")
        texts = [note.text for one in lab.core.state.active_of("default/other").values() for note in one.history]
        assert any(FAILED[name] in text for text in texts) and not any("secret" in text for text in texts)
        assert asked and faults.called[name, "recover"], "the part is made anew"
        lines = [one for one in lab.seen if isinstance(one, effects.LogLine) and one.reason == "InternalError"]
        assert {(one.kind, one.key) for one in lines} == {("core", f"{name}.admitted")}
    lab.wait(LONGEST_REST)
    go_on_without_other(lab)
    finish(lab)


def go_on_without_other(lab: Bench) -> None:
    lab.list_agents()
    lab.reach(lambda: lab.live("other") == 1)


Registration = tuple[str, tuple[str, ...]]
"""A part, and kinds of records that one of its functions follows."""
SESSIONS = CoreOptions(policy=default_policy(), session_period=0.1)
BOUNDED = Namespace(name="default", quota=Quota(cpus=1_000_000, taskgroups=1000, objects=1000))


class Followers:
    """The functions that follow records. One of them can fail, before or after its work."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.known: list[Registration] = []
        self.broken: Registration | None = None
        self.left = 0
        self.late = False
        honest = TurnContext.watch

        def watch(turn: TurnContext, part: str, kinds: Iterable[str], follow: Callable[..., None]) -> None:
            self.known.append((part, tuple(kinds)))
            honest(turn, part, tuple(kinds), partial(self._follow, self.known[-1], follow))

        patch.setattr(TurnContext, "watch", watch)

    def _follow(self, registration: Registration, follow: Callable[..., None], *change: Any) -> None:
        broken = registration == self.broken and self.left > 0
        if not broken or self.late:
            follow(*change)
        if broken:
            self.left -= 1
            raise Broken


def registrations() -> list[Registration]:
    with pytest.MonkeyPatch.context() as patch:
        followers = Followers(patch)
        Bench(options=SESSIONS)
        return followers.known


def insist(lab: Bench, command: requests.Request) -> None:
    """A request may be refused while a part cannot check it, and is accepted when the part has been made anew."""
    reply = lab.ask(command)
    assert reply.error in ("", "unavailable"), reply.message
    assert not reply.error or not lab.ask(command).error


def sums(lab: Bench) -> tuple[Any, ...]:
    turn = lab.core.turn_context
    turn.quotas._settle()
    commands, queue, guard = turn.open_commands, lab.core._request_handler.queue, lab.core._controllers[0].controller
    assert isinstance(guard, LossGuard)
    return turn.quotas._sums, turn.quotas._parts, commands.total, commands._sums, queue._size, guard.live


@pytest.mark.parametrize("late", [False, True], ids=["before its work", "after its work"])
@pytest.mark.parametrize(
    "registration", registrations(), ids=lambda one: f"{one[0]}-{'-'.join(one[1])}" if isinstance(one, tuple) else ""
)
def test_an_error_while_a_change_is_followed_ends_nothing(
    registration: Registration, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also undone changes are followed, and no change is left half done."""
    faults, followers = Faults(monkeypatch), Followers(monkeypatch)
    lab = begun(SESSIONS)
    lab.reach(lambda: lab.live("coming") == 1)
    assert not lab.ask(requests.PutNamespace(token=1, namespace=BOUNDED)).error
    faults.called.clear()
    followers.broken, followers.left, followers.late = registration, 1, late
    insist(lab, requests.PutQueue(token=2, queue=Queue(name="second")))
    insist(lab, requests.PutNamespace(token=2, namespace=msgspec.structs.replace(BOUNDED, labels={"a": "b"})))
    insist(lab, requests.PutConfigMap(token=2, config_map=ConfigMap(namespace="default", name="c")))
    command = requests.CreateCommand(
        token=2, namespace="default", name="web", type="signal", body={"signal": 1}, timeout=60.0, reserve=1000.0
    )
    insist(lab, command)
    wanted = msgspec.structs.replace(version(1, labels={"tier": "all"}), application="other")
    insist(lab, requests.CreateApplication(token=2, version=wanted))
    lab.reach(lambda: lab.live("other") == 1)
    assert not followers.left, "the function was called"
    assert not lab.core.turn_context.unsound
    part = registration[0]
    assert faults.called[part, "recover"] == 1
    lines = [one for one in lab.seen if isinstance(one, effects.LogLine) and one.reason == "InternalError"]
    assert [one.key for one in lines] == [f"{part}.follow"]
    assert sums(lab) == sums(Bench(lab.records(), lab.now + 1.0, SESSIONS))
    finish(lab)


# --- one object -----------------------------------------------------------------------------------------------

LOOKS = ("/core/controllers/", "/core/requests/queue.py", "/transactions/engine/")


def spoilt(record: Any) -> Any:
    """A record of which controllers and the engine can read no field but its key."""

    def read(self: Any, name: str) -> Any:
        # Classes compare and copy records without this function, and so does the store.
        reader = sys._getframe(1).f_code.co_filename
        if any(one in reader for one in LOOKS) and name not in ("kind", "key", "id"):
            raise Broken(f"{name} of {type(record).__name__}")
        return object.__getattribute__(self, name)

    kind = type(f"Spoilt{type(record).__name__}", (type(record),), {"__getattribute__": read}, frozen=True)
    return kind(**{name: getattr(record, name) for name in type(record).__struct_fields__})


def crowd() -> tuple[Bench, dict[str, str]]:
    """The records of a cluster, and one object of each kind that is to be spoilt."""
    lab = begun()
    lab.launch("spoilt", 1, tier="none")
    lab.reach(lambda: lab.live("spoilt") == 1 and lab.live("coming") == 1)
    spoilt_service = Service(namespace="default", name="spoilt", selector={"tier": "none"})
    assert not lab.ask(requests.PutService(token=1, service=spoilt_service)).error
    assert not lab.ask(requests.SetAgent(token=1, agent="agent-7", force=True, disabled=True)).error
    state = lab.core.state
    group = next(iter(state.groups_of("default/spoilt")))
    ended = next(key for key, one in state.transactions.items() if one.application == "spoilt")
    keys = {"application": "default/spoilt", "taskgroup": group, "transaction": ended, "service": "default/spoilt"}
    return lab, {**keys, "agentsetting": "agent-7"}


@pytest.mark.parametrize("kind", ["application", "taskgroup", "transaction", "service", "agentsetting"])
@pytest.mark.parametrize("begin", [True, False], ids=["from the begin of a term", "within a term"])
def test_one_object_that_cannot_be_read_holds_up_no_other(kind: str, begin: bool) -> None:
    lab, keys = crowd()
    state = lab.core.state
    bad = spoilt(state.get(kind, keys[kind]))
    if begin:
        others = [one for one in lab.records() if (one.kind, one.key) != (kind, keys[kind])]
        lab = Bench([*others, bad], lab.now + 1.0)
        lab.turn(cluster_manager.Connected(framework_id="framework", cluster="dc1.example.com"))
    else:
        state.change(kind, keys[kind], state.get(kind, keys[kind]), bad)
        lab.core.turn_context.changed.append((kind, keys[kind]))
    go_on(lab)
    finish(lab)
    failed = [one.labels for one in lab.seen if isinstance(one, effects.Observed) and one.name == "part_failures"]
    # The change itself is followed, too: the guard, or the queue of requests, is made anew once.
    followed = [[(part, "follow")] for part in ("lossguard", "requestqueue") if not begin]
    assert failed in ([], *followed), "no part as a whole"
    lines = [one for one in lab.seen if isinstance(one, effects.LogLine) and one.reason == "InternalError"]
    assert lines, "the object was met"
    assert {one.kind for one in lines} <= {kind, "core", "agent", "application", "taskgroup"}


def test_a_part_is_made_anew_a_while_after_an_error_of_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its data about the object may be wrong. An error that comes again costs ever less."""
    faults = Faults(monkeypatch)
    lab = begun()
    lab.reach(lambda: lab.live("coming") == 1)
    lab.launch("other", 1)
    honest, failed = Services._taskgroup, Counter[float]()

    def broken(self: Services, key: str) -> None:
        if ".other." in key:
            failed[lab.now] += 1
            raise Broken
        honest(self, key)

    with monkeypatch.context() as patch:
        patch.setattr(Services, "_taskgroup", broken)
        lab.reach(lambda: lab.live("other") == 1)
        faults.called.clear()
        assert lab.members() == 3
        failed.clear()
        lab.wait(700.0)
        assert 4 <= len(failed) <= 8
        assert 4 <= faults.called["services", "recover"] <= len(failed)
        assert lab.members() == 3, "the others stay"
    lab.wait(LONGEST_RETRY)
    assert lab.members() == 4
    finish(lab)


def test_work_for_each_object_undoes_one_alone_and_reports_a_few() -> None:
    lab = Bench()
    turn = lab.core.turn_context
    names = [f"c{number}" for number in range(10)]

    def work(name: str) -> None:
        turn.uow.put(ConfigMap(namespace="default", name=name))
        if name in ("c1", "c3", "c5", "c7"):
            raise Broken
        if name in ("c4", "c6"):
            turn.cut()
        if name == "c6":
            turn.uow.put(ConfigMap(namespace="default", name="late"))
            raise Broken

    failed = turn.each("configmap", names, work)
    assert failed == ["c1", "c3", "c5", "c6", "c7"]
    left = {key.removeprefix("default/") for key in lab.core.state.config_maps}
    assert left == {"c0", "c2", "c4", "c6", "c8", "c9"}, "what was cut stays"
    lab.turn()
    lines = [one for one in lab.seen if isinstance(one, effects.LogLine) and one.reason == "InternalError"]
    assert [one.key for one in lines] == ["c1", "c3", "c5", "configmap"]
    assert f"{len(failed)} objects; the first {ERRORS_AT_ONCE} errors" in lines[-1].message


def test_a_kill_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = begun()
    lab.reach(lambda: lab.live("coming") == 1)
    (group,) = lab.core.state.groups_of("default/coming").values()
    with monkeypatch.context() as patch:
        patch.setattr(type(lab.core._task_killer), "_kill", lambda self, group: 1 / 0)
        lab.remove("coming")
        lab.wait(1.0)
        assert not lab.ended()
    lab.wait(RETRY + 1.0)
    assert group.tasks[0].id in lab.ended()


def test_an_attempt_returns_a_result_or_a_failure() -> None:
    turn = Bench().core.turn_context
    assert turn.attempt("core", "test", list) == []

    def broken() -> list[int]:
        raise ValueError("contents of a secret")

    failure = turn.attempt("core", "test", broken)
    assert isinstance(failure, Failure)
    assert (failure.code, failure.words) == ("internal", "ValueError: contents of a secret")
    assert failure.message == "internal error: ValueError; the log has the rest"

    def large() -> None:
        turn.uow.put(ConfigMap(namespace="default", name="c", annotations={"a": "x" * 5_000_000}))

    refused = turn.attempt("core", "test", large)
    assert isinstance(refused, Failure) and refused.code == "not_storable"
    assert refused.message.startswith("configmap default/c has")


def lab_of(lab: Bench) -> Bench:
    """The next leader, with an error where the term begins."""
    return Bench(lab.records(), lab.now + 1.0)


def test_offers_of_an_undone_launch_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer to an offer would mean that nobody can use its room."""
    faults = Faults(monkeypatch)
    lab = begun()
    lab.reach(lambda: lab.live("coming") == 1)
    lab.launch("other", 20)
    faults.begin(("offers", "place"), 1, late=True)
    lab.seen.clear()
    lab.offer("agent-9")
    assert faults.failed == 1
    declined = {one for sent in lab.seen if isinstance(sent, leased.Decline) for one in sent.offer_ids}
    assert f"o{lab._serial}" in declined
    assert not lab.core.offers()


def test_a_question_that_fails_between_turns_is_reported_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = begun()
    part = lab.core._part_of(lab.core._task_killer)

    def broken() -> float | None:
        raise Broken

    monkeypatch.setattr(part, "_next_timer", broken)
    lab.core.next_wakeup(lab.now)
    monkeypatch.undo()
    lab.turn()
    lines = [one for one in lab.seen if isinstance(one, effects.LogLine) and one.reason == "InternalError"]
    assert [one.key for one in lines] == ["taskkiller.next_timer"]
    go_on(lab)
    finish(lab)


def test_a_turn_without_changes_calls_each_part_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = running(1)
    lab.turn()
    noticed: list[str] = []
    monkeypatch.setattr(parts.Part, "notice", lambda part, changed: noticed.append(part.name))
    lab.turn()
    assert noticed == [part.name for part in lab.core.parts]
