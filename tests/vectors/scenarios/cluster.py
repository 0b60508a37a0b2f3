"""Plays vectors of the area `cluster`: a whole scheduler over a cluster without faults, in virtual time.

`input.agents`: cores by name of an agent. `input.policy`: a policy of sessions (with `actions` and `tiers`) or a tree
of queues (with `queues`) as in its file; without it demands are placed in the order of their arrival. `input.queues`:
records of queues for sessions, with `name`, `weight`, `guarantee`, `capability` (cores) and `reclaimable`.
`input.namespaces`: the queue that each namespace names. A step is an object with one of these as `step`:

create app instances cpus    an application ``NAMESPACE/NAME``; also `priority`, `min_available`, `max_unavailable`,
                             `critical`, and `checks`: "pass" or "fail"
scale app instances          delete app                 drain agent at_once         cordon agent, uncordon agent
wait seconds                 time passes; after it nothing has to be at rest
stream app cpus lasts waiting seconds
                             so many seconds pass while `waiting` applications of one taskgroup each wait: `app` with a
                             number. Each runs `lasts` seconds. `running`, `ready`, `waiting` leave them out, and they
                             are `app` in `evicted`

`expect` may name, at the end: `running` and `ready` (number of taskgroups by application), `evicted` (number of
evictions by application, of the whole run), `drains` (phase by agent), `waiting` (number of places by application).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.options import CoreOptions
from offers.policy.hierarchy.configuration.document import canonical, partition_of
from offers.policy.session.configuration import policy_of
from store.records import Limits, Namespace, Queue, TaskGroup, Version
from store.records.definition import Amounts, Container, HealthCheck, RestartPolicy
from store.state.unit_of_work import Unit
from tests.simulation.policies.queues import asks
from tests.simulation.policies.users import machine
from tests.simulation.policies.world import CRITICAL, QuietWorld
from tests.simulation.readiness import ready
from tests.vectors.reading import PolicyVector
from tests.vectors.scenarios.gangs import known

FIELDS: Mapping[str, tuple[str, ...]] = {
    "create": (
        "app", "instances", "cpus", "priority", "min_available", "max_unavailable", "critical", "checks",
    ),
    "scale": ("app", "instances"),
    "delete": ("app",),
    "drain": ("agent", "at_once"),
    "cordon": ("agent",),
    "uncordon": ("agent",),
    "wait": ("seconds",),
    "stream": ("app", "cpus", "lasts", "waiting", "seconds"),
}  # fmt: skip


def play(vector: PolicyVector) -> dict[str, Any]:
    """What the vector may expect after its steps. Raises ValueError for a step or a field that is unknown, and for a
    step that the scheduler refuses."""
    given = vector.input
    known("input", given, "agents", "policy", "queues", "namespaces", "steps")
    played = Played(given)
    for number, step in enumerate(given["steps"]):
        name = step.get("step")
        if name not in FIELDS:
            raise ValueError(f"input steps[{number}]: unknown step {name}")
        known(f"input steps[{number}]", step, "step", *FIELDS[name])
        played.carry_out(step)
    return played.found()


class Played:
    def __init__(self, given: Mapping[str, Any]) -> None:
        self._agents = list(given["agents"])
        machines = [machine(number, _amount(cores)) for number, cores in enumerate(given["agents"].values())]
        self._world = QuietWorld(_options(given.get("policy")), machines)
        self._evicted: Counter[str] = Counter()
        self._stream_of: dict[str, str] = {}
        """The name of the stream of each application of one, by key."""
        self._world.decided = self._decided
        for queue in given.get("queues", ()):
            known("input queues", queue, "name", "weight", "guarantee", "capability", "reclaimable")
            self._ask(requests.PutQueue(queue=_queue(queue)))
        queues = given.get("namespaces", {})
        spaces = {str(step["app"]).partition("/")[0] for step in given["steps"] if step.get("step") == "create"}
        for name in sorted(spaces | set(queues)):
            namespace = Namespace(name=name, queue=queues.get(name, ""), priority_classes=(CRITICAL,))
            self._ask(requests.PutNamespace(namespace=namespace))

    def _decided(self, unit: Unit, before: Mapping[str, TaskGroup]) -> None:
        for change in unit.changes:
            old, new = before.get(change.key), change.record
            if isinstance(old, TaskGroup) and isinstance(new, TaskGroup) and old.end_cause != new.end_cause:
                name = new.application_key
                self._evicted[self._stream_of.get(name, name)] += new.end_cause == "Evicted"

    def _ask(self, request: requests.Request) -> None:
        reply = self._world.ask(request)
        if reply is not None and reply.error:
            raise ValueError(f"the scheduler refuses: {reply.message}")

    def carry_out(self, step: Mapping[str, Any]) -> None:
        """One step."""
        namespace, _, name = str(step.get("app", "")).partition("/")
        agent = f"10.0.0.{self._agents.index(step['agent']) + 1}" if "agent" in step else ""
        match step["step"]:
            case "create":
                if step.get("checks") == "fail":
                    self._world.sick.add(step["app"])
                self._ask(requests.CreateApplication(version=_version(namespace, name, step)))
            case "scale":
                number = step["instances"]
                self._ask(requests.ScaleApplication(namespace=namespace, name=name, instances=number))
            case "delete":
                self._ask(requests.DeleteApplication(namespace=namespace, name=name))
            case "drain":
                self._ask(requests.DrainAgent(agent=agent, at_once=step.get("at_once", 1)))
            case "cordon" | "uncordon":
                self._ask(requests.SetAgent(agent=agent, disabled=step["step"] == "cordon"))
            case "wait":
                self._world.pass_time(step["seconds"])
            case "stream":
                self._stream(namespace, name, step)

    def _stream(self, namespace: str, name: str, step: Mapping[str, Any]) -> None:
        end = self._world.now + step["seconds"]
        while self._world.now < end:
            waiting = sum(ask.application in self._stream_of for ask in asks(self._world))
            if waiting >= step["waiting"]:
                self._world.pass_time(1.0)
                continue
            one = f"{name}-{len(self._stream_of)}"
            self._stream_of[f"{namespace}/{one}"] = step["app"]
            self._world.lasts[f"{namespace}/{one}"] = step["lasts"]
            given = {"instances": 1, "cpus": step["cpus"]}
            wanted = _version(namespace, one, given)
            finite = msgspec.structs.replace(wanted, restart_policy=RestartPolicy(policy="OnFailure"))
            self._ask(requests.CreateApplication(version=finite))

    def found(self) -> dict[str, Any]:
        """The result in the fields of `expect`."""
        running = Counter(g.application_key for g in self._world.groups.values() if g.status == "Running")
        settings = self._world.state.agent_settings
        drains = {
            name: setting.drain.phase
            for number, name in enumerate(self._agents, 1)
            if (setting := settings.get(f"10.0.0.{number}")) is not None and setting.drain is not None
        }
        found = {
            "running": running,
            "ready": Counter(g.application_key for g in self._world.groups.values() if ready(g)),
            "waiting": Counter(ask.application for ask in asks(self._world)),
        }
        return {
            **{field: self._without_streams(counts) for field, counts in found.items()},
            "evicted": {name: number for name, number in self._evicted.items() if number},
            "drains": drains,
        }

    def _without_streams(self, counts: Mapping[str, int]) -> dict[str, int]:
        return {name: number for name, number in counts.items() if name not in self._stream_of}


def _options(policy: Mapping[str, Any] | None) -> CoreOptions:
    options = CoreOptions()
    if policy is None:
        return options
    if "queues" in policy:
        partition = partition_of(policy, ("cpus", "mem"))
        return replace(options, hierarchy=partition, hierarchy_document=canonical(policy))
    return replace(options, policy=policy_of(policy))


def _amount(cores: float) -> int:
    return round(cores * 1000)


def _queue(given: Mapping[str, Any]) -> Queue:
    capability = given.get("capability")
    return Queue(
        name=given["name"],
        weight=given.get("weight", 1),
        guarantee=Amounts(cpus=_amount(given.get("guarantee", 0))),
        capability=Limits(cpus=None if capability is None else _amount(capability)),
        reclaimable=given.get("reclaimable", True),
    )


def _version(namespace: str, name: str, given: Mapping[str, Any]) -> Version:
    checks = (HealthCheck(type="COMMAND", command="true"),) if "checks" in given else ()
    wanted = Amounts(cpus=_amount(given["cpus"]), mem=64_000, disk=0)
    return Version(
        namespace=namespace,
        application=name,
        instances=given["instances"],
        containers=(Container(command="serve", requests=wanted, health_checks=checks),),
        priority=given.get("priority", 0),
        priority_class=CRITICAL if given.get("critical") else "",
        min_available=given.get("min_available", 0),
        max_unavailable=given.get("max_unavailable", 0),
    )
