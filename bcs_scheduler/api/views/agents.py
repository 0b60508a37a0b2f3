"""Agents, their settings, the cluster's resources and the offers held now (docs/original.md#agent-settings,
#cluster-view, #offer-view)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from bcs_scheduler.api.views.taskgroups import ATTRIBUTE_SCALAR, ATTRIBUTE_TEXT
from offers.agents import ListedAgent
from offers.dimensions import recorded
from offers.model import Attribute, Offer
from store.records import AgentSetting, Drain, TaskGroup
from store.state.ordered import Order
from store.state.reader import StateReader
from transactions.rules.draining import SHOWN

ATTRIBUTE_RANGES = 102
MESOS_SCALAR, MESOS_RANGES, MESOS_SET, MESOS_TEXT = 0, 1, 2, 3
"""Attribute and resource types of Mesos, as offers show them."""
_SCALARS = ("cpus", "mem", "disk", "gpus")


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """Cores and MB. `used` counts the taskgroups of this scheduler that have not ended. The original's keys, and ours:
    `id`, `key` (key of its settings), `active` (registered with the Mesos master), `taskgroups`, `taints`, gpus and
    extended resources."""

    id: str
    key: str
    hostname: str
    ip: str
    active: bool
    disabled: bool
    cputotal: float
    memtotal: float
    disktotal: float
    gputotal: float
    cpuused: float
    memused: float
    diskused: float
    gpuused: float
    taskgroups: int
    host_attributes: list[dict[str, Any]]
    attributes: list[dict[str, Any]]
    taints: dict[str, str]
    extended: dict[str, float]
    registered_time: int
    reregistered_time: int
    drain: str
    """State of the drain, if there is one: draining, drained or failed; empty otherwise."""
    drain_message: str
    """Causes why the drain is blocked or has failed; empty otherwise."""


class ClusterResource(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the agents, and each of them."""

    cputotal: float
    memtotal: float
    disktotal: float
    cpuused: float
    memused: float
    diskused: float
    agents: list[AgentView]


class SettingView(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings in the form of their document; `pods` is derived."""

    inner_ip: str = msgspec.field(name="innerIP")
    disabled: bool
    strings: dict[str, dict[str, str]]
    scalars: dict[str, dict[str, float]]
    no_schedule: dict[str, str]
    pods: list[str]
    extended_resources: dict[str, dict[str, Any]] = msgspec.field(name="ExtendedResources")
    drain: str
    """draining, drained, failed, or empty."""


class _Known(NamedTuple):
    """Names of an agent. `key` is the key of its settings, as offers.model.Offer.key."""

    id: str
    key: str
    hostname: str
    ip: str


class _Listed(NamedTuple):
    """Agents as the cluster manager lists them, prepared for many pages."""

    source: Sequence[ListedAgent]
    ordered: list[tuple[Order, _Known, ListedAgent | None]]
    by_id: Mapping[str, ListedAgent]
    ids: frozenset[str]
    keys: frozenset[str]


_latest: list[_Listed] = []
"""The list that was shown last: a list is valid for a while, and many pages of it are requested."""


def walk_agents(
    state: StateReader, listed: Sequence[ListedAgent], after: Order | None = None
) -> Iterator[tuple[Order, Callable[[], AgentView]]]:
    """Agents of the Mesos master merged with settings and taskgroups, by host name, address and id, after this order.
    Agents the master does not list any more stay visible while taskgroups are recorded on them or settings name them.
    Only agents whose view is requested are read. `listed` must not be changed later. Raises TypeError if `after` does
    not fit the order of agents."""
    known = _prepared(listed)
    others: list[tuple[Order, _Known, ListedAgent | None]] = [(_order(o), o, None) for o in _others(state, known)]
    found = known.ordered
    if others:
        found = list(merge(found, sorted(others, key=itemgetter(0)), key=itemgetter(0)))
    for order, agent, source in found[0 if after is None else bisect_right(found, after, key=itemgetter(0)) :]:
        yield order, partial(_agent, state, agent, source)


def _prepared(listed: Sequence[ListedAgent]) -> _Listed:
    for known in _latest:
        if known.source is listed:
            return known
    agents: list[tuple[_Known, ListedAgent | None]] = [
        (_Known(agent.id, agent.key, agent.hostname, agent.ip), agent) for agent in listed
    ]
    ordered = sorted(((_order(known), known, agent) for known, agent in agents), key=itemgetter(0))
    ids, keys = frozenset(known.id for known, _ in agents), frozenset(known.key for known, _ in agents)
    _latest[:] = [_Listed(listed, ordered, {agent.id: agent for agent in listed}, ids, keys)]
    return _latest[0]


def _others(state: StateReader, listed: _Listed) -> list[_Known]:
    """Agents that Mesos does not list."""
    found: list[_Known] = []
    holders, set_up = state.agent_ids(), list(state.agent_settings)
    if listed.ids.issuperset(holders) and listed.keys.issuperset(set_up):
        return []  # as a rule; a look at ten thousand agents takes a quarter of a millisecond
    for agent_id in set(holders) - listed.ids - {""}:
        found += [_unlisted(state, agent_id, group) for group in list(state.groups_on(agent_id).values())[:1]]
    strangers = set(set_up) - listed.keys - {known.key for known in found}
    return found + [_Known("", key, "", key) for key in strangers]


def listed_by_id(listed: Sequence[ListedAgent]) -> Mapping[str, ListedAgent]:
    """Agents as Mesos lists them. `listed` must not be changed later."""
    return _prepared(listed).by_id


def named_agent(state: StateReader, listed: Sequence[ListedAgent], name: str) -> Callable[[], AgentView] | None:
    """The view of one agent of `walk_agents`; None if there is no such agent. `name`: the id, or the key of its
    settings for an agent that is known by settings only. `listed` must not be changed later."""
    known = _prepared(listed)
    agent = known.by_id.get(name)
    if agent is not None:
        return partial(_agent, state, _Known(agent.id, agent.key, agent.hostname, agent.ip), agent)
    for group in list(state.groups_on(name).values())[:1]:
        return partial(_agent, state, _unlisted(state, name, group), None)
    if name in state.agent_settings and name not in known.keys:
        holders = (state.groups_on(id).values() for id in state.indexes.agents_called(name))
        if not any(list(groups) for groups in holders):
            return partial(_agent, state, _Known("", name, "", name), None)
    return None


def _order(agent: _Known) -> Order:
    return agent.hostname, agent.ip, agent.id


def show_agents(state: StateReader, listed: Sequence[ListedAgent]) -> list[AgentView]:
    """All of them."""
    return [show() for _, show in walk_agents(state, listed)]


def cluster_resource(agents: list[AgentView]) -> ClusterResource:
    def total(name: str) -> float:
        return round(sum(float(getattr(agent, name)) for agent in agents), 3)

    return ClusterResource(
        cputotal=total("cputotal"),
        memtotal=total("memtotal"),
        disktotal=total("disktotal"),
        cpuused=total("cpuused"),
        memused=total("memused"),
        diskused=total("diskused"),
        agents=agents,
    )


def show_setting(state: StateReader, setting: AgentSetting, agent_ids: frozenset[str]) -> SettingView:
    """`agent_ids`: the Mesos agents the setting is about."""
    return SettingView(
        inner_ip=setting.agent,
        disabled=setting.disabled,
        strings={name: {"value": value} for name, value in setting.strings.items()},
        scalars={name: {"value": value} for name, value in setting.scalars.items()},
        no_schedule=setting.taints,
        pods=sorted(group for agent in agent_ids for group in list(state.groups_on(agent))),
        extended_resources={
            name: {
                "InnerIP": setting.agent,
                "Name": name,
                "Capacity": recorded(name).displayed(amount),
                "Value": 0.0,
                "Socket": setting.sockets.get(name, ""),
            }
            for name, amount in setting.extended.items()
        },
        drain=drain_state(setting.drain),
    )


def ids_by_setting(state: StateReader, listed: Sequence[ListedAgent]) -> dict[str, set[str]]:
    """Mesos agent ids by the key of their settings."""
    found: dict[str, set[str]] = {}
    for agent in listed:
        found.setdefault(agent.key, set()).add(agent.id)
    known = {agent.id for agent in listed}
    for agent_id in state.agent_ids():
        for group in list(state.groups_on(agent_id).values())[:1]:
            if agent_id not in known:
                found.setdefault(_unlisted(state, agent_id, group).key, set()).add(agent_id)
    return found


def show_offer(state: StateReader, offer: Offer) -> dict[str, Any]:
    """A Mesos offer in the original's form (docs/original.md#offer-view): settings appear as attributes, taints as
    NoSchedule."""
    setting = state.agent_settings.get(offer.key)
    attributes = [_mesos_attribute("hostname", offer.hostname)] if "hostname" in offer.attributes else []
    attributes += [_mesos_attribute(name, value) for name, value in offer.attributes.items() if name != "hostname"]
    resources: list[dict[str, Any]] = []
    for key, amount in offer.scalars:
        scalar = {"value": recorded(key.name).displayed(amount)}
        resources.append({"name": key.name, "type": MESOS_SCALAR, "scalar": scalar, "role": key.role})
    for key, ranges in offer.ranges:
        spans = [{"begin": begin, "end": end} for begin, end in ranges]
        resources.append({"name": key.name, "type": MESOS_RANGES, "ranges": {"range": spans}, "role": key.role})
    if setting is not None:
        given: dict[str, Attribute] = {**setting.strings, **setting.scalars}
        attributes += [_mesos_attribute(name, value) for name, value in given.items()]
        if setting.taints:
            items = [f"{key}={value}" for key, value in setting.taints.items()]
            attributes.append({"name": "NoSchedule", "type": MESOS_SET, "set": {"item": items}})
        for name, amount in setting.extended.items():
            socket = setting.sockets.get(name, "")
            scalar = {"value": recorded(name).displayed(amount)}
            resources.append({"name": name, "type": MESOS_SCALAR, "scalar": scalar, "role": socket})
    return {
        "id": {"value": offer.id},
        "framework_id": {"value": state.framework.id},
        "agent_id": {"value": offer.agent_id},
        "hostname": offer.hostname,
        "ip": offer.ip,
        "role": offer.role,
        "resources": resources,
        "attributes": attributes,
        "deltaResource": {"Cpus": 0.0, "Mem": 0.0, "Disk": 0.0},
    }


def _unlisted(state: StateReader, agent_id: str, group: TaskGroup) -> _Known:
    """An agent known by a taskgroup on it only. Settings under its address show that the agent had an InnerIP."""
    key = group.agent_ip if group.agent_ip in state.agent_settings else group.hostname
    return _Known(agent_id, key, group.hostname, group.agent_ip)


def _agent(state: StateReader, known: _Known, listed: ListedAgent | None) -> AgentView:
    """`listed` None: the cluster manager does not list the agent."""
    listed = listed or ListedAgent(known.id, known.hostname, active=False)
    setting = state.agent_settings.get(known.key)
    total = {name: recorded(name).displayed(listed.total.get(name, 0)) for name in _SCALARS}
    groups = list(state.groups_on(known.id).values()) if known.id else []
    live = [group for group in groups if not group.ended]
    used = {name: recorded(name).displayed(sum(getattr(group.resources, name) for group in live)) for name in _SCALARS}
    own = [_attribute(name, value) for name, value in listed.attributes.items()]
    given: dict[str, Attribute] = {**setting.strings, **setting.scalars} if setting is not None else {}
    extended = setting.extended if setting is not None else {}
    registered = int(listed.registered_time * 1e9)
    return AgentView(
        id=known.id,
        key=known.key,
        hostname=known.hostname,
        ip=known.ip,
        active=listed.active,
        disabled=setting.disabled if setting is not None else False,
        cputotal=total["cpus"],
        memtotal=total["mem"],
        disktotal=total["disk"],
        gputotal=total["gpus"],
        cpuused=used["cpus"],
        memused=used["mem"],
        diskused=used["disk"],
        gpuused=used["gpus"],
        taskgroups=len(live),
        host_attributes=own,
        attributes=[a for a in own if a["name"] not in given] + [_attribute(n, v) for n, v in given.items()],
        taints=setting.taints if setting is not None else {},
        extended={name: recorded(name).displayed(amount) for name, amount in extended.items()},
        registered_time=registered,
        reregistered_time=registered,
        drain=drain_state(setting.drain) if setting is not None else "",
        drain_message=_drain_message(setting.drain) if setting is not None else "",
    )


def _drain_message(drain: Drain | None) -> str:
    return drain.message if drain is not None and (drain.blocked or drain.phase == "Failed") else ""


def drain_state(drain: Drain | None) -> str:
    """State of a drain as users see it; empty without a drain."""
    return SHOWN[drain.phase] if drain is not None else ""


def _attribute(name: str, value: Attribute) -> dict[str, Any]:
    """Shows an attribute with the types of the original's stored records."""
    if isinstance(value, str):
        return {"name": name, "type": ATTRIBUTE_TEXT, "text": {"value": value}}
    if isinstance(value, int | float):
        return {"name": name, "type": ATTRIBUTE_SCALAR, "scalar": {"value": value}}
    return {"name": name, "type": ATTRIBUTE_RANGES, "ranges": {"range": _spans(value)}}


def _mesos_attribute(name: str, value: Attribute) -> dict[str, Any]:
    """Shows an attribute with the types of Mesos."""
    if isinstance(value, str):
        return {"name": name, "type": MESOS_TEXT, "text": {"value": value}}
    if isinstance(value, int | float):
        return {"name": name, "type": MESOS_SCALAR, "scalar": {"value": value}}
    return {"name": name, "type": MESOS_RANGES, "ranges": {"range": _spans(value)}}


def _spans(ranges: tuple[tuple[int, int], ...]) -> list[dict[str, int]]:
    return [{"begin": begin, "end": end} for begin, end in ranges]
