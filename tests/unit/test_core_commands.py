"""Commands of users as the core answers them: limits that keep every record storable."""

from __future__ import annotations

from bcs_scheduler.core.interface.effects import Reason, Reply
from bcs_scheduler.core.interface.requests import CreateApplication, Request, SetAgent, UpdateApplication
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.requests.answers import DEFINITION_BYTES
from bcs_scheduler.core.requests.kinds.agents import SETTING_BYTES
from bcs_scheduler.core.scheduler import Core
from store.records import Version
from store.records.definition import Amounts, Container

NOW = 1_000_000_000.0


def version(raw: str = "{}", command: str = "/bin/true") -> Version:
    container = Container(command=command, requests=Amounts(cpus=100, mem=32_000))
    return Version(namespace="ns", application="web", instances=1, containers=(container,), raw=raw)


def answer(core: Core, command: Request) -> Reply:
    units = core.turn([command], NOW)
    (reply,) = [effect for unit in units for effect in unit.effects if isinstance(effect, Reply)]
    return reply


def test_a_definition_no_store_could_hold_is_refused_and_nothing_is_kept() -> None:
    core = Core([], CoreOptions(strict=True), NOW)
    reply = answer(core, CreateApplication(token=1, version=version("x" * (DEFINITION_BYTES + 1))))
    assert reply.error == Reason.INVALID
    assert str(DEFINITION_BYTES) in reply.message
    assert not core.state.applications and not core.state.transactions
    assert answer(core, CreateApplication(token=2, version=version("x" * DEFINITION_BYTES))).error == ""


def test_an_oversized_update_leaves_the_definition() -> None:
    core = Core([], CoreOptions(strict=True), NOW)
    answer(core, CreateApplication(token=1, version=version()))
    before = core.state.applications["ns/web"]
    reply = answer(
        core, UpdateApplication(token=2, version=version("x" * (DEFINITION_BYTES + 1), command="/bin/false"))
    )
    assert reply.error == Reason.INVALID
    assert core.state.applications["ns/web"] == before


def test_settings_of_an_agent_do_not_grow_without_bound() -> None:
    core = Core([], CoreOptions(strict=True), NOW)
    replies = [
        answer(core, SetAgent(token=n, agent="10.0.0.1", extended={f"resource-{n}-{'x' * 1000}": 1000}))
        for n in range(150)
    ]
    refused = [reply for reply in replies if reply.error]
    assert refused and refused[0].error == Reason.INVALID
    assert len(core.state.agent_settings["10.0.0.1"].extended) < SETTING_BYTES / 1000
