"""`bcs describe`, `bcs explain` and `bcs story`: one object in detail, the reasons why a workload is not running,
and the events of an object by cause."""

from __future__ import annotations

import click

from bcs_scheduler.cli.client.kinds import KINDS, is_cluster_wide
from bcs_scheduler.cli.client.lookup import find_owner
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.arguments import kinds_and_names, owner_argument
from bcs_scheduler.cli.errors import CliError, UsageError
from bcs_scheduler.cli.kinds.registry import functions_of, name_of, reader_of
from bcs_scheduler.cli.kinds.selection import one_object, queries_of
from bcs_scheduler.cli.options import Duration, connection_options, examples, output_option, pass_session
from bcs_scheduler.cli.output.data import print_data, print_form
from bcs_scheduler.cli.output.formats import Form, chosen_form
from bcs_scheduler.cli.output.sorting import in_order
from bcs_scheduler.cli.session import Session


@click.command(
    epilog=examples("bcs describe deploy/web", "bcs describe app web --events", "bcs describe agent agent-1 -o json")
)
@click.argument(
    "words", nargs=-1, required=True, metavar="KIND [NAME]... | KIND/NAME...", shell_complete=kinds_and_names
)
@click.option("--events", is_flag=True, help="Show also the events of the object, oldest first.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(("text", "table", "wide", "json", "yaml")),
    help="Output format; wide shows all columns of tables, table is the same as text. Default: text.",
)
@connection_options
@pass_session
def describe(session: Session, words: tuple[str, ...], events: bool, output: str | None) -> None:
    """Show objects of KIND in detail. Without a name: all objects of KIND in the namespace.

    KIND is deployment, daemonset, application, taskgroup, transaction, agent, service, endpoint, configmap, secret,
    command, namespace, queue, priorityclass, podgroup, managed or webhook.
    """
    queries = queries_of(session, words)
    for kind, _ in queries:
        if functions_of(kind).describe is None:
            supported = ", ".join(name for name in KINDS if functions_of(name).describe)
            raise UsageError(f"describe does not support {kind}; supported kinds: {supported}")
    session.wide = output == "wide"
    form = output if output in ("json", "yaml") else ""
    wanted = [(kind, name) for kind, names in queries for name in names or _all_names(session, kind)]
    if not wanted:
        session.err.print(f"no {' or '.join(query.kind for query in queries)}")
    for number, (kind, name) in enumerate(wanted):
        if number and form != "json":
            session.say("---" if form else "")
        print_description = functions_of(kind).describe
        assert print_description is not None
        print_description(session, name, events, form)


def _all_names(session: Session, kind: str) -> list[str]:
    """The names of all objects of a kind, in natural order. Raises UsageError for a kind without such a list."""
    if KINDS[kind].scope == "application":
        raise UsageError(f"give the name of an object of the kind {kind}: KIND NAME or KIND/NAME")
    found = reader_of(kind)(session, None if is_cluster_wide(kind) else session.namespace, None, "")
    return in_order([name_of(kind, item) for item in found if isinstance(item, dict)], str)


@click.command(epilog=examples("bcs explain web", "bcs explain web --what-if", "bcs explain deployment/web -o json"))
@owner_argument
@click.option(
    "--what-if", is_flag=True, help="Show also the smallest sets of changes that would help (applications only)."
)
@output_option
@connection_options
@pass_session
def explain(session: Session, name: str, what_if: bool, output: Form | None) -> None:
    """Show why a deployment, daemonset or application is not running as defined, and the changes that would help."""
    kind, name = find_owner(session.client, session.namespace, name)
    if what_if and kind != "application":
        raise UsageError(f"--what-if supports applications; {name} is a {kind}")
    explained = functions_of(f"{kind}s").explain
    assert explained is not None
    found = explained(session, session.namespace, name)
    if what_if:
        found = {**found, "whatIf": session.client.what_if(session.namespace, name)}
        when = found["whatIf"].get("when")
    else:
        when = _estimate(session, name, found) if kind == "application" else None
    if when is not None:
        found = {**found, "when": when, "text": [*found["text"], when["text"]]}
    form = chosen_form(output)
    if form.name == "name":
        session.say(f"{kind}/{name}")
    elif not print_form(session.out, found, form):
        for line in found["text"]:
            session.say(line)
        if what_if:
            session.say("Changes that would help:")
            for line in found["whatIf"]["text"]:
                session.say(f"  {line}")


def _estimate(session: Session, name: str, found: Json) -> Json | None:
    """The estimate of the time until waiting taskgroups have room. None: no taskgroup waits for room, or the server
    gives none."""
    placings = [operation.get("placing") for operation in found.get("transactions") or ()]
    if not any(placing and placing["wanted"] > placing["placed"] for placing in placings):
        return None
    try:
        when: Json | None = session.client.what_if(session.namespace, name, changes=False).get("when")
    except CliError:
        return None
    return when


@click.command(
    epilog=examples("bcs story deployment web", "bcs story tg/web-0 --since 2h", "bcs story agent/agent-1 -o json")
)
@click.argument("words", nargs=-1, required=True, metavar="KIND NAME | KIND/NAME", shell_complete=kinds_and_names)
@click.option("--since", type=Duration(), help="Only events of this duration until now, such as 10m.")
@click.option(
    "--limit", type=click.IntRange(1, 99_999), default=1000, show_default=True, help="Number of events, the newest."
)
@click.option("-o", "--output", type=click.Choice(("text", "json", "yaml")), help="Output format. Default: text.")
@connection_options
@pass_session
def story(session: Session, words: tuple[str, ...], since: float | None, limit: int, output: str | None) -> None:
    """Show the events of an object and of its parts, grouped by cause.

    The causes are requests of users, reports of the cluster manager, decisions of the policy, and changes of leader.
    The events of a workload include those of the agents of its taskgroups: joined, left, cordoned, drained.
    KIND is deployment, daemonset, application, taskgroup, transaction, service, podgroup, agent or queue.

    JSON and YAML have {object, gap, truncated, causes}. gap: {first, last}, the numbers of events that are no longer
    kept, or null (also with --since). truncated: --limit left out older events. A cause has {type, cause, time,
    transactions: [{id, operation, status}], events}; its type is request, report, health, policy, leader, connection
    or scheduler.
    """
    from bcs_scheduler.cli.kinds.workloads.story import STORY_KINDS, lines_of, read_story

    plural, name = one_object(session, words)
    if plural not in STORY_KINDS:
        raise UsageError(f"story does not support {plural}; supported kinds: {', '.join(STORY_KINDS.values())}")
    found = read_story(session, STORY_KINDS[plural], name, since, limit)
    if output in ("json", "yaml"):
        print_data(session.out, found, output)
        return
    for line in lines_of(found, session.out.width):
        session.say(line)
