"""The kinds of objects: their words and properties. The modules with their functions are loaded when they are used
(bcs_scheduler.cli.kinds.registry)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

OBJECTS = "bcs_scheduler.cli.kinds.objects"
WORKLOADS = "bcs_scheduler.cli.kinds.workloads"


class Kind(NamedTuple):
    """One kind of objects of `bcs get`."""

    functions: str
    """Place of the mapping with the functions of the kind, as ``module:attribute``."""
    aliases: str = ""
    """Words for one object, with blanks between them."""
    further_aliases: str = ""
    """Words that are accepted too, and not suggested."""
    scope: Literal["namespace", "cluster", "application", "alone"] = "namespace"
    """Where objects are: in namespaces; in the cluster as a whole; below an application, so that lists need its name;
    alone: the kind has lists of its own form."""
    document: str = ""
    """Kind of the documents; by it commands that change objects find the operations. Empty: objects are not changed."""
    readable: bool = True
    """Objects with documents are printed as documents that can be applied again."""
    operations: str = ""
    """Place of the operations, if lists shall not load them; empty: they are among the functions."""
    labels: bool = False
    """Objects can be chosen by labels."""
    printed: bool = False
    """Objects are printed as documents, not as tables, and cannot be watched."""
    by_time: bool = False
    """The server orders the objects, by time or place; other lists are in natural order of namespace and name."""
    streamed: bool = False
    """The API has the list as a stream; -w polls the lists of other kinds."""
    common_routes: bool = False
    """The API has the operations on objects at the same routes as for other kinds, with the name of the kind."""


KINDS: Mapping[str, Kind] = {
    "events": Kind(f"{WORKLOADS}.events:FUNCTIONS", "event ev", scope="alone", by_time=True),
    "deployments": Kind(
        f"{WORKLOADS}.deployments:FUNCTIONS", "deployment deploy dep", document="deployment",
        operations=f"{WORKLOADS}.deployment_operations:OPERATIONS", labels=True, streamed=True,
    ),
    "daemonsets": Kind(f"{WORKLOADS}.daemonsets:FUNCTIONS", "daemonset ds", document="daemonset", labels=True),
    "applications": Kind(
        f"{WORKLOADS}.applications:FUNCTIONS", "application app process", "apps processes", document="application",
        operations=f"{WORKLOADS}.application_operations:OPERATIONS", labels=True, streamed=True,
    ),
    "taskgroups": Kind(f"{WORKLOADS}.taskgroups:FUNCTIONS", "taskgroup tg pod po", "pods", labels=True, streamed=True),
    "tasks": Kind(f"{WORKLOADS}.taskgroups:FUNCTIONS", "task", labels=True),
    "services": Kind(
        f"{OBJECTS}.services:FUNCTIONS", "service svc", document="service", labels=True, common_routes=True,
    ),
    "endpoints": Kind(f"{OBJECTS}.services:FUNCTIONS", "endpoint ep", labels=True),
    "namespaces": Kind(
        f"{OBJECTS}.extensions:FUNCTIONS", "namespace ns", scope="cluster", document="namespace", labels=True,
        common_routes=True,
    ),
    "queues": Kind(
        f"{OBJECTS}.queues:FUNCTIONS", "queue", scope="cluster", document="queue", labels=True, streamed=True,
        common_routes=True,
    ),
    "priorityclasses": Kind(
        f"{OBJECTS}.priorities:FUNCTIONS", "priorityclass pc", scope="cluster", document="PriorityClass", labels=True,
        common_routes=True,
    ),
    "podgroups": Kind(
        f"{OBJECTS}.groups:FUNCTIONS", "podgroup pg", document="PodGroup", labels=True, common_routes=True,
    ),
    "managed": Kind(f"{OBJECTS}.managed:FUNCTIONS", "managedapplication", "managedapplications"),
    "webhooks": Kind(
        f"{OBJECTS}.extensions:FUNCTIONS", "webhook admissionwebhook", "admissionwebhooks",
        document="admissionwebhook", labels=True,
    ),
    "kinds": Kind(f"{OBJECTS}.extensions:FUNCTIONS", "kind crr", scope="cluster", document="crr"),
    "configmaps": Kind(
        f"{OBJECTS}.configuration:FUNCTIONS", "configmap cm", document="configmap", labels=True, common_routes=True,
    ),
    "secrets": Kind(f"{OBJECTS}.configuration:FUNCTIONS", "secret", document="secret", labels=True, common_routes=True),
    "commands": Kind(
        f"{OBJECTS}.commands:FUNCTIONS", "command", "cmd", scope="application", document="Command", readable=False,
        by_time=True,
    ),
    "messages": Kind(f"{OBJECTS}.commands:FUNCTIONS", "message msg", scope="application", by_time=True),
    "transactions": Kind(f"{WORKLOADS}.transactions:FUNCTIONS", "transaction tx", by_time=True, streamed=True),
    "agents": Kind(
        f"{OBJECTS}.agents:FUNCTIONS", "agent node", "ag nodes no", scope="cluster", document="agent",
        readable=False, streamed=True,
    ),
    "offers": Kind(f"{OBJECTS}.agents:FUNCTIONS", "offer", scope="cluster"),
    "cluster": Kind(f"{OBJECTS}.agents:FUNCTIONS", scope="cluster", by_time=True),
    "servers": Kind(f"{OBJECTS}.agents:FUNCTIONS", "server", scope="cluster", by_time=True),
    "definition": Kind(
        f"{WORKLOADS}.applications:FUNCTIONS", "", "definitions", scope="application", printed=True, by_time=True,
    ),
    "versions": Kind(f"{WORKLOADS}.applications:FUNCTIONS", "version", scope="application", by_time=True),
}  # fmt: skip
"""Every kind by its name, in the order of `bcs get`. Registered kinds of custom resources are not among them."""
ALIASES: Mapping[str, str] = {
    word: name for name, kind in KINDS.items() for word in f"{kind.aliases} {kind.further_aliases}".split()
}
"""Kinds by the words that are accepted for them beside their names."""
SINGULAR: Mapping[str, str] = {kind: kind.removesuffix("es" if kind.endswith("sses") else "s") for kind in KINDS}
"""The word for one object of a kind."""
BY_DOCUMENT: Mapping[str, str] = {
    **{kind.document: name for name, kind in KINDS.items() if kind.document},
    "process": "applications",
}
"""Kinds by the kinds of their documents."""
DOCUMENT_KINDS: Mapping[str, str] = {
    name: kind.document for name, kind in KINDS.items() if kind.document and kind.readable
}
"""Kinds whose objects are stored as documents that can be read and applied, with the kind of document."""
DELETABLE = tuple(word for kind in KINDS.values() if kind.document for word in kind.aliases.split())
"""Words that `bcs delete` suggests before names."""


def words_of(name: str) -> tuple[str, ...]:
    """The name of a kind and all words for it."""
    return (name, *(word for word, meant in ALIASES.items() if meant == name))


def is_cluster_wide(name: str) -> bool:
    """Objects of the kind are in no namespace. An unknown kind is a registered kind of custom resources."""
    return name in KINDS and KINDS[name].scope == "cluster"
