"""An executor's side of the Mesos executor API in JSON, for tests that talk to an agent directly. The agent knows an
executor by its ids alone, so the test plays the executor while the process the agent started only lives."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any
from uuid import uuid4

import requests

from bcs_scheduler.net.recordio import Decoder
from tests.integration.schedulerclient import PATIENCE, SchedulerClient, executor, launch_group, task
from tests.waiting import wait_for

Json = dict[str, Any]

GRACE = 0.2
COMMAND = "exec sleep 1000"
_numbers = count(1)


class ExecutorClient:
    """One executor. `events` holds everything received so far; `closed` is set when the stream has ended."""

    def __init__(self, agent: str, framework_id: str, executor_id: str) -> None:
        """`agent`: host and port."""
        self.agent = agent
        self.framework_id = framework_id
        self.executor_id = executor_id
        self.events: list[Json] = []
        self.closed = threading.Event()
        self._changed = threading.Condition()
        self._response: requests.Response | None = None
        self._session = requests.Session()

    # --- subscription ---

    def subscribe(self, tasks: Iterable[Json] = (), updates: Iterable[Json] = ()) -> ExecutorClient:
        """`tasks` and `updates`: the TaskInfos and TaskStatuses that were not acknowledged."""
        self.closed.clear()
        call = self.document(
            "SUBSCRIBE",
            {
                "unacknowledged_tasks": list(tasks),
                "unacknowledged_updates": [{"status": status} for status in updates],
            },
        )
        self._response = requests.post(self.url, json=call, headers={"Accept": "application/json"}, stream=True)
        assert self._response.status_code == 200, self._response.text
        threading.Thread(target=self._listen, args=(self._response,), daemon=True).start()
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
            if response is self._response:
                self.closed.set()
            self._changed.notify_all()

    def disconnect(self) -> None:
        if self._response is not None:
            raw: Any = self._response.raw
            raw._fp.fp.raw._sock.shutdown(2)
            assert self.closed.wait(PATIENCE)

    # --- events ---

    def event(self, type_: str, accept: Callable[[Json], bool] = lambda body: True) -> Json:
        """The body of the next event of this type that `accept` wants and no call of this method has returned."""
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            while True:
                for event in self.events:
                    body: Json = event.get(type_.lower(), {})
                    if event["type"] == type_ and "seen" not in event and accept(body):
                        event["seen"] = True
                        return body
                left = deadline - time.monotonic()
                if left <= 0 or self.closed.is_set():
                    raise AssertionError(f"no {type_} event; got {self.events}")
                self._changed.wait(left)

    # --- calls ---

    @property
    def url(self) -> str:
        return f"http://{self.agent}/api/v1/executor"

    def document(self, type_: str, body: Json | None = None) -> Json:
        call: Json = {
            "type": type_,
            "framework_id": {"value": self.framework_id},
            "executor_id": {"value": self.executor_id},
        }
        if body is not None:
            call[type_.lower()] = body
        return call

    def post(self, call: Json) -> requests.Response:
        return self._session.post(self.url, json=call)

    def call(self, type_: str, body: Json | None = None) -> None:
        answer = self.post(self.document(type_, body))
        assert answer.status_code == 202, answer.text

    def status(self, task_id: str, state: str, **more: Any) -> Json:
        return {
            "task_id": {"value": task_id},
            "state": state,
            "source": "SOURCE_EXECUTOR",
            "uuid": base64.b64encode(uuid4().bytes).decode(),
            **more,
        }

    def update(self, task_id: str, state: str, **more: Any) -> Json:
        """The status that was sent."""
        status = self.status(task_id, state, **more)
        self.call("UPDATE", {"status": status})
        return status

    def acknowledged(self, status: Json) -> Json:
        return self.event("ACKNOWLEDGED", lambda body: body["uuid"] == status["uuid"])

    def message(self, data: bytes) -> None:
        self.call("MESSAGE", {"data": base64.b64encode(data).decode()})


def agent_address(client: SchedulerClient, agent_id: str) -> str:
    """Host and port at which the agent answers, as the master tells it."""
    url = client.url.replace("/api/v1/scheduler", "/api/v1")
    answer = requests.post(url, json={"type": "GET_AGENTS"}, headers={"Accept": "application/json"})
    agents = answer.json()["get_agents"]["agents"]
    pid: str = next(agent["pid"] for agent in agents if agent["agent_info"]["id"]["value"] == agent_id)
    return pid.partition("@")[2]


class Stage:
    """One custom executor with tasks on some agent, and a client that speaks for it."""

    def __init__(self, client: SchedulerClient) -> None:
        self.client = client
        self.executor_id = f"executor-{next(_numbers)}"
        self.offer = client.offers(1)[0]
        self.agent_id: str = self.offer["agent_id"]["value"]
        self.agent = agent_address(client, self.agent_id)
        self.executor = ExecutorClient(self.agent, client.info["id"]["value"], self.executor_id)

    def info(self, command: str = COMMAND, **more: Any) -> Json:
        grace = {"shutdown_grace_period": {"nanoseconds": int(GRACE * 1e9)}}
        command_info = {"shell": True, "value": f"touch up; {command}", **more.pop("command_info", {})}
        return executor(self.executor_id, self.client, type="CUSTOM", command=command_info, **grace, **more)

    def task(self, task_id: str) -> Json:
        info = task(task_id, self.offer, data=base64.b64encode(task_id.encode()).decode())
        del info["command"]
        return info

    def launch(self, *task_ids: str, **info: Any) -> Stage:
        """A group of these tasks."""
        group = launch_group(self.info(**info), *(self.task(task_id) for task_id in task_ids))
        self.client.accept([self.offer], group)
        return self

    def launched(self) -> Stage:
        """When the agent knows the executor."""
        call = self.executor.document("MESSAGE", {"data": ""})
        wait_for(lambda: self.executor.post(call).status_code == 403, what="the executor")
        return self

    def running(self) -> Stage:
        """When its process runs, too. A real agent counts on that before an executor subscribes, since it is its
        container that starts it: to one that is earlier it does not hand the tasks."""
        wait_for(lambda: self.get("/files/read", path=f"{self.sandbox}/up").status_code == 200, what="the process")
        return self

    def started(self, *task_ids: str, **info: Any) -> Stage:
        """Tasks that run, and their executor is subscribed."""
        self.launch(*task_ids, **info).launched().running().executor.subscribe()
        self.executor.event("LAUNCH_GROUP")
        for task_id in task_ids:
            self.executor.update(task_id, "TASK_RUNNING")
            assert self.status(task_id)["state"] == "TASK_RUNNING"
        return self

    def leave_offers(self) -> Stage:
        """To the frameworks of other tests."""
        self.client.call("SUPPRESS", {})
        offers = [offer for e in self.client.events if e["type"] == "OFFERS" for offer in e["offers"]["offers"]]
        self.client.decline(offers, refuse_seconds=1000.0)
        return self

    def status(self, task_id: str) -> Json:
        return self.client.update(task_id)

    @property
    def sandbox(self) -> str:
        return f"/frameworks/{self.executor.framework_id}/executors/{self.executor_id}/runs/latest"

    def get(self, endpoint: str, /, **query: Any) -> requests.Response:
        return requests.get(f"http://{self.agent}{endpoint}", params=query)

    def read(self, name: str) -> str:
        answer = self.get("/files/read", path=f"{self.sandbox}/{name}", offset=0)
        return answer.json()["data"] if answer.status_code == 200 else ""
