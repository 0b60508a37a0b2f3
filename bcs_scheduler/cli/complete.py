"""Completion of names by asking the server; whatever goes wrong, the shell just gets no suggestions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from bcs_scheduler.cli.client import Client
from bcs_scheduler.cli.errors import CliError
from bcs_scheduler.cli.options import Session, session_of
from bcs_scheduler.cli.views import ALIASES, COLUMNS

PATIENCE = 0.5
"""Seconds a busy server may be asked again while somebody holds the tab key."""


def _suggest(
    incomplete: str, ctx: click.Context, names: Callable[[Client, Session], Iterable[str]]
) -> list[CompletionItem]:
    session = session_of(ctx)
    try:
        found = names(Client(session.server, PATIENCE, credentials=session.credentials), session)
        return [CompletionItem(name) for name in found if name.startswith(incomplete)]
    except (CliError, KeyError, TypeError):
        return []


def application_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _suggest(incomplete, ctx, lambda client, s: (a["Name"] for a in client.applications(s.namespace)))


def owner_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Deployments, and applications: those that belong to a deployment too."""

    def names(client: Client, session: Session) -> Iterable[str]:
        found = [deployment["name"] for deployment in client.deployments(session.namespace)]
        found += [application["Name"] for application in client.applications(session.namespace)]
        yield from dict.fromkeys(found)

    return _suggest(incomplete, ctx, names)


def service_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    def names(client: Client, session: Session) -> Iterable[str]:
        return (found["metadata"]["name"] for found in client.endpoints(session.namespace))

    return _suggest(incomplete, ctx, names)


def names_of_kind(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """By the kind that stands before."""
    kind = str(ctx.params.get("kind") or "").lower()
    of_service = ALIASES.get(kind, kind) in ("services", "endpoints")
    return (service_names if of_service else owner_names)(ctx, param, incomplete)


def taskgroup_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _suggest(incomplete, ctx, lambda client, s: (g["ID"] for g in client.taskgroups(s.namespace)))


def target_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Deployments, applications, and taskgroups by their short names."""

    def names(client: Client, session: Session) -> Iterable[str]:
        found = [deployment["name"] for deployment in client.deployments(session.namespace)]
        found += [application["Name"] for application in client.applications(session.namespace)]
        yield from dict.fromkeys(found)
        yield from (group["Name"] for group in client.taskgroups(session.namespace))

    return _suggest(incomplete, ctx, names)


def transaction_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _suggest(incomplete, ctx, lambda client, s: (t["transactionID"] for t in client.transactions(s.namespace)))


def agent_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _suggest(incomplete, ctx, lambda client, s: (a.get("ip") or a["hostname"] for a in client.agents()))


def kind_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The scheduler's own, and those of custom resources."""
    own = [CompletionItem(kind) for kind in COLUMNS if kind.startswith(incomplete)]
    return own + _suggest(incomplete, ctx, lambda client, s: (k["spec"]["names"]["kind"] for k in client.kinds()))
