"""`bcs get`: lists and single objects, once or watched."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click
from rich.live import Live

from bcs_scheduler.cli.client import Json
from bcs_scheduler.cli.complete import kind_names, names_of_kind
from bcs_scheduler.cli.errors import NotFound, Unreachable, UsageError
from bcs_scheduler.cli.events import event_options, refuse_event_options, show_events
from bcs_scheduler.cli.extensions import look_custom, look_kinds, look_namespaces, look_webhooks, registered_kind
from bcs_scheduler.cli.extensionviews import CUSTOM
from bcs_scheduler.cli.lookup import (
    find_agent,
    find_command,
    find_owner,
    find_target,
    find_taskgroup,
    find_transaction,
    running_kind,
)
from bcs_scheduler.cli.options import Session, chosen_format, connection_options, output_option, pass_session
from bcs_scheduler.cli.output import print_data, table
from bcs_scheduler.cli.views import ALIASES, COLUMNS, NAMESPACE, tasks_of

WATCH_INTERVAL = 1.0
"""Seconds between two looks of -w."""

SELECTABLE = (
    "deployments",
    "daemonsets",
    "applications",
    "taskgroups",
    "tasks",
    "services",
    "endpoints",
    "configmaps",
    "secrets",
    "namespaces",
    "webhooks",
)
"""Kinds that -l narrows."""
OF_APPLICATION = ("versions", "commands", "messages")
"""Kinds that only exist with an application."""
OF_OWNER = ("definition",)
"""Kinds that are shown as documents, of a deployment, daemonset or application."""
CLUSTER_WIDE = ("agents", "cluster", "servers", "offers", "namespaces", "kinds")
NAMESPACED = (
    "deployments",
    "daemonsets",
    "applications",
    "taskgroups",
    "transactions",
    "services",
    "endpoints",
    "webhooks",
)
"""Kinds that are listed with their namespace by -A."""

Found = list[Json] | Json


def kind_argument(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Words that are no kind of the scheduler's own are left as they are: `known_kind`."""
    kind = ALIASES.get(value.lower(), value.lower())
    return kind if kind in COLUMNS else value


def known_kind(session: Session, word: str) -> str:
    """A key of COLUMNS, or the name of a registered kind. Raises click.BadParameter."""
    kind = word if word in COLUMNS else registered_kind(session, word)
    if kind is None:
        raise click.BadParameter(f"{word!r} is not one of {', '.join(COLUMNS)} (or app, tg, tx, cm, ag)")
    return kind


@click.command()
@click.argument("kind", callback=kind_argument, shell_complete=kind_names)
@click.argument("name", required=False, shell_complete=names_of_kind)
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Of all namespaces.")
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="By labels, e.g. app=web,tier!=test.")
@click.option("-w", "--watch", is_flag=True, help="Keep looking; print again what has changed.")
@event_options
@output_option
@connection_options
@pass_session
def get(
    session: Session,
    /,
    kind: str,
    name: str | None,
    everywhere: bool,
    selector: str,
    watch: bool,
    output: str | None,
    **chosen: Any,
) -> None:
    """List KIND, or show one by NAME.

    KIND is deployments (dep), daemonsets (ds), applications (app), taskgroups (tg), tasks, transactions (tx),
    services (svc), endpoints (ep), configmaps (cm), secrets, commands, messages, events (ev), agents (ag), offers,
    versions, namespaces (ns), webhooks, kinds, or a registered kind; cluster: what all agents together have; servers:
    who leads; definition: the document of a deployment, daemonset or application. For taskgroups, tasks, transactions,
    versions, commands, messages and events NAME may be a deployment or an application.
    """
    if kind == "events":
        show_events(session, None if everywhere else session.namespace, name, watch, chosen_format(output), chosen)
        return
    refuse_event_options(chosen)
    kind = known_kind(session, kind)
    if selector and kind in COLUMNS and kind not in SELECTABLE:
        raise UsageError(f"-l is for {', '.join(SELECTABLE)}")
    if selector and name:
        raise UsageError("-l is for lists, and NAME says already what is meant: give one of them")
    if kind in (*OF_APPLICATION, *OF_OWNER) and not name:
        raise UsageError(f"get {kind} needs the name of an application")
    form = chosen_format(output)
    namespace = None if everywhere else session.namespace

    def look() -> Found:
        return (LOOKS.get(kind) or look_custom(kind))(session, namespace, name, selector)

    if watch and kind in OF_OWNER:
        raise UsageError(f"-w is not for {kind}")
    if watch and kind == "endpoints" and name:
        _watch(session, kind, _endpoint_changes(session, name), form, everywhere, pause=0.0)
    elif watch:
        _watch(session, kind, look, form, everywhere)
    else:
        _print(session, kind, look(), form, everywhere)


def _applications(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    if name:
        return session.client.application(namespace or session.namespace, name)
    return session.client.applications(namespace, selector=selector)


def _taskgroups(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    client = session.client
    if name and "." in name:
        return find_taskgroup(client, session.namespace, name)
    if name:
        return find_target(client, session.namespace, name).taskgroups
    return client.taskgroups(namespace, selector=selector)


def _tasks(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    groups = find_target(session.client, session.namespace, name).taskgroups if name else None
    return tasks_of(session.client.taskgroups(namespace, selector=selector) if groups is None else groups)


def _configurations(kind: str) -> Callable[[Session, str | None, str | None, str], Found]:
    def look(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
        if name:
            return session.client.configuration(kind, namespace or session.namespace, name)
        return session.client.configurations(kind, namespace, selector=selector)

    return look


def _commands(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    assert name is not None
    if name.startswith(("Application-", "Deployment-")):
        return find_command(session.client, session.namespace, name)
    kind, name = find_owner(session.client, session.namespace, name)
    return session.client.commands(session.namespace, name, kind=running_kind(kind))


def _messages(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    assert name is not None
    return session.client.messages(session.namespace, name)


def _transactions(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    if not name:
        return session.client.transactions(namespace)
    try:
        return find_transaction(session.client, namespace or session.namespace, name)
    except NotFound:
        kind, owner = find_owner(session.client, namespace or session.namespace, name)
        found = session.client.transactions(namespace, owner, kind=running_kind(kind))
        if not found:
            raise
        return found


def _agents(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    return find_agent(session.client, name) if name else session.client.agents()


def _cluster(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    return session.client.cluster()


def _servers(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    found = session.client.schedulers()
    kinds = {"scheduler": "mesosscheduler", "mesos master": "mesosmaster"}
    return [{"server": kind, **server} for kind, key in kinds.items() for server in found[key]]


def _definition(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    """The user's document."""
    assert name is not None
    client, where = session.client, session.namespace
    kind, name = find_owner(client, where, name)
    looks = {"deployment": client.deployment_definition, "daemonset": client.daemonset_definition}
    return looks.get(kind, client.definition)(where, name)


def _offers(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    offers = session.client.offers()
    return [offer for offer in offers if offer.get("hostname") == name] if name else offers


def _versions(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    assert name is not None
    where = namespace or session.namespace
    ids = session.client.versions(where, name)
    return [session.client.version(where, name, version) for version in reversed(ids)]


def _deployments(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    if name:
        return session.client.deployment(namespace or session.namespace, name)
    return session.client.deployments(namespace, selector=selector)


def _daemonsets(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    if name:
        return session.client.daemonset(namespace or session.namespace, name)
    return session.client.daemonsets(namespace, selector=selector)


def _endpoints(session: Session, namespace: str | None, name: str | None, selector: str) -> Found:
    if name:
        return session.client.endpoint(namespace or session.namespace, name)
    return session.client.endpoints(namespace, selector=selector)


def _endpoint_changes(session: Session, name: str) -> Callable[[], Found]:
    """Each look waits until the endpoint has changed, or for a while."""
    known = ""

    def look() -> Found:
        nonlocal known
        found = session.client.watch_endpoint(session.namespace, name, known)
        known = found["resourceVersion"]
        return found

    return look


LOOKS: dict[str, Callable[[Session, str | None, str | None, str], Found]] = {
    "deployments": _deployments,
    "daemonsets": _daemonsets,
    "applications": _applications,
    "taskgroups": _taskgroups,
    "transactions": _transactions,
    "agents": _agents,
    "offers": _offers,
    "cluster": _cluster,
    "servers": _servers,
    "definition": _definition,
    "versions": _versions,
    "tasks": _tasks,
    "services": _configurations("service"),
    "endpoints": _endpoints,
    "namespaces": look_namespaces,
    "webhooks": look_webhooks,
    "kinds": look_kinds,
    "configmaps": _configurations("configmap"),
    "secrets": _configurations("secret"),
    "commands": _commands,
    "messages": _messages,
}


def _rendered(kind: str, found: Found, form: str, everywhere: bool) -> Any:
    items = found if isinstance(found, list) else [found]
    columns = COLUMNS.get(kind, CUSTOM)
    if everywhere and (kind in NAMESPACED or kind not in COLUMNS):
        columns = (NAMESPACE, *columns)
    return table(columns, items, wide=form == "wide")


def _print(session: Session, kind: str, found: Found, form: str, everywhere: bool) -> None:
    if form in ("json", "yaml") or kind in OF_OWNER:
        print_data(session.out, found, form if form == "json" else "yaml")
    elif found:
        session.show(_rendered(kind, found, form, everywhere))
    else:
        where = "" if everywhere or kind in CLUSTER_WIDE else f" in namespace {session.namespace}"
        session.err.print(f"no {kind}{where}", markup=False)


def _watch(
    session: Session, kind: str, look: Callable[[], Found], form: str, everywhere: bool, pause: float = WATCH_INTERVAL
) -> None:
    """On a terminal the table is kept up to date in place; otherwise each change is printed."""
    if form in ("table", "wide") and session.interactive:
        with Live(console=session.out, auto_refresh=False) as live:
            while True:
                live.update(_rendered(kind, _patiently(look), form, everywhere), refresh=True)
                time.sleep(pause)
    last: Found | None = None
    while True:
        found = _patiently(look)
        if found != last:
            _print(session, kind, found, form, everywhere)
            last = found
        time.sleep(pause)


def _patiently(look: Callable[[], Found]) -> Found:
    """A watch outlives a change of leaders."""
    while True:
        try:
            return look()
        except Unreachable:
            time.sleep(WATCH_INTERVAL)
