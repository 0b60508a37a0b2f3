"""Requests for the tree of queues of the policy `hierarchical`."""

from __future__ import annotations

from bcs_scheduler.cli.client.http.transport import Transport, path_of
from bcs_scheduler.cli.client.types import Accepted, Json


class QueueTrees(Transport):
    def queue_tree(self) -> Json:
        """The tree that counts. Raises NotFound with another policy."""
        return self._get(path_of("queuetree"))

    def put_queue_tree(self, document: Json, *, expected: int | None = None, dry_run: bool = False) -> Accepted:
        """Makes a document the next revision. `expected`: number of the revision that must count; None = any."""
        return self._command("PUT", path_of("queuetree"), {"expected": expected, "dryRun": dry_run}, document)

    def roll_back_queue_tree(
        self, revision: int | None = None, *, expected: int | None = None, dry_run: bool = False
    ) -> Accepted:
        """Makes the document of a kept revision the next one; None = the revision before the present one."""
        query = {"revision": revision, "expected": expected, "dryRun": dry_run}
        return self._command("POST", path_of("queuetree", "rollback"), query)

    def tree_revisions(self) -> list[Json]:
        """Kept revisions without documents, the newest first."""
        return self._list(path_of("queuetree", "revisions"))

    def tree_revision(self, revision: int) -> Json:
        return self._get(path_of("queuetree", "revisions", str(revision)))

    def tree_queues(self) -> list[Json]:
        """All queues of the tree with amounts and use, parents first. Raises NotFound with another policy."""
        return self._list(path_of("queuetree", "queues"))

    def tree_queue(self, name: str) -> Json:
        return self._get(path_of("queuetree", "queues", name))

    def set_tree_queue(self, name: str, action: str, *, dry_run: bool = False) -> Accepted:
        """`action`: stop, drain or start."""
        return self._command("POST", path_of("queuetree", "queues", name, action), {"dryRun": dry_run})
