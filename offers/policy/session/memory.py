"""The memory of sessions that follow each other: tries that cannot help, and the jobs that had their turn already.

A decision about many jobs is made in portions, each of which is a session of its own over the present snapshot. All
portions until one that is finished are a round: in a round, an action gives each job one turn. So each portion
continues where the one before has stopped, also if something changes in between.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from offers.policy.session.decisions import Later

MOST = 4096
"""Number of tries that are remembered; beyond it, all are forgotten."""


class Memory:
    """Belongs to one snapshot and one policy."""

    def __init__(self) -> None:
        self._vain: dict[Hashable, Hashable] = {}
        self._had_turn: dict[str, set[str]] = {}
        self.held_back: dict[str, str] = {}
        """The reasons of `SessionResult.held_back` that the portions of this round have found, by name of the job."""
        self.later: Later | None = None
        """The earliest moment that the portions of this round have found; see `SessionResult.later`."""
        self._capacities: dict[int, int] = {}
        self._agents = 0

    def drop_figures(self) -> None:
        """Drops the figures that follow from snapshots: the tries in vain and the figures of agents. The turns of the
        round and its findings stay. No decision changes."""
        self._vain.clear()
        self._capacities.clear()

    # --- tries that cannot help -------------------------------------------------------------------------------

    def is_vain(self, attempt: Hashable, state: Hashable) -> bool:
        """True if the same attempt was in vain in the same state."""
        return self._vain.get(attempt) == state

    def in_vain(self, attempt: Hashable, state: Hashable) -> None:
        """An attempt was in vain. `state`: equal as long as nothing has changed that could make it help."""
        if len(self._vain) >= MOST:
            self._vain.clear()
        self._vain[attempt] = state

    # --- figures of agents -------------------------------------------------------------------------------------

    def capacities(self, agents: int) -> dict[int, int]:
        """The numbers of tasks that the agents could hold if nothing else ran, by `Need.number`; the caller adds some.
        `agents`: number of changes of the agents; all figures are forgotten when it has changed."""
        if agents != self._agents or len(self._capacities) > MOST:
            self._capacities, self._agents = {}, agents
        return self._capacities

    # --- portions ---------------------------------------------------------------------------------------------

    def had_turn(self, action: str) -> set[str]:
        """The names of the jobs that had their turn of an action in this round; actions add to it."""
        return self._had_turn.setdefault(action, set())

    @property
    def in_round(self) -> bool:
        """True if a portion of this round went before."""
        return any(self._had_turn.values())

    def end_round(self) -> None:
        """All jobs had their turns."""
        self._had_turn.clear()

    def turns(self) -> dict[str, set[str]]:
        """A copy of the turns of this round, by action."""
        return {action: set(jobs) for action, jobs in self._had_turn.items()}

    def restore(self, turns: dict[str, set[str]]) -> None:
        """Goes back to turns that were copied: the decisions since then are not carried out."""
        self._had_turn = turns


class Portion:
    """Bounds the work of a session. At least one job has its turn, so that each portion gets on."""

    EACH = 16
    """The budget is asked before every so many cheap turns."""

    def __init__(self, is_used_up: Callable[[], bool] | None) -> None:
        """`is_used_up`: True if the session should end; None = no bound."""
        self._is_used_up = is_used_up
        self._turns = self._steps = 0
        self.over = False
        """The session has ended before all jobs had their turns."""

    @property
    def bounded(self) -> bool:
        """True if the session may end before all jobs had their turns."""
        return self._is_used_up is not None

    def is_late(self) -> bool:
        """True if small steps of work beside the turns of jobs, `EACH` at least, have to wait for the next portion."""
        self._steps += 1
        if self._is_used_up is not None and not self.over and self._steps % self.EACH == 0:
            self.over = self._is_used_up()
        return self.over

    def ends(self, *, cheap: bool = False, least: int = 1) -> bool:
        """True if the next job has to wait for the next portion. `cheap`: the turn of a job takes microseconds. `least`
        jobs have their turn in any case."""
        if self.over or self._is_used_up is None:
            return self.over
        self._turns += 1
        if self._turns <= least or (cheap and self._turns % self.EACH):
            return False
        self.over = self._is_used_up()
        return self.over
