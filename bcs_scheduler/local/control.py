"""Faults on demand: POST /control with a JSON object. For tests and drills; a real Mesos has nothing like it.

An agent is named by its id or host name, a task by its id. `action` is one of

    kill_agent         agent                  The machine fails: its tasks die, it is marked unreachable.
    partition_agent    agent                  It is marked unreachable, but its tasks go on.
    restart_agent      agent                  It registers again under the same id: tasks that ran on come back, those
                                              that died are reported TASK_FAILED.
    gone_agent         agent                  The operator gives it up (TASK_GONE_BY_OPERATOR).
    bounce_agent       agent, [seconds]       Its process ends and starts again after that time. Custom executors of
                                              frameworks that checkpoint live on and must come back in time, or are
                                              killed; others end at once.
    pause_api          agent, [seconds]       It does not answer executors and readers of files, for that time or until
    resume_api         agent                  this.
    drop_updates       count                  The next status updates are lost on their way to the master.
    duplicate_updates  count                  The next status updates arrive twice.
    delay_updates      count, seconds         The next status updates are late.
    drop_messages      count                  The next messages between scheduler and executors are lost.
    rescind_offers     [agent]                All offers, or those of one agent.
    fail_tasks         tasks | taskgroup | fraction [seed], [state], [message]
                                              Tasks by id, by executor id, or a share of all that run, end. Synthetic
                                              tasks end in any terminal `state` (TASK_FAILED); real ones are killed with
                                              SIGKILL.
    disconnect_frameworks  [framework]        Their event streams break.
    maintenance        agent, start, [duration]   Planned from `start` (Unix seconds): inverse offers go out.
    end_maintenance    agent
    tasks                                     Counts tasks by state, and those with updates that are not acknowledged.
    processes                                 Lists what runs: task (of default executors), taskgroup, agent, pid,
                                              sandbox.

The answer is 200 with a JSON object (what was hit), or 400 with {"error": ...}.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from bcs_scheduler.local.agent import Agent
from bcs_scheduler.local.errors import ControlError
from bcs_scheduler.local.http import Request, response
from bcs_scheduler.local.master import Master
from bcs_scheduler.local.model import TERMINAL, Executor, Task
from bcs_scheduler.local.process import Process
from bcs_scheduler.local.process_agent import ProcessAgent
from bcs_scheduler.local.stream import JSON
from bcs_scheduler.local.synthetic import SyntheticAgent
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.tasks import background

Arguments = dict[str, Any]


class Control:
    def __init__(self, master: Master) -> None:
        self._master = master
        self._actions: dict[str, Callable[[Arguments], Arguments]] = {
            name: getattr(self, f"_{name}")
            for name in (
                "kill_agent", "partition_agent", "restart_agent", "gone_agent", "bounce_agent", "pause_api",
                "resume_api", "drop_updates", "duplicate_updates", "delay_updates", "drop_messages", "rescind_offers",
                "fail_tasks", "disconnect_frameworks", "maintenance", "end_maintenance", "tasks", "processes",
            )
        }  # fmt: skip
        self._under_way: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Nothing comes back any more."""
        for task in self._under_way:
            task.cancel()

    def __call__(self, request: Request) -> bytes:
        try:
            return _answer(200, self._act(request))
        except ControlError as error:
            return _answer(400, {"error": str(error)})
        except (KeyError, TypeError, ValueError) as error:
            return _answer(400, {"error": f"{type(error).__name__}: {error}"})

    def _act(self, request: Request) -> Arguments:
        if request.method != "POST":
            raise ControlError("only POST is understood")
        arguments = json.loads(request.body)
        if not isinstance(arguments, dict) or arguments.get("action") not in self._actions:
            raise ControlError(f"action must be one of {', '.join(self._actions)}")
        return self._actions[arguments["action"]](arguments)

    # --- agents ---

    def _agent(self, arguments: Arguments) -> Agent:
        """Raises ControlError if there is none of that name, or it is gone for good."""
        master, name = self._master, arguments["agent"]
        for agent in [*master.agents.values(), *(lost.agent for lost in master.unreachable.values())]:
            if name in (agent.id, agent.spec.hostname):
                return agent
        raise ControlError(f"there is no agent {name!r}")

    def _registered(self, arguments: Arguments) -> Agent:
        agent = self._agent(arguments)
        if not agent.connected:
            raise ControlError(f"agent {agent.spec.hostname} is not connected")
        return agent

    def _kill_agent(self, arguments: Arguments) -> Arguments:
        agent = self._registered(arguments)
        agent.destroy()
        self._master.lose_agent(agent)
        return {"agent": agent.id}

    def _partition_agent(self, arguments: Arguments) -> Arguments:
        agent = self._registered(arguments)
        self._master.lose_agent(agent)
        return {"agent": agent.id}

    def _restart_agent(self, arguments: Arguments) -> Arguments:
        agent = self._agent(arguments)
        self._master.return_agent(agent)
        if isinstance(agent, ProcessAgent):
            self._start(agent.resume_api())
        return {"agent": agent.id}

    def _gone_agent(self, arguments: Arguments) -> Arguments:
        agent = self._agent(arguments)
        self._master.mark_gone(agent)
        return {"agent": agent.id}

    def _bounce_agent(self, arguments: Arguments) -> Arguments:
        agent = self._process_agent(arguments)
        self._master.bounce(agent)
        self._start(self._come_back(agent, float(arguments.get("seconds", 0.0))))
        return {"agent": agent.id}

    async def _come_back(self, agent: ProcessAgent, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await agent.recover()
        self._master.return_agent(agent)

    def _pause_api(self, arguments: Arguments) -> Arguments:
        agent = self._process_agent(arguments)
        seconds = arguments.get("seconds")
        agent.pause_api()
        if seconds is not None:
            self._start(self._resume_after(agent, float(seconds)))
        return {"agent": agent.id}

    async def _resume_after(self, agent: ProcessAgent, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await agent.resume_api()

    def _resume_api(self, arguments: Arguments) -> Arguments:
        agent = self._process_agent(arguments)
        self._start(agent.resume_api())
        return {"agent": agent.id}

    def _process_agent(self, arguments: Arguments) -> ProcessAgent:
        agent = self._registered(arguments)
        if not isinstance(agent, ProcessAgent):
            raise ControlError("synthetic agents have no executors")
        return agent

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = background(work, "control")
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def _maintenance(self, arguments: Arguments) -> Arguments:
        agent = self._registered(arguments)
        self._master.plan_maintenance(agent, float(arguments["start"]), arguments.get("duration"))
        return {"agent": agent.id}

    def _end_maintenance(self, arguments: Arguments) -> Arguments:
        agent = self._registered(arguments)
        self._master.end_maintenance(agent)
        return {"agent": agent.id}

    # --- messages ---

    def _drop_updates(self, arguments: Arguments) -> Arguments:
        self._master.tasks.faults.drop = int(arguments["count"])
        return {}

    def _duplicate_updates(self, arguments: Arguments) -> Arguments:
        self._master.tasks.faults.duplicate = int(arguments["count"])
        return {}

    def _delay_updates(self, arguments: Arguments) -> Arguments:
        faults = self._master.tasks.faults
        faults.delay_count, faults.delay_seconds = int(arguments["count"]), float(arguments["seconds"])
        return {}

    def _drop_messages(self, arguments: Arguments) -> Arguments:
        self._master.tasks.faults.drop_messages = int(arguments["count"])
        return {}

    def _rescind_offers(self, arguments: Arguments) -> Arguments:
        known = self._agent(arguments).offers if "agent" in arguments else self._master.offers.known
        offers = list(known.values())
        for offer in offers:
            self._master.offers.rescind(offer)
        return {"offers": [offer.id for offer in offers]}

    def _disconnect_frameworks(self, arguments: Arguments) -> Arguments:
        wanted = arguments.get("framework")
        hit = [f for f in self._master.frameworks.values() if f.stream is not None and wanted in (None, f.id)]
        for framework in hit:
            if framework.stream is not None:
                framework.stream.abort()
        return {"frameworks": [framework.id for framework in hit]}

    # --- tasks ---

    def _running(self) -> list[Task]:
        tasks = [task for agent in self._master.agents.values() for task in agent.tasks.values()]
        return [task for task in tasks if task.latest not in TERMINAL]

    def _tasks(self, arguments: Arguments) -> Arguments:
        tasks = [task for agent in self._master.agents.values() for task in agent.tasks.values()]
        states = Counter(task.latest for task in tasks)
        return {
            "states": {pb.TaskState.Name(state): count for state, count in states.items()},
            "unacknowledged": sum(1 for task in tasks if task.pending),
        }

    def _fail_tasks(self, arguments: Arguments) -> Arguments:
        tasks = self._running()
        if "tasks" in arguments:
            tasks = [task for task in tasks if task.id in arguments["tasks"]]
        elif "taskgroup" in arguments:
            tasks = [task for task in tasks if task.executor.id == arguments["taskgroup"]]
        else:
            count = round(len(tasks) * float(arguments["fraction"]))
            tasks = random.Random(arguments.get("seed")).sample(tasks, count)
        state = pb.TaskState.Value(arguments.get("state", "TASK_FAILED"))
        if state not in TERMINAL:
            raise ControlError("state must be terminal")
        for task in tasks:
            if isinstance(task.agent, SyntheticAgent):
                task.agent.end(task, state, arguments.get("message", ""))
            elif isinstance(task.agent, ProcessAgent):
                task.agent.strike(task, signal.SIGKILL)
        return {"tasks": [task.id for task in tasks]}

    def _processes(self, arguments: Arguments) -> Arguments:
        agents = [agent for agent in self._master.agents.values() if isinstance(agent, ProcessAgent)]
        tasks = [
            _process(run.task.executor, run.process, run.sandbox, run.task.id) for a in agents for run in a.task_runs
        ]
        executors = [_process(run.executor, run.process, run.sandbox) for a in agents for run in a.custom_executors]
        return {"processes": [entry for entry in tasks + executors if entry["pid"]]}


def _process(executor: Executor, process: Process, sandbox: Path, task: str = "") -> Arguments:
    """A custom executor itself has no task id."""
    return {
        "task": task,
        "taskgroup": executor.id,
        "agent": executor.agent.spec.hostname,
        "pid": process.pid,
        "sandbox": str(sandbox),
    }


def _answer(status: int, body: Arguments) -> bytes:
    return response(status, json.dumps(body).encode(), JSON)
