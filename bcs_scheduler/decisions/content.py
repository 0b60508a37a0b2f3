"""Inputs, records and decisions as bytes of the decision log, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from bcs_scheduler.core.interface import effects, inputs, leased, requests
from bcs_scheduler.decisions.redaction import Replace, mark, redacted
from offers.model import Offer
from store.encoding.codec import Stored, encode
from store.encoding.seal import OPEN_KINDS
from store.records import Record
from store.state.unit_of_work import Unit

_OFFERS = "OffersArrived"
_PLAN = "PlanRequests"
_MARK = b"left out: "
"""Begin of the data of a record that was left out. Records are JSON and begin otherwise."""


class LoggedOffer(msgspec.Struct, frozen=True):
    """An offer as it was decoded. `offer` None: the offer could not be understood, `error` says why."""

    id: str
    offer: Offer | None = None
    error: str = ""

    def open(self) -> Offer:
        """As offers.model.SealedOffer.open."""
        if self.offer is None:
            raise ValueError(self.error)
        return self.offer


class _Offers(msgspec.Struct, frozen=True):
    cause: str
    offers: tuple[LoggedOffer, ...]


class _Plan(msgspec.Struct, frozen=True):
    cause: str
    token: int
    requests: tuple[tuple[str, bytes], ...]
    """Class and fields of each request."""


def written(event: inputs.Input, replace: Replace) -> tuple[str, bytes]:
    """Returns the class and the fields of an input."""
    if isinstance(event, leased.OffersArrived):
        return _OFFERS, msgspec.msgpack.encode(_Offers(event.cause, tuple(map(_opened, event.offers))))
    if isinstance(event, requests.PlanRequests):
        parts = tuple(written(one, replace) for one in event.requests)
        return _PLAN, msgspec.msgpack.encode(_Plan(event.cause, event.token, parts))
    tree = msgspec.to_builtins(event, builtin_types=(bytes,))
    return type(event).__name__, msgspec.msgpack.encode(redacted(tree, replace))


def _opened(sealed: Any) -> LoggedOffer:
    try:
        return LoggedOffer(sealed.id, sealed.open())
    except ValueError as error:
        return LoggedOffer(sealed.id, None, str(error))


def read(name: str, data: bytes) -> inputs.Input:
    """Returns an input from its class and fields. Raises ValueError if this version does not have the class, or cannot
    read the fields."""
    if name == _OFFERS:
        found = msgspec.msgpack.decode(data, type=_Offers)
        return leased.OffersArrived(cause=found.cause, offers=found.offers)
    if name == _PLAN:
        plan = msgspec.msgpack.decode(data, type=_Plan)
        parts = [read(*part) for part in plan.requests]
        asked = tuple(part for part in parts if isinstance(part, requests.Request))
        return requests.PlanRequests(cause=plan.cause, token=plan.token, requests=asked)
    cls = {known.__name__: known for known in _all(inputs.Input)}.get(name)
    if cls is None:
        raise ValueError(f"this version of the program has no input {name}")
    event: inputs.Input = msgspec.msgpack.decode(data, type=cls)
    return event


def _all(cls: type[inputs.Input]) -> Iterator[type[inputs.Input]]:
    for known in cls.__subclasses__():
        yield known
        yield from _all(known)


def stored(record: Record, replace: Replace) -> Stored:
    """Returns a record as a store would hold it."""
    data = encode(record)
    if record.kind not in OPEN_KINDS or b'"body"' in data:
        data = msgspec.json.encode(redacted(msgspec.json.decode(data), replace))
    return Stored(record.kind, record.key, data)


def stored_or_marked(record: Record, replace: Replace) -> Stored:
    """Returns a record as `stored`. A record that cannot be redacted or encoded is replaced by a mark with the
    reason (`fault_of`), so that it hides no other record."""
    try:
        return stored(record, replace)
    except Exception as error:
        return Stored(record.kind, record.key, _MARK + msgspec.json.encode(type(error).__name__))


def fault_of(data: bytes) -> str:
    """Returns why a record was replaced by a mark; empty for the data of a record."""
    return str(msgspec.json.decode(data[len(_MARK) :])) if data.startswith(_MARK) else ""


def decided(units: Iterable[Unit]) -> tuple[bytes, ...]:
    """Returns the decisions of a turn in order, each as JSON: [unit, kind, key, record or null] for a change, [unit,
    class, fields] for an effect. `unit`: position in the turn."""
    found = []
    for number, unit in enumerate(units):
        found += [_decision(number, change.kind, change.key, change.record) for change in unit.changes]
        found += [_decision(number, type(effect).__name__, _without_quotes(effect)) for effect in unit.effects]
    return tuple(found)


def _decision(*parts: Any) -> bytes:
    """The last part without its confidential values, or the reason why it cannot be redacted or encoded."""
    try:
        return msgspec.json.encode([*parts[:-1], redacted(_plain(parts[-1]), mark)])
    except Exception as error:
        return msgspec.json.encode([*parts[:-1], f"{_MARK.decode()}{type(error).__name__}"])


def _without_quotes(effect: object) -> object:
    """The effect without a message that may quote confidential content."""
    if isinstance(effect, effects.LogLine) and effect.public:
        return msgspec.structs.replace(effect, message="")
    return effect


def _plain(value: Any) -> Any:
    """Every field, defaults included. msgspec leaves a field out if it is the same object as the default, which an
    equal text need not be: such an encoding differs from that of an equal record."""
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(_plain, value), key=repr)
    return msgspec.to_builtins(value, enc_hook=str)
