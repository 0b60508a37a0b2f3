"""Advice: every text of the program that names an operation as the way on.

A piece of advice is given only where the operation is possible: `tests/component/test_advice.py` brings about each
situation, checks that the program gives the advice, and runs the commands. No other module has a text that names a
command or an operation as a way on (`tests/unit/test_advice_places.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

AdviceCode = Literal[
    "uncordon",
    "uncordon_drained",
    "uncordon_for_room",
    "drain_again",
    "reset_agent",
    "stuck_daemonset",
    "stuck_first_daemonset",
    "roll_back_daemonset",
    "list_revisions",
    "suspended_update",
    "suspended_way_back",
    "paused_update",
    "look_at_failure",
    "explain",
    "explain_waiting",
    "look_at_quota",
    "replace_taskgroup",
    "delete_application",
    "list_kinds",
    "use_context",
    "set_context",
    "list_contexts",
    "resume_replacements",
    "decide_unknown",
    "update_or_scale",
    "cancel_update",
    "resume_or_cancel",
    "resume",
    "resume_to_continue",
    "delete_lost",
    "cancel_retiring",
    "change_owner",
    "recreate_class",
    "raise_priority",
    "raise_priority_of_queue",
    "allow_class",
    "supersede",
    "cancel_waiting",
    "delete_by_force",
    "give_up_unreachable",
    "give_up_by_reschedule",
    "launch_again",
]


class Advice(NamedTuple):
    """A way on for a user. `words`: the text, with the names of objects in braces. `commands`: the commands of `bcs`
    that follow the words; empty if the words name them in backticks."""

    words: str
    commands: tuple[str, ...] = ()

    def named(self) -> tuple[str, ...]:
        """All commands of the advice, with the names of objects in braces."""
        return self.commands or tuple(COMMAND.findall(self.words))


COMMAND = re.compile(r"`(bcs [^`]+)`")
RESUME, CANCEL = "bcs rollout resume deployment/{name}", "bcs rollout cancel deployment/{name}"
DELETE = "bcs delete {kind} {name} --force"
ADVICE: Mapping[AdviceCode, Advice] = {
    "uncordon": Advice("`bcs uncordon {name}` ends that"),
    "uncordon_drained": Advice("`bcs uncordon {name}` makes it take taskgroups again"),
    "uncordon_for_room": Advice("`bcs uncordon {name}` gives it a place there"),
    "drain_again": Advice("`bcs drain {name}` tries again"),
    "reset_agent": Advice("`bcs set agent {name} --reset` removes its settings"),
    "stuck_daemonset": Advice(
        "`bcs explain daemonset/{name}` shows the reasons, `bcs rollback daemonset/{name}` returns to the previous "
        "version, `bcs rollout replace daemonset/{name}` repeats the update"
    ),
    "stuck_first_daemonset": Advice(
        "`bcs explain daemonset/{name}` shows the reasons, `bcs rollout replace daemonset/{name}` repeats the launch"
    ),
    "roll_back_daemonset": Advice("`bcs rollback daemonset/{name}` returns to the previous version"),
    "list_revisions": Advice("`bcs rollout history {name}` lists the revisions"),
    "suspended_update": Advice(
        "`bcs rollout resume {name}` repeats the step, `bcs rollout cancel {name}` returns to the previous revision, "
        "applying another document updates to the document from the present state"
    ),
    "suspended_way_back": Advice(
        "`bcs rollout resume {name}` repeats the step of the way back to the previous revision, applying another "
        "document updates to the document from the present state"
    ),
    "paused_update": Advice("`bcs rollout resume {name}` continues"),
    "look_at_failure": Advice("`bcs describe app {name} --events` and `bcs logs {name}` say more"),
    "explain": Advice("`bcs explain app/{name}` shows the reasons"),
    "explain_waiting": Advice("`bcs explain app/{name} -n {namespace}` shows the reasons"),
    "look_at_quota": Advice("`bcs describe namespace {namespace}` shows its use"),
    "replace_taskgroup": Advice("`bcs reschedule {name}` replaces it"),
    "delete_application": Advice("for an application named {name}, use `bcs delete app {name}`"),
    "list_kinds": Advice("`bcs get` lists the kinds"),
    "use_context": Advice("`bcs config use-context {name}` chooses one"),
    "set_context": Advice("`bcs config set-context {name} --server {server}` makes one"),
    "list_contexts": Advice("`bcs config get-contexts` lists them"),
    "resume_replacements": Advice("or until `bcs resume`"),
    "decide_unknown": Advice(
        "`bcs framework show` lists them, `bcs framework adopt` lets them run, `bcs framework end` ends them"
    ),
    "update_or_scale": Advice("wait for that, or update or scale it", ("bcs scale deployment/{name} 1",)),
    "cancel_update": Advice("wait for the end, or cancel the update", (CANCEL,)),
    "resume_or_cancel": Advice("resume or cancel it", (RESUME, CANCEL)),
    "resume": Advice("resume it", (RESUME,)),
    "resume_to_continue": Advice("resume to continue", (RESUME,)),
    "delete_lost": Advice("delete it", ("bcs delete deployment {name}",)),
    "cancel_retiring": Advice("wait until some have ended, or cancel the update", (CANCEL,)),
    "change_owner": Advice("change the {kind}", ("bcs scale {kind}/{name} 1",)),
    "recreate_class": Advice("delete the class and create it again", ("bcs delete priorityclass {name}",)),
    "raise_priority": Advice("an admin can raise it: `bcs set namespace {name} --max-priority {priority}`"),
    "raise_priority_of_queue": Advice("an admin can raise it: `bcs queue set {name} --max-priority {priority}`"),
    "allow_class": Advice("an admin can allow the class: `bcs set namespace {name} --priority-class {priority_class}`"),
    "supersede": Advice("wait, or use onConflict=supersede", ("bcs scale {name} 1 --on-conflict supersede",)),
    "cancel_waiting": Advice(
        "wait, cancel some, or use onConflict=supersede",
        ("bcs cancel {waiting}", "bcs scale {name} 1 --on-conflict supersede"),
    ),
    "delete_by_force": Advice("delete with enforce=1", (DELETE,)),
    "give_up_unreachable": Advice("deleting it with --force (enforce=1) does not wait for them", (DELETE,)),
    "launch_again": Advice("`bcs scale deployment/{name} {instances}` or an update launches again"),
    "give_up_by_reschedule": Advice("a reschedule gives one up", ("bcs reschedule {taskgroup}",)),
}
"""All advice, by code."""
assert set(ADVICE) == set(get_args(AdviceCode))


def advise(code: AdviceCode, **names: str) -> str:
    """The text of a piece of advice. `names`: names of the objects, as its words have them in braces."""
    return ADVICE[code].words.format(**names)
