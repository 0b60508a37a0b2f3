"""Descriptions of applications, tasks and task groups, and the parameters of gangs. Immutable values.

Fields and defaults follow Apache YuniKorn's interface for application managers.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from offers.dimensions import NOTHING, Amounts
from offers.ledger.holds import PLACEHOLDER_SECONDS
from offers.policy.amounts import added, scaled

TIMEOUT_KEY = "placeholderTimeoutInSeconds"
STYLE_KEY = "gangSchedulingStyle"
"""The keys of the text of parameters."""


class BadTaskGroups(ValueError):
    """Task groups that no application can have. The text names each fault with its group."""


class Style(StrEnum):
    """The end of a gang that did not come together in time. Soft: an ordinary application; Hard: the application
    fails."""

    SOFT = "Soft"
    HARD = "Hard"


class SchedulingPolicyParameters(NamedTuple):
    """Parameters of a gang. `placeholder_timeout`: seconds; 0 means the default of 15 minutes."""

    placeholder_timeout: float = 0.0
    style: Style = Style.SOFT

    @property
    def timeout(self) -> float:
        """The time-out in seconds, with the default."""
        return self.placeholder_timeout or PLACEHOLDER_SECONDS


def parameters_of(given: str) -> tuple[SchedulingPolicyParameters, tuple[str, ...]]:
    """The parameters that ``key=value`` pairs, separated by blanks, mean, and a warning for each pair that
    is skipped. An unknown style means Soft."""
    timeout, style, warnings = 0.0, Style.SOFT, []
    for pair in given.split():
        key, equals, value = pair.partition("=")
        if not equals or not key or not value or "=" in value:
            warnings.append(f"{pair}: not of the form key=value")
        elif key == TIMEOUT_KEY:
            if value.isascii() and value.isdecimal():
                timeout = float(value)
            else:
                warnings.append(f"{pair}: the value is not a number of seconds")
        elif key == STYLE_KEY:
            if value in tuple(Style):
                style = Style(value)
            else:
                warnings.append(f"{pair}: the style is neither Soft nor Hard; Soft is used")
        else:
            warnings.append(f"{pair}: unknown key")
    return SchedulingPolicyParameters(timeout, style), tuple(warnings)


class TaskGroup(NamedTuple):
    """Tasks of one kind that are reserved together. `min_resource` is the request of one member. `terms`: a document of
    an application as JSON, such as ``{"constraint": {...}}``, whose constraints, tolerations, role, priority, executor
    and network its placeholders have, so that they fit where its tasks fit. Empty: placeholders have those of a task of
    the group that is known when they are made, or none."""

    name: str
    min_member: int
    min_resource: Amounts = NOTHING
    terms: str = ""


def check_groups(groups: tuple[TaskGroup, ...]) -> None:
    """Raises BadTaskGroups for an empty or double name, fewer than one member or a negative amount."""
    faults, seen = [], set()
    for position, group in enumerate(groups):
        place = f"taskGroups[{position}]"
        if not group.name:
            faults.append(f"{place}.name: empty")
        elif group.name in seen:
            faults.append(f"{place}.name: {group.name} is used twice")
        seen.add(group.name)
        if group.min_member < 1:
            faults.append(f"{place}.minMember: {group.min_member} is less than 1")
        faults += [f"{place}.minResource.{name}: negative" for name, amount in group.min_resource if amount < 0]
    if faults:
        raise BadTaskGroups("; ".join(faults))


class Outcome(NamedTuple):
    """The end of a task.

    `status`: that of its taskgroup (Finish, Failed, Killed, Error, Lost); empty if no report came, because the task was
    never launched, or its manager has ended it. `reason`: the code of the cluster manager, or the cause for a task that
    was never launched; `message`: the cause for users; both may be empty. `exit_code`: that of the first program that
    failed, or of the first one if none failed; negative: minus the signal; None: not known."""

    status: str = ""
    reason: str = ""
    message: str = ""
    exit_code: int | None = None


class ApplicationMetadata(NamedTuple):
    """An application as its manager describes it. `created`: Unix seconds. `owner`: the identifier of the task that
    owns the others (its originator), empty if there is none."""

    id: str
    queue: str
    user: str = "nobody"
    groups: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    task_groups: tuple[TaskGroup, ...] = ()
    owner: str = ""
    parameters: SchedulingPolicyParameters = SchedulingPolicyParameters()
    created: float = 0.0

    @property
    def placeholder_ask(self) -> dict[str, int]:
        """The room of all placeholders together."""
        return added(*[
            {name: int(amount) for name, amount in scaled(dict(group.min_resource), group.min_member).items()}
            for group in self.task_groups
        ])  # fmt: skip


class TaskMetadata(NamedTuple):
    """A task as its manager describes it. `group`: the name of its task group, empty if there is none. `unit`: the
    unit of work that the manager runs as this task. `definition`: a document of an application as JSON, whose template
    is launched as this task; name, namespace and number of taskgroups are filled in. Without one the scheduler cannot
    launch the task."""

    application: str
    id: str
    request: Amounts = NOTHING
    group: str = ""
    placeholder: bool = False
    created: float = 0.0
    unit: str = ""
    definition: str = ""
