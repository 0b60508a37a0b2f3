"""Every button that the console shows in a state is possible in that state: the scheduler accepts its dry run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.browser.stage import Console, create, offer, settle
from tests.integration.browser.test_application import change
from tests.unit.api_support import document
from tests.unit.deployment_support import deployment
from tests.waiting import wait_for

pytestmark = pytest.mark.rotating

SHOWN = """
    const shown = [...document.querySelectorAll("main .acts button")].filter((one) => one.checkVisibility());
    return shown.map((one) => one.dataset.key);
"""
PRESS = "[...document.querySelectorAll('main .acts button')].find((one) => one.dataset.key === arguments[0]).click()"
PLAN = "return document.querySelector('dialog .plan')?.textContent ?? ''"
PROBLEM = "return document.querySelector('dialog .plan .problem')?.textContent ?? ''"


def follow(console: Console, path: str, *words: str) -> set[str]:
    """The texts of the buttons of a page. Shows the plan of each, which the scheduler must not refuse."""
    browser = console.browser
    browser.open("about:blank")
    browser.open(f"{console.api.url}/{path}")
    browser.shows(*words)
    keys = list(browser.run(SHOWN))
    for key in keys:
        browser.run(PRESS, key)
        browser.click("dialog button", "Show the plan")
        wait_for(lambda: browser.run(PLAN), what=f"the plan of {key} on {path}")
        assert browser.run(PROBLEM) == "", (path, key)
        browser.click("dialog button", "Cancel")
    return {key.partition(" ")[0] if len(key.split(".")) > 3 else key for key in keys}


def group_of(console: Console, application: str) -> Any:
    (group,) = console.gateway.core.state.groups_of(application).values()
    return group


def until(console: Console, path: str, condition: Callable[[dict[str, Any]], object]) -> None:
    """Waits until the API shows an object so."""
    headers = {"Authorization": "Bearer admin"}
    wait_for(lambda: condition(console.api.data(path, headers=headers)), what=f"the state of {path}")


def test_buttons_of_applications(console: Console) -> None:
    gateway = console.gateway
    page = "#/applications/shop/web"
    offer(console)
    create(console, "web")
    gateway.report("RUNNING", "shop/web")
    offer(console)
    console.sign_in("operator")
    running = {"Scale", "Update", "Reschedule", "Restart"}
    assert follow(console, page, "1 of 1 running", "Reschedule", "One version") == running
    change(console, "PUT", "/namespaces/shop/applications", document("web", instance=1, command="server-2"))
    assert group_of(console, "shop/web").killing_since
    assert follow(console, page, "Operating", "Roll back", "web-0", "Versions (2)") == {"Scale", "Update", "Roll back"}

    def updated() -> bool:
        for group in list(gateway.core.state.groups_of("shop/web").values()):
            gateway.report_taskgroup("KILLED" if group.killing_since else "RUNNING", group.id)
        offer(console)
        return gateway.core.state.applications["shop/web"].status == "Running"

    wait_for(updated, what="the end of the update")
    assert follow(console, page, "1 of 1 running", "Reschedule", "Roll back") == {*running, "Roll back"}
    group = group_of(console, "shop/web")
    change(console, "PUT", f"/namespaces/shop/applications/web/taskgroups/{group.id}/rescheduler?hostRetainTime=0")
    shown = follow(console, page, "web-0", "Roll back", "TransactionStarted")
    assert "Reschedule" not in shown and {"Scale", "Update", "Roll back"} <= shown
    change(console, "DELETE", "/namespaces/shop/applications/web")
    assert follow(console, page, "web-0", "delete") == set()

    create(console, "huge", resources={"limits": {"cpu": "64", "memory": "32"}})
    assert follow(console, "#/applications/shop/huge", "0 of 1 running", "One version") == {"Scale", "Update"}
    offer(console)
    create(console, "cart")
    gateway.report("UNREACHABLE", "shop/cart")
    shown = follow(console, "#/applications/shop/cart", "cart-0", "One version")
    assert {"Scale", "Update"} <= shown and "Restart" not in shown
    console.sign_out()


def test_buttons_of_deployments(console: Console) -> None:
    state = console.gateway.core.state
    page = "#/deployments/shop/front"
    path = "/namespaces/shop/deployments/front"
    body = deployment("front", instance=2, maxUnavilable=1, maxSurge=1, upgradeDuration=3600)
    change(console, "POST", "/namespaces/shop/deployments", body)
    console.sign_in("operator")
    assert state.deployments["shop/front"].status == "Deploying"
    assert follow(console, page, "Deploying", "Revisions", "created") == {"Update", "Scale"}
    offer(console)
    console.gateway.report("RUNNING", "shop/front")
    rest = {"Update", "Scale", "Replace", "Reschedule", "Restart"}
    assert follow(console, page, "2 of 2 ready", "Revisions", "front-1") == rest
    body["spec"]["template"]["spec"]["containers"][0]["command"] = "server-2"
    change(console, "PUT", "/namespaces/shop/deployments", body)
    assert {"Pause", "Undo"} <= follow(console, page, "Update to revision 2", "updated") <= {"Pause", "Undo", *rest}

    def resting() -> bool:
        offer(console)
        for key in list(state.applications):
            for group in list(state.groups_of(key).values()):
                console.gateway.report_taskgroup("KILLED" if group.killing_since else "RUNNING", group.id)
        return not state.deployments["shop/front"].phase

    wait_for(resting, what="the pause between two steps")
    assert state.deployments["shop/front"].status == "Update"
    shown = follow(console, page, "Pause", "updated", "front-")
    assert {"Pause", "Undo"} <= shown and not shown & {"Scale", "Replace", "Roll back", "Update"}
    change(console, "PUT", f"{path}/pauseupdate")
    until(console, path, lambda found: found["status"] == "UpdatePaused" or found["pausing"])
    shown = follow(console, page, "Resume", "updated")
    assert {"Resume", "Undo"} <= shown and not shown & {"Scale", "Replace", "Roll back", "Update"}
    change(console, "PUT", f"{path}/cancelupdate")
    shown = follow(console, page, "going back", "updated")
    assert "Undo" not in shown and shown & {"Pause", "Resume"}
    settle(console, "shop/front", wait=False)
    shown = follow(console, page, "2 of 2 ready", "updated", "Roll back")
    assert shown == {*rest, "Roll back"}
    change(console, "DELETE", path)
    assert not follow(console, page, "Deleting") & {"Update", "Scale", "Replace", "Roll back"}
    console.sign_out()


def test_buttons_of_agents(console: Console) -> None:
    gateway = console.gateway
    offer(console)
    create(console, "web")
    gateway.report("RUNNING", "shop/web")
    offer(console)
    group = group_of(console, "shop/web")
    number = group.hostname.removeprefix("host-")
    key = f"10.0.0.{number}"
    console.sign_in("admin")
    page = f"#/agents/{key}"
    own = {"Reschedule", "Restart"}
    assert follow(console, page, "in use", "Reschedule") == {"Cordon", "Drain", *own}
    change(console, "POST", f"/agentsettings/disable?ips={key}", token="admin")
    assert follow(console, page, "cordoned", "Reschedule") == {"Uncordon", "Drain", *own}
    change(console, "POST", f"/agentsettings/drain?ips={key}", token="admin")
    shown = follow(console, page, "draining", "taskgroup is left", "web-0")
    assert "Uncordon" in shown and not shown & {"Cordon", "Drain"}
    gateway.listed = [agent._replace(active=False) for agent in gateway.listed]
    gateway.follow.touch_agents(gateway.listed)
    assert follow(console, page, "away", "Uncordon") == {"Uncordon"}
    change(console, "POST", f"/agentsettings/enable?ips={key}", token="admin")
    assert follow(console, page, "away", "Events") == set()
    console.sign_out()
