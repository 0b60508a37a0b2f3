"""Reading of documents given with -f: files, directories and standard input, JSON or YAML."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from bcs_scheduler.cli.client.kinds import DOCUMENT_KINDS
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.documents import APPLY_ORDER, Document
from bcs_scheduler.cli.errors import Problem, UsageError
from bcs_scheduler.cli.output.documents import OWNERS
from bcs_scheduler.wire import depth
from bcs_scheduler.wire.normal import complete
from bcs_scheduler.wire.yamltext import BadYaml, documents_of

SUFFIXES = (".json", ".yaml", ".yml")

PRINTED = {
    "taskgroups": ({"ID", "AppID", "InstanceID"}, "applications, deployments and daemonsets make them"),
    "tasks": ({"ID", "AppId", "Hostame"}, "applications, deployments and daemonsets make them"),
    "versions": (
        {"ID", "PodObjectMeta", "Instances"},
        "updates make them; `bcs get definition NAME` prints a document",
    ),
    "transactions": ({"transactionID", "objectKind"}, "requests and the scheduler make them"),
    "events": ({"id", "time", "reason", "cause"}, "the scheduler records them"),
    "agents": (
        {"id", "key", "cputotal"},
        "they register with Mesos; `bcs cordon`, `bcs taint` and `bcs set agent` change their settings",
    ),
    "offers": ({"id", "agent_id", "resources"}, "Mesos makes them"),
    "messages": ({"Id", "TaskGroupId", "CreateTime"}, "each is sent once"),
    "commands": (
        {"id", "createTime", "targets"},
        "each is carried out once; `bcs examples` lists a document of kind Command",
    ),
}
"""Objects that `bcs get` prints and that cannot be applied, by kind: the fields by which they are known, and who makes
them."""
MADE_KINDS = {
    "endpoint": ("endpoints", "services make them"),
    "ManagedApplication": ("managed applications", "application managers make them"),
}
"""The same for objects that are known by their kind."""


class Loaded(NamedTuple):
    """The documents that can be used, in the given order, and the problems of all others, each with file and object."""

    documents: list[Document]
    problems: list[UsageError]
    left_out: list[str]
    """Lines about objects that are not applied: others make them."""


def load_documents(
    paths: Iterable[str], namespace: str, *, namespace_given: bool = False, recursive: bool = False
) -> Loaded:
    """Reads all documents. A problem of one document does not end the reading of the others.

    `recursive`: also of the directories in directories. A document without a namespace gets `namespace`. With
    `namespace_given` (the user gave -n) a document with another namespace is a problem.
    """
    documents: list[Document] = []
    problems: list[UsageError] = []
    files: list[str] = []
    bodies: list[tuple[str, Any]] = []
    left_out: list[str] = []
    for path in paths:
        with _noted(problems):
            files += _files(path, recursive)
    for file in files:
        with _noted(problems):
            bodies += bodies_of(file)
    for source, body in _appliable(bodies, left_out, problems):
        with _noted(problems):
            reason = _made_by_others(body)
            if reason:
                left_out.append(f"{source}: {body.get('kind')}/{body['metadata'].get('name')} {reason}")
            else:
                documents.append(checked(source, body, namespace, namespace_given))
    return Loaded(documents, problems, left_out)


def _appliable(
    bodies: Iterable[tuple[str, Any]], left_out: list[str], problems: list[UsageError]
) -> Iterator[tuple[str, Any]]:
    """The objects, without those that cannot be applied or have no kind: there is one problem for all of a file."""
    found = list(_objects(bodies, left_out))
    printed = Counter[tuple[str, str, str]]()
    without = Counter[str]()
    for source, body in found:
        file = _file_of(source)
        if made := _made_by_the_scheduler(body):
            printed[file, *made] += 1
        elif isinstance(body, dict) and "kind" not in body:
            without[file] += 1
    problems += [
        UsageError(f"{file}: {number} {kind if number > 1 else kind.removesuffix('s')} cannot be applied: {why}")
        for (file, kind, why), number in printed.items()
    ]
    problems += [
        UsageError(f"{file}: kind: is missing in {number} objects; known: {', '.join(APPLY_ORDER)}")
        for file, number in without.items()
        if number > 1
    ]
    for source, body in found:
        lacks = isinstance(body, dict) and "kind" not in body and without[_file_of(source)] > 1
        if not lacks and not _made_by_the_scheduler(body):
            yield source, body


def _file_of(source: str) -> str:
    return re.sub(r" \([^()]* \d+\)$", "", source)


def _made_by_the_scheduler(body: Any) -> tuple[str, str] | None:
    """Kind and reason of an object that `bcs get` prints and that cannot be applied; None for all others."""
    if not isinstance(body, dict):
        return None
    kind = body.get("kind")
    if isinstance(kind, str) and kind in MADE_KINDS and "metadata" in body:
        return MADE_KINDS[kind]
    return next(((kind, why) for kind, (keys, why) in PRINTED.items() if keys <= body.keys()), None)


def _objects(bodies: Iterable[tuple[str, Any]], left_out: list[str]) -> Iterator[tuple[str, Any]]:
    """The documents of lists in the forms that `bcs get` prints: a list of objects, and the objects of several kinds by
    kind; and in the form of kubectl, an object of kind List."""
    for source, body in bodies:
        if isinstance(body, dict) and body.get("kind") == "List" and isinstance(body.get("items"), list):
            body = body["items"]
        if isinstance(body, list):
            yield from ((f"{source} (object {number})", item) for number, item in enumerate(body, 1))
        elif isinstance(body, dict) and _is_by_kind(body):
            for kind, items in body.items():
                if kind not in DOCUMENT_KINDS and not _are_of_kind(kind, items):
                    left_out.append(f"{source}: {kind} have no documents")
                    continue
                yield from ((f"{source} ({kind} {number})", item) for number, item in enumerate(items, 1))
        else:
            yield source, body


def _are_of_kind(kind: str, items: list[Any]) -> bool:
    """Custom resources: the kind of the list is that of the documents."""
    return all(isinstance(item, dict) and item.get("kind") == kind for item in items)


def _is_by_kind(body: Json) -> bool:
    return bool(body) and "kind" not in body and all(isinstance(items, list) for items in body.values())


def _made_by_others(body: Any) -> str:
    """Why a document is not applied, although it is printed as the others: its object belongs to another one, or is
    there without settings, and the document gives it none. Empty if it is applied."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(metadata, dict):
        return ""
    owners, status = metadata.get(OWNERS), body.get("status")
    first = owners[0] if isinstance(owners, list) and owners else None
    if isinstance(first, dict):
        return f"belongs to {first.get('kind')}/{first.get('name')}"
    if not isinstance(status, dict) or status.get("recorded") is not False:
        return ""
    bare = {"kind": body.get("kind"), "metadata": {"name": metadata.get("name")}}
    given = {key: value for key, value in body.items() if key != "status"}
    return "has no settings" if complete(given)[0] == complete(bare)[0] else ""


@contextmanager
def _noted(problems: list[UsageError]) -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        problems.append(error)


def refuse(problems: Sequence[UsageError]) -> None:
    """Raises the only problem, or one error that lists all problems; returns if there are none."""
    if len(problems) == 1:
        raise problems[0]
    if problems:
        listed = [Problem("", problem.message) for problem in problems]
        raise UsageError(f"the documents have {len(problems)} problems; nothing was sent", listed)


def _files(path: str, recursive: bool) -> list[str]:
    if path == "-" or not Path(path).is_dir():
        return [path]
    inside = Path(path).rglob("*") if recursive else Path(path).iterdir()
    found = sorted(str(file) for file in inside if file.suffix in SUFFIXES and file.is_file())
    if not found:
        raise UsageError(f"{path}: the directory contains no .json, .yaml or .yml file")
    return found


def bodies_of(path: str) -> list[tuple[str, Any]]:
    """(file and number of the document, content) of each document. Raises UsageError."""
    text = text_of(path)
    source = "standard input" if path == "-" else path
    if path.endswith(".json") or (path == "-" and text.lstrip().startswith("{")):
        return [(source, _parse_json(source, text))]
    bodies = parsed(source, text)
    if len(bodies) == 1:
        return [(source, bodies[0])]
    return [(f"{source} (document {number})", body) for number, body in enumerate(bodies, 1)]


def text_of(path: str) -> str:
    """The text of a file; - is standard input. Raises UsageError."""
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not UTF-8 text") from None


def parsed(source: str, given: str) -> list[Any]:
    """The documents of a YAML or JSON text. Raises UsageError."""
    try:
        return [body for body in documents_of(given) if body is not None]
    except BadYaml as error:
        raise UsageError(f"{source}: not YAML: {error}") from None


def _parse_json(source: str, text: str) -> Any:
    levels = depth.DEEPEST + depth.LISTS
    try:
        found = json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{source}: not JSON: line {error.lineno}, column {error.colno}: {error.msg.lower()}"
        ) from None
    except RecursionError:
        raise UsageError(f"{source}: not JSON: {depth.words(levels)}") from None
    except ValueError as error:
        raise UsageError(f"{source}: not JSON: {str(error)[:200]}") from None
    path = depth.too_deep(found, levels)
    if path:
        raise UsageError(f"{source}: {depth.words(levels)}: {path}")
    return found


def _object(pairs: list[tuple[str, Any]]) -> Json:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for position, name in enumerate(names) if name in names[:position])
        raise ValueError(f"the key {twice[:80]!r} is given twice")
    return found


def checked(source: str, body: Any, namespace: str, namespace_given: bool) -> Document:
    """Checks the fields that a request needs: kind, name and namespace. The server checks the rest."""
    if not isinstance(body, dict):
        raise UsageError(f"{source}: is not an object")
    kind = body.get("kind")
    if not isinstance(kind, str) or not kind:
        found = "is missing" if kind is None else f"{kind!r} is not known"
        raise UsageError(f"{source}: kind: {found}; known: {', '.join(APPLY_ORDER)}")
    if kind == "Queue":  # the name of the kind in kube-batch and Volcano
        kind, body = "queue", {**body, "kind": "queue"}
    if kind in APPLY_ORDER:
        body = {key: value for key, value in body.items() if key != "status"}
    if kind == "Command":
        return _checked_command(source, body, namespace, namespace_given)
    if kind == "crr":
        body = _registration(source, body)
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        if kind not in APPLY_ORDER:
            raise UsageError(f"{source}: kind: {kind!r} is not known; known: {', '.join(APPLY_ORDER)}")
        meant = [key for key in get_close_matches("metadata", body) if key != "metadata"]
        hint = f"; did you mean metadata instead of {meant[0]}?" if meant and metadata is None else ""
        raise UsageError(f"{source}: metadata.name: is missing{hint}")
    if kind in ("namespace", "queue", "PriorityClass"):
        own = metadata["name"]
    else:
        own = _namespace(
            f"{source}: {kind.lower()}/{metadata['name']}", "metadata", metadata, namespace, namespace_given
        )
    return Document(source, {**body, "metadata": {**metadata, "namespace": own}})


def _registration(source: str, body: Json) -> Json:
    """A registration of a custom kind. Its name is the kind that it registers."""
    spec = body.get("spec")
    names = spec.get("names") if isinstance(spec, dict) else None
    name = names.get("kind") if isinstance(names, dict) else None
    if not isinstance(name, str) or not name:
        raise UsageError(f"{source}: spec.names.kind: is missing")
    return {**body, "metadata": {"name": name}}


def _checked_command(source: str, body: Json, namespace: str, namespace_given: bool) -> Document:
    spec = body.get("spec")
    target = spec.get("commandTargetRef") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(target, dict) or not isinstance(target.get("name"), str):
        raise UsageError(f"{source}: spec.commandTargetRef.name: is missing")
    own = _namespace(f"{source}: command/{target['name']}", "spec.commandTargetRef", target, namespace, namespace_given)
    return Document(source, {**body, "spec": {**spec, "commandTargetRef": {**target, "namespace": own}}})


def _namespace(subject: str, path: str, identity: Json, namespace: str, given: bool) -> str:
    """`subject`: file and object, for the message."""
    own = identity.get("namespace") or namespace
    if given and own != namespace:
        raise UsageError(f"{subject}: {path}.namespace: is {own!r}, but -n is {namespace!r}")
    return str(own)
