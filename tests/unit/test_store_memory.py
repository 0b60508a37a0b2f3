"""store.memory: what tests and the simulation rely on beyond the Store protocol (tests/integration/test_stores.py)."""

from __future__ import annotations

from store.base import Change, Leader, StaleEpoch, StoreUnavailable, Term
from store.memory import MemoryBackend, MemoryStore
from store.records import Framework


def candidate(backend: MemoryBackend, name: str, story: list[str]) -> MemoryStore:
    def elected(term: Term) -> None:
        story.append(f"{name} leads {term.epoch}")

    store = MemoryStore(backend)
    store.open()
    store.campaign(f"http://{name}", elected, lambda reason: story.append(f"{name} deposed: {reason}"))
    return store


def test_everything_happens_before_the_call_returns() -> None:
    backend, story = MemoryBackend(), list[str]()
    first, second = candidate(backend, "a", story), candidate(backend, "b", story)
    assert story == ["a leads 1"]
    change = Change("framework", "framework", Framework(id="f"))
    assert first.commit([change], 1).done()

    backend.depose("session lost")
    assert story == ["a leads 1", "a deposed: session lost", "b leads 2"]
    assert isinstance(first.commit([change], 1).exception(timeout=0), StaleEpoch)
    assert second.leader() == first.leader() == Leader("http://b", 2)


def test_a_deposed_store_may_stand_again_from_within_deposed() -> None:
    backend, epochs = MemoryBackend(), list[int]()
    store = MemoryStore(backend)
    store.open()

    def stand(_reason: str = "") -> None:
        store.campaign("http://a", lambda term: epochs.append(term.epoch), stand)

    stand()
    backend.depose("session lost")
    assert epochs == [1, 2]


def test_an_unreachable_backend_refuses_and_keeps_the_leadership() -> None:
    backend, story = MemoryBackend(), list[str]()
    store = candidate(backend, "a", story)
    backend.reachable = False
    change = Change("framework", "framework", Framework(id="f"))
    assert not store.healthy()
    assert isinstance(store.commit([change], 1).exception(timeout=0), StoreUnavailable)
    backend.reachable = True
    assert store.commit([change], 1).exception(timeout=0) is None
    assert store.load().records == [Framework(id="f")]
