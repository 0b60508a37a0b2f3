"""`bcs signal`, `restart`, `reload`, `env` and `commit`: messages to the executors of running taskgroups."""

from __future__ import annotations

import signal as signals
from typing import Any

import click

from bcs_scheduler.cli.client.lookup import Target, find_message_target
from bcs_scheduler.cli.client.types import SentMessages
from bcs_scheduler.cli.commands.arguments import target_names, taskgroup_names
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.kinds.objects.outcomes import raise_failures, wait_for_outcome
from bcs_scheduler.cli.options import connection_options, examples, pass_session, reporting
from bcs_scheduler.cli.session import Session

target_argument = click.argument("target", metavar="TASKGROUP|APPLICATION", shell_complete=target_names)
no_wait_option = click.option("--no-wait", is_flag=True, help="Do not wait for the answers of the taskgroups.")


@click.command(epilog=examples("bcs signal web-0 HUP", "bcs signal web TERM --process nginx"))
@target_argument
@click.argument("signal", metavar="SIGNAL")
@click.option(
    "--process",
    default="",
    metavar="NAME",
    help="Send the signal to all processes of this name. Default: the main process.",
)
@no_wait_option
@connection_options
@pass_session
@reporting
def signal(session: Session, target: str, signal: str, process: str, no_wait: bool) -> None:
    """Send SIGNAL (a name such as HUP, or a number) to processes of taskgroups."""
    number = signal_number(signal)
    found = find_message_target(session.client, session.namespace, target)
    data = {"signal": number, "processname": process}
    sent = send(session, found, "signal", data)
    finish(session, found, sent, f"signalled with {_name(number)}", wait=not no_wait)


@click.command(epilog=examples("bcs restart web-0", "bcs restart web --no-wait"))
@target_argument
@no_wait_option
@connection_options
@pass_session
@reporting
def restart(session: Session, target: str, no_wait: bool) -> None:
    """Restart the tasks of taskgroups in place: the taskgroups keep their agents, ports and ids.

    The taskgroups stay in the endpoints of their services, and there is no shutdown delay: clients may lose requests.
    `bcs rollout replace` replaces the taskgroups of a deployment without that.
    """
    _renew(session, target, "restart", no_wait)


@click.command(epilog=examples("bcs reload web"))
@target_argument
@no_wait_option
@connection_options
@pass_session
@reporting
def reload(session: Session, target: str, no_wait: bool) -> None:
    """Make tasks reload their configuration, by their reload command or by SIGHUP."""
    _renew(session, target, "reload", no_wait)


@click.command(epilog=examples("bcs env web LEVEL=debug && bcs restart web"))
@target_argument
@click.argument("assignment", metavar="NAME=VALUE")
@no_wait_option
@connection_options
@pass_session
@reporting
def env(session: Session, target: str, assignment: str, no_wait: bool) -> None:
    """Set an environment variable of tasks. It takes effect at the next restart."""
    name, equals, value = assignment.partition("=")
    if not equals or not name:
        raise UsageError("give NAME=VALUE")  # not shown: it may be confidential
    found = find_message_target(session.client, session.namespace, target)
    sent = send(session, found, "env-key", {"env-key": name, "env-value": value})
    finish(session, found, sent, f"variable {name} set", wait=not no_wait)


@click.command(epilog=examples("bcs commit web-0 nginx registry.local/web:debug"))
@click.argument("taskgroup", shell_complete=taskgroup_names)
@click.argument("image")
@click.argument("repository", metavar="TARGET")
@no_wait_option
@connection_options
@pass_session
@reporting
def commit(session: Session, taskgroup: str, image: str, repository: str, no_wait: bool) -> None:
    """Create the image TARGET from the containers of TASKGROUP that run IMAGE, and push it."""
    found = find_message_target(session.client, session.namespace, taskgroup)
    if not found.one:
        raise UsageError(f"{taskgroup} is not a taskgroup; commit needs one taskgroup")
    sent = session.client.commit(found.taskgroup, image, repository)
    finish(session, found, sent, f"committed as {repository}", wait=not no_wait)


def signal_number(text: str) -> int:
    """Raises UsageError."""
    short = text.upper().removeprefix("SIG")
    number = int(short) if short.isdigit() else 0
    number = number or next((int(known) for known in signals.Signals if known.name == f"SIG{short}"), 0)
    if not 1 <= number <= 64:
        raise UsageError(f"{text!r} is not a signal: give a name such as HUP, or a number from 1 to 64")
    return number


def send(session: Session, target: Target, kind: str, data: dict[str, Any]) -> SentMessages:
    message = {"msgtype": kind, "msgdata": data}
    return session.client.send_message(target.namespace, target.name, target.taskgroup, message)


def finish(session: Session, target: Target, sent: SentMessages, done: str, *, wait: bool) -> None:
    """Waits for the answers, and reports them. Raises CliError if a task failed."""
    if not wait:
        kind, _, name = target.title.partition("/")
        session.report(kind, name, "sent", f"command {sent.command}", command=sent.command)
        return
    found = wait_for_outcome(session, target, sent, target.title)
    raise_failures(sent.command, found)
    kind, _, name = target.title.partition("/")
    several = f"{len(sent.messages)} taskgroups" if len(sent.messages) > 1 else ""
    session.report(kind, name, done, several, command=sent.command, taskgroups=len(sent.messages))


def _renew(session: Session, target: str, how: str, no_wait: bool) -> None:
    found = find_message_target(session.client, session.namespace, target)
    sent = session.client.renew(found.namespace, found.name, found.taskgroup, how)
    finish(session, found, sent, f"{how}ed", wait=not no_wait)


def _name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"
