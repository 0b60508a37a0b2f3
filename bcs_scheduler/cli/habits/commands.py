"""Commands of kubectl, docker and nomad that have another name here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

DRY_RUN = "--dry-run="
INSTEAD: Mapping[str, str] = {
    "alloc": "`bcs get taskgroups` lists taskgroups, `bcs logs`, `exec` and `describe` take their names",
    "annotate": "`bcs patch KIND/NAME -p 'metadata: {annotations: {KEY: VALUE}}'` sets an annotation",
    "api-resources": "`bcs get` lists the kinds",
    "auth": "the token decides on rights; `bcs-scheduler token` makes tokens",
    "autoscale": "the number of taskgroups is changed by `bcs scale`",
    "cluster-info": "`bcs get servers` and `bcs get cluster` show the schedulers and the resources of the cluster",
    "expose": "a document of kind service publishes the ports of a workload: `bcs examples service.json` prints one",
    "inspect": "`bcs describe KIND/NAME` shows an object, `bcs get KIND/NAME -o json` all of its fields",
    "job": "`bcs apply -f FILE` starts workloads, `bcs get all` lists them",
    "kill": "`bcs signal TASKGROUP SIGNAL` sends a signal, `bcs delete NAME` ends a workload",
    "node": "`bcs get agents` lists agents; `bcs drain`, `cordon` and `uncordon` take their names",
    "ps": "`bcs get taskgroups` lists taskgroups",
    "replace": "`bcs apply -f FILE` replaces the documents of existing objects",
    "rm": "`bcs delete NAME` deletes a workload",
    "start": "`bcs scale NAME N` starts a stopped workload",
    "status": "`bcs get all` lists workloads, `bcs describe KIND/NAME` shows one",
    "stop": "`bcs scale NAME 0` stops a workload and keeps it",
    "undo": "`bcs rollback NAME` returns to the previous version",
}
"""The way here, by the word of the other command line."""


def rewritten(arguments: Sequence[str]) -> list[str]:
    """Arguments with ``--dry-run`` in place of ``--dry-run=client`` and ``--dry-run=server`` of kubectl: the server
    makes all plans. ``--dry-run=none`` is left out. Words after ``--`` are those of another program."""
    found, rest = list(arguments), []
    if "--" in found:
        rest = found[found.index("--") :]
        found = found[: len(found) - len(rest)]
    kept = (one for one in found if one != f"{DRY_RUN}none")
    return [DRY_RUN[:-1] if one in (f"{DRY_RUN}client", f"{DRY_RUN}server") else one for one in kept] + rest
