"""What agents say of their containers, asked of stand-ins: two samples, hostile answers, agents that are away."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from bcs_scheduler.agentapi import usage
from bcs_scheduler.agentapi.usage import (
    EXECUTOR_ONLY,
    NO_STATISTICS,
    Measured,
    Meter,
    Place,
    Sample,
    Used,
    follows,
    read,
    used,
)
from bcs_scheduler.net.addresses import HostPort, parse_address
from tests.component.agentusage import AgentUsage, Answer, container, counted, listing, nested

KEY = ("F", "E")
Start = Callable[[Callable[[int], Answer]], AgentUsage]


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "STEP", 0.02)
    monkeypatch.setattr(usage, "PATIENCE", 30.0)
    monkeypatch.setattr(usage, "WHOLE", 60.0)


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[AgentUsage] = []

    def begin(says: Callable[[int], Answer]) -> AgentUsage:
        started.append(AgentUsage(says))
        return started[-1]

    yield begin
    for agent in started:
        agent.close()


def steady(number: int) -> bytes:
    """Half a core; an answer every two seconds of the agent's clock."""
    return listing(container(**counted(100 + 2 * number, 50 + number)))


def measure(*agents: AgentUsage | str, times: int = 1) -> list[list[Measured]]:
    """By the same meter, one after the other, each time when the last answer is not good any more."""

    async def several() -> list[list[Measured]]:
        meter, found = Meter(), []
        addresses = [agent if isinstance(agent, str) else agent.address for agent in agents]
        places = [Place(f"S{number}", parse_address(address)) for number, address in enumerate(addresses)]
        for _ in range(times):
            measured = await meter.measure(places)
            found.append([measured[place] for place in places])
            await asyncio.sleep(usage.STEP)
        return found

    return asyncio.run(several())


def one(agent: AgentUsage | str) -> Measured:
    return measure(agent)[0][0]


# --- two samples ------------------------------------------------------------------------------------------------


def test_cores_are_what_is_spent_between_two_samples(start: Start) -> None:
    agent = start(steady)
    assert one(agent) == Measured({KEY: Used(0.5, 64.0, None, 2.0)})
    question = {"type": "GET_CONTAINERS", "get_containers": {"show_nested": True}}
    assert agent.asked == [{"path": "/api/v1", **question}] * 2


def test_the_last_sample_is_remembered_and_the_next_answer_takes_one_question(start: Start) -> None:
    agent = start(steady)
    first, second, third = measure(agent, times=3)
    assert [found[0].containers[KEY].cpus for found in (first, second, third)] == [0.5] * 3
    assert len(agent.asked) == 4


def test_a_sample_that_is_too_old_is_not_used(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "REMEMBERED", 0.0)
    agent = start(steady)
    assert measure(agent, times=2)[1][0].containers[KEY].cpus == 0.5
    assert len(agent.asked) == 4


def test_who_asks_at_the_same_time_gets_the_same_answer(start: Start) -> None:
    agent = start(steady)

    async def together() -> list[dict[Place, Measured]]:
        meter, place = Meter(), Place("S", parse_address(agent.address))
        return await asyncio.gather(*(meter.measure([place, place]) for _ in range(20)))

    answers = asyncio.run(together())
    assert len(answers) == 20 and all(answer == answers[0] for answer in answers)
    assert len(agent.asked) == 2


def test_a_new_container_takes_a_second_sample_and_the_others_keep_their_interval(start: Start) -> None:
    def says(number: int) -> bytes:
        young = [container("new", **counted(200 + number, number))] if number > 2 else []
        return listing(container(**counted(100 + 2 * number, number)), *young)

    agent = start(says)
    containers = measure(agent, times=2)[1][0].containers
    assert containers == {KEY: Used(0.5, 64.0, None, 4.0), ("F", "new"): Used(1.0, 64.0, None, 1.0)}
    assert len(agent.asked) == 4


def test_a_container_that_ends_between_the_samples_is_gone(start: Start) -> None:
    def says(number: int) -> bytes:
        return listing(
            *(container(name, **counted(number, number)) for name in ("E", "ends") if number < 2 or name == "E")
        )

    assert set(one(start(says)).containers) == {KEY}


def test_a_counter_that_goes_backwards_says_nothing(start: Start) -> None:
    agent = start(lambda number: listing(container(**counted(number, 10 - number))))
    assert one(agent) == Measured({KEY: Used(None, 64.0)})


def test_after_a_counter_went_backwards_a_new_pair_is_taken(start: Start) -> None:
    """As when a child of the executor has ended since the last look."""
    agent = start(lambda number: listing(container(**counted(2 * number, number + (100 if number <= 2 else 0)))))
    second = measure(agent, times=2)[1][0]
    assert second.containers[KEY] == Used(0.5, 64.0, None, 2.0)
    assert len(agent.asked) == 4


@pytest.mark.parametrize(
    ("older", "newer", "expected"),
    [
        (Sample(1, 1), Sample(3, 2), (0.5, 2)),
        (Sample(1, 1), Sample(3, 1), (0.0, 2)),
        (Sample(1, 2), Sample(3, 1), (None, 0)),
        (Sample(3, 1), Sample(1, 2), (None, 0)),
        (Sample(1, 1), Sample(1, 2), (None, 0)),
        (Sample(1, 1), Sample(1.01, 2), (None, 0)),
        (Sample(1, None), Sample(3, 2), (None, 0)),
        (Sample(1, 1), Sample(3, None), (None, 0)),
        (None, Sample(3, 2), (None, 0)),
    ],
)
def test_what_two_samples_say(older: Sample | None, newer: Sample, expected: tuple[float | None, float]) -> None:
    found = used(older, newer)
    assert (found.cpus, found.interval) == expected
    assert older is None or follows(newer, older) is (found.cpus is not None)


def test_one_sample_without_numbers(start: Start) -> None:
    """The agent leaves them out when it cannot count at the moment."""
    missing = listing(container())
    assert one(start(lambda number: steady(1) if number == 1 else missing)).containers == {
        KEY: Used(problem=NO_STATISTICS)
    }
    assert one(start(lambda number: missing if number == 1 else steady(1))).containers == {
        KEY: Used(problem=NO_STATISTICS)
    }


def test_an_agent_without_containers_uses_nothing(start: Start) -> None:
    agent = start(lambda number: listing())
    assert one(agent) == Measured({})
    assert len(agent.asked) == 1, "there is nothing to wait for"


# --- what is counted --------------------------------------------------------------------------------------------


def test_disk_is_known_where_the_agent_counts_it() -> None:
    assert read(listing(container(**counted(1, 2, disk_used_bytes=3 * usage.MIB))))[KEY] == Sample(1, 2, 64, 3)


def test_nested_containers_are_counted_with_theirs_by_cgroups_only() -> None:
    posix, cgroups = counted(1, 2), counted(1, 2, mem_total_bytes=99 * usage.MIB)
    assert read(listing(container(**posix), nested())) == {KEY: Sample(problem=EXECUTOR_ONLY)}
    assert read(listing(container(**cgroups), nested())) == {KEY: Sample(1, 2, 64)}
    assert read(listing(container(**posix), container("other", **posix), nested("other")))[KEY] == Sample(1, 2, 64)


def test_containers_without_an_executor_are_nobodys() -> None:
    alone = {"container_id": {"value": "alone"}, "resource_statistics": counted(1, 2)}
    assert read(listing(alone, container(**counted(1, 2)))) == {KEY: Sample(1, 2, 64)}


# --- hostile answers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"<html>",
        b"{}",
        b'{"type":"GET_HEALTH"}',
        b'{"type":"GET_CONTAINERS","get_containers":[]}',
        b'{"type":"GET_CONTAINERS","get_containers":{"containers":{}}}',
        b'{"type":"GET_CONTAINERS","get_containers":{"containers":[' + b"[" * 100_000,
        b'{"type":"\xff"}',
        b'{"type":"GET_CONTAINERS"} {}',
    ],
)
def test_an_answer_that_is_none_is_not_believed(start: Start, body: bytes) -> None:
    agent = start(lambda number: body)
    assert one(agent) == Measured({}, f"agent {agent.address} gives an invalid answer")


@pytest.mark.parametrize(
    "bad",
    [
        b"7",
        b'{"executor_id":{"value":"bad"}}',
        b'{"container_id":"x","executor_id":{"value":"bad"}}',
        b'{"container_id":{"value":"x"},"executor_id":{"value":["bad"]}}',
        b'{"container_id":{"value":"x"},"executor_id":{"value":"bad"},"resource_statistics":{"timestamp":"now"}}',
        b'{"container_id":{"value":"x"},"executor_id":{"value":"bad"},"resource_statistics":{"timestamp":1e999}}',
        b'{"container_id":{"value":"x"},"executor_id":{"value":"b\xff"},"resource_statistics":{"timestamp":1}}',
    ],
)
def test_an_entry_that_is_not_understood_is_left_out(bad: bytes) -> None:
    good = json.dumps(container(**counted(1, 2))).encode()
    body = b'{"type":"GET_CONTAINERS","get_containers":{"containers":[%s,%s]}}' % (bad, good)
    assert read(body) == {KEY: Sample(1, 2, 64)}


@pytest.mark.parametrize("number", [-1.0, -1e300, 1e300, 1e18])
@pytest.mark.parametrize(
    "name", ["timestamp", "cpus_user_time_secs", "cpus_system_time_secs", "mem_rss_bytes", "disk_used_bytes"]
)
def test_what_can_be_no_amount_is_not_known(name: str, number: float) -> None:
    sample = read(listing(container(**{**counted(1, 2, disk_used_bytes=usage.MIB), name: number})))[KEY]
    expected = {"mem_rss_bytes": (2, None, 1), "disk_used_bytes": (2, 64, None)}.get(name, (None, 64, 1))
    assert (sample.cpu, sample.mem, sample.disk) == expected


def test_an_answer_without_end_is_not_taken(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "LARGEST_ANSWER", 1000)
    found = one(start(lambda number: b" " * 1001))
    assert found.problem.endswith("gives an answer that exceeds 1000 bytes")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (307, "answers HTTP 307"),
        (401, "does not allow"),
        (403, "does not allow"),
        (500, "HTTP 500"),
        (501, "does not show"),
    ],
)
def test_an_agent_that_refuses(start: Start, status: int, words: str) -> None:
    agent = start(lambda number: (status, steady(number)))
    found = one(agent)
    assert (found.containers, found.problem.startswith(f"agent {agent.address} ")) == ({}, True)
    assert words in found.problem and str(status) in found.problem


# --- agents that are away ---------------------------------------------------------------------------------------


def test_an_agent_that_is_away_costs_the_others_nothing(start: Start) -> None:
    there = start(steady)
    with socket.socket() as bound:  # nobody listens, and nobody else can
        bound.bind(("127.0.0.1", 0))
        away = f"127.0.0.1:{bound.getsockname()[1]}"
        found = measure(away, there)[0]
    assert found[0] == Measured({}, f"agent {away} does not answer: the connection failed")
    assert found[1].containers[KEY].cpus == 0.5


def test_an_agent_that_goes_between_the_samples(start: Start) -> None:
    agent = start(lambda number: steady(1) if number == 1 else (503, b""))
    assert one(agent) == Measured({}, f"agent {agent.address} answers HTTP 503")


def test_an_agent_that_comes_back_is_asked_anew(start: Start) -> None:
    agent = start(lambda number: (503, b"") if number == 1 else steady(number))
    first, second = measure(agent, times=2)
    assert first[0].problem and second[0].containers[KEY].cpus == 0.5


@pytest.mark.parametrize(
    ("piece", "patience"),
    [(b"", 0.3), (b"H", 0.3), (b"HTTP/1.1 200 OK\r\n\r\n{", 3.0)],
)
def test_an_agent_that_does_not_come_to_an_end(
    start: Start, monkeypatch: pytest.MonkeyPatch, piece: bytes, patience: float
) -> None:
    """With the longer time-out, another agent has enough time to answer."""
    monkeypatch.setattr(usage, "PATIENCE", patience)
    there = [start(steady)] if patience > 1.0 else []
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def hang() -> None:
            held.append(server.accept()[0])
            held[0].sendall(piece)

        thread = threading.Thread(target=hang, daemon=True)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        found = measure(address, *there)[0]
        thread.join()
        held[0].close()
    assert found[0] == Measured({}, f"agent {address} does not answer within {patience:g} s")
    assert [other.containers[KEY].cpus for other in found[1:]] == [0.5] * len(there)


NOT_HTTP, BROKEN_OFF = "gives an answer that is not HTTP", "interrupted its answer"


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"", "does not answer: the connection ended"),
        (b"HTTP/1.1 2", "does not answer: the connection ended"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", NOT_HTTP),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 8\r\n\r\n1234567", NOT_HTTP),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n", NOT_HTTP),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", NOT_HTTP),
        (b"HTTP/1.1 101 Now\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nx", NOT_HTTP),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n123", BROKEN_OFF),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "gives an invalid answer"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(listing()), listing()),
            "",
        ),
    ],
)
def test_what_is_http_and_what_is_not(said: bytes, problem: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk() -> None:
            with server.accept()[0] as connection:
                connection.recv(65536)
                connection.sendall(said)

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        found = one(address)
        thread.join()
    assert found == Measured({}, f"agent {address} {problem}" if problem else "")


def test_headers_without_end_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "LARGEST_ANSWER", 100_000)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk() -> None:
            with server.accept()[0] as connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while True:
                    connection.sendall(b"X: " + b"y" * 1000 + b"\r\n")

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        found = one(f"127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    assert found.problem.endswith("gives an answer that exceeds 100000 bytes")


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a" * 300, ""])
def test_an_address_that_is_none(host: str) -> None:
    place = Place("S", HostPort(host, 70_000))

    async def ask() -> Measured:
        return (await Meter().measure([place]))[place]

    assert asyncio.run(ask()).problem == f"agent {place.address} does not answer: the connection failed"


def test_a_bounded_number_of_agents_is_asked_at_the_same_time(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "ABREAST", 3)
    lock, now, most = threading.Lock(), [0], [0]
    full = threading.Barrier(3)

    def says(number: int) -> bytes:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        full.wait(30)
        with lock:
            now[0] -= 1
        return listing()

    agents = [start(says) for _ in range(9)]
    assert measure(*agents)[0] == [Measured({})] * 9
    assert most == [3]


def test_all_questions_together_are_bounded_in_time(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "ABREAST", 1)
    monkeypatch.setattr(usage, "PATIENCE", 1.0)
    monkeypatch.setattr(usage, "WHOLE", 2.5)
    with socket.create_server(("127.0.0.1", 0)) as server:  # nobody accepts
        address = f"127.0.0.1:{server.getsockname()[1]}"
        found = measure(*[address] * 4)[0]
    problems = [measured.problem for measured in found]
    assert problems[0] == f"agent {address} does not answer within 1 s"
    assert problems[3] == f"agent {address} was not asked within 2.5 s: too many other agents do not answer"


def test_no_more_agents_are_remembered_than_may_be(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "MOST_AGENTS", 2)
    agent = start(steady)

    async def many() -> int:
        meter = Meter()
        for number in range(6):
            await meter.measure([Place(f"S{number}", parse_address(agent.address))])
        return len(meter._known)

    assert asyncio.run(many()) <= 3
