"""`bcs describe` and `bcs explain` for daemonsets."""

from __future__ import annotations

from rich.text import Text

from bcs_scheduler.cli.client import Json
from bcs_scheduler.cli.daemonsets import standing
from bcs_scheduler.cli.daemonsetviews import AGENTS
from bcs_scheduler.cli.options import Session
from bcs_scheduler.cli.output import field_list, print_data, status_text, table
from bcs_scheduler.cli.story import pairs, print_story, section, when


def describe_daemonset(session: Session, name: str, story: bool, form: str) -> None:
    client, namespace = session.client, session.namespace
    found = client.daemonset(namespace, name)
    agents = client.agents_of_daemonset(namespace, name)
    operations = client.transactions(namespace, name)
    if form:
        print_data(session.out, {"daemonset": found, "agents": agents, "transactions": operations}, form)
        return
    counts, meta = found["counts"], found["metadata"]
    session.show(
        field_list(
            [
                ("Name", f"{found['namespace']}/{found['name']}"),
                ("Status", status_text(found["Status"])),
                ("Message", found.get("message")),
                ("Standing", standing(found)),
                (
                    "Taskgroups",
                    f"{counts['desired']} wanted, {counts['current']} there, {counts['ready']} ready, "
                    f"{counts['misscheduled']} on agents that are not for it",
                ),
                ("Version", found["version"]),
                ("Update", f"at most {found['maxUnavailable']} unavailable"),
                ("Labels", pairs(meta.get("labels"))),
                ("Created", when(found.get("Created"))),
                ("Changed", when(found.get("LastUpdateTime"))),
            ]
        )
    )
    session.out.print(Text("\nAgents", style="bold"))
    session.show(table(AGENTS, agents))
    section(session, "Transactions", "transactions", operations)
    if story:
        print_story(session, namespace, name)


def explain_daemonset(session: Session, namespace: str, name: str) -> Json:
    """`text`: how it stands, what keeps it, and the agents it is not on."""
    found = session.client.explain_daemonset(namespace, name)
    agents = session.client.agents_of_daemonset(namespace, name)
    text = [*found["text"], *(f"agent {a['hostname']}: {a['message']}" for a in agents if a["message"])]
    return {**found, "agents": agents, "text": text}
