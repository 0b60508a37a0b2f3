"""`make demo`: the main job from end to end on the embedded cluster, with every step checked.

Starts `bcs-scheduler dev` as a process of its own, then behaves like a user: `bcs` for what a user types, the
HTTP client for what is checked. Ends with 0 only if every step happened within its time and nothing was left running.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import requests
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from bcs_scheduler import processes
from bcs_scheduler.cli.client import DEFAULT_NAMESPACE, Client, Json
from bcs_scheduler.cli.errors import CliError
from bcs_scheduler.cli.views import ports_of

EXAMPLES = Path(__file__).resolve().parents[1] / "conf" / "examples"
START, LAUNCH, REPLACE, UPDATE, DELETE, STOP = 20.0, 20.0, 15.0, 30.0, 15.0, 15.0
"""Seconds each step may take."""
POLL = 0.05

T = TypeVar("T")


class DemoError(Exception):
    """A step did not happen; the message says which and what was seen instead."""


class Demo:
    """The steps, in order; `run` goes through them."""

    def __init__(self, console: Console, folder: Path) -> None:
        self._console = console
        self._log = folder / "scheduler.log"
        self._data = folder / "data"
        self._server: subprocess.Popen[str] | None = None
        self._client = Client()
        self._started = time.monotonic()

    def run(self) -> None:
        with self._step("starting the scheduler with three agents, all embedded"):
            self._start()
        self._bcs("apply", "-f", str(EXAMPLES / "web.json"))
        with self._step("five taskgroups Running"):
            self._until_running(5)
        with self._step("a page from each"):
            self._fetch_pages(5, "v1")
        self._bcs("get", "agents", "-o", "table")
        self._bcs("scale", "web", "8")
        with self._step("eight taskgroups Running"):
            self._until_running(8)
        self._kill_one()
        self._bcs("update", "-f", str(EXAMPLES / "web-v2.json"))
        with self._step("the new version everywhere, a few at a time"):
            self._until_updated(8, "v2")
        for kind in ("applications", "taskgroups", "transactions"):
            self._bcs("get", kind, "-o", "table")
        self._bcs("delete", "web")
        with self._step("application and taskgroups gone"):
            self._until(DELETE, lambda: not self._applications() or None, "the application is still there")
        with self._step("everything stopped"):
            self._stop()
        self._console.print(f"[bold green]done[/] in {time.monotonic() - self._started:.1f} s")

    def clean_up(self) -> None:
        """Leaves nothing running, whatever happened."""
        if self._server is not None and self._server.poll() is None:
            processes.end_tree(self._server.pid)
            self._server.wait()

    # --- steps ------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        command = [sys.executable, "-m", "bcs_scheduler.main", "dev", "--agents", "3"]
        command += ["--data", str(self._data), "--api", "127.0.0.1:0"]
        with self._log.open("w") as log:
            self._server = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        self._client = Client(self._url(self._server))

        def ready() -> bool | None:
            return requests.get(f"{self._client.server}/readyz", timeout=5).ok or None

        self._until(START, ready, "the scheduler is not ready")

    def _url(self, server: subprocess.Popen[str]) -> str:
        """From the line ``api http://...`` that the scheduler prints when it listens."""
        assert server.stdout is not None
        deadline = time.monotonic() + START
        while time.monotonic() < deadline:
            if select.select([server.stdout], [], [], POLL)[0]:
                line = server.stdout.readline()
                if found := re.match(r"api (http://\S+)", line):
                    return found[1]
            if server.poll() is not None:
                break
        raise DemoError(f"bcs-scheduler dev did not start:\n{self._log.read_text().strip() or 'it printed nothing'}")

    def _until_running(self, wanted: int) -> None:
        def look() -> tuple[int, bool]:
            found = self._client.application(DEFAULT_NAMESPACE, "web")
            running = int(found["RunningInstances"])
            return running, running == wanted == found["Instances"] and found["Status"] == "Running"

        self._with_bar(LAUNCH, wanted, "Running", look)

    def _fetch_pages(self, wanted: int, version: str) -> None:
        groups = self._taskgroups()
        pages = [self._page(group) for group in groups]
        for group, page in zip(groups, pages, strict=True):
            expected = f"web {version} taskgroup {group['InstanceID']} "
            if page is None or not page.startswith(expected):
                raise DemoError(f"taskgroup {group['ID']} answers {page!r}, expected {expected!r}")
        if len(pages) != wanted:
            raise DemoError(f"{len(pages)} pages, expected {wanted}")
        self._console.print(f"  {pages[0]}", style="dim", markup=False)

    def _kill_one(self) -> None:
        """Ends one web server behind the scheduler's back, as the kernel would when memory runs out."""
        assert self._server is not None
        victim = self._taskgroups()[3]
        port = ports_of(victim)[0][1]
        with self._step("killing a process from outside"):
            pid = processes.listener(port)
            if pid is None or pid not in processes.descendants(self._server.pid):
                raise DemoError(f"no process of this demo listens on port {port}")
            os.kill(pid, signal.SIGKILL)
            self._console.print(f"  process {pid} of {victim['ID']}", style="dim", markup=False)

        def replaced() -> Json | None:
            for group in self._taskgroups():
                if group["InstanceID"] == victim["InstanceID"] and group["ID"] != victim["ID"]:
                    return group if group["Status"] == "Running" and self._page(group) else None
            return None

        with self._step("its taskgroup replaced"):
            new = self._until(REPLACE, replaced, f"{victim['ID']} was not replaced")
            self._console.print(f"  by {new['ID']} on {new['HostName']}", style="dim", markup=False)
            self._until_running(8)

    def _until_updated(self, wanted: int, version: str) -> None:
        def look() -> tuple[int, bool]:
            pages = [self._page(group) for group in self._taskgroups()]
            new = sum(1 for page in pages if page is not None and page.startswith(f"web {version} "))
            return new, new == wanted == len(pages)

        self._with_bar(UPDATE, wanted, version, look)
        self._until_running(wanted)
        self._fetch_pages(wanted, version)

    def _stop(self) -> None:
        assert self._server is not None
        family = [self._server.pid, *processes.descendants(self._server.pid)]
        self._server.send_signal(signal.SIGTERM)
        try:
            code = self._server.wait(STOP)
        except subprocess.TimeoutExpired:
            raise DemoError(f"bcs-scheduler dev did not stop within {STOP:g} s") from None
        if code != 0:
            raise DemoError(f"bcs-scheduler dev ended with {code}:\n{self._log.read_text().strip()}")
        self._until(STOP, lambda: not any(map(processes.alive, family)) or None, "processes are left")

    # --- helpers ----------------------------------------------------------------------------------------------

    @contextmanager
    def _step(self, title: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        except (DemoError, CliError, requests.RequestException) as error:
            raise DemoError(f"{title}: {error}") from error
        self._console.print(f"[green]✓[/] {title} [dim]{time.monotonic() - begun:.1f} s[/]")

    def _until(self, seconds: float, look: Callable[[], T | None], failure: str) -> T:
        """The first thing `look` gives; errors of the server on the way count as nothing seen."""
        deadline = time.monotonic() + seconds
        seen = ""
        while time.monotonic() < deadline:
            try:
                found = look()
                if found is not None:
                    return found
            except (CliError, requests.RequestException) as error:
                seen = f" ({error})"
            if self._server is not None and self._server.poll() is not None and failure != "processes are left":
                raise DemoError(f"the scheduler ended with {self._server.returncode}:\n{self._log.read_text().strip()}")
            time.sleep(POLL)
        raise DemoError(f"{failure} after {seconds:g} s{seen}")

    def _with_bar(self, seconds: float, wanted: int, word: str, look: Callable[[], tuple[int, bool]]) -> None:
        columns = (TextColumn("  {task.description}"), BarColumn(30), MofNCompleteColumn())
        with Progress(*columns, console=self._console, transient=True) as progress:
            bar = progress.add_task(word, total=wanted)

            def watched() -> bool | None:
                done, ended = look()
                progress.update(bar, completed=done)
                return ended or None

            self._until(seconds, watched, f"not all {wanted} taskgroups are {word}")

    def _applications(self) -> list[Json]:
        return self._client.applications(DEFAULT_NAMESPACE)

    def _taskgroups(self) -> list[Json]:
        groups = self._client.taskgroups(DEFAULT_NAMESPACE, "web")
        return sorted(groups, key=lambda group: int(group["InstanceID"]))

    def _page(self, group: Json) -> str | None:
        """What the taskgroup's web server answers; None if it does not (yet, or any more)."""
        if not ports_of(group):
            return None
        try:
            return requests.get(f"http://127.0.0.1:{ports_of(group)[0][1]}/", timeout=2).text.strip()
        except requests.RequestException:
            return None

    def _bcs(self, *arguments: str) -> None:
        """Runs the user's command and shows it with what it prints."""
        shown = " ".join(os.path.relpath(a) if a.startswith("/") else a for a in arguments)
        self._console.print(f"\n[bold]$ bcs {shown}[/]")
        made = subprocess.run(
            [sys.executable, "-m", "bcs_scheduler.cli.main", *arguments],
            env={**os.environ, "BCS_SERVER": self._client.server},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        self._console.out(made.stdout.rstrip("\n"), highlight=False)
        if made.returncode != 0:
            raise DemoError(f"bcs {shown} ended with {made.returncode}: {made.stderr.strip()}")


def main() -> int:
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="bcs-demo-") as folder:
        demo = Demo(console, Path(folder))
        try:
            demo.run()
        except (DemoError, CliError, OSError, subprocess.TimeoutExpired) as error:
            console.print("[bold red]the demo failed:[/] ", end="")
            console.print(str(error), markup=False)
            return 1
        except KeyboardInterrupt:
            return 130
        finally:
            demo.clean_up()
    return 0


if __name__ == "__main__":
    sys.exit(main())
