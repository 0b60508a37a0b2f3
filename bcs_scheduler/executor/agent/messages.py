"""Messages of the scheduler: each is carried out once, and answered until the scheduler has its final answer.

The scheduler repeats a message until it has a final answer, so every id that was seen is remembered: its answer while
there is room, then at least that it was carried out (docs/executor-protocol.md, section Messages to the executor).
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from .. import threads
from ..model import VERSION, Message, ProtocolError, Result, message_of
from ..runtime import Runtime, TaskError
from .message_handlers import Handler, handler_of

log = logging.getLogger(__name__)

WORKERS = 8
WAITING = 64
"""Messages for single tasks that may wait for a worker."""
TASKS = 256
"""Tasks one message may name; taskgroups have far fewer."""
PATIENCE = 1.0
"""Seconds until the executor reports to the scheduler that a message is being carried out."""
ANSWERS = 256
ANSWER_BYTES = 4 * 1024 * 1024
"""The most answers that are kept, and the most bytes that their texts may have together."""
IDS = 16384
"""The most ids that are remembered after their answers are gone."""

ENDING = "the taskgroup is ending"

Answer = Callable[[dict[str, Any]], None]


class Messages:
    """`received` takes messages in from any thread; `answer` is called from several."""

    def __init__(self, runtimes: Callable[[], Mapping[str, Runtime]], answer: Answer) -> None:
        self._runtimes = runtimes
        self._answers = _Answers(answer)
        self._work = _Workers(WORKERS, WAITING)
        self._reminder = _Reminder(self._answers)
        self._newest = _Newest()
        self._stopping = threading.Event()

    def received(self, data: bytes) -> None:
        """Takes a message in; the answer comes through `answer`. Never raises and does not wait for the work."""
        try:
            message = message_of(data)
        except ProtocolError as error:
            self._unusable(data, str(error))
            return
        except Exception as error:  # absurd nesting or numbers; the text of the error may quote them
            self._unusable(data, f"message: unusable ({type(error).__name__})")
            return
        if self._answers.begin(message.id):
            try:
                self._take_in(message)
            except (ProtocolError, TaskError) as error:
                self._answers.finish(message.id, "failed", str(error))
            except Exception as error:  # no thread can be started any more
                log.error("a message could not be read: %s", type(error).__name__)
                self._answers.finish(message.id, "failed", f"internal error of the executor: {type(error).__name__}")

    def _take_in(self, message: Message) -> None:
        jobs = self._jobs(message)
        if self._work.add(jobs):
            self._reminder.add(message.id)
        else:
            reason = ENDING if self._stopping.is_set() else "too many messages are waiting"
            self._answers.finish(message.id, "failed", reason)

    def stop(self) -> None:
        """Answers all messages without an answer as failed, and accepts no more messages. Work in progress ends with
        its task."""
        self._stopping.set()
        self._work.stop()
        self._reminder.stop()
        for identity in self._answers.open():
            self._answers.finish(identity, "failed", ENDING)

    def _unusable(self, data: bytes, reason: str) -> None:
        """Says so to the scheduler if it can be seen which message this is."""
        try:
            identity = json.loads(data)["id"]
        except (ValueError, LookupError, TypeError, RecursionError):
            identity = None
        if not isinstance(identity, str) or not identity:
            log.warning("a message of %d bytes is dropped: %s", len(data), reason)
        elif self._answers.begin(identity):
            self._answers.finish(identity, "failed", reason)

    def _jobs(self, message: Message) -> list[Callable[[], None]]:
        """One per task; the last to end gives the answer. Raises ProtocolError and TaskError."""
        if not message.tasks:
            raise ProtocolError("message.tasks: names no task")
        if len(set(message.tasks)) < len(message.tasks):
            raise ProtocolError("message.tasks: names a task twice")
        if len(message.tasks) > TASKS:
            raise ProtocolError(f"message.tasks: names more than {TASKS} tasks")
        if not 0 < message.timeout <= threading.TIMEOUT_MAX:
            raise ProtocolError("message.timeout: not a positive number of seconds")
        if message.output_limit < 0:
            raise ProtocolError("message.output_limit: negative")
        handler = handler_of(message, self._stopping)
        if message.kind == "resources":
            handler = self._newest.only(message.id, handler)
        gathered = _Gathered(message.tasks, lambda results: self._complete(message.id, results))
        return [self._job(gathered, place, task, handler) for place, task in enumerate(message.tasks)]

    def _job(self, gathered: _Gathered, place: int, task: str, handler: Handler) -> Callable[[], None]:
        return lambda: gathered.put(place, self._result(task, handler))

    def _result(self, task: str, handler: Handler) -> Result:
        runtime = self._runtimes().get(task)
        if runtime is None:
            return Result(task, False, "the task is not there")
        try:
            if runtime.detail().finished_at:
                return Result(task, False, "the task has ended")
            return handler(task, runtime)
        except TaskError as error:
            return Result(task, False, str(error))
        except Exception as error:  # a worker must survive all errors of a runtime; their text may be confidential
            log.error("a message could not be carried out: %s", type(error).__name__)
            return Result(task, False, f"internal error of the executor: {type(error).__name__}")

    def _complete(self, identity: str, results: tuple[Result, ...]) -> None:
        failed = [result for result in results if not result.ok]
        message = f"{failed[0].task}: {failed[0].message}" if failed else ""
        if len(failed) > 1:
            message += f" (and {len(failed) - 1} more)"
        self._answers.finish(identity, "failed" if failed else "success", message, results)


class _Newest:
    """Keeps older limits from replacing newer ones: messages that arrive together are carried out in any order, and a
    delayed message arrives late."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._lock = threading.Lock()

    def only(self, identity: str, handler: Handler) -> Handler:
        """The handler, unless a newer one has been carried out for the task. Ids are decimal and grow."""
        number = int(identity) if identity.isdecimal() and len(identity) < 30 else 0

        def carry_out(task: str, runtime: Runtime) -> Result:
            with self._lock:
                if number < self._last.get(task, 0):
                    return Result(task, False, "newer limits have been set")
                self._last[task] = number
                return handler(task, runtime)

        return carry_out


class _Gathered:
    """The results of one message, in the order of its tasks."""

    def __init__(self, tasks: tuple[str, ...], complete: Callable[[tuple[Result, ...]], None]) -> None:
        self._results: list[Result | None] = [None] * len(tasks)
        self._complete = complete
        self._lock = threading.Lock()

    def put(self, place: int, result: Result) -> None:
        with self._lock:
            self._results[place] = result
            results = tuple(result for result in self._results if result is not None)
        if len(results) == len(self._results):
            self._complete(results)


class _Answers:
    """The answers to all messages. A message in `_under_way` has no answer yet."""

    def __init__(self, send: Answer) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._sending = threading.Lock()  # so that `running` never overtakes the final answer
        self._under_way: set[str] = set()
        self._kept: OrderedDict[str, tuple[dict[str, Any], int]] = OrderedDict()
        self._bytes = 0
        self._forgotten: OrderedDict[str, None] = OrderedDict()

    def begin(self, identity: str) -> bool:
        """True if the message is new. If not, its known answer is sent again."""
        with self._lock:
            known = identity in self._under_way or identity in self._kept or identity in self._forgotten
            if not known:
                self._under_way.add(identity)
        if known:
            self.announce(identity)
        return not known

    def announce(self, identity: str) -> None:
        with self._sending:
            with self._lock:
                if identity in self._under_way:
                    document = _document(identity, "running")
                elif identity in self._kept:
                    document = self._kept[identity][0]
                else:
                    document = _document(identity, "failed", "was carried out before; its answer is no longer kept")
            self._try(document)

    def remind(self, identity: str) -> None:
        """Tells that it is running, if it is."""
        with self._lock:
            running = identity in self._under_way
        if running:
            self.announce(identity)

    def finish(self, identity: str, status: str, message: str, results: tuple[Result, ...] = ()) -> None:
        """Records and sends the answer of a message. The first answer is final; later calls have no effect."""
        document = _document(identity, status, message, results)
        size = len(message) + sum(len(r.message) + len(r.stdout) + len(r.stderr) for r in results)
        with self._sending:
            with self._lock:
                if identity not in self._under_way:
                    return
                self._under_way.discard(identity)
                self._kept[identity] = (document, size)
                self._bytes += size
                self._forget()
            self._try(document)

    def _forget(self) -> None:
        while len(self._kept) > ANSWERS or (self._bytes > ANSWER_BYTES and len(self._kept) > 1):
            identity, (_, size) = self._kept.popitem(last=False)
            self._bytes -= size
            self._forgotten[identity] = None
        while len(self._forgotten) > IDS:
            self._forgotten.popitem(last=False)

    def open(self) -> list[str]:
        with self._lock:
            return sorted(self._under_way)

    def _try(self, document: dict[str, Any]) -> None:
        """Sends a document. The scheduler asks again for an answer that cannot be sent now."""
        try:
            self._send(document)
        except Exception as error:
            log.warning("an answer could not be sent: %s", type(error).__name__)


def _document(identity: str, status: str, message: str = "", results: tuple[Result, ...] = ()) -> dict[str, Any]:
    return {
        "v": VERSION,
        "type": "answer",
        "id": identity,
        "status": status,
        "message": message,
        "results": [asdict(result) for result in results],
    }


class _Workers:
    """A bounded number of threads, each started when it is needed first, before a bounded queue."""

    def __init__(self, number: int, waiting: int) -> None:
        self._number = number
        self._waiting = waiting
        self._queue: deque[Callable[[], None]] = deque()
        self._condition = threading.Condition()
        self._threads = 0
        self._idle = 0
        self._stopped = False

    def add(self, jobs: list[Callable[[], None]]) -> bool:
        """All or none; False if too many are waiting already. Raises RuntimeError if there can be no thread at all."""
        with self._condition:
            if self._stopped or len(self._queue) >= self._waiting:
                return False
            while self._idle < len(self._queue) + len(jobs) and self._threads < self._number:
                try:
                    threads.lasting(f"message-{self._threads + 1}", self._run).start()
                except RuntimeError:
                    if self._threads:
                        break  # the existing threads do the work
                    raise
                self._threads += 1
                self._idle += 1
            self._queue.extend(jobs)
            self._condition.notify(len(jobs))
            return True

    def stop(self) -> None:
        with self._condition:
            self._stopped = True
            self._queue.clear()
            self._condition.notify_all()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._queue:
                    if self._stopped:
                        return
                    self._condition.wait()
                job = self._queue.popleft()
                self._idle -= 1
            threads.guarded("message", job)
            with self._condition:
                self._idle += 1


class _Reminder:
    """Tells the scheduler of messages that take longer than PATIENCE; one thread, started with the first message."""

    def __init__(self, answers: _Answers) -> None:
        self._answers = answers
        self._due: deque[tuple[float, str]] = deque()
        self._condition = threading.Condition()
        self._running = False
        self._stopped = False

    def add(self, identity: str) -> None:
        with self._condition:
            self._due.append((time.monotonic() + PATIENCE, identity))
            if not self._running:
                with contextlib.suppress(RuntimeError):  # no thread can be started: the scheduler asks again
                    threads.lasting("message-reminder", self._run).start()
                    self._running = True
            self._condition.notify()

    def stop(self) -> None:
        with self._condition:
            self._stopped = True
            self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._stopped and (not self._due or self._due[0][0] > time.monotonic()):
                    self._condition.wait(self._due[0][0] - time.monotonic() if self._due else None)
                if self._stopped:
                    return
                _, identity = self._due.popleft()
            self._answers.remind(identity)
