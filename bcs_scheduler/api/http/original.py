"""Requests of clients of the original: its paths, its rules for queries, and its rules for success
(docs/api.md#clients-of-the-original).

The paths of its driver are those of ours under another prefix. Of its scheduler's own paths only those for reading are
served, because the bodies of the others are records of the original.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bcs_scheduler.api.http.operation import BASE, Operation, Param
from bcs_scheduler.api.http.routing import Routes

DRIVER = ("/mesosdriver/v4", "/bcsapi/v4/scheduler/mesos")
"""Prefixes of the driver: its own, and the one of an older gateway. The one of the present gateway is ours."""
SCHEDULER = "/v1"
READING = ("GET", "HEAD")
"""Methods of the scheduler's own paths."""
_NS = "/namespaces/{ns}"
READS = {
    "/{ns}/apps": f"{_NS}/applications",
    "/apps/{ns}/{name}": f"{_NS}/applications/{{name}}",
    "/apps/{ns}/{name}/taskgroups": f"{_NS}/applications/{{name}}/taskgroups",
    "/apps/{ns}/{name}/versions": f"{_NS}/applications/{{name}}/versions",
    "/apps/{ns}/{name}/versions/{id}": f"{_NS}/applications/{{name}}/versions/{{id}}",
    "/deployment/{ns}/{name}": f"{_NS}/deployments/{{name}}",
    **{
        path: path
        for path in (
            "/definition/application/{ns}/{name}",
            "/definition/deployment/{ns}/{name}",
            "/command/application/{ns}/{name}",
            "/command/deployment/{ns}/{name}",
            "/transactions/{ns}",
            "/cluster/resources",
            "/cluster/endpoints",
            "/cluster/current/offers",
            "/agentsetting/{agent}",
            "/agentsettings",
            "/crd/namespaces/{ns}/{kind}",
            "/crd/namespaces/{ns}/{kind}/{name}",
            "/crd/{kind}",
            "/admissionwebhook/{ns}/{name}",
            "/admissionwebhooks",
        )
    },
}
"""Our path of each path of the original's scheduler that is served to GET."""
_ROUTES = Routes(READS)
_FORGIVING = ("configmaps", "secrets", "services", "admissionwebhook", "crd", "command", "transactions", "daemonset")
"""Parts of paths of objects whose deletion succeeds there also if they do not exist."""
_EMPTY = tuple(f"{BASE}{_NS}/applications/{{name}}/{part}" for part in ("taskgroups", "tasks", "versions"))
"""Paths of lists that are empty there if the application does not exist."""
SPACE = " \t\r\n"
"""White space of JSON."""
_ZERO_IS_ABSENT = ("instances",)
"""Numbers for which 0 means the same as an absent parameter."""


class Translated(NamedTuple):
    """Our path of a path of the original. `reading`: the path is served to GET and HEAD only."""

    path: str
    reading: bool

    def serves(self, method: str) -> bool:
        return not self.reading or method in READING


def translate(path: str) -> Translated | None:
    """The path here of a path of the original; None for other paths. Slashes at the end have no meaning there."""
    for prefix in DRIVER:
        if path.startswith(f"{prefix}/"):
            return Translated(BASE + path.removeprefix(prefix).rstrip("/"), reading=False)
    if not path.startswith(f"{SCHEDULER}/"):
        return None
    for target, parameters in _ROUTES.find(path.removeprefix(SCHEDULER).rstrip("/")):
        parts = (parameters.get(part[1:-1], part) for part in target.split("/"))
        return Translated(BASE + "/".join(parts), reading=True)
    return None


def document_of(content: bytes) -> bytes:
    """The body as the original reads it: data after the document is ignored. Unreadable bodies are returned whole, so
    that the reader reports the place of the fault."""
    try:
        text = content.decode("utf-8-sig").lstrip(SPACE)
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return content
    return text[:end].encode("utf-8", "surrogatepass")


def lenient_query(pairs: Iterable[tuple[str, str]], declared: Sequence[Param]) -> list[tuple[str, str]]:
    """The query as the original reads it: without empty and unknown parameters, the first one of several, and numbers
    that cannot be read as if they were left out."""
    known = {param.name: param for param in declared}
    read: dict[str, str] = {}
    for name, value in pairs:
        param = known.get(name)
        if param is None or not value or (name in _ZERO_IS_ABSENT and value == "0"):
            continue
        if name == "hostRetainTime" and not value.isdigit():
            continue
        read.setdefault(name, value)
    return list(read.items())


def ignores_missing(operation: Operation) -> bool:
    """True if a client of the original expects success for an object that does not exist: for some deletions, and for
    the lists of an application."""
    if operation.method == "GET":
        return operation.path in _EMPTY
    return operation.method == "DELETE" and any(part in _FORGIVING for part in operation.path.split("/"))
