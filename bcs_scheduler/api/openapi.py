"""The OpenAPI 3.1 description, made from the declared operations and the structs they name."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec

from bcs_scheduler.api.errors import TABLE
from bcs_scheduler.api.needs import OPEN, need_of, words_of
from bcs_scheduler.api.operation import LIMIT, Operation, Param
from bcs_scheduler.api.sse import MEDIA_TYPE as EVENT_STREAM

REF = "#/components/schemas/{name}"
_KINDS = {"text": "string", "int": "integer", "bool": "boolean", "float": "number"}
_PATH_PARAMETERS = {
    "ns": "Namespace.",
    "name": "Name.",
    "id": "Id.",
    "instances": "Wanted number of taskgroups.",
    "taskgroup": "Id of the taskgroup.",
    "file": "Name of the file.",
    "kind": "Name of a registered kind.",
    "agent": "Address, host name or id of an agent.",
}
_LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "Id of the last frame the caller has: the stream goes on behind it.",
    "schema": {"type": "string"},
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
                "description": "A framework scheduler for Apache Mesos in the style of BlueKing BCS.",
            },
            "paths": paths,
            "components": {
                "schemas": {**components, "Failure": _FAILURE},
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
        }
    )


def _operation(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": words_of(need_of(operation)),
        "security": [] if need_of(operation) == OPEN else [{"token": []}],
        "tags": [operation.tag],
        "parameters": [
            *map(_path_parameter, re.findall(r"{(\w+)}", operation.path)),
            *map(_parameter, operation.query),
            *([_LAST_EVENT_ID] if operation.media_type == EVENT_STREAM else ()),
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
        media, schema = "application/json", _envelope(data, paged=LIMIT in operation.query)
    else:
        media = operation.media_type.partition(";")[0]
        schema = data or ({} if media == "application/json" else {"type": "string"})
    responses: dict[str, Any] = {
        str(operation.status): {"description": "Success.", "content": {media: {"schema": schema}}}
    }
    if operation.write and operation.status == 202:
        plan = {"application/json": {"schema": _envelope({}, paged=False)}}
        responses["200"] = {"description": "Nothing had to be done, or the plan of a dry run.", "content": plan}
    refusals = ("unauthenticated", "forbidden", "too_many_requests")[need_of(operation) == OPEN :]
    for reason in dict.fromkeys(
        ("bad_parameter", *_body_reasons(operation), *operation.reasons, *refusals, "internal")
    ):
        failure = TABLE[reason]
        answer = responses.setdefault(
            str(failure.status),
            {"description": "", "content": {"application/json": {"schema": {"$ref": REF.format(name="Failure")}}}},
        )
        answer["description"] = f"{answer['description']} `{reason}`: {failure.meaning}.".strip()
    return responses


def _body_reasons(operation: Operation) -> tuple[str, ...]:
    if operation.body is None:
        return ()
    return ("bad_json", "bad_body", "too_large", "too_slow", "unsupported_media_type")


def _envelope(data: Any, *, paged: bool) -> dict[str, Any]:
    properties = {
        "result": {"const": True},
        "code": {"const": 0},
        "message": {"const": "success"},
        "data": data,
    }
    if paged:
        properties["continue"] = {"type": "string", "description": "Token of the next page, if there is one."}
    return {"type": "object", "required": ["result", "code", "message", "data"], "properties": properties}
