"""Agents by the names that callers use, also while the list of agents is not complete after a change of leaders."""

from __future__ import annotations

from bcs_scheduler.api.http.errors import ApiError
from bcs_scheduler.api.http.operation import Call, not_leading
from bcs_scheduler.core.interface.effects import Reason
from offers.agents import Names


def keys_of(call: Call, called: Names, name: str) -> list[str]:
    """Keys of the agents with this name. A name that no agent has stands for itself, so that agents can be set up
    before they register (docs/original.md#unknown-agents). Raises ApiError if the name may be that of an agent which is
    not listed yet."""
    found = called.keys(name)
    if found:
        return found
    if name not in call.state().agent_settings:
        check_complete(call, name)
    return [name]


def check_complete(call: Call, name: str, shown: str = "") -> None:
    """Raises ApiError if an agent of this name, which is not listed, may be listed soon: 503, so that callers repeat
    the request, and on a standby, which has no list, the address of the leader. `shown`: the agent in the message, if
    callers do not know it by the name."""
    if call.gateway.role() != "master":
        raise not_leading(call.gateway.leader_url())
    if call.gateway.awaits_agent(name):
        words = f"Mesos has not listed {shown or f'agent {name}'} yet, because the leader has changed; try again"
        raise ApiError(Reason.UNAVAILABLE, words)
