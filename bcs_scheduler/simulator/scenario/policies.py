"""The option `--policy`: a policy of sessions or a tree of queues, read as the settings of a scheduler read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.hierarchy.names import chosen_tree
from bcs_scheduler.settings.policies import policy_of_settings, queues_of_settings
from bcs_scheduler.settings.sections import ConfigError
from bcs_scheduler.simulator.scenario.amounts import BadInput
from bcs_scheduler.wire.yamltext import BadYaml, document_of
from offers.policy.hierarchy import BadQueues, partition_of
from offers.policy.hierarchy.configuration.document import canonical
from offers.resources import SCALARS
from transactions.base import Refused

SIMPLE = "simple"
"""Name of the policy without a file: demands in the order of their arrival."""


DUMPED = "dump"
"""Name of the policy that is the stored tree of queues of the dump; ``dump:NAME`` is that of a partition of roles."""
NO_TREES: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


def with_policy(options: CoreOptions, file: str, trees: Mapping[str, Mapping[str, Any]] = NO_TREES) -> CoreOptions:
    """The options with the policy of a YAML file: a tree of queues if the document has `queues` or `partitions`, else a
    policy of sessions; `simple` is the policy without a file, `dump` one of the `trees` of the dump, by partition.
    Raises BadInput with every problem."""
    if file == SIMPLE:
        return options
    kind, _, partition = file.partition(":")
    if kind == DUMPED:
        return _of_dump(options, file, trees, partition)
    try:
        if _is_tree(Path(file)):
            found = queues_of_settings("hierarchical", file)
            assert found is not None, "the kind of the policy has a tree"
            return replace(options, hierarchy=found.partition, hierarchy_document=found.document)
        return replace(options, policy=policy_of_settings("session", file))
    except ConfigError as error:
        raise BadInput(str(error).replace("scheduler.policy_file", "--policy")) from None


def _of_dump(options: CoreOptions, file: str, trees: Mapping[str, Mapping[str, Any]], partition: str) -> CoreOptions:
    if not trees:
        raise BadInput(f"--policy: {file}: the dump has no tree of queues")
    try:
        document = dict(trees[chosen_tree(trees, partition)])
    except Refused as refused:
        raise BadInput(f"--policy: {file}: {refused.message}") from None
    try:
        return replace(options, hierarchy=partition_of(document, SCALARS), hierarchy_document=canonical(document))
    except BadQueues as error:
        raise BadInput(f"--policy: {file}: the tree of queues is refused: {error.problems[0]}") from None


def _is_tree(file: Path) -> bool:
    try:
        found = document_of(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"--policy: {file}: {error.strerror or error}") from None
    except (UnicodeDecodeError, BadYaml) as error:
        raise BadInput(f"--policy: {file}: not YAML: {' '.join(str(error).split())}") from None
    return isinstance(found, dict) and bool({"queues", "partitions"} & found.keys())
