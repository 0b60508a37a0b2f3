"""Keys, and ids as texts. Import them from store/ids.py, which describes the formats and has the classes for the parts
of ids. This module needs no library: the command line uses it, and msgspec takes as long to load as a command may take.
"""

from __future__ import annotations


def taskgroup_parts(text: str) -> tuple[int, str, str, str, int] | None:
    """Index, application, namespace, cluster and nanoseconds of a taskgroup id; None if the text is no such id."""
    head, _, nanoseconds = text.rpartition(".")
    parts = head.split(".", 3)
    if len(parts) != 4 or not all(parts) or not (is_number(parts[0]) and is_number(nanoseconds)):
        return None
    return int(parts[0]), parts[1], parts[2], parts[3], int(nanoseconds)


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
    """Returns the name of a taskgroup, such as ``web-3``, from its id; the text itself if the text is not a taskgroup
    id."""
    found = taskgroup_parts(taskgroup_id)
    return f"{found[1]}-{found[0]}" if found is not None else taskgroup_id


def transaction_name(identity: str) -> str:
    """Returns the short name of a transaction, its last six digits, from its id: messages name transactions so, and
    requests of users may. Ids begin with the same digits, because they are times. A text that ends otherwise is
    returned as given."""
    end = identity[-6:]
    return end if end.isdecimal() else identity


def application_of(taskgroup_id: str) -> str:
    """Key of the application of a taskgroup. Raises ValueError if the text does not have the parts of such an id."""
    _, application, namespace, _ = taskgroup_id.split(".", 3)
    return object_key(namespace, application)


def nanoseconds_of(identity: str) -> int:
    """The number at the end of the id of a taskgroup, transaction, command or message, by which ids of one kind are in
    the order of their age; 0 if there is none."""
    digits = identity[len(identity.rstrip("0123456789")) :]
    return int(digits) if digits else 0


def transaction_id(nanoseconds: int) -> str:
    """Id of a transaction. `nanoseconds`: Unix nanoseconds of its start, unique among all ids."""
    return f"application-{nanoseconds}"


def command_id(kind: str, namespace: str, name: str, nanoseconds: int) -> str:
    """Makes the id of a command. `kind` is ``application`` or ``deployment``; the id begins with the kind as a
    capitalized word. `nanoseconds`: Unix nanoseconds, unique among all ids."""
    return f"{kind.capitalize()}-{namespace}-{name}-{nanoseconds}"


def commanded(command_id: str, kind: str, namespace: str) -> str:
    """Returns the name of the object that the command with this id was sent to; empty if the id names another kind or
    namespace."""
    head = f"{kind.capitalize()}-{namespace}-"
    return command_id.removeprefix(head).rpartition("-")[0] if command_id.startswith(head) else ""


def object_key(namespace: str, name: str) -> str:
    """Key of an application, deployment, daemonset, service, configmap, secret, webhook."""
    return f"{namespace}/{name}"


def namespace_of(key: str) -> str:
    """Namespace of the object that has this key, or of a part of it (a version, a revision)."""
    return key.partition("/")[0]


def without_namespace(key: str, namespace: str) -> str:
    """Returns the key without the namespace and the slash; the whole key if it does not begin with this namespace."""
    return key.removeprefix(f"{namespace}/") if namespace else key


def part_key(owner: str, part: str | int) -> str:
    """Key of a part of the object with the key `owner`: its version of this name, its revision of this number."""
    return f"{owner}/{part}"


def split_part(key: str) -> tuple[str, str]:
    """Key of the object that a version or revision with this key belongs to, and the name or number of the part."""
    owner, _, part = key.rpartition("/")
    return owner, part


def owner_of(key: str) -> str:
    """Key of the object that a version or revision with this key belongs to."""
    return key.rpartition("/")[0]


def custom_key(type: str, namespace: str, name: str) -> str:
    """Key of a custom object of the registered kind `type`."""
    return f"{type}/{namespace}/{name}"


def custom_namespace_of(key: str) -> str:
    """Namespace of the custom object that has this key."""
    return key.split("/", 2)[1]


def is_number(text: str) -> bool:
    """A number as ids have it: decimal ASCII digits without leading zeros, so that formatting gives the same text."""
    return text.isascii() and text.isdecimal() and (text == "0" or text[0] != "0")
