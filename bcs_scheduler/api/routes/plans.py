"""The plan of several documents together (docs/decisions/0067-plans-of-documents.md).

Each document is read, admitted and checked by the operation that would create or change the object. The request of
that operation is kept instead of being handed to the core; the core plans all of them together.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import msgspec

from bcs_scheduler.api import access
from bcs_scheduler.api.http.errors import ApiError, invalid
from bcs_scheduler.api.http.operation import BASE, Answer, Call, Operation, Param, Table
from bcs_scheduler.api.objects import configuration, custom, groups, namespaces, priorities, queues, services
from bcs_scheduler.api.objects import webhooks as admission
from bcs_scheduler.api.routes import applications, daemonsets, deployments, processes
from bcs_scheduler.api.views.explain import PartitionView
from bcs_scheduler.core.interface.effects import Problem, Reason, Reply
from bcs_scheduler.core.interface.requests import PlanRequests, Request
from bcs_scheduler.leadership.gateway import Gateway
from bcs_scheduler.wire.problems import FieldWarning, Problems
from store.ids import custom_key, object_key
from store.state.reader import StateReader

table = Table("plans")
MOST = 500
"""Documents of one request."""
ON_CONFLICT = Param(
    "onConflict",
    "text",
    "Effect on an operation in progress on an object: `supersede` (default), or `fail`.",
    choices=("supersede", "fail"),
)
Outcome = Literal["created", "changed", "unchanged", "refused"]


class PlannedPlace(msgspec.Struct, frozen=True, kw_only=True):
    """A place of one taskgroup. `replaces`: id of the taskgroup that it replaces; empty = none."""

    index: int
    agent: str
    hostname: str
    ports: list[int]
    replaces: str


class PlannedNumber(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the number of taskgroups that a workload wants."""

    from_: int = msgspec.field(name="from")
    to: int


class PlannedDocument(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The effect of one document. `reason`: code of a refusal. `end`: ids of taskgroups that are ended. `unplaced`:
    taskgroups that would stay pending, and `message` says why. `reasons`: agents by the test that they fail.
    `instances`: the change of the number of taskgroups; left out if the number stays. `steps`: an update takes at least
    this number of steps, of which `place` and `end` are the first one, and has `replaced` so many taskgroups at its
    end; left out if it takes one step.
    `partition`: the policy that decides; left out if all roles have one policy."""

    kind: str
    namespace: str
    name: str
    outcome: Outcome
    place: list[PlannedPlace] = []
    end: list[str] = []
    unplaced: int = 0
    instances: PlannedNumber | None = None
    steps: int = 0
    replaced: int = 0
    reason: str = ""
    message: str = ""
    reasons: dict[str, int] = {}
    partition: PartitionView | None = None
    problems: list[Problem] = []
    warnings: list[FieldWarning] = []


class Plan(msgspec.Struct, kw_only=True):
    """The effect of all documents together, in their order. `evict`: ids of taskgroups that the policy would end for
    them; `evictHidden`: the number of further ones, of other namespaces. `placed`, `unplaced`: taskgroups of all
    documents."""

    documents: list[PlannedDocument]
    evict: list[str]
    evict_hidden: int | msgspec.UnsetType = msgspec.field(name="evictHidden", default=msgspec.UNSET)
    placed: int
    unplaced: int


class _Identity(NamedTuple):
    kind: str
    namespace: str
    name: str


class _Kind(NamedTuple):
    """The operations of a kind of document. `exists`: whether the object exists."""

    table: Table
    path: str
    exists: Callable[[StateReader, _Identity], bool]
    method: str | None = None
    """The method of the only operation; None: POST creates and PUT replaces."""


def _named(find: Callable[[StateReader], Any]) -> Callable[[StateReader, _Identity], bool]:
    return lambda state, identity: identity.name in find(state)


def _keyed(find: Callable[[StateReader], Any]) -> Callable[[StateReader, _Identity], bool]:
    return lambda state, identity: object_key(identity.namespace, identity.name) in find(state)


NOT_PLANNED = (
    "a Command is not planned: it changes no object, and runs in the taskgroups that run when it is sent; "
    "the dry run of its own route checks it"
)
_NS = "/namespaces/{ns}"
_APPLICATION = _keyed(lambda state: state.applications)
KINDS = {
    "queue": _Kind(queues.table, "/queues", _named(lambda state: state.queues)),
    "priorityclass": _Kind(priorities.table, "/priorityclasses", _named(lambda state: state.priority_classes)),
    "namespace": _Kind(namespaces.table, "/namespaces", _named(lambda state: state.namespaces)),
    "podgroup": _Kind(groups.table, f"{_NS}/podgroups", _keyed(lambda state: state.pod_groups)),
    "crr": _Kind(custom.table, "/crr/register", _named(lambda state: state.custom_kinds), "POST"),
    "configmap": _Kind(configuration.table, f"{_NS}/configmaps", _keyed(lambda state: state.config_maps)),
    "secret": _Kind(configuration.table, f"{_NS}/secrets", _keyed(lambda state: state.secrets)),
    "service": _Kind(services.table, f"{_NS}/services", _keyed(lambda state: state.services)),
    "application": _Kind(applications.table, f"{_NS}/applications", _APPLICATION),
    "process": _Kind(processes.table, f"{_NS}/processes", _APPLICATION),
    "deployment": _Kind(deployments.table, f"{_NS}/deployments", _keyed(lambda state: state.deployments)),
    "daemonset": _Kind(daemonsets.table, f"{_NS}/daemonsets", _keyed(lambda state: state.daemonsets)),
    "admissionwebhook": _Kind(admission.table, "/admissionwebhook", _keyed(lambda state: state.webhooks)),
}
"""Kinds of documents, in lower case. Others are registered kinds."""
_CUSTOM = _Kind(
    custom.table,
    custom.OBJECTS,
    lambda state, i: custom_key(i.kind, i.namespace, i.name) in state.custom_objects,
    "PUT",
)


class _Kept(Exception):
    """An operation has made its request."""

    def __init__(self, request: Request) -> None:
        super().__init__()
        self.request = request


class _Keeper:
    """A gateway that gives the request of an operation back instead of handing it to the core."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gateway, name)

    def submit(self, command: Request) -> Future[Reply]:
        raise _Kept(command)


@table.write(
    "POST",
    "/plans",
    "Plan several documents together; nothing changes",
    query=(ON_CONFLICT,),
    body=list[dict[str, Any]],
    answer=Plan,
    reasons=(Reason.INVALID,),
    status=200,
    dry_run=False,
)
async def plan_documents(call: Call) -> Answer:
    bodies = call.body
    if not isinstance(bodies, list) or len(bodies) > MOST:
        raise invalid([Problem("$", f"must be a list of at most {MOST} documents")])
    found: list[PlannedDocument] = []
    requests: list[tuple[PlannedDocument, Request]] = []
    seen: set[_Identity] = set()
    for number, body in enumerate(bodies):
        identity = _identity(body)
        if identity is None:
            path = f"$[{number}]"
            raise invalid([Problem(path, "must be a document with kind and metadata.name")])
        entry, request = await _read(call, identity, body, repeated=identity in seen)
        seen.add(identity)
        found.append(entry)
        if request is not None:
            requests.append((entry, request))
    evict: list[str] = []
    hidden: int | msgspec.UnsetType = msgspec.UNSET
    if requests:
        asked = PlanRequests(requests=tuple(request for _, request in requests))
        data = (await call.reply(asked)).data
        for (entry, _), answer in zip(requests, data["requests"], strict=True):
            _fill(entry, answer)
        evict, hidden = data["evict"], data.get("evictHidden", msgspec.UNSET)
    placed, unplaced = (sum(len(one.place) for one in found), sum(one.unplaced for one in found))
    return Answer(Plan(documents=found, evict=evict, evict_hidden=hidden, placed=placed, unplaced=unplaced))


def _identity(body: Any) -> _Identity | None:
    """The object of a document. A document without a complete identity has none."""
    kind = _member(body, "kind")
    if not isinstance(kind, str) or not kind:
        return None
    if kind.lower() == "crr":
        name, namespace = _member(_member(_member(body, "spec"), "names"), "kind"), ""
    else:
        # A Command has the name of its target.
        metadata = (
            _member(_member(body, "spec"), "commandtargetref") if _is_command(kind) else _member(body, "metadata")
        )
        name, namespace = _member(metadata, "name"), _member(metadata, "namespace") or ""
    return _Identity(kind, str(namespace), name) if isinstance(name, str) and name else None


def _is_command(kind: str) -> bool:
    return kind.lower() == "command"


def _member(value: Any, key: str) -> Any:
    """The one key that is equal but for case; None if there is not exactly one."""
    found = [inner for name, inner in value.items() if name.lower() == key] if isinstance(value, dict) else []
    return found[0] if len(found) == 1 else None


async def _read(
    call: Call, identity: _Identity, body: Any, *, repeated: bool
) -> tuple[PlannedDocument, Request | None]:
    """The answer for a document so far, and its request; None if the document is refused already."""
    kind = KINDS.get(identity.kind.lower(), _CUSTOM)
    entry = PlannedDocument(kind=identity.kind, namespace=identity.namespace, name=identity.name, outcome="refused")
    problems = Problems(call.query.get("fieldValidation", "Warn"))
    try:
        if _is_command(identity.kind):
            raise ApiError(Reason.INVALID, NOT_PLANNED, [Problem("$.kind", NOT_PLANNED)])
        if repeated:
            raise ApiError(Reason.CONFLICT, "an earlier document of the plan names the same object")
        exists = kind.exists(call.state(), identity)
        operation = _operation(kind, "PUT" if exists else "POST")
        path = {"ns": identity.namespace, "name": identity.name, "kind": identity.kind}
        path = {name: value for name, value in path.items() if f"{{{name}}}" in operation.path}
        _check_access(call, operation, path, body)
        query = {"dryRun": True}
        if any(param.name == "onConflict" for param in operation.query):
            query["onConflict"] = call.query.get("onConflict", "supersede")
        gateway: Any = _Keeper(call.core)
        assert call.carry_out is not None
        await call.carry_out(
            operation, replace(call, core=gateway, path=path, query=query, body=body, problems=problems)
        )
    except _Kept as kept:
        entry.outcome = "changed" if exists else "created"
        entry.warnings = list(problems.warnings())
        return entry, kept.request
    except ApiError as error:
        entry.reason, entry.message = error.reason, error.message
        entry.problems = [Problem(problem.path, problem.message) for problem in error.problems]
    return entry, None


def _operation(kind: _Kind, method: str) -> Operation:
    wanted = (kind.method or method, BASE + kind.path)
    return next(one for one in kind.table.operations if (one.method, one.path) == wanted)


def _check_access(call: Call, operation: Operation, path: dict[str, str], body: Any) -> None:
    """Raises ApiError (403) if the caller may not carry the operation out."""
    required = access.required_access(operation)
    access.check(required, call.caller, path, {})
    access.check_document(call.caller, required, body)


def _fill(entry: PlannedDocument, answer: dict[str, Any]) -> None:
    """Takes over the answer of the core."""
    if answer.get("error"):
        entry.outcome, entry.reason, entry.message = "refused", answer["error"], answer["message"]
        entry.problems = [Problem(**problem) for problem in answer["problems"]]
        return
    if answer.get("unchanged"):
        entry.outcome = "unchanged"
    entry.place = [PlannedPlace(**place) for place in answer["place"]]
    entry.end, entry.unplaced = answer["end"], answer["unplaced"]
    entry.steps, entry.replaced = answer.get("steps", 0), answer.get("replaced", 0)
    if "instances" in answer:
        number = answer["instances"]
        entry.instances = PlannedNumber(from_=number["from"], to=number["to"])
    entry.message, entry.reasons = answer.get("message", ""), answer.get("reasons", {})
    entry.warnings += [FieldWarning("$", words) for words in answer.get("warnings", ())]
    entry.partition = PartitionView(**answer["partition"]) if "partition" in answer else None
