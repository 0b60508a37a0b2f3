"""`bcs rollout`: progress, pause, continuation, cancellation and history of updates, by kind in ROLLOUTS."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from bcs_scheduler.cli.client.lookup import find_owner, is_application
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.arguments import owner_argument
from bcs_scheduler.cli.documents import report, verb
from bcs_scheduler.cli.errors import CliError, NotFound, UsageError
from bcs_scheduler.cli.kinds.workloads import daemonsets, deployments
from bcs_scheduler.cli.kinds.workloads import deployment_operations as deployment_operations
from bcs_scheduler.cli.kinds.workloads.deployment_operations import wait_for_rollout
from bcs_scheduler.cli.kinds.workloads.deployments import REVISIONS, print_version
from bcs_scheduler.cli.listing import chosen_shape, print_list
from bcs_scheduler.cli.options import (
    WholeHelp,
    changing_command,
    connection_options,
    dry_run_option,
    examples,
    list_options,
    on_conflict_option,
    pass_session,
    reporting,
    wait_option,
)
from bcs_scheduler.cli.output.data import print_form
from bcs_scheduler.cli.output.tables import field_list
from bcs_scheduler.cli.output.terminal import Styled
from bcs_scheduler.cli.output.text import local_time, status_text
from bcs_scheduler.cli.session import Session
from store.keys import object_key


class Rollout(NamedTuple):
    """Operations of `bcs rollout` on one kind; they take session, namespace and name first.

    `wait_applied` waits until the update has ended, at most so many seconds (None = the limit of the session), and
    returns the object. It raises CliError if the update did not succeed; the last argument is True if the user asked
    for a rollback. `done`: no update is in progress.
    """

    look: Callable[[Session, str, str], Json]
    wait_applied: Callable[[Session, str, str, float | None, bool], Json]
    done: Callable[[Json], bool]
    status_line: Callable[[Json], str]
    undo: Callable[[Session, str, str, str | None, bool], Any]
    """Revision to return to (None = the previous one), dry run."""
    control: Callable[[Session, str, str, str, bool], Any]
    """Action, dry run. Raises UsageError for an action that the kind does not support."""
    history: Callable[[Session, str, str], list[Json]]
    """Stored revisions, oldest first: `revision`, `current`, `instances`, `why`, `createTime`."""
    revision: Callable[[Session, str, str, str], Json]
    """One stored revision, with its `definition`."""


def _control_deployment(session: Session, namespace: str, name: str, action: str, dry_run: bool) -> Any:
    accepted = session.client.control_deployment(namespace, name, action, dry_run=dry_run)
    done = {
        "pause": "pausing after the current step",
        "resume": "resumed",
        "cancel": "rolling back",
        "restart": "replacing taskgroups",
    }[action]
    report(session, "deployment", name, verb(accepted, done), accepted, dry_run)
    return accepted


def _wait_for_deployment(
    session: Session, namespace: str, name: str, limit: float | None, rollback_expected: bool
) -> Json:
    found = wait_for_rollout(session, namespace, name, limit=limit, rollback_expected=rollback_expected)
    progressing = next(c for c in found["conditions"] if c["type"] == "Progressing")
    if progressing["reason"] == "RolledBack" and not rollback_expected:
        raise CliError(f"deployment {name}: the last update was rolled back: {progressing['message']}")
    return found


ROLLOUTS: dict[str, Rollout] = {
    "deployment": Rollout(
        look=lambda session, namespace, name: session.client.deployment(namespace, name),
        wait_applied=_wait_for_deployment,
        done=deployments.is_complete,
        status_line=deployments.status_line,
        undo=deployment_operations.rollback,
        control=_control_deployment,
        history=lambda session, namespace, name: session.client.revisions(namespace, name),
        revision=lambda session, namespace, name, number: session.client.revision(namespace, name, _number(number)),
    ),
    "daemonset": Rollout(
        look=lambda session, namespace, name: session.client.daemonset(namespace, name),
        wait_applied=lambda session, namespace, name, limit, rollback_expected: daemonsets.wait_for_daemonset(
            session, namespace, name, limit
        ),
        done=daemonsets.is_complete,
        status_line=daemonsets.status_line,
        undo=daemonsets.rollback,
        control=daemonsets.control,
        history=daemonsets.history,
        revision=daemonsets.revision,
    ),
}


@click.group(cls=WholeHelp)
@connection_options
def rollout() -> None:
    """Manage updates of deployments and daemonsets."""


def _found(session: Session, text: str) -> tuple[str, str, Rollout]:
    """Kind, name, and operations. Raises UsageError, NotFound."""
    kind, name = find_owner(session.client, session.namespace, text)
    if kind not in ROLLOUTS:
        if "/" not in text and not is_application(session.client, session.namespace, name):
            raise NotFound(f"there is no {' or '.join(ROLLOUTS)} {object_key(session.namespace, name)}")
        raise UsageError(f"{kind} {name} has no rollouts; only {' and '.join(f'{kind}s' for kind in ROLLOUTS)} have")
    return kind, name, ROLLOUTS[kind]


@rollout.command(epilog=examples("bcs rollout status gallery", "bcs rollout status gallery --timeout 5m"))
@owner_argument
@click.option("--no-wait", is_flag=True, help="Print the current progress, and do not wait.")
@connection_options
@pass_session
@reporting
def status(session: Session, name: str, no_wait: bool) -> None:
    """Wait for the end of an update, and show its progress.

    Exit code 0: all taskgroups are available; 1: the update was suspended or rolled back, or is stuck; 4: --timeout was
    exceeded (without --timeout there is no limit); 6: the update is paused.
    """
    kind, name, able = _found(session, name)
    if no_wait:
        found = able.look(session, session.namespace, name)
        done = "complete" if able.done(found) else "in progress"
        session.report(kind, name, done, able.status_line(found), status=_status(found))
        return
    limit = math.inf if session.timeout is None else session.timeout
    found = able.wait_applied(session, session.namespace, name, limit, False)
    session.report(kind, name, "rolled out", _revision(found), status=_status(found))


@rollout.command(hidden=True, epilog=examples("bcs rollback gallery"))
@owner_argument
@click.option("--to-revision", "revision", metavar="N", help="Revision to return to. Default: the previous one.")
@on_conflict_option
@changing_command
def undo(session: Session, name: str, revision: str | None, dry_run: bool, wait: bool) -> None:
    """Old name of `bcs rollback`: return to an earlier revision."""
    kind, name, able = _found(session, name)
    able.undo(session, session.namespace, name, revision, dry_run)
    if wait and not dry_run:
        found = able.wait_applied(session, session.namespace, name, None, True)
        session.report(kind, name, "running", _revision(found))


def _action(name: str, action: str, words: str, *, hidden: bool = False) -> click.Command:
    """A command for an action of the API. `hidden`: `name` is an old name."""
    epilog = examples(f"bcs rollout {name} gallery --wait")

    @click.command(name, help=words, hidden=hidden, epilog=epilog)
    @owner_argument
    @dry_run_option
    @wait_option
    @connection_options
    @pass_session
    @reporting
    def command(session: Session, name: str, dry_run: bool, wait: bool) -> None:
        kind, name, able = _found(session, name)
        able.control(session, session.namespace, name, action, dry_run)
        if wait and not dry_run:
            found = able.wait_applied(session, session.namespace, name, None, action == "cancel")
            session.report(kind, name, "running", _revision(found))

    return command


for verb_name, action, words, hidden in (
    ("resume", "resume", "Continue an update that is paused or suspended.", False),
    ("cancel", "cancel", "Cancel an update, and return to the revision before it.", False),
    ("replace", "restart", "Replace all taskgroups in steps, with the same definition.", False),
    ("restart", "restart", "Old name of `bcs rollout replace`.", True),
):
    rollout.add_command(_action(verb_name, action, words, hidden=hidden))


@rollout.command(epilog=examples("bcs rollout pause gallery"))
@owner_argument
@dry_run_option
@connection_options
@pass_session
@reporting
def pause(session: Session, name: str, dry_run: bool) -> None:
    """Pause an update after the current step."""
    _, name, able = _found(session, name)
    able.control(session, session.namespace, name, "pause", dry_run)


@rollout.command(epilog=examples("bcs rollout history gallery", "bcs rollout history gallery --revision 2"))
@owner_argument
@click.option("--revision", metavar="N", help="Show this revision in detail.")
@list_options
@connection_options
@pass_session
def history(session: Session, /, name: str, revision: str | None, **listed: Any) -> None:
    """List the stored revisions, or show one. A * marks the current revision."""
    kind, name, able = _found(session, name)
    shape = chosen_shape(**listed)
    if revision is None:
        found = able.history(session, session.namespace, name)
        print_list(session, shape, found, REVISIONS, lambda one: f"revision/{one['revision']}")
        return
    one = able.revision(session, session.namespace, name, revision)
    if print_form(session.out, one, shape.form):
        return
    present = status_text("Running") if one.get("current") else Styled("stored")
    head = [("Name", f"{kind} {name}"), ("Revision", one["revision"]), ("State", present), ("Cause", one.get("why"))]
    session.show(field_list([*head, ("Created", local_time(one.get("createTime")))]))
    print_version(session, one["definition"])


def _status(found: Json) -> str:
    return str(found.get("status") or found.get("Status"))


def _revision(found: Json) -> str:
    return f"revision {found['revision']}" if found.get("revision") else ""


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"{text!r} is not a revision number")
    return int(text)
