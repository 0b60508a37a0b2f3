"""Completion of names by the server. After an error the shell gets no suggestions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from bcs_scheduler.cli.client.kinds import DELETABLE, KINDS
from bcs_scheduler.cli.client.lookup import short_names, unique_names
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.errors import CliError
from bcs_scheduler.cli.kinds.selection import kind_of
from bcs_scheduler.cli.options import COMPLETION_PATIENCE, session_of
from bcs_scheduler.cli.output.text import operation, verdict
from bcs_scheduler.cli.session import Session

if TYPE_CHECKING:
    from bcs_scheduler.cli.client.client import Client


def _suggest(
    incomplete: str, ctx: click.Context, names: Callable[[Client, Session], Iterable[str]]
) -> list[CompletionItem]:
    session = session_of(ctx)
    try:
        session.complete()
        found = names(session.new_client(COMPLETION_PATIENCE), session)
        return [CompletionItem(name) for name in found if name.startswith(incomplete)]
    except (CliError, KeyError, TypeError):
        return []


def application_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _suggest(incomplete, ctx, lambda client, s: (a["Name"] for a in client.applications(s.namespace)))


def owner_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of deployments, daemonsets and applications; after KIND/ names in the form KIND/NAME."""
    head, slash, rest = incomplete.partition("/")
    if slash:
        return [CompletionItem(f"{head}/{item.value}") for item in _names_of(kind_of(head), ctx, param, rest)]
    return _suggest(incomplete, ctx, lambda client, session: _owners(client, session.namespace))


def deletable_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of workloads, and kinds; after a kind the names of its objects."""
    words = [str(word) for word in ctx.params.get("names") or ()]
    if words and words[0].lower() in DELETABLE:
        return _names_of(kind_of(words[0]), ctx, param, incomplete)
    kinds = [] if words else [CompletionItem(kind) for kind in DELETABLE if incomplete and kind.startswith(incomplete)]
    return owner_names(ctx, param, incomplete) + kinds


def _owners(client: Client, namespace: str) -> Iterable[str]:
    found = [str(deployment["name"]) for deployment in client.deployments(namespace)]
    found += [application["Name"] for application in client.applications(namespace)]
    return dict.fromkeys(found)


Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
DOCUMENTS: dict[str, Callable[[Client, str], Iterable[Json]]] = {
    "services": lambda client, namespace: client.endpoints(namespace),
    "endpoints": lambda client, namespace: client.endpoints(namespace),
    "configmaps": lambda client, namespace: client.objects("configmap", namespace),
    "secrets": lambda client, namespace: client.objects("secret", namespace),
    "webhooks": lambda client, namespace: client.webhooks(namespace),
    "namespaces": lambda client, namespace: client.objects("namespace"),
    "queues": lambda client, namespace: client.objects("queue"),
    "managed": lambda client, namespace: client.managed_applications(namespace),
    "podgroups": lambda client, namespace: client.objects("PodGroup", namespace),
    "priorityclasses": lambda client, namespace: client.objects("PriorityClass"),
}
"""Functions that list the objects of kinds with a name in the metadata."""


def _documents(kind: str, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    found = DOCUMENTS[kind]
    return _suggest(incomplete, ctx, lambda client, s: (one["metadata"]["name"] for one in found(client, s.namespace)))


def service_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _documents("services", ctx, incomplete)


def queue_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of queues with shares, and full names of the queues of trees."""
    of_trees = _suggest(incomplete, ctx, lambda client, s: _tree_queues(client, str(ctx.params.get("partition") or "")))
    return [*_documents("queues", ctx, incomplete), *of_trees]


def _tree_queues(client: Client, partition: str) -> Iterable[str]:
    return dict.fromkeys(str(queue["name"]) for queue in client.tree_queues(partition))


def partition_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of the partitions with a tree of queues."""
    return _suggest(
        incomplete,
        ctx,
        lambda client, s: (part["name"] for part in client.partitions() if part["policy"] == "hierarchical"),
    )


def kinds_and_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """A kind, and after it names of its objects; after KIND/ names in the form KIND/NAME."""
    words = [str(word) for word in ctx.params.get("words") or ()]
    head, slash, rest = incomplete.partition("/")
    if slash:
        found = _names_of(kind_of(head), ctx, param, rest)
        return [CompletionItem(f"{head}/{item.value}") for item in found]
    if words and "/" not in words[0]:
        return _names_of(kind_of(words[0]), ctx, param, incomplete)
    return kind_names(ctx, param, incomplete)


def _names_of(kind: str, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of objects of a kind."""
    if kind in DOCUMENTS:
        return _documents(kind, ctx, incomplete)
    if kind in NAMES:
        return NAMES[kind](ctx, param, incomplete)
    return owner_names(ctx, param, incomplete)


def taskgroup_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names such as web-0; ids if a part of an id is given."""
    key = "ID" if "." in incomplete else "Name"
    return _suggest(incomplete, ctx, lambda client, s: (g[key] for g in client.taskgroups(s.namespace)))


def target_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of deployments, applications and taskgroups."""

    def names(client: Client, session: Session) -> Iterable[str]:
        yield from _owners(client, session.namespace)
        yield from (group["Name"] for group in client.taskgroups(session.namespace))

    return _suggest(incomplete, ctx, names)


def forwarded_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """As `target_names`; after KIND/, as of a service, names in the form KIND/NAME."""
    return owner_names(ctx, param, incomplete) if "/" in incomplete else target_names(ctx, param, incomplete)


def transaction_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Short names, with the operations of the transactions; ids if the beginning of an id is given."""
    session = session_of(ctx)
    try:
        session.complete()
        found = session.new_client(COMPLETION_PATIENCE).transactions(session.namespace)
        identities = [str(one["transactionID"]) for one in found]
        items = [
            CompletionItem(name, help=f"{operation(one)} of {one['objectName']}, {verdict(one['status'])}")
            for identity, short, one in zip(identities, short_names(identities), found, strict=True)
            for name in (short, identity)
            if name.startswith(incomplete) and (name == short or incomplete)
        ]
    except (CliError, KeyError, TypeError):
        return []
    return items


def conditions(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The conditions of `bcs wait --for`."""
    words = [CompletionItem(word) for word in ("running", "finished", "deleted") if word.startswith(incomplete)]
    return words + transaction_names(ctx, param, incomplete)


def agent_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _suggest(incomplete, ctx, lambda client, s: unique_names(client.agents()))


def places(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """A local path, or TASKGROUP: before a path in a taskgroup."""
    files = [CompletionItem(incomplete, type="file")]
    if "/" in incomplete or ":" in incomplete:
        return files
    return files + _suggest(
        incomplete, ctx, lambda client, s: (f"{group['Name']}:" for group in client.taskgroups(s.namespace))
    )


def kind_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Built-in and registered kinds."""
    own = [CompletionItem(kind) for kind in KINDS if kind.startswith(incomplete)]
    return own + _suggest(incomplete, ctx, lambda client, s: (k["spec"]["names"]["kind"] for k in client.kinds()))


def _listed(names: Callable[[Client, str], Iterable[str]]) -> Complete:
    """A completion with names in the namespace."""
    return lambda ctx, param, incomplete: _suggest(incomplete, ctx, lambda client, s: names(client, s.namespace))


NAMES: dict[str, Complete] = {
    "agents": agent_names,
    "offers": agent_names,
    "taskgroups": target_names,
    "tasks": target_names,
    "transactions": transaction_names,
    "applications": application_names,
    "deployments": _listed(lambda client, namespace: (one["name"] for one in client.deployments(namespace))),
    "daemonsets": _listed(lambda client, namespace: (one["Name"] for one in client.daemonsets(namespace))),
    "kinds": _listed(lambda client, namespace: (one["spec"]["names"]["kind"] for one in client.kinds())),
}
"""Completions of the names of other kinds."""
