"""Words that users know from kubectl, docker and nomad: commands and values of options that have another form here,
kinds that do not exist here, and options that have another name here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

DRY_RUN = "--dry-run="
BOOLEANS = (
    "--all", "--all-namespaces", "--follow", "--force", "--force-conflicts", "--ignore-not-found", "--no-headers",
    "--now", "--prune", "--recursive", "--rm", "--server-side", "--show-labels", "--stdin", "--tty", "--wait",
    "--watch",
)  # fmt: skip
"""Flags that kubectl takes with a value too, such as ``--wait=false``."""
DOCUMENT = "`bcs apply -f FILE` makes one from a document"
PATCH = "`bcs edit KIND/NAME` and `bcs patch KIND/NAME -p PATCH` change the document, also of a running workload"
INSTEAD: Mapping[str, str] = {
    "alloc": "`bcs get taskgroups` lists taskgroups, `bcs logs`, `exec` and `describe` take their names",
    "annotate": "`bcs patch KIND/NAME -p 'metadata: {annotations: {KEY: VALUE}}'` sets an annotation",
    "api-resources": "`bcs get` lists the kinds",
    "auth": "the token decides on rights; `bcs-scheduler token` makes tokens",
    "autoscale": "the number of taskgroups is changed by `bcs scale`",
    "cluster-info": "`bcs get servers` and `bcs get cluster` show the schedulers and the resources of the cluster",
    "config get-clusters": "`bcs config get-contexts` lists contexts, each with its server",
    "config get-users": "`bcs config get-contexts -o wide` lists contexts, each with its files of credentials",
    "config set-cluster": "`bcs config set-context NAME --server URL` sets the server of a context",
    "config set-credentials": "`bcs config set-context NAME --token-file FILE` sets the credentials of a context",
    "create daemonset": f"{DOCUMENT}: `bcs examples daemonset.json` prints one",
    "create podgroup": f"{DOCUMENT}: `bcs examples podgroup.yaml` prints one",
    "create queue": "`bcs queue create QUEUE` makes one",
    "create taskgroup": "`bcs run IMAGE` or `bcs run -- PROGRAM` runs an application with one taskgroup",
    "create webhook": f"{DOCUMENT}: `bcs examples admissionwebhook.json` prints one",
    "debug": "`bcs explain NAME` shows why a workload does not run, and `bcs exec -it TASKGROUP -- sh` opens a shell",
    "expose": "`bcs create service NAME --port PORT` publishes a port of the workload NAME by the name of the port",
    "inspect": "`bcs describe KIND/NAME` shows an object, `bcs get KIND/NAME -o json` all of its fields",
    "job": "`bcs apply -f FILE` starts workloads, `bcs get all` lists them",
    "kill": "`bcs signal TASKGROUP SIGNAL` sends a signal, `bcs delete NAME` ends a workload",
    "node": "`bcs get agents` lists agents; `bcs drain`, `cordon` and `uncordon` take their names",
    "plan": "`bcs apply -f FILE --dry-run` shows the plan, and `bcs diff -f FILE` the changes of the document",
    "proxy": "`bcs port-forward NAME PORT` leads to ports of taskgroups; the API and the console need no proxy",
    "ps": "`bcs get taskgroups` lists taskgroups",
    "replace": "`bcs apply -f FILE` replaces the documents of existing objects",
    "rm": "`bcs delete NAME` deletes a workload",
    "set env": f"{PATCH}; `bcs env` sets a variable of running tasks until they are replaced",
    "set resources": PATCH,
    "set selector": PATCH,
    "start": "`bcs scale NAME N` starts a stopped workload",
    "stats": "`bcs top taskgroups -w` shows the resources that taskgroups use",
    "status": "`bcs get all` lists workloads, `bcs describe KIND/NAME` shows one",
    "stop": "`bcs scale NAME 0` stops a workload and keeps it",
    "undo": "`bcs rollback NAME` returns to the previous version",
}
"""The way here, by the command of the other command line."""


def no_command(path: str) -> str:
    """The sentence for a command of `INSTEAD`."""
    return f"there is no command {path!r}: {INSTEAD[path]}."


def rewritten(arguments: Sequence[str]) -> list[str]:
    """Arguments with ``--dry-run`` in place of ``--dry-run=client`` and ``--dry-run=server`` of kubectl: the server
    makes all plans. ``--dry-run=none`` is left out, and so is ``--FLAG=false``; ``--FLAG=true`` is ``--FLAG``. Words
    after ``--`` are those of another program."""
    found, rest = list(arguments), []
    if "--" in found:
        rest = found[found.index("--") :]
        found = found[: len(found) - len(rest)]
    left_out = {f"{DRY_RUN}none", *(f"{flag}=false" for flag in BOOLEANS)}
    shorter = {f"{DRY_RUN}{side}": DRY_RUN[:-1] for side in ("client", "server")}
    shorter |= {f"{flag}=true": flag for flag in BOOLEANS}
    return [shorter.get(one, one) for one in found if one not in left_out] + rest


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


Command = TypeVar("Command", bound=Callable[..., Any])

FIRST_DOCUMENT = (
    "`bcs run ... --dry-run -o yaml` prints a document to begin with, and `bcs apply -f FILE` starts the document"
)
RUN: Mapping[tuple[str, ...], str] = {
    (
        "-p",
        "--publish",
    ): "`--port NAME:80` publishes port 80 of the container on a port of the agent; `bcs get taskgroups` "
    "shows that port",
    ("-v", "--volume", "--mount"): f"the field `volumes` of a document mounts folders; {FIRST_DOCUMENT}",
    ("--network", "--net"): f"the field `networkMode` of a document names the network; {FIRST_DOCUMENT}",
    ("-u", "--user"): f"the field `user` of a document names the user; {FIRST_DOCUMENT}",
    (
        "--env-file",
    ): "`-e NAME=VALUE` sets a variable; `bcs create configmap NAME --from-env-file FILE` stores all of a file",
}
"""The way here, by the names of an option of `docker run` or `kubectl run`."""
JOB: Mapping[tuple[str, ...], str] = {("--from",): "a timer of systemd, or CI, starts jobs at fixed times"}
LOGIN = "`bcs examples registry-login.json` prints documents with the login of a registry"
CERTIFICATE = "`bcs create secret NAME --from-file tls.crt=FILE --from-file tls.key=FILE` stores a certificate"
SECRET: Mapping[tuple[str, ...], str] = {
    ("--docker-server", "--docker-username", "--docker-password", "--docker-email"): LOGIN,
    ("--cert", "--key"): CERTIFICATE,
}
SECRET_TYPES = {"generic": "", "docker-registry": LOGIN, "tls": CERTIFICATE}
"""Types of kubectl, with the way here; empty for a type that exists."""
ADDRESSES = "a service has no address of its own: `bcs get endpoints NAME` shows those of its taskgroups"
SERVICE: Mapping[tuple[str, ...], str] = {("--clusterip", "--node-port", "--external-name"): ADDRESSES}
SERVICE_TYPES = {"clusterip": "", "nodeport": "", "loadbalancer": "", "externalname": ADDRESSES}

APPLY: Mapping[tuple[str, ...], str] = {
    ("--prune-allowlist", "--prune-whitelist", "--applyset", "--field-manager"): (
        "objects belong to no set: `bcs apply` changes the objects of the documents, and no others"
    ),
}
PRUNE = "`bcs delete -f FILE` deletes the objects of documents, and `bcs delete KIND -l SELECTOR` those with labels"
GRACE = "the field `killPolicy.gracePeriod` of a document is the time between SIGTERM and SIGKILL"
DELETE: Mapping[tuple[str, ...], str] = {("--grace-period",): GRACE}
DELETE_FLAGS: Mapping[tuple[str, ...], str] = {("--now",): GRACE}
APPLY_FLAGS: Mapping[tuple[str, ...], str] = {("--prune",): PRUNE}


def answered(table: Mapping[tuple[str, ...], str], *, flags: bool = False) -> Callable[[Command], Command]:
    """Adds hidden options that end the command with the way here. `table`: as `RUN`. `flags`: they take no values."""

    def add(command: Command) -> Command:
        for name, way in ((name, way) for names, way in table.items() for name in names):
            command = click.option(
                name,
                is_flag=flags,
                expose_value=False,
                hidden=True,
                callback=_refusal(name, way),
                help="Not supported.",
            )(command)
        return command

    return add


def without_effect(*names: str) -> Callable[[Command], Command]:
    """Adds hidden flags of kubectl that ask for the only behaviour here."""

    def add(command: Command) -> Command:
        return click.option(*names, is_flag=True, expose_value=False, hidden=True, help="Has no effect.")(command)

    return add


def cascade(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """For --cascade of kubectl: the parts of an object never outlive it. Raises BadParameter."""
    if value not in (None, "background", "foreground", "true"):
        raise click.BadParameter("a deletion ends all taskgroups of the object")


def _refusal(name: str, way: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def refuse(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if value not in (None, False):
            raise click.UsageError(f"{name} is not an option of `{ctx.command_path}`: {way}")

    return refuse
