"""Identifiers: how ids and keys are composed, taken apart and ordered. No other module splits or joins them
(tests/unit/test_store_ids.py reads the source).

    taskgroup      <index>.<application>.<namespace>.<cluster>.<nanoseconds>                  (executor id)
    task           <nanoseconds>.<number>.<index>.<application>.<namespace>.<cluster>         (task id)
    application, deployment, service, ...   <namespace>/<name>                                (key)
    version, revision                       <namespace>/<name>/<version or number>            (key)
    custom object                           <type>/<namespace>/<name>                         (key)
    transaction    application-<nanoseconds>
    command        <Kind>-<namespace>-<name>-<nanoseconds>

Application and namespace names are DNS-like labels without dots (`bcs_scheduler.api.documents.names`). The
cluster name is chosen by the operator of the cluster manager (``--cluster``) and may contain dots, so ids are read from
both ends: the text between the fixed parts is the cluster name.

The cluster manager accepts a task or executor id of 1 to 255 bytes without control characters, ``/`` and ``\\``
(decision 29 names the source). `safe_cluster` replaces these characters and those that other readers of ids do not
accept.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import msgspec

from store.keys import application_of as application_of
from store.keys import command_id as command_id
from store.keys import commanded as commanded
from store.keys import custom_key as custom_key
from store.keys import custom_namespace_of as custom_namespace_of
from store.keys import index_of as index_of
from store.keys import is_number, taskgroup_parts
from store.keys import namespace_of as namespace_of
from store.keys import nanoseconds_of as nanoseconds_of
from store.keys import object_key as object_key
from store.keys import owner_of as owner_of
from store.keys import part_key as part_key
from store.keys import split_part as split_part
from store.keys import taskgroup_name as taskgroup_name
from store.keys import taskgroup_of as taskgroup_of
from store.keys import transaction_id as transaction_id
from store.keys import transaction_name as transaction_name
from store.keys import without_namespace as without_namespace

LONGEST = 255
"""Bytes of the longest task or executor id that the cluster manager accepts (NAME_MAX)."""
UNNAMED = "Unnamed"
"""Stands for the cluster name if the master has none."""
SUBSTITUTE = "_"
"""Stands for each character of a cluster name that cannot be part of an id."""
_REFUSED = frozenset("/\\:")
"""Slashes are refused by the cluster manager. A colon in the path of a sandbox, which contains the taskgroup id,
cannot be mounted into a Docker container."""
_FORMAT_RESERVE = len("18446744073709551615.99999.")
"""Bytes of a task id before the index, at most: its nanoseconds and its number, with their dots."""


class TaskGroupId(msgspec.Struct, frozen=True, gc=False):
    """The parts of a taskgroup id. `nanoseconds` is the Unix time at which the id was made, unique within a cluster."""

    index: int
    application: str
    namespace: str
    cluster: str
    nanoseconds: int

    @classmethod
    def make(cls, index: int, application: str, namespace: str, cluster: str, nanoseconds: int) -> TaskGroupId:
        """The id of a new taskgroup: any cluster name is made safe, and cut as far as the ids of the taskgroup and of
        its tasks would be longer than the cluster manager accepts."""
        fixed = len(f"{index}.{application}.{namespace}.".encode())
        room = max(1, LONGEST - _FORMAT_RESERVE - fixed)
        return cls(index, application, namespace, safe_cluster(cluster, room), nanoseconds)

    @classmethod
    def parse(cls, text: str) -> TaskGroupId | None:
        """The parts of the id; None if the text is not a taskgroup id."""
        parts = taskgroup_parts(text)
        return None if parts is None else cls(*parts)

    def __str__(self) -> str:
        return f"{self.index}.{self.application}.{self.namespace}.{self.cluster}.{self.nanoseconds}"

    @property
    def owner(self) -> str:
        """Key of the application."""
        return object_key(self.namespace, self.application)

    @property
    def name(self) -> str:
        """Name of the taskgroup, which its replacements share: ``web-3``."""
        return f"{self.application}-{self.index}"

    @property
    def order(self) -> tuple[str, str, int, int]:
        """Sorts by namespace, application, index, and age, oldest first."""
        return self.namespace, self.application, self.index, self.nanoseconds

    def task(self, number: int) -> TaskId:
        """Id of the task of this number (from 0) in the taskgroup."""
        return TaskId(self.nanoseconds, number, self.index, self.application, self.namespace, self.cluster)


class TaskId(msgspec.Struct, frozen=True, gc=False):
    """The parts of a task id. `number` is the position of its container in the version, from 0."""

    nanoseconds: int
    number: int
    index: int
    application: str
    namespace: str
    cluster: str

    @classmethod
    def parse(cls, text: str) -> TaskId | None:
        """The parts of the id; None if the text is not the id of a task of this framework."""
        parts = text.split(".", 5)
        if len(parts) != 6 or not all(parts) or not all(map(is_number, parts[:3])):
            return None
        return cls(int(parts[0]), int(parts[1]), int(parts[2]), parts[3], parts[4], parts[5])

    def __str__(self) -> str:
        tail = f"{self.index}.{self.application}.{self.namespace}.{self.cluster}"
        return f"{self.nanoseconds}.{self.number}.{tail}"

    @property
    def taskgroup(self) -> TaskGroupId:
        """Id of the taskgroup that the task belongs to."""
        return TaskGroupId(self.index, self.application, self.namespace, self.cluster, self.nanoseconds)


class ObjectKey(msgspec.Struct, frozen=True, gc=False):
    """The parts of the key of an application, deployment, daemonset, service, configmap, secret, webhook. State and
    records hold keys as text, which `object_key` makes; this is for those who need the parts."""

    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str) -> ObjectKey | None:
        """The parts of the key; None if the text is not ``<namespace>/<name>``."""
        namespace, _, name = text.partition("/")
        return cls(namespace, name) if namespace and name and "/" not in name else None

    @classmethod
    def of(cls, key: str) -> ObjectKey:
        """The parts of a key that `object_key` has made."""
        namespace, _, name = key.partition("/")
        return cls(namespace, name)

    def __str__(self) -> str:
        return object_key(self.namespace, self.name)

    @property
    def order(self) -> tuple[str, str]:
        """Sorts by namespace, then by name. The order of the texts is another one: "/" is greater than "-"."""
        return self.namespace, self.name


@lru_cache(maxsize=256)
def safe_cluster(name: str, longest: int = LONGEST) -> str:
    """The cluster name as it stands in ids; a name that can stand there is not changed.

    Replaced are control characters, slashes, colons, blanks (they would split ids in logs and command lines), and
    surrogates, which have no UTF-8. A name longer than `longest` bytes in UTF-8 is cut. The result is never empty: a
    missing name gives `UNNAMED`. Cached: asked for every taskgroup that is launched, and there is one cluster name.
    """
    safe = "".join(c if _is_safe(c) else SUBSTITUTE for c in name)
    if len(safe.encode()) > longest:
        safe = safe.encode()[:longest].decode(errors="ignore")
    return safe or UNNAMED


def _is_safe(character: str) -> bool:
    return not (character in _REFUSED or character.isspace() or unicodedata.category(character) in ("Cc", "Cs"))
