"""Admission webhooks, asked for real: what they may change, what they may refuse, and how they may fail."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bcs_scheduler.api.admission import Admission, identify, kinds_of
from bcs_scheduler.api.routes import operations
from bcs_scheduler.net.addresses import is_local
from tests.component.apiserver import Api, Switchboard, paths, serving
from tests.unit.api_support import CoreGateway, document

APPS, CONFIGMAPS, SECRETS = "/namespaces/shop/applications", "/namespaces/shop/configmaps", "/namespaces/shop/secrets"
Json = dict[str, Any]
Answer = Callable[["Hooks", BaseHTTPRequestHandler, Json], None]


class Hooks:
    """A server of webhooks: each path is answered by a function; `seen` has (path, document, headers)."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.seen: list[tuple[str, Json, dict[str, str]]] = []
        self.ending = threading.Event()
        hooks = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                hooks.seen.append((self.path, json.loads(content), {k.lower(): v for k, v in self.headers.items()}))
                hooks.answers[self.path](hooks, self, json.loads(content))

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def url(self, path: str, scheme: str = "http", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    def close(self) -> None:
        self.ending.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def say(handler: BaseHTTPRequestHandler, status: int, body: bytes = b"", **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def answer(status: int, body: Any = None, **headers: str) -> Answer:
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    return lambda hooks, handler, given: say(handler, status, content, **headers)


def label(key: str, value: str) -> Answer:
    """Adds a label to whatever comes."""

    def work(hooks: Hooks, handler: BaseHTTPRequestHandler, given: Json) -> None:
        given["metadata"].setdefault("labels", {})[key] = value
        say(handler, 200, json.dumps(given).encode())

    return work


def put(*path: str, value: Any) -> Answer:
    """Puts a value somewhere into whatever comes."""

    def work(hooks: Hooks, handler: BaseHTTPRequestHandler, given: Json) -> None:
        inner = given
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        say(handler, 200, json.dumps(given).encode())

    return work


def hang(hooks: Hooks, handler: BaseHTTPRequestHandler, given: Json) -> None:
    hooks.ending.wait(30.0)
    handler.close_connection = True


def trickle(hooks: Hooks, handler: BaseHTTPRequestHandler, given: Json) -> None:
    """Never silent for long, and never done."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    while not hooks.ending.wait(0.02):
        handler.wfile.write(b" ")


def flood(hooks: Hooks, handler: BaseHTTPRequestHandler, given: Json) -> None:
    handler.send_response(200)
    handler.end_headers()
    while not hooks.ending.is_set():
        handler.wfile.write(b" " * 65536)


def garbage(hooks: Hooks, handler: BaseHTTPRequestHandler, given: Json) -> None:
    handler.wfile.write(b"\x00\x01 what is this\r\n\r\n")
    handler.close_connection = True


def drop(hooks: Hooks, handler: BaseHTTPRequestHandler, given: Json) -> None:
    handler.close_connection = True


class Calls:
    """What metrics are told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def __call__(self, webhook: str, outcome: str, seconds: float) -> None:
        assert seconds >= 0
        self.told.append((webhook, outcome))


CALLS = Calls()


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    made = Hooks()
    yield made
    made.close()


@pytest.fixture(scope="module")
def switched() -> Iterator[tuple[Switchboard, Api]]:
    switchboard = Switchboard()
    admission = Admission(local=True, total=20.0, limit=50_000, asked=CALLS)
    with serving(switchboard, admission=admission) as api:
        yield switchboard, api


@pytest.fixture
def api(switched: tuple[Switchboard, Api], gateway: CoreGateway) -> Api:
    switched[0].gateway = gateway
    CALLS.told.clear()
    return switched[1]


def hook(url: str, name: str = "hook", **more: Any) -> Json:
    return {"name": name, "failurePolicy": "Fail", "clientConfig": {"url": url}, "timeoutSeconds": 20, **more}


def webhook(
    *hooks: Json, name: str = "conf", kind: str = "Application", operation: str = "create", **more: Any
) -> Json:
    return {
        "kind": "admissionwebhook",
        "metadata": {"name": name, "namespace": "system"},
        "resourcesRef": {"operation": operation, "kind": kind},
        "admissionWebhooks": list(hooks),
        **more,
    }


def configure(api: Api, body: Json) -> None:
    response = api.call("POST", "/admissionwebhook", json=body)
    assert response.status_code == 200, response.text


def outcome(response: Any) -> tuple[int, str]:
    found = response.json()
    return response.status_code, "" if found["result"] else found["data"]["reason"]


def config_map(**metadata: Any) -> Json:
    return {"kind": "configmap", "metadata": {"name": "conf", **metadata}}


# --- what they do -----------------------------------------------------------------------------------------------------


def test_each_receives_what_the_one_before_left(api: Api, gateway: CoreGateway, hooks: Hooks) -> None:
    hooks.answers = {f"/{n}": label(f"l{n}", n) for n in ("one", "two", "three")}
    configure(api, webhook(hook(hooks.url("/three")), name="b"))
    configure(api, webhook(hook(hooks.url("/one"), "one"), hook(hooks.url("/two"), "two"), name="a"))
    given = document()
    del given["metadata"]["namespace"]
    assert outcome(api.call("POST", APPS, json=given)) == (202, "")
    assert [path for path, _, _ in hooks.seen] == ["/one", "/two", "/three"]
    assert [seen["metadata"]["namespace"] for _, seen, _ in hooks.seen] == ["shop"] * 3
    assert hooks.seen[2][1]["metadata"]["labels"] == {"app": "web", "lone": "one", "ltwo": "two"}
    stored = gateway.core.state.applications["shop/web"]
    assert stored.labels == {"app": "web", "lone": "one", "ltwo": "two", "lthree": "three"}
    raw = next(iter(gateway.core.state.versions_of("shop/web").values())).raw
    assert '"lthree"' in raw
    assert CALLS.told == [("system/a/one", "changed"), ("system/a/two", "changed"), ("system/b/hook", "changed")]


def test_who_judges_sees_what_all_who_may_change_have_left(api: Api, gateway: CoreGateway, hooks: Hooks) -> None:
    hooks.answers = {"/judge": answer(204), "/more": put("spec", "instance", value=50), "/label": label("by", "b2")}
    configure(api, webhook(hook(hooks.url("/judge")), name="a1", validating=True))
    configure(api, webhook(hook(hooks.url("/label")), name="b2"))
    configure(api, webhook(hook(hooks.url("/more")), name="b1"))
    assert outcome(api.call("POST", APPS, json=document(instance=5))) == (202, "")
    assert [path for path, _, _ in hooks.seen] == ["/more", "/label", "/judge"]
    judged = hooks.seen[-1][1]
    assert (judged["spec"]["instance"], judged["metadata"]["labels"]["by"]) == (50, "b2")
    assert gateway.core.state.applications["shop/web"].instances == 50
    hooks.answers["/judge"] = answer(403, b"fifty is too many")
    assert outcome(api.call("POST", APPS, json=document(name="other"))) == (400, "admission")
    assert "shop/other" not in gateway.core.state.applications


def test_a_webhook_is_told_what_it_is_asked_about(api: Api, hooks: Hooks) -> None:
    hooks.answers["/"] = answer(204)
    configure(api, webhook(hook(hooks.url("/")), kind="configmap"))
    response = api.call("POST", f"{CONFIGMAPS}?dryRun=true", json=config_map())
    assert outcome(response) == (200, "")
    (_, seen, headers) = hooks.seen[0]
    assert seen == config_map(namespace="shop")
    assert headers["x-bcs-operation"] == "Create" and headers["x-bcs-dry-run"] == "true"
    assert headers["x-request-id"] == response.headers["X-Request-Id"]
    assert headers["content-type"] == "application/json"


@pytest.mark.parametrize("unchanged", [answer(204), answer(200), answer(200, b"null"), answer(200, b"  \n")])
def test_an_empty_answer_changes_nothing(api: Api, gateway: CoreGateway, hooks: Hooks, unchanged: Answer) -> None:
    hooks.answers["/"] = unchanged
    configure(api, webhook(hook(hooks.url("/"))))
    assert outcome(api.call("POST", APPS, json=document())) == (202, "")
    assert gateway.core.state.applications["shop/web"].labels == {"app": "web"}
    assert CALLS.told == [("system/conf/hook", "unchanged")]


def test_only_matching_operations_kinds_and_namespaces_are_asked_about(api: Api, hooks: Hooks) -> None:
    hooks.answers = dict.fromkeys(("/update", "/process", "/in", "/notin", "/other"), answer(204))
    configure(api, webhook(hook(hooks.url("/update")), name="a", operation="UPDATE"))
    configure(api, webhook(hook(hooks.url("/process")), name="b", kind="process"))
    selectors = {
        "in": {"operator": "In", "values": ["shop", "x"]},
        "notin": {"operator": "NotIn", "values": ["shop"]},
        "other": {"operator": "NotIn", "values": ["y"]},
    }
    named = [hook(hooks.url(f"/{name}"), name, namespaceSelector=given) for name, given in selectors.items()]
    configure(api, webhook(*named, name="c"))
    assert outcome(api.call("POST", APPS, json=document())) == (202, "")
    assert [path for path, _, _ in hooks.seen] == ["/in", "/other"]
    hooks.seen.clear()
    changed = document(env=[{"name": "A", "value": "b"}])
    busy = {"onConflict": "fail"}  # the first one still launches
    assert api.call("PUT", APPS, json=changed, params=busy).status_code == 409
    assert api.call("PUT", f"{APPS}/web", json=changed, params=busy).status_code == 409
    assert [path for path, _, _ in hooks.seen] == ["/update", "/update"]


def test_a_process_is_asked_about_on_either_route(api: Api, hooks: Hooks) -> None:
    hooks.answers["/"] = answer(403, b"no")
    configure(api, webhook(hook(hooks.url("/")), kind="Process", validating=True))
    given = document()
    given["kind"] = "process"
    given["spec"]["template"]["spec"] = {"processes": [{"procName": "p", "startCmd": "sleep 1"}]}
    assert outcome(api.call("POST", APPS, json=given)) == (400, "admission")
    assert outcome(api.call("POST", "/namespaces/shop/processes", json=given)) == (400, "admission")


def test_a_validating_webhook_lets_through_or_refuses_with_its_words(
    api: Api, gateway: CoreGateway, hooks: Hooks
) -> None:
    hooks.answers = {"/yes": label("ignored", "yes"), "/no": answer(422, {"message": "too big\x00\nfor us"})}
    configure(api, webhook(hook(hooks.url("/yes")), name="a", validating=True))
    configure(api, webhook(hook(hooks.url("/no"), "size", failurePolicy="Ignore"), name="b", validating=True))
    response = api.call("POST", APPS, json=document())
    assert outcome(response) == (400, "admission") and response.json()["code"] == 1405234
    assert "admission webhook system/b/size refuses application shop/web: too big  for us" in response.text
    assert gateway.core.state.applications == {}
    assert CALLS.told == [("system/a/hook", "allowed"), ("system/b/size", "refused")]
    hooks.answers["/no"] = answer(200)
    assert outcome(api.call("POST", APPS, json=document())) == (202, "")
    assert gateway.core.state.applications["shop/web"].labels == {"app": "web"}


def test_what_a_webhook_makes_is_validated_like_a_users_document(api: Api, gateway: CoreGateway, hooks: Hooks) -> None:
    hooks.answers["/"] = put("spec", "instance", value=-1)
    configure(api, webhook(hook(hooks.url("/"), failurePolicy="Ignore")))
    response = api.call("POST", APPS, json=document())
    assert outcome(response) == (422, "invalid") and paths(response) == {"$.spec.instance"}
    assert "after changes by admission webhook system/conf/hook" in response.json()["message"]
    assert gateway.core.state.applications == {}


def test_a_webhook_may_make_a_document_complete(api: Api, gateway: CoreGateway, hooks: Hooks) -> None:
    hooks.answers["/"] = put("spec", "instance", value=3)
    configure(api, webhook(hook(hooks.url("/"))))
    given = document()
    del given["spec"]["instance"]
    assert outcome(api.call("POST", APPS, json=given)) == (202, "")
    assert gateway.core.state.applications["shop/web"].instances == 3


# --- how they fail ----------------------------------------------------------------------------------------------------

FAILURES: list[tuple[str, Answer, str]] = [
    ("hanging", hang, "no answer within 0.4 s"),
    ("slow", trickle, "no answer within 0.4 s"),
    ("huge", flood, "the answer exceeds 50000 bytes"),
    ("no HTTP", garbage, "the answer is not HTTP"),
    ("dropped", drop, "the answer is not HTTP"),
    ("an error", answer(500, b"secret words"), "HTTP 500"),
    ("a refusal by one that changes", answer(403), "HTTP 403"),
    ("a redirect", answer(302, None, Location="http://127.0.0.1:1/"), "redirects are not followed"),
    ("no JSON", answer(200, b"{"), "the answer is not JSON"),
    ("no document", answer(200, b"[1]"), "the answer is not a document"),
    ("nested", answer(200, b"[" * 20_000), "the answer is nested more than 64 levels deep"),
    ("twice", answer(200, b'{"a": 1, "a": 2}'), "occurs twice"),
    ("another name", put("metadata", "name", value="other"), "the answer is application shop/other"),
    ("another namespace", put("metadata", "namespace", value="system"), "the answer is application system/web"),
    ("another kind", put("kind", value="process"), "the answer is process shop/web"),
    ("a hidden name", put("metadata", "Name", value="other"), "a document without an identity"),
    ("no metadata", put("metadata", value=None), "a document without an identity"),
]


@pytest.mark.parametrize(("behaviour", "words"), [case[1:] for case in FAILURES], ids=[case[0] for case in FAILURES])
def test_a_failing_webhook_refuses_or_is_passed_over(
    api: Api, gateway: CoreGateway, hooks: Hooks, behaviour: Answer, words: str
) -> None:
    hooks.answers = {"/bad": behaviour, "/good": label("good", "yes")}
    bound = {"timeoutSeconds": 0.4} if behaviour in (hang, trickle) else {}
    configure(api, webhook(hook(hooks.url("/bad"), "bad", **bound), hook(hooks.url("/good"), "good")))
    response = api.call("POST", APPS, json=document())
    assert outcome(response) == (400, "admission"), response.text
    assert "admission webhook system/conf/bad is required for application shop/web and failed: " in response.text
    assert words in response.json()["message"] and "secret words" not in response.text
    assert CALLS.told == [("system/conf/bad", "failed")]
    assert gateway.core.state.applications == {}

    lenient = webhook(hook(hooks.url("/bad"), "bad", failurePolicy="Ignore", **bound), hook(hooks.url("/good"), "good"))
    assert api.call("PUT", "/admissionwebhook", json=lenient).status_code == 200
    assert outcome(api.call("POST", APPS, json=document())) == (202, "")
    assert gateway.core.state.applications["shop/web"].labels == {"app": "web", "good": "yes"}
    assert CALLS.told[1:] == [("system/conf/bad", "failed"), ("system/conf/good", "changed")]


def test_all_webhooks_of_a_request_share_one_bound(gateway: CoreGateway, hooks: Hooks) -> None:
    switchboard = Switchboard()
    switchboard.gateway = gateway
    hooks.answers["/"] = hang
    CALLS.told.clear()
    patient = [hook(hooks.url("/"), f"h{n}", failurePolicy="Ignore") for n in range(4)]
    with serving(switchboard, admission=Admission(local=True, total=2.0, asked=CALLS)) as api:
        configure(api, webhook(*patient))
        assert outcome(api.call("POST", APPS, json=document())) == (202, "")
    assert len(hooks.seen) == 1 and [told for _, told in CALLS.told] == ["failed"] * 4


def test_nobody_there(api: Api, hooks: Hooks) -> None:
    port = hooks.port
    hooks.server.socket.close()
    configure(api, webhook(hook(f"http://127.0.0.1:{port}/")))
    response = api.call("POST", APPS, json=document())
    assert outcome(response) == (400, "admission") and "cannot be reached" in response.text
    body = webhook(hook("http://no-such-host.invalid/"))
    assert api.call("PUT", "/admissionwebhook", json=body).status_code == 200
    response = api.call("POST", APPS, json=document())
    assert outcome(response) == (400, "admission") and "cannot be reached" in response.text


def test_a_webhook_that_waits_holds_nobody_else_up(api: Api, hooks: Hooks) -> None:
    hooks.answers["/"] = hang
    configure(api, webhook(hook(hooks.url("/"))))
    second = Api(api.url)
    waiting = threading.Thread(target=lambda: second.call("POST", APPS, json=document()))
    waiting.start()
    assert outcome(api.call("POST", CONFIGMAPS, json=config_map())) == (200, "")
    assert waiting.is_alive() and CALLS.told == [], "the other request still waits for its webhook"
    hooks.ending.set()
    waiting.join()
    second.close()


# --- https ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Of the name localhost, signed by itself."""
    folder = tmp_path_factory.mktemp("tls")
    key, found = folder / "key.pem", folder / "certificate.pem"
    subject = ["-subj", "/CN=test", "-addext", "subjectAltName=DNS:localhost"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject]
    subprocess.run([*command, "-keyout", str(key), "-out", str(found)], check=True, capture_output=True)
    return key, found


@pytest.fixture
def secure(hooks: Hooks, certificate: tuple[Path, Path]) -> Hooks:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate[1], certificate[0])
    hooks.server.socket = context.wrap_socket(hooks.server.socket, server_side=True)
    hooks.answers["/"] = label("tls", "yes")
    return hooks


def test_certificates_must_be_signed_by_the_authority_that_is_given(
    api: Api, gateway: CoreGateway, secure: Hooks, certificate: tuple[Path, Path]
) -> None:
    bundle = b64encode(certificate[1].read_bytes()).decode()
    trusted = {"url": secure.url("/", "https", "localhost"), "caBundle": bundle}
    untrusted = {"url": trusted["url"]}
    misnamed = {**trusted, "url": secure.url("/", "https")}
    plain = {"url": secure.url("/")}
    configure(api, webhook(hook("", clientConfig=untrusted)))
    for config in (untrusted, misnamed, plain):
        body = webhook(hook("", clientConfig=config))
        assert api.call("PUT", "/admissionwebhook", json=body).status_code == 200
        response = api.call("POST", APPS, json=document())
        assert outcome(response) == (400, "admission"), (config, response.text)
    body = webhook(hook("", clientConfig=trusted))
    assert api.call("PUT", "/admissionwebhook", json=body).status_code == 200
    assert outcome(api.call("POST", APPS, json=document())) == (202, "")
    assert gateway.core.state.applications["shop/web"].labels["tls"] == "yes"


# --- what must not leak or be got around ------------------------------------------------------------------------------


def test_secrets_are_never_sent(api: Api, hooks: Hooks) -> None:
    assert outcome(api.call("POST", "/admissionwebhook", json=webhook(hook(hooks.url("/")), kind="secret"))) == (
        422,
        "invalid",
    )
    assert not any("secret" in kinds_of(operation) for operation in operations())


def test_local_addresses_are_refused_by_default(gateway: CoreGateway, hooks: Hooks) -> None:
    hooks.answers["/"] = answer(204)
    with serving(gateway) as api:
        for host in ("127.0.0.1", "localhost", "0.0.0.0", "2130706433"):
            body = webhook(hook(hooks.url("/", host=host)), name=f"h{host.replace('.', '')}")
            configure(api, body)
            response = api.call("POST", APPS, json=document())
            assert outcome(response) == (400, "admission") and "which webhooks.local does not allow" in response.text
            api.call("DELETE", f"/admissionwebhook/system/{body['metadata']['name']}")
    assert hooks.seen == []


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("169.254.169.254", True),
        ("fe80::1%eth0", True),
        ("0.0.0.0", True),
        ("::", True),
        ("224.0.0.1", True),
        ("ff0e::1", True),
        ("240.0.0.1", True),
        ("fd00:ec2::254", True),
        ("fd20:ce::254", True),
        ("100.100.100.200", True),
        ("192.0.0.192", True),
        ("168.63.129.16", True),
        ("::ffff:169.254.169.254", True),
        ("::ffff:100.100.100.200", True),
        ("64:ff9b::7f00:1", True),
        ("64:ff9b::a9fe:a9fe", True),
        ("64:ff9b:1::7f00:1", True),
        ("2002:7f00:1::", True),
        ("2002:a9fe:a9fe::1", True),
        ("::127.0.0.1", True),
        ("::ffff:0:7f00:1", True),
        ("fec0::1", True),
        ("2001:db8::1", True),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", True),
        ("10.0.0.1", False),
        ("172.31.255.1", False),
        ("fd12:3456::1", False),
        ("2606:4700::1111", False),
        ("64:ff9b::808:808", False),
        ("2002:808:808::1", False),
        ("192.168.1.1", False),
        ("8.8.8.8", False),
        ("::ffff:8.8.8.8", False),
    ],
)
def test_what_a_local_address_is(address: str, local: bool) -> None:
    assert is_local(address) is local


@pytest.mark.parametrize("spelt", ["kind", "Kind", "KIND"])
@pytest.mark.parametrize("inner", ["name", "Name"])
def test_spelling_gets_nobody_around_a_webhook(api: Api, hooks: Hooks, spelt: str, inner: str) -> None:
    """The routes read keys in any case, so must admission."""
    hooks.answers["/"] = answer(403, b"no")
    configure(api, webhook(hook(hooks.url("/")), validating=True))
    given = document()
    metadata = {inner: "web", "namespace": "shop"}
    given = {key: value for key, value in given.items() if key not in ("kind", "metadata")}
    given = {**given, spelt: "application", "metadata": metadata}
    assert outcome(api.call("POST", APPS, json=given)) == (400, "admission")
    del given["metadata"]
    assert outcome(api.call("POST", APPS, json={**given, "METADATA": metadata})) == (400, "admission")


@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        {},
        {"kind": "application"},
        {"kind": "application", "metadata": None},
        {"kind": "application", "metadata": {"name": ""}},
        {"kind": "application", "metadata": {"name": 7}},
        {"kind": "application", "metadata": {"name": "a", "NAME": "b"}},
        {"kind": "application", "Kind": "process", "metadata": {"name": "a"}},
        {"kind": ["application"], "metadata": {"name": "a"}},
    ],
)
def test_what_has_no_identity_is_refused_by_the_route(api: Api, hooks: Hooks, given: Any) -> None:
    hooks.answers["/"] = answer(403, b"no")
    configure(api, webhook(hook(hooks.url("/")), validating=True))
    assert identify(given, "shop") is None
    assert outcome(api.call("POST", APPS, data=json.dumps(given), headers={"Content-Type": "application/json"})) == (
        422,
        "invalid",
    )
    assert hooks.seen == []


def test_every_route_that_takes_documents_asks() -> None:
    asking = {(o.method, o.path.removeprefix("/v4/scheduler/mesos")) for o in operations() if kinds_of(o)}
    expected = {
        (method, path) for path in (APPS, CONFIGMAPS, "/namespaces/shop/processes") for method in ("POST", "PUT")
    }
    named = {(method, path.replace("shop", "{ns}")) for method, path in expected}
    assert named | {
        ("POST", "/configmap"),
        ("PUT", "/configmap"),
        ("PUT", f"{APPS.replace('shop', '{ns}')}/{{name}}"),
    } <= (asking)
    bodies = {o.body for o in operations() if o.method in ("POST", "PUT") and isinstance(o.body, type)}
    silent = {b.__name__ for b in bodies if issubclass(b, msgspec.Struct) and "metadata" in b.__struct_fields__} - {
        o.body.__name__ for o in operations() if kinds_of(o)
    }
    assert silent == {
        "SecretDocument",
        "NamespaceDocument",
        "QueueDocument",
        "PodGroupDocument",
        "PriorityClassDocument",
        "WebhookDocument",
        "CustomKindDocument",
        "DefinitionDocument",
        "CustomObjectDocument",
    }
