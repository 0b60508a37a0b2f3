"""The store that the settings name, with the keys and the user that belong to it."""

from __future__ import annotations

from pathlib import Path

import structlog

from bcs_scheduler.settings.sections import ConfigError, Settings, StoreSettings
from store.base import Store
from store.encoding.seal import UNSEALED, Sealer, read_keys
from store.factory import open_store

log = structlog.get_logger(__name__)
READABLE_BY_OTHERS = 0o077


def store_of(settings: StoreSettings) -> Store:
    """Not connected yet. Raises ConfigError for files that cannot be used, ValueError for a URL that cannot."""
    return open_store(
        settings.url,
        settings.session_timeout,
        sealer=sealer_of(settings),
        user=settings.user,
        password=settings.password(),
    )


def sealer_of(settings: StoreSettings) -> Sealer:
    """Raises ConfigError."""
    path = settings.secret_key_file
    if not path:
        return UNSEALED
    try:
        keys = read_keys(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        words = error.strerror if isinstance(error, OSError) else "not a text"
        raise ConfigError(f"store.secret_key_file: cannot read {path}: {words}") from None
    if not keys:
        raise ConfigError(f"store.secret_key_file: {path} holds no key; `bcs-scheduler key new` makes one")
    try:
        return Sealer(keys)
    except ValueError as error:
        raise ConfigError(f"store.secret_key_file: {path}: {error}") from None


def warn_of_clear_secrets(settings: StoreSettings) -> None:
    """One line in the log if secrets are not encrypted. Not for `bcs-scheduler dev`: its store is a file that only the
    developer can read, and a key beside it would protect nothing."""
    if not settings.secret_key_file:
        log.warning("secrets are stored in clear: set store.secret_key_file", store=settings.url)


def warn_of_readable_files(settings: Settings) -> None:
    """One line in the log for each file with keys or passwords that other users can read."""
    store, services = settings.store, settings.services
    for path in filter(None, (store.secret_key_file, store.password_file, services.password_file)):
        if Path(path).stat().st_mode & READABLE_BY_OTHERS:
            log.warning("file with secrets is readable by other users", file=path)
