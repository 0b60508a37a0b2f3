"""What queues, gangs and reservations add to a soak: a cluster that is always full.

The user's applications have two cores for each taskgroup, and some are gangs that gather their room with placeholders.
An application of another queue, the filler, takes all the room that is left. The queue of the user has a
guarantee above what the user can want, so the filler loses taskgroups to the user. In some rounds an operator lowers
the maximum of the filler's queue.

On a cluster that has settled,

* all work of the user runs, although the filler wants the whole cluster
* no placeholder, no reservation in Mesos and no filler above the maximum of its queue is left
* the filler has all the room that is left
* the figures of the queues are the numbers of taskgroups
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Literal

import requests

from tests.integration.chaos import Record
from tests.integration.mesoscluster import RealMesos
from tests.integration.schedulerprocess import SchedulerProcess, document

Form = Literal["sleep", "reserve", "hold"]
FORMS: tuple[Form, ...] = ("sleep", "reserve", "hold")
ROLE = "soak"
FILLER, BATCH = "filler", "batch"
"""The application that takes the room that is left, and its namespace and queue."""
PLACES = 12
"""Taskgroups for which the agents have room (tests.integration.soakfaults.SCALARS)."""
WIDTH = 2
"""Cores of a taskgroup."""
GUARANTEED = 10
"""Taskgroups in the guarantee of the user's queue; the user wants nine at most."""
LOWERED = 2
"""Taskgroups that the filler's queue may have at most after some changes of the tree."""
GANGS = "ab"
"""Last letters of the names of applications that are gangs with a reservation."""
LEAST = 2
"""Taskgroups that start at the same time, of each gang. The user never wants fewer."""
SETTLED = 60.0
"""Seconds after contact within which the rules must hold. Evictions need starts of executors one after the other."""
EVENTS = (
    "ReservationStarted",
    "ReservationComplete",
    "ReservationTimedOut",
    "ApplicationPreempting",
    "TaskGroupEvicted",
)
RESERVATION = {
    "yunikorn.apache.org/schedulingPolicyParameters": "placeholderTimeoutInSeconds=20 gangSchedulingStyle=Soft"
}


def tree(most: int) -> dict[str, Any]:
    """The queues. `most`: taskgroups of the filler's queue at most."""
    return {
        "queues": [
            {
                "name": "default",
                "resources": {"guaranteed": {"cpus": GUARANTEED * WIDTH}},
                "properties": {"preemption.delay": "1s"},
            },
            {
                "name": BATCH,
                "resources": {"max": {"cpus": most * WIDTH}},
                "properties": {"quota.preemption.delay": "1s"},
            },
        ],
        "placementrules": [{"name": "tag", "value": "namespace"}],
    }


class Policies:
    """Hierarchical queues, and placeholders of one form."""

    def __init__(self, form: Form, seed: int) -> None:
        self.form = form
        self._random = Random(f"{seed} policies")
        self.changes: Counter[str] = Counter()

    @property
    def settings(self) -> dict[str, str]:
        """Of the schedulers."""
        return {
            "scheduler__policy": "hierarchical",
            "scheduler__placeholders": self.form,
            "mesos__roles": ROLE,
        }

    def shape(self, made: Record) -> None:
        """Makes the document of a user's application a gang with a reservation, or none, by its name."""
        (container,) = made["spec"]["template"]["spec"]["containers"]
        container["resources"] = {"limits": {"cpu": str(WIDTH), "memory": "32"}}
        if made["metadata"]["name"][-1] in GANGS:
            made["spec"]["minAvailable"] = LEAST
            made["metadata"]["annotations"] = dict(RESERVATION)

    def prepare(self, leader: SchedulerProcess) -> None:
        """Creates the tree of queues, and the filler."""
        leader.call("PUT", "/queuetree", tree(PLACES))
        filler = document(FILLER, PLACES, ["/bin/sleep", "1000"])
        filler["metadata"]["namespace"] = BATCH
        filler["executor"] = "mesos"  # starts with a tenth of the processor time
        filler["restartPolicy"] = {"policy": "Always", "interval": 0, "backoff": 0}
        filler["unreachablePolicy"] = {"replaceAfterSeconds": 1}
        filler["updatePolicy"] = {"maxUnavailable": PLACES}
        (container,) = filler["spec"]["template"]["spec"]["containers"]
        container["resources"] = {"limits": {"cpu": str(WIDTH), "memory": "32"}}
        leader.call("POST", f"/namespaces/{BATCH}/applications", filler)

    def change(self, url: str) -> None:
        """Asks a scheduler, which may be hurt at this moment, for another maximum of the filler's queue."""
        most = self._random.choice((LOWERED, PLACES))
        body = tree(most)
        try:
            answer = requests.put(f"{url}/v4/scheduler/mesos/queuetree", json=body, timeout=12)
        except requests.RequestException:
            self.changes["uncertain"] += 1
        else:
            self.changes["changed" if answer.status_code < 300 else "refused"] += 1

    def report(self, folder: Path) -> str:
        """The events of policies in the logs of the schedulers, and the answers to the operator."""
        found: Counter[str] = Counter()
        for log in folder.glob("scheduler-*/*.log"):
            text = log.read_text(errors="replace")
            found.update({name: text.count(f" event.{name} ") for name in EVENTS})
        answers = ", ".join(f"{name} {count}" for name, count in sorted(self.changes.items())) or "none"
        events = ", ".join(f"{name} {found[name]}" for name in EVENTS)
        return f"placeholders {self.form}: {events}; answers to changes of the tree: {answers}"

    # --- what must hold -----------------------------------------------------------------------------------------

    def settling(self, leader: SchedulerProcess, mesos: RealMesos, live: list[Record]) -> list[str]:
        """What is not as it should be yet. `live`: the taskgroups that have not ended; others wait for a place."""
        found = [f"placeholder: {group['ID']} {group['Status']}" for group in live if group["AppID"].startswith("tg-")]
        found += [f"reserved in Mesos: {agent}" for agent in _reserving(mesos)]
        spec = leader.call("GET", "/queuetree")["spec"]
        most = next(q["resources"]["max"]["cpus"] for q in spec["queues"] if q["name"] == BATCH)
        running = Counter(BATCH if group["AppID"] == FILLER else "default" for group in live)
        statuses = Counter(group["Status"] for group in live if group["AppID"] == FILLER)
        if set(statuses) - {"Running"}:
            found.append(f"{FILLER}: {dict(statuses)}")
        room = min(int(most) // WIDTH, PLACES - running["default"])
        if running[BATCH] != room:
            found.append(f"{FILLER}: {running[BATCH]} run, with room for {room}")
        queues = {queue["name"]: queue["status"] for queue in leader.call("GET", "/queuetree/queues")}
        for name in ("default", BATCH):
            status = queues[f"root.{name}"]
            if (status["taskgroups"], status["used"].get("cpus", 0)) != (running[name], WIDTH * running[name]):
                found.append(
                    f"queue {name}: {status['taskgroups']} taskgroups, {status['used']}; {running[name]} exist"
                )
        return found


def _reserving(mesos: RealMesos) -> list[str]:
    """The agents with dynamic reservations. A master that has just lost the lead answers nothing."""
    try:
        agents = mesos.state()["slaves"]
    except (KeyError, OSError, ValueError):
        return ["no master leads"]
    return [str(agent["hostname"]) for agent in agents if any(agent.get("reserved_resources_full", {}).values())]
