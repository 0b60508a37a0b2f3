"""Two editors of one object: whoever hands in a version that is not the present one any more overwrites nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest

from bcs_scheduler.core.requests.concurrency import revised, version_of
from store.records import ConfigMap, Secret
from tests.component.apiserver import Api
from tests.component.test_api_admission import hook, webhook

Json = dict[str, Any]


class Kind(NamedTuple):
    """`change`: another content for a document. `found`: where the object is read."""

    create: str
    replace: str
    found: str
    document: Json
    change: Callable[[Json, int], None]


def _label(body: Json, number: int) -> None:
    body["metadata"]["labels"] = {"edited": str(number)}


def _key(body: Json, number: int) -> None:
    body["datas"] = {"key": {"content": f"{number:04}"}}


def _spec(body: Json, number: int) -> None:
    body["spec"] = {"size": number}


def _quota(body: Json, number: int) -> None:
    body["spec"] = {"quota": {"taskgroups": number}}


NS = "/namespaces/shop"
SERVICE = {"kind": "service", "metadata": {"name": "front"}, "spec": {"selector": {"app": "web"}}}
KINDS = {
    "configmap": Kind(
        f"{NS}/configmaps",
        f"{NS}/configmaps",
        f"{NS}/configmaps/conf",
        {"kind": "configmap", "metadata": {"name": "conf"}},
        _key,
    ),
    "secret": Kind(
        f"{NS}/secrets", f"{NS}/secrets", f"{NS}/secrets/keys", {"kind": "secret", "metadata": {"name": "keys"}}, _key
    ),
    "service": Kind(f"{NS}/services", f"{NS}/services/front", f"{NS}/services/front", SERVICE, _label),
    "namespace": Kind("/namespaces", NS, NS, {"kind": "namespace", "metadata": {"name": "shop"}}, _quota),
    "admissionwebhook": Kind(
        "/admissionwebhook",
        "/admissionwebhook",
        "/admissionwebhook/system/conf",
        webhook(hook("http://hooks.example/")),
        _label,
    ),
    "Database": Kind(
        f"/crd{NS}/Database",
        f"/crd{NS}/Database",
        f"/crd{NS}/Database/main",
        {"kind": "Database", "metadata": {"name": "main"}},
        _spec,
    ),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, api: Api) -> Kind:
    found = KINDS[request.param]
    api.call("POST", "/crr/register", json={"kind": "crr", "spec": {"names": {"kind": "Database"}}})
    assert api.call("POST", found.create, json=edited(found, 1)).status_code == 200
    return found


def edited(kind: Kind, number: int, version: str = "") -> Json:
    body: Json = msgspec.json.decode(msgspec.json.encode(kind.document))
    kind.change(body, number)
    if version:
        body["metadata"]["resourceVersion"] = version
    return body


def version(api: Api, kind: Kind) -> str:
    found: str = api.data(kind.found)["metadata"]["resourceVersion"]
    return found


def put(api: Api, kind: Kind, body: Json, dry: bool = False) -> tuple[int, Json]:
    response = api.call("PUT", f"{kind.replace}?dryRun=true" if dry else kind.replace, json=body)
    return response.status_code, response.json()


def test_who_read_an_older_version_overwrites_nothing(api: Api, kind: Kind) -> None:
    read = version(api, kind)
    assert read and put(api, kind, edited(kind, 2, read))[0] == 200
    written = version(api, kind)
    assert int(written) > int(read)
    for dry in (True, False):
        status, answer = put(api, kind, edited(kind, 3, read), dry)
        assert (status, answer["data"]["reason"]) == (409, "conflict")
        assert read in answer["message"] and written in answer["message"]
        assert answer["data"]["problems"][0]["path"] == "$.metadata.resourceVersion"
    assert version(api, kind) == written
    assert put(api, kind, edited(kind, 3, written))[0] == 200
    assert version(api, kind) != written


def test_what_changes_nothing_keeps_the_version(api: Api, kind: Kind) -> None:
    read = version(api, kind)
    status, answer = put(api, kind, edited(kind, 1, read))
    assert status == 200 and answer["data"]["unchanged"]
    assert version(api, kind) == read


def test_without_a_version_the_last_one_wins(api: Api, kind: Kind) -> None:
    read = version(api, kind)
    assert put(api, kind, edited(kind, 2))[0] == 200
    assert put(api, kind, edited(kind, 3))[0] == 200
    assert int(version(api, kind)) > int(read)


def test_what_was_read_can_be_handed_in_again(api: Api, kind: Kind) -> None:
    """But for the contents of secrets, which nobody reads."""
    shown = api.data(kind.found)
    if shown["kind"] == "secret":
        shown["datas"] = edited(kind, 1)["datas"]
    status, answer = put(api, kind, shown)
    assert status == 200 and answer["data"]["unchanged"], answer
    kind.change(shown, 2)
    assert put(api, kind, shown)[0] == 200
    assert put(api, kind, shown)[0] == 409


def test_the_key_protects_in_any_case(api: Api, kind: Kind) -> None:
    body = edited(kind, 2)
    body["metadata"]["ResourceVersion"] = "17"
    assert put(api, kind, body)[0] == 409


def test_a_version_says_nothing_about_a_secret() -> None:
    one = Secret(namespace="shop", name="keys", items={"k": "b25l"}, updated_at=7.5)
    other = Secret(namespace="shop", name="keys", items={"k": "dHdv"}, updated_at=7.5)
    assert version_of(one) == version_of(other)


@pytest.mark.parametrize("now", [5.0, 1_800_000_000.123456, 1_700_000_000.0])
def test_changes_within_one_turn_have_versions_of_their_own(now: float) -> None:
    """Also when the clock was put back."""
    record = ConfigMap(namespace="shop", name="conf", created_at=3.0, updated_at=1_800_000_000.123456)
    seen = [version_of(record)]
    for number in range(1000):
        after = revised(
            ConfigMap(namespace="shop", name="conf", labels={"n": str(number)}), record, seen[-1], "conf", now
        )
        assert after is not None and after.created_at == 3.0
        record = after
        seen.append(version_of(record))
    assert [int(each) for each in seen] == sorted({int(each) for each in seen})


def test_what_is_gone_is_not_overwritten(api: Api, kind: Kind) -> None:
    read = version(api, kind)
    assert api.call("DELETE", kind.found).status_code == 200
    status, _ = put(api, kind, edited(kind, 2, read))
    assert status == (200 if kind.document["kind"] == "Database" else 404), "custom resources are created by PUT, too"
