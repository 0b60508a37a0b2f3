"""Agents by the names that callers use, also while the list of agents is not complete after a change of leaders."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.api.http.operation import Call, not_leading
from bcs_scheduler.core.interface.effects import Reason
from bcs_scheduler.wire.problems import nearest
from offers.agents import ListedAgent, Names

COMPARED = 1000
"""Names that are compared with one that no agent has."""


def keys_of(call: Call, called: Names, name: str) -> list[str]:
    """Keys of the agents with this name. A name that no agent has stands for itself: the core refuses it, unless the
    request forces it or settings of this name exist (docs/original.md#unknown-agents). Raises ApiError if the name may
    be that of an agent which is not listed yet."""
    found = called.keys(name)
    if found:
        return found
    if name not in call.state().agent_settings:
        check_complete(call, name)
    return [name]


def nearest_agent(listed: Iterable[ListedAgent], name: str) -> str:
    """The name of a listed agent that is most like `name`; empty if none is. Only names that begin or end in the same
    way are compared: difflib takes half a second for those of 10,000 agents."""
    size = len(name)
    head, tail = name[: size // 3].lower(), name[size - size // 3 :].lower()
    alike = (
        known
        for agent in listed
        for known in (agent.hostname, agent.ip, agent.id)
        if abs(len(known) - size) <= 2 and (known.lower().startswith(head) or known.lower().endswith(tail))
    )
    return nearest(name, islice(alike, COMPARED))


def check_complete(call: Call, name: str, shown: str = "") -> None:
    """Raises ApiError if an agent of this name, which is not listed, may be listed soon: 503, so that callers repeat
    the request, and on a standby, which has no list, the address of the leader. `shown`: the agent in the message, if
    callers do not know it by the name."""
    if call.gateway.role() != "master":
        raise not_leading(call.gateway.leader_url())
    if call.gateway.awaits_agent(name):
        words = f"Mesos has not listed {shown or f'agent {name}'} yet, because the leader has changed; try again"
        raise ApiError(Reason.UNAVAILABLE, words)
