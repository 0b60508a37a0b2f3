"""An unexpected error in any step of any part of the core: the term goes on, and the part works again afterwards.

Parts and steps are not listed here: they are those that the core calls.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core import controllers
from bcs_scheduler.core.controllers.managed.applications import ManagedApplications
from bcs_scheduler.core.interface import cluster_manager, effects, leased, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.parts import LONGEST_REST, ControllerPart, Part
from offers.agents import ListedAgent
from store.records import ConfigMap, Service
from store.state.validation import validate
from tests.unit.lab import START, Lab, version

Step = tuple[str, str]
"""The name of a part and of its step."""
ALWAYS = 10**9
AGENTS = ("agent-1", "agent-2")


class Broken(Exception):
    pass


class Faults:
    """Counts the steps of all parts, and lets one of them fail."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.called: Counter[Step] = Counter()
        self.failed = 0
        self.step: Step | None = None
        self.left = 0
        self.late = False
        """The step fails after its work, not before."""
        honest = Part._try

        def run(part: Part, step: str, work: Callable[[], None]) -> bool:
            self.called[part.name, step] += 1
            return honest(part, step, lambda: self._work((part.name, step), work))

        patch.setattr(Part, "_try", run)

    def _work(self, step: Step, work: Callable[[], None]) -> None:
        broken = step == self.step and self.left > 0
        if not broken or self.late:
            work()
        if broken:
            self.left -= 1
            self.failed += 1
            raise Broken

    def begin(self, step: Step, times: int, *, late: bool) -> None:
        self.called.clear()
        self.step, self.left, self.failed, self.late = step, times, 0, late


class Bench(Lab):
    """A lab in which errors are no failures of the test, with all effects of its life."""

    def __init__(self, records: Any = (), now: float = START) -> None:
        self.seen: list[effects.Effect] = []
        super().__init__(CoreOptions(), records, now)

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

    def launch(self, name: str, instances: int) -> None:
        wanted = msgspec.structs.replace(version(instances, labels={"tier": "all"}), application=name)
        reply = self.ask(requests.CreateApplication(token=7, version=wanted))
        assert not reply.error, reply.message

    def remove(self, name: str) -> None:
        reply = self.ask(requests.DeleteApplication(token=8, namespace="default", name=name))
        assert not reply.error, reply.message


def begun() -> Bench:
    """Two applications run, one is being launched, one is being ended; a service selects all of them."""
    lab = Bench()
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
    assert list(validate(lab.core.state)) == []


def steps() -> list[Step]:
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
        assert "notice" in known
        assert "recover" in known or part is core._offers, "the offers begin with the engine"
        assert not isinstance(part, ControllerPart) or "tick" in known or part is core._endpoints
    assert {("engine", "settle"), ("offers", "place"), ("offers", "tick"), ("services", "flush")} <= set(STEPS)
    assert {name for name, _ in STEPS} == {part.name for part in core.parts}


def test_every_controller_is_a_part() -> None:
    """Everything below core/controllers that follows records is called by the guarded function, or by a controller."""
    core = begun().core
    parts = [one.controller for one in core.parts if isinstance(one, ControllerPart)]
    known = {type(one) for one in (*parts, core._offer_manager)}
    known |= {type(rooms) for one in parts if isinstance(one, ManagedApplications) for rooms in one._rooms}
    found = set()
    for module in pkgutil.walk_packages(controllers.__path__, f"{controllers.__name__}."):
        for _, one in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            methods = all(hasattr(one, name) for name in ("recover", "notice", "tick", "next_timer"))
            if methods and one.__module__ == module.name and not getattr(one, "_is_protocol", False):
                found.add(one)
    assert found == known


@pytest.mark.parametrize("late", [False, True], ids=["before its work", "after its work"])
@pytest.mark.parametrize("step", [one for one in STEPS if one[1] != "recover"], ids="-".join)
def test_a_step_that_fails_once_is_undone_and_reported_and_its_part_made_anew(
    step: Step, late: bool, monkeypatch: pytest.MonkeyPatch
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
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults(monkeypatch)
    lab = begun()
    faults.begin(step, ALWAYS, late=False)
    if step[1] == "recover":
        lab = lab_of(lab)
    go_on(lab)
    turns = len(lab.wait(LONGEST_REST))
    assert 1 <= faults.failed <= 20, "some errors at first, then longer and longer rests"
    assert turns < 5000
    assert not lab.ask(requests.PutConfigMap(token=9, config_map=ConfigMap(namespace="default", name="c"))).error
    if step[0] not in ("engine", "offers"):
        lab.reach(lambda: lab.live("other") == 1)
    faults.left = 0
    lab.wait(2 * LONGEST_REST)
    finish(lab)


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
