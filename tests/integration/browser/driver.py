"""A headless Chromium, driven by chromedriver over its HTTP interface (W3C WebDriver)."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

from tests.waiting import wait_for

CHROMIUM, CHROMEDRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
TIMEOUT = 60.0
"""Seconds for one command of the driver."""
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""Key of the reference to an element, by the standard."""
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run", "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)  # fmt: skip


class StaleElement(Exception):
    """The page has replaced the element since it was found."""


class MovedElement(Exception):
    """The page has moved the element, or covered it, since it was found."""


MOVED = ("element click intercepted", "element not interactable")
"""Errors of WebDriver for this."""


class Browser:
    """One browser with one window. `folder`: for its profile and the output of the driver. `trace`: categories of the
    events that the browser records, separated by commas."""

    def __init__(self, folder: Path, trace: str = "") -> None:
        self._log = (folder / "chromedriver.log").open("w+")
        self._process = subprocess.Popen(
            [str(CHROMEDRIVER), "--port=0", "--allowed-ips=127.0.0.1"], stdout=self._log, stderr=subprocess.STDOUT
        )
        log = folder / "chromedriver.log"
        port = wait_for(lambda: _port(log.read_text()), what="the port of chromedriver")
        self._http = requests.Session()
        self._http.trust_env = False
        self._url = f"http://127.0.0.1:{port}/session"
        arguments = [*ARGUMENTS, f"--user-data-dir={folder / 'profile'}"]
        chrome: dict[str, Any] = {"binary": str(CHROMIUM), "args": arguments}
        logs = {"browser": "ALL"}
        if trace:
            chrome["perfLoggingPrefs"] = {"traceCategories": trace, "enableNetwork": False, "enablePage": False}
            logs["performance"] = "ALL"
        wanted = {"browserName": "chrome", "goog:chromeOptions": chrome, "goog:loggingPrefs": logs}
        made = self._call("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self._url += f"/{made['sessionId']}"

    def close(self) -> None:
        try:
            self._call("DELETE", "")
        finally:
            self._process.terminate()
            self._process.wait(TIMEOUT)
            self._http.close()
            self._log.close()

    def open(self, url: str) -> None:
        self._call("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """The result of the body of a function."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script: str, *arguments: Any) -> Any:
        """The same for a function whose last argument gets the result."""
        return self._call("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def text(self) -> str:
        return str(self.run("return document.body.innerText"))

    def shows(self, *words: str) -> None:
        """Waits until the page has all these texts."""
        wait_for(lambda: all(word in self.text() for word in words), what=lambda: f"{words} in {self.text()!r}")

    def find(self, selector: str, words: str = "") -> dict[str, str]:
        """The first visible element of a CSS selector that contains these words."""
        script = """
            return [...document.querySelectorAll(arguments[0])].find(
                (e) => e.checkVisibility() && e.textContent.includes(arguments[1])) ?? null"""
        element = wait_for(
            lambda: self.run(script, selector, words), what=lambda: f"{selector} {words} in {self.text()!r}"
        )
        assert isinstance(element, dict)
        return element

    def click(self, selector: str, words: str = "") -> None:
        """Clicks the element of `find`. A live page may replace the element before the click arrives."""
        self._until_done(lambda: self._call("POST", f"/element/{self.find(selector, words)[ELEMENT]}/click", {}))

    def click_kept(self, element: dict[str, str]) -> None:
        """Clicks an element that `find` has returned. Raises StaleElement if the page has replaced the element."""
        self._call("POST", f"/element/{element[ELEMENT]}/click", {})

    def press_down(self, element: dict[str, str]) -> None:
        """Presses the button of the mouse over an element, until `release`."""
        move = {"type": "pointerMove", "duration": 0, "origin": element, "x": 0, "y": 0}
        self._pointer(move, {"type": "pointerDown", "button": 0})

    def release(self) -> None:
        """Releases the button of the mouse."""
        self._pointer({"type": "pointerUp", "button": 0})

    def _pointer(self, *actions: dict[str, Any]) -> None:
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": list(actions)}
        self._call("POST", "/actions", {"actions": [mouse]})

    def write(self, selector: str, text: str) -> None:
        """Replaces the text of a field."""

        def replace() -> None:
            element = self.find(selector)[ELEMENT]
            self._call("POST", f"/element/{element}/clear", {})
            self._call("POST", f"/element/{element}/value", {"text": text})

        self._until_done(replace)

    def press(self, keys: str) -> None:
        """Types into the element with the focus."""
        active = self._call("GET", "/element/active")
        self._call("POST", f"/element/{active[ELEMENT]}/value", {"text": keys})

    def resize(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Sets the size of the page in CSS pixels, and the scheme of colours."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._devtools("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._devtools("Emulation.setEmulatedMedia", {"features": [scheme]})

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("GET", "/screenshot")))

    def complaints(self) -> list[str]:
        """Messages of the browser's console since the last call, warnings and errors."""
        entries = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def events(self) -> list[dict[str, Any]]:
        """The events that the browser has traced since the last call."""
        entries = self._call("POST", "/se/log", {"type": "performance"})
        messages = [json.loads(entry["message"])["message"] for entry in entries]
        return [message["params"] for message in messages if message["method"] == "Tracing.dataCollected"]

    def cookies(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._call("GET", "/cookie")
        return found

    def tab(self) -> str:
        """The tab that the browser shows."""
        return str(self._call("GET", "/window"))

    def new_tab(self) -> str:
        """Opens another tab, and shows it."""
        made = str(self._call("POST", "/window/new", {"type": "tab"})["handle"])
        self._call("POST", "/window", {"handle": made})
        return made

    def close_tab(self, shown: str) -> None:
        """Closes the tab that the browser shows, and shows another one."""
        self._call("DELETE", "/window")
        self._call("POST", "/window", {"handle": shown})

    def _until_done(self, action: Callable[[], object]) -> None:
        """Repeats the action until the page has neither replaced nor moved its element meanwhile."""
        failures: list[str] = []

        def done() -> bool:
            try:
                action()
            except (StaleElement, MovedElement) as error:
                failures.append(str(error))
                return False
            return True

        wait_for(done, what=lambda: f"an element that the page neither replaces nor moves: {failures[-1]}")

    def _devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._http.request(method, self._url + path, json=body, timeout=TIMEOUT)
        value = answer.json()["value"]
        if answer.status_code == 404 and value.get("error") == "stale element reference":
            raise StaleElement(path)
        if answer.status_code == 400 and value.get("error") in MOVED:
            raise MovedElement(f"{path}: {value['error']}: {str(value.get('message'))[:500]}")
        assert answer.status_code == 200, f"{path}: {value.get('error')}: {str(value.get('message'))[:500]}"
        return value


def _port(log: str) -> str:
    _, found, rest = log.partition("started successfully on port ")
    return rest.split(".", 1)[0].strip() if found and "." in rest else ""
