"""The part of the client that is about deployments."""

from __future__ import annotations

from bcs_scheduler.cli.wire import Accepted, Json, Wire, path_of

ACTIONS = {"pause": "pauseupdate", "resume": "resumeupdate", "cancel": "cancelupdate", "restart": "restart"}
LONGEST_WATCH = 30.0
"""Seconds of one long poll: below the time after which an answer counts as missing."""


class Deployments(Wire):
    def deployments(self, namespace: str | None, *, selector: str = "") -> list[Json]:
        """All of a namespace, or of all namespaces with None."""
        path = "/deployments" if namespace is None else path_of("namespaces", namespace, "deployments")
        return self._list(path, {"labelSelector": selector} if selector else {})

    def deployment(self, namespace: str, name: str) -> Json:
        return self._get(_deployment(namespace, name))

    def watch_deployment(self, namespace: str, name: str, known: str, timeout: float = LONGEST_WATCH) -> Json:
        """As soon as it differs from the `resourceVersion` that is known, or after `timeout` seconds."""
        query = {"watch": True, "resourceVersion": known, "timeoutSeconds": f"{min(timeout, LONGEST_WATCH):.3f}"}
        return self._get(_deployment(namespace, name), query)

    def deployment_definition(self, namespace: str, name: str) -> Json:
        """The user's document."""
        return self._get(path_of("definition", "deployment", namespace, name))

    def create_deployment(self, document: Json, *, dry_run: bool = False) -> Accepted:
        return self._command("POST", _collection(document), {"dryRun": dry_run}, document)

    def update_deployment(self, document: Json, *, resources_only: bool = False, dry_run: bool = False) -> Accepted:
        """`resources_only`: change nothing but limits, in place."""
        query = {"args": "resource" if resources_only else None, "dryRun": dry_run}
        return self._command("PUT", _collection(document), query, document)

    def scale_deployment(self, namespace: str, name: str, instances: int, *, dry_run: bool = False) -> Accepted:
        return self._command("PUT", _deployment(namespace, name) + f"/scale/{instances}", {"dryRun": dry_run})

    def delete_deployment(self, namespace: str, name: str, *, enforce: bool = False, dry_run: bool = False) -> Accepted:
        return self._command("DELETE", _deployment(namespace, name), {"enforce": enforce, "dryRun": dry_run})

    def control_deployment(self, namespace: str, name: str, action: str, *, dry_run: bool = False) -> Accepted:
        """`action`: pause, resume, cancel or restart."""
        return self._command("PUT", _deployment(namespace, name) + f"/{ACTIONS[action]}", {"dryRun": dry_run})

    def rollback_deployment(
        self, namespace: str, name: str, revision: int | None = None, *, dry_run: bool = False
    ) -> Accepted:
        """To a kept revision; None = the one before the present one."""
        query = {"revision": revision, "dryRun": dry_run}
        return self._command("PUT", _deployment(namespace, name) + "/rollback", query)

    def revisions(self, namespace: str, name: str) -> list[Json]:
        """Oldest first."""
        return self._list(_deployment(namespace, name) + "/revisions")

    def revision(self, namespace: str, name: str, number: int) -> Json:
        return self._get(_deployment(namespace, name) + f"/revisions/{number}")


def _collection(document: Json) -> str:
    return path_of("namespaces", document["metadata"]["namespace"], "deployments")


def _deployment(namespace: str, name: str) -> str:
    return path_of("namespaces", namespace, "deployments", name)
