"""A real HTTP server for tests: every path is answered by a function."""

from __future__ import annotations

import base64
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Web:
    """`pages` maps paths to what writes the answer; `requests` has (path, headers) of all that came."""

    def __init__(self) -> None:
        self.pages: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.ending = threading.Event()
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                web.pages.get(self.path.partition("?")[0], status(404))(self)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def hang(self, handler: BaseHTTPRequestHandler) -> None:
        self.ending.wait(60.0)


@contextmanager
def serving_tls(directory: Path, name: str) -> Iterator[tuple[Web, Path]]:
    """With https, and its certificate, made for `name` as openssl writes a subjectAltName and signed by itself."""
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    subject = ["-subj", "/CN=test", "-addext", f"subjectAltName={name}"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving() as web:
        web.server.socket = context.wrap_socket(web.server.socket, server_side=True)
        yield web, certificate


@contextmanager
def serving() -> Iterator[Web]:
    web = Web()
    thread = threading.Thread(target=web.server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield web
    finally:
        web.ending.set()
        web.server.shutdown()
        web.server.server_close()
        thread.join()


def content(data: bytes, claimed: int | None = None) -> Callable[[BaseHTTPRequestHandler], None]:
    """`claimed` is the length that is said instead of the true one; -1 says none."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        if claimed != -1:
            handler.send_header("Content-Length", str(len(data) if claimed is None else claimed))
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def status(code: int, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def raw(data: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(data)

    return answer


def protected(data: bytes, user: str, password: str) -> Callable[[BaseHTTPRequestHandler], None]:
    expected = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def answer(handler: BaseHTTPRequestHandler) -> None:
        allowed = handler.headers.get("Authorization") == expected
        (content(data) if allowed else status(401))(handler)

    return answer
