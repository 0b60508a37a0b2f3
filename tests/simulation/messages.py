"""Invariants of what is beside transactions: messages to executors, and what is launched with configmaps and secrets.

I16  nothing is launched without what its configmaps and secrets hold at that moment
I17  every message comes to its last word by its deadline, and that is final
I18  a message is carried out at most once, by its taskgroup, and a success was really carried out
I19  limits are not sent any more once later ones have been
"""

from __future__ import annotations

from collections import Counter

from bcs_scheduler.core.interface import cluster_manager, effects
from store.base import Change
from store.records import ConfigMap, Message, Record, Secret
from store.records.definition import Reference
from store.state.unit_of_work import Unit
from tests.simulation.agents import Group
from tests.simulation.driver import Term
from tests.simulation.violation import Violation
from tests.simulation.world import World

Records = dict[tuple[str, str], Record]


class Messages:
    def __init__(self, world: World) -> None:
        self._world = world
        self._stored: dict[str, str] = {}
        """Taskgroup of every message that has ever been durable, by id."""
        self._carried: Counter[str] = Counter()
        self._limits: dict[str, int] = {}
        """The latest message with limits that has left, by taskgroup."""

    # --- a process decides ------------------------------------------------------------------------------------

    def decided(self, before: Records, unit: Unit) -> None:
        for effect in unit.effects:
            if isinstance(effect, cluster_manager.LaunchOnAgent):
                for launch in effect.launches:
                    self._launched_complete(before, launch)

    @staticmethod
    def _launched_complete(records: Records, launch: cluster_manager.Launch) -> None:
        """I16."""
        version = launch.version
        for number, container in enumerate(version.containers):
            wanted = [
                _held(records, kind, version.namespace, reference)
                for kind, references in (("configmap", container.configmaps), ("secret", container.secrets))
                for reference in references
            ]
            expected = [value for values in wanted for value in values]
            given = [c.data for c in launch.injected[number].contents] if launch.injected else []
            if given != expected:
                raise Violation(
                    "I16", f"{launch.taskgroup.id} is launched with {given}, not {expected}", launch.taskgroup.id
                )

    def turned(self, term: Term) -> None:
        """I17: after a turn no message is open beyond its deadline."""
        state = term.core.state
        self._world.counts["turns that wait for configuration"] += bool(term.core.turn_context.engine.missing)
        for message in state.open_messages():
            command = state.commands.get(message.command)
            if command is None or command.deadline <= term.now:
                raise Violation("I17", f"message {message.id} is overdue", message.id, message.taskgroup)

    # --- the store --------------------------------------------------------------------------------------------

    def applying(self, old: Record | None, change: Change) -> None:
        new = change.record
        if not isinstance(new, Message):
            return
        self._stored[new.id] = new.taskgroup
        if old is None or old != new:
            self._world.count(f"message: {new.status} {new.message[:23]}".rstrip())
        if isinstance(old, Message) and not old.open and new != old:
            raise Violation("I17", f"message {new.id} was {old.status} and is now {new.status}", new.id)
        if new.status == "success" and not self._carried[new.id]:
            raise Violation("I18", f"message {new.id} is a success and was not carried out", new.id, new.taskgroup)

    # --- effects ----------------------------------------------------------------------------------------------

    def leaving(self, effect: effects.Effect, *, deposed: bool) -> None:
        """I6: a message leaves only after it is durable. I19: no limits leave after later ones, except what a leader
        decided before it was deposed."""
        if not isinstance(effect, cluster_manager.SendMessage):
            return
        identity, group = effect.message_id, effect.executor_id
        if identity not in self._stored:
            raise Violation("I6", f"message {identity} is sent before it is stored", identity)
        if effect.type == "resources" and not deposed:
            if int(identity) < self._limits.get(group, 0):
                raise Violation("I19", f"{group} is sent older limits by {identity}", identity, group)
            self._limits[group] = int(identity)

    def carried_out(self, group: Group, message: cluster_manager.SendMessage) -> None:
        """I18, on the agent."""
        self._carried[message.message_id] += 1
        if self._carried[message.message_id] > 1:
            raise Violation("I18", f"message {message.message_id} is carried out twice", message.message_id, group.id)
        if self._stored.get(message.message_id) != group.id or not set(message.tasks) <= set(group.tasks):
            raise Violation("I18", f"message {message.message_id} is not for {group.id}", message.message_id, group.id)


def _held(records: Records, kind: str, namespace: str, reference: Reference) -> list[str | None]:
    found = records.get((kind, f"{namespace}/{reference.name}"))
    if isinstance(found, ConfigMap):
        return [found.items[i.key].content if i.key in found.items else None for i in reference.items]
    if isinstance(found, Secret):
        return [found.items.get(i.key) for i in reference.items]
    return [None for _ in reference.items]
