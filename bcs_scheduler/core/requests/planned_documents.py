"""A plan of several requests, such as all documents of a directory (docs/decisions/0067-plans-of-documents.md).

The requests are carried out one after the other in one unit of work that is never closed, so that later ones see the
records of earlier ones. A refused request is undone by itself. The demands are then placed in the order of the
requests: by the policy together, beside all work that waits, or by the matcher one after the other, each with the room
that the earlier ones leave. Everything is undone in the same turn; many slots are matched in later turns, on a copy of
the offers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from bcs_scheduler.core.context import UNFIT, TurnContext
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.core.interface.requests import PlanRequests, Request
from bcs_scheduler.core.placement.placer import SLICE, in_slices
from bcs_scheduler.core.requests.answers import Data
from bcs_scheduler.core.requests.planned_effect import PlannedAnswer, begun, conclude, look, resized, shown_partition
from offers.model import Demand, MatchResult
from store.base import RecordUnreadable
from transactions.base import Refused, Slot

Run = Callable[[Request], Data]

MOST = 500
"""Requests of a plan. Each costs about as much as one that is carried out."""
AT_ONCE = 16
"""Number of demands that are matched within the turn of the request."""


class Wanted(NamedTuple):
    """A demand of one of the requests."""

    answer: Data
    """The answer of the request."""
    demand: Demand[Slot]


def plan(turn: TurnContext, run: Run, command: PlanRequests) -> Data:
    """Returns the data of the reply: `requests` has an answer for each request, with `error` (code) and `message` if
    the request would be refused; `evict` has the taskgroups that the policy would end to make room. Raises Refused."""
    if len(command.requests) > MOST:
        raise Refused("invalid", f"{len(command.requests)} documents are planned together, at most {MOST} are possible")
    turn.cut()
    answers: list[Data] = []
    data: Data = {"requests": answers, "evict": [], "dryRun": True}
    wanted: list[Wanted] = []
    with turn.uow.held():
        for request in command.requests:
            answer, planned = _tried(turn, run, request)
            answers.append(answer)
            wanted += [Wanted(answer, demand) for demand in planned.demands]
        if turn.placer.has_policy:
            # The policy looks at the records of the requests, so it decides before they are undone.
            wanted = _foreseen(turn, wanted, data)
    total = sum(len(one.demand.slots) for one in wanted)
    if total <= SLICE and len(wanted) <= AT_ONCE:
        with turn.placer.trial() as trial:
            for one in wanted:
                _add(one, trial.plan([one.demand]))
    else:
        turn.later(match(turn, wanted))
    return data


def _tried(turn: TurnContext, run: Run, request: Request) -> tuple[Data, PlannedAnswer]:
    """Carries one request out. The changes of a refused request are undone; those of earlier requests stay."""
    uow = turn.uow
    point, before, size = uow.savepoint(), frozenset(uow.changed()), uow.size()
    planned = PlannedAnswer({}, [])
    try:
        answer = run(request)
        if uow.size() - size > uow.sizer.limit // 2:
            raise Refused("invalid", "the records of the document exceed the size limit of the store")
        answer.update(resized(turn, point))
        new = begun(turn, before)
        if new:
            planned = look(turn, new[0], before)
    except Refused as refused:
        problems = [{"path": path, "message": message} for path, message in refused.problems]
        failure: Data = {"error": refused.reason, "message": refused.message, "problems": problems}
    except UNFIT as not_storable:
        failure = {"error": Reason.INVALID, "message": str(not_storable), "problems": []}
    except RecordUnreadable as unreadable:
        failure = {"error": Reason.CONFLICT, "message": str(unreadable), "problems": []}
    else:
        answer.pop("transactionID", None)
        decided = turn.placer.decided_by(planned.demands[0].role) if planned.demands else None
        shown = shown_partition(decided)
        return {"place": [], "end": [], "unplaced": 0, **answer, **planned.data, **shown}, planned
    uow.undo(point)
    return failure, PlannedAnswer({}, [])


def _foreseen(turn: TurnContext, wanted: Sequence[Wanted], data: Data) -> list[Wanted]:
    """Lets the policy decide, role by role. Returns the demands that no policy decides about."""
    decided: list[Wanted] = []
    rest: list[Wanted] = []
    for one in wanted:
        of_policy = turn.placer.policy_of(one.demand.role) is not None
        (decided if of_policy and not (one.demand.per_agent or one.demand.promised) else rest).append(one)
    for role in dict.fromkeys(one.demand.role for one in decided):
        here = [one for one in decided if one.demand.role == role]
        found = turn.placer.foresee([one.demand for one in here])
        for one in here:
            _add(one, found.result)
        data["evict"] += found.evicted
    return rest


def _add(one: Wanted, found: MatchResult[Slot]) -> None:
    """Adds the part of a result that belongs to one demand to the answer of its request."""
    identity, slots = one.demand.id, set(one.demand.slots)
    places = [place for place in found.placements if place.demand == identity and place.slot in slots]
    short = [diagnosis for diagnosis in found.diagnoses if diagnosis.demand == identity]
    conclude(one.answer, one.answer["unplaced"] + len(one.answer["place"]), MatchResult(places, short))


def match(turn: TurnContext, wanted: Sequence[Wanted]) -> Iterator[None]:
    """Matches the demands one after the other, slice by slice, on a copy of the offers."""
    trial = yield from turn.placer.rehearsal()
    for one in wanted:
        for found in in_slices(trial, one.demand):
            _add(one, found)
            yield
