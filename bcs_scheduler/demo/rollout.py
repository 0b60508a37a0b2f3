"""The part of `make demo` about deployments and services: an update in steps, an update that fails and is rolled back,
and the endpoints of the service during both."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, Self, TypeVar

import requests

from bcs_scheduler.cli.client.client import Client
from bcs_scheduler.cli.client.types import DEFAULT_NAMESPACE, Json
from bcs_scheduler.cli.errors import CliError
from bcs_scheduler.shipped import EXAMPLES
from store import threads

SHOP = EXAMPLES / "shop.yaml"
INSTANCES = 4
START, FOLLOW, ROLL = 25.0, 10.0, 40.0
"""Seconds: until the first version answers, until endpoints are current, for an update or a rollback."""
PAUSE = 0.05
MILESTONES = (
    "DeploymentLaunched", "UpdateStarted", "StepStarted", "UpdateFinished", "UpdateGoingBack", "UpdateWentBack",
)  # fmt: skip
"""The events of a deployment that tell how its updates went."""

T = TypeVar("T")


class Stage(Protocol):
    """The interface of bcs_scheduler.demo.run.Demo for its parts."""

    client: Client

    def step(self, title: str) -> AbstractContextManager[None]: ...

    def until(self, seconds: float, look: Callable[[], T | None], failure: str) -> T: ...

    def with_bar(self, seconds: float, wanted: int, word: str, look: Callable[[], tuple[int, bool]]) -> None: ...

    def bcs(self, *arguments: str, given: str = "", piped: str = "", code: int = 0) -> str: ...

    def say(self, text: str) -> None: ...


class Customers:
    """Request the page of each ready endpoint in turn, in a thread, and note failed requests."""

    def __init__(self, server: str) -> None:
        self._client = Client(server)
        self._over = threading.Event()
        self._thread = threads.lasting("customers", self._run, self._over.wait)
        self.pages: list[str] = []
        self.failures: list[str] = []
        self.fewest = INSTANCES

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        turn = 0
        while not self._over.wait(PAUSE):
            try:
                ready = ready_members(self._client)
            except CliError:
                continue
            self.fewest = min(self.fewest, len(ready))
            if ready:
                turn += 1
                self._ask(ready[turn % len(ready)])

    def _ask(self, member: Json) -> None:
        """One request. Like a load balancer, repeats it at another endpoint if the connection is refused."""
        try:
            self.pages.append(page(member))
        except requests.ConnectionError:
            time.sleep(PAUSE)
            left = [m for m in ready_members(self._client) if m["targetRef"]["id"] != member["targetRef"]["id"]]
            try:
                self.pages.append(page(left[0]))
            except (IndexError, requests.RequestException) as error:
                self.failures.append(str(error))
        except requests.RequestException as error:
            self.failures.append(str(error))


def ready_members(client: Client) -> list[Json]:
    return [member for member in client.endpoint(DEFAULT_NAMESPACE, "shop")["eps"] or [] if member["ready"]]


def page(member: Json) -> str:
    return requests.get(f"http://{member['ports'][0]['address']}/", timeout=5).text.strip()


def show_rollouts(stage: Stage) -> None:
    """Runs the steps. Raises the error of the step that fails."""
    text = SHOP.read_text()
    stage.bcs("apply", "-f", str(SHOP))
    with stage.step("a deployment of four, behind a service"):
        stage.until(START, lambda: _answering(stage.client, "shop v1"), "not all four answer")
    stage.bcs("get", "endpoints", "shop", "-o", "table")
    with Customers(stage.client.server) as customers:
        stage.bcs(
            "apply",
            "-f",
            "-",
            given=text.replace("value: v1", "value: v2"),
            piped="sed 's/value: v1/value: v2/' conf/examples/shop.yaml",
        )
        with stage.step("the deployment updated in steps, new taskgroups first"):
            stage.with_bar(ROLL, INSTANCES, "updated and ready", lambda: _progress(stage.client))
            stage.until(FOLLOW, lambda: _answering(stage.client, "shop v2"), "the endpoints are not current")
    stage.bcs("rollout", "status", "shop", "-o", "text")
    _judge(stage, customers)
    broken = text.replace("value: v1", "value: v3").replace("command: python3", "command: python33")
    stage.bcs(
        "apply", "-f", "-", given=broken, piped="sed 's/command: python3/command: python33/' conf/examples/shop.yaml"
    )
    with stage.step("an update that did not become ready was rolled back automatically"):
        words = stage.until(ROLL, lambda: _rolled_back(stage.client), "the update was not rolled back")
        stage.say(words)
        stage.until(ROLL, lambda: _answering(stage.client, "shop v2"), "the previous version does not answer")
    stage.bcs("rollout", "history", "shop")
    stage.bcs("get", "events", "--for", "deployment/shop", "--reason", ",".join(MILESTONES), "-o", "table")


def _answering(client: Client, wanted: str) -> bool | None:
    ready = ready_members(client)
    return (len(ready) == INSTANCES and all(page(member) == wanted for member in ready)) or None


def _progress(client: Client) -> tuple[int, bool]:
    found = client.deployment(DEFAULT_NAMESPACE, "shop")
    return int(found["progress"]["done"]), found["status"] == "Running" and found["revision"] == 2


def _rolled_back(client: Client) -> str | None:
    found = client.deployment(DEFAULT_NAMESPACE, "shop")
    condition = next(c for c in found["conditions"] if c["type"] == "Progressing")
    at_rest = found["status"] == "Running" and found["revision"] == 2
    return str(condition["message"]) if at_rest and condition["reason"] == "RolledBack" else None


def _judge(stage: Stage, customers: Customers) -> None:
    with stage.step("no request of a customer failed during the update"):
        if customers.failures:
            raise CliError(f"{len(customers.failures)} requests failed: {customers.failures[0]}")
        if customers.fewest < INSTANCES or "shop v2" not in customers.pages:
            raise CliError(f"only {customers.fewest} of {INSTANCES} taskgroups were ready at one moment")
        stage.say(f"{len(customers.pages)} requests, all answered, never fewer than {customers.fewest} ready")
