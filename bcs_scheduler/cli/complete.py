"""Completion of names by asking the server; whatever goes wrong, the shell just gets no suggestions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from bcs_scheduler.cli.client import Client, Json
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
    return _suggest(incomplete, ctx, lambda client, session: _owners(client, session.namespace))


def _owners(client: Client, namespace: str) -> Iterable[str]:
    found = [deployment["name"] for deployment in client.deployments(namespace)]
    found += [application["Name"] for application in client.applications(namespace)]
    return dict.fromkeys(found)


DOCUMENTS: dict[str, Callable[[Client, str], Iterable[Json]]] = {
    "services": lambda client, namespace: client.endpoints(namespace),
    "endpoints": lambda client, namespace: client.endpoints(namespace),
    "configmaps": lambda client, namespace: client.configurations("configmap", namespace),
    "secrets": lambda client, namespace: client.configurations("secret", namespace),
    "webhooks": lambda client, namespace: client.webhooks(namespace),
    "namespaces": lambda client, namespace: client.namespaces(),
}
"""What there is of a kind whose objects have their names in their metadata."""


def _documents(kind: str, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    found = DOCUMENTS[kind]
    return _suggest(incomplete, ctx, lambda client, s: (one["metadata"]["name"] for one in found(client, s.namespace)))


def service_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _documents("services", ctx, incomplete)


def names_of_kind(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """By the kind that stands before."""
    kind = str(ctx.params.get("kind") or "").lower()
    kind = ALIASES.get(kind, kind)
    if kind in DOCUMENTS:
        return _documents(kind, ctx, incomplete)
    if kind == "agents":
        return agent_names(ctx, param, incomplete)
    return owner_names(ctx, param, incomplete)


def taskgroup_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _suggest(incomplete, ctx, lambda client, s: (g["ID"] for g in client.taskgroups(s.namespace)))


def target_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Deployments, applications, and taskgroups by their short names."""

    def names(client: Client, session: Session) -> Iterable[str]:
        yield from _owners(client, session.namespace)
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
