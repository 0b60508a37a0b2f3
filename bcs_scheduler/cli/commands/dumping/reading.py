"""The sections of a dump: their order, the lists of the API that they are read from, and the failures of a section."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from bcs_scheduler.cli.client.types import Json
from bcs_scheduler.cli.commands.dumping import fields
from bcs_scheduler.cli.commands.dumping.demands import DEMAND, TREE
from bcs_scheduler.cli.commands.dumping.fields import Fields, Hide, shaped
from bcs_scheduler.cli.errors import CliError, NotFound, TimedOut, Unreachable

if TYPE_CHECKING:
    from bcs_scheduler.cli.client.client import Client

Read = TypeVar("Read")


class Section(NamedTuple):
    """`optional`: the API has the list only under some policies; without the list the section is empty."""

    name: str
    path: str
    fields: Fields
    optional: bool = False
    wanted: Callable[[Json], bool] = lambda item: True


SECTIONS = (
    Section("agents", "/agents", fields.AGENT),
    Section("queues", "/queues", fields.QUEUE),
    Section("queueTree", "/queuetree/queues", fields.TREE_QUEUE, optional=True),
    Section("priorityClasses", "/priorityclasses", fields.PRIORITY_CLASS),
    Section("applications", "/applications", fields.APPLICATION),
    Section("demands", "/demands", DEMAND, optional=True),
    Section("deployments", "/deployments", fields.DEPLOYMENT),
    Section("daemonsets", "/daemonsets", fields.DAEMONSET),
    Section("taskgroups", "/taskgroups", fields.TASKGROUP),
    Section("transactions", "/transactions", fields.TRANSACTION, wanted=lambda one: not one["finishTime"]),
)
"""The lists over all namespaces; namespaces and pod groups are read beside them."""
EVENTS = Section("events", "/events", fields.EVENT)


def _default_of(trees: list[Json]) -> Json:
    """The only tree, or that of the partition `default`; empty: there is none."""
    if len(trees) == 1:
        return trees[0]
    return next((tree for tree in trees if tree.get("partition") == "default"), {})


class Reader:
    """Reads the sections of one dump."""

    def __init__(self, client: Client, hide: Hide, *, partial: bool, seen: Callable[[str, int], None]) -> None:
        """`partial`: a section that cannot be read is left out and named in `missing`. `seen` gets the section and the
        number of its objects so far, after each object."""
        self._client, self._hide, self._partial, self._seen = client, hide, partial, seen
        self.missing: dict[str, str] = {}
        """The reasons of the sections that could not be read."""

    def sections(self, *, events: bool) -> Json:
        """All sections by name. Raises CliError, which names the section."""
        found: Json = {"cluster": self._attempted("cluster", lambda: {"halt": self._halt()})}
        namespaces = self._attempted("namespaces", lambda: list(self._client.dumped("/namespaces")))
        if namespaces is not None:
            found["namespaces"] = self._shaped("namespaces", namespaces, fields.NAMESPACE)
            found["podGroups"] = self._attempted("podGroups", lambda: self._pod_groups(namespaces))
        else:
            self.missing["podGroups"] = "the namespaces could not be read"
        trees = self._attempted("queueTreeDocument", self._trees)
        found["queueTreeDocument"] = None if trees is None else _default_of(trees)
        if trees is not None and len(trees) > 1:
            found["queueTreeDocuments"] = trees
        for section in (*SECTIONS, *((EVENTS,) if events else ())):
            found[section.name] = self._attempted(section.name, partial(self._list, section))
        return {name: value for name, value in found.items() if name not in self.missing}

    def _halt(self) -> Json:
        return shaped(self._client.halt(), fields.HALT, self._hide)

    def _trees(self) -> list[Json]:
        """The stored trees of queues of all partitions, or those of the settings; none under other policies."""
        try:
            parts = self._client.partitions()
        except NotFound:
            return []
        names = [part["name"] for part in parts if part["policy"] == "hierarchical"]
        return [shaped(self._client.queue_tree(name), TREE, self._hide) for name in names]

    def _pod_groups(self, namespaces: Iterable[Json]) -> list[Json]:
        """Those of namespaces with applications. Pod groups can be listed by namespace only."""
        holders = [one["metadata"]["name"] for one in namespaces if one["status"]["contents"].get("applications")]
        groups = (group for name in holders for group in self._client.pod_groups(name))
        return self._shaped("podGroups", groups, fields.POD_GROUP)

    def _list(self, section: Section) -> list[Json]:
        wanted = filter(section.wanted, self._client.dumped(section.path))
        try:
            return self._shaped(section.name, wanted, section.fields)
        except NotFound:
            if section.optional:
                return []
            raise

    def _shaped(self, name: str, items: Iterable[Json], wanted: Fields) -> list[Json]:
        return list(self._counted(name, (shaped(item, wanted, self._hide) for item in items)))

    def _counted(self, name: str, items: Iterator[Json]) -> Iterator[Json]:
        for number, item in enumerate(items, 1):
            self._seen(name, number)
            yield item

    def _attempted(self, name: str, read: Callable[[], Read]) -> Read | None:
        """The result; None if the section is left out. An unreachable server ends every dump."""
        try:
            return read()
        except (Unreachable, TimedOut) as error:
            raise type(error)(f"{name} cannot be read: {error.message}", reason=error.reason) from None
        except CliError as error:
            if not self._partial:
                message = f"{name} cannot be read: {error.message} (--partial leaves such parts out)"
                raise type(error)(message, error.problems, reason=error.reason) from None
            self.missing[name] = error.message
        except (KeyError, TypeError, ValueError) as error:
            text = f"{name}: the answer of the server has an unexpected form: {type(error).__name__}: {error}"
            if not self._partial:
                raise CliError(text) from None
            self.missing[name] = text
        return None
