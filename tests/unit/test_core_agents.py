"""What the core learns from the list of agents."""

from __future__ import annotations

from bcs_scheduler.core.interface.cluster_manager import AgentsListed, Connected
from bcs_scheduler.core.interface.effects import Reply
from bcs_scheduler.core.interface.leased import OffersArrived
from bcs_scheduler.core.interface.requests import CreateApplication, DrainAgent
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.core.scheduler import Core
from offers.agents import ListedAgent
from offers.model import Offer, ResourceKey
from store.records import Version
from store.records.definition import Amounts, Container

NOW = 1_000_000_000.0


def offer(agent: str, cpus: int, mem: int) -> Offer:
    scalars = ((ResourceKey("cpus", "*"), cpus), (ResourceKey("mem", "*"), mem), (ResourceKey("disk", "*"), 10_000_000))
    return Offer(f"offer-{agent}", agent, agent, "127.0.0.1", "*", {}, scalars, ())


def placed_on(core: Core) -> str:
    container = Container(command="/bin/true", requests=Amounts(cpus=100, mem=32_000))
    version = Version(namespace="ns", application="web", instances=1, containers=(container,))
    core.turn([CreateApplication(token=1, version=version)], NOW)
    core.turn([OffersArrived(offers=(offer("half-full", 8_000, 8_000_000), offer("empty", 4_000, 4_000_000)))], NOW)
    (group,) = core.state.taskgroups.values()
    return group.hostname


def agent(identity: str, cpus: int, mem: int) -> ListedAgent:
    return ListedAgent(identity, identity, total={"cpus": cpus, "mem": mem})


def test_spread_prefers_the_agent_with_the_greatest_free_share_of_its_real_size() -> None:
    core = Core([], CoreOptions(strict=True), NOW)
    core.turn([Connected(framework_id="f")], NOW)
    core.turn([AgentsListed(agents=(agent("half-full", 16_000, 16_000_000), agent("empty", 4_000, 4_000_000)))], NOW)
    assert placed_on(core) == "empty"


def test_without_the_list_offers_stand_for_the_whole_agent() -> None:
    core = Core([], CoreOptions(strict=True), NOW)
    core.turn([Connected(framework_id="f")], NOW)
    assert placed_on(core) == "half-full", "equal shares: the first offered"


def drained(core: Core, name: str) -> str:
    """Reason for which a drain is refused; empty if it began."""
    (reply,) = (
        effect
        for unit in core.turn([DrainAgent(token=1, agent=name)], NOW)
        for effect in unit.effects
        if isinstance(effect, Reply)
    )
    return str(reply.error or "")


def test_agents_that_the_cluster_manager_waits_for_are_not_unknown() -> None:
    core = Core([], CoreOptions(strict=True), NOW)
    directory = core.turn_context.agents
    core.turn([Connected(framework_id="f")], NOW)
    assert directory.awaits("anything") and not drained(core, "anything")
    core.turn([AgentsListed(agents=(agent("a1", 1, 1),), awaited=("a2", "host-2"))], NOW)
    assert [directory.awaits(name) for name in ("a1", "a2", "host-2", "a3")] == [False, True, True, False]
    assert not drained(core, "host-2") and drained(core, "a3") == "not_found"
    core.turn([AgentsListed(agents=(agent("a1", 1, 1),))], NOW)
    assert not directory.awaits("host-2") and drained(core, "host-2") == "not_found"
