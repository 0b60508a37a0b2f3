"""`bcs cordon`, `uncordon`, `taint` and `resume`."""

from __future__ import annotations

import re

import click

from bcs_scheduler.cli.client.lookup import AGENT_WORDS, agent_keys
from bcs_scheduler.cli.commands.agents.plans import report_plans
from bcs_scheduler.cli.commands.arguments import agent_names
from bcs_scheduler.cli.errors import NotFound, UsageError
from bcs_scheduler.cli.kinds.objects.agents import warn_missing_agents
from bcs_scheduler.cli.options import (
    connection_options,
    dry_run_option,
    examples,
    future_agents_option,
    pass_session,
    reporting,
)
from bcs_scheduler.cli.session import Session


def _cordoning(name: str, words: str, *, cordoned: bool, done: str, hidden: bool = False) -> click.Command:
    """A command that cordons or uncordons agents. `done`: the word of its report. `hidden`: `name` is an old name."""

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
    return click.command(name, help=words, hidden=hidden, epilog=examples(f"bcs {name} 10.0.0.7 10.0.0.8"))(command)


EFFECT = "NoSchedule"
OTHER_EFFECTS = ("PreferNoSchedule", "NoExecute")
"""Effects of taints of Kubernetes: the one that every taint has here, and those that none has."""
LIKE_AN_EFFECT = re.compile(r"[A-Z][A-Za-z]*")
"""The part of a value behind a colon that is meant as an effect, perhaps with a typing error: not a port or a path."""
CORDON = "Place no new taskgroups on agents. Running taskgroups are not affected."
UNCORDON = "Place taskgroups on agents again, and end a drain."
cordon = _cordoning("cordon", CORDON, cordoned=True, done="cordoned")
uncordon = _cordoning("uncordon", UNCORDON, cordoned=False, done="uncordoned")
disable = _cordoning("disable", "Old name of `bcs cordon`.", cordoned=True, done="disabled", hidden=True)
enable = _cordoning("enable", "Old name of `bcs uncordon`.", cordoned=False, done="enabled", hidden=True)


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
