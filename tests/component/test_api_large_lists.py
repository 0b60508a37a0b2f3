"""Lists of a large cluster: a page costs with the page, and a list without a limit is sent bit by bit."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Iterable, Iterator
from time import process_time
from typing import Any

import pytest

from bcs_scheduler.agentapi.usage import Meter, Place
from bcs_scheduler.api.http.app import CHUNK, respond
from bcs_scheduler.api.http.operation import BASE, ApiSettings, Call, Listing, Operation
from bcs_scheduler.api.reading import query as pages
from bcs_scheduler.api.reading.query import read_query
from bcs_scheduler.api.routes import operations
from bcs_scheduler.security.caller import ANYBODY, Caller
from offers.model import Offer, ResourceKey
from store.records import (
    Application,
    Command,
    ConfigMap,
    Endpoint,
    Event,
    EventLog,
    Record,
    Secret,
    Service,
    Task,
    TaskGroup,
    Transaction,
    Version,
)
from store.state import State
from tests.component.apiserver import Api, serving
from tests.unit.api_support import CoreGateway, listed_agent

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
        key: dict[str, Any] = {"namespace": f"ns-{number % 20}", "name": f"thing-{number}"}
        yield from (ConfigMap(**key), Secret(**key), Service(**key), Endpoint(**key))
        told: dict[str, Any] = {
            "namespace": key["namespace"],
            "application": f"web-{number % (count // PER_APPLICATION)}",
        }
        yield Transaction(
            id=f"t-{number}", type="LAUNCH", status="FINISH", created_at=float(number), due_at=0.0, deadline=0.0, **told
        )
        yield Command(id=f"c-{number}", type="signal", created_at=float(number), deadline=0.0, **told)
    for first in range(1, count, 64):
        run = tuple(
            Event(number=n, at=1.0, object="application", key="ns-1/web-1", namespace="ns-1", reason="x", message="m")
            for n in range(first, min(first + 64, count))
        )
        yield EventLog(number=first, events=run)


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
    for number in range(count // PER_AGENT):
        made.core.turn_context.pool.hand.add(
            Offer(
                id=f"offer-{number}", agent_id=f"agent-{number}", hostname=f"host-{number}", ip="10.0.0.1", role="*",
                attributes={}, scalars=((ResourceKey("cpus", "*"), number + 1), (ResourceKey("mem", "*"), 1_000)),
                ranges=(), received_at=0.0,
            )
        )  # fmt: skip
    return made


@pytest.fixture(scope="module")
def both() -> tuple[CoreGateway, CoreGateway]:
    return gateway(SMALL), gateway(LARGE)


OPERATIONS: dict[str, Operation] = {o.path.removeprefix(BASE): o for o in operations() if o.method == "GET"}


def pairs(text: str) -> list[tuple[str, str]]:
    """The names and values of a query."""
    parts = [pair.partition("=") for pair in text.split("&") if pair]
    return [(name, value) for name, _, value in parts]


def answer(gateway: CoreGateway, path: str, text: str, caller: Caller = ANYBODY, **within: str) -> dict[str, Any]:
    """The envelope, as it would be sent."""
    operation = OPERATIONS[path]
    query = read_query(pairs(text), operation.query)
    call = Call(gateway, gateway, ApiSettings(), within, query, caller=caller)
    envelope: dict[str, Any] = json.loads(bytes(respond(operation.handler(call), call.caller).body))  # type: ignore[arg-type]
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
    "taskgroups of an agent": ("/taskgroups", "limit=5&agent=host-3", {}, ANYBODY),
    "taskgroups of an agent and a caller": ("/taskgroups", "limit=5&agent=host-6", {}, MINE),
    "offers": ("/cluster/current/offers", "limit=20", {}, ANYBODY),
}
AGENTS: dict[str, tuple[str, str, dict[str, str], Caller]] = {"agents": ("/agents", "limit=50", {}, ANYBODY)}
"""Their ids are compared with those that hold taskgroups for each page: 0.1 us for each agent."""


@pytest.mark.costs
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
        # In turns, so that a busy moment of the machine meets both.
        small, large = (
            min(spent) for spent in zip(*([page(gateway) for gateway in both] for _ in range(40)), strict=True)
        )
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
    query = read_query(pairs(filters), operation.query)
    if "applications" in path and "taskgroups" not in path:
        query["pods"] = False
    whole: Any = operation.handler(Call(small, small, ApiSettings(), within, query, caller=caller))
    everything = json.loads(pages_of(whole))["data"]
    assert token == "" and found == everything and len(found) > 1


def pages_of(listing: Any) -> bytes:
    response = respond(listing, ANYBODY)
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


USAGE: dict[str, tuple[str, str, dict[str, str], int]] = {
    "a page of taskgroups": ("/usage/taskgroups", "limit=50", {}, 50),
    "a page of a namespace": ("/namespaces/{ns}/usage/taskgroups", "limit=40", {"ns": "ns-3"}, 40),
    "taskgroups of an application": ("/usage/taskgroups", "application=web-3", {}, PER_APPLICATION),
    "taskgroups of an agent": ("/usage/taskgroups", "agent=host-3", {}, PER_AGENT),
}


@pytest.mark.costs
@pytest.mark.parametrize("name", USAGE)
def test_usage_costs_with_what_is_asked_for(
    both: tuple[CoreGateway, CoreGateway], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents are not really asked; to ask them costs with their number."""
    path, text, within, wanted = USAGE[name]
    operation = OPERATIONS[path]

    async def unasked(self: Meter, places: Iterable[Place]) -> dict[Place, Any]:
        assert 0 < len(list(places)) <= wanted
        return {}

    monkeypatch.setattr(Meter, "measure", unasked)

    async def spent(gateway: CoreGateway) -> float:
        query = read_query(pairs(text), operation.query)
        began = process_time()
        answered: Any = await operation.handler(Call(gateway, gateway, ApiSettings(), within, query))  # type: ignore[misc]
        shown = list(answered.items) if isinstance(answered, Listing) else answered.data
        assert len(shown) == wanted
        return process_time() - began

    async def least(gateway: CoreGateway) -> float:
        return min([await spent(gateway) for _ in range(40)])

    gc.disable()
    try:
        small, large = (asyncio.run(least(gateway)) for gateway in both)
    finally:
        gc.enable()
    assert large < 1.5 * small + 0.000_5  # the change to a thread and back varies by as much


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
