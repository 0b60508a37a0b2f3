"""`bcs reschedule`, `cancel` and `wait`."""

from __future__ import annotations

import click

from bcs_scheduler.cli.client.lookup import application_of, find_owner, find_taskgroup, find_transaction
from bcs_scheduler.cli.client.types import Accepted
from bcs_scheduler.cli.commands.completing import conditions, taskgroup_names, transaction_names
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.habits.arguments import owner_argument
from bcs_scheduler.cli.kinds.registry import OPERATIONS
from bcs_scheduler.cli.options import Duration, connection_options, examples, pass_session, reporting, wait_option
from bcs_scheduler.cli.session import Session
from bcs_scheduler.cli.waiting import wait_for_transaction, wait_until_running
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
}
"""Conditions of kubectl."""


@click.command(epilog=examples("bcs wait web", "bcs wait web --for deleted --timeout 5m"))
@owner_argument
@click.option(
    "--for",
    "condition",
    default="running",
    metavar="running|deleted|TRANSACTION",
    shell_complete=conditions,
    help="State to wait for; with the id of a transaction its end. Default: running.",
)
@connection_options
@pass_session
@reporting
def wait(session: Session, name: str, condition: str) -> None:
    """Wait until a deployment, daemonset or application is running or deleted, or until a transaction has ended."""
    kind, name = find_owner(session.client, session.namespace, name)
    condition = CONDITIONS.get(condition.lower(), condition)
    if "=" in condition:
        raise UsageError(f"--for {condition}: known are running, deleted, and the name of a transaction")
    nothing = Accepted("", None)
    if condition == "running":
        OPERATIONS[kind].wait_applied(session, session.namespace, name, nothing)
    elif condition == "deleted":
        OPERATIONS[kind].wait_deleted(session, session.namespace, name, nothing)
    else:
        found = find_transaction(session.client, session.namespace, condition)
        wait_for_transaction(session, found["namespace"], found["transactionID"])
        identity = found["transactionID"]
        session.report(kind, name, f"transaction {transaction_name(identity)} finished", transaction=identity)
