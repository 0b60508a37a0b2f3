"""Requests for daemonsets and drains."""

from __future__ import annotations

from bcs_scheduler.cli.client.http.transport import Transport, path_of
from bcs_scheduler.cli.client.types import Accepted, Json


class Daemonsets(Transport):
    def daemonsets(self, namespace: str | None, *, selector: str = "", documents: bool = False) -> list[Json]:
        """All daemonsets of a namespace; None = of all namespaces. `documents`: each with its document."""
        path = "/daemonsets" if namespace is None else path_of("namespaces", namespace, "daemonsets")
        return self._list(path, {"labelSelector": selector or None, "documents": documents or None})

    def daemonset(self, namespace: str, name: str, *, documents: bool = False) -> Json:
        """`documents`: with its document."""
        return self._get(_daemonset(namespace, name), {"documents": documents or None})

    def daemonset_definition(self, namespace: str, name: str) -> Json:
        """The document as the user wrote it."""
        return self._get(path_of("definition", "daemonset", namespace, name))

    def agents_of_daemonset(self, namespace: str, name: str) -> list[Json]:
        """State of the daemonset on every agent."""
        return self._list(_daemonset(namespace, name) + "/agents")

    def explain_daemonset(self, namespace: str, name: str) -> Json:
        return self._get(_daemonset(namespace, name) + "/explain")

    def create_daemonset(self, document: Json, *, dry_run: bool = False) -> Accepted:
        return self._command("POST", _collection(document), {"dryRun": dry_run}, document)

    def update_daemonset(self, document: Json, *, dry_run: bool = False) -> Accepted:
        return self._command("PUT", _collection(document), {"dryRun": dry_run, **self._on_conflict}, document)

    def delete_daemonset(self, namespace: str, name: str, *, force: bool = False, dry_run: bool = False) -> Accepted:
        return self._delete(_daemonset(namespace, name), {"enforce": force, "dryRun": dry_run})

    def restart_daemonset(self, namespace: str, name: str, *, dry_run: bool = False) -> Accepted:
        return self._command("PUT", _daemonset(namespace, name) + "/restart", {"dryRun": dry_run})

    def rollback_daemonset(
        self, namespace: str, name: str, version: str | None = None, *, dry_run: bool = False
    ) -> Accepted:
        """`version`: a stored version; None = the version before the newest."""
        query = {"version": version, "dryRun": dry_run, **self._on_conflict}
        return self._command("PUT", _daemonset(namespace, name) + "/rollback", query)

    def drain(
        self, agents: list[str], *, parallel: int, timeout: float, daemonsets: bool, dry_run: bool = False
    ) -> list[Json]:
        """Starts drains; returns the results by agent. `parallel`: taskgroups of one agent that are moved at the same
        time. `timeout`: seconds; 0 = no limit. Raises CliError with one problem for each agent that cannot be drained.
        """
        query = {"ips": ",".join(agents), "atOnce": parallel, "daemonsets": daemonsets, "dryRun": dry_run}
        return list(self._command("POST", "/agentsettings/drain", {**query, "timeoutSeconds": timeout or None}).data)

    def drains(self, agents: list[str] | None = None) -> list[Json]:
        """Drains of these agents; None = of all agents with a drain, also an ended one."""
        return self._list("/agentsettings/drain", {"ips": ",".join(agents)} if agents else {})


def _collection(document: Json) -> str:
    return path_of("namespaces", document["metadata"]["namespace"], "daemonsets")


def _daemonset(namespace: str, name: str) -> str:
    return path_of("namespaces", namespace, "daemonsets", name)
