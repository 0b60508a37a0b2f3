"""Contexts: named servers with namespace and credentials, in ``~/.config/bcs/config.toml``.

current-context = "prod"

[contexts.prod]
server = "https://scheduler.example:8080"
namespace = "shop"
token-file = "~/.config/bcs/prod.token"
ca-file = "/etc/ssl/prod.pem"
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bcs_scheduler.cli.errors import UsageError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

FIELDS = ("server", "namespace", "token-file", "ca-file", "client-cert", "client-key")
FILES = ("token-file", "ca-file", "client-cert", "client-key")
"""Fields that hold paths; ``~`` is the home directory."""


def path_of_config(environ: Mapping[str, str] = os.environ) -> Path:
    """BCS_CONFIG, or config.toml in the directory for configuration of the user."""
    if environ.get("BCS_CONFIG"):
        return Path(environ["BCS_CONFIG"])
    home = environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    return Path(home) / "bcs" / "config.toml"


def read_config() -> dict[str, Any]:
    """The file, checked; empty if there is none. Raises UsageError."""
    path = path_of_config()
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    import tomllib

    try:
        config = tomllib.loads(text.decode())
    except ValueError as error:  # also of bytes that are no UTF-8
        raise UsageError(f"{path}: not TOML: {error}") from None
    for name, context in contexts_of(config).items():
        fields = context.items() if isinstance(context, dict) else [("contexts", context)]
        for field, value in fields:
            if field not in FIELDS or not isinstance(value, str):
                raise UsageError(f"{path}: contexts.{name}.{field}: known fields are texts: {', '.join(FIELDS)}")
    return config


def contexts_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Contexts by name. Raises UsageError."""
    found = config.get("contexts", {})
    if not isinstance(found, dict):
        raise UsageError(f"{path_of_config()}: contexts: is not a table")
    return found


def chosen(name: str) -> dict[str, str]:
    """The fields of a context; `name` empty = the current one, or none. Raises UsageError for an unknown context."""
    config = read_config()
    wanted = name or str(config.get("current-context") or "")
    if not wanted:
        return {}
    found = contexts_of(config)
    if wanted not in found:
        known = f"known: {', '.join(found)}" if found else "the file has none"
        raise UsageError(f"there is no context {wanted!r} in {path_of_config()}; {known}")
    context = found[wanted]
    return {field: _expanded(value) if field in FILES else value for field, value in context.items()}


def _expanded(path: str) -> str:
    return str(Path(path).expanduser())


def document() -> TOMLDocument:
    """The file for a change, with its comments. Raises UsageError."""
    import tomlkit

    read_config()
    path = path_of_config()
    return tomlkit.parse(path.read_text(encoding="utf-8")) if path.exists() else tomlkit.document()


def write(changed: TOMLDocument) -> None:
    """Replaces the file as a whole. Raises UsageError."""
    import tomlkit

    path = path_of_config()
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished.write_text(tomlkit.dumps(changed), encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
    finally:
        unfinished.unlink(missing_ok=True)
