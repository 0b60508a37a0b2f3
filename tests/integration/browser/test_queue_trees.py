"""The page of queues with trees of queues, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bcs_scheduler.core.options import CoreOptions
from tests.component.cli.test_queue_trees import options, two_trees
from tests.integration.browser.conftest import console_of
from tests.integration.browser.driver import Browser
from tests.integration.browser.stage import Console, create, examine, offer
from tests.unit.api_support import CoreGateway

pytestmark = pytest.mark.rotating

MAP = "return [...document.querySelectorAll('tbody tr')].map((r) => [...r.cells].map((c) => c.textContent))"


@pytest.fixture
def trees(browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Console]:
    chosen: CoreOptions = request.param()
    with console_of(browser, tmp_path, CoreGateway(options=chosen)) as made:
        yield made


def ask(console: Console, method: str, path: str) -> None:
    answer = console.api.call(method, path, headers={"Authorization": "Bearer admin"})
    assert answer.status_code < 300, answer.text


@pytest.mark.parametrize("trees", [options], indirect=True)
def test_a_tree_shows_states_amounts_and_the_work_that_waits(trees: Console) -> None:
    browser = trees.browser
    offer(trees)
    create(trees, "web")
    create(trees, "huge", resources={"limits": {"cpu": "64", "memory": "32"}})
    ask(trees, "POST", "/queuetree/queues/root.batch.night/stop")
    trees.sign_in("viewer")
    browser.click("nav a", "Queues")
    browser.shows("Tree of queues", "roles * (all others); revision 1", "night", "Stopped", "6 guaranteed")
    rows = {row[0]: row for row in browser.run(MAP)}
    assert list(rows)[:4] == ["root", "batch", "night", "reports"], "parents come first"
    assert rows["night"][1] == "Stopped" and "at most 6" in rows["night"][4]
    assert "shop" in rows and "created by a rule" in rows["shop"][1]
    assert "Weight" not in browser.text(), "queues of sessions mean nothing here"
    examine(trees, "queue-tree", "#/queues", "Tree of queues", "shop/huge", "guaranteed")
    trees.sign_out()


@pytest.mark.parametrize("trees", [two_trees], indirect=True)
def test_each_partition_has_a_table(trees: Console) -> None:
    browser = trees.browser
    trees.sign_in("viewer")
    browser.click("nav a", "Queues")
    browser.shows("Partition default", "Partition night", "roles batch")
    heads = browser.run("return [...document.querySelectorAll('main h2')].map((head) => head.textContent)")
    assert heads == ["Partition default", "Partition night", "Waiting operations"]
    trees.sign_out()
