"""What a task takes from elsewhere: keys of configmaps and secrets (bcs_api 6.10, 6.11), downloads, credentials.

Whether what is named exists is for the core to say, which looks at the moment of the change.
"""

from __future__ import annotations

import posixpath
import re
from urllib.parse import urlsplit

from bcs_scheduler.api.documents.names import check_name, check_variable
from bcs_scheduler.api.documents.pod import ContainerDocument, ItemDocument, TaskDocument, UriDocument
from bcs_scheduler.api.documents.walk import Problems, Taken, element, member
from bcs_scheduler.api.redaction import HIDDEN
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
    for j, variable in enumerate(task.env):
        variables.take(variable.name, member(element(member(path, "env"), j), "name"), problems)
    inside = isinstance(task, ContainerDocument) and bool(task.image)
    named = [("configmaps", "name", [(r.name, r.items) for r in task.configmaps])]
    named.append(("secrets", "secretName", [(r.secret_name, r.items) for r in task.secrets]))
    for field, key, references in named:
        for j, (name, items) in enumerate(references):
            at = element(member(path, field), j)
            check_name(name, member(at, key), problems)
            for i, item in enumerate(items):
                where = element(member(at, "items"), i)
                _check_item(item, where, problems, inside=inside)
                taken = variables if item.type == "env" else files
                target = item.key_or_path if item.type == "env" else posixpath.normpath(item.key_or_path)
                taken.take(target, member(where, "keyOrPath"), problems)


def _check_item(item: ItemDocument, path: str, problems: Problems, *, inside: bool) -> None:
    """`inside`: the file is put into a container, which has no working directory that could be known here."""
    target = member(path, "keyOrPath")
    if item.type == "env":
        check_variable(item.key_or_path, target, problems)
        for field, given in (("readOnly", item.read_only is not None), ("user", item.user)):
            if given:
                problems.add(member(path, field), "has no meaning for a variable")
        return
    check_user(item.user, member(path, "user"), problems)
    check_file_path(item.key_or_path, target, problems, absolute=inside)


def check_file_path(written: str, path: str, problems: Problems, *, absolute: bool) -> None:
    """Of a file that is put into a task."""
    if ".." in written.split("/"):
        problems.add(path, "must not contain '..'")
    elif written.endswith("/"):
        problems.add(path, "must be the path of a file")
    elif absolute and not written.startswith("/"):
        problems.add(path, "must be an absolute path in the container")
    elif posixpath.normpath(written) in OUTPUTS:
        problems.add(path, "is where the output of the task is kept")


def check_credentials(user: str, password: str, path: str, fields: tuple[str, str], problems: Problems) -> None:
    """`fields`: the names of the two. Each is literal or ``secret::<name>||<key>``."""
    for field, value in zip(fields, (user, password), strict=True):
        at = member(path, field)
        if value == HIDDEN:
            problems.add(at, f"is shown as {HIDDEN} and not known here: give it again, or as secret::<name>||<key>")
        elif value.startswith(REFERENCE):
            found = _REFERENCE.match(value)
            if found is None:
                problems.add(at, "must be secret::<name>||<key> if it begins with secret::")
            else:
                check_name(found["name"], at, problems)
    if password and not user:
        problems.add(member(path, fields[0]), f"is required where {fields[1]} is given")


def check_url(written: str, path: str, problems: Problems, schemes: tuple[str, ...]) -> None:
    """A URL with a host and without credentials, which would be seen by everybody."""
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
