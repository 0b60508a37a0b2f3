"""An API to test against: one server for all tests of a file, with a core of its own for each of them. A file that
needs another core, or other settings, has its own fixture of that name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.component.apiserver import Api, Switchboard, serving
from tests.unit.api_support import CoreGateway


@pytest.fixture
def gateway() -> CoreGateway:
    return CoreGateway()


@pytest.fixture(scope="module")
def switched() -> Iterator[tuple[Switchboard, Api]]:
    switchboard = Switchboard()
    with serving(switchboard) as api:
        yield switchboard, api


@pytest.fixture
def api(switched: tuple[Switchboard, Api], gateway: CoreGateway) -> Api:
    switched[0].gateway = gateway
    return switched[1]
