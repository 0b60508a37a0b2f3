"""TLS of the HTTP API: at least 1.2, certificate and key read again when their files change.

The listening socket keeps one context permanently. The server-name callback hands each handshake over to the newest
context (OpenSSL calls it for clients that name no server, too). So new connections have the new certificate and the new
authorities, and open connections continue undisturbed.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bcs_scheduler.security.watched import Broken, WatchedFiles


class ServerTls:
    """Raises Broken if the files cannot be used at the start."""

    def __init__(
        self, cert: Path, key: Path, client_ca: Path | None = None, failed: Callable[[str], None] = lambda what: None
    ) -> None:
        """`cert`: PEM, with the chain behind it. `client_ca`: PEM of those whose client certificates are believed; they
        stay optional, because agents fetch the executor without one."""
        paths = [cert, key, *([client_ca] if client_ca else [])]
        self.files = WatchedFiles("TLS certificate", paths, lambda: _context(cert, key, client_ca), failed)
        self.context = _context(cert, key, client_ca)
        self.context.sni_callback = self._choose

    def _choose(self, connection: Any, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self.files.current()


def _context(cert: Path, key: Path, client_ca: Path | None) -> ssl.SSLContext:
    for path in (cert, key, *([client_ca] if client_ca else [])):
        try:
            path.open("rb").close()
        except OSError as error:
            raise Broken(f"{path}: cannot be read: {error.strerror or error}") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(cert, key, password=lambda: "")  # never ask at the terminal
    except (OSError, ValueError) as error:
        raise Broken(f"{cert}, {key}: not a certificate with its key in PEM: {_words(error)}") from None
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ValueError) as error:
            raise Broken(f"{client_ca}: no certificates in PEM: {_words(error)}") from None
        context.verify_mode = ssl.CERT_OPTIONAL
        # A resumed session keeps the certificate of the first one, although that or its authority may be revoked.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
    return context


def _words(error: Exception) -> str:
    return str(getattr(error, "reason", "") or error).lower().replace("_", " ")


def common_name(certificate: Any) -> str:
    """Of the subject of a peer's certificate as ssl gives it; empty without one."""
    for part in (certificate or {}).get("subject", ()):
        for field, value in part:
            if field == "commonName":
                return str(value)
    return ""
