"""Two tenants in one crowded cluster: no answer of any route has a name of the other one."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.api.access import required_access
from bcs_scheduler.api.http.operation import ApiSettings, Operation
from bcs_scheduler.api.http.request_gate import RequestGate
from bcs_scheduler.api.routes import operations
from bcs_scheduler.core.interface.requests import CreateApplication, PutNamespace, PutQueue
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.security.tokens import hash_of, read_tokens
from bcs_scheduler.security.watched import WatchedFiles
from offers.model import Diagnosis, HeldBack
from offers.policy.obstacles import Attempt, Met, Obstacle
from offers.policy.session.configuration import DEFAULT, policy_of
from offers.policy.waiting import WaitCode
from store.mentions import BEGIN, END, revealed
from store.records import Namespace, Queue, Version
from store.records.definition import Amounts, Container
from store.records.objects import Limits
from tests.component.apiserver import Api, serving
from tests.unit.api_support import CoreGateway, document
from transactions.obstacles import attempted

MARK = "zebra"
"""In every name of the other tenant."""
MINE, THEIRS = "mine", f"{MARK}-space"
HOLDERS = {"viewer": '["mine"]', "operator": '["mine"]', "admin": '"*"'}
OPTIONS = CoreOptions(
    strict=True,
    policy=policy_of({**DEFAULT, "actions": "reclaim, allocate, backfill, preempt"}),
    session_period=0.05,
)


class Crowd:
    """Four agents of one taskgroup each, full with work of two namespaces of one queue. Work of each has been ended for
    the other, and work of both waits."""

    def __init__(self, folder: Path, options: CoreOptions = OPTIONS) -> None:
        tokens = folder / "tokens.toml"
        tokens.write_text(
            "\n".join(
                f'[[token]]\nname = "{name}"\nhash = "{hash_of(name)}"\nrole = "{name}"\nnamespaces = {spaces}'
                for name, spaces in HOLDERS.items()
            )
        )
        self.gateway = CoreGateway(options=options)
        self.gate = RequestGate(tokens=WatchedFiles("tokens", [tokens], lambda: read_tokens(tokens)))
        self.now = time.time()
        self.api: Api
        self.gateway.connect()
        self._ask(PutQueue(queue=Queue(name="tight", capability=Limits(cpus=4_000))))
        for space in (MINE, THEIRS):
            self._ask(PutNamespace(namespace=Namespace(name=space, queue="tight", labels={"a": space})))
        for agent in (1, 2, 3, 4):
            self.gateway.offer(agent, cpus=1.1)
        self.create(THEIRS, f"{MARK}-low", 2, 0)
        self.create(MINE, "low", 2, 0)
        self.rest()
        self.create(MINE, "high", 1, 10)
        self.rest()
        self.create(THEIRS, f"{MARK}-high", 1, 20)
        self.rest()
        self.create(THEIRS, f"{MARK}-more", 3, 5)
        self.create(MINE, "more", 3, 5)
        self.rest()

    def _ask(self, command: Any) -> None:
        reply = self.gateway.submit(command).result(30)
        assert not reply.error, reply

    def create(self, namespace: str, name: str, instances: int, priority: int) -> None:
        container = Container(command="serve", requests=Amounts(cpus=1_000, mem=10_000))
        version = Version(
            namespace=namespace, application=name, instances=instances, priority=priority, max_unavailable=instances,
            priority_from="document", containers=(container,), labels={"of": namespace},
        )  # fmt: skip
        self._ask(CreateApplication(version=version, user=f"user-of-{namespace}"))

    def rest(self) -> None:
        """Everything that was placed runs, and everything that is being ended has ended, until nothing changes."""
        for _ in range(12):
            self.now = max(self.now, time.time()) + 1.0
            self.gateway.feed(now=self.now)
            for group in list(self.gateway.core.state.taskgroups.values()):
                if group.killing_since and not group.ended:
                    self.gateway.report_taskgroup("KILLED", group.id)
                    self.gateway.offer(int(group.agent_id[-1]), cpus=1.1)
                elif not group.started and not group.ended:
                    self.gateway.report_taskgroup("RUNNING", group.id)
        for agent in (1, 2, 3, 4):
            self.gateway.offer(agent, cpus=0.01, mem=1)  # dry runs ask for offers, and there is no room

    def call(self, holder: str, method: str, path: str, **more: Any) -> str:
        answer = self.api.call(method, path, headers={"Authorization": f"Bearer {holder}"}, **more)
        text = answer.content.decode()
        assert answer.status_code != 500, (method, path, text)
        assert BEGIN not in text and END not in text, (method, path, text)
        return text.replace("\\u003e", ">")

    def paths(self, operation: Operation) -> Iterator[str]:
        """Paths of the operation to everything of the first tenant."""
        state = self.gateway.core.state
        values: dict[str, list[str]] = {
            "ns": [MINE],
            "name": [one.name for one in state.applications.values() if one.namespace == MINE],
            "taskgroup": [one.id for one in state.taskgroups.values() if one.namespace == MINE],
            "id": [
                *(one.id for one in state.taskgroups.values() if one.namespace == MINE),
                *(one.id for one in state.transactions.values() if one.namespace == MINE),
            ],
            "instances": ["5"],
        }
        found = [operation.path]
        for name in re.findall(r"{(\w+)}", operation.path):
            found = [path.replace(f"{{{name}}}", one) for path in found for one in values.get(name, ["1"])]
        yield from found


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    made = Crowd(tmp_path_factory.mktemp("crowd"))
    with serving(made.gateway, ApiSettings(watch_limit=0.2), gate=made.gate) as made.api:
        yield made


def wanted(name: str, instances: int, priority: int) -> dict[str, Any]:
    made = document(name, instance=instances)
    made["metadata"]["namespace"] = MINE
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"cpu": "1", "memory": "10"}}
    made["spec"]["template"]["spec"]["priority"] = priority
    return made


def parameters(operation: Operation) -> dict[str, str]:
    known = {param.name for param in operation.query}
    return {name: value for name, value in {"timeoutSeconds": "0", "dryRun": "true", "path": "a"}.items()
            if name in known}  # fmt: skip


def test_the_crowd_is_what_the_tests_need(crowd: Crowd) -> None:
    """Evictions in both directions, and work that waits, of both."""
    text = crowd.call("admin", "GET", "/events")
    assert f"ended for {MINE}/high" in text and f"ended for {THEIRS}/{MARK}-high" in text
    assert f"1 taskgroup is ended: {THEIRS}/" in text or f"1 taskgroup is ended: {MINE}/" in text
    waiting = {one.namespace for one in crowd.gateway.core.state.applications.values() if one.status != "Running"}
    assert waiting == {MINE, THEIRS}


def test_no_read_has_a_name_of_the_other_tenant(crowd: Crowd) -> None:
    asked = 0
    for operation in operations():
        if operation.write or operation.upgrade or required_access(operation).reach in ("everywhere", "open"):
            continue
        for path in crowd.paths(operation):
            for query in (parameters(operation), {**parameters(operation), "watch": "true", "timeoutSeconds": "0"}):
                if "watch" in query and operation.watcher is None:
                    continue
                for holder in ("viewer", "operator"):
                    text = crowd.call(holder, "GET", path, base="", params=query)
                    assert MARK not in text, (path, query, text)
                    asked += 1
    assert asked > 200


def test_events_and_messages_give_counts_and_the_admin_gets_names(crowd: Crowd) -> None:
    mine = crowd.call("viewer", "GET", f"/namespaces/{MINE}/events")
    assert "ended for an application of another namespace" in mine
    assert "1 taskgroup is ended: a taskgroup of another namespace" in mine
    whole = crowd.call("admin", "GET", f"/namespaces/{MINE}/events")
    assert f"ended for {THEIRS}/{MARK}-more" in whole and f"1 taskgroup is ended: {THEIRS}/{MARK}-low-" in whole
    stream = {"watch": "true", "lastEventId": "0", "timeoutSeconds": "0"}
    assert "an application of another namespace" in crowd.call("viewer", "GET", "/events", params=stream)
    assert f"{THEIRS}/{MARK}-high" in crowd.call("admin", "GET", "/events", params=stream)


def test_dry_runs_and_plans_count_taskgroups_of_others(crowd: Crowd) -> None:
    path, query = f"/namespaces/{MINE}/applications", {"dryRun": "true"}
    answers = {
        holder: crowd.api.call(
            "POST", path, json=wanted("urgent", 2, 1000), params=query, headers={"Authorization": f"Bearer {holder}"}
        ).json()["data"]
        for holder in ("operator", "admin")
    }
    everything = answers["admin"]["evict"]
    own = [one for one in everything if f".{MINE}." in one]
    hidden = len(everything) - len(own)
    assert hidden and answers["operator"]["evict"] == own and answers["operator"]["evictHidden"] == hidden
    assert "evictHidden" not in answers["admin"]
    plans = {
        holder: crowd.api.call(
            "POST", "/plans", json=[wanted("urgent", 2, 1000)], headers={"Authorization": f"Bearer {holder}"}
        ).json()["data"]
        for holder in ("operator", "admin")
    }
    assert plans["admin"]["evict"] == everything and "evictHidden" not in plans["admin"]
    assert plans["operator"]["evict"] == own and plans["operator"]["evictHidden"] == hidden


def test_explanations_have_no_figures_of_queues(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    """The amounts of a queue are those of all its namespaces."""
    held = HeldBack("tight", True, (("cpus", 4_000),), (("cpus", 4_000),), WaitCode.QUEUE_MAXIMUM)
    found = Diagnosis("x", slots=2, placed=0, agents=1, reasons={}, closest=(), held_back=held)
    monkeypatch.setattr(crowd.gateway, "diagnosis", lambda _: found)
    path = f"/namespaces/{MINE}/applications/more/explain"
    whole, mine = crowd.call("admin", "GET", path), crowd.call("viewer", "GET", path)
    assert "used: cpus 4" in whole and '"allocated":{"cpus":4.0}' in whole
    assert "used: " not in mine and '"allocated":{},"deserved":{}' in mine
    for listing in (f"/namespaces/{MINE}/applications/more", f"/namespaces/{MINE}/applications"):
        assert "queue tight has no room below its maximum" in crowd.call("viewer", "GET", listing)
        assert "used: " not in crowd.call("viewer", "GET", listing)


@pytest.mark.parametrize("code", [Obstacle.GUARANTEE, Obstacle.OUTSIDE])
def test_explanations_have_no_names_of_other_queues(
    code: Obstacle, crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queues of a tree have the names of namespaces."""
    attempt = Attempt(1.0, (Met(code, 3, ("root.foreign",)),))
    found = Diagnosis("x", slots=2, placed=0, agents=1, reasons={}, closest=(), attempt=attempt)
    monkeypatch.setattr(crowd.gateway, "diagnosis", lambda _: found)
    path = f"/namespaces/{MINE}/applications/more/explain"
    assert "root.foreign" in crowd.call("admin", "GET", path)
    assert "root.foreign" not in crowd.call("viewer", "GET", path)
    assert "root.foreign" not in revealed(attempted(attempt).encode(), lambda _: False).decode()


def test_what_if_counts_taskgroups_of_others(tmp_path: Path) -> None:
    made = Crowd(tmp_path, CoreOptions(strict=True))
    with serving(made.gateway, ApiSettings(), gate=made.gate) as made.api:
        path = f"/namespaces/{MINE}/applications/more/whatif"
        whole, mine = made.call("admin", "GET", path), made.call("viewer", "GET", path)
    assert MARK in whole and '"preemptTaskgroups"' in whole
    assert MARK not in mine and '"taskgroupsHidden":' in mine and "of other namespaces" in mine


def test_dry_runs_of_every_write_have_no_name_of_the_other_tenant(crowd: Crowd) -> None:
    asked = 0
    for operation in operations():
        need = required_access(operation)
        if not operation.write or need.reach in ("everywhere", "open") or need.role == "admin":
            continue
        if not any(param.name == "dryRun" for param in operation.query):
            continue
        for path in crowd.paths(operation):
            for name in ("high", "new"):
                body = wanted(name, 3, 1000)
                text = crowd.call("operator", operation.method, path, base="", json=body, params=parameters(operation))
                assert MARK not in text, (operation.method, path, text)
                asked += 1
    assert asked > 30
