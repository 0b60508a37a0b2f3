"""One subscription: the event stream, and the connection for the calls that belong to it.

They live and die together: calls carry the id of the stream, and if the fate of a call is unknown (an offer may be
taken or declined, or neither), only a new subscription brings both sides to the same view, since it voids all offers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import msgspec
import structlog

from bcs_scheduler.core.interface import cluster_manager, effects, leased
from bcs_scheduler.core.interface.cluster_manager import LaunchFailed
from bcs_scheduler.mesos.calls import CallMaker
from bcs_scheduler.mesos.errors import ConnectionBroken
from bcs_scheduler.mesos.transport.connection import ACCEPTED, NEVER_SENT, UNKNOWN, CallConnection, Outcome
from bcs_scheduler.mesos.transport.stream import EventStream

log = structlog.get_logger(__name__)


class Session:
    """A subscription's connection for calls. Only one thread may call `send`. `report` gets LaunchFailed inputs, from
    any thread, and must not block. `again` gets effects that must be repeated after a failed call, likewise."""

    def __init__(
        self,
        stream: EventStream,
        maker: CallMaker,
        headers: dict[str, str],
        report: Callable[[LaunchFailed], None],
        again: Callable[[effects.Effect], None],
    ) -> None:
        self.stream = stream
        self.refused = 0
        self.sent = 0
        self.end_reason = ""
        self._maker = maker
        self._headers = {**headers, "Mesos-Stream-Id": stream.stream_id}
        self._report = report
        self._again = again
        self._calls: CallConnection[effects.Effect] | None = None
        self._closed = False
        self._lock = threading.Lock()
        """Keeps close() from missing a connection that is being opened."""

    @property
    def outstanding(self) -> int:
        calls = self._calls
        return calls.outstanding if calls is not None else 0

    def send(self, batch: Sequence[effects.Effect]) -> None:
        """Sends the calls of the effects in order; blocks while too many are unanswered. Failures are reported."""
        try:
            calls = self._connection()
        except ConnectionBroken as error:
            for effect in batch:
                self._outcome(Outcome(effect, NEVER_SENT, str(error)))
            self.end(str(error))
            return
        calls.send(self._serialized(batch))

    def end(self, reason: str) -> None:
        """Ends the stream, and with it the iteration over its events."""
        self.end_reason = self.end_reason or reason
        self.stream.close()

    def close(self) -> None:
        """Closes both connections; calls without an answer are reported before this returns."""
        self.stream.close()
        with self._lock:
            self._closed = True
            calls = self._calls
        if calls is not None:
            calls.close()

    def _connection(self) -> CallConnection[effects.Effect]:
        with self._lock:
            if self._closed:
                raise ConnectionBroken("the subscription has ended")
            calls = self._calls
            if calls is None:
                calls = CallConnection(self.stream.master, self._headers, self._outcome, self._broken)
                self._calls = calls
            return calls

    def _serialized(self, batch: Sequence[effects.Effect]) -> Iterator[tuple[bytes, effects.Effect]]:
        for effect in batch:
            self.sent += 1
            if isinstance(effect, cluster_manager.LaunchOnAgent):
                yield self._accept(effect)
            else:
                yield self._maker.call(effect), effect

    def _accept(self, effect: cluster_manager.LaunchOnAgent) -> tuple[bytes, effects.Effect]:
        body, launched, failed = self._maker.accept(effect)
        for taskgroup, reason in failed:
            log.error("mesos.launch.impossible", taskgroup=taskgroup, reason=reason, cause=effect.cause)
            self._report(LaunchFailed(taskgroups=(taskgroup,), reason=reason, certain=True, cause=effect.cause))
        if failed:
            kept = tuple(launch for launch in effect.launches if launch.taskgroup.id in launched)
            effect = msgspec.structs.replace(effect, launches=kept)
        return body, effect

    def _outcome(self, outcome: Outcome[effects.Effect]) -> None:
        if outcome.status == ACCEPTED:
            return
        effect = outcome.tag
        if isinstance(effect, cluster_manager.LaunchOnAgent):
            self._accept_failed(effect, outcome)
        elif isinstance(effect, leased.GiveUpRooms) and outcome.status == 400:
            self._again(leased.Decline(offer_ids=effect.offer_ids, cause=effect.cause))
        if outcome.status in (UNKNOWN, NEVER_SENT):
            return
        self.refused += 1
        name = type(effect).__name__
        log.error("mesos.call.refused", call=name, status=outcome.status, reason=outcome.reason, cause=effect.cause)
        if outcome.status != 400:
            # 400 is about the one call; anything else (not subscribed, not the leader) about the whole subscription.
            self.end(f"{name} was answered with {outcome.status}: {outcome.reason}")

    def _accept_failed(self, effect: cluster_manager.LaunchOnAgent, outcome: Outcome[effects.Effect]) -> None:
        if effect.launches:
            taskgroups = tuple(launch.taskgroup.id for launch in effect.launches)
            certain = outcome.status != UNKNOWN and outcome.status < 500
            self._report(
                LaunchFailed(taskgroups=taskgroups, reason=outcome.reason, certain=certain, cause=effect.cause)
            )
        if outcome.status == 400 and effect.offer_ids:
            # Mesos still counts the offers as ours, and no other call gives them back.
            self._again(leased.Decline(offer_ids=effect.offer_ids, cause=effect.cause))

    def _broken(self, reason: str, unknown: int) -> None:
        self._calls = None
        if unknown:
            self.end(reason)
        else:
            log.info("mesos.calls.closed", reason=reason)  # idle: the next call opens another
