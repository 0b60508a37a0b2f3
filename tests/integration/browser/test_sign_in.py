"""The session of the console in a real browser: other tabs of the scheduler have it, other ports of its host do not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.integration.browser.stage import Console, create
from tests.waiting import wait_for

PAGE = b"<!doctype html><title>another program</title><p>Hello from a taskgroup</p>"
KEEP = "return Object.values(localStorage)"
TRY = """
const [url, done] = arguments;
fetch(url, { credentials: "include" }).then((a) => a.text()).then(done, (error) => done(`refused: ${error.name}`));
"""


@contextmanager
def another_program() -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A program on another port of the host, as `bcs port-forward` shows one. Gives its address, and the headers of all
    requests that it gets."""
    received: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(PAGE)))
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the headers are recorded."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_program_on_another_port_gets_nothing_of_the_session(console: Console) -> None:
    browser = console.browser
    create(console, "web")
    console.sign_in("operator")
    (key,) = browser.run(KEEP)
    assert browser.cookies() == []
    with another_program() as (address, received):
        browser.open(f"{address}/")
        browser.shows("Hello from a taskgroup")
        assert received and "host" in received[0]
        for headers in received:
            assert "cookie" not in headers and "authorization" not in headers, headers
            assert not any(key in value for value in headers.values()), headers
        assert browser.run("return document.cookie") == "" and browser.run(KEEP) == []
        stolen = browser.run_async(TRY, f"{console.api.url}/v4/scheduler/mesos/applications")
        assert stolen == "refused: TypeError", "the page has no way to ask as the user"
        assert browser.complaints(), "the browser says that the scheduler gave no consent"
    browser.open(f"{console.api.url}/#/applications")  # the session goes on, and the stream of the page with it
    browser.shows("1 application", "live")
    create(console, "cart")
    browser.shows("2 applications")
    console.sign_out()


def test_all_tabs_of_a_scheduler_have_one_session(console: Console) -> None:
    browser = console.browser
    console.sign_in("operator")
    first = browser.tab()
    second = browser.new_tab()
    browser.open(f"{console.api.url}/")
    browser.shows("Overview", "operator (")  # no second sign-in
    browser.click("button", "Sign out")
    browser.shows("Token")
    browser.close_tab(first)
    browser.shows("Token")
    browser.write("#token", "viewer")
    browser.click("button", "Sign in")
    browser.shows("viewer (")
    assert second != first
    console.sign_out()


def test_a_session_that_has_ended_asks_for_the_token_again(console: Console) -> None:
    browser = console.browser
    console.sign_in("operator")
    browser.run("localStorage.setItem('bcs-session', 'unknown')")
    browser.open("about:blank")
    browser.open(f"{console.api.url}/")
    browser.shows("Sign in", "Token")
    wait_for(lambda: browser.run(KEEP) == [], what="the end of the key")
    console.sign_in("operator")
    console.sign_out()
