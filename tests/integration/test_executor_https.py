"""Real agents fetch the executor from a scheduler that speaks HTTPS and asks for tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bcs_scheduler.security.tokens import hash_of, token_entry
from tests.integration.certificates import Authority
from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess, document

pytestmark = [pytest.mark.mesos, pytest.mark.slow]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def trusting_mesos(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[RealMesos]:
    """Its agents trust the authority. OpenSSL, and with it libcurl, takes this variable for the system's store."""
    cluster = RealMesos(tmp_path_factory.mktemp("mesos"), environment={"SSL_CERT_FILE": str(authority.ca)})
    try:
        cluster.start().wait_for_agents()
        yield cluster
    finally:
        cluster.stop()


def test_agents_that_trust_the_certificate_run_our_executor(
    trusting_mesos: RealMesos, authority: Authority, tmp_path: Path
) -> None:
    pair = authority.give("server")
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(token_entry("admin", hash_of("bcs_admin"), "admin", ["*"]))
    scheduler = SchedulerProcess(
        tmp_path,
        "memory:",
        trusting_mesos.url,
        executor__default="bcs",
        api__tls_cert=str(pair.cert),
        api__tls_key=str(pair.key),
        api__tls_client_ca=str(authority.ca),
        api__tokens_file=str(tokens),
    )
    scheduler.session.verify = str(authority.ca)
    scheduler.session.trust_env = False
    scheduler.session.headers["Authorization"] = "Bearer bcs_admin"
    try:
        scheduler.start().wait_ready()
        body = document("web", 1, ["sleep", "1000"])
        body["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] = "32"
        scheduler.call("POST", "/namespaces/default/applications", body)
        scheduler.wait_running("web", 1, seconds=120)
        started = scheduler.call("DELETE", "/namespaces/default/applications/web")
        assert scheduler.wait_transaction(started["transactionID"])["status"] == "FINISH"
    finally:
        scheduler.stop()
