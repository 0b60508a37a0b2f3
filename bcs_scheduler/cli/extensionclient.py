"""The part of the client that is about namespaces, admission webhooks and custom resources."""

from __future__ import annotations

from bcs_scheduler.cli.wire import Accepted, Json, Wire, path_of


class Extensions(Wire):
    # --- namespaces -------------------------------------------------------------------------------------------

    def namespaces(self, *, selector: str = "") -> list[Json]:
        """With quota and use."""
        return self._list("/namespaces", {"labelSelector": selector} if selector else {})

    def namespace(self, name: str) -> Json:
        return self._get(path_of("namespaces", name))

    def put_namespace(self, document: Json, *, create: bool, dry_run: bool = False) -> Accepted:
        """It must not have settings (`create`), or must."""
        return self._command("POST" if create else "PUT", "/namespaces", {"dryRun": dry_run}, document)

    def delete_namespace(self, name: str, *, dry_run: bool = False) -> Accepted:
        return self._command("DELETE", path_of("namespaces", name), {"dryRun": dry_run})

    # --- admission webhooks -----------------------------------------------------------------------------------

    def webhooks(self, namespace: str | None, *, selector: str = "") -> list[Json]:
        """All of a namespace, or of all namespaces with None."""
        path = "/admissionwebhooks" if namespace is None else path_of("namespaces", namespace, "admissionwebhook")
        return self._list(path, {"labelSelector": selector} if selector else {})

    def webhook(self, namespace: str, name: str) -> Json:
        return self._get(path_of("admissionwebhook", namespace, name))

    def put_webhook(self, document: Json, *, create: bool, dry_run: bool = False) -> Accepted:
        return self._command("POST" if create else "PUT", "/admissionwebhook", {"dryRun": dry_run}, document)

    def delete_webhook(self, namespace: str, name: str, *, dry_run: bool = False) -> Accepted:
        return self._command("DELETE", path_of("admissionwebhook", namespace, name), {"dryRun": dry_run})

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
        """All of a namespace, or of all namespaces with None."""
        path = path_of("crd", kind) if namespace is None else path_of("crd", "namespaces", namespace, kind)
        return self._list(path, {"labelSelector": selector} if selector else {})

    def custom(self, kind: str, namespace: str, name: str) -> Json:
        return self._get(path_of("crd", "namespaces", namespace, kind, name))

    def put_custom(self, document: Json, *, dry_run: bool = False) -> Accepted:
        path = path_of("crd", "namespaces", document["metadata"]["namespace"], document["kind"])
        return self._command("PUT", path, {"dryRun": dry_run}, document)

    def delete_custom(self, kind: str, namespace: str, name: str, *, dry_run: bool = False) -> Accepted:
        return self._command("DELETE", path_of("crd", "namespaces", namespace, kind, name), {"dryRun": dry_run})
