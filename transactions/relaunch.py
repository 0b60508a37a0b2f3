"""Launches that did not happen: the record of a taskgroup is durable, but no executor has ever run a task of it.

Such a taskgroup is launched again whatever its restart policy says, and the new launch is no restart: it neither spends
the restart budget nor is it told or counted as one. What must not happen is that something is launched twice.

What Mesos 1.11 says to a partition-aware framework about a task that never started (reconcileTask, accept and
reregisterSlave in src/master/master.cpp, sendExecutorTerminatedStatusUpdate in src/slave/slave.cpp):

    cause                                                    state                 reason                launched again
    -------------------------------------------------------  --------------------  --------------------  --------------
    the ACCEPT names an offer that was rescinded or used     TASK_DROPPED          INVALID_OFFERS        yes
    agent removed or disconnected while ACCEPT is handled    TASK_DROPPED          SLAVE_REMOVED, ...    yes
    launch lost before the agent, which re-registers         TASK_DROPPED          RECONCILIATION        yes
    asked: task unknown, agent registered                    TASK_GONE             RECONCILIATION        yes
    asked: task unknown, agent marked gone by an operator    TASK_GONE_BY_OPERATOR RECONCILIATION        yes
    asked: task unknown, agent has not re-registered since
           the master failed over                            no answer                                   asked again
    asked: task unknown, agent unreachable                   TASK_UNREACHABLE      RECONCILIATION        not yet
    asked: task unknown, agent unknown                       TASK_UNKNOWN          RECONCILIATION        not yet
    asked: the ACCEPT is being authorized                    TASK_STAGING          RECONCILIATION        no
    the agent cannot fetch the executor                      TASK_FAILED           CONTAINER_LAUNCH_...  bounded
    the launch is refused as invalid                         TASK_ERROR            TASK_GROUP_INVALID    by policy

(TASK_LOST stands for each of the terminal ones if the framework is not partition-aware.) "Not yet": the agent may have
started the task and may come back with it; the policy for unreachable taskgroups applies until it is heard of.

Why TASK_GONE is certain, although an ACCEPT may have been on its way when the question was asked:

* An ACCEPT of our own subscription is sent before any question about its tasks: the questions follow from the records,
  units leave in order, and one thread sends all calls on one connection, which the master reads in order. From the
  moment it reads the ACCEPT the master knows the tasks as pending and answers TASK_STAGING.
* An ACCEPT of an earlier subscription, of this process or of a leader before it, was read by the master before the new
  SUBSCRIBE or is never carried out: each call carries the id of its stream, and the master answers 400 to calls whose
  stream is not the newest one (Master::Http::scheduler). If it was read before, the task is known.
* A master that was replaced may still send launches, but an agent takes them from the master only that it has
  registered with (Slave::runTaskGroup). The new master answers TASK_GONE only for agents that have registered with it,
  and with its registration an agent says what it has taken until then.
* An agent that ended a task keeps it until the end was acknowledged, and an end is acknowledged after it is stored
  here. So a task that has no recorded start and that its agent does not know did not run to its end unseen either.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from store.records import TaskGroup

FETCH_ATTEMPTS = 5
"""So often in a row the executor of a taskgroup may fail to be fetched, then the taskgroup has failed: the address of
the scheduler may be one that the agents cannot reach, which launching again does not mend."""
FREE_LAUNCHES = 3
LONGEST_PAUSE = 60.0
"""Seconds. After FREE_LAUNCHES the next one is held back by 1, 2, 4, ... up to this."""
_RECONCILIATION = "REASON_RECONCILIATION"
_LAUNCH_FAILED = "REASON_CONTAINER_LAUNCH_FAILED"


class Report(Protocol):
    """The parts of a status update that matter here (transactions.lifecycle.Report)."""

    @property
    def state(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def unfetched(self) -> bool: ...


def did_not_happen(report: Report, group: TaskGroup) -> bool:
    """The report of the end of a task says that the taskgroup was never launched."""
    if group.started:
        return False
    if report.state == "TASK_GONE":
        return report.reason == _RECONCILIATION
    return report.unfetched and group.executor == "bcs" and group.unfetched + 1 < FETCH_ATTEMPTS


def is_due(group: TaskGroup) -> bool:
    """The taskgroup has ended without having been launched."""
    return group.ended and not group.started and group.status == "Lost"


def pause(group: TaskGroup) -> float:
    """Seconds after its end until the taskgroup is launched again. A fetch that failed is held back from the first time
    on, all others after FREE_LAUNCHES."""
    if _was_unfetched(group):
        return min(2.0**group.unfetched, LONGEST_PAUSE)
    tried = group.relaunches - FREE_LAUNCHES
    return 0.0 if tried < 0 else min(2.0 ** min(tried, 30), LONGEST_PAUSE)


def follow(group: TaskGroup, before: TaskGroup) -> TaskGroup:
    """The new taskgroup as the next launch of the one before: its restarts go on counting from there."""
    return msgspec.structs.replace(
        group,
        restarts=before.restarts,
        last_restart_at=before.last_restart_at,
        relaunches=before.relaunches + 1,
        unfetched=before.unfetched + _was_unfetched(before),
    )


def _was_unfetched(group: TaskGroup) -> bool:
    return any(task.reason == _LAUNCH_FAILED for task in group.tasks)
