"""Kinds of kubectl and nomad that do not exist here."""

from __future__ import annotations

from collections.abc import Mapping

KINDS: Mapping[tuple[str, ...], str] = {
    ("job", "jobs"): "a job is an application with the restart policy Never: `bcs create job` or `bcs run --restart "
    "Never` makes one, and `bcs get applications` lists it",
    ("cronjob", "cronjobs", "cj"): "a timer of systemd, or CI, calls `bcs run --restart Never` at fixed times",
    ("horizontalpodautoscaler", "horizontalpodautoscalers", "hpa"): "`bcs scale` changes the number of taskgroups",
    ("ingress", "ingresses", "ing"): "`bcs follow` writes the endpoints of services into the configuration of a proxy",
    ("replicaset", "replicasets", "rs", "replicationcontroller", "replicationcontrollers", "rc"): "a deployment has an "
    "application for each revision that runs: `bcs get applications` lists them",
    ("statefulset", "statefulsets", "sts"): "taskgroups of applications keep their names and numbers: `bcs get "
    "applications` lists applications",
    (
        "persistentvolumeclaim", "persistentvolumeclaims", "pvc", "persistentvolume", "persistentvolumes", "pv",
        "storageclass", "storageclasses", "sc",
    ): "the field `volumes` of a document mounts folders of the agent",
    (
        "role", "roles", "rolebinding", "rolebindings", "clusterrole", "clusterroles", "clusterrolebinding",
        "clusterrolebindings", "serviceaccount", "serviceaccounts", "sa", "token",
    ): "the token decides on rights; `bcs-scheduler token` makes tokens",
    ("resourcequota", "resourcequotas", "quota", "limitrange", "limitranges", "limits"): "namespaces have quotas: `bcs "
    "describe namespace NAME` shows them, `bcs set namespace NAME --cpus 20` sets one",
    ("poddisruptionbudget", "poddisruptionbudgets", "pdb"): "the field `maxUnavailable` of a deployment bounds the "
    "taskgroups that a drain ends at a time",
    ("customresourcedefinition", "customresourcedefinitions", "crd", "crds"): "`bcs get kinds` lists registered kinds",
    ("componentstatus", "componentstatuses", "cs"): "`bcs get servers` lists the schedulers",
    ("networkpolicy", "networkpolicies", "netpol"): "the field `networkMode` of a document names the network of "
    "a container",
    ("endpointslice", "endpointslices"): "`bcs get endpoints` lists the members of services",
    ("allocation", "allocations", "alloc", "allocs"): "`bcs get taskgroups` lists taskgroups",
}  # fmt: skip
"""The way here, by the names of a kind in lower case."""
DOCUMENTS: Mapping[str, str] = {
    "Deployment": "`bcs create deployment NAME --image IMAGE --dry-run -o yaml` prints one",
    "DaemonSet": "`bcs examples daemonset.json` prints one",
    "Pod": "`bcs run IMAGE --dry-run -o yaml` prints an application, which has taskgroups in place of pods",
    "Service": "`bcs create service NAME --port PORT --dry-run -o yaml` prints one",
    "ConfigMap": "`bcs create configmap NAME --from-file FILE --dry-run -o yaml` prints one",
    "Secret": "`bcs create secret NAME --from-file FILE --dry-run -o yaml` prints one",
    "Namespace": "`bcs create namespace NAME --dry-run -o yaml` prints one",
    "Endpoints": "services make endpoints, and `bcs get endpoints` lists them",
    "Node": "agents register with Mesos, and `bcs get agents` lists them",
    "Event": "the scheduler records events, and `bcs events` lists them",
    "MutatingWebhookConfiguration": "`bcs examples admissionwebhook.json` prints one",
    "ValidatingWebhookConfiguration": "`bcs examples admissionwebhook.json` prints one",
}
"""The way here, by the kinds of documents of Kubernetes that have a counterpart with another form."""
_WAYS = {word: way for words, way in KINDS.items() for word in words}


def instead_of_kind(word: str) -> str:
    """The sentence for a kind of others, such as ``jobs`` or ``jobs.batch``; empty for another word."""
    way = _WAYS.get(word.partition(".")[0].lower())
    return f"there is no kind {word!r}: {way}" if way else ""


def instead_of_document(kind: str) -> str:
    """The sentence for a document of Kubernetes; empty for another kind."""
    if kind in DOCUMENTS:
        return f"documents of Kubernetes have another form: {DOCUMENTS[kind]}"
    return instead_of_kind(kind)
