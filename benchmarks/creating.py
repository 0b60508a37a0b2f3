"""Many small applications, created by many clients at once.

`create-N`: CLIENTS keep-alive connections create N applications of one taskgroup each, as fast as they are answered.
The clients are one process without threads, whose requests are made beforehand: they need far less of the machine than
the scheduler does (`client_cpu_us`).

`python -m benchmarks.creating PORT PID NUMBER` is that process; it prints one line of JSON.
"""

from __future__ import annotations

import json
import selectors
import socket
import subprocess
import sys
import time
from collections import deque
from dataclasses import dataclass
from statistics import median
from urllib.parse import urlsplit

from benchmarks.load import APPLICATION, PAUSE, TIMEOUT, Result, document
from benchmarks.processes import API, Bench, Failure, Tasks, await_, cpu_seconds

CLIENTS = 16
PARTS = 10
"""Stretches of the run, of equally many creations, whose processor times are told apart."""
GROWTH_BOUND = 1.5
"""The last stretch may take so many times the processor time of the first."""
FLAT_FROM = 3000
"""Applications from which on the stretches are long enough to be compared."""
READ_BYTES = 64 * 1024


def creating(case: str, bench: Bench, number: int) -> Result:
    """`seconds` until the last answer; `cpu_us` of the scheduler for each application until all run. In `parts`:
    processor time of the scheduler for each creation in the first and in the last tenth, and of the clients, in
    microseconds; latency of a POST and the time until all run in seconds."""
    cpu, cluster, began = bench.scheduler.cpu_seconds(), bench.cluster.cpu_seconds(), time.monotonic()
    clients = subprocess.run(
        [sys.executable, "-m", "benchmarks.creating", str(urlsplit(bench.scheduler.url).port),
         str(bench.scheduler.pid), str(number)],
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    if clients.returncode != 0:
        raise Failure(f"the clients: {clients.stderr[-2000:]}")
    seen = json.loads(clients.stdout)
    await_(f"{number} running", lambda: bench.tasks() == Tasks(number, number, 0), TIMEOUT, PAUSE)
    running, used = time.monotonic() - began, bench.scheduler.cpu_seconds() - cpu
    first, last = seen["cpu"][1] - seen["cpu"][0], seen["cpu"][-1] - seen["cpu"][-2]
    growth = last / first
    if number >= FLAT_FROM and growth > GROWTH_BOUND:
        raise Failure(f"the last tenth took {growth:.2f} times the processor time of the first")
    parts = {
        "cpu_first_us": first * PARTS * 1e6 / number,
        "cpu_last_us": last * PARTS * 1e6 / number,
        "growth": growth,
        "post": median(seen["latencies"]),
        "post_p99": sorted(seen["latencies"])[int(number * 0.99)],
        "all_running": running,
        "client_cpu_us": seen["client_cpu"] * 1e6 / number,
        "cluster_cpu_us": (bench.cluster.cpu_seconds() - cluster) * 1e6 / number,
    }
    return Result(
        case=case,
        store=bench.store,
        agents=bench.agents,
        taskgroups=number,
        seconds=seen["seconds"],
        per_second=number / seen["seconds"],
        cpu_us=used * 1e6 / number,
        rss_mb=bench.scheduler.peak_rss(),
        parts={name: round(value, 4) for name, value in parts.items()},
    )


@dataclass(slots=True)
class _Client:
    """One connection, and the request under way on it."""

    connection: socket.socket
    sent_at: float = 0.0
    answer: bytes = b""


class _Clients:
    """All connections, served by one thread."""

    def __init__(self, port: int, pid: int, number: int) -> None:
        self._port, self._pid, self._number = port, pid, number
        self._requests = deque(_request(port, name) for name in range(number))
        self._latencies: list[float] = []
        self._cpu: list[float] = []
        self._selector = selectors.DefaultSelector()

    def run(self) -> dict[str, object]:
        clients = [_Client(socket.create_connection(("127.0.0.1", self._port))) for _ in range(CLIENTS)]
        for client in clients:
            client.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(client.connection, selectors.EVENT_READ, client)
        began, own = time.monotonic(), time.process_time()
        self._mark()
        for client in clients:
            self._send(client)
        while len(self._latencies) < self._number:
            for key, _ in self._selector.select(TIMEOUT):
                self._read(key.data)
        seconds, client_cpu = time.monotonic() - began, time.process_time() - own
        return {"seconds": seconds, "latencies": self._latencies, "cpu": self._cpu, "client_cpu": client_cpu}

    def _send(self, client: _Client) -> None:
        if self._requests:
            client.answer, client.sent_at = b"", time.monotonic()
            client.connection.sendall(self._requests.popleft())

    def _read(self, client: _Client) -> None:
        piece = client.connection.recv(READ_BYTES)
        if not piece:
            raise Failure("a connection was closed")
        client.answer += piece
        if not _complete(client.answer):
            return
        if not client.answer.startswith(b"HTTP/1.1 202 "):
            raise Failure(f"an application was not created: {client.answer[:1000]!r}")
        self._latencies.append(time.monotonic() - client.sent_at)
        if len(self._latencies) * PARTS // self._number == len(self._cpu):
            self._mark()
        self._send(client)

    def _mark(self) -> None:
        self._cpu.append(cpu_seconds(self._pid))


def _complete(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    if not end:
        return False
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(body) >= int(line[15:])
    raise Failure(f"an answer without a length: {head[:1000]!r}")


def _request(port: int, number: int) -> bytes:
    body = json.dumps(document(1, f"small-{number}")).encode()
    head = (
        f"POST {API}{APPLICATION} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


if __name__ == "__main__":
    print(json.dumps(_Clients(*map(int, sys.argv[1:])).run()))
