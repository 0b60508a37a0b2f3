"""Commands about agents: what operators set about them, and drains. What was set for a name that turns out to be that
of a listed agent becomes a setting of this agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from bcs_scheduler.core import events, orders
from bcs_scheduler.core.controllers.drains import BEGINS
from bcs_scheduler.core.controllers.supply import Supply
from bcs_scheduler.core.desk import Desk
from bcs_scheduler.core.effects import ListAgents
from offers.agents import Names
from store.records import AgentSetting, Drain
from transactions.base import Refused

Data = dict[str, Any]

SETTING_BYTES = 100_000
"""Most that may be set about one agent: many small additions must not grow a record that no store takes."""


class AgentCommands:
    """What they set shows in the offers of the agent at once."""

    def __init__(self, desk: Desk, supply: Supply) -> None:
        self._desk = desk
        self._supply = supply
        self._unfit: set[str] = set()
        """Names whose settings stay where they are, which has been told."""
        self.handlers: dict[type[events.Command], Callable[[Any], Data]] = {
            events.SetAgent: self._set,
            events.DeleteAgentSetting: self._delete,
            orders.DrainAgent: self._drain,
        }

    def _set(self, command: events.SetAgent) -> Data:
        before = self._before(command.agent)
        setting = msgspec.structs.replace(
            before,
            disabled=before.disabled if command.disabled is None else command.disabled,
            strings=before.strings if command.strings is None else command.strings,
            scalars=before.scalars if command.scalars is None else command.scalars,
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
            self._desk.tell("agent", command.agent, "drain ended", "the agent is enabled again")
        self._tell(before, setting)
        return self._put(setting, command)

    def _delete(self, command: events.DeleteAgentSetting) -> Data:
        setting = self._desk.state.agent_settings.get(command.agent)
        if setting is None:
            raise Refused("not_found", f"there are no settings for agent {command.agent}")
        if _runs(setting.drain):
            self._desk.tell("agent", command.agent, "drain ended", "the settings of the agent are forgotten")
        self._desk.tell("agent", command.agent, "forgotten", "nothing is set about it any more")
        self._desk.uow.delete(setting)
        if not command.dry_run:
            self._supply.decorate(command.agent)
        return {"agent": command.agent}

    def _drain(self, command: orders.DrainAgent) -> Data:
        desk, agent = self._desk, command.agent
        before = self._before(agent)
        if desk.agents.listed and not desk.agents_named(agent):
            raise Refused("not_found", f"agent {agent} is not known")
        if command.at_once < 1 or command.timeout < 0:
            raise Refused("invalid", "at least one taskgroup must be moved at once, and the time must not be negative")
        since = before.drain.since if before.drain is not None and _runs(before.drain) else desk.now
        drain = Drain(
            since=since,
            at_once=command.at_once,
            daemonsets=command.daemonsets,
            deadline=desk.now + command.timeout if command.timeout else 0.0,
            message=BEGINS,
        )
        desk.tell("agent", agent, "drain", f"at most {command.at_once} taskgroups at once")
        return self._put(msgspec.structs.replace(before, disabled=True, drain=drain), command)

    def _before(self, agent: str) -> AgentSetting:
        return self._desk.state.agent_settings.get(agent, AgentSetting(agent=agent))

    def _put(self, setting: AgentSetting, command: events.Command) -> Data:
        desk = self._desk
        desk.uow.put(setting)
        if not command.dry_run:
            self._supply.decorate(setting.agent)
            if not desk.agents.ids_of(setting.agent):
                # It may be a name of an agent that joined after the last list.
                desk.emit(ListAgents(cause=desk.cause))
        return {"agent": setting.agent}

    # --- names that turn out to be those of listed agents -----------------------------------------------------------

    def learn(self, listed: Sequence[Mapping[str, Any]]) -> None:
        """Gives what was set for an id, host name or address to the listed agents that are called so: under such a name
        it acts on nothing. Keys of agents that have been listed before are left: those may come back."""
        desk = self._desk
        strangers = [name for name in desk.state.agent_settings if not desk.agents.was_key(name)]
        if not strangers:
            return
        names = Names(listed)
        for name in strangers:
            keys = names.keys(name)
            if keys and not any((AgentSetting.kind, key) in desk.state.kept for key in keys):
                self._fold(desk.state.agent_settings[name], keys)
                desk.checkpoint()

    def _fold(self, other: AgentSetting, keys: Iterable[str]) -> None:
        desk = self._desk
        merged = [(before := self._before(key), _merged(before, other)) for key in keys]
        named = ", ".join(setting.agent for _, setting in merged)
        if any(_size(setting) > SETTING_BYTES for _, setting in merged):
            if other.agent not in self._unfit:
                self._unfit.add(other.agent)
                words = f"it is {named}, whose settings would grow too large: what is set for this name does not count"
                desk.tell("agent", other.agent, "too large", words, "warning")
            return
        for before, setting in merged:
            self._tell(before, setting, f" (set for {other.agent})")
            if _runs(setting.drain) and setting.drain != before.drain:
                desk.tell("agent", setting.agent, "drain", f"begun for {other.agent}")
            desk.uow.put(setting)
            self._supply.decorate(setting.agent)
        desk.tell("agent", other.agent, "forgotten", f"it is {named}: what was set for this name counts there")
        desk.uow.delete(other)
        self._supply.decorate(other.agent)

    def _tell(self, before: AgentSetting, after: AgentSetting, origin: str = "") -> None:
        for reason, words in _differences(before, after):
            self._desk.tell("agent", after.agent, reason, words + origin)


def _merged(own: AgentSetting, other: AgentSetting) -> AgentSetting:
    """What both say, as the agent's own settings say it; but either disables, and a drain that runs goes on."""
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


def _differences(before: AgentSetting, after: AgentSetting) -> Iterator[tuple[str, str]]:
    """Reason and words of the events that tell of it."""
    if after.disabled != before.disabled:
        yield ("disabled", "nothing is placed on it") if after.disabled else ("enabled", "it takes taskgroups again")
    if after.taints != before.taints:
        yield "tainted", ", ".join(f"{key}={value}" for key, value in after.taints.items()) or "no taints are left"
    changes = [
        *_changes("attribute", {**before.strings, **before.scalars}, {**after.strings, **after.scalars}),
        *_changes("extended resource", _amounts(before), _amounts(after)),
        *_changes("socket", before.sockets, after.sockets),
    ]
    if changes:
        yield "set", ", ".join(changes)


def _changes(what: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name, value in after.items():
        if name not in before or before[name] != value:
            yield f"{what} {name}={value}"
    for name in before:
        if name not in after:
            yield f"{what} {name} removed"


def _amounts(setting: AgentSetting) -> dict[str, str]:
    return {name: f"{amount / 1000:g}" for name, amount in setting.extended.items()}


def _runs(drain: Drain | None) -> bool:
    return drain is not None and not drain.done_at


def _size(setting: AgentSetting) -> int:
    return len(msgspec.json.encode(setting))
