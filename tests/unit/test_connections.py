"""Which connections a server keeps: bounds of all, of one address and of one caller; the oldest idle one goes first."""

from __future__ import annotations

import pytest

from bcs_scheduler.api.http.connections import Connection, Connections
from bcs_scheduler.security.proxies import read_networks
from bcs_scheduler.security.shares import Shares, share_of


class World:
    """`gone`: numbers of the connections that were ended, in order."""

    def __init__(self, most: int = 4, part: float = 0.5, reserve: int = 2) -> None:
        self.opened = self.closed = self.evicted = 0
        self.all = Connections(most, part, reserve, self)
        self.gone: list[int] = []

    def connection_opened(self) -> None:
        self.opened += 1

    def connection_closed(self) -> None:
        self.closed += 1

    def idle_closed(self) -> None:
        self.evicted += 1

    def refused(self, reason: str) -> None:
        raise AssertionError("the protocol alone counts refusals")

    def enter(self, number: int, address: str) -> Connection:
        return self.all.enter(lambda: self.gone.append(number), address)


def test_the_oldest_idle_connection_of_an_address_goes_for_a_new_one_of_it() -> None:
    world = World()
    first = world.enter(1, "10.0.0.1")
    other = world.enter(2, "10.0.0.2")
    world.enter(3, "10.0.0.1")
    first.begin()
    first.end()
    assert world.enter(4, "10.0.0.1").refusal == ""
    assert world.gone == [3], "the first one was used after the third one"
    assert (len(world.all), other.idle) == (3, True)


def test_the_oldest_idle_connection_of_all_goes_when_all_places_are_taken() -> None:
    world = World()
    for number, address in enumerate(("10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.3"), 1):
        world.enter(number, address)
    assert world.enter(5, "10.0.0.4").refusal == ""
    assert (world.gone, len(world.all), world.evicted) == ([1], 4, 1)


def test_busy_connections_stay_and_further_ones_get_the_reserve() -> None:
    world = World()
    busy = [world.enter(number, f"10.0.0.{number}") for number in range(4)]
    for connection in busy:
        connection.begin()
    late = world.enter(5, "10.0.0.9")
    assert late.refusal == "all 4 connections of the scheduler are in use"
    late.begin()
    assert late.refusal, "there is still no place"
    busy[0].end()
    late.begin()
    assert late.refusal == "", "an idle one goes"
    assert world.gone == [0]
    assert len(world.all) == 4


def test_an_address_with_its_share_busy_gets_the_reserve_and_leaves_places_for_others() -> None:
    world = World()
    for number in (1, 2):
        world.enter(number, "10.0.0.1").begin()
    words = "address 10.0.0.1 uses 2 connections, which is the maximum for one address and one caller"
    assert world.enter(3, "10.0.0.1").refusal == words
    assert world.enter(4, "10.0.0.1").refusal == words
    assert world.gone == [3], "half of the reserve is for one address"
    assert world.enter(5, "10.0.0.2").refusal == ""


def test_a_full_reserve_ends_idle_connections_and_refuses_busy_ones() -> None:
    world = World(most=1, part=1.0, reserve=1)
    world.enter(1, "a").begin()
    world.enter(2, "b")
    late = world.enter(3, "c")
    assert world.gone == [2]
    late.begin()
    world.enter(4, "d")
    assert world.gone == [2, 4]
    assert len(world.all) == world.opened - world.closed == 2


def test_a_caller_has_a_share_from_all_addresses() -> None:
    world = World(most=10, part=0.2)
    connections = [world.enter(number, f"10.0.0.{number}") for number in range(4)]
    for connection in connections[:2]:
        connection.begin()
        assert connection.claim("caller", "token ci") == ""
    connections[2].begin()
    assert connections[2].claim("caller", "token ci").startswith("token ci uses 2 connections")
    assert connections[2].claim("caller", "token ops") == ""
    connections[0].end()
    assert connections[2].claim("caller", "token ci") == "", "an idle one of the caller goes"
    assert world.gone == [0]
    connections[3].begin()
    assert connections[3].claim("caller", "token ops") == "", "the other one counts for another caller now"


def test_connections_of_a_proxy_count_for_its_clients() -> None:
    world = World(most=10, part=0.2)
    connections = [world.enter(number, "") for number in range(5)]
    for connection in connections:
        connection.begin()
    claim = world.all.claim_address
    assert [claim(one, "10.0.0.1") for one in connections[:2]] == ["", ""]
    assert claim(connections[2], "10.0.0.1").startswith("address 10.0.0.1 uses 2")
    assert claim(connections[2], "10.0.0.2") == ""
    assert claim(connections[0], "10.0.0.2") == ""
    assert claim(connections[3], "10.0.0.1") == ""


def test_ends_are_counted_once() -> None:
    world = World()
    connection = world.enter(1, "a")
    connection.leave()
    connection.leave()
    connection.begin()
    connection.end()
    assert connection.claim("caller", "x") == ""
    assert (len(world.all), world.opened, world.closed) == (0, 1, 1)
    for number in range(4):
        world.enter(number, "a")
    assert world.closed == 3


def test_many_connections_cost_the_same_each() -> None:
    """Nothing is searched: 20,000 connections of one address end in order."""
    world = World(most=1000, part=0.5)
    for number in range(20_000):
        world.enter(number, "a")
    assert world.gone == list(range(19_500))


def test_shares_are_taken_and_given_back() -> None:
    shares = Shares(3, 0.5)
    assert [shares.take(["a", "x"]), shares.take(["a", "y"]), shares.take(["a", "y"])] == [None, None, "a"]
    assert shares.take(["b", "x"]) is None
    assert shares.take(["c"]) == ""
    shares.give_back(["a", "x"])
    assert shares.take(["c", "x"]) is None
    assert [share_of(0, 0.5), share_of(1, 0.5), share_of(100, 0.5), share_of(100, 1.0)] == [0, 1, 50, 100]


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("203.0.113.9", [b"198.51.100.1"], "203.0.113.9"),  # not a proxy of ours: the header is a lie
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", [b"198.51.100.1"], "198.51.100.1"),
        ("10.0.0.1", [b"1.1.1.1, 198.51.100.1"], "198.51.100.1"),  # the client has written the first part
        ("10.0.0.1", [b"1.1.1.1", b"198.51.100.1, 10.0.0.2"], "198.51.100.1"),  # two proxies
        ("10.0.0.1", [b"10.0.0.3"], "10.0.0.3"),
        ("10.0.0.1", [b"nonsense"], "10.0.0.1"),
        ("10.0.0.1", [b"198.51.100.1, unknown, 10.0.0.2"], "10.0.0.2"),
        ("::ffff:10.0.0.1", [b"[2001:db8::1]:4711"], "2001:db8::1"),
        ("10.0.0.1", [b"198.51.100.1:4711"], "198.51.100.1"),
        ("", [b"198.51.100.1"], ""),
    ],
)
def test_the_client_behind_proxies_is_the_last_address_that_no_trusted_proxy_has(
    peer: str, forwarded: list[bytes], client: str
) -> None:
    assert read_networks(["10.0.0.0/8", "::1"]).client_of(peer, forwarded) == client


def test_what_is_no_network_is_named() -> None:
    with pytest.raises(ValueError, match=r"'10\.0\.0\.1/8' is not an address or a network"):
        read_networks(["10.0.0.1/8"])
