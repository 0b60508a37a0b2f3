"""The map of the cluster and the page of an agent, in a real browser."""

from __future__ import annotations

import pytest

from offers.agents import ListedAgent
from tests.integration.browser.motion import move
from tests.integration.browser.stage import PICTURES, Console, buttons, create, examine, violations
from tests.unit.api_support import listed_agent
from tests.waiting import wait_for

pytestmark = pytest.mark.rotating

AGENTS = 60
LARGE = 5_000
FRAME = 1000 / 60
"""Milliseconds."""
MAP = "document.querySelector('.map').dataset"
LEFT, RIGHT, DOWN, ENTER = "\ue012", "\ue014", "\ue015", "\ue007"


def fleet(console: Console) -> None:
    """Sixty agents in three zones; on some of them, applications."""
    gateway = console.gateway
    for number in range(1, AGENTS + 1):
        gateway.offer(number, cpus=8)
    listed = [
        agent._replace(attributes={**agent.attributes, "zone": f"z{i % 3}", "rack": f"r{i % 12}"})
        for i, agent in enumerate(gateway.listed)
    ]
    report(console, listed)
    for name, cores in (("web", "2"), ("cart", "4")):
        create(console, name, resources={"limits": {"cpu": cores, "memory": "2048"}})
        gateway.report("RUNNING", f"shop/{name}")


def report(console: Console, listed: list[ListedAgent]) -> None:
    """The cluster manager lists these agents."""
    console.gateway.listed = listed
    console.gateway.follow.touch_agents(listed)


def lose(console: Console, place: int) -> None:
    """An agent is no longer registered."""
    listed = list(console.gateway.listed)
    listed[place] = listed[place]._replace(active=False)
    report(console, listed)


def test_the_map_shows_every_agent_and_follows_changes(console: Console) -> None:
    browser = console.browser
    fleet(console)
    console.sign_in("viewer")
    browser.click("nav a", "Cluster")
    browser.shows(f"{AGENTS} agents")
    wait_for(lambda: browser.run(f"return {MAP}.tiles") == str(AGENTS), what="the tiles")
    assert browser.run("return document.querySelector('#by').value") == "zone"
    painted = browser.run(f"return Number({MAP}.frames)")
    lose(console, 4)
    browser.shows("1 away")
    wait_for(lambda: browser.run(f"return Number({MAP}.frames)") > painted, what="another frame of the map")
    report(console, console.gateway.listed[:-1])
    browser.shows(f"{AGENTS - 1} agents")
    wait_for(lambda: browser.run(f"return {MAP}.tiles") == str(AGENTS - 1), what="one tile less")
    console.sign_out()


def test_the_map_of_a_large_cluster_is_smooth(console: Console) -> None:
    """5,000 tiles: a frame leaves most of its 16 ms to the browser, and nothing is drawn while nothing changes."""
    browser = console.browser
    listed = [listed_agent(number, 8, 8192) for number in range(1, LARGE + 1)]
    report(console, [agent._replace(attributes={"zone": f"z{i % 5}"}) for i, agent in enumerate(listed)])
    console.sign_in("viewer")
    browser.open(f"{console.api.url}/#/agents")
    browser.shows(f"{LARGE} agents", "the table has the first 100")
    wait_for(lambda: browser.run(f"return {MAP}.tiles") == str(LARGE), what="the tiles")
    for how in ("pan", "zoom"):
        found = move(browser, how, 1.0)
        assert found.drawn >= 5, found
        assert how == "zoom" or found.shown > LARGE / 2, found
        assert found.spent / found.drawn < FRAME, found
    still = browser.run(f"return {MAP}.frames")
    browser.run_async("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))")
    assert browser.run(f"return {MAP}.frames") == still
    lose(console, 7)
    browser.shows("1 away")
    assert 0 < int(browser.run(f"return {MAP}.frames")) - int(still) < 20
    console.sign_out()


def test_the_map_works_with_the_keyboard(console: Console) -> None:
    browser = console.browser
    fleet(console)
    console.sign_in("viewer")
    browser.open(f"{console.api.url}/#/agents?by=zone")
    browser.shows(f"{AGENTS} agents")
    wait_for(lambda: browser.run(f"return {MAP}.tiles") == str(AGENTS), what="the tiles")
    browser.run("document.querySelector('.map').focus()")
    browser.press(RIGHT)
    browser.shows("host-1\n", "zone: z0")
    browser.press(RIGHT)
    browser.shows("host-4\n")
    browser.press(LEFT)
    browser.shows("host-1\n")
    before = browser.run(f"return Number({MAP}.scale)")
    browser.press("+")
    wait_for(lambda: browser.run(f"return Number({MAP}.scale)") > before, what="a larger map")
    browser.press("0")
    wait_for(lambda: browser.run(f"return Number({MAP}.scale)") == before, what="the whole map")
    assert violations(browser) == []
    browser.press(ENTER)
    browser.shows("10.0.0.1", "Taskgroups")
    assert browser.run("return location.hash") == "#/agents/10.0.0.1"
    console.sign_out()


def test_filters_of_the_map_are_in_the_address(console: Console) -> None:
    browser = console.browser
    fleet(console)
    console.sign_in("viewer")
    browser.open(f"{console.api.url}/#/agents?by=rack&show=cpu&search=z1")
    browser.shows(f"20 of {AGENTS} agents")
    assert browser.run("return document.querySelector('#by').value") == "rack"
    browser.write("#search", "host-7")
    browser.shows(f"1 of {AGENTS} agents")
    assert browser.run("return location.hash") == "#/agents?by=rack&show=cpu&search=host-7"
    browser.click("button", "Taskgroups")
    browser.shows(f"1 of {AGENTS} agents")
    assert "sort=-taskgroups" in browser.run("return location.hash")
    console.sign_out()


def test_an_admin_cordons_and_drains(console: Console) -> None:
    browser = console.browser
    fleet(console)
    (group,) = console.gateway.core.state.groups_of("shop/web").values()
    number = int(group.hostname.removeprefix("host-"))
    key = f"10.0.0.{number}"
    console.sign_in("admin")
    browser.open(f"{console.api.url}/#/agents/{group.hostname}")
    browser.shows("shop/web", "in use")
    browser.click("button", "Cordon")
    browser.shows(f"bcs cordon {key}")
    browser.click("dialog button", "Show the plan")
    browser.shows("The agent takes no new taskgroups.")
    assert not console.gateway.core.state.agent_settings  # nothing has changed yet
    browser.click("dialog .primary", "Apply")
    browser.shows("cordoned", "Uncordon")
    assert console.gateway.core.state.agent_settings[key].disabled
    browser.click("button", "Drain")
    browser.write("#parallel", "3")
    browser.shows(f"bcs drain {key} --parallel 3")
    browser.click("dialog button", "Show the plan")
    browser.shows("at most 3 of them move at a time", "1 taskgroup finds a place elsewhere: web-0 to host-")
    browser.screenshot(PICTURES / "drain.png")
    browser.click("dialog .primary", "Apply")
    browser.shows("Drain draining", "1 taskgroup is left")
    assert violations(browser) == []
    console.gateway.report_taskgroup("KILLED", group.id)  # it ends here, and starts elsewhere
    console.gateway.offer(50, cpus=8)
    browser.shows("No taskgroup runs here.")
    browser.click("button", "Uncordon")
    browser.click("dialog button", "Show the plan")
    browser.shows("The agent takes taskgroups again.")
    browser.click("dialog .primary", "Apply")
    browser.shows("in use", "Cordon")
    console.sign_out()


def test_operators_of_applications_see_no_buttons_of_agents(console: Console) -> None:
    fleet(console)
    console.sign_in("operator")
    console.browser.open(f"{console.api.url}/#/agents/10.0.0.3")
    console.browser.shows("host-3", "No taskgroup runs here.")
    assert buttons(console.browser) == {"Sign out", "Copy"}
    console.browser.open(f"{console.api.url}/#/agents/nowhere")
    console.browser.shows("The cluster has no agent of this name.")
    console.sign_out()


def test_map_and_agent_are_accessible_at_every_size(console: Console) -> None:
    fleet(console)
    lose(console, 4)
    (group,) = console.gateway.core.state.groups_of("shop/web").values()
    console.sign_in("admin")
    examine(console, "agents", "#/agents", f"{AGENTS} agents", "1 away")
    examine(console, "agent", f"#/agents/{group.hostname}", "shop/web")
    console.sign_out()


LATE = """
const send = window.fetch;
window.late = 0;
window.fetch = (address, options = {}) => new Promise((done, failed) => {
  if ((options.method ?? "GET") !== "GET" || String(address).includes("/console/")) return done(send(address, options));
  window.late += 1;
  setTimeout(() => {
    window.late -= 1;
    if (options.signal?.aborted) failed(new DOMException("ended", "AbortError"));
    else done(send(address, options));
  }, 500);
});
"""
"""Requests for objects reach the scheduler half a second late."""


def test_requests_under_way_end_with_the_session_of_the_user(console: Console) -> None:
    """Otherwise the scheduler refuses the requests, and the browser logs errors."""
    browser = console.browser
    fleet(console)
    console.sign_in("admin")
    browser.open(f"{console.api.url}/#/agents/host-1")
    browser.shows("host-1")
    browser.run(LATE)
    console.gateway.offer(60, cpus=8)
    wait_for(lambda: browser.run("return window.late"), 30, "a request of the page")
    console.sign_out()
    wait_for(lambda: not browser.run("return window.late"), 30, "the end of the requests")
