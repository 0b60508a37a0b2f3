"""The API holds to its own OpenAPI document: Schemathesis makes requests from it, good and bad ones, and judges the
answers of a real scheduler with an embedded cluster: no 5xx but those that say "not now", and status, content type and
body as declared. Every run makes the same requests.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import requests
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from bcs_scheduler.api.http.operation import BASE, Operation
from bcs_scheduler.api.routes import operations
from bcs_scheduler.api.streams.sse import MEDIA_TYPE as EVENT_STREAM
from tests.effort import share
from tests.integration.localmesos import LocalMesosProcess
from tests.integration.schedulerprocess import SchedulerProcess, document

pytestmark = pytest.mark.slow
SEED = 20_240_101
GOOD, BAD = share(5, 2), share(3, 2)
"""Requests per operation: as its schema allows, and as it does not."""
EXAMPLES = Path(__file__).parents[2] / "conf" / "examples"
FILES = (
    "namespace.json",
    "custom-resource.yaml",
    "configmap.json",
    "secret.json",
    "service.json",
    "process-simple.json",
    "deployment.json",
    "daemonset.json",
    "admissionwebhook.json",
)
COLLECTIONS = {
    "namespace": f"{BASE}/namespaces",
    "crr": f"{BASE}/crr/register",
    "Database": f"{BASE}/crd/namespaces/{{ns}}/{{kind}}",
    "configmap": f"{BASE}/namespaces/{{ns}}/configmaps",
    "secret": f"{BASE}/namespaces/{{ns}}/secrets",
    "service": f"{BASE}/namespaces/{{ns}}/services",
    "application": f"{BASE}/namespaces/{{ns}}/applications",
    "process": f"{BASE}/namespaces/{{ns}}/processes",
    "deployment": f"{BASE}/namespaces/{{ns}}/deployments",
    "daemonset": f"{BASE}/namespaces/{{ns}}/daemonsets",
    "admissionwebhook": f"{BASE}/namespaces/{{ns}}/admissionwebhook",
}
"""Where documents of each kind are handed in, in an order in which they can be."""
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
TIMEOUT = (5.0, 30.0)
ORDER = ("GET", "POST", "PUT", "DELETE")
OPERATIONS = sorted(
    ((o.method, o.path) for o in operations() if o.media_type != EVENT_STREAM),
    key=lambda pair: (ORDER.index(pair[0]), pair[1]),
)
"""Streams never end: they have tests of their own."""


def _kind_of(operation: Operation) -> str | None:
    """Of the documents it takes."""
    if "{kind}" in operation.path:
        return "Database"
    if operation.path.endswith("/crr/register"):
        return "crr"
    hints = get_type_hints(operation.body) if isinstance(operation.body, type) else {}
    kinds = [kind for kind in get_args(hints.get("kind")) if kind in COLLECTIONS]
    return "process" if "processes" in operation.path else kinds[0] if kinds else None


KIND_OF = {(o.method, o.path): kind for o in operations() if o.body is not None and (kind := _kind_of(o))}


@dataclass
class World:
    """What runs, and names of what is there, which requests mention as often as random ones."""

    schema: Any
    url: str
    session: requests.Session
    known: dict[str, str] = field(default_factory=dict)
    """By parameter or by the collection an id belongs to."""
    bodies: dict[str, Any] = field(default_factory=dict)
    """Good bodies of operations that take no documents, by a part of their path."""

    def operation(self, method: str, path: str) -> APIOperation[Any, Any, Any, Any]:
        found: APIOperation[Any, Any, Any, Any] = self.schema[path][method]
        return found

    def call(self, method: str, path: str, body: Any = None, **parameters: str) -> Any:
        """A good request: its answer is a success, and as declared."""
        operation = self.operation(method, path)
        given = {} if body is None else {"body": body, "media_type": "application/json"}
        case = operation.Case(path_parameters=parameters, **given)
        response = case.call(base_url=self.url, session=self.session, timeout=TIMEOUT)
        case.validate_response(response, checks=CHECKS)
        assert response.status_code < 300, f"{method} {path}: {response.status_code} {response.text}"
        return response.json()["data"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("contract")
    # Nothing that is made up here may run for real.
    cluster = LocalMesosProcess(folder, "--synthetic", "--agents=4", "--attributes=zone:z{n%2}").start()
    process = SchedulerProcess(folder, "memory:", cluster.url, executor__default="bcs", executor__answer_timeout="1")
    try:
        process.start().wait_ready()
        schema = schemathesis.openapi.from_url(f"{process.url}/openapi.json")
        made = World(schema, process.url, process.session)
        _populate(made, process)
        yield made
    finally:
        process.stop()
        cluster.stop()


def _populate(world: World, process: SchedulerProcess) -> None:
    """Something of every kind, all called web."""
    for kind, path in COLLECTIONS.items():
        body = _example(kind, _name(path))
        inside = {name: value for name, value in (("ns", "default"), ("kind", "Database")) if f"{{{name}}}" in path}
        world.call("POST", path, body, **inside)
    group = process.wait_running("web", 2)[0]
    transaction = world.call("GET", f"{BASE}/transactions/{{ns}}", ns="default")[0]
    agent = process.call("GET", "/agents")[0]["key"]
    world.known = {
        "ns": "default",
        "kind": "Database",
        "taskgroup": group["ID"],
        "instances": "3",
        "agent": agent,
        "transactions": transaction["transactionID"],
        "versions": group["VersionName"],
        "revisions": "1",
    }
    world.bodies = {
        "/agentsettings": [{"innerIP": agent, "strings": {"a": {"value": "b"}}}],
        "/agentsettings/taint": [{"innerIP": agent, "noSchedule": {"a": "b"}}],
        "/agentsettings/extendedresource": {"InnerIP": agent, "Name": "fpga", "Capacity": 2},
        "/message": {"msgtype": "signal", "msgdata": {"signal": "HUP", "processname": "sleep"}},
        "/command": {"kind": "Command", "spec": {"commandTargetRef": {}, "command": ["true"]}},
        "/rollback": {"name": "web"},
    }


def _example(kind: str, name: str) -> Any:
    """A good document, as conf/examples has it, in the namespace default."""
    if kind == "application":
        return document(name, 2, ["sleep", "1000"])
    found = copy.deepcopy(_examples()[kind])
    if kind == "admissionwebhook":  # nobody answers there
        found["admissionWebhooks"][0]["namespaceSelector"] = {"operator": "In", "values": ["nowhere"]}
    if kind == "crr":
        return found
    metadata = {**found["metadata"], "name": "default" if kind == "namespace" else name}
    metadata.pop("namespace", None)
    return {**found, "metadata": metadata}


@cache
def _examples() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in FILES:
        for body in yaml.safe_load_all((EXAMPLES / name).read_text()):
            found.setdefault(body["kind"], body)
    return found


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=[" ".join(pair).replace(BASE, "") for pair in OPERATIONS])
def test_answers_are_as_declared(world: World, method: str, path: str) -> None:
    operation = world.operation(method, path)
    _explore(world, operation, GenerationMode.POSITIVE, GOOD)
    if operation.body or operation.query or operation.path_parameters:
        _explore(world, operation, GenerationMode.NEGATIVE, BAD)


def _explore(world: World, operation: APIOperation[Any, Any, Any, Any], mode: GenerationMode, examples: int) -> None:
    seen: list[int] = []

    @seed(SEED)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), choice=st.integers(0, 7))
    def ask(case: Case[Any], choice: int) -> None:
        if len(seen) % 2 == 0:
            _mention(world, case, choice, len(seen))
        if isinstance(case.query, dict) and ("watch" in case.query or "timeoutSeconds" in case.query):
            case.query["timeoutSeconds"] = 1
        response = case.call(base_url=world.url, session=world.session, timeout=TIMEOUT)
        seen.append(response.status_code)
        _judge(case, response)

    try:
        ask()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, "no request can be made from the schema"
    else:
        assert len(seen) >= 1


def _mention(world: World, case: Case[Any], choice: int, number: int) -> None:
    """Makes the request about something that is there, with a good document; but for the first one, a part of the
    document is as it was made up."""
    for name in case.path_parameters or {}:
        case.path_parameters[name] = _known(world, case.path, name, made=number > 0 and case.method == "DELETE")
    if "agentsettings" in case.path and case.method != "PUT" and isinstance(case.query, dict):
        case.query["ips"] = world.known["agent"]
    kind = KIND_OF.get((case.method, case.path))
    if kind is not None:
        name = (case.path_parameters or {}).get("name") or (_name(case.path) if case.method == "PUT" else "made")
        good = _example(kind, str(name))
        if "ns" not in (case.path_parameters or {}) and kind != "namespace" and "metadata" in good:
            good["metadata"]["namespace"] = "default"
    else:
        parts = [part for part in world.bodies if part in case.path]
        good = copy.deepcopy(world.bodies[max(parts, key=len)]) if parts and case.method != "DELETE" else None
    if good is not None and isinstance(case.body, dict | list):
        if number and isinstance(case.body, dict) and isinstance(good, dict) and case.body:
            key = sorted(case.body)[choice % len(case.body)]
            good[key] = case.body[key]
        case.body = good


def _known(world: World, path: str, parameter: str, *, made: bool) -> str:
    """What a parameter may mean; with `made` something that requests have made."""
    if parameter == "name":
        return "made" if made else _name(path)
    if parameter == "id":
        collection = next((part for part in ("transactions", "versions", "revisions") if part in path), "taskgroup")
        return world.known[collection]
    return world.known.get(parameter, "unknown")


def _name(path: str) -> str:
    """Of what is there in this collection."""
    kind = next((kind for kind in ("deployment", "daemonset", "process") if kind in path), "")
    return f"web-{kind}" if kind else "web"


def _judge(case: Case[Any], response: Any) -> None:
    said = f"{case.method} {case.formatted_path}: {response.status_code} {response.text[:500]}"
    if response.status_code >= 500:
        # "Not now" and "the agent does not answer" (the agents are not real) are answers; the rest are faults.
        assert response.status_code in (502, 503, 504), said
        assert re.search(r'"reason":"(unavailable|outcome_unknown|agent|too_many_watchers)"', response.text), said
    case.validate_response(response, checks=CHECKS)


def test_the_scheduler_has_not_noticed(world: World) -> None:
    """After all this."""
    assert world.session.get(f"{world.url}/readyz", timeout=TIMEOUT).status_code == 200
    metrics = world.session.get(f"{world.url}/metrics", timeout=TIMEOUT).text
    counted = re.compile(
        r'bkbcs_scheduler_recorded_events_total{.*reason="(InternalError|TransitionRefused|StateInvalid)"'
    )
    faults = [line for line in metrics.splitlines() if counted.match(line)]
    assert faults == []
