"""`bcs reschedule`, `cancel` and `wait`."""

from __future__ import annotations

import time
from typing import Any

import click

from bcs_scheduler.cli.client.lookup import (
    OWNERS,
    TASKGROUP_WORDS,
    application_of,
    find_owner,
    find_taskgroup,
    find_transaction,
)
from bcs_scheduler.cli.client.types import Accepted
from bcs_scheduler.cli.commands.arguments import conditions, owner_names, taskgroup_names, transaction_names
from bcs_scheduler.cli.crashes import shell_code
from bcs_scheduler.cli.errors import NotFound, UsageError
from bcs_scheduler.cli.habits import instead_of_kind
from bcs_scheduler.cli.kinds.registry import name_of, operations_of
from bcs_scheduler.cli.kinds.selection import chosen
from bcs_scheduler.cli.options import (
    Duration,
    connection_options,
    examples,
    field_selector_option,
    pass_session,
    reporting,
    wait_option,
)
from bcs_scheduler.cli.output.text import counted
from bcs_scheduler.cli.session import Session
from bcs_scheduler.cli.waiting import (
    Ended,
    wait_for_transaction,
    wait_until_finished,
    wait_until_running,
    wait_until_taskgroup_finished,
    wait_until_taskgroup_gone,
    wait_until_taskgroup_runs,
)
from store.keys import taskgroup_name, transaction_name


@click.command(epilog=examples("bcs reschedule web-3 --wait"))
@click.argument("taskgroup", shell_complete=taskgroup_names)
@click.option(
    "--host-retain",
    type=Duration(),
    default=0.0,
    help="Time during which only the same host is used for the replacement.",
)
@wait_option
@connection_options
@pass_session
@reporting
def reschedule(session: Session, taskgroup: str, host_retain: float, wait: bool) -> None:
    """Replace TASKGROUP (an id, or a name such as web-3) by a new one."""
    found = find_taskgroup(session.client, session.namespace, taskgroup)["ID"]
    namespace, application = application_of(found)
    accepted = session.client.reschedule(namespace, application, found, host_retain)
    note = f"transaction {transaction_name(accepted.transaction)}"
    session.report(
        "taskgroup", found, "rescheduling", note, shown=taskgroup_name(found), transaction=accepted.transaction
    )
    if wait:
        wait_for_transaction(session, namespace, accepted.transaction)
        wait_until_running(session, namespace, application)
        session.report("application", application, "running")


@click.command(epilog=examples("bcs get transactions", "bcs cancel 1764000000000000001"))
@click.argument("transaction", shell_complete=transaction_names)
@connection_options
@pass_session
@reporting
def cancel(session: Session, transaction: str) -> None:
    """Cancel TRANSACTION (an id, or the last digits of one). Its application keeps the state that has been reached."""
    found = find_transaction(session.client, session.namespace, transaction)
    session.client.cancel(found["namespace"], found["transactionID"])
    identity = found["transactionID"]
    session.report("transaction", identity, "cancelled", shown=transaction_name(identity))


CONDITIONS = {
    "delete": "deleted",
    **dict.fromkeys(
        (
            "condition=available", "condition=ready", "condition=available=true", "condition=ready=true",
            "condition=containersready",
        ),
        "running",
    ),
    **dict.fromkeys(("condition=complete", "condition=complete=true"), "finished"),
}  # fmt: skip
"""Conditions of kubectl."""
TASKGROUP = "taskgroup"


@click.command(
    epilog=examples(
        "bcs wait web",
        "bcs wait web --for deleted --timeout 5m",
        "bcs wait pod/web-0 --for condition=Ready",
        "bcs wait report --for finished --timeout 1h --propagate-exit-code",
    )
)
@click.argument(
    "words", nargs=-1, required=True, metavar="[KIND/]NAME... | KIND -l SELECTOR", shell_complete=owner_names
)
@click.option(
    "--for",
    "condition",
    default="running",
    metavar="running|finished|deleted|TRANSACTION",
    shell_complete=conditions,
    help="State to wait for; with the id of a transaction its end. Default: running.",
)
@click.option("-l", "--selector", "labels", default="", metavar="SELECTOR", help="Wait for objects with these labels.")
@field_selector_option
@click.option(
    "--propagate-exit-code",
    "propagate",
    is_flag=True,
    help="With --for finished: exit with the exit code of the first taskgroup that failed.",
)
@connection_options
@pass_session
@reporting
def wait(session: Session, words: tuple[str, ...], condition: str, labels: str, fields: str, propagate: bool) -> None:
    """Wait until workloads or taskgroups are running or deleted, or until a transaction has ended.

    KIND is deployment, daemonset, application or taskgroup (pod). With `--for finished`, wait until all taskgroups of
    an application, or one taskgroup, have ended and none is started again. The exit code is 0 if all have finished,
    and 1 if one has failed. The time limit is for all objects together.
    """
    condition = CONDITIONS.get(condition.lower(), condition)
    if "=" in condition:
        raise UsageError(f"--for {condition}: known are running, finished, deleted, and the name of a transaction")
    if propagate and condition != "finished":
        raise UsageError("--propagate-exit-code needs --for finished")
    named = _selected(session, words, labels, fields) if labels or fields else _named(session, words)
    if len(named) > 1:
        session.deadline = time.monotonic() + session.wait_limit
    code = 0
    for kind, name in named:
        ended = (_wait_for_taskgroup if kind == TASKGROUP else _wait_for_workload)(session, kind, name, condition)
        if ended is not None:
            code = code or _report_end(session, kind, name, ended, propagate)
    click.get_current_context().exit(code)


def _named(session: Session, words: tuple[str, ...]) -> list[tuple[str, str]]:
    """(kind, name) of ``[KIND/]NAME...`` or ``KIND NAME...``. Raises UsageError for an unknown kind."""
    head = words[0].lower()
    if len(words) > 1 and (head in OWNERS or head in TASKGROUP_WORDS) and not any("/" in word for word in words):
        words = tuple(f"{head}/{name}" for name in words[1:])
    elif len(words) > 1 and (instead := instead_of_kind(head)):
        raise UsageError(instead)
    found = []
    for word in words:
        head, slash, name = word.partition("/")
        if slash and head.lower() in TASKGROUP_WORDS:
            found.append((TASKGROUP, name))
        else:
            found.append(find_owner(session.client, session.namespace, word))
    return found


def _selected(session: Session, words: tuple[str, ...], labels: str, fields: str) -> list[tuple[str, str]]:
    """(kind, name) of the objects that selectors choose; taskgroups by id. Raises NotFound if there are none."""
    kinds = {kind: kind.removesuffix("s") for kind in ("deployments", "daemonsets", "applications", "taskgroups")}
    found = []
    for kind, item in chosen(session, words, labels, fields):
        if kind not in kinds:
            raise UsageError(f"wait is for {', '.join(kinds)}, not for {kind}")
        found.append((kinds[kind], str(item["ID"]) if kind == "taskgroups" else name_of(kind, item)))
    if not found:
        raise NotFound(f"no {' or '.join(words)} in namespace {session.namespace} are chosen")
    return found


def _wait_for_workload(session: Session, kind: str, name: str, condition: str) -> Ended | None:
    """Returns how the taskgroups have ended, if that was waited for."""
    nothing = Accepted("", None)
    if condition == "running":
        operations_of(kind).wait_applied(session, session.namespace, name, nothing)
    elif condition == "finished":
        if kind != "application":
            raise UsageError(f"--for finished: {name} is a {kind}, whose taskgroups are always started again")
        return wait_until_finished(session, session.namespace, name)
    elif condition == "deleted":
        operations_of(kind).wait_deleted(session, session.namespace, name, nothing)
    else:
        found = find_transaction(session.client, session.namespace, condition)
        wait_for_transaction(session, found["namespace"], found["transactionID"])
        identity = found["transactionID"]
        session.report(kind, name, f"transaction {transaction_name(identity)} finished", transaction=identity)
    return None


def _wait_for_taskgroup(session: Session, kind: str, name: str, condition: str) -> Ended | None:
    """As `_wait_for_workload`. `name`: a name or an id; a name means the present taskgroup of this name."""
    if condition not in ("running", "finished", "deleted"):
        raise UsageError(f"--for {condition}: a taskgroup has no transactions; known are running, finished, deleted")
    if condition == "deleted":
        wait_until_taskgroup_gone(session, name)
        session.report(kind, name, "deleted", shown=_shown_name(name))
    elif condition == "running":
        session.report(kind, name, wait_until_taskgroup_runs(session, name), shown=_shown_name(name))
    else:
        return wait_until_taskgroup_finished(session, name)
    return None


def _shown_name(name: str) -> str:
    return taskgroup_name(name) if "." in name else name


def _report_end(session: Session, kind: str, name: str, ended: Ended, propagate: bool) -> int:
    """Prints how an application or a taskgroup has ended. Returns the exit code of the command."""
    more: dict[str, Any] = {"exitCode": ended.code, "failed": list(ended.failed)}
    if not ended.failed:
        session.report(kind, name, "finished", "exit code 0", shown=_shown_name(name), **more)
        return 0
    others = f", and {counted(len(ended.failed) - 1, 'more taskgroup')}" if len(ended.failed) > 1 else ""
    session.report(kind, name, "failed", f"{ended.text}{others}", shown=_shown_name(name), **more)
    return shell_code(ended.code) if propagate and ended.code else 1
