"""One browser for the tests of a file, and a scheduler with tokens for each test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bcs_scheduler.api.http.operation import ApiSettings
from bcs_scheduler.api.http.request_gate import RequestGate
from bcs_scheduler.console.figures import Figures
from bcs_scheduler.console.site import Site
from bcs_scheduler.core.options import CoreOptions
from bcs_scheduler.security.tokens import hash_of, read_tokens
from bcs_scheduler.security.watched import WatchedFiles
from offers.policy.session.configuration import DEFAULT, policy_of
from tests.component.apiserver import serving
from tests.integration.browser.driver import Browser
from tests.integration.browser.stage import PICTURES, Console
from tests.unit.api_support import CoreGateway

ROLES = ("viewer", "operator", "admin")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    made = Browser(tmp_path_factory.mktemp("browser"))
    PICTURES.mkdir(parents=True, exist_ok=True)
    yield made
    made.close()


@pytest.fixture
def console(browser: Browser, tmp_path: Path) -> Iterator[Console]:
    with console_of(browser, tmp_path, CoreGateway()) as made:
        yield made


@pytest.fixture
def preempting(browser: Browser, tmp_path: Path) -> Iterator[Console]:
    """The console of a scheduler whose policy ends less important work."""
    policy = policy_of({**DEFAULT, "actions": "reclaim, allocate, backfill, preempt"})
    gateway = CoreGateway(options=CoreOptions(strict=True, policy=policy, session_period=0.05))
    with console_of(browser, tmp_path, gateway) as made:
        yield made


@contextmanager
def console_of(browser: Browser, folder: Path, gateway: CoreGateway) -> Iterator[Console]:
    tokens = folder / "tokens.toml"
    tokens.write_text(
        "".join(
            f'[[token]]\nname = "{role}"\nhash = "{hash_of(role)}"\nrole = "{role}"\nnamespaces = "*"\n'
            for role in ROLES
        )
    )
    gateway.connect()
    gate = RequestGate(tokens=WatchedFiles("tokens", [tokens], lambda: read_tokens(tokens)))
    site = Site(gateway, ApiSettings(), gate, Figures(gateway))
    browser.resize(1280)
    with serving(gateway, gate=gate, pages=site) as api:
        yield Console(browser, gateway, api)
        browser.open("about:blank")
        gateway.follow.close("the test is over")
    assert browser.complaints() == []
