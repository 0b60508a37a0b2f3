"""Checks of a tree of queues as a whole: children against their parents, and the queues that rules name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from offers.policy.amounts import Vector, added, written
from offers.policy.hierarchy.configuration.fields import Fields
from offers.policy.hierarchy.configuration.partition import ROOT, Limit, PlacementRule, QueueConfig


def check_tree(
    fields: Fields, root: QueueConfig, paths: Mapping[str, str], rules: list[tuple[str, PlacementRule]]
) -> None:
    """Reports every queue above its parent and every rule that names a missing queue. `paths`: the place of each queue
    in the document by its full name; `rules`: each with its place."""
    _check_queue(fields, root, ROOT, paths, {}, None)
    _check_limits(fields, root, ROOT, paths, {})
    queues = dict(_walk(root, ROOT))
    for path, rule in rules:
        _check_rule(fields, path, rule, queues)


def _walk(queue: QueueConfig, full: str) -> Iterator[tuple[str, QueueConfig]]:
    yield full, queue
    for child in queue.queues:
        yield from _walk(child, f"{full}.{child.name}")


def _check_queue(
    fields: Fields,
    queue: QueueConfig,
    full: str,
    paths: Mapping[str, str],
    above: Vector,
    applications: int | None,
) -> None:
    path = paths[full]
    _at_most(fields, f"{path}.resources.max", queue.max, above, "the maximum of a parent")
    limit = {**above, **queue.max}
    _at_most(fields, f"{path}.resources.guaranteed", queue.guaranteed, limit, "the maximum")
    for position, one in enumerate(queue.limits):
        _at_most(
            fields, f"{path}.limits[{position}].maxresources", one.max_resources, limit, "the maximum of the queue"
        )
        if _more(one.max_applications, queue.max_applications):
            fields.report(
                f"{path}.limits[{position}].maxapplications",
                f"{one.max_applications} exceeds {queue.max_applications}, the applications of the queue",
            )
    if _more(queue.max_applications, applications):
        fields.report(
            f"{path}.maxapplications", f"{queue.max_applications} exceeds {applications}, the applications of a parent"
        )
    if queue.template is not None:
        place = f"{path}.childtemplate"
        _at_most(fields, f"{place}.resources.max", queue.template.max, limit, "the maximum of the parent")
        inner = {**limit, **queue.template.max}
        _at_most(fields, f"{place}.resources.guaranteed", queue.template.guaranteed, inner, "the maximum")
    if full != ROOT:
        together = added(*[child.guaranteed for child in queue.queues])
        _at_most(
            fields,
            f"{path}.resources.guaranteed",
            {name: amount for name, amount in together.items() if name in queue.guaranteed},
            queue.guaranteed,
            "the guarantee of the parent: the children together have more",
        )
        _at_most(
            fields, f"{path}.resources.max", together, limit, "the maximum: the guarantees of the children have more"
        )
    bound = queue.max_applications if queue.max_applications is not None else applications
    for child in queue.queues:
        _check_queue(fields, child, f"{full}.{child.name}", paths, limit, bound)


def _at_most(fields: Fields, path: str, amounts: Vector, limit: Vector, whose: str) -> None:
    for name, amount in sorted(amounts.items()):
        if name in limit and amount > limit[name]:
            fields.report(f"{path}.{name}", f"{written(amount)} exceeds {written(limit[name])}, {whose}")


def _more(one: int | None, limit: int | None) -> bool:
    return one is not None and limit is not None and one > limit


def _check_rule(
    fields: Fields, path: str, rule: PlacementRule, queues: Mapping[str, QueueConfig], *, is_parent: bool = False
) -> None:
    """Reports a rule that names a queue which does not exist or cannot be used; `is_parent`: as the parent of one."""
    if rule.parent is not None:
        _check_rule(fields, f"{path}.parent", rule.parent, queues, is_parent=True)
    if rule.kind != "fixed" or not rule.value or rule.parent is not None:
        return
    full = rule.value.lower()
    full = full if full == ROOT or full.startswith(f"{ROOT}.") else f"{ROOT}.{full}"
    above = full
    while above not in queues:
        above = above.rpartition(".")[0]
    if above != full and not rule.create:
        fields.report(f"{path}.value", f"the queue {full} does not exist, and the rule does not create queues")
    elif above != full and not queues[above].is_parent:
        fields.report(f"{path}.value", f"the queue {full} cannot be created: {above} is a leaf")
    elif above == full and queues[full].is_parent is not is_parent:
        fault = "is a leaf: no queue can be below" if is_parent else "has queues below: applications need a leaf"
        fields.report(f"{path}.value", f"the queue {full} {fault}")


def _check_limits(
    fields: Fields, queue: QueueConfig, full: str, paths: Mapping[str, str], above: Mapping[tuple[str, str], Limit]
) -> None:
    """Reports limits of a user or a group that exceed the one of the same name in a queue above."""
    known = dict(above)
    for position, limit in enumerate(queue.limits):
        path = f"{paths[full]}.limits[{position}]"
        for entry in [("user", one) for one in limit.users] + [("group", one) for one in limit.groups]:
            outer = above.get(entry)
            if outer is not None:
                whose = f"the limit of the {entry[0]} {entry[1]} in a parent"
                _at_most(fields, f"{path}.maxresources", limit.max_resources, outer.max_resources, whose)
                if _more(limit.max_applications, outer.max_applications):
                    fields.report(
                        f"{path}.maxapplications", f"{limit.max_applications} exceeds {outer.max_applications}, {whose}"
                    )
            known[entry] = limit
    for child in queue.queues:
        _check_limits(fields, child, f"{full}.{child.name}", paths, known)
