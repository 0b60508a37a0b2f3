"""Placeholders whose room the core holds in the offers: nothing is launched for them, no other demand gets the room,
and no hold lasts without an offer."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from bcs_scheduler.core.controllers.holds import placeholders
from bcs_scheduler.core.interface import cluster_manager, leased, requests
from bcs_scheduler.core.interface.cluster_manager import LaunchOnAgent
from bcs_scheduler.core.options import CoreOptions
from offers.ledger.holds import AWAY_SECONDS, HOLD_SECONDS, LEAVE_SECONDS, Holds
from offers.matching.explain import PROMISED
from store.records import TaskGroup
from store.state.validation import validate
from tests.unit.core.controllers.managed.test_reservations import WHOLE, GangLab
from tests.unit.lab import KEY, version

OPTIONS = CoreOptions(strict=True, placeholders="hold")


class Holder(GangLab):
    """A cluster whose agents have room for one taskgroup each."""

    def __init__(self, *arguments: Any, options: CoreOptions | None = None, **more: Any) -> None:
        self.launched: list[str] = []
        self.declined: dict[str, float] = {}
        """Offers with the seconds for which they were declined."""
        super().__init__(*arguments, options=options or OPTIONS, **more)

    def turn(self, *batch: Any) -> list[Any]:
        out = super().turn(*batch)
        for effect in out:
            assert not isinstance(effect, cluster_manager.End)
            if isinstance(effect, LaunchOnAgent):
                assert not any(launch.held for launch in effect.launches)
                self.launched += [launch.taskgroup.id for launch in effect.launches]
            elif isinstance(effect, leased.Decline):
                self.declined |= dict.fromkeys(effect.offer_ids, effect.refuse_seconds)
            elif isinstance(effect, cluster_manager.Reconcile):
                held = self.holds
                assert not [task for task, _ in effect.tasks if task.partition(".")[2] in held]
        return out

    @property
    def holds(self) -> Holds:
        return self.core.turn_context.pool.holds

    def room(self, *agents: str, cpus: int = WHOLE) -> None:
        """Agents offer their room, and the placeholders that get it run."""
        for agent in agents:
            self.offer(agent, cpus=cpus)
        self.wait(0.01)

    def free(self, agent: str) -> int:
        """Thousandths of a core that demands may use on an agent."""
        pool = self.core.turn_context.pool
        pool.table.flush()
        row = pool.row(agent, "*")
        return row.amounts[0] if row is not None else 0

    def heir(self) -> Holder:
        made = Holder(self.records(), self.now, options=self.options)
        made._serial = self._serial + 1000
        return made


def live(lab: GangLab) -> list[TaskGroup]:
    return [group for group in lab.groups if not group.ended]


def test_room_is_held_without_a_call_and_the_gang_takes_it_over() -> None:
    lab = Holder()
    lab.gang(2, 2)
    lab.room("a")
    assert ([group.status for group in lab.sleeping], lab.launched, lab.groups) == (["Running"], [], [])
    assert lab.free("a") == WHOLE - 100
    lab.room("b")
    assert sorted(group.agent_id for group in live(lab)) == ["a", "b"]
    assert sorted(lab.launched) == sorted(group.id for group in live(lab))
    lab.run()
    assert (lab.application.status, lab.holders, len(lab.holds)) == ("Running", [], 0)
    lab.wait(LEAVE_SECONDS + 1.0)
    assert lab.core.next_wakeup(lab.now) > lab.now, "a hold that a launch has used is not waited for"
    assert list(validate(lab.core.state)) == []


def test_other_work_on_the_agent_does_not_get_held_room() -> None:
    """The launch of the older work uses up the offer; the hold is taken out of the next one."""
    lab = Holder()
    other = version(2)
    lab.ask(requests.CreateApplication(version=msgspec.structs.replace(other, application="other")))
    lab.gang(2, 2)
    lab.room("a", cpus=2 * 100 + WHOLE)
    assert [group.agent_id for group in lab.core.state.groups_of("default/other").values()] == ["a", "a"]
    assert (len(lab.holds.short), len(lab.launched)) == (1, 2)
    late = version(2)
    lab.ask(requests.CreateApplication(version=msgspec.structs.replace(late, application="late")))
    lab.room("a")
    assert (dict(lab.holds.short), lab.core.state.groups_of("default/late")) == ({}, {})
    (launch,) = lab.core.state.active_of("default/late")
    diagnosis = lab.core.diagnosis(launch)
    assert diagnosis is not None and diagnosis.reasons == {PROMISED: 1}
    lab.room("b")
    assert sorted(group.agent_id for group in live(lab)) == ["a", "b"]


def test_offers_with_held_room_go_back_after_a_bounded_time_and_the_hold_stays() -> None:
    lab = Holder()
    lab.gang(2, 2)
    lab.room("a")
    (offer,) = lab.core.offers()
    lab.wait(HOLD_SECONDS - 1.0)
    assert offer.id not in lab.declined
    lab.wait(3.0)
    assert lab.declined[offer.id] == 0.0
    lab.wait(5.0)
    assert [group.status for group in lab.sleeping] == ["Running"]
    lab.room("a")
    lab.room("b")
    assert sorted(group.agent_id for group in live(lab)) == ["a", "b"]


@pytest.mark.parametrize("is_old", [False, True], ids=["new work", "work that has waited"])
def test_nothing_is_ended_before_held_room_is_offered_again(is_old: bool) -> None:
    """The work may be due the room that is held, and agents without an offer seem to be full."""
    lab = Holder()
    lab.gang(2, 2)
    lab.room("a")
    turn = lab.core.turn_context
    (offer,) = lab.core.offers()
    wanted = requests.CreateApplication(version=msgspec.structs.replace(version(1), application="other"))
    if is_old:
        lab.ask(wanted)
    lab.wait(2.0)
    assert not turn.awaits_offers
    for _ in range(2 * int(HOLD_SECONDS) + 2):
        if offer.id in lab.declined:
            break
        lab.wait(0.5)
    assert offer.id in lab.declined
    if not is_old:
        lab.ask(wanted)
    (demand,) = (one for one in turn.engine.demands.values() if one.application == "default/other")
    assert turn.unshown([demand]) == {"default/other"}
    lab.room("a")
    lab.wait(0.2)
    assert not turn.awaits_offers
    assert turn.unshown([demand]) == set()


def test_offers_with_held_room_go_back_together() -> None:
    """Each pause is one in which nothing is ended for others."""
    lab = Holder()
    lab.gang(3, 3)
    lab.room("a")
    lab.wait(3.0)
    lab.room("b")
    sooner, later = sorted(lab.core.offers(), key=lambda one: one.received_at)
    for _ in range(2 * int(HOLD_SECONDS)):
        if sooner.id in lab.declined:
            break
        lab.wait(0.5)
    assert {sooner.id, later.id} <= lab.declined.keys()


def test_room_that_no_offer_has_any_more_is_replaced() -> None:
    lab = Holder()
    lab.gang(2, 2)
    lab.room("a")
    (offer,) = lab.core.offers()
    lab.turn(leased.OfferRescinded(offer_id=offer.id))
    (before,) = lab.sleeping
    lab.wait(AWAY_SECONDS + 2.0)
    assert lab.sleeping == []
    assert len(lab.holds) == 0
    lab.room("b", "c")
    assert sorted(group.agent_id for group in live(lab)) == ["b", "c"]
    assert before.id not in lab.launched


def test_a_turn_ends_few_placeholders_of_many_whose_room_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The offers of all agents may go away at once. A turn is bounded, and the next ones end the others."""
    monkeypatch.setattr(placeholders, "AT_ONCE", 3)
    lab = Holder()
    lab.gang(11, 11)
    lab.room(*"abcdefghij")
    while lab.core.next_wakeup(lab.now) <= lab.now:
        lab.turn()
    assert len(lab.sleeping) == 10 and not lab.holds.short
    for offer in lab.core.offers():
        lab.turn(leased.OfferRescinded(offer_id=offer.id))
    lab.now += AWAY_SECONDS + 2.0
    left = [10]
    while left[-1] and lab.core.next_wakeup(lab.now) <= lab.now:
        lab.turn()
        left.append(len(lab.sleeping))
    assert left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) == 3


def test_an_offer_with_less_than_the_held_room_does_not_count() -> None:
    lab = Holder()
    lab.gang(2, 2)
    lab.room("a")
    (offer,) = lab.core.offers()
    lab.turn(leased.OfferRescinded(offer_id=offer.id))
    lab.room("a", cpus=50)
    assert (len(lab.holds.short), lab.free("a")) == (1, 0)
    lab.wait(AWAY_SECONDS + 2.0)
    assert lab.sleeping == []


@pytest.mark.parametrize("style", ["Soft", "Hard"])
def test_holds_of_a_reservation_that_times_out_end(style: str) -> None:
    lab = Holder()
    lab.gang(2, 2, f"placeholderTimeoutInSeconds=5 gangSchedulingStyle={style}")
    lab.room("a")
    other = version(1)
    lab.ask(requests.CreateApplication(version=msgspec.structs.replace(other, application="other")))
    lab.wait(4.0)
    assert lab.core.state.groups_of("default/other") == {}
    lab.wait(6.0)
    assert (len(lab.holds), lab.holders) == (0, [])
    assert lab.application.status == ("Stopped" if style == "Hard" else "Operating")
    assert len(lab.core.state.groups_of("default/other")) == 1, "the offer was in the pool all the time"
    assert list(validate(lab.core.state)) == []


def test_the_deletion_of_the_gang_ends_its_holds() -> None:
    lab = Holder()
    lab.gang(3, 3)
    lab.room("a", "b")
    assert not lab.delete().error
    lab.wait(5.0)
    assert KEY not in lab.core.state.applications
    assert (len(lab.holds), lab.holders, lab.launched) == (0, [], [])


def test_a_new_leader_holds_the_room_again() -> None:
    lab = Holder()
    lab.gang(2, 2)
    lab.room("a")
    heir = lab.heir()
    assert len(heir.holds.short) == 1
    heir.room("a")
    assert (len(heir.holds), dict(heir.holds.short), heir.free("a")) == (1, {}, WHOLE - 100)
    heir.room("b")
    assert sorted(group.agent_id for group in live(heir)) == ["a", "b"]


def test_a_new_leader_without_the_room_asks_for_another_placeholder() -> None:
    lab = Holder()
    lab.gang(2, 2)
    lab.room("a")
    heir = lab.heir()
    heir.wait(AWAY_SECONDS + 2.0)
    assert (heir.sleeping, len(heir.holds)) == ([], 0)
    heir.room("b", "c")
    assert sorted(group.agent_id for group in live(heir)) == ["b", "c"]


def test_a_leader_that_dies_between_the_end_of_the_holds_and_the_launch_loses_nothing() -> None:
    lab = Holder()
    lab.gang(2, 2)
    lab.room("a")
    lab.offer("b", cpus=WHOLE)
    heir = lab.heir()
    heir.wait(1.0)
    heir.room("a", "b")
    heir.wait(1.0)
    heir.room("a", "b")
    assert sorted(group.agent_id for group in live(heir)) == ["a", "b"]
    assert len(heir.holds) == 0


def test_a_pause_of_the_connection_does_not_end_holds() -> None:
    lab = Holder()
    lab.gang(2, 2)
    lab.room("a")
    lab.turn(cluster_manager.Disconnected(reason="the stream broke"))
    lab.wait(3 * AWAY_SECONDS)
    assert len(lab.holds.short) == 1
    assert [group.status for group in lab.sleeping] == ["Running"]


def test_a_plan_as_if_a_placeholder_were_gone_sees_its_room_once() -> None:
    lab = Holder()
    lab.gang(2, 2)
    lab.room("a")
    turn = lab.core.turn_context
    pool = turn.pool
    before = lab.free("a")
    put_back = pool.set_aside(turn.occupants("a"))
    row = pool.row("a", "*")
    assert row is not None
    assert (before, row.amounts[0]) == (WHOLE - 100, WHOLE)
    put_back()
    assert (lab.free("a"), dict(lab.holds.short)) == (before, {})
