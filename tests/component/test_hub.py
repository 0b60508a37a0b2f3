"""The hub: what is published reaches every watcher once, in order, and no watcher can hold up another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from bcs_scheduler.leadership.hub import BEHIND, LINGER, Hub, Watch
from bcs_scheduler.leadership.items import EVENTS, TOUCHED, HubClosed, HubFull, Item, WatchEnded
from store.base import Change
from store.records import Endpoint, Event, Queue

LONG = 10.0


def endpoint(name: str, version: int) -> Item:
    record = Endpoint(namespace="shop", name=name, version=version)
    return Item("endpoint", record.key, record)


def event(number: int, reason: str = "placed") -> Item:
    value = Event(number=number, at=1.0, object="taskgroup", key="k", namespace="shop", reason=reason, message="")
    return Item(EVENTS, "", value, number)


def versions(items: list[Item]) -> list[tuple[str, int]]:
    return [(item.key, item.value.version) for item in items if isinstance(item.value, Endpoint)]


def numbers(items: list[Item]) -> list[int]:
    return [item.number for item in items]


def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(body(), LONG))


async def until_ended(watch: Watch) -> tuple[list[Item], WatchEnded]:
    found: list[Item] = []
    while True:
        try:
            found += await watch.take(LONG)
        except WatchEnded as ended:
            return found, ended


def test_a_record_waits_once_in_its_last_state() -> None:
    async def body() -> None:
        hub = Hub()
        watch = hub.watch("endpoint")
        hub.publish([endpoint("a", 1), endpoint("b", 1)])
        hub.publish([endpoint("a", 2), Item("service", "shop/a", None)])
        await asyncio.sleep(0)
        assert versions(await watch.take(LONG)) == [("shop/b", 1), ("shop/a", 2)]
        assert await watch.take(0) == []

    run(body)


def test_one_record_is_followed_without_the_others() -> None:
    async def body() -> None:
        hub = Hub()
        watch = hub.watch("endpoint", "shop/b")
        hub.publish([endpoint("a", 1), endpoint("b", 1), endpoint("c", 1)])
        assert versions(await watch.take(LONG)) == [("shop/b", 1)]

    run(body)


def test_events_are_all_kept_in_order_and_only_those_that_match() -> None:
    async def body() -> None:
        hub = Hub(latest=3)
        every = hub.watch(EVENTS)
        some = hub.watch(EVENTS, match=lambda item: item.number % 2 == 0)
        late = hub.watch(EVENTS, after=5)
        hub.publish([event(4), event(5)])
        hub.publish([event(6)])
        await asyncio.sleep(0)
        assert [numbers(await watch.take(LONG)) for watch in (every, some, late)] == [[4, 5, 6], [4, 6], [6]]
        assert hub.latest == 6

    run(body)


def test_a_watch_gets_nothing_from_before() -> None:
    async def body() -> None:
        hub = Hub()
        hub.watch(EVENTS)  # somebody follows already, so that this event is on its way
        hub.publish([event(1)])
        watch = hub.watch(EVENTS)
        hub.publish([event(2)])
        assert numbers(await watch.take(LONG)) == [2]

    run(body)


def test_waiting_ends_with_the_time() -> None:
    async def body() -> None:
        assert await Hub().watch(EVENTS).take(0.01) == []

    run(body)


def test_what_comes_while_waiting_wakes_at_once_from_any_thread() -> None:
    async def body() -> None:
        hub = Hub()
        watch = hub.watch(EVENTS)
        publisher = threading.Timer(0.05, hub.publish, [[event(1)]])
        publisher.start()
        assert numbers(await watch.take(LONG)) == [1]

    run(body)


def test_a_slow_watcher_is_ended_and_told_and_the_others_go_on() -> None:
    async def body() -> None:
        hub = Hub()
        slow, quick = hub.watch(EVENTS, queue=2), hub.watch(EVENTS)
        hub.publish([event(number) for number in (1, 2, 3)])
        assert numbers(await quick.take(LONG)) == [1, 2, 3]
        found, ended = await until_ended(slow)
        assert (found, ended.why) == ([], "slow")
        assert "connect again and resume" in str(ended)
        assert (hub.watchers, hub.dropped) == (1, 1)
        again = hub.watch(EVENTS)
        hub.publish([event(4)])
        assert numbers(await again.take(LONG)) == [4]

    run(body)


def test_records_that_change_often_do_not_make_a_watcher_slow() -> None:
    async def body() -> None:
        hub = Hub()
        watch = hub.watch("endpoint", queue=2)
        hub.publish([endpoint("a", version) for version in range(1, 100)])
        assert versions(await watch.take(LONG)) == [("shop/a", 99)]

    run(body)


def test_the_end_of_the_term_comes_after_what_was_published() -> None:
    async def body() -> None:
        hub = Hub()
        watch = hub.watch(EVENTS)
        hub.publish([event(1)])
        hub.close("stepped down: deposed")
        hub.publish([event(2)])
        found, ended = await until_ended(watch)
        assert numbers(found) == [1]
        assert (ended.why, str(ended)) == ("stepped_down", "stepped down: deposed")
        with pytest.raises(HubClosed):
            hub.watch(EVENTS)
        assert hub.watchers == 0

    run(body)


@pytest.mark.parametrize("resting", [False, True])
def test_a_match_that_fails_ends_its_own_watchers_in_front_of_the_event(resting: bool) -> None:
    async def body() -> None:
        hub, positions = Hub(), []

        def fails(item: Item) -> bool:
            positions.append(failing.position)
            if item.number == 2:
                raise RuntimeError("unexpected")
            return True

        failing, other = hub.watch(EVENTS, match=fails), hub.watch(EVENTS)
        rests = [asyncio.ensure_future(watch.rest(0.01)) for watch in (failing, other) if resting]
        await asyncio.sleep(0)
        hub.publish([event(1), event(2)])
        for rest in rests:
            await rest
        found, ended = await until_ended(failing)
        assert (numbers(found), ended.why) == ([1], "failed")
        assert positions == [0, 1], "who resumes where it was told to is given the event that failed"
        hub.publish([event(3)])
        got: list[int] = []
        while len(got) < 3:
            got += numbers(await other.take(LONG))
        assert got == [1, 2, 3]

    run(body)


def test_the_end_of_the_term_is_told_although_a_match_fails() -> None:
    async def body() -> None:
        def fails(item: Item) -> bool:
            raise RuntimeError("unexpected")

        hub = Hub()
        failing, other = hub.watch(EVENTS, match=fails), hub.watch("endpoint")
        hub.publish([event(2)])
        hub.close("stepped down: deposed")
        assert (await until_ended(failing))[1].why == "failed"
        assert (await until_ended(other))[1].why == "stepped_down"

    run(body)


def test_there_are_no_more_watchers_than_allowed() -> None:
    async def body() -> None:
        hub = Hub(most=2)
        first, _ = hub.watch(EVENTS), hub.watch("endpoint", "shop/a")
        with pytest.raises(HubFull, match="2 watchers"):
            hub.watch(EVENTS)
        first.close()
        first.close()
        assert hub.watchers == 1
        hub.watch(EVENTS)

    run(body)


def test_an_item_is_encoded_once_for_all() -> None:
    async def body() -> None:
        hub, made = Hub(), []

        def encode(item: Item) -> bytes:
            made.append(item.number)
            return str(item.number).encode()

        watches = [hub.watch(EVENTS) for _ in range(50)]
        hub.publish([event(1)])
        got = [[item.encoded(encode) for item in await watch.take(LONG)] for watch in watches]
        assert got == [[b"1"]] * 50
        assert made == [1]

    run(body)


def test_watchers_who_want_the_same_are_asked_once() -> None:
    @dataclass(frozen=True)
    class Reason:
        reason: str

        def __call__(self, item: Item) -> bool:
            asked.append(self.reason)
            return isinstance(item.value, Event) and item.value.reason == self.reason

    asked: list[str] = []

    async def body() -> None:
        hub = Hub()
        placed, failed = ([hub.watch(EVENTS, match=Reason(reason)) for _ in range(20)] for reason in ("placed", "Fail"))
        hub.publish([event(1), event(2, "Fail"), event(3)])
        assert [numbers(await watch.take(LONG)) for watch in placed] == [[1, 3]] * 20
        assert [numbers(await watch.take(LONG)) for watch in failed] == [[2]] * 20
        assert sorted(asked) == ["Fail"] * 3 + ["placed"] * 3
        for watch in (*placed, *failed[1:]):
            watch.close()
        hub.publish([event(4), event(5, "Fail")])
        assert numbers(await failed[0].take(LONG)) == [5]
        assert asked[6:] == ["Fail"] * 2

    run(body)


def test_what_comes_while_all_rest_is_there_when_they_wake() -> None:
    async def body() -> None:
        hub = Hub()
        watches = [hub.watch(EVENTS) for _ in range(3)]

        async def follow(watch: Watch) -> list[int]:
            await watch.rest(0.05)
            return numbers(await watch.take(0))

        resting = [asyncio.create_task(follow(watch)) for watch in watches]
        await asyncio.sleep(0)
        hub.publish([event(1), event(2)])
        assert await asyncio.gather(*resting) == [[1, 2]] * 3

    run(body)


def test_who_waits_is_told_at_once_while_others_rest() -> None:
    async def body() -> None:
        hub = Hub()
        resting, gone, waiting = (hub.watch(EVENTS) for _ in range(3))
        sleepers = [asyncio.create_task(watch.rest(10 * LONG)) for watch in (resting, gone)]
        await asyncio.sleep(0)
        gone.close()
        await sleepers[1]
        hub.publish([event(1)])
        assert numbers(await waiting.take(LONG)) == [1]
        waiting.close()
        hub.publish([event(2)])
        hub.close("the end")
        await sleepers[0]
        found, _ = await until_ended(resting)
        assert numbers(found) == [1, 2]

    run(body)


def test_many_items_for_many_watchers_all_arrive() -> None:
    async def body() -> None:
        hub = Hub()
        watches = [hub.watch(EVENTS) for _ in range(300)]
        hub.publish([event(number) for number in range(1, 1_001)])
        for watch in watches:
            found: list[int] = []
            while len(found) < 1_000:
                found += numbers(await watch.take(LONG))
            assert found == list(range(1, 1_001))

    run(body)


def test_publishing_never_waits_for_an_event_loop_that_stands_still() -> None:
    hub = Hub()
    loop = asyncio.new_event_loop()

    async def begin() -> Watch:
        return hub.watch(EVENTS)

    watch = loop.run_until_complete(begin())
    for first in range(1, BEHIND + 2, 1_000):  # the loop does not run meanwhile
        hub.publish([event(number) for number in range(first, first + 1_000)])
    found, ended = loop.run_until_complete(until_ended(watch))
    assert (found, ended.why) == ([], "slow")
    loop.close()


def test_an_event_loop_that_has_gone_is_forgotten() -> None:
    hub = Hub()

    async def begin() -> None:
        hub.watch(EVENTS)

    asyncio.run(begin())
    hub.publish([event(1)])
    assert hub.watchers == 0


def test_changes_are_examined_for_readers_of_views_and_for_a_while_after_the_last_one() -> None:
    async def body() -> None:
        now = 0.0
        hub = Hub(clock=lambda: now)
        change = Change("queue", "batch", Queue(name="batch"))
        hub.touch([change])
        assert hub.touches.since(0) is None  # not examined
        watch, known = hub.watch(TOUCHED), hub.touches.position
        hub.touch([change])
        (item,) = await watch.take(LONG)
        assert item.key == "queue batch"
        now = 100.0
        watch.close()
        watch.close()
        now += LINGER - 1
        hub.touch([change])
        assert [touch.name for touch in hub.touches.since(known) or ()] == ["batch"]
        now += 1
        known = hub.touches.position
        hub.touch([change])
        assert hub.touches.since(known) is None
        again = hub.watch(TOUCHED)
        hub.touch([change])
        assert len(await again.take(LONG)) == 1

    run(body)
