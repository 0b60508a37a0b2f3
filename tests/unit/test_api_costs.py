"""What a request costs in the API, in calls of Python functions: these are exact, whatever else the machine does."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from bcs_scheduler.api.http.app import create_app
from bcs_scheduler.api.http.operation import BASE, _done
from bcs_scheduler.api.http.routing import Routes
from bcs_scheduler.core.interface.effects import Reply
from bcs_scheduler.core.interface.requests import Request
from bcs_scheduler.wire import quantities
from tests.counting import Calls
from tests.unit.api_support import CoreGateway, document

MOST_CALLS = 580
"""Calls for the creation of an application of one container: 516 were counted. It was 794 with Starlette's layers, a
search through all routes, and amounts that were worked out several times per document."""


class Answering(CoreGateway):
    """Every command is answered at once, and nothing is done."""

    def submit(self, command: Request) -> Future[Reply]:
        self.commands.append(command)
        future: Future[Reply] = Future()
        future.set_result(Reply(token=1, data={"transactionID": "t"}))
        return future


def _nothing(*_: object, **__: object) -> None:
    """Stands for a method of a logger."""


async def post(app: Any, path: str, body: bytes) -> list[Any]:
    """The messages of the answer."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [
        (b"host", b"127.0.0.1:1"),
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }
    await app(scope, receive, send)
    return sent


def test_creating_an_application_takes_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("bcs_scheduler.api.http.app", "bcs_scheduler.security.audit"):
        monkeypatch.setattr(
            f"{module}.log", SimpleNamespace(info=_nothing, debug=_nothing)
        )  # what a line costs depends on how logging is set up
    gateway = Answering()
    app, path = create_app(gateway), f"{BASE}/namespaces/shop/applications"

    async def measured() -> int:
        await post(app, path, json.dumps(document("first", instance=1)).encode())  # fills what is remembered
        with Calls() as calls:
            sent = await post(app, path, json.dumps(document("web", instance=1)).encode())
        assert [message.get("status") for message in sent] == [202, None]
        return calls.number

    number = asyncio.run(measured())
    assert len(gateway.commands) == 2
    assert number <= MOST_CALLS, number


def test_a_route_is_found_in_as_many_calls_among_a_thousand_as_among_ten() -> None:
    def calls(count: int) -> int:
        routes = Routes({f"/things-{number}/{{name}}/parts": number for number in range(count)})
        with Calls() as counted:
            found = list(routes.find(f"/things-{count - 1}/x/parts"))
        assert found == [(count - 1, {"name": "x"})]
        return counted.number

    assert calls(1_000) == calls(10)


def test_amounts_are_remembered_by_type_and_mistakes_are_told_each_time() -> None:
    assert quantities.memory("512") == quantities.memory(512) == 512_000
    assert (quantities.memory(1), quantities.memory(1.5), quantities.storage("0")) == (1_000, 1_500, 0)
    for _ in range(2):
        with pytest.raises(quantities.QuantityError, match="greater than 0"):
            quantities.memory("0")
        with pytest.raises(quantities.QuantityError, match="unknown unit"):
            quantities.cores("1Gi")
    with pytest.raises(quantities.QuantityError, match="must be a number of MB"):
        quantities.memory("9" * 1000)


def test_a_wait_that_is_given_up_leaves_the_command_alone() -> None:
    """The future belongs to the thread of the core, which completes it later."""

    async def given_up() -> Future[Reply]:
        future: Future[Reply] = Future()
        assert not await _done(future, 0.001)
        waiting = asyncio.ensure_future(_done(future, 60.0))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return future

    future = asyncio.run(given_up())
    assert not future.cancelled()
    future.set_result(Reply(token=1))  # the loop is closed by now
    assert future.result().token == 1
