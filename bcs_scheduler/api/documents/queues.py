"""Documents of kind queue: weight and limits of a queue of the policy `session`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bcs_scheduler.api.documents.namespaces import MOST
from bcs_scheduler.api.documents.parts import names
from bcs_scheduler.api.documents.validate import check_kind
from bcs_scheduler.api.http.errors import invalid
from bcs_scheduler.wire.decoding import decode
from bcs_scheduler.wire.documents.queues import ALIASES, QueueAmounts, QueueDocument
from bcs_scheduler.wire.problems import Problems, member
from bcs_scheduler.wire.quantities import QuantityError, Written, cores, gpus, memory, plain_number, storage
from offers.policy.hierarchy.configuration.fields import unknown_resource
from store.records import Limits, Queue
from store.records.definition import Amounts

READERS: Mapping[str, Callable[[Written, int], int]] = {"cpus": cores, "mem": memory, "disk": storage, "gpus": gpus}


def read_queue(raw: object, name: str | None = None, problems: Problems | None = None) -> Queue:
    """A record without times; `name` as in the path, if it is there. Raises ApiError (422)."""
    problems = Problems() if problems is None else problems
    if isinstance(raw, dict) and raw.get("kind") == "Queue":  # as kube-batch and Volcano write it
        raw = {**raw, "kind": "queue"}
    check_kind(raw, ("queue",), problems)
    document: QueueDocument = decode(raw, QueueDocument, problems)
    metadata, spec = document.metadata, document.spec
    names.check_name(metadata.name, "$.metadata.name", problems)
    if name is not None and metadata.name != name:
        problems.add("$.metadata.name", f'is "{metadata.name}", but the path says "{name}"')
    if metadata.namespace not in ("", metadata.name):
        problems.add("$.metadata.namespace", f'is "{metadata.namespace}"; a queue is in no namespace')
    names.check_labels(metadata.labels, "$.metadata.labels", problems)
    names.check_labels(metadata.annotations, "$.metadata.annotations", problems, selected=False)
    guarantee = _read(spec.guarantee, "$.spec.guarantee", problems)
    capability = _read(spec.capability, "$.spec.capability", problems)
    for resource, amount in guarantee.items():
        if amount > capability.get(resource, amount):
            problems.add(member("$.spec.guarantee", resource), f"is more than spec.capability.{resource}")
    if problems:
        raise invalid(problems.listed())
    return Queue(
        name=metadata.name,
        labels=metadata.labels,
        annotations=metadata.annotations,
        weight=spec.weight,
        guarantee=Amounts(**_scalars(guarantee)),
        guarantee_extended=_extended(guarantee),
        capability=Limits(**_scalars(capability)),
        capability_extended=_extended(capability),
        reclaimable=spec.reclaimable,
        priority=spec.priority,
        max_priority=spec.max_priority,
    )


def _scalars(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if name in READERS}


def _extended(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in sorted(amounts.items()) if name not in READERS}


def _read(given: QueueAmounts, path: str, problems: Problems) -> dict[str, int]:
    """Thousandths by name. A name that cannot be counted is a problem: it would limit nothing and guarantee nothing."""
    found: dict[str, int] = {}
    known: dict[str, str] = {}
    for key, written in given.items():
        at, lower = member(path, key), key.lower()
        name = ALIASES.get(lower, lower if lower in READERS else key)
        if name in known:
            problems.add(at, f"is the same resource as {known[name]}; give it once")
            continue
        known[name] = key
        if name not in READERS and (fault := unknown_resource(name)):
            problems.add(at, fault)
            continue
        try:
            found[name] = READERS.get(name, plain_number)(written, MOST)
        except QuantityError as error:
            problems.add(at, str(error))
    return found
