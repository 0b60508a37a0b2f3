"""The option `--policy`: a policy of sessions or a tree of queues, read as the settings of a scheduler read them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import yaml

from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.settings.policies import policy_of_settings, queues_of_settings
from bcs_scheduler.settings.sections import ConfigError
from bcs_scheduler.simulator.scenario.amounts import BadInput

SIMPLE = "simple"
"""Name of the policy without a file: demands in the order of their arrival."""


def with_policy(options: CoreOptions, file: str) -> CoreOptions:
    """The options with the policy of a YAML file: a tree of queues if the document has `queues` or `partitions`, else a
    policy of sessions; `simple` is the policy without a file. Raises BadInput with every problem."""
    if file == SIMPLE:
        return options
    try:
        if _is_tree(Path(file)):
            tree = queues_of_settings("hierarchical", file)
            assert tree is not None, "the kind of the policy has a tree"
            return replace(options, hierarchy=tree.partition, hierarchy_document=tree.document)
        return replace(options, policy=policy_of_settings("session", file))
    except ConfigError as error:
        raise BadInput(str(error).replace("scheduler.policy_file", "--policy")) from None


def _is_tree(file: Path) -> bool:
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"--policy: {file}: {error.strerror or error}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadInput(f"--policy: {file}: not YAML: {' '.join(str(error).split())}") from None
    return isinstance(document, dict) and bool({"queues", "partitions"} & document.keys())
