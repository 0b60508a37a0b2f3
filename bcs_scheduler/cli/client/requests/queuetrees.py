"""Requests for the trees of queues of the policy `hierarchical`.

`partition`: name of the partition of roles; empty = the only one with a tree, or `default`.
"""

from __future__ import annotations

from bcs_scheduler.cli.client.http.transport import Transport, path_of
from bcs_scheduler.cli.client.types import Accepted, Json


class QueueTrees(Transport):
    def partitions(self) -> list[Json]:
        """The partitions of roles with their policies."""
        return self._list(path_of("queuetree", "partitions"))

    def queue_tree(self, partition: str = "") -> Json:
        """The tree that counts. Raises NotFound with another policy."""
        return self._get(path_of("queuetree"), _query(partition))

    def put_queue_tree(
        self, document: Json, *, expected: int | None = None, dry_run: bool = False, partition: str = ""
    ) -> Accepted:
        """Makes a document the next revision. `expected`: number of the revision that must count; None = any."""
        query = {**_query(partition), "expected": expected, "dryRun": dry_run}
        return self._command("PUT", path_of("queuetree"), query, document)

    def roll_back_queue_tree(
        self, revision: int | None = None, *, expected: int | None = None, dry_run: bool = False, partition: str = ""
    ) -> Accepted:
        """Makes the document of a kept revision the next one; None = the revision before the present one."""
        query = {**_query(partition), "revision": revision, "expected": expected, "dryRun": dry_run}
        return self._command("POST", path_of("queuetree", "rollback"), query)

    def tree_revisions(self, partition: str = "") -> list[Json]:
        """Kept revisions without documents, the newest first."""
        return self._list(path_of("queuetree", "revisions"), _query(partition))

    def tree_revision(self, revision: int, partition: str = "") -> Json:
        return self._get(path_of("queuetree", "revisions", str(revision)), _query(partition))

    def tree_queues(self, partition: str = "") -> list[Json]:
        """All queues with amounts and use, parents first; without `partition`, those of all trees. Raises NotFound with
        another policy."""
        return self._list(path_of("queuetree", "queues"), _query(partition))

    def tree_queue(self, name: str, partition: str = "") -> Json:
        return self._get(path_of("queuetree", "queues", name), _query(partition))

    def set_tree_queue(self, name: str, action: str, *, dry_run: bool = False, partition: str = "") -> Accepted:
        """`action`: stop, drain or start."""
        query = {**_query(partition), "dryRun": dry_run}
        return self._command("POST", path_of("queuetree", "queues", name, action), query)


def _query(partition: str) -> dict[str, str | None]:
    return {"partition": partition or None}
