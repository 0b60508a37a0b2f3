"""Access rights of the nodes in ZooKeeper: finds the nodes that are open to everybody, and takes them over.

New nodes belong to the user of the session that creates them (store.zookeeper.session). Those of a tree that was made
without a user stay open until they are taken over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from kazoo.exceptions import NoNodeError
from kazoo.security import CREATOR_ALL_ACL

from store.records import KINDS
from store.zookeeper.reader import list_records
from store.zookeeper.session import Session
from store.zookeeper.tree import Tree, bucket_names


def open_nodes(session: Session, tree: Tree) -> list[str]:
    """Nodes that every tree has and that users other than their owner may read or change."""
    paths = [tree.root, tree.election, tree.log, *map(tree.kind, KINDS)]
    answers = session.pipelined(partial(session.client.get_acls_async, path) for path in paths)
    found = []
    for path, answer in zip(paths, answers, strict=True):
        acls, _ = session.wait(answer)
        if any(acl.id.scheme == "world" for acl in acls):
            found.append(path)
    return found


def take_over(session: Session, tree: Tree) -> int:
    """Makes the user of the session the only one with access to the tree. Returns the number of nodes."""
    count = 0
    answers = session.pipelined(
        partial(session.client.set_acls_async, path, CREATOR_ALL_ACL) for path in _all_nodes(session, tree)
    )
    for answer in answers:
        with suppress(NoNodeError):
            session.wait(answer)
            count += 1
    return count


def _all_nodes(session: Session, tree: Tree) -> Iterator[str]:
    """All nodes of the tree, leaves first, so that an interrupted run is visible at the root."""
    yield from (tree.record(address) for address in list_records(session, tree))
    for kind in KINDS:
        yield from (tree.bucket(kind, bucket) for bucket in bucket_names())
        yield tree.kind(kind)
    for parent in (tree.epoch, tree.log, tree.election):
        with suppress(NoNodeError):
            yield from (f"{parent}/{name}" for name in session.wait(session.client.get_children_async(parent)))
        yield parent
    yield from (tree.leader, tree.root)
