"""Commands about agents: what operators set about them, and drains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from bcs_scheduler.core import events, orders
from bcs_scheduler.core.controllers.supply import Supply
from bcs_scheduler.core.desk import Desk
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
        size = len(msgspec.json.encode(setting))
        if size > SETTING_BYTES:
            raise Refused(
                "invalid", f"the settings of {command.agent} would have {size} bytes, of {SETTING_BYTES} allowed"
            )
        if before.drain is not None and setting.drain is None and not before.drain.done_at:
            self._desk.tell("agent", command.agent, "drain ended", "the agent is enabled again")
        return self._put(setting, command)

    def _delete(self, command: events.DeleteAgentSetting) -> Data:
        setting = self._desk.state.agent_settings.get(command.agent)
        if setting is None:
            raise Refused("not_found", f"there are no settings for agent {command.agent}")
        self._desk.uow.delete(setting)
        if not command.dry_run:
            self._supply.decorate(command.agent)
        return {"agent": command.agent}

    def _drain(self, command: orders.DrainAgent) -> Data:
        desk, agent = self._desk, command.agent
        before = self._before(agent)
        if desk.agents.listed and agent not in desk.state.agent_settings and not desk.agents_named(agent):
            raise Refused("not_found", f"agent {agent} is not known")
        if command.at_once < 1 or command.timeout < 0:
            raise Refused("invalid", "at least one taskgroup must be moved at once, and the time must not be negative")
        runs = before.drain is not None and not before.drain.done_at
        since = before.drain.since if runs and before.drain is not None else desk.now
        drain = Drain(
            since=since,
            at_once=command.at_once,
            daemonsets=command.daemonsets,
            deadline=desk.now + command.timeout if command.timeout else 0.0,
            message="begins",
        )
        desk.tell("agent", agent, "drain", f"at most {command.at_once} taskgroups at once")
        return self._put(msgspec.structs.replace(before, disabled=True, drain=drain), command)

    def _before(self, agent: str) -> AgentSetting:
        return self._desk.state.agent_settings.get(agent, AgentSetting(agent=agent))

    def _put(self, setting: AgentSetting, command: events.Command) -> Data:
        self._desk.uow.put(setting)
        if not command.dry_run:
            self._supply.decorate(setting.agent)
        return {"agent": setting.agent}
