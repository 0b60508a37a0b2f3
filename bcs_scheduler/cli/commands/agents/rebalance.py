"""`bcs rebalance`: moves taskgroups toward fewer or more even agents."""

from __future__ import annotations

import click

from bcs_scheduler.cli.options import connection_options, dry_run_option, examples, pass_session, reporting
from bcs_scheduler.cli.output.text import counted
from bcs_scheduler.cli.session import Session
from store.keys import taskgroup_name


@click.command(epilog=examples("bcs rebalance --dry-run", "bcs rebalance --goal pack --budget 20"))
@click.option(
    "--goal",
    type=click.Choice(["pack", "spread"]),
    default="spread",
    show_default=True,
    help="Fewer agents in use, or agents that are equally used.",
)
@click.option(
    "--budget", type=click.IntRange(1, 100), default=10, show_default=True, help="Maximum number of taskgroups to move."
)
@click.option("--gain", type=click.FloatRange(0.0001, 1), default=0.01, show_default=True, help="Least gain of a move.")
@dry_run_option
@connection_options
@pass_session
@reporting
def rebalance(session: Session, goal: str, budget: int, gain: float, dry_run: bool) -> None:
    """Move taskgroups to other agents, so that fewer agents are used or agents are used equally.

    Each application keeps as many taskgroups ready as during an update. Nothing moves while taskgroups wait for a place
    or moves are in progress; repeat the command until it finds no move. The gain of a move is the change of the sum,
    over the agents, of the mean square of their used shares.
    """
    found = session.client.rebalance(goal=goal, moves=budget, gain=gain, dry_run=dry_run)
    number = counted(len(found["moves"]), "move")
    note = f"{number}; {found['message']}" + ("; dry run" if dry_run else "")
    done = "planned" if dry_run else "rebalanced"
    session.report("cluster", goal, done, note, found, dryRun=dry_run)
    if session.change_format == "text":
        for move in found["moves"]:
            name = taskgroup_name(str(move["taskgroup"]))
            session.say(
                f"  > taskgroup {name} from {move['sourceHost']} to {move['targetHost']}, gain {move['gain']:g}"
            )
        for refused in found["refused"]:
            session.say(f"  ! taskgroup {taskgroup_name(str(refused['taskgroup']))} stays: {refused['reason']}")
