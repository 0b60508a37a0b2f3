"""Whatever stands anywhere in a document of any kind, it is accepted, or refused with paths; nothing else happens."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bcs_scheduler.api.documents.commands import read_command, read_health_report, read_message, to_command_content
from bcs_scheduler.api.documents.convert import to_version
from bcs_scheduler.api.documents.deployment import read_deployment, to_definition, to_deployment
from bcs_scheduler.api.documents.validate import read_application
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.api.objects.configuration import read_config_map, read_secret
from bcs_scheduler.api.objects.custom import read_custom_kind, read_custom_object
from bcs_scheduler.api.objects.namespaces import read_namespace
from bcs_scheduler.api.objects.webhooks import read_webhook
from bcs_scheduler.wire.problems import Problems

EXAMPLES = Path(__file__).parents[2] / "conf" / "examples"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=10,
)
TRICKY = st.sampled_from(
    ["secret::", "secret::||", "secret::a||b||c", "http://[", "http://h:99999/", "${", "../..", "***", "\0", "é" * 300]
)
Reader = Callable[[Any], object]


def _version(raw: Any) -> object:
    warned = Problems("Warn")
    return to_version(
        read_application(raw, namespace="default", creating=True, default_executor="mesos", problems=warned), 0
    )


def _deployment(raw: Any) -> object:
    document = read_deployment(raw, namespace="default", problems=Problems("Warn"))
    to_definition(document)
    return to_deployment(document)


def _message(raw: Any) -> object:
    return read_message(raw, "default", "web")


REMOTE = {"to": "/a", "remote": "http://h/x", "remoteUser": "u", "remotePasswd": "p"}
RAW = {"Type": 1, "Local": {"To": "/a", "Right": "r", "User": "u", "Base64": ""}, "TaskID": None}
READERS: list[tuple[Any, Reader]] = [
    *(
        (json.loads((EXAMPLES / f"{name}.json").read_text()), _version)
        for name in ("process", "container", "configured")
    ),
    *(
        (json.loads((EXAMPLES / f"{name}.json").read_text()), _deployment)
        for name in ("deployment-canary", "deployment-process", "deployment-adopt")
    ),
    (json.loads((EXAMPLES / "configmap.json").read_text()), lambda raw: read_config_map(raw, "default")),
    (json.loads((EXAMPLES / "secret.json").read_text()), lambda raw: read_secret(raw, "default")),
    (json.loads((EXAMPLES / "namespace.json").read_text()), read_namespace),
    (json.loads((EXAMPLES / "admissionwebhook.json").read_text()), lambda raw: read_webhook(raw, "default")),
    ({"kind": "crr", "spec": {"names": {"kind": "Database"}}}, read_custom_kind),
    (
        {"kind": "Database", "metadata": {"name": "a", "labels": {}}, "spec": {}},
        lambda raw: read_custom_object(raw, "Database", "default"),
    ),
    (
        json.loads((EXAMPLES / "requests" / "command.json").read_text()),
        lambda raw: to_command_content(read_command(raw, "default", "web")),
    ),
    ({"msgtype": "remote", "msgdata": REMOTE}, _message),
    ({"msgtype": "signal", "msgdata": {"signal": "HUP", "processname": "x"}}, _message),
    (RAW, _message),
    ({"id": "x", "type": "REMOTE_TCP", "status": True, "message": "", "tcp": {}}, read_health_report),
]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in _places(item, (*path, key)))]


PLACES = [(raw, place, reader) for raw, reader in READERS for place in _places(raw) if place]


@settings(max_examples=500, deadline=None)
@given(where=st.sampled_from(PLACES), value=JSON | TRICKY)
def test_anything_anywhere_is_accepted_or_refused_with_paths(where: Any, value: Any) -> None:
    original, place, reader = where
    raw = copy.deepcopy(original)
    target = raw
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    try:
        assert reader(raw) is not None
    except ApiError as refused:
        assert refused.failure.status == 422
        assert refused.problems and all(p.path.startswith("$") and p.message for p in refused.problems)


@pytest.mark.parametrize("number", range(len(READERS)))
def test_the_documents_that_are_spoilt_are_good_ones(number: int) -> None:
    raw, reader = READERS[number]
    if reader is not _version:
        assert reader(raw) is not None
        return
    assert to_version(read_application(raw, namespace="default", creating=True), 0).containers


@settings(max_examples=200, deadline=None)
@given(value=JSON)
def test_any_json_is_read_or_refused(value: Any) -> None:
    for _, reader in READERS:
        try:
            assert reader(value) is not None
        except ApiError as refused:
            assert refused.failure.status == 422 and refused.problems
