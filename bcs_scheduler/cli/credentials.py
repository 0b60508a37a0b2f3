"""What `bcs` shows the server, and how it knows the server: token, client certificate, certificate authorities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import requests

from bcs_scheduler.cli.errors import CliError, UsageError

REDIRECTS = 5
"""Leaders may change while we look for them, but not for ever."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """`ca_file` empty = the authorities that requests trusts; `verify` False = any certificate will do."""

    token: str = ""
    ca_file: str = ""
    verify: bool = True
    certificate: str = ""
    """PEM file of the client's certificate; with its key, unless `key` names another file."""
    key: str = ""

    def equip(self, session: requests.Session) -> None:
        """The token is not part of the session: it is added request by request (`headers`)."""
        session.verify = (self.ca_file or True) if self.verify else False
        if self.certificate:
            session.cert = (self.certificate, self.key) if self.key else self.certificate

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def read_credentials(
    environ: Mapping[str, str],
    *,
    token_file: str | None = None,
    ca_file: str | None = None,
    insecure: bool = False,
    certificate: str | None = None,
    key: str | None = None,
) -> Credentials:
    """Of the command line, then of the environment. Raises UsageError for what cannot be read."""
    token = "" if token_file else environ.get("BCS_TOKEN", "").strip()
    token_file = token_file or (environ.get("BCS_TOKEN_FILE") if not token else None)
    if token_file:
        token = _read(token_file, "the token").strip()
    if token and (not token.isascii() or not token.isprintable() or " " in token):
        raise UsageError("the token is not one: it must be printable ASCII without blanks")
    found = Credentials(
        token,
        ca_file or environ.get("BCS_CA_FILE", ""),
        not insecure,
        certificate or environ.get("BCS_CLIENT_CERT", ""),
        key or environ.get("BCS_CLIENT_KEY", ""),
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
        raise UsageError(f"{what} {path} is not text") from None


def redirected(asked: str, location: str) -> str:
    """Where to send a request again that a scheduler has pointed elsewhere. Raises CliError if that is no scheduler of
    the same cluster: those serve the same path by the same scheme, and with TLS show a certificate that we trust."""
    there, here = urlsplit(location), urlsplit(asked)
    # An advertised URL may have a path of its own in front.
    same = there.scheme == here.scheme and there.path.endswith(here.path) and there.query == here.query
    if not same or not there.netloc or "@" in there.netloc:
        shown = f"{there.scheme}://{there.netloc.rpartition('@')[2]}{there.path}"
        raise CliError(f"{here.scheme}://{here.netloc} points to {shown[:200]}, which is no scheduler of its cluster")
    return location
