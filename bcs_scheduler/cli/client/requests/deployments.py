"""Requests for deployments."""

from __future__ import annotations

from bcs_scheduler.cli.client.http.transport import Transport, path_of
from bcs_scheduler.cli.client.types import Accepted, Json

ACTIONS = {"pause": "pauseupdate", "resume": "resumeupdate", "cancel": "cancelupdate", "restart": "restart"}
LONGEST_WATCH = 30.0
"""Seconds of one long poll; less than the time limit of an answer."""


class Deployments(Transport):
    def deployments(self, namespace: str | None, *, selector: str = "") -> list[Json]:
        """All deployments of a namespace; None = of all namespaces."""
        path = "/deployments" if namespace is None else path_of("namespaces", namespace, "deployments")
        return self._list(path, {"labelSelector": selector} if selector else {})

    def deployment(self, namespace: str, name: str) -> Json:
        return self._get(_deployment(namespace, name))

    def watch_deployment(self, namespace: str, name: str, known: str, timeout: float = LONGEST_WATCH) -> Json:
        """The deployment when its `resourceVersion` is not `known` any more, at the latest after `timeout` seconds."""
        query = {"watch": True, "resourceVersion": known, "timeoutSeconds": f"{min(timeout, LONGEST_WATCH):.3f}"}
        return self._get(_deployment(namespace, name), query)

    def deployment_definition(self, namespace: str, name: str) -> Json:
        """The document as the user wrote it."""
        return self._get(path_of("definition", "deployment", namespace, name))

    def create_deployment(self, document: Json, *, dry_run: bool = False) -> Accepted:
        return self._command("POST", _collection(document), {"dryRun": dry_run}, document)

    def update_deployment(self, document: Json, *, resources_only: bool = False, dry_run: bool = False) -> Accepted:
        """`resources_only`: change limits in place, and nothing else."""
        query = {"args": "resource" if resources_only else None, "dryRun": dry_run, **self._on_conflict}
        return self._command("PUT", _collection(document), query, document)

    def scale_deployment(self, namespace: str, name: str, instances: int, *, dry_run: bool = False) -> Accepted:
        query = {"dryRun": dry_run, **self._on_conflict}
        return self._command("PUT", _deployment(namespace, name) + f"/scale/{instances}", query)

    def delete_deployment(self, namespace: str, name: str, *, force: bool = False, dry_run: bool = False) -> Accepted:
        return self._command("DELETE", _deployment(namespace, name), {"enforce": force, "dryRun": dry_run})

    def control_deployment(self, namespace: str, name: str, action: str, *, dry_run: bool = False) -> Accepted:
        """`action`: pause, resume, cancel or restart."""
        return self._command("PUT", _deployment(namespace, name) + f"/{ACTIONS[action]}", {"dryRun": dry_run})

    def rollback_deployment(
        self, namespace: str, name: str, revision: int | None = None, *, dry_run: bool = False
    ) -> Accepted:
        """`revision`: a stored revision; None = the revision before the current one."""
        query = {"revision": revision, "dryRun": dry_run, **self._on_conflict}
        return self._command("PUT", _deployment(namespace, name) + "/rollback", query)

    def revisions(self, namespace: str, name: str) -> list[Json]:
        """Stored revisions, oldest first."""
        return self._list(_deployment(namespace, name) + "/revisions")

    def revision(self, namespace: str, name: str, number: int) -> Json:
        return self._get(_deployment(namespace, name) + f"/revisions/{number}")


def _collection(document: Json) -> str:
    return path_of("namespaces", document["metadata"]["namespace"], "deployments")


def _deployment(namespace: str, name: str) -> str:
    return path_of("namespaces", namespace, "deployments", name)
