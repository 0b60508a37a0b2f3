"""Tables, searches and dialogs in a real browser: sorted by a click and by keys, kept in the address; Enter works."""

from __future__ import annotations

import re

import pytest

from tests.integration.browser.stage import PICTURES, Console, create, offer, settle, violations
from tests.integration.browser.test_application import change
from tests.unit.api_support import document
from tests.unit.deployment_support import deployment
from tests.waiting import wait_for

ENTER, TAB = "\ue007", "\ue004"
COLUMN = "return [...document.querySelectorAll('tbody tr')].map((row) => row.cells[arguments[0]].textContent)"
BOUNDS = """
    const wide = [...document.querySelectorAll("dialog, dialog pre")].some((one) => one.scrollWidth > one.clientWidth);
    return [left, right, wide];
"""
LEFT = """
    const [address, done] = arguments;
    const look = () => (location.hash.startsWith(address) ? setTimeout(look, 20) : done());
    look();
"""
"""Until the page has another address."""
HEADS = """
    const sorted = [...document.querySelectorAll("th")].filter((th) => th.ariaSort);
    return sorted.map((th) => [th.innerText.trim(), th.ariaSort]);
"""


def three(console: Console) -> None:
    """web-2, web-10 and api, with 1, 3 and 2 taskgroups."""
    for name, instances in (("web-2", 1), ("web-10", 3), ("api", 2)):
        offer(console)
        change(console, "POST", "/namespaces/shop/applications", document(name, instance=instances))
        console.gateway.report("RUNNING", f"shop/{name}")


def test_a_click_on_a_head_sorts_and_the_address_keeps_it(console: Console) -> None:
    browser = console.browser
    three(console)
    console.sign_in("viewer")
    browser.open(f"{console.api.url}/#/applications")
    browser.shows("3 applications")

    def names() -> list[str]:
        return list(browser.run(COLUMN, 0))

    assert (names(), browser.run(HEADS)) == (["api", "web-2", "web-10"], [])
    browser.click("th button", "Name")
    browser.click("th button", "Name")
    assert (names(), browser.run(HEADS)) == (["web-10", "web-2", "api"], [["Name", "descending"]])
    browser.click("th button", "Running")
    assert (names(), browser.run(HEADS)) == (["web-10", "api", "web-2"], [["Running", "descending"]])
    assert browser.run("return document.activeElement.textContent") == "Running"
    browser.press(ENTER)  # the head has the focus
    assert (names(), browser.run(HEADS)) == (["web-2", "api", "web-10"], [["Running", "ascending"]])
    assert browser.run("return location.hash") == "#/applications?sort=running"
    browser.run("location.reload()")
    browser.shows("3 applications")
    assert (names(), browser.run(HEADS)) == (["web-2", "api", "web-10"], [["Running", "ascending"]])
    offer(console)
    change(console, "PUT", "/namespaces/shop/applications/web-2/scale/4")
    console.gateway.report("RUNNING", "shop/web-2")
    wait_for(lambda: names() == ["api", "web-10", "web-2"], what="the new order")
    browser.click("th button", "Running")
    assert browser.run("return location.hash") == "#/applications"
    assert (names(), browser.run(HEADS)) == (["api", "web-2", "web-10"], [])
    assert violations(browser) == []
    console.sign_out()


def test_every_table_of_a_page_sorts_by_itself(console: Console) -> None:
    browser = console.browser
    three(console)
    console.sign_in("operator")
    browser.open(f"{console.api.url}/#/applications/shop/web-10")
    browser.shows("web-10-2", "Events", "TransactionStarted")
    browser.click("[aria-label=Taskgroups] th button", "Name")
    browser.click("[aria-label=Taskgroups] th button", "Name")
    names = browser.run("return [...document.querySelectorAll('[data-key^=\"group \"]')].map((e) => e.textContent)")
    assert names == ["web-10-2", "web-10-1", "web-10-0"]
    assert browser.run(HEADS) == [["Name", "descending"]], "the table of events stays as it was"
    assert browser.run("return location.hash").endswith("?sort-taskgroups=-name")
    heads = browser.run("return [...document.querySelectorAll('th .sort')].map((e) => e.textContent)")
    assert "Status" in heads and "Actions" not in heads
    console.sign_out()


def test_searches_survive_a_reload_and_the_way_back(console: Console) -> None:
    browser = console.browser
    three(console)
    change(console, "POST", "/namespaces/shop/deployments", deployment("front", instance=1))
    console.sign_in("viewer")
    for page, word, count in (
        ("applications", "web-1", "1 application"),
        ("deployments", "front", "1 deployment"),
        ("transactions", "web-10", "1 transaction"),
        ("agents", "host-1", "1 of 2 agents"),
        ("events", "web-10", "event"),
    ):
        field = "#text" if page == "events" else "#search"
        browser.open(f"{console.api.url}/#/{page}")
        browser.write(field, word)
        browser.shows(count)
        assert word in browser.run("return location.hash"), page
        browser.run("location.reload()")
        browser.shows(count)
        assert browser.run(f"return document.querySelector('{field}').value") == word, page
        browser.click("td a")
        browser.run_async(LEFT, f"#/{page}?")
        browser.run("history.back()")
        browser.find(field)
        assert browser.run(f"return document.querySelector('{field}').value") == word, page
        browser.shows(count)
    console.sign_out()


def test_enter_shows_the_plan_and_then_applies(console: Console) -> None:
    browser = console.browser
    offer(console)
    create(console, "web")
    console.gateway.report("RUNNING", "shop/web")
    offer(console)
    console.sign_in("operator")
    browser.open(f"{console.api.url}/#/applications/shop/web")
    browser.click("button", "Scale")
    browser.write("#instances", "2")
    browser.press(ENTER)
    browser.shows("1 taskgroup is placed")
    assert len(console.gateway.core.state.groups_of("shop/web")) == 1
    browser.write("#instances", "3")  # another number: Enter is about its plan first
    assert "1 taskgroup is placed" not in browser.text()
    browser.press(ENTER)
    browser.shows("2 taskgroups are placed")
    browser.press(ENTER)
    wait_for(lambda: len(console.gateway.core.state.groups_of("shop/web")) == 3, what="the taskgroups")
    wait_for(lambda: not browser.run("return document.querySelectorAll('dialog').length"), what="the end of the dialog")

    console.gateway.report("RUNNING", "shop/web")
    browser.shows("3 of 3 running")
    browser.click("td button", "Restart")  # a dialog without fields
    browser.shows("Restart web-")
    browser.press(ENTER)
    browser.shows("The taskgroup can be reached.")
    browser.press(ENTER)
    messages = console.gateway.core.state.messages
    wait_for(lambda: len(messages) == 1, what="the message")
    console.sign_out()


def test_a_roll_back_shows_dates_and_differences(console: Console) -> None:
    browser = console.browser
    offer(console)
    create(console, "web")
    console.gateway.report("RUNNING", "shop/web")
    offer(console)
    change(console, "PUT", "/namespaces/shop/applications", document("web", instance=1, command="server-2"))
    console.gateway.report("RUNNING", "shop/web")
    console.sign_in("operator")
    browser.open(f"{console.api.url}/#/applications/shop/web")
    browser.click("button", "Roll back")
    browser.shows("Changes of the present definition:", '"command": "server-2"', '"command": "server"')
    label = browser.run("return document.querySelector('#earlier').selectedOptions[0].textContent")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d, \d\d:\d\d:\d\d \(\d+ (s|min) ago\)", label)
    lines = browser.run("return [...document.querySelectorAll('dialog .gone, dialog .new')].map((e) => e.textContent)")
    assert [line[0] for line in lines] == ["-", "+"] and "server-2" in lines[0]
    for width in (390, 1440):
        browser.resize(width, 844)
        browser.screenshot(PICTURES / f"roll-back-{width}.png")
        box = browser.run("const { left, right } = document.querySelector('dialog').getBoundingClientRect();" + BOUNDS)
        assert 0 <= box[0] < box[1] <= width and not box[2], "a dialog fits the window"
    assert violations(browser) == []
    browser.press(ENTER)
    browser.shows("Plan")
    browser.click("dialog button", "Cancel")

    console.sign_out()


@pytest.mark.rotating
def test_a_roll_back_of_a_deployment_shows_dates_and_differences(console: Console) -> None:
    browser = console.browser
    body = deployment("front", instance=1)
    offer(console)
    change(console, "POST", "/namespaces/shop/deployments", body)
    console.gateway.report("RUNNING", "shop/front")
    body["spec"]["template"]["spec"]["containers"][0]["command"] = "server-3"
    change(console, "PUT", "/namespaces/shop/deployments/front", body)
    settle(console, "shop/front")
    console.sign_in("operator")
    browser.open(f"{console.api.url}/#/deployments/shop/front")
    browser.click("button", "Roll back")
    browser.shows('"command": "server-3"', "Changes of the present definition:")
    label = browser.run("return document.querySelector('#earlier').selectedOptions[0].textContent")
    assert re.match(r"1: \d{4}-\d\d-\d\d, \d\d:\d\d:\d\d \(\d+ (s|min) ago\), 1 taskgroup", label)
    browser.click("dialog button", "Cancel")
    console.sign_out()
