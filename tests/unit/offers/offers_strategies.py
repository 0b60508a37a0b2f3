"""Hypothesis strategies for offers, agents, demands and what runs already. Small worlds, so that things collide."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from offers.host_ports import HostPort
from offers.model import AgentOverrides, Demand, Offer, Ranges, Reservation, ResourceKey, ResourceRequest
from offers.resources import normalise
from offers.rules.constraints import RuleSpec, compile_rules
from tests.unit.offers.matching.reference_matcher import Live

APPLICATIONS = ("ns/a", "ns/b")
LABELS = ("tier:db", "tier:web")
ZONES = ("z1", "z2", "z3")
RESERVED = (Reservation("STATIC", "prod"),)

ONE_IN_TEN = st.integers(0, 9).map(lambda number: number == 9)

ranges = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 6)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=4
).map(normalise)


def amounts(top: int) -> st.SearchStrategy[int]:
    """Few different amounts, so that scores tie."""
    return st.integers(0, top).map(lambda units: units * 500)


@st.composite
def offers(draw: st.DrawFn, agent: int, serial: int) -> Offer:
    role = "prod" if draw(ONE_IN_TEN) else "*"
    scalars: dict[ResourceKey, int] = {}
    for name in ("cpus", "mem", "disk", "gpus"):
        scalars[ResourceKey(name, role)] = draw(amounts(16))
        if draw(ONE_IN_TEN):
            scalars[ResourceKey(name, role, RESERVED)] = draw(amounts(8))
    ports: list[tuple[ResourceKey, Ranges]] = [
        (ResourceKey("ports", role), draw(st.one_of(st.just(((1, 20),)), ranges)))
    ]
    if draw(ONE_IN_TEN):
        ports.append((ResourceKey("ports", role, RESERVED), tuple((b + 100, e + 100) for b, e in draw(ranges))))
    attributes: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {"zone": st.sampled_from(ZONES), "rack": st.sampled_from(("r1", "r2", "r3", "r4"))},
            optional={
                "level": st.sampled_from((1.0, 2.0, 3.5)),
                "odd": st.sampled_from(("x", 1.0, ((1, 2),))),
            },
        )
    )
    hostname = f"host-{agent // 2}" if draw(ONE_IN_TEN) else f"host-{agent}"
    unavailable = 1000.0 if draw(ONE_IN_TEN) else 0.0
    return Offer(
        f"o{serial}", f"a{agent}", hostname, f"10.0.0.{agent}", role, attributes,
        tuple(scalars.items()), tuple(ports), unavailable,
    )  # fmt: skip


@st.composite
def worlds(draw: st.DrawFn) -> list[Offer]:
    """Offers of up to nine agents, sometimes several of one agent."""
    found: list[Offer] = []
    for agent in range(draw(st.integers(0, 9))):
        for _ in range(2 if draw(ONE_IN_TEN) else 1):
            found.append(draw(offers(agent, len(found))))
    return found


overrides = st.builds(
    AgentOverrides,
    disabled=ONE_IN_TEN,
    attributes=st.fixed_dictionaries(
        {}, optional={"zone": st.sampled_from(ZONES), "level": st.sampled_from((0.5, 9.0))}
    ),
    taints=st.fixed_dictionaries({}, optional={"dedicated": st.sampled_from(("arena", "db")), "old": st.just("yes")}),
    extended=st.fixed_dictionaries({}, optional={"vendor/card": st.sampled_from((1000, 2000, 4000))}),
)

names = st.sampled_from(("hostname", "zone", "rack", "level", "odd", "absent"))
rule_specs = st.one_of(
    st.builds(RuleSpec, names, st.just("UNIQUE")),
    st.builds(RuleSpec, names, st.just("MAXPER"), limit=st.integers(0, 3)),
    st.builds(RuleSpec, names, st.just("GREATER"), number=st.sampled_from((0.0, 1.0, 2.5))),
    st.builds(
        RuleSpec,
        st.sampled_from(("zone", "zone", "rack", "odd", "hostname")),
        st.just("GROUPBY"),
        st.lists(st.sampled_from((*ZONES, "r1", "r2", "x", "host-1", "host-2")), max_size=4).map(tuple),
    ),
    st.builds(RuleSpec, names, st.just("CLUSTER"), st.lists(st.sampled_from((*ZONES, "r1", "x", "host-0"))).map(tuple)),
    st.builds(
        RuleSpec,
        names,
        st.sampled_from(("LIKE", "UNLIKE")),
        st.lists(st.sampled_from(("z*", "re:z[12]", "host-?", "re:host-[0-3]", "r[!1]", "*")), max_size=2).map(tuple),
    ),
    st.builds(RuleSpec, st.just("label"), st.just("EXCLUDE"), st.lists(st.sampled_from(LABELS)).map(tuple)),
)
rules = st.builds(
    compile_rules,
    st.lists(st.lists(rule_specs, min_size=1, max_size=3), max_size=2),
    st.sets(st.sampled_from((("dedicated", "arena"), ("dedicated", "db"), ("old", "yes")))).map(tuple),
)
needs = st.builds(
    ResourceRequest,
    cpus=amounts(3),
    mem=amounts(3),
    disk=st.sampled_from((0, 0, 500)),
    gpus=st.sampled_from((0, 0, 0, 500)),
    random_ports=st.sampled_from((0, 0, 1, 3)),
    fixed_ports=st.sampled_from(((), (), (), (3,), (12, 3), (7, 7))),
    extended=st.sampled_from(((), (), (), (), (("vendor/card", 1000),), (("vendor/card", 500), ("vendor/card", 500)))),
    amounts=st.sampled_from(((), (), (), (), (), (), (("cpus", 500), ("disk", 500)), (("absent", 1),))),
    host_ports=st.sampled_from(((), (), (), (), (), (), (), (HostPort(3, "TCP"),))),
)


some_agents = st.sets(st.integers(0, 9).map(lambda number: f"a{number}"), max_size=5).map(frozenset)


@st.composite
def demands(draw: st.DrawFn) -> list[Demand[Any]]:
    return [
        Demand(
            f"d{number}",
            draw(st.sampled_from(APPLICATIONS)),
            tuple(range(draw(st.integers(0, 9)))),
            draw(needs),
            draw(rules),
            "prod" if draw(ONE_IN_TEN) else "*",
            "host-1" if draw(ONE_IN_TEN) else "",
            draw(st.sampled_from(((), ("tier:db",), LABELS))),
            draw(st.booleans()),
            draw(some_agents) if draw(ONE_IN_TEN) else frozenset(),
            draw(some_agents) if draw(ONE_IN_TEN) else frozenset(),
        )
        for number in range(draw(st.integers(1, 4)))
    ]


running = st.lists(
    st.builds(
        Live,
        st.sampled_from((*APPLICATIONS, "ns/other")),
        st.integers(0, 6).map(lambda number: f"a{number}"),
        st.fixed_dictionaries(
            {"hostname": st.integers(0, 6).map(lambda number: f"host-{number}")},
            optional={"zone": st.sampled_from(ZONES), "rack": st.sampled_from(("r1", "r2")), "level": st.just(1.0)},
        ),
        st.sampled_from(((), (), ("tier:db",))),
        st.sampled_from(((), (), (("vendor/card", 1000),))),
    ),
    max_size=8,
)
