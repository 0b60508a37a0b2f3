"""`bcs create` of every kind, with the options of kubectl, against a real API over a bare core."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from tests.component.apiserver import serving
from tests.component.cli.standin import write
from tests.unit.api_support import CoreGateway, document

KUBECTL: dict[str, tuple[tuple[str, ...], str]] = {
    "deployment": (("deploy", "web", "--image=nginx:1", "-r", "3", "--port=80"), "deployment/web"),
    "program": (("deployment", "web", "--image=busybox", "--replicas=2", "--", "date", "-u"), "deployment/web"),
    "job": (("job", "web", "--image=busybox", "--", "sh", "-c", "exit 3"), "application/web"),
    "namespace": (("ns", "team"), "namespace/team"),
    "service": (("service", "clusterip", "web", "--tcp=80:8080", "--tcp", "443"), "service/web"),
    "configmap": (("cm", "motd", "--from-literal=text=hello"), "configmap/motd"),
    "secret": (("secret", "generic", "key", "--from-literal=a=hush"), "secret/key"),
    "priorityclass": (
        ("pc", "online", "--value=7", "--description=d", "--preemption-policy=Never"),
        "priorityclass/online",
    ),
}


@pytest.fixture
def gateway(bcs: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[CoreGateway]:
    """The last to say where the server is."""
    gateway = CoreGateway()
    gateway.connect()
    gateway.offer(1, cpus=64, mem=65536)
    with capture_logs(), serving(gateway) as api:
        monkeypatch.setenv("BCS_SERVER", api.url)
        monkeypatch.setenv("BCS_NAMESPACE", "shop")
        yield gateway


def made(bcs: Any, name: str) -> Any:
    result = bcs("get", name, "-o", "yaml")
    assert result.code == 0, result.err
    return yaml.safe_load(result.out)


@pytest.mark.parametrize("name", KUBECTL)
def test_every_kind_is_created_as_kubectl_does(
    gateway: CoreGateway, bcs: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.delenv("BCS_OUTPUT")
    words, created = KUBECTL[name]
    planned = bcs("create", *words[:2], "--dry-run=server", *words[2:])
    assert planned.code == 0 and f"{created} created (dry run)" in planned.out.lower(), planned.err
    printed = bcs("create", *words[:2], "--dry-run=client", "-o", "yaml", *words[2:])
    assert bcs("get", created).code == 3, "a dry run creates nothing"
    file = tmp_path / "printed.yaml"
    file.write_text(printed.out)
    result = bcs("create", *words)
    assert result.code == 0 and result.out.lower().startswith(f"{created} created"), result.err
    again = bcs("create", *words)
    assert again.code == 6 and "already" in again.err, "an object that exists is refused"
    assert bcs("diff", "-f", str(file)).code == 0, "the printed document is the object"
    stale = bcs("create", "-f", str(file))
    assert stale.code == 6 and "already" in stale.err


def test_the_options_of_kubectl_have_their_effect(gateway: CoreGateway, bcs: Any) -> None:
    for name in ("deployment", "service", "secret", "priorityclass"):
        assert bcs("create", *KUBECTL[name][0]).code == 0
    found = made(bcs, "deployment/web")["spec"]
    (container,) = found["template"]["spec"]["containers"]
    assert found["instance"] == 3 and container["image"] == "nginx:1"
    assert [(port["name"], port["containerPort"]) for port in container["ports"]] == [("port80", 80)]
    assert made(bcs, "service/web")["metadata"]["labels"] == {"app": "web"}
    service = made(bcs, "service/web")["spec"]
    assert service["selector"] == {"app": "web"}
    assert [(port["name"], port["servicePort"]) for port in service["ports"]] == [("port8080", 80), ("port443", 443)]
    assert list(made(bcs, "secret/key")["datas"]) == ["a"]
    found = made(bcs, "pc/online")
    assert (found["value"], found["description"], found["preemptionPolicy"]) == (7, "d", "Never")


def test_words_after_the_dashes_are_program_and_arguments(gateway: CoreGateway, bcs: Any) -> None:
    for name, words, program, arguments in (
        ("a", ("--image", "x", "--", "date", "-u"), "date", ["-u"]),
        ("b", ("--image", "x", "--", "-u", "y"), "", ["-u", "y"]),
        ("c", ("--command", "serve", "--", "now"), "serve", ["now"]),
        ("d", ("--", "sh", "-c", "true"), "sh", ["-c", "true"]),
    ):
        assert bcs("create", "job", name, *words).code == 0
        found = made(bcs, f"app/{name}")
        (container,) = found["spec"]["template"]["spec"]["containers"]
        assert (container["command"], container["args"]) == (program, arguments)
        assert found["restartPolicy"]["policy"] == "Never"


def test_documents_that_must_be_new(gateway: CoreGateway, bcs: Any, tmp_path: Path) -> None:
    file = write(tmp_path, document("web"), document("shop"), name="both.yaml")
    assert bcs("create", "-f", file, "--dry-run").code == 0
    assert not gateway.core.state.applications
    assert bcs("create", "-f", file).code == 0
    assert set(gateway.core.state.applications) == {"shop/web", "shop/shop"}
    more = write(tmp_path, document("web"), document("third"), name="more.yaml")
    result = bcs("create", "-f", more)
    assert result.code == 6 and "application/web" in result.err and "1 of 2 documents failed" in result.err
    assert "shop/third" in gateway.core.state.applications
    kind = {"kind": "crr", "spec": {"names": {"kind": "Database"}}}
    database = {"kind": "Database", "apiVersion": "v1", "metadata": {"name": "orders"}}
    file = write(tmp_path, kind, database, name="custom.yaml")
    assert bcs("create", "-f", file).code == 0
    assert bcs("apply", "-f", file).code == 0
    again = bcs("create", "-f", file)
    assert again.code == 6 and "orders exists already" in again.err and "Database exists already" in again.err


def test_options_before_the_kind_are_refused(gateway: CoreGateway, bcs: Any, tmp_path: Path) -> None:
    file = write(tmp_path, document("web"))
    for words in (("--dry-run", "app", "web", "--image", "x"), ("-f", file, "app", "web", "--image", "x")):
        result = bcs("create", *words)
        assert result.code == 2 and "after the kind: bcs create application" in result.err
    assert bcs("create", "--dry-run").code == 2
    assert not gateway.core.state.applications


def test_kinds_and_types_that_are_not_made_here_name_the_way(bcs: Any) -> None:
    for words, way in (
        (("cronjob", "x", "--image", "y"), "a timer of systemd"),
        (("job", "x", "--from=cronjob/y"), "a timer of systemd"),
        (("job", "x", "--image=a", "--image=b"), "one image"),
        (("ds", "x"), "bcs examples daemonset.json"),
        (("pod", "x"), "bcs run IMAGE"),
        (("queue", "x"), "bcs queue create"),
        (("secret", "tls", "x"), "tls.crt=FILE"),
        (("secret", "tls", "x", "--cert", "a", "--key", "b"), "tls.crt=FILE"),
        (("secret", "docker-registry", "x", "--docker-server", "a"), "registry-login.json"),
        (("service", "externalname", "x", "--external-name", "a"), "bcs get endpoints"),
        (("service", "nodeport", "x", "--tcp=80", "--node-port", "1"), "bcs get endpoints"),
    ):
        result = bcs("create", *words)
        assert result.code == 2 and way in " ".join(result.err.split()), words
    for words in (
        ("service", "x"),
        ("service", "x", "y", "--tcp=80"),
        ("service", "x", "--tcp=http"),
        ("service", "x", "--port=http:b"),
        ("priorityclass", "x"),
        ("configmap", "generic", "x", "--from-literal=a=b"),
    ):
        assert bcs("create", *words).code == 2, words
