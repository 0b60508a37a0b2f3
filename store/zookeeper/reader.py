"""Listing and reading the records in ZooKeeper: many nodes per request, several requests in flight.

Reading node by node takes kazoo some 0.4 ms each, with any number of requests in flight; with multi reads it is a few
microseconds (store.zookeeper.bulk_reads). Servers older than 3.6 do not know multi reads; they are asked node by node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from kazoo.exceptions import NoNodeError, UnimplementedError

from store.encoding.codec import Stored
from store.records import KINDS
from store.zookeeper.bulk_reads import Bulk
from store.zookeeper.session import Session
from store.zookeeper.tree import Address, Tree, bucket_names, unescape
from store.zookeeper.wire import NODE_EXISTS, ListNodes, Multi, ReadNodes, create


def make_tree(session: Session, tree: Tree) -> None:
    """Creates the missing parent nodes for election and records."""
    client = session.client
    session.wait(client.ensure_path_async(tree.election))
    session.wait(client.ensure_path_async(tree.log))
    for kind in KINDS:
        session.wait(client.ensure_path_async(tree.kind(kind)))
        while missing := set(bucket_names()) - set(session.wait(client.get_children_async(tree.kind(kind)))):
            failed = session.wait(
                session.send(Multi([create(tree.bucket(kind, name), b"", acl=session.acl) for name in missing]))
            )
            if failed and failed[0].code != NODE_EXISTS:  # otherwise another process is creating them at the same time
                raise session.error(failed[0], f"creating {tree.kind(kind)}")


def list_records(session: Session, tree: Tree) -> list[Address]:
    """Addresses of all stored records, also of kinds that we do not know."""
    kinds = sorted(set(session.wait(session.client.get_children_async(tree.root))) - tree.reserved)
    buckets = [
        (kind, bucket)
        for kind, names in zip(kinds, _list(session, [tree.kind(kind) for kind in kinds]), strict=True)
        for bucket in names or ()
    ]
    listings = _list(session, [tree.bucket(kind, bucket) for kind, bucket in buckets])
    return [
        Address(kind, unescape(name))
        for (kind, _), names in zip(buckets, listings, strict=True)
        for name in names or ()
    ]


def read_nodes(session: Session, paths: Sequence[str]) -> list[bytes | None]:
    """The data of each node in this order, None for those that do not exist."""
    try:
        return _many(session, ReadNodes, paths)
    except UnimplementedError:
        found = _singly(session, lambda path: session.client.get_async(path), paths)
        return [None if answer is None else answer[0] for answer in found]


def read_records(session: Session, tree: Tree, addresses: Sequence[Address]) -> list[Stored]:
    """Reads the records with these addresses. Records that do not exist (any more) are left out."""
    found = read_nodes(session, [tree.record(address) for address in addresses])
    return [
        Stored(address.kind, address.key, data)
        for address, data in zip(addresses, found, strict=True)
        if data is not None
    ]


def erase_records(session: Session, tree: Tree) -> None:
    """Deletes all records, the log, the epoch and its counters; the tree remains."""
    gone = [tree.record(address) for address in list_records(session, tree)]
    with suppress(NoNodeError):
        gone += [tree.counter(epoch) for epoch in session.wait(session.client.get_children_async(tree.epoch))]
    gone += [tree.slot(name) for name in session.wait(session.client.get_children_async(tree.log))]
    gone.append(tree.epoch)
    for answer in session.pipelined(partial(session.client.delete_async, path) for path in gone):
        with suppress(NoNodeError):
            session.wait(answer)


def _list(session: Session, paths: Sequence[str]) -> list[list[str] | None]:
    try:
        return _many(session, ListNodes, paths)
    except UnimplementedError:
        return _singly(session, lambda path: session.client.get_children_async(path), paths)


def _many(session: Session, request: type[ReadNodes] | type[ListNodes], paths: Sequence[str]) -> list[Any]:
    return Bulk(session, request, paths, len if request is ReadNodes else _listed).run()


def _listed(names: list[str]) -> int:
    return sum(map(len, names))


def _singly(session: Session, ask: Callable[[str], Any], paths: Sequence[str]) -> list[Any]:
    results: list[Any] = []
    for answer in session.pipelined(partial(ask, path) for path in paths):
        try:
            results.append(session.wait(answer))
        except NoNodeError:  # deleted between listing and reading
            results.append(None)
    return results
