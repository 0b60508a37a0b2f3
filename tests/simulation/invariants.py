"""What must hold, whatever happens. Each invariant has a number and says in its docstring what it promises.

    I1   at most one taskgroup per index runs             I9   indexes equal those made from scratch
    I2   no acknowledged status is lost                   I10  taskgroup ids are never reused
    I3   no resource or port is promised twice            I11  accepted operations survive crashes
    I4   no transaction outlives its deadline             I12  dry runs change nothing
    I5   updates keep within max_unavailable              I13  what is recorded as ended does not run
    I6   effects leave after their records are durable    I14  ended is final
    I7   constraints hold at placement                    I15  Mesos is never asked for what it must refuse
    I8   every command is answered exactly once           I78  kills wait for the shutdown delay

Those of messages, configmaps and secrets (I16 to I19) are in tests.simulation.messages, those of deployments,
daemonsets, services, drains and events (I20 to I25) in tests.simulation.ownership, those of the time (I26 to I28,
I87) in tests.simulation.timekeeping, those of standbys (I29, I30) in tests.simulation.standby, that of orphans (I31) in
tests.simulation.orphans, those of what has ended and is kept (I32, I35) in tests.simulation.keeping, that of queued
requests (I34) in tests.simulation.queueing, those of sessions (I40 to I43) in tests.simulation.sessions, that of
groups (I47) in tests.simulation.podgroups, those of reservations (I48 to I51) in tests.simulation.reservations, those
of reservations of groups (I69 to I72) in tests.simulation.groupreservations, that of
large losses and forgotten tasks (I58, I77) in tests.simulation.losses, those of trees of queues (I52 to I57, I73,
I74) in tests.simulation.trees, those of moves (I59 to I63) in tests.simulation.moving, those of
kept rooms (I64, I65) in tests.simulation.keptrooms, those of replaced stores (I75, I76, C14) in
tests.simulation.restored. That statuses follow each other as their tables say (I33) is
checked by the core itself (transactions.transitions). What must hold once faults have stopped is in
tests.simulation.convergence.
"""

from __future__ import annotations

from collections.abc import Sequence

from bcs_scheduler.core.interface import cluster_manager, effects
from bcs_scheduler.core.options import CoreOptions
from store.base import Change
from store.ids import part_key, taskgroup_of
from store.records import Application, DeletePayload, Record, TaskGroup, Transaction, UpdatePayload, Version
from store.state import State
from store.state.unit_of_work import Unit
from store.state.validation import validate
from tests.simulation.agents import TERMINAL, Agent, Group
from tests.simulation.driver import Term
from tests.simulation.groupreservations import GroupReservations
from tests.simulation.keeping import Keeping
from tests.simulation.keptrooms import KeptRooms
from tests.simulation.losses import Losses
from tests.simulation.mesos import Master
from tests.simulation.messages import Messages
from tests.simulation.moving import Moves
from tests.simulation.oracle import Site, neighbours_in, objection_in_any_order
from tests.simulation.orphans import Orphans
from tests.simulation.ownership import Ownership
from tests.simulation.partitions import PartitionRules
from tests.simulation.podgroups import PodGroups
from tests.simulation.queueing import Queueing
from tests.simulation.readiness import is_ready, ready
from tests.simulation.reservations import Reservations
from tests.simulation.room import Room
from tests.simulation.sessions import Sessions
from tests.simulation.store import Store
from tests.simulation.timekeeping import Timekeeping
from tests.simulation.trees import TreeRules
from tests.simulation.users import Users, setting_of
from tests.simulation.violation import Violation
from tests.simulation.world import World

Records = dict[tuple[str, str], Record]
RANK = {"Staging": 0, "Starting": 1, "Running": 2, "Restarting": 2, "Killing": 3}
TOLD = {"STAGING": 0, "STARTING": 1, "RUNNING": 2, "KILLING": 3}


class Invariants:
    def __init__(self, world: World, store: Store, master: Master, users: Users, options: CoreOptions) -> None:
        self.world, self.store, self.master, self.users = world, store, master, users
        self._options = options
        self.messages = Messages(world)
        self.ownership = Ownership(world, master, options)
        self.queueing = Queueing()
        self.losses = Losses(self.world, self.store.durable)
        self.sessions = Sessions(world, options)
        self.pod_groups = PodGroups(world)
        self.reservations = Reservations(world, options)
        self.group_reservations = GroupReservations(world, options)
        self.rooms = KeptRooms(world, store, master)
        self.trees = TreeRules(world, options)
        self.moves = Moves(world, master, options)
        self.partitions = PartitionRules(world, options)
        self.orphans = Orphans(world, store, master)
        self.timekeeping = Timekeeping(world, store, options)
        self.keeping = Keeping(world, options, store.durable, users.unwanted, self.timekeeping)
        self._stored: set[str] = set()
        """Taskgroups that have ever been durable."""
        self._unstarted: set[str] = set()
        """Taskgroups that had not started when they were told to end. The kill may leave when they have."""
        self._launched: set[str] = set()
        self._excused: set[str] = set()
        """Taskgroups that were given up although they might still run, by a policy or a user who allowed it."""
        self.verdicts: dict[str, Transaction] = {}
        """The latest transaction of each application that ended with all of it filled, or not ended well."""
        self._placed: list[TaskGroup] = []
        self._removed = 0
        """Live taskgroups removed in the present turn."""

    # --- a process decides ------------------------------------------------------------------------------------

    def decided(self, term: Term, unit: Unit) -> None:
        """Judges one unit against what had been decided before it."""
        before = term.mirror
        for change in unit.changes:
            if change.kind == "taskgroup":
                self._taskgroup_changed(term, before, unit, change)
        self.updates_keep_bounds(before, unit)
        self.messages.decided(before, unit)
        self.ownership.decided(term, unit)
        self.timekeeping.decided(before, unit)
        self.sessions.decided(before, unit)
        self.reservations.decided(term, unit)
        self.group_reservations.decided(term, unit)
        self.trees.decided(term, unit)
        self.moves.decided(term, unit)
        self.partitions.decided(before, unit)

    def _taskgroup_changed(self, term: Term, before: Records, unit: Unit, change: Change) -> None:
        old, new = before.get((change.kind, change.key)), change.record
        if isinstance(new, TaskGroup):
            if old is None:
                self.ids_are_new(new)
                self._placed.append(new)
            if new.killing_since and not new.started:
                self._unstarted.add(new.id)
            self.ended_does_not_run(old if isinstance(old, TaskGroup) else None, new)
        elif isinstance(old, TaskGroup) and not old.ended:
            self._removed += 1
            self.given_up_by_permission(term, before, unit, old)

    def leading(self, term: Term) -> None:
        """A term begins."""
        self.timekeeping.leading(term)
        self.sessions.leading(term)
        self.pod_groups.leading(term)
        self.trees.leading(term)

    def turned(self, term: Term) -> None:
        """After a turn: the process has decided all it wanted at this moment."""
        placed, self._placed = self._placed, []
        removed, self._removed = self._removed, 0
        if placed:
            self.constraints_hold(term.mirror, placed, removed)
        self.deadlines_hold(term)
        self.timekeeping.turned(term)
        self.messages.turned(term)
        self.ownership.turned(term)
        self.sessions.turned(term)
        self.pod_groups.turned(term)
        self.reservations.turned(term)
        self.group_reservations.turned(term)
        self.rooms.turned(term)
        self.trees.turned(term)
        self.partitions.turned(term)

    def updates_keep_bounds(self, before: Records, unit: Unit) -> None:
        """I5: an update never ends a ready taskgroup if that makes more than its max_unavailable unavailable."""
        ended: dict[str, list[TaskGroup]] = {}
        after: dict[str, TaskGroup] = {}
        for change in unit.changes:
            old = before.get((change.kind, change.key))
            new = change.record
            if isinstance(new, TaskGroup):
                after[new.id] = new
                if new.end_cause == "NewVersion" and isinstance(old, TaskGroup) and ready(old):
                    ended.setdefault(f"{new.namespace}/{new.application}", []).append(new)
        for key, groups in ended.items():
            application = before[("application", key)]
            assert isinstance(application, Application)
            transaction = before.get(("transaction", application.operation))
            if not isinstance(transaction, Transaction):
                continue  # begun in the same unit: judged when it next ends something
            bound = transaction.payload.max_unavailable if isinstance(transaction.payload, UpdatePayload) else 0
            members = [
                g for g in before.values() if isinstance(g, TaskGroup) and f"{g.namespace}/{g.application}" == key
            ]
            current = [after.get(g.id, g) for g in members]
            wanted, counted, counts = application.instances, current, ready
            if application.type == "daemonset":
                # What is out of reach or on its way out is no loss of the update.
                counted = [g for g in current if not g.unreachable_since and g.end_cause != "Misplaced"]
                wanted, counts = len(counted), is_ready
            left = sum(1 for g in counted if counts(g) and (counted is not current or g.index < wanted))
            if wanted - left > bound:
                raise Violation(
                    "I5",
                    f"update {transaction.id} of {key} leaves {left} of {wanted} ready, may take down {bound}",
                    *(g.id for g in groups),
                    transaction.id,
                )

    def constraints_hold(self, records: Records, placed: Sequence[TaskGroup], removed: int) -> None:
        """I7: there is an order of placing in which every new taskgroup satisfies the constraints, taints and extended
        resources of its version."""
        everything = neighbours_in(records.values())

        def site_of(group: TaskGroup) -> Site:
            return Site(self.master.cluster[group.agent_id], setting_of(records, self._key(group.agent_id)))

        for key in dict.fromkeys(f"{group.namespace}/{group.application}" for group in placed):
            fresh = sorted((g for g in placed if f"{g.namespace}/{g.application}" == key), key=lambda g: g.index)
            words = objection_in_any_order(fresh, everything, site_of, gone=removed)
            if words:
                raise Violation("I7", words, *(group.id for group in fresh))

    def _key(self, agent_id: str) -> str:
        return str(self.master.cluster[agent_id].attributes["InnerIP"])

    def deadlines_hold(self, term: Term) -> None:
        """I4: after a turn that had time for everything no transaction is active beyond its deadline."""
        if term.core.busy:
            return
        for transaction in term.core.state.active_transactions():
            if transaction.deadline <= term.now:
                raise Violation("I4", f"{transaction.id} ({transaction.type}) is overdue", transaction.id)

    def ids_are_new(self, group: TaskGroup) -> None:
        """I10: the id of a new taskgroup has never been stored before."""
        if group.id in self._stored:
            raise Violation("I10", f"taskgroup id {group.id} is used again", group.id)

    def ended_does_not_run(self, old: TaskGroup | None, new: TaskGroup) -> None:
        """I13: a task is recorded as ended only if it certainly does not run."""
        agent = self.master.cluster.get(new.agent_id)
        group = agent.groups.get(new.id) if agent is not None and not agent.dead else None
        if group is None:
            return
        was = {task.id: task for task in old.tasks} if old is not None else {}
        for task in new.tasks:
            if task.ended and not (task.id in was and was[task.id].ended) and group.tasks[task.id].live:
                raise Violation("I13", f"task {task.id} is recorded as {task.status} (ended) but runs", new.id)

    def given_up_by_permission(self, term: Term, before: Records, unit: Unit, group: TaskGroup) -> None:
        """I1, first half: a taskgroup that may still run is forgotten only if somebody allowed it: an enforced delete,
        a scale down of an unreachable one, a reschedule on request, or the unreachable policy after its wait."""
        self._excused.add(group.id)
        after = dict(before)
        after.update({(c.kind, c.key): c.record for c in unit.changes if c.record is not None})
        key = f"{group.namespace}/{group.application}"
        transactions = [
            t for t in after.values() if isinstance(t, Transaction) and f"{t.namespace}/{t.application}" == key
        ]
        if any(isinstance(t.payload, DeletePayload) and t.payload.enforce for t in transactions):
            return
        application = before.get(("application", key))
        if group.unreachable_since and isinstance(application, Application):
            if group.index >= application.instances:
                return
            if application.type == "daemonset" and term.now - group.unreachable_since >= self._options.agent_forget:
                return
            if any(t.type == "RESCHEDULE" and t.taskgroup == group.id and not t.inner for t in transactions):
                return
            version = before.get(("version", f"{key}/{group.version}"))
            wait = getattr(getattr(version, "unreachable_policy", None), "replace_after", -1.0)
            if wait >= 0 and term.now - group.unreachable_since >= wait - 0.001:
                return
        raise Violation("I1", f"{group.id} was given up although it may run and nobody allowed it", group.id)

    # --- effects leave ----------------------------------------------------------------------------------------

    def leaving(self, term: Term, effect: effects.Effect) -> None:
        self.messages.leaving(effect, deposed=term.epoch != self.store.epoch)
        self.rooms.leaving(term.core.state, effect)
        match effect:
            case cluster_manager.LaunchOnAgent():
                self.launches_are_durable(effect)
            case cluster_manager.Acknowledge():
                self.acknowledged_is_durable(term, effect)
            case effects.Reply():
                self.accepted_is_durable(effect)
            case cluster_manager.End():
                self.delays_are_kept(term, effect)

    def delays_are_kept(self, term: Term, end: cluster_manager.End) -> None:
        """I78: a taskgroup that had started when it was told to end is killed when its shutdown delay is over, not
        earlier; unless a task of it has ended, or its record is gone."""
        group = term.mirror.get(("taskgroup", end.taskgroup))
        if not isinstance(group, TaskGroup) or not group.started or not group.killing_since:
            return
        version = term.mirror.get(("version", part_key(group.application_key, group.version)))
        delay = version.kill_policy.shutdown_delay if isinstance(version, Version) else 0.0
        early = group.killing_since + delay - term.now
        if delay and group.end_cause != "TaskEnded" and group.id not in self._unstarted and early > 0.001:
            raise Violation("I78", f"{group.id} is killed {early:.1f} s too early", group.id)
        self.world.counts["kills after a delay"] += delay > 0

    def launches_are_durable(self, accept: cluster_manager.LaunchOnAgent) -> None:
        """I6: an ACCEPT leaves only after its taskgroups are durable, with agent and ports."""
        for launch in accept.launches:
            group = launch.taskgroup
            if group.id not in self._stored:
                raise Violation("I6", f"{group.id} is launched before it is stored", group.id)
            stored = self.store.durable.get(("taskgroup", group.id))
            if isinstance(stored, TaskGroup) and stored.agent_id != accept.agent_id:
                raise Violation("I6", f"{group.id} is stored for {stored.agent_id}, launched on {accept.agent_id}")

    def acknowledged_is_durable(self, term: Term, call: cluster_manager.Acknowledge) -> None:
        """I2: when an acknowledgement leaves, the stored record says at least what it acknowledges; and only a leader
        that knows the taskgroup acknowledges."""
        if term.epoch != self.store.epoch and self._state_of(call) is not None:
            group_id = taskgroup_of(call.task_id)
            if ("taskgroup", group_id) in self.store.durable and ("taskgroup", group_id) not in term.mirror:
                raise Violation(
                    "I2", f"{call.task_id} is acknowledged by a deposed leader that does not know it", group_id
                )
        state = self._state_of(call)
        record = self.store.durable.get(("taskgroup", taskgroup_of(call.task_id)))
        if state is None or not isinstance(record, TaskGroup):
            return
        task = next(t for t in record.tasks if t.id == call.task_id)
        if task.ended or task.status == "Lost":
            return
        if state == "STARTING":  # has no record of its own
            return
        if state in TERMINAL or TOLD[state] > RANK[task.status]:
            raise Violation("I2", f"{call.task_id}: {state} is acknowledged, stored is {task.status}", record.id)

    def _state_of(self, call: cluster_manager.Acknowledge) -> str | None:
        """The state of the update that is acknowledged, if its agent still waits for that."""
        agent = self.master.cluster.get(call.agent_id)
        for group in agent.groups.values() if agent is not None else ():
            task = group.tasks.get(call.task_id)
            if task is not None:
                return next((u.state for u in task.stream if u.uuid == call.uuid), None)
        return None

    def accepted_is_durable(self, reply: effects.Reply) -> None:
        """I11, first half: a transaction, or a command with its messages, is durable when its user is told of it."""
        if reply.token not in self.users.open:
            raise Violation("I8", f"command {reply.token} is answered twice, or was never asked", f"user-{reply.token}")
        data = reply.data
        if isinstance(data, dict) and data.get("commandID") and "messages" in data and "dryRun" not in data:
            told = [("command", data["commandID"]), *(("message", m["messageID"]) for m in data["messages"])]
            lost = [key for kind, key in told if (kind, key) not in self.store.durable]
            if lost:
                raise Violation("I11", f"user is told of {lost}, which is not stored", *lost)
        if reply.error or not isinstance(data, dict) or "transactionID" not in data:
            return
        if ("transaction", data["transactionID"]) not in self.store.durable:
            raise Violation(
                "I11", f"user is told of {data['transactionID']}, which is not stored", data["transactionID"]
            )

    # --- the store --------------------------------------------------------------------------------------------

    def applying(self, changes: Sequence[Change]) -> None:
        """A batch is about to become durable."""
        self.timekeeping.committing(changes)
        self.keeping.committing(changes)
        self.losses.committing(changes)
        for change in changes:
            old, new = self.store.durable.get((change.kind, change.key)), change.record
            self.messages.applying(old, change)
            self.ownership.applying(old, change)
            self.queueing.applying(old, change)
            self.timekeeping.applying(old, change)
            if isinstance(new, TaskGroup):
                self._stored.add(new.id)
                if isinstance(old, TaskGroup):
                    self.ended_is_final(old, new)
            elif isinstance(old, Transaction):
                self.verdicts_are_final(old, new)
            if isinstance(new, Transaction) and new.ended and _fills(new):
                self.verdicts[f"{new.namespace}/{new.application}"] = new

    def ended_is_final(self, old: TaskGroup, new: TaskGroup) -> None:
        """I14: a task that has ended stays as it ended."""
        for was, now in zip(old.tasks, new.tasks, strict=True):
            if was.ended and (not now.ended or now.status != was.status):
                raise Violation("I14", f"{was.id} was {was.status} (ended) and is now {now.status}", old.id)

    def verdicts_are_final(self, old: Transaction, new: Record | None) -> None:
        """I14, of transactions. That they stay until they may be forgotten is in tests.simulation.keeping (I11)."""
        if new is not None and old.ended and new != old:
            raise Violation("I14", f"{old.id} had ended {old.status} and was changed", old.id)

    # --- Mesos ------------------------------------------------------------------------------------------------

    def launching(self, agent: Agent, launch: cluster_manager.Launch) -> None:
        """Mesos is about to launch a taskgroup."""
        new = launch.taskgroup
        self.rooms.launching(agent, launch)
        if new.id in self._launched:
            raise Violation("I10", f"{new.id} is launched twice", new.id)
        self._launched.add(new.id)
        self.one_per_index(new)
        record = self.store.durable.get(("taskgroup", new.id))
        if isinstance(record, TaskGroup) and record.ended:
            raise Violation("I13", f"{new.id} is launched although it is recorded as ended", new.id)

    def refusing(self, words: str, accept: cluster_manager.LaunchOnAgent) -> None:
        """I15: Mesos is never asked for what it must refuse, races with offers that end aside."""
        raise Violation("I15", words, *(launch.taskgroup.id for launch in accept.launches))

    def one_per_index(self, new: TaskGroup) -> None:
        """I1, second half: when a taskgroup is launched, no other one of its index runs, except given up ones."""
        for agent in self.master.cluster.values():
            for group in agent.groups.values() if not agent.dead else ():
                other = group.launch.taskgroup
                if (
                    group.live
                    and (other.namespace, other.application, other.index) == (new.namespace, new.application, new.index)
                    and other.id not in self._excused
                ):
                    raise Violation("I1", f"{new.id} is launched while {other.id} runs on {agent.id}", new.id, other.id)

    # --- after every step -------------------------------------------------------------------------------------

    def step(self) -> None:
        self.no_agent_is_overbooked()
        self.orphans.step()

    def no_agent_is_overbooked(self) -> None:
        """I3: what runs on an agent fits its capacity, and no two taskgroups share a port."""
        for agent in self.master.cluster.values():
            if agent.dead:
                continue
            room = Room(dict(agent.capacity), set(range(agent.ports[0], agent.ports[1] + 1)))
            for group in agent.groups.values():
                if group.live:
                    self._take(agent, room, group)

    @staticmethod
    def _take(agent: Agent, room: Room, group: Group) -> None:
        wanted = group.room
        if not room.holds(wanted):
            raise Violation("I3", f"{agent.id} has no room for {group.id}: {room} left, {wanted} promised", group.id)
        room.subtract(wanted)
        ports = [p.host_port for t in group.launch.taskgroup.tasks for p in t.ports if p.host_port]
        if len(set(ports)) < len(ports) or not set(ports) <= wanted.ports:
            raise Violation("I3", f"{group.id} uses ports {ports}, claims {sorted(wanted.ports)}", group.id)

    def indexes_are_true(self, term: Term) -> None:
        """I9: the state equals one built from its records, its references resolve (store.state.validation), and its
        records equal what the units said."""
        state = term.core.state
        records = records_of(state)
        said = dict(term.mirror)
        for change in (change for unit in term.core.turn_context.units for change in unit.changes):
            # A term that has begun and had no turn yet holds back the units of its start.
            said.pop((change.kind, change.key), None)
            if change.record is not None:
                said[change.kind, change.key] = change.record
        if {(r.kind, r.key): r for r in records} != said:
            wrong = [r.key for r in records if said.get((r.kind, r.key)) != r]
            raise Violation("I9", "the state differs from the sum of its units", *wrong[:3])
        for words in validate(state):
            raise Violation("I9", words)

    def plan_changed_nothing(self, units: Sequence[Unit]) -> None:
        """I12: a dry run, in a turn of its own at a moment that has already had one, changes no record."""
        for unit in units:
            if unit.changes:
                raise Violation("I12", f"a dry run changed {[f'{c.kind} {c.key}' for c in unit.changes]}")


def records_of(state: State) -> list[Record]:
    return state.records()


def _fills(transaction: Transaction) -> bool:
    """It says something about all taskgroups of the application: a finished update may have been a partial one."""
    return transaction.type in ("LAUNCH", "SCALE", "INNERSCALE", "DELETE") or (
        transaction.type == "UPDATE" and transaction.status != "FINISH"
    )
