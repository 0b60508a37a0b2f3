"""Reads a partition from a plain document in the shape of YuniKorn's queue configuration, and refuses it as a whole.

queues:
  - name: root                      # may be left out: then these are the children of root, and all may submit
    queues:
      - name: batch
        parent: true
        maxapplications: 20
        resources: {guaranteed: {cpus: 10}, max: {cpus: 40}}
        properties: {application.sort.policy: fair, priority.offset: 5}
        limits: [{users: ["*"], maxapplications: 3, maxresources: {cpus: 8}}]
        childtemplate: {resources: {max: {cpus: 4}}}
        submitacl: "alice,bob ops"   # users, a space, groups
placementrules:
  - {name: user, create: true, parent: {name: fixed, value: batch}}
nodesortpolicy: {type: fair, resourceweights: {cpus: 1}}
preemption: {enabled: true, quotapreemptionenabled: true}

A file of YuniKorn has this below `partitions`, in its only entry (`yunikorn`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from offers.policy.amounts import Vector, added, shown, thousandths, written
from offers.policy.hierarchy.configuration.fields import BadQueues, Fields
from offers.policy.hierarchy.configuration.partition import (
    EVERYBODY,
    ROOT,
    Acl,
    Fencing,
    Filter,
    GangPreemption,
    Limit,
    NodeOrder,
    Partition,
    PlacementRule,
    PreemptionPolicy,
    Properties,
    QueueConfig,
    SortPolicy,
    Template,
    full_names,
)
from offers.policy.hierarchy.configuration.yunikorn import WITHOUT_EFFECT, plain

DEFAULT_QUEUES: Mapping[str, Any] = {"queues": [{"name": "default"}]}
"""The document that counts where no other is given."""
NAME = re.compile(r"[A-Za-z0-9_@#/:\-]{1,64}")
"""Names of queues: up to 64 characters, no dot."""
PATTERN = re.compile(r"[\^$*+?()\[\]{}|\\]")
"""Characters that make the name of a filter a regular expression in YuniKorn."""
TAGS = ("namespace",)
"""The tags of the applications of the scheduler."""
QUEUE_FIELDS = frozenset(
    (
        "name",
        "parent",
        "queues",
        "resources",
        "maxapplications",
        "properties",
        "limits",
        "childtemplate",
        "submitacl",
        "adminacl",
    )
)
PARTITION_FIELDS = frozenset({"name", "queues", "placementrules", "nodesortpolicy", "preemption"})
FILE_FIELDS = PARTITION_FIELDS | {"limits", *WITHOUT_EFFECT}
"""Fields of an entry of `partitions`."""
RULES = frozenset({"provided", "user", "fixed", "tag"})
PROPERTIES = frozenset(
    {
        "application.sort.policy",
        "application.sort.priority",
        "priority.policy",
        "priority.offset",
        "preemption.policy",
        "preemption.delay",
        "preemption.gangs",
        "quota.preemption.delay",
        "application.unschedasks.backoff",
        "application.unschedasks.backoff.delay",
    }
)

MOST_QUEUES, MOST_LEVELS = 1000, 100
"""Queues of a document, and levels of queues, or of parents of rules, below each other. Queues that placement rules
create do not count."""
NO_BACKOFF = (
    "applications are not backed off: requests without a place cause no work while they wait; remove the setting"
)
"""The problem of a setting that delays applications with many requests that cannot be placed."""


def partition_of(
    document: object,
    resources: Collection[str] | None = None,
    quantity: Callable[[Any], int] = thousandths,
    tags: Collection[str] | None = None,
) -> Partition:
    """The partition that a document describes. Raises BadQueues with all problems.

    `resources`: the names of resources that every agent has; other names are those of extended resources, with amounts
    in thousandths. None admits every name. `quantity` turns a value into an integer amount and raises ValueError if the
    value is no amount. `tags`: the tags that applications have; None admits every tag.
    """
    return _Reader(Fields(resources, quantity), tags).read(document)


def canonical(document: object) -> str:
    """A document without mistakes as JSON: documents with the same content have the same text."""
    return json.dumps(plain(document), sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


class _Reader:
    def __init__(self, fields: Fields, tags: Collection[str] | None) -> None:
        self._fields, self._tags = fields, tags
        self._above: list[int] = []
        self._number = 0
        self._paths: dict[str, str] = {}

    def read(self, document: object) -> Partition:
        given = self._partition(document)
        root = self._root(given.get("queues", []))
        if self._number > MOST_QUEUES:
            raise BadQueues(self._fields.problems)
        if "limits" in given:
            if root.limits:
                self._fields.report("limits", "the queue root has limits, too: give one of them")
            root = root._replace(limits=self._limits("limits", given["limits"]))
        rules = self._rules("placementrules", given.get("placementrules", []))
        order, weights = self._node_order(given.get("nodesortpolicy", {}))
        preemption = self._fields.mapping(
            "preemption", given.get("preemption", {}), ("enabled", "quotapreemptionenabled")
        )
        enabled = self._fields.flag("preemption.enabled", preemption.get("enabled", True), True)
        quota = self._fields.flag(
            "preemption.quotapreemptionenabled", preemption.get("quotapreemptionenabled", True), True
        )
        check_tree(self._fields, root, self._paths, rules)
        if self._fields.problems:
            raise BadQueues(self._fields.problems)
        return Partition(root, tuple(rule for _, rule in rules), enabled, quota, order, weights)

    def _partition(self, document: object) -> Mapping[str, Any]:
        """The document, or the only partition of a file of YuniKorn. Later paths begin there."""
        if not isinstance(document, Mapping) or "partitions" not in document:
            return self._fields.mapping("partition", document, PARTITION_FIELDS)
        entries = self._fields.items(
            "partitions", self._fields.mapping("file", document, ("partitions",))["partitions"]
        )
        for position in range(1, len(entries)):
            self._fields.report(f"partitions[{position}]", "there is one tree of queues, so one partition")
        if not entries:
            self._fields.report("partitions", "has no partition")
            return {}
        self._fields.prefix = "partitions[0]."
        return self._fields.mapping("partition", entries[0], FILE_FIELDS)

    # --- queues -----------------------------------------------------------------------------------------------

    def _root(self, value: object) -> QueueConfig:
        entries = self._fields.items("queues", value)
        if len(entries) == 1 and isinstance(entries[0], Mapping) and str(entries[0].get("name", "")).lower() == ROOT:
            root = self._queue("queues[0]", entries[0], ROOT)
            if root.guaranteed or root.max:
                self._fields.report("queues[0].resources", "root has no resources of its own: they are the cluster's")
            return root._replace(is_parent=True)
        self._paths[ROOT] = "queues"
        everybody = Acl(frozenset({EVERYBODY}))
        return QueueConfig(ROOT, is_parent=True, submit=everybody, queues=self._queues("queues", entries, ROOT))

    def _queues(self, path: str, entries: list[Any], above: str) -> tuple[QueueConfig, ...]:
        queues: dict[str, QueueConfig] = {}
        if entries and above.count(".") >= MOST_LEVELS:
            self._fields.report(path, f"more than {MOST_LEVELS} levels of queues")
            return ()
        for position, entry in enumerate(entries):
            place = f"{path}[{position}]"
            self._number += 1
            if self._number > MOST_QUEUES:
                if self._number == MOST_QUEUES + 1:
                    self._fields.report(place, f"more than {MOST_QUEUES} queues")
                break
            if id(entry) in self._above:
                self._fields.report(place, "a queue contains itself")
                continue
            if not isinstance(entry, Mapping):
                self._fields.report(place, "not an object")
                continue
            name = self._name(f"{place}.name", entry.get("name"))
            if name in queues:
                self._fields.report(f"{place}.name", f"two queues have the name {name}")
                continue
            self._above.append(id(entry))
            queue = self._queue(place, entry, f"{above}.{name}")
            self._above.pop()
            queues[name] = queue
        return tuple(queues.values())

    def _name(self, path: str, value: object) -> str:
        if not isinstance(value, str) or not NAME.fullmatch(value):
            self._fields.report(path, f"{shown(value)} is no name: 1 to 64 letters, digits and _ @ # / : -, no dot")
            return f"?{path.replace('.', '/')}"
        return value.lower()

    def _queue(self, path: str, value: Mapping[str, Any], full: str) -> QueueConfig:
        fields = self._fields
        given = fields.mapping(path, value, QUEUE_FIELDS)
        self._paths[full] = path
        if not self._above:
            self._above.append(id(value))
        queues = self._queues(f"{path}.queues", fields.items(f"{path}.queues", given.get("queues", [])), full)
        is_parent = fields.flag(f"{path}.parent", given.get("parent", bool(queues)), bool(queues))
        if queues and not is_parent:
            fields.report(f"{path}.parent", "a leaf has no queues")
        guaranteed, most = self._resources(f"{path}.resources", given.get("resources", {}))
        template = None
        if "childtemplate" in given:
            template = self._template(f"{path}.childtemplate", given["childtemplate"])
            if not is_parent and full != ROOT:
                fields.report(f"{path}.childtemplate", "a leaf has no child template")
        return QueueConfig(
            full.rpartition(".")[2],
            is_parent,
            guaranteed,
            most,
            fields.count(f"{path}.maxapplications", given.get("maxapplications", 0)),
            self._properties(f"{path}.properties", given.get("properties", {})),
            self._limits(f"{path}.limits", given.get("limits", [])),
            template,
            self._acl(f"{path}.submitacl", given.get("submitacl", "")),
            self._acl(f"{path}.adminacl", given.get("adminacl", "")),
            queues,
        )

    def _resources(self, path: str, value: object) -> tuple[dict[str, int], dict[str, int]]:
        given = self._fields.mapping(path, value, ("guaranteed", "max"))
        return (
            self._fields.amounts(f"{path}.guaranteed", given.get("guaranteed", {})),
            self._fields.amounts(f"{path}.max", given.get("max", {})),
        )

    def _template(self, path: str, value: object) -> Template:
        given = self._fields.mapping(path, value, ("resources", "maxapplications", "properties"))
        guaranteed, most = self._resources(f"{path}.resources", given.get("resources", {}))
        return Template(
            guaranteed,
            most,
            self._fields.count(f"{path}.maxapplications", given.get("maxapplications", 0)),
            self._properties(f"{path}.properties", given.get("properties", {})),
        )

    def _properties(self, path: str, value: object) -> Properties:
        fields = self._fields
        given = fields.mapping(path, value, PROPERTIES)
        properties: dict[str, Any] = {}
        for name, setting in given.items():
            place = f"{path}.{name}"
            match name:
                case "application.sort.policy":
                    properties["sort_policy"] = fields.choice(place, setting, SortPolicy, SortPolicy.FIFO)
                case "application.sort.priority":
                    if setting not in ("enabled", "disabled"):
                        fields.report(place, f"{shown(setting)} is none of enabled, disabled")
                    properties["sort_priority"] = setting != "disabled"
                case "priority.policy":
                    properties["priority_policy"] = fields.choice(place, setting, Fencing, Fencing.DEFAULT)
                case "priority.offset":
                    properties["priority_offset"] = fields.integer(place, setting)
                case "preemption.policy":
                    properties["preemption_policy"] = fields.choice(
                        place, setting, PreemptionPolicy, PreemptionPolicy.DEFAULT
                    )
                case "preemption.delay":
                    properties["preemption_delay"] = fields.seconds(place, setting, 30.0)
                case "preemption.gangs":
                    properties["gang_preemption"] = fields.choice(place, setting, GangPreemption, GangPreemption.KEEP)
                case "quota.preemption.delay":
                    properties["quota_preemption_delay"] = fields.seconds(place, setting, 0.0)
                case "application.unschedasks.backoff" if not fields.count(place, setting):
                    pass  # switched off, as always here
                case _ if name in PROPERTIES:
                    fields.report(place, NO_BACKOFF)
        return Properties(**properties)

    def _limits(self, path: str, value: object) -> tuple[Limit, ...]:
        fields = self._fields
        limits: list[Limit] = []
        seen: set[tuple[str, str]] = set()
        for position, entry in enumerate(fields.items(path, value)):
            place = f"{path}[{position}]"
            given = fields.mapping(place, entry, ("limit", "users", "groups", "maxapplications", "maxresources"))
            users = fields.texts(f"{place}.users", given.get("users", []))
            groups = fields.texts(f"{place}.groups", given.get("groups", []))
            for kind, names in (("users", users), ("groups", groups)):
                for name in names:
                    if (kind, name) in seen:
                        fields.report(f"{place}.{kind}", f"{name} has two limits in this queue")
                    seen.add((kind, name))
            if not users and not groups:
                fields.report(place, "names neither users nor groups")
            if "maxapplications" not in given and "maxresources" not in given:
                fields.report(place, "limits neither applications nor resources")
            limits.append(
                Limit(
                    users,
                    groups,
                    fields.count(f"{place}.maxapplications", given.get("maxapplications", 0)),
                    fields.amounts(f"{place}.maxresources", given.get("maxresources", {})),
                )
            )
        return tuple(limits)

    def _acl(self, path: str, value: object) -> Acl:
        listed = self._fields.text(path, value)
        if listed.strip() == EVERYBODY:
            return Acl(frozenset({EVERYBODY}))
        users, space, groups = listed.partition(" ")
        if " " in groups.strip():
            self._fields.report(path, "more than one space: users, a space, groups")
        return Acl(_names(users), _names(groups) if space else frozenset())

    # --- the whole --------------------------------------------------------------------------------------------

    def _rules(self, path: str, value: object) -> list[tuple[str, PlacementRule]]:
        entries = self._fields.items(path, value)
        return [(f"{path}[{i}]", self._rule(f"{path}[{i}]", entry, ())) for i, entry in enumerate(entries)]

    def _rule(self, path: str, value: object, below: tuple[int, ...]) -> PlacementRule:
        fields = self._fields
        if id(value) in below:
            fields.report(path, "a rule is its own parent")
            return PlacementRule("provided")
        if len(below) > MOST_LEVELS:
            fields.report(path, f"more than {MOST_LEVELS} parents of a rule")
            return PlacementRule("provided")
        given = fields.mapping(path, value, ("name", "value", "create", "filter", "parent"))
        kind = fields.text(f"{path}.name", given.get("name", ""))
        if kind not in RULES:
            fields.report(f"{path}.name", f"unknown rule {shown(kind)}; known: {', '.join(sorted(RULES))}")
        needs_value = kind in ("fixed", "tag")
        target = fields.text(f"{path}.value", given.get("value", ""))
        if needs_value and not target:
            fields.report(f"{path}.value", f"is missing: the rule {kind} needs a value")
        if kind == "tag" and target and self._tags is not None and target not in self._tags:
            known = ", ".join(sorted(self._tags))
            fields.report(f"{path}.value", f"no application has the tag {target}; known: {known}")
        if "value" in given and not needs_value:
            fields.report(f"{path}.value", f"the rule {kind} has no value")
        parent = None
        if "parent" in given:
            parent = self._rule(f"{path}.parent", given["parent"], (*below, id(value)))
            if kind == "fixed" and (target == ROOT or target.startswith(f"{ROOT}.")):
                fields.report(f"{path}.parent", "a full name of a queue has no parent rule")
        create = fields.flag(f"{path}.create", given.get("create", False), False)
        return PlacementRule(kind, target, create, self._filter(f"{path}.filter", given.get("filter", {})), parent)

    def _filter(self, path: str, value: object) -> Filter:
        given = self._fields.mapping(path, value, ("type", "users", "groups"))
        kind = given.get("type", "allow")
        if kind not in ("allow", "deny"):
            self._fields.report(f"{path}.type", f"{shown(kind)} is none of allow, deny")
        names = {field: self._fields.texts(f"{path}.{field}", given.get(field, [])) for field in ("users", "groups")}
        for field, listed in names.items():
            for position, name in enumerate(listed):
                if name != EVERYBODY and PATTERN.search(name):
                    self._fields.report(f"{path}.{field}[{position}]", f"{name} is a pattern: give the names")
        return Filter(kind != "deny", frozenset(names["users"]), frozenset(names["groups"]))

    def _node_order(self, value: object) -> tuple[NodeOrder, dict[str, int]]:
        fields = self._fields
        given = fields.mapping("nodesortpolicy", value, ("type", "resourceweights"))
        order = fields.choice("nodesortpolicy.type", given.get("type", "fair"), NodeOrder, NodeOrder.FAIR)
        weights = fields.amounts("nodesortpolicy.resourceweights", given.get("resourceweights", {}), weights=True)
        return order, weights


def _names(target: str) -> frozenset[str]:
    return frozenset(name for name in target.strip().split(",") if name)


# --- the tree as a whole: children against their parents, and the queues that rules name --------------------------


def check_tree(
    fields: Fields, root: QueueConfig, paths: Mapping[str, str], rules: list[tuple[str, PlacementRule]]
) -> None:
    """Reports every queue above its parent and every rule that names a missing queue. `paths`: the place of each queue
    in the document by its full name; `rules`: each with its place."""
    _check_queue(fields, root, ROOT, paths, {}, None)
    _check_limits(fields, root, ROOT, paths, {})
    queues = dict(full_names(root))
    for path, rule in rules:
        _check_rule(fields, path, rule, queues)


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
    for position, own_limit in enumerate(queue.limits):
        _at_most(
            fields,
            f"{path}.limits[{position}].maxresources",
            own_limit.max_resources,
            limit,
            "the maximum of the queue",
        )
        if _more(own_limit.max_applications, queue.max_applications):
            fields.report(
                f"{path}.limits[{position}].maxapplications",
                f"{own_limit.max_applications} exceeds {queue.max_applications}, the applications of the queue",
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


def _more(number: int | None, limit: int | None) -> bool:
    return number is not None and limit is not None and number > limit


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
        for entry in [("user", user) for user in limit.users] + [("group", group) for group in limit.groups]:
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
