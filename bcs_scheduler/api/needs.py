"""What each operation asks of its caller: a role, and how far that role must reach.

Derived from method and path, so that a new operation is never open by mistake:

    path names a namespace ({ns})      viewer to read, operator to change, in that namespace
    anything else                      viewer to read, admin to change, everywhere ("*")

What differs from that is written down in EXCEPTIONS, by method and path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from bcs_scheduler.api import errors
from bcs_scheduler.api.errors import ApiError
from bcs_scheduler.api.operation import BASE, Operation
from bcs_scheduler.security.caller import Caller, Role

Reach = Literal["open", "named", "path", "body", "own", "everywhere"]
"""open         anybody, without a token
named        whoever has a token
path         the namespace of the path must be the caller's
body         so must the one of the document, the path has none
own          whatever the caller has: the state is cut down to it (bcs_scheduler.api.visible)
everywhere   all namespaces, and what belongs to none"""


class Need(NamedTuple):
    role: Role
    reach: Reach


OPEN, NAMED = Need("viewer", "open"), Need("viewer", "named")
_OWN_READ, _OWN_CHANGE = Need("viewer", "own"), Need("operator", "own")
_DOCUMENT = Need("operator", "body")
_ADMIN = Need("admin", "everywhere")

EXCEPTIONS: Mapping[tuple[str, str], Need] = {
    # Those who ask these have no token: supervisors and load balancers, and agents that fetch the executor.
    ("GET", "/healthz"): OPEN,
    ("GET", "/readyz"): OPEN,
    ("GET", "/version"): OPEN,
    ("GET", f"{BASE}/executor/{{file}}"): OPEN,
    ("GET", "/openapi.json"): NAMED,
    ("GET", f"{BASE}/cluster/endpoints"): NAMED,
    # Lists over all namespaces show the caller's.
    ("GET", f"{BASE}/applications"): _OWN_READ,
    ("GET", f"{BASE}/deployments"): _OWN_READ,
    ("GET", f"{BASE}/daemonsets"): _OWN_READ,
    ("GET", f"{BASE}/taskgroups"): _OWN_READ,
    ("GET", f"{BASE}/tasks"): _OWN_READ,
    ("GET", f"{BASE}/usage/taskgroups"): _OWN_READ,
    ("GET", f"{BASE}/transactions"): _OWN_READ,
    ("GET", f"{BASE}/configmaps"): _OWN_READ,
    ("GET", f"{BASE}/secrets"): _OWN_READ,
    ("GET", f"{BASE}/services"): _OWN_READ,
    ("GET", f"{BASE}/endpoints"): _OWN_READ,
    ("GET", f"{BASE}/endpoints/watch"): _OWN_READ,
    ("GET", f"{BASE}/events"): _OWN_READ,
    ("GET", f"{BASE}/events/watch"): _OWN_READ,
    # Objects that are found by an id alone.
    ("GET", f"{BASE}/message/{{id}}"): _OWN_READ,
    ("GET", f"{BASE}/taskgroup/{{id}}/files"): _OWN_READ,
    ("GET", f"{BASE}/taskgroup/{{id}}/logs"): _OWN_READ,
    # Files may hold secrets (what tasks print is for viewers; see the route for other files that are read in parts).
    ("GET", f"{BASE}/taskgroup/{{id}}/file"): _OWN_CHANGE,
    ("POST", f"{BASE}/taskgroup/{{taskgroup}}/restart"): _OWN_CHANGE,
    ("POST", f"{BASE}/taskgroup/{{taskgroup}}/reload"): _OWN_CHANGE,
    ("POST", f"{BASE}/image/commit/{{taskgroup}}"): _OWN_CHANGE,
    ("GET", f"{BASE}/namespaces"): _OWN_READ,
    ("GET", f"{BASE}/crr"): _OWN_READ,
    ("GET", f"{BASE}/crr/{{kind}}"): _OWN_READ,
    ("GET", f"{BASE}/crd/{{kind}}"): _OWN_READ,
    # A quota is not for those to set whom it bounds, and webhooks see and change documents of every namespace.
    ("PUT", f"{BASE}/namespaces/{{ns}}"): _ADMIN,
    ("DELETE", f"{BASE}/namespaces/{{ns}}"): _ADMIN,
    ("POST", f"{BASE}/namespaces/{{ns}}/admissionwebhook"): _ADMIN,
    ("PUT", f"{BASE}/namespaces/{{ns}}/admissionwebhook"): _ADMIN,
    ("DELETE", f"{BASE}/namespaces/{{ns}}/admissionwebhook/{{name}}"): _ADMIN,
    ("DELETE", f"{BASE}/admissionwebhook/{{ns}}/{{name}}"): _ADMIN,
    # The document says which namespace.
    ("POST", f"{BASE}/configmap"): _DOCUMENT,
    ("PUT", f"{BASE}/configmap"): _DOCUMENT,
    ("POST", f"{BASE}/secret"): _DOCUMENT,
    ("PUT", f"{BASE}/secret"): _DOCUMENT,
    ("POST", f"{BASE}/service"): _DOCUMENT,
    ("PUT", f"{BASE}/service"): _DOCUMENT,
    # A prober serves every namespace, but needs no more than to report.
    ("POST", f"{BASE}/healthcheck"): Need("operator", "everywhere"),
}


def need_of(operation: Operation, *, metrics_open: bool = False) -> Need:
    """`metrics_open`: as the settings say."""
    known = EXCEPTIONS.get((operation.method, operation.path))
    if operation.path == "/metrics" and metrics_open:
        return OPEN
    if known is not None:
        return known
    role: Role = "viewer" if not operation.write else "operator" if _namespaced(operation) else "admin"
    return Need(role, "path" if _namespaced(operation) else "everywhere")


def words_of(need: Need) -> str:
    """For the description of the API."""
    where = {
        "path": "in the namespace of the path",
        "body": "in the namespace of the document",
        "own": "in the namespace of what is found; of lists, what is the caller's is shown",
        "everywhere": "in all namespaces",
    }
    if need.reach in ("open", "named"):
        return "Needs no token." if need == OPEN else "Needs a token of any role."
    return f"Needs a token with the role {need.role} {where[need.reach]}."


def _namespaced(operation: Operation) -> bool:
    return "{ns}" in operation.path.split("/")


def check(need: Need, caller: Caller, path: Mapping[str, str], query: Mapping[str, Any]) -> None:
    """Before the body is read. Raises ApiError (403) that names what is missing."""
    if need.reach == "open":
        return
    if not caller.has(need.role):
        raise forbidden(caller, f"the role {need.role}; theirs is {caller.role}")
    if need.reach == "everywhere" and not caller.everywhere:
        raise forbidden(caller, f'the role {need.role} in all namespaces ("*"), because this is not about one of them')
    asked = path["ns"] if need.reach == "path" else query.get("namespace")
    if asked is not None:
        check_namespace(caller, str(asked))


def check_document(caller: Caller, need: Need, body: Any) -> None:
    """What a document says of its namespace. The routes check it against the path; this is about the right alone, and
    for documents whose path names none. Raises ApiError (403)."""
    if caller.everywhere:
        return
    for document in body if isinstance(body, list) else [body]:
        metadata = document.get("metadata") if isinstance(document, dict) else None
        named = metadata.get("namespace") if isinstance(metadata, dict) else None
        if named is not None and isinstance(named, str):
            check_namespace(caller, named)
        elif need.reach == "body":
            raise forbidden(caller, "a namespace in metadata.namespace that is theirs")


def check_namespace(caller: Caller, namespace: str) -> None:
    if not caller.sees(namespace):
        raise forbidden(caller, f"the role {caller.role} in namespace {namespace[:80]!r}")


def forbidden(caller: Caller, missing: str) -> ApiError:
    return ApiError(errors.FORBIDDEN, f"{caller.name} needs {missing}")
