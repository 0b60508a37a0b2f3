"""The set of the browser tests: a scheduler's API over a core without store and Mesos, and a page in a browser."""

from __future__ import annotations

import time
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from tests.component.apiserver import Api
from tests.integration.browser.driver import Browser
from tests.unit.api_support import CoreGateway, document
from tests.waiting import wait_for

PICTURES = Path(__file__).resolve().parents[3] / "build" / "console"
SIZES = [(360, False), (360, True), (1280, False), (1280, True), (2560, False), (2560, True)]
"""Widths in CSS pixels, and whether the colours are dark."""
AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, { resultTypes: ["violations"] }).then(
  (found) => done(found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(" ")}`)),
  (error) => done([String(error)]));
"""


class Console(NamedTuple):
    browser: Browser
    gateway: CoreGateway
    api: Api

    def sign_in(self, token: str) -> None:
        self.browser.open(f"{self.api.url}/")
        self.browser.write("#token", token)
        self.browser.click("button", "Sign in")
        self.browser.shows("Overview", f"{token} (")

    def sign_out(self) -> None:
        self.browser.click("button", "Sign out")
        self.browser.shows("Token")
        assert self.browser.run("return localStorage.length") == 0


def create(console: Console, name: str, **container: Any) -> None:
    answer = console.api.call(
        "POST",
        "/namespaces/shop/applications",
        json=document(name, instance=1, **container),
        headers={"Authorization": "Bearer operator"},
    )
    assert answer.status_code == 202, answer.text


def offer(console: Console) -> None:
    """Two agents with four free cores."""
    for number in (1, 2):
        console.gateway.offer(number, cpus=4)


def violations(browser: Browser) -> list[str]:
    """What axe-core finds wrong for people who use a keyboard, a screen reader or strong contrast."""
    if not browser.run("return Boolean(globalThis.axe)"):
        browser.run((resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    found = browser.run_async(AXE)
    assert isinstance(found, list)
    return found


def examine(console: Console, name: str, path: str, *words: str, picture: bool = True) -> None:
    """Opens a page, and looks at it at every size: accessible, no wider than the window. Keeps screenshots."""
    browser = console.browser
    browser.open(f"{console.api.url}/{path}")
    browser.shows(*words)
    for width, dark in SIZES:
        browser.resize(width, dark=dark)
        assert violations(browser) == [], (name, width, dark)
        wide = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, (name, width)
        if picture:
            browser.screenshot(PICTURES / f"{name}-{width}{'-dark' if dark else ''}.png")
    browser.resize(1280)


def buttons(browser: Browser) -> set[str]:
    """Texts of the buttons that are shown, without the heads of tables."""
    script = "return [...document.querySelectorAll('button:not(.sort)')].filter((b) => b.checkVisibility())"
    return set(browser.run(f"{script}.map((b) => b.textContent)"))


def settle(console: Console, deployment: str, *, wait: bool = True) -> None:
    """Ends the rolling update of a deployment: new taskgroups run, and those that are ended have ended. `wait` False:
    the pauses between its steps are over at once."""
    gateway = console.gateway
    state = gateway.core.state

    def done() -> bool:
        offer(console)
        for key, application in list(state.applications.items()):
            if deployment in (key, f"{application.namespace}/{application.deployment}"):
                for group in list(state.groups_of(key).values()):
                    gateway.report_taskgroup("KILLED" if group.killing_since else "RUNNING", group.id)
        gateway.feed(now=time.time() + (0 if wait else 7200))
        return state.deployments[deployment].status == "Running"

    wait_for(done, what=lambda: f"the end of the update: {state.deployments[deployment]}")
