"""The pipelined connection: many calls on their way at once, and for each exactly one outcome, whatever happens."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from bcs_scheduler.mesos.errors import ConnectionBroken
from bcs_scheduler.mesos.transport.connection import ACCEPTED, NEVER_SENT, UNKNOWN, CallConnection, Outcome
from bcs_scheduler.mesos.transport.http import Master
from tests import fakemaster
from tests.fakemaster import FakeMaster, Peer, Request
from tests.waiting import wait_for


class EndedCommands:
    def __init__(self) -> None:
        self.seen: list[Outcome[int]] = []
        self.broken: list[tuple[str, int]] = []

    def on_outcome(self, outcome: Outcome[int]) -> None:
        self.seen.append(outcome)

    def on_broken(self, reason: str, unknown: int) -> None:
        self.broken.append((reason, unknown))

    @property
    def statuses(self) -> list[tuple[int, int]]:
        return [(outcome.tag, outcome.status) for outcome in self.seen]


Serve = Callable[[Callable[[Peer, Request], None]], FakeMaster]


@pytest.fixture
def serve() -> Iterator[Serve]:
    made: list[FakeMaster] = []

    def start(on_request: Callable[[Peer, Request], None]) -> FakeMaster:
        made.append(FakeMaster(on_request))
        return made[-1]

    yield start
    for master in made:
        master.close()


def connect(master: FakeMaster, **options: float) -> tuple[CallConnection[int], EndedCommands]:
    outcomes = EndedCommands()
    headers = {"Mesos-Stream-Id": "s", "Authorization": ""}
    connection: CallConnection[int] = CallConnection(
        Master("127.0.0.1", master.port),
        headers,
        outcomes.on_outcome,
        outcomes.on_broken,
        **options,  # type: ignore[arg-type]
    )
    return connection, outcomes


def calls(*tags: int) -> list[tuple[bytes, int]]:
    return [(b"body-%d" % tag, tag) for tag in tags]


def test_calls_are_written_without_waiting_and_answers_matched_in_order(serve: Serve) -> None:
    held: list[Peer] = []
    master = serve(lambda peer, request: held.append(peer))
    connection, outcomes = connect(master)
    connection.send(calls(*range(500)))
    wait_for(lambda: len(master.requests) == 500)
    assert outcomes.seen == []
    assert [request.body for request in master.requests] == [b"body-%d" % tag for tag in range(500)]
    assert master.requests[0].headers["mesos-stream-id"] == "s"
    assert "authorization" not in master.requests[0].headers
    held[0].send(fakemaster.ACCEPTED * 100 + fakemaster.answer(400, b"bad offer") + fakemaster.ACCEPTED * 399)
    wait_for(lambda: len(outcomes.seen) == 500)
    assert outcomes.statuses == [(tag, 400 if tag == 100 else ACCEPTED) for tag in range(500)]
    assert outcomes.seen[100].reason == "bad offer"
    connection.close()
    assert outcomes.broken == []


def test_answers_cut_anywhere(serve: Serve) -> None:
    def trickle(peer: Peer, request: Request) -> None:
        for byte in fakemaster.answer(409, b"no"):
            peer.send(bytes([byte]))

    connection, outcomes = connect(serve(trickle))
    connection.send(calls(1, 2))
    wait_for(lambda: len(outcomes.seen) == 2)
    assert [(item.status, item.reason) for item in outcomes.seen] == [(409, "no"), (409, "no")]
    connection.close()


def test_after_a_break_every_unanswered_call_is_unknown_and_later_ones_never_sent(serve: Serve) -> None:
    def answer_one_then_close(peer: Peer, request: Request) -> None:
        if request.body == b"body-0":
            peer.send(fakemaster.ACCEPTED)
        if request.body == b"body-4":
            peer.close()

    connection, outcomes = connect(serve(answer_one_then_close))
    connection.send(calls(0, 1, 2, 3, 4))
    wait_for(lambda: outcomes.broken)
    assert outcomes.statuses == [(0, ACCEPTED), (1, UNKNOWN), (2, UNKNOWN), (3, UNKNOWN), (4, UNKNOWN)]
    assert outcomes.broken[0][1] == 4
    connection.send(calls(5))
    assert outcomes.statuses[-1] == (5, NEVER_SENT)


def test_closing_reports_what_is_unanswered_before_it_returns(serve: Serve) -> None:
    master = serve(lambda peer, request: None)
    connection, outcomes = connect(master)
    connection.send(calls(1))
    connection.close()
    assert outcomes.statuses == [(1, UNKNOWN)]
    assert outcomes.broken == []


def test_writing_waits_while_too_many_are_unanswered(serve: Serve) -> None:
    held: list[Peer] = []
    master = serve(lambda peer, request: held.append(peer))
    connection, outcomes = connect(master, max_outstanding=2)
    connection.send(calls(1, 2))
    writer = threading.Thread(target=connection.send, args=(calls(3),))
    writer.start()
    wait_for(lambda: len(master.requests) == 2)
    assert connection.outstanding == 2
    held[0].send(fakemaster.ACCEPTED)
    wait_for(lambda: len(master.requests) == 3)
    writer.join()
    assert outcomes.statuses == [(1, ACCEPTED)]
    connection.close()


def test_a_break_wakes_a_waiting_writer(serve: Serve) -> None:
    held: list[Peer] = []
    connection, outcomes = connect(serve(lambda peer, request: held.append(peer)), max_outstanding=1)
    connection.send(calls(1))
    wait_for(lambda: held)
    writer = threading.Thread(target=connection.send, args=(calls(2),))
    writer.start()
    held[0].close()
    writer.join(30)
    assert not writer.is_alive()
    wait_for(lambda: len(outcomes.seen) == 2)
    assert dict(outcomes.statuses)[1] == UNKNOWN


@pytest.mark.parametrize("nonsense", [b"hello\r\n\r\n", fakemaster.ACCEPTED * 2])
def test_nonsense_breaks_the_connection(serve: Serve, nonsense: bytes) -> None:
    """An answer to nothing means that the ones before it may have been matched wrongly."""
    connection, outcomes = connect(serve(lambda peer, request: peer.send(nonsense)))
    connection.send(calls(1))
    wait_for(lambda: outcomes.broken)
    assert len(outcomes.seen) == 1


def test_silence_while_an_answer_is_due_breaks_it(serve: Serve) -> None:
    replying = threading.Event()

    def reply(peer: Peer, request: Request) -> None:
        if not replying.is_set():
            peer.send(fakemaster.ACCEPTED)

    connection, outcomes = connect(serve(reply), timeout=2.0)
    connection.send(calls(1))
    wait_for(lambda: len(outcomes.seen) == 1)
    replying.set()
    connection.send(calls(2))
    wait_for(lambda: outcomes.broken)
    assert outcomes.statuses == [(1, ACCEPTED), (2, UNKNOWN)]


def test_nobody_listening() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(ConnectionBroken, match="cannot connect"):
            CallConnection(Master("127.0.0.1", port), {}, lambda outcome: None, lambda reason, unknown: None)
