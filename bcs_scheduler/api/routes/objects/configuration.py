"""Configmaps and secrets: create, replace, delete, list, fetch. Contents of secrets go in and do not come out."""

from __future__ import annotations

from bcs_scheduler.api.documents.configuration import (
    kept_content,
    kept_password,
    read_config_map,
    read_secret,
    with_kept_items,
)
from bcs_scheduler.api.documents.validate import known_version, named_in
from bcs_scheduler.api.http.errors import Reasons
from bcs_scheduler.api.http.operation import Answer, Answered, Call, Table, always
from bcs_scheduler.api.reading.lists import find, listed, lists
from bcs_scheduler.api.views.objects.configuration import ConfigMapView, SecretView, show_config_map, show_secret
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import DeleteConfigMap, DeleteSecret, PutConfigMap, PutSecret
from bcs_scheduler.wire.documents.configuration import ConfigMapDocument, SecretDocument

table = Table("configuration")
CREATED: Reasons = (Reason.EXISTS, Reason.INVALID)
REPLACED: Reasons = (Reason.NOT_FOUND, Reason.CONFLICT, Reason.INVALID)


# --- configmaps -----------------------------------------------------------------------------------------------


@table.write(
    "POST",
    "/namespaces/{ns}/configmaps",
    "Create a configmap",
    body=ConfigMapDocument,
    reasons=CREATED,
    status=200,
)
@table.write("POST", "/configmap", "Create a configmap", body=ConfigMapDocument, reasons=CREATED, status=200)
async def create_config_map(call: Call) -> Answer:
    return await _put_config_map(call, create=True)


@table.write(
    "PUT",
    "/namespaces/{ns}/configmaps",
    "Replace a configmap; running taskgroups keep the contents of their launch",
    body=ConfigMapDocument,
    reasons=REPLACED,
    status=200,
)
@table.write("PUT", "/configmap", "Replace a configmap", body=ConfigMapDocument, reasons=REPLACED, status=200)
async def replace_config_map(call: Call) -> Answer:
    return await _put_config_map(call, create=False)


async def _put_config_map(call: Call, *, create: bool) -> Answer:
    stored = None if create else call.state().config_maps.get(named_in(call.body, call.path.get("ns", "")))
    body = with_kept_items(call.body, stored.items, kept_password) if stored is not None else call.body
    record = read_config_map(body, call.path.get("ns", ""), problems=call.problems)
    command = PutConfigMap(
        config_map=record, create=create, expected=known_version(call.body), dry_run=call.dry_run, cause=call.cause
    )
    return await call.submit(command)


@table.write(
    "DELETE",
    "/namespaces/{ns}/configmaps/{name}",
    "Delete a configmap",
    reasons=(Reason.NOT_FOUND,),
    status=200,
)
@table.write("DELETE", "/configmap/{ns}/{name}", "Delete a configmap", reasons=(Reason.NOT_FOUND,), status=200)
async def delete_config_map(call: Call) -> Answer:
    command = DeleteConfigMap(namespace=call.path["ns"], name=call.path["name"], dry_run=call.dry_run, cause=call.cause)
    return await call.submit(command)


@lists(table, "/namespaces/{ns}/configmaps", "/configmaps", "configmaps", answer=list[ConfigMapView])
def list_config_maps(call: Call) -> Answered:
    return listed(call, "configmap", show_config_map)


@table.read("/namespaces/{ns}/configmaps/{name}", "Fetch a configmap", answer=ConfigMapView)
@table.read("/configmap/{ns}/{name}", "Fetch a configmap", answer=ConfigMapView)
def get_config_map(call: Call) -> Answer:
    return Answer(show_config_map(find(call.state().config_maps, "configmap", call.path["ns"], call.path["name"])))


# --- secrets --------------------------------------------------------------------------------------------------


@table.write(
    "POST",
    "/namespaces/{ns}/secrets",
    "Create a secret",
    body=SecretDocument,
    reasons=CREATED,
    status=200,
)
@table.write("POST", "/secret", "Create a secret", body=SecretDocument, reasons=CREATED, status=200)
async def create_secret(call: Call) -> Answer:
    return await _put_secret(call, create=True)


@table.write(
    "PUT",
    "/namespaces/{ns}/secrets",
    "Replace a secret; running taskgroups keep the contents of their launch",
    body=SecretDocument,
    reasons=REPLACED,
    status=200,
)
@table.write("PUT", "/secret", "Replace a secret", body=SecretDocument, reasons=REPLACED, status=200)
async def replace_secret(call: Call) -> Answer:
    return await _put_secret(call, create=False)


async def _put_secret(call: Call, *, create: bool) -> Answer:
    stored = None if create else call.state().secrets.get(named_in(call.body, call.path.get("ns", "")))
    body = with_kept_items(call.body, stored.items, kept_content) if stored is not None else call.body
    record = read_secret(body, call.path.get("ns", ""), problems=call.problems)
    command = PutSecret(
        secret=record, create=create, expected=known_version(call.body), dry_run=call.dry_run, cause=call.cause
    )
    return await call.submit(command)


@table.write(
    "DELETE",
    "/namespaces/{ns}/secrets/{name}",
    "Delete a secret",
    reasons=(Reason.NOT_FOUND,),
    status=200,
)
@table.write("DELETE", "/secret/{ns}/{name}", "Delete a secret", reasons=(Reason.NOT_FOUND,), status=200)
async def delete_secret(call: Call) -> Answer:
    command = DeleteSecret(namespace=call.path["ns"], name=call.path["name"], dry_run=call.dry_run, cause=call.cause)
    return await call.submit(command)


@lists(
    table, "/namespaces/{ns}/secrets", "/secrets", "secrets, with digests instead of contents,", answer=list[SecretView]
)
def list_secrets(call: Call) -> Answered:
    return listed(call, "secret", show_secret)


@table.read(
    "/namespaces/{ns}/secrets/{name}",
    "Fetch a secret, with digests instead of contents",
    answer=SecretView,
    audited=always,
)
@table.read(
    "/secret/{ns}/{name}", "Fetch a secret, with digests instead of contents", answer=SecretView, audited=always
)
def get_secret(call: Call) -> Answer:
    return Answer(show_secret(find(call.state().secrets, "secret", call.path["ns"], call.path["name"])))
