"""Readers of event streams, in a process of their own: `python -m benchmarks.watchers URL READERS`.

Prints "watching" when all streams are open. Then each line on standard input is answered with the number of events that
all of them together have been told so far.
"""

from __future__ import annotations

import asyncio
import sys
from urllib.parse import urlsplit

MARK = b"event: event\n"


class Readers:
    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self.told = 0
        self.open = 0

    async def follow(self) -> None:
        reader, writer = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        writer.write(f"GET {self._parts.path} HTTP/1.1\r\nHost: {self._parts.netloc}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head:
            raise SystemExit(f"no stream: {head.decode()[:200]}")
        self.open += 1
        tail = b""
        while piece := await reader.read(64 * 1024):
            self.told += (tail + piece).count(MARK)
            tail = piece[-len(MARK) + 1 :]


async def main(url: str, count: int) -> None:
    readers = Readers(url)
    tasks = [asyncio.create_task(readers.follow()) for _ in range(count)]
    while readers.open < count:
        await asyncio.sleep(0.02)
        for task in tasks:
            if task.done():
                task.result()
    print("watching", flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(readers.told, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
