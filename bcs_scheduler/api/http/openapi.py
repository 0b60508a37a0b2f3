"""The OpenAPI 3.1 description, made from the declared operations and the structs they name."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec

from bcs_scheduler.api.access import OPEN, required_access, role_text
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import TABLE, Reasons
from bcs_scheduler.api.http.operation import LIMIT, MUST_EXIST, Operation, Param
from bcs_scheduler.api.streams.sse import MEDIA_TYPE as EVENT_STREAM

REF = "#/components/schemas/{name}"
_KINDS = {"text": "string", "int": "integer", "bool": "boolean", "float": "number"}
_PATH_PARAMETERS = {
    "definition": "Name of a definition of custom resources: plural and group, with a dot between them.",
    "group": "Group of the definition of a custom resource.",
    "plural": "Plural of the kind, as in its definition.",
    "version": "Version of the definition of a custom resource.",
    "ns": "Namespace.",
    "queue": "Name of the queue; of the tree, its full name.",
    "revision": "Number of the revision.",
    "name": "Name.",
    "id": "Id.",
    "instances": "Desired number of taskgroups.",
    "taskgroup": "Id of the taskgroup.",
    "file": "Name of the file.",
    "kind": "Name of a registered kind.",
    "agent": "Address, host name or id of an agent.",
}
TAGS = {
    "admission webhooks": "Addresses that the API calls before it accepts a document.",
    "agents": "Settings of agents by operators: cordons, attributes, taints, extended resources, drains.",
    "applications": "Numbers of identical taskgroups that are made from one version.",
    "cluster": "The cluster as a whole: agents, resources, the registration with Mesos.",
    "commands": "Programs that are run in the tasks of an application or deployment.",
    "configuration": "Configmaps and secrets.",
    "custom resources": "Objects of kinds that users have registered.",
    "daemonsets": "One taskgroup on each agent that the definition accepts.",
    "deployments": "Applications with revisions and rolling updates.",
    "events": "The numbered stream of changes.",
    "executor": "The program that runs taskgroups on agents.",
    "health": "Results of external health checks.",
    "logs": "Output and files of taskgroups.",
    "managed applications": "Applications of application managers, and reservations with placeholders.",
    "messages": "Messages to the executors of taskgroups.",
    "namespaces": "Namespaces and their quotas.",
    "plans": "The effect of several documents together, before they are applied.",
    "pod groups": "Applications whose taskgroups start together.",
    "priority classes": "Names for priorities, which documents of workloads use.",
    "processes": "Applications whose tasks are processes of the host.",
    "queue trees": "Hierarchical queues with the policy `hierarchical`: revisions, use, halted queues.",
    "queues": "Parts of the cluster that namespaces share with the policy `session`.",
    "service": "The scheduler itself: liveness, readiness, metrics, this description.",
    "services": "Names for taskgroups, with their endpoints.",
    "sessions": "Programs in the container of a task, with their input and output as they run; forwarded ports.",
    "taskgroups": "Tasks that share one agent, one executor and one life.",
    "transactions": "Operations on applications, with their progress and verdict.",
    "usage": "Used and allocated resources of taskgroups and agents.",
    "versions": "Immutable definitions of applications.",
    "watches": "One stream for several lists.",
}
"""The tags of operations, with their meaning; all that routes use, in alphabetical order."""
_DESCRIPTION = f"""A framework scheduler for Apache Mesos in the style of BlueKing BCS.

A path that is not listed here is answered with 404 `{errors.NO_ROUTE}`. A method that a listed path does not have is
answered with 405 `{errors.NO_METHOD}`, and the header `Allow` names the methods of the path; a path with GET has HEAD,
too. Both answers have the schema `Failure`."""
_LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "Id of the last frame that the caller has received: the stream resumes after this frame.",
    "schema": {"type": "string"},
}
_WARNING = {
    "type": "object",
    "required": ["path", "message", "hint"],
    "properties": {
        "path": {"type": "string", "description": "JSON path of the field, or `?name` of a query parameter."},
        "message": {"type": "string"},
        "hint": {"type": "string", "description": "Advice for the correction; may be empty."},
    },
}
_WARNINGS = {
    "type": "array",
    "description": "Parts of the request that have no effect, or another effect than in the original; absent if none.",
    "items": {"$ref": REF.format(name="Warning")},
}
_FAILURE = {
    "type": "object",
    "required": ["result", "code", "message", "data"],
    "properties": {
        "result": {"const": False},
        "code": {"type": "integer", "description": "BCS code, 1405000 + n."},
        "message": {"type": "string"},
        "data": {
            "type": "object",
            "required": ["reason", "problems"],
            "properties": {
                "reason": {"enum": list(TABLE)},
                "problems": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["path", "message"],
                        "properties": {"path": {"type": "string"}, "message": {"type": "string"}},
                    },
                },
            },
        },
        "warnings": _WARNINGS,
    },
}


@lru_cache(maxsize=4)
def document(declared: tuple[Operation, ...], version: str) -> bytes:
    """The description as JSON."""
    types = [t for operation in declared for t in (operation.body, operation.answer) if t is not None]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    by_type = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in declared:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, by_type)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "bcs-scheduler",
                "version": version,
                "description": _DESCRIPTION,
                "contact": {"name": "Maintainers of bcs-scheduler"},
                "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/", "description": "The scheduler that serves this description."}],
            "tags": [{"name": name, "description": meaning} for name, meaning in TAGS.items()],
            "paths": paths,
            "components": {
                "schemas": {**components, "Failure": _FAILURE, "Warning": _WARNING},
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


def _operation(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": role_text(required_access(operation)),
        "security": [] if required_access(operation) == OPEN else [{"token": []}],
        "tags": [operation.tag],
        "parameters": [
            *map(_path_parameter, re.findall(r"{(\w+)}", operation.path)),
            *map(_parameter, operation.query),
            *([_LAST_EVENT_ID] if EVENT_STREAM in (operation.media_type, _other_media(operation)) else ()),
        ],
        "responses": _responses(operation, schemas),
    }
    if operation.body is not None:
        schema = schemas[repr(operation.body)]
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return described


def _path_parameter(name: str) -> dict[str, Any]:
    schema = {"type": "integer", "minimum": 1} if name == "instances" else {"type": "string"}
    return {"name": name, "in": "path", "required": True, "description": _PATH_PARAMETERS[name], "schema": schema}


def _parameter(param: Param) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _KINDS[param.kind]}
    if param.least is not None:
        schema["minimum"] = param.least
    if param.most is not None:
        schema["maximum"] = param.most
    if param.choices:
        schema["enum"] = list(param.choices)
    return {"name": param.name, "in": "query", "required": False, "description": param.description, "schema": schema}


def _responses(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    data = schemas[repr(operation.answer)] if operation.answer is not None else {}
    if operation.enveloped:
        media, schema = "application/json", _envelope(data, operation, paged=LIMIT in operation.query)
    else:
        media = operation.media_type.partition(";")[0]
        schema = data or ({} if media in ("application/json", EVENT_STREAM) else {"type": "string"})
    content: dict[str, Any] = {media: {"schema": schema}}
    if other := _other_media(operation):
        # OpenAPI 3.1 cannot describe the frames of a stream: tools apply a schema to the whole answer or to each frame.
        content[other] = {"schema": {}}
    responses: dict[str, Any] = {str(operation.status): {"description": "Success.", "content": content}}
    if operation.write and operation.status == 202:
        plan = {"application/json": {"schema": _envelope({}, operation, paged=False)}}
        responses["200"] = {
            "description": "The request changed nothing, or the answer is the plan of a dry run.",
            "content": plan,
        }
    refusals: Reasons = ("unauthenticated", "forbidden", "too_many_requests")
    refusals = refusals[required_access(operation) == OPEN :]
    watched: Reasons = ("unavailable", "not_leading", "too_many_watchers") if operation.watcher is not None else ()
    reasons: Reasons = ("bad_parameter", *_body_reasons(operation), *operation.reasons, *watched, *refusals, "internal")
    for reason in dict.fromkeys(reasons):
        failure = TABLE[reason]
        answer = responses.setdefault(
            str(failure.status),
            {"description": "", "content": {"application/json": {"schema": {"$ref": REF.format(name="Failure")}}}},
        )
        answer["description"] = f"{answer['description']} `{reason}`: {failure.meaning}.".strip()
    return responses


def _other_media(operation: Operation) -> str:
    """The second form of the answer, of a list that can be watched; empty if there is none."""
    return EVENT_STREAM if operation.watcher is not None else ""


def _body_reasons(operation: Operation) -> Reasons:
    if operation.body is None:
        return ()
    return ("bad_json", "bad_body", "too_large", "too_slow", "unsupported_media_type")


def _envelope(data: Any, operation: Operation, *, paged: bool) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "result": {"const": True},
        "code": {"const": 0},
        "message": {"const": "success"},
        "data": {"anyOf": [data, {"type": "null"}]} if data and MUST_EXIST in operation.query else data,
    }
    if paged:
        properties["continue"] = {
            "type": "string",
            "description": "Value of `continue` for the next page; absent on the last page.",
        }
    properties["warnings"] = _WARNINGS
    return {"type": "object", "required": ["result", "code", "message", "data"], "properties": properties}
