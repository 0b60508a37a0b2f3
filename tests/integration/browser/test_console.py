"""The console in a real browser, used as a person would: sign in, find the broken application, scale, see the change.

One browser serves all tests of a file. Screenshots are kept in build/console.
"""

from __future__ import annotations

import msgspec

from bcs_scheduler.api.http.operation import BASE
from bcs_scheduler.leadership.hub import Hub
from tests.integration.browser.stage import PICTURES, Console, buttons, create, examine, offer, violations
from tests.unit.test_core_unknown_tasks import on_an_empty_store
from tests.waiting import wait_for

WHY = """
    const items = [...document.querySelectorAll(".attention li")];
    const found = items.find((item) => item.querySelector("a")?.textContent === arguments[0]);
    return found?.querySelector(".why").textContent;
"""
"""The reason of an object that needs attention."""


def whole(console: Console) -> None:
    """Two applications that run."""
    offer(console)
    create(console, "web")
    console.gateway.report("RUNNING", "shop/web")
    offer(console)
    create(console, "cart")
    console.gateway.report("RUNNING", "shop/cart")


def huge(console: Console) -> None:
    """An application that fits nowhere."""
    offer(console)
    create(console, "huge", resources={"limits": {"cpu": "64", "memory": "32"}})


def test_an_operator_finds_what_is_broken_and_scales(console: Console) -> None:
    browser = console.browser
    whole(console)
    console.sign_in("operator")
    assert browser.cookies() == []
    browser.shows("Nothing needs attention.", "2 of 2")
    huge(console)
    browser.shows("2 of 3")
    console.gateway.report("UNREACHABLE", "shop/cart")  # the page hears of this by its stream
    browser.shows("Failing", "shop/cart")
    browser.click(".attention a", "shop/cart")
    browser.shows("cart", "Explanation", "Events", "bcs describe app cart -n shop")
    assert browser.run("return location.hash") == "#/applications/shop/cart"

    browser.click("nav a", "Applications")
    browser.write("#search", "huge")
    browser.shows("1 application")
    browser.click("td a", "huge")
    browser.shows("Agents by the first test that they fail", "not enough cpus")
    assert browser.run("return document.querySelector('.fill').style.width") == "100%"

    browser.open(f"{console.api.url}/#/applications/shop/web")  # a deep link
    browser.shows("1 of 1 running")
    offer(console)
    browser.click("button", "Scale")
    browser.write("#instances", "3")
    browser.shows("bcs scale app/web 3 -n shop")
    assert browser.run("return document.querySelector('dialog .primary').disabled")
    browser.click("dialog button", "Show the plan")
    browser.shows("Number of taskgroups: 1 -> 3", "2 taskgroups are placed", "0 taskgroups find no place")
    assert len(console.gateway.core.state.groups_of("shop/web")) == 1  # nothing has changed yet
    assert violations(browser) == []
    browser.screenshot(PICTURES / "scale.png")
    browser.click("dialog .primary", "Apply")
    wait_for(lambda: len(console.gateway.core.state.groups_of("shop/web")) == 3, what="the new taskgroups")
    browser.shows("1 of 3 running")
    console.gateway.report("RUNNING", "shop/web")
    browser.shows("3 of 3 running", "web-2")
    console.sign_out()


def test_a_viewer_sees_no_buttons_that_it_may_not_press(console: Console) -> None:
    whole(console)
    console.sign_in("viewer")
    console.browser.open(f"{console.api.url}/#/applications/shop/web")
    console.browser.shows("1 of 1 running", "web-0")
    assert buttons(console.browser) == {"Sign out", "Copy"}
    console.sign_out()


def test_names_and_messages_are_text(console: Console) -> None:
    """An attacker who can name objects must not run anything in the page of an operator."""
    hostile = "<img src=x onerror=alert(1)>"
    offer(console)
    create(console, "web")
    console.gateway.report("RUNNING", "shop/web")
    application = console.gateway.core.state.applications["shop/web"]
    changed = msgspec.structs.replace(application, status="Abnormal", message=hostile)
    console.gateway.core.state.apply("application", changed.key, changed)
    console.sign_in("operator")
    console.browser.shows("Failing", hostile)
    console.browser.open(f"{console.api.url}/#/applications/shop/%3Cimg%20src=x%3E")
    console.browser.shows("has no application of this name", "<img src=x>")
    assert console.browser.run("return document.querySelectorAll('img').length") == 0
    console.sign_out()


def test_the_page_works_with_the_keyboard_alone(console: Console) -> None:
    create(console, "web")
    browser = console.browser
    browser.open(f"{console.api.url}/")
    browser.find("#token")
    browser.press("operator\ue007")  # the field has the focus; Enter
    browser.shows("Overview", "operator (")
    browser.run("document.body.tabIndex = -1; document.body.focus()")
    for _ in range(4):
        browser.press("\ue004")  # Tab: link to the contents, Overview, Cluster, Applications
    assert browser.run("return document.activeElement.textContent") == "Applications"
    browser.press("\ue007")
    browser.shows("1 application")
    console.sign_out()


def test_every_page_is_accessible_at_every_size(console: Console) -> None:
    browser = console.browser
    whole(console)
    huge(console)
    console.gateway.report("UNREACHABLE", "shop/cart")
    browser.open(f"{console.api.url}/")
    browser.find("#token")
    assert violations(browser) == []
    console.sign_in("operator")
    for name, path, words in (
        ("overview", "#/", ("Failing", "cores")),
        ("applications", "#/applications", ("3 applications",)),
        ("application", "#/applications/shop/huge", ("not enough cpus", "TransactionStarted")),
    ):
        examine(console, name, path, *words)
    browser.run("document.body.append(document.createElement('img'))")
    assert [found.partition(":")[0] for found in violations(browser)] == ["image-alt", "region"]  # the check can fail
    console.sign_out()


def test_a_standby_shows_its_objects_and_where_the_leader_is(console: Console) -> None:
    create(console, "web")
    console.gateway.stand_by("http://127.0.0.1:9")
    console.sign_in("operator")
    browser = console.browser
    browser.shows("This scheduler is a standby", "Open the console of the leader")
    browser.open(f"{console.api.url}/#/applications/shop/web")
    browser.shows("0 of 1 running")
    assert "Sign out" in buttons(browser)
    assert "Scale" not in browser.text()
    assert BASE in browser.run("return performance.getEntriesByType('resource').map((e) => e.name).join(' ')")
    console.sign_out()


def test_the_overview_lists_a_halt_of_the_cluster_until_an_operator_decides(console: Console) -> None:
    browser, gateway = console.browser, console.gateway
    gateway.core = on_an_empty_store().core
    gateway.follow = Hub(state=gateway.core.state)
    console.sign_in("viewer")
    browser.shows("Launches halted", "that the store does not know", "`bcs framework show`")
    answer = console.api.call("POST", "/cluster/unknowntasks/adopt", headers={"Authorization": "Bearer admin"})
    assert answer.status_code == 200 and not answer.json()["data"]["halted"]
    browser.shows("Nothing needs attention.")  # the page asks again
    console.sign_out()


def test_the_overview_has_the_reasons_of_the_command_line(console: Console) -> None:
    """The reason in the API is the one that `bcs get` prints. It changes without a change of the object."""
    browser = console.browser
    offer(console)
    create(console, "huge", resources={"limits": {"cpu": "64", "memory": "32"}})
    create(console, "cart")
    console.gateway.report("UNREACHABLE", "shop/cart")
    console.sign_in("viewer")

    def reason(name: str) -> str:
        path = f"/namespaces/shop/applications/{name}"
        return str(console.api.data(path, headers={"Authorization": "Bearer viewer"})["Reason"])

    def shown(name: str) -> str:
        return str(browser.run(WHY, name))

    assert "failed" in reason("cart")
    wait_for(lambda: shown("shop/cart") == reason("cart"), what="the reason of the failing application")
    browser.shows("Waiting")
    assert "0 of 2 agents match" in reason("huge")
    wait_for(lambda: shown("shop/huge") == reason("huge"), what="the reason of the application that waits")
    before = reason("huge")
    path = "/agentsettings/disable?ips=10.0.0.1"
    assert console.api.call("POST", path, headers={"Authorization": "Bearer admin"}).status_code == 200
    offer(console)
    wait_for(lambda: reason("huge") != before, 20, "the next decision of the placement")
    wait_for(lambda: shown("shop/huge") == reason("huge"), what="the new reason")
    console.sign_out()
