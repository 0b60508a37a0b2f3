"""Identifiers: how ids and keys are composed, taken apart and ordered. No other module splits or joins them.

    taskgroup      <index>.<application>.<namespace>.<cluster>.<nanoseconds>                  (Mesos executor id)
    task           <nanoseconds>.<number>.<index>.<application>.<namespace>.<cluster>         (Mesos task id)
    application, deployment, service, ...   <namespace>/<name>
    transaction    application-<nanoseconds>
    command        <Kind>-<namespace>-<name>-<nanoseconds>

Application and namespace names are DNS-like labels without dots (`bcs_scheduler.api.documents.names`). The cluster name
is chosen by the operator of Mesos (``--cluster``) and may contain dots, so ids are read from both ends: whatever lies
between the fixed parts is the cluster name.

Mesos accepts a task or executor id of 1 to 255 bytes without control characters, ``/`` and ``\\`` (validateID in
src/common/validation.cpp of Mesos 1.11). `safe_cluster` replaces these and what other readers of ids cannot take.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

LONGEST = 255
"""Bytes of the longest task or executor id that Mesos accepts (NAME_MAX)."""
UNNAMED = "Unnamed"
"""Stands for the cluster name if the master has none."""
SUBSTITUTE = "_"
"""Stands for each character of a cluster name that cannot be part of an id."""
_REFUSED = frozenset("/\\:")
"""Slashes are refused by Mesos. A colon in the path of a sandbox, which contains the taskgroup id, cannot be mounted
into a Docker container."""
_FORMAT_RESERVE = len("18446744073709551615.99999.")
"""Bytes of a task id before the index, at most: its nanoseconds and its number, with their dots."""


@dataclass(frozen=True, slots=True)
class TaskGroupId:
    """The parts of a taskgroup id. `nanoseconds` is the Unix time at which the id was made, unique within a cluster."""

    index: int
    application: str
    namespace: str
    cluster: str
    nanoseconds: int

    @classmethod
    def make(cls, index: int, application: str, namespace: str, cluster: str, nanoseconds: int) -> TaskGroupId:
        """The id of a new taskgroup: any cluster name is made safe, and cut as far as the ids of the taskgroup and of
        its tasks would be longer than Mesos accepts."""
        fixed = len(f"{index}.{application}.{namespace}.".encode())
        room = max(1, LONGEST - _FORMAT_RESERVE - fixed)
        return cls(index, application, namespace, safe_cluster(cluster, room), nanoseconds)

    @classmethod
    def parse(cls, text: str) -> TaskGroupId | None:
        """The parts of the id; None if the text is not a taskgroup id."""
        head, _, nanoseconds = text.rpartition(".")
        parts = head.split(".", 3)
        if len(parts) != 4 or not all(parts) or not (_is_number(parts[0]) and _is_number(nanoseconds)):
            return None
        return cls(int(parts[0]), parts[1], parts[2], parts[3], int(nanoseconds))

    def __str__(self) -> str:
        return f"{self.index}.{self.application}.{self.namespace}.{self.cluster}.{self.nanoseconds}"

    @property
    def owner(self) -> str:
        """Key of the application."""
        return f"{self.namespace}/{self.application}"

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


@dataclass(frozen=True, slots=True)
class TaskId:
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
        if len(parts) != 6 or not all(parts) or not all(map(_is_number, parts[:3])):
            return None
        return cls(int(parts[0]), int(parts[1]), int(parts[2]), parts[3], parts[4], parts[5])

    def __str__(self) -> str:
        tail = f"{self.index}.{self.application}.{self.namespace}.{self.cluster}"
        return f"{self.nanoseconds}.{self.number}.{tail}"

    @property
    def taskgroup(self) -> TaskGroupId:
        return TaskGroupId(self.index, self.application, self.namespace, self.cluster, self.nanoseconds)


def taskgroup_of(task_id: str) -> str:
    """Id of the taskgroup of a task; empty if the text does not have the parts of a task id. Called for every status
    update: does not check that numbers are numbers, because no taskgroup has the id that such a text gives."""
    parts = task_id.split(".", 5)
    if len(parts) != 6:
        return ""
    return f"{parts[2]}.{parts[3]}.{parts[4]}.{parts[5]}.{parts[0]}"


def index_of(taskgroup_id: str) -> int:
    """Index of a taskgroup within its application. Raises ValueError if the text does not begin with a number."""
    return int(taskgroup_id.partition(".")[0])


def taskgroup_name(taskgroup_id: str) -> str:
    """``web-3`` from the id of a taskgroup; the text itself if it is no such id."""
    found = TaskGroupId.parse(taskgroup_id)
    return found.name if found is not None else taskgroup_id


def application_of(taskgroup_id: str) -> str:
    """Key of the application of a taskgroup. Raises ValueError if the text does not have the parts of such an id."""
    _, application, namespace, _ = taskgroup_id.split(".", 3)
    return f"{namespace}/{application}"


def nanoseconds_of(identity: str) -> int:
    """The number at the end of the id of a taskgroup, transaction, command or message, by which ids of one kind are in
    the order of their age; 0 if there is none."""
    digits = identity[len(identity.rstrip("0123456789")) :]
    return int(digits) if digits else 0


def transaction_id(nanoseconds: int) -> str:
    return f"application-{nanoseconds}"


def command_id(kind: str, namespace: str, name: str, nanoseconds: int) -> str:
    """`kind` is ``application`` or ``deployment``; the id begins with it as a capitalized word."""
    return f"{kind.capitalize()}-{namespace}-{name}-{nanoseconds}"


def commanded(command_id: str, kind: str, namespace: str) -> str:
    """Name of the object of this kind in this namespace that the command is for; empty if its id says otherwise."""
    head = f"{kind.capitalize()}-{namespace}-"
    return command_id.removeprefix(head).rpartition("-")[0] if command_id.startswith(head) else ""


def object_key(namespace: str, name: str) -> str:
    """Key of an application, deployment, daemonset, service, configmap, secret, ..."""
    return f"{namespace}/{name}"


def namespace_of(key: str) -> str:
    """Namespace of the object that has this key, or of a part of it (a version, a revision)."""
    return key.partition("/")[0]


def owner_of(key: str) -> str:
    """Key of the object that a version or revision with this key (``<namespace>/<name>/<version>``) belongs to."""
    return key.rpartition("/")[0]


def safe_cluster(name: str, longest: int = LONGEST) -> str:
    """The cluster name as it stands in ids; a name that can stand there is not changed.

    Replaced are control characters, slashes, colons, blanks (they would split ids in logs and command lines), and
    surrogates, which have no UTF-8. A name longer than `longest` bytes in UTF-8 is cut. The result is never empty: a
    missing name gives `UNNAMED`.
    """
    safe = "".join(c if _is_safe(c) else SUBSTITUTE for c in name)
    if len(safe.encode()) > longest:
        safe = safe.encode()[:longest].decode(errors="ignore")
    return safe or UNNAMED


def _is_safe(character: str) -> bool:
    return not (character in _REFUSED or character.isspace() or unicodedata.category(character) in ("Cc", "Cs"))


def _is_number(text: str) -> bool:
    """A number as ids have it: decimal ASCII digits without leading zeros, so that formatting gives the same text."""
    return text.isascii() and text.isdecimal() and (text == "0" or text[0] != "0")
