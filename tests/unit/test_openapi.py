"""The OpenAPI document is valid, and has the names that a generator of clients needs (see test_openapi_spectral)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import quote

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from bcs_scheduler.api.http.openapi import TAGS, document
from bcs_scheduler.api.routes import operations

Json = dict[str, Any]
METHODS = ("get", "put", "post", "delete", "patch")
PREFIX = "#/components/schemas/"


@cache
def api() -> Json:
    loaded: Json = json.loads(document(operations(), "1.2.3"))
    return loaded


def described() -> Iterator[Json]:
    """All operations."""
    for item in api()["paths"].values():
        yield from (operation for method, operation in item.items() if method in METHODS)


def nodes(within: Any) -> Iterator[Json]:
    """All objects of the document, from the outside in."""
    if isinstance(within, dict):
        yield within
    children = within.values() if isinstance(within, dict) else within if isinstance(within, list) else ()
    for child in children:
        yield from nodes(child)


@pytest.mark.slow
def test_the_document_is_valid() -> None:
    assert [error.message for error in OpenAPIV31SpecValidator(api()).iter_errors()] == []


def test_schemas_have_names_of_their_own_without_modules() -> None:
    """A generator makes one class of each title. msgspec adds the module to names that two types share."""
    schemas = api()["components"]["schemas"]
    assert [name for name in schemas if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name)] == []
    titles = {name: schema.get("title", name) for name, schema in schemas.items()}
    assert titles == {name: name for name in schemas}


def test_every_schema_is_used() -> None:
    used = {node["$ref"].removeprefix(PREFIX) for node in nodes(api()) if isinstance(node.get("$ref"), str)}
    assert used == set(api()["components"]["schemas"])


def test_tags_are_declared_once_with_their_meaning_and_used() -> None:
    declared = [tag["name"] for tag in api()["tags"]]
    assert declared == sorted(set(declared)) == list(TAGS)
    assert all(tag["description"].endswith(".") for tag in api()["tags"])
    assert {tag for operation in described() for tag in operation["tags"]} == set(declared)
    assert {len(operation["tags"]) for operation in described()} == {1}


def test_servers_contact_and_license_are_told() -> None:
    assert api()["info"]["version"] == "1.2.3"
    assert api()["info"]["contact"]["name"]
    assert api()["info"]["license"]["identifier"] == "Apache-2.0"
    assert [server["url"] for server in api()["servers"]] == ["/"]
    assert all(not path.endswith("/") and "?" not in path for path in api()["paths"])


def test_operations_can_be_told_apart_and_are_described() -> None:
    identities = Counter(operation["operationId"] for operation in described())
    assert [name for name, count in identities.items() if count > 1 or quote(name, safe="") != name] == []
    for operation in described():
        assert operation["summary"] and operation["description"]
        assert any(status.startswith(("2", "3")) for status in operation["responses"])
        parameters = [(parameter["in"], parameter["name"]) for parameter in operation["parameters"]]
        assert len(set(parameters)) == len(parameters)


def test_the_data_of_a_deletion_without_an_object_may_be_null() -> None:
    found = [one for one in described() if any(each["name"] == "mustExist" for each in one["parameters"])]
    assert len(found) > 10
    for operation in found:
        data = operation["responses"]["200"]["content"]["application/json"]["schema"]["properties"]["data"]
        assert data == {} or {"type": "null"} in data["anyOf"], operation["operationId"]
