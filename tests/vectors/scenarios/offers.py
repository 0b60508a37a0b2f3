"""Plays vectors of the area `offers` with the core of the scheduler: applications, then offers, then its calls.

`expect.after` states in words that every offer which is left is declined, and that no further ones are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.interface.cluster_manager import LaunchOnAgent, Traits
from bcs_scheduler.core.interface.leased import Decline, OffersArrived, Suppress
from bcs_scheduler.core.options import CoreOptions
from offers.ledger.offered import offer_pool
from offers.model import Offer, Reservation, ResourceKey
from offers.policy.amounts import thousandths
from offers.resources import SCALARS
from store.records import Version
from store.records.definition import Amounts, Container
from tests.unit.lab import Lab
from tests.vectors.reading import PolicyVector
from transactions.base import Overhead


def play(vector: PolicyVector) -> dict[str, Any]:
    """The calls of the core. Raises ValueError for a field that is unknown."""
    given = vector.input
    _known("input", given, "framework_roles", "offers", "pending")
    lab = Lab(CoreOptions(strict=True, traits=Traits(overhead=Overhead())))  # the vector counts tasks alone
    for entry in given["pending"]:
        _known("input pending", entry, "task_group", "role", "request")
        lab.ask(requests.CreateApplication(version=_version(entry)))
    offers = tuple(_offer(entry, given["framework_roles"]) for entry in given["offers"])
    lab.turn(OffersArrived(offers=offers))
    launches = lab.sent(LaunchOnAgent)
    used = {offer for launch in launches for offer in launch.offer_ids}
    declined = [offer for one in lab.sent(Decline) for offer in one.offer_ids]
    lab.wait(2 * lab.options.offer_hold)
    declined += [offer for one in lab.sent(Decline) for offer in one.offer_ids]
    if lab.sent(LaunchOnAgent) or used & set(declined):
        raise AssertionError("an offer is used twice")
    suppressed = len(lab.sent(Suppress)) == 1
    return {
        "accepts": [_accept(launch) for launch in launches],
        "declines": declined,
        "session_view": _view(offers, {(one.agent_id, one.role) for one in offers if one.id in used}),
        "after": vector.expect["after"] if suppressed and "after" in vector.expect else f"suppressed: {suppressed}",
    }


def _version(entry: Mapping[str, Any]) -> Version:
    wanted = Amounts(**{name: thousandths(value) for name, value in entry["request"].items()}, disk=0)
    container = Container(command="serve", requests=wanted)
    return Version(namespace="default", application=entry["task_group"], role=entry["role"], containers=(container,))


def _offer(entry: Mapping[str, Any], roles: list[str]) -> Offer:
    _known("input offers", entry, "id", "agent", "allocated_to", "resources")
    role = entry["allocated_to"]
    if role not in roles:
        raise ValueError(f"input offers: {role} is no role of the framework")
    scalars = []
    for resource in entry["resources"]:
        _known("input resources", resource, "name", "role", "reserved", "value")
        layers = (Reservation("STATIC", resource["role"]),) if resource.get("reserved") else ()
        scalars.append((ResourceKey(resource["name"], role, layers), thousandths(resource["value"])))
    agent = entry["agent"]
    return Offer(
        id=entry["id"], agent_id=agent, hostname=f"host-of-{agent}", ip="10.0.0.1", role=role,
        attributes={"InnerIP": agent}, scalars=tuple(scalars), ranges=(),
    )  # fmt: skip


def _accept(launch: LaunchOnAgent) -> dict[str, Any]:
    """A call in the fields of vectors: reserved parts have the role of their reservation, others have `*`."""
    uses = [
        {"name": key.name, "role": key.reservations[-1].role if key.reservations else "*", "value": amount / 1000}
        for one in launch.launches
        for key, amount in one.allocation.scalars
        if amount
    ]
    uses.sort(key=lambda one: (one["name"], one["role"] == "*"))
    groups = [one.taskgroup.application for one in launch.launches]
    return {"offer_ids": sorted(launch.offer_ids), "launch": groups, "uses": uses}


def _view(offers: tuple[Offer, ...], places: set[tuple[str, str]]) -> dict[str, Any]:
    """The room of the agents that were used, as the pool joins their offers."""
    pool = offer_pool()
    for offer in offers:
        pool.hand.add(offer)
    found = {}
    for agent, role in sorted(places):
        room = dict(zip(SCALARS, pool.hand.amounts(agent, role), strict=True))
        found[agent] = {"idle": {name: amount / 1000 for name, amount in room.items() if amount}}
    return found


def _known(place: str, given: Mapping[str, Any], *names: str) -> None:
    if unknown := set(given) - set(names):
        raise ValueError(f"{place}: unknown {', '.join(sorted(unknown))}")
