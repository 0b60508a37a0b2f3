"""The pool of offers is read by one thread while another changes it."""

from __future__ import annotations

import threading

from offers.ledger.offered import offer_pool
from tests.unit.offers.ledger.test_pool import offer


def test_offers_can_be_listed_while_the_pool_changes() -> None:
    pool = offer_pool()
    failures: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                for known in pool.hand.all():
                    assert known.id.startswith("o")
        except BaseException as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(20):
        for number in range(100):
            pool.hand.add(offer(number))
        for number in range(100):
            pool.hand.withdraw(f"a{number}")
        if turn % 5 == 0:
            pool.hand.clear()
    done.set()
    reader.join(30)
    assert not reader.is_alive() and not failures
