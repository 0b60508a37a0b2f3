"""The parts of the page of an application, in a real browser: endpoints, versions with their differences, output."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.component.agentfiles import AgentFiles
from tests.integration.browser.stage import PICTURES, Console, buttons, create, examine, offer, violations
from tests.unit.api_support import document
from tests.waiting import wait_for


def change(console: Console, method: str, path: str, body: object = None, token: str = "operator") -> None:
    answer = console.api.call(method, path, json=body, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code in (200, 202), answer.text


def test_versions_show_their_differences(console: Console) -> None:
    browser = console.browser
    offer(console)
    create(console, "web")
    console.gateway.report("RUNNING", "shop/web")
    console.sign_in("viewer")
    browser.open(f"{console.api.url}/#/applications/shop/web")
    browser.shows("One version:", "definition of 20")
    assert not re.search(r"\d{19}", browser.run("return document.querySelector('h1 + p').textContent"))
    offer(console)
    change(console, "PUT", "/namespaces/shop/applications", document("web", instance=1, command="server-2"))
    browser.shows("Versions (2)", '"command": "server"', '"command": "server-2"')
    lines = browser.run(
        "return [...document.querySelectorAll('.diff .gone, .diff .new')].map((e) => e.textContent.trim())"
    )
    assert lines == ['-             "command": "server",', '+             "command": "server-2",']
    console.sign_out()


def test_endpoints_of_an_application(console: Console) -> None:
    offer(console)
    create(console, "web")
    console.gateway.report("RUNNING", "shop/web")
    service = {
        "kind": "service",
        "metadata": {"name": "front", "namespace": "shop"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "protocol": "http", "servicePort": 80}]},
    }
    change(console, "POST", "/namespaces/shop/services", service)
    console.sign_in("viewer")
    console.browser.open(f"{console.api.url}/#/applications/shop/web")
    console.browser.shows("Endpoints", "front", "web-0", "10.0.0.")
    console.sign_out()


def test_the_output_of_a_taskgroup_is_followed(console: Console, tmp_path: Path) -> None:
    browser, gateway = console.browser, console.gateway
    offer(console)
    create(console, "web")
    gateway.report("RUNNING", "shop/web")
    (group,) = gateway.core.state.groups_of("shop/web").values()
    folder = tmp_path / "sandbox" / "tasks" / group.tasks[0].id
    folder.mkdir(parents=True)
    output = folder / "stdout"
    output.write_text("one <b>line</b>\n")
    files = AgentFiles(tmp_path / "sandbox", "framework-1", group.id)
    try:
        gateway.listed = [agent._replace(ip="127.0.0.1", port=files.port) for agent in gateway.listed]
        console.sign_in("viewer")
        browser.open(f"{console.api.url}/#/applications/shop/web")
        browser.shows("Show and follow")
        browser.click("#follow")
        assert browser.run("return location.hash") == "#/applications/shop/web?output=follow"
        browser.shows("one <b>line</b>", "bcs logs web-0 -n shop -f")
        with output.open("a") as stream:
            stream.write("another line\n")
        browser.shows("another line")
        assert browser.run("return document.querySelector('.logs').textContent").count("one <b>") == 1
        examine(console, "output", "#/applications/shop/web?output=follow", "another line", "One version")
        console.sign_out()
    finally:
        files.close()


def test_what_would_help_an_application_that_waits(console: Console) -> None:
    """The changes, each with its plan and its command; a change that is made ends the panel."""
    browser, gateway = console.browser, console.gateway
    gateway.offer(1, cpus=4)
    gateway.offer(2, cpus=8)
    change(console, "POST", "/agentsettings/disable?ips=10.0.0.2", token="admin")
    create(console, "big", resources={"limits": {"cpu": "6", "memory": "32"}})
    console.sign_in("viewer")
    browser.open(f"{console.api.url}/#/applications/shop/big")
    browser.shows("1 taskgroup waits", "Changes that would help, and the expected time")
    assert "uncordon" not in browser.text()  # nothing is searched before a reader asks
    browser.click("summary")
    browser.shows("Without a change: no estimate of the time until room is free: ")
    browser.shows("uncordon 1 agent (10.0.0.2)", "1 taskgroup is placed: 1 on host-2", "bcs uncordon 10.0.0.2")
    browser.shows("reduce cpus per taskgroup from 6 to 3.99 cores", "1 on host-1", "bcs edit app/big -n shop")
    browser.shows("add 1 agent with 8 cores and 8192 MB", "bcs has no command that adds agents.")
    assert browser.run("return location.hash") == "#/applications/shop/big?whatif=open"
    copied = "return [...document.querySelectorAll('.solutions .command button')].map((b) => b.ariaLabel)"
    assert "Copy the command bcs uncordon 10.0.0.2" in browser.run(copied)
    examine(console, "what-if", "#/applications/shop/big?whatif=open", "bcs uncordon 10.0.0.2")
    gateway.offer(3, cpus=7)
    gateway.report("RUNNING", "shop/big")
    browser.shows("1 of 1 running")
    wait_for(lambda: "Changes that would help" not in browser.text(), what="the end of the panel")
    console.sign_out()


def test_every_kind_of_change_has_its_command(console: Console) -> None:
    console.sign_in("viewer")
    script = """
        const done = arguments[arguments.length - 1];
        const part = document.querySelector('script[type=module]').src.replace('app.js', 'parts/whatif.js');
        const rest = { placed: 1, agents: [], moves: [], evict: [], text: "" };
        const commands = (element) => [...element.querySelectorAll("code")].map((code) => code.textContent);
        import(part).then(({ solution }) =>
          done(arguments[0].map((changes) => commands(solution({ ...rest, changes }, "deployment/web -n shop")))));"""
    limits = [{"resource": "cpus", "from": 1.0, "to": 1.5}, {"resource": "mem", "from": 32.0, "to": 64.0}]
    sets: list[list[dict[str, object]]] = [
        [{"kind": "drainAgent", "agents": ["10.0.0.1"], "taskgroups": ["0.web.shop.demo.1"]}],
        [{"kind": "preemptTaskgroups", "taskgroups": ["0.low.shop.demo.1", "1.low.shop.demo.2"]}],
        [{"kind": "raiseQueueLimit", "queue": "root.team", "limits": limits}],
        [{"kind": "raiseQueueLimit", "queue": "root.team", "partition": "batch", "limits": limits[:1]}],
        [{"kind": "dropConstraint", "constraint": "zone"}, {"kind": "reduceResource", "resource": "cpus"}],
        [{"kind": "addAgents", "count": 1}],
    ]
    assert console.browser.run_async(script, sets) == [
        ["bcs drain 10.0.0.1 && bcs uncordon 10.0.0.1"],
        ["bcs reschedule 0.low.shop.demo.1 && bcs reschedule 1.low.shop.demo.2"],
        ["bcs queue set root.team --capability cpus=1.5 --capability mem=64Mi"],
        ["bcs queue set root.team --partition batch --capability cpus=1.5"],
        ["bcs edit deployment/web -n shop"],
        [],
    ]
    console.sign_out()


def test_a_taskgroup_is_restarted_and_replaced(console: Console) -> None:
    browser, gateway = console.browser, console.gateway
    offer(console)
    create(console, "web")
    gateway.report("RUNNING", "shop/web")
    (group,) = gateway.core.state.groups_of("shop/web").values()
    console.sign_in("viewer")
    browser.open(f"{console.api.url}/#/applications/shop/web")
    browser.shows("1 of 1 running", "web-0")
    assert buttons(browser) == {"Sign out", "Copy"}
    console.sign_out()
    console.sign_in("operator")
    browser.open(f"{console.api.url}/#/applications/shop/web")
    browser.click("td button", "Restart")
    browser.shows("Restart web-0", "bcs restart web-0 -n shop")
    assert browser.run("return document.querySelector('dialog .primary').disabled")
    browser.click("dialog button", "Show the plan")
    browser.shows("The taskgroup can be reached.")
    assert not gateway.core.state.messages
    browser.click("dialog .primary", "Apply")
    messages = gateway.core.state.messages  # other threads change it
    wait_for(lambda: [one.taskgroup for one in tuple(messages.values())] == [group.id], what="the message")
    wait_for(lambda: not browser.run("return document.querySelectorAll('dialog').length"), what="the end of the dialog")
    offer(console)
    browser.click("td button", "Reschedule")
    browser.shows("Reschedule web-0", "bcs reschedule web-0 -n shop")
    browser.write("#retain", "60")
    browser.shows("bcs reschedule web-0 -n shop --host-retain 60s")
    browser.write("#retain", "0")
    browser.click("dialog button", "Show the plan")
    browser.shows("1 taskgroup is placed", "1 taskgroup is ended", "0 taskgroups find no place")
    assert not gateway.core.state.taskgroups[group.id].killing_since
    browser.click("dialog .primary", "Apply")
    wait_for(lambda: gateway.core.state.taskgroups[group.id].killing_since, what="the end of web-0")
    examine(console, "taskgroup", "#/applications/shop/web", "web-0", "Reschedule")
    console.sign_out()


def until(console: Console, condition: Callable[[], object]) -> None:
    """Turns of the core until the policy has decided so."""
    wait_for(lambda: console.gateway.feed() is not None and bool(condition()), what="the decision of the policy")


@pytest.mark.rotating
def test_a_plan_names_the_other_work_that_ends_and_the_work_that_gets_the_room(preempting: Console) -> None:
    browser, gateway = preempting.browser, preempting.gateway
    gateway.offer(1, cpus=3.4)
    for name, priority, cpu in (("low", 0, "3"), ("high", 10, "1")):
        body = document(name, instance=int(name == "low"), resources={"limits": {"cpu": cpu, "memory": "32"}})
        body["spec"]["template"]["spec"]["priority"] = priority
        change(preempting, "POST", "/namespaces/shop/applications", body)
    until(preempting, lambda: gateway.core.state.groups_of("shop/low"))
    gateway.report("RUNNING", "shop/low")
    gateway.offer(1, cpus=0.4)
    preempting.sign_in("operator")
    browser.open(f"{preempting.api.url}/#/applications/shop/high")
    browser.click("button", "Scale")
    browser.write("#instances", "1")
    browser.click("dialog button", "Show the plan")
    browser.shows("1 taskgroup finds no place at once", "bcs scale app/high 1 -n shop")
    browser.shows("1 taskgroup of other work is evicted to make room for shop/high: shop/low-0")
    assert violations(browser) == []
    browser.screenshot(PICTURES / "evicted.png")
    (low,) = gateway.core.state.groups_of("shop/low").values()
    assert not low.killing_since
    browser.click("dialog .primary", "Apply")
    until(preempting, lambda: gateway.core.state.taskgroups[low.id].killing_since)
    preempting.sign_out()
