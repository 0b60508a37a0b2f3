"""Daemonsets, applications and drains while agents come and go at random: what must hold at every moment, and that
everything is as it should be once nothing happens any more."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.interface import requests
from store.records import TaskGroup
from store.records.definition import RestartPolicy, UnreachablePolicy
from tests.effort import check_few
from tests.unit.agentlab import Cluster, record
from tests.unit.lab import version
from transactions.rules.disruptions import WAITED
from transactions.rules.lifecycle import is_ready_or_finished

DAEMON, APP = "default/web", "default/shop"
INSTANCES, BOUND = 5, 2
POLICIES: dict[str, Any] = {
    "restart_policy": RestartPolicy(policy="Always"),
    "unreachable_policy": UnreachablePolicy(replace_after=30.0),
}
STEPS = 150


class Chaos:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lab = Cluster(4)
        self.lab.begin(bound=1, **POLICIES)
        shop = msgspec.structs.replace(version(INSTANCES, max_unavailable=BOUND, **POLICIES), application="shop")
        assert not self.lab.ask(requests.CreateApplication(version=shop)).error
        self.revision = 1
        self.moved: set[str] = set()
        self.were_ready: set[str] = set()
        """Taskgroups of the application that were ready when it was looked at last."""
        self.empty: dict[int, float] = {}
        """Since when the places of the application are empty, by index; also for a while after they were filled late:
        the budget has forgotten them meanwhile."""
        self.joined = 4

    def groups(self, key: str) -> list[TaskGroup]:
        return sorted(self.lab.core.state.groups_of(key).values(), key=lambda group: group.id)

    def step(self) -> None:
        lab, chance = self.lab, self.chance
        move = chance.choice(
            ["play"] * 6 + ["offers"] * 3 + ["wait"] * 3
            + ["fail", "join", "leave", "unreachable", "drain", "enable", "update", "taint", "succeed", "restart"]
        )  # fmt: skip
        agents = sorted(lab.listed)
        everything = [*self.groups(DAEMON), *self.groups(APP)]
        live = [group for group in everything if not group.ended and group.agent_id in lab.listed]
        match move:
            case "play":
                self.play(2)
            case "offers":
                lab.offers()
            case "wait":
                lab.wait(chance.choice([0.6, 3.0, 40.0]))
            case "fail" if live:
                lab.report(chance.choice(live), chance.choice(["FAILED", "LOST"]))
            case "join":
                lab.join(f"late-{self.joined}")
                self.joined += 1
            case "leave" if len(agents) > 2:
                gone = chance.choice(agents)
                lab.leave(gone)
                for group in [group for group in everything if group.agent_id == gone and not group.ended]:
                    lab.report(group, chance.choice(["GONE_BY_OPERATOR", "UNREACHABLE"]))
                    self.check()
            case "unreachable" if live:
                lab.report(chance.choice(live), "UNREACHABLE")
            case "drain" if len(agents) > 2:
                options: dict[str, Any] = {"at_once": chance.choice([1, 3]), "daemonsets": chance.random() < 0.3}
                lab.ask(requests.DrainAgent(agent=chance.choice(agents), **options))
            case "enable":
                lab.ask(requests.SetAgent(agent=chance.choice(agents), disabled=False))
            case "taint":
                lab.ask(requests.SetAgent(agent=chance.choice(agents), taints=chance.choice([{}, {"for": "db"}])))
            case "update":
                self.revision += 1
                wanted = version(labels={"revision": str(self.revision)}, **POLICIES)
                assert not lab.ask(requests.UpdateDaemonset(daemonset=record(1), version=wanted)).error
            case "restart" if live:
                lab.ask(requests.RescheduleTaskGroup(taskgroup=chance.choice(live).id))
            case "succeed":
                self.lab = lab.succeed()
                self.lab.list()
        self.check()

    def play(self, most: int) -> bool:
        """Agents that are there do what they are told. False if nothing was to do."""
        lab = self.lab
        there = [g for key in (DAEMON, APP) for g in self.groups(key) if g.agent_id in lab.listed and not g.ended]
        todo = [g for g in there if g.killing_since or not g.started or g.unreachable_since]
        for group in self.chance.sample(todo, min(most, len(todo))):
            lab.report(group, "KILLED" if group.killing_since else "RUNNING")
            self.check()
        return bool(todo)

    def ready(self) -> int:
        return sum(map(is_ready_or_finished, self.groups(APP)))

    def check(self) -> None:
        daemons = self.groups(DAEMON)
        twice = [agent for agent, count in Counter(group.agent_id for group in daemons).items() if count > 1]
        assert not twice, f"more than one on {twice}"
        indexes = Counter(group.index for group in daemons)
        assert max(indexes.values(), default=1) == 1, "an index is held twice"
        moved = {g.id for g in self.groups(APP) if g.end_cause == "Drained"} - self.moved
        if moved & self.were_ready:
            assert self.ready() >= INSTANCES - BOUND - self.forgotten(), "more are moved than the application allows"
        self.forgotten()
        self.moved |= moved
        self.were_ready = {group.id for group in self.groups(APP) if is_ready_or_finished(group)}

    def forgotten(self) -> int:
        """The number of places that have waited for room for so long that the budget does not count them."""
        now = self.lab.now
        live = {group.index: group for group in self.groups(APP) if not group.ended}
        for index in range(INSTANCES):
            if index not in live:
                self.empty.setdefault(index, now)
            elif is_ready_or_finished(live[index]) or live[index].created_at - self.empty.get(index, now) < WAITED:
                self.empty.pop(index, None)
        return sum(now - since >= WAITED for since in self.empty.values())

    def settle(self) -> None:
        """Nothing else happens any more."""
        for agent in list(self.lab.core.state.agent_settings):
            self.lab.ask(requests.SetAgent(agent=agent, disabled=False, taints={}))
        for _ in range(60):
            self.lab.offers()
            self.lab.wait(61.0)
            while self.play(100):
                self.lab.offers()
            if self.settled():
                return
        raise AssertionError(
            f"{self.lab.daemonset} {[(g.agent_id, g.status, g.kill_reason) for g in self.groups(DAEMON)]}"
        )

    def settled(self) -> bool:
        lab = self.lab
        daemons = [group for group in self.groups(DAEMON) if group.agent_id in lab.listed]
        newest = lab.core.state.applications[DAEMON].version
        return (
            {group.agent_id for group in daemons} == set(lab.listed)
            and all(is_ready_or_finished(group) and group.version == newest for group in daemons)
            and self.ready() == INSTANCES
            and lab.daemonset.status == "Running"
        )


@pytest.mark.parametrize("seed", check_few(range(12), 3, always=4))
def test_one_per_agent_at_every_moment_and_everywhere_in_the_end(seed: int) -> None:
    chaos = Chaos(seed)
    for _ in range(STEPS):
        chaos.step()
    chaos.settle()
