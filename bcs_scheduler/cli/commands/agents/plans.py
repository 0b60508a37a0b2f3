"""The plans of cordons and drains, as `--dry-run` shows them."""

from __future__ import annotations

from collections.abc import Iterator

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.output.text import counted
from bcs_scheduler.cli.session import Session
from store.keys import taskgroup_name


def report_plans(session: Session, results: list[Json], done: str) -> None:
    """Reports a dry run: each agent, and the plan where the server made one. `done`: the word of the change."""
    for result in results:
        plan = result.get("plan") or {}
        session.report("agent", str(result["innerIP"]), done, "dry run", plan, dryRun=True)
        if session.change_format == "text":
            for line in _lines(plan):
                session.say(f"  {line}")


def _lines(plan: Json) -> Iterator[str]:
    for move in plan.get("move") or ():
        waits = f", waits at first: {move['waits']}" if move.get("waits") else ""
        yield f"> taskgroup {taskgroup_name(str(move['taskgroup']))} to {move['hostname']}{waits}"
    for group in plan.get("evict") or ():
        yield f"- taskgroup {taskgroup_name(str(group))} of other work is evicted to make room"
    if hidden := plan.get("evictHidden"):
        yield f"- {counted(hidden, 'taskgroup')} of other namespaces evicted to make room"
    for group in plan.get("stay") or ():
        yield f"! taskgroup {taskgroup_name(str(group['taskgroup']))} stays: {group['reason']}"
    for lost in plan.get("pending") or ():
        number = counted(lost["taskgroups"], "waiting taskgroup")
        yield f"! {number} of {lost['application']} would find no place: {lost['reason']}"
    if plan.get("daemonsets"):
        yield f"= {counted(plan['daemonsets'], 'taskgroup')} of daemonsets on the agent"
    if plan.get("unplanned"):
        yield f"! {counted(plan['unplanned'], 'more taskgroup')} beyond the limit of a plan"
