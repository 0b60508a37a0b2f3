"""The decision log holds no confidential value, in whatever part of a record it stands."""

from __future__ import annotations

import json

import msgspec
import pytest

from bcs_scheduler.core.interface import requests
from bcs_scheduler.decisions.content import decided, stored, written
from bcs_scheduler.decisions.redaction import Pseudonyms, mark, redacted
from store.base import Change
from store.records import Version
from store.records.definition import Container
from store.state.unit_of_work import Unit

PASSWORD = "n0t-t0-be-l0gged"
KEY = b"key of the term"


def version(field: str) -> Version:
    """A definition whose document has a password, in the record and in the document of the user."""
    document = {"spec": {"template": {"spec": {"containers": [{"image": "a", field: PASSWORD}]}}}}
    return Version(
        namespace="shop",
        application="web",
        name="1",
        instances=1,
        containers=(Container(name="web", image="a", image_pull_password=PASSWORD),),
        raw=json.dumps(document),
    )


@pytest.mark.parametrize("field", ["imagePullPasswd", "imagepullpasswd", "ImagePullPasswd"])
def test_a_password_of_a_document_is_replaced_in_records_requests_and_decisions(field: str) -> None:
    record, replace = version(field), Pseudonyms(KEY)
    found = stored(record, replace).data
    request = written(requests.CreateApplication(version=record, token=1), replace)[1]
    decisions = decided([Unit((Change("version", record.key, record),), ())])
    for data in (found, request, *decisions):
        assert PASSWORD.encode() not in data
    again = msgspec.json.decode(found)
    (container,) = json.loads(again["raw"])["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "a" and len(container[field]) == len(PASSWORD)
    assert container[field] == again["containers"][0]["image_pull_password"], "equal values stay equal"


def test_headers_of_checks_are_hidden_whatever_their_names() -> None:
    given = {"health_checks": [{"headers": {"X-Other": "credential", "X-Reference": "secret::keys||a", "X-Empty": ""}}]}
    shown = redacted(given, mark)["health_checks"][0]["headers"]
    assert shown == {"X-Other": "***", "X-Reference": "secret::keys||a", "X-Empty": ""}


def test_a_reference_to_a_secret_stays() -> None:
    record = version("imagePullPasswd")
    record = msgspec.structs.replace(record, raw=record.raw.replace(PASSWORD, "secret::registry||password"))
    assert b"secret::registry||password" in stored(record, Pseudonyms(KEY)).data
