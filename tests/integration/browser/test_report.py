"""The report of `bcs simulate --report` in a real browser: one file, accessible, without scripts and addresses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.browser.driver import Browser
from tests.integration.browser.simulation import write_report
from tests.integration.browser.stage import PICTURES, SIZES, violations

pytestmark = pytest.mark.rotating


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("report") / "report.html"
    write_report(made)
    return made


def test_the_report_is_accessible_at_every_size(browser: Browser, file: Path) -> None:
    browser.open(file.as_uri())
    browser.shows("Whole cluster", "Differences", "Over virtual time", "Queue a")
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for width, dark in SIZES:
        browser.resize(width, dark=dark)
        assert violations(browser) == [], (width, dark)
        wide = browser.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, width
        browser.screenshot(PICTURES / f"report-{width}{'-dark' if dark else ''}.png")
    browser.resize(1280)
    assert browser.complaints() == []


def test_every_chart_is_an_image_with_a_title_a_description_and_lines_inside_the_chart(
    browser: Browser, file: Path
) -> None:
    browser.open(file.as_uri())
    found = browser.run(
        """return [...document.querySelectorAll('svg.chart')].map((svg) => {
            const box = svg.getBoundingClientRect();
            const inside = [...svg.querySelectorAll('.run, .bar')].every((one) => {
                const part = one.getBoundingClientRect();
                return part.left >= box.left - 1 && part.right <= box.right + 1 && part.bottom <= box.bottom + 1;
            });
            const [title, told] = ['title', 'desc'].map((name) => svg.querySelector(name).textContent);
            const lines = svg.querySelectorAll('.run, .bar').length;
            return [svg.getAttribute('role'), title, told.length > 20, inside, lines];
        })"""
    )
    assert len(found) == 6 + 2 + 2 * 4
    assert {(role, told, inside) for role, _, told, inside, _ in found} == {("img", True, True)}
    assert len({title for _, title, *_ in found}) == len(found)
    assert min(lines for *_, lines in found) >= 2
    colours = browser.run("return [...document.querySelectorAll('.run')].map((one) => getComputedStyle(one).stroke)")
    assert len(set(colours)) > 1, "the style sheet is applied although the policy allows nothing else"
    assert browser.complaints() == []


def test_the_report_has_no_script_and_no_address(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert not re.search(r"https?://|<script|<link|<img|<iframe|\bsrc=|\bhref=|url\(|@import|\bstyle=|\bon\w+=", text)
    assert "default-src &#x27;none&#x27;" in text or "default-src 'none'" in text
