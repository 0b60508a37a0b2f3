"""Faults on demand: POST /control with a JSON object. For tests and drills; a real Mesos has nothing like it.

An agent is named by its id or host name, a task by its id. `action` is one of

    kill_agent         agent                  The machine fails: its tasks die, the agent is marked unreachable.
    partition_agent    agent                  The agent is marked unreachable, but its tasks continue.
    restart_agent      agent                  The agent registers again under the same id: tasks that still run come
                                              back, dead tasks are reported TASK_FAILED.
    gone_agent         agent                  The operator gives the agent up (TASK_GONE_BY_OPERATOR).
    bounce_agent       agent, [seconds]       The agent's process ends and starts again after that time. Custom
                                              executors of frameworks that checkpoint live on and must come back in
                                              time, or are killed; others end at once.
    pause_api          agent, [seconds]       The agent does not answer executors and readers of files, for that time
                                              or until `resume_api`.
    resume_api         agent                  Ends `pause_api`.
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
    processes                                 Lists running processes: task (of default executors), taskgroup, agent,
                                              pid, sandbox.

The answer is 200 with a JSON object (the affected objects), or 400 with {"error": ...}: then nothing was changed.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from bcs_scheduler.local.agents.process import Process
from bcs_scheduler.local.agents.process_agent import ProcessAgent
from bcs_scheduler.local.agents.synthetic import SyntheticAgent
from bcs_scheduler.local.errors import ControlError
from bcs_scheduler.local.master.master import Master
from bcs_scheduler.local.objects.model import TERMINAL, Agent, Executor, Task
from bcs_scheduler.local.transport.http import Request, response
from bcs_scheduler.local.transport.stream import JSON
from bcs_scheduler.mesos.proto import mesos_pb2 as pb
from bcs_scheduler.tasks import background

Arguments = dict[str, Any]

MOST = 9e9
"""Seconds, counts and Unix times of arguments at most: nanoseconds of it do not overflow."""


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

    def _act(self, request: Request) -> Arguments:
        if request.method != "POST":
            raise ControlError("only POST is understood")
        try:
            arguments = json.loads(request.body)
        except (ValueError, RecursionError) as error:
            raise ControlError(f"the body is not JSON: {error}") from None
        if not isinstance(arguments, dict) or arguments.get("action") not in tuple(self._actions):
            raise ControlError(f"action must be one of {', '.join(self._actions)}")
        return self._actions[arguments["action"]](arguments)

    # --- agents ---

    def _agent(self, arguments: Arguments) -> Agent:
        """Raises ControlError if there is none of that name, or it is gone for good."""
        master, name = self._master, _text(arguments, "agent")
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
        agent, seconds = self._process_agent(arguments), _number(arguments, "seconds", 0.0)
        self._master.bounce(agent)
        self._start(self._come_back(agent, seconds))
        return {"agent": agent.id}

    async def _come_back(self, agent: ProcessAgent, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await agent.recover()
        self._master.return_agent(agent)

    def _pause_api(self, arguments: Arguments) -> Arguments:
        agent = self._process_agent(arguments)
        seconds = _number(arguments, "seconds") if "seconds" in arguments else None
        agent.pause_api()
        if seconds is not None:
            self._start(self._resume_after(agent, seconds))
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
        duration = _number(arguments, "duration") if arguments.get("duration") is not None else None
        self._master.plan_maintenance(agent, _number(arguments, "start"), duration)
        return {"agent": agent.id}

    def _end_maintenance(self, arguments: Arguments) -> Arguments:
        agent = self._registered(arguments)
        self._master.end_maintenance(agent)
        return {"agent": agent.id}

    # --- messages ---

    def _drop_updates(self, arguments: Arguments) -> Arguments:
        self._master.tasks.faults.drop = _count(arguments)
        return {}

    def _duplicate_updates(self, arguments: Arguments) -> Arguments:
        self._master.tasks.faults.duplicate = _count(arguments)
        return {}

    def _delay_updates(self, arguments: Arguments) -> Arguments:
        faults = self._master.tasks.faults
        faults.delay_count, faults.delay_seconds = _count(arguments), _number(arguments, "seconds")
        return {}

    def _drop_messages(self, arguments: Arguments) -> Arguments:
        self._master.tasks.faults.drop_messages = _count(arguments)
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

    def _chosen(self, arguments: Arguments) -> list[Task]:
        tasks = self._running()
        if "tasks" in arguments:
            if not isinstance(arguments["tasks"], list):
                raise ControlError("tasks must be a list")
            return [task for task in tasks if task.id in arguments["tasks"]]
        if "taskgroup" in arguments:
            return [task for task in tasks if task.executor.id == arguments["taskgroup"]]
        fraction, seed = _number(arguments, "fraction"), arguments.get("seed")
        if fraction > 1:
            raise ControlError("fraction must be from 0 to 1")
        if not isinstance(seed, int | float | str | None):
            raise ControlError("seed must be a number or a text")
        return random.Random(seed).sample(tasks, round(len(tasks) * fraction))

    def _fail_tasks(self, arguments: Arguments) -> Arguments:
        tasks = self._chosen(arguments)
        state = pb.TaskState.DESCRIPTOR.values_by_name.get(_text(arguments, "state", "TASK_FAILED"))
        if state is None or state.number not in TERMINAL:
            raise ControlError("state must be terminal")
        message = _text(arguments, "message", "")
        for task in tasks:
            if isinstance(task.agent, SyntheticAgent):
                task.agent.end(task, state.number, message)
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


def _number(arguments: Arguments, name: str, default: float | None = None) -> float:
    """Of the argument, which is finite and not negative. Raises ControlError."""
    value = arguments.get(name, default)
    if isinstance(value, str):  # of a shell
        with suppress(ValueError):
            value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise ControlError(f"{name} must be a number from 0 to {MOST:g}")
    return float(value)


def _count(arguments: Arguments) -> int:
    """Raises ControlError."""
    return int(_number(arguments, "count"))


def _text(arguments: Arguments, name: str, default: str | None = None) -> str:
    """Raises ControlError."""
    value = arguments.get(name, default)
    if not isinstance(value, str):
        raise ControlError(f"{name} must be a text")
    return value


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
