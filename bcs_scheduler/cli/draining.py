"""`bcs drain`: empty agents, and follow that to its end."""

from __future__ import annotations

import math

import click

from bcs_scheduler.cli.client import Json
from bcs_scheduler.cli.complete import agent_names
from bcs_scheduler.cli.errors import Conflict, TimedOut
from bcs_scheduler.cli.options import Session, connection_options, pass_session, reporting
from bcs_scheduler.cli.waiting import Look, wait_until

LATE = 15.0
"""Seconds after its time in which a drain is expected to say that it has given up."""


@click.command()
@click.argument("agents", nargs=-1, required=True, metavar="AGENT...", shell_complete=agent_names)
@click.option("--at-once", type=click.IntRange(1, 1000), default=1, help="Taskgroups of an agent on their way at once.")
@click.option("--daemonsets", is_flag=True, help="End the taskgroups of daemonsets, too, after all others.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the agents are empty.")
@click.option("--dry-run", is_flag=True, help="Change nothing.")
@connection_options
@pass_session
@reporting
def drain(
    session: Session,
    agents: tuple[str, ...],
    at_once: int,
    daemonsets: bool,
    no_wait: bool,
    dry_run: bool,
) -> None:
    """Place nothing new on agents and move what runs there elsewhere.

    Applications keep as many taskgroups ready as their updates would; what has no place elsewhere stays and is waited
    for. After --timeout the drain itself gives up and the rest stays; without, it takes as long as it takes. Ctrl-C
    ends the waiting, not the drain; `bcs uncordon AGENT` does that.

    Exit code 0 when the agents are empty, 4 if the time is over, 6 if a drain was ended by others.
    """
    results = session.client.drain(
        list(agents), at_once=at_once, timeout=session.timeout or 0.0, daemonsets=daemonsets, dry_run=dry_run
    )
    keys = [str(result["innerIP"]) for result in results]
    for agent in keys:
        session.report("agent", agent, "draining", "dry run" if dry_run else "", dryRun=dry_run)
    if dry_run or no_wait:
        return
    for agent in keys:
        found = _wait(session, agent)
        session.report("agent", agent, "drained", found["message"])


def _wait(session: Session, agent: str) -> Json:
    """`agent`: the key of its settings."""
    last: Json = {}
    told = ""

    def look() -> Look:
        nonlocal last, told
        found = session.client.drains()
        mine = next((drain for drain in found if drain["innerIP"] == agent), None)
        if mine is None:
            raise Conflict(f"the drain of agent {agent} was ended: it is enabled again")
        last = mine
        if last["state"] == "failed":
            raise TimedOut(f"agent {agent}: {last['message']}")
        if not session.interactive and session.change_format == "text" and last["message"] != told:
            told = last["message"]
            session.err.print(f"agent/{agent}: {told}", markup=False)
        moved = 0 if last["left"] else 1
        return Look(moved, 1, last["message"], ended=last["state"] == "drained")

    wait_until(session, agent, look, math.inf if session.timeout is None else session.timeout, LATE)
    return last
