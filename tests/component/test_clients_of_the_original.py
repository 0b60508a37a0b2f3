"""The conformance list of clients of the original (tests/conformance/clients.yaml), step by step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
import yaml

from bcs_scheduler.api.original.paths import DRIVER
from bcs_scheduler.core.interface.cluster_manager import AgentsListed
from tests.component.apiserver import Api
from tests.goanswers import ANSWERS, TABLE, differences, shape, type_of
from tests.routetable import read
from tests.unit.api_support import CoreGateway, listed_agent

TESTS = Path(__file__).parent.parent
CLIENTS: dict[str, Any] = yaml.safe_load((TESTS / "conformance" / "clients.yaml").read_text())
SCENARIOS: dict[str, list[dict[str, Any]]] = CLIENTS["scenarios"]
HEADERS = {"BCS-ClusterID": "BCS-MESOS-10001", "Content-Type": "application/x-www-form-urlencoded", "Accept": "*/*"}
"""As its command line sends them: the body is JSON, whatever the header says."""
KINDS = {"object": dict, "list": list, "text": str}
NAMESPACE = "sandbox"


class Session:
    """One scheduler, and what the steps before have found there."""

    def __init__(self, api: Api, gateway: CoreGateway, prefix: str, habit: str = "plain") -> None:
        self.api, self.gateway, self.prefix = api, gateway, prefix
        self._slashes, self._query, self._headers = HABITS[habit]
        self.known = {"tg": "", "tx": "", "version": "", "command": ""}

    def send(self, step: dict[str, Any]) -> tuple[Any, str]:
        """The answer, and the path that was sent."""
        method, _, target = step["send"].format(**self.known).partition(" ")
        path, _, query = target.partition("?")
        base = "" if path.startswith("/v1/") else self.prefix
        body = _body(step)
        pairs = parse_qsl(f"{query}&{self._query}", keep_blank_values=True)
        headers = {name: value for name, value in {**HEADERS, **self._headers}.items() if value}
        answer = self.api.call(method, path + self._slashes, base=base, params=pairs, data=body, headers=headers)
        return answer, path.rstrip("/")

    def learn(self, step: dict[str, Any], data: Any) -> None:
        state = self.gateway.core.state
        if isinstance(data, dict):
            self.known["tx"] = data.get("transactionID") or self.known["tx"]
        if isinstance(data, str) and data:
            self.known["command"] = data
        if "run" in step:
            key = f"{NAMESPACE}/{step['run']}"
            self.gateway.offer(cpus=32, mem=65536)
            self.gateway.report("RUNNING", key)
            groups = state.groups_of(key)
            assert groups, "nothing was launched"
            self.known["tg"] = min(groups)
            self.known["version"] = state.applications[key].version


def _body(step: dict[str, Any]) -> str | None:
    if "raw" in step:
        return str(step["raw"])
    body = step.get("body")
    if isinstance(body, str) and body in CLIENTS["bodies"]:
        body = deepcopy(CLIENTS["bodies"][body])
    elif isinstance(body, str):
        body = json.loads((TESTS / "documents" / f"{body}.json").read_text())
    for path, value in step.get("set", {}).items():
        *parents, last = path.split(".")
        place: Any = body
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
        place[last] = value
    if body is None:
        return None
    return WRITERS[step.get("written", "plain")](body)


def _upper(value: Any) -> Any:
    """The same with the keys of the original's documents, but not those of users, in capitals."""
    if isinstance(value, list):
        return [_upper(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key.upper(): item if key == "labels" else _upper(item) for key, item in value.items()}


WRITERS: dict[str, Callable[[Any], str]] = {
    "plain": json.dumps,
    "capitals": lambda body: json.dumps(_upper(body)),
    "trailing": lambda body: json.dumps(body) + "\n{}\n",
    "unknown": lambda body: json.dumps({**body, "status": {}, "x-added-by-a-tool": [1]}),
}
"""How clients write a document: keys are read in any case of letters there, unknown keys and what follows the document
are ignored."""


def at(value: Any, path: str) -> Any:
    """The part of an answer at a path such as ``items.0.kind``."""
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def check(step: dict[str, Any], response: Any, path: str) -> Any:
    """`path` as it was sent, without the prefix of the driver."""
    answer = response.json()
    assert response.status_code == 200, response.text
    if "plain" in step:
        assert response.headers["Content-Type"] == "application/json"
        assert {path: at(answer, path) for path in step["plain"]} == step["plain"]
        return None
    assert response.headers["Content-Type"] == "application/json; charset=utf-8"
    assert answer["code"] == step.get("code", 0), response.text
    assert response.headers.get("Allow") == step.get("allow")
    assert answer["result"] is (answer["code"] == 0)
    assert {"result", "code", "message", "data"} <= answer.keys()
    if answer["code"]:
        assert isinstance(answer["message"], str) and answer["message"]
        return None
    method = step["send"].partition(" ")[0]
    assert _type_differences(answer, method, path) == []
    assert answer["message"] == "success" or (answer["message"].startswith("success; warning") and answer["warnings"])
    wanted, data = step["data"], answer["data"]
    if isinstance(wanted, dict):
        assert {path: at(data, path) for path in wanted} == wanted
    elif isinstance(wanted, list):
        assert set(wanted) <= data.keys(), sorted(data)
    elif wanted is None:
        assert data is None
    elif wanted != "any":
        assert isinstance(data, KINDS[wanted])
        assert len(data) >= step.get("least", 0)
    return data


def _type_differences(answer: dict[str, Any], method: str, path: str) -> list[str]:
    """Of a successful answer from the table of the original."""
    known = {name.rstrip("?") for name in TABLE["envelope"]}
    found = [f"the envelope has no {name}" for name in answer.keys() - known]
    return found + differences(answer["data"], type_of(method, path))


HABITS: dict[str, tuple[str, str, dict[str, str]]] = {
    "plain": ("", "", {}),
    "slash": ("/", "", {"Content-Type": "application/json"}),
    "parameters": ("//", "pretty=&unknown=1&limit=&kind=", {"Accept": "application/json, text/plain;q=0.5"}),
    "headers": ("", "", {"Content-Type": "", "Accept": "application/xml", "X-Forwarded-For": "10.0.0.9", "Expect": ""}),
}
"""What clients add to a path and to a query, and the headers that some send instead; an empty one is not sent."""


WAYS = [*((DRIVER[0], habit) for habit in HABITS), (DRIVER[1], "plain")]
"""Prefixes and habits with which each scenario is sent: the prefixes differ in no other way."""


@pytest.mark.parametrize(("prefix", "habit"), WAYS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_client_is_answered_as_it_expects(
    api: Api, gateway: CoreGateway, scenario: str, prefix: str, habit: str
) -> None:
    gateway.connect()
    gateway.offer()
    gateway.listed = [*gateway.listed, listed_agent(2, 8, 8192)]
    gateway.feed(AgentsListed(agents=tuple(gateway.listed)))
    session = Session(api, gateway, prefix, habit)
    for step in SCENARIOS[scenario]:
        try:
            session.learn(step, check(step, *session.send(step)))
        except AssertionError as error:
            raise AssertionError(f"{step['send']}: {error}") from error


def _fits(route: str, asked: list[tuple[str, list[str]]]) -> bool:
    method, _, path = shape(route).partition(" ")
    parts = path.split("/")
    return any(
        method == other and len(parts) == len(given) and all(p in ("X", g) for p, g in zip(parts, given, strict=True))
        for other, given in asked
    )


def test_the_list_has_every_route_of_the_original() -> None:
    """Of the driver all, but the console, which another program serves; of the scheduler all."""
    asked = []
    for step in (step for steps in SCENARIOS.values() for step in steps):
        method, _, path = shape(step["send"]).partition(" ")
        asked.append((method, path.split("/")))
    mapped = read()
    # As many as sections 3, 4.1 to 4.3 and 4.4 of the specification of the original have.
    sections = Counter("passed" if "passed" in row.section else row.section.partition(",")[0] for row in mapped)
    assert sections == {"Scheduler": 69, "Driver": 74, "passed": 11}
    driver = [row.original for row in mapped if row.section.startswith("Driver") and "{rest}" not in row.original]
    scheduler = [row.original.replace(" ", " /v1") for row in mapped if row.section.startswith("Scheduler")]
    assert [route for route in (*driver, *scheduler) if not _fits(route, asked)] == []


def test_the_table_of_answers_has_every_route_of_the_original() -> None:
    mapped = read()
    routes = [
        row.original if row.section.startswith("Driver") else row.original.replace(" ", " /v1")
        for row in mapped
        if "passed" not in row.section
    ]
    ours = [f"POST {base}/agentsettings/update" for base in ("", "/v1")]
    assert sorted(map(shape, ANSWERS)) == sorted(map(shape, [*routes, *ours]))


def test_our_own_prefix_has_few_of_these_habits(api: Api, gateway: CoreGateway) -> None:
    """Slashes at the end, empty and unknown parameters, and objects that are deleted already are no failures; what has
    no effect is named."""
    gateway.connect()
    body = (TESTS / "documents" / "application-small.json").read_text()
    json_headers = {"Content-Type": "application/json"}
    path = "/namespaces/sandbox/applications"
    assert api.call("POST", path, data=body, headers=HEADERS).status_code == 415
    assert api.call("POST", path, data=body, headers=json_headers).status_code == 202
    whole = api.get(path).json()
    assert len(whole["data"]) == 1
    assert api.get(f"{path}/").json() == whole
    assert api.get(f"{path}?labelSelector=&limit=").json() == whole
    assert api.get("/agentsettings?ips=").json() == api.get("/agentsettings").json()
    fresh = api.get(f"{path}?fresh=1&lmit=1").json()
    assert fresh["data"] == whole["data"]
    assert {each["path"]: each["message"] for each in fresh["warnings"]} == {
        "?fresh": "is unknown and has no effect",
        "?lmit": "is unknown and has no effect; did you mean limit?",
    }
    update = api.call("PUT", f"{path}/?args=&fresh=1", data=body, headers=json_headers)
    assert (update.status_code, [each["path"] for each in update.json()["warnings"]]) == (200, ["?fresh"])
    strict = api.call("PUT", f"{path}?fresh=1&fieldValidation=Strict", data=body, headers=json_headers)
    assert (strict.status_code, strict.json()["data"]["problems"][0]["path"]) == (422, "?fresh")


@pytest.mark.parametrize("misspelt", ["dryrun=true", "dry-run=true", "DRY_RUN=true"])
def test_a_dry_run_that_is_misspelt_changes_nothing(api: Api, gateway: CoreGateway, misspelt: str) -> None:
    refused = api.call("DELETE", f"/namespaces/sandbox/configmaps/nobody?{misspelt}")
    assert (refused.status_code, refused.json()["data"]["reason"]) == (400, "bad_parameter")
    assert refused.json()["message"].endswith("did you mean dryRun?") and not gateway.commands


DELETED = (
    "/namespaces/sandbox/configmaps/nobody",
    "/namespaces/sandbox/secrets/nobody",
    "/namespaces/sandbox/services/nobody",
    "/namespaces/sandbox/daemonsets/nobody",
    "/namespaces/sandbox/admissionwebhook/nobody",
    "/crd/namespaces/sandbox/Nothing/nobody",
    "/transactions/sandbox/nobody",
    "/command/application/sandbox/nobody?id=nobody",
)


@pytest.mark.parametrize("path", DELETED)
@pytest.mark.parametrize("prefix", ["", *DRIVER])
def test_what_does_not_exist_is_deleted_with_every_prefix(api: Api, prefix: str, path: str) -> None:
    base = {"base": prefix} if prefix else {}
    answer = api.call("DELETE", path, **base)
    assert (answer.status_code, answer.json()["code"]) == (200, 0)
    if not prefix:
        assert "nobody" in path and "does not exist" in answer.json()["warnings"][0]["message"]
        must = api.call("DELETE", path, params={"mustExist": "true"})
        assert (must.status_code, must.json()["data"]["reason"]) == (404, "not_found")


def test_a_standby_sends_a_client_to_the_same_path_of_the_leader(api: Api, gateway: CoreGateway) -> None:
    gateway.stand_by("http://127.0.0.1:2")
    response = api.call("POST", "/namespaces/sandbox/applications/?args=", base=DRIVER[0], data="{}")
    assert response.status_code == 307
    assert response.headers["Location"] == f"http://127.0.0.1:2{DRIVER[0]}/namespaces/sandbox/applications/?args="


def test_an_update_keeps_the_number_of_taskgroups_and_says_so(api: Api, gateway: CoreGateway) -> None:
    gateway.connect()
    gateway.offer()
    document = json.loads((TESTS / "documents" / "application-small.json").read_text())
    path = "/namespaces/sandbox/applications"
    assert api.call("POST", path, json=document).status_code == 202
    gateway.report("RUNNING", "sandbox/small")
    document["spec"]["instance"] = 7
    for target, base in ((path, DRIVER[0]), (f"{path}/rollback", DRIVER[0])):
        answer = api.call("PUT", target, base=base, json=document)
        assert answer.status_code == 200, answer.text
        assert [warning["path"] for warning in answer.json()["warnings"]] == ["$.spec.instance"]
    assert gateway.core.state.applications["sandbox/small"].instances == 1


def test_a_roll_back_takes_the_old_document_or_the_id_of_a_version(api: Api, gateway: CoreGateway) -> None:
    gateway.connect()
    gateway.offer()
    path = "/namespaces/sandbox/applications"
    old = json.loads((TESTS / "documents" / "application-small.json").read_text())
    new = json.loads(json.dumps(old))
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.org/demo/app:2.0"
    state = gateway.core.state

    def image() -> str:
        version = state.version("sandbox/small", state.applications["sandbox/small"].version)
        assert version is not None
        return version.containers[0].image

    def settle() -> None:
        for _ in range(4):
            gateway.offer()
            gateway.report("FINISHED", "sandbox/small")
            gateway.offer()
            gateway.report("RUNNING", "sandbox/small")
            if state.applications["sandbox/small"].status == "Running":
                return

    assert api.call("POST", path, json=old).status_code == 202
    gateway.report("RUNNING", "sandbox/small")
    first = state.applications["sandbox/small"].version
    assert api.call("PUT", path, json=new).status_code == 202
    assert image() == "registry.example.org/demo/app:2.0"
    settle()
    assert api.call("PUT", f"{path}/rollback", json=old).status_code == 202
    assert image() == "registry.example.org/demo/app:1.0"
    settle()
    assert api.call("PUT", path, json=new).status_code == 202
    settle()
    assert api.call("PUT", f"{path}/rollback", json={"name": "small", "version": first}).status_code == 202
    assert image() == "registry.example.org/demo/app:1.0"
    refused = api.call("PUT", "/namespaces/sandbox/processes/rollback", json={"name": "small", "version": first})
    assert refused.status_code == 404
