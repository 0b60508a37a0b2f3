"""Requests about agents: settings of operators, and drains.

Settings for a name that turns out to be that of a listed agent become settings of this agent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from bcs_scheduler.core.context import TurnContext
from bcs_scheduler.core.controllers.cluster.offer_manager import OfferManager
from bcs_scheduler.core.interface import requests
from bcs_scheduler.core.interface.cluster_manager import ListAgents
from bcs_scheduler.core.requests.answers import Data
from offers.agents import ListedAgent, Names
from offers.dimensions import recorded
from store.reasons import EventReason
from store.records import AgentSetting, Drain
from transactions.base import Refused
from transactions.text import counted

SETTING_BYTES = 100_000
"""Most that may be set about one agent: many small additions must not grow a record that no store takes."""


class AgentRequests:
    """Handles requests for settings and drains of agents. A changed setting takes effect on the offers of the agent at
    once."""

    def __init__(self, turn: TurnContext, offer_manager: OfferManager) -> None:
        self._turn = turn
        self._offer_manager = offer_manager
        self._unfit: set[str] = set()
        """Names whose settings stay where they are, which has been told."""
        self.handlers: dict[type[requests.Request], Callable[[Any], Data]] = {
            requests.SetAgent: self._set,
            requests.DeleteAgentSetting: self._delete,
            requests.DrainAgent: self._drain,
        }

    def _set(self, command: requests.SetAgent) -> Data:
        if not command.force and not self._known(command.agent):
            words = "; --force (force=1) stores the settings for an agent that registers later"
            raise Refused(
                "not_found", f"agent {command.agent} is not known{'' if command.disabled is False else words}"
            )
        before = self._before(command.agent)
        strings, scalars = _attributes(before, command)
        setting = msgspec.structs.replace(
            before,
            disabled=before.disabled if command.disabled is None else command.disabled,
            strings=strings,
            scalars=scalars,
            taints=before.taints if command.taints is None else command.taints,
            extended={**before.extended, **(command.extended or {})},
            sockets={**before.sockets, **(command.sockets or {})},
            drain=None if command.disabled is False else before.drain,
        )
        size = _size(setting)
        if size > SETTING_BYTES:
            raise Refused(
                "invalid", f"the settings of {command.agent} would have {size} bytes, of {SETTING_BYTES} allowed"
            )
        if _runs(before.drain) and setting.drain is None:
            self._turn.record_event("agent", command.agent, "DrainCancelled", "the agent is enabled again")
        self._record_differences(before, setting)
        return self._put(setting, command)

    def _delete(self, command: requests.DeleteAgentSetting) -> Data:
        setting = self._turn.state.agent_settings.get(command.agent)
        if setting is None:
            raise Refused("not_found", f"there are no settings for agent {command.agent}")
        if _runs(setting.drain):
            self._turn.record_event("agent", command.agent, "DrainCancelled", "the settings of the agent were deleted")
        self._turn.record_event(
            "agent", command.agent, "AgentSettingsForgotten", "all settings of the agent were deleted"
        )
        self._turn.uow.delete(setting)
        if not command.dry_run:
            self._offer_manager.override(command.agent)
        return {"agent": command.agent}

    def _drain(self, command: requests.DrainAgent) -> Data:
        turn, agent = self._turn, command.agent
        before = self._before(agent)
        if not turn.agents.awaits(agent) and not turn.agents_named(agent):
            raise Refused("not_found", f"agent {agent} is not known")
        if command.at_once < 1 or command.timeout < 0:
            raise Refused("invalid", "at least one taskgroup must be moved at once, and the time must not be negative")
        since = before.drain.since if before.drain is not None and _runs(before.drain) else turn.now
        drain = Drain(
            since=since,
            at_once=command.at_once,
            daemonsets=command.daemonsets,
            deadline=turn.now + command.timeout if command.timeout else 0.0,
            phase="Pending",
            message="begins",
        )
        turn.record_event("agent", agent, "DrainStarted", f"at most {counted(command.at_once, 'taskgroup')} at once")
        return self._put(msgspec.structs.replace(before, disabled=True, drain=drain), command)

    def _known(self, agent: str) -> bool:
        """True if the agent has settings or taskgroups, is or was listed, or may be listed soon."""
        turn = self._turn
        return (
            agent in turn.state.agent_settings
            or turn.agents.awaits(agent)
            or turn.agents.was_key(agent)
            or bool(turn.agents_named(agent))
        )

    def _before(self, agent: str) -> AgentSetting:
        return self._turn.state.agent_settings.get(agent, AgentSetting(agent=agent))

    def _put(self, setting: AgentSetting, command: requests.Request) -> Data:
        turn = self._turn
        turn.uow.put(setting)
        if not command.dry_run:
            self._offer_manager.override(setting.agent)
            if not turn.agents.ids_of(setting.agent):
                # The name may belong to an agent that joined after the last list.
                turn.emit(ListAgents(cause=turn.cause))
        return {"agent": setting.agent}

    # --- names that turn out to be those of listed agents -----------------------------------------------------------

    def learn(self, listed: Sequence[ListedAgent]) -> None:
        """Moves settings for an id, host name or address to the listed agents with this name, because settings have no
        effect under such a name. Settings for keys of agents that were listed before stay, since the agents may
        return."""
        turn = self._turn
        strangers = [name for name in turn.state.agent_settings if not turn.agents.was_key(name)]
        if not strangers:
            return
        names = Names(listed)
        for name in strangers:
            keys = names.keys(name)
            if keys and not any((AgentSetting.kind, key) in turn.state.unreadable for key in keys):
                self._fold(turn.state.agent_settings[name], keys)
                turn.checkpoint()

    def _fold(self, other: AgentSetting, keys: Iterable[str]) -> None:
        turn = self._turn
        merged = [(before := self._before(key), _merged(before, other)) for key in keys]
        named = ", ".join(setting.agent for _, setting in merged)
        if any(_size(setting) > SETTING_BYTES for _, setting in merged):
            if other.agent not in self._unfit:
                self._unfit.add(other.agent)
                words = f"it is {named}, whose settings would grow too large: the settings for this name do not count"
                turn.record_event("agent", other.agent, "AgentSettingsTooLarge", words)
            return
        for before, setting in merged:
            self._record_differences(before, setting, f" (set for {other.agent})")
            if _runs(setting.drain) and setting.drain != before.drain:
                turn.record_event("agent", setting.agent, "DrainStarted", f"begun for {other.agent}")
            turn.uow.put(setting)
            self._offer_manager.override(setting.agent)
        turn.record_event(
            "agent", other.agent, "AgentSettingsForgotten", f"it is {named}: the settings for this name now count there"
        )
        turn.uow.delete(other)
        self._offer_manager.override(other.agent)

    def _record_differences(self, before: AgentSetting, after: AgentSetting, origin: str = "") -> None:
        for reason, words in _differences(before, after):
            self._turn.record_event("agent", after.agent, reason, words + origin)


def _merged(own: AgentSetting, other: AgentSetting) -> AgentSetting:
    """Merges two settings of one agent; for a contradiction, the agent's own setting counts. The agent is cordoned if
    either says so, and an active drain continues."""
    return msgspec.structs.replace(
        own,
        disabled=own.disabled or other.disabled,
        strings={name: text for name, text in other.strings.items() if name not in own.scalars} | own.strings,
        scalars={name: number for name, number in other.scalars.items() if name not in own.strings} | own.scalars,
        taints=other.taints | own.taints,
        extended=other.extended | own.extended,
        sockets=other.sockets | own.sockets,
        drain=other.drain if _runs(other.drain) and not _runs(own.drain) else own.drain,
    )


def _attributes(before: AgentSetting, command: requests.SetAgent) -> tuple[dict[str, str], dict[str, float]]:
    """The attributes after the command: texts and numbers. A name is either a text or a number."""
    strings, scalars = command.strings, command.scalars
    if not command.merge:
        return before.strings if strings is None else strings, before.scalars if scalars is None else scalars
    texts, numbers = strings or {}, scalars or {}
    return (
        {name: text for name, text in before.strings.items() if name not in numbers} | texts,
        {name: number for name, number in before.scalars.items() if name not in texts} | numbers,
    )


def _differences(before: AgentSetting, after: AgentSetting) -> Iterator[tuple[EventReason, str]]:
    """Reasons and messages of the events for the differences between two settings."""
    if after.disabled != before.disabled:
        if after.disabled:
            yield "AgentDisabled", "nothing is placed on it"
        else:
            yield "AgentEnabled", "it takes taskgroups again"
    if after.taints != before.taints:
        yield "AgentTainted", ", ".join(f"{key}={value}" for key, value in after.taints.items()) or "no taints are left"
    changes = [
        *_changes("attribute", {**before.strings, **before.scalars}, {**after.strings, **after.scalars}),
        *_changes("extended resource", _amounts(before), _amounts(after)),
        *_changes("socket", before.sockets, after.sockets),
    ]
    if changes:
        yield "AgentSettingsChanged", ", ".join(changes)


def _changes(what: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name, value in after.items():
        if name not in before or before[name] != value:
            yield f"{what} {name}={value}"
    for name in before:
        if name not in after:
            yield f"{what} {name} removed"


def _amounts(setting: AgentSetting) -> dict[str, str]:
    return {name: f"{recorded(name).displayed(amount):g}" for name, amount in setting.extended.items()}


def _runs(drain: Drain | None) -> bool:
    return drain is not None and not drain.done_at


def _size(setting: AgentSetting) -> int:
    return len(msgspec.json.encode(setting))
