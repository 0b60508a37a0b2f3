"""A gate in a TCP connection: closed, it holds up what is sent, as a network does that has lost the way."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from tests.integration.mesoscluster import RealMesos

MASTER_ADDRESSES = ('"port":{}', "Location: //127.0.0.1:{}")
"""How ZooKeeper and the other masters tell the port of the leading master."""


class Gate:
    """Listens at `address` (``host:port``) and forwards connections to 127.0.0.1:`port`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open = threading.Event()
        self._open.set()
        self._refusing = False
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._open.clear()

    def cut(self) -> None:
        """Ends all connections and takes no new ones until `open`: what is sent meanwhile is lost, not held up."""
        self._refusing = True
        ends, self._ends = self._ends, []
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def open(self) -> None:
        """What was held up goes on."""
        self._refusing = False
        self._open.set()

    def stop(self) -> None:
        """Ends all connections."""
        self._open.set()
        for end in (self._listener, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self._refusing:
                    near.close()
                    continue
                self._ends.append(near)
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        self._open.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._port))
        except OSError:
            near.close()
            return
        self._ends.append(far)
        answers = {"translated": self._translated}
        threading.Thread(target=self._forward, args=(far, near), kwargs=answers, daemon=True).start()
        self._forward(near, far, self._passes)

    def _passes(self, data: bytes) -> bool:
        """Whether a piece that a client has sent goes on to the server; else it is lost."""
        return True

    def _translated(self, data: bytes) -> bytes:
        """What a client receives instead of a piece that the server has sent."""
        return data

    def _forward(
        self,
        source: socket.socket,
        target: socket.socket,
        passes: Callable[[bytes], bool] = lambda data: True,
        translated: Callable[[bytes], bytes] = lambda data: data,
    ) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._open.wait()
                if passes(data):
                    target.sendall(translated(data))
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class AddressGate(Gate):
    """A gate whose server tells addresses of other servers that stand behind gates too: the client is told the
    addresses of those gates, so that nothing of what it sends passes by them.

    Ports are replaced by others of as many digits, because the protocols tell the length of what follows. An address
    that two pieces share is not found; answers of ZooKeeper and the heads of HTTP answers come in one piece.
    """

    def __init__(self, port: int) -> None:
        self._words: dict[bytes, bytes] = {}
        super().__init__(port)

    def tell(self, words: Sequence[str], others: Mapping[int, int]) -> None:
        """`words`: how an address is told, with ``{}`` for the port. `others`: ports of gates by ports of servers."""
        assert all(len(str(server)) == len(str(gate)) for server, gate in others.items()), others
        self._words = {word.format(s).encode(): word.format(g).encode() for word in words for s, g in others.items()}

    def _translated(self, data: bytes) -> bytes:
        for told, instead in self._words.items():
            data = data.replace(told, instead)
        return data


def masters_behind_gates(mesos: RealMesos) -> tuple[list[AddressGate], AddressGate]:
    """Gates in front of the masters, and one in front of the ZooKeeper that elects them. Who looks for the leading
    master behind the latter finds a gate."""
    ports = [int(address.rpartition(":")[2]) for address in mesos.masters.values()]
    masters = [AddressGate(port) for port in ports]
    zookeeper = AddressGate(int(urlsplit(mesos.zk_url).netloc.rpartition(":")[2]))
    places = {port: gate.port for port, gate in zip(ports, masters, strict=True)}
    for gate in (*masters, zookeeper):
        gate.tell(MASTER_ADDRESSES, places)
    return masters, zookeeper
