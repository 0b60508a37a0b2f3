"""Rolling updates under random failures, user operations, lost agents and changes of leader at any commit.

After every turn: a ready taskgroup is chosen to go only if enough others are ready, one is added only if there is room,
no index is held twice. Once the faults stop, every update comes to its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.interface import effects, inputs, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.rollout import amendments
from store.records import Application, Canary, Deployment, Record, Strategy, TaskGroup
from store.records.definition import RestartPolicy, UnreachablePolicy
from store.state import State
from store.state.unit_of_work import Unit
from tests.effort import check_few
from tests.unit.lab import START, version
from tests.unit.rollinglab import WEB, RollingLab, wish
from transactions.base import Options, Periods
from transactions.conflicts import OnConflict
from transactions.kinds.registry import kind_of
from transactions.rules import rolling
from transactions.rules.lifecycle import is_chosen_by_rollout

OPTIONS = CoreOptions(
    strict=True,
    transactions=Options(periods=Periods(rolling_up=60, rolling_down=200, delete=300, launch=120), version_history=3),
)
ON_CONFLICT: tuple[OnConflict, ...] = ("supersede", "fail")


class ChaosLab(RollingLab):
    """`durable`: what the store has. `cut_at`: the leader dies after so many units of the next turn."""

    def __init__(self, options: CoreOptions | None = None, records: Iterable[Record] = (), now: float = START) -> None:
        records = list(records)
        self.durable = State(records)
        self.cut_at: int | None = None
        self.dead = False
        super().__init__(options, records, now)

    def turn(self, *batch: inputs.Input) -> list[effects.Effect]:
        if self.dead:
            return []
        before = {group.id: group for group in self.groups}
        was = self.core.state.deployments.get(WEB)
        units: list[Unit] = self.core.turn(batch, self.now)
        if self.cut_at is not None and len(units) > self.cut_at:
            units, self.dead = units[: self.cut_at], True
        for unit in units:
            for change in unit.changes:
                self.durable.apply(change.kind, change.key, change.record)
        self.out = [effect for unit in units for effect in unit.effects]  # type: ignore[misc]
        if not self.dead:
            self.check(before, was)
        return self.out

    def check(self, before: dict[str, TaskGroup], was: Deployment | None) -> None:
        held = [(group.application, group.index) for group in self.groups]
        assert len(held) == len(set(held)), "an index is held twice"
        deployment = self.core.state.deployments.get(WEB)
        if deployment is None or not deployment.updating or deployment.status == "Deleting":
            return
        floor, ceiling = rolling.bounds(deployment)
        if was is not None and was.updating and rolling.bounds(was) != (floor, ceiling):
            # One update was superseded, or got another number, in this turn: each acted within its own bounds.
            floor, ceiling = min(floor, rolling.bounds(was)[0]), max(ceiling, rolling.bounds(was)[1])
        chosen = [g for g in self.groups if is_chosen_by_rollout(g) and g.id in before and self.is_ready(before[g.id])]
        # Only those that would still be ready: others were reported as failed in the same turn.
        chosen = [g for g in chosen if not is_chosen_by_rollout(before[g.id]) and g.status in ("Running", "Finish")]
        if chosen:
            assert self.ready >= floor, f"{len(chosen)} chosen to go, {self.ready} ready of {floor}"
        places = {(g.application, g.index) for g in before.values()}
        if any((g.application, g.index) not in places for g in self.groups):
            assert self.present <= ceiling, f"{self.present} there, {ceiling} may be"

    def succeed(self) -> ChaosLab:
        successor = ChaosLab(self.options, self.durable.records(), self.now)
        successor._serial = self._serial + 1000
        return successor


def story(seed: int, turns: int = 120) -> ChaosLab:
    random = Random(seed)
    lab = ChaosLab(OPTIONS)
    lab.offer()
    policy = random.choice(["Never", "OnFailure", "OnFailure", "Always"])
    fields: dict[str, Any] = {
        "restart_policy": RestartPolicy(policy=policy, max_times=random.choice([0, 0, 2])),  # type: ignore[arg-type]
        "unreachable_policy": UnreachablePolicy(replace_after=random.choice([0.0, 20.0, 20.0, -1.0])),
    }
    lab.deploy(random.randint(1, 6), strategy=strategy(random), **fields)
    for _ in range(turns):
        lab.now += random.choice([0.0, 0.5, 3.0, 20.0])
        if random.random() < 0.15:
            lab.cut_at = random.randint(0, 3)
        disturb(lab, random, fields)
        if lab.dead or random.random() < 0.03:
            lab = lab.succeed()
            lab.offer()
    return lab


def strategy(random: Random) -> Strategy:
    surge, unavailable = random.choice([(1, 1), (0, 1), (1, 0), (3, 0), (0, 2), (2, 3)])
    canary = Canary(instances=random.randint(1, 3), hold=5.0) if random.random() < 0.3 else None
    if canary is not None and random.random() < 0.3:
        canary = Canary(instances=1, manual=True)
    return Strategy(
        max_surge=surge,
        max_unavailable=unavailable,
        order=random.choice(["CreateFirst", "DeleteFirst"]),
        pause=random.choice([0.0, 0.0, 4.0]),
        min_ready=random.choice([0.0, 0.0, 2.0]),
        manual=random.random() < 0.15,
        on_failure=random.choice(["suspend", "rollback"]),
        canary=canary,
    )


def disturb(lab: ChaosLab, random: Random, fields: dict) -> None:  # type: ignore[type-arg]
    groups = [g for g in lab.groups if not g.ended]
    group = random.choice(groups) if groups else None
    match random.choice(["run"] * 8 + ["fail", "lose", "return", "user", "user", "tick", "finish"]):
        case "run":
            lab.once(start=random.random() < 0.8, end=random.random() < 0.8)
        case "fail" if group is not None:
            lab.report(group, "FAILED")
        case "finish" if group is not None and random.random() < 0.2:
            lab.report(group, "FINISHED")
        case "lose" if group is not None:
            lab.report(group, "UNREACHABLE")
        case "return" if group is not None:
            lab.report(group, "RUNNING")
        case "user":
            act(lab, random, fields)
        case _:
            lab.turn()


def act(lab: ChaosLab, random: Random, fields: dict) -> None:  # type: ignore[type-arg]
    instances = random.randint(1, 6)
    wanted = wish(instances, strategy=strategy(random))
    definition = version(instances, labels={"revision": str(random.randint(1, 5))}, **fields)
    control = [
        requests.ControlDeployment(namespace="default", name="web", action=action)
        for action in ("pause", "resume", "cancel", "restart")
    ]
    others: list[requests.Request] = [
        requests.RollbackDeployment(namespace="default", name="web"),
        *[
            requests.ScaleDeployment(namespace="default", name="web", instances=instances, on_conflict=on_conflict)
            for on_conflict in ON_CONFLICT
        ],
        *[requests.RescheduleTaskGroup(taskgroup=g.id) for g in lab.groups[:1]],
    ]
    if random.random() < 0.02:
        others = [requests.DeleteDeployment(namespace="default", name="web", enforce=random.random() < 0.3)]
    updates = [
        requests.UpdateDeployment(deployment=wanted, version=definition, on_conflict=on_conflict)
        for on_conflict in ON_CONFLICT
    ] * 2
    if WEB not in lab.core.state.deployments:
        lab.turn(requests.CreateDeployment(deployment=wanted, version=definition))
        return
    command = random.choice([*control, *others, *updates])
    lab.turn(msgspec.structs.replace(command, dry_run=random.random() < 0.1))


def calm(lab: ChaosLab) -> None:
    """No faults any more, every agent is back, and the user wants everything to go on."""
    lab.cut_at = None
    for _ in range(300):
        deployment = lab.core.state.deployments.get(WEB)
        if deployment is None or (deployment.status == "Running" and settled(lab)):
            return
        if deployment.status in ("UpdatePaused", "UpdateSuspend"):
            lab.control("resume")
        for group in [g for g in lab.groups if g.unreachable_since]:
            lab.report(group, "RUNNING")
        lab.once()
        lab.now += 1.0
        lab.turn()
    deployment = lab.deployment
    raise AssertionError(f"{deployment.status} {deployment.phase} {deployment.message}: {told(lab)}")


def settled(lab: ChaosLab) -> bool:
    if any(kind_of(lab.core.state, transaction).sizes for transaction in lab.core.state.active_transactions()):
        return False
    return all(g.started and not g.killing_since and not g.ended for g in lab.groups) or not any(
        g.killing_since and not g.ended for g in lab.groups
    )


def told(lab: ChaosLab) -> list[tuple[str, str, str, bool]]:
    return [(g.name, g.status, g.kill_reason, g.ended) for g in lab.groups]


@pytest.mark.parametrize("seed", check_few(range(60), 8, always=12))
def test_updates_keep_their_bounds_whatever_happens_and_come_to_an_end(seed: int) -> None:
    lab = story(seed)
    calm(lab)
    deployment = lab.core.state.deployments.get(WEB)
    if deployment is None:
        assert not lab.core.state.applications
        assert not lab.core.state.revisions
        return
    assert list(lab.core.state.applications) == [f"default/{deployment.application}"]
    assert not lab.application.rolling
    assert all(group.index < lab.application.instances for group in lab.groups)
    assert lab.application.instances == deployment.instances
    assert deployment.revision in lab.core.state.revisions_of(WEB)


def _at_once(turn: TurnContext, deployment: Deployment) -> Deployment:
    """An update that gets another number adds all that is missing of it, whatever else is there."""
    for adding in list(turn.state.active_of(f"default/{deployment.successor}").values()):
        turn.uow.put(msgspec.structs.replace(adding, target=deployment.instances))
    return deployment


@pytest.mark.rotating
@pytest.mark.slow
def test_a_planted_error_about_another_number_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amendments, "_fit", _at_once)
    with pytest.raises(AssertionError, match="may be"):
        for seed in range(60):
            story(seed)


def test_a_planted_error_about_superseded_revisions_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds are those of two applications: superseded ones are not counted."""
    honest = rolling.side

    def short_sighted(state: State, *applications: Application) -> rolling.Side:
        return honest(state, applications[-1] if len(applications) > 1 else applications[0])

    monkeypatch.setattr(rolling, "side", short_sighted)
    with pytest.raises(AssertionError, match="may be"):
        for seed in range(60):
            story(seed)
