"""All pages in windows of 1440 and 390 pixels: nothing is wider than the window, nothing overlaps, no text is cut.

Pictures of all pages are kept in build/console, for people who look at them.
"""

from __future__ import annotations

import pytest

from tests.integration.browser.driver import Browser
from tests.integration.browser.stage import PICTURES, Console, create
from tests.integration.browser.test_application import change
from tests.unit.api_support import document
from tests.unit.deployment_support import deployment

WIDTHS = ((1440, 900), (390, 844))
FAULTS = """
    const found = [];
    const width = document.documentElement.clientWidth;
    const words = (one) => one.textContent.trim().slice(0, 60);
    const say = (what, one) => found.push(`${what}: ${one.tagName}.${one.className} ${words(one)}`);
    const { scrollWidth } = document.documentElement;
    if (scrollWidth > width) found.push(`the page is ${scrollWidth} wide`);
    const left = ".hidden, .skip, noscript, option, textarea";
    const texts = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const one = node.parentElement;
        if (!node.data.trim() || !one.checkVisibility() || one.closest(left)) continue;
        const range = document.createRange();
        range.selectNodeContents(node);
        const rects = [...range.getClientRects()].filter((r) => r.width > 0 && r.height > 0);
        // Long texts that a reader scrolls: documents and output.
        const scrolls = one.closest("pre");
        for (const r of rects) {
            if (!scrolls && (r.left < -1 || r.right > width + 1)) say("beyond the window", one);
            for (let box = one; box && box !== document.body; box = box.parentElement) {
                const style = getComputedStyle(box);
                if (scrolls || style.overflowX === "visible") continue;
                const frame = box.getBoundingClientRect();
                if (r.left < frame.left - 1 || r.right > frame.right + 1) say("cut", one);
            }
            if (!scrolls) texts.push({ one, r });
        }
    }
    for (const [i, a] of texts.entries()) {
        for (const b of texts.slice(i + 1)) {
            const across = Math.min(a.r.right, b.r.right) - Math.max(a.r.left, b.r.left);
            const down = Math.min(a.r.bottom, b.r.bottom) - Math.max(a.r.top, b.r.top);
            if (a.one !== b.one && across > 2 && down > 4) say(`over "${words(a.one)}"`, b.one);
        }
    }
    for (const one of document.querySelectorAll("button, input, select, a.tile, .badge")) {
        if (!one.checkVisibility() || one.closest(".skip")) continue;
        const r = one.getBoundingClientRect();
        if (r.width && (r.left < -1 || r.right > width + 1)) say("beyond the window", one);
        if (one.scrollWidth > one.clientWidth + 1 && one.matches("button, .badge")) say("cut", one);
    }
    for (const one of document.querySelectorAll(".scroll")) {
        if (one.scrollWidth > one.clientWidth + 1) say(`a table of ${one.scrollWidth} in ${one.clientWidth}`, one);
    }
    return [...new Set(found)];
"""
"""What is wrong with the layout of the page that the browser shows."""
MEASURED = """
    const rects = [...document.querySelectorAll(arguments[0])].map((one) => one.getBoundingClientRect());
    return rects.map(({ left, right }) => [left, right]);
"""
TEXTS = "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText).join(' ')"
LABEL = "return getComputedStyle(document.querySelector(arguments[0]), '::before').content"
LONG = "a-name-of-an-application-that-is-as-long-as-it-may-be-0123456789"


def cluster(console: Console) -> None:
    """Work of all kinds: what runs, waits, fails, is updated, with long names and long messages."""
    gateway = console.gateway
    for number in range(1, 7):
        gateway.offer(number, cpus=8)
    change(console, "POST", "/namespaces/shop/applications", document("web", instance=4))
    gateway.report("RUNNING", "shop/web")
    for number in range(1, 7):
        gateway.offer(number, cpus=6)
    create(console, LONG, resources={"limits": {"cpu": "64", "memory": "32"}})
    create(console, "cart")
    gateway.report("UNREACHABLE", "shop/cart")
    for number in range(1, 7):
        gateway.offer(number, cpus=6)
    body = deployment("front", instance=3, maxUnavilable=1, maxSurge=1, upgradeDuration=1)
    change(console, "POST", "/namespaces/shop/deployments", body)
    gateway.report("RUNNING", "shop/front")
    for number in range(1, 7):
        gateway.offer(number, cpus=4)
    body["spec"]["template"]["spec"]["containers"][0]["command"] = "server-2"
    change(console, "PUT", "/namespaces/shop/deployments/front", body)
    spec = {"weight": 2, "guarantee": {"cpus": 4}, "capability": {"cpus": 16, "mem": 8192}}
    change(console, "POST", "/queues", {"kind": "queue", "metadata": {"name": "batch"}, "spec": spec}, "admin")
    gateway.listed = [agent._replace(active=i != 5) for i, agent in enumerate(gateway.listed)]
    gateway.follow.touch_agents(gateway.listed)
    change(console, "POST", "/agentsettings/disable?ips=10.0.0.4", token="admin")


def look(browser: Browser, name: str) -> dict[str, list[str]]:
    """The faults in all widths. Keeps pictures of whole pages."""
    found: dict[str, list[str]] = {}
    for width, height in WIDTHS:
        browser.resize(width, height)
        faults = browser.run(FAULTS)
        if faults:
            found[f"{name} at {width}"] = faults
        tall = min(browser.run("return document.documentElement.scrollHeight"), 4000)
        browser.resize(width, max(height, tall))
        browser.screenshot(PICTURES / f"{name}-{width}.png")
    browser.resize(1280)
    return found


PAGES = (
    ("overview", "#/", ("Needs attention", "Failing", "cores")),
    ("agents", "#/agents", ("6 agents", "1 away")),
    ("agent", "#/agents/10.0.0.1", ("host-1", "All events of this agent", "Reschedule")),
    ("applications", "#/applications", ("5 applications",)),
    ("application", "#/applications/shop/web", ("web-3", "TransactionStarted", "One version")),
    ("application-waits", f"#/applications/shop/{LONG}", ("not enough cpus", "TransactionStarted")),
    ("deployments", "#/deployments", ("1 deployment",)),
    ("deployment", "#/deployments/shop/front", ("Update to revision 2", "Revisions", "front")),
    ("transactions", "#/transactions", ("transactions",)),
    ("queues", "#/queues", ("batch", "16", "6 lack CPUs")),
    ("events", "#/events", ("TransactionStarted",)),
)


def test_no_page_is_too_wide_and_no_text_is_cut(console: Console) -> None:
    browser = console.browser
    cluster(console)
    browser.open(f"{console.api.url}/")
    browser.find("#token")
    faults = look(browser, "sign-in")
    console.sign_in("admin")
    for name, path, words in PAGES:
        browser.open(f"{console.api.url}/{path}")
        browser.shows(*words)
        faults |= look(browser, name)
    assert faults == {}
    for name, value in (("position", "relative"), ("left", "98%")):
        browser.run("document.querySelector('h1').style.setProperty(...arguments)", name, value)
    assert browser.run(FAULTS), "the check can fail"
    console.sign_out()


@pytest.mark.rotating
def test_narrow_windows_show_messages_and_queues(console: Console) -> None:
    """Nothing of a row is outside of the window, and its columns have their names."""
    browser = console.browser
    cluster(console)
    console.sign_in("admin")
    browser.resize(390, 844)
    for path, column, words in (
        ("#/events", "Message", "launch of shop/"),
        ("#/applications", "Reason", "without a place"),
        ("#/queues", "Guaranteed, used, maximum", "at most 16"),
        ("#/queues", "Waits for", "6 lack CPUs"),
    ):
        browser.open(f"{console.api.url}/{path}")
        browser.shows(words)
        cells = f"td[data-label='{column}']"
        places = browser.run(MEASURED, cells)
        assert places and all(left >= 0 and right <= 390 for left, right in places), (path, column)
        assert words in browser.run(TEXTS, cells)
        assert browser.run(LABEL, cells) == f'"{column}"'
    for path, words, wide in (("#/queues", "at most 16", ".amounts"), ("#/transactions", "INNERSCALE", ".lane")):
        browser.open(f"{console.api.url}/{path}")
        browser.shows(words)
        places = browser.run(MEASURED, wide)
        assert places and all(right - left > 300 for left, right in places), (path, places)
    browser.open(f"{console.api.url}/#/applications")
    browser.shows("5 applications")
    browser.click("th button", "Name")  # tables sort here, too
    assert browser.run("return location.hash") == "#/applications?sort=name"
    console.sign_out()
