"""The access that each operation requires of its caller: a role, and the namespaces that the role must cover.

The access is derived from method and path, so that a new operation is never open by mistake:

    path names a namespace ({ns})      viewer to read, operator to change, in that namespace
    anything else                      viewer to read, admin to change, everywhere ("*")

EXCEPTIONS lists the other operations by method and path.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.api.http.operation import BASE, Operation
from bcs_scheduler.security.caller import PROGRAM_RIGHTS, Caller, ProgramRight, Role

Reach = Literal["open", "named", "path", "body", "own", "everywhere"]
"""The callers and namespaces of a right:

- `open`: every caller, without a token.
- `named`: every caller with a token.
- `path`: the namespace of the path must be one of the caller's.
- `body`: the namespace of the document must be one of the caller's; the path has none.
- `own`: the namespaces of the caller. The state is restricted to them (bcs_scheduler.api.reading.visible).
- `everywhere`: all namespaces, and objects without a namespace."""


class RequiredAccess(NamedTuple):
    role: Role
    reach: Reach
    program: ProgramRight | None = None
    """The caller must have the right to this kind of session with tasks."""


OPEN, NAMED = RequiredAccess("viewer", "open"), RequiredAccess("viewer", "named")
_OWN_READ, _OWN_CHANGE = RequiredAccess("viewer", "own"), RequiredAccess("operator", "own")
_COMMANDS = RequiredAccess("operator", "path", "exec")
_DOCUMENT = RequiredAccess("operator", "body")
_ADMIN = RequiredAccess("admin", "everywhere")

EXCEPTIONS: Mapping[tuple[str, str], RequiredAccess] = {
    # These callers have no token: supervisors and load balancers, and agents that fetch the executor.
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
    ("GET", f"{BASE}/demands"): _OWN_READ,
    ("GET", f"{BASE}/managedapplications"): _OWN_READ,
    ("GET", f"{BASE}/taskgroups"): _OWN_READ,
    ("GET", f"{BASE}/tasks"): _OWN_READ,
    ("GET", f"{BASE}/usage/taskgroups"): _OWN_READ,
    ("GET", f"{BASE}/transactions"): _OWN_READ,
    ("GET", f"{BASE}/configmaps"): _OWN_READ,
    ("GET", f"{BASE}/secrets"): _OWN_READ,
    ("GET", f"{BASE}/services"): _OWN_READ,
    ("GET", f"{BASE}/podgroups"): _OWN_READ,
    ("GET", f"{BASE}/endpoints"): _OWN_READ,
    ("GET", f"{BASE}/endpoints/watch"): _OWN_READ,
    ("GET", f"{BASE}/events"): _OWN_READ,
    ("GET", f"{BASE}/events/watch"): _OWN_READ,
    # The stream of agents and queues is for those who see everything: the route checks this.
    ("GET", f"{BASE}/watch"): _OWN_READ,
    # Objects that are found by an id alone.
    ("GET", f"{BASE}/message/{{id}}"): _OWN_READ,
    ("GET", f"{BASE}/taskgroup/{{id}}/files"): _OWN_READ,
    ("GET", f"{BASE}/taskgroup/{{id}}/logs"): _OWN_READ,
    ("GET", f"{BASE}/taskgroup/{{id}}/output"): _OWN_READ,
    # A caller who runs programs in a taskgroup can read and change everything that the taskgroup can.
    **{
        ("GET", f"{BASE}/taskgroup/{{id}}/{right}"): RequiredAccess("operator", "own", right)
        for right in PROGRAM_RIGHTS
    },
    ("POST", f"{BASE}/command/application/{{ns}}/{{name}}"): _COMMANDS,
    ("POST", f"{BASE}/command/deployment/{{ns}}/{{name}}"): _COMMANDS,
    # Files may hold secrets. The output of tasks is for viewers; see the route for other files that are read in parts.
    ("GET", f"{BASE}/taskgroup/{{id}}/file"): _OWN_CHANGE,
    ("POST", f"{BASE}/taskgroup/{{taskgroup}}/restart"): _OWN_CHANGE,
    ("POST", f"{BASE}/taskgroup/{{taskgroup}}/reload"): _OWN_CHANGE,
    ("POST", f"{BASE}/image/commit/{{taskgroup}}"): _OWN_CHANGE,
    ("GET", f"{BASE}/namespaces"): _OWN_READ,
    ("GET", f"{BASE}/crr"): _OWN_READ,
    ("GET", f"{BASE}/crr/{{kind}}"): _OWN_READ,
    ("GET", f"{BASE}/crd/{{kind}}"): _OWN_READ,
    ("GET", f"{BASE}/customresourcedefinitions"): _OWN_READ,
    ("GET", f"{BASE}/customresourcedefinitions/{{definition}}"): _OWN_READ,
    ("GET", f"{BASE}/customresources/{{group}}/{{version}}/{{plural}}"): _OWN_READ,
    # A quota must not be set by the users that it bounds, and webhooks see and change documents of every namespace.
    ("PUT", f"{BASE}/namespaces/{{ns}}"): _ADMIN,
    ("DELETE", f"{BASE}/namespaces/{{ns}}"): _ADMIN,
    ("POST", f"{BASE}/namespaces/{{ns}}/admissionwebhook"): _ADMIN,
    ("PUT", f"{BASE}/namespaces/{{ns}}/admissionwebhook"): _ADMIN,
    ("DELETE", f"{BASE}/namespaces/{{ns}}/admissionwebhook/{{name}}"): _ADMIN,
    ("DELETE", f"{BASE}/admissionwebhook/{{ns}}/{{name}}"): _ADMIN,
    # The document names the namespace.
    ("POST", f"{BASE}/configmap"): _DOCUMENT,
    ("PUT", f"{BASE}/configmap"): _DOCUMENT,
    ("POST", f"{BASE}/secret"): _DOCUMENT,
    ("PUT", f"{BASE}/secret"): _DOCUMENT,
    ("POST", f"{BASE}/service"): _DOCUMENT,
    ("PUT", f"{BASE}/service"): _DOCUMENT,
    # The record names the namespace: the route checks the right of the caller there.
    ("POST", f"{BASE}/apps"): _OWN_CHANGE,
    ("POST", f"{BASE}/daemonsets"): _OWN_CHANGE,
    # The documents name their namespaces; a plan needs the rights that its documents need.
    ("POST", f"{BASE}/plans"): _DOCUMENT,
    # A prober serves every namespace, but needs no more than to report.
    ("POST", f"{BASE}/healthcheck"): RequiredAccess("operator", "everywhere"),
}


def required_access(operation: Operation, *, metrics_open: bool = False) -> RequiredAccess:
    """Returns the required access of an operation. `metrics_open`: value of the setting."""
    known = EXCEPTIONS.get((operation.method, operation.path))
    if operation.path == "/metrics" and metrics_open:
        return OPEN
    if known is not None:
        return known
    role: Role = "viewer" if not operation.write else "operator" if _namespaced(operation) else "admin"
    return RequiredAccess(role, "path" if _namespaced(operation) else "everywhere")


def role_text(required: RequiredAccess) -> str:
    """Describes the access in words for the description of the API."""
    where = {
        "path": "in the namespace of the path",
        "body": "in the namespace of the document",
        "own": "in the namespace of the object; lists show the objects in the namespaces of the token",
        "everywhere": "in all namespaces",
    }
    if required.reach in ("open", "named"):
        return "Needs no token." if required == OPEN else "Needs a token of any role."
    right = f" and the right {required.program} (programs)" if required.program else ""
    return f"Needs a token with the role {required.role} {where[required.reach]}{right}."


def _namespaced(operation: Operation) -> bool:
    return "{ns}" in operation.path.split("/")


def check(required: RequiredAccess, caller: Caller, path: Mapping[str, str], query: Mapping[str, Any]) -> None:
    """Checks the access before the body is read. Raises ApiError (403) that names the missing right."""
    if required.reach == "open":
        return
    if not caller.has(required.role):
        raise forbidden(caller, f"the role {required.role}; the role of the token is {caller.role}")
    if required.program is not None:
        check_program(caller, required.program)
    if required.reach == "everywhere" and not caller.everywhere:
        raise forbidden(
            caller,
            f'the role {required.role} in all namespaces ("*"), because the operation is not about one namespace',
        )
    asked = path["ns"] if required.reach == "path" else query.get("namespace")
    if asked is not None:
        check_namespace(caller, str(asked))


def check_program(caller: Caller, program: ProgramRight) -> None:
    """Raises ApiError (403) if the caller lacks the right."""
    if program not in caller.programs:
        raise forbidden(caller, f"the right {program} (programs in the entry of the token)")


def check_document(caller: Caller, required: RequiredAccess, body: Any) -> None:
    """Checks the right of the caller in the namespace that a document names. The routes compare this namespace with the
    path; this function checks the right alone, also if the path names no namespace. Raises ApiError (403)."""
    if caller.everywhere:
        return
    for document in body if isinstance(body, list) else [body]:
        metadata = document.get("metadata") if isinstance(document, dict) else None
        named = metadata.get("namespace") if isinstance(metadata, dict) else None
        if named is not None and isinstance(named, str):
            check_namespace(caller, named)
        elif required.reach == "body":
            raise forbidden(caller, "a namespace of the token in metadata.namespace")


def check_namespace(caller: Caller, namespace: str) -> None:
    if not caller.sees(namespace):
        raise forbidden(caller, f"the role {caller.role} in namespace {namespace[:80]!r}")


def forbidden(caller: Caller, missing: str) -> ApiError:
    return ApiError(errors.FORBIDDEN, f"{caller.name} needs {missing}")
