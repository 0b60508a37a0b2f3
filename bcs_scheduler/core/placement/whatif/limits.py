"""Limits of queues that would have to be raised, where agents have room and a queue holds the taskgroups back.

The policy decides with the raised limits, on the records or the tree of queues as they would be. Everything is undone
in the same turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.placement.engines.hierarchical import Hierarchical
from bcs_scheduler.core.placement.loop import Loop
from bcs_scheduler.core.placement.placer import Foreseen
from offers.dimensions import THOUSANDTHS
from offers.model import Demand, ResourceRequest
from offers.policy.hierarchy.configuration.partition import Partition, QueueConfig
from store.records import DEFAULT_QUEUE
from store.records import Queue as QueueRecord
from transactions.base import Slot

RAISE = "raiseQueueLimit"
"""Code of the kind of change."""
HALVINGS = 6
"""Trials that lower a limit that suffices; each is one decision of the policy."""

Raised = Mapping[str, Mapping[str, int]]
"""New limits by queue and resource, in thousandths."""


class Limit(NamedTuple):
    """The limits of one queue, in thousandths by resource."""

    queue: str
    used: Mapping[str, int]
    most: Mapping[str, int]


class Suffices(NamedTuple):
    """Limits with which all taskgroups find places."""

    before: list[Limit]
    raised: Raised
    foreseen: Foreseen


def search(turn: TurnContext, demand: Demand[Slot]) -> Generator[None, None, Suffices | None]:
    """Returns the least limits with which the policy places all slots of the demand; None if no limits do. One decision
    of the policy per step."""
    if turn.placer.policy_of(demand.role) is None or demand.per_agent or demand.promised:
        return None
    own = len(demand.slots)
    works = own
    sufficient = _tried(turn, demand, own)
    yield
    if sufficient is None:
        # Other work of the queue is decided about first.
        most = own + _others(turn, demand)
        sufficient = _tried(turn, demand, most) if most > own else None
        fails, works = own, most
        yield
        for _ in range(HALVINGS):
            if sufficient is None or works - fails <= 1:
                break
            middle = (fails + works) // 2
            lower = _tried(turn, demand, middle)
            yield
            if lower is None:
                fails = middle
            else:
                works, sufficient = middle, lower
    return sufficient


def are_exceeded(limits: Iterable[Limit], demand: Demand[Slot]) -> bool:
    """True if all slots of the demand together exceed one of the limits of its queue, or of one above it and below
    root."""
    needed = {name: len(demand.slots) * amount for name, amount in of_request(demand.request).items()}
    return any(
        limit.used.get(name, 0) + needed[name] > most
        for limit in limits
        for name, most in limit.most.items()
        if needed.get(name)
    )


def of_request(request: ResourceRequest) -> dict[str, int]:
    """The amounts of a request as limits name them, in thousandths: scalars, and extended resources."""
    return {**dict(request.extended), **{name: int(getattr(request, name)) for name in THOUSANDTHS.names}}


def limits_of(turn: TurnContext, demand: Demand[Slot]) -> list[Limit]:
    """The limits that hold for the application of a demand: of its queue, and in a tree of the queues above. Empty
    without a policy with queues."""
    if turn.placer.policy_of(demand.role) is None:
        return []
    engine = _tree(turn, demand)
    if engine is not None:
        tree = engine.present().of(demand.role).tree
        application = tree.applications.get(demand.application)
        above = reversed(tree.queues[application.queue].path) if application is not None else ()
        path = [queue for queue in above if queue.max]
        return [Limit(queue.name, dict(queue.allocated), dict(queue.max)) for queue in path]
    name = turn.queues.queue_of(demand.role, demand.application)
    figures = next((entry for entry in turn.queues.figures() if entry.queue.name == name), None)
    return [Limit(name, figures.used.get(demand.role, {}), figures.queue.limits)] if figures is not None else []


def _tree(turn: TurnContext, demand: Demand[Slot]) -> Hierarchical | None:
    """The engine with the tree of queues that decides about a demand; None: its queues are records."""
    policy = turn.placer.policy_of(demand.role)
    return policy.engine if isinstance(policy, Loop) and isinstance(policy.engine, Hierarchical) else None


def _tried(turn: TurnContext, demand: Demand[Slot], taskgroups: int) -> Suffices | None:
    """The decision of the policy if the queues had room for so many more taskgroups of the demand."""
    turn.cut()
    before = limits_of(turn, demand)
    request = of_request(demand.request)
    raised: dict[str, dict[str, int]] = {}
    for limit in before:
        needed = {name: limit.used.get(name, 0) + taskgroups * request.get(name, 0) for name in limit.most}
        more = {name: amount for name, amount in needed.items() if amount > limit.most[name]}
        if more:
            raised[limit.queue] = more
    if not raised:
        return None
    with _supposing(turn, demand, raised) as supposed:
        foreseen = turn.placer.foresee([demand], queues=supposed)
    if len(foreseen.result.placements) < len(demand.slots):
        return None
    return Suffices(before, raised, foreseen)


def _others(turn: TurnContext, demand: Demand[Slot]) -> int:
    """The other work that waits in the queue, as a number of taskgroups of the demand, rounded up."""
    queue = turn.queues.queue_of(demand.role, demand.application)
    sums: Counter[str] = Counter()
    for other in turn.engine.demands.values():
        if other.id == demand.id or other.role != demand.role:
            continue  # limits hold for each role by itself
        if turn.queues.queue_of(other.role, other.application) == queue:
            for name, amount in of_request(other.request).items():
                sums[name] += len(other.slots) * amount
    own = of_request(demand.request)
    return max((-(-amount // own[name]) for name, amount in sums.items() if own.get(name)), default=0)


@contextmanager
def _supposing(turn: TurnContext, demand: Demand[Slot], raised: Raised) -> Iterator[Partition | None]:
    """A block in which queues have other limits: their records, which are undone at the end, or the configuration for
    the copy of a tree that is asked."""
    engine = _tree(turn, demand)
    if engine is not None:
        present = engine.trees.partition
        yield present._replace(root=_with_limits(present.root, raised))
        return
    with turn.uow.held():
        for name, limits in raised.items():
            record = turn.state.queues.get(name) or QueueRecord(name=DEFAULT_QUEUE)
            scalars = {name: most for name, most in limits.items() if name in THOUSANDTHS}
            capability = msgspec.structs.replace(record.capability, **scalars)
            extended = {name: most for name, most in limits.items() if name not in THOUSANDTHS}
            extended = {**record.capability_extended, **extended}
            turn.uow.put(msgspec.structs.replace(record, capability=capability, capability_extended=extended))
        yield None


def _with_limits(config: QueueConfig, raised: Raised, above: str = "") -> QueueConfig:
    name = f"{above}.{config.name}" if above else config.name
    queues = tuple(_with_limits(child, raised, name) for child in config.queues)
    return config._replace(queues=queues, max={**config.max, **raised.get(name, {})})
