"""Values that a version takes from configmaps and secrets, looked up at the moment of launch.

No content may appear in a log, an event, an error or a view: the messages of `missing` name objects and keys only.
"""

from __future__ import annotations

from base64 import b64decode
from typing import NamedTuple

from store.ids import object_key
from store.records import ConfigItem, Version
from store.records.definition import Container, Item
from store.state.reader import StateReader
from transactions.base import Refused

REFERENCE = "secret::"
"""A value ``secret::<name>||<key>`` stands for the value of this key in a secret of the namespace."""

UNFETCHED = ("ftp", "ftps")
"""Types of items of configmaps that no agent fetches."""

Source = tuple[str, str]
"""Kind (configmap or secret) and key of an object that something is taken from."""


class Content(NamedTuple):
    """Content for one variable or file: `data` is base64, or `url` is fetched on the agent (basic authentication if
    `user` is given)."""

    item: Item
    data: str = ""
    url: str = ""
    user: str = ""
    password: str = ""
    secret: bool = False

    def __repr__(self) -> str:
        return f"Content({self.item.type} {self.item.target})"


class Credentials(NamedTuple):
    """User and password of a registry or download, resolved."""

    user: str = ""
    password: str = ""

    def __repr__(self) -> str:
        return "Credentials(...)"


class Injected(NamedTuple):
    """Everything one container needs that is not in its version."""

    contents: tuple[Content, ...] = ()
    registry: Credentials = Credentials()
    uris: tuple[Credentials, ...] = ()
    """One per URI of the container."""


class Missing(Exception):
    """A referenced object or key does not exist. `what` lists all of them, as messages that a user can act on."""

    def __init__(self, what: tuple[str, ...]) -> None:
        super().__init__("; ".join(what))
        self.what = what


def refers(version: Version) -> bool:
    """Returns True if a launch of the version needs anything from configmaps, secrets or credentials."""
    return any(map(_refers, version.containers))


def _refers(container: Container) -> bool:
    return bool(
        container.configmaps
        or container.secrets
        or container.image_pull_user
        or any(uri.user or uri.password for uri in container.uris)
    )


def inject(state: StateReader, version: Version) -> tuple[Injected, ...]:
    """One Injected per container, or nothing if none refers to anything. Raises Missing."""
    if not refers(version):
        return ()
    lookup = _Lookup(state, version.namespace)
    found = tuple([lookup.container(container) for container in version.containers])
    if lookup.missing:
        raise Missing(tuple(dict.fromkeys(lookup.missing)))
    return found


def resolve(state: StateReader, namespace: str, user: str, password: str) -> Credentials:
    """Credentials of which either part may be a reference to a secret of the namespace. Raises Missing."""
    lookup = _Lookup(state, namespace)
    found = lookup.credentials(user, password)
    if lookup.missing:
        raise Missing(tuple(lookup.missing))
    return found


class Injections:
    """Lookups of one placement pass: a version that is launched a thousand times is looked up once."""

    def __init__(self, state: StateReader) -> None:
        self._state = state
        self._known: dict[str, tuple[Injected, ...] | None] = {}

    def of(self, version: Version) -> tuple[Injected, ...] | None:
        """Returns the injected values of each container of the version; None if an object that the version refers to
        does not exist."""
        if not refers(version):
            return ()
        if version.key not in self._known:
            try:
                self._known[version.key] = inject(self._state, version)
            except Missing:
                self._known[version.key] = None
        return self._known[version.key]


def refuse_if_missing(state: StateReader, version: Version) -> None:
    """Raises Refused naming every configmap, secret and key that the version refers to in vain."""
    problems: list[tuple[str, str]] = []
    part = "processes" if any(c.process is not None for c in version.containers) else "containers"
    for number, container in enumerate(version.containers):
        lookup = _Lookup(state, version.namespace)
        lookup.container(container)
        problems += [(f"$.spec.template.spec.{part}[{number}]", words) for words in dict.fromkeys(lookup.missing)]
    if problems:
        words = "; ".join(dict.fromkeys(text for _, text in problems))
        raise Refused("invalid", words, problems=tuple(problems))


def examine(state: StateReader, version: Version) -> tuple[tuple[str, ...], frozenset[Source]]:
    """Returns the missing configuration of the version (see `missing`), and the keys of all configmaps and secrets that
    a launch reads, existing or not. A configmap may name secrets itself, so a changed configmap may change the
    result."""
    if not refers(version):
        return (), frozenset()
    lookup = _Lookup(state, version.namespace)
    for container in version.containers:
        lookup.container(container)
    return tuple(dict.fromkeys(lookup.missing)), frozenset(lookup.sources)


def missing(state: StateReader, version: Version) -> tuple[str, ...]:
    """Returns one message for each object or key that the version refers to and that does not exist; empty if the
    version can be launched."""
    try:
        inject(state, version)
    except Missing as error:
        return error.what
    return ()


class _Lookup:
    def __init__(self, state: StateReader, namespace: str) -> None:
        self._state = state
        self._namespace = namespace
        self.missing: list[str] = []
        self.sources: set[Source] = set()

    def container(self, container: Container) -> Injected:
        contents = [self._config(ref.name, item) for ref in container.configmaps for item in ref.items]
        contents += [self._secret(ref.name, item) for ref in container.secrets for item in ref.items]
        return Injected(
            contents=tuple(contents),
            registry=self.credentials(container.image_pull_user, container.image_pull_password),
            uris=tuple(self.credentials(uri.user, uri.password) for uri in container.uris),
        )

    def _config(self, name: str, item: Item) -> Content:
        key = object_key(self._namespace, name)
        self.sources.add(("configmap", key))
        found = self._state.config_maps.get(key)
        value = found.items.get(item.key) if found is not None else None
        if value is None:
            self._miss("configmap", name, item.key, found is not None)
            value = ConfigItem()
        if value.type in UNFETCHED:
            self.missing.append(f"configmap {key}: key {item.key!r} is behind {value.type}, which agents do not fetch")
        if value.type == "file":
            return Content(item, data=value.content)
        return Content(item, url=value.content, user=self._value(value.user), password=self._value(value.password))

    def _secret(self, name: str, item: Item) -> Content:
        return Content(item, data=self._held(name, item.key), secret=True)

    def _held(self, name: str, key: str) -> str:
        """Base64."""
        self.sources.add(("secret", object_key(self._namespace, name)))
        found = self._state.secrets.get(object_key(self._namespace, name))
        value = found.items.get(key) if found is not None else None
        if value is None:
            self._miss("secret", name, key, found is not None)
            return ""
        return value

    def credentials(self, user: str, password: str) -> Credentials:
        return Credentials(self._value(user), self._value(password))

    def _value(self, text: str) -> str:
        """Returns the text as it is, or the value of the secret that the text refers to."""
        if not text.startswith(REFERENCE):
            return text
        name, _, key = text.removeprefix(REFERENCE).partition("||")
        try:
            return b64decode(self._held(name, key)).decode()
        except UnicodeDecodeError:
            self.missing.append(f"secret {object_key(self._namespace, name)}: the content of key {key!r} is not text")
            return ""

    def _miss(self, kind: str, name: str, key: str, exists: bool) -> None:
        where = f"{kind} {object_key(self._namespace, name)}"
        self.missing.append(f"{where} has no key {key!r}" if exists else f"{where} does not exist")
