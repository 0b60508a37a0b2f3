"""What-if: the changes for taskgroups that wait, beside N running taskgroups on A agents, in the core alone.

    whatif-N-A    processor time of one thread from the question to the answer, by policy, and beside a tenth of N

The agents are full but for a tenth, one agent in fifty is cordoned, and half of the taskgroups are less important than
those that wait. With `session` and `hierarchical`, the queue holds a second application back. Each case fails above
`SECONDS`, or if N taskgroups cost more than `GROWTH` times as much as a tenth of them, which are ten times as large.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from bcs_scheduler.core.interface import cluster_manager, effects, leased, requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from benchmarks.load import Result
from benchmarks.processes import Failure
from offers.agents import ListedAgent
from offers.model import Offer, ResourceKey
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.session.configuration import DEFAULT, policy_of
from store.records import Application, Namespace, Queue, Record, TaskGroup, Version
from store.records.definition import Amounts, Container
from store.records.objects import Limits
from transactions.rules.task_states import TaskState

KINDS = ("whatif",)
CASES = ("whatif-50000-5000",)
SECONDS = 1.0
"""The longest time from the question to the answer."""
GROWTH = 2.0
"""The time with N taskgroups may be so many times the time with a tenth of them on as many agents."""
APPLICATIONS = 50
NOW = 1.7e9
CPUS, MEM, DISK, PORTS = (ResourceKey(name, "*") for name in ("cpus", "mem", "disk", "ports"))
EACH, SPARE, EMPTY = 110, 50, 3000
"""Thousandths of a core of a taskgroup with its executor, of an agent beside its taskgroups, of a cordoned agent."""
EXECUTOR = 10
"""Thousandths of a core of the executor."""
TREE: dict[str, Any] = {
    "queues": [{"name": "small", "resources": {"max": {"cpus": 0.5}}}],
    "placementrules": [{"name": "tag", "value": "namespace", "create": True}],
}
POLICIES: dict[str, dict[str, Any]] = {
    "simple": {},
    "session": {"policy": policy_of(DEFAULT)},
    "hierarchical": {"hierarchy": partition_of(TREE, ("cpus", "mem"))},
}


def whatif(case: str, taskgroups: int, agents: int) -> Result:
    """Runs one case. The result names the bounds that are missed."""
    missed: list[str] = []
    parts: dict[str, float] = {}
    for policy in POLICIES:
        few = _measured(policy, taskgroups // 10, agents, 10 * EACH)
        many = _measured(policy, taskgroups, agents, EACH)
        parts |= {f"{policy}_{name}": round(seconds, 4) for name, seconds in many.items()}
        parts |= {f"{policy}_{name}_tenth": round(seconds, 4) for name, seconds in few.items()}
        for name, seconds in many.items():
            if seconds > SECONDS:
                missed.append(f"{policy}, {name}: {seconds:.2f} s, {SECONDS} s at most")
            if seconds > GROWTH * max(few[name], 0.05):
                words = f"{seconds:.2f} s with {taskgroups} taskgroups, {few[name]:.2f} s with a tenth"
                missed.append(f"{policy}, {name}: {words}")
    slowest = max(seconds for name, seconds in parts.items() if not name.endswith("tenth"))
    return Result(case, "none", agents, taskgroups, slowest, 1 / slowest, parts=parts, missed="; ".join(missed))


def _measured(policy: str, taskgroups: int, agents: int, each: int) -> dict[str, float]:
    """Seconds of processor time of the questions, by the reason why taskgroups wait. `each`: thousandths of a core of a
    running taskgroup."""
    core, now = _loaded(policy, taskgroups, agents, each)
    found = {"room": _asked(core, now, "default", "large", {"preemptTaskgroups", "uncordonAgents"})}
    if policy != "simple":
        _offer_rooms(core, now, agents)
        found["queue"] = _asked(core, now, "small", "held", {"raiseQueueLimit"})
    return found


def _offer_rooms(core: Core, now: float, agents: int) -> None:
    """One agent in fifty is empty and cordoned; the others offer what their taskgroups leave."""
    for number in range(agents):
        core.turn_context.pool.hand.remove_agent(f"agent-{number}")
    room = tuple(_offer(number, SPARE if number % 50 else EMPTY) for number in range(agents))
    core.turn([leased.OffersArrived(offers=room)], now)


def _asked(core: Core, began_at: float, namespace: str, name: str, kinds: set[str]) -> float:
    gc.collect()
    gc.disable()
    try:
        began, now = time.process_time(), began_at
        inputs: list[requests.Request] = [requests.AskWhatIf(token=999, namespace=namespace, name=name)]
        while True:
            units = core.turn(inputs, now)
            inputs = []
            replies = [one for unit in units for one in unit.effects if isinstance(one, effects.Reply)]
            now = began_at + time.process_time() - began
            if replies:
                break
        seconds = time.process_time() - began
    finally:
        gc.enable()
    told = {change["kind"] for one in replies[0].data["solutions"] for change in one["changes"]}
    if not told >= kinds:
        raise Failure(f"the answer has {sorted(told)}, not {sorted(kinds)}: {replies[0]}")
    return seconds


def _loaded(policy: str, taskgroups: int, agents: int, each: int) -> tuple[Core, float]:
    """A core with running taskgroups on full agents, and two applications that wait; the time."""
    size = -(-taskgroups // agents) * each + SPARE
    core = _connected(list(_records(taskgroups, agents, each)), policy, agents, size)
    cordons = [requests.SetAgent(agent=f"10.0.{number}", disabled=True) for number in range(0, agents, 50)]
    core.turn(cordons, NOW + 11)
    waiting = [_create("default", "large", 40, 300, 1), _create("small", "held", 20, 30, 0)]
    core.turn(waiting, NOW + 12)
    _offer_rooms(core, NOW + 13, agents)
    for number in range(4):
        core.turn([], NOW + 13 + number * 0.2)
    _offer_rooms(core, NOW + 14, agents)
    if len(core.state.taskgroups) < taskgroups:
        raise Failure(f"{len(core.state.taskgroups)} of {taskgroups} taskgroups run")
    return core, NOW + 14


def _connected(records: list[Record], policy: str, agents: int, size: int) -> Core:
    core = Core(records, CoreOptions(session_period=0.1, max_priority=1, **POLICIES[policy]), NOW + 10)
    core.turn([cluster_manager.Connected(framework_id="framework", cluster="bench")], NOW + 10)
    core.turn([cluster_manager.AgentsListed(agents=tuple(_listed(n, size) for n in range(agents)))], NOW + 10)
    return core


def _records(taskgroups: int, agents: int, each: int) -> Iterator[Record]:
    """Applications with running taskgroups in equal numbers on all agents: one of each is launched, and copied."""
    core = _connected([], "simple", 1, APPLICATIONS * each)
    core.turn([leased.OffersArrived(offers=(_offer(0, APPLICATIONS * each),))], NOW + 10)
    core.turn([_create("default", f"load-{n:02}", 1, each - EXECUTOR, n % 2) for n in range(APPLICATIONS)], NOW + 10)
    for number in range(10):
        core.turn([], NOW + 10 + number * 0.01)
    updates = [
        cluster_manager.StatusUpdate(task_id=task.id, state=TaskState("RUNNING"), agent_id=group.agent_id, uuid=b"u")
        for group in core.state.taskgroups.values()
        for task in group.tasks
    ]
    core.turn(updates, NOW + 10.2)
    yield from (Queue(name="small", capability=Limits(cpus=500)), Namespace(name="small", queue="small"))
    instances, serial = taskgroups // APPLICATIONS, 0
    for record in core.state.records():
        if isinstance(record, Application | Version):
            yield msgspec.structs.replace(record, instances=instances)
        elif isinstance(record, TaskGroup):
            for index in range(instances):
                yield _copied(record, index, serial % agents, serial)
                serial += 1


def _copied(group: TaskGroup, index: int, agent: int, serial: int) -> TaskGroup:
    """The taskgroup of another index on another agent."""
    rest = group.id.partition(".")[2].rpartition(".")[0]
    identity = f"{index}.{rest}.{int(NOW * 1e9) + serial}"
    tasks = tuple(
        msgspec.structs.replace(task, id=f"{number}.{identity}", ports=()) for number, task in enumerate(group.tasks)
    )
    place = _listed(agent, 0)
    return msgspec.structs.replace(
        group, id=identity, index=index, tasks=tasks, agent_id=place.id, agent_ip=place.ip, hostname=place.hostname
    )


def _create(namespace: str, name: str, instances: int, cpus: int, priority: int) -> requests.Request:
    container = Container(command="serve", requests=Amounts(cpus=cpus, mem=32_000, disk=0))
    version = Version(
        namespace=namespace, application=name, instances=instances, containers=(container,), priority=priority,
        max_unavailable=100,
    )  # fmt: skip
    return requests.CreateApplication(version=version, token=1)


def _listed(number: int, cpus: int) -> ListedAgent:
    total = {"cpus": cpus, "mem": 64_000_000, "disk": 64_000_000}
    return ListedAgent(
        id=f"agent-{number}",
        hostname=f"host-{number}.example",
        ip=f"10.0.{number}",
        attributes={"InnerIP": f"10.0.{number}"},
        total=total,
    )


def _offer(number: int, cpus: int) -> Offer:
    return Offer(
        id=f"offer-{cpus}-{number}",
        agent_id=f"agent-{number}",
        hostname=f"host-{number}.example",
        ip=f"10.0.{number}",
        role="*",
        attributes={"InnerIP": f"10.0.{number}"},
        scalars=((CPUS, cpus), (MEM, 16_000_000), (DISK, 64_000_000)),
        ranges=((PORTS, ((31000, 31099),)),),
    )
