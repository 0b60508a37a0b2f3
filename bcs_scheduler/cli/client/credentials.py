"""Credentials of a user, and verification of the server: token, client certificate, certificate authorities."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from bcs_scheduler.cli.errors import CliError, UsageError

if TYPE_CHECKING:
    from ssl import SSLContext

REDIRECTS = 5
"""Redirects of one request to a leader; the leader may change meanwhile."""


class Credentials(NamedTuple):
    """`ca_file` empty = the authorities that the system trusts. `verify` False = any server certificate is accepted."""

    token: str = ""
    ca_file: str = ""
    verify: bool = True
    certificate: str = ""
    """PEM file with the client certificate, and with its key unless `key` names another file."""
    key: str = ""

    def context(self) -> SSLContext:
        """The certificates for connections with TLS. Raises OSError for a file that holds none."""
        import ssl

        made = ssl.create_default_context(cafile=self.ca_file or None)
        if not self.verify:
            made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
        if self.certificate:
            made.load_cert_chain(self.certificate, self.key or None)
        return made

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def read_credentials(
    environ: Mapping[str, str],
    context: Mapping[str, str] = MappingProxyType({}),
    *,
    token_file: str | None = None,
    ca_file: str | None = None,
    insecure: bool = False,
    certificate: str | None = None,
    key: str | None = None,
) -> Credentials:
    """Credentials from options, else from the environment, else from a context. Raises UsageError for a file that
    cannot be read."""
    token = "" if token_file else environ.get("BCS_TOKEN", "").strip()
    token_file = token_file or ((environ.get("BCS_TOKEN_FILE") or context.get("token-file")) if not token else None)
    if token_file:
        token = _read(token_file, "the token").strip()
    if token and (not token.isascii() or not token.isprintable() or " " in token):
        raise UsageError("the token is invalid: a token consists of printable ASCII characters without blanks")
    found = Credentials(
        token,
        ca_file or environ.get("BCS_CA_FILE") or context.get("ca-file", ""),
        not insecure,
        certificate or environ.get("BCS_CLIENT_CERT") or context.get("client-cert", ""),
        key or environ.get("BCS_CLIENT_KEY") or context.get("client-key", ""),
    )
    for path, what in ((found.ca_file, "the CA file"), (found.certificate, "the client certificate")):
        if path:
            _read(path, what)
    return found


def _read(path: str, what: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {what} {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{what} {path} is not UTF-8 text") from None


def redirected(asked: str, location: str) -> str:
    """The URL of a redirect. Raises CliError if the URL cannot be a scheduler of the same cluster: the scheme and the
    path must be those of the request."""
    there, here = urlsplit(location), urlsplit(asked)
    # An advertised URL may have a path prefix.
    same = there.scheme == here.scheme and there.path.endswith(here.path) and there.query == here.query
    if not same or not there.netloc or "@" in there.netloc:
        shown = f"{there.scheme}://{there.netloc.rpartition('@')[2]}{there.path}"
        raise CliError(
            f"{here.scheme}://{here.netloc} redirects to {shown[:200]}, which is not a scheduler of the same cluster"
        )
    return location
