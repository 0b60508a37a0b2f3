"""One connection to ZooKeeper: kazoo's client with bounds and time-outs. Properties of kazoo:

* It reconnects by itself and makes a new session when the old one has expired. SUSPENDED (connection lost) is not LOST
  (session expired): requests made while SUSPENDED wait and are sent after the reconnect; requests that were in flight
  fail with ConnectionLoss, and only a read shows whether they were applied. So no request is retried here without such
  a read.
* State listeners and watches run in kazoo's own threads and must not block.
* A request made in the moment in which a session expires may never be answered; every wait has a time-out.
* It shuffles the servers before each round of attempts to connect, so after one that hangs it may try the same again
  and lose with it the third of the session that is left. Here they are shuffled once and tried in turn.
* Each request wakes the connection through a socket whose buffer is finite; when thousands are waiting, kazoo
  reports requests as failed which it sends all the same. So the number of outstanding requests is bounded everywhere.
"""

from __future__ import annotations

import logging
import random
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import (
    EXCEPTIONS,
    ConnectionLoss,
    KazooException,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL

from store import threads
from store.base import StoreUnavailable
from store.zookeeper.wire import CREATOR_ACL, OPEN_ACL, MultiFailed

_LOG = logging.getLogger(__name__)
_KAZOO_LOG = logging.getLogger(f"{__name__}.kazoo")
_KAZOO_LOG.setLevel(logging.ERROR)  # kazoo warns at every attempt to connect; Session logs each change of state once

TRANSIENT = (ConnectionLoss, SessionExpiredError, SessionMovedError, OperationTimeoutError, KazooTimeoutError)
"""Errors after which the same call may succeed; whether a write was applied is open. (A closed connection is one:
kazoo derives it from SessionExpiredError.)"""

OUTSTANDING = 64
"""Requests in flight at once when many are made: enough to hide the round trips, few enough for kazoo's socket."""


_GRACE_SECONDS = 5.0
_LOOK_UP_SECONDS = 0.2


class Login(NamedTuple):
    """A user of ZooKeeper's scheme digest."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.user})"


class Session:
    """Started once and closed once. `on_state` gets a KazooState in kazoo's connection thread and must not block."""

    def __init__(self, hosts: str, timeout: float, on_state: Callable[[str], None], login: Login | None = None) -> None:
        """`timeout`: seconds without contact after which ZooKeeper ends the session. `login`: who we are; nodes are
        then for us alone."""
        self.acl = OPEN_ACL if login is None else CREATOR_ACL
        """Access rights of the nodes that requests of store.zookeeper.wire create."""
        self.connected = threading.Event()
        self.timeout = timeout
        self._hosts = hosts
        self._on_state = on_state
        self.closed = False
        self.client = KazooClient(
            hosts=_shuffled(hosts),
            timeout=timeout,
            randomize_hosts=False,
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=1.0),
            command_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=1.0),
            logger=_KAZOO_LOG,
            default_acl=None if login is None else CREATOR_ALL_ACL,
            auth_data=[] if login is None else [("digest", f"{login.user}:{login.password}")],
        )
        self.client.add_listener(self._state_changed)

    def start(self, patience: float) -> None:
        """Connects within `patience` seconds or raises StoreUnavailable."""
        try:
            self.client.start(timeout=patience)
        except (KazooTimeoutError, KazooException) as error:
            self.closed = True
            raise StoreUnavailable(f"ZooKeeper at {self._hosts} does not answer within {patience:g} s") from error

    def close(self, patience: float = 2.0) -> None:
        """Ends the session, so that its ephemeral nodes vanish at once. kazoo waits long for a server that hangs; that
        is left to a thread after `patience` seconds."""
        self.closed = True
        self.connected.clear()
        closer = threads.ending("zookeeper-close", self._close)
        closer.start()
        closer.join(patience)

    def _close(self) -> None:
        try:
            self.client.stop()
            self.client.close()
        except Exception as error:
            _LOG.warning("closing the connection to ZooKeeper: %s", error)

    def expire(self) -> None:
        """Ends the session at ZooKeeper, so that its ephemeral nodes vanish. This client then begins another one, as
        after an expiry. Raises KazooException, KazooTimeoutError."""
        known = self.client.client_id
        if known is None:
            return
        # Any connection that presents id and password of a session may close it. The client itself would end with it.
        twin = KazooClient(hosts=self._hosts, timeout=self.timeout, client_id=known, logger=_KAZOO_LOG)
        try:
            twin.start(timeout=self.timeout)
        finally:
            twin.stop()
            twin.close()

    def _state_changed(self, state: str) -> None:
        if self.closed:
            return
        if state == KazooState.CONNECTED:
            self.connected.set()
            _LOG.info("connected to ZooKeeper, session %#x", self.id or 0)
        else:
            self.connected.clear()
            _LOG.warning("connection to ZooKeeper %s", "suspended" if state == KazooState.SUSPENDED else "lost")
        self._on_state(state)

    def leave_server(self) -> str:
        """Goes to another server of the list within the same session, and does not return to the present one while
        others are in the list. Requests in flight fail with ConnectionLoss. Returns ``host:port`` of the server that is
        left; empty if there is no connection."""
        connection = self.client._connection._socket
        try:
            address, port = connection.getpeername()[:2]
            left = [place for place in self.client.hosts if _is_at(place, address, port)]
            others = [place for place in self.client.hosts if place not in left]
            if others:
                self.client.set_hosts(_joined(others) + self.client.chroot)
            connection.shutdown(socket.SHUT_RDWR)
        except (AttributeError, OSError) as error:  # kazoo is about to connect again by itself
            _LOG.warning("cannot leave the ZooKeeper server: %s", error)
            return ""
        return _joined(left) or f"{address}:{port}"

    @property
    def id(self) -> int | None:
        """Id of the session; None while not connected."""
        client_id = self.client.client_id
        return None if client_id is None else client_id[0]

    # --- requests ---------------------------------------------------------------------------------------------

    def send(self, request: Any) -> Any:
        """Sends a request of store.zookeeper.wire; returns kazoo's result object."""
        result = self.client.handler.async_result()
        self.client._call(request, result)
        return result

    def wait(self, result: Any) -> Any:
        """The value of a result object, or its exception; KazooTimeoutError if it takes too long or the session is
        being closed."""
        deadline = monotonic() + self.timeout + _GRACE_SECONDS
        while not result.wait(_LOOK_UP_SECONDS):
            if self.closed or monotonic() > deadline:
                raise KazooTimeoutError("no answer")
        return result.get(block=False)

    def pipelined(self, requests: Iterable[Callable[[], Any]]) -> Iterator[Any]:
        """Makes the requests, some ahead of the answers, and yields their result objects in order, to be waited for."""
        outstanding: deque[Any] = deque()
        for request in requests:
            outstanding.append(request())
            if len(outstanding) >= OUTSTANDING:
                yield outstanding.popleft()
        yield from outstanding

    @staticmethod
    def error(failed: MultiFailed, doing: str) -> KazooException:
        """kazoo's exception for a multi that failed."""
        error: KazooException = EXCEPTIONS[failed.code](f"{doing}, operation {failed.position}")
        return error

    def read_current(self, path: str) -> tuple[bytes, int] | None:
        """Data and version of a node after everything committed before this call; None if it does not exist.

        One exception: a leading server that was cut off answers from the past until it notices, though never with data
        older than this session has read already. So a write has to check every decision that depends on the answer.
        """
        synced = self.client.sync_async(path)
        found = self.client.get_async(path)
        try:
            self.wait(synced)
            data, stat = self.wait(found)
        except NoNodeError:
            return None
        return data, stat.version


def _joined(places: Iterable[tuple[str, int]]) -> str:
    """The connect string of these hosts and ports."""
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in places)


def _is_at(place: tuple[str, int], address: str, port: int) -> bool:
    """A host and port of the connect string has this address."""
    if int(place[1]) != port:
        return False
    try:
        found = socket.getaddrinfo(place[0].strip("[]"), port, 0, 0, socket.IPPROTO_TCP)
    except OSError:
        return False
    return any(entry[4][0] == address for entry in found)


def _shuffled(hosts: str) -> str:
    """The same servers in another order, so that not every scheduler connects to the first."""
    servers = hosts.split(",")
    return ",".join(random.sample(servers, len(servers)))
