"""Calls of plug-ins and actions of third parties: named if they fail, and bounded in time.

Time is read at the boundary of each call, from a clock that is passed in. Calls that never return are bounded by a
`Watch`, which runs the session beside its caller. After its first fault a plug-in answers nothing more in this session:
orders do not tell objects apart, predicates accept, no victim is named, nothing is overused, every job is valid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from offers.policy.obstacles import Obstacle
from offers.policy.session.decisions import PluginFault
from offers.policy.session.plugins.interface import SWITCHES, Functions, Verdict

if TYPE_CHECKING:
    from offers.policy.session.policy import ActionChoice, PluginChoice
    from offers.policy.session.session import Session

T = TypeVar("T")
UNLIMITED = 2**62
_ORDERS = frozenset({"job_order", "queue_order", "task_order"})
_NEUTRAL: dict[str, Callable[..., Any]] = {
    "predicate": lambda *_: None,
    "node_order": lambda *_: 0,
    "preemptable": lambda _, candidates: list(candidates),
    "reclaimable": lambda _, candidates: list(candidates),
    "evictable": lambda _, candidates: list(candidates),
    "keeps": lambda *_: Obstacle.PLUGIN,
    "overused": lambda *_: False,
    "room": lambda *_: UNLIMITED,
    "limit": lambda *_: "",
    "allocatable": lambda *_: True,
    "may_lose": lambda *_: True,
    "job_valid": lambda *_: None,
    "job_ready": lambda *_: True,
    "job_pipelined": lambda *_: True,
    "missing": lambda *_: 0,
    "on_allocate": lambda *_: None,
    "on_deallocate": lambda *_: None,
    "deserved": dict,
}
"""Answers of a plug-in that is out of use. Of victims the other plug-ins decide alone."""
_TYPES: dict[str, type | tuple[type, ...]] = {
    "predicate": (str, type(None)),
    "node_order": int,
    "preemptable": list,
    "reclaimable": list,
    "evictable": list,
    "overused": bool,
    "room": int,
    "allocatable": bool,
    "may_lose": bool,
    "job_valid": (Verdict, type(None)),
    "job_ready": bool,
    "job_pipelined": bool,
    "missing": int,
}


class PluginFailed(Exception):
    """The session is to be repeated without a plug-in."""

    def __init__(self, fault: PluginFault) -> None:
        super().__init__(f"{fault.plugin}: {fault.function}: {fault.cause}")
        self.fault = fault


class NeverReturned(Exception):
    """A call of a plug-in or action did not return in its time. The session was given up."""

    def __init__(self, fault: PluginFault) -> None:
        super().__init__(f"{fault.plugin}: {fault.function}: {fault.cause}")
        self.fault = fault


class Abandoned(BaseException):
    """Ends the work of a session that was given up. Not an Exception: plug-ins must not handle it as an error."""


class Calls(Protocol):
    """Follows which code runs. Each method raises Abandoned once the session was given up."""

    def enter(self, plugin: str, function: str) -> None:
        """A call of a third party begins."""

    def leave(self) -> None:
        """The latest call has ended."""

    def enter_own(self) -> None:
        """A call of the scheduler's own code begins, which uses state outside of the session. The session is not
        given up before the end of the call."""

    def leave_own(self) -> None:
        """The latest call of `enter_own` has ended."""


class Unwatched:
    """Implements Calls without a bound."""

    def enter(self, plugin: str, function: str) -> None:
        """Does nothing."""

    def leave(self) -> None:
        """Does nothing."""

    def enter_own(self) -> None:
        """Does nothing."""

    def leave_own(self) -> None:
        """Does nothing."""


UNWATCHED = Unwatched()


class Watch(Protocol):
    """Bounds calls that never return."""

    def run(self, work: Callable[[Calls], T], seconds: float) -> T:
        """The result or the exception of `work`, which names its calls of third parties. Raises NeverReturned if
        such a call takes longer than `seconds`; nothing that `work` decided may be used then."""


class Guard:
    """The faults of one session."""

    def __init__(
        self, clock: Callable[[], float] | None, seconds: float, *, repeat: bool, calls: Calls = UNWATCHED
    ) -> None:
        self.faults: list[PluginFault] = []
        self._clock = clock or (lambda: 0.0)
        self._seconds = seconds
        self._repeat = repeat
        self._calls = calls
        self._spent: dict[str, float] = {}
        self._out: set[str] = set()

    def open(self, choice: PluginChoice, session: Session) -> Functions | None:
        """The functions of a plug-in, without those that are switched off; None if the plug-in failed."""
        plugin = choice.plugin
        if choice.trusted:
            functions = plugin.open(session, choice.arguments)
        else:
            opened = self._call(plugin.name, "open", plugin.open, (session, choice.arguments), lambda *_: None)
            if not isinstance(opened, Functions):
                if plugin.name not in self._out:
                    self._fail(plugin.name, "open", f"it returned {type(opened).__name__} and no Functions")
                return None
            functions = opened
        for switch in choice.off:
            for name in SWITCHES[switch]:
                setattr(functions, name, None)
        if not choice.trusted:
            for field in fields(functions):
                function = getattr(functions, field.name)
                if callable(function) and field.name not in ("feasibility", "scorer"):
                    setattr(functions, field.name, self._guarded(plugin.name, field.name, function))
        return functions

    def act(self, choice: ActionChoice, session: Session) -> bool:
        """Runs an action. False if it failed: its open statements are to be undone."""
        action = choice.action
        if choice.trusted:
            action.run(session, choice.arguments)
            return True
        self._call(action.name, "run", action.run, (session, choice.arguments), lambda *_: None)
        return action.name not in self._out

    def _guarded(self, plugin: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        if name in _ORDERS:
            return self._order(plugin, name, function)
        neutral, types = _NEUTRAL[name], _TYPES.get(name)

        def guarded(*arguments: Any) -> Any:
            if plugin in self._out:
                return neutral(*arguments)
            result = self._call(plugin, name, function, arguments, neutral)
            if types is not None and not isinstance(result, types):
                self._fail(plugin, name, f"it returned {type(result).__name__}")
                return neutral(*arguments)
            return result

        return guarded

    def _order(self, plugin: str, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Keys in a tuple that compares with the neutral one; the first key says which keys are comparable."""
        first: list[Any] = []

        def comparable(*arguments: Any) -> Any:
            key = function(*arguments)
            if not first:
                first.append(key)
            bool(key < first[0])
            return (0, key)

        def guarded(*arguments: Any) -> Any:
            if plugin in self._out:
                return (1,)
            return self._call(plugin, name, comparable, arguments, lambda *_: (1,))

        return guarded

    def _call(
        self,
        plugin: str,
        name: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        neutral: Callable[..., Any],
    ) -> Any:
        self._calls.enter(plugin, name)
        failure, result = "", None
        begun = self._clock()
        try:
            result = function(*arguments)
        except (PluginFailed, Abandoned):
            raise
        except BaseException as error:  # SystemExit of a plug-in would end the thread of the core
            failure = f"{type(error).__name__}: {error}"
        finally:
            self._calls.leave()
        if failure:
            self._fail(plugin, name, failure)
            return neutral(*arguments)
        spent = self._spent[plugin] = self._spent.get(plugin, 0.0) + self._clock() - begun
        if spent > self._seconds:
            self._fail(plugin, name, f"its calls took {spent:.3f} s, more than {self._seconds:g} s")
            return neutral(*arguments)
        return result

    def _fail(self, plugin: str, name: str, cause: str) -> None:
        self._out.add(plugin)
        fault = PluginFault(plugin, name, cause)
        if self._repeat:
            raise PluginFailed(fault)
        self.faults.append(fault)
