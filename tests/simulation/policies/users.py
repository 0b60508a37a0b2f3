"""Random worlds: a cluster, queues, and users who ask for more than there is."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any, Literal

import msgspec

from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.placement.revisions import read_tree
from bcs_scheduler.simulator.model import START, Machine
from offers.policy.session.configuration import policy_of
from store.records import Deployment, Limits, Namespace, Queue, Strategy, Version
from store.records.definition import Amounts, Container, HealthCheck
from tests.simulation.policies.queues import Queues, SessionQueues, TreeQueues, version_of
from tests.simulation.policies.rules import Rules
from tests.simulation.policies.world import CRITICAL, QuietWorld
from tests.simulation.simulation import Result
from tests.simulation.violation import Violation
from transactions.base import Options, Periods
from transactions.rules.task_states import TaskState

Engine = Literal["session", "hierarchical"]
SPACES = ("red", "green", "blue")
"""Namespaces, each with a queue of its name."""
CORES = 1000
FULL = policy_of(
    {
        "actions": "reclaim, allocate, backfill, preempt",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
            {"plugins": [{"name": "drf"}, {"name": "predicates"}, {"name": "proportion"}, {"name": "nodeorder"}]},
        ],
    }
)
PLENTY, LITTLE = 64_000_000, 192_000
"""Memory of an agent, and memory for each core where it is scarce."""
ENDS = (TaskState.FINISHED, TaskState.FAILED)
AT_REST = 12
"""Steps between two times in which nobody asks for anything."""


class FairWorld:
    """A world of a seed. `steps` is the number of things that users and operators ask for."""

    def __init__(self, seed: int, engine: Engine, make: type[QuietWorld] = QuietWorld) -> None:
        self.chance = random.Random(f"{engine}-{seed}")
        self._more = random.Random(f"more-{engine}-{seed}")
        """Chances of what came later: so a seed stays what it is."""
        self.engine = engine
        chance = self.chance
        self._agents = chance.randint(1, 5)
        self._size = chance.choice((2, 3, 4, 4, 8))
        memory = self._size * LITTLE if self._more.random() < 0.25 else PLENTY
        machines = [machine(number, self._size * CORES, memory) for number in range(self._agents)]
        periods = Periods(launch=chance.choice((120.0, 1800.0)))
        options = CoreOptions(session_period=1.0, transactions=Options(periods=periods))
        self.document = self._tree()
        if engine == "session":
            options = replace(options, policy=FULL)
        else:
            text = json.dumps(self.document)
            options = replace(options, hierarchy=read_tree(text), hierarchy_document=text)
        self.world = make(options, machines)
        queues: Queues = SessionQueues(self.world) if engine == "session" else TreeQueues(self.world)
        self.rules = Rules(self.world, queues)
        self._names = 0
        if engine == "session":
            for name in SPACES:
                self.world.ask(requests.PutQueue(queue=self._queue(name)))
        for name in SPACES:
            queue = name if engine == "session" else ""
            namespace = Namespace(name=name, queue=queue, priority_classes=(CRITICAL,))
            self.world.ask(requests.PutNamespace(namespace=namespace))

    def run(self, steps: int) -> None:
        """Raises Violation if a rule does not hold."""
        for number in range(1, steps + 1):
            self.step()
            self._change_one()
            self.world.pass_time(self.chance.choice((0.0, 1.0, 5.0, 20.0, 40.0)))
            if number % AT_REST == 0:
                self.rules.rest()

    def step(self) -> None:
        """One thing that is asked for."""
        chance = self.chance
        work = list(self.world.state.applications.values())
        deployments = list(self.world.state.deployments.values())
        roll = chance.random()
        if roll < 0.4 or len(work) < 3:
            if len(work) < 14:
                self.world.ask(self._deployment() if chance.random() < 0.2 else self._application())
        elif roll < 0.55:
            one = chance.choice(work)
            if one.deployment:
                name = one.deployment_key.partition("/")[2]
                number = chance.randint(1, 8)
                self.world.ask(requests.ScaleDeployment(namespace=one.namespace, name=name, instances=number))
            else:
                number = chance.choice((1, 2, 3, 6, 12))
                self.world.ask(requests.ScaleApplication(namespace=one.namespace, name=one.name, instances=number))
        elif roll < 0.67:
            one = chance.choice(work)
            if one.deployment:
                name = one.deployment_key.partition("/")[2]
                self.world.ask(requests.DeleteDeployment(namespace=one.namespace, name=name))
            else:
                self.world.ask(requests.DeleteApplication(namespace=one.namespace, name=one.name))
        elif roll < 0.75 and deployments:
            self._change(chance.choice(deployments))
        elif roll < 0.84:
            self._operate()
        elif roll < 0.93:
            self._agent()
        else:
            running = [group for group in self.world.groups.values() if not group.ended]
            if running:
                self.world.end(chance.choice(running), chance.choice(ENDS))

    def _change_one(self) -> None:
        """From time to time the checks of an application begin to fail or to pass, or it is updated."""
        more, roll = self._more, self._more.random()
        work = [one for one in self.world.state.applications.values() if not one.deployment]
        if roll < 0.06:
            checked = {group.application_key for group in self.world.groups.values() if group.tasks[0].checks}
            if checked:
                self.world.flip(more.choice(sorted(checked)))
        elif roll < 0.12 and work:
            one = more.choice(work)
            version = version_of(self.world, one.key)
            assert version is not None
            wanted = Amounts(cpus=more.choice((500, 1000, 2000)), mem=64_000, disk=0)
            container = msgspec.structs.replace(version.containers[0], requests=wanted)
            version = replace_version(version, containers=(container,), priority=more.choice((0, 1, 5)))
            self.world.ask(requests.UpdateApplication(version=version))

    # --- users ------------------------------------------------------------------------------------------------

    def _version(self, namespace: str, name: str, instances: int) -> Version:
        chance = self.chance
        cpus = chance.choice((500, 500, 1000, 1000, 1000, 2000, 3000))
        if chance.random() < 0.05:
            cpus = (self._size + 1) * CORES  # larger than any agent
        gang = chance.random() < 0.25 and instances > 1
        checked = chance.random() < 0.3
        if checked and chance.random() < 0.4:
            self.world.sick.add(f"{namespace}/{name}")
        check = HealthCheck(type="COMMAND", command="true")
        container = Container(
            command="serve",
            requests=Amounts(cpus=cpus, mem=chance.choice((64_000, 64_000, 512_000)), disk=0),
            health_checks=(check,) if checked else (),
        )
        return Version(
            namespace=namespace,
            application=name,
            instances=instances,
            containers=(container,),
            priority=chance.choice((0, 0, 0, 1, 5, 9)),
            priority_class=CRITICAL if chance.random() < 0.15 else "",
            min_available=chance.randint(2, instances) if gang else 0,
            max_unavailable=chance.choice((0, 0, 1, instances)),
        )

    def _name(self) -> tuple[str, str]:
        self._names += 1
        return self.chance.choice(SPACES), f"w{self._names}"

    def _application(self) -> requests.Request:
        return requests.CreateApplication(version=self._version(*self._name(), self.chance.choice((1, 1, 2, 4, 6, 12))))

    def _deployment(self) -> requests.Request:
        namespace, name = self._name()
        version = self._version(namespace, name, self.chance.choice((1, 2, 4, 6)))
        deployment = Deployment(
            namespace=namespace,
            name=name,
            instances=version.instances,
            selector={"app": name},
            strategy=Strategy(max_unavailable=self.chance.choice((1, 2)), max_surge=self.chance.choice((0, 1))),
        )
        version = replace_version(version, labels={"app": name}, max_unavailable=0)
        return requests.CreateDeployment(deployment=deployment, version=version)

    def _change(self, deployment: Deployment) -> None:
        """Updates, pauses, resumes or cancels a deployment."""
        chance = self.chance
        namespace, name = deployment.namespace, deployment.name
        if chance.random() < 0.5:
            version = replace_version(
                self._version(namespace, name, deployment.instances), labels={"app": name}, max_unavailable=0
            )
            self.world.ask(requests.UpdateDeployment(deployment=deployment, version=version))
            return
        action: Any = chance.choice(("pause", "pause", "resume", "cancel", "restart"))
        self.world.ask(requests.ControlDeployment(namespace=namespace, name=name, action=action))

    # --- operators --------------------------------------------------------------------------------------------

    def _operate(self) -> None:
        chance = self.chance
        if self.engine == "session":
            self.world.ask(requests.PutQueue(queue=self._queue(chance.choice(SPACES))))
            return
        self.document = self._tree()
        self.world.ask(requests.PutQueueTree(document=json.dumps(self.document), author="ops"))

    def _queue(self, name: str) -> Queue:
        chance, most = self.chance, self._agents * self._size
        share = chance.choice((0, 0, 0, max(1, most // 4)))
        limit = chance.choice((None, None, None, 1, 2, max(1, most // 2)))
        return Queue(
            name=name,
            weight=chance.choice((1, 1, 2, 4)),
            guarantee=Amounts(cpus=(share if limit is None else min(share, limit)) * CORES),
            capability=Limits(cpus=None if limit is None else limit * CORES),
            reclaimable=chance.random() < 0.85,
        )

    def _tree(self) -> dict[str, Any]:
        chance, most = self.chance, self._agents * self._size
        queues: list[dict[str, Any]] = []
        for name in SPACES:
            least = chance.choice((0, 0, 1, max(1, most // 3)))
            limit = chance.choice((None, None, None, 1, 2, max(1, most // 2)))
            resources: dict[str, Any] = {}
            if least:
                resources["guaranteed"] = {"cpus": least if limit is None else min(least, limit)}
            if limit is not None:
                resources["max"] = {"cpus": limit}
            properties = {
                "preemption.delay": chance.choice(("1s", "5s", "30s")),
                "application.sort.policy": chance.choice(("fifo", "fair")),
                "quota.preemption.delay": chance.choice(("0s", "5s")),
            }
            if chance.random() < 0.1:
                properties["preemption.policy"] = chance.choice(("fence", "disabled"))
            queues.append({"name": name, "resources": resources, "properties": properties})
        if chance.random() < 0.4:
            queues = [{"name": "all", "parent": True, "queues": queues, "resources": self._parent(queues)}]
            below = {"name": "tag", "value": "namespace", "parent": {"name": "fixed", "value": "all"}}
            return {"queues": [{"name": "default"}, *queues], "placementrules": [below]}
        return {"queues": [{"name": "default"}, *queues], "placementrules": [{"name": "tag", "value": "namespace"}]}

    def other_tree(self) -> dict[str, Any]:
        """A tree at random that uses up no chance of the world."""
        kept = self.chance.getstate(), self._more.getstate()
        tree = self._tree()
        self.chance.setstate(kept[0])
        self._more.setstate(kept[1])
        return tree

    def _parent(self, queues: list[dict[str, Any]]) -> dict[str, Any]:
        """The guarantee and the maximum of a parent of these queues."""
        most, resources = self._agents * self._size, dict[str, Any]()
        least = sum(queue["resources"].get("guaranteed", {}).get("cpus", 0) for queue in queues)
        limits = [queue["resources"].get("max", {}).get("cpus", 0) for queue in queues]
        if self._more.random() < 0.5:
            least = max(least, most // 2)
            resources["guaranteed"] = {"cpus": least}
        if self._more.random() < 0.3:
            resources["max"] = {"cpus": max(least, most - 1, *limits)}
        return resources

    def _agent(self) -> None:
        """An agent is drained, or all are given back."""
        cordoned = [one for one in self.world.state.agent_settings.values() if one.disabled or one.drain]
        if (cordoned and self.chance.random() < 0.6) or self._agents < 2:
            for setting in cordoned:
                self.world.ask(requests.SetAgent(agent=setting.agent, disabled=False))
            return
        number = self.chance.randrange(self._agents)
        self.world.ask(requests.DrainAgent(agent=address(number), at_once=self.chance.choice((1, 2))))


def fair(seed: int, steps: int, engine: Engine, *, verbose: bool = False) -> Result:
    """Runs one seed; a violation is returned, with the story of its objects (`verbose`: of everything)."""
    world, violation = FairWorld(seed, engine), None
    try:
        world.run(steps)
    except Violation as caught:
        violation = caught
    quiet = world.world
    quiet.counts.update({f"refused: {error}": number for error, number in quiet.refused.items()})
    story = quiet.story() if verbose else quiet.story(violation.objects, 150) if violation is not None else []
    return Result(seed, steps, quiet.counts, violation, story, quiet.now - START)


def replace_version(version: Version, **fields: Any) -> Version:
    """The version with other fields."""
    return msgspec.structs.replace(version, **fields)


def address(number: int) -> str:
    """The name of an agent."""
    return f"10.0.0.{number + 1}"


def machine(number: int, cpus: int, memory: int = PLENTY) -> Machine:
    """An agent."""
    total = {"cpus": cpus, "mem": memory, "disk": 1_000_000_000, "gpus": 0}
    return Machine(f"agent-{number}", f"host-{number}", {"InnerIP": address(number)}, total)
