"""`bcs reschedule`, `cancel` and `wait`."""

from __future__ import annotations

from typing import Any

import click

from bcs_scheduler.cli.client.lookup import application_of, find_owner, find_taskgroup, find_transaction
from bcs_scheduler.cli.client.types import Accepted
from bcs_scheduler.cli.commands.completing import conditions, taskgroup_names, transaction_names
from bcs_scheduler.cli.crashes import shell_code
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.habits.arguments import owner_argument
from bcs_scheduler.cli.kinds.registry import OPERATIONS
from bcs_scheduler.cli.options import Duration, connection_options, examples, pass_session, reporting, wait_option
from bcs_scheduler.cli.output.text import counted
from bcs_scheduler.cli.session import Session
from bcs_scheduler.cli.waiting import wait_for_transaction, wait_until_finished, wait_until_running
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
    **dict.fromkeys(("condition=available", "condition=ready", "condition=available=true"), "running"),
    **dict.fromkeys(("condition=complete", "condition=complete=true"), "finished"),
}
"""Conditions of kubectl."""


@click.command(
    epilog=examples(
        "bcs wait web",
        "bcs wait web --for deleted --timeout 5m",
        "bcs wait report --for finished --timeout 1h --propagate-exit-code",
    )
)
@owner_argument
@click.option(
    "--for",
    "condition",
    default="running",
    metavar="running|finished|deleted|TRANSACTION",
    shell_complete=conditions,
    help="State to wait for; with the id of a transaction its end. Default: running.",
)
@click.option(
    "--propagate-exit-code",
    "propagate",
    is_flag=True,
    help="With --for finished: exit with the exit code of the first taskgroup that failed.",
)
@connection_options
@pass_session
@reporting
def wait(session: Session, name: str, condition: str, propagate: bool) -> None:
    """Wait until a deployment, daemonset or application is running or deleted, or until a transaction has ended.

    With `--for finished`, wait until all taskgroups of an application have ended and none is started again. The exit
    code is 0 if all have finished, and 1 if one has failed.
    """
    kind, name = find_owner(session.client, session.namespace, name)
    condition = CONDITIONS.get(condition.lower(), condition)
    if "=" in condition:
        raise UsageError(f"--for {condition}: known are running, finished, deleted, and the name of a transaction")
    if propagate and condition != "finished":
        raise UsageError("--propagate-exit-code needs --for finished")
    nothing = Accepted("", None)
    if condition == "running":
        OPERATIONS[kind].wait_applied(session, session.namespace, name, nothing)
    elif condition == "finished":
        if kind != "application":
            raise UsageError(f"--for finished: {name} is a {kind}, whose taskgroups are always started again")
        click.get_current_context().exit(_report_end(session, name, propagate))
    elif condition == "deleted":
        OPERATIONS[kind].wait_deleted(session, session.namespace, name, nothing)
    else:
        found = find_transaction(session.client, session.namespace, condition)
        wait_for_transaction(session, found["namespace"], found["transactionID"])
        identity = found["transactionID"]
        session.report(kind, name, f"transaction {transaction_name(identity)} finished", transaction=identity)


def _report_end(session: Session, name: str, propagate: bool) -> int:
    """Waits for the end of an application, and prints how it has ended. Returns the exit code of the command."""
    ended = wait_until_finished(session, session.namespace, name)
    more: dict[str, Any] = {"exitCode": ended.code, "failed": list(ended.failed)}
    if not ended.failed:
        session.report("application", name, "finished", "exit code 0", **more)
        return 0
    others = f", and {counted(len(ended.failed) - 1, 'more taskgroup')}" if len(ended.failed) > 1 else ""
    session.report("application", name, "failed", f"{ended.text}{others}", **more)
    return shell_code(ended.code) if propagate and ended.code else 1
