"""How tests are shared out when several processes run them (`pytest -n 2`)."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

INTEGRATION = "tests/integration/"


class Sharing(LoadScopeScheduling):
    """Integration tests stay in one process, in their order: each of them has the real ZooKeeper, the real Mesos and
    what it kills to itself. Of all others, those of a file stay together, for the sake of what they share. The most
    tests of one kind are begun first."""

    def _split_scope(self, nodeid: str) -> str:
        return INTEGRATION if nodeid.startswith(INTEGRATION) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Sharing:
    return Sharing(config, log)
