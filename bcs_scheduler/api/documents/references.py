"""References of a task: keys of configmaps and secrets (docs/original.md#configmaps, #secrets), downloads, credentials.

The core checks whether the referenced objects exist, at the moment of the change.
"""

from __future__ import annotations

import binascii
import posixpath
import re
from base64 import b64decode
from urllib.parse import urlsplit

from bcs_scheduler.api.documents.names import check_name, check_variable, is_name
from bcs_scheduler.wire.documents.pod import ITEM_TYPES, ContainerDocument, ItemDocument, TaskDocument, UriDocument
from bcs_scheduler.wire.problems import Problems, Taken, element, hint, member
from bcs_scheduler.wire.redaction import HIDDEN
from transactions.injection import REFERENCE

SANDBOX_PLACES = ("${work_base_dir}", "${run_base_dir}")
"""Directories of the sandbox that paths may begin with (docs/executor-protocol.md)."""
OUTPUTS = ("stdout", "stderr")
"""Files in the directory of a task that are not its own."""
_REFERENCE = re.compile(r"secret::(?P<name>[^|]+)\|\|(?P<key>[^|]+)\Z")
_USER = re.compile(r"[A-Za-z0-9_$][A-Za-z0-9_.:$-]{0,63}\Z")


def check_user(user: str, path: str, problems: Problems) -> None:
    """A name or number, for containers also ``user:group``."""
    if user and not _USER.match(user):
        problems.add(path, "must be the name or number of a user")


def check_references(task: TaskDocument, path: str, problems: Problems) -> None:
    """Each variable and file has one source."""
    variables, files = Taken("variable"), Taken("file")
    # Of a variable that `env` has twice, the last one counts.
    for name, j in {variable.name: j for j, variable in enumerate(task.env)}.items():
        variables.take(name, member(element(member(path, "env"), j), "name"), problems)
    inside = isinstance(task, ContainerDocument) and bool(task.image)
    named = [("configmaps", "name", [(r.name, r.items) for r in task.configmaps])]
    named.append(("secrets", "secretName", [(r.secret_name, r.items) for r in task.secrets]))
    for field, key, references in named:
        for j, (name, items) in enumerate(references):
            at = element(member(path, field), j)
            if not is_name(name):
                check_name(name, member(at, key), problems)
            if not items:
                problems.warn(member(at, "items"), "is empty", "name the keys that the task takes")
            for i, item in enumerate(items):
                where = element(member(at, "items"), i)
                if item.type not in ITEM_TYPES:
                    known = hint(item.type, ITEM_TYPES).removeprefix("; ")
                    problems.warn(member(where, "type"), f"must be one of {', '.join(ITEM_TYPES)}", known)
                    continue
                _check_item(item, where, problems, inside=inside)
                taken = variables if item.type == "env" else files
                target = target_of(item)
                if item.type != "env":
                    target = posixpath.normpath(target if inside else target.lstrip("/"))
                taken.take(target, member(where, "keyOrPath"), problems)


def _check_item(item: ItemDocument, path: str, problems: Problems, *, inside: bool) -> None:
    """`inside`: the file is put into a container, which has no working directory that could be known here."""
    target = member(path, "keyOrPath")
    if item.type == "env":
        check_variable(target_of(item), target, problems)
        for field, given in (("readOnly", item.read_only), ("user", item.user), ("subPath", item.sub_path)):
            if given:
                problems.warn(member(path, field), "has no meaning for a variable")
        return
    _check_names(item, path, problems)
    check_user(item.user, member(path, "user"), problems)
    if not item.key_or_path:
        problems.add(target, "is required: the path of the file")
    written = target_of(item)
    check_file_path(written if inside else written.lstrip("/"), target, problems, absolute=inside)
    if not inside and written.startswith("/"):
        within = posixpath.normpath(written.lstrip("/"))
        problems.warn(target, f"is written to {within} in the folder of the process, not to this path of the agent")


def _check_names(item: ItemDocument, path: str, problems: Problems) -> None:
    """The other names of a file have a meaning in a directory only."""
    if item.key_or_path.endswith("/"):
        return
    same = ("", item.data_key, posixpath.basename(item.key_or_path), item.key_or_path)
    for field, name in (("dataKeyAlias", item.data_key_alias), ("subPath", item.sub_path)):
        if name not in same:
            problems.warn(member(path, field), "has no effect", "end keyOrPath with / to use this name")


def target_of(item: ItemDocument) -> str:
    """The name of the variable, or the whole path of the file."""
    name = item.data_key_alias or item.data_key
    if item.type == "env":
        return item.key_or_path or name
    if item.key_or_path.endswith("/"):
        return item.key_or_path + (item.sub_path or name).lstrip("/")
    return item.key_or_path


def check_file_path(written: str, path: str, problems: Problems, *, absolute: bool) -> None:
    """Checks the path of a file that is put into a task."""
    if ".." in written.split("/"):
        problems.add(path, "must not contain '..'")
    elif written.endswith("/"):
        problems.add(path, "must be the path of a file")
    elif absolute and not written.startswith("/"):
        problems.add(path, "must be an absolute path in the container")
    elif posixpath.normpath(written) in OUTPUTS:
        problems.add(path, "is a file of the task's output")


def check_credentials(user: str, password: str, path: str, fields: tuple[str, str], problems: Problems) -> None:
    """`fields`: the names of the two. Each is literal or ``secret::<name>||<key>``."""
    for field, value in zip(fields, (user, password), strict=True):
        at = member(path, field)
        if value == HIDDEN:
            problems.add(
                at, f"is {HIDDEN}, the mark of a hidden value: give the value again, or as secret::<name>||<key>"
            )
        elif value.startswith(REFERENCE):
            found = _REFERENCE.match(value)
            if found is None:
                problems.add(at, "must be secret::<name>||<key> if it begins with secret::")
            elif not is_name(found["name"]):
                check_name(found["name"], at, problems)
    if password and not user:
        problems.add(member(path, fields[0]), f"is required where {fields[1]} is given")


def check_url(written: str, path: str, problems: Problems, schemes: tuple[str, ...]) -> None:
    """Checks a URL: it has a host, and no credentials, because all users could read them."""
    try:
        parts = urlsplit(written)
        host, credentials = parts.hostname, parts.password is not None
        _ = parts.port
    except ValueError:
        host, credentials = None, False
    if not host or parts.scheme.lower() not in schemes or not written.isprintable() or " " in written:
        problems.add(path, f"must be a URL that begins with {' or '.join(f'{scheme}://' for scheme in schemes)}")
    elif credentials:
        problems.add(path, "must not contain a password: give it in a field of its own")


def check_uris(uris: tuple[UriDocument, ...], path: str, problems: Problems) -> None:
    for j, uri in enumerate(uris):
        at = element(path, j)
        value = member(at, "value")
        try:
            parts = urlsplit(uri.value)
            if not parts.scheme and not uri.value.startswith(("/", "$")):
                problems.add(value, "must be a URL or an absolute path on the agent")
            elif parts.password is not None:
                problems.add(value, "must not contain a password: give user and pwd")
            elif uri.user and parts.scheme.lower() not in ("http", "https"):
                problems.add(member(at, "user"), "has a meaning for http and https only")
        except ValueError:
            problems.add(value, "must be a URL or an absolute path on the agent")
        output = uri.output
        if output.startswith("/") or ".." in output.split("/"):
            places = " or ".join(SANDBOX_PLACES)
            problems.add(member(at, "output"), f"must be a relative path inside the sandbox, or begin with {places}")
        check_credentials(uri.user, uri.pwd, at, ("user", "pwd"), problems)


def read_base64(written: str, path: str, problems: Problems) -> str:
    """Without the blanks and line ends that it may contain; the problem never shows the content."""
    content = "".join(written.split())
    try:
        b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        problems.add(path, "must be base64")
    return content
