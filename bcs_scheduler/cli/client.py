"""The scheduler's HTTP API as a small typed client. Used by `bcs`, the demo and tests.

Answers are plain JSON values with the key names of the API. What is repeated when, and what fails how:
bcs_scheduler.cli.wire.
"""

from __future__ import annotations

from bcs_scheduler.cli.wire import DEFAULT_NAMESPACE, DEFAULT_SERVER, PREFIX, Accepted, Json, Wire, path_of

__all__ = ["DEFAULT_NAMESPACE", "DEFAULT_SERVER", "Accepted", "Client", "Json"]


class Client(Wire):
    """One server. Not for use by several threads at once."""

    # --- applications -----------------------------------------------------------------------------------------

    def applications(self, namespace: str | None, *, selector: str = "") -> list[Json]:
        """All of a namespace, or of all namespaces with None."""
        path = "/applications" if namespace is None else path_of("namespaces", namespace, "applications")
        return self._list(path, {"labelSelector": selector} if selector else {})

    def application(self, namespace: str, name: str) -> Json:
        return self._get(_application(namespace, name))

    def definition(self, namespace: str, name: str) -> Json:
        """The user's document of the newest version."""
        return self._get(path_of("definition", "application", namespace, name))

    def create(self, document: Json, *, dry_run: bool = False) -> Accepted:
        return self._command("POST", _collection(document), {"dryRun": dry_run}, document)

    def update(
        self, document: Json, *, instances: int | None = None, max_unavailable: int | None = None, dry_run: bool = False
    ) -> Accepted:
        """`instances`: how many taskgroups to bring to the new definition (None = all)."""
        query = {"instances": instances, "maxUnavailable": max_unavailable, "dryRun": dry_run}
        return self._command("PUT", _collection(document), query, document)

    def rollback(self, namespace: str, name: str, version: str | None = None, *, dry_run: bool = False) -> Accepted:
        """To a stored version; None = the one before the newest."""
        query = {"version": version, "dryRun": dry_run}
        return self._command("PUT", _application(namespace, name) + "/rollback", query)

    def scale(self, namespace: str, name: str, instances: int, *, dry_run: bool = False) -> Accepted:
        return self._command("PUT", _application(namespace, name) + f"/scale/{instances}", {"dryRun": dry_run})

    def delete(self, namespace: str, name: str, *, enforce: bool = False, dry_run: bool = False) -> Accepted:
        return self._command("DELETE", _application(namespace, name), {"enforce": enforce, "dryRun": dry_run})

    def explain(self, namespace: str, name: str) -> Json:
        return self._get(_application(namespace, name) + "/explain")

    def versions(self, namespace: str, name: str) -> list[str]:
        """Ids of the stored versions, oldest first."""
        names: list[str] = self._call("GET", PREFIX + _application(namespace, name) + "/versions")["data"]
        return names

    def version(self, namespace: str, name: str, version: str) -> Json:
        return self._get(_application(namespace, name) + path_of("versions", version))

    # --- taskgroups and transactions --------------------------------------------------------------------------

    def taskgroups(self, namespace: str | None, application: str = "") -> list[Json]:
        """Of an application, of a namespace, or all."""
        if namespace is not None and application:
            return self._list(_application(namespace, application) + "/taskgroups")
        return self._list("/taskgroups", {"namespace": namespace})

    def taskgroup(self, namespace: str, taskgroup: str) -> Json:
        return self._get(path_of("namespaces", namespace, "taskgroups", taskgroup))

    def reschedule(self, namespace: str, application: str, taskgroup: str, host_retain: float = 0.0) -> Accepted:
        """`host_retain`: seconds during which the replacement may only go to the same host."""
        path = _application(namespace, application) + path_of("taskgroups", taskgroup, "rescheduler")
        return self._command("PUT", path, {"hostRetainTime": host_retain or None})

    def transactions(self, namespace: str | None = None, application: str = "") -> list[Json]:
        path = path_of("transactions", *([namespace] if namespace else []))
        return self._list(path, {"objName": application or None})

    def transaction(self, namespace: str, transaction: str) -> Json:
        return self._get(path_of("transactions", namespace, transaction))

    def cancel(self, namespace: str, transaction: str) -> Accepted:
        return self._command("DELETE", path_of("transactions", namespace, transaction))

    # --- the cluster ------------------------------------------------------------------------------------------

    def agents(self) -> list[Json]:
        return self._list("/agents")

    def offers(self) -> list[Json]:
        return self._list("/cluster/current/offers")

    def set_agents(self, agents: list[str], *, enabled: bool) -> None:
        """Raises CliError with a problem per agent if some could not be changed."""
        path = "/agentsettings/enable" if enabled else "/agentsettings/disable"
        self._command("POST", path, {"ips": ",".join(agents)})

    def server_version(self) -> Json:
        return self._get("/version", prefix="")


def _collection(document: Json) -> str:
    return path_of("namespaces", document["metadata"]["namespace"], "applications")


def _application(namespace: str, name: str) -> str:
    return path_of("namespaces", namespace, "applications", name)
