"""Configmaps and secrets: create, replace, delete, list, fetch. Contents of secrets go in and do not come out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from bcs_scheduler.api import errors
from bcs_scheduler.api.documents.configuration import (
    ConfigMapDocument,
    SecretDocument,
    read_config_map,
    read_secret,
)
from bcs_scheduler.api.errors import not_found
from bcs_scheduler.api.operation import CONTINUE, LABEL_SELECTOR, LIMIT, Answer, Call, Param, Table
from bcs_scheduler.api.query import page, parse_selector, selected
from bcs_scheduler.api.views.configuration import ConfigMapView, SecretView, show_config_map, show_secret
from bcs_scheduler.core.effects import Reason
from bcs_scheduler.core.events import DeleteConfigMap, DeleteSecret, PutConfigMap, PutSecret
from store.records import ConfigMap, Secret

table = Table("configuration")
R = TypeVar("R", ConfigMap, Secret)
NAMESPACE = Param("namespace", "text", "Only those of this namespace.")
LISTING = (LIMIT, CONTINUE, LABEL_SELECTOR)
CREATED = (Reason.EXISTS, Reason.INVALID)
REPLACED = (Reason.NOT_FOUND, Reason.INVALID)


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
    "Replace a configmap; what runs keeps what it was launched with",
    body=ConfigMapDocument,
    reasons=REPLACED,
    status=200,
)
@table.write("PUT", "/configmap", "Replace a configmap", body=ConfigMapDocument, reasons=REPLACED, status=200)
async def replace_config_map(call: Call) -> Answer:
    return await _put_config_map(call, create=False)


async def _put_config_map(call: Call, *, create: bool) -> Answer:
    record = read_config_map(call.body, call.path.get("ns", ""))
    return await call.submit(PutConfigMap(config_map=record, create=create, dry_run=call.dry_run, cause=call.cause))


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


@table.read(
    "/namespaces/{ns}/configmaps",
    "List the configmaps of a namespace",
    query=LISTING,
    answer=list[ConfigMapView],
    reasons=(errors.BAD_PARAMETER,),
)
@table.read(
    "/configmaps",
    "List the configmaps of all namespaces",
    query=(*LISTING, NAMESPACE),
    answer=list[ConfigMapView],
    reasons=(errors.BAD_PARAMETER,),
)
def list_config_maps(call: Call) -> Answer:
    found = _matching(list(call.state().config_maps.values()), call)
    return page(found, lambda record: (record.namespace, record.name), call.query, show_config_map)


@table.read("/namespaces/{ns}/configmaps/{name}", "Fetch a configmap", answer=ConfigMapView)
@table.read("/configmap/{ns}/{name}", "Fetch a configmap", answer=ConfigMapView)
def get_config_map(call: Call) -> Answer:
    key = f"{call.path['ns']}/{call.path['name']}"
    record = call.state().config_maps.get(key)
    if record is None:
        raise not_found("configmap", key)
    return Answer(show_config_map(record))


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
    "Replace a secret; what runs keeps what it was launched with",
    body=SecretDocument,
    reasons=REPLACED,
    status=200,
)
@table.write("PUT", "/secret", "Replace a secret", body=SecretDocument, reasons=REPLACED, status=200)
async def replace_secret(call: Call) -> Answer:
    return await _put_secret(call, create=False)


async def _put_secret(call: Call, *, create: bool) -> Answer:
    record = read_secret(call.body, call.path.get("ns", ""))
    return await call.submit(PutSecret(secret=record, create=create, dry_run=call.dry_run, cause=call.cause))


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


@table.read(
    "/namespaces/{ns}/secrets",
    "List the secrets of a namespace, with digests instead of contents",
    query=LISTING,
    answer=list[SecretView],
    reasons=(errors.BAD_PARAMETER,),
)
@table.read(
    "/secrets",
    "List the secrets of all namespaces, with digests instead of contents",
    query=(*LISTING, NAMESPACE),
    answer=list[SecretView],
    reasons=(errors.BAD_PARAMETER,),
)
def list_secrets(call: Call) -> Answer:
    found = _matching(list(call.state().secrets.values()), call)
    return page(found, lambda record: (record.namespace, record.name), call.query, show_secret)


@table.read("/namespaces/{ns}/secrets/{name}", "Fetch a secret, with digests instead of contents", answer=SecretView)
@table.read("/secret/{ns}/{name}", "Fetch a secret, with digests instead of contents", answer=SecretView)
def get_secret(call: Call) -> Answer:
    key = f"{call.path['ns']}/{call.path['name']}"
    record = call.state().secrets.get(key)
    if record is None:
        raise not_found("secret", key)
    return Answer(show_secret(record))


def _matching(records: Iterable[R], call: Call) -> list[R]:
    namespace = call.path.get("ns", call.query.get("namespace"))
    requirements = parse_selector(call.query.get("labelSelector", ""))
    return [
        record
        for record in records
        if (namespace is None or record.namespace == namespace) and selected(record.labels, requirements)
    ]
