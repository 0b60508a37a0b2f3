"""The console as it is served: page and files, sessions of browsers, what other sites cannot do, rights, figures."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import pytest
import requests

from bcs_scheduler.api.http.operation import BASE, ApiSettings
from bcs_scheduler.api.http.request_gate import RequestGate
from bcs_scheduler.console.assets import assets
from bcs_scheduler.console.figures import Figures
from bcs_scheduler.console.site import POLICY, Site, prefers_html
from bcs_scheduler.security.audit import Audit
from bcs_scheduler.security.browsers import IDLE, LONGEST, BrowserSessions
from bcs_scheduler.security.tokens import hash_of, read_tokens
from bcs_scheduler.security.watched import WatchedFiles
from store.records import TaskGroupStatus
from store.records.running import ApplicationStatus
from store.records.transactions import TransactionStatus
from store.records.workloads import DeploymentStatus
from tests.component.apiserver import Api, serving
from tests.unit.api_support import CoreGateway, document
from tests.unit.test_core_unknown_tasks import on_an_empty_store
from transactions.rules.losses import Halt

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
FIRST_LOAD = 300_000
"""Bytes that the first load may have, compressed."""


def entry(name: str, role: str, namespaces: str) -> str:
    return f'[[token]]\nname = "{name}"\nhash = "{hash_of(name)}"\nrole = "{role}"\nnamespaces = {namespaces}\n'


class Console(NamedTuple):
    api: Api
    gateway: CoreGateway
    gate: RequestGate
    tokens: Path
    clock: list[float]

    def sign_in(self, token: str, **headers: str) -> requests.Response:
        given = {"Origin": self.api.url, **headers}
        return self.api.call("POST", "/console/session", base="", json={"token": token}, headers=given)

    def write(self, key: str, **headers: str) -> requests.Response:
        """A change that only operators may make."""
        given = {**session(key), **headers}
        return self.api.call("POST", "/namespaces/shop/applications?dryRun=true", json=document(), headers=given)

    def read(self, key: str) -> int:
        return self.api.get("/applications", headers=session(key)).status_code

    def page(self) -> dict[str, str]:
        """The header that a browser sends with requests of the page of this server."""
        return {"Origin": self.api.url}


@pytest.fixture
def console(gateway: CoreGateway, tmp_path: Path) -> Iterator[Console]:
    tokens, clock = tmp_path / "tokens.toml", [1_700_000_000.0]
    tokens.write_text(entry("oper", "operator", '["shop"]') + entry("all", "viewer", '"*"'))
    gate = RequestGate(
        tokens=WatchedFiles("tokens", [tokens], lambda: read_tokens(tokens)),
        audit=Audit(tmp_path / "audit.jsonl"),
        clock=lambda: clock[0],
    )
    site = Site(gateway, ApiSettings(version="1.2.3"), gate, Figures(gateway))
    gateway.connect()
    gateway.offer()
    with serving(gateway, gate=gate, pages=site) as api:
        yield Console(api, gateway, gate, tokens, clock)


def session(key: str) -> dict[str, str]:
    return {"Authorization": f"Session {key}"}


def key_of(answer: requests.Response) -> str:
    assert answer.status_code == 200, answer.text
    assert "set-cookie" not in answer.headers
    return str(answer.json()["data"]["key"])


def test_a_browser_gets_the_page_and_a_program_the_entry_points(console: Console) -> None:
    page = console.api.get("/", base="", headers=HTML)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.text.startswith("<!doctype html>")
    for accept in ("application/json", "*/*", "application/json, text/html;q=0.5"):
        listed = console.api.get("/", base="", headers={"Accept": accept}).json()["data"]
        assert (listed["api"], listed["openapi"]) == (BASE, "/openapi.json"), accept
    assert "Accept" in page.headers["vary"]
    assert not prefers_html("text/html;q=0") and not prefers_html("text/html;q=x") and not prefers_html("")
    refused = console.api.call("POST", "/", base="")
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


def test_the_page_may_only_use_files_of_this_server(console: Console) -> None:
    page = console.api.get("/", base="", headers=HTML)
    assert page.headers["content-security-policy"] == POLICY
    assert "default-src 'none'" in POLICY and "unsafe" not in POLICY and "http" not in POLICY
    assert page.headers["x-content-type-options"] == "nosniff"
    assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=|style=", page.text)
    texts = {name: asset.content.decode() for name, asset in assets().files.items()}
    for name, text in {**texts, "index.html": page.text}.items():
        plain = text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//[a-z]+\.", plain), name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text), (
            name
        )


def test_files_are_kept_for_ever_under_the_name_of_their_contents(console: Console) -> None:
    page = console.api.get("/", base="", headers=HTML)
    assert page.headers["cache-control"] == "no-cache"
    names = re.findall(r'(?:href|src)="(/console/assets/[^"]+)"', page.text)
    assert len(names) >= 3
    for name in names:
        file = console.api.get(name, base="")
        assert file.status_code == 200 and "immutable" in file.headers["cache-control"], name
        assert file.headers["content-encoding"] == "gzip"
        known = console.api.get(name, base="", headers={"If-None-Match": file.headers["etag"]})
        assert (known.status_code, known.content) == (304, b"")
        plain = console.api.get(name, base="", headers={"Accept-Encoding": "identity"})
        assert plain.content == file.content and "content-encoding" not in plain.headers
    assert console.api.get("/console/assets/0000000000000000/app.js", base="").status_code == 404
    assert console.api.get("/console/assets/../site.py", base="").status_code == 404


def test_modules_of_the_page_import_files_that_exist(console: Console) -> None:
    version = next(iter(assets().files)).partition("/")[0]
    for name, asset in assets().files.items():
        if not name.endswith(".js"):
            continue
        for target in re.findall(r'from "(\.[^"]+)"', asset.content.decode()):
            found = str((Path("/") / name).parent.joinpath(target).resolve().relative_to("/"))
            assert found in assets().files, (version, name, target)


def test_packages_have_all_files_of_the_page() -> None:
    root = Path(__file__).resolve().parents[2]
    settings = ConfigParser()
    settings.read(root / "setup.cfg")
    patterns = settings["options.package_data"]["bcs_scheduler.console"].split(", ")
    folder = root / "bcs_scheduler" / "console"
    packed = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    assert {path for path in (folder / "page").rglob("*") if path.is_file()} == packed


def test_the_first_load_is_small() -> None:
    loaded = [assets().page, *assets().files.values()]
    assert sum(len(asset.packed) for asset in loaded) < FIRST_LOAD
    assert all(gzip.decompress(asset.packed) == asset.content for asset in loaded)


def test_statuses_in_the_modules_are_those_of_the_records() -> None:
    known = {*get_args(ApplicationStatus), *get_args(TaskGroupStatus), *get_args(DeploymentStatus)}
    known |= set(get_args(TransactionStatus))
    texts = [asset.content.decode() for name, asset in assets().files.items() if name.endswith(".js")]
    sets = [found for text in texts for found in re.findall(r"= new Set\(\[(\"[^\]]+)\]\)", text)]
    compared = [found for text in texts for found in re.findall(r"[sS]tatus === (\"[^\"]+\")", text)]
    used = {word for found in (*sets, *compared) for word in re.findall(r'"(\w+)"', found)}
    assert len(used) > 10
    assert used <= known, used - known


def test_a_session_stands_for_its_token(console: Console) -> None:
    before = console.api.get("/console/session", base="").json()["data"]
    assert before["signIn"] is True and before["scheduler"]["version"] == "1.2.3"
    answer = console.sign_in("oper")
    key = key_of(answer)
    assert len(key) >= 32 and key not in (hash_of("oper"), "oper") and hash_of("oper") not in answer.text
    who = console.api.get("/console/session", base="", headers=session(key)).json()["data"]
    assert "key" not in who
    assert (who["name"], who["role"], who["namespaces"], who["session"]) == ("oper", "operator", ["shop"], True)
    assert console.read(key) == 200
    assert console.write(key, **console.page()).status_code == 200
    refused = console.sign_in("wrong")
    assert refused.status_code == 401 and "set-cookie" not in refused.headers
    for wrong in ({}, {"token": ""}, {"token": 1}, ["oper"]):
        bad = console.api.call("POST", "/console/session", base="", json=wrong, headers=console.page())
        assert bad.status_code == 422, wrong


def test_other_sites_change_nothing_with_a_session(console: Console) -> None:
    key = key_of(console.sign_in("oper"))
    for headers in (
        {},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
    ):
        answer = console.write(key, **headers)
        assert (answer.status_code, answer.json()["data"]["reason"]) == (403, "forbidden"), headers
    assert console.sign_in("oper", Origin="http://evil.example").status_code == 403
    out = {**session(key), "Origin": "http://evil.example"}
    assert console.api.call("DELETE", "/console/session", base="", headers=out).status_code == 403
    assert console.read(key) == 200
    assert console.gateway.commands == []


def test_a_cookie_gives_no_rights(console: Console) -> None:
    """Browsers send the cookies of a host to all its ports, so no program there may learn anything that is of use."""
    key = key_of(console.sign_in("oper"))
    for name in ("bcs_session", "bcs-session", "session", "Authorization"):
        assert console.api.get("/applications", headers={"Cookie": f"{name}={key}"}).status_code == 401, name


def test_a_session_ends(console: Console) -> None:
    key = key_of(console.sign_in("oper"))
    out = {**session(key), **console.page()}
    assert console.api.call("DELETE", "/console/session", base="", headers=out).status_code == 200
    assert console.read(key) == 401
    idle = key_of(console.sign_in("oper"))
    console.clock[0] += IDLE + 1
    assert console.read(idle) == 401
    used = key_of(console.sign_in("oper"))
    for _ in range(int(LONGEST / IDLE) * 2):
        console.clock[0] += IDLE / 2
        assert console.read(used) == 200
    console.clock[0] += IDLE / 2
    assert console.read(used) == 401
    answer = console.api.get("/console/session", base="", headers=session(used))
    assert answer.json()["data"]["signIn"] is True


def test_a_removed_token_ends_its_sessions(console: Console) -> None:
    key = key_of(console.sign_in("oper"))
    console.tokens.write_text(entry("all", "viewer", '"*"'))
    assert console.gate.tokens is not None
    console.gate.tokens.refresh()
    assert console.read(key) == 401


def test_sessions_are_bounded() -> None:
    sessions = BrowserSessions(most=2)
    first, second = sessions.begin("a", 0.0), sessions.begin("b", 0.0)
    assert sessions.token_of(first, 1.0) == "a"
    third = sessions.begin("c", 1.0)
    assert [sessions.token_of(key, 2.0) for key in (first, second, third)] == ["a", None, "c"]


def test_sign_ins_are_audited_without_the_token(console: Console, tmp_path: Path) -> None:
    console.sign_in("oper")
    console.sign_in("wrong-secret")
    lines = (tmp_path / "audit.jsonl").read_text()
    assert lines.count('"sign_in"') == 2 and "wrong-secret" not in lines and hash_of("oper") not in lines


def test_figures_are_for_those_who_see_everything(console: Console) -> None:
    assert console.api.get("/console/figures", base="").status_code == 401

    def figures(token: str) -> requests.Response:
        return console.api.get("/console/figures", base="", headers={"Authorization": f"Bearer {token}"})

    assert figures("oper").status_code == 403
    (now,) = figures("all").json()["data"]
    assert (now["agents"], now["away"], now["cpusTotal"], now["cpusAllocated"], now["wanted"]) == (1, 0, 8.0, 0.0, 0)
    headers = {"Authorization": "Bearer oper"}
    assert (
        console.api.call("POST", "/namespaces/shop/applications", json=document(), headers=headers).status_code == 202
    )
    console.gateway.report("RUNNING", "shop/web")
    (now,) = figures("all").json()["data"]
    assert (now["wanted"], now["running"], now["cpusAllocated"]) == (2, 2, 0.2)
    console.gateway.stand_by("http://127.0.0.1:1")
    assert figures("all").json()["data"] == []


def test_the_page_gets_the_halts_of_the_cluster(console: Console) -> None:
    assert (
        console.api.get("/console/session", base="", headers={"Authorization": "Bearer oper"}).json()["data"]["halts"]
        == []
    )
    console.gateway.core = on_an_empty_store().core
    (halt,) = console.api.get("/console/session", base="", headers={"Authorization": "Bearer oper"}).json()["data"][
        "halts"
    ]
    assert halt["code"] == "unknown_tasks" and "`bcs framework show`" in halt["words"]
    unknown = console.api.get("/console/session", base="", headers=HTML).json()["data"]
    assert unknown["signIn"] and "halts" not in unknown
    page = {name.partition("/")[2]: asset.content.decode() for name, asset in assets().files.items()}
    shown = re.search(r"const HALTS = \{(.*?)\};", page["pages/overview.js"])
    assert shown is not None
    assert set(re.findall(r"(\w+):", shown[1])) == set(get_args(get_type_hints(Halt)["code"]))


def test_a_standby_serves_the_console_and_names_the_leader(console: Console) -> None:
    console.gateway.stand_by("http://127.0.0.1:9")
    assert console.api.get("/", base="", headers=HTML).status_code == 200
    key = key_of(console.sign_in("oper"))
    shown: Any = console.api.get("/console/session", base="", headers=session(key)).json()["data"]
    assert (shown["scheduler"]["leads"], shown["scheduler"]["leader"]) == (False, "http://127.0.0.1:9")
    assert console.write(key, **console.page()).status_code == 307


def test_without_tokens_there_is_no_sign_in(gateway: CoreGateway) -> None:
    gate = RequestGate()
    with serving(gateway, gate=gate, pages=Site(gateway, ApiSettings(), gate, None)) as api:
        shown = api.get("/console/session", base="").json()["data"]
        assert (shown["signIn"], shown["role"], shown["namespaces"], shown["session"]) == (False, "admin", None, False)
        headers = {"Origin": api.url}
        answer = api.call("POST", "/console/session", base="", json={"token": "x"}, headers=headers)
        assert answer.status_code == 401
