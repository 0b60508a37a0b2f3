"""Secrets at rest with real schedulers: sealed, kept when the key is gone, sealed anew when it changes."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bcs_scheduler.admin.commands import reseal
from store.encoding.seal import is_sealed, key_id, new_key
from tests.integration.localmesos import LocalMesosProcess
from tests.integration.schedulerprocess import SchedulerProcess, document
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.rotating]

CONTENT = "correct horse battery staple"


class Place:
    """A SQLite file, a file of keys, and schedulers on them one after the other."""

    def __init__(self, folder: Path, mesos: str) -> None:
        self.folder, self._mesos = folder, mesos
        self.state, self.keys = folder / "state.db", folder / "keys"
        self._scheduler: SchedulerProcess | None = None

    def scheduler(self, *keys: str) -> SchedulerProcess:
        """Leading, with these keys."""
        self.stop()
        settings = {}
        if keys:
            self.keys.write_text("\n".join(keys))
            self.keys.chmod(0o600)
            settings["store__secret_key_file"] = str(self.keys)
        self._scheduler = SchedulerProcess(self.folder, f"sqlite:///{self.state}", self._mesos, **settings)
        return self._scheduler.start().wait_ready()

    def stop(self) -> None:
        if self._scheduler is not None:
            assert self._scheduler.stop() == 0
            self._scheduler = None

    def reseal(self, *keys: str) -> Any:
        self.stop()
        self.keys.write_text("\n".join(keys))
        flags = ["--store-secret-key-file", str(self.keys)] if keys else []
        return CliRunner(env={}).invoke(reseal, ["--store", f"sqlite:///{self.state}", *flags])

    def rows(self) -> dict[tuple[str, str], bytes]:
        with sqlite3.connect(self.state) as connection:
            return {(kind, key): data for kind, key, data in connection.execute("SELECT * FROM records")}

    def in_clear(self) -> bool:
        """The content is found in what lies on the disk."""
        encoded = base64.b64encode(CONTENT.encode())
        connection = sqlite3.connect(self.state)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("VACUUM")
        connection.close()
        data = b"".join(path.read_bytes() for path in self.folder.glob("state.db*"))
        return CONTENT.encode() in data or encoded in data


@pytest.fixture(scope="module")
def mesos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    cluster = LocalMesosProcess(tmp_path_factory.mktemp("mesos"), "--agents=1").start()
    try:
        yield cluster.url
    finally:
        cluster.stop()


@pytest.fixture
def place(tmp_path: Path, mesos: str) -> Iterator[Place]:
    made = Place(tmp_path, mesos)
    try:
        yield made
    finally:
        made.stop()


def secret(name: str = "db") -> dict[str, Any]:
    content = base64.b64encode(CONTENT.encode()).decode()
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v4", "kind": "secret", "metadata": metadata, "datas": {"password": {"content": content}}}


SECRETS = "/namespaces/default/secrets"


def test_a_key_that_is_gone_loses_nothing(place: Place) -> None:
    first = new_key()
    scheduler = place.scheduler(first)
    scheduler.call("POST", SECRETS, secret())
    body = document("web", 1, ["sleep", "1000"])
    body["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "TOKEN", "value": CONTENT}]
    scheduler.call("POST", "/namespaces/default/applications", body)
    running = scheduler.wait_running("web", 1)
    place.stop()
    assert not place.in_clear()
    sealed = {key: data for key, data in place.rows().items() if is_sealed(data)}
    assert {kind for kind, _ in sealed} == {"secret", "version"}
    assert all(key_id(first) in data[:40] and first.encode() not in data for data in sealed.values())

    for keys in ((), (new_key(),)):
        scheduler = place.scheduler(*keys)
        log = scheduler.log()
        assert f"encrypted with key {key_id(first).decode()}, which is not in store.secret_key_file" in log
        checks = {c["name"]: c for c in scheduler.session.get(scheduler.url + "/readyz", timeout=60).json()["checks"]}
        assert f"{len(sealed)} records quarantined" in checks["store"]["message"]
        assert scheduler.request("GET", SECRETS + "/db").status_code == 404
        refused = scheduler.request("POST", SECRETS, secret())
        assert refused.status_code == 409 and "is stored and cannot be read" in refused.json()["message"]
        assert scheduler.request("POST", SECRETS, secret(), dryRun="true").status_code == 409
        for method, path in (("PUT", SECRETS), ("DELETE", SECRETS + "/db")):
            answer = scheduler.request(method, path, secret() if method == "PUT" else None)
            assert answer.status_code in (404, 409), answer.text
        scheduler.call("POST", SECRETS, secret(f"other-{len(keys)}"))
        scaled = scheduler.request("PUT", "/namespaces/default/applications/web/scale/2")
        assert scaled.status_code < 500, scaled.text
        assert [group["ID"] for group in scheduler.taskgroups("web") if group["Status"] == "Running"] == [
            group["ID"] for group in running
        ]
        assert ("stored in clear" in scheduler.log()) is not bool(keys)
        place.stop()
        assert {key: place.rows()[key] for key in sealed} == sealed

    scheduler = place.scheduler(first)
    assert scheduler.call("GET", SECRETS + "/db")["metadata"]["name"] == "db"
    scheduler.call("PUT", SECRETS, secret())
    assert running[0]["ID"] in [group["ID"] for group in scheduler.taskgroups("web")]


def test_keys_rotate(place: Place) -> None:
    old, new = new_key(), new_key()
    place.scheduler().call("POST", SECRETS, secret("clear"))
    place.stop()
    assert place.in_clear()
    scheduler = place.scheduler(old)
    assert scheduler.call("GET", SECRETS + "/clear")["metadata"]["name"] == "clear"
    scheduler.call("POST", SECRETS, secret("old"))
    place.stop()
    assert place.in_clear(), "what was written before there was a key stays as it is until it is written again"
    scheduler = place.scheduler(new, old)
    scheduler.call("POST", SECRETS, secret("new"))
    found = {name: place.rows()["secret", f"default/{name}"] for name in ("clear", "old", "new")}
    assert (is_sealed(found["clear"]), key_id(old) in found["old"][:40], key_id(new) in found["new"][:40]) == (
        False,
        True,
        True,
    )

    done = place.reseal(new, old)
    assert done.exit_code == 0 and done.output.startswith("3 records were written again"), done.output
    assert not place.in_clear()
    assert all(key_id(new) in data[:40] for (kind, _), data in place.rows().items() if kind == "secret")
    assert len(place.scheduler(new).call("GET", SECRETS)) == 3

    lost = place.reseal(old)
    assert lost.exit_code == 2 and "3 cannot be read and stay unchanged: secret default/" in lost.output
    back = place.reseal()
    assert back.exit_code == 2 and "3 cannot be read" in back.output
    assert len(place.scheduler(new).call("GET", SECRETS)) == 3


def test_a_scheduler_that_leads_is_not_disturbed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bcs_scheduler.admin.maintenance.LOCK_PATIENCE", 1.0)
    key = new_key()
    scheduler = place.scheduler(key)
    flags = ["--store", f"sqlite:///{place.state}", "--store-secret-key-file", str(place.keys)]
    refused = CliRunner(env={}).invoke(reseal, flags)
    assert refused.exit_code == 2 and f"{scheduler.url} leads; stop every scheduler first" in refused.output
    wait_for(scheduler.ready, 30, "the scheduler still leads")
    assert is_sealed(key.encode()) is False
