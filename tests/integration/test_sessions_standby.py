"""Sessions through a standby with TLS and tokens: two real schedulers on a real ZooKeeper. The standby redirects to the
leader, `bcs` follows with its token, and a session ends when its leader dies."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from bcs_scheduler.security.tokens import hash_of, token_entry
from tests.integration.certificates import Authority
from tests.integration.forwarding import page_behind
from tests.integration.schedulerprocess import PREFIX, SchedulerProcess, document
from tests.integration.zookeeper import ZooKeeperServer
from tests.waiting import wait_for

pytestmark = [pytest.mark.zookeeper, pytest.mark.rotating]

OPERATOR, VIEWER = "bcs_operator", "bcs_viewer"
TICKS = ["sh", "-c", "while :; do echo tick; sleep 0.1; done"]
SERVER = ["python3", "-u", "-m", "http.server", "${bcs.ports.http}", "--bind", "127.0.0.1"]
CONTAINER = {
    "resources": {"limits": {"cpu": "0.1", "memory": "64", "storage": "1"}},
    "ports": [{"name": "http", "protocol": "tcp", "containerPort": 0, "hostPort": 0}],
}


class Pair:
    """A leader and a standby; applications `ticks` and `web` run."""

    def __init__(self, folder: Path, zookeeper: ZooKeeperServer, mesos: str) -> None:
        self._folder = folder
        self.authority = Authority(folder / "authority")
        pair = self.authority.give("server")
        tokens = folder / "tokens.toml"
        tokens.write_text(
            token_entry("operator", hash_of(OPERATOR), "operator", ["default"])
            + "\n"
            + token_entry("viewer", hash_of(VIEWER), "viewer", ["default"])
        )
        self.leader, self.standby = (
            self._scheduler(number, zookeeper, mesos, str(pair.cert), str(pair.key), str(tokens)) for number in (1, 2)
        )

    def _scheduler(
        self, number: int, zookeeper: ZooKeeperServer, mesos: str, cert: str, key: str, tokens: str
    ) -> SchedulerProcess:
        folder = self._folder / f"s{number}"
        folder.mkdir()
        made = SchedulerProcess(
            folder, f"zk://{zookeeper.hosts}/{self._folder.name}", mesos, api__tls_cert=cert, api__tls_key=key,
            api__tokens_file=tokens, api__audit_file=str(folder / "audit.jsonl"), store__session_timeout="4",
        )  # fmt: skip
        made.session.verify = str(self.authority.ca)
        made.session.trust_env = False
        made.session.headers["Authorization"] = f"Bearer {OPERATOR}"
        return made

    def start(self) -> None:
        self.leader.start().wait_leading()
        self.standby.start().wait_ready()
        for name, command in (("ticks", TICKS), ("web", SERVER)):
            self.leader.call(
                "POST", "/namespaces/default/applications", document(name, 1, command, container=CONTAINER)
            )
            self.leader.wait_running(name, 1)
        wait_for(lambda: self.standby.application("web") is not None, 30, "the standby to follow")

    def stop(self) -> None:
        if self.leader.runs:
            for name in ("ticks", "web"):
                answer = self.leader.call("DELETE", f"/namespaces/default/applications/{name}")
                self.leader.wait_transaction(answer["transactionID"])
        self.standby.stop()
        self.leader.stop()

    def environment(self, token: str = OPERATOR, **more: str) -> dict[str, str]:
        own = {"BCS_SERVER": self.standby.url, "BCS_NAMESPACE": "default", "BCS_TOKEN": token}
        return {**os.environ, **own, "BCS_CA_FILE": str(self.authority.ca), **more}

    def bcs(self, *arguments: str, given: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
        """Asks the standby."""
        return subprocess.run(
            command(*arguments), input=given, capture_output=True, timeout=90, env=self.environment(**environment)
        )

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment()
        )

    def audited(self, number: int) -> list[dict[str, Any]]:
        file = self._folder / f"s{number}" / "audit.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [line for line in lines if line["operation"] == "session"]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "bcs_scheduler.cli.main", *arguments]


@pytest.fixture
def pair(tmp_path: Path, zookeeper: ZooKeeperServer, embedded_mesos: str) -> Iterator[Pair]:
    made = Pair(tmp_path, zookeeper, f"http://{embedded_mesos}")
    try:
        made.start()
        yield made
    finally:
        made.stop()


def read_until(process: subprocess.Popen[bytes], wanted: bytes) -> bytes:
    seen = b""

    def look() -> bool:
        nonlocal seen
        assert process.stdout is not None
        if select.select([process.stdout], [], [], 0.05)[0]:
            seen += os.read(process.stdout.fileno(), 65536)
        return wanted in seen

    wait_for(look, 30, lambda: f"{wanted!r} in {seen!r}")
    return seen


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    """Exit code and errors."""
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def test_sessions_through_a_standby(pair: Pair) -> None:
    done = pair.bcs("exec", "-i", "web-0", "--", "sh", "-c", "cat; echo bad >&2; exit 3", given=b"hello")
    assert (done.returncode, done.stdout, done.stderr) == (3, b"hello", b"bad\n")

    large = os.urandom(16 * 1024 * 1024)
    done = pair.bcs("exec", "-i", "web-0", "--", "cat", given=large)
    assert (done.returncode, done.stderr, done.stdout == large) == (0, b"", True)

    user = pair.begin("attach", "ticks-0")
    read_until(user, b"tick\n")
    user.terminate()
    assert ended(user)[0] == 128 + 15

    [group] = pair.leader.taskgroups("web")
    port = group["Taskgroup"][0]["PortMappings"][0]["HostPort"]
    user = pair.begin("port-forward", "web-0", f":{port}")
    try:
        address = read_until(user, b" leads to port").split()[0].decode()
        wait_for(lambda: "Directory listing" in page_behind(address), 60, "the server behind the port")
    finally:
        user.terminate()
        ended(user)

    refused = pair.bcs("exec", "web-0", "--", "true", token=VIEWER)
    assert refused.returncode == 1
    assert b"viewer needs the role operator" in refused.stderr
    unknown = pair.bcs("exec", "web-0", "--", "true", BCS_CA_FILE="/etc/ssl/certs/ca-certificates.crt")
    assert unknown.returncode != 0
    assert b"certificate" in unknown.stderr

    wait_for(lambda: len([a for a in pair.audited(1) if a["phase"] == "end"]) == 4, what="audit of the sessions")
    begun = [(a["kind"], a["who"]) for a in pair.audited(1) if a["phase"] == "begin"]
    assert begun == [(kind, "operator") for kind in ("exec", "exec", "attach", "portforward")]
    assert [a["phase"] for a in pair.audited(2) if a["phase"] != "refused"] == []


def test_the_redirect_names_the_leader_by_the_same_scheme(pair: Pair) -> None:
    """What any client of WebSockets sees; the token goes to the leader only because the client sends it again."""
    path = f"/taskgroup/{pair.leader.taskgroups('web')[0]['ID']}/attach"
    upgrade = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }  # fmt: skip
    answer = pair.standby.session.get(
        pair.standby.url + PREFIX + path, headers=upgrade, timeout=60, allow_redirects=False
    )
    assert answer.status_code == 307
    assert answer.headers["Location"] == pair.leader.url + PREFIX + path
    assert answer.headers["Location"].startswith("https://")
    without = requests.get(
        pair.standby.url + PREFIX + path, headers=upgrade, timeout=60, allow_redirects=False,
        verify=str(pair.authority.ca),
    )  # fmt: skip
    assert without.status_code == 401


def test_a_session_ends_with_its_leader_and_the_next_one_serves(pair: Pair) -> None:
    user = pair.begin("attach", "ticks-0")
    read_until(user, b"tick\n")
    [before] = pair.leader.taskgroups("ticks")
    pair.leader.kill()
    code, errors = ended(user)
    assert code == 5
    assert b"interrupted" in errors
    done = pair.bcs("exec", "web-0", "--timeout", "60s", "--", "echo", "again")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"again\n", b"")
    pair.standby.wait_leading()
    [after] = pair.standby.taskgroups("ticks")
    assert (after["ID"], after["Status"]) == (before["ID"], "Running")
    pair.leader, pair.standby = pair.standby, pair.leader
