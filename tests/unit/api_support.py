"""An HTTP API to test against: a real server over a gateway that is a bare core, with an agent to place things on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import msgspec
import requests

from bcs_scheduler.api.admission import Admission
from bcs_scheduler.api.app import create_app
from bcs_scheduler.api.door import Door
from bcs_scheduler.api.operation import BASE, ApiSettings
from bcs_scheduler.api.server import ApiServer
from bcs_scheduler.core.desk import CoreOptions
from bcs_scheduler.core.effects import Changed, Happened, Reply
from bcs_scheduler.core.events import Command, Event, OffersArrived, StatusUpdate, Subscribed
from bcs_scheduler.core.scheduler import Core
from bcs_scheduler.gateway import Check, Gateway, NotLeading, Role
from bcs_scheduler.hub import EVENTS, Hub, Item
from offers.model import Diagnosis, Offer, Pot
from store.records import Record
from store.state import State

TIMEOUT = 20.0


class CoreGateway:
    """Commands are carried out at once by a core without store and Mesos; every change counts as durable.

    `refusal` is raised by the next calls instead, `silent` leaves commands unanswered, as
    if they waited to be begun, or, with `begun`, as if the store did not take what they did.
    """

    def __init__(self, records: list[Record] | None = None) -> None:
        self.core = Core(records or [], CoreOptions(strict=True), time.time())
        self.commands: list[Command] = []
        self.refusal: Exception | None = None
        self.silent = False
        self.begun = False
        self.withdrawn: list[Future[Reply]] = []
        self.listed: list[dict[str, Any]] = []
        self.master = ""
        self.ready = [Check("store", True, "connected")]
        self._role: Role = "master"
        self._leader: str | None = "http://127.0.0.1:1"
        self.follow = Hub(state=self.core.state)
        self._lock = threading.Lock()

    def stand_by(self, leader: str | None) -> None:
        self._role, self._leader = "slave", leader

    def feed(self, *events: Event) -> list[object]:
        """Effects that left."""
        with self._lock:
            units = self.core.turn(events, time.time())
            left = [effect for unit in units for effect in unit.effects]
            self.follow.publish([Item(e.kind, e.key, e.record) for e in left if isinstance(e, Changed)])
            told = [h for e in left if isinstance(e, Happened) for h in e.happenings]
            self.follow.publish([Item(EVENTS, "", happening, happening.number) for happening in told])
        return left

    # --- gateway ----------------------------------------------------------------------------------------------

    def role(self) -> Role:
        return self._role

    def leader_url(self) -> str | None:
        return self._leader

    def state(self) -> State:
        if self.refusal is not None:
            raise self.refusal
        return self.core.state

    def age(self) -> float | None:
        return 0.4 if self._role == "slave" else None

    def submit(self, command: Command) -> Future[Reply]:
        if self.refusal is not None:
            raise self.refusal
        self.commands.append(command)
        future: Future[Reply] = Future()
        if not self.silent:
            effects = self.feed(msgspec.structs.replace(command, token=1))
            future.set_result(next(effect for effect in effects if isinstance(effect, Reply)))
        return future

    def withdraw(self, future: Future[Reply]) -> bool:
        if not self.begun:
            self.withdrawn.append(future)
        return not self.begun

    def hub(self) -> Hub:
        if self._role != "master":
            raise NotLeading(self._leader)
        return self.follow

    def offers(self) -> list[Offer]:
        return self.core.offers()

    def agents(self) -> list[dict[str, Any]]:
        return self.listed

    def mesos_master(self) -> str:
        return self.master

    def diagnosis(self, transaction_id: str) -> Diagnosis | None:
        return self.core.diagnosis(transaction_id)

    def checks(self) -> list[Check]:
        return self.ready

    def now(self) -> float:
        return time.time()

    def metrics(self) -> bytes:
        return b"bkbcs_scheduler_up 1\n"

    # --- a cluster --------------------------------------------------------------------------------------------

    def connect(self) -> None:
        self.feed(Subscribed(framework_id="framework-1", cluster="demo"))

    def offer(self, agent: int = 1, cpus: float = 8, mem: float = 8192) -> None:
        """An offer of agent-N (host-N, 10.0.0.N, zone zN)."""
        self.feed(OffersArrived(offers=(make_offer(agent, cpus, mem),)))
        name = f"agent-{agent}"
        self.listed = [known for known in self.listed if known["id"] != name] + [listed_agent(agent, cpus, mem)]

    def report(self, state: str, application: str) -> None:
        """The same status for every task of the application (``namespace/name``)."""
        groups = list(self.core.state.groups_of(application).values())
        updates = [
            StatusUpdate(task_id=task.id, state=state, agent_id=group.agent_id, executor_id=group.id, uuid=b"u")
            for group in groups
            for task in group.tasks
        ]
        self.feed(*updates)

    def report_taskgroup(self, state: str, taskgroup: str) -> None:
        """The same status for every task of one taskgroup."""
        group = self.core.state.taskgroups[taskgroup]
        self.feed(
            *(
                StatusUpdate(task_id=task.id, state=state, agent_id=group.agent_id, executor_id=group.id, uuid=b"u")
                for task in group.tasks
            )
        )


class Switchboard:
    """Stands between one server and the gateway of the test that runs, so that not every test starts a server."""

    def __init__(self) -> None:
        self.gateway = CoreGateway()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.gateway, name)


def make_offer(agent: int, cpus: float, mem: float) -> Offer:
    scalars = {"cpus": cpus, "mem": mem, "disk": 100_000.0}
    return Offer(
        id=f"offer-{agent}-{time.monotonic_ns()}",
        agent_id=f"agent-{agent}",
        hostname=f"host-{agent}",
        ip=f"10.0.0.{agent}",
        role="*",
        attributes={"InnerIP": f"10.0.0.{agent}", "zone": f"z{agent}", "slots": 4.0},
        scalars=tuple((Pot(name, "*"), round(amount * 1000)) for name, amount in scalars.items()),
        ranges=((Pot("ports", "*"), ((31000, 32000),)),),
        received_at=time.time(),
    )


def listed_agent(agent: int, cpus: float, mem: float) -> dict[str, Any]:
    """As bcs_scheduler.mesos lists agents."""
    return {
        "id": f"agent-{agent}",
        "hostname": f"host-{agent}",
        "ip": f"10.0.0.{agent}",
        "port": 5051,
        "active": True,
        "attributes": {"InnerIP": f"10.0.0.{agent}", "zone": f"z{agent}", "slots": 4.0},
        "total": {"cpus": round(cpus * 1000), "mem": round(mem * 1000), "disk": 100_000_000},
        "allocated": {},
        "ports": [(31000, 32000)],
        "registered_time": 1_700_000_000.0,
    }


class Api:
    """Requests relative to the API's base path; answers are responses of `requests`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session = requests.Session()
        self._session.trust_env = False

    def call(self, method: str, path: str, *, base: str = BASE, **more: Any) -> requests.Response:
        return self._session.request(method, self.url + base + path, timeout=TIMEOUT, allow_redirects=False, **more)

    def get(self, path: str, **more: Any) -> requests.Response:
        return self.call("GET", path, **more)

    def data(self, path: str, **more: Any) -> Any:
        """`data` of a successful GET."""
        response = self.get(path, **more)
        assert response.status_code == 200, response.text
        return response.json()["data"]

    def close(self) -> None:
        self._session.close()


@contextmanager
def serving(
    gateway: Gateway,
    settings: ApiSettings | None = None,
    admission: Admission | None = None,
    door: Door | None = None,
) -> Iterator[Api]:
    server = ApiServer(create_app(gateway, settings, door, admission))
    server.start()
    api = Api(server.url)
    try:
        yield api
    finally:
        api.close()
        server.stop()


def document(name: str = "web", namespace: str = "shop", instance: int = 2, **container: Any) -> dict[str, Any]:
    """A small application: one container with a random port."""
    return {
        "apiVersion": "v4",
        "kind": "application",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {
            "instance": instance,
            "template": {
                "spec": {
                    "networkMode": "HOST",
                    "containers": [
                        {
                            "command": "server",
                            "ports": [{"name": "http", "protocol": "http"}],
                            "resources": {"limits": {"cpu": "0.1", "memory": "32"}},
                            **container,
                        }
                    ],
                }
            },
        },
    }


def paths(response: requests.Response) -> set[str]:
    """Paths of the problems of a refusal."""
    return {problem["path"] for problem in response.json()["data"]["problems"]}
