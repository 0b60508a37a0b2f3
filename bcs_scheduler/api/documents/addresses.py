"""Reserved addresses of taskgroups (docs/original.md#labels).

The label or annotation ``io.tencent.bcs.netsvc.requestip.<index>`` asks for the address of one taskgroup:
``<address>[;<address>]``, with ``|<attribute>=<pattern>[;<pattern>]`` only on agents whose attribute matches. A label
wins over the annotation of the same key. Blanks have no meaning.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bcs_scheduler.api.documents.constraints import to_pattern
from bcs_scheduler.api.documents.ports import is_custom, network_mode
from bcs_scheduler.wire.documents.application import ApplicationDocument
from bcs_scheduler.wire.problems import Problems, Taken, member
from offers.rules.constraints import check_pattern
from store.records.definition import ReservedAddress

PREFIX = "io.tencent.bcs.netsvc.requestip"
_KEY = re.compile(re.escape(PREFIX) + r"\.(0|[1-9][0-9]{0,5})\Z", re.ASCII)
_NAMED = 3
"""The most taskgroups without an address that a message names."""


class _Asked(NamedTuple):
    """One label or annotation. `path`: where it stands in the document."""

    number: int
    """Index of the taskgroup."""
    value: str
    path: str


def to_reserved(labels: Mapping[str, str], annotations: Mapping[str, str]) -> tuple[ReservedAddress, ...]:
    """The reservations of a checked document, by index."""
    if not _names_any(labels, annotations):
        return ()
    found = {asked.number: asked for asked in (*_asked(annotations, ""), *_asked(labels, ""))}
    return tuple(_read(found[index]) for index in sorted(found))


def check_addresses(document: ApplicationDocument, run_by_mesos: bool, problems: Problems) -> None:
    """Reports keys without effect, values that no taskgroup could have, and taskgroups without an address."""
    metadata, template = document.metadata, document.spec.template.metadata
    if not _names_any(metadata.annotations, metadata.labels, template.labels, template.annotations):
        return
    places = (
        ("$.metadata.annotations", metadata.annotations),
        ("$.metadata.labels", metadata.labels),
        ("$.spec.template.metadata.labels", template.labels),
    )
    _check_keys(template.annotations, "$.spec.template.metadata.annotations", problems, read=False)
    asked: dict[int, _Asked] = {}
    for path, given in places:
        _check_keys(given, path, problems, read=True)
        asked.update((one.number, one) for one in _asked(given, path))
    if asked and document.spec.min_available > 1:
        problems.add("$.spec.minAvailable", "excludes reserved addresses: such taskgroups are placed one by one")
    if not asked:
        return
    taken = Taken("address")
    for one in asked.values():
        _check_value(one, taken, problems)
    missing = [index for index in range(document.spec.instance or 0) if index not in asked]
    if missing:
        named = ", ".join(map(str, missing[:_NAMED])) + (" and others" if len(missing) > _NAMED else "")
        problems.add("$.spec.instance", f"no address is reserved for taskgroup {named}: there is no label {PREFIX}.<n>")
    pod = document.spec.template.spec
    first = next(iter(asked.values())).path
    if not is_custom(pod):
        words = f"reserves no address in network {network_mode(pod)}"
        problems.warn(first, words, "addresses are those of custom networks; only the agents behind '|' count")
    elif len(pod.containers) > 1 and not run_by_mesos:
        problems.add(first, "is for one container: each container of a taskgroup has an address of its own")


def refuse_addresses(document: ApplicationDocument, problems: Problems) -> None:
    """Reports reserved addresses in a document whose taskgroups have no numbers."""
    places = (
        ("$.metadata.annotations", document.metadata.annotations),
        ("$.metadata.labels", document.metadata.labels),
    )
    for path, given in (*places, ("$.spec.template.metadata.labels", document.spec.template.metadata.labels)):
        for one in _asked(given, path):
            problems.add(
                one.path, "taskgroups of a daemonset belong to agents; no address can be reserved for a number"
            )


def _names_any(*places: Mapping[str, str]) -> bool:
    """True if a key may reserve an address. Most documents have no such key and need only this check."""
    for given in places:
        for key in given:
            if key.startswith(PREFIX):
                return True
    return False


def _asked(given: Mapping[str, str], path: str) -> Iterator[_Asked]:
    for key, value in given.items():
        if key.startswith(PREFIX) and (match := _KEY.match(key)):
            yield _Asked(int(match[1]), "".join(value.split()), member(path, key))


def _check_keys(given: Mapping[str, str], path: str, problems: Problems, *, read: bool) -> None:
    for key in given:
        if not key.startswith(PREFIX):
            continue
        if not read:
            problems.warn(member(path, key), "has no effect here", "write it into $.metadata.annotations")
        elif not _KEY.match(key):
            problems.warn(
                member(path, key), "has no effect", f"the key is {PREFIX}.<n>, n is the number of a taskgroup"
            )


def _check_value(asked: _Asked, taken: Taken, problems: Problems) -> None:
    addresses, _, rule = asked.value.partition("|")
    families = []
    for text in addresses.split(";"):
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            problems.add(asked.path, f"must be <address>|<attribute>=<pattern>, not {text[:80]!r}")
            return
        taken.take(str(address), asked.path, problems)
        families.append(address.version)
    if len(set(families)) < len(families):
        problems.add(asked.path, "one address of IPv4 and one of IPv6 can be reserved for a taskgroup")
    if "|" not in asked.value:
        return
    attribute, equals, patterns = rule.partition("=")
    if not attribute or not equals or not patterns:
        problems.add(asked.path, "after '|' must stand <attribute>=<pattern>[;<pattern>]")
        return
    for pattern in patterns.split(";"):
        if error := check_pattern(to_pattern(pattern)):
            problems.add(asked.path, error)


def _read(asked: _Asked) -> ReservedAddress:
    addresses, _, rule = asked.value.partition("|")
    attribute, _, patterns = rule.partition("=")
    return ReservedAddress(
        index=asked.number,
        addresses=tuple(str(ipaddress.ip_address(text)) for text in addresses.split(";")),
        attribute=attribute,
        patterns=tuple(map(to_pattern, patterns.split(";"))) if attribute else (),
    )
