"""Finds the leading master: from a list of addresses, or from the election the masters hold in ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

import structlog

from bcs_scheduler.mesos.errors import DetectionError, SettingsError
from bcs_scheduler.mesos.transport.http import Master, parse_master
from store import threads

log = structlog.get_logger(__name__)

NODE_PREFIX = "json.info_"
ZK_TIMEOUT = 10.0
"""Seconds of a ZooKeeper session, as Mesos agents use."""


class Detector(Protocol):
    def start(self, changed: Callable[[], None]) -> None:
        """Begins to watch. `changed` is called from any thread whenever another master may be leading."""

    def candidates(self) -> list[Master]:
        """Masters to ask, most likely leader first; the others redirect. Raises DetectionError if none is known."""

    def stop(self) -> None: ...


def make_detector(url: str) -> Detector:
    """Makes the detector for ``http://host:port[,host:port]`` or ``zk://[user:password@]host:port,.../path``. Raises
    SettingsError."""
    if url.startswith("zk://"):
        return ZooKeeperDetector(url)
    if url.startswith("http://"):
        return ListDetector([parse_master(part) for part in url.removeprefix("http://").rstrip("/").split(",")])
    raise SettingsError(
        f"a Mesos master is given as http://host:port[,host:port] or zk://host:port,.../path, not {url!r}"
    )


class ListDetector:
    """A fixed list. Which of them leads is found out by asking: the others answer with a redirect."""

    def __init__(self, masters: list[Master]) -> None:
        self._masters = masters

    def start(self, changed: Callable[[], None]) -> None:
        """Does nothing: the stream of a deposed master ends by itself."""

    def candidates(self) -> list[Master]:
        return list(self._masters)

    def stop(self) -> None:
        pass


class ZooKeeperDetector:
    """Watches the masters' election: each holds a sequential node ``json.info_NNNNNNNNNN`` below the path, whose data
    is its MasterInfo in JSON; the lowest number leads. `changed` comes with every change of the leading node."""

    def __init__(self, url: str) -> None:
        # A scheduler that knows its masters by a list starts without the library.
        from kazoo.client import KazooClient
        from kazoo.retry import KazooRetry

        parts = urlsplit(url)
        hosts = parts.netloc.rpartition("@")[2]
        if not hosts or parts.path.strip("/") == "":
            raise SettingsError(f"expected zk://host:port,.../path, got {url!r}")
        self._path = parts.path.rstrip("/")
        auth = [("digest", f"{parts.username}:{parts.password or ''}")] if parts.username else None
        self._client = KazooClient(
            hosts=hosts,
            timeout=ZK_TIMEOUT,
            auth_data=auth,
            connection_retry=KazooRetry(max_tries=-1, max_delay=5.0),
            command_retry=KazooRetry(max_tries=0),
        )
        self._leader: Master | None = None
        self._node = ""
        self._changed: Callable[[], None] = lambda: None

    def start(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._client.add_listener(self._session_changed)
        self._client.start_async()

    def candidates(self) -> list[Master]:
        if not self._client.connected:
            raise DetectionError("ZooKeeper cannot be reached")
        self._look()
        if self._leader is None:
            raise DetectionError(f"no master leads in {self._path}")
        return [self._leader]

    def stop(self) -> None:
        self._client.stop()
        self._client.close()

    def _session_changed(self, state: str) -> None:
        from kazoo.client import KazooState

        if state == KazooState.CONNECTED:
            # kazoo's own thread must not wait for an answer of ZooKeeper.
            threads.ending("mesos-detect", self._look_and_tell).start()

    def _node_changed(self, event: object) -> None:
        threads.ending("mesos-detect", self._look_and_tell).start()

    def _look_and_tell(self) -> None:
        before = self._node
        try:
            self._look()
        except DetectionError as error:
            log.warning("mesos.detect.failed", error=str(error))
            return
        if self._node != before:
            log.info("mesos.detect.changed", leader=str(self._leader), node=self._node)
            self._changed()

    def _look(self) -> None:
        """Reads the election and sets the watch for its next change. Raises DetectionError."""
        from kazoo.exceptions import KazooException, NoNodeError
        from kazoo.handlers.threading import KazooTimeoutError

        try:
            children = self._client.get_children(self._path, watch=self._node_changed)
            names = sorted(name for name in children if name.startswith(NODE_PREFIX))
            self._leader = self._read(names[0]) if names else None
            self._node = names[0] if names else ""
        except NoNodeError:
            self._leader, self._node = None, ""
        except (KazooException, KazooTimeoutError) as error:
            raise DetectionError(f"ZooKeeper: {error!r}") from error

    def _read(self, name: str) -> Master:
        data, _ = self._client.get(f"{self._path}/{name}")
        try:
            address = json.loads(data)["address"]
            return Master(address.get("ip") or address["hostname"], int(address["port"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DetectionError(f"{self._path}/{name} holds no master's address: {error!r}") from error
