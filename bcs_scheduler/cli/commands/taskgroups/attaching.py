"""`bcs attach`: the streams of a running task."""

from __future__ import annotations

import sys

import click

from bcs_scheduler.cli.client.lookup import find_target
from bcs_scheduler.cli.client.session_line import NoSessions
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.arguments import target_names
from bcs_scheduler.cli.commands.taskgroups.detaching import DetachKeys, detach_keys_option, parse_keys
from bcs_scheduler.cli.commands.taskgroups.foreground import recorded_exit_code
from bcs_scheduler.cli.commands.taskgroups.streams import Detached, NotAttached, attend, check_terminal, terminal_size
from bcs_scheduler.cli.errors import CliError, NotFound, TimedOut, Unreachable
from bcs_scheduler.cli.options import connection_options, examples, pass_session
from bcs_scheduler.cli.session import Session


@click.command("attach", epilog=examples("bcs attach web-0", "bcs attach -it shell-0", "bcs attach web-0 --task log"))
@click.argument("target", metavar="TASKGROUP|WORKLOAD", shell_complete=target_names)
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on to the task.")
@click.option("-t", "--tty", is_flag=True, help="Pass every key on to the terminal of the task; needs -i.")
@click.option("--logs", is_flag=True, help="Begin with the output so far.")
@click.option("--task", default="", metavar="TASK", help="Name or number of the task; needed if there are several.")
@detach_keys_option
@connection_options
@pass_session
def attach(session: Session, target: str, stdin: bool, tty: bool, logs: bool, task: str, detach_keys: str) -> None:
    """Print the output of a running task from now on, or with --logs from its begin, until the task ends.

    bcs exits with the exit code of the task (128 plus the signal if a signal ended it). Ctrl-C, a lost connection,
    --timeout and the detach keys end bcs, but not the task. Of a workload, the first running taskgroup is taken.
    `bcs logs` prints the earlier output too.
    """
    keys = parse_keys(detach_keys)
    check_terminal(stdin, tty)
    found = find_target(session.client, session.namespace, target)
    running = [group for group in found.taskgroups if group["Status"] == "Running"]
    if not running:
        raise NotFound(f"{found.title} has no running taskgroup")
    document: Json = {"stdin": stdin, **({"logs": True} if logs else {})}
    if tty:
        rows, columns = terminal_size()
        document["tty"] = {"rows": rows, "columns": columns}
    line = session.client.session(running[0]["ID"], "attach", document, task=task)
    typed = DetachKeys(keys) if stdin and sys.stdin.isatty() else None
    try:
        ends = running[0].get("Executor") != "mesos"  # of ours, the task decides
        code = attend(
            line, stdin=stdin, terminal=tty, seconds=session.timeout, keys=typed, ends_input=ends, refusable=True
        )
    except Detached:
        session.err.print(f"detached from {running[0]['Name']}; the task runs on")
        code = 0
    except (TimedOut, Unreachable, NoSessions, NotAttached):
        raise  # the task runs on
    except CliError as error:
        code = recorded_exit_code(session, running[0], task, error)
        session.warn(error.message)
    click.get_current_context().exit(code)
