"""The protection of the API, made from the settings: TLS, tokens, limits, the audit log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import structlog

from bcs_scheduler.api.http.request_gate import RequestGate
from bcs_scheduler.leadership.gateway import Check
from bcs_scheduler.net.addresses import parse_address
from bcs_scheduler.observability.metrics import Metrics
from bcs_scheduler.security.audit import Audit
from bcs_scheduler.security.pages import names_of
from bcs_scheduler.security.rates import Rates
from bcs_scheduler.security.tls import ServerTls
from bcs_scheduler.security.tokens import read_tokens
from bcs_scheduler.security.watched import Broken, WatchedFiles
from bcs_scheduler.settings.sections import ConfigError, Settings

log = structlog.get_logger(__name__)
FAILED_RATE, FAILED_BURST = 1.0, 20
"""Per second and network: requests without a valid token whose answer names the problem of the token. The limit bounds
the size of the log and of the audit file; guessing 256 bits is hopeless at any rate."""


class Authentication:
    """Raises ConfigError if a file cannot be used at the start."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        api = settings.api
        try:
            self.tls = (
                ServerTls(
                    Path(api.tls_cert),
                    Path(api.tls_key),
                    Path(api.tls_client_ca) if api.tls_client_ca else None,
                    metrics.file_broken,
                )
                if api.tls_cert
                else None
            )
            tokens_file = Path(api.tokens_file)
            tokens = (
                WatchedFiles("tokens", [tokens_file], lambda: read_tokens(tokens_file), metrics.file_broken)
                if api.tokens_file
                else None
            )
        except Broken as broken:
            raise ConfigError(str(broken)) from None
        try:
            self._audit = Audit(Path(api.audit_file) if api.audit_file else None, metrics.audit_lost)
        except OSError as error:
            raise ConfigError(f"api.audit_file: cannot write {api.audit_file}: {error.strerror or error}") from None
        self.gate = RequestGate(
            tokens=tokens,
            certificates=bool(api.tls_client_ca),
            rates=Rates(api.rate_limit, api.rate_burst),
            failures=Rates(FAILED_RATE, FAILED_BURST),
            audit=self._audit,
            refused=metrics.refused,
            hosts=_hosts(settings),
            metrics_open=api.open_metrics,
        )
        self._files: list[WatchedFiles[Any]] = [
            *([self.tls.files] if self.tls else []),
            *([tokens] if tokens else []),
        ]

    def checks(self) -> list[Check]:
        """Broken files do not make the service unready, because their previous content stays in use."""
        for files in self._files:
            files.current()
        checks = [
            Check(files.what, True, f"{files.problem}; the former content stays in use" if files.problem else "read")
            for files in self._files
        ]
        if self._audit.problem:
            checks.append(Check("audit", True, f"lines are lost: {self._audit.problem}"))
        return checks

    def reload(self) -> None:
        """Looks at the files now, and opens the audit log again."""
        for files in self._files:
            files.refresh()
        self._audit.reopen()

    def close(self) -> None:
        self._audit.close()


def log_access(settings: Settings) -> None:
    """Logs one line about the protection of the API."""
    api = settings.api
    local = parse_address(api.listen, allow_zero=True).loopback
    if not api.protected and local:
        log.info("no tokens: the API listens on this machine only, and every local user has all rights")
    elif not api.protected:
        log.warning("no tokens: every client of the API has all rights", listen=api.listen)
    elif not (api.tls_cert or local):
        log.warning("tokens are sent in clear text: set api.tls_cert and api.tls_key", listen=api.listen)


def _hosts(settings: Settings) -> frozenset[str] | None:
    """Names of an API without tokens; None = any."""
    api = settings.api
    advertised = [api.advertise.partition("://")[2].partition("/")[0]] if api.advertise else []
    others = (parse_address(address, default_port=80).host for address in advertised)
    return None if api.protected else names_of(parse_address(api.listen, allow_zero=True), *others)
