"""What goes wrong, at random, and how it is repaired in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from bcs_scheduler.core.interface import cluster_manager, leased
from tests.simulation.agents import SILENCE, SILENT, Agent
from tests.simulation.driver import Node
from tests.simulation.mesos import Master
from tests.simulation.store import Store
from tests.simulation.users import ZONES
from tests.simulation.world import World

UNREACHABLE_AFTER = 6.0
"""Seconds after which the master gives up on a silent agent (75 in reality)."""
REREGISTER_TIMEOUT = 20.0
"""Seconds agents have to come back after a failover of the master (600 in reality)."""

APART = 90.0
"""Seconds for which an agent at rest cannot be reached."""
CLOCKS_REACH = 4 * 3600.0
"""Seconds by which wall clocks are set wrong at most; half of them by less than a sixteenth of it."""


class Faults:
    def __init__(self, world: World, nodes: Sequence[Node], store: Store, master: Master) -> None:
        self.world, self.nodes, self.store, self.master = world, nodes, store, master
        self._electing = False
        self.sizes = (2000, 4000, 8000)
        """Thousandths of cores of agents."""
        self._agents = 0

    # --- the cluster ------------------------------------------------------------------------------------------

    def add_agent(self, host: str = "") -> Agent:
        """A new agent, on a new machine or on one that was started anew."""
        world = self.world
        self._agents += 1
        number = self._agents
        facts = {
            "host": host or f"host-{number}",
            "attributes": {
                "InnerIP": f"10.0.0.{host.rpartition('-')[2] or number}",
                "zone": world.pick(ZONES),
                "rack": float(world.number(1, 3)),
            },
            "capacity": {
                "cpus": world.pick(self.sizes),
                "mem": world.pick((2_000_000, 4_000_000)),
                "disk": 1_000_000,
            },
            "ports": (31000, 31000 + world.number(2, 8)),
        }
        agent = Agent(world, self.master, f"agent-{number}", facts)
        self.master.cluster[agent.id] = agent
        self.master.register(agent)
        return agent

    # --- leadership -------------------------------------------------------------------------------------------

    def leader(self) -> Node | None:
        """The process that leads in truth."""
        return next((n for n in self.nodes if n.term is not None and n.term.epoch == self.store.epoch), None)

    def elect_if_needed(self) -> None:
        if self.leader() is None and not self._electing:
            self._electing = True
            self.world.after(self.world.between(0.05, 3.0), self._elect)

    def _elect(self) -> None:
        ready = [node for node in self.nodes if node.alive and node.term is None]
        if not ready or not self.store.reachable:
            self.world.after(0.5, self._elect)
            return
        self._electing = False
        if self.leader() is None:
            self.world.pick(ready).lead()

    # --- faults -----------------------------------------------------------------------------------------------

    def strike(self) -> None:
        """One fault at random."""
        choices: tuple[tuple[float, Callable[[], bool]], ...] = (
            (3.0, self._crash_leader),
            (1.5, self._depose_leader),
            (1.0, self._slow_store),
            (1.0, self._cut_store),
            (2.0, self._break_stream),
            (1.0, self._fail_master_over),
            (3.0, self._partition_agent),
            (0.7, self._destroy_agent),
            (0.5, self._forget_unreachable),
            (1.5, self._rescind),
            (2.0, self._crash_tasks),
            (0.5, self._executor_ends),
            (0.3, self._plan_maintenance),
            (0.7, self._shift_clock),
        )
        if self.world.seed % SILENCE == SILENT:
            choices += ((2.5, self._restart_agent_without_executors),)
        fault = self.world.weighted(choices)
        if fault():
            name = fault.__name__.strip("_").replace("_", " ")
            self.world.count(f"fault: {name}")
            self.world.tell("fault", name)

    def _crash_leader(self) -> bool:
        leaders = [node for node in self.nodes if node.term is not None]
        if not leaders:
            return False
        node = self.world.pick(leaders)
        node.crash()
        self.world.after(self.world.between(0.5, 10.0), self._restart, node)
        return True

    def _restart(self, node: Node) -> None:
        node.restart()

    def _depose_leader(self) -> bool:
        """Another process is elected while the old leader goes on for a while without knowing."""
        old = self.leader()
        others = [node for node in self.nodes if node.alive and node.term is None]
        if old is None or not others or not self.store.reachable:
            return False
        term = old.term
        self.world.pick(others).lead()
        self.world.after(self.world.between(0.0, 20.0), self._tell_deposed, old, term)
        return True

    @staticmethod
    def _tell_deposed(node: Node, term: object) -> None:
        if node.term is term:
            node.step_down("session expired")

    def _slow_store(self) -> bool:
        self.store.slow = True
        self.world.after(self.world.between(1.0, 15.0), setattr, self.store, "slow", False)
        return True

    def _cut_store(self) -> bool:
        self.store.reachable = False
        self.world.after(self.world.between(0.5, 10.0), setattr, self.store, "reachable", True)
        return True

    def _break_stream(self) -> bool:
        if self.master.session is None:
            return False
        self.master.disconnect("connection reset")
        return True

    def _fail_master_over(self) -> bool:
        if not self.master.up:
            return False
        self.master.fail_over()
        self.master.up = False
        self.world.after(self.world.between(0.5, 5.0), self._master_up)
        return True

    def _master_up(self) -> None:
        self.master.up = True
        for agent in list(self.master.cluster.values()):
            if agent.id in self.master.recovered:
                late = self.world.between(10.0, 0.9 * REREGISTER_TIMEOUT) if self.world.chance(0.2) else 0.0
                self.world.after(late or self.world.between(0.0, 10.0), self.master.register, agent)
                self.world.after(REREGISTER_TIMEOUT, self._give_up, agent)

    def _give_up(self, agent: Agent) -> None:
        if self.master.up and agent.id in self.master.recovered:
            self.master.mark_unreachable(agent)

    def _partition_agent(self) -> bool:
        agents = [a for a in self.master.registered.values() if a.reachable]
        if not agents:
            return False
        agent = self.world.pick(agents)
        agent.reachable = False
        self.world.after(UNREACHABLE_AFTER, self._notice_silence, agent)
        self.world.after(self.world.between(1.0, 60.0), self._heal, agent)
        return True

    def _notice_silence(self, agent: Agent) -> None:
        if not agent.reachable and self.master.up:
            self.master.mark_unreachable(agent)

    def _heal(self, agent: Agent) -> None:
        if not agent.dead and not agent.reachable:
            agent.reachable = True
            self.world.tell(agent.id, "reachable again")
            self._rejoin(agent)

    def _rejoin(self, agent: Agent) -> None:
        if self.master.up:
            self.master.register(agent)
        else:
            self.world.after(1.0, self._rejoin, agent)

    def _destroy_agent(self) -> bool:
        """The machine burns. A new agent takes its place; operators may or may not say that the old one is gone."""
        agents = [a for a in self.master.registered.values() if a.reachable]
        if len(agents) < 2:
            return False
        agent = self.world.pick(agents)
        agent.reachable, agent.dead = False, True
        self.world.after(UNREACHABLE_AFTER, self._notice_silence, agent)
        if self.world.chance(0.7):
            self.world.after(self.world.between(8.0, 40.0), self._declare_gone, agent)
        self.world.after(self.world.between(1.0, 20.0), self._replace, agent)
        return True

    def _declare_gone(self, agent: Agent) -> None:
        if self.master.up:
            self.master.mark_gone(agent)
        else:
            self.world.after(1.0, self._declare_gone, agent)

    def _replace(self, agent: Agent) -> None:
        if self.master.up:
            self.add_agent(agent.host)
        else:
            self.world.after(1.0, self._replace, agent)

    def _forget_unreachable(self) -> bool:
        """The master's registry forgets agents that have been away for long."""
        away = sorted(self.master.unreachable)
        if not away:
            return False
        self.master.unreachable.discard(self.world.pick(away))
        return True

    def _rescind(self) -> bool:
        for identity in self.world.some(self.master.allocator.ids(), 2):
            self.master.rescind(identity)
        self.world.after(1.0, self.master.allocate)
        return True

    def _crash_tasks(self) -> bool:
        groups = [(a, g) for a in self.master.cluster.values() if not a.dead for g in a.live_groups()]
        for agent, group in self.world.some(groups, 2):
            agent.crash(group)
        return bool(groups)

    def _executor_ends(self) -> bool:
        groups = [(a, g) for a in self.master.registered.values() for g in a.live_groups()]
        if not groups:
            return False
        agent, group = self.world.pick(groups)
        self.master.send(cluster_manager.ExecutorTerminated(agent_id=agent.id, executor_id=group.id, cause="executor"))
        return True

    def _restart_agent_without_executors(self) -> bool:
        """An agent ends together with some of its executors, and does not remember those when it is back."""
        agents = [a for a in self.master.registered.values() if a.reachable and a.live_groups()]
        if not agents:
            return False
        agent = self.world.pick(agents)
        agent.reachable, agent.forgetful = False, True
        for group in self.world.some(agent.live_groups(), self.world.number(1, 3)):
            agent.die_silently(group)
        self.world.after(UNREACHABLE_AFTER, self._notice_silence, agent)
        self.world.after(self.world.between(1.0, 12.0), self._heal, agent)
        return True

    def _plan_maintenance(self) -> bool:
        self.master.send(leased.InverseOffersArrived(offers=(("inverse", "", self.world.now + 60.0),), cause="inverse"))
        return True

    def _shift_clock(self) -> bool:
        """The wall clock of a host is set: by seconds, or by hours in either direction."""
        share = self.world.between(-1.0, 1.0)
        self.world.pick(self.nodes).skew = CLOCKS_REACH * share * abs(share) ** 3
        return True

    # --- losses at rest ---------------------------------------------------------------------------------------

    def lose_between_terms(self) -> None:
        """The process that leads crashes, and taskgroups end without a word before the next term."""
        leader = self.leader()
        assert leader is not None
        leader.crash()
        leader.restart()
        self._lose(self.master.registered.values())

    def lose_with_an_agent(self) -> None:
        """An agent restarts without some of its executors, and its master does not know that they have run. What is
        launched next ends before its first status."""
        agent = self._busiest()
        agent.reachable = False
        self._lose([agent])
        for one in self.master.registered.values():
            one.mute = True
        self.world.after(2.0, self._heal, agent)

    def part_for_long(self) -> None:
        """An agent cannot be reached until others run what it runs."""
        agent = self._busiest()
        agent.reachable = False
        self.world.after(UNREACHABLE_AFTER, self._notice_silence, agent)
        self.world.after(APART, self._heal, agent)

    def _busiest(self) -> Agent:
        return max(self.master.registered.values(), key=lambda agent: (len(agent.live_groups()), agent.id))

    def _lose(self, agents: Iterable[Agent]) -> None:
        for agent in agents:
            for group in agent.live_groups()[:2]:
                agent.die_silently(group)
                self.master.forget(group)

    # --- repair -----------------------------------------------------------------------------------------------

    def repair(self) -> None:
        """Everything that can come back does."""
        self.world.calm = True
        self.store.slow, self.store.reachable = False, True
        self.master.up = True
        for node in self.nodes:
            node.restart()
        for agent in list(self.master.cluster.values()):
            if not agent.dead and agent.id not in self.master.registered:
                agent.reachable = True
                self.master.register(agent)
            elif not agent.dead and not agent.reachable:
                self._heal(agent)
        for agent in list(self.master.cluster.values()):
            agent.go_on()
            if agent.dead:
                self._declare_gone(agent)
