"""Requests for namespaces, queues, priority classes, admission webhooks and custom resources."""

from __future__ import annotations

from bcs_scheduler.cli.client.http.transport import Transport, path_of
from bcs_scheduler.cli.client.types import Accepted, Json


class Extensions(Transport):
    # --- namespaces -------------------------------------------------------------------------------------------

    def namespaces(self, *, selector: str = "") -> list[Json]:
        """Namespaces with quota and usage."""
        return self._list("/namespaces", {"labelSelector": selector} if selector else {})

    def namespace(self, name: str) -> Json:
        return self._get(path_of("namespaces", name))

    def put_namespace(self, document: Json, *, create: bool, dry_run: bool = False) -> Accepted:
        """Creates the settings of a namespace (`create`), or replaces existing ones."""
        return self._command("POST" if create else "PUT", "/namespaces", {"dryRun": dry_run}, document)

    def delete_namespace(self, name: str, *, dry_run: bool = False) -> Accepted:
        return self._command("DELETE", path_of("namespaces", name), {"dryRun": dry_run})

    # --- queues -----------------------------------------------------------------------------------------------

    def queues(self, *, selector: str = "") -> list[Json]:
        """Queues with their settings and namespaces."""
        return self._list("/queues", {"labelSelector": selector} if selector else {})

    def queue(self, name: str) -> Json:
        return self._get(path_of("queues", name))

    def put_queue(self, document: Json, *, create: bool, dry_run: bool = False) -> Accepted:
        """Creates a queue (`create`), or replaces the settings of an existing one."""
        return self._command("POST" if create else "PUT", "/queues", {"dryRun": dry_run}, document)

    def delete_queue(self, name: str, *, dry_run: bool = False) -> Accepted:
        return self._command("DELETE", path_of("queues", name), {"dryRun": dry_run})

    # --- priority classes -------------------------------------------------------------------------------------

    def priority_classes(self, *, selector: str = "") -> list[Json]:
        return self._list("/priorityclasses", {"labelSelector": selector} if selector else {})

    def priority_class(self, name: str) -> Json:
        return self._get(path_of("priorityclasses", name))

    def put_priority_class(self, document: Json, *, create: bool, dry_run: bool = False) -> Accepted:
        """Creates a priority class (`create`), or replaces an existing one."""
        return self._command("POST" if create else "PUT", "/priorityclasses", {"dryRun": dry_run}, document)

    def delete_priority_class(self, name: str, *, dry_run: bool = False) -> Accepted:
        return self._command("DELETE", path_of("priorityclasses", name), {"dryRun": dry_run})

    # --- pod groups -------------------------------------------------------------------------------------------

    def pod_groups(self, namespace: str | None, *, selector: str = "") -> list[Json]:
        """Groups of a namespace with their members; None = of all namespaces."""
        path = "/podgroups" if namespace is None else path_of("namespaces", namespace, "podgroups")
        return self._list(path, {"labelSelector": selector} if selector else {})

    def pod_group(self, namespace: str, name: str) -> Json:
        return self._get(path_of("namespaces", namespace, "podgroups", name))

    def put_pod_group(self, document: Json, *, create: bool, dry_run: bool = False) -> Accepted:
        """Creates a pod group (`create`), or replaces an existing one."""
        path = path_of("namespaces", document["metadata"]["namespace"], "podgroups")
        return self._command("POST" if create else "PUT", path, {"dryRun": dry_run}, document)

    def delete_pod_group(self, namespace: str, name: str, *, dry_run: bool = False) -> Accepted:
        return self._command("DELETE", path_of("namespaces", namespace, "podgroups", name), {"dryRun": dry_run})

    # --- admission webhooks -----------------------------------------------------------------------------------

    def webhooks(self, namespace: str | None, *, selector: str = "") -> list[Json]:
        """All objects of a namespace; None = of all namespaces."""
        path = "/admissionwebhooks" if namespace is None else path_of("namespaces", namespace, "admissionwebhook")
        return self._list(path, {"labelSelector": selector} if selector else {})

    def webhook(self, namespace: str, name: str) -> Json:
        return self._get(path_of("admissionwebhook", namespace, name))

    def put_webhook(self, document: Json, *, create: bool, dry_run: bool = False) -> Accepted:
        return self._command("POST" if create else "PUT", "/admissionwebhook", {"dryRun": dry_run}, document)

    def delete_webhook(self, namespace: str, name: str, *, dry_run: bool = False) -> Accepted:
        return self._delete(path_of("admissionwebhook", namespace, name), {"dryRun": dry_run})

    # --- custom resources -------------------------------------------------------------------------------------

    def kinds(self) -> list[Json]:
        """Registered kinds of custom resources."""
        return self._list("/crr")

    def kind(self, name: str) -> Json:
        return self._get(path_of("crr", name))

    def register_kind(self, document: Json, *, dry_run: bool = False) -> Accepted:
        return self._command("POST", "/crr/register", {"dryRun": dry_run}, document)

    def delete_kind(self, name: str, *, dry_run: bool = False) -> Accepted:
        return self._command("DELETE", path_of("crr", name), {"dryRun": dry_run})

    def customs(self, kind: str, namespace: str | None, *, selector: str = "") -> list[Json]:
        """All objects of a namespace; None = of all namespaces."""
        path = path_of("crd", kind) if namespace is None else path_of("crd", "namespaces", namespace, kind)
        return self._list(path, {"labelSelector": selector} if selector else {})

    def custom(self, kind: str, namespace: str, name: str) -> Json:
        return self._get(path_of("crd", "namespaces", namespace, kind, name))

    def put_custom(self, document: Json, *, dry_run: bool = False) -> Accepted:
        path = path_of("crd", "namespaces", document["metadata"]["namespace"], document["kind"])
        return self._command("PUT", path, {"dryRun": dry_run}, document)

    def delete_custom(self, kind: str, namespace: str, name: str, *, dry_run: bool = False) -> Accepted:
        return self._delete(path_of("crd", "namespaces", namespace, kind, name), {"dryRun": dry_run})
