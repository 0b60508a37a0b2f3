"""What must be true once faults have stopped and enough time has passed.

C1  somebody leads, is subscribed, has answered everybody, and has nothing left to write
C2  every index of every application is held by one Running taskgroup, unless its policy or a user says otherwise
C3  what runs in Mesos is what is stored, nothing else
C4  no transaction is active, except what has no place to go or is not due yet
C5  applications are what their users were promised
C6  what health checks find is what is recorded, and it is good
C7  no message waits for its last word

C11 no more of what has ended is kept than the settings say (tests.simulation.keeping)
C12 no request is queued for an object without an operation in progress

C8 to C10 are about deployments, daemonsets and drains (tests.simulation.rest).
"""

from __future__ import annotations

from typing import TypeVar

from store.records import GROUP_ANNOTATION, Application, Deployment, Message, Record, TaskGroup, Transaction, Version
from tests.simulation.agents import Agent
from tests.simulation.faults import Faults
from tests.simulation.invariants import Invariants, records_of
from tests.simulation.oracle import Neighbours, Site, neighbours_in, objection, shortage
from tests.simulation.rest import Rest
from tests.simulation.room import Room
from tests.simulation.users import Users, setting_of
from tests.simulation.violation import Violation
from tests.simulation.world import World
from transactions.rules.relaunch import FETCH_ATTEMPTS

R = TypeVar("R", bound=Record)
PATIENCE = 900.0
"""Simulated seconds; all life periods of the simulation together are shorter."""
GRAIN = 3.0
SETTLED = 2
"""So many looks in a row must find nothing."""


class Convergence:
    def __init__(self, world: World, faults: Faults, invariants: Invariants, users: Users) -> None:
        self.world, self.faults, self.invariants, self.users = world, faults, invariants, users
        self.store, self.master = faults.store, faults.master
        self._rest = Rest(self.store.durable, self.master, self._fits, self._is_let_be)

    def wait(self) -> None:
        """Lets time pass until nothing is wrong any more. Raises Violation after PATIENCE."""
        end = self.world.now + PATIENCE
        quiet = 0
        while quiet < SETTLED:
            self.pass_time()
            problem = self.problem()
            quiet = 0 if problem else quiet + 1
            if problem and self.world.now > end:
                raise Violation(*problem)

    def pass_time(self) -> None:
        """A moment without faults and without other requests than repairs."""
        self.world.run(self.world.now + GRAIN)
        self.faults.elect_if_needed()
        self.master.allocate()
        leader = self.faults.leader()
        if leader is not None:
            self.users.repair(leader.receive)
        self.invariants.step()

    def problem(self) -> tuple[str, ...] | None:
        """The first thing that is not as it should be: number, words, objects."""
        looks = (self._leading, self._transactions, self._applications, self._mesos, self._promises, self._health)
        more = (self._rest.problem, self.invariants.keeping.surplus, self.invariants.rooms.problem, self._groups)
        for look in (*looks, *more):
            found = look()
            if found is not None:
                return found
        return None

    def _leading(self) -> tuple[str, ...] | None:
        leader = self.faults.leader()
        term = leader.term if leader is not None else None
        if term is None or self.master.session is None or self.master.session.node is not leader:
            return "C1", "nobody leads, or the leader is not subscribed"
        if term.waiting or self.users.open:
            return "C1", f"commands {term.waiting or list(self.users.open)} are not answered"
        if {(r.kind, r.key): r for r in records_of(term.core.state)} != self.store.durable:
            return "C1", "not everything is written"
        return None

    def _groups(self) -> tuple[str, ...] | None:
        leader = self.faults.leader()
        if leader is None or leader.term is None:
            return None
        return self.invariants.group_reservations.problem(leader.term.core.state)

    def _transactions(self) -> tuple[str, ...] | None:
        for transaction in self._all(Transaction):
            if transaction.waiting and not self._object_is_busy(transaction):
                return "C12", f"{transaction.type} {transaction.id} waits for nothing", transaction.id
            if transaction.active and not self._may_wait(transaction):
                return "C4", f"{transaction.type} {transaction.id} does not end", transaction.id, transaction.taskgroup
        return None

    def _object_is_busy(self, waiting: Transaction) -> bool:
        """An operation that may last works on the object that the request waits for."""
        kind, _, key = waiting.queue.partition(" ")
        deployment = self.store.durable.get(("deployment", key)) if kind == "deployment" else None
        if isinstance(deployment, Deployment):
            return deployment.status != "Running" or any(
                t.active and t.application_key == deployment.application_key for t in self._all(Transaction)
            )
        return any(t.active and t.application_key == key for t in self._all(Transaction))

    def _may_wait(self, transaction: Transaction) -> bool:
        """A restart without a place, what a deployment launches again and again for want of one, and what looks for
        places for a daemonset: whether it misses one, C9 says."""
        application = self.store.durable.get(("application", f"{transaction.namespace}/{transaction.application}"))
        if isinstance(application, Application) and application.type == "daemonset" and transaction.inner:
            return transaction.type == "LAUNCH" or self._rest.update_may_wait(application.key)
        if transaction.type == "FILL" and isinstance(application, Application):
            return transaction.due_at > self._now() or not self._place_for(application.key, application.version)
        if transaction.type == "INNERSCALE" and isinstance(application, Application):
            return application.rolling == "up" and not self._place_for(application.key, transaction.version)
        if transaction.type == "SCALE" and isinstance(application, Application) and application.deployment:
            return not self._place_for(application.key, transaction.version)
        return transaction.type == "RESCHEDULE" and self._waits_well(transaction)

    def _waits_well(self, transaction: Transaction) -> bool:
        """A restart may wait for its time, or for a place if there really is none."""
        group = self.store.durable.get(("taskgroup", transaction.taskgroup))
        if not isinstance(group, TaskGroup):
            return False
        return transaction.due_at > self._now() or not self._has_place(group)

    def _now(self) -> float:
        """Unix seconds by the clock of the leader; 0.0 if nobody leads."""
        leader = self.faults.leader()
        return leader.term.now if leader is not None and leader.term is not None else 0.0

    def _has_place(self, group: TaskGroup) -> bool:
        key = f"{group.namespace}/{group.application}"
        application = self.store.durable.get(("application", key))
        bound = isinstance(application, Application) and application.type == "daemonset"
        return self._place_for(key, group.version, group.agent_id if bound else "")

    def _place_for(self, application: str, name: str, agent_id: str = "") -> bool:
        """On this agent, or on any."""
        neighbours = neighbours_in(self.store.durable.values())
        version = neighbours.versions.get((application, name))
        record = self.store.durable.get(("application", application))
        present = neighbours.versions.get((application, record.version)) if isinstance(record, Application) else None
        if any(one is not None and _is_gang(one) for one in (version, present)):
            return False  # a gang needs several places at the same time: how many there are is not asked here
        return version is not None and any(
            self._fits(version, agent, neighbours)
            for agent in self.master.registered.values()
            if agent_id in ("", agent.id)
        )

    def _fits(self, version: Version, agent: Agent, neighbours: Neighbours) -> bool:
        room = Room(dict(agent.capacity), set(range(agent.ports[0], agent.ports[1] + 1)))
        for running in agent.live_groups():
            room.subtract(running.room)
        site = Site(agent, setting_of(self.store.durable, str(agent.attributes["InnerIP"])))
        return not shortage(version, room) and not objection(version, site, neighbours)

    def _applications(self) -> tuple[str, ...] | None:
        groups = self._all(TaskGroup)
        for application in self._all(Application):
            if application.type == "daemonset" or application.rolling:
                continue  # what must be true of these is said in tests.simulation.rest
            members = [g for g in groups if f"{g.namespace}/{g.application}" == application.key]
            found = self._indexes(application, members)
            for group in members:
                found = found or self._member(application, group)
            if found is not None:
                return found
            running = sum(1 for g in members if g.status == "Running")
            if (application.status == "Running") != (0 < running == application.instances == len(members)):
                return "C2", f"{application.key} is {application.status}, {running} run", application.key
        return None

    def _indexes(self, application: Application, members: list[TaskGroup]) -> tuple[str, ...] | None:
        indexes = sorted(group.index for group in members)
        beyond = bool(indexes) and indexes[-1] >= application.instances and not self._stands_in(application, indexes)
        if len(set(indexes)) < len(indexes) or beyond:
            return "C2", f"{application.key} x{application.instances} has indexes {indexes}", application.key
        if len(indexes) < application.instances and not self._may_lack(application):
            return "C2", f"{application.key} x{application.instances} has only indexes {indexes}", application.key
        return None

    def _stands_in(self, application: Application, indexes: list[int]) -> bool:
        """A taskgroup beyond the wanted number stands in for a missing one below, for which a scale found no place in
        its time."""
        verdict = self.invariants.verdicts.get(application.key)
        ended_early = verdict is not None and verdict.type == "SCALE" and verdict.status == "TIMEOUT"
        return ended_early and len(indexes) <= application.instances

    def _may_lack(self, application: Application) -> bool:
        """There is no place for what is missing, and somebody looks for one: a FILL, or the deployment."""
        if self._place_for(application.key, application.version):
            return False
        if application.deployment:
            verdict = self.invariants.verdicts.get(application.key)
            return verdict is not None and verdict.status != "FINISH"
        active = [t for t in self._all(Transaction) if t.active and t.application_key == application.key]
        return any(transaction.type == "FILL" for transaction in active)

    def _member(self, application: Application, group: TaskGroup) -> tuple[str, ...] | None:
        """A taskgroup runs, or has ended and is not to be restarted, or waits for its restart."""
        if group.status == "Running" and not group.killing_since:
            return None
        if group.ended and (self._is_let_be(group) or self._is_restarting(group)):
            return None
        return "C2", f"{group.id} is {group.status}", group.id, application.key

    def _is_let_be(self, group: TaskGroup) -> bool:
        version = self.store.durable.get(("version", f"{group.namespace}/{group.application}/{group.version}"))
        assert isinstance(version, Version)
        policy = version.restart_policy
        if group.held:
            return True
        if group.id not in self.master.ran and group.unfetched + 1 < FETCH_ATTEMPTS:
            return False  # whatever the policy: nothing of it has ever run
        if (group.killing_since and group.end_cause != "TaskEnded") or (group.status == "Lost" and not group.started):
            return False
        if policy.policy == "Never" or (policy.max_times and group.restarts >= policy.max_times):
            return True
        return group.status == "Finish" and policy.policy == "OnFailure"

    def _is_restarting(self, group: TaskGroup) -> bool:
        return any(t.active and t.taskgroup == group.id for t in self._all(Transaction))

    def _mesos(self) -> tuple[str, ...] | None:
        running = {
            group.id for agent in self.master.cluster.values() for group in agent.live_groups() if not agent.dead
        }
        stored = {group.id for group in self._all(TaskGroup) if not group.ended}
        if running != stored:
            return "C3", f"runs and is stored: {sorted(running ^ stored)} only on one side", *sorted(running ^ stored)
        return None

    def _promises(self) -> tuple[str, ...] | None:
        for key, promise in self.users.promises.items():
            application = self.store.durable.get(("application", key))
            if promise.exists is not None and promise.exists != (application is not None):
                return "C5", f"{key}: promised to {'exist' if promise.exists else 'be gone'}", key
            stopped = key in self.invariants.reservations.failed  # a Hard reservation that did not find its room
            wanted = (None, application.instances) if isinstance(application, Application) else ()
            if isinstance(application, Application) and not stopped and promise.instances not in wanted:
                return "C5", f"{key}: promised x{promise.instances}, is x{application.instances}", key
        for key, promise in self.users.deployments.items():
            deployment = self.store.durable.get(("deployment", key))
            if promise.exists is not None and promise.exists != (deployment is not None):
                return "C5", f"{key}: promised to {'exist' if promise.exists else 'be gone'}", key
            if isinstance(deployment, Deployment) and promise.instances not in (None, deployment.instances):
                return "C5", f"{key}: promised x{promise.instances}, is x{deployment.instances}", key
        return None

    def _health(self) -> tuple[str, ...] | None:
        for message in self._all(Message):
            if message.open:
                return "C7", f"message {message.id} is still {message.status}", message.id, message.taskgroup
        for group in self._all(TaskGroup):
            for task in group.tasks:
                # The default executor tells a change once, and nobody asks again: a late repetition may stay.
                wrong = [
                    c.type
                    for c in task.checks
                    if c.healthy is not True and (group.executor == "bcs" or c.type.startswith("REMOTE"))
                ]
                if group.status == "Running" and not task.ended and wrong:
                    return "C6", f"{task.id} is recorded as not healthy: {wrong}", group.id
        return None

    def _all(self, kind: type[R]) -> list[R]:
        return [record for record in self.store.durable.values() if isinstance(record, kind)]


def _is_gang(version: Version) -> bool:
    """The policy judges an application by its present version, whatever version a taskgroup has."""
    return version.min_available > 1 or GROUP_ANNOTATION in version.annotations
