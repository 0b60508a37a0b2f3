"""One simulation from a seed: steps full of operations and faults, then calm, then everything must come to rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.interface.requests import Rebalance
from bcs_scheduler.core.options import CoreOptions
from tests.simulation import groupreservations, managers, moving, podgroups, reservations
from tests.simulation.agents import SILENCE, SILENT
from tests.simulation.convergence import Convergence
from tests.simulation.driver import Hooks, Node
from tests.simulation.executors import Prober, sends_output
from tests.simulation.faults import APART, Faults
from tests.simulation.invariants import Invariants
from tests.simulation.mesos import Master, Watch
from tests.simulation.partitions import MixedOperators, with_partitions
from tests.simulation.queues import QueueOperators
from tests.simulation.sessions import asked, with_sessions
from tests.simulation.store import Store
from tests.simulation.trees import GuaranteeOperators, TreeOperators, created_by, small, with_trees
from tests.simulation.users import Users
from tests.simulation.violation import Violation
from tests.simulation.world import World
from transactions.base import Options, Periods
from transactions.transitions import InvalidTransition

RETENTION = 150.0
OUTPUT_RETENTION = 200.0
RARE = 400.0
"""Seconds between two rounds of reconciliation at rest."""
LOSS_PAUSE = 30.0
"""Seconds for which a large loss stops replacements: well within the time of a restart."""
CROWDED = 3
"""In one of so many seeds few ended transactions and commands are kept. No chance is drawn for it, so that the other
seeds stay what they were."""
RECOUNT_EVERY = 10
"""Steps between two comparisons of all indexes (I9)."""
LAST, ALL = 150, 1_000_000
"""Lines of a story: the end of it, or everything."""


@dataclass(slots=True)
class Result:
    seed: int
    steps: int
    counts: Counter[str]
    violation: Violation | None
    story: list[str]
    simulated: float
    """Seconds of simulated time."""
    digest: str = ""


class Simulation:
    def __init__(
        self,
        seed: int,
        sessions: bool = False,
        groups: bool = False,
        reserving: bool = False,
        trees: bool = False,
        moves: bool = False,
        mixed: bool = False,
        kept: bool = False,
        guarantees: bool = False,
        held: bool = False,
    ) -> None:
        """`sessions`: with the policy `session` (tests.simulation.sessions). `groups`: users put applications into
        groups (tests.simulation.podgroups). `reserving`: users ask for reservations (tests.simulation.reservations);
        with `groups`, the groups do (tests.simulation.groupreservations).
        `trees`: with the policy `hierarchical` (tests.simulation.trees). `moves`: users and a controller rebalance the
        cluster (tests.simulation.moving), also with `trees`. `mixed`: each role has a policy of its own
        (tests.simulation.partitions).
        `kept`: with `reserving`, placeholders run nothing; `held`: the scheduler holds their room.
        `guarantees`: a full cluster whose queues have guarantees, with the policy `hierarchical`."""
        self.groups, self.reserving, self.moves, self.guarantees = groups, reserving, moves, guarantees
        self.trees = trees or mixed or guarantees
        world = self.world = World(seed)
        self.store = Store(world)
        watch, hooks = Watch(), Hooks()
        self.master = Master(world, watch)
        self.users = Users(world, self.store.durable)
        odd = (groups or reserving) and seed % 2
        options = with_sessions(_options(world)) if sessions or odd else _options(world)
        if sessions:
            self.users.asked = asked
            self.users.queues = QueueOperators(world, self.store.durable)
        elif groups or reserving:
            if reserving:
                options = reservations.with_reservations(options, "hold" if held else "reserve" if kept else "sleep")
            both = groupreservations.asked if reserving else podgroups.asked
            self.users.asked = both if groups else reservations.asked
        elif mixed:
            options = with_partitions(options, seed)
            self.users.asked = asked
            self.users.queues = MixedOperators(world, self.store.durable, options)
        elif guarantees:
            options = with_trees(options)
            self.users.asked = small
            self.users.queues = GuaranteeOperators(world, self.store.durable)
        elif trees:
            options = moving.with_goal(with_trees(options), world) if moves else with_trees(options)
            self.users.asked = moving.asked_in_queues if moves else asked
            self.users.queues = TreeOperators(world, self.store.durable)
        elif moves:
            options = moving.with_moves(options, world)
            self.users.asked = moving.asked
            self.groups, self.reserving = (moving.kind_of_world(seed) == kind for kind in ("groups", "reservations"))
        self.nodes = [Node(world, f"node-{n}", self.store, self.master, options, hooks) for n in range(2)]
        self.prober = Prober(world, self.nodes, self.master)
        self.faults = Faults(world, self.nodes, self.store, self.master)
        if guarantees:
            self.faults.sizes = (1000, 1000, 2000)
        self.invariants = Invariants(world, self.store, self.master, self.users, options)
        self.convergence = Convergence(world, self.faults, self.invariants, self.users)
        watch.launching, watch.refusing = self.invariants.launching, self.invariants.refusing
        watch.freeing, watch.accepting = self.invariants.rooms.freeing, self.invariants.rooms.accepting
        watch.carried_out = self.invariants.messages.carried_out
        hooks.leading = self.invariants.leading
        hooks.decided, hooks.turned = self.invariants.decided, self.invariants.turned
        hooks.leaving = self.invariants.leaving
        hooks.replied, hooks.unanswered = self.users.replied, self.users.unanswered
        self.store.applying = self.invariants.applying

    def run(self, steps: int) -> None:
        """Raises Violation."""
        for _ in range(self.world.number(3, 6) + 4 * self.moves):
            agent = self.faults.add_agent()
            self.users.agents.append(str(agent.attributes["InnerIP"]))
        self.faults.elect_if_needed()
        for step in range(steps):
            self._step(step)
        self.faults.repair()
        self.convergence.wait()
        if self.world.seed % SILENCE == SILENT:
            self._lose_at_rest()
        if self.moves:
            self._moves_end()
        self._recount()

    def _lose_at_rest(self) -> None:
        """Losses that nobody tells, while no other term, no round and no word of an executor helps to notice them."""
        for node in self.nodes:
            node.options = replace(node.options, reconcile_interval=RARE, executor="mesos")
        for lose in (self.faults.lose_between_terms, self.faults.lose_with_an_agent, self.faults.part_for_long):
            lose()
            end = self.world.now + APART
            while self.world.now <= end:
                self.convergence.pass_time()
            self.convergence.wait()

    def _moves_end(self) -> None:
        """I63: nothing changes any more but by moves, and they end."""
        moves, end = self.invariants.moves, self.world.now + moving.REST
        while self.world.now - moves.latest < moving.QUIET:
            if self.world.now > end:
                raise Violation("I63", "taskgroups move without end")
            self.convergence.pass_time()
        self.convergence.wait()

    def _step(self, step: int) -> None:
        world = self.world
        # Taskgroups move while their applications are at rest.
        if world.chance(0.2 if self.moves else 0.4):
            self._operate()
        if world.chance(0.06 if self.moves else 0.15):
            self.faults.strike()
        self.faults.elect_if_needed()
        self.master.allocate()
        world.run(world.now + (world.between(5.0, 40.0) if world.chance(0.03) else world.between(0.01, 1.2)))
        self.invariants.step()
        if step % RECOUNT_EVERY == 0:
            self._recount()

    def _operate(self) -> None:
        """Users reach a leader, sometimes one that does not know yet that it has been deposed."""
        leaders = [node for node in self.nodes if node.term is not None]
        if leaders:
            self.users.decide(leaders[-1].receive)
        if leaders and self.moves and self.world.chance(0.3):
            self.users.ask_for(moving.change, lambda command: self._send(self.world.pick(leaders), command))
        elif leaders and self.groups and self.world.chance(0.15):
            change = groupreservations.change if self.reserving else podgroups.change
            self.users.ask_for(change, lambda command: self._send(self.world.pick(leaders), command))
        elif leaders and self.reserving and not self.groups and self.world.chance(0.3):
            make = partial(managers.change, self.users.version)
            self.users.ask_for(make, lambda command: self._send(self.world.pick(leaders), command))
        elif leaders:
            self.users.ask(lambda command: self._send(self.world.pick(leaders), command))

    def _send(self, node: Node, command: requests.Request) -> None:
        if self.trees:
            command = created_by(command)
        self.invariants.moves.asked(command)
        waits = any(isinstance(one, Rebalance) and not one.dry_run for one in self.users.open.values())
        if not command.dry_run or waits:  # a rebalancing that waits for offers may begin in the turn of the plan
            node.receive(command)
            return
        self.invariants.plan_changed_nothing(node.plan(command))

    def _recount(self) -> None:
        for node in self.nodes:
            if node.term is not None:
                self.invariants.indexes_are_true(node.term)
            if node.standby is not None:
                node.standby.check()


def _options(world: World) -> CoreOptions:
    """Periods short enough that they all end within a simulation."""
    crowded = world.seed % CROWDED == 0
    return CoreOptions(
        max_priority=1_000_000_000,
        transactions=Options(
            periods=Periods(
                default=60.0,
                launch=90.0,
                rolling_up=40.0,
                rolling_down=90.0,
                delete=90.0,
                inner_reschedule=120.0,
                restart_reset=60.0,
                update_delay=world.pick((0.0, 0.0, 2.0)),
                reschedule_delay=world.pick((0.0, 0.0, 2.0)),
                retention=RETENTION,
            ),
            version_history=2,
            keep_each=2 if crowded else 50,
            keep_total=12 if crowded else 20_000,
        ),
        scoring=world.pick(("spread", "binpack")),
        offer_hold=world.pick((1.0, 5.0)),
        offer_reserve=(0, 1, 100)[world.seed % 3],
        refuse_idle=120.0,
        refuse_unfit=world.pick((0.5, 5.0)),
        staging_timeout=15.0,
        agent_return=40.0,
        agent_forget=200.0,
        silence_timeout=world.pick((25.0, 60.0)),
        reconcile_interval=world.pick((20.0, 400.0)),
        kill_retry=1.0,
        kill_retry_max=10.0,
        unit_changes=world.pick((1, 3, 200)),
        executor=world.pick(("bcs", "bcs", "mesos")),
        answer_timeout=world.pick((5.0, 30.0)),
        command_keep=1 if crowded else 100,
        command_keep_total=12 if crowded else 50_000,
        output_keep=2 if sends_output(world.seed) else 10,
        output_keep_total=12 if sends_output(world.seed) else 16_000,
        output_retention=OUTPUT_RETENTION,
        loss_pause=LOSS_PAUSE,
        strict=True,
    )


def simulate(
    seed: int,
    steps: int,
    *,
    trace: bool = False,
    verbose: bool = False,
    sessions: bool = False,
    groups: bool = False,
    reservations: bool = False,
    trees: bool = False,
    moves: bool = False,
    mixed: bool = False,
    kept: bool = False,
    guarantees: bool = False,
    held: bool = False,
) -> Result:
    """Runs one seed; a violation is returned, with the stories of its objects (`verbose`: of everything). `sessions`,
    `groups`, `reservations`, `trees`, `moves`, `mixed`, `kept`, `guarantees`, `held`: as in
    `Simulation`."""
    simulation = Simulation(seed, sessions, groups, reservations, trees, moves, mixed, kept, guarantees, held)
    violation = None
    began = simulation.world.now
    try:
        simulation.run(steps)
    except Violation as caught:
        violation = caught
    except InvalidTransition as refused:
        violation = Violation("I33", str(refused), refused.key)
    world = simulation.world
    told = verbose or violation is not None
    objects = () if verbose or violation is None else violation.objects
    return Result(
        seed,
        steps,
        world.counts,
        violation,
        world.told(objects, ALL if verbose else LAST) if told else [],
        world.now - began,
        world.digest() if trace else "",
    )
