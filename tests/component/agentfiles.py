"""A stand-in for an agent's files API, in the words of Mesos 1.11, over a folder of the disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.component.standinserver import QuietHandler, StandInServer

PAGES = 64 * 1024
"""Bytes in one answer at most."""

Answer = tuple[int, bytes]


class AgentFiles(StandInServer):
    """Serves `root` as ``/frameworks/F/executors/E/runs/latest``. `override` may answer a request instead.
    `connections` counts the connections that were made."""

    def __init__(self, root: Path, framework: str = "F", executor: str = "E") -> None:
        self.root = root
        self.virtual = f"/frameworks/{framework}/executors/{executor}/runs/latest"
        self.override: Callable[[str, dict[str, str]], Answer | None] = lambda what, query: None
        self.connections = 0
        agent = self

        class Handler(QuietHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                agent.connections += 1
                super().setup()

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                what = parts.path.removeprefix("/files/")
                status, body = agent.override(what, query) or agent._answer(what, query)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        super().__init__(Handler)

    def _answer(self, what: str, query: dict[str, str]) -> Answer:
        virtual = query["path"]
        file = self.root / virtual.removeprefix(self.virtual).strip("/")
        if not virtual.startswith(self.virtual) or not file.exists():
            return 404, b""
        if what == "browse":
            return 200, self._listing(file, virtual)
        if file.is_dir():
            return 400, b"Cannot read a directory.\n"
        content = file.read_bytes()
        if what == "download":
            return 200, content
        offset, length = int(query["offset"]), int(query["length"])
        if offset == -1:
            return 200, b'{"data":"","offset":%d}' % len(content)
        return 200, b'{"data":"%s","offset":%d}' % (_escaped(content[offset : offset + min(length, PAGES)]), offset)

    def _listing(self, folder: Path, virtual: str) -> bytes:
        entries = [] if folder.is_file() else sorted(folder.iterdir())
        return json.dumps(
            [
                {
                    "path": f"{virtual}/{entry.name}",
                    "size": entry.stat().st_size,
                    "mtime": float(int(entry.stat().st_mtime)),
                    "mode": "drwxr-x---" if entry.is_dir() else "-rw-r--r--",
                    "uid": "root",
                }
                for entry in entries
            ],
            ensure_ascii=False,
        ).encode()


def _escaped(data: bytes) -> bytes:
    """As Mesos writes strings: what is no ASCII stays the byte it is."""
    special = {ord('"'): b'\\"', ord("\\"): b"\\\\"}
    return b"".join(
        special.get(byte) or (b"\\u%04x" % byte if byte < 0x20 or byte == 0x7F else bytes((byte,))) for byte in data
    )
