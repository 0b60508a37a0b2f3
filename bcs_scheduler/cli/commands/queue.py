"""`bcs queue`: the queues that share the cluster with the policy `session`, or those of the tree of `hierarchical`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from math import isfinite
from typing import Any, TypeVar

import click

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.arguments import queue_names
from bcs_scheduler.cli.commands.changing.namespaces import NONE, Number
from bcs_scheduler.cli.commands.queuetree import COMMANDS, listed_partition_option, partition_option
from bcs_scheduler.cli.errors import NotFound, UsageError
from bcs_scheduler.cli.options import (
    WholeHelp,
    connection_options,
    dry_run_option,
    examples,
    list_options,
    pass_session,
    reporting,
)
from bcs_scheduler.cli.session import Session

Command = TypeVar("Command", bound=Callable[..., Any])
RESOURCES = ("cpus", "mem", "disk", "gpus")
ALIASES = {"cpu": "cpus", "memory": "mem", "storage": "disk", "gpu": "gpus"}
WITH_UNITS = {"cpus": "vcore", "mem": "memory"}
"""Names of resources in documents of trees whose amounts have units."""
name_argument = click.argument("name", metavar="QUEUE", shell_complete=queue_names)
names_argument = click.argument("names", nargs=-1, required=True, metavar="QUEUE...", shell_complete=queue_names)


def setting_options(command: Command) -> Command:
    """Options for the settings of a queue."""
    amounts = f"RESOURCE is {', '.join(RESOURCES)}, or an extended resource. May be repeated."
    for flags, extra in (
        (
            ("--max-applications", "most"),
            {"type": click.IntRange(0), "metavar": "N", "help": "Of the tree: applications that run at most; 0 = any."},
        ),
        (
            ("--property", "properties"),
            {
                "multiple": True,
                "metavar": "NAME=VALUE",
                "help": "Of the tree: a property; NAME- removes it. May be repeated.",
            },
        ),
        (
            ("--priority",),
            {"type": int, "metavar": "N", "help": "Greater ones first, with `queuePriority` of `proportion`."},
        ),
        (
            ("--max-priority",),
            {"type": Number(), "metavar": "N", "help": "Greatest priority of new work of its namespaces; or none."},
        ),
        (
            ("--reclaimable/--no-reclaimable",),
            {"default": None, "help": "Whether other queues may take back amounts above the deserved share."},
        ),
        (
            ("--capability", "--max", "capability"),
            {"multiple": True, "metavar": "RESOURCE=AMOUNT", "help": f"The most that the queue may have. {amounts}"},
        ),
        (
            ("--guarantee", "--guaranteed", "guarantee"),
            {"multiple": True, "metavar": "RESOURCE=AMOUNT", "help": f"Amount that others cannot have. {amounts}"},
        ),
        (
            ("--weight",),
            {"type": click.IntRange(1), "metavar": "N", "help": "Part of the cluster in proportion to other queues."},
        ),
    ):
        command = click.option(*flags, **extra)(command)
    return command


@click.group(name="queue", cls=WholeHelp)
def queue() -> None:
    """List, show and change queues.

    With the policy `session`, queues share the cluster by weight. A namespace names its queue. With the policy
    `hierarchical`, the same commands show and change the tree of queues, by full names: root.batch.night. If roles have
    different policies, names that begin with root are of the tree. If several partitions of roles have a tree,
    --partition names one; without it, changes concern the partition default.
    """


for command in COMMANDS:
    queue.add_command(command)


@queue.command("list", epilog=examples("bcs queue list", "bcs queue list -o wide"))
@listed_partition_option
@list_options
@connection_options
@pass_session
def list_queues(session: Session, /, partition: str, output: Any, sort_by: str, no_headers: bool) -> None:
    """List the queues, with their namespaces or, of trees, with their amounts and their use."""
    from bcs_scheduler.cli.commands.reading.lists import show
    from bcs_scheduler.cli.kinds.objects.queuetrees import TREE_COLUMNS, parts_of
    from bcs_scheduler.cli.listing import chosen_shape, print_list

    parts = parts_of(session)
    shape = chosen_shape(output=output, sort_by=sort_by, no_headers=no_headers)
    both = bool(parts.shares) and shape.form.name == "table" and not partition
    if parts.trees or partition:
        if both:
            session.say(f"Roles {parts.roles}: {'trees' if len(parts.trees) > 1 else 'the tree'} of queues")
        found = session.client.tree_queues(partition)
        print_list(session, shape, found, parts.columns(TREE_COLUMNS), lambda item: f"queue/{item['name']}")
        if not both:
            return
        session.say(f"Roles {parts.shares}: queues with shares")
    show(
        session,
        ("queues",),
        {},
        everywhere=False,
        selector="",
        watch=False,
        output=output,
        sort_by=sort_by,
        headers=not no_headers,
    )


@queue.command("describe", epilog=examples("bcs queue describe batch", "bcs queue describe batch -o yaml"))
@names_argument
@click.option("-o", "--output", type=click.Choice(("text", "json", "yaml")), help="Output format. Default: text.")
@partition_option
@connection_options
@pass_session
def describe_queues(session: Session, names: tuple[str, ...], output: str | None, partition: str) -> None:
    """Show queues in detail."""
    from bcs_scheduler.cli.kinds.objects.queues import describe_queue
    from bcs_scheduler.cli.kinds.objects.queuetrees import describe_tree_queue, parts_of

    parts = parts_of(session)
    form = output if output in ("json", "yaml") else ""
    for number, name in enumerate(names):
        if number and form != "json":
            session.say("---" if form else "")
        if parts.has(name, partition):
            describe_tree_queue(session, name, form, partition, several=len(parts.trees) > 1)
        else:
            describe_queue(session, name, False, form)


@queue.command("top", epilog=examples("bcs queue top", "bcs queue top batch online -w", "bcs queue top -o json"))
@click.argument("names", nargs=-1, metavar="[QUEUE...]", shell_complete=queue_names)
@click.option("-w", "--watch", is_flag=True, help="Poll, and refresh the bars.")
@listed_partition_option
@list_options
@connection_options
@pass_session
def top_queues(session: Session, /, names: tuple[str, ...], watch: bool, partition: str, **listed: Any) -> None:
    """Show used amounts, deserved shares and capabilities of queues as bars.

    A bar stands for the whole cluster: █ is used, ▓ is used above the deserved share, ░ is deserved and not used, | is
    the capability. WAITING counts taskgroups without a place, by reason. With the policy `hierarchical`, the bars are a
    tree, with the guaranteed amounts in place of the deserved share, and the maximum in place of the capability.
    """
    from bcs_scheduler.cli.commands.bars import TREE_AMOUNTS, Bars
    from bcs_scheduler.cli.commands.refreshing import Lines, refresh
    from bcs_scheduler.cli.kinds.objects.queues import USAGE_COLUMNS
    from bcs_scheduler.cli.kinds.objects.queuetrees import TREE_COLUMNS, bars_of, full_name, parts_of
    from bcs_scheduler.cli.listing import chosen_shape, grid_of, print_list, sorted_by

    shape, parts = chosen_shape(**listed), parts_of(session)
    hierarchical = bool(partition or parts.trees) and all(parts.has(name, partition) for name in names)
    if parts.trees and parts.shares and not partition and shape.form.name == "table":
        trees = f"{'trees' if len(parts.trees) > 1 else 'the tree'} of queues"
        shown = (parts.roles, trees) if hierarchical else (parts.shares, "queues with shares")
        session.say("Roles {}: {}".format(*shown))
    columns = parts.columns(TREE_COLUMNS) if hierarchical else USAGE_COLUMNS

    def look() -> list[Json]:
        usage = session.client.tree_queues(partition) if hierarchical else session.client.queue_usage()
        found: dict[str, list[Json]] = {}
        for each in usage:
            found.setdefault(each["name"], []).append(each)
        wanted = [full_name(name) if hierarchical else name for name in names]
        for name in wanted:
            if name not in found:
                raise NotFound(f"queue {name} does not exist")
        return sorted_by(shape, [each for name in wanted for each in found[name]] if wanted else usage, columns)

    def bars(found: list[Json]) -> Bars:
        if hierarchical:
            return Bars(bars_of(found), headers=shape.headers, amounts=TREE_AMOUNTS)
        return Bars(found, headers=shape.headers)

    def show(found: list[Json]) -> None:
        if shape.form.name == "table":
            session.out.print_lines(bars(found).lines(session.out.width))
        else:
            print_list(session, shape, found, columns, lambda item: f"queue/{item['name']}")

    def drawn(found: list[Json]) -> Lines:
        return bars(found) if shape.form.name == "table" else grid_of(shape, found, columns)

    if watch:
        refresh(session, shape, look, drawn, show)
    show(look())


@queue.command(
    "create",
    epilog=examples(
        "bcs queue create batch --weight 2", "bcs queue create web --guarantee cpus=8 --capability cpus=20"
    ),
)
@click.argument("name", metavar="QUEUE")
@setting_options
@partition_option
@dry_run_option
@connection_options
@pass_session
@reporting
def create_queue(session: Session, /, name: str, partition: str, dry_run: bool, **given: Any) -> None:
    """Create a queue. `bcs create namespace NAME --queue QUEUE` puts a namespace into the queue."""
    from bcs_scheduler.cli.kinds.objects.queuetrees import change_tree, created_queue, full_name, parts_of

    if parts_of(session).has(name, partition):
        settings: Json = {}
        _change_entry(settings, **given)

        def add(document: Json) -> None:
            created_queue(document, name, settings)

        change_tree(session, full_name(name), "created", add, dry_run, partition)
        return
    _put(session, {"kind": "queue", "metadata": {"name": name}, "spec": _changed({}, **given)}, True, dry_run)


@queue.command(
    "set",
    epilog=examples("bcs queue set batch --weight 3", "bcs queue set batch --capability cpus- --no-reclaimable"),
)
@name_argument
@setting_options
@partition_option
@dry_run_option
@connection_options
@pass_session
@reporting
def set_queue(session: Session, /, name: str, partition: str, dry_run: bool, **given: Any) -> None:
    """Change settings of a queue. Settings that are not given remain; RESOURCE- removes an amount."""
    if not any(value not in (None, ()) for value in given.values()):
        raise UsageError("give a setting, such as --weight, --guarantee, --capability or --max-priority")
    from bcs_scheduler.cli.kinds.objects.queuetrees import change_tree, changed_queue, full_name, parts_of

    if parts_of(session).has(name, partition):

        def change(document: Json) -> None:
            changed_queue(document, name, lambda entry: _change_entry(entry, **given))

        change_tree(session, full_name(name), "updated", change, dry_run, partition)
        return
    found = session.client.object("queue", "", name)
    head = {key: found["metadata"][key] for key in ("name", "labels", "annotations", "resourceVersion")}
    _put(session, {"kind": "queue", "metadata": head, "spec": _changed(found["spec"], **given)}, False, dry_run)


@queue.command("delete", epilog=examples("bcs queue delete batch"))
@names_argument
@partition_option
@dry_run_option
@connection_options
@pass_session
@reporting
def delete_queues(session: Session, names: tuple[str, ...], partition: str, dry_run: bool) -> None:
    """Delete queues. A queue that namespaces belong to is not deleted; a queue of the tree with applications drains."""
    from bcs_scheduler.cli.kinds.objects.queues import QUEUE_OPERATIONS
    from bcs_scheduler.cli.kinds.objects.queuetrees import change_tree, full_name, parts_of, removed_queue

    parts = parts_of(session)
    for name in names:
        if parts.has(name, partition):
            change_tree(session, full_name(name), "deleted", partial(removed_queue, name=name), dry_run, partition)
            continue
        QUEUE_OPERATIONS.delete(session, session.namespace, name, False, dry_run)


def _put(session: Session, body: Json, create: bool, dry_run: bool) -> None:
    from bcs_scheduler.cli.documents import Document
    from bcs_scheduler.cli.kinds.objects.queues import put_queue

    put_queue(session, Document("command line", body), create, dry_run)


def _change_entry(
    entry: Json,
    weight: int | None,
    guarantee: Iterable[str],
    capability: Iterable[str],
    reclaimable: bool | None,
    priority: int | None,
    max_priority: int | str | None,
    most: int | None,
    properties: Iterable[str],
) -> None:
    """Changes the entry of a queue of the tree. Raises UsageError."""
    if weight is not None or reclaimable is not None:
        raise UsageError("queues of the tree have no --weight and no --reclaimable")
    if priority is not None:
        raise UsageError("queues of the tree have --property priority.offset=N in place of --priority")
    if max_priority is not None:
        raise UsageError("queues of the tree have no --max-priority; namespaces have: bcs set namespace")
    resources = dict(entry.get("resources") or {})
    for field, option, given in (("guaranteed", "--guarantee", guarantee), ("max", "--capability", capability)):
        found = _amounts(resources.get(field) or {}, option, given)
        resources[field] = dict(_written(name, amount) for name, amount in found.items())
    resources = {field: found for field, found in resources.items() if found}
    if resources or "resources" in entry:
        entry["resources"] = resources
    if most is not None:
        entry["maxapplications"] = most
    kept = dict(entry.get("properties") or {})
    for setting in properties:
        name, equals, value = setting.partition("=")
        if not equals and setting.endswith("-"):
            kept.pop(setting[:-1], None)
        elif equals:
            kept[name] = value
        else:
            raise UsageError(f"--property takes NAME=VALUE or NAME-, not {setting!r}")
    if kept or "properties" in entry:
        entry["properties"] = kept


def _written(name: str, amount: Any) -> tuple[str, Any]:
    """Name and amount as documents of trees have them. An amount with a unit has the name of YuniKorn."""
    if not isinstance(amount, str):
        return name, amount
    try:
        number = float(amount)
    except ValueError:
        return WITH_UNITS.get(name, name), amount
    if not isfinite(number):
        return name, amount
    return name, int(number) if number.is_integer() else number


def _changed(
    spec: Json,
    weight: int | None,
    guarantee: Iterable[str],
    capability: Iterable[str],
    reclaimable: bool | None,
    priority: int | None,
    max_priority: int | str | None,
    most: int | None,
    properties: Iterable[str],
) -> Json:
    """The settings with the given changes. Raises UsageError."""
    if most is not None or list(properties):
        raise UsageError("--max-applications and --property are for the tree of the policy hierarchical")
    changed = {
        **spec,
        "guarantee": _amounts(spec.get("guarantee", {}), "--guarantee", guarantee),
        "capability": _amounts(spec.get("capability", {}), "--capability", capability),
    }
    if weight is not None:
        changed["weight"] = weight
    if reclaimable is not None:
        changed["reclaimable"] = reclaimable
    if priority is not None:
        changed["priority"] = priority
    if max_priority == NONE:
        changed.pop("maxPriority", None)
    elif max_priority is not None:
        changed["maxPriority"] = max_priority
    return changed


def _amounts(present: Json, option: str, given: Iterable[str]) -> Json:
    found = dict(present)
    for setting in given:
        name, equals, amount = setting.partition("=")
        if not equals and setting.endswith("-"):
            found.pop(_resource(setting[:-1]), None)
        elif name and equals and amount:
            found[_resource(name)] = amount
        else:
            raise UsageError(f"{option} takes RESOURCE=AMOUNT or RESOURCE-, not {setting!r}")
    return found


def _resource(name: str) -> str:
    return ALIASES.get(name, name)
