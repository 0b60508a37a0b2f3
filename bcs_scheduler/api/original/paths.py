"""The paths of the original, and our path of each (docs/api.md#clients-of-the-original).

The paths of its driver are those of ours under another prefix. Those of its scheduler are listed in ROUTES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from bcs_scheduler.api.http.operation import BASE
from bcs_scheduler.api.http.routing import Routes
from store.ids import TaskGroupId

DRIVER = ("/mesosdriver/v4", "/bcsapi/v4/scheduler/mesos")
"""Prefixes of the driver: its own, and the one of an older gateway. The one of the present gateway is ours."""
SCHEDULER = "/v1"
_NS = "/namespaces/{ns}"
_APP = f"{_NS}/applications/{{name}}"
_DEPLOYMENT = f"{_NS}/deployments/{{name}}"
_NAMELESS = "unknown"
"""Stands for the parts of an id that is none, so that no object is found."""

Methods = Mapping[str, tuple[str, str]]
"""Our method and path by the method of the original."""


def _same(path: str, *methods: str) -> tuple[str, Methods]:
    return path, {method: (method, path) for method in methods}


ROUTES: Mapping[str, Methods] = dict(
    (
        _same("/apps", "POST"),
        ("/{ns}/apps", {"GET": ("GET", f"{_NS}/applications")}),
        ("/apps/{ns}/{name}", {"GET": ("GET", _APP), "DELETE": ("DELETE", f"{_NS}/{{kind}}/{{name}}")}),
        _same("/apps/{ns}/{name}/update", "POST"),
        ("/apps/{ns}/{name}/scale", {"POST": ("PUT", f"{_NS}/{{kind}}/{{name}}/scale/{{instances}}")}),
        ("/apps/{ns}/{name}/taskgroups", {"GET": ("GET", f"{_APP}/taskgroups")}),
        ("/apps/{ns}/{name}/versions", {"GET": ("GET", f"{_APP}/versions")}),
        ("/apps/{ns}/{name}/versions/{id}", {"GET": ("GET", f"{_APP}/versions/{{id}}")}),
        _same("/apps/{ns}/{name}/message", "POST"),
        _same("/apps/{ns}/{name}/message/{taskgroup}", "POST"),
        ("/taskgroup/{id}/rescheduler", {"PUT": ("PUT", f"{_APP}/taskgroups/{{id}}/rescheduler")}),
        _same("/taskgroup/{taskgroup}/restart", "POST"),
        _same("/taskgroup/{taskgroup}/reload", "POST"),
        _same("/image/commit/{taskgroup}", "POST"),
        _same("/definition/application/{ns}/{name}", "GET"),
        _same("/definition/deployment/{ns}/{name}", "GET"),
        _same("/command/application/{ns}/{name}", "GET", "POST", "DELETE"),
        _same("/command/deployment/{ns}/{name}", "GET", "POST", "DELETE"),
        _same("/configmap", "POST", "PUT"),
        _same("/configmap/{ns}/{name}", "DELETE"),
        _same("/secret", "POST", "PUT"),
        _same("/secret/{ns}/{name}", "DELETE"),
        _same("/service", "POST", "PUT"),
        _same("/service/{ns}/{name}", "DELETE"),
        (
            "/deployment/{ns}/{name}",
            {
                "GET": ("GET", _DEPLOYMENT),
                "POST": ("POST", "/deployment/{ns}/{name}"),
                "PUT": ("PUT", "/deployment/{ns}/{name}"),
                "DELETE": ("DELETE", _DEPLOYMENT),
            },
        ),
        *(
            (f"/deployment/{{ns}}/{{name}}/{step}", {"POST": ("POST", f"{_DEPLOYMENT}/{step}")})
            for step in ("pauseupdate", "resumeupdate", "cancelupdate")
        ),
        (
            "/deployment/{ns}/{name}/scale/{instances}",
            {"PUT": ("PUT", f"{_DEPLOYMENT}/scale/{{instances}}")},
        ),
        ("/daemonsets", {"POST": ("POST", "/daemonsets")}),
        ("/daemonsets/{ns}/{name}", {"DELETE": ("DELETE", f"{_NS}/daemonsets/{{name}}")}),
        _same("/transactions/{ns}", "GET"),
        _same("/transactions/{ns}/{id}", "DELETE"),
        _same("/cluster/resources", "GET"),
        _same("/cluster/endpoints", "GET"),
        _same("/cluster/current/offers", "GET"),
        _same("/healthcheck", "POST"),
        _same("/agentsetting/{agent}", "GET"),
        _same("/agentsetting/{agent}/enable", "POST"),
        _same("/agentsetting/{agent}/disable", "POST"),
        _same("/agentsettings", "GET", "POST", "DELETE"),
        _same("/agentsettings/update", "POST"),
        _same("/agentsettings/enable", "POST"),
        _same("/agentsettings/disable", "POST"),
        _same("/agentsettings/taint", "PUT"),
        _same("/agentsettings/extendedresource", "PUT"),
        _same("/crr/register", "POST"),
        _same("/crd/namespaces/{ns}/{kind}", "GET", "POST", "PUT"),
        _same("/crd/namespaces/{ns}/{kind}/{name}", "GET", "DELETE"),
        _same("/crd/{kind}", "GET"),
        _same("/admissionwebhook", "POST", "PUT"),
        _same("/admissionwebhook/{ns}/{name}", "GET", "DELETE"),
        _same("/admissionwebhooks", "GET"),
    )
)
"""The paths of the original's scheduler. Parameters of ours that its path does not have are in its query, or in the id
of the taskgroup (`_derived`)."""
_ROUTES = Routes(ROUTES)


class Translated(NamedTuple):
    """Our method and path of a request of the original. `allowed`: methods of the path there, if it has no such method;
    None: those of our path."""

    method: str
    path: str
    allowed: frozenset[str] | None = None


def translate(method: str, path: str, query: Callable[[], Iterable[tuple[str, str]]]) -> Translated | None:
    """Our request for one of the original; None for other paths. `query` is read only if it is needed."""
    for prefix in DRIVER:
        if path == prefix or path.startswith(f"{prefix}/"):
            return Translated(method, BASE + path.removeprefix(prefix))
    if path != SCHEDULER and not path.startswith(f"{SCHEDULER}/"):
        return None
    allowed: set[str] = set()
    for methods, parameters in _ROUTES.find(path.removeprefix(SCHEDULER)):
        found = methods.get("GET" if method == "HEAD" else method)
        if found is not None:
            given = {**_derived(parameters, _first(query())), **parameters}
            parts = (given[part[1:-1]] if part.startswith("{") else part for part in found[1].split("/"))
            return Translated("HEAD" if method == "HEAD" else found[0], BASE + "/".join(parts))
        allowed.update(methods, {"HEAD"} if "GET" in methods else ())
    return Translated(method, path, frozenset(allowed))


def _first(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The first value of each parameter that is not empty."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if value:
            found.setdefault(name, value)
    return found


def _derived(parameters: Mapping[str, str], query: Mapping[str, str]) -> dict[str, str]:
    """Parts of our path that the original's path does not have."""
    group = TaskGroupId.parse(parameters.get("id", ""))
    kind = "processes" if query.get("kind") == "process" else "applications"
    return {
        "ns": group.namespace if group is not None else _NAMELESS,
        "name": group.application if group is not None else _NAMELESS,
        "kind": kind,
        "instances": query.get("instances", "").replace("/", "") or "missing",
    }
