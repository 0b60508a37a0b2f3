"""The page while the scheduler is away: it names the age of the data, and has no buttons that need the scheduler.

The connections of the browser are cut, or hang, and work again under the same address.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.browser.conftest import console_of
from tests.integration.browser.driver import Browser
from tests.integration.browser.stage import PICTURES, Console, buttons, create, offer, violations
from tests.unit.api_support import CoreGateway
from tests.waiting import wait_for

GREEN = """
    const green = (text) => {
        const [red, green, blue, alpha = 1] = (text.match(/[\\d.]+/g) ?? []).map(Number);
        return text.startsWith("rgb") && alpha > 0 && green > red + 12 && green > blue + 12;
    };
    const found = [];
    for (const one of document.querySelectorAll("body *")) {
        if (!one.checkVisibility()) continue;
        for (const part of [null, "::before", "::after"]) {
            const style = getComputedStyle(one, part);
            if (part && style.content === "none") continue;
            for (const name of ["color", "backgroundColor", "borderTopColor", "fill", "stroke"])
                if (green(style[name])) found.push(`${one.className || one.tagName} ${part} ${name} ${style[name]}`);
        }
    }
    return found;
"""
"""What is green in the page."""
HARMLESS = {"Copy", "Cancel"}
"""Buttons that need no scheduler."""


class Line:
    """Stands between the browser and the scheduler: the address of the scheduler, whatever becomes of it."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._hangs = threading.Event()
        """While set, connections are accepted and nothing is passed on."""
        self._listener: socket.socket | None = None
        self.port = 0
        self.connect()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self) -> None:
        """The scheduler is there."""
        made = socket.create_server(("127.0.0.1", self.port))
        self.port, self._listener = made.getsockname()[1], made
        threading.Thread(target=self._accept, args=(made,), daemon=True).start()

    def cut(self) -> None:
        """The scheduler is gone: all connections end, and new ones are refused."""
        assert self._listener is not None
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._listener = None
        with self._lock:
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def hang(self) -> None:
        """The scheduler hangs: connections stay, and nothing comes."""
        self._hangs.set()

    def resume(self) -> None:
        self._hangs.clear()

    def close(self) -> None:
        self.resume()
        if self._listener is not None:
            self.cut()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            with self._lock:
                self._open += [near, far]
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                wait_for(lambda: not self._hangs.is_set(), 300, "the end of the hang")
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def line(browser: Browser, tmp_path: Path) -> Iterator[tuple[Console, Line]]:
    with console_of(browser, tmp_path, CoreGateway()) as console:
        made = Line(int(console.api.url.rpartition(":")[2]))
        try:
            yield console, made
        finally:
            browser.open("about:blank")
            made.close()
            browser.complaints()  # refused connections are the subject of these tests


def sign_in(console: Console, line: Line, role: str) -> None:
    browser = console.browser
    browser.open(f"{line.url}/")
    browser.write("#token", role)
    browser.click("button", "Sign in")
    browser.shows("Overview", f"{role} (")


def old(browser: Browser) -> int:
    """Seconds that the banner names."""
    found = re.search(r"The data is (\d+) s old", browser.text())
    return int(found[1]) if found else -1


def test_the_page_says_that_the_scheduler_is_away_and_when_it_is_back(line: tuple[Console, Line]) -> None:
    console, between = line
    browser = console.browser
    offer(console)
    create(console, "web")
    console.gateway.report("RUNNING", "shop/web")
    sign_in(console, between, "operator")
    browser.open(f"{between.url}/#/applications/shop/web")
    browser.shows("1 of 1 running", "web-0", "live", "healthy")
    assert {"Scale", "Update", "Reschedule", "Restart", "Sign out"} <= buttons(browser)
    assert browser.run(GREEN), "what is in order is green"

    between.cut()
    browser.shows("The scheduler cannot be reached.", "Nothing can be changed until the scheduler answers.", "away")
    wait_for(lambda: old(browser) >= 2, what="the age of the data")
    assert browser.run(GREEN) == []
    assert buttons(browser) <= HARMLESS
    assert "1 of 1 running" in browser.text(), "the last data stays"
    assert violations(browser) == []
    for width in (390, 1440):
        browser.resize(width)
        browser.screenshot(PICTURES / f"away-{width}.png")
    browser.click("nav a", "Applications")
    browser.shows("1 application", "The scheduler cannot be reached.")
    browser.click("td a", "web")

    create(console, "cart")
    between.connect()
    browser.shows("live", "Scale", "Reschedule", "Sign out")
    wait_for(lambda: "cannot be reached" not in browser.text(), what="the end of the banner")
    assert browser.run(GREEN)
    browser.click("nav a", "Applications")
    browser.shows("2 applications")


@pytest.mark.rotating
def test_a_scheduler_that_hangs_is_away(line: tuple[Console, Line]) -> None:
    """Connections that stay open say nothing."""
    console, between = line
    browser = console.browser
    offer(console)
    create(console, "web")
    sign_in(console, between, "operator")
    browser.open(f"{between.url}/#/applications/shop/web")
    browser.shows("0 of 1 running", "live", "Scale")
    between.hang()
    browser.shows("The scheduler cannot be reached.", "away")
    assert buttons(browser) <= HARMLESS
    between.resume()
    browser.shows("live", "Scale")
    assert "cannot be reached" not in browser.text()


def test_an_open_dialog_loses_its_buttons_and_keeps_its_text(line: tuple[Console, Line]) -> None:
    console, between = line
    browser = console.browser
    offer(console)
    create(console, "web")
    console.gateway.report("RUNNING", "shop/web")
    offer(console)
    sign_in(console, between, "operator")
    browser.open(f"{between.url}/#/applications/shop/web")
    browser.click("button", "Scale")
    browser.write("#instances", "2")
    between.cut()
    browser.shows("The scheduler is away. Nothing can be changed until it answers.")
    assert buttons(browser) <= HARMLESS
    between.connect()
    wait_for(lambda: "Show the plan" in buttons(browser), what="the buttons of the dialog")
    assert browser.run("return document.querySelector('#instances').value") == "2"
    browser.click("dialog button", "Show the plan")
    browser.shows("1 taskgroup is placed")


@pytest.mark.rotating
def test_a_scheduler_that_comes_back_as_a_standby_and_leads_later_gets_its_buttons_back(
    line: tuple[Console, Line],
) -> None:
    console, between = line
    browser = console.browser
    create(console, "web")
    sign_in(console, between, "operator")
    browser.open(f"{between.url}/#/applications/shop/web")
    browser.shows("0 of 1 running", "Scale")
    between.cut()
    browser.shows("The scheduler cannot be reached.")
    console.gateway.stand_by("http://127.0.0.1:9")
    between.connect()
    browser.shows("This scheduler is a standby. The data is", "Open the console of the leader", "0 of 1 running")
    assert buttons(browser) <= HARMLESS | {"Sign out"}
    console.gateway.lead()
    browser.shows("live", "Scale")
    assert "This scheduler is a standby" not in browser.text()
