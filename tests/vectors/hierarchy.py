"""Runs vectors with the policy `hierarchical`: builds the tree of queues, and compares what it decides.

Queues have the fields of a queue configuration, with `guaranteed`, `max` and the properties beside the name
(``preemption.policy``, ``preemption.delay`` and so on). `config.preemption` is that of the configuration. An ask with
a `node` runs there; so do all asks of an application with `running`. `min_available`: the application is a gang, whose
asks find places together. `budget`: so many allocations of the application may be preempted at a time.

Without `input.sessions`, `allocation_order`, `allocated` and `still_pending` are the result of one run, and
`preemption` is that of one try of each pending ask. `input.sessions` N plays N rounds that are `input.period` seconds
apart (5); the first is at `input.now` (0). A round allocates, preempts, gives back what is above a lowered maximum, and
reserves nodes. Then victims have ended: they are asks again, of the same age. An application with `arrives` N exists
from round N on. `expect` may name for the whole series `running`, `evictions` (by round), `evicted` (by application)
and `still_pending`, and for the last round `operations`: allocations, evictions and reserved nodes in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offers.dimensions import amounts
from offers.policy.hierarchy.configuration.document import partition_of
from offers.policy.hierarchy.configuration.partition import Partition
from offers.policy.hierarchy.gangs import Attempts
from offers.policy.hierarchy.maintenance import maintain
from offers.policy.hierarchy.preemption.preemption import attempt
from offers.policy.hierarchy.state.application import Application
from offers.policy.hierarchy.state.model import Allocation, Ask, Preemption
from offers.policy.hierarchy.tree import Tree
from tests.vectors.comparing import differences
from tests.vectors.reading import PolicyVector

PROPERTIES = (
    "priority.policy",
    "priority.offset",
    "application.sort.policy",
    "application.sort.priority",
    "preemption.policy",
    "preemption.delay",
    "preemption.gangs",
    "quota.preemption.delay",
)
PERIOD = 5.0
"""Seconds between two rounds, as long as work waits."""


class NotUnderstood(ValueError):
    """A field of the vector that this adapter does not know."""


def run(vector: PolicyVector) -> list[str]:
    """The differences of a vector."""
    _known("config", vector.config, ("preemption",))
    if "sessions" in vector.input:
        rounds = Rounds(vector)
        for _ in range(vector.input["sessions"]):
            found = rounds.play()
    else:
        tree = tree_of(vector.input, vector.config)
        found = _preempted(tree, vector.input) if "preemption" in vector.expect else _allocated(tree)
    lines = [f"expect.{name}: unknown field" for name in sorted(set(vector.expect) - set(found))]
    for name in vector.expect:
        if name in found:
            lines += differences(f"expect.{name}", vector.expect[name], found[name])
    return lines


def _allocated(tree: Tree) -> dict[str, Any]:
    order = [[one.ask.id, one.node] for one in tree.run()]
    return {"allocation_order": order, "allocated": _counts(tree), "still_pending": _pending(tree)}


def _counts(tree: Tree) -> dict[str, int]:
    return {name: len(one.allocations) for name, one in tree.applications.items() if one.allocations}


def _pending(tree: Tree) -> list[str]:
    return sorted(f"{name}/{ask}" for name, one in tree.applications.items() for ask in one.asks)


class Rounds:
    """A tree in the course of time."""

    def __init__(self, vector: PolicyVector) -> None:
        given = vector.input
        later = [app for app in given["apps"] if app.get("arrives", 1) > 1]
        self.tree = tree_of({**given, "apps": [app for app in given["apps"] if app not in later]}, vector.config)
        self._later = later
        self._least = {app["name"]: app.get("min_available", 1) for app in given["apps"]}
        self._budgets: dict[str, int] = {app["name"]: app["budget"] for app in given["apps"] if "budget" in app}
        self._attempts = Attempts(self.tree)
        self._now, self._period = float(given.get("now", 0)), float(given.get("period", PERIOD))
        self._evictions: list[int] = []
        self._evicted: dict[str, int] = {}
        self.tree.begin(self.tree.terms._replace(allowance=self._allowance if self._budgets else None))

    def play(self) -> dict[str, Any]:
        """The next round. Returns what `expect` may name."""
        for app in [app for app in self._later if app["arrives"] == len(self._evictions) + 1]:
            _add(self.tree, app)
        lacking = self._lacking()
        self._attempts.renew(self._now)
        lines = [f"allocate {one.ask.id} {one.node}" for one in self._attempts.run(lacking)]
        self._attempts.renew(self._now)
        preemptions = self._attempts.preempt(lacking, self._now)
        self._attempts.restore()
        done = maintain(self.tree, self._now)
        victims: list[Allocation] = []
        for one in (*preemptions, *done.preemptions):
            lines += [f"evict {victim.ask.id} {victim.node} for {one.ask.id}" for victim in one.victims]
            victims += one.victims
        lines += [f"give back {victim.ask.id} {victim.node}" for victim in done.given_back]
        lines += [f"reserve {one.ask.id} {one.node}" for one in done.reserved]
        self._end([*victims, *done.given_back])
        self._now += self._period
        return {
            "operations": lines,
            "running": _counts(self.tree),
            "evictions": self._evictions,
            "evicted": self._evicted,
            "still_pending": _pending(self.tree),
        }

    def _end(self, victims: list[Allocation]) -> None:
        self._evictions.append(len(victims))
        for victim in victims:
            name = victim.ask.application
            self._evicted[name] = self._evicted.get(name, 0) + 1
            self.tree.ask(self.tree.release(name, victim.ask.name).ask)

    def _lacking(self) -> dict[str, int]:
        counts = {name: len(one.allocations) for name, one in self.tree.applications.items()}
        missing = {name: self._least[name] - count for name, count in counts.items()}
        return {name: number for name, number in missing.items() if number > 0}

    def _allowance(self, name: str) -> int:
        """As in the scheduler: victims of this round count against the budget."""
        leaving = sum(one.ask.application == name for one in self.tree.leaving.values())
        return self._budgets.get(name, len(self.tree.applications[name].allocations)) - leaving


def _preempted(tree: Tree, given: Mapping[str, Any]) -> dict[str, Any]:
    """Tries each pending ask once, in the order given; an ask that succeeds is placed at once."""
    tried = []
    for app in given["apps"]:
        for entry in app["asks"]:
            if _runs(app, entry):
                continue
            for ask in _asks(app, entry):
                result = attempt(tree, ask, ask.created + entry.get("age", 0))
                tried.append({"ask": ask.id, "result": "none" if result is None else _carried_out(tree, result)})
    return {"preemption": tried}


def _carried_out(tree: Tree, result: Preemption) -> dict[str, Any]:
    for victim in result.victims:
        tree.release(victim.ask.application, victim.ask.name)
    placed = tree.cycle()
    if placed != Allocation(result.ask, result.node):
        raise AssertionError(f"{result.ask.id} is not placed on {result.node}: {placed}")
    return {
        "fence": result.fence,
        "node": result.node,
        "victims": sorted(victim.ask.id for victim in result.victims),
    }


def tree_of(given: Mapping[str, Any], config: Mapping[str, Any]) -> Tree:
    """The tree that the input of a vector means."""
    _known("input", given, ("nodes", "queues", "apps", "sessions", "period", "now"))
    for node in given["nodes"]:
        _known("nodes", node, ("name", "total"))
    document = {"queues": [_queue(given["queues"])], **config}
    partition: Partition = partition_of(document, quantity=int)
    tree = Tree(partition, [(node["name"], node["total"]) for node in given["nodes"]])
    for app in given["apps"]:
        _add(tree, app)
    return tree


def _add(tree: Tree, app: Mapping[str, Any]) -> None:
    known = ("name", "queue", "submitted", "asks", "running", "arrives", "user", "groups", "min_available", "budget")
    _known("apps", app, known)
    owner = app.get("user", ""), tuple(app.get("groups", ()))
    application = Application(app["name"], app["queue"], app["submitted"], *owner)
    application.least = app.get("min_available", 0)
    tree.submit(application)
    for entry in app["asks"]:
        for ask in _asks(app, entry):
            if _runs(app, entry):
                tree.recover(Allocation(ask, entry["node"]))
            else:
                tree.ask(ask)


def _runs(app: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    return app.get("running", False) or "node" in entry


def _queue(given: Mapping[str, Any]) -> dict[str, Any]:
    _known("queues", given, ("name", "queues", "guaranteed", "max", "maxapplications", "limits", *PROPERTIES))
    return {
        "name": given["name"],
        "resources": {name: given[name] for name in ("guaranteed", "max") if name in given},
        "properties": {name: given[name] for name in PROPERTIES if name in given},
        **{name: given[name] for name in ("maxapplications", "limits") if name in given},
        "queues": [_queue(child) for child in given.get("queues", [])],
    }


def _asks(app: Mapping[str, Any], entry: Mapping[str, Any]) -> list[Ask]:
    known = ("name", "count", "request", "priority", "created", "node", "originator", "age")
    _known("asks", entry, (*known, "required_node", "preemptable", "may_preempt"))
    created = entry.get("created", app["submitted"])
    names = [f"{entry['name']}{number}" for number in range(entry["count"])] if "count" in entry else [entry["name"]]
    return [
        Ask(
            app["name"],
            name,
            amounts(entry["request"]),
            created + number / 1000,
            entry.get("priority", 0),
            may_preempt=entry.get("may_preempt", True),
            preemptable=entry.get("preemptable", True),
            originator=entry.get("originator", False),
            required_node=entry.get("required_node", ""),
        )
        for number, name in enumerate(names)
    ]


def _known(place: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise NotUnderstood(f"input {place}: unknown {', '.join(unknown)}")
