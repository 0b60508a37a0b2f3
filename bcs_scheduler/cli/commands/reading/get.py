"""The command `bcs get`, with its options. Its work: commands.reading.lists, which no completion loads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from bcs_scheduler.cli.commands.arguments import kinds_and_names, owner_names
from bcs_scheduler.cli.options import (
    Duration,
    connection_options,
    examples,
    field_selector_option,
    list_options,
    pass_session,
)
from bcs_scheduler.cli.session import Session

Command = TypeVar("Command", bound=Callable[..., Any])


def event_options(begin: str) -> Callable[[Command], Command]:
    """Options for events. `begin`: begin of their help texts, before a verb."""

    def add(command: Command) -> Command:
        for flag, extra, text in (
            ("--last", {"type": click.IntRange(0, 100_000), "metavar": "N"}, "the newest N."),
            ("--since", {"type": Duration()}, "those of the last 90s, 10m, 2h, …"),
            ("--reason", {"metavar": "REASON,…"}, "those with one of these reasons."),
            ("--level", {"type": click.Choice(["info", "warning", "error"])}, "those of this level and above."),
            ("--for", {"metavar": "KIND/NAME"}, "those of one object; of a workload with its taskgroups."),
        ):
            name = "event_" + flag.removeprefix("--")
            command = click.option(flag, name, help=f"{begin} {text}", **extra)(command)
        return command

    return add


@click.command(
    epilog=examples(
        "bcs get",
        "bcs get deployments",
        "bcs get app,svc -A -l tier=front",
        "bcs get taskgroups web -o wide",
        "bcs get pods -A --field-selector status.phase!=Running",
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
@field_selector_option
@click.option("-w", "--watch", is_flag=True, help="Poll, and print again after each change.")
@click.option("--ignore-not-found", "ignore", is_flag=True, help="Objects that do not exist are no failure.")
@click.option("--show-labels", is_flag=True, help="Show the labels of the objects as the last column of tables.")
@event_options("For events: show")
@list_options
@connection_options
@pass_session
def get(
    session: Session,
    /,
    words: tuple[str, ...],
    everywhere: bool,
    selector: str,
    fields: str,
    watch: bool,
    ignore: bool,
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
        fields=fields,
        watch=watch,
        ignore=ignore,
        output=output,
        sort_by=sort_by,
        headers=not no_headers,
        labels=show_labels,
    )


LEVELS = {frozenset({"warning"}): "warning", frozenset({"normal", "warning"}): "info"}
"""Levels by the types of events that kubectl knows."""


def _level(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The level for --types of kubectl. Raises BadParameter."""
    if value is None:
        return None
    level = LEVELS.get(frozenset(value.lower().split(",")))
    if level is None:
        raise click.BadParameter("types are Warning, which shows errors too, or Normal,Warning")
    return level


@click.command(
    epilog=examples(
        "bcs events", "bcs events deployment/web --since 1h", "bcs events -A --level warning", "bcs events web -w"
    )
)
@click.argument("about", required=False, metavar="[[KIND/]NAME]", shell_complete=owner_names)
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Show events of all namespaces.")
@click.option("-w", "--watch", is_flag=True, help="Follow new events.")
@click.option("--types", callback=_level, hidden=True, help="Types of events, as kubectl names them.")
@event_options("Show")
@field_selector_option
@list_options
@connection_options
@pass_session
def events(
    session: Session, /, about: str | None, everywhere: bool, watch: bool, types: str | None, fields: str, **given: Any
) -> None:
    """List the events of the namespace, or of one object. NAME alone is a workload.

    `bcs get events` does the same. `bcs story` shows the events of an object under their causes.
    """
    from bcs_scheduler.cli.kinds.workloads.events import show_events
    from bcs_scheduler.cli.listing import chosen_shape

    shape = chosen_shape(**{name: given.pop(name) for name in ("output", "sort_by", "no_headers")})
    if about and "/" in about:
        if given["event_for"]:
            raise click.UsageError("give the object once: as KIND/NAME or with --for")
        about, given["event_for"] = None, about
    given["event_level"] = given["event_level"] or types
    show_events(session, None if everywhere else session.namespace, about, watch, shape, given, fields)
