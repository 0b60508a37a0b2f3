"""Configmaps and secrets as users see them: as in their documents, without what is confidential."""

from __future__ import annotations

import msgspec

from bcs_scheduler.api.redaction import fingerprint, hide
from bcs_scheduler.api.views.base import NO_TIME, rfc3339
from bcs_scheduler.core.concurrency import version_of
from store.records import ConfigMap, CustomObject, Secret, Webhook


class ConfigurationMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`updateTimestamp` and `resourceVersion` are ours."""

    name: str
    namespace: str
    creation_timestamp: str = NO_TIME
    update_timestamp: str = NO_TIME
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ConfigItemView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`remotePasswd` is a mark unless it is a reference."""

    type: str
    content: str
    remote_user: str = ""
    remote_passwd: str = ""


class ConfigMapView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = "v4"
    kind: str = "configmap"
    metadata: ConfigurationMeta
    datas: dict[str, ConfigItemView]


class SecretItemView(msgspec.Struct, frozen=True, kw_only=True):
    """Never the content: its digest (see bcs_scheduler.api.redaction) and its size in bytes."""

    digest: str
    size: int


class SecretView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = "v4"
    kind: str = "secret"
    metadata: ConfigurationMeta
    datas: dict[str, SecretItemView]


def show_config_map(record: ConfigMap) -> ConfigMapView:
    datas = {
        key: ConfigItemView(
            type=item.type, content=item.content, remote_user=item.user, remote_passwd=hide(item.password)
        )
        for key, item in record.items.items()
    }
    return ConfigMapView(metadata=show_meta(record), datas=datas)


def show_secret(record: Secret) -> SecretView:
    datas = {}
    for key, content in record.items.items():
        digest, size = fingerprint(content)
        datas[key] = SecretItemView(digest=digest, size=size)
    return SecretView(metadata=show_meta(record), datas=datas)


def show_meta(record: ConfigMap | Secret | Webhook | CustomObject) -> ConfigurationMeta:
    return ConfigurationMeta(
        name=record.name,
        namespace=record.namespace,
        creation_timestamp=rfc3339(record.created_at),
        update_timestamp=rfc3339(record.updated_at),
        resource_version=version_of(record),
        labels=record.labels,
        annotations=record.annotations,
    )
