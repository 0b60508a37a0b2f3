"""TLS, tokens, client certificates and the audit log of real scheduler processes, and `bcs` that talks to them."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from bcs_scheduler.executor_file import executor_file
from bcs_scheduler.security.tokens import hash_of, token_entry
from tests.integration.certificates import Authority
from tests.integration.schedulerprocess import PREFIX, SchedulerProcess
from tests.waiting import wait_for

ADMIN, OPERATOR, VIEWER = "bcs_admin", "bcs_operator", "bcs_viewer"
NOWHERE = "http://127.0.0.1:9"
"""A Mesos that is never there: what is tested here does not need one."""
SECRET = {
    "apiVersion": "v4",
    "kind": "secret",
    "metadata": {"name": "db", "namespace": "shop"},
    "datas": {"password": {"content": "dmVyeS1zZWNyZXQ="}},
}


class Cluster:
    """Two schedulers on one store: with TLS, tokens, client certificates and audit files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder / "authority")
        self.pair = self.authority.give("server")
        self.tokens = folder / "tokens.toml"
        self.tokens.write_text(
            "\n".join(
                [
                    token_entry("admin", hash_of(ADMIN), "admin", ["*"]),
                    token_entry("operator", hash_of(OPERATOR), "operator", ["shop"]),
                    token_entry("viewer", hash_of(VIEWER), "viewer", ["shop"]),
                    '[[token]]\nname = "ops"\ncertificate = "ops.example.org"\nrole = "admin"\nnamespaces = "*"',
                ]
            )
        )
        self.schedulers = [self._scheduler(number) for number in (1, 2)]

    def _scheduler(self, number: int) -> SchedulerProcess:
        folder = self.folder / f"s{number}"
        folder.mkdir()
        scheduler = SchedulerProcess(
            folder,
            f"sqlite:///{self.folder}/state.db",
            NOWHERE,
            api__tls_cert=str(self.pair.cert),
            api__tls_key=str(self.pair.key),
            api__tls_client_ca=str(self.authority.ca),
            api__tokens_file=str(self.tokens),
            api__audit_file=str(folder / "audit.jsonl"),
        )
        scheduler.session.verify = str(self.authority.ca)
        scheduler.session.trust_env = False
        scheduler.session.headers["Authorization"] = f"Bearer {ADMIN}"
        return scheduler

    def start(self) -> None:
        leader, standby = self.schedulers
        leader.start()
        wait_for(lambda: self.role(leader) == "master", 30, "a leader")
        standby.start()
        wait_for(lambda: self.role(standby) == "slave", 30, "a standby")

    def stop(self) -> None:
        for scheduler in reversed(self.schedulers):
            scheduler.stop()

    @property
    def leader(self) -> SchedulerProcess:
        return self.schedulers[0]

    @staticmethod
    def role(scheduler: SchedulerProcess) -> str:
        return str(scheduler.session.get(scheduler.url + "/version", timeout=60).json()["data"]["role"])

    def get(self, path: str, token: str = "", **more: Any) -> requests.Response:
        """With nothing of the scheduler's own session."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with requests.Session() as session:
            session.trust_env = False
            return session.get(
                self.leader.url + path, headers=headers, verify=str(self.authority.ca), timeout=60, **more
            )

    def bcs(self, *arguments: str, given: str = "", server: str = "", **environment: str) -> Any:
        return subprocess.run(
            [sys.executable, "-m", "bcs_scheduler.cli.main", *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            env={
                **os.environ,
                "BCS_SERVER": server or self.leader.url,
                "BCS_NAMESPACE": "shop",
                "BCS_OUTPUT": "json",
                **environment,
            },
        )

    def audited(self, scheduler: SchedulerProcess | None = None) -> list[dict[str, Any]]:
        folder = self.folder / ("s2" if scheduler is self.schedulers[1] else "s1")
        return [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("secure"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def serial_of(url: str, ca: Path) -> int:
    """Of the certificate that a new connection is shown."""
    context = ssl.create_default_context(cafile=str(ca))
    plain = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 10)
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        certificate = connection.getpeercert()
        assert certificate is not None
        return int(str(certificate["serialNumber"]), 16)


# --- TLS --------------------------------------------------------------------------------------------------------


def test_only_tls_of_today_is_spoken(cluster: Cluster) -> None:
    assert cluster.leader.url.startswith("https://127.0.0.1:")
    address = ("127.0.0.1", int(cluster.leader.url.rpartition(":")[2]))
    with socket.create_connection(address, 10) as plain:
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        assert b"200" not in plain.recv(1000)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with socket.create_connection(address, 10) as plain, pytest.raises((ssl.SSLError, ConnectionError)):
        old.wrap_socket(plain)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        now = ssl.create_default_context(cafile=str(cluster.authority.ca))
        now.minimum_version = now.maximum_version = version
        with socket.create_connection(address, 10) as plain, now.wrap_socket(plain, server_hostname="localhost") as one:
            assert one.version() in ("TLSv1.2", "TLSv1.3")


def test_connections_that_never_finish_a_handshake_hold_up_nobody(cluster: Cluster) -> None:
    address = ("127.0.0.1", int(cluster.leader.url.rpartition(":")[2]))
    idle = [socket.create_connection(address, 10) for _ in range(200)]
    for number, connection in enumerate(idle):
        connection.sendall(b"\x16\x03\x01\x02\x00" if number % 2 else os.urandom(2000))
    try:
        assert cluster.get("/healthz").status_code == 200
        assert cluster.get(PREFIX + "/applications", VIEWER).status_code == 200
    finally:
        for connection in idle:
            connection.close()


def test_a_new_certificate_is_shown_to_new_connections_and_old_ones_go_on(cluster: Cluster) -> None:
    before = serial_of(cluster.leader.url, cluster.authority.ca)
    kept = requests.Session()
    kept.trust_env, kept.verify = False, str(cluster.authority.ca)
    assert kept.get(cluster.leader.url + "/healthz", timeout=60).status_code == 200
    good = cluster.pair.cert.read_bytes(), cluster.pair.key.read_bytes()
    cluster.authority.give("server")
    wait_for(lambda: serial_of(cluster.leader.url, cluster.authority.ca) != before, 30, "the new certificate")
    after = serial_of(cluster.leader.url, cluster.authority.ca)
    assert kept.get(cluster.leader.url + "/healthz", timeout=60).status_code == 200
    cluster.pair.key.write_bytes(good[1])  # of the certificate before: they do not fit

    def told() -> bool:
        checks = {check["name"]: check for check in cluster.get("/readyz", ADMIN).json()["checks"]}
        return "stays in use" in checks["TLS certificate"]["message"] and checks["TLS certificate"]["ok"]

    wait_for(told, 30, "the broken pair in the readiness")
    assert serial_of(cluster.leader.url, cluster.authority.ca) == after
    metrics = cluster.get("/metrics", ADMIN).text
    assert 'bkbcs_scheduler_broken_files_total{file="TLS certificate"} 1.0' in metrics
    cluster.authority.give("server")
    wait_for(lambda: serial_of(cluster.leader.url, cluster.authority.ca) != after, 30, "a pair that fits again")


# --- who may ----------------------------------------------------------------------------------------------------


def test_what_agents_and_supervisors_need_is_open_and_nothing_else(cluster: Cluster) -> None:
    served = cluster.get(f"{PREFIX}/executor/{executor_file().name}")
    assert served.status_code == 200
    assert hashlib.sha256(served.content).digest() == hashlib.sha256(executor_file().content).digest()
    assert cluster.get("/healthz").status_code == cluster.get("/version").status_code == 200
    for path in ("/metrics", "/openapi.json", PREFIX + "/applications", PREFIX + "/agents"):
        assert cluster.get(path).status_code == 401, path
    assert cluster.get("/metrics", VIEWER).status_code == 403
    assert cluster.get("/openapi.json", VIEWER).status_code == 200
    assert cluster.get(PREFIX + "/agents", VIEWER).status_code == 403


def test_a_client_certificate_is_as_good_as_a_token(cluster: Cluster) -> None:
    ops = cluster.authority.give("ops.example.org", client=True)
    other = cluster.authority.give("other.example.org", client=True)
    assert cluster.get(PREFIX + "/agents", cert=(ops.cert, ops.key)).status_code == 200
    refused = cluster.get(PREFIX + "/agents", cert=(other.cert, other.key))
    assert refused.status_code == 401 and "other.example.org" in refused.json()["message"]
    # A token that is shown decides: it may be meant to do less.
    assert cluster.get(PREFIX + "/agents", VIEWER, cert=(ops.cert, ops.key)).status_code == 403
    stranger = Authority(cluster.folder / "strangers").give("ops.example.org", client=True)
    with pytest.raises(requests.ConnectionError):
        cluster.get(PREFIX + "/agents", cert=(stranger.cert, stranger.key))
    ended = cluster.authority.give("ended.example.org", client=True, days=-1)
    with pytest.raises(requests.ConnectionError):
        cluster.get(PREFIX + "/agents", cert=(ended.cert, ended.key))
    done = cluster.bcs(
        "--ca-file", str(cluster.authority.ca), "--client-cert", str(ops.cert), "--client-key", str(ops.key),
        "create", "configmap", "from-ops", "--from-literal", "a=b",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    line = cluster.audited()[-1]
    assert (line["who"], line["by"], line["status"]) == ("ops", "certificate", 200)


def test_revoking_a_token_needs_no_restart(cluster: Cluster) -> None:
    text = cluster.tokens.read_text()
    assert cluster.get(PREFIX + "/applications", VIEWER).status_code == 200
    cluster.tokens.write_text(text.replace(hash_of(VIEWER), hash_of("bcs_other")))
    wait_for(lambda: cluster.get(PREFIX + "/applications", VIEWER).status_code == 401, 30, "the end of the token")
    cluster.tokens.write_text("[[token]]\nname = ")

    def checks() -> dict[str, str]:
        return {c["name"]: c["message"] for c in cluster.get("/readyz", ADMIN).json()["checks"]}

    wait_for(lambda: "not a TOML file" in checks()["tokens"], 30, "the broken file in the readiness")
    assert cluster.get(PREFIX + "/applications", "bcs_other").status_code == 200
    cluster.tokens.write_text(text)
    wait_for(lambda: cluster.get(PREFIX + "/applications", VIEWER).status_code == 200, 30, "the token again")


# --- bcs --------------------------------------------------------------------------------------------------------


def test_bcs_follows_a_standby_to_the_leader_with_its_token(cluster: Cluster) -> None:
    standby = cluster.schedulers[1]
    trust = {"BCS_CA_FILE": str(cluster.authority.ca)}
    file = cluster.folder / "token"
    file.write_text(OPERATOR + "\n")
    before = len(cluster.audited())
    done = cluster.bcs(
        "--token-file", str(file), "create", "secret", "by-bcs", "--from-literal", "k=v", server=standby.url, **trust
    )
    assert done.returncode == 0, done.stderr
    line = cluster.audited()[before]
    assert (line["who"], line["role"], line["operation"], line["status"]) == (
        "operator",
        "operator",
        "create_secret",
        200,
    )
    assert cluster.audited(standby)[-1]["status"] == 307
    assert cluster.bcs("get", "secrets", server=standby.url, BCS_TOKEN=OPERATOR, **trust).returncode == 0
    read = cluster.bcs("get", "secrets", BCS_TOKEN_FILE=str(file), **trust)
    assert read.returncode == 0 and "by-bcs" in read.stdout


def test_bcs_says_what_is_missing(cluster: Cluster) -> None:
    trust = {"BCS_CA_FILE": str(cluster.authority.ca)}
    assert "certificate verify failed" in cluster.bcs("get", "secrets", BCS_TOKEN=VIEWER).stderr
    insecure = cluster.bcs("get", "secrets", "--insecure-skip-verify", BCS_TOKEN=VIEWER)
    assert insecure.returncode == 0 and "certificate is not verified" in insecure.stderr
    assert "InsecureRequestWarning" not in insecure.stderr
    nothing = cluster.bcs("get", "secrets", **trust)
    assert nothing.returncode == 1 and "BCS_TOKEN" in nothing.stderr
    refused = cluster.bcs("delete", "secret", "x", BCS_TOKEN=VIEWER, **trust)
    assert refused.returncode == 1 and "viewer needs the role operator" in refused.stderr
    elsewhere = cluster.bcs("get", "secrets", "-n", "bank", BCS_TOKEN=VIEWER, **trust)
    assert elsewhere.returncode == 1 and "in namespace 'bank'" in elsewhere.stderr
    lost = cluster.bcs("get", "secrets", "--token-file", "/nowhere/token", **trust)
    assert lost.returncode == 2 and "cannot read the token /nowhere/token" in lost.stderr
    for answer in (nothing, refused, elsewhere, lost):
        assert VIEWER not in answer.stderr + answer.stdout


# --- the audit log ----------------------------------------------------------------------------------------------


def test_the_audit_log_goes_on_after_a_rotation(cluster: Cluster) -> None:
    call = cluster.leader.request
    assert call("POST", "/namespaces/shop/secrets", SECRET).status_code == 200
    path = cluster.folder / "s1/audit.jsonl"
    path.rename(cluster.folder / "s1/audit.jsonl.1")
    os.kill(cluster.leader.pid, signal.SIGHUP)
    wait_for(path.exists, 30, "a new file after SIGHUP")
    assert call("DELETE", "/namespaces/shop/secrets/db").status_code == 200
    assert call("DELETE", "/namespaces/shop/secrets/db?mustExist=true").status_code == 404
    assert [(line["operation"], line["status"], line["who"]) for line in cluster.audited()] == [
        ("delete_secret", 200, "admin"),
        ("delete_secret", 404, "admin"),
    ]
    everything = "".join(file.read_text() for file in (cluster.folder / "s1").iterdir())
    assert "dmVyeS1zZWNyZXQ=" not in everything
    assert not any(token in everything for token in (ADMIN, OPERATOR, VIEWER))


# --- starts that are refused ------------------------------------------------------------------------------------


def test_a_start_that_would_be_unsafe_ends_with_one_line() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BCS_")}
    for flag, words in (
        (
            "--api=0.0.0.0:0",
            "bcs-scheduler: flag --api: 0.0.0.0:0 is reachable from other machines: set api.tokens_file",
        ),
        ("--api-tokens-file=/nowhere/t", "bcs-scheduler: /nowhere/t: cannot read the tokens: No such file"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "bcs_scheduler.main", "serve", "--store=memory:", flag],
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
        )
        assert done.returncode == 2 and done.stderr.splitlines()[-1].startswith(words), done.stderr
        assert "Traceback" not in done.stderr


def test_without_tokens_the_log_says_who_may(tmp_path: Path) -> None:
    for listen, words in (
        ("127.0.0.1:0", "listens on this machine only"),
        ("0.0.0.0:0", "every client of the API has all rights"),
    ):
        folder = tmp_path / listen.partition(":")[0]
        folder.mkdir()
        scheduler = SchedulerProcess(folder, "memory:", NOWHERE, api__allow_anonymous=str(listen != "127.0.0.1:0"))
        scheduler._command[-1] = f"--api={listen}"
        scheduler.start()
        try:
            assert words in scheduler.log()
            assert "secrets are stored in clear" in scheduler.log()
            answer = scheduler.session.get(scheduler.url + "/version", headers={"Host": "evil.example"}, timeout=60)
            assert answer.status_code == (403 if listen == "127.0.0.1:0" else 200)
        finally:
            assert scheduler.stop() == 0
