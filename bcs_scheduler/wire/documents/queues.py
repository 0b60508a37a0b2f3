"""Documents of kind queue: weight and limits of a queue of the policy `session`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, field

from bcs_scheduler.wire.decoding import Document
from bcs_scheduler.wire.documents.application import API_VERSION
from bcs_scheduler.wire.documents.groups import BatchVersion
from bcs_scheduler.wire.documents.namespaces import MaxPriority, NamespaceMetadata
from bcs_scheduler.wire.documents.priorities import GREATEST, LEAST
from bcs_scheduler.wire.problems import Problems

HEAVIEST = 1_000_000


ALIASES: dict[str, str] = {"cpu": "cpus", "memory": "mem", "storage": "disk", "gpu": "gpus"}
"""Other names of resources in these documents."""
QueueAmounts = dict[str, str | int | float]
"""Amounts over all agents by resource."""


class QueueSpec(Document, frozen=True, kw_only=True):
    """`weight`: part of the cluster in proportion to the weights of the other queues. `guarantee`: amounts that other
    queues cannot have, by resource: `cpus` in cores, `mem` and `disk` in MB, `gpus`, and numbers of extended resources
    by their names. `capability`: amounts that the queue has at most; an omitted resource is not limited. `reclaimable`:
    other queues may take back the resources above the deserved share of the queue. `priority`: the greater, the
    earlier, if the plug-in `proportion` has the argument `queuePriority`. `maxPriority`: greatest priority of new work
    of the namespaces of the queue; left out: the namespaces decide."""

    weight: Annotated[int, Meta(ge=1, le=HEAVIEST)] = 1
    guarantee: QueueAmounts = field(default={})
    capability: QueueAmounts = field(default={})
    reclaimable: bool = True
    priority: Annotated[int, Meta(ge=LEAST, le=GREATEST)] = 0
    max_priority: MaxPriority | None = None

    @classmethod
    def modern(cls, raw: dict[str, Any], path: str, problems: Problems) -> dict[str, Any]:
        """An amount of null is none."""
        found = dict(raw)
        for name_of in ("guarantee", "capability"):
            if isinstance(amounts := raw.get(name_of), dict):
                found[name_of] = {name: amount for name, amount in amounts.items() if amount is not None}
        return found


class QueueDocument(Document, frozen=True, kw_only=True):
    """`apiVersion` may be that of kube-batch and Volcano, and `kind` may be `Queue`. `status` is part of answers and
    has no effect in a request."""

    lenient: ClassVar[dict[str, str]] = API_VERSION

    api_version: BatchVersion = "v4"
    # Generators of clients make names of constants from the values, so two cases of one word are one name twice.
    kind: Literal["queue"]
    metadata: NamespaceMetadata
    spec: QueueSpec = QueueSpec()
    status: Any = None
