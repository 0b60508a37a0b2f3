"""`bcs framework`, and the same commands of `bcs-scheduler framework`: tasks that run although the store of the leader
does not know them."""

from __future__ import annotations

import click

from bcs_scheduler.cli.options import (
    WholeHelp,
    connection_options,
    dry_run_option,
    examples,
    pass_session,
    reporting,
)
from bcs_scheduler.cli.session import Session
from store.keys import object_key

APPLICATIONS = click.argument("applications", nargs=-1, metavar="[NAMESPACE/APPLICATION...]")


@click.command(epilog=examples("bcs framework show", "bcs framework show -o json"))
@click.option("-o", "--output", type=click.Choice(("text", "json", "yaml")), default="text", help="Output format.")
@connection_options
@pass_session
def show(session: Session, output: str) -> None:
    """Show the running taskgroups that the store does not know.

    Such taskgroups exist if the store is empty or was restored from an old copy. If they are many, or newer than the
    store, none of them is ended and nothing is launched until `adopt` or `end`.
    """
    found = session.client.unknown_tasks()
    if output != "text":
        from bcs_scheduler.cli.output.data import print_data

        print_data(session.out, found, output)
        return
    if found["halted"]:
        session.say(
            f"halted since {found['since']}: the store does not know {found['undecided']} running taskgroups. None of "
            "them is ended and nothing is launched until `adopt` or `end`."
        )
    else:
        session.say("not halted: no running taskgroup waits for a decision.")
    if not found["complete"]:
        session.say(
            "Mesos has not named all running tasks yet: more may be found. `adopt` and `end` wait until it has, for as "
            "long as --timeout allows."
        )
    for one in found["taskgroups"]:
        words = one["decision"] or ("undecided, newer than the store" if one["newer"] else "undecided")
        session.say(
            f"  {object_key(one['namespace'], one['application'])}  {one['taskgroup']}  on {one['agent']}  {words}"
        )
    left = found["undecided"] + found["adopted"] - len(found["taskgroups"])
    if left:
        session.say(f"  and {left} more")


@click.command(epilog=examples("bcs framework adopt", "bcs framework adopt default/web"))
@APPLICATIONS
@dry_run_option
@connection_options
@pass_session
@reporting
def adopt(session: Session, applications: tuple[str, ...], dry_run: bool) -> None:
    """Let taskgroups run that the store does not know; all of them, or those of some applications.

    The scheduler does not manage adopted taskgroups: it does not restart, count, scale or publish them, because their
    definition is not known. `show` lists them, `end --adopted` ends them.
    """
    _decide(session, "adopt", "adopted", applications, adopted=False, dry_run=dry_run)


@click.command(epilog=examples("bcs framework end", "bcs framework end default/web", "bcs framework end --adopted"))
@APPLICATIONS
@click.option("--adopted", is_flag=True, help="Also end taskgroups that were adopted before.")
@dry_run_option
@connection_options
@pass_session
@reporting
def end(session: Session, applications: tuple[str, ...], adopted: bool, dry_run: bool) -> None:
    """End taskgroups that the store does not know; all of them, or those of some applications."""
    _decide(session, "end", "ended", applications, adopted=adopted, dry_run=dry_run)


def _decide(
    session: Session, decision: str, done: str, applications: tuple[str, ...], *, adopted: bool, dry_run: bool
) -> None:
    found = session.client.decide_unknown_tasks(decision, applications, adopted=adopted, dry_run=dry_run)
    note = f"{found['taskgroups']} taskgroups"
    if found["halted"]:
        note += "; others still wait for a decision"
    note += "; dry run" if dry_run else ""
    session.report("cluster", "unknown tasks", done, note, dryRun=dry_run, **found)


framework = WholeHelp("framework", help="Decide about running taskgroups that the store does not know.")
for command in (show, adopt, end):
    framework.add_command(command)
