"""What must hold on a cluster that has settled, judged from the outside: records as the API tells them, processes as
the machine has them."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from tests.integration.chaos import Record, as_wanted
from tests.integration.chaos import broken_promises as broken_promises
from tests.integration.mesoscluster import RealMesos, environment_of
from tests.integration.schedulerprocess import SchedulerProcess
from tests.integration.soakpolicies import Policies

ENDED = frozenset({"Finish", "Error", "Killed", "Failed"})
MARKS = ("BCS_POD_ID=", "MESOS_EXECUTOR_ID=")
"""Variables that hold the id of the taskgroup in the environment of its executor and its tasks."""


def settling(leader: SchedulerProcess, mesos: RealMesos, policies: Policies | None = None) -> list[str]:
    """What is still under way or not as it should be; empty once all is well."""
    # The filler is judged by the policies: it may lack room for ever.
    transactions = leader.call("GET", "/transactions/default", status="INIT", limit=1000)
    groups = leader.call("GET", "/taskgroups", limit=1000)
    found = [f"under way: {t['transactionID']} {t['type']} {t['message']}" for t in transactions]
    if policies is not None:
        found += policies.settling(leader, mesos, [group for group in groups if not _has_ended(group)])
    for application in leader.call("GET", "/namespaces/default/applications", limit=1000):
        mine = [group for group in groups if group["AppID"] == application["Name"]]
        if not as_wanted(leader, application, mine):
            statuses = dict(Counter(group["Status"] for group in mine))
            words = f"{application['DefineInstances']} wanted, is {statuses}"
            details = [f"{g['ID']} {g['Status']} ({g['Message']})" for g in mine if g["Status"] != "Running"]
            found.append(f"{application['Name']}: {words} ({application['Message']}) {details}")
    return found + _processes(groups, mesos)


def _has_ended(group: Record) -> bool:
    """True if nothing of the taskgroup can run: it waits for a place, or for its removal."""
    return group["Status"] in ENDED or (group["Status"] == "Lost" and bool(group["EndTime"]))


def _processes(groups: list[Record], mesos: RealMesos) -> list[str]:
    """Each live record has one task process, and nothing else runs."""
    live = {group["ID"] for group in groups if not _has_ended(group)}
    tasks: defaultdict[str, list[int]] = defaultdict(list)
    others: defaultdict[str, list[int]] = defaultdict(list)
    for pid in mesos.processes():
        identity, command = _owner(pid)
        if identity:
            (tasks if command.startswith("/bin/sleep") else others)[identity].append(pid)
    found = [f"orphan: {id_} runs as {pids}" for id_, pids in sorted(tasks.items()) if id_ not in live]
    found += [f"executor of nothing: {id_} is {pids}" for id_, pids in sorted(others.items()) if id_ not in live]
    found += [f"dead: {id_} has no process" for id_ in sorted(live - set(tasks))]
    return found + [f"double: {id_} runs as {pids}" for id_, pids in sorted(tasks.items()) if len(pids) > 1]


def _owner(pid: int) -> tuple[str, str]:
    """Id of the taskgroup that a process belongs to (empty: none, or the process has ended) and its command line."""
    process = Path(f"/proc/{pid}")
    try:
        command = (process / "cmdline").read_text("utf-8", "replace").replace("\0", " ")
    except OSError:
        return "", ""
    found = {entry.partition("=")[0] + "=": entry.partition("=")[2] for entry in environment_of(process)}
    return next((found[mark] for mark in MARKS if mark in found), "") if command else "", command
