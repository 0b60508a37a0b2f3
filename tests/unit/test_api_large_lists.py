"""Lists of a large cluster: a page costs with the page, and a list without a limit is sent bit by bit."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

import pytest

from bcs_scheduler.api import query as pages
from bcs_scheduler.api.app import CHUNK, respond
from bcs_scheduler.api.operation import BASE, ApiSettings, Call, Operation
from bcs_scheduler.api.query import read_query
from bcs_scheduler.api.routes import operations
from bcs_scheduler.security.caller import ANYBODY, Caller
from store.records import (
    Application,
    Command,
    ConfigMap,
    Endpoint,
    Happening,
    Journal,
    Record,
    Secret,
    Service,
    Task,
    TaskGroup,
    Transaction,
    Version,
)
from store.state import State
from tests.unit.api_support import Api, CoreGateway, listed_agent, serving

SMALL, LARGE = 1_000, 50_000
PER_APPLICATION, PER_AGENT = 20, 10
LIMIT = 100


def records(count: int) -> Iterator[Record]:
    """So many taskgroups of applications, and as many transactions, events and objects as a busy cluster has."""
    for number in range(count // PER_APPLICATION):
        name, namespace = f"web-{number}", f"ns-{number % 20}"
        yield Application(namespace=namespace, name=name, version="1", instances=PER_APPLICATION, status="Running")
        yield Version(namespace=namespace, application=name, name="1", labels={"tier": "front"})
        for index in range(PER_APPLICATION):
            agent = (number * PER_APPLICATION + index) // PER_AGENT
            id = f"{index}.{name}.{namespace}.c.1"
            yield TaskGroup(
                id=id, namespace=namespace, application=name, index=index, version="1", status="Running",
                agent_id=f"agent-{agent}", hostname=f"host-{agent}", agent_ip=f"10.0.0.{agent}",
                tasks=(Task(id=f"0.{id}", name="main", status="Running"),),
            )  # fmt: skip
    for number in range(count // 10):
        key = {"namespace": f"ns-{number % 20}", "name": f"thing-{number}"}
        yield from (ConfigMap(**key), Secret(**key), Service(**key), Endpoint(**key))
        told = {"namespace": key["namespace"], "application": f"web-{number % (count // PER_APPLICATION)}"}
        yield Transaction(
            id=f"t-{number}", type="LAUNCH", status="FINISH", created_at=float(number), due_at=0.0, deadline=0.0, **told
        )
        yield Command(id=f"c-{number}", type="signal", created_at=float(number), deadline=0.0, **told)
    for first in range(1, count, 64):
        run = tuple(
            Happening(
                number=n, at=1.0, object="application", key="ns-1/web-1", namespace="ns-1", reason="x", message="m"
            )
            for n in range(first, min(first + 64, count))
        )
        yield Journal(number=first, happenings=run)


class StateGateway(CoreGateway):
    """With a state of its own, without a core that would have to take it over."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self._state = state

    def state(self) -> State:
        return self._state


def gateway(count: int) -> CoreGateway:
    made = StateGateway(State(records(count)))
    made.follow.latest = count
    made.listed = [listed_agent(number, 4, 4096) for number in range(count // PER_AGENT)]
    return made


@pytest.fixture(scope="module")
def both() -> tuple[CoreGateway, CoreGateway]:
    return gateway(SMALL), gateway(LARGE)


OPERATIONS: dict[str, Operation] = {o.path.removeprefix(BASE): o for o in operations() if o.method == "GET"}


def answer(gateway: CoreGateway, path: str, text: str, caller: Caller = ANYBODY, **within: str) -> dict[str, Any]:
    """The envelope, as it would be sent."""
    operation = OPERATIONS[path]
    query = read_query([tuple(pair.split("=", 1)) for pair in text.split("&") if pair], operation.query)
    call = Call(gateway, ApiSettings(), within, query, caller=caller)
    envelope: dict[str, Any] = json.loads(bytes(respond(operation.handler(call)).body))  # type: ignore[arg-type]
    return envelope


MINE = Caller("me", "token", "viewer", frozenset({"ns-3"}))
PAGES: dict[str, tuple[str, str, dict[str, str], Caller]] = {
    "applications": ("/applications", "limit=10", {}, ANYBODY),
    "applications by label": ("/applications", "limit=10&labelSelector=!absent", {}, ANYBODY),
    "applications of a caller": ("/applications", "limit=2", {}, MINE),
    "taskgroups": ("/taskgroups", f"limit={LIMIT}", {}, ANYBODY),
    "taskgroups of a namespace": ("/namespaces/{ns}/taskgroups", "limit=50", {"ns": "ns-3"}, ANYBODY),
    "taskgroups of a caller": ("/taskgroups", "limit=50", {}, MINE),
    "taskgroups by label": ("/taskgroups", f"limit={LIMIT}&labelSelector=tier=front", {}, ANYBODY),
    "taskgroups by status": ("/taskgroups", f"limit={LIMIT}&status=Running", {}, ANYBODY),
    "tasks": ("/tasks", f"limit={LIMIT}", {}, ANYBODY),
    "taskgroups of an application": (
        "/namespaces/{ns}/applications/{name}/taskgroups",
        "limit=15",
        {"ns": "ns-3", "name": "web-3"},
        ANYBODY,
    ),
    "transactions": ("/transactions", "limit=50", {}, ANYBODY),
    "configmaps": ("/configmaps", "limit=50", {}, ANYBODY),
    "secrets": ("/secrets", "limit=50", {}, ANYBODY),
    "services": ("/services", "limit=50", {}, ANYBODY),
    "endpoints": ("/endpoints", "limit=50", {}, ANYBODY),
    "events": ("/events", f"limit={LIMIT}", {}, ANYBODY),
}
AGENTS = {"agents": ("/agents", "limit=50", {}, ANYBODY)}
"""Their ids are compared with those that hold taskgroups for each page: 0.1 us for each agent."""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_costs_with_the_page_and_not_with_the_list(both: tuple[CoreGateway, CoreGateway], name: str) -> None:
    path, text, within, caller = PAGES[name]

    def page(gateway: CoreGateway) -> float:
        began = process_time()
        found = answer(gateway, path, text, caller, **within)
        spent = process_time() - began
        assert len(found["data"]) == int(text.split("limit=")[1].partition("&")[0])
        assert found.get("continue") or caller is MINE
        return spent

    gc.disable()  # its walks over the whole state belong to no page
    try:
        small, large = (min(page(gateway) for _ in range(40)) for gateway in both)
    finally:
        gc.enable()
    assert large < 1.5 * small + 0.000_2  # the clock's own grain


@pytest.mark.parametrize("name", [*PAGES, *AGENTS])
def test_pages_together_are_the_list(both: tuple[CoreGateway, CoreGateway], name: str) -> None:
    small, _ = both
    path, text, within, caller = (PAGES | AGENTS)[name]
    limit = "limit=" + text.split("limit=")[1].partition("&")[0]
    filters = text.replace(limit, "").strip("&")
    found, token = [], ""
    for _ in range(300):
        envelope = answer(small, path, f"{filters}&{limit}&continue={token}", caller, **within)
        found += envelope["data"]
        token = envelope.get("continue", "")
        if not token:
            break
    operation = OPERATIONS[path]
    query = read_query([tuple(pair.split("=", 1)) for pair in filters.split("&") if pair], operation.query)
    if "applications" in path and "taskgroups" not in path:
        query["pods"] = False
    whole: Any = operation.handler(Call(small, ApiSettings(), within, query, caller=caller))
    everything = json.loads(pages_of(whole))["data"]
    assert token == "" and found == everything and len(found) > 1


def pages_of(listing: Any) -> bytes:
    import asyncio

    response = respond(listing)
    if not hasattr(response, "body_iterator"):
        return bytes(response.body)

    async def gather() -> bytes:
        return b"".join([part async for part in response.body_iterator])

    return asyncio.run(gather())


def test_a_page_looks_at_a_bounded_number_of_elements_and_says_where_to_go_on(
    both: tuple[CoreGateway, CoreGateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "SCANNED", 1_000)
    _, large = both
    envelope = answer(large, "/taskgroups", "limit=5&labelSelector=tier=back")
    assert envelope["data"] == [] and envelope["continue"]
    rounds = 1
    while token := envelope.get("continue"):
        envelope = answer(large, "/taskgroups", f"limit=5&labelSelector=tier=back&continue={token}")
        rounds += 1
    assert rounds == LARGE // 1_000 and envelope["data"] == []


@pytest.fixture(scope="module")
def api(both: tuple[CoreGateway, CoreGateway]) -> Iterator[Api]:
    with serving(both[1]) as made:
        yield made


def test_a_list_without_a_limit_is_whole_and_comes_in_pieces(
    api: Api,
) -> None:
    """Its memory is bounded by the pieces: none of them holds more than CHUNK elements."""
    response = api.get("/tasks", stream=True)
    assert response.headers.get("Transfer-Encoding") == "chunked"
    pieces = list(response.raw.read_chunked())
    envelope = json.loads(b"".join(pieces))
    assert (envelope["result"], envelope["code"], len(envelope["data"])) == (True, 0, LARGE)
    assert "continue" not in envelope and len(pieces) >= LARGE // CHUNK
    assert max(map(len, pieces)) < 2 * CHUNK / LARGE * sum(map(len, pieces))


def test_pages_of_applications_name_no_taskgroups_unless_asked(api: Api) -> None:
    (first,) = api.data("/applications?limit=1")
    assert "Pods" not in first and first["Instances"] == PER_APPLICATION
    (first,) = api.data("/applications?limit=1&pods=true")
    assert len(first["Pods"]) == PER_APPLICATION
    assert all(len(app["Pods"]) == PER_APPLICATION for app in api.data("/namespaces/ns-3/applications"))
    assert "Pods" not in api.data("/namespaces/ns-3/applications?pods=false")[0]


def test_a_page_of_agents_shows_only_its_own(
    both: tuple[CoreGateway, CoreGateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    from bcs_scheduler.api.views import agents

    shown: list[Any] = []
    show: Callable[..., Any] = agents._agent
    monkeypatch.setattr(agents, "_agent", lambda *given: shown.append(given) or show(*given))  # type: ignore[func-returns-value]
    answer(both[1], "/agents", "limit=7")
    assert len(shown) == 7
