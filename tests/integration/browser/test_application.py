"""The parts of the page of an application, in a real browser: endpoints, versions with their differences, output."""

from __future__ import annotations

from pathlib import Path

from tests.component.agentfiles import AgentFiles
from tests.integration.browser.stage import Console, create, examine, offer
from tests.unit.api_support import document


def change(console: Console, method: str, path: str, body: object) -> None:
    answer = console.api.call(method, path, json=body, headers={"Authorization": "Bearer operator"})
    assert answer.status_code in (200, 202), answer.text


def test_versions_show_their_differences(console: Console) -> None:
    browser = console.browser
    offer(console)
    create(console, "web")
    console.gateway.report("RUNNING", "shop/web")
    console.sign_in("viewer")
    browser.open(f"{console.api.url}/#/applications/shop/web")
    browser.shows("One version:")
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
