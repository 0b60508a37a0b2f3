"""Plug-ins of third parties that never return, in real threads: the session is repeated without them, and no code of
the scheduler is interrupted."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from structlog.testing import capture_logs

from bcs_scheduler.core.interface import leased
from bcs_scheduler.core.interface.effects import Observed
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.engines.set_aside import FIRST_PAUSE, GROWTH
from bcs_scheduler.loop import plugin_watch
from bcs_scheduler.loop.plugin_watch import HUNG, PluginWatch
from offers.policy.session.configuration import Registry, policy_of
from offers.policy.session.guard import Calls, NeverReturned
from offers.policy.session.plugins.interface import Functions
from tests.unit.core.placement.engines.test_session import count, create
from tests.unit.lab import Lab
from tests.waiting import wait_for

BOUND = 0.2
THREAD = "policy-session"


def sessions() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD]


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    yield
    wait_for(lambda: not sessions(), what="the end of the abandoned threads")


def loops() -> None:
    while True:
        pass


def called(calls: Calls, function: Callable[[], Any], name: str = "one") -> Any:
    calls.enter(name, "predicate")
    try:
        return function()
    finally:
        calls.leave()


def test_results_and_errors_come_through() -> None:
    watch = PluginWatch()
    assert watch.run(lambda calls: called(calls, lambda: 7), BOUND) == 7
    with pytest.raises(ZeroDivisionError):
        watch.run(lambda calls: called(calls, lambda: 1 // 0), BOUND)
    with pytest.raises(SystemExit):
        watch.run(lambda calls: called(calls, lambda: (_ for _ in ()).throw(SystemExit)), BOUND)


def test_a_call_that_loops_is_ended_and_named() -> None:
    with capture_logs() as logs, pytest.raises(NeverReturned) as raised:
        PluginWatch().run(lambda calls: called(calls, loops), BOUND)
    assert raised.value.fault[:2] == ("one", "predicate")
    wait_for(lambda: not sessions(), what="the end of the thread that loops")
    (line,) = [line for line in logs if line["event"] == HUNG]
    assert (line["plugin"], line["function"]) == ("one", "predicate")
    assert "in loops" in line["stack"]


def test_a_call_that_sleeps_is_left_and_decides_nothing_when_it_returns() -> None:
    wakes, after = threading.Event(), []

    def work(calls: Calls) -> None:
        called(calls, lambda: wakes.wait(600))
        after.append("our code")

    with pytest.raises(NeverReturned):
        PluginWatch().run(work, BOUND)
    assert sessions(), "a call in C does not end before its time"
    wakes.set()
    wait_for(lambda: not sessions(), what="the end of the thread that slept")
    assert after == []


def test_a_plug_in_that_catches_the_end_cannot_use_the_session_any_more() -> None:
    reached: list[str] = []
    stubborn = threading.Event()

    def work(calls: Calls) -> None:
        def catches() -> None:
            while not stubborn.is_set():
                try:
                    loops()
                except BaseException:
                    try:
                        calls.enter_own()
                        reached.append("the matcher")
                    except BaseException:
                        stubborn.set()

        called(calls, catches)
        reached.append("our code")

    with pytest.raises(NeverReturned):
        PluginWatch().run(work, BOUND)
    wait_for(stubborn.is_set)
    wait_for(lambda: not sessions())
    assert reached == []


def test_the_schedulers_own_code_within_a_call_is_never_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, looks, finished = threading.Event(), [], []
    give_up = plugin_watch._Session.give_up

    def looked(session: Any, before: float) -> Any:
        looks.append(before)
        if len(looks) == 5:  # the time of the call was over at each of these looks
            go_on.set()
        return give_up(session, before)

    monkeypatch.setattr(plugin_watch._Session, "give_up", looked)

    def work(calls: Calls) -> None:
        def action() -> None:
            calls.enter_own()
            assert go_on.wait(60)
            finished.append("the matcher")
            calls.leave_own()
            loops()

        called(calls, action)

    with pytest.raises(NeverReturned):
        PluginWatch().run(work, BOUND)
    assert len(looks) >= 5 and finished == ["the matcher"]


def test_the_latest_late_call_is_named() -> None:
    def work(calls: Calls) -> None:
        called(calls, lambda: called(calls, loops, "inner"), "outer")

    with pytest.raises(NeverReturned) as raised:
        PluginWatch().run(work, BOUND)
    assert raised.value.fault.plugin == "inner"


# --- in the core --------------------------------------------------------------------------------------------------


class Hangs:
    """A plug-in whose predicate does not return while `hangs` is set."""

    name = "hangs"
    arguments: ClassVar[dict[str, Any]] = {}

    def __init__(self, how: Callable[[], object]) -> None:
        self.how = how
        self.hangs = True
        self.asked = 0

    def open(self, session: object, arguments: object) -> Functions:
        return Functions(predicate=self.predicate)

    def predicate(self, template: object, view: object) -> None:
        self.asked += 1
        if self.hangs:
            self.how()


class Reaps(Hangs):
    """The same as an action."""

    name = "reaps"

    def run(self, session: object, arguments: object) -> None:
        self.predicate(None, None)


def lab_with(plugin: Hangs, on_fault: str) -> Lab:
    is_action = isinstance(plugin, Reaps)
    document = {
        "actions": "reaps, allocate" if is_action else "allocate",
        "tiers": [{"plugins": [{"name": "gang"}, {"name": "predicates"}, *([] if is_action else [{"name": "hangs"}])]}],
        "session": {"pluginSeconds": BOUND, "onPluginFault": on_fault},
    }
    foreign: Any = plugin
    policy = policy_of(document, Registry([], [foreign]) if is_action else Registry([foreign]))
    return Lab(CoreOptions(strict=True, policy=policy, session_clock=time.monotonic, plugin_watch=PluginWatch()))


WAKES = threading.Event()


@pytest.mark.parametrize("on_fault", ["skip", "repeat"])
@pytest.mark.parametrize("kind", [Hangs, Reaps])
@pytest.mark.parametrize("how", [loops, lambda: WAKES.wait(600)], ids=["loops", "sleeps"])
def test_the_core_goes_on_without_a_plug_in_that_hangs(how: Any, kind: type[Hangs], on_fault: str) -> None:
    plugin = kind(how)
    lab = lab_with(plugin, on_fault)
    seen = list(lab.turn(leased.OffersArrived(offers=(lab.make_offer("a"),))))
    create(lab, "web", 1)
    seen += lab.out + lab.wait(2.0)
    assert count(lab, "web") == 1 and plugin.asked == 1
    (words,) = [
        str(getattr(effect, "message", "")) for effect in seen if getattr(effect, "reason", "") == "PolicyPluginFailed"
    ]
    assert words.startswith(f"{plugin.name}: ") and words.endswith("; not used for 1m")
    faults = [effect for effect in seen if isinstance(effect, Observed) and effect.name == "policy_plugin_faults"]
    assert [(one.labels, one.value) for one in faults] == [((plugin.name, "hung"), 1)]
    WAKES.set()
    wait_for(lambda: not sessions())
    WAKES.clear()


def test_a_plug_in_that_hung_is_tried_again_after_a_pause_that_grows() -> None:
    plugin = Hangs(loops)
    lab = lab_with(plugin, "skip")
    for number in range(3):
        create(lab, f"web-{number}", 1)
        lab.turn(leased.OffersArrived(offers=(lab.make_offer(f"a{number}"),)))
        lab.wait(2.0)
        assert count(lab, f"web-{number}") == 1
        assert plugin.asked == (1, 1, 2)[number]
        if number == 1:
            lab.wait(FIRST_PAUSE)
    lab.wait(FIRST_PAUSE)
    plugin.hangs = False
    create(lab, "late", 1)
    lab.turn(leased.OffersArrived(offers=(lab.make_offer("late"),)))
    lab.wait(2.0)
    assert count(lab, "late") == 1 and plugin.asked == 2
    lab.wait(FIRST_PAUSE * GROWTH)
    create(lab, "later", 1)
    lab.turn(leased.OffersArrived(offers=(lab.make_offer("later"),)))
    lab.wait(2.0)
    assert count(lab, "later") == 1 and plugin.asked > 2


TRACED = """
import sys, time
from bcs_scheduler.loop.plugin_watch import PluginWatch
from offers.policy.session.guard import NeverReturned
from tests.component.test_plugin_watch import called, loops, sessions

for call in (loops, lambda: time.sleep(0.3)):
    try:
        PluginWatch().run(lambda calls: called(calls, call), 0.05)
    except NeverReturned:
        print("given up")
    while sessions():
        time.sleep(0.01)
traced = []
sys.settrace(lambda frame, what, value: traced.append(what))
sessions()
sys.settrace(None)
print(len(traced) > 0)
"""


def test_an_interpreter_that_ended_a_call_can_be_traced() -> None:
    """A debugger or a measurement of coverage would wait for ever in Python 3.11 if an error was left to be raised."""
    done = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines()[-1:] == ["True"], (done.stdout, done.stderr)
    assert done.stdout.splitlines().count("given up") == 2
