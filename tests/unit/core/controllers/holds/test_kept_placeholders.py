"""Placeholders whose rooms the cluster manager keeps: no taskgroup runs, and nobody else gets the room."""

from __future__ import annotations

from typing import Any

from bcs_scheduler.core.interface import cluster_manager, leased
from bcs_scheduler.core.interface.cluster_manager import AgentsListed, Launch, LaunchOnAgent
from bcs_scheduler.core.interface.leased import GiveUpRooms
from bcs_scheduler.core.options import CoreOptions
from offers.agents import ListedAgent
from offers.model import Allocation, Offer, Reservation, ResourceKey
from store.records import TaskGroup
from store.state.validation import validate
from tests.unit.core.controllers.managed.test_reservations import WHOLE, GangLab
from tests.unit.lab import KEY

OPTIONS = CoreOptions(strict=True, placeholders="reserve")


class Keeper(GangLab):
    """A cluster with agents of room for one taskgroup each, which keeps rooms as it is told."""

    def __init__(self, *arguments: Any, options: CoreOptions | None = None, **more: Any) -> None:
        self.rooms: dict[str, tuple[str, Allocation]] = {}
        """Agent and room, by taskgroup."""
        self.launched: list[Launch] = []
        self.given_up: list[str] = []
        self.lists = 0
        """Lists of agents that were asked for."""
        super().__init__(*arguments, options=options or OPTIONS, **more)

    def turn(self, *batch: Any) -> list[Any]:
        out = super().turn(*batch)
        for effect in out:
            self.lists += isinstance(effect, cluster_manager.ListAgents)
            if isinstance(effect, GiveUpRooms):
                self._give_up(effect.rooms)
            elif isinstance(effect, LaunchOnAgent):
                for launch in effect.launches:
                    self._give_up(launch.allocation)
                    if launch.kept:
                        self.rooms[launch.taskgroup.id] = (effect.agent_id, plain(launch.allocation))
                    else:
                        self.launched.append(launch)
            assert not isinstance(effect, cluster_manager.End) or not kept(self, effect.taskgroup)
            if isinstance(effect, cluster_manager.Reconcile):
                assert not [task for task, _ in effect.tasks if kept(self, task.partition(".")[2])]
        return out

    def _give_up(self, allocation: Allocation) -> None:
        names = {key.room for key, _ in (*allocation.scalars, *allocation.ranges) if key.room}
        for name in names:
            del self.rooms[name]
            self.given_up.append(name)

    def offer_rooms(self, agent: str, *, cpus: int = 0) -> Offer:
        """Sends `rooms_of`, and waits for a moment."""
        offer = self.rooms_of(agent, cpus=cpus)
        self.turn(leased.OffersArrived(offers=(offer,)))
        self.wait(0.01)
        return offer

    def rooms_of(self, agent: str, *, cpus: int = 0) -> Offer:
        """An offer of the rooms of an agent, and of what is free beside them."""
        offer = self.make_offer(agent, cpus=cpus)
        scalars = list(offer.scalars)
        for name, (place, room) in self.rooms.items():
            if place == agent:
                layer = Reservation("DYNAMIC", "*", labels=(("room", name),))
                scalars += [(key._replace(reservations=(layer,), room=name), amount) for key, amount in room.scalars]
        return offer._replace(scalars=tuple(scalars))

    def list(self, *agents: str) -> None:
        listed = tuple(
            ListedAgent(
                id=agent,
                hostname=agent,
                rooms=tuple(name for name, (place, _) in self.rooms.items() if place == agent),
            )
            for agent in agents
        )
        self.turn(AgentsListed(agents=listed))
        self.wait(0.01)

    def keep(self, *agents: str) -> None:
        """Placeholders get the room of these agents."""
        for agent in agents:
            self.offer(agent, cpus=WHOLE)
            self.wait(0.01)
            self.offer_rooms(agent)

    def heir(self) -> Keeper:
        made = Keeper(self.records(), self.now, options=self.options)
        made._serial, made.rooms = self._serial + 1000, self.rooms
        return made


def plain(allocation: Allocation) -> Allocation:
    return Allocation(tuple((key._replace(room="", reservations=()), amount) for key, amount in allocation.scalars))


def kept(lab: GangLab, name: str) -> bool:
    group = lab.core.state.taskgroups.get(name)
    version = lab.core.state.version(group.application_key, group.version) if group is not None else None
    return version is not None and version.kept


def live(lab: GangLab) -> list[TaskGroup]:
    return [group for group in lab.groups if not group.ended]


def asked_for_one_room() -> Keeper:
    """A gang of two, for which the room of agent a was asked; no offer has shown the room yet."""
    lab = Keeper()
    lab.gang(2, 2)
    lab.offer("a", cpus=WHOLE)
    lab.wait(0.01)
    return lab


def test_rooms_are_kept_and_the_gang_takes_them_over_in_the_same_calls() -> None:
    lab = Keeper()
    lab.gang(2, 2)
    lab.keep("a")
    assert (len(lab.rooms), [group.status for group in lab.sleeping], lab.launched) == (1, ["Running"], [])
    lab.wait(20.0)
    lab.offer_rooms("a")
    assert lab.groups == []
    lab.offer("b", cpus=WHOLE)
    lab.wait(0.01)
    lab.offer_rooms("b")
    assert sorted(group.agent_id for group in live(lab)) == ["a", "b"]
    assert (lab.rooms, len(lab.given_up), len(lab.launched)) == ({}, 2, 2)
    assert all(key.room for launch in lab.launched for key, _ in launch.allocation.scalars if key.name == "cpus")
    lab.run()
    assert lab.application.status == "Running"
    assert (lab.holders, lab.core.turn_context.pool.hand.external.opened) == ([], {})
    assert list(validate(lab.core.state)) == []


def test_a_kept_room_is_for_its_gang_only() -> None:
    lab = Keeper()
    lab.gang(2, 2)
    lab.keep("a")
    lab.create(1)  # refused, the name is taken
    (pool,) = [lab.core.turn_context.pool]
    lab.offer_rooms("a")
    row = pool.row("a", "*")
    assert row is not None
    pool.table.flush()
    assert row.amounts[0] == 0
    assert len(lab.rooms) == 1


def test_rooms_of_a_reservation_that_times_out_are_given_up() -> None:
    lab = Keeper()
    lab.gang(2, 2, "placeholderTimeoutInSeconds=5 gangSchedulingStyle=Hard")
    lab.keep("a")
    lab.wait(6.0)
    assert lab.application.status == "Stopped"
    lab.offer_rooms("a")
    lab.wait(4.0)
    assert (lab.rooms, len(lab.given_up)) == ({}, 1)
    assert lab.core.turn_context.pool.hand.external.opened == {}
    assert list(validate(lab.core.state)) == []


def test_a_room_that_was_never_kept_is_asked_for_again() -> None:
    lab = asked_for_one_room()
    lab.rooms.clear()  # the call was lost
    lab.wait(40.0)
    lab.keep("a")
    assert [group.status for group in lab.sleeping] == ["Running"]
    assert len(lab.rooms) == 1


def test_a_room_that_comes_too_late_is_given_up() -> None:
    lab = asked_for_one_room()
    lab.wait(40.0)
    (name,) = lab.rooms
    lab.offer_rooms("a")
    lab.wait(5.0)
    assert (lab.given_up, lab.rooms) == ([name], {})
    lab.offer("a", cpus=WHOLE)
    assert len(lab.rooms) == 1, "the next placeholder has got the resources"


def test_a_room_that_vanishes_is_replaced() -> None:
    lab = Keeper()
    lab.gang(2, 2)
    lab.keep("a")
    (before,) = lab.sleeping
    lab.rooms.clear()  # an operator has removed the reservation
    lab.wait(20.0)
    lab.list("a")
    assert ([group.id for group in lab.sleeping], lab.lists) == ([before.id], 1)
    lab.list("a")
    lab.keep("a")
    (after,) = lab.sleeping
    assert after.id != before.id


def test_a_new_leader_finds_the_rooms_again() -> None:
    lab = Keeper()
    lab.gang(2, 2)
    lab.keep("a")
    heir = lab.heir()
    heir.offer_rooms("a")
    assert [group.status for group in heir.sleeping] == ["Running"]
    heir.keep("b")
    assert sorted(group.agent_id for group in live(heir)) == ["a", "b"]
    assert heir.rooms == {}


def test_a_new_leader_gives_rooms_up_that_no_taskgroup_has() -> None:
    lab = Keeper(options=CoreOptions(strict=True))
    key = ResourceKey("cpus", "*")
    lab.rooms["0.gone.default.dc1.1"] = ("a", Allocation(((key, 100),)))
    lab.wait(10.0)
    lab.list("a")
    assert lab.core.turn_context.pool.hand.external.awaited
    lab.wait(20.0)
    lab.offer_rooms("a")
    lab.wait(5.0)
    assert (lab.rooms, len(lab.given_up)) == ({}, 1)
    assert not lab.core.turn_context.pool.hand.external


def test_the_deletion_of_the_gang_gives_its_rooms_up() -> None:
    lab = Keeper()
    lab.gang(3, 3)
    lab.keep("a", "b")
    assert not lab.delete().error
    lab.wait(1.0)
    assert KEY not in lab.core.state.applications
    for agent in ("a", "b"):
        lab.offer_rooms(agent)
    lab.wait(5.0)
    assert (lab.rooms, len(lab.given_up)) == ({}, 2)
