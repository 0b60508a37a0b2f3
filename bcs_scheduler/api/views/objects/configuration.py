"""Configmaps and secrets as users see them: as in their documents, without confidential content."""

from __future__ import annotations

import msgspec

from bcs_scheduler.api.reading.redaction import fingerprint
from bcs_scheduler.api.views.base import KeptMeta, show_meta
from bcs_scheduler.wire.redaction import hide
from store.records import ConfigMap, Secret


class ConfigItemView(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`remotePasswd` is a mark unless it is a reference."""

    type: str
    content: str
    remote_user: str = ""
    remote_passwd: str = ""


class ConfigMapView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = "v4"
    kind: str = "configmap"
    metadata: KeptMeta
    datas: dict[str, ConfigItemView]


class SecretItemView(msgspec.Struct, frozen=True, kw_only=True):
    """A key of a secret without its content: the digest of the content (see bcs_scheduler.api.reading.redaction) and
    its size in bytes."""

    digest: str
    size: int


class SecretView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = "v4"
    kind: str = "secret"
    metadata: KeptMeta
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
