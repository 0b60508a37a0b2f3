"""Commands that steer what runs: reschedule, cancel, wait, enable and disable agents."""

from __future__ import annotations

import click

from bcs_scheduler.cli.agentsettings import warn_of
from bcs_scheduler.cli.changes import HANDLING
from bcs_scheduler.cli.client import Accepted
from bcs_scheduler.cli.complete import agent_names, owner_names, taskgroup_ids, transaction_ids
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.lookup import application_of, find_owner, find_taskgroup, find_transaction, setting_keys
from bcs_scheduler.cli.options import Duration, Session, connection_options, pass_session, reporting, wait_option
from bcs_scheduler.cli.waiting import wait_for_transaction, wait_until_running


@click.command()
@click.argument("taskgroup", shell_complete=taskgroup_ids)
@click.option("--host-retain", type=Duration(), default=0.0, help="Only the same host may take it, for this long.")
@wait_option
@connection_options
@pass_session
@reporting
def reschedule(session: Session, taskgroup: str, host_retain: float, wait: bool) -> None:
    """End TASKGROUP (id, or name like web-3) and start its replacement."""
    found = find_taskgroup(session.client, session.namespace, taskgroup)["ID"]
    namespace, application = application_of(found)
    accepted = session.client.reschedule(namespace, application, found, host_retain)
    note = f"transaction {accepted.transaction}"
    session.report("taskgroup", found, "rescheduling", note, transaction=accepted.transaction)
    if wait:
        wait_for_transaction(session, namespace, accepted.transaction)
        wait_until_running(session, namespace, application)
        session.report("application", application, "running")


@click.command()
@click.argument("transaction", shell_complete=transaction_ids)
@connection_options
@pass_session
@reporting
def cancel(session: Session, transaction: str) -> None:
    """End TRANSACTION now and settle its application as it stands."""
    found = find_transaction(session.client, session.namespace, transaction)
    session.client.cancel(found["namespace"], transaction)
    session.report("transaction", transaction, "cancelled")


@click.command()
@click.argument("name", shell_complete=owner_names)
@click.option(
    "--for",
    "condition",
    default="running",
    metavar="running|deleted|TRANSACTION",
    help="What to wait for; a transaction id waits for its end. Default: running.",
)
@connection_options
@pass_session
@reporting
def wait(session: Session, name: str, condition: str) -> None:
    """Wait until deployment or application NAME is running, deleted, or one of its transactions has ended."""
    kind, name = find_owner(session.client, session.namespace, name)
    nothing = Accepted("", None)
    if condition == "running":
        HANDLING[kind].settle(session, session.namespace, name, nothing)
    elif condition == "deleted":
        HANDLING[kind].settle_gone(session, session.namespace, name, nothing)
    else:
        wait_for_transaction(session, session.namespace, condition)
        session.report(kind, name, f"{condition} finished")


def _switching(name: str, words: str, *, enabled: bool) -> click.Command:
    """A command that lets agents take new taskgroups, or keeps these away."""

    @click.command(name, help=words)
    @click.argument("agents", nargs=-1, required=True, metavar="AGENT...", shell_complete=agent_names)
    @connection_options
    @pass_session
    @reporting
    def switch(session: Session, agents: tuple[str, ...]) -> None:
        _switch(session, agents, enabled=enabled)

    return switch


enable = _switching("enable", "Use the offers of agents again.", enabled=True)
disable = _switching("disable", "Place nothing new on agents; what runs there goes on.", enabled=False)
cordon = _switching("cordon", "Place nothing new on agents; the same as disable.", enabled=False)
uncordon = _switching("uncordon", "Use the offers of agents again; the same as enable.", enabled=True)


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="AGENT... KEY=VALUE|KEY-...", shell_complete=agent_names)
@connection_options
@pass_session
@reporting
def taint(session: Session, words: tuple[str, ...]) -> None:
    """Set (KEY=VALUE) or remove (KEY-, KEY=VALUE-) taints of agents.

    Nothing is placed on a tainted agent that does not tolerate it; what runs there goes on.
    """
    agents = [word for word in words if "=" not in word and not word.endswith("-")]
    marks = [word for word in words if word not in agents]
    if not agents or not marks:
        raise UsageError("give agents, and then taints: KEY=VALUE to set, KEY- to remove")
    known = session.client.agents()
    present = {agent["key"]: dict(agent.get("taints") or {}) for agent in known}
    keys = dict.fromkeys(key for name in agents for key in setting_keys(known, name))
    wanted = {key: _tainted(present.get(key, {}), marks) for key in keys}
    warn_of(session, session.client.set_taints(wanted))
    for key, taints in wanted.items():
        shown = ", ".join(f"{name}={value}" for name, value in taints.items())
        session.report("agent", key, "tainted" if taints else "without taints", shown, taints=taints)


def _tainted(present: dict[str, str], marks: list[str]) -> dict[str, str]:
    taints = dict(present)
    for mark in marks:
        key, equals, value = mark.removesuffix("-").partition("=") if mark.endswith("-") else mark.partition("=")
        if not key:
            raise UsageError(f"{mark!r} is no taint: KEY=VALUE to set, KEY- to remove")
        if not mark.endswith("-"):
            taints[key] = value
        elif not equals or taints.get(key) == value:
            taints.pop(key, None)
    return taints


def _switch(session: Session, agents: tuple[str, ...], *, enabled: bool) -> None:
    warn_of(session, session.client.set_agents(list(agents), enabled=enabled))
    for agent in agents:
        session.report("agent", agent, "enabled" if enabled else "disabled")
