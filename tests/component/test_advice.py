"""No advice is refused: each piece of advice of `store.advice` is given in its situation, and its commands are run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from bcs_scheduler.cli.main import run
from bcs_scheduler.cli.waiting import _transaction_state
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.interface.requests import PutPriorityClass
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.rollout.update_records import MOST_RETIRING
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.leadership.hub import Hub
from store.advice import ADVICE, AdviceCode, advise
from store.records import AgentSetting, Application, Drain, Namespace, PriorityClass, Queue, Quota, Strategy
from store.records.definition import RestartPolicy, UnreachablePolicy
from tests.component.apiserver import Api, Switchboard, serving
from tests.unit.agentlab import Cluster
from tests.unit.api_support import CoreGateway
from tests.unit.core.controllers.managed.test_reservations import failed_deployment
from tests.unit.lab import Lab, version
from tests.unit.rollinglab import NEVER, NEW, RollingLab, deployed
from tests.unit.test_core_daemonsets_stuck import running as daemonset_of
from tests.unit.test_core_daemonsets_stuck import update as updated
from tests.unit.test_core_drains import deployed as deployed_on_agents
from tests.unit.test_core_drains import loaded as drained_later
from tests.unit.test_core_loss_guard import LARGE, Losing
from tests.unit.test_core_queue import launching
from tests.unit.test_core_rollout_superseding import suspended
from tests.unit.test_core_unknown_tasks import on_an_empty_store
from transactions.base import Options, Periods


class World:
    """`bcs` against a real API with the core of a lab. `said`: everything that `bcs` has printed so far."""

    def __init__(self, switchboard: Switchboard, capsys: pytest.CaptureFixture[str]) -> None:
        self._switchboard, self._capsys = switchboard, capsys
        self.said = ""
        self.gateway = CoreGateway()
        self.show(self.gateway.core)

    def show(self, core: Core) -> None:
        self.gateway.core, self.gateway.follow = core, Hub(state=core.state)
        self._switchboard.gateway = self.gateway

    def bcs(self, *words: str) -> int:
        code = run(words)
        printed = self._capsys.readouterr()
        assert "Traceback" not in printed.err
        self.said += printed.out + printed.err
        return code

    def refused(self, request: requests.Request) -> None:
        reply = self.gateway.submit(request).result(30)
        assert reply.error, "the request was accepted"
        self.said += reply.message


class Given(NamedTuple):
    """`names`: those in the words of the advice. `more`: names that only its commands have."""

    names: Mapping[str, str] = {}
    more: Mapping[str, str] = {}


Situation = Callable[[World], Given]
LASTING = Options(periods=Periods(queued=1e12))
"""Requests wait until now, although the labs live in the past."""
WEB = Given(more={"name": "web"})
SITUATIONS: dict[AdviceCode, Situation] = {}
OPTIONS = {"bcs drain": ("--no-wait",)}
"""More options of commands that would wait for other programs."""
AWAY = "Mesos does not list the agent"
"""Message of a command that was not refused and found no agent to ask: the labs have none that answer."""


def situation(code: AdviceCode) -> Callable[[Situation], Situation]:
    def add(function: Situation) -> Situation:
        assert code not in SITUATIONS
        SITUATIONS[code] = function
        return function

    return add


# --- agents -------------------------------------------------------------------------------------------------------


def agent(world: World, *, phase: Any = None, cordoned: bool = True) -> None:
    drain = Drain(since=1.0, at_once=1, done_at=2.0, phase=phase) if phase else None
    setting = AgentSetting(agent="10.0.0.1", disabled=True, drain=drain)
    world.gateway = CoreGateway([setting] if cordoned else [])
    world.show(world.gateway.core)
    world.gateway.connect()
    world.gateway.offer(1)
    assert world.bcs("describe", "agent", "host-1") == 0


def agent_situation(code: AdviceCode, phase: str) -> None:
    @situation(code)
    def begin(world: World) -> Given:
        agent(world, phase=phase)
        return Given({"name": "10.0.0.1"})


agent_situation("uncordon", "")
agent_situation("uncordon_drained", "Done")
agent_situation("drain_again", "Failed")


@situation("reset_agent")
def _(world: World) -> Given:
    agent(world, cordoned=False)
    assert world.bcs("delete", "agent", "host-1") == 6
    return Given({"name": "host-1"})


def draining(world: World, lab: Cluster) -> None:
    assert not lab.ask(requests.DrainAgent(agent="a0", at_once=4)).error
    lab.wait(1)
    drain = lab.core.state.agent_settings["a0"].drain
    assert drain is not None
    world.said += drain.message
    world.show(lab.core)


@situation("explain_waiting")
def _(world: World) -> Given:
    lab = drained_later(4, max_unavailable=1)
    lab.report(lab.group(3), "FAILED")
    lab.report(lab.group(3), "STARTING")
    draining(world, lab)
    return Given({"name": "web", "namespace": "default"})


@situation("uncordon_for_room")
def _(world: World) -> Given:
    lab = drained_later(1)
    lab.set_agent("a1", disabled=True)
    draining(world, lab)
    return Given({"name": "a1"})


@situation("look_at_quota")
def _(world: World) -> Given:
    lab = deployed_on_agents(2)
    quota = Namespace(name="default", quota=Quota(taskgroups=2))
    assert not lab.ask(requests.PutNamespace(namespace=quota)).error
    draining(world, lab)
    return Given({"namespace": "default"})


# --- deployments --------------------------------------------------------------------------------------------------


def undoing() -> RollingLab:
    """The way back of an update is suspended, because a taskgroup of the old revision fails for good."""
    lab = deployed(3, Strategy(max_surge=1, max_unavailable=0), **NEVER)
    lab.renew(3, **NEVER, **NEW)
    lab.run_until(lambda: len(lab.new) == 2)
    assert not lab.control("cancel").error
    for _ in range(20):
        if lab.deployment.status == "UpdateSuspend":
            return lab
        for group in [group for group in lab.old if not group.started and not group.ended]:
            lab.report(group, "FAILED", message="boom")
        lab.once(start=False)
    raise AssertionError(lab.deployment)


def paused() -> RollingLab:
    lab = deployed(3, Strategy(manual=True))
    lab.renew(3, **NEW)
    lab.run()
    assert lab.deployment.status == "UpdatePaused"
    return lab


def updating() -> RollingLab:
    lab = deployed(3)
    lab.renew(3, **NEW)
    assert lab.deployment.status == "Update"
    return lab


def launched() -> RollingLab:
    lab = RollingLab()
    lab.deploy(2)
    return lab


def deployment_situation(code: AdviceCode, lab: Callable[[], Lab], *words: str, named: bool = False) -> None:
    @situation(code)
    def begin(world: World) -> Given:
        world.show(lab().core)
        assert world.bcs(*words) != 0
        return Given({"name": "web"}) if named else WEB


deployment_situation("suspended_update", suspended, "rollout", "status", "web", named=True)
deployment_situation("suspended_way_back", undoing, "rollout", "status", "web", named=True)
deployment_situation("paused_update", paused, "rollout", "status", "web", named=True)
deployment_situation("resume_to_continue", paused, "rollout", "status", "web")
deployment_situation("resume_or_cancel", suspended, "rollout", "replace", "web")
deployment_situation("resume", undoing, "rollout", "replace", "web")
deployment_situation("cancel_update", updating, "rollout", "replace", "web")
deployment_situation("update_or_scale", launched, "rollout", "replace", "web")
deployment_situation("list_revisions", paused, "rollback", "web", "--to", "first", named=True)


def superseding(deployment: Any, number: int = 1) -> requests.UpdateDeployment:
    definition = version(deployment.instances, labels={"revision": f"number-{number}"})
    return requests.UpdateDeployment(deployment=deployment, version=definition, on_conflict="supersede")


@situation("delete_lost")
def _(world: World) -> Given:
    lab = updating()
    gone = lab.deployment.successor
    records = [record for record in lab.records() if getattr(record, "name", "") != gone]
    world.show(RollingLab(records=records).core)
    world.refused(superseding(lab.deployment))
    return WEB


@situation("cancel_retiring")
def _(world: World) -> Given:
    lab = deployed(1, Strategy(max_surge=100, max_unavailable=0))
    for number in range(MOST_RETIRING + 1):
        assert not lab.ask(superseding(lab.deployment, number)).error
        lab.offer(f"agent-{number}")
    assert len(lab.deployment.retiring) == MOST_RETIRING
    world.show(lab.core)
    world.refused(superseding(lab.deployment, 100))
    return WEB


@situation("change_owner")
def _(world: World) -> Given:
    world.show(deployed(2).core)
    assert world.bcs("scale", "app/web", "3") != 0
    return Given({"kind": "deployment"}, {"name": "web"})


# --- applications -------------------------------------------------------------------------------------------------


def running_application() -> Lab:
    lab = Lab()
    lab.create(2)
    lab.offer()
    for group in lab.groups:
        lab.report(group, "RUNNING")
    return lab


@situation("delete_by_force")
def _(world: World) -> Given:
    lab = running_application()
    alone = msgspec.structs.replace(lab.application, status="RollingUpdate")  # its deployment is gone
    records = [alone if isinstance(record, Application) else record for record in lab.records()]
    world.show(Lab(records=records).core)
    assert world.bcs("delete", "app", "web") != 0
    return Given(more={"kind": "app", "name": "web"})


@situation("replace_taskgroup")
def _(world: World) -> Given:
    world.show(running_application().core)
    assert world.bcs("delete", "pod", "web-0") == 2
    return Given({"name": "web-0"})


@situation("explain")
def _(world: World) -> Given:
    lab = Lab()
    lab.create(2)
    world.show(lab.core)
    world.said += _transaction_state({"status": "WAITING", "objectName": "web"}, 0, 2)
    return Given({"name": "web"})


@situation("look_at_failure")
def _(world: World) -> Given:
    lab = Lab()
    lab.create(1, restart_policy=RestartPolicy(policy="Never"))
    lab.offer()
    lab.report(lab.group(), "FAILED", message="boom")
    world.show(lab.core)
    assert world.bcs("wait", "app/web") != 0
    return Given({"name": "web"})


@situation("delete_application")
def _(world: World) -> Given:
    lab = Lab()
    lab.ask(requests.CreateApplication(version=msgspec.structs.replace(version(1), application="offers")))
    world.show(lab.core)
    assert world.bcs("delete", "offers", "web") == 2
    return Given({"name": "offers"})


def queued(instances: int) -> requests.ScaleApplication:
    return requests.ScaleApplication(namespace="default", name="web", instances=instances, on_conflict="queue")


@situation("supersede")
def _(world: World) -> Given:
    world.show(launching(options=CoreOptions(queue_requests=0, strict=True)).core)
    world.refused(queued(5))
    return WEB


@situation("cancel_waiting")
def _(world: World) -> Given:
    lab = launching(options=CoreOptions(queue_requests=1, transactions=LASTING, strict=True))
    assert not lab.ask(queued(5)).error
    (waiting,) = (one for one in lab.core.state.transactions.values() if one.waiting)
    world.show(lab.core)
    world.refused(queued(6))
    return Given(more={"name": "web", "waiting": waiting.id})


# --- daemonsets ---------------------------------------------------------------------------------------------------


def stuck_daemonset(*, first: bool) -> Cluster:
    lab = daemonset_of(2)
    if first:
        for group in lab.groups:
            lab.report(group, "FAILED")
    else:
        updated(lab, 2, "FAILED")
    assert lab.daemonset.stuck
    return lab


@situation("stuck_daemonset")
def _(world: World) -> Given:
    world.show(stuck_daemonset(first=False).core)
    assert world.bcs("rollout", "status", "daemonset/web") == 1
    return Given({"name": "web"})


@situation("stuck_first_daemonset")
def _(world: World) -> Given:
    world.show(stuck_daemonset(first=True).core)
    assert world.bcs("rollout", "status", "daemonset/web") == 1
    return Given({"name": "web"})


@situation("roll_back_daemonset")
def _(world: World) -> Given:
    world.show(stuck_daemonset(first=False).core)
    assert world.bcs("rollout", "cancel", "daemonset/web") == 2
    return Given({"name": "web"})


def test_a_daemonset_of_one_version_is_not_rolled_back(world: World) -> None:
    world.show(stuck_daemonset(first=True).core)
    assert world.bcs("rollout", "cancel", "daemonset/web") == 2 and "rollback" not in world.said


@situation("give_up_unreachable")
def _(world: World) -> Given:
    lab = daemonset_of(2, unreachable_policy=UnreachablePolicy(replace_after=-1.0))
    lab.report(lab.on("a1"), "UNREACHABLE")
    assert not lab.ask(requests.DeleteDaemonset(namespace="default", name="web")).error
    lab.report(lab.on("a0"), "KILLED")
    lab.wait(5)
    world.show(lab.core)
    world.said += lab.daemonset.message
    return Given(more={"kind": "daemonset", "name": "web"})


@situation("give_up_by_reschedule")
def _(world: World) -> Given:
    lab = deployed(1, unreachable_policy=UnreachablePolicy(replace_after=-1.0))
    lost = lab.group_of(0)
    lab.report(lost, "UNREACHABLE")
    lab.renew(1, **NEW)
    lab.run()
    lab.wait(lab.options.transactions.periods.rolling_down + 1)
    world.show(lab.core)
    world.bcs("rollout", "status", "web")
    return Given(more={"taskgroup": lost.id})


@situation("launch_again")
def _(world: World) -> Given:
    world.show(failed_deployment().core)
    assert world.bcs("rollout", "status", "web") != 0
    return Given({"name": "web", "instances": "2"})


# --- others -------------------------------------------------------------------------------------------------------


@situation("resume_replacements")
def _(world: World) -> Given:
    losing = Losing()
    losing.lose(range(LARGE))
    world.show(losing.core)
    world.said += losing.told[-1][1]
    return Given()


@situation("decide_unknown")
def _(world: World) -> Given:
    lab = on_an_empty_store()
    lab.create(1)
    lab.wait(1)
    world.show(lab.core)
    world.bcs("explain", "app/web")
    return Given()


@situation("recreate_class")
def _(world: World) -> Given:
    assert not world.gateway.submit(put_class(1)).result(30).error
    refused = world.gateway.submit(put_class(2)).result(30)
    world.said += "".join(problem.message for problem in refused.problems)
    return Given(more={"name": "high"})


def beyond(world: World, **settings: Any) -> Given:
    """Work that its namespace does not allow."""
    world.gateway = CoreGateway(max_priority=0)
    world.show(world.gateway.core)
    assert not world.gateway.submit(put_class(7)).result(30).error
    wanted = version(1, **settings)
    world.said += world.gateway.submit(requests.CreateApplication(version=wanted)).result(30).message
    return Given({"name": "default", "priority": "7", "priority_class": "high"})


@situation("raise_priority")
def _(world: World) -> Given:
    return beyond(world, priority=7, priority_from="document")


@situation("allow_class")
def _(world: World) -> Given:
    return beyond(world, priority_class="high", priority_from="class")


@situation("raise_priority_of_queue")
def _(world: World) -> Given:
    given = beyond(world, priority=7, priority_from="document")
    world.gateway.submit(requests.PutQueue(queue=Queue(name="default", max_priority=1))).result(30)
    wanted = version(1, priority=7, priority_from="document")
    world.said += world.gateway.submit(requests.CreateApplication(version=wanted)).result(30).message
    return given


def put_class(value: int) -> requests.Request:
    return PutPriorityClass(priority_class=PriorityClass(name="high", value=value))


@situation("list_kinds")
def _(world: World) -> Given:
    assert world.bcs("get", "nonsense") == 2
    return Given()


@situation("use_context")
def _(world: World) -> Given:
    Path(os.environ["BCS_CONFIG"]).write_text('[contexts.prod]\nserver = "http://127.0.0.1:1"\n')
    assert world.bcs("config", "current-context") == 3
    return Given({"name": "prod"})


@situation("set_context")
def _(world: World) -> Given:
    assert world.bcs("config", "current-context") == 3
    return Given({"name": "NAME", "server": "URL"})


@situation("list_contexts")
def _(world: World) -> Given:
    assert world.bcs("config", "use-context", "prod") == 3
    return Given()


# --- the test -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Switchboard, Api]]:
    switchboard = Switchboard()
    with serving(switchboard) as api:
        yield switchboard, api


@pytest.fixture
def world(
    served: tuple[Switchboard, Api],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> World:
    monkeypatch.setenv("BCS_SERVER", served[1].url)
    monkeypatch.setenv("BCS_NAMESPACE", "default")
    monkeypatch.setenv("BCS_CONFIG", str(tmp_path / "bcs.toml"))
    monkeypatch.setenv("COLUMNS", "1000")
    monkeypatch.setenv("BCS_TIMEOUT", "30")
    return World(served[0], capsys)


def test_every_advice_has_a_situation() -> None:
    assert SITUATIONS.keys() == ADVICE.keys()


@pytest.mark.parametrize(
    ("code", "command"),
    [(code, command) for code, advice in ADVICE.items() for command in advice.named()],
    ids=lambda part: str(part).replace(" ", "-"),
)
def test_no_advice_is_refused(world: World, code: AdviceCode, command: str) -> None:
    given = SITUATIONS[code](world)
    assert advise(code, **given.names) in world.said
    words = command.format(**given.names, **given.more).split()
    before, began = world.said, time.time()
    found = world.bcs(*words[1:], *OPTIONS.get(" ".join(words[:2]), ()))
    answer = world.said.removeprefix(before)
    assert not found or AWAY in answer, f"{' '.join(words)}: {found}: {answer}"
    assert time.time() - began < 60
