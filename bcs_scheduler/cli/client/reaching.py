"""Why a server cannot be reached."""

from __future__ import annotations

import socket
import ssl
from urllib.parse import urlsplit

from bcs_scheduler.cli.client.responses import TlsExpected

NO_SERVER = "`bcs-scheduler dev` starts a server on this machine; BCS_SERVER or --server names another one"
PROBE_TIMEOUT = 2.0
"""Seconds for a connection that finds out whether a server speaks TLS."""
NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"})
"""Codes of OpenSSL for an answer that is not TLS."""


def address_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def hint_of(server: str, url: str, error: BaseException) -> str:
    """The way on if nothing listens at the address of the command line; else empty. `url`: that of the request, which a
    redirect may have changed."""
    refused = any(isinstance(one, ConnectionRefusedError) for one in chain_of(error))
    return NO_SERVER if refused and address_of(url) == address_of(server) else ""


def cause_of(error: BaseException) -> str:
    """The innermost cause of an error of the HTTP library."""
    inner = chain_of(error)
    named = [one.strerror for one in inner if isinstance(one, OSError) and one.strerror]
    return named[0].lower() if named else next((str(one) for one in reversed(inner) if str(one)), type(error).__name__)


def chain_of(error: BaseException) -> list[BaseException]:
    """An error with its causes, the innermost last."""
    found: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in found:
        found.append(following)
        given = next((one for one in reversed(following.args) if isinstance(one, BaseException)), None)
        following = following.__cause__ or given or following.__context__
    return found


def mixed_up(url: str, error: BaseException) -> str:
    """Advice if http was used with a server that speaks TLS, or https with a server that does not; else empty."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        codes = {one.reason for one in chain_of(error) if isinstance(one, ssl.SSLError)}
        return f"the server does not use TLS: use http://{parts.netloc}" if codes & NOT_TLS else ""
    chain = chain_of(error)
    if any(isinstance(one, TlsExpected) for one in chain):
        return f"the server uses TLS: use https://{parts.netloc}"
    broken = any(isinstance(one, ConnectionError) and not isinstance(one, ConnectionRefusedError) for one in chain)
    if broken and parts.hostname and _speaks_tls(parts.hostname, parts.port or 80):
        return f"the server uses TLS: use https://{parts.netloc}"
    return ""


def _speaks_tls(host: str, port: int) -> bool:
    context = ssl.create_default_context()
    # Only the handshake is tried; nothing is sent over the connection.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((host, port), PROBE_TIMEOUT) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return True
    except ssl.SSLError as error:
        # A server that asks for a client certificate has spoken TLS.
        return error.reason not in NOT_TLS and error.reason is not None
    except OSError:
        return False
