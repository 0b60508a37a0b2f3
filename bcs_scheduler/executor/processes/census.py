"""The processes of each task, also those that forked away or changed their session.

All processes of all tasks descend from the supervisor. A process belongs to the task of its parent. An orphan belongs
to the task that it was seen with before, or whose session it is in, or whose mark is in its environment, or whose
control group it is in. An orphan that lost all of these before it was seen once has no task until only one task is
left; then it belongs to that task.
"""

from __future__ import annotations

import os
import signal
import threading

from . import control_groups, process_tree

MARK = "BCS_EXECUTOR_TASK"
"""Variable in the environment of all processes of a task: `<run of the executor>/<task id>`."""


class Census:
    """Used by many threads."""

    def __init__(self, supervisor: int, run: str) -> None:
        self.supervisor = supervisor
        self._executor = os.getpid()
        self._run = run
        self._lock = threading.Lock()
        self._groups: dict[str, str] = {}
        self._sessions: dict[int, str] = {}
        self._known: dict[tuple[int, int], str] = {}
        """Identity to task id."""
        self._becoming: dict[tuple[int, int], bytes] = {}
        """Processes of sessions that become programs of tasks: identity to the command line before."""

    def mark(self, task: str) -> str:
        """The value of the variable MARK."""
        return f"{self._run}/{task}"

    def join(self, task: str, cgroup: str) -> None:
        """A new task, with its control group (empty = none)."""
        with self._lock:
            self._groups[task] = cgroup

    def leave(self, task: str) -> bool:
        """The task has ended. False = something is left after all: orphans become the last task's only now."""
        with self._lock:
            if any(owner == task and not item.dead for item, owner in self._look()):
                return False
            self._groups.pop(task, None)
            return True

    def leader(self, task: str, pid: int) -> None:
        """A process was started for the task, as leader of its own session."""
        with self._lock:
            self._sessions[pid] = task
            found = process_tree.process(pid)
            if found is not None:
                self._known[found.identity] = task

    def left(self, task: str, pid: int) -> None:
        """The leader of a session has ended: the processes that it left running are remembered one by one, because the
        number of the session may be used again."""
        self.members(task)
        with self._lock:
            self._sessions.pop(pid, None)

    def members(self, task: str) -> list[process_tree.Process]:
        """The processes of the task that are alive now."""
        with self._lock:
            tasks = self._look()
            pids = {item.pid: item for item, owner in tasks if owner == task}
            for pid in control_groups.members(self._groups.get(task, "")):
                found = pids.get(pid) or process_tree.process(pid)
                if found is not None:
                    pids[pid] = found
                    self._known[found.identity] = task
        return [item for item in pids.values() if not item.dead]

    def becoming(self, pid: int) -> None:
        """The process of a session is about to become a program of a task. Unknown pids are ignored."""
        found = process_tree.process(pid)
        if found is None:
            return
        with self._lock:
            for known in tuple(self._becoming):
                item = process_tree.process(known[0])
                if item is None or item.identity != known:
                    del self._becoming[known]
            self._becoming[found.identity] = process_tree.command_line(pid)

    def memory(self, task: str) -> int:
        """Bytes that the processes of the task use. A child of the executor, or a process of a session, that is about
        to become a program of the task is in the control group of the task already. It still has the memory of the
        executor, which is more than a small task may use, and is not counted."""
        return process_tree.own_memory(item.pid for item in self.members(task) if not self._is_becoming(item))

    def _is_becoming(self, item: process_tree.Process) -> bool:
        if item.forked and item.parent == self._executor:
            return True
        before = self._becoming.get(item.identity)
        return before is not None and process_tree.command_line(item.pid) == before

    def kill(self, task: str) -> bool:
        """SIGKILL for all of it. True = there was nothing left."""
        members = self.members(task)
        if members:
            control_groups.kill(self._groups.get(task, ""))
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for item in members:
                    process_tree.send(item.pid, number)
        return not members

    def abandon(self) -> list[int]:
        """Sends SIGKILL to all processes of all tasks, found without the supervisor, because it has died: by earlier
        observations, by their descent and by the marks. Returns the pids of those that were still alive."""
        with self._lock:
            for path in self._groups.values():
                control_groups.kill(path)
            doomed: set[int] = set()
            for item in sorted(process_tree.every(), key=lambda item: item.started):
                owned = item.identity in self._known or item.parent in doomed or self._marked(item.pid) is not None
                if owned and not item.dead:
                    doomed.add(item.pid)
        for pid in doomed:
            process_tree.send(pid, signal.SIGKILL)
        return sorted(doomed)

    def _look(self) -> list[tuple[process_tree.Process, str | None]]:
        """All descendants of the supervisor with the tasks they belong to. Remembers them, forgets those that are
        gone."""
        found: list[tuple[process_tree.Process, str | None]] = []
        owners: dict[int, str | None] = {}
        known: dict[tuple[int, int], str] = {}
        for item in process_tree.descendants(self.supervisor):
            owner = self._known.get(item.identity) or owners.get(item.parent) or self._sessions.get(item.session)
            owner = owner or self._marked(item.pid)
            if (
                owner is None
                and item.parent == self.supervisor
                and item.pid != self._executor
                and len(self._groups) == 1
            ):
                owner = next(iter(self._groups))
            if owner is not None:
                known[item.identity] = owner
            owners[item.pid] = owner
            found.append((item, owner))
        self._known = known
        return found

    def _marked(self, pid: int) -> str | None:
        run, _, task = process_tree.variable(pid, MARK).partition("/")
        return task if run == self._run and task else None
