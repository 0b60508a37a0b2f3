"""Makes the pictures of the documents: `python -m tests.integration.browser.pictures` writes docs/pictures.

A cluster of 600 agents in a core without store and Mesos, in a headless Chromium. The same cluster each time.
"""

from __future__ import annotations

import random
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from bcs_scheduler.api.http.operation import ApiSettings
from bcs_scheduler.api.http.request_gate import RequestGate
from bcs_scheduler.console.figures import Figures
from bcs_scheduler.console.site import Site
from tests.component.apiserver import Api, serving
from tests.integration.browser.driver import Browser
from tests.integration.browser.simulation import write_report
from tests.unit.api_support import CoreGateway, document
from tests.unit.deployment_support import deployment
from tests.waiting import wait_for

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "pictures"
AGENTS, CORES, MEMORY = 600, 8, 16384
NAMES = ("cart", "search", "catalogue", "mail", "payment", "reviews", "images", "ledger", "sessions", "metrics")
PAGES = (
    ("cluster", "#/agents", f"{AGENTS} agents", False),
    ("cluster-dark", "#/agents?by=rack", f"{AGENTS} agents", True),
    ("deployment", "#/deployments/shop/front", "Revisions", False),
    ("overview", "#/", "Needs attention", False),
)
SIZE = (1200, 760)
TILES = "const map = document.querySelector('.map'); return !map || Number(map.dataset.tiles) > 0"


def send(api: Api, method: str, path: str, body: Any = None) -> None:
    answer = api.call(method, path, json=body)
    assert answer.status_code < 300, answer.text


def fill(gateway: CoreGateway, api: Api) -> None:
    """Applications of different sizes, an update in progress, and some trouble."""
    choose = random.Random(7)
    for number in range(1, AGENTS + 1):
        gateway.offer(number, cpus=CORES, mem=MEMORY)
    listed = [
        agent._replace(
            attributes={**agent.attributes, "zone": f"zone-{i * 3 // AGENTS + 1}", "rack": f"rack-{i // 50 + 1}"}
        )
        for i, agent in enumerate(gateway.listed)
    ]
    for name in NAMES:
        cores, instances = choose.choice(("1", "2", "3", "4")), choose.randint(60, 160)
        limits = {"cpu": cores, "memory": str(1024 * int(cores))}
        send(
            api,
            "POST",
            "/namespaces/shop/applications",
            document(name, instance=instances, resources={"limits": limits}),
        )
        gateway.report("RUNNING", f"shop/{name}")
        for number in choose.sample(range(1, AGENTS + 1), AGENTS // 2):
            gateway.offer(number, cpus=CORES / 2, mem=MEMORY / 2)
    body = deployment("front", instance=12, maxUnavilable=3, maxSurge=3, upgradeDuration=1)
    send(api, "POST", "/namespaces/shop/deployments", body)
    gateway.report("RUNNING", "shop/front")
    body["spec"]["template"]["spec"]["containers"][0]["command"] = "server-2"
    send(api, "PUT", "/namespaces/shop/deployments/front", body)
    limits = {"cpu": "64", "memory": "1024"}
    send(api, "POST", "/namespaces/shop/applications", document("training", instance=2, resources={"limits": limits}))
    gateway.report("UNREACHABLE", "shop/ledger")
    away = choose.sample(range(AGENTS), 4)
    gateway.listed = [agent._replace(active=i not in away) for i, agent in enumerate(listed)]
    gateway.follow.touch_agents(gateway.listed)
    send(
        api,
        "POST",
        f"/agentsettings/disable?ips={','.join(f'10.0.0.{n}' for n in choose.sample(range(1, AGENTS), 12))}",
    )
    send(api, "POST", f"/agentsettings/drain?ips={','.join(f'10.0.0.{n}' for n in choose.sample(range(1, AGENTS), 5))}")


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    gateway = CoreGateway()
    gateway.connect()
    gate = RequestGate()
    site = Site(gateway, ApiSettings(), gate, Figures(gateway))
    with tempfile.TemporaryDirectory() as folder, serving(gateway, gate=gate, pages=site) as api:
        fill(gateway, api)
        browser = Browser(Path(folder))
        try:
            for name, address, words, dark in PAGES:
                browser.resize(*SIZE, dark=dark)
                browser.open(f"{api.url}/{address}")
                browser.shows(words, "live")
                wait_for(partial(browser.run, TILES), what="the tiles")
                browser.screenshot(FOLDER / f"{name}.png")
            write_report(Path(folder) / "report.html")
            browser.resize(*SIZE)
            browser.open((Path(folder) / "report.html").as_uri())
            browser.run("document.getElementById('time').scrollIntoView()")
            browser.screenshot(FOLDER / "simulation.png")
            browser.open("about:blank")
            gateway.follow.close("the pictures are made")
        finally:
            browser.close()


if __name__ == "__main__":
    main()
