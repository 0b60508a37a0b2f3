"""What versions and messages take from configmaps and secrets, resolved."""

from __future__ import annotations

from base64 import b64encode

import pytest

from store.records import ConfigItem, ConfigMap, Secret, Version
from store.records.definition import Container, Item, Reference
from store.state import State
from transactions.injection import Content, Credentials, Missing, examine, inject, resolve


def base64(text: str) -> str:
    return b64encode(text.encode()).decode()


STATE = State(
    [
        Secret(namespace="shop", name="login", items={"user": base64("reader"), "key": base64("pass")}),
        ConfigMap(
            namespace="shop",
            name="conf",
            items={
                "rules": ConfigItem(
                    type="http", content="http://h/x", user="secret::login||user", password="secret::login||key"
                )
            },
        ),
    ]
)


def test_both_parts_of_an_account_may_lie_in_a_secret() -> None:
    item = Item(type="env", key="rules", target="RULES")
    container = Container(configmaps=(Reference(name="conf", items=(item,)),))
    version = Version(namespace="shop", application="web", containers=(container,))
    expected = Content(item, url="http://h/x", user="reader", password="pass")
    assert inject(STATE, version)[0].contents == (expected,)


def test_an_account_that_is_not_text_is_named_and_not_shown() -> None:
    state = State([Secret(namespace="shop", name="login", items={"key": b64encode(b"pa\xffss").decode()})])
    with pytest.raises(Missing) as refused:
        resolve(state, "shop", "me", "secret::login||key")
    assert refused.value.what == ("secret shop/login: the content of key 'key' is not text",)


def test_an_account_is_resolved_in_its_namespace() -> None:
    assert resolve(STATE, "shop", "secret::login||user", "secret::login||key") == Credentials("reader", "pass")
    assert resolve(STATE, "shop", "me", "literal") == Credentials("me", "literal")
    with pytest.raises(Missing, match="secret other/login does not exist") as refused:
        resolve(STATE, "other", "me", "secret::login||key")
    assert len(refused.value.what) == 1
    with pytest.raises(Missing, match="has no key 'none'"):
        resolve(STATE, "shop", "me", "secret::login||none")


def test_a_launch_takes_from_all_it_names_and_from_what_its_configmaps_name() -> None:
    container = Container(
        configmaps=(Reference(name="remote", items=(Item(type="file", key="a", target="/a"),)),),
        secrets=(Reference(name="absent", items=(Item(type="env", key="b", target="B"),)),),
        image_pull_user="secret::registry||user",
    )
    version = Version(namespace="default", application="web", containers=(container,))
    state = State()
    named = {("configmap", "default/remote"), ("secret", "default/absent"), ("secret", "default/registry")}
    missing, sources = examine(state, version)
    assert len(missing) == 3 and sources == named
    item = ConfigItem(type="http", content="http://host/a", user="secret::download||user")
    remote = ConfigMap(namespace="default", name="remote", items={"a": item})
    state.apply("configmap", remote.key, remote)
    assert examine(state, version)[1] == named | {("secret", "default/download")}
    assert examine(state, Version(namespace="default", application="web", containers=(Container(),))) == (
        (),
        frozenset(),
    )


def test_a_task_that_refers_to_an_item_behind_ftp_is_refused_and_the_other_items_work() -> None:
    items = {"a": ConfigItem(content=base64("a")), "b": ConfigItem(type="ftp", content="ftp://files.example/x")}
    state = State([ConfigMap(namespace="shop", name="conf", items=items)])

    def version(key: str) -> Version:
        reference = Reference(name="conf", items=(Item(type="file", key=key, target="/x"),))
        return Version(namespace="shop", application="web", containers=(Container(configmaps=(reference,)),))

    assert examine(state, version("a"))[0] == ()
    assert examine(state, version("b"))[0] == ("configmap shop/conf: key 'b' is behind ftp, which agents do not fetch",)
