"""The judge of placements: neither blind to a broken rule nor to how things came to stand as they do."""

from __future__ import annotations

from store.records import AgentSetting, TaskGroup, Version
from store.records.definition import AttributeValue, Constraint
from tests.simulation.agents import Agent
from tests.simulation.mesos import Master, Watch
from tests.simulation.oracle import Neighbours, Site, objection_in_any_order
from tests.simulation.world import World

ZONES = Constraint(name="zone", operator="GROUPBY", items=("east", "west", "north"))
ALONE = Constraint(name="hostname", operator="UNIQUE")


def group(index: int, zone: str, version: str, number: int) -> TaskGroup:
    return TaskGroup(
        id=f"{index}.api.prod.Unnamed.{number}",
        namespace="prod",
        application="api",
        version=version,
        index=index,
        agent_id=f"agent-{zone}",
        hostname=f"host-{zone}",
        attributes={"zone": AttributeValue(text=zone)},
    )


def words(
    *fresh: TaskGroup, there: tuple[TaskGroup, ...] = (), gone: int = 0, **versions: tuple[Constraint, ...]
) -> str:
    """What is said against `fresh`; `versions` are their constraints by name."""
    world = World(1)
    master = Master(world, Watch())
    known = {
        ("prod/api", name): Version(
            namespace="prod", application="api", name=name, constraints=tuple((c,) for c in rules)
        )
        for name, rules in versions.items()
    }

    def site_of(placed: TaskGroup) -> Site:
        zone = placed.attributes["zone"].text
        facts = {"host": placed.hostname, "attributes": {"zone": zone}, "capacity": {}, "ports": (1, 0)}
        return Site(Agent(world, master, placed.agent_id, facts), AgentSetting(agent=placed.hostname))

    return objection_in_any_order(fresh, Neighbours([*there, *fresh], known), site_of, gone=gone)


def test_groupby_is_judged_when_its_taskgroup_is_placed_not_by_what_other_versions_placed_later() -> None:
    """Taskgroup 0 had failed and came back with the version it had, which knows no zones,
    in the pass that had placed taskgroup 2 before it."""
    assert not words(group(2, "east", "new", 1), group(0, "east", "old", 2), new=(ZONES,), old=())


def test_a_value_with_more_than_its_share_is_noticed() -> None:
    told = words(group(0, "east", "new", 1), group(1, "east", "new", 2), new=(ZONES,))
    assert told.endswith("constraint GROUPBY zone")


def test_the_share_counts_what_was_there_before() -> None:
    there = (group(0, "east", "new", 1),)
    assert words(group(1, "east", "new", 2), there=there, new=(ZONES,))
    assert not words(group(1, "west", "new", 2), there=there, new=(ZONES,))
    assert not words(group(1, "east", "new", 2), there=there, gone=2, new=(ZONES,))


def test_one_order_that_works_is_enough() -> None:
    """Only 1 before 0 works: 0 may share the host, 1 may not."""
    assert not words(group(0, "east", "old", 1), group(1, "east", "new", 2), new=(ALONE,), old=())
    assert words(group(0, "east", "new", 1), group(1, "east", "new", 2), new=(ALONE,))
