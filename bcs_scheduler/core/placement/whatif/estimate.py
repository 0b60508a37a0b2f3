"""An estimate of the time until taskgroups that wait have room, from the running times that were seen
(docs/decisions/0068-estimates.md).

Taskgroups that run and whose application finishes by itself are set aside in the order of their expected ends, until
the demand finds places. The same with early and with late ends gives the bounds of the estimate.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.placement.whatif.limits import limits_of, of_request
from bcs_scheduler.core.placement.whatif.search import try_on
from bcs_scheduler.core.run_times import PARTS, remaining
from offers.dimensions import THOUSANDTHS
from offers.ledger.offered import OfferPool
from offers.model import Demand, Occupant
from store.ids import nanoseconds_of
from store.records import TaskGroup
from store.records.definition import Amounts
from transactions import occupancy
from transactions.base import Slot

Data = dict[str, Any]

NO_RUNS, TOO_FEW, POLICY = "noRuns", "tooFewEnds", "policy"
"""Codes of the reasons for which there is no estimate: no runs have been seen of the taskgroups that hold room; their
ends do not leave enough room; the policy holds the taskgroups back for another reason than a limit of a queue."""
ENDS = 500
"""Running taskgroups that are looked at."""
APPLICATIONS = 1000
"""Applications that are looked at."""
AHEAD = 16
"""Older demands that take room first."""


class _End(NamedTuple):
    """An expected end. `seconds`: until then, early, expected and late. `runs`: number of runs that say so."""

    group: TaskGroup
    seconds: tuple[float, float, float]
    runs: int


def until_room(turn: TurnContext, pool: OfferPool, demand: Demand[Slot]) -> Generator[None, None, Data]:
    """Returns the estimate for a demand that lacks room: `seconds`, `least`, `most`, and `runs`, the number of runs
    that it is made from; or `reason`, a code. `pool`: a copy of the offers."""
    ends = list(islice(_ends(turn, demand.role), ENDS))
    yield
    if not ends:
        return {"reason": NO_RUNS}
    occupants = {end.group.id: occupancy.occupant(turn.state, turn.agents, end.group) for end in ends}
    ahead = list(_ahead(turn, demand))
    times: list[float] = []
    used: set[str] = set()
    for part in range(len(PARTS)):
        order = sorted(ends, key=lambda end: (end.seconds[part], end.group.id))
        gone = [occupants[end.group.id] for end in order]
        number = yield from _least(turn, pool, demand, gone, ahead)
        if number is None:
            return {"reason": TOO_FEW}
        times.append(order[number - 1].seconds[part] if number else 0.0)
        used.update(end.group.application_key for end in order[:number])
    return _answer(times, ends, used)


def until_below_limit(turn: TurnContext, demand: Demand[Slot]) -> Data:
    """The estimate for a demand that a limit of its queue holds back: until enough of the work of the queue has
    ended."""
    limits = limits_of(turn, demand)
    over: dict[str, int] = {}
    request = of_request(demand.request)
    for limit in limits:
        for name, most in limit.most.items():
            needed = limit.used.get(name, 0) + len(demand.slots) * request.get(name, 0)
            over[name] = max(over.get(name, 0), needed - most)
    over = {name: amount for name, amount in over.items() if amount > 0}
    if not over:
        return {"reason": POLICY}
    queue = turn.queues.queue_of(demand.role, demand.application)
    mine = (e for e in _ends(turn, demand.role) if turn.queues.queue_of(demand.role, e.group.application_key) == queue)
    ends = list(islice(mine, ENDS))
    if not ends:
        return {"reason": NO_RUNS}
    times: list[float] = []
    used: set[str] = set()
    for part in range(len(PARTS)):
        left = dict(over)
        for end in sorted(ends, key=lambda end: (end.seconds[part], end.group.id)):
            used.add(end.group.application_key)
            freed = {**end.group.extended, **_scalars(end.group.resources)}
            left = {name: amount - freed.get(name, 0) for name, amount in left.items()}
            if all(amount <= 0 for amount in left.values()):
                times.append(end.seconds[part])
                break
        else:
            return {"reason": TOO_FEW}
    return _answer(times, ends, used)


def _scalars(amounts: Amounts) -> dict[str, int]:
    return {name: int(getattr(amounts, name)) for name in THOUSANDTHS.names}


def _ahead(turn: TurnContext, demand: Demand[Slot]) -> Iterator[Demand[Slot]]:
    """The older demands that take room first."""
    for other in islice(turn.engine.demands.values(), AHEAD):
        older = nanoseconds_of(other.id) < nanoseconds_of(demand.id)
        if older and other.role == demand.role and not (other.per_agent or other.promised):
            yield other


def _answer(times: Sequence[float], ends: Sequence[_End], used: set[str]) -> Data:
    least, middle, most = sorted(times)
    runs = {end.group.application_key: end.runs for end in ends if end.group.application_key in used}
    return {"seconds": round(middle), "least": round(least), "most": round(most), "runs": sum(runs.values())}


def _ends(turn: TurnContext, role: str) -> Iterator[_End]:
    """Taskgroups that run and are expected to finish. Applications with runs of their own come first."""
    state, run_times, now = turn.state, turn.run_times, turn.now
    keys = dict.fromkeys((*run_times.applications(), *islice(list(state.applications), APPLICATIONS)))
    for key in keys:
        application = state.applications.get(key)
        version = state.version(key, application.version) if application is not None else None
        if application is None or version is None or version.restart_policy.policy == "Always":
            continue
        runs = run_times.basis(key, application.type)
        for group in islice(state.groups_of(key).values(), ENDS) if runs else ():
            if group.ended or not group.running_since or (group.role or "*") != role:
                continue
            seconds = remaining(runs, now - group.created_at)
            if seconds is not None:
                yield _End(group, seconds, len(runs))


def _least(
    turn: TurnContext, pool: OfferPool, demand: Demand[Slot], gone: Sequence[Occupant], ahead: Sequence[Demand[Slot]]
) -> Generator[None, None, int | None]:
    """The least number of the first taskgroups with whose room the demand finds places; None if all do not suffice."""
    if (yield from try_on(turn, pool, demand, gone, ahead=ahead)) is None:
        return None
    fails, works = -1, len(gone)
    while works - fails > 1:
        middle = (fails + works) // 2
        if (yield from try_on(turn, pool, demand, gone[:middle], ahead=ahead)) is None:
            fails = middle
        else:
            works = middle
    return works
