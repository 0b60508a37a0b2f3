"""Settings that would leave something open, or that name what cannot be used, stop the start with one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bcs_scheduler.authentication import Authentication
from bcs_scheduler.net.addresses import without_account
from bcs_scheduler.observability.metrics import Metrics
from bcs_scheduler.settings.config import load_settings
from bcs_scheduler.settings.sections import ConfigError
from bcs_scheduler.settings.storage import sealer_of, store_of
from store.encoding.seal import UNSEALED
from store.zookeeper.store import ZooKeeperStore


def refusal(given: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as refused:
        settings = load_settings(None, {}, given)
        Authentication(settings, Metrics())
        store_of(settings.store)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"api.listen": "[::]:0"}, "flag --api: [::]:0 is reachable from other machines: set api.tokens_file"),
        ({"api.listen": "10.0.0.1:80"}, "(or api.allow_anonymous = true"),
        ({"api.listen": "example.org:80"}, "set api.tokens_file"),
        ({"api.listen": "0.0.0.0:0", "api.tls_cert": "/c", "api.tls_key": "/k"}, "set api.tokens_file"),
        ({"api.tls_cert": "/c"}, "flag --api-tls-cert: certificate and key belong together"),
        ({"api.tls_key": "/k"}, "flag --api-tls-key: certificate and key belong together"),
        ({"api.tls_client_ca": "/c"}, "needs api.tls_cert and api.tls_key"),
        ({"api.tls_cert": "/c", "api.tls_key": "/k", "api.advertise": "http://a:1"}, "must be an https URL"),
        ({"api.tls_cert": "/nowhere/c", "api.tls_key": "/nowhere/k"}, "/nowhere/c: cannot be read: No such file"),
        ({"api.tls_cert": "/etc/hostname", "api.tls_key": "/etc/hostname"}, "not a certificate with its key in PEM"),
        ({"api.tokens_file": "/nowhere/t"}, "/nowhere/t: cannot read the tokens: No such file"),
        ({"api.tokens_file": "/dev/null"}, "/dev/null: there is no entry, so no client would have any right"),
        ({"api.tokens_file": "/etc/hostname"}, "/etc/hostname: not a TOML file"),
        ({"api.tokens_file": "/t", "api.allow_anonymous": "true"}, "contradicts api.tokens_file"),
        ({"api.audit_file": "/nowhere/a"}, "api.audit_file: cannot write /nowhere/a"),
        ({"store.secret_key_file": "/nowhere/k"}, "store.secret_key_file: cannot read /nowhere/k"),
        ({"store.secret_key_file": "/etc/hostname"}, "store.secret_key_file: /etc/hostname: key 1 is invalid"),
        ({"store.secret_key_file": "/dev/null"}, "/dev/null holds no key"),
        ({"store.user": "u"}, "flag --store-user: must be set together with store.password_file"),
        ({"store.user": "u", "store.password_file": "/nowhere"}, "is only valid with ZooKeeper"),
        ({"store.url": "zk://z:1/b", "store.user": "u", "store.password_file": "/nowhere"}, "cannot read /nowhere"),
        ({"store.url": "zk://z:1/b", "store.user": "u", "store.password_file": "/dev/null"}, "/dev/null is empty"),
        ({"store.url": "zk://z:1/b", "store.user": "u:v", "store.password_file": "/dev/null"}, "must not contain ':'"),
    ],
)
def test_what_would_be_unsafe_or_cannot_be_used_is_refused(given: dict[str, Any], words: str) -> None:
    assert words in refusal(given)


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "127.8.8.8:0", "[::1]:0", "localhost:0"])
def test_this_machine_alone_needs_no_tokens(listen: str) -> None:
    guard = Authentication(load_settings(None, {}, {"api.listen": listen}), Metrics())
    assert guard.gate.tokens is None and guard.gate.hosts is not None and guard.checks() == []


def test_accounts_in_urls_are_not_told() -> None:
    assert without_account("zk://bcs:hunter2@zk1:2181,zk2:2181/mesos") == "zk://zk1:2181,zk2:2181/mesos"
    assert without_account("http://m:5050") == "http://m:5050"
    assert "hunter2" not in refusal({"mesos.url": "zk://bcs:hunter2@zk1:2181"})
    assert "hunter2" not in refusal({"mesos.url": "https://bcs:hunter2@zk1:2181"})


def test_the_settings_reach_the_store(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("  se cret\n")
    given = {"store.url": "zk://z:1/b", "store.user": "bcs", "store.password_file": str(tmp_path / "password")}
    settings = load_settings(None, {}, given)
    store = store_of(settings.store)
    assert isinstance(store, ZooKeeperStore) and store.login is not None
    assert (store.login.user, store.login.password) == ("bcs", "se cret")
    assert "cret" not in repr(store.login)
    assert sealer_of(settings.store) is UNSEALED
