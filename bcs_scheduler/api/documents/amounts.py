"""Defaults of the original for resources that a document leaves out, and the differences of ours
(docs/original.md#differences)."""

from __future__ import annotations

from bcs_scheduler.wire.documents.pod import ContainerDocument, ResourceAmounts, ResourcesDocument, TaskDocument
from bcs_scheduler.wire.problems import Problems, member
from bcs_scheduler.wire.quantities import READERS, QuantityError, is_given
from offers.dimensions import recorded

COMPARED = {"cpu": "cores", "memory": "MB", "storage": "MB"}
"""Resources that the original knows, with their units."""
OURS = {"cpu": 1000, "memory": 64_000, "storage": 0}
PROCESS = {"cpu": 1000, "memory": 64_000, "storage": 64_000}
"""Thousandths that are taken where neither request nor limit is given: of containers by us, of processes by both."""


def check_differences(task: TaskDocument, path: str, problems: Problems) -> None:
    """Names the requests of a task that the scheduler takes from its defaults, and, to senders who come from the
    original, those that count for another amount there."""
    requests, limits = _read(task.resources.requests), _read(task.resources.limits)
    default = OURS if isinstance(task, ContainerDocument) else PROCESS
    ours = {**default, **limits, **requests}
    original = _original(task.resources, requests, limits) if default is OURS else {**PROCESS, **limits}
    for name, unit in COMPARED.items():
        if ours[name] != original.get(name, 0):
            taken, theirs = (recorded(name).displayed(amounts.get(name, 0)) for amounts in (ours, original))
            used = "1 core is" if (taken, unit) == (1, "cores") else f"{taken:g} {unit} are"
            at = member(member(member(path, "resources"), "requests"), name)
            advice = "" if name in requests else "give the amount that the task needs"
            problems.differs(at, f"{used} used; the original uses {theirs:g}", advice)
            if name not in requests and name not in limits:
                problems.warn(at, f"{used} used, the default", advice)


def _original(resources: ResourcesDocument, requests: dict[str, int], limits: dict[str, int]) -> dict[str, int]:
    """Requests of a container in thousandths: an absent request is 0, but a limit of cpu without a request makes all
    requests equal to the limits."""
    if resources.requests.cpu in (None, "") and resources.limits.cpu not in (None, ""):
        return limits
    return requests


def _read(amounts: ResourceAmounts) -> dict[str, int]:
    """Thousandths by name, of the amounts that are given and can be read."""
    read: dict[str, int] = {}
    for name in COMPARED:
        written = getattr(amounts, name)
        try:
            if written is not None and is_given(name, written):
                read[name] = READERS[name](written)
        except QuantityError:
            continue
    return read
