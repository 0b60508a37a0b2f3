"""Questions beside a quiet world: dry runs, what-if, plans of drains and of rebalancing, trials of queue trees.

A question is asked in a turn of its own, at a moment at which nothing is left to be done. It must change no record. If
it has asked the cluster for no offers, everything that follows is as if nobody had asked: the story of a world with
questions has the lines of the same world without them, each within a period of sessions.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Literal

import msgspec

from bcs_scheduler.core.interface import effects, leased, requests
from bcs_scheduler.core.interface.cluster_manager import ListAgents
from store.records import Application, TaskGroup
from store.state.unit_of_work import Unit
from tests.simulation.dumping import dump
from tests.simulation.policies.users import Engine, FairWorld, address, replace_version
from tests.simulation.policies.world import TICK, QuietWorld
from tests.simulation.violation import Violation

TOKEN = 10**9
"""The token of questions; users have smaller ones."""
SETTLING, ANSWERING = 30, 40
"""Turns until nothing is left to be done at a moment, and turns until a question has its answer, at most. A dry run
that waits for offers is answered later."""
PERIOD = 1.0
"""Seconds by which a question may change the moment of a decision: the period of sessions."""
SHARE = 0.3
"""Share of the turns after which a question is asked."""
TAB = "\t"
NUMBER = re.compile(r"\d{5,}")
Make = Callable[[], requests.Request | None]


class AskingWorld(QuietWorld):
    """A world in which questions are asked once they are `open`."""

    tree: Callable[[], dict[str, Any]] | None = None
    """Makes a tree of queues at random; None: the policy has no tree."""
    asks = False
    """False: the turns are the same, but nothing is asked."""
    requested = False
    """A question has asked the cluster for offers or for the list of agents."""

    def open(self, seed: int, kinds: Sequence[str]) -> None:
        """Questions are asked from now on. `kinds`: names of methods below, without the first word; empty: none."""
        self._chance, self._kinds = random.Random(f"questions-{seed}"), kinds
        self.asks = True

    @property
    def groups(self) -> Mapping[str, TaskGroup]:
        """In the order of their names without numbers: launches of one turn may leave in another order."""
        return dict(sorted(self._groups.items(), key=lambda pair: NUMBER.sub("#", pair[0])))

    def _turn(self) -> None:
        super()._turn()
        if self.asks and self._chance.random() < SHARE:
            chance = random.Random(self._chance.random())
            self._settle()
            if self._kinds:
                self._ask(chance)
            self._wake += 1
            at = max(self.now + 0.001, self.core.next_wakeup(self.now, TICK))
            self._clock.at(at, self._woken, self._wake)

    def _settle(self) -> None:
        for _ in range(SETTLING):
            units = self.core.turn([], self.now)
            for unit in units:
                self._follow(unit)
            if not (self.core.busy or any(map(_does_something, units))):
                break
        else:
            raise Violation("I12", "the core does not come to rest at one moment")
        self.turned()

    def _ask(self, chance: random.Random) -> None:
        kind = chance.choice(self._kinds)
        question = getattr(self, f"_of_{kind}")(chance)
        if question is None:
            return
        self.counts[f"question: {kind}"] += 1
        before = self._structures()
        batch = [msgspec.structs.replace(question, token=TOKEN, dry_run=True)]
        for _ in range(ANSWERING):
            units = self.core.turn(batch, self.now)
            batch = []
            for unit in units:
                if unit.changes:
                    changed = [f"{change.kind} {change.key}" for change in unit.changes]
                    raise Violation("I12", f"a question ({kind}) changed {changed}")
                for effect in unit.effects:
                    if isinstance(effect, leased.Revive | ListAgents):
                        self.requested = True
                        self.cluster.take(effect)
                    elif not isinstance(effect, effects.Reply | effects.Observed | effects.LogLine):
                        raise Violation("I12", f"a question ({kind}) has an effect: {effect}")
            if any(isinstance(one, effects.Reply) for unit in units for one in unit.effects):
                self.counts[f"answer: {kind}"] += 1
                break
        self._compare(kind, before)

    def _structures(self) -> list[str]:
        """A dump of the live structures of decisions: trees of queues, snapshots, promises, held room, offers, and
        demands."""
        turn = self.core.turn_context
        turn.pool.table.flush()  # figures of rows that are out of date are worked out before the next search
        return list(dump({"pass": turn.placer.policy_of("*"), "offers": turn.pool, "engine": turn.engine}))

    def _compare(self, kind: str, before: Sequence[str]) -> None:
        after = self._structures()
        if after == before:
            return
        pairs = zip_longest(before, after, fillvalue="nothing")
        first, second = next((one, other) for one, other in pairs if one != other)
        parts = zip_longest(first.split(TAB), second.split(TAB), fillvalue="nothing")
        changed = " -> ".join(next((one, other) for one, other in parts if one != other))
        raise Violation("I12", f"a question ({kind}) changed {first.split(TAB)[0]}: {changed}")

    # --- questions --------------------------------------------------------------------------------------------

    def _application(self, chance: random.Random) -> Application | None:
        work = list(self.state.applications.values())
        return chance.choice(work) if work else None

    def _of_scale(self, chance: random.Random) -> requests.Request | None:
        one = self._application(chance)
        if one is None:
            return None
        number = one.instances + chance.randint(1, 4)
        return requests.ScaleApplication(namespace=one.namespace, name=one.name, instances=number)

    def _of_create(self, chance: random.Random) -> requests.Request | None:
        one = self._application(chance)
        version = self.state.version(one.key, one.version) if one is not None else None
        if version is None:
            return None
        version = replace_version(version, application="new", instances=chance.randint(1, 5))
        return requests.CreateApplication(version=version)

    def _of_whatif(self, chance: random.Random) -> requests.Request | None:
        one = self._application(chance)
        return requests.AskWhatIf(namespace=one.namespace, name=one.name) if one is not None else None

    def _of_drain(self, chance: random.Random) -> requests.Request:
        return requests.DrainAgent(agent=address(chance.randrange(3)))

    def _of_agents(self, chance: random.Random) -> requests.Request:
        return requests.PlanAgents(agents=(address(0),), drain=chance.random() < 0.5)

    def _of_rebalance(self, chance: random.Random) -> requests.Request:
        goal: Literal["pack", "spread"] = "pack" if chance.random() < 0.5 else "spread"
        return requests.Rebalance(goal=goal, moves=3)

    def _of_tree(self, chance: random.Random) -> requests.Request | None:
        del chance
        return requests.PutQueueTree(document=json.dumps(self.tree()), author="ops") if self.tree is not None else None


KINDS = ("scale", "create", "whatif", "drain", "agents", "rebalance", "tree")


def _does_something(unit: Unit) -> bool:
    return bool(unit.changes) or any(not isinstance(one, effects.Observed) for one in unit.effects)


def _reported(world: AskingWorld) -> Mapping[str, list[float]]:
    """The lines of a story, each with its moments, without the numbers in names: a question may use up identifiers."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for at, words in world.told:
        found[NUMBER.sub("#", words)].append(at)
    return found


def _run(seed: int, steps: int, engine: Engine, kinds: Sequence[str]) -> AskingWorld:
    fair = FairWorld(seed, engine, AskingWorld)
    world = fair.world
    assert isinstance(world, AskingWorld)
    if engine == "hierarchical":
        world.tree = fair.other_tree
    world.open(seed, kinds)
    fair.run(steps)
    return world


def questioned(seed: int, steps: int, engine: Engine, kinds: Sequence[str]) -> tuple[Violation | None, Counter[str]]:
    """Runs a seed with questions of these kinds, and without: the violation, and counts of the questions."""
    try:
        plain, asked = _run(seed, steps, engine, ()), _run(seed, steps, engine, kinds)
    except Violation as caught:
        return caught, Counter()
    if asked.requested:
        asked.counts["worlds with requests"] += 1
        return None, asked.counts
    asked.counts["worlds without requests"] += 1
    before, after = _reported(plain), _reported(asked)
    for words in sorted({*before, *after}, key=lambda one: (*before.get(one, ()), *after.get(one, ()))):
        moments, others = before.get(words, []), after.get(words, [])
        if len(moments) != len(others) or any(abs(a - b) > PERIOD for a, b in zip(moments, others, strict=True)):
            return Violation(
                "I12", f"a question has changed what follows: {words}: {moments} -> {others}"
            ), asked.counts
    return None, asked.counts
