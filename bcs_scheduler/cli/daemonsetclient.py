"""The part of the client that is about daemonsets and drains."""

from __future__ import annotations

from bcs_scheduler.cli.wire import Accepted, Json, Wire, path_of


class Daemonsets(Wire):
    def daemonsets(self, namespace: str | None, *, selector: str = "") -> list[Json]:
        """All of a namespace, or of all namespaces with None."""
        path = "/daemonsets" if namespace is None else path_of("namespaces", namespace, "daemonsets")
        return self._list(path, {"labelSelector": selector} if selector else {})

    def daemonset(self, namespace: str, name: str) -> Json:
        return self._get(_daemonset(namespace, name))

    def daemonset_definition(self, namespace: str, name: str) -> Json:
        """The user's document."""
        return self._get(path_of("definition", "daemonset", namespace, name))

    def agents_of_daemonset(self, namespace: str, name: str) -> list[Json]:
        """How every agent stands to it."""
        return self._list(_daemonset(namespace, name) + "/agents")

    def explain_daemonset(self, namespace: str, name: str) -> Json:
        return self._get(_daemonset(namespace, name) + "/explain")

    def create_daemonset(self, document: Json, *, dry_run: bool = False) -> Accepted:
        return self._command("POST", _collection(document), {"dryRun": dry_run}, document)

    def update_daemonset(self, document: Json, *, dry_run: bool = False) -> Accepted:
        return self._command("PUT", _collection(document), {"dryRun": dry_run}, document)

    def delete_daemonset(self, namespace: str, name: str, *, enforce: bool = False, dry_run: bool = False) -> Accepted:
        return self._command("DELETE", _daemonset(namespace, name), {"enforce": enforce, "dryRun": dry_run})

    def restart_daemonset(self, namespace: str, name: str, *, dry_run: bool = False) -> Accepted:
        return self._command("PUT", _daemonset(namespace, name) + "/restart", {"dryRun": dry_run})

    def rollback_daemonset(
        self, namespace: str, name: str, version: str | None = None, *, dry_run: bool = False
    ) -> Accepted:
        """To a stored version; None = the one before the newest."""
        return self._command("PUT", _daemonset(namespace, name) + "/rollback", {"version": version, "dryRun": dry_run})

    def drain(
        self, agents: list[str], *, at_once: int, timeout: float, daemonsets: bool, dry_run: bool = False
    ) -> list[Json]:
        """What became of each agent, by the key of its settings. `timeout`: seconds; 0 = no end. Raises CliError with a
        problem per agent if some cannot be drained."""
        query = {"ips": ",".join(agents), "atOnce": at_once, "daemonsets": daemonsets, "dryRun": dry_run}
        return list(self._command("POST", "/agentsettings/drain", {**query, "timeoutSeconds": timeout or None}).data)

    def drains(self, agents: list[str] | None = None) -> list[Json]:
        """Of these agents; None = of all that are being drained or have been."""
        return self._list("/agentsettings/drain", {"ips": ",".join(agents)} if agents else {})


def _collection(document: Json) -> str:
    return path_of("namespaces", document["metadata"]["namespace"], "daemonsets")


def _daemonset(namespace: str, name: str) -> str:
    return path_of("namespaces", namespace, "daemonsets", name)
