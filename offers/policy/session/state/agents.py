"""The agents of a session: columns of idle and future amounts, changed by statements only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offers.policy.session.columns import Array
from offers.policy.session.model import Agent
from offers.policy.session.snapshot import Snapshot
from offers.policy.session.state.templates import Need

Port = int


class AgentTable:
    """Columns by dimension and rank. `log` names the rank of every change: caches read the entries since their last
    look."""

    def __init__(self, snapshot: Snapshot) -> None:
        columns = snapshot.columns
        self.snapshot = snapshot
        self.agents = snapshot.agents
        self.total = columns.total
        self.idle = [list(column) for column in columns.idle]
        self.future = [list(column) for column in columns.future]
        """Idle and releasing amounts, less pipelined amounts and those promised to others."""
        self.count = list(columns.count)
        self.max_tasks = columns.max_tasks
        self.limited = columns.limited
        self.score_cpus = list(columns.score_cpus)
        self.score_mem = list(columns.score_mem)
        self.leaving = {snapshot.rank[name]: number for name, number in columns.leaving.items()}
        """Ranks with room that is being released, and the number of its parts: only these have more room later than
        idle room."""
        self.log: list[int] = []
        self.ports: dict[int, dict[Port, int]] = {}
        """Ports in use by rank and port, with the number of users; filled on the first question for ports."""
        self._ports_known = False
        base = columns.mirrors
        self._arrays = ([a.copy() for a in base.idle], [a.copy() for a in base.future])
        self._count, self._cpus, self._mem = base.count.copy(), base.score_cpus.copy(), base.score_mem.copy()
        self._seen = 0

    def __len__(self) -> int:
        return len(self.agents)

    # --- changes ----------------------------------------------------------------------------------------------

    def place(self, rank: int, need: Need, sign: int, *, later: bool) -> None:
        """Takes the room of one task (`sign` 1) or gives it back (-1). `later`: the task waits for room, and takes
        no idle amounts."""
        for d, amount in need.row:
            change = sign * amount
            if not later:
                self.idle[d][rank] -= change
            self.future[d][rank] -= change
        self.count[rank] += sign
        self.score_cpus[rank] += sign * need.score_cpus
        self.score_mem[rank] += sign * need.score_mem
        if need.ports:
            self.take_ports(rank, need.ports, sign)
        self.log.append(rank)

    def release(self, rank: int, need: Need, sign: int) -> None:
        """One task begins to leave (`sign` 1), or stays after all (-1)."""
        for d, amount in need.row:
            self.future[d][rank] += sign * amount
        number = self.leaving.get(rank, 0) + sign
        if number:
            self.leaving[rank] = number
        else:
            del self.leaving[rank]
        self.log.append(rank)

    def promise(self, rank: int, need: Need, sign: int) -> None:
        """Keeps the room of a nomination (`sign` 1), or gives it up (-1)."""
        for d, amount in need.row:
            self.future[d][rank] -= sign * amount
        self.log.append(rank)

    def withhold(self, rank: int, amounts: Sequence[int]) -> list[int]:
        """Takes amounts by dimension out of those that become free on an agent, as far as there are such. Returns
        these."""
        taken = [
            min(amount, max(self.future[d][rank] - max(self.idle[d][rank], 0), 0)) for d, amount in enumerate(amounts)
        ]
        for d, amount in enumerate(taken):
            self.future[d][rank] -= amount
        self.log.append(rank)
        return taken

    # --- questions --------------------------------------------------------------------------------------------

    def fits_now(self, rank: int, need: Need) -> bool:
        """True if the request fits the idle amounts that are not promised to others."""
        return all(q <= self.idle[d][rank] and q <= self.future[d][rank] for d, q in need.row)

    def fits_later(self, rank: int, need: Need) -> bool:
        """True if the request fits once everything has left that is leaving."""
        return all(q <= self.future[d][rank] for d, q in need.row)

    def ports_free(self, rank: int, ports: tuple[Port, ...]) -> bool:
        """True if none of the ports is in use."""
        used = self._ports().get(rank)
        return not used or not any(used.get(port) for port in ports)

    def _ports(self) -> dict[int, dict[Port, int]]:
        if not self._ports_known:
            self._ports_known = True
            rank = self.snapshot.rank
            self.ports = {rank[name]: used.copy() for name, used in self.snapshot.columns.ports.items()}
        return self.ports

    def take_ports(self, rank: int, ports: tuple[Port, ...], sign: int) -> None:
        """Takes ports (`sign` 1) or gives them back (-1)."""
        if not ports:
            return
        used = self._ports().setdefault(rank, {})
        for port in ports:
            used[port] = used.get(port, 0) + sign
            if not used[port]:
                del used[port]
        if not used:
            del self.ports[rank]

    # --- arrays -----------------------------------------------------------------------------------------------

    def arrays(self) -> Arrays:
        """The columns as arrays, up to date. They are valid until the next change and must not be changed."""
        if self._seen < len(self.log):
            ranks = list(set(self.log[self._seen :]))
            self._seen = len(self.log)
            pairs = [*zip(self._arrays[0], self.idle, strict=True), *zip(self._arrays[1], self.future, strict=True)]
            pairs += [(self._count, self.count), (self._cpus, self.score_cpus), (self._mem, self.score_mem)]
            for array, column in pairs:
                array[ranks] = [column[rank] for rank in ranks]
        return Arrays(*self._arrays, self._count, self._cpus, self._mem)


class Arrays:
    """The columns that change, as arrays by rank."""

    __slots__ = ("count", "future", "idle", "score_cpus", "score_mem")

    def __init__(self, idle: list[Array], future: list[Array], count: Array, cpus: Array, mem: Array) -> None:
        self.idle, self.future, self.count, self.score_cpus, self.score_mem = idle, future, count, cpus, mem


class AgentView:
    """One agent as plug-ins of third parties see it: always the state of the moment. Read only."""

    __slots__ = ("_rank", "_table")

    def __init__(self, table: AgentTable, rank: int) -> None:
        self._table, self._rank = table, rank

    @property
    def agent(self) -> Agent:
        """The agent of the snapshot: name, attributes, total, taints."""
        return self._table.agents[self._rank]

    @property
    def tasks(self) -> int:
        """Tasks on the agent, with those that wait for room and those that are leaving."""
        return self._table.count[self._rank]

    @property
    def total(self) -> Mapping[str, int]:
        """The amounts that the agent has, by name."""
        return self._row(self._table.total)

    @property
    def idle(self) -> Mapping[str, int]:
        """The amounts that nothing uses, by name."""
        return self._row(self._table.idle)

    @property
    def future(self) -> Mapping[str, int]:
        """The amounts that are idle once all leaving tasks have left, less those for which others wait, by name."""
        return self._row(self._table.future)

    def _row(self, columns: list[list[int]]) -> Mapping[str, int]:
        return {name: columns[d][self._rank] for d, name in enumerate(self._table.snapshot.dimensions)}
