"""Timers by key."""

from __future__ import annotations

import random

from transactions.timers import SLACK, Timers


def test_timers_agree_with_a_dictionary() -> None:
    for seed in range(30):
        draw, timers, known, now = random.Random(seed), Timers(), {}, 0.0
        for _ in range(300):
            key, at = draw.choice("abcdef"), float(draw.randrange(100))
            match draw.randrange(4):
                case 0:
                    timers.set(key, at)
                    known[key] = at
                case 1:
                    timers.no_later(key, at)
                    known[key] = min(at, known.get(key, at))
                case 2:
                    timers.drop(key)
                    known.pop(key, None)
                case _:
                    now = float(draw.randrange(100))
                    due = timers.take(now)
                    moments = [known.pop(key) for key in due]
                    assert moments == sorted(moments)
                    assert all(at <= now for at in moments)
                    assert all(at > now for at in known.values())
            assert timers.next() == min(known.values(), default=None)
            assert len(timers) == len(known)


def test_timers_that_are_set_again_and_again_take_no_room() -> None:
    timers = Timers()
    for number in range(10_000):
        timers.set("a", float(number))
    assert len(timers._heap) <= 2 + SLACK + 1
    assert timers.take(10_000.0) == ["a"]
