"""Who may do what over the API: every operation, every way past a namespace."""

from __future__ import annotations

import itertools
import json
import re
import socket
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.api.access import EXCEPTIONS, required_access
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.operation import BASE, ApiSettings, Operation
from bcs_scheduler.api.http.request_gate import AUDITED_REFUSALS, RequestGate
from bcs_scheduler.api.routes import operations
from bcs_scheduler.leadership.gateway import Check
from bcs_scheduler.security.audit import Audit
from bcs_scheduler.security.rates import Rates
from bcs_scheduler.security.tokens import hash_of, read_tokens
from bcs_scheduler.security.watched import WatchedFiles
from store.records import (
    Application,
    Command,
    ConfigMap,
    FailedOutput,
    Framework,
    ManagedApplication,
    ManagedTask,
    Message,
    Placeholder,
    Record,
    Secret,
    Task,
    TaskGroup,
    Transaction,
    Version,
)
from store.records.objects import CustomKind, CustomObject, Event, EventLog, Namespace, PodGroup, Webhook
from store.records.services import Endpoint, Service
from store.records.workloads import Daemonset, Deployment, Revision
from tests.component.apiserver import Api, serving
from tests.unit.api_support import CoreGateway, document

MINE, THEIRS = "mine", "foreign"
HOLDERS = {
    "viewer": ("viewer", '["mine"]'),
    "operator": ("operator", '["mine"]'),
    "admin-of-mine": ("admin", '["mine"]'),
    "viewer-of-all": ("viewer", '"*"'),
    "operator-of-all": ("operator", '"*"'),
    "admin": ("admin", '"*"'),
    "late": ("admin", '"*"\nexpires = 2020-01-01T00:00:00Z'),
}


def entries() -> str:
    return "\n".join(
        f'[[token]]\nname = "{name}"\nhash = "{hash_of(name)}"\nrole = "{role}"\nnamespaces = {namespaces}'
        for name, (role, namespaces) in HOLDERS.items()
    )


def records(ns: str, number: int) -> list[Record]:
    """One of everything in a namespace. Ids say nothing of it, so that only what leaks shows its name."""
    key = f"{ns}/web-{ns}"
    version = Version(namespace=ns, application=f"web-{ns}", name="1", created_at=1.0)
    group = f"{number}.web.{number}.BCS.{number}"
    return [
        Application(namespace=ns, name=f"web-{ns}", type="application", created_at=1.0, updated_at=1.0, version="1"),
        version,
        TaskGroup(
            id=group, namespace=ns, application=f"web-{ns}", index=0, version="1", agent_id="agent-1", created_at=1.0,
            tasks=(Task(id=f"{number}.0.{group}"),),
        ),
        Transaction(
            id=f"transaction-{number}", type="SCALE", namespace=ns, application=f"web-{ns}", status="FINISH",
            created_at=1.0, due_at=1.0, deadline=2.0, finished_at=1.0,
        ),
        FailedOutput(
            id=f"output-{number}", taskgroup=group, namespace=ns, application=f"web-{ns}", name=f"of-{ns}",
            data=zlib.compress(struct.pack(">QBI", 1, 0, len(ns)) + ns.encode()),
        ),
        ConfigMap(namespace=ns, name=f"map-{ns}"),
        Secret(namespace=ns, name=f"secret-{ns}"),
        Command(id=f"command-{number}", type="restart", namespace=ns, application=f"web-{ns}", keep_until=9e9),
        Message(id=str(number), command=f"command-{number}", taskgroup=group, status="success", message=f"of {ns}"),
        Deployment(namespace=ns, name=f"deployment-{ns}", application=f"web-{ns}"),
        Revision(namespace=ns, deployment=f"deployment-{ns}", number=1, version=version),
        Daemonset(namespace=ns, name=f"daemonset-{ns}"),
        PodGroup(namespace=ns, name=f"podgroup-{ns}"),
        ManagedApplication(namespace=ns, name=f"web-{ns}", manager="m", created_at=1.0),
        ManagedTask(namespace=ns, application=f"web-{ns}", name=f"task-{ns}", unit=f"web-{ns}", created_at=1.0),
        Placeholder(namespace=ns, application=f"web-{ns}", name=f"holder-{ns}", state="Asked", created_at=1.0),
        Service(namespace=ns, name=f"service-{ns}"),
        Endpoint(namespace=ns, name=f"service-{ns}"),
        Namespace(name=ns),
        Webhook(namespace=ns, name=f"hook-{ns}"),
        CustomObject(type="shelf", namespace=ns, name=f"object-{ns}", raw='{"metadata": {}}'),
        EventLog(
            number=number,
            events=(
                Event(
                    number=number, at=1.0, object="application", key=key, namespace=ns, reason="created", message="x"
                ),
            ),
        ),
    ]  # fmt: skip


class Guarded:
    """An API that asks for tokens; `audited` are the lines of its audit log."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "tokens.toml"
        self.file.write_text(entries())
        self.gateway = CoreGateway(
            [
                Framework(id="framework-1", created_at=1.0),
                CustomKind(name="shelf", raw='{"spec": {"names": {"plural": "shelf"}}}'),
                *records(MINE, 1),
                *records(THEIRS, 2),
            ]
        )
        self.log = folder / "audit.jsonl"
        self.refused: list[str] = []
        self.now = 1_700_000_000.0
        self.gate = RequestGate(
            tokens=WatchedFiles("tokens", [self.file], lambda: read_tokens(self.file)),
            failures=Rates(1.0, 20, clock=lambda: self.now),
            audit=Audit(self.log),
            refused=self.refused.append,
            clock=lambda: self.now,
            _refusals=Rates(AUDITED_REFUSALS, AUDITED_REFUSALS, clock=lambda: self.now),
        )
        self.api: Api

    def call(self, holder: str, method: str, path: str, **more: Any) -> Any:
        return self.api.call(method, path, headers={"Authorization": f"Bearer {holder}"}, **more)

    @property
    def audited(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    made = Guarded(tmp_path)
    settings = ApiSettings(max_body=20_000, watch_limit=0.2)
    with serving(made.gateway, settings, gate=made.gate) as made.api:
        yield made


def concrete(operation: Operation, ns: str, number: int) -> str:
    """A path of the operation that leads to something of the namespace, where there is such."""
    values = {
        "ns": ns,
        "name": {
            "configmaps": f"map-{ns}", "configmap": f"map-{ns}", "secrets": f"secret-{ns}", "secret": f"secret-{ns}",
            "deployments": f"deployment-{ns}", "deployment": f"deployment-{ns}", "services": f"service-{ns}",
            "daemonsets": f"daemonset-{ns}", "daemonset": f"daemonset-{ns}", "service": f"service-{ns}",
            "endpoints": f"service-{ns}", "endpoint": f"service-{ns}",
        }.get(operation.path.partition("{name}")[0].split("/")[-2 if "{ns}/{name}" not in operation.path else -3], ""),
        "taskgroup": f"{number}.web.{number}.BCS.{number}",
        "id": f"{number}.web.{number}.BCS.{number}",
        "kind": "shelf",
        "instances": "1",
    }  # fmt: skip
    values["name"] = values["name"] or f"web-{ns}"
    if "/outputs/" in operation.path:
        values["id"] = f"output-{number}"
    if "/message/" in operation.path:
        values["id"] = str(number)
    if "/transactions/" in operation.path:
        values["id"] = f"transaction-{number}"
    return re.sub(r"{(\w+)}", lambda found: values.get(found[1], "1"), operation.path)


def parameters(operation: Operation, number: int) -> dict[str, str]:
    """Query parameters without which the operation would not look further."""
    known = {param.name for param in operation.query}
    wanted = {
        "id": f"command-{number}",
        "ips": "10.0.0.9",
        "path": "a",
        "timeoutSeconds": "0",
        "image": "i",
        "url": "u",
    }
    return {name: value for name, value in wanted.items() if name in known}


def reads() -> list[Operation]:
    return [operation for operation in operations() if not operation.write]


def writes() -> list[Operation]:
    return [operation for operation in operations() if operation.write]


def shown(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


# --- every operation has its decision ---------------------------------------------------------------------------


def test_every_exception_is_about_an_operation_that_exists() -> None:
    known = {(operation.method, operation.path) for operation in operations()}
    assert set(EXCEPTIONS) - known == set()


def test_only_a_handful_of_operations_needs_no_token() -> None:
    reads = {operation.path for operation in operations() if required_access(operation).reach == "open"}
    assert reads == {"/healthz", "/readyz", "/version", f"{BASE}/executor/{{file}}"}
    assert all(
        operation.method == "GET" for operation in operations() if required_access(operation).reach in ("open", "named")
    )


def test_readiness_and_health_tell_their_details_to_callers_of_all_namespaces_only(guarded: Guarded) -> None:
    check = Check("store", False, "zk-7.internal:2181 does not answer", "store_gone")
    for checks, status in ([Check("store", True, "fine")], 200), ([check], 503):
        guarded.gateway.ready = checks
        for holder in ("", "nonsense", "viewer", "admin-of-mine", "late"):
            headers = {"Authorization": f"Bearer {holder}"} if holder else {}
            answer = guarded.api.get("/readyz", base="", headers=headers)
            assert (answer.status_code, answer.json()) == (status, {"ready": status == 200}), holder
            health = guarded.api.get("/healthz", base="", headers=headers)
            assert (health.status_code, "internal" in health.text) == (200, False), holder
        for holder in ("viewer-of-all", "admin"):
            answer = guarded.call(holder, "GET", "/readyz", base="")
            assert answer.status_code == status
            assert answer.json()["checks"][0]["message"] == checks[0].message
            assert ("internal" in guarded.call(holder, "GET", "/healthz", base="").text) == (status == 503)


def test_reads_of_files_that_may_hold_secrets_and_of_secrets_are_audited(guarded: Guarded) -> None:
    """Also those that are refused, or that fail. The output of tasks is read without a line."""
    group = "1.web.1.BCS.1"
    for path in (
        f"/taskgroup/{group}/file?path=keys/db",
        f"/taskgroup/{group}/logs?file=keys/db&task=0",
        f"/taskgroup/{group}/logs?file=stdout",
        f"/taskgroup/{group}/logs",
        f"/taskgroup/{group}/files?path=keys",
        f"/namespaces/{MINE}/secrets/secret-{MINE}",
        f"/secret/{MINE}/secret-{MINE}",
        f"/namespaces/{MINE}/configmaps/map-{MINE}",
    ):
        guarded.call("operator", "GET", path)
    guarded.call("viewer", "GET", f"/taskgroup/{group}/file?path=keys/db")
    guarded.call("viewer", "GET", f"/taskgroup/{group}/logs?file=../keys")
    found = [(line["who"], line["operation"], line["status"], line["object"]) for line in guarded.audited]
    secret = {"ns": MINE, "name": f"secret-{MINE}"}
    assert found == [
        ("operator", "download_file", 502, {"id": group, "path": "keys/db"}),
        ("operator", "read_log", 502, {"id": group, "file": "keys/db", "task": "0"}),
        ("operator", "get_secret", 200, secret),
        ("operator", "get_secret", 200, secret),
        ("viewer", "download_file", 403, {"id": group, "path": "keys/db"}),
        ("viewer", "read_log", 403, {"id": group, "file": "../keys"}),
    ]


def test_who_shows_no_token_gets_401_and_no_change(guarded: Guarded) -> None:
    for operation in operations():
        answer = guarded.api.call(operation.method, concrete(operation, MINE, 1), base="", json={})
        if required_access(operation).reach == "open":
            assert answer.status_code in (200, 404), shown(operation)
            continue
        reason = answer.json()["data"]["reason"]
        assert (answer.status_code, reason) in ((401, "unauthenticated"), (429, "too_many_requests")), shown(operation)
        assert answer.status_code == 429 or answer.headers["WWW-Authenticate"].startswith("Bearer ")
    assert guarded.gateway.commands == []


def test_a_viewer_changes_nothing(guarded: Guarded) -> None:
    for operation in writes():
        for holder, query in itertools.product(("viewer", "viewer-of-all"), ({}, {"dryRun": "true"})):
            path = concrete(operation, MINE, 1)
            answer = guarded.call(holder, operation.method, path, base="", json={}, params=query)
            assert answer.status_code == 403, shown(operation)
            assert "needs the role" in answer.json()["message"], shown(operation)
    assert guarded.gateway.commands == []


def test_nobody_changes_what_is_in_another_namespace(guarded: Guarded) -> None:
    body = {"metadata": {"name": f"web-{THEIRS}", "namespace": THEIRS}, "kind": "configmap"}
    for operation in writes():
        for holder in ("operator", "admin-of-mine"):
            path = concrete(operation, THEIRS, 2)
            answer = guarded.call(holder, operation.method, path, base="", json=body, params=parameters(operation, 2))
            assert answer.status_code in (403, 404), (shown(operation), answer.text)
    assert guarded.gateway.commands == []


def test_nothing_of_another_namespace_is_shown(guarded: Guarded) -> None:
    for operation in reads():
        need, path = required_access(operation), concrete(operation, THEIRS, 2)
        holder = "operator" if need.role == "operator" else "viewer"
        answer = guarded.call(holder, "GET", path, base="", params=parameters(operation, 2))
        if need.reach in ("path", "everywhere"):
            assert answer.status_code == 403, (shown(operation), answer.text)
        elif need.reach == "own":
            listing = "{" not in operation.path.replace("{kind}", "")
            assert answer.status_code == (200 if listing else 404), (shown(operation), answer.text)
            assert THEIRS not in answer.text.replace(path, ""), (shown(operation), answer.text)


def test_everything_of_ones_own_namespace_is_shown(guarded: Guarded) -> None:
    lists = 0
    # A question to the core begins a turn, which changes these incomplete records. So such questions come last.
    for operation in sorted(reads(), key=lambda operation: operation.path.endswith("/whatif")):
        need = required_access(operation)
        if need.reach not in ("path", "own"):
            continue
        holder = "operator" if need.role == "operator" else "viewer"
        answer = guarded.call(holder, "GET", concrete(operation, MINE, 1), base="", params=parameters(operation, 1))
        assert answer.status_code not in (401, 403, 500), (shown(operation), answer.text)
        # Kinds and their definitions have no namespace; nothing happens here.
        silent = operation.path.endswith(("/crr", "/customresourcedefinitions", "/events", "/watch"))
        if answer.status_code == 200 and "{" not in operation.path and not silent:
            assert MINE in answer.text, shown(operation)
            lists += 1
    assert lists >= 10


def test_the_admin_of_everything_is_refused_nothing(guarded: Guarded) -> None:
    for operation in operations():
        path = concrete(operation, MINE, 1)
        answer = guarded.call("admin", operation.method, path, base="", json={}, params=parameters(operation, 1))
        assert answer.status_code not in (401, 403, 429, 500), (shown(operation), answer.text)


# --- tokens -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer wrong", "Basic dmlld2VyOg==", "viewer", "Bearer viewer extra",
     "Bearer " + "x" * 9000, "Bearer vi\u00e9wer", "Bearer " + hash_of("viewer")],
    ids=lambda header: header[:20],
)  # fmt: skip
def test_what_is_no_known_token_is_refused(guarded: Guarded, header: str) -> None:
    answer = guarded.api.get("/applications", headers={"Authorization": header.encode("latin-1")} if header else {})
    assert answer.status_code == 401 and answer.json()["code"] == 1405235
    assert guarded.refused == ["unauthenticated"]
    assert "viewer" not in answer.json()["message"]


def test_programs_can_tell_by_the_code_why_they_may_not() -> None:
    """Stable numbers; 1405234 is the original's, for admission."""
    told = {reason: failure.code for reason, failure in errors.TABLE.items() if 1405230 <= failure.code < 1405260}
    assert told == {
        "admission": 1405234,
        "unauthenticated": 1405235,
        "forbidden": 1405236,
        "too_many_requests": 1405237,
        "too_many_open": 1405238,
    }


def test_two_tokens_are_none(guarded: Guarded) -> None:
    with socket.create_connection(("127.0.0.1", int(guarded.api.url.rpartition(":")[2])), 5) as raw:
        head = f"GET {BASE}/applications HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
        raw.sendall(f"{head}Authorization: Bearer viewer\r\nAuthorization: Bearer admin\r\n\r\n".encode())
        assert raw.makefile("rb").readline().split()[1] == b"401"


def test_the_scheme_is_read_as_rfc_9110_says(guarded: Guarded) -> None:
    assert guarded.api.get("/applications", headers={"Authorization": "bEARER   viewer "}).status_code == 200


def test_a_token_ends_at_its_time(guarded: Guarded) -> None:
    answer = guarded.call("late", "GET", "/applications")
    assert answer.status_code == 401 and "expired at 2020-01-01" in answer.json()["message"]
    guarded.now = 1_500_000_000.0
    assert guarded.call("late", "GET", "/applications").status_code == 200


def test_a_changed_file_counts_at_once_and_a_broken_one_not_at_all(guarded: Guarded) -> None:
    tokens = guarded.gate.tokens
    assert tokens is not None
    guarded.file.write_text(entries().replace(hash_of("viewer"), hash_of("renewed")))
    tokens.refresh()
    assert guarded.call("viewer", "GET", "/applications").status_code == 401
    assert guarded.call("renewed", "GET", "/applications").status_code == 200
    guarded.file.write_text("[[token]]\nname = 1")
    tokens.refresh()
    assert guarded.call("renewed", "GET", "/applications").status_code == 200
    assert "token 1: name must be" in tokens.problem
    guarded.file.write_text("")
    tokens.refresh()
    assert guarded.call("renewed", "GET", "/applications").status_code == 200, "cut off, not emptied on purpose"
    assert "there is no entry" in tokens.problem
    guarded.file.unlink()
    tokens.refresh()
    assert guarded.call("renewed", "GET", "/applications").status_code == 200
    guarded.file.write_text(entries())
    tokens.refresh()
    assert guarded.call("renewed", "GET", "/applications").status_code == 401 and not tokens.problem


# --- ways past a namespace --------------------------------------------------------------------------------------


def test_the_document_decides_nothing_that_the_path_does_not(guarded: Guarded) -> None:
    inside = document("x", THEIRS)
    assert guarded.call("operator", "POST", f"/namespaces/{MINE}/applications", json=inside).status_code == 403
    config = {"apiVersion": "v4", "kind": "configmap", "metadata": {"name": "x", "namespace": THEIRS}, "datas": {}}
    assert guarded.call("operator", "POST", "/configmap", json=config).status_code == 403
    for namespace in (None, 1, ["mine"], {"a": "mine"}):
        config["metadata"] = {"name": "x", "namespace": namespace}
        assert guarded.call("operator", "POST", "/configmap", json=config).status_code == 403
    assert guarded.call("operator", "POST", "/configmap", json=[]).status_code in (403, 422)
    config["metadata"] = {"name": "x", "namespace": MINE}
    assert guarded.call("operator", "POST", "/configmap", json=config).status_code == 200
    assert guarded.call("operator-of-all", "POST", "/configmap", json=config | {"metadata": {
        "name": "x", "namespace": THEIRS}}).status_code == 200  # fmt: skip


@pytest.mark.parametrize(
    "path",
    [
        f"/namespaces/{MINE}%2F..%2F{THEIRS}/secrets",
        f"/namespaces/{MINE}/../{THEIRS}/secrets",
        f"/namespaces/{MINE}%2f%2e%2e%2f{THEIRS}/secrets",
        f"/namespaces//{THEIRS}/secrets",
        f"/namespaces/{THEIRS}%00/secrets",
        f"/namespaces/{THEIRS}%20/secrets",
        f"/namespaces/{MINE}%0a{THEIRS}/secrets",
        f"/namespaces/{THEIRS.upper()}/secrets",
        f"/namespaces/{MINE};{THEIRS}/secrets",
        "/namespaces/*/secrets",
        f"/secrets?namespace={THEIRS}",
        f"/secrets?namespace={MINE}&namespace={THEIRS}",
        f"/taskgroups?namespace={THEIRS}",
        f"/transactions/{THEIRS}",
    ],
)
def test_no_path_leads_out_of_a_namespace(guarded: Guarded, path: str) -> None:
    with socket.create_connection(("127.0.0.1", int(guarded.api.url.rpartition(":")[2])), 5) as raw:
        head = f"GET {BASE}{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer viewer\r\n\r\n"
        raw.sendall(head.encode())
        answer = raw.makefile("rb").read()
    assert answer.split()[1] in (b"400", b"403", b"404"), answer
    assert b"secret-foreign" not in answer and b"web-foreign" not in answer


def test_ids_of_others_are_not_there_under_ones_own_path(guarded: Guarded) -> None:
    theirs = "2.web.2.BCS.2"
    mine = f"/namespaces/{MINE}/applications/web-{MINE}"
    refused = [
        ("PUT", f"{mine}/taskgroups/{theirs}/rescheduler", None),
        ("POST", f"{mine}/taskgroups/{theirs}/restart", None),
        ("POST", f"{mine}/taskgroups/{theirs}/message", {"type": "signal", "signal": "HUP"}),
        ("GET", f"/namespaces/{MINE}/taskgroups/{theirs}", None),
        ("GET", f"/transactions/{MINE}/transaction-2", None),
        ("DELETE", f"/transactions/{MINE}/transaction-2?mustExist=true", None),
        ("GET", f"/command/application/{MINE}/web-{MINE}?id=command-2", None),
        ("DELETE", f"/command/application/{MINE}/web-{MINE}?id=command-2&mustExist=true", None),
        ("GET", "/message/2", None),
        ("GET", f"/taskgroup/{theirs}/logs", None),
    ]
    for method, path, body in refused:
        answer = guarded.call("operator", method, path, json=body)
        assert answer.status_code in (404, 422), (path, answer.text)
        assert THEIRS not in answer.text
    assert not [c for c in guarded.gateway.commands if getattr(c, "taskgroup", "") == theirs]


def test_files_that_may_hold_secrets_are_for_operators(guarded: Guarded) -> None:
    """Viewers read what tasks print; the answer for those who may is 502 here, since there is no agent."""
    group = "/taskgroup/1.web.1.BCS.1"
    outputs = ("", "?file=stdout", "?file=stderr", "?file=stderr.2")
    files = ("?file=secrets/password", "?file=stdout/../secrets/password", "?file=./stdout.d", "?file=stdout.x")
    for query in (*outputs, *files):
        for holder in ("viewer", "operator"):
            answer = guarded.call(holder, "GET", f"{group}/logs{query}")
            refused = holder == "viewer" and query in files
            assert (answer.status_code == 403) == refused, (holder, query, answer.text)
    for path in ("secrets/password", "stdout"):
        assert guarded.call("viewer", "GET", f"{group}/file?path={path}").status_code == 403
        assert guarded.call("operator", "GET", f"{group}/file?path={path}").status_code != 403


def test_a_command_reaches_only_taskgroups_of_its_application(guarded: Guarded) -> None:
    body = {
        "apiVersion": "v4", "kind": "Command",
        "spec": {"commandTargetRef": {"kind": "Application", "name": f"web-{MINE}", "namespace": MINE},
                 "taskgroups": ["2.web.2.BCS.2"], "command": ["id"]},
    }  # fmt: skip
    answer = guarded.call("operator", "POST", f"/command/application/{MINE}/web-{MINE}", json=body)
    assert answer.status_code in (404, 409, 422), answer.text
    body["spec"]["commandTargetRef"]["namespace"] = THEIRS  # type: ignore[index]
    answer = guarded.call("operator", "POST", f"/command/application/{MINE}/web-{MINE}", json=body)
    assert answer.status_code in (400, 403, 404, 422), answer.text
    state = guarded.gateway.core.state
    assert not [message for message in state.messages.values() if message.id not in ("1", "2")]


# --- limits -----------------------------------------------------------------------------------------------------


def test_each_holder_has_a_limit_of_its_own(guarded: Guarded) -> None:
    guarded.gate.rates = Rates(0.5, 3, clock=lambda: guarded.now)
    statuses = [guarded.call("viewer", "GET", "/applications").status_code for _ in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    limited = guarded.call("viewer", "GET", "/applications")
    assert limited.headers["Retry-After"] in ("1", "2") and limited.json()["data"]["reason"] == "too_many_requests"
    assert guarded.call("operator", "GET", "/applications").status_code == 200
    assert {guarded.api.get("/version", base="").status_code for _ in range(10)} == {200}


def test_bad_tokens_are_limited_and_good_ones_not_by_them(guarded: Guarded) -> None:
    statuses = [guarded.call(f"guess-{n}", "POST", "/configmap", json={}).status_code for n in range(40)]
    assert statuses == [401] * 20 + [429] * 20
    assert guarded.call("viewer", "GET", "/applications").status_code == 200
    assert len(guarded.audited) == 20 + AUDITED_REFUSALS
    guarded.now += 3.0
    statuses = [guarded.call(f"guess-{n}", "POST", "/configmap", json={}).status_code for n in range(5)]
    assert statuses == [401] * 3 + [429] * 2, "one is told why in each second"


# --- the audit log ----------------------------------------------------------------------------------------------


def test_every_change_that_is_asked_for_has_its_line(guarded: Guarded) -> None:
    config = {"apiVersion": "v4", "kind": "secret", "metadata": {"name": "x", "namespace": MINE}, "datas": {
        "k": {"content": "dmVyeS1zZWNyZXQ="}}}  # fmt: skip
    made = guarded.call("operator", "POST", f"/namespaces/{MINE}/secrets", json=config)
    assert made.status_code == 200, made.text
    again = guarded.call("operator", "POST", f"/namespaces/{MINE}/secrets?dryRun=true", json=config)
    guarded.call("viewer", "DELETE", f"/namespaces/{MINE}/secrets/x")
    guarded.call("nobody-knows-me", "DELETE", f"/namespaces/{MINE}/secrets/x%0a%22x")
    guarded.call("operator", "GET", f"/namespaces/{MINE}/secrets")
    first, second, third, fourth = guarded.audited
    expected = {
        "who": "operator", "by": "token", "role": "operator", "address": "127.0.0.1", "method": "POST",
        "path": f"{BASE}/namespaces/{MINE}/secrets", "operation": "create_secret",
        "object": {"ns": MINE, "name": "x", "kind": "secret"},
        "dryRun": False, "status": 200, "code": 0, "reason": "",
    }  # fmt: skip
    assert {key: first[key] for key in expected} == expected
    assert first["cause"] == made.headers["X-Request-Id"] and first["at"].startswith("2023-11-14T")
    assert (second["status"], second["code"], second["reason"], second["dryRun"]) == (409, 1405201, "exists", True)
    assert second["cause"] == again.headers["X-Request-Id"]
    assert (third["who"], third["status"], third["reason"]) == ("viewer", 403, "forbidden")
    assert (fourth["who"], fourth["status"], fourth["by"]) == ("unknown", 401, "")
    written = guarded.log.read_text()
    assert "dmVyeS1zZWNyZXQ" not in written and "nobody-knows-me" not in written and "sha256" not in written
    assert guarded.log.stat().st_mode & 0o777 == 0o600


def test_the_audit_log_names_what_a_change_is_about(guarded: Guarded) -> None:
    guarded.call("admin", "POST", "/agentsettings/disable?ips=10.0.0.8,10.0.0.9")
    guarded.call("admin", "POST", "/agentsettings", json=[{"innerIP": "10.0.0.8"}, {"InnerIP": 1}, 1])
    guarded.call("admin", "PUT", "/agentsettings/extendedresource", json={"InnerIP": "10.0.0.7", "Name": "n"})
    guarded.call("operator", "DELETE", f"/command/application/{MINE}/web-{MINE}?id=command-1")
    guarded.call("operator", "POST", "/configmap", json={"Kind": "configmap", "Metadata": {"NAME": "x" * 2000}})
    guarded.call("operator", "POST", f"/namespaces/{MINE}/services", json=["no", "document"])
    assert [line["object"] for line in guarded.audited] == [
        {"ips": "10.0.0.8,10.0.0.9"},
        {"ips": "10.0.0.8"},
        {"ips": "10.0.0.7"},
        {"ns": MINE, "name": f"web-{MINE}", "id": "command-1"},
        {"name": "x" * 1024, "kind": "configmap"},
        {"ns": MINE},
    ]


# --- without tokens ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:8080"}, 200),
        ({"Host": "[::1]:8080"}, 200),
        ({"Host": "evil.example.org"}, 403),
        ({"Host": "[::1:8080"}, 403),
        ({"Host": "127.0.0.1.evil.example.org"}, 403),
        ({"Host": "127.0.0.1:1", "Origin": "http://[::1"}, 403),
        ({"Host": "127.0.0.1:1", "Origin": "127.0.0.1:1"}, 403),
        ({"Host": "evil.example.org", "Origin": "http://evil.example.org"}, 403),
        ({"Host": "127.0.0.1:1", "Origin": "http://evil.example.org"}, 403),
        ({"Host": "127.0.0.1:1", "Origin": "null"}, 403),
        ({"Host": "", "Origin": "null"}, 403),
        ({"Host": "127.0.0.1:1", "Origin": "http://127.0.0.1:1"}, 200),
        ({"Authorization": "Bearer of-another-cluster"}, 200),
    ],
)
def test_pages_of_others_do_not_act_for_the_user_of_this_machine(headers: dict[str, str], status: int) -> None:
    config = {"apiVersion": "v4", "kind": "configmap", "metadata": {"name": "x", "namespace": MINE}, "datas": {}}
    with serving(CoreGateway(), gate=RequestGate(hosts=frozenset({"localhost"}))) as api:
        assert api.call("POST", "/configmap", json=config, headers=headers).status_code == status
