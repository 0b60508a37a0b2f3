"""Tables whose values are loaded when they are used, so that a command loads the kinds that it concerns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TypeVar

Value = TypeVar("Value")


class LazyTable(Mapping[str, Value]):
    """Values by key. `places`: where the value is, as ``module:attribute``. Keys load no module."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places

    def __getitem__(self, key: str) -> Value:
        module, _, attribute = self._places[key].partition(":")
        value: Value = getattr(import_module(module), attribute)
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
