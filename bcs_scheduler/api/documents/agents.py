"""Bodies of the agent settings' routes (docs/original.md#agent-settings)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeVar

from msgspec import Meta, field

from bcs_scheduler.api.http.errors import invalid
from bcs_scheduler.wire.decoding import Document, decode
from bcs_scheduler.wire.problems import Problems, element, member
from transactions.text import counted

T = TypeVar("T")
MAX_AGENTS = 10_000
ATTRIBUTE_SCALAR, ATTRIBUTE_TEXT = 101, 103
"""Types of attributes (docs/original.md#cluster-view)."""
AGENT_KEY_LENGTH = 253
"""The most characters of a key of an agent, as of a DNS name."""
_AgentKey = Annotated[str, Meta(min_length=1, max_length=AGENT_KEY_LENGTH)]


class TextValue(Document, frozen=True, kw_only=True):
    value: str


class ScalarValue(Document, frozen=True, kw_only=True):
    value: float


class ExtendedResourceDocument(Document, frozen=True, kw_only=True):
    """The amount of a named resource of an agent. `Value` belongs to containers and is accepted as 0 only."""

    refused: ClassVar[dict[str, str]] = {"Value": "belongs to a container's needs, not to an agent"}

    inner_ip: str = field(name="InnerIP", default="")
    name: Annotated[str, Meta(min_length=1)] = field(name="Name")
    capacity: Annotated[float, Meta(ge=0, le=1e9)] = field(name="Capacity")
    socket: str = field(name="Socket", default="")


class AgentSettingDocument(Document, frozen=True, kw_only=True):
    """Absent fields stay unchanged. `pods` of the original's record is accepted empty only."""

    refused: ClassVar[dict[str, str]] = {"pods": "is kept by the scheduler"}

    inner_ip: _AgentKey = field(name="innerIP")
    disabled: bool | None = None
    strings: dict[str, TextValue] | None = None
    scalars: dict[str, ScalarValue] | None = None
    no_schedule: dict[str, str] | None = None
    extended_resources: dict[str, ExtendedResourceDocument] = field(name="ExtendedResources", default={})


class AttributeUpdate(Document, frozen=True, kw_only=True):
    """One attribute for several agents, which keep their others. `valuetype` 101: the number in `scalar`, 103: the text
    in `text`."""

    ips: Annotated[tuple[_AgentKey, ...], Meta(min_length=1, max_length=MAX_AGENTS)]
    name: Annotated[str, Meta(min_length=1)]
    valuetype: Literal[101, 103]
    scalar: ScalarValue | None = None
    text: TextValue | None = None


class TaintDocument(Document, frozen=True, kw_only=True):
    """The whole taint map of an agent; ``{}`` removes all."""

    inner_ip: _AgentKey = field(name="innerIP")
    no_schedule: dict[str, str]


def read_settings(raw: object, problems: Problems | None = None) -> tuple[AgentSettingDocument, ...]:
    problems = Problems() if problems is None else problems
    documents: tuple[AgentSettingDocument, ...] = decode(raw, tuple[AgentSettingDocument, ...], problems)
    _check_agents([d.inner_ip for d in documents], problems)
    for i, document in enumerate(documents):
        at = element("$", i)
        for name in [*(document.strings or {}), *(document.scalars or {})]:
            if not name or name == "hostname":
                problems.add(at, f'"{name}" cannot be set as an attribute')
        for name in (document.strings or {}).keys() & (document.scalars or {}).keys():
            problems.add(member(member(at, "scalars"), name), "is also given in strings")
        _check_taints(document.no_schedule or {}, member(at, "noSchedule"), problems)
        for name, resource in document.extended_resources.items():
            if resource.name != name:
                where = member(member(member(at, "ExtendedResources"), name), "Name")
                problems.add(where, f'is "{resource.name}", but stands under "{name}"')
    return _checked(documents, problems)


def read_attribute_update(raw: object, problems: Problems | None = None) -> AttributeUpdate:
    problems = Problems() if problems is None else problems
    document: AttributeUpdate = decode(raw, AttributeUpdate, problems)
    if document.name == "hostname":
        problems.add("$.name", '"hostname" cannot be set as an attribute')
    payload = "scalar" if document.valuetype == ATTRIBUTE_SCALAR else "text"
    if not problems and getattr(document, payload) is None:
        problems.add(member("$", payload), f"is required for valuetype {document.valuetype}")
    if problems:
        raise invalid(problems.listed())
    return document


def read_taints(raw: object, problems: Problems | None = None) -> tuple[TaintDocument, ...]:
    problems = Problems() if problems is None else problems
    documents: tuple[TaintDocument, ...] = decode(raw, tuple[TaintDocument, ...], problems)
    _check_agents([d.inner_ip for d in documents], problems)
    for i, document in enumerate(documents):
        _check_taints(document.no_schedule, member(element("$", i), "noSchedule"), problems)
    return _checked(documents, problems)


def read_extended_resource(raw: object, problems: Problems | None = None) -> ExtendedResourceDocument:
    problems = Problems() if problems is None else problems
    document: ExtendedResourceDocument = decode(raw, ExtendedResourceDocument, problems)
    if not document.inner_ip:
        problems.add("$.InnerIP", "is required")
    elif not names_agent(document.inner_ip):
        problems.add("$.InnerIP", "is not an address or host name")
    return _checked(document, problems)


def names_agent(name: str) -> bool:
    """True if an agent may have this name: an address, host name or id of Mesos has no blanks or control characters."""
    return 0 < len(name) <= AGENT_KEY_LENGTH and name.isprintable() and not any(map(str.isspace, name))


def _check_agents(agents: list[str], problems: Problems) -> None:
    if not agents:
        problems.add("$", "must name at least one agent")
    if len(agents) > MAX_AGENTS:
        problems.add("$", f"has {counted(len(agents), 'agent')}, at most {MAX_AGENTS} are allowed in one request")
    seen: set[str] = set()
    for i, agent in enumerate(agents):
        if not names_agent(agent):
            problems.add(member(element("$", i), "innerIP"), "is not an address or host name")
        if agent in seen:
            problems.add(member(element("$", i), "innerIP"), f'"{agent}" is given twice')
        seen.add(agent)


def _check_taints(taints: dict[str, str], path: str, problems: Problems) -> None:
    for key, value in taints.items():
        if not key or not value:
            problems.add(member(path, key), "a taint needs a key and a value")


def _checked(documents: T, problems: Problems) -> T:
    if problems:
        raise invalid(problems.listed())
    return documents
