"""The settings of agents by operators: attributes, taints, extended resources, enable, disable and drain.

Every agent is a change of its own, and the answer says for each agent whether the change was made
(docs/original.md#unknown-agents).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import msgspec

from bcs_scheduler.api.documents.agents import (
    ATTRIBUTE_TEXT,
    AgentSettingDocument,
    AttributeUpdate,
    ExtendedResourceDocument,
    TaintDocument,
    names_agent,
    read_attribute_update,
    read_extended_resource,
    read_settings,
    read_taints,
)
from bcs_scheduler.api.http import errors
from bcs_scheduler.api.http.errors import ApiError, bad_parameter, not_found
from bcs_scheduler.api.http.operation import CONTINUE, LIMIT, Answer, Call, Param, Table
from bcs_scheduler.api.reading.agents import check_complete, keys_of, nearest_agent
from bcs_scheduler.api.reading.query import page
from bcs_scheduler.api.views.agents import SettingView, ids_by_setting, show_setting
from bcs_scheduler.api.views.drains import AgentPlan, DrainView, show_drain
from bcs_scheduler.core.interface.effects import Problem, Reason
from bcs_scheduler.core.interface.requests import DeleteAgentSetting, DrainAgent, PlanAgents, Request, SetAgent
from bcs_scheduler.wire.problems import Problems, element, member
from bcs_scheduler.wire.quantities import thousandths
from offers.agents import ListedAgent, Names
from store.records import AgentSetting
from transactions.text import counted

table = Table("agents")
IPS = Param("ips", "text", "Agents by address, host name or id, separated by commas.")
AT_ONCE = Param(
    "atOnce", "int", "Maximum number of taskgroups of each agent that are moved at a time. Default: 1.", 1, 1000
)
DRAIN_TIMEOUT = Param(
    "timeoutSeconds", "float", "Time after which the drain fails; the remaining taskgroups stay.", 1, 30 * 86400
)
DAEMONSETS = Param("daemonsets", "bool", "Also end the taskgroups of daemonsets, after all other taskgroups.")
NAMED: errors.Reasons = (Reason.NOT_FOUND, errors.BAD_PARAMETER, Reason.UNAVAILABLE, errors.NOT_LEADING)
"""Reasons for which a read about agents that the caller names may fail."""
MAX_IPS = 10_000
HINTS = 3
"""Unknown agents of one request for which a name that is meant is looked for: looking takes milliseconds."""
FORCE = Param("force", "bool", "Also store settings for agents that are not known; the settings apply later.")
UNLISTED = "no agent of this name is listed; the setting applies as soon as one is listed"


class AgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of the change of one agent. `innerIP`: key of its settings; if the request names the agent differently,
    the two names mean the same agent."""

    inner_ip: str = msgspec.field(name="innerIP")
    result: bool
    message: str = "success"
    listed: bool | msgspec.UnsetType = msgspec.UNSET
    """False: settings were stored under a name that no listed agent has. Left out else."""
    plan: AgentPlan | msgspec.UnsetType = msgspec.UNSET
    """The plan of a cordon or a drain. Left out without `dryRun`."""


changes_named = partial(
    table.write, answer=list[AgentResult], reasons=(errors.BAD_PARAMETER, Reason.NOT_FOUND), status=200
)
"""Declares a change of agents that the path or the query names."""
changes_documented = partial(
    table.write, query=(FORCE,), answer=list[AgentResult], reasons=(Reason.INVALID, Reason.NOT_FOUND), status=200
)
"""Declares a change of agents that the body names."""


@table.read(
    "/agentsettings",
    "List the settings of agents",
    query=(IPS, LIMIT, CONTINUE),
    answer=list[SettingView],
    reasons=NAMED,
)
def list_settings(call: Call) -> Answer:
    state = call.state()
    listed = call.gateway.agents()
    found = dict(state.agent_settings)
    if call.original:
        found = {agent.key: AgentSetting(agent=agent.key) for agent in listed} | found
    if "ips" in call.query:
        wanted = _ips(call)
        unknown = [ip for ip in wanted if ip not in found]
        if unknown:
            problems = [Problem("?ips", f"there are no settings for {ip}") for ip in unknown]
            raise ApiError(Reason.NOT_FOUND, f"there are no settings for {', '.join(unknown[:10])}", problems)
        found = {ip: found[ip] for ip in wanted}
    ids = ids_by_setting(state, listed)
    return page(
        found.values(),
        lambda setting: (setting.agent,),
        call.query,
        lambda setting: show_setting(state, setting, frozenset(ids.get(setting.agent, ()))),
    )


@table.read("/agentsetting/{agent}", "Fetch the settings of one agent", answer=SettingView, reasons=NAMED)
def get_setting(call: Call) -> Answer:
    state, listed = call.state(), call.gateway.agents()
    name = call.path["agent"]
    for key in (*Names(listed).keys(name), name):
        setting = state.agent_settings.get(key)
        if setting is not None:
            ids = ids_by_setting(state, listed).get(key, set())
            return Answer(show_setting(state, setting, frozenset(ids)))
    if call.original and (keys := Names(listed).keys(name)):
        return Answer(
            show_setting(state, AgentSetting(agent=keys[0]), frozenset(ids_by_setting(state, listed)[keys[0]]))
        )
    check_complete(call, name)
    raise not_found("settings of agent", name)


@changes_documented(
    "POST",
    "/agentsettings",
    "Change settings of agents; settings that are left out keep their values",
    body=tuple[AgentSettingDocument, ...],
)
async def set_agents(call: Call) -> Answer:
    documents = read_settings(call.body, call.problems)
    meant = _meant(call, [document.inner_ip for document in documents])
    return await _all(call, [_setting(call, documents[i], key) for i, key in meant])


def _setting(call: Call, document: AgentSettingDocument, agent: str) -> SetAgent:
    strings, scalars = document.strings, document.scalars
    extended = document.extended_resources
    return SetAgent(
        agent=agent,
        disabled=document.disabled,
        strings=None if strings is None else {name: item.value for name, item in strings.items()},
        scalars=None if scalars is None else {name: item.value for name, item in scalars.items()},
        taints=document.no_schedule,
        extended={name: thousandths(item.capacity) for name, item in extended.items()} or None,
        sockets={name: item.socket for name, item in extended.items() if item.socket} or None,
        force=_forced(call),
    )


@changes_documented(
    "POST",
    "/agentsettings/update",
    "Set one attribute of several agents; their other attributes stay",
    body=AttributeUpdate,
)
async def update_attribute(call: Call) -> Answer:
    document = read_attribute_update(call.body, call.problems)
    text, scalar = document.text, document.scalar
    as_text = document.valuetype == ATTRIBUTE_TEXT
    commands = [
        SetAgent(
            agent=key,
            strings={document.name: text.value} if as_text and text is not None else None,
            scalars={document.name: scalar.value} if not as_text and scalar is not None else None,
            merge=True,
            force=_forced(call),
        )
        for _, key in _meant(call, list(dict.fromkeys(document.ips)))
    ]
    return await _all(call, commands)


@changes_named(
    "POST", "/agentsettings/enable", "Uncordon agents: place new taskgroups on the agents again", query=(IPS,)
)
async def enable_agents(call: Call) -> Answer:
    return await _switch(call, disabled=False)


@changes_named(
    "POST",
    "/agentsettings/disable",
    "Cordon agents: place no new taskgroups on the agents; running taskgroups stay",
    query=(IPS, FORCE),
)
async def disable_agents(call: Call) -> Answer:
    return await _switch(call, disabled=True)


@changes_named("POST", "/agentsetting/{agent}/enable", "Uncordon one agent: place new taskgroups on the agent again")
async def enable_agent(call: Call) -> Answer:
    return await _switch(call, disabled=False)


@changes_named(
    "POST",
    "/agentsetting/{agent}/disable",
    "Cordon one agent: place no new taskgroups on the agent; running taskgroups stay",
    query=(FORCE,),
)
async def disable_agent(call: Call) -> Answer:
    return await _switch(call, disabled=True)


async def _switch(call: Call, *, disabled: bool) -> Answer:
    agents = _ips(call)
    commands = [SetAgent(agent=ip, disabled=disabled, force=_forced(call)) for ip in agents]
    answer = await _all(call, commands)
    return await _planned(call, answer, agents, drain=False) if call.dry_run and disabled else answer


@changes_documented("PUT", "/agentsettings/taint", "Replace the taints of agents", body=tuple[TaintDocument, ...])
async def taint_agents(call: Call) -> Answer:
    documents = read_taints(call.body, call.problems)
    commands = [
        SetAgent(agent=key, taints=documents[i].no_schedule, force=_forced(call))
        for i, key in _meant(call, [document.inner_ip for document in documents])
    ]
    return await _all(call, commands)


@changes_documented(
    "PUT",
    "/agentsettings/extendedresource",
    "Set the amount of an extended resource of an agent",
    body=ExtendedResourceDocument,
)
async def set_extended_resource(call: Call) -> Answer:
    document = read_extended_resource(call.body, call.problems)
    commands = [
        SetAgent(
            agent=key,
            extended={document.name: thousandths(document.capacity)},
            sockets={document.name: document.socket} if document.socket else None,
            force=_forced(call),
        )
        for _, key in _meant(call, [document.inner_ip])
    ]
    return await _all(call, commands)


@changes_named("DELETE", "/agentsettings", "Delete the settings of agents", query=(IPS,))
async def delete_settings(call: Call) -> Answer:
    return await _all(call, [DeleteAgentSetting(agent=ip) for ip in _ips(call)])


@table.write(
    "POST",
    "/agentsettings/drain",
    "Drain agents: cordon the agents and move their taskgroups to other agents, within the disruption budgets",
    query=(IPS, AT_ONCE, DRAIN_TIMEOUT, DAEMONSETS),
    answer=list[AgentResult],
    reasons=(errors.BAD_PARAMETER, Reason.NOT_FOUND, Reason.INVALID),
    status=200,
)
async def drain_agents(call: Call) -> Answer:
    agents = _ips(call)
    commands = [
        DrainAgent(
            agent=ip,
            at_once=call.query.get("atOnce", 1),
            daemonsets=call.query.get("daemonsets", False),
            timeout=call.query.get("timeoutSeconds", 0.0),
        )
        for ip in agents
    ]
    answer = await _all(call, commands)
    return await _planned(call, answer, agents, drain=True) if call.dry_run else answer


@table.read(
    "/agentsettings/drain",
    "List the drains of agents with progress and blockers",
    query=(IPS, LIMIT, CONTINUE),
    answer=list[DrainView],
    reasons=NAMED,
)
def list_drains(call: Call) -> Answer:
    state, listed = call.state(), call.gateway.agents()
    found = {setting.agent: setting for setting in list(state.agent_settings.values()) if setting.drain is not None}
    if "ips" in call.query:
        wanted = _ips(call)
        if unknown := [ip for ip in wanted if ip not in found]:
            problems = [Problem("?ips", f"{ip} is not being drained") for ip in unknown]
            raise ApiError(Reason.NOT_FOUND, f"not being drained: {', '.join(unknown[:10])}", problems)
        found = {ip: found[ip] for ip in wanted}
    ids = ids_by_setting(state, listed)
    now = call.gateway.now()
    shown = [view for key in found if (view := show_drain(state, found[key], ids.get(key, set()), now)) is not None]
    return page(shown, lambda view: (view.inner_ip,), call.query, lambda view: view)


async def _planned(call: Call, answer: Answer, agents: Sequence[str], *, drain: bool) -> Answer:
    """The results of a dry run with the plans of all agents together."""
    reply = await call.reply(PlanAgents(agents=tuple(agents), drain=drain, dry_run=True))
    plans = reply.data["agents"]
    common = {"evict": reply.data["evict"]}
    return answer._replace(
        data=[
            msgspec.structs.replace(result, plan=msgspec.convert(plans[result.inner_ip] | common, AgentPlan))
            for result in answer.data
        ]
    )


async def _all(call: Call, commands: Sequence[SetAgent | DeleteAgentSetting | DrainAgent]) -> Answer:
    """Submits all, then answers for each. If any failed: the first failure's status, and the results beside it."""
    outcomes = await asyncio.gather(*(_outcome(call, command) for command in commands))
    listed = call.gateway.agents()
    names = Names(listed)
    answered = zip(commands, outcomes, strict=True)
    _hint(
        listed,
        [
            (command.agent, error)
            for command, error in answered
            if error is not None and error.reason == Reason.NOT_FOUND and not names.keys(command.agent)
        ],
    )
    results = [_result(command, error, names) for command, error in zip(commands, outcomes, strict=True)]
    failed = [error for error in outcomes if error is not None]
    if not failed:
        return Answer(results)
    first = failed[0]
    words = f"{len(failed)} of {counted(len(results), 'agent')}: {first.message}" if len(results) > 1 else first.message
    problems = [Problem(result.inner_ip, result.message) for result in results if not result.result]
    raise ApiError(first.reason, words, problems, headers=first.headers, extra={"results": results})


def _hint(listed: Sequence[ListedAgent], unknown: Sequence[tuple[str, ApiError]]) -> None:
    """Adds the nearest known name to the first errors about names that no agent has."""
    for name, error in unknown[:HINTS]:
        if near := nearest_agent(listed, name):
            error.message += f"; did you mean {near}?"


def _forced(call: Call) -> bool:
    return bool(call.query.get("force", False))


async def _outcome(call: Call, command: Request) -> ApiError | None:
    try:
        await call.reply(command)
    except ApiError as error:
        return error
    return None


def _result(command: SetAgent | DeleteAgentSetting | DrainAgent, error: ApiError | None, names: Names) -> AgentResult:
    if error is not None:
        return AgentResult(inner_ip=command.agent, result=False, message=error.message)
    if isinstance(command, SetAgent) and not names.keys(command.agent):
        return AgentResult(inner_ip=command.agent, result=True, message=UNLISTED, listed=False)
    return AgentResult(inner_ip=command.agent, result=True)


def _ips(call: Call) -> list[str]:
    """Keys of the agent of the path, or the agents of the query, each once, in the order given."""
    given = call.path.get("agent") or call.query.get("ips", "")
    names = [name for part in given.split(",") if (name := part.strip())]
    if wrong := next((name for name in names if not names_agent(name)), ""):
        raise bad_parameter("ips", f"names {wrong[:80]!r}, which is not an address, host name or id")
    called = Names(call.gateway.agents())
    agents = list(dict.fromkeys(key for name in names for key in keys_of(call, called, name)))
    if not agents:
        raise bad_parameter("ips", "is required: agents separated by commas")
    if len(agents) > MAX_IPS:
        raise bad_parameter("ips", f"names {counted(len(agents), 'agent')}, at most {MAX_IPS} are allowed")
    return agents


def _meant(call: Call, names: Sequence[str]) -> list[tuple[int, str]]:
    """(place in the list, key) of every agent that the documents of a list are about. Raises ApiError (422) if two are
    about the same."""
    called = Names(call.gateway.agents())
    problems = Problems()
    found: dict[str, int] = {}
    for i, name in enumerate(names):
        for key in keys_of(call, called, name):
            if found.setdefault(key, i) != i:
                where = member(element("$", i), "innerIP")
                problems.add(where, f'"{name}" is given twice: {names[found[key]]} is the same agent')
    if problems:
        raise errors.invalid(problems.listed())
    return [(i, key) for key, i in found.items()]
