"""Launches that did not happen according to Mesos, and why that is certain (transactions.rules.taskgroups.relaunch).

Answers of Mesos 1.11 to a partition-aware framework about a task that never started (reconcileTask, accept and
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
  SUBSCRIBE or is never carried out. Each call carries the id of its stream, and the master answers 400 to calls whose
  stream is not the newest one (Master::Http::scheduler). If it was read before, the task is known.
* A master that was replaced may still send launches, but an agent takes them from the master only that it has
  registered with (Slave::runTaskGroup). The new master answers TASK_GONE only for agents that have registered with it,
  and with its registration an agent reports the tasks that it has taken until then.
* An agent that ended a task keeps it until the end was acknowledged, and an end is acknowledged after it is stored
  here. So a task that has no recorded start and that its agent does not know did not run to its end unseen either.
"""
