"""The rules that Spectral's ruleset `oas` (6.x) recommends for OpenAPI 3.1, by their names there.

Spectral itself needs Node, and takes ten seconds of processor time: tests/integration/test_spectral.py runs it, and
compares its rules with these. Each rule is also shown to find a broken document.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.unit.test_openapi import METHODS, api, nodes

Json = dict[str, Any]
Faults = Iterator[str]
Rule = Callable[[Json], Faults]
RULES: dict[str, Rule] = {}
TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}


def rule(name: str) -> Callable[[Rule], Rule]:
    def registered(check: Rule) -> Rule:
        RULES[name] = check
        return check

    return registered


def operations(document: Json) -> Iterator[tuple[str, Json, Json]]:
    """(path, path item, operation)."""
    for path, item in document["paths"].items():
        yield from ((path, item, item[method]) for method in METHODS if method in item)


def markdown(document: Json) -> Iterator[str]:
    yield from (str(node[key]) for node in nodes(document) for key in ("title", "description") if key in node)


@rule("operation-success-response")
def success(document: Json) -> Faults:
    found = ((path, one["responses"]) for path, _, one in operations(document))
    return (path for path, responses in found if not any(status[0] in "23" for status in responses))


@rule("operation-operationId-unique")
def unique_ids(document: Json) -> Faults:
    counted = Counter(one.get("operationId") for _, _, one in operations(document))
    return (str(name) for name, count in counted.items() if count > 1)


@rule("operation-parameters")
def parameters(document: Json) -> Faults:
    for path, _, one in operations(document):
        places = [(each["in"], each["name"]) for each in one.get("parameters", ())]
        if len(set(places)) < len(places) or {"body", "formData"} & {place for place, _ in places}:
            yield path


@rule("operation-tag-defined")
def tags_defined(document: Json) -> Faults:
    known = {tag["name"] for tag in document["tags"]}
    return (path for path, _, one in operations(document) if not set(one.get("tags", ())) <= known)


@rule("path-params")
def path_parameters(document: Json) -> Faults:
    shapes = Counter(re.sub(r"{\w+}", "{}", path) for path in document["paths"])
    yield from (shape for shape, count in shapes.items() if count > 1)
    for path, item, one in operations(document):
        given = [*item.get("parameters", ()), *one.get("parameters", ())]
        named = [each for each in given if each["in"] == "path"]
        if sorted(each["name"] for each in named) != sorted(re.findall(r"{(\w+)}", path)):
            yield path
        yield from (path for each in named if each.get("required") is not True)


@rule("duplicated-entry-in-enum")
def duplicates(document: Json) -> Faults:
    choices = (node["enum"] for node in nodes(document) if isinstance(node.get("enum"), list))
    return (repr(each) for each in choices if len(set(map(repr, each))) < len(each))


@rule("typed-enum")
def typed(document: Json) -> Faults:
    for node in nodes(document):
        kind = TYPES.get(str(node.get("type")))
        if kind is not None and isinstance(node.get("enum"), list):
            yield from (repr(value) for value in node["enum"] if type(value) is not kind)


@rule("array-items")
def items(document: Json) -> Faults:
    return (repr(node)[:80] for node in nodes(document) if node.get("type") == "array" and "items" not in node)


@rule("info-contact")
def contact(document: Json) -> Faults:
    return iter(() if isinstance(document["info"].get("contact"), dict) else ("info",))


@rule("info-description")
def description(document: Json) -> Faults:
    return iter(() if document["info"].get("description") else ("info",))


@rule("no-eval-in-markdown")
def evaluated(document: Json) -> Faults:
    return (text for text in markdown(document) if "eval(" in text)


@rule("no-script-tags-in-markdown")
def scripts(document: Json) -> Faults:
    return (text for text in markdown(document) if "<script" in text)


@rule("openapi-tags-uniqueness")
def tags_unique(document: Json) -> Faults:
    return (name for name, count in Counter(tag["name"] for tag in document["tags"]).items() if count > 1)


@rule("operation-description")
def described(document: Json) -> Faults:
    return (path for path, _, one in operations(document) if not one.get("description"))


@rule("operation-operationId")
def identified(document: Json) -> Faults:
    return (path for path, _, one in operations(document) if not one.get("operationId"))


@rule("operation-operationId-valid-in-url")
def in_url(document: Json) -> Faults:
    names = (str(one.get("operationId", "")) for _, _, one in operations(document))
    return (name for name in names if quote(name, safe="-._~:/?#[]@!$&'()*+,;=") != name)


@rule("operation-tags")
def tagged(document: Json) -> Faults:
    return (path for path, _, one in operations(document) if not one.get("tags"))


@rule("path-declarations-must-exist")
def declarations(document: Json) -> Faults:
    return (path for path in document["paths"] if "{}" in path)


@rule("path-keys-no-trailing-slash")
def trailing(document: Json) -> Faults:
    return (path for path in document["paths"] if len(path) > 1 and path.endswith("/"))


@rule("path-not-include-query")
def queries(document: Json) -> Faults:
    return (path for path in document["paths"] if "?" in path)


@rule("oas3-api-servers")
def servers(document: Json) -> Faults:
    return iter(() if document.get("servers") else ("servers",))


@rule("oas3-server-trailing-slash")
def server_slashes(document: Json) -> Faults:
    urls = (server["url"] for server in document.get("servers", ()))
    return (url for url in urls if url != "/" and url.endswith("/"))


@rule("oas3-server-variables")
def server_variables(document: Json) -> Faults:
    for server in document.get("servers", ()):
        if set(re.findall(r"{(\w+)}", server["url"])) != set(server.get("variables", ())):
            yield server["url"]


@rule("oas3-examples-value-or-externalValue")
def example_values(document: Json) -> Faults:
    for node in nodes(document):
        named = node.get("examples")
        if isinstance(named, dict):
            yield from (name for name, each in named.items() if ("value" in each) == ("externalValue" in each))


@rule("oas3-operation-security-defined")
def security(document: Json) -> Faults:
    known = set(document["components"].get("securitySchemes", ()))
    for path, _, one in operations(document):
        yield from (path for choice in one.get("security", ()) if not set(choice) <= known)


def unfit(document: Json, schema: Any, values: list[Any]) -> Faults:
    bare = {key: value for key, value in schema.items() if key not in ("default", "example", "examples")}
    validator = Draft202012Validator({**bare, "components": document["components"]})
    return (f"{value!r}: {error.message}" for value in values for error in validator.iter_errors(value))


@rule("oas3-valid-schema-example")
def schema_examples(document: Json) -> Faults:
    for node in nodes(document):
        if not ("type" in node or "$ref" in node or "anyOf" in node) or "in" in node:
            continue
        listed = node.get("examples", [])
        values = [
            *(listed if isinstance(listed, list) else ()),
            *(node[k] for k in ("default", "example") if k in node),
        ]
        yield from unfit(document, node, values) if values else ()


@rule("oas3-valid-media-example")
def media_examples(document: Json) -> Faults:
    for node in nodes(document):
        if isinstance(node.get("schema"), dict):
            named = node.get("examples", {}).values() if isinstance(node.get("examples"), dict) else ()
            values = [node["example"]] if "example" in node else []
            yield from unfit(document, node["schema"], [*values, *(each["value"] for each in named if "value" in each)])


@rule("oas3-schema")
def valid(document: Json) -> Faults:
    return (error.message for error in OpenAPIV31SpecValidator(document).iter_errors())


@rule("oas3-unused-component")
def unused(document: Json) -> Faults:
    used = {str(node["$ref"]) for node in nodes(document) if "$ref" in node}
    for family, components in document["components"].items():
        if family != "securitySchemes":
            yield from (name for name in components if f"#/components/{family}/{name}" not in used)


@rule("oas3-callbacks-in-callbacks")
def callbacks(document: Json) -> Faults:
    outer = (node["callbacks"] for node in nodes(document) if "callbacks" in node)
    return ("callbacks" for each in outer if any("callbacks" in node for node in nodes(each)))


@rule("oas3_1-servers-in-webhook")
def webhook_servers(document: Json) -> Faults:
    return ("servers" for node in nodes(document.get("webhooks")) if "servers" in node)


@rule("oas3_1-callbacks-in-webhook")
def webhook_callbacks(document: Json) -> Faults:
    return ("callbacks" for node in nodes(document.get("webhooks")) if "callbacks" in node)


RECOMMENDED = (
    "operation-success-response",
    "operation-operationId-unique",
    "operation-parameters",
    "operation-tag-defined",
    "path-params",
    "duplicated-entry-in-enum",
    "info-contact",
    "info-description",
    "no-eval-in-markdown",
    "no-script-tags-in-markdown",
    "openapi-tags-uniqueness",
    "operation-description",
    "operation-operationId",
    "operation-operationId-valid-in-url",
    "operation-tags",
    "path-declarations-must-exist",
    "path-keys-no-trailing-slash",
    "path-not-include-query",
    "array-items",
    "typed-enum",
    "oas3-api-servers",
    "oas3-examples-value-or-externalValue",
    "oas3-operation-security-defined",
    "oas3-server-trailing-slash",
    "oas3-valid-media-example",
    "oas3-valid-schema-example",
    "oas3-schema",
    "oas3-unused-component",
    "oas3-server-variables",
    "oas3-callbacks-in-callbacks",
    "oas3_1-servers-in-webhook",
    "oas3_1-callbacks-in-webhook",
)
"""All rules of the set that are on by default and apply to OpenAPI 3.1."""


def small() -> Json:
    """A document without a fault."""
    schema = {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}, "example": {"size": 2}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1", "description": "A text.", "contact": {"name": "c"}},
        "servers": [{"url": "/"}],
        "tags": [{"name": "things"}],
        "paths": {
            "/things/{id}": {
                "get": {
                    "operationId": "get",
                    "description": "A text.",
                    "tags": ["things"],
                    "parameters": [{"in": "path", "name": "id", "required": True, "schema": {"type": "string"}}],
                    "responses": {"200": {"description": "Done.", "content": content}},
                    "security": [{"token": []}],
                }
            }
        },
        "components": {
            "schemas": {"Thing": schema},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


PATH = "/things/{id}"
GET = ("paths", PATH, "get")
SIZE = ("components", "schemas", "Thing", "properties", "size")
CONTENT = (*GET, "responses", "200", "content", "application/json")
PARAMETER = {"in": "query", "name": "q", "schema": {"type": "string"}}
INNER: dict[str, Any] = {"callbacks": {"c": {"/": {"post": {"callbacks": {}}}}}}
BROKEN: dict[str, tuple[tuple[str, ...], Any]] = {
    "operation-success-response": ((*GET, "responses"), {"400": {"description": "Bad."}}),
    "operation-operationId-unique": (("paths", PATH, "put"), {**small()["paths"][PATH]["get"]}),
    "operation-parameters": ((*GET, "parameters"), [PARAMETER, PARAMETER]),
    "operation-tag-defined": ((*GET, "tags"), ["others"]),
    "path-params": ((*GET, "parameters"), []),
    "duplicated-entry-in-enum": ((*SIZE, "enum"), [1, 1]),
    "typed-enum": ((*SIZE, "enum"), ["one"]),
    "array-items": (SIZE, {"type": "array"}),
    "info-contact": (("info", "contact"), None),
    "info-description": (("info", "description"), ""),
    "no-eval-in-markdown": (("info", "description"), "eval(1)"),
    "no-script-tags-in-markdown": (("info", "description"), "<script>"),
    "openapi-tags-uniqueness": (("tags",), [{"name": "things"}, {"name": "things"}]),
    "operation-description": ((*GET, "description"), ""),
    "operation-operationId": ((*GET, "operationId"), ""),
    "operation-operationId-valid-in-url": ((*GET, "operationId"), "get things"),
    "operation-tags": ((*GET, "tags"), []),
    "path-declarations-must-exist": (("paths", "/{}"), {}),
    "path-keys-no-trailing-slash": (("paths", "/others/"), {}),
    "path-not-include-query": (("paths", "/others?a=b"), {}),
    "oas3-api-servers": (("servers",), []),
    "oas3-server-trailing-slash": (("servers",), [{"url": "http://host/"}]),
    "oas3-server-variables": (("servers",), [{"url": "http://{host}"}]),
    "oas3-examples-value-or-externalValue": ((*CONTENT, "examples"), {"one": {}}),
    "oas3-operation-security-defined": ((*GET, "security"), [{"key": []}]),
    "oas3-valid-media-example": ((*CONTENT, "example"), {"size": "large"}),
    "oas3-valid-schema-example": ((*SIZE, "default"), "large"),
    "oas3-schema": (("info", "title"), 7),
    "oas3-unused-component": (("components", "schemas", "Other"), {"type": "string"}),
    "oas3-callbacks-in-callbacks": ((*GET, "callbacks"), INNER["callbacks"]),
    "oas3_1-servers-in-webhook": (("webhooks",), {"w": {"post": {"servers": [{"url": "/"}]}}}),
    "oas3_1-callbacks-in-webhook": (("webhooks",), {"w": {"post": {"callbacks": {}}}}),
}
"""By rule: a place in the small document, and a value there that breaks the rule."""


def test_all_recommended_rules_are_covered() -> None:
    assert set(RULES) == set(RECOMMENDED) == set(BROKEN)


@pytest.mark.parametrize("name", RECOMMENDED)
def test_the_rule_finds_a_broken_document_and_nothing_else(name: str) -> None:
    assert list(RULES[name](small())) == []
    broken = copy.deepcopy(small())
    (*way, last), value = BROKEN[name]
    place = broken
    for step in way:
        place = place[step]
    place[last] = value
    assert list(RULES[name](broken))


@pytest.mark.parametrize("name", [name for name in RECOMMENDED if name != "oas3-schema"])
def test_the_document_keeps_the_rule(name: str) -> None:
    """`test_openapi.test_the_document_is_valid` is the rule `oas3-schema`: the check takes seconds."""
    assert list(RULES[name](api())) == []
