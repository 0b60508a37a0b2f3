"""A page that changes by itself keeps its elements: focus, selection, open details and clicks survive."""

from __future__ import annotations

import pytest

from tests.integration.browser.stage import Console, create, offer
from tests.waiting import wait_for

pytestmark = pytest.mark.rotating

RENEW = """
    const [rounds, done] = arguments;
    const page = document.querySelector('script[type=module]').src.replace('app.js', 'dom.js');
    const run = ({ h, renew }) => {
        const box = document.body.appendChild(h("div", {}));
        const clicked = [];
        const row = (key, round) => {
            const act = (event) => { event.preventDefault(); clicked.push(`${key} ${round}`); };
            return h("li", {}, h("a", { href: "#", "data-key": key, onclick: act }, `${key} of ${round}`));
        };
        let made = new Map();
        const found = rounds.map((keys, round) => {
            const line = h("p", { class: `round${round}` }, `round ${round}`);
            const more = h("details", {}, h("summary", {}, "more"));
            renew(box, line, more, h("ul", {}, keys.map((key) => row(key, round))));
            const links = [...box.querySelectorAll("a")];
            const kept = links.filter((a) => made.get(a.dataset.key) === a).map((a) => a.dataset.key);
            made = new Map(links.map((a) => [a.dataset.key, a]));
            const details = box.querySelector("details");
            if (round === 0) {
                details.open = true;
                links.at(-1).focus();
            }
            links.at(-1)?.click();
            const focus = document.activeElement.dataset.key ?? "";
            const texts = links.map((a) => a.textContent);
            return { texts, kept, focus, open: details.open, line: box.querySelector("p").className };
        });
        box.remove();
        return { found, clicked };
    };
    import(page).then(run).then(done, (error) => done(String(error)));
"""


def test_elements_are_known_by_their_keys(console: Console) -> None:
    console.sign_in("viewer")
    rounds = [["a", "b", "c"], ["n", "a", "b", "c"], ["c", "b"], ["b", "x", "c"], []]
    result = console.browser.run_async(RENEW, rounds)
    assert isinstance(result, dict), result
    found = result["found"]
    for number, (keys, one) in enumerate(zip(rounds, found, strict=True)):
        assert one["texts"] == [f"{key} of {number}" for key in keys]
        before = rounds[number - 1] if number else []
        assert one["kept"] == [key for key in keys if key in before]
        assert one["open"] and one["line"] == f"round{number}"
    assert [one["focus"] for one in found] == ["c", "c", "c", "c", ""]
    assert result["clicked"] == ["c 0", "c 1", "b 2", "c 3"], "listeners are those of the newest data"
    assert console.browser.complaints() == []
    console.sign_out()


def test_focus_selection_and_a_click_in_progress_survive_a_change(console: Console) -> None:
    browser = console.browser
    offer(console)
    create(console, "web")
    console.sign_in("viewer")
    browser.open(f"{console.api.url}/#/applications")
    browser.shows("0 of 1")
    link = browser.find("td a", "web")
    browser.run(
        """
        const [link] = arguments;
        link.focus();
        globalThis.kept = { link, row: link.closest("tr") };
        getSelection().selectAllChildren(link.closest("tr").cells[1]);""",
        link,
    )
    browser.press_down(browser.find("nav a", "Deployments"))
    browser.run("kept.link.focus(); getSelection().selectAllChildren(kept.row.cells[1]);")
    console.gateway.report("RUNNING", "shop/web")
    browser.shows("1 of 1")
    same = "return [kept.link === document.activeElement, kept.row.isConnected, getSelection().toString().trim()]"
    assert browser.run(same) == [True, True, "shop"]
    browser.release()
    browser.shows("There are no deployments here.")
    browser.click("nav a", "Applications")
    browser.shows("1 of 1")
    link = browser.find("td a", "web")
    create(console, "another")
    browser.shows("another")
    browser.click_kept(link)
    browser.shows("version", "Taskgroups")
    kept = browser.find("section td span", "web")
    console.gateway.report("FAILED", "shop/web")
    browser.shows("TaskGroupFailed")
    browser.click_kept(kept)
    assert browser.complaints() == []
    console.sign_out()


def test_pages_that_were_left_hold_no_connection(console: Console) -> None:
    """A browser opens at most six connections to a server; the pages before are kept for the way back."""
    console.sign_in("viewer")
    for number in range(9):
        console.browser.open("about:blank")
        wait_for(lambda: not console.gateway.follow.watchers, 20.0, what="the end of the streams of the page before")
        create(console, f"web-{number}")
        console.browser.open(f"{console.api.url}/#/applications")
        console.browser.shows("live", f"web-{number}")
    console.sign_out()


def test_a_hidden_page_ends_its_stream_and_resumes_when_it_is_shown(console: Console) -> None:
    browser = console.browser
    console.sign_in("viewer")
    browser.open(f"{console.api.url}/#/applications")
    browser.shows("live")
    script = """Object.defineProperty(document, "visibilityState", { value: arguments[0], configurable: true });
                document.dispatchEvent(new Event("visibilitychange"));"""
    browser.run(script, "hidden")
    browser.shows("connecting")
    create(console, "web")
    assert "web" not in browser.text()
    browser.run(script, "visible")
    browser.shows("live", "web")
    console.sign_out()
