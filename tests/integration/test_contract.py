"""The API holds to its own OpenAPI document: Schemathesis makes requests from it, good and bad ones, and judges the
answers of a real scheduler with an embedded cluster: no 5xx but those that say "not now", and status, content type and
body as declared. Every run makes the same requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests
import schemathesis
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

from bcs_scheduler.api.operation import BASE
from bcs_scheduler.api.routes import operations
from bcs_scheduler.api.sse import MEDIA_TYPE as EVENT_STREAM
from tests.integration.localmesos import LocalMesosProcess
from tests.integration.schedulerprocess import SchedulerProcess, document

SEED = 20_240_101
GOOD, BAD = 6, 6
"""Requests per operation: as its schema allows, and as it does not."""
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
TIMEOUT = (5.0, 30.0)
NS = f"{BASE}/namespaces/{{ns}}"
ORDER = ("GET", "POST", "PUT", "DELETE")
OPERATIONS = sorted(
    ((o.method, o.path) for o in operations() if o.media_type != EVENT_STREAM),
    key=lambda pair: (ORDER.index(pair[0]), pair[1]),
)
"""Streams never end: they have tests of their own."""


@dataclass
class World:
    """What runs, and names of what is there, which requests mention as often as random ones."""

    schema: Any
    url: str
    session: requests.Session
    known: dict[str, list[str]] = field(default_factory=dict)

    def operation(self, method: str, path: str) -> APIOperation:  # type: ignore[type-arg]
        found: APIOperation = self.schema[path][method]  # type: ignore[type-arg]
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
    """Something of every kind."""
    datas = {"a": {"type": "file", "content": "YQ=="}}
    named = {"ns": "default"}
    world.call("POST", f"{NS}/applications", document("web", 2, ["sleep", "1000"]), **named)
    world.call("POST", f"{NS}/configmaps", {"kind": "configmap", "metadata": {"name": "web"}, "datas": datas}, **named)
    secret = {"kind": "secret", "metadata": {"name": "web"}, "datas": {"a": {"content": "YQ=="}}}
    world.call("POST", f"{NS}/secrets", secret, **named)
    namespace = {"kind": "namespace", "metadata": {"name": "default"}, "spec": {"quota": {"taskgroups": 500}}}
    world.call("POST", f"{BASE}/namespaces", namespace)
    hooks = [{"name": "nobody", "clientConfig": {"url": "http://192.0.2.1/"}, "timeoutSeconds": 0.1}]
    hooks[0]["namespaceSelector"] = {"operator": "In", "values": ["nowhere"]}
    webhook = {"kind": "admissionwebhook", "metadata": {"name": "web"}, "admissionWebhooks": hooks}
    webhook["resourcesRef"] = {"operation": "Create", "kind": "application"}
    world.call("POST", f"{NS}/admissionwebhook", webhook, **named)
    world.call("POST", f"{BASE}/crr/register", {"kind": "crr", "spec": {"names": {"kind": "Database"}}})
    custom = {"kind": "Database", "metadata": {"name": "web"}, "spec": {"size": 1}}
    world.call("POST", f"{BASE}/crd/namespaces/{{ns}}/{{kind}}", custom, kind="Database", **named)
    groups = process.wait_running("web", 2)
    transactions = world.call("GET", f"{BASE}/transactions/{{ns}}", **named)
    world.known = {
        "ns": ["default"],
        "name": ["web", "shop"],
        "kind": ["Database"],
        "id": [groups[0]["ID"], transactions[0]["transactionID"], groups[0]["VersionName"], "1"],
        "taskgroup": [group["ID"] for group in groups],
        "instances": ["3"],
        "agent": ["10.0.0.1"],
    }


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=[" ".join(pair).replace(BASE, "") for pair in OPERATIONS])
def test_answers_are_as_declared(world: World, method: str, path: str) -> None:
    operation = world.operation(method, path)
    _explore(world, operation, GenerationMode.POSITIVE, GOOD)
    if operation.body or operation.query or operation.path_parameters:
        _explore(world, operation, GenerationMode.NEGATIVE, BAD)


def _explore(world: World, operation: APIOperation, mode: GenerationMode, examples: int) -> None:  # type: ignore[type-arg]
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
    def ask(case: Case, choice: int) -> None:
        _mention(world, case, choice)
        response = case.call(base_url=world.url, session=world.session, timeout=TIMEOUT)
        seen.append(response.status_code)
        _judge(case, response)

    try:
        ask()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, "no request can be made from the schema"
    else:
        assert len(seen) >= 1


def _mention(world: World, case: Case, choice: int) -> None:
    """Every other request is about something that is there."""
    if choice % 2:
        for name in case.path_parameters or {}:
            known = world.known.get(name)
            if known:
                case.path_parameters[name] = known[choice // 2 % len(known)]
    if isinstance(case.query, dict) and ("watch" in case.query or "timeoutSeconds" in case.query):
        case.query["timeoutSeconds"] = 1


def _judge(case: Case, response: Any) -> None:
    said = f"{case.method} {case.formatted_path}: {response.status_code} {response.text[:500]}"
    if response.status_code >= 500:
        # "Not now" and "the agent does not answer" (the agents are not real) are answers; the rest are faults.
        assert response.status_code in (502, 503), said
        assert re.search(r'"reason":"(unavailable|outcome_unknown|agent|too_many_watchers)"', response.text), said
    case.validate_response(response, checks=CHECKS)


def test_the_scheduler_has_not_noticed(world: World) -> None:
    """After all this."""
    assert world.session.get(f"{world.url}/readyz", timeout=TIMEOUT).status_code == 200
    metrics = world.session.get(f"{world.url}/metrics", timeout=TIMEOUT).text
    faults = [line for line in metrics.splitlines() if re.match(r'bkbcs_scheduler_story_total{.*reason="error"', line)]
    assert faults == []
