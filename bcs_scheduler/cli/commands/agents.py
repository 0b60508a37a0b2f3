"""Commands for agents: `bcs cordon`, `uncordon`, `taint`, `resume`, `drain` and `rebalance`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import click

from bcs_scheduler.cli.client.lookup import AGENT_WORDS, agent_keys
from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.arguments import agent_names
from bcs_scheduler.cli.errors import Conflict, NotFound, TimedOut, UsageError
from bcs_scheduler.cli.kinds.objects.agents import warn_missing_agents
from bcs_scheduler.cli.options import (
    connection_options,
    dry_run_option,
    examples,
    future_agents_option,
    pass_session,
    reporting,
)
from bcs_scheduler.cli.output.text import counted
from bcs_scheduler.cli.session import Session
from bcs_scheduler.cli.waiting import Look, wait_until
from store.keys import taskgroup_name


def _cordoning(name: str, words: str, *, cordoned: bool, done: str) -> click.Command:
    """A command that cordons or uncordons agents. `done`: the word of its report."""

    @dry_run_option
    @connection_options
    @pass_session
    @reporting
    def command(session: Session, agents: tuple[str, ...], dry_run: bool, force: bool = False) -> None:
        keys = agent_keys(session.client.agents(), agents)
        results = session.client.set_agents(keys, enabled=not cordoned, force=force, dry_run=dry_run)
        warn_missing_agents(session, results)
        if dry_run:
            report_plans(session, results, done)
            return
        for key in keys:
            session.report("agent", key, done)

    command = future_agents_option(command) if cordoned else command
    command = click.argument("agents", nargs=-1, required=True, metavar="AGENT...", shell_complete=agent_names)(command)
    return click.command(name, help=words, epilog=examples(f"bcs {name} 10.0.0.7 10.0.0.8"))(command)


EFFECT = "NoSchedule"
OTHER_EFFECTS = ("PreferNoSchedule", "NoExecute")
"""Effects of taints of Kubernetes: the one that every taint has here, and those that none has."""
LIKE_AN_EFFECT = re.compile(r"[A-Z][A-Za-z]*")
"""The part of a value behind a colon that is meant as an effect, perhaps with a typing error: not a port or a path."""
CORDON = "Place no new taskgroups on agents. Running taskgroups are not affected."
UNCORDON = "Place taskgroups on agents again, and end a drain."
cordon = _cordoning("cordon", CORDON, cordoned=True, done="cordoned")
uncordon = _cordoning("uncordon", UNCORDON, cordoned=False, done="uncordoned")


@click.command(epilog=examples("bcs taint 10.0.0.7 dedicated=db", "bcs taint 10.0.0.7 10.0.0.8 dedicated-"))
@click.argument("words", nargs=-1, required=True, metavar="AGENT... KEY=VALUE|KEY-...", shell_complete=agent_names)
@future_agents_option
@dry_run_option
@connection_options
@pass_session
@reporting
def taint(session: Session, words: tuple[str, ...], force: bool, dry_run: bool) -> None:
    """Set (KEY=VALUE) or remove (KEY-, KEY=VALUE-) taints of agents.

    New taskgroups are placed on a tainted agent only if they tolerate the taint. Running taskgroups are not affected.
    The effect NoSchedule, as kubectl writes it (KEY=VALUE:NoSchedule), may be added; there is no other effect.
    """
    marks = [word for word in words if _is_taint(word)]
    agents = [word for word in words if word not in marks]
    if not marks or not agents or (len(agents) == 1 and agents[0].lower() in AGENT_WORDS):
        raise UsageError("give agents, then taints: KEY=VALUE sets a taint, KEY- removes it")
    marks = [_without_effect(mark) for mark in marks]
    known = session.client.agents()
    present = {agent["key"]: dict(agent.get("taints") or {}) for agent in known}
    wanted, missing = {}, []
    for key in agent_keys(known, agents):
        try:
            wanted[key] = _tainted(key, present.get(key, {}), marks)
        except NotFound as error:
            missing.append(error.message)
    if wanted:
        warn_missing_agents(session, session.client.set_taints(wanted, force=force, dry_run=dry_run))
    note = "dry run" if dry_run else ""
    for key, taints in wanted.items():
        shown = ", ".join([*(f"{name}={value}" for name, value in taints.items()), *filter(None, [note])])
        done = "tainted" if taints else "without taints"
        session.report("agent", key, done, shown, taints=taints, dryRun=dry_run)
    if missing:
        raise NotFound("; ".join(missing))


def _is_taint(word: str) -> bool:
    return "=" in word or word.endswith("-") or word.rpartition(":")[2] in (EFFECT, *OTHER_EFFECTS)


def _without_effect(mark: str) -> str:
    """``key=value`` or ``key-`` of ``key=value:NoSchedule`` and ``key:NoSchedule-``. Raises UsageError for another
    effect of kubectl."""
    minus = "-" if mark.endswith("-") else ""
    taint, colon, effect = mark.removesuffix("-").rpartition(":")
    if colon and (effect in OTHER_EFFECTS or (effect != EFFECT and LIKE_AN_EFFECT.fullmatch(effect))):
        raise UsageError(f"{mark!r}: a taint keeps new taskgroups away (NoSchedule); there is no effect {effect}")
    if not colon or effect != EFFECT:
        return mark
    return f"{taint}{'' if minus or '=' in taint else '='}{minus}"


@click.command(epilog=examples("bcs resume"))
@connection_options
@pass_session
@reporting
def resume(session: Session) -> None:
    """Replace lost taskgroups again after a large loss.

    If a large part of the cluster is lost (setting scheduler.loss_share), lost taskgroups are not replaced until the
    loss is over, until this command, or until scheduler.loss_pause has passed.
    """
    count = session.client.resume_replacements()
    session.report("cluster", "replacements", "resumed", f"{count} lost", taskgroups=count)


def _tainted(agent: str, present: dict[str, str], marks: list[str]) -> dict[str, str]:
    """The taints after the change. Raises NotFound for one that is to be removed and does not exist."""
    taints = dict(present)
    for mark in marks:
        key, equals, value = mark.removesuffix("-").partition("=") if mark.endswith("-") else mark.partition("=")
        if not key:
            raise UsageError(f"{mark!r} is not a taint: KEY=VALUE sets a taint, KEY- removes it")
        if not mark.endswith("-"):
            taints[key] = value
        elif key in taints and (not equals or taints[key] == value):
            del taints[key]
        else:
            raise NotFound(f"taint {mark.removesuffix('-')} of agent {agent} not found")
    return taints


LATE = 15.0
"""Seconds after the time limit of a drain in which the server reports the failure."""


@click.command(
    epilog=examples(
        "bcs drain 10.0.0.7 --timeout 30m",
        "bcs drain 10.0.0.7 10.0.0.8 --parallel 3 --daemonsets",
        "bcs drain 10.0.0.7 --dry-run",
    )
)
@click.argument("agents", nargs=-1, required=True, metavar="AGENT...", shell_complete=agent_names)
@click.option(
    "--parallel",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Number of taskgroups of one agent that are moved at the same time.",
)
@click.option("--daemonsets", is_flag=True, help="End also the taskgroups of daemonsets, after all others.")
@click.option(
    *("--ignore-daemonsets", "--delete-emptydir-data", "--delete-local-data"),
    "_kubectl",
    is_flag=True,
    hidden=True,
    expose_value=False,
    help="Accepted for kubectl's sake: taskgroups of daemonsets stay by default, sandboxes end with taskgroups.",
)
@click.option("--no-wait", is_flag=True, help="Do not wait until the agents are empty.")
@click.option("--dry-run", is_flag=True, help="Show where taskgroups would move, and change nothing.")
@connection_options
@pass_session
@reporting
def drain(
    session: Session,
    agents: tuple[str, ...],
    parallel: int,
    daemonsets: bool,
    no_wait: bool,
    dry_run: bool,
) -> None:
    """Cordon agents, and move their taskgroups to other agents.

    Applications keep as many taskgroups ready as during an update. A taskgroup that fits on no other agent stays until
    it fits. After --timeout the drain fails and the other taskgroups stay; without --timeout there is no limit. Ctrl-C
    ends only the waiting; `bcs uncordon AGENT` ends the drain.

    --dry-run shows for each taskgroup the new agent, or the reason why the taskgroup would stay.

    Exit code 0: the agents are empty; 4: --timeout was exceeded; 6: another user ended the drain.
    """
    results = session.client.drain(
        agent_keys(session.client.agents(), agents),
        parallel=parallel,
        timeout=session.timeout or 0.0,
        daemonsets=daemonsets,
        dry_run=dry_run,
    )
    if dry_run:
        report_plans(session, results, "draining")
        return
    keys = [str(result["innerIP"]) for result in results]
    for agent in keys:
        session.report("agent", agent, "draining", dryRun=False)
    if no_wait:
        return
    for agent in keys:
        found = _wait(session, agent)
        session.report("agent", agent, "drained", found["message"])


def _wait(session: Session, agent: str) -> Json:
    """Waits for the end of a drain. `agent`: key of its settings."""
    last: Json = {}
    sent = ""

    def look() -> Look:
        nonlocal last, sent
        found = session.client.drains()
        mine = next((drain for drain in found if drain["innerIP"] == agent), None)
        if mine is None:
            raise Conflict(f"the drain of agent {agent} was ended: the agent was uncordoned")
        last = mine
        if last["state"] == "failed":
            raise TimedOut(f"agent {agent}: {last['message']}")
        if not session.interactive and session.change_format == "text" and last["message"] != sent:
            sent = last["message"]
            session.err.print(f"agent/{agent}: {sent}")
        moved = 0 if last["left"] else 1
        return Look(moved, 1, last["message"], ended=last["state"] == "drained")

    wait_until(session, agent, look, math.inf if session.timeout is None else session.timeout, LATE)
    return last


@click.command(epilog=examples("bcs rebalance --dry-run", "bcs rebalance --goal pack --budget 20"))
@click.option(
    "--goal",
    type=click.Choice(["pack", "spread"]),
    default="spread",
    show_default=True,
    help="Fewer agents in use, or agents that are equally used.",
)
@click.option(
    "--budget", type=click.IntRange(1, 100), default=10, show_default=True, help="Maximum number of taskgroups to move."
)
@click.option("--gain", type=click.FloatRange(0.0001, 1), default=0.01, show_default=True, help="Least gain of a move.")
@dry_run_option
@connection_options
@pass_session
@reporting
def rebalance(session: Session, goal: str, budget: int, gain: float, dry_run: bool) -> None:
    """Move taskgroups to other agents, so that fewer agents are used or agents are used equally.

    Each application keeps as many taskgroups ready as during an update. Nothing moves while taskgroups wait for a place
    or moves are in progress; repeat the command until it finds no move. The gain of a move is the change of the sum,
    over the agents, of the mean square of their used shares.
    """
    found = session.client.rebalance(goal=goal, moves=budget, gain=gain, dry_run=dry_run)
    number = counted(len(found["moves"]), "move")
    note = f"{number}; {found['message']}" + ("; dry run" if dry_run else "")
    done = "planned" if dry_run else "rebalanced"
    session.report("cluster", goal, done, note, found, dryRun=dry_run)
    if session.change_format == "text":
        for move in found["moves"]:
            name = taskgroup_name(str(move["taskgroup"]))
            session.say(
                f"  > taskgroup {name} from {move['sourceHost']} to {move['targetHost']}, gain {move['gain']:g}"
            )
        for refused in found["refused"]:
            session.say(f"  ! taskgroup {taskgroup_name(str(refused['taskgroup']))} stays: {refused['reason']}")


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
