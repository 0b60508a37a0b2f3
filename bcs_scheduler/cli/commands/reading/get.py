"""The command `bcs get`, with its options. Its work: commands.reading.lists, which no completion loads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from bcs_scheduler.cli.commands.completing import kinds_and_names
from bcs_scheduler.cli.options import Duration, connection_options, examples, list_options, pass_session
from bcs_scheduler.cli.session import Session

Command = TypeVar("Command", bound=Callable[..., Any])


def event_options(command: Command) -> Command:
    """Options for events."""
    for flags, extra, text in (
        (("--last",), {"type": click.IntRange(0, 100_000), "metavar": "N"}, "For events: show the newest N."),
        (("--since",), {"type": Duration()}, "For events: show those of the last 90s, 10m, 2h, …"),
        (("--reason",), {"metavar": "REASON,…"}, "For events: show those with one of these reasons."),
        (
            ("--level",),
            {"type": click.Choice(["info", "warning", "error"])},
            "For events: show those of this level and above.",
        ),
        (
            ("--for",),
            {"metavar": "KIND/NAME"},
            "For events: show those of one object; of a workload with its taskgroups.",
        ),
    ):
        command = click.option(*flags, "event_" + flags[0].removeprefix("--"), help=text, **extra)(command)
    return command


@click.command(
    epilog=examples(
        "bcs get",
        "bcs get deployments",
        "bcs get app,svc -A -l tier=front",
        "bcs get taskgroups web -o wide",
        "bcs get deploy/web svc/web -o yaml",
        "bcs get tg --sort-by age -o custom-columns=NAME:.Name,HOST:.HostName",
        "bcs get events --for deployment/web -w",
    )
)
@click.argument("words", nargs=-1, metavar="[KIND[,KIND] [NAME]... | KIND/NAME...]", shell_complete=kinds_and_names)
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="List objects of all namespaces.")
@click.option(
    "-l",
    "--selector",
    default="",
    metavar="SELECTOR",
    help="List objects with these labels, such as app=web,tier!=test.",
)
@click.option("-w", "--watch", is_flag=True, help="Poll, and print again after each change.")
@click.option("--show-labels", is_flag=True, help="Show the labels of the objects as the last column of tables.")
@event_options
@list_options
@connection_options
@pass_session
def get(
    session: Session,
    /,
    words: tuple[str, ...],
    everywhere: bool,
    selector: str,
    watch: bool,
    show_labels: bool,
    output: Any,
    sort_by: str,
    no_headers: bool,
    **chosen: Any,
) -> None:
    """List the objects of a KIND, or show objects by name. Without KIND: list the kinds.

    Kinds are deployments (dep), daemonsets (ds), applications (app), taskgroups (tg, pods), tasks, transactions (tx),
    services (svc), endpoints (ep), configmaps (cm), secrets, commands, messages, events (ev), agents (ag, nodes),
    offers, versions, namespaces (ns), queues, priorityclasses (pc), podgroups (pg), managed (managed
    applications), webhooks, kinds, and registered kinds. Further kinds: all (deployments, daemonsets, applications,
    taskgroups and services), cluster (resources of all agents), servers (the leading scheduler and Mesos), definition
    (the document of a workload).

    For taskgroups, tasks, transactions, versions, commands, messages and events, NAME may be a workload.
    """
    from bcs_scheduler.cli.commands.reading.lists import show

    show(
        session,
        words,
        {name: value for name, value in chosen.items() if value is not None},
        everywhere=everywhere,
        selector=selector,
        watch=watch,
        output=output,
        sort_by=sort_by,
        headers=not no_headers,
        labels=show_labels,
    )
