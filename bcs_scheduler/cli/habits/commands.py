"""Commands and values of options of kubectl, docker and nomad that have another form here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
