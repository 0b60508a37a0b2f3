"""The settings that determine the options of the core, as the decision log keeps them. None of them is confidential."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import msgspec

from bcs_scheduler.decisions.format import Begin, DamagedLog
from bcs_scheduler.settings.partitions import self_contained
from bcs_scheduler.settings.sections import ConfigError, Settings

_SECTIONS = ("scheduler", "transactions", "executor", "events")


def recorded_settings(settings: Settings) -> tuple[dict[str, object], str]:
    """Returns the settings as plain data, and the text of the policy file (empty = there is none); with partitions of
    roles, their file with the contents of the files that it names. Raises ConfigError if a file cannot be read."""
    tree: dict[str, Any] = msgspec.to_builtins(settings)
    kept: dict[str, object] = {name: tree[name] for name in _SECTIONS if name in tree}
    kept["mesos"] = {"roles": list(settings.mesos.roles)}
    path, text = settings.scheduler.policy_file, ""
    if settings.scheduler.policies_file:
        text = self_contained(settings.scheduler.policies_file)
    elif path:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"scheduler.policy_file: cannot read {path}: {error}") from None
    return kept, text


def settings_of(begin: Begin, folder: str) -> Settings:
    """Returns the recorded settings; others have their defaults. The policy file is written into `folder`. Raises
    DamagedLog if this version does not accept the settings."""
    tree: dict[str, Any] = dict(begin.settings)
    if begin.policy:
        with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".yaml", delete=False, encoding="utf-8") as file:
            file.write(begin.policy)
        given = tree["scheduler"]
        setting = "policies_file" if given.get("policies_file") else "policy_file"
        tree["scheduler"] = {**given, setting: file.name}
    try:
        return msgspec.convert(tree, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise DamagedLog(f"this version does not accept the recorded settings: {error}") from None
