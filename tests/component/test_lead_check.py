"""The proof that a process still leads: what the store says about an empty commit
(bcs_scheduler.leadership.lead_check)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future

import pytest

from bcs_scheduler.leadership import lead_check
from bcs_scheduler.leadership.lead_check import LeadCheck
from store.base import Change, StoreUnavailable, Term
from store.memory import MemoryBackend, MemoryStore
from tests.waiting import wait_for


class SlowStore(MemoryStore):
    """Answers commits when it is told to."""

    def __init__(self, backend: MemoryBackend) -> None:
        super().__init__(backend)
        self.asked: list[Future[None]] = []

    def commit(self, changes: Sequence[Change], epoch: int) -> Future[None]:
        assert not changes
        self.asked.append(Future())
        return self.asked[-1]


def elected(store: MemoryStore) -> int:
    store.open()
    terms: Future[Term] = Future()
    store.campaign("http://a:1", terms.set_result, lambda reason: None)
    return terms.result(30).epoch


def test_a_leader_is_confirmed_and_a_deposed_one_is_told() -> None:
    backend = MemoryBackend()
    lost: list[str] = []
    store = MemoryStore(backend)
    check = LeadCheck(store, elected(store), lost.append)
    assert check() is True and lost == []
    backend.depose("the session has expired")
    assert check() is False
    assert len(lost) == 1 and lost[0].startswith("deposed")


def test_a_store_that_cannot_be_reached_confirms_nothing() -> None:
    backend = MemoryBackend()
    lost: list[str] = []
    store = MemoryStore(backend)
    check = LeadCheck(store, elected(store), lost.append)
    backend.reachable = False
    assert check() is None
    backend.reachable = True
    assert check() is True and lost == []


def test_a_late_answer_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be older than the successor's election; and no question is asked beside one that waits."""
    monkeypatch.setattr(lead_check, "PATIENCE", 0.01)
    store = SlowStore(MemoryBackend())
    check = LeadCheck(store, 1, lambda reason: None)
    assert check() is None and check() is None
    assert len(store.asked) == 1
    store.asked[0].set_result(None)
    assert check() is None
    assert len(store.asked) == 2
    store.asked[1].set_exception(StoreUnavailable("closed"))
    assert check() is None


def test_closing_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lead_check, "PATIENCE", 600.0)
    store = SlowStore(MemoryBackend())
    check = LeadCheck(store, 1, lambda reason: None)
    answers: list[bool | None] = []
    asking = threading.Thread(target=lambda: answers.append(check()), daemon=True)
    asking.start()
    wait_for(lambda: store.asked)
    check.close()
    asking.join(30.0)
    assert answers == [None]
