"""The partitions of roles with a policy each, which the YAML file of scheduler.policies_file describes.

    policies:
      - {roles: [prod, web], policy: session, file: policy.yaml}
      - {roles: [batch], policy: hierarchical, name: batch, file: batch.yaml}
      - {roles: ["*"], policy: hierarchical, file: queues.yaml}

Names of files are relative to the folder of this file. In place of `file` an entry may have the contents, `document`.
A partition with a tree of queues and without a name has the name in its document, as files of YuniKorn have it, or the
name `default`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bcs_scheduler.core.options import OTHERS, PolicyKind, RolePartition
from bcs_scheduler.settings.policies import BadPlugin, contents, installed, tree_of
from bcs_scheduler.settings.sections import ConfigError
from offers.errors import Problem
from offers.policy.hierarchy.configuration.fields import BadQueues
from offers.policy.hierarchy.configuration.yunikorn import document_name
from offers.policy.session.configuration import BadPolicy, default_policy, policy_of
from store.records import DEFAULT_PARTITION

SETTING = "scheduler.policies_file"
KINDS: tuple[PolicyKind, ...] = ("simple", "session", "hierarchical")
FIELDS = ("roles", "policy", "name", "file", "document")
NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
"""Names of partitions: DNS labels."""


class _Entry(NamedTuple):
    """An entry without mistakes in its own fields. `document` None: the default of the policy."""

    number: int
    """Position in the file, from 0."""
    roles: tuple[str, ...]
    kind: PolicyKind
    document: Any
    path: str
    """Place of the document, for messages."""
    name: str
    """Empty: neither the entry nor its document has a name."""


def partitions_of_settings(path: str, roles: Sequence[str]) -> tuple[RolePartition, ...]:
    """The partitions that a file describes; none if `path` is empty. `roles`: those of the framework. Raises
    ConfigError with every problem of the file and of the files that it names."""
    if not path:
        return ()
    problems: list[Problem] = []
    entries = _entries(path, problems)
    _check_roles(entries, roles, problems)
    _check_names(entries, problems)
    found = []
    for entry in entries:
        try:
            found.append(_partition(entry))
        except (BadQueues, BadPolicy) as error:
            problems += [Problem(f"{entry.path}: {problem.path}", problem.text) for problem in error.problems]
        except BadPlugin as error:
            problems.append(Problem(entry.path, str(error)))
    if problems:
        listed = "\n".join(f"  {problem}" for problem in problems)
        raise ConfigError(f"{SETTING}: {path} is refused:\n{listed}")
    return tuple(found)


def self_contained(path: str) -> str:
    """The partitions as JSON with all documents. Raises ConfigError."""
    problems: list[Problem] = []
    entries = _entries(path, problems)
    if problems:
        raise ConfigError(f"{SETTING}: {path}: {problems[0]}")
    documents = ({} if entry.document is None else {"document": entry.document} for entry in entries)
    return json.dumps(
        {
            "policies": [
                {
                    "roles": list(entry.roles),
                    "policy": entry.kind,
                    **({"name": entry.name} if entry.name else {}),
                    **document,
                }
                for entry, document in zip(entries, documents, strict=True)
            ]
        }
    )


def _partition(entry: _Entry) -> RolePartition:
    if entry.kind == "hierarchical":
        tree = tree_of(entry.document)
        return RolePartition(entry.roles, hierarchy=tree.partition, hierarchy_document=tree.document, name=entry.name)
    if entry.kind == "simple":
        return RolePartition(entry.roles, name=entry.name)
    policy = default_policy() if entry.document is None else policy_of(entry.document, installed())
    return RolePartition(entry.roles, policy=policy, name=entry.name)


def _entries(path: str, problems: list[Problem]) -> list[_Entry]:
    try:
        given = contents(Path(path))
    except BadPolicy as error:
        problems += error.problems
        return []
    listed = given.get("policies") if isinstance(given, dict) else None
    if not isinstance(listed, list) or not listed:
        problems.append(Problem("policies", "must be a list of partitions"))
        return []
    problems += [Problem(str(name), "unknown field") for name in given if name != "policies"]
    found = (_entry(each, number, Path(path).parent, problems) for number, each in enumerate(listed))
    return [entry for entry in found if entry is not None]


def _entry(given: Any, number: int, folder: Path, problems: list[Problem]) -> _Entry | None:
    """The entry; None if it has mistakes, which are added to `problems`."""
    path = f"policies[{number}]"
    if not isinstance(given, dict):
        problems.append(Problem(path, "must be a section with roles and policy"))
        return None
    mistakes = [Problem(f"{path}.{name}", "unknown field") for name in given if name not in FIELDS]
    roles, kind = given.get("roles"), given.get("policy")
    if not isinstance(roles, list) or not roles or not all(isinstance(role, str) and role for role in roles):
        mistakes.append(Problem(f"{path}.roles", "must be a list of names of roles"))
    if kind not in KINDS:
        mistakes.append(Problem(f"{path}.policy", f"must be one of {', '.join(KINDS)}"))
    place, document = f"{path}.document", given.get("document")
    if "file" in given:
        place = f"{path}.file: {given['file']}"
        mistakes += _misplaced(given, path)
        try:
            document = contents(folder / str(given["file"]))
        except BadPolicy as error:
            mistakes += [Problem(f"{path}.file", str(problem)) for problem in error.problems]
    if kind == "simple" and ("file" in given or "document" in given):
        mistakes.append(Problem(path, "the policy simple has no file"))
    name = given.get("name", "")
    if "name" in given and not _is_name(name):
        mistakes.append(Problem(f"{path}.name", "must be a DNS label: lower-case letters, digits and dashes"))
    problems += mistakes
    if mistakes:
        return None
    named = document_name(document) if kind == "hierarchical" and not name else ""
    name = name or (named if _is_name(named) else "")
    return _Entry(number, tuple(given["roles"]), given["policy"], document, place, name)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def _misplaced(given: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if not isinstance(given["file"], str) or not given["file"]:
        yield Problem(f"{path}.file", "must be the name of a file")
    if "document" in given:
        yield Problem(f"{path}.document", "file and document exclude each other")


def _check_roles(entries: Sequence[_Entry], roles: Sequence[str], problems: list[Problem]) -> None:
    """A role belongs to one partition, and every role has one."""
    if not entries:
        return
    owners: dict[str, int] = {}
    for entry in entries:
        for index, role in enumerate(entry.roles):
            place = f"policies[{entry.number}].roles[{index}]"
            if role in owners:
                problems.append(Problem(place, f"role {role} is in policies[{owners[role]}], too"))
            elif role not in (OTHERS, *roles):
                problems.append(Problem(place, f"role {role} is not one of mesos.roles: {', '.join(roles)}"))
            owners.setdefault(role, entry.number)
    if OTHERS not in owners:
        problems.append(Problem("policies", 'no entry has the role "*", which stands for all other roles'))


def _check_names(entries: Sequence[_Entry], problems: list[Problem]) -> None:
    """A name belongs to one partition; a tree of queues without a name has the default name."""
    owners: dict[str, int] = {}
    for entry in entries:
        name = entry.name or (DEFAULT_PARTITION if entry.kind == "hierarchical" else "")
        if not name:
            continue
        if name in owners:
            words = f"policies[{owners[name]}] has the name {name}, too"
            if not entry.name:
                words += f"; a tree of queues without a name has the name {DEFAULT_PARTITION}"
            problems.append(Problem(f"policies[{entry.number}].name", words))
        owners.setdefault(name, entry.number)
