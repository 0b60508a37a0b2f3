"""The resource usage of the processes of containers, read from /proc, in the format of an agent's GET_CONTAINERS.

A container consists of all processes that its first processes started, in any session, and of the remaining processes
of their sessions. The time of processes that have ended counts for their parents, so CPU time grows as it does with
cgroups. Nested containers are not listed: they are counted with their parent container.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from bcs_scheduler.local.objects.model import Executor
from bcs_scheduler.processes import every_stat

PARENT, SESSION, USER_TIME, SYSTEM_TIME, ENDED_USER_TIME, ENDED_SYSTEM_TIME, RESIDENT = 1, 3, 11, 12, 13, 14, 21
"""Fields of /proc/<pid>/stat, counted from the state on. The `ended` ones are those of children."""
TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
MIB = 1024 * 1024


def described(containers: Iterable[tuple[Executor, list[int]]]) -> list[dict[str, Any]]:
    """Each executor with the processes it was started with; one look at /proc for all."""
    now, stats = time.time(), every_stat()
    by_parent, by_session = defaultdict(list), defaultdict(list)
    for pid, fields in stats.items():
        by_parent[int(fields[PARENT])].append(pid)
        by_session[int(fields[SESSION])].append(pid)

    def members(roots: list[int]) -> set[int]:
        found: set[int] = set()
        ahead = [pid for root in roots for pid in (root, *by_session[root]) if pid in stats]
        while ahead:
            pid = ahead.pop()
            if pid not in found:
                found.add(pid)
                ahead += by_parent[pid]
        return found

    def total(pids: Iterable[int], *which: int) -> int:
        return sum(int(stats[pid][field]) for pid in pids for field in which)

    answer = []
    for executor, roots in containers:
        pids = members(roots)
        statistics = {
            "timestamp": now,
            "cpus_user_time_secs": total(pids, USER_TIME, ENDED_USER_TIME) / TICKS,
            "cpus_system_time_secs": total(pids, SYSTEM_TIME, ENDED_SYSTEM_TIME) / TICKS,
            "mem_rss_bytes": total(pids, RESIDENT) * PAGE,
        }
        answer.append(_container(executor, roots, statistics))
    return answer


def _container(executor: Executor, roots: list[int], statistics: dict[str, float]) -> dict[str, Any]:
    allocated = sum((task.amounts for task in executor.tasks.values()), executor.amounts)
    limits = {
        "cpus_soft_limit": allocated.scalar("cpus") / 1000,
        "mem_limit_bytes": allocated.scalar("mem") * MIB // 1000,
    }
    container_id = {"value": executor.container_id}
    return {
        "framework_id": {"value": executor.framework.id},
        "executor_id": {"value": executor.id},
        "executor_name": executor.info.name,
        "container_id": container_id,
        "container_status": {"container_id": container_id, **({"executor_pid": roots[0]} if roots else {})},
        "resource_statistics": {**statistics, **limits},
    }
