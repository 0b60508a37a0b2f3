"""The pages of deployments, transactions, events and queues, in a real browser."""

from __future__ import annotations

import re
import time
from typing import Any

import msgspec
import pytest

from tests.integration.browser.stage import PICTURES, Console, buttons, create, examine, offer, violations
from tests.unit.deployment_support import deployment

pytestmark = pytest.mark.rotating


def send(console: Console, method: str, path: str, body: Any, token: str = "admin") -> None:
    answer = console.api.call(method, path, json=body, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code < 300, answer.text


def rollout(console: Console) -> None:
    """A deployment of four taskgroups, one of them at a time on the way to the second revision."""
    offer(console)
    body = deployment("front", instance=4, maxUnavilable=1, maxSurge=1, upgradeDuration=3600)
    send(console, "POST", "/namespaces/shop/deployments", body)
    report(console)
    container = body["spec"]["template"]["spec"]["containers"][0]
    container["command"] = "server-2"
    send(console, "PUT", "/namespaces/shop/deployments/front", body)
    offer(console)


def report(console: Console, state: str = "RUNNING") -> None:
    """All taskgroups of the deployment run."""
    for key in list(console.gateway.core.state.applications):
        console.gateway.report(state, key)


def test_an_operator_pauses_resumes_and_undoes_an_update(console: Console) -> None:
    browser, state = console.browser, console.gateway.core.state
    rollout(console)
    console.sign_in("operator")
    browser.click("nav a", "Deployments")
    browser.shows("1 deployment")
    browser.click("td a", "front")
    browser.shows("Update to revision 2", "disruption budget", "Present", "Revisions", "Taskgroups")
    assert browser.run("return location.hash") == "#/deployments/shop/front"
    browser.click("button", "Pause")
    browser.shows("bcs rollout pause deployment/front -n shop")
    browser.click("dialog button", "Show the plan")
    browser.shows("The request is possible.")
    assert not state.deployments["shop/front"].pausing
    assert violations(browser) == []
    browser.screenshot(PICTURES / "pause.png")
    browser.click("dialog .primary", "Apply")
    browser.shows("Resume", "Undo")
    browser.click("button", "Resume")
    browser.click("dialog button", "Show the plan")
    browser.shows("The request is possible.")
    browser.click("dialog .primary", "Apply")
    browser.shows("Pause", "Undo")
    browser.click("button", "Undo")
    browser.shows("bcs rollout cancel deployment/front -n shop")
    browser.click("dialog button", "Show the plan")
    browser.shows("The request is possible.")
    browser.click("dialog .primary", "Apply")
    browser.shows("going back")
    assert state.deployments["shop/front"].rolling_back
    console.sign_out()


def test_a_viewer_steers_nothing(console: Console) -> None:
    rollout(console)
    console.sign_in("viewer")
    console.browser.open(f"{console.api.url}/#/deployments/shop/front")
    console.browser.shows("Update to revision 2", "Taskgroups")
    assert buttons(console.browser) == {"Sign out", "Copy"}
    console.browser.open(f"{console.api.url}/#/deployments/shop/none")
    console.browser.shows("has no deployment of this name")
    console.sign_out()


def test_transactions_are_a_timeline(console: Console) -> None:
    browser = console.browser
    offer(console)
    create(console, "web")
    console.gateway.report("RUNNING", "shop/web")
    create(console, "huge", resources={"limits": {"cpu": "64", "memory": "32"}})
    console.sign_in("viewer")
    browser.open(f"{console.api.url}/#/transactions")
    browser.shows("2 transactions, 1 in progress", "shop/web", "shop/huge", "FINISH", "INIT")
    bars = browser.run("return [...document.querySelectorAll('.lane .bar-of')].map((e) => e.className)")
    assert bars == ["bar-of init", "bar-of finish"]
    browser.open(f"{console.api.url}/#/transactions?status=INIT")
    browser.shows("1 transaction, 1 in progress")
    browser.click("td button", "LAUNCH")
    browser.shows("LAUNCH of shop/huge", "time box until", "bcs describe transaction")
    (id,) = [id for id, one in console.gateway.core.state.transactions.items() if one.application == "huge"]
    assert f"id={id}" in browser.run("return location.hash")
    browser.click("a", "Events of this transaction")
    browser.shows("TransactionStarted", "Only events of the transaction")
    create(console, "more")
    browser.open(f"{console.api.url}/#/transactions?search=more")
    browser.shows("1 transaction", "shop/more")
    console.sign_out()


OLD = """
    const bars = [...document.querySelectorAll(".lane .bar-of")].map((bar) => bar.style);
    const ends = bars.map(({ left, width }) => [parseFloat(left), parseFloat(left) + parseFloat(width)]);
    const labels = [...document.querySelectorAll(".axis span")].map((label) => label.textContent);
    return [Math.min(...ends.map(([left]) => left)), Math.max(...ends.map(([, right]) => right)), labels];
"""
"""Where the first bar begins and the last one ends, in percent of the axis, and the labels of the axis."""


def test_the_time_axis_fits_the_transactions(console: Console) -> None:
    """Also if they are a small part of the time that is chosen."""
    browser, state = console.browser, console.gateway.core.state
    offer(console)
    create(console, "web")
    console.gateway.report("RUNNING", "shop/web")
    offer(console)
    create(console, "cart")
    console.gateway.report("RUNNING", "shop/cart")
    now = time.time()
    for (id, one), ago in zip(sorted(state.transactions.items()), (120.0, 30.0), strict=True):
        moved = msgspec.structs.replace(one, created_at=now - ago, finished_at=now - ago + 25, deadline=now + 3600)
        state.apply("transaction", id, moved)
    console.sign_in("viewer")
    for span, distance in (("86400", 120.0), ("3600", 120.0), ("300", 120.0), ("all", 120.0)):
        browser.open("about:blank")
        browser.open(f"{console.api.url}/#/transactions?span={span}")
        browser.shows("2 transactions, 0 in progress")
        first, last, labels = browser.run(OLD)
        assert first < 10 and last > 90, (span, distance)
        assert 2 <= len(labels) == len(set(labels)) <= 6, labels
        assert all(re.fullmatch(r"\d\d:\d\d:\d\d", label) for label in labels)
    (id, one) = min(state.transactions.items())
    state.apply("transaction", id, msgspec.structs.replace(one, created_at=now - 20_000))
    browser.open("about:blank")
    browser.open(f"{console.api.url}/#/transactions?span=all")
    browser.shows("2 transactions")
    first, last, labels = browser.run(OLD)
    assert first < 10 and last > 90 and 2 <= len(labels) == len(set(labels)) <= 6
    assert all(re.fullmatch(r"\d\d:\d\d", label) for label in labels)
    console.sign_out()


def test_events_follow_and_filters_are_in_the_address(console: Console) -> None:
    browser = console.browser
    offer(console)
    create(console, "web")
    console.sign_in("viewer")
    browser.open(f"{console.api.url}/#/events?namespace=shop&kind=taskgroup")
    browser.shows("TaskGroupPlaced", "bcs get events -n shop -w")
    assert "TransactionStarted" not in browser.text()
    console.gateway.report("RUNNING", "shop/web")  # the page hears of this by its stream
    browser.shows("TaskGroupRunning")
    browser.write("#reason", "TaskGroupRunning")
    browser.shows("1 event", "--reason TaskGroupRunning")
    assert browser.run("return location.hash") == "#/events?namespace=shop&kind=taskgroup&reason=TaskGroupRunning"
    browser.write("#reason", "")
    browser.write("#text", "placed elsewhere")
    browser.shows("There are no events of this kind.")
    browser.open(f"{console.api.url}/#/events?reason=NoSuchReason")
    browser.shows("There are no events of this kind.")
    console.sign_out()


def test_a_narrow_window_shows_the_filters_of_events_on_request(console: Console) -> None:
    browser = console.browser
    create(console, "web")
    console.sign_in("viewer")
    height = "return document.querySelector('.filters').offsetHeight"
    browser.resize(360)
    browser.open(f"{console.api.url}/#/events")
    browser.shows("TransactionStarted")
    assert browser.run(height) < 60
    browser.click(".filters > summary")
    browser.write("#reason", "TransactionStarted")
    browser.shows("Filters (1)", "--reason TransactionStarted")
    browser.open("about:blank")
    browser.open(f"{console.api.url}/#/events?reason=NoSuchReason")
    browser.shows("Filters (1)", "There are no events of this kind.")
    assert browser.run(height) > 60, "filters in effect are shown"
    browser.resize(1280)
    browser.open("about:blank")
    browser.open(f"{console.api.url}/#/events")
    browser.shows("TransactionStarted")
    assert "Filters" not in browser.text()
    assert browser.run("return document.querySelector('#reason').offsetHeight") > 0
    console.sign_out()


def test_queues_show_what_is_guaranteed_and_who_waits(console: Console) -> None:
    browser = console.browser
    offer(console)
    queue = {"weight": 3, "guarantee": {"cpu": "1500m"}, "capability": {"cpus": 8, "mem": "2Gi"}}
    send(console, "POST", "/queues", {"kind": "queue", "metadata": {"name": "batch"}, "spec": queue})
    spec = {"kind": "namespace", "metadata": {"name": "shop"}, "spec": {"queue": "batch"}}
    send(console, "POST", "/namespaces", spec)
    create(console, "web")
    create(console, "huge", resources={"limits": {"cpu": "6", "memory": "32"}})
    console.sign_in("viewer")
    browser.click("nav a", "Queues")
    browser.shows("2 queues", "batch", "1.5 guaranteed", "at most 8", "all others")
    browser.shows("shop/huge", "1 lacks CPUs")
    examine(console, "queues", "#/queues", "2 queues", "shop/huge", "guaranteed")
    console.sign_out()


def test_queues_with_parents_are_a_tree(console: Console) -> None:
    """The order and depth of queues with parents: by the setting, or by the part of the name before the last dot."""
    console.sign_in("viewer")
    script = """
        const done = arguments[arguments.length - 1];
        const page = document.querySelector('script[type=module]').src.replace('app.js', 'pages/queues.js');
        const queue = ([name, parent]) => ({ metadata: { name }, spec: { parent } });
        import(page).then(({ tree }) => done(tree(arguments[0].map(queue)).map((q) => [q.label, q.depth])));"""
    found = console.browser.run_async(
        script, [["root.ops"], ["ci", "root.dev"], ["root"], ["default"], ["root.dev"], ["a", "b"], ["b", "a"]]
    )
    assert found == [["default", 0], ["root", 0], ["dev", 1], ["ci", 2], ["ops", 1], ["a", 0], ["b", 0]]
    console.sign_out()


def test_pages_are_accessible_at_every_size(console: Console) -> None:
    rollout(console)
    create(console, "huge", resources={"limits": {"cpu": "64", "memory": "32"}})
    console.sign_in("admin")
    examine(console, "deployments", "#/deployments", "1 deployment")
    examine(console, "deployment", "#/deployments/shop/front", "Update to revision 2", "Revisions")
    (id,) = [id for id, one in console.gateway.core.state.transactions.items() if one.application == "huge"]
    examine(console, "transactions", f"#/transactions?id={id}", "shop/huge", "LAUNCH of")
    examine(console, "events", "#/events", "TransactionStarted")
    console.sign_out()
