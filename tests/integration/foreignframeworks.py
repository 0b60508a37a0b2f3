"""Frameworks on libraries of others (PyPI: avmesos, mesoshttp, pymesos), with one interface for the tests."""

from __future__ import annotations

import importlib
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from tests.waiting import wait_for

Json = dict[str, Any]
CAPABILITIES = ("PARTITION_AWARE", "TASK_KILLING_STATE")
NOBODY = "nobody"
"""A task that no framework has."""
STANDINS = str(Path(__file__).parent / "standins")
"""Has the HTTP parser that pymesos imports: docs/decisions/0036-foreign-frameworks.md says why."""
AT_ONCE = {"refuse_seconds": 0.0}


class Heard:
    """What the master said, as the library passed it on; filled by the thread of the library."""

    def __init__(self) -> None:
        self.framework_id = ""
        self.offers: dict[str, Json] = {}
        self.errors: list[Any] = []
        self._statuses: list[Json] = []

    def status(self, status: Json) -> None:
        self._statuses.append(status)

    def of(self, task_id: str) -> list[Json]:
        """Statuses of the task, in their order."""
        return [status for status in list(self._statuses) if status["task_id"]["value"] == task_id]


class Framework(Protocol):
    heard: Heard
    unknown: str
    """What the master says of a task that nobody knows, with all that the library tells of it."""

    @property
    def version(self) -> str:
        """Of the master, as the library has found it."""

    def start(self, address: str) -> None: ...

    def poke(self) -> None:
        """Has the master say something, if the library needs that."""

    def launch(self, offer: Json, *tasks: Json) -> None: ...

    def decline(self, offer: Json) -> None: ...

    def kill(self, task_id: str, agent_id: str) -> None: ...

    def reconcile(self, task_id: str, agent_id: str) -> None: ...

    def teardown(self) -> None: ...

    def stop(self) -> None:
        """Also tears down, if that has not been done. Returns when the library has no thread."""


class RequestsFramework:
    """On avmesos or mesoshttp, two branches of one library."""

    unknown = "TASK_GONE"

    def __init__(self, package: str) -> None:
        self.heard = Heard()
        self.version = ""
        kind = importlib.import_module(f"{package}.client").MesosClient
        self._kind: Any = kind
        self._offers: dict[str, Any] = {}
        self._client: Any = None
        self._driver: Any = None
        self._thread: threading.Thread | None = None

    def start(self, address: str) -> None:
        kind = self._kind
        self._client = kind([f"http://{address}"], frameworkName="foreign", frameworkUser="root", max_reconnect=1)
        for capability in CAPABILITIES:
            self._client.add_capability(capability)
        self._client.on(kind.SUBSCRIBED, self._subscribed)
        self._client.on(kind.OFFERS, self._offered)
        self._client.on(kind.UPDATE, lambda update: self.heard.status(update["status"]))
        self._client.on(kind.ERROR, self.heard.errors.append)
        self._thread = threading.Thread(target=self._client.register, name="foreign framework", daemon=True)
        self._thread.start()

    def _subscribed(self, driver: Any) -> None:
        self._driver = driver
        self.version = self._client.get_master_info()["version"]
        self.heard.framework_id = driver.frameworkId

    def _offered(self, offers: list[Any]) -> None:
        for offer in offers:
            body = offer.get_offer()
            self._offers[body["id"]["value"]] = offer
            self.heard.offers[body["id"]["value"]] = body

    def poke(self) -> None:
        """The library reads by lines, and the line of an event ends where the next event begins."""
        if self._driver is not None:
            self._driver.reconcile([{"task_id": {"value": NOBODY}}])

    def launch(self, offer: Json, *tasks: Json) -> None:
        self._offers[offer["id"]["value"]].accept(list(tasks), {"filters": AT_ONCE})

    def decline(self, offer: Json) -> None:
        self._offers[offer["id"]["value"]].decline({"filters": AT_ONCE})

    def kill(self, task_id: str, agent_id: str) -> None:
        self._driver.kill(agent_id, task_id)

    def reconcile(self, task_id: str, agent_id: str) -> None:
        self._driver.reconcile([{"task_id": {"value": task_id}, "agent_id": {"value": agent_id}}])

    def teardown(self) -> None:
        """The thread of the library does that when it hears something."""
        self._client.tearDown()

    def stop(self) -> None:
        self.teardown()
        thread = self._thread
        assert thread is not None

        def ended() -> bool:
            self.poke()
            return not thread.is_alive()

        wait_for(ended, 30, "the end of the thread of the library")


class PyMesosFramework:
    """On pymesos. Its driver calls the methods of this class that have names in mixed case."""

    unknown = "TASK_UNKNOWN"  # the library does not say on which agent

    def __init__(self) -> None:
        self.heard = Heard()
        self._driver: Any = None
        self._library = _import_pymesos()

    @property
    def version(self) -> str:
        return str(self._driver.version)

    def start(self, address: str) -> None:
        listener = type("Listener", (self._library.Scheduler,), {})()
        listener.registered = self._registered
        listener.resourceOffers = self._offered
        listener.statusUpdate = lambda driver, status: self.heard.status(status)
        listener.error = lambda driver, message: self.heard.errors.append(message)
        info = {
            "name": "foreign",
            "user": "root",
            "failover_timeout": 100,
            "capabilities": [{"type": capability} for capability in CAPABILITIES],
        }
        self._driver = self._library.MesosSchedulerDriver(listener, info, address)
        self._driver.start()

    def _registered(self, driver: Any, framework_id: Json, master: Json) -> None:
        self.heard.framework_id = framework_id["value"]

    def _offered(self, driver: Any, offers: list[Json]) -> None:
        self.heard.offers.update({offer["id"]["value"]: offer for offer in offers})

    def poke(self) -> None:
        pass

    def launch(self, offer: Json, *tasks: Json) -> None:
        self._driver.launchTasks(offer["id"], list(tasks), AT_ONCE)

    def decline(self, offer: Json) -> None:
        self._driver.declineOffer(offer["id"], AT_ONCE)

    def kill(self, task_id: str, agent_id: str) -> None:
        self._driver.killTask({"value": task_id})

    def reconcile(self, task_id: str, agent_id: str) -> None:
        self._driver.reconcileTasks([{"task_id": {"value": task_id}}])

    def teardown(self) -> None:
        """The thread of the library does that before it ends."""
        self._driver.stop()

    def stop(self) -> None:
        self.teardown()
        self._driver.join()


def _import_pymesos() -> Any:
    """The library takes over SIGINT when it is imported."""
    if STANDINS not in sys.path:
        sys.path.append(STANDINS)
    before = signal.getsignal(signal.SIGINT)
    try:
        return importlib.import_module("pymesos")
    finally:
        signal.signal(signal.SIGINT, before)


LIBRARIES: dict[str, Callable[[], Framework]] = {
    "avmesos": lambda: RequestsFramework("avmesos"),
    "mesoshttp": lambda: RequestsFramework("mesoshttp"),
    "pymesos": PyMesosFramework,
}
