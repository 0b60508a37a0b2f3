"""The limits of a task: control group where one can be made, resource limits of the kernel, watched memory
otherwise."""

from __future__ import annotations

import functools
import logging
import os
import resource
from collections.abc import Sequence
from typing import NamedTuple

from ..model import Amounts
from ..runtime import TaskError
from . import control_groups

log = logging.getLogger("executor")

MEGABYTE = 1024 * 1024
PERIOD = 100_000
"""Microseconds over which cpu.max is counted: the kernel's own default."""
MINIMAL_QUOTA = 1_000
"""Microseconds; the kernel refuses less."""
CPU_UNLIMITED = "cpu is not limited on this agent"

_NAMES = (
    *("as", "core", "cpu", "data", "fsize", "memlock", "msgqueue", "nice"),
    *("nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack"),
)
ULIMITS = {
    name: getattr(resource, f"RLIMIT_{name.upper()}") for name in _NAMES if hasattr(resource, f"RLIMIT_{name.upper()}")
}
"""Names as the docker option `--ulimit` has them."""


class Rlimit(NamedTuple):
    number: int
    soft: int
    hard: int


def rlimits(parameters: Sequence[tuple[str, str]]) -> tuple[Rlimit, ...]:
    """Limits of the parameters `ulimit` with values `name=soft[:hard]`, -1 or `unlimited` = no limit. Raises
    TaskError."""
    return tuple(_rlimit(value) for key, value in parameters if key == "ulimit")


def _rlimit(text: str) -> Rlimit:
    name, _, values = text.partition("=")
    soft, _, hard = values.partition(":")
    if name not in ULIMITS:
        raise TaskError(f"ulimit {name!r} is not known; known are {', '.join(sorted(ULIMITS))}")
    wanted = Rlimit(ULIMITS[name], _amount(text, soft), _amount(text, hard or soft))
    allowed = resource.getrlimit(wanted.number)[1]
    if os.geteuid() != 0 and allowed != resource.RLIM_INFINITY and not 0 <= wanted.hard <= allowed:
        raise TaskError(f"ulimit {text}: the executor may not go beyond {allowed}")
    return wanted


def _amount(text: str, value: str) -> int:
    if value in ("-1", "unlimited"):
        return resource.RLIM_INFINITY
    if not value.isdecimal():
        raise TaskError(f"ulimit {text}: not a number: {value!r}")
    return int(value)


def size(mem: int) -> int:
    """Bytes of an amount in thousandths of a MB."""
    return mem * MEGABYTE // 1000


class Enforcement:
    """Limits of one task. A limit without a controller is not enforced here, except memory: `watched` says that the
    memory must be measured from time to time."""

    def __init__(self, home: str, name: str) -> None:
        """`home` is the executor's directory of control groups, empty where there is none."""
        self.path = os.path.join(home, name) if home else ""
        self._mem = 0
        self._memory_controller = False
        self._kills_before = 0
        if self.path:
            try:
                os.makedirs(self.path, exist_ok=True)
            except OSError:
                self.path = ""

    def apply(self, requests: Amounts, limits: Amounts) -> None:
        """Sets the limits at the start of the task. CPU limits that cannot be enforced are left to the isolators of the
        agent, and the log says so."""
        if requests.cpus and self.path:
            # A share of 1024 per core is the measure of cgroup v1; the kernel maps it to weights like this.
            weight = 1 + (max(2, min(262144, requests.cpus * 1024 // 1000)) - 2) * 9999 // 262142
            control_groups.write(self.path, "cpu.weight", str(weight))
        if not self._limit_cpus(limits.cpus):
            _log_once(CPU_UNLIMITED)
        self._limit_mem(limits.mem)
        self._kills_before = self._kills()

    def change(self, limits: Amounts, used: int) -> str:
        """Changes the limits while the task runs; 0 = unchanged. `used` bytes are in use now. Returns a message about
        limits that cannot be enforced, empty = none; raises TaskError if more memory is in use than the limit."""
        if limits.mem and used > size(limits.mem):
            raise TaskError(f"{used // MEGABYTE} MB are in use, more than the new limit of {limits.mem // 1000} MB")
        self._limit_mem(limits.mem)
        return "" if self._limit_cpus(limits.cpus) else CPU_UNLIMITED

    def _limit_cpus(self, cpus: int) -> bool:
        """False = there is a limit, and nothing here that enforces it."""
        if not cpus:
            return True
        quota = max(MINIMAL_QUOTA, cpus * PERIOD // 1000)
        return bool(self.path) and control_groups.write(self.path, "cpu.max", f"{quota} {PERIOD}")

    def _limit_mem(self, mem: int) -> None:
        if mem:
            self._mem = mem
            self._memory_controller = bool(self.path) and control_groups.write(self.path, "memory.max", str(size(mem)))
            if self._memory_controller:  # a task that has lost one of its processes must end completely
                control_groups.write(self.path, "memory.oom.group", "1")

    @property
    def watched(self) -> bool:
        return bool(self._mem) and not self._memory_controller

    def exceeded(self, used: int) -> bool:
        return self.watched and used > size(self._mem)

    @property
    def words(self) -> str:
        """The memory limit in words, for messages."""
        return f"{self._mem / 1000:g} MB"

    def out_of_memory(self) -> bool:
        """True if the kernel has killed something in the group for its memory."""
        return self._kills() > self._kills_before

    def _kills(self) -> int:
        for line in control_groups.read(self.path, "memory.events").splitlines() if self.path else ():
            name, _, count = line.partition(" ")
            if name == "oom_kill" and count.isdecimal():
                return int(count)
        return 0

    def remove(self) -> None:
        control_groups.remove(self.path)


@functools.cache
def _log_once(words: str) -> None:
    """Logs the words, once for all tasks of a taskgroup."""
    log.warning("%s", words)
