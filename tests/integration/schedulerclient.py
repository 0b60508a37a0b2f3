"""A scheduler's side of the Mesos scheduler API in JSON, for tests that talk to a cluster directly. It has nothing in
common with the project's own driver but the framing."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

import requests

from bcs_scheduler.net.recordio import Decoder

Json = dict[str, Any]

CAPABILITIES = ("MULTI_ROLE", "PARTITION_AWARE", "TASK_KILLING_STATE", "RESERVATION_REFINEMENT")
PATIENCE = 60.0


class SchedulerClient:
    """One framework. `events` holds everything received so far; `closed` is set when the stream has ended."""

    def __init__(self, address: str, capabilities: Iterable[str] = CAPABILITIES, **info: Any) -> None:
        self.url = f"http://{address}/api/v1/scheduler"
        types = list(capabilities)
        role = {"roles": ["*"]} if "MULTI_ROLE" in types else {}
        self.info: Json = {
            "user": "root",
            "name": "test",
            "failover_timeout": 300.0,
            "capabilities": [{"type": type_} for type_ in types],
            **role,
            **info,
        }
        self.events: list[Json] = []
        self.closed = threading.Event()
        self.stream_id = ""
        self._changed = threading.Condition()
        self._taken = 0
        self._response: requests.Response | None = None
        self._session = requests.Session()

    # --- subscription ---

    def subscribe(self, *, await_subscribed: bool = True) -> SchedulerClient:
        call: Json = {"type": "SUBSCRIBE", "subscribe": {"framework_info": self.info}}
        if "id" in self.info:
            call["framework_id"] = self.info["id"]
        self._response = requests.post(self.url, json=call, headers={"Accept": "application/json"}, stream=True)
        assert self._response.status_code == 200, self._response.text
        self.stream_id = self._response.headers["Mesos-Stream-Id"]
        threading.Thread(target=self._listen, args=(self._response,), daemon=True).start()
        if await_subscribed:
            self.info["id"] = self.event("SUBSCRIBED")["framework_id"]
        return self

    def _listen(self, response: requests.Response) -> None:
        decoder = Decoder()
        try:
            for piece in response.iter_content(chunk_size=None):
                with self._changed:
                    self.events += [json.loads(record) for record in decoder.feed(piece)]
                    self._changed.notify_all()
        except (OSError, AttributeError, ValueError):
            pass  # disconnected, by us or by the other side
        with self._changed:
            self.closed.set()
            self._changed.notify_all()

    def disconnect(self) -> None:
        if self._response is not None:
            raw: Any = self._response.raw
            raw._fp.fp.raw._sock.shutdown(2)
            assert self.closed.wait(PATIENCE)

    # --- events ---

    def event(self, type_: str, accept: Callable[[Json], bool] = lambda body: True) -> Json:
        """The body of the next event of this type, from where the last call of this method stopped. Events of other
        types stay to be asked for; those of this type that `accept` does not want are passed over."""
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            while True:
                for index, event in enumerate(self.events):
                    body: Json = event.get(type_.lower(), {})
                    if event["type"] == type_ and "seen" not in event and accept(body):
                        event["seen"] = index
                        return body
                left = deadline - time.monotonic()
                if left <= 0 or self.closed.is_set():
                    raise AssertionError(f"no {type_} event; got {self.events}")
                self._changed.wait(left)

    def update(self, task_id: str, *, acknowledge: bool = True) -> Json:
        """The next status of the task."""
        status: Json = self.event("UPDATE", lambda body: body["status"]["task_id"]["value"] == task_id)["status"]
        if acknowledge and "uuid" in status:
            self.acknowledge(status)
        return status

    def states(self, task_id: str, last: str) -> list[str]:
        """States of the task up to this one."""
        states: list[str] = []
        while last not in states:
            states.append(self.update(task_id)["state"])
        return states

    def offers(self, count: int = 1, accept: Callable[[Json], bool] = lambda offer: True) -> list[Json]:
        """Offers that arrived and were not rescinded, at least so many."""
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            while True:
                rescinded = {e["rescind"]["offer_id"]["value"] for e in self.events if e["type"] == "RESCIND"}
                found = [
                    offer
                    for event in self.events
                    if event["type"] == "OFFERS"
                    for offer in event["offers"]["offers"]
                    if offer["id"]["value"] not in rescinded and "used" not in offer and accept(offer)
                ]
                if len(found) >= count:
                    for offer in found:
                        offer["used"] = True
                    return found
                left = deadline - time.monotonic()
                if left <= 0:
                    raise AssertionError(f"{len(found)} offers instead of {count}")
                self._changed.wait(left)

    # --- calls ---

    def post(self, call: Json, **headers: str) -> requests.Response:
        return self._session.post(self.url, json=call, headers={"Mesos-Stream-Id": self.stream_id, **headers})

    def call(self, type_: str, body: Json | None = None) -> None:
        call: Json = {"type": type_, "framework_id": self.info["id"]}
        if body is not None:
            call[type_.lower()] = body
        answer = self.post(call)
        assert answer.status_code == 202, answer.text

    def acknowledge(self, status: Json) -> None:
        self.call("ACKNOWLEDGE", {name: status[name] for name in ("agent_id", "task_id", "uuid")})

    def accept(self, offers: list[Json], *operations: Json, refuse_seconds: float = 0.0) -> None:
        ids = [offer["id"] for offer in offers]
        filters = {"refuse_seconds": refuse_seconds}
        self.call("ACCEPT", {"offer_ids": ids, "operations": list(operations), "filters": filters})

    def decline(self, offers: list[Json], refuse_seconds: float) -> None:
        ids = [offer["id"] for offer in offers]
        self.call("DECLINE", {"offer_ids": ids, "filters": {"refuse_seconds": refuse_seconds}})

    def reconcile(self, task_id: str, agent_id: str | None = None) -> Json:
        """The master's answer about this task."""
        task: Json = {"task_id": {"value": task_id}}
        if agent_id is not None:
            task["agent_id"] = {"value": agent_id}
        self.call("RECONCILE", {"tasks": [task]})
        status: Json = self.event(
            "UPDATE",
            lambda body: (
                body["status"]["task_id"]["value"] == task_id
                and body["status"].get("reason") == "REASON_RECONCILIATION"
            ),
        )["status"]
        return status

    def teardown(self) -> None:
        if not self.closed.is_set():
            self.call("TEARDOWN")


# --- parts of calls ---

_numbers = count(1)


def fresh(kind: str) -> str:
    """An id that no other test uses."""
    return f"{kind}-{next(_numbers)}"


def scalar(name: str, value: float, role: str | None = "*") -> Json:
    allocation = {"allocation_info": {"role": role}} if role is not None else {}
    return {"name": name, "type": "SCALAR", "scalar": {"value": value}, **allocation}


def ports(begin: int, end: int, role: str = "*") -> Json:
    ranges = {"range": [{"begin": begin, "end": end}]}
    return {"name": "ports", "type": "RANGES", "ranges": ranges, "allocation_info": {"role": role}}


def amounts(cpus: float = 0.1, mem: float = 32.0, disk: float = 8.0) -> list[Json]:
    return [scalar("cpus", cpus), scalar("mem", mem), scalar("disk", disk)]


def task(task_id: str, offer: Json, command: str = "sleep 1000", **more: Any) -> Json:
    return {
        "name": task_id,
        "task_id": {"value": task_id},
        "agent_id": offer["agent_id"],
        "resources": amounts(),
        "command": {"shell": True, "value": command},
        **more,
    }


def executor(executor_id: str, client: SchedulerClient, **more: Any) -> Json:
    return {
        "type": "DEFAULT",
        "executor_id": {"value": executor_id},
        "framework_id": client.info["id"],
        "resources": amounts(),
        **more,
    }


def launch_group(executor_info: Json, *tasks: Json) -> Json:
    return {"type": "LAUNCH_GROUP", "launch_group": {"executor": executor_info, "task_group": {"tasks": list(tasks)}}}


def uuid_of(status: Json) -> bytes:
    return base64.b64decode(status["uuid"])
