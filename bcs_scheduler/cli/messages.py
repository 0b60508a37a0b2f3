"""Commands that tell executors of running taskgroups something: signal, restart, reload, env, commit."""

from __future__ import annotations

import signal as signals
from typing import Any

import click

from bcs_scheduler.cli.client import Told
from bcs_scheduler.cli.complete import target_names, taskgroup_ids
from bcs_scheduler.cli.errors import UsageError
from bcs_scheduler.cli.instructing import raise_failures, wait_for_outcome
from bcs_scheduler.cli.lookup import Target, find_message_target
from bcs_scheduler.cli.options import Session, connection_options, pass_session, reporting

target_argument = click.argument("target", metavar="TASKGROUP|APPLICATION", shell_complete=target_names)
no_wait_option = click.option("--no-wait", is_flag=True, help="Do not wait for the taskgroups' answers.")


@click.command()
@target_argument
@click.argument("signal", metavar="SIGNAL")
@click.option("--process", default="", metavar="NAME", help="To every process of this name. Default: the main one.")
@no_wait_option
@connection_options
@pass_session
@reporting
def signal(session: Session, target: str, signal: str, process: str, no_wait: bool) -> None:
    """Send SIGNAL (a name such as HUP, or a number) to the processes of taskgroups."""
    number = signal_number(signal)
    found = find_message_target(session.client, session.namespace, target)
    data = {"signal": number, "processname": process}
    told = send(session, found, "signal", data)
    finish(session, found, told, f"signalled with {_name(number)}", wait=not no_wait)


@click.command()
@target_argument
@no_wait_option
@connection_options
@pass_session
@reporting
def restart(session: Session, target: str, no_wait: bool) -> None:
    """End what runs in taskgroups and start it again, where it is."""
    _renew(session, target, "restart", no_wait)


@click.command()
@target_argument
@no_wait_option
@connection_options
@pass_session
@reporting
def reload(session: Session, target: str, no_wait: bool) -> None:
    """Have taskgroups read their configuration again: their reload command, or SIGHUP."""
    _renew(session, target, "reload", no_wait)


@click.command()
@target_argument
@click.argument("assignment", metavar="NAME=VALUE")
@no_wait_option
@connection_options
@pass_session
@reporting
def env(session: Session, target: str, assignment: str, no_wait: bool) -> None:
    """Set a variable that taskgroups get from their next restart on."""
    name, equals, value = assignment.partition("=")
    if not equals or not name:
        raise UsageError("give NAME=VALUE")  # not shown: it may be confidential
    found = find_message_target(session.client, session.namespace, target)
    told = send(session, found, "env-key", {"env-key": name, "env-value": value})
    finish(session, found, told, f"variable {name} set", wait=not no_wait)


@click.command()
@click.argument("taskgroup", shell_complete=taskgroup_ids)
@click.argument("image")
@click.argument("repository", metavar="TARGET")
@no_wait_option
@connection_options
@pass_session
@reporting
def commit(session: Session, taskgroup: str, image: str, repository: str, no_wait: bool) -> None:
    """Make the containers of TASKGROUP that run IMAGE an image TARGET, and push it."""
    found = find_message_target(session.client, session.namespace, taskgroup)
    if not found.one:
        raise UsageError(f"{taskgroup} is an application; commit takes one taskgroup")
    told = session.client.commit(found.taskgroup, image, repository)
    finish(session, found, told, f"committed as {repository}", wait=not no_wait)


def signal_number(text: str) -> int:
    """Raises UsageError."""
    short = text.upper().removeprefix("SIG")
    number = int(short) if short.isdigit() else 0
    number = number or next((int(known) for known in signals.Signals if known.name == f"SIG{short}"), 0)
    if not 1 <= number <= 64:
        raise UsageError(f"{text!r} is no signal: a name such as HUP, or a number from 1 to 64")
    return number


def send(session: Session, target: Target, kind: str, data: dict[str, Any]) -> Told:
    message = {"msgtype": kind, "msgdata": data}
    return session.client.send_message(target.namespace, target.name, target.taskgroup, message)


def finish(session: Session, target: Target, told: Told, done: str, *, wait: bool) -> None:
    """Waits for the answers and reports. Raises CliError if a task did not do it."""
    if not wait:
        kind, _, name = target.title.partition("/")
        session.report(kind, name, "told", f"command {told.command}", command=told.command)
        return
    found = wait_for_outcome(session, target, told, target.title)
    raise_failures(told.command, found)
    kind, _, name = target.title.partition("/")
    several = f"{len(told.messages)} taskgroups" if len(told.messages) > 1 else ""
    session.report(kind, name, done, several, command=told.command, taskgroups=len(told.messages))


def _renew(session: Session, target: str, how: str, no_wait: bool) -> None:
    found = find_message_target(session.client, session.namespace, target)
    told = session.client.renew(found.namespace, found.name, found.taskgroup, how)
    finish(session, found, told, f"{how}ed", wait=not no_wait)


def _name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"
