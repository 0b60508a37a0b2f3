"""The open connections of a server: how many there may be, and which ones end when there is no room for another.

A connection is busy from the head of a request to the end of its answer, and otherwise idle. When a bound is reached,
the connection that was idle for longest ends: of one address or caller, if the bound is theirs. Without an idle one,
the new connection gets a place of the reserve. There, only requests about health are answered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Literal, Protocol

from bcs_scheduler.security.rates import network_of
from bcs_scheduler.security.shares import PART, share_of

MOST = 2000
"""Connections there may be, beside the reserve, if nothing else is set."""
RESERVE = 64
"""Places for requests about health."""
RETRY = 5
"""Seconds after which a refused client may try again (header Retry-After)."""
CONNECTION = "bcs.connection"
"""Key in the scope of a request: its Connection."""
Slot = Literal["address", "caller"]
"""A connection counts for one holder of each slot."""


class ConnectionMetrics(Protocol):
    def connection_opened(self) -> None: ...

    def connection_closed(self) -> None: ...

    def idle_closed(self) -> None:
        """An idle connection was closed for another one."""

    def refused(self, reason: str) -> None:
        """A request was refused."""


class NoMetrics:
    def connection_opened(self) -> None: ...

    def connection_closed(self) -> None: ...

    def idle_closed(self) -> None: ...

    def refused(self, reason: str) -> None: ...


class Connection:
    """One connection. Made by `Connections.enter`."""

    __slots__ = ("_abort", "_all", "holders", "idle", "pool", "refusal")

    def __init__(self, all_connections: Connections, abort: Callable[[], None], address: str) -> None:
        self._all, self._abort = all_connections, abort
        self.holders: dict[Slot, str] = {"address": address} if address else {}
        self.idle = True
        self.pool: _Pool | None = None
        self.refusal = ""
        """Reason why only requests about health are answered here; empty = all requests are."""

    def moved(self, abort: Callable[[], None]) -> None:
        """The connection is ended by another function from now on."""
        self._abort = abort
        if self.pool is None:
            abort()

    def begin(self) -> None:
        """A request begins. A connection in the reserve gets a place among the others, if there is one now."""
        if self.pool is None:
            return
        if self.refusal:
            self._all.promote(self)
        self.pool.busy(self)

    def end(self) -> None:
        """The answer has ended."""
        if self.pool is not None:
            self.pool.rest(self)

    def claim(self, slot: Slot, holder: str) -> str:
        """Counts the connection, which is busy, for another holder. Returns empty if it counts now, else the reason why
        the request is refused."""
        return self._all.claim(self, slot, holder)

    def leave(self) -> None:
        """The connection has ended. May be called more than once."""
        self._all.leave(self)

    def evict(self) -> None:
        self.leave()
        self._abort()


class Connections:
    """All connections of one server. To be used in its event loop."""

    def __init__(
        self, most: int = MOST, part: float = PART, reserve: int = RESERVE, metrics: ConnectionMetrics | None = None
    ) -> None:
        """`part`: of the places, for one address and one caller."""
        self._main, self._reserve = _Pool(most, share_of(most, part)), _Pool(reserve, share_of(reserve, part))
        self._metrics = metrics or NoMetrics()
        self.refused = self._metrics.refused

    def __len__(self) -> int:
        return len(self._main) + len(self._reserve)

    def enter(self, abort: Callable[[], None], address: str) -> Connection:
        """A connection has come. `abort` ends it at once. `address`: of the client; empty for a proxy, whose clients
        are not known yet. Without a place, also in the reserve, the connection has ended on return."""
        connection = Connection(self, abort, _holder(address) if address else "")
        self._metrics.connection_opened()
        connection.refusal = self._enter(self._main, connection)
        if connection.refusal and self._enter(self._reserve, connection):
            self._metrics.connection_closed()
            abort()
        return connection

    def promote(self, connection: Connection) -> None:
        reason = self._room(self._main, connection)
        if reason:
            connection.refusal = reason
            return
        assert connection.pool is not None
        connection.pool.remove(connection)
        self._main.add(connection)
        connection.refusal = ""

    def claim(self, connection: Connection, slot: Slot, holder: str) -> str:
        pool = connection.pool
        if pool is None or connection.holders.get(slot) == holder:
            return ""
        reason = self._free(pool, holder)
        if not reason:
            pool.remove(connection)
            connection.holders[slot] = holder
            pool.add(connection)
        return reason

    def claim_address(self, connection: Connection, address: str) -> str:
        """Counts a busy connection for another client of a proxy. Returns the same as `Connection.claim`."""
        return self.claim(connection, "address", _holder(address))

    def leave(self, connection: Connection) -> None:
        if connection.pool is not None:
            connection.pool.remove(connection)
            connection.pool = None
            self._metrics.connection_closed()

    def _enter(self, pool: _Pool, connection: Connection) -> str:
        reason = self._room(pool, connection)
        if not reason:
            pool.add(connection)
        return reason

    def _room(self, pool: _Pool, connection: Connection) -> str:
        """Makes room for another connection of these holders. Returns why there is none; empty = there is room."""
        for holder in connection.holders.values():
            if reason := self._free(pool, holder):
                return reason
        if len(pool) < pool.most or self._close(pool.oldest()):
            return ""
        return f"all {pool.most} connections of the scheduler are in use"

    def _free(self, pool: _Pool, holder: str) -> str:
        if pool.held(holder) < pool.each or self._close(pool.oldest(holder)):
            return ""
        return f"{holder} uses {pool.each} connections, which is the maximum for one address and one caller"

    def _close(self, connection: Connection | None) -> bool:
        if connection is None:
            return False
        connection.evict()
        self._metrics.idle_closed()
        return True


class _Pool:
    """Places for connections, by holder."""

    def __init__(self, most: int, each: int) -> None:
        self.most, self.each = most, each
        self._open: set[Connection] = set()
        self._held: dict[str, int] = {}
        self._idle: OrderedDict[Connection, None] = OrderedDict()
        """Ordered by the time since which they are idle."""
        self._idle_of: dict[str, OrderedDict[Connection, None]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def held(self, holder: str) -> int:
        return self._held.get(holder, 0)

    def oldest(self, holder: str | None = None) -> Connection | None:
        """The connection that was idle for longest, of the holder or of all."""
        idle = self._idle if holder is None else self._idle_of.get(holder)
        return next(iter(idle), None) if idle else None

    def add(self, connection: Connection) -> None:
        self._open.add(connection)
        connection.pool = self
        for holder in connection.holders.values():
            self._held[holder] = self._held.get(holder, 0) + 1
        if connection.idle:
            self.rest(connection)

    def remove(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._not_idle(connection)
        for holder in connection.holders.values():
            self._held[holder] -= 1
            if not self._held[holder]:
                del self._held[holder]

    def busy(self, connection: Connection) -> None:
        connection.idle = False
        self._not_idle(connection)

    def rest(self, connection: Connection) -> None:
        connection.idle = True
        self._idle[connection] = None
        for holder in connection.holders.values():
            self._idle_of.setdefault(holder, OrderedDict())[connection] = None

    def _not_idle(self, connection: Connection) -> None:
        self._idle.pop(connection, None)
        for holder in connection.holders.values():
            idle = self._idle_of.get(holder)
            if idle is not None:
                idle.pop(connection, None)
                if not idle:
                    del self._idle_of[holder]


def _holder(address: str) -> str:
    return f"address {network_of(address)}"
