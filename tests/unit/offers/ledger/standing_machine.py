"""Standing capacity under random operations, beside a model that recounts everything from lists after each of them.

The assertions name the property of the specification that they are about (K-10 to K-15).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from offers.dimensions import Amounts, Dimension, Dimensions, amounts
from offers.errors import AlreadyAllocated
from offers.host_ports import HostPort
from offers.ledger.holds import Cause, Hold
from offers.ledger.nodes import Node, node_pool
from offers.ledger.usage import ANY_ROLE, Kind, Sending, UnitClaim, User
from offers.matching.statement import Statement, match
from offers.model import Demand, Occupant, Placement, Provisional, ResourceRequest, Unit
from offers.resources import PORTS, numbers
from offers.rules.constraints import EMPTY_RULES
from tests.unit.offers.matching.reference_matcher import LiveCensus

DIMENSIONS = Dimensions((Dimension("cpu", 1000, "cores"), Dimension("memory", 2**20, "MB"), Dimension("pods")))
NAMES = ("n0", "n1", "n2")
TIMEOUT = 60.0

node_names = st.sampled_from(NAMES)
sizes = st.integers(0, 6)
held = st.fixed_dictionaries(
    {"cpu": st.integers(0, 3), "pods": st.just(1)}, optional={"memory": st.integers(1, 3), "card": st.integers(1, 2)}
).map(amounts)
host_ports = st.lists(
    st.builds(HostPort, st.integers(8, 11), st.sampled_from(("", "TCP", "UDP"))), max_size=2, unique=True
).map(tuple)
nodes = st.builds(
    lambda name, cpu, memory, pods, card, ports: Node(
        name, amounts({"cpu": cpu, "memory": memory, "pods": pods, "card": card}), ports=ports
    ),
    node_names,
    sizes,
    sizes,
    st.integers(0, 8),
    st.sampled_from((0, 0, 2)),
    st.sampled_from(((), ((8, 10),), ((10, 14),))),
)
needs = st.builds(
    ResourceRequest,
    random_ports=st.sampled_from((0, 0, 0, 1, 2)),
    fixed_ports=st.sampled_from(((), (), (), (9,))),
    host_ports=st.sampled_from(((), (), (HostPort(8, "TCP"),), (HostPort(9, "UDP"),))),
    amounts=held,
    cpus=st.just(0), mem=st.just(0), disk=st.just(0), gpus=st.just(0), extended=st.just(()),
)  # fmt: skip


def kept(node: str, part: Amounts, ports: tuple[HostPort, ...] = ()) -> Hold:
    """Room of a node that is kept for a unit."""
    return Hold(Cause.STANDING, (node, ANY_ROLE), ResourceRequest(amounts=part, host_ports=ports))


class Standing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pool = node_pool(DIMENSIONS)
        self.nodes: dict[str, Node] = {}
        self.users: dict[str, User] = {}
        self.allocations: dict[Unit, UnitClaim] = {}
        self.nominations: dict[str, Hold] = {}
        self.now = 1000.0
        self.serial = 0

    # --- the model ----------------------------------------------------------------------------------------------

    def holdings(self) -> list[tuple[Kind, str, Amounts, tuple[HostPort, ...]]]:
        """Everything that is held, by the rules of the specification, from the lists."""
        found: list[tuple[Kind, str, Amounts, tuple[HostPort, ...]]] = []
        for user in self.users.values():
            kind = Kind.TERMINATING if user.terminating else Kind.OURS if user.ours else Kind.FOREIGN
            found.append((kind, user.node, user.amounts, user.ports))
        found += [(Kind.CLAIMED, c.node, c.amounts, c.ports) for c in self.allocations.values()]
        for unit, hold in self.nominations.items():
            if unit not in self.users and unit not in self.allocations:
                found.append((Kind.HELD, hold.site[0], hold.request.amounts, hold.request.named_ports))
        return found

    def free(self, name: str, *, kept: bool = True) -> dict[str, int]:
        """What is free of an agent, negative if it is overcommitted. `kept`: nominations count."""
        left = Counter(dict(self.nodes[name].allocatable))
        for kind, node, part, _ in self.holdings():
            if node == name and (kept or kind is not Kind.HELD):
                left.subtract(dict(part))
        return dict(left)

    def taken(self, name: str) -> list[HostPort]:
        return [port for _, node, _, ports in self.holdings() if node == name for port in ports]

    def a_new_unit(self) -> str:
        self.serial += 1
        return f"unit-{self.serial}"

    # --- facts --------------------------------------------------------------------------------------------------

    @initialize(there=st.lists(nodes, min_size=1, max_size=3))
    def begin(self, there: list[Node]) -> None:
        for node in there:
            self.put_node(node)

    @rule(node=nodes)
    def put_node(self, node: Node) -> None:
        before = dict(self.pool.usage.claims)
        self.nodes[node.name] = node
        self.pool.hand.put(node)
        assert self.pool.usage.claims == before, "K-12: a change of an agent has changed a claim"

    @rule(name=node_names)
    def remove_node(self, name: str) -> None:
        before = dict(self.pool.usage.claims)
        assert self.pool.hand.remove(name) == (self.nodes.pop(name, None) is not None)
        assert self.pool.usage.claims == before, "K-12: an agent that is gone has changed a claim"

    @rule(there=st.lists(nodes, max_size=3))
    def list_nodes(self, there: list[Node]) -> None:
        before = dict(self.pool.usage.claims)
        self.nodes = {node.name: node for node in there}
        self.pool.hand.put_all(there)
        assert self.pool.usage.claims == before, "K-12: a list of agents has changed a claim"

    @rule(node=node_names, part=held, ports=host_ports, ours=st.booleans(), terminating=st.booleans())
    def someone_is_seen(
        self, node: str, part: Amounts, ports: tuple[HostPort, ...], ours: bool, terminating: bool
    ) -> None:
        self._seen(User(self.a_new_unit(), node, part, ports, ours, terminating))

    @rule(data=st.data(), elsewhere=st.one_of(st.none(), node_names), terminating=st.booleans())
    def a_claimed_unit_is_seen(self, data: st.DataObject, elsewhere: str | None, terminating: bool) -> None:
        claimed = [allocation for allocation in self.allocations.values() if isinstance(allocation.unit, str)]
        if claimed:
            allocation = data.draw(st.sampled_from(claimed))
            assert isinstance(allocation.unit, str)
            self._seen(
                User(
                    allocation.unit,
                    elsewhere or allocation.node,
                    allocation.amounts,
                    allocation.ports,
                    True,
                    terminating,
                )
            )

    @rule(data=st.data(), part=held, node=st.one_of(st.none(), node_names), terminating=st.booleans())
    def a_user_changes(self, data: st.DataObject, part: Amounts, node: str | None, terminating: bool) -> None:
        if self.users:
            user = data.draw(st.sampled_from(list(self.users.values())))
            self._seen(user._replace(amounts=part, node=node or user.node, terminating=terminating))

    def _seen(self, user: User) -> None:
        self.users[user.unit] = user
        claimed = self.allocations.pop(user.unit, None) is not None
        self.nominations.pop(user.unit, None)
        assert self.pool.hand.seen(user) == claimed

    @rule(data=st.data())
    def a_unit_is_gone(self, data: st.DataObject) -> None:
        known = [*self.users, *(unit for unit in self.allocations if isinstance(unit, str)), *self.nominations, "never"]
        unit = data.draw(st.sampled_from(known))
        self.users.pop(unit, None)
        self.allocations.pop(unit, None)
        self.nominations.pop(unit, None)
        self.pool.usage.gone(unit)
        assert not self.pool.usage.gone(unit), "K-14: what is gone is still counted"

    @rule(data=st.data())
    def a_list_of_users(self, data: st.DataObject) -> None:
        """Some have gone, some have changed, and nothing is said of those that are claimed."""
        before = dict(self.pool.usage.claims)
        there = [user for user in self.users.values() if data.draw(st.booleans())]
        there = [user._replace(terminating=data.draw(st.booleans())) for user in there]
        self.users = {user.unit: user for user in there}
        self.pool.hand.all_seen(there)
        assert self.pool.usage.claims == before, "K-12: a list of users has changed a claim"

    # --- placing ------------------------------------------------------------------------------------------------

    @rule(request=needs, count=st.integers(1, 4), scoring=st.sampled_from(("spread", "binpack")))
    def place(self, request: ResourceRequest, count: int, scoring: Any) -> None:
        demand = self._demand(request, count)
        result = match([demand], self.pool, LiveCensus([]), scoring)
        for placement in result.placements:
            self._decided(demand, placement)
        left = count - len(result.placements)
        if left:
            assert not any(self._would_take(name, request) for name in self.nodes), "there is room for one more"
            assert sum(result.diagnoses[0].reasons.values()) == len(self.nodes)

    @rule(request=needs, answered=st.booleans())
    def launch(self, request: ResourceRequest, answered: bool) -> None:
        """One unit all the way until its request has left, or has been answered."""
        before = set(self.allocations)
        self.place(request, 1, "spread")
        for provisional in self.allocations.keys() - before:
            assert isinstance(provisional, Provisional)
            allocation = self.allocations.pop(provisional)._replace(unit=self.a_new_unit())
            assert isinstance(allocation.unit, str)
            assert self.pool.usage.rename(provisional, allocation.unit) == allocation
            assert self.pool.usage.sent(allocation.unit, self.now)
            sending = Sending.ANSWERED if answered else Sending.SENT
            if answered:
                assert self.pool.usage.answered(allocation.unit, allocation.decision)
            self.allocations[allocation.unit] = allocation._replace(sending=sending, asked_at=self.now)

    @rule(first=needs, second=needs, scoring=st.sampled_from(("spread", "binpack")))
    def plan(self, first: ResourceRequest, second: ResourceRequest, scoring: Any) -> None:
        """A dry run, and the same as if some were gone."""
        self._plan([self._demand(first, 3), self._demand(second, 2)], scoring, ())

    @rule(data=st.data(), request=needs, scoring=st.sampled_from(("spread", "binpack")))
    def plan_without_some(self, data: st.DataObject, request: ResourceRequest, scoring: Any) -> None:
        units: list[Unit] = [*self.users, *self.allocations, *self.nominations, "never"]
        self._plan([self._demand(request, 3)], scoring, data.draw(st.lists(st.sampled_from(units), max_size=3)))

    def _plan(self, demands: list[Demand[Any]], scoring: Any, gone: Any) -> None:
        before = self._snapshot()
        if gone:
            whole = (self.users, self.allocations, self.nominations)
            self.users = {unit: known for unit, known in self.users.items() if unit not in gone}
            self.allocations = {unit: known for unit, known in self.allocations.items() if unit not in gone}
            self.nominations = {unit: known for unit, known in self.nominations.items() if unit not in gone}
            with self.pool.hand.without(gone):
                self.everything_is_counted_once()
                planned = match(demands, self.pool, LiveCensus([]), scoring, dry_run=True)
            self.users, self.allocations, self.nominations = whole
        else:
            planned = match(demands, self.pool, LiveCensus([]), scoring, dry_run=True)
        assert self._snapshot() == before, "K-15: a dry run has changed something"
        with self.pool.hand.without(gone):
            assert match(demands, self.pool, LiveCensus([]), scoring, dry_run=True) == planned

    @rule(
        data=st.data(), wanted=st.lists(needs, min_size=2, max_size=4), scoring=st.sampled_from(("spread", "binpack"))
    )
    def try_and_undo(self, data: st.DataObject, wanted: list[ResourceRequest], scoring: Any) -> None:
        """A statement places demands and sets units aside, and goes back to its savepoints, one after the other; what
        is tried again gives the same."""
        units: list[Unit] = [*self.users, *self.allocations, *self.nominations, "never"]
        points: list[tuple[Any, object]] = []
        untouched = self._snapshot()
        with Statement(self.pool, LiveCensus([]), scoring) as statement:
            for request in wanted:
                demand = self._demand(request, 2)._replace(min_members=data.draw(st.integers(0, 2)))
                point, before = statement.savepoint(), self._snapshot()
                gone = data.draw(st.lists(st.sampled_from(units), max_size=2))
                statement.set_aside([Occupant(unit, "") for unit in gone])
                room = statement.savepoint(), self._snapshot()
                placed = statement.plan([demand])
                assert not placed.placements or len(placed.placements) >= demand.min_members
                statement.undo(room[0])
                assert self._snapshot() == room[1], "K-15: an undone demand has left something"
                assert statement.plan([demand]) == placed, "K-15: a demand that was undone finds another place"
                points.append((point, before))
            for point, before in reversed(points[data.draw(st.integers(0, len(points))) :]):
                statement.undo(point)
                assert self._snapshot() == before, "K-15: a savepoint is not what it was"
        assert self._snapshot() == untouched, "K-15: a statement has left something"

    def _snapshot(self) -> object:
        table, usage = self.pool.table, self.pool.usage
        table.flush()
        rows = {
            row.agent_id: (tuple(row.amounts), row.score, row.totals, tuple(row.ports), row.open)
            for row in table.rows
            if row is not None
        }
        sums = {
            name: (
                dict(use.total),
                use.units,
                {kind: dict(part) for kind, part in use.by_kind.items()},
                {number: dict(same) for number, same in use.ports.items()},
            )
            for name, use in ((name, usage.on(name)) for name in sorted(usage.agents()))
        }
        columns = (table.free.tobytes(), table.score.tobytes(), table.active.tobytes())
        return rows, columns, sums, dict(usage.claims), dict(usage.counted), self.pool.hand.overcommitted()

    def _demand(self, request: ResourceRequest, count: int) -> Demand[Any]:
        self.serial += 1
        return Demand(f"d{self.serial}", "ns/a", tuple(range(count)), request, EMPTY_RULES)

    def _decided(self, demand: Demand[Any], placement: Placement[Any]) -> None:
        name, request = placement.agent_id, demand.request
        assert self._would_take(name, request), f"K-10: {name} does not have {request}"
        special = tuple(sorted(set(request.host_ports)))
        fixed = tuple(HostPort(port) for port in sorted(set(request.fixed_ports)))
        ports = (*fixed, *special, *map(HostPort, placement.ports))
        assert not any(port.conflicts(other) for port in ports for other in self.taken(name)), "K-10: a port is taken"
        assert len(placement.ports) == request.random_ports
        assert set(placement.ports) <= set(numbers(self.nodes[name].ports))
        unit = Provisional(demand.id, placement.slot)
        allocation = self.pool.usage.claims[unit]
        assert (allocation.node, allocation.amounts, set(allocation.ports)) == (name, request.amounts, set(ports))
        assert allocation.sending is Sending.ASSUMED
        self.allocations[unit] = allocation
        assert min(self.free(name, kept=False).values(), default=0) >= 0, "K-10: more is claimed than there is"

    def _would_take(self, name: str, request: ResourceRequest) -> bool:
        """Whether an agent can take the need, every dimension and port looked at."""
        if any(amount < 0 for amount in self.free(name, kept=False).values()):
            return False
        free = self.free(name)
        if any(amount > free.get(dimension, 0) for dimension, amount in request.amounts):
            return False
        taken = self.taken(name)
        loose = [n for n in numbers(self.nodes[name].ports) if not any(n == port.port for port in taken)]
        if any(port not in loose for port in request.fixed_ports):
            return False
        if any(port.conflicts(other) for port in request.host_ports for other in taken):
            return False
        special = {port.port for port in request.host_ports} if request.random_ports else set()
        return len(loose) >= request.random_ports + len(set(request.fixed_ports)) + len(special)

    # --- claims -------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.allocations)
    @rule(data=st.data(), taken=st.booleans())
    def name_a_claim(self, data: st.DataObject, taken: bool) -> None:
        """Now and then the unit has a claim, or a place, by then."""
        provisional = [unit for unit in self.allocations if isinstance(unit, Provisional)]
        if not provisional:
            return
        old = data.draw(st.sampled_from(provisional))
        busy = [*self.users, *(unit for unit in self.allocations if isinstance(unit, str))]
        nominated = [unit for unit in self.nominations if unit not in busy]
        choices = busy if taken and busy else [self.a_new_unit(), *nominated]
        unit = data.draw(st.sampled_from(choices))
        allocation = self.allocations.pop(old)
        renamed = self.pool.usage.rename(old, unit)
        if unit in busy:
            assert renamed is None, "K-11: a unit has got a second claim"
        else:
            assert renamed == allocation._replace(unit=unit)
            self.allocations[unit] = allocation._replace(unit=unit)

    @precondition(lambda self: self.allocations)
    @rule(data=st.data())
    def match_a_slot_again(self, data: st.DataObject) -> None:
        """The mistake of a caller: it is refused, and nothing is changed."""
        unit = data.draw(st.sampled_from(list(self.allocations)))
        if isinstance(unit, Provisional):
            before = self._snapshot()
            slots: tuple[Hashable, ...] = ("other", unit.slot)
            demand = Demand(unit.demand, "ns/a", slots, ResourceRequest(amounts=(("pods", 1),)), EMPTY_RULES)
            try:
                result = match([demand], self.pool, LiveCensus([]))
            except AlreadyAllocated:
                pass
            else:
                assert len(result.placements) < 2, "K-11: a slot has got a second claim"
                for placement in result.placements:
                    self.pool.usage.forget(Provisional(demand.id, placement.slot))
            assert self._snapshot() == before, "K-15: an error in a pass has changed something"

    @precondition(lambda self: self.allocations)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        unit = data.draw(st.sampled_from(list(self.allocations)))
        free = self.allocations[unit].sending is Sending.ASSUMED
        assert self.pool.usage.forget(unit) == free, "K-13: a claim was forgotten after its request had left"
        if free:
            del self.allocations[unit]

    @precondition(lambda self: self.allocations)
    @rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        unit = data.draw(st.sampled_from(list(self.allocations)))
        if isinstance(unit, str):
            fresh = self.allocations[unit].sending is Sending.ASSUMED
            assert self.pool.usage.sent(unit, self.now) == fresh, "a request must leave once"
            if fresh:
                self.allocations[unit] = self.allocations[unit]._replace(sending=Sending.SENT, asked_at=self.now)

    @rule(data=st.data(), late=st.sampled_from((0, 0, 0, 1)), answer=st.sampled_from(("yes", "no", "found", "unknown")))
    def an_answer(self, data: st.DataObject, late: int, answer: str) -> None:
        """`late`: it is about an earlier request for the unit, or the unit has no claim any more."""
        choices = [
            (unit, allocation.decision - late)
            for unit, allocation in self.allocations.items()
            if isinstance(unit, str) and allocation.sending is not Sending.ASSUMED
        ] + [(unit, 1) for unit in self.users]
        if not choices:
            return
        unit, decision = data.draw(st.sampled_from(choices))
        allocation = self.allocations.get(unit)
        mine = allocation is not None and allocation.decision == decision
        usage = self.pool.usage
        user = User(unit, allocation.node if allocation else NAMES[0], allocation.amounts if allocation else ())
        calls: dict[str, Callable[[str, int], bool]] = {
            "yes": usage.answered,
            "no": usage.denied,
            "found": lambda _, decision: usage.confirmed(user, decision),
            "unknown": usage.unknown,
        }
        assert calls[answer](unit, decision) == mine, "K-13: the late answer to an earlier request has changed a claim"
        if answer in ("yes", "unknown"):
            assert usage.claims.keys() == self.allocations.keys(), "K-13: a claim has ended that nobody has denied"
        if allocation is None or not mine:
            return
        if answer == "no":
            del self.allocations[unit]
        elif answer == "found":
            del self.allocations[unit]
            self.users[unit] = user
            self.nominations.pop(unit, None)
        elif answer == "yes":
            self.allocations[unit] = allocation._replace(sending=Sending.ANSWERED)
        else:
            self.allocations[unit] = allocation._replace(asked_at=float("-inf"))

    @rule(seconds=st.sampled_from((1.0, 59.0, 61.0, 1e9)))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        due = {allocation.unit for allocation in self.pool.usage.due(self.now, TIMEOUT)}
        expected = {
            allocation.unit
            for allocation in self.allocations.values()
            if allocation.sending is not Sending.ASSUMED and allocation.asked_at + TIMEOUT <= self.now
        }
        assert due == expected, "K-13: not all that is in flight is asked for"
        for unit in due:
            self.allocations[unit] = self.allocations[unit]._replace(asked_at=self.now)
        assert self.pool.usage.claims == self.allocations, "K-13: time alone has changed a claim"

    # --- nominations --------------------------------------------------------------------------------------------

    @rule(data=st.data(), node=node_names, part=held, ports=host_ports)
    def nominate(self, data: st.DataObject, node: str, part: Amounts, ports: tuple[HostPort, ...]) -> None:
        units = [*self.users, *(unit for unit in self.allocations if isinstance(unit, str)), *self.nominations]
        unit = data.draw(st.sampled_from([self.a_new_unit(), *units]))
        nomination = kept(node, part, ports)
        assert self.pool.hand.hold(unit, *nomination) == (unit not in self.users)
        if unit not in self.users:
            self.nominations[unit] = nomination

    @precondition(lambda self: self.nominations)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        unit = data.draw(st.sampled_from(list(self.nominations)))
        del self.nominations[unit]
        assert self.pool.usage.release(unit)

    # --- after every step ---------------------------------------------------------------------------------------

    @invariant()
    def a_unit_has_one_claim_or_one_place(self) -> None:
        usage = self.pool.usage
        assert not usage.claims.keys() & usage.users.keys(), "K-11: a unit that is used has a claim"
        assert usage.claims == self.allocations, "K-11, K-13: claims come and go by what was said of them"
        assert usage.users == self.users, "K-14: users come and go by what was said of them"
        assert dict(usage.holds) == self.nominations, "K-14: nominations come and go by what was said of them"

    @invariant()
    def a_claim_stands_while_its_agent_is_there_and_has_enough(self) -> None:
        for unit, allocation in self.allocations.items():
            there = (
                allocation.node in self.nodes and min(self.free(allocation.node, kept=False).values(), default=0) >= 0
            )
            assert self.pool.hand.stands(unit) == there, "K-10: a claim that does not stand would be sent"
        assert not self.pool.hand.stands("never")

    @invariant()
    def everything_is_counted_once(self) -> None:
        pool, holdings = self.pool, self.holdings()
        pool.table.flush()
        assert len(pool.usage.counted) == len(holdings), "K-14: something is counted twice, or not at all"
        assert set(pool.usage.agents()) == {node for _, node, _, _ in holdings}, "K-14: what is gone is freed"
        for name in {node for _, node, _, _ in holdings}:
            use = pool.usage.on(name)
            by_kind: dict[Kind, Counter[str]] = {}
            for kind, node, part, _ in holdings:
                if node == name:
                    by_kind.setdefault(kind, Counter()).update(dict(part))
            assert use.by_kind == {kind: dict(part) for kind, part in by_kind.items() if part}, "K-14"
            assert sorted(use.total.items()) == sorted(sum(by_kind.values(), Counter()).items()), "K-14"
            held_ports = Counter(port for _, node, _, ports in holdings if node == name for port in ports)
            assert {port: n for same in use.ports.values() for port, n in same.items()} == held_ports, "K-14: ports"
        assert pool.agents == len(self.nodes) == int(pool.table.active.sum())
        too_much: dict[str, Amounts] = {}
        for name in self.nodes:
            free = self.free(name)
            assert pool.hand.free(name) == amounts(free), f"K-14: the columns of {name} are wrong"
            row = pool.row(name)
            assert row is not None
            column = pool.table.free[:, row.number].tolist()
            for line, dimension in enumerate(pool.table.lines):
                if dimension != PORTS:
                    assert column[line] == free.get(dimension, 0), f"K-14: the columns of {name} are wrong"
            loose = [n for n in numbers(self.nodes[name].ports) if all(n != p.port for p in self.taken(name))]
            assert (list(numbers(row.ports[0][1])), column[pool.table.line_of[PORTS]]) == (loose, len(loose)), "K-14"
            used = self.free(name, kept=False)
            if any(amount < 0 for amount in used.values()):
                too_much[name] = amounts((dimension, -amount) for dimension, amount in used.items() if amount < 0)
        assert pool.hand.overcommitted() == too_much
