"""`bcs rollout`: following, halting, undoing and repeating updates. What each kind can do is in ROLLOUTS."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import click
from rich.text import Text

from bcs_scheduler.cli import daemonsets, deployments
from bcs_scheduler.cli.client import Json
from bcs_scheduler.cli.complete import owner_names
from bcs_scheduler.cli.deploymentviews import REVISIONS, print_version
from bcs_scheduler.cli.errors import CliError, NotFound, UsageError
from bcs_scheduler.cli.handling import report, verb
from bcs_scheduler.cli.lookup import find_owner, is_application
from bcs_scheduler.cli.options import (
    Session,
    chosen_format,
    connection_options,
    output_option,
    pass_session,
    reporting,
    wait_option,
)
from bcs_scheduler.cli.output import field_list, local_time, print_data, status_text, table


class Rollout(NamedTuple):
    """What `bcs rollout` can do with one kind. Functions take session, namespace, name, and what is said of them.

    `settle` waits until the update has ended, at most so many seconds (None = the session's limit), and gives the
    object as it is then; it raises CliError if the update did not succeed. With True going back is what was asked for.
    `done` says of an object whether no update is under way.
    """

    look: Callable[[Session, str, str], Json]
    settle: Callable[[Session, str, str, float | None, bool], Json]
    done: Callable[[Json], bool]
    standing: Callable[[Json], str]
    undo: Callable[[Session, str, str, str | None, bool], Any]
    """With the revision to go back to (None: the one before), and whether it is a dry run."""
    control: Callable[[Session, str, str, str, bool], Any]
    """With the action and whether it is a dry run. Raises UsageError for an action that the kind does not know."""
    history: Callable[[Session, str, str], list[Json]]
    """Oldest first: `revision`, `current`, `instances`, `why`, `createTime`."""
    revision: Callable[[Session, str, str, str], Json]
    """One of them, with `definition` (a version)."""


def _control_deployment(session: Session, namespace: str, name: str, action: str, dry_run: bool) -> Any:
    accepted = session.client.control_deployment(namespace, name, action, dry_run=dry_run)
    done = {
        "pause": "pausing after this step",
        "resume": "resumed",
        "cancel": "rolling back",
        "restart": "restarting in steps",
    }[action]
    report(session, "deployment", name, verb(accepted, done), accepted, dry_run)
    return accepted


def _settle_deployment(session: Session, namespace: str, name: str, limit: float | None, undoing: bool) -> Json:
    found = deployments.wait_for_rollout(session, namespace, name, limit=limit, undoing=undoing)
    progressing = next(c for c in found["conditions"] if c["type"] == "Progressing")
    if progressing["reason"] == "RolledBack" and not undoing:
        raise CliError(f"deployment {name}: the last update was rolled back: {progressing['message']}")
    return found


ROLLOUTS: dict[str, Rollout] = {
    "deployment": Rollout(
        look=lambda session, namespace, name: session.client.deployment(namespace, name),
        settle=_settle_deployment,
        done=deployments.is_settled,
        standing=deployments.standing,
        undo=deployments.rollback,
        control=_control_deployment,
        history=lambda session, namespace, name: session.client.revisions(namespace, name),
        revision=lambda session, namespace, name, number: session.client.revision(namespace, name, _number(number)),
    ),
    "daemonset": Rollout(
        look=lambda session, namespace, name: session.client.daemonset(namespace, name),
        settle=lambda session, namespace, name, limit, undoing: daemonsets.wait_for_daemonset(
            session, namespace, name, limit
        ),
        done=daemonsets.is_settled,
        standing=daemonsets.standing,
        undo=daemonsets.rollback,
        control=daemonsets.control,
        history=daemonsets.history,
        revision=daemonsets.revision,
    ),
}

name_argument = click.argument("name", metavar="[KIND/]NAME", shell_complete=owner_names)
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would happen; nothing is changed.")


@click.group()
@connection_options
def rollout() -> None:
    """Follow and steer the updates of deployments and daemonsets."""


def _found(session: Session, text: str) -> tuple[str, str, Rollout]:
    """Kind, name, and what can be done. Raises UsageError, NotFound."""
    kind, name = find_owner(session.client, session.namespace, text)
    if kind not in ROLLOUTS:
        if "/" not in text and not is_application(session.client, session.namespace, name):
            raise NotFound(f"there is no {' or '.join(ROLLOUTS)} {session.namespace}/{name}")
        raise UsageError(f"{kind} {name} has no rollouts; {', '.join(ROLLOUTS)} have")
    return kind, name, ROLLOUTS[kind]


@rollout.command()
@name_argument
@click.option("--no-wait", is_flag=True, help="Say how far it is and do not wait.")
@connection_options
@pass_session
@reporting
def status(session: Session, name: str, no_wait: bool) -> None:
    """Follow an update to its end.

    Exit code 0 when everything wanted is available, 1 if the update was suspended or rolled back or gets no further, 6
    if it is paused, 4 after --timeout (without one it is followed for as long as it takes).
    """
    kind, name, able = _found(session, name)
    if no_wait:
        found = able.look(session, session.namespace, name)
        done = "settled" if able.done(found) else "under way"
        session.report(kind, name, done, able.standing(found), status=_status(found))
        return
    limit = math.inf if session.timeout is None else session.timeout
    found = able.settle(session, session.namespace, name, limit, False)
    session.report(kind, name, "rolled out", _revision(found), status=_status(found))


@rollout.command()
@name_argument
@click.option("--to-revision", "revision", metavar="N", help="Default: the one before the present one.")
@dry_run_option
@wait_option
@connection_options
@pass_session
@reporting
def undo(session: Session, name: str, revision: str | None, dry_run: bool, wait: bool) -> None:
    """Go back to an earlier definition."""
    kind, name, able = _found(session, name)
    able.undo(session, session.namespace, name, revision, dry_run)
    if wait and not dry_run:
        found = able.settle(session, session.namespace, name, None, True)
        session.report(kind, name, "running", _revision(found))


def _action(action: str, words: str) -> click.Command:
    @click.command(action, help=words)
    @name_argument
    @dry_run_option
    @wait_option
    @connection_options
    @pass_session
    @reporting
    def command(session: Session, name: str, dry_run: bool, wait: bool) -> None:
        kind, name, able = _found(session, name)
        able.control(session, session.namespace, name, action, dry_run)
        if wait and not dry_run:
            found = able.settle(session, session.namespace, name, None, action == "cancel")
            session.report(kind, name, "running", _revision(found))

    return command


for action, words in (
    ("resume", "Go on with an update that is paused or suspended."),
    ("cancel", "Cancel an update: go back to where it began."),
    ("restart", "Replace all taskgroups in steps, with the same definition."),
):
    rollout.add_command(_action(action, words))


@rollout.command()
@name_argument
@dry_run_option
@connection_options
@pass_session
@reporting
def pause(session: Session, name: str, dry_run: bool) -> None:
    """Halt an update; a step that runs is completed."""
    _, name, able = _found(session, name)
    able.control(session, session.namespace, name, "pause", dry_run)


@rollout.command()
@name_argument
@click.option("--revision", metavar="N", help="Show this one in full.")
@output_option
@connection_options
@pass_session
def history(session: Session, name: str, revision: str | None, output: str | None) -> None:
    """List the definitions it has had, or show one. The present one is marked with *."""
    kind, name, able = _found(session, name)
    form = chosen_format(output)
    if revision is None:
        found = able.history(session, session.namespace, name)
        if form in ("json", "yaml"):
            print_data(session.out, found, form)
        else:
            session.show(table(REVISIONS, found))
        return
    one = able.revision(session, session.namespace, name, revision)
    if form in ("json", "yaml"):
        print_data(session.out, one, form)
        return
    present = status_text("Running") if one.get("current") else Text("kept")
    head = [("Name", f"{kind} {name}"), ("Revision", one["revision"]), ("State", present), ("Why", one.get("why"))]
    session.show(field_list([*head, ("Created", local_time(one.get("createTime")))]))
    print_version(session, one["definition"])


def _status(found: Json) -> str:
    return str(found.get("status") or found.get("Status"))


def _revision(found: Json) -> str:
    return f"revision {found['revision']}" if found.get("revision") else ""


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{text!r} is no revision: a number")
    return int(text)
