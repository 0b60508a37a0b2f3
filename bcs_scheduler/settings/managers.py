"""The application managers that the settings enable, and their own settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from bcs_scheduler.appmanagers.installed import BadManager, enabled_managers
from bcs_scheduler.settings.sections import ConfigError, reason
from offers.policy.applications.interface import AppManager

_NAMESPACE = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?\Z|defaultGroup\Z")


def managers_of_settings(names: Sequence[str]) -> list[AppManager]:
    """New objects of the managers with these names. Raises ConfigError for a manager that cannot be used."""
    try:
        return enabled_managers(names)
    except BadManager as error:
        raise ConfigError(f"scheduler.app_managers: {error}") from None


def manager_settings(names: Sequence[str], path: str) -> Mapping[str, Mapping[str, object]]:
    """The settings of managers by name, from a YAML file. Empty path: no settings. Raises ConfigError."""
    if not path:
        given: object = {}
    else:
        from bcs_scheduler.wire.yamltext import BadYaml, document_of

        try:
            given = document_of(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"scheduler.app_managers_file: cannot read {path}: {reason(error)}") from None
        except BadYaml as error:
            raise ConfigError(f"scheduler.app_managers_file: {path}: not YAML: {error}") from None
    return {name: _settings_of(name, given, names, path) for name in names}


def _settings_of(name: str, given: object, names: Sequence[str], path: str) -> Mapping[str, object]:
    where = f"scheduler.app_managers_file: {path}"
    if not isinstance(given, dict):
        raise ConfigError(f"{where}: the file must hold settings by name of the manager")
    unknown = sorted(str(key) for key in given if key not in names)
    if unknown:
        raise ConfigError(f"{where}: {unknown[0]}: no such manager in scheduler.app_managers")
    found = given.get(name, {})
    if not isinstance(found, dict):
        raise ConfigError(f"{where}: {name}: must be settings by name")
    namespace = str(found.get("namespace", name))
    if not _NAMESPACE.match(namespace):
        raise ConfigError(f"{where}: {name}.namespace: {namespace!r} cannot be the name of a namespace")
    return found
