"""`bcs drain`: moves all taskgroups away from agents, and waits for the end."""

from __future__ import annotations

import math

import click

from bcs_scheduler.cli.client.lookup import agent_keys
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.agents.plans import report_plans
from bcs_scheduler.cli.commands.arguments import agent_names
from bcs_scheduler.cli.errors import Conflict, TimedOut
from bcs_scheduler.cli.options import RenamedOption, connection_options, examples, pass_session, reporting
from bcs_scheduler.cli.session import Session
from bcs_scheduler.cli.waiting import Look, wait_until

LATE = 15.0
"""Seconds after the time limit of a drain in which the server reports the failure."""


@click.command(
    epilog=examples(
        "bcs drain 10.0.0.7 --timeout 30m",
        "bcs drain 10.0.0.7 10.0.0.8 --parallel 3 --daemonsets",
        "bcs drain 10.0.0.7 --dry-run",
    )
)
@click.argument("agents", nargs=-1, required=True, metavar="AGENT...", shell_complete=agent_names)
@click.option(
    "--parallel",
    cls=RenamedOption,
    former=("--at-once",),
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Number of taskgroups of one agent that are moved at the same time.",
)
@click.option("--daemonsets", is_flag=True, help="End also the taskgroups of daemonsets, after all others.")
@click.option(
    *("--ignore-daemonsets", "--delete-emptydir-data", "--delete-local-data"),
    "_kubectl",
    is_flag=True,
    hidden=True,
    expose_value=False,
    help="Accepted for kubectl's sake: taskgroups of daemonsets stay by default, sandboxes end with taskgroups.",
)
@click.option("--no-wait", is_flag=True, help="Do not wait until the agents are empty.")
@click.option("--dry-run", is_flag=True, help="Show where taskgroups would move, and change nothing.")
@connection_options
@pass_session
@reporting
def drain(
    session: Session,
    agents: tuple[str, ...],
    parallel: int,
    daemonsets: bool,
    no_wait: bool,
    dry_run: bool,
) -> None:
    """Cordon agents, and move their taskgroups to other agents.

    Applications keep as many taskgroups ready as during an update. A taskgroup that fits on no other agent stays until
    it fits. After --timeout the drain fails and the other taskgroups stay; without --timeout there is no limit. Ctrl-C
    ends only the waiting; `bcs uncordon AGENT` ends the drain.

    --dry-run shows for each taskgroup the new agent, or the reason why the taskgroup would stay.

    Exit code 0: the agents are empty; 4: --timeout was exceeded; 6: another user ended the drain.
    """
    results = session.client.drain(
        agent_keys(session.client.agents(), agents),
        parallel=parallel,
        timeout=session.timeout or 0.0,
        daemonsets=daemonsets,
        dry_run=dry_run,
    )
    if dry_run:
        report_plans(session, results, "draining")
        return
    keys = [str(result["innerIP"]) for result in results]
    for agent in keys:
        session.report("agent", agent, "draining", dryRun=False)
    if no_wait:
        return
    for agent in keys:
        found = _wait(session, agent)
        session.report("agent", agent, "drained", found["message"])


def _wait(session: Session, agent: str) -> Json:
    """Waits for the end of a drain. `agent`: key of its settings."""
    last: Json = {}
    sent = ""

    def look() -> Look:
        nonlocal last, sent
        found = session.client.drains()
        mine = next((drain for drain in found if drain["innerIP"] == agent), None)
        if mine is None:
            raise Conflict(f"the drain of agent {agent} was ended: the agent was uncordoned")
        last = mine
        if last["state"] == "failed":
            raise TimedOut(f"agent {agent}: {last['message']}")
        if not session.interactive and session.change_format == "text" and last["message"] != sent:
            sent = last["message"]
            session.err.print(f"agent/{agent}: {sent}")
        moved = 0 if last["left"] else 1
        return Look(moved, 1, last["message"], ended=last["state"] == "drained")

    wait_until(session, agent, look, math.inf if session.timeout is None else session.timeout, LATE)
    return last
